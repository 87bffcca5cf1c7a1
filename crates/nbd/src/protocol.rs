//! The numbers and the frames of the NBD protocol, as its document says (github.com/NetworkBlockDevice/nbd,
//! doc/proto.md): integers are big-endian, nothing is aligned. Pure: no I/O but through `Read` and `Write`.

use std::io::{self, Read};

/// What a server says first, and before each option of a client.
pub const MAGIC: u64 = u64::from_be_bytes(*b"NBDMAGIC");
/// What follows it in the fixed newstyle, and what begins each option.
pub const OPTION_MAGIC: u64 = u64::from_be_bytes(*b"IHAVEOPT");
/// What begins an answer to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// What begins a request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// What begins a simple reply.
pub const REPLY_MAGIC: u32 = 0x6744_6698;

/// Flags of the handshake, of both sides: the newstyle in which options can be refused, and no 124 zeros.
pub mod handshake {
    /// Options are answered.
    pub const FIXED_NEWSTYLE: u16 = 1;
    /// [`super::option::EXPORT_NAME`] is answered without 124 zeros.
    pub const NO_ZEROES: u16 = 2;
}

/// What a client asks before a device is chosen.
pub mod option {
    /// Chooses a device, the old way: it cannot be refused but by hanging up.
    pub const EXPORT_NAME: u32 = 1;
    /// Goes away.
    pub const ABORT: u32 = 2;
    /// Which devices there are.
    pub const LIST: u32 = 3;
    /// What is known of a device.
    pub const INFO: u32 = 6;
    /// Chooses a device.
    pub const GO: u32 = 7;
}

/// How an option is answered.
pub mod option_reply {
    /// Done.
    pub const ACK: u32 = 1;
    /// A device that there is.
    pub const SERVER: u32 = 2;
    /// Something that is known of a device.
    pub const INFO: u32 = 3;
    /// The option is not known here.
    pub const ERR_UNSUPPORTED: u32 = 1 << 31 | 1;
    /// The option is not as it should be.
    pub const ERR_INVALID: u32 = 1 << 31 | 3;
    /// There is no such device.
    pub const ERR_UNKNOWN: u32 = 1 << 31 | 6;
    /// The option is longer than is taken.
    pub const ERR_TOO_BIG: u32 = 1 << 31 | 9;
}

/// What is known of a device.
pub mod info {
    /// Its size and its flags.
    pub const EXPORT: u16 = 0;
    /// Its name.
    pub const NAME: u16 = 1;
    /// The smallest, the best and the largest request.
    pub const BLOCK_SIZE: u16 = 3;
}

/// What a device can do.
pub mod transmission {
    /// There are flags.
    pub const HAS_FLAGS: u16 = 1;
    /// [`super::command::FLUSH`] is known.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// [`super::command_flag::FUA`] is known.
    pub const SEND_FUA: u16 = 1 << 3;
    /// [`super::command::TRIM`] is known.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// [`super::command::WRITE_ZEROES`] is known.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// Several connections see one device: what one of them was acknowledged the others read, and a flush on one covers
    /// the others.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
}

/// What is asked of a device.
pub mod command {
    /// Bytes.
    pub const READ: u16 = 0;
    /// Writes bytes.
    pub const WRITE: u16 = 1;
    /// Goes away when all is answered.
    pub const DISCONNECT: u16 = 2;
    /// Makes durable what was acknowledged.
    pub const FLUSH: u16 = 3;
    /// The bytes are not needed any more.
    pub const TRIM: u16 = 4;
    /// Zeros from now on.
    pub const WRITE_ZEROES: u16 = 6;
}

/// How something is asked.
pub mod command_flag {
    /// Durable when it is answered.
    pub const FUA: u16 = 1;
    /// Zeros take up their space.
    pub const NO_HOLE: u16 = 2;
}

/// Why something was refused: numbers of Linux, of which the protocol knows these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Errno {
    /// EIO: the device failed, or what it holds is damaged.
    Io = 5,
    /// EINVAL: the request is wrong.
    Invalid = 22,
    /// ENOSPC: there is no space, or none there.
    NoSpace = 28,
    /// ESHUTDOWN: the server is going away.
    Shutdown = 108,
}

/// Bytes of a request without its payload.
pub const REQUEST_LEN: usize = 28;
/// Bytes of a simple reply without its payload.
pub const REPLY_LEN: usize = 16;

/// A request, without its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// See [`command_flag`].
    pub flags: u16,
    /// See [`command`].
    pub command: u16,
    /// By which the client knows the answer.
    pub cookie: u64,
    /// The first byte.
    pub offset: u64,
    /// How many.
    pub length: u32,
}

impl Request {
    /// Reads one; `None` if it does not begin as a request does.
    pub fn decode(bytes: &[u8; REQUEST_LEN]) -> Option<Request> {
        let mut bytes = &bytes[..];
        if take::<4>(&mut bytes) != REQUEST_MAGIC.to_be_bytes() {
            return None;
        }
        Some(Request {
            flags: u16::from_be_bytes(take(&mut bytes)),
            command: u16::from_be_bytes(take(&mut bytes)),
            cookie: u64::from_be_bytes(take(&mut bytes)),
            offset: u64::from_be_bytes(take(&mut bytes)),
            length: u32::from_be_bytes(take(&mut bytes)),
        })
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    let (first, rest) = bytes.split_first_chunk().expect("a request has all of its fields");
    *bytes = rest;
    *first
}

/// The head of a simple reply.
pub fn reply(cookie: u64, error: Option<Errno>) -> [u8; REPLY_LEN] {
    let mut bytes = [0; REPLY_LEN];
    bytes[..4].copy_from_slice(&REPLY_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&error.map_or(0, |error| error as u32).to_be_bytes());
    bytes[8..].copy_from_slice(&cookie.to_be_bytes());
    bytes
}

/// Reads a fixed number of bytes; `None` at the end of the stream, if it ends before the first.
pub fn read_head<const N: usize>(from: &mut impl Read) -> io::Result<Option<[u8; N]>> {
    let mut bytes = [0; N];
    let mut got = 0;
    while got < N {
        match from.read(&mut bytes[got..]) {
            Ok(0) if got == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => got += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Some(bytes))
}

/// Reads bytes that nobody wants.
pub fn skip(from: &mut impl Read, length: u64) -> io::Result<()> {
    let skipped = io::copy(&mut from.take(length), &mut io::sink())?;
    if skipped < length { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

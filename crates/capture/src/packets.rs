//! What pcap and pcapng have in common: packets one after the other, absences between them, and how much may be
//! believed of what a file says about itself.

use crate::input::{Have, Input};
use crate::{pcap, pcapng};
use forebay_model::packet::LinkType;
use forebay_model::{Bytes, Error, Gap, Result, Timestamp};
use std::fmt;
use std::io::Read;

/// The largest packet that is read or written: what every reader of packet captures accepts.
pub const LARGEST_PACKET: Bytes = Bytes::kib(256);

/// One packet of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// When it was captured, if the file says so.
    pub time: Option<Timestamp>,
    /// The frame, from the first byte of the link layer, as far as it was captured.
    pub data: &'a [u8],
    /// How long it was on the wire.
    pub original: u32,
}

impl Packet<'_> {
    /// How many bytes of the frame were not captured. (A file that says it was shorter than what is there is wrong.)
    pub fn cut(&self) -> u32 {
        self.original.saturating_sub(self.data.len() as u32)
    }
}

/// What comes next in a capture.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A packet.
    Packet(Packet<'a>),
    /// The file says that packets are absent here.
    Gap(Gap),
    /// So many bytes were passed over; ask again.
    Passed(usize),
    /// The input has nothing just now; ask again.
    Idle,
    /// The capture is complete.
    End,
}

/// What was read so far, for messages.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl Tally {
    pub(crate) fn count(&mut self, length: usize) {
        self.packets += 1;
        self.bytes += length as u64;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.packets {
            0 => f.write_str("no packet was read before it"),
            1 => write!(f, "1 packet ({}) was read before it", Bytes(self.bytes)),
            n => write!(f, "{n} packets ({}) were read before it", Bytes(self.bytes)),
        }
    }
}

impl Step<'_> {
    /// Something was read, but not enough: worth a look at the clock.
    pub(crate) const DRIP: Self = Step::Passed(BUFFER);
}

/// The size of buffers for files and pipes.
pub(crate) const BUFFER: usize = 1 << 20;

/// A pcap or pcapng capture, told apart by its first bytes.
pub struct PacketReader {
    state: State,
    limit: Bytes,
}

enum State {
    Unknown(Input),
    Pcap(pcap::Reader),
    Pcapng(pcapng::Reader),
    /// Between two of the others, and for ever after a failure.
    Broken,
}

impl PacketReader {
    /// Reads a capture from `reader`, refusing packets beyond `limit` (or [`LARGEST_PACKET`], if that is less).
    ///
    /// A reader of a pipe should return `WouldBlock` or `TimedOut` when nothing came for a while (at most 50 ms).
    pub fn new(reader: Box<dyn Read + Send>, limit: Bytes) -> PacketReader {
        let limit = Bytes(limit.0.min(LARGEST_PACKET.0));
        PacketReader { state: State::Unknown(Input::new(reader, BUFFER)), limit }
    }

    /// The link type of the packets, known once the first step other than [`Step::Idle`] was made.
    pub fn link_type(&self) -> Option<LinkType> {
        match &self.state {
            State::Unknown(_) | State::Broken => None,
            State::Pcap(reader) => reader.link_type(),
            State::Pcapng(reader) => reader.link_type(),
        }
    }

    /// The name of the format, once it is known.
    pub fn format(&self) -> Option<&'static str> {
        match &self.state {
            State::Unknown(_) | State::Broken => None,
            State::Pcap(_) => Some("pcap"),
            State::Pcapng(_) => Some("pcapng"),
        }
    }

    /// Reads until the link type is known. False: nothing came just now; ask again.
    pub fn prepare(&mut self) -> Result<bool> {
        if let State::Unknown(input) = &mut self.state {
            match input.want(4)? {
                Have::All => {}
                Have::Some | Have::Idle => return Ok(false),
                Have::Ended => {
                    let length = input.available().len();
                    return Err(Error::damaged(format!(
                        "this is no packet capture: it ends after {length} bytes, and a pcap header alone takes 24"
                    )));
                }
            }
            self.recognise()?;
        }
        match &mut self.state {
            State::Pcap(reader) => reader.prepare(),
            State::Pcapng(reader) => reader.prepare(),
            State::Unknown(_) | State::Broken => Err(broken()),
        }
    }

    /// The next packet or gap. The packet's bytes live until the next call.
    #[inline]
    pub fn step(&mut self) -> Result<Step<'_>> {
        if matches!(self.state, State::Unknown(_)) && !self.prepare()? {
            return Ok(Step::Idle);
        }
        match &mut self.state {
            State::Pcap(reader) => reader.step(),
            State::Pcapng(reader) => reader.step(),
            State::Unknown(_) | State::Broken => Err(broken()),
        }
    }

    /// Reads no more: the steps that follow give what was read already, and then an end or an error.
    pub fn close(&mut self) {
        match &mut self.state {
            State::Unknown(input) => input.close(),
            State::Pcap(reader) => reader.close(),
            State::Pcapng(reader) => reader.close(),
            State::Broken => {}
        }
    }

    fn recognise(&mut self) -> Result<()> {
        let State::Unknown(input) = std::mem::replace(&mut self.state, State::Broken) else { return Ok(()) };
        let magic: [u8; 4] = input.available()[..4].try_into().expect("four bytes were made available");
        self.state = match magic {
            pcapng::MAGIC => State::Pcapng(pcapng::Reader::over(input, self.limit)),
            magic if pcap::is_magic(magic) => State::Pcap(pcap::Reader::over(input, self.limit)),
            [0x1f, 0x8b, ..] => return Err(compressed("gzip", "zcat")),
            [0x28, 0xb5, 0x2f, 0xfd] => return Err(compressed("zstd", "zstdcat")),
            [0xfd, b'7', b'z', b'X'] => return Err(compressed("xz", "xzcat")),
            [0x34, 0xcd, 0xb2, 0xa1] | [0xa1, 0xb2, 0xcd, 0x34] => {
                return Err(Error::usage(
                    "this is the modified pcap format of old Linux kernels, which is not read; rewrite it with \
                     'editcap -F pcap OLD NEW'",
                ));
            }
            _ => {
                return Err(Error::damaged(format!(
                    "this is no packet capture: it begins with {}, and pcap begins with d4c3b2a1 or 4d3cb2a1 (or \
                     either reversed), pcapng with 0a0d0d0a",
                    hex(magic)
                )));
            }
        };
        Ok(())
    }
}

fn broken() -> Error {
    Error::damaged("this capture could not be read before; open it again")
}

fn compressed(format: &str, program: &str) -> Error {
    Error::usage(format!("this is a {format} file; unpack it on the way: {program} FILE | ..."))
}

fn hex(bytes: [u8; 4]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests;

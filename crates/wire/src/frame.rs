//! The header of a frame: which bytes mean what, and which values are refused.
//!
//! A frame is a header of [`HEADER`] bytes, a body (postcard, at most [`MAX_BODY`] bytes) and a payload (raw bytes,
//! at most [`MAX_PAYLOAD`]). All numbers are little-endian. The magic, the version, the length of the header and the
//! place of its checksum stay as they are in every later version, so that a version can be told before anything else.

use crate::checksum::crc32c;
use forebay_model::{Bytes, Error, Result};
use std::fmt;
use std::mem::offset_of;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a header.
pub const HEADER: usize = 64;
/// The first bytes of every frame.
pub const MAGIC: [u8; 4] = *b"FBAY";
/// The version of the header's layout.
pub const FRAME_VERSION: u16 = 1;
/// The largest body.
pub const MAX_BODY: u32 = 1 << 20;
/// The largest payload.
pub const MAX_PAYLOAD: u32 = 64 << 20;
/// The largest body of a connection's first frame, when nobody knows yet who is there.
pub const MAX_HELLO: u32 = 4 << 10;

/// The largest body of a client that has not shown yet that anything is allowed to it: what it shows and asks first fits.
pub const MAX_STRANGER: u32 = 16 << 10;

/// As a credit: the payload of the answer may be sent whole.
pub const NO_LIMIT: u32 = u32::MAX;

/// What a frame asks for. The numbers 1 to 15 are about the connection itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Command(pub u16);

impl Command {
    /// The first frame of either side; see [`crate::handshake`].
    pub const HELLO: Command = Command(1);
    /// More of an answer's payload may be sent: so many bytes as its credit says. It has neither body nor answer.
    pub const GRANT: Command = Command(2);
    /// Whether the other side is there: answered by nothing but the end. What a connection holds, it still holds then.
    pub const PING: Command = Command(3);
    /// A node lets so many more bytes of its client's frames come as the credit says. It has neither body nor request.
    pub const WINDOW: Command = Command(4);
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "command {}", self.0)
    }
}

/// Which request a frame belongs to: chosen by the client, repeated in every frame of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {}", self.0)
    }
}

/// How a frame is to be taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flags(u16);

impl Flags {
    /// A whole request.
    pub const NONE: Flags = Flags(0);
    /// Goes from the server to the client.
    pub const RESPONSE: Flags = Flags(1);
    /// The body is a [`forebay_model::Error`]. Only in responses; the request is over.
    pub const ERROR: Flags = Flags(2);
    /// The last frame of the answer.
    pub const END: Flags = Flags(4);
    /// This message goes on in the next frame of the same request.
    pub const MORE: Flags = Flags(8);
    /// The body begins with a capability and a proof, see [`crate::capability`]. Only in requests.
    pub const SHOWN: Flags = Flags(16);

    const NAMED: [(Flags, &'static str, &'static str); 5] = [
        (Flags::RESPONSE, "response", "from the server to the client"),
        (Flags::ERROR, "error", "the body is an error; only in responses; the request is over"),
        (Flags::END, "end", "the last frame of the answer"),
        (Flags::MORE, "more", "the message goes on in the next frame of the same request; never with end"),
        (Flags::SHOWN, "shown", "the body begins with a capability and a proof; only in requests"),
    ];
    const KNOWN: u16 = 1 | 2 | 4 | 8 | 16;

    /// Both.
    pub const fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Whether all of `other` are set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Why these flags make no sense together, if they do not.
    fn contradiction(self) -> Option<&'static str> {
        if self.has(Flags::ERROR) && !self.has(Flags::RESPONSE) {
            Some("says error and is no response")
        } else if self.has(Flags::END) && self.has(Flags::MORE) {
            Some("says both end and more")
        } else if self.has(Flags::SHOWN) && self.has(Flags::RESPONSE) {
            Some("shows a capability and is a response")
        } else {
            None
        }
    }
}

/// What a reader accepts. Anything larger is refused before memory is taken for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The largest body, in bytes.
    pub body: u32,
    /// The largest payload, in bytes.
    pub payload: u32,
}

impl Limits {
    /// Before the handshake is done.
    pub const HELLO: Limits = Limits { body: MAX_HELLO, payload: 0 };
    /// After it, until a node was shown a capability that counts. Payloads are as large as later, but memory is not taken for one
    /// before what is shown with it was checked.
    pub const STRANGER: Limits = Limits { body: MAX_STRANGER, payload: MAX_PAYLOAD };
    /// After that; and at once over a local socket, where nothing is shown.
    pub const SESSION: Limits = Limits { body: MAX_BODY, payload: MAX_PAYLOAD };
}

/// A header that has been checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The request it belongs to.
    pub request: RequestId,
    /// What is asked, or what is answered.
    pub command: Command,
    /// How to take it.
    pub flags: Flags,
    /// In a request: how many bytes of the answer's payload may be sent at once. [`NO_LIMIT`]: all of it.
    pub credit: u32,
    /// Bytes of the body.
    pub body: u32,
    /// Bytes of the payload.
    pub payload: u32,
    /// CRC32C of the body.
    pub body_checksum: u32,
    /// CRC32C of the payload.
    pub payload_checksum: u32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    magic: [u8; 4],
    version: U16,
    command: U16,
    request: U64,
    flags: U16,
    reserved: [u8; 2],
    body: U32,
    payload: U32,
    body_checksum: U32,
    payload_checksum: U32,
    credit: U32,
    reserved_too: [u8; 20],
    checksum: U32,
}

const _: () = assert!(size_of::<Raw>() == HEADER);

impl Head {
    /// The bytes of this header, checksum included.
    pub fn encode(&self) -> [u8; HEADER] {
        let mut raw = Raw {
            magic: MAGIC,
            version: U16::new(FRAME_VERSION),
            command: U16::new(self.command.0),
            request: U64::new(self.request.0),
            flags: U16::new(self.flags.0),
            reserved: [0; 2],
            body: U32::new(self.body),
            payload: U32::new(self.payload),
            body_checksum: U32::new(self.body_checksum),
            payload_checksum: U32::new(self.payload_checksum),
            credit: U32::new(self.credit),
            reserved_too: [0; 20],
            checksum: U32::new(0),
        };
        raw.checksum = U32::new(crc32c(&raw.as_bytes()[..offset_of!(Raw, checksum)]));
        zerocopy::transmute!(raw)
    }

    /// Whether these bytes were a header, and were changed on their way.
    pub(crate) fn is_changed(bytes: &[u8; HEADER]) -> bool {
        let raw: Raw = zerocopy::transmute!(*bytes);
        raw.magic == MAGIC && raw.checksum.get() != crc32c(&bytes[..offset_of!(Raw, checksum)])
    }

    /// Reads a header and refuses whatever does not fit `limits`.
    ///
    /// The order matters: first whether this is a frame at all, then whether it is whole, then whether this version
    /// knows it, and only then what it says.
    pub fn decode(bytes: &[u8; HEADER], limits: Limits) -> Result<Head> {
        let raw: Raw = zerocopy::transmute!(*bytes);
        if raw.magic != MAGIC {
            return Err(Error::damaged(format!(
                "a frame begins with {:02x?} instead of {MAGIC:02x?}: the other side does not speak Forebay's protocol",
                raw.magic
            )));
        }
        let (stored, computed) = (raw.checksum.get(), crc32c(&bytes[..offset_of!(Raw, checksum)]));
        if stored != computed {
            return Err(Error::damaged(format!(
                "a frame header has checksum {stored:08x} and its bytes give {computed:08x}: it was changed on its way; connect again"
            )));
        }
        let version = raw.version.get();
        if version != FRAME_VERSION {
            return Err(Error::version(format!(
                "a frame has version {version} and this Forebay knows version {FRAME_VERSION}: use the same release on both sides"
            )));
        }
        let flags = raw.flags.get();
        if flags & !Flags::KNOWN != 0 || raw.reserved != [0; 2] || raw.reserved_too != [0; 20] {
            return Err(Error::version(format!(
                "a frame uses flags {flags:#06x} or reserved bytes that this Forebay does not know: use the same release on both sides"
            )));
        }
        let head = Head {
            request: RequestId(raw.request.get()),
            command: Command(raw.command.get()),
            flags: Flags(flags),
            body: raw.body.get(),
            payload: raw.payload.get(),
            body_checksum: raw.body_checksum.get(),
            payload_checksum: raw.payload_checksum.get(),
            credit: raw.credit.get(),
        };
        for (what, length, most) in [("body", head.body, limits.body), ("payload", head.payload, limits.payload)] {
            if length > most {
                return Err(Error::damaged(format!(
                    "a frame announces a {what} of {length} bytes and at most {most} are accepted here: send it in pieces"
                )));
            }
        }
        if let Some(reason) = head.flags.contradiction() {
            return Err(Error::damaged(format!("a frame of {} {reason}: its sender is broken", head.request)));
        }
        Ok(head)
    }
}

/// The byte table of a header, the flags and the bounds, as Markdown: what `docs/protocol/frames.md` shows.
pub fn byte_table() -> String {
    let fields: [(usize, usize, &str, String); 13] = [
        (offset_of!(Raw, magic), 4, "magic", format!("`{}`", MAGIC.escape_ascii())),
        (offset_of!(Raw, version), 2, "version", format!("{FRAME_VERSION}: the version of this table")),
        (offset_of!(Raw, command), 2, "command", "what is asked; an answer repeats it".into()),
        (offset_of!(Raw, request), 8, "request", "chosen by the client; an answer repeats it".into()),
        (offset_of!(Raw, flags), 2, "flags", "see below".into()),
        (offset_of!(Raw, reserved), 2, "reserved", "0".into()),
        (offset_of!(Raw, body), 4, "body length", format!("bytes, at most {MAX_BODY}")),
        (offset_of!(Raw, payload), 4, "payload length", format!("bytes, at most {MAX_PAYLOAD}")),
        (offset_of!(Raw, body_checksum), 4, "body checksum", "CRC32C of the body; 0 without one".into()),
        (offset_of!(Raw, payload_checksum), 4, "payload checksum", "CRC32C of the payload; 0 without one".into()),
        (
            offset_of!(Raw, credit),
            4,
            "credit",
            "of a request: bytes of the answer's payload that may be sent at once".into(),
        ),
        (offset_of!(Raw, reserved_too), 20, "reserved", "0".into()),
        (offset_of!(Raw, checksum), 4, "header checksum", "CRC32C of the bytes before it".into()),
    ];
    let mut table = String::from("| offset | bytes | field | value |\n| ---: | ---: | --- | --- |\n");
    for (offset, size, name, value) in &fields {
        table.push_str(&format!("| {offset} | {size} | {name} | {value} |\n"));
    }
    table.push_str(&format!("| {HEADER} | body length | body | postcard |\n"));
    table.push_str(&format!("| {HEADER} + body length | payload length | payload | raw |\n"));
    table.push_str("\n| flag | name | meaning |\n| ---: | --- | --- |\n");
    for (flag, name, meaning) in Flags::NAMED {
        table.push_str(&format!("| {} | {name} | {meaning} |\n", flag.0));
    }
    table.push_str("\n| bound | body | payload |\n| --- | ---: | ---: |\n");
    let bounds = [
        ("before the handshake", Limits::HELLO),
        ("before a capability that counts", Limits::STRANGER),
        ("after it", Limits::SESSION),
    ];
    for (when, limits) in bounds {
        let (body, payload) = (Bytes(limits.body.into()), Bytes(limits.payload.into()));
        table.push_str(&format!("| {when} | {body} | {payload} |\n"));
    }
    table
}

#[cfg(test)]
mod tests;

//! What processes of Forebay say to one another: frames on an ordered byte stream, and what they carry.
//!
//! - [`frame`]: the 64 bytes before everything, their bounds and their byte table.
//! - [`reader`] and [`writer`]: frames from and to a blocking stream, payloads without a copy.
//! - [`source`] and [`sink`]: the same of a stream that many tasks share; [`link`]: who asks over one, [`credit`]: how much
//!   may come at once, [`arrived`]: the memory that it comes into.
//! - [`lock`]: clients that have to take turns.
//! - [`handshake`]: the first two frames of a connection.
//! - [`capability`]: who may do what to an object, and the proof of it that goes with each command.
//! - [`control`]: what is asked of the manager.
//! - [`command`]: what is asked after that, and what is answered; [`object`] and [`heap`]: the same of objects
//!   and of records of heaps; [`ring`] and [`target`]: of rings and of targets over the network.
//!
//! Invariants: nothing is allocated for a length before it has been checked against its bound; every byte is under
//! a CRC32C; after the first error of a connection nothing more is read from it or written to it.

pub mod arrived;
mod body;
pub mod capability;
mod checksum;
pub mod command;
pub mod control;
pub mod credit;
pub mod frame;
pub mod handshake;
pub mod heap;
pub mod link;
pub mod lock;
pub mod object;
pub mod pieces;
pub mod reader;
pub mod ring;
pub mod sink;
pub mod source;
pub mod target;
pub mod writer;

pub use body::{read as read_body, write as write_body};
pub use checksum::crc32c;
pub use frame::{Command, Flags, Head, Limits, RequestId};
pub use handshake::{ClientHello, PROTOCOL_VERSION, ServerHello};
pub use reader::FrameReader;
pub use writer::FrameWriter;

#[cfg(test)]
mod tests;

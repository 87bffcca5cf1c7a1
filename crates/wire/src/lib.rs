//! What processes of Forebay say to one another: frames on an ordered byte stream, and what they carry.
//!
//! - [`frame`]: the 64 bytes before everything, their bounds and their byte table.
//! - [`reader`] and [`writer`]: frames from and to a blocking stream, payloads without a copy.
//! - [`handshake`]: the first two frames of a connection.
//! - [`capability`]: who may do what to an object, and the proof of it that goes with each command.
//! - [`command`]: what is asked after that, and what is answered; [`object`] and [`heap`]: the same of objects
//!   and of records of heaps.
//!
//! Invariants: nothing is allocated for a length before it has been checked against its bound; every byte is under
//! a CRC32C; after the first error of a connection nothing more is read from it or written to it.

pub mod capability;
mod checksum;
pub mod command;
pub mod control;
pub mod frame;
pub mod handshake;
pub mod heap;
pub mod object;
pub mod reader;
pub mod writer;

pub use frame::{Command, Flags, Head, Limits, RequestId};
pub use handshake::{ClientHello, PROTOCOL_VERSION, ServerHello};
pub use reader::FrameReader;
pub use writer::FrameWriter;

#[cfg(test)]
mod tests;

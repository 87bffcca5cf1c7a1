//! What is asked of a ring by who copies it to another target, at both ends, while nobody records into it.

use super::Command;
use crate::object::MOST_AT_ONCE;
use forebay_model::{Bytes, Error, Result};
use serde::{Deserialize, Serialize};

/// The numbers of these commands.
impl Command {
    /// [`ImageAsk::Portrait`].
    pub const PORTRAIT: Command = Command(36);
    /// [`ImageAsk::Read`].
    pub const READ_IMAGE: Command = Command(37);
    /// [`ImageAsk::Receive`].
    pub const RECEIVE_RING: Command = Command(38);
    /// [`ImageAsk::Write`].
    pub const WRITE_IMAGE: Command = Command(39);
    /// [`ImageAsk::Received`].
    pub const RECEIVED_RING: Command = Command(44);
}

/// What is asked by who copies a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageAsk {
    /// What the target knows of it, which is the payload of the answer: [`Image`]. Whoever copies looks at no more than whether it is the
    /// same as before.
    Portrait,
    /// Bytes of all its segments, as they lie there, from this one on: the payload of an answer that is nothing else.
    Read {
        /// The first.
        offset: u64,
        /// How many, [`MOST_AT_ONCE`] at most.
        length: u32,
    },
    /// Begins to take in a ring that has the portrait which is the payload; answered with nothing.
    Receive,
    /// Takes in bytes, which are the payload, from this one on; answered with nothing.
    Write {
        /// The first.
        offset: u64,
    },
    /// All of it is there, and the target has the ring from now on; answered with nothing when that is durable.
    Received,
}

/// A ring that is to be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Bytes of all its segments with something in them.
    pub length: Bytes,
}

impl ImageAsk {
    /// Whether it may come with a payload of so many bytes. [`forebay_model::Kind::Usage`] if not.
    pub fn check(&self, payload: usize) -> Result<()> {
        let has_one = matches!(self, ImageAsk::Receive | ImageAsk::Write { .. });
        let read = if let ImageAsk::Read { length, .. } = self { u64::from(*length) } else { 0 };
        match has_one == (payload > 0) && (payload as u64).max(read) <= MOST_AT_ONCE.0 {
            true => Ok(()),
            false => Err(Error::usage(format!(
                "{payload} bytes came, or {read} are to be read, where a ring is moved by {MOST_AT_ONCE} at once (nothing was changed)"
            ))),
        }
    }

    /// The most bytes that its answer has as a payload.
    pub fn most(&self) -> usize {
        match self {
            ImageAsk::Portrait => MOST_AT_ONCE.0 as usize,
            ImageAsk::Read { length, .. } => *length as usize,
            ImageAsk::Receive | ImageAsk::Write { .. } | ImageAsk::Received => 0,
        }
    }
}

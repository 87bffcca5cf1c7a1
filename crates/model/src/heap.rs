//! Heaps: how records are called, and what a heap is set to.

use crate::{Error, Result, Timestamp};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The largest slot: records that do not fit it are chained.
pub const LARGEST_SLOT: u32 = 8 << 10;
/// Bytes of a record at most.
pub const LARGEST_RECORD: usize = 64 << 20;

/// Bits of an id that name a slot of an allocator.
const SLOT_BITS: u32 = 13;
/// Bits of an id that tell a record from those that had its slot before; one more says whether it is chained.
const TAG_BITS: u32 = 29;
const CHAIN: u64 = 1 << TAG_BITS;

/// A record of a heap: where it lies, and which of the records that lay there it is. The first part is allocator and
/// slot, so finding it takes no table (RWStore, 2010); the tag makes an id that outlived its record an error instead of
/// another record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct RecordId(u64);

impl RecordId {
    /// Tags are below this.
    pub const TAGS: u32 = 1 << TAG_BITS;
    /// Allocators are below this.
    pub const ALLOCATORS: u32 = 1 << (63 - SLOT_BITS - TAG_BITS);

    /// The record in this slot of this allocator that has this tag; of one that is chained, the list of its parts.
    pub fn new(allocator: u32, slot: u16, tag: u32, chain: bool) -> RecordId {
        assert!(allocator < RecordId::ALLOCATORS && u32::from(slot) < 1 << SLOT_BITS && tag < RecordId::TAGS);
        let place = u64::from(allocator) << SLOT_BITS | u64::from(slot);
        RecordId(place << (TAG_BITS + 1) | if chain { CHAIN } else { 0 } | u64::from(tag))
    }

    /// As a number, for those who keep ids in bytes of their own.
    pub fn number(self) -> u64 {
        self.0
    }

    /// The id with this number. Whether there is such a record is asked when it is read.
    pub fn from_number(number: u64) -> RecordId {
        RecordId(number)
    }

    /// The allocator.
    pub fn allocator(self) -> u32 {
        (self.0 >> (SLOT_BITS + TAG_BITS + 1)) as u32
    }

    /// Its slot.
    pub fn slot(self) -> u16 {
        (self.0 >> (TAG_BITS + 1)) as u16 & ((1 << SLOT_BITS) - 1)
    }

    /// Which of those that had the slot.
    pub fn tag(self) -> u32 {
        self.0 as u32 & (RecordId::TAGS - 1)
    }

    /// Whether the record is too large for a slot: in its own lies the list of its parts.
    pub fn is_chain(self) -> bool {
        self.0 & CHAIN != 0
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for RecordId {
    type Err = Error;

    fn from_str(text: &str) -> Result<RecordId> {
        let digits = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = digits.then(|| u64::from_str_radix(text, 16).ok()).flatten();
        number.map(RecordId).ok_or_else(|| {
            Error::usage(format!("'{}' is no id of a record; give 16 hexadecimal digits", text.escape_default()))
        })
    }
}

/// Whether slots are used again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum HeapMode {
    /// Those of records that nobody can see any more.
    #[default]
    ReadWrite,
    /// None ever: every commit stays readable (write once, read many).
    Worm,
}

/// What a heap is set to when it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct HeapSettings {
    /// Free slots at which an allocator that was full is used again; 1 is eager.
    pub threshold: u32,
    /// Whether slots are used again.
    pub mode: HeapMode,
    /// So long a commit stays readable after the next one. Where slots are written once, all do for ever.
    pub keep: Duration,
}

/// A commit that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CommitInfo {
    /// Its number, from 1.
    pub commit: u64,
    /// When it was.
    pub time: Timestamp,
    /// The record that was named as the root.
    pub root: Option<RecordId>,
}

impl Default for HeapSettings {
    fn default() -> HeapSettings {
        HeapSettings { threshold: 3000, mode: HeapMode::ReadWrite, keep: Duration::ZERO }
    }
}

#[cfg(test)]
mod tests;

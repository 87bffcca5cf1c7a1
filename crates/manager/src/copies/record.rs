//! The records of a copy, as bytes. Bytes: `docs/format/copies.md`.

use crate::engine::Pair;
use forebay_model::block::crc32c;
use forebay_model::{Error, Result, Timestamp};
use serde::{Deserialize, Serialize};

pub(super) const MAGIC: [u8; 8] = *b"FBCOPY\0\0";
pub(super) const VERSION: u32 = 1;
/// Bytes before the body.
pub(super) const HEAD: usize = 20;
/// The longest body: a value of a transaction and what is around it.
const MOST: usize = 4 << 20;

/// A key and its value from now on; none if it is deleted.
pub(super) type Change = (Vec<u8>, Option<Vec<u8>>);

/// What is written at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Record {
    /// An object begins.
    Begin {
        /// Whose metadata it is.
        cluster: u128,
        /// The opening of the manager.
        term: u64,
        /// The object with which the chain began, perhaps this one; what is in one of another chain does not count.
        base: u64,
        /// All batches up to this one are in the objects of the chain before it.
        after: u64,
        /// When.
        begun: Timestamp,
    },
    /// What keys are from now on.
    Changes {
        /// The last batch of which this has something.
        batch: u64,
        /// More of the same follows, and counts only together.
        more: bool,
        /// When.
        at: Timestamp,
        /// Values, or none.
        writes: Vec<Change>,
    },
    /// What there is, from one key to another.
    Piece {
        /// Keys and values.
        pairs: Vec<Pair>,
    },
    /// All that there is has been written since the beginning.
    Whole {
        /// When.
        at: Timestamp,
    },
}

/// What bytes begin with.
pub(super) enum Found {
    /// A record of so many bytes.
    Record(Record, usize),
    /// A part of one.
    Part,
    /// Nothing that was written wholly.
    Nothing,
}

impl Record {
    /// As it is written.
    pub(super) fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; HEAD];
        bytes = postcard::to_extend(self, bytes)
            .map_err(|error| Error::usage(format!("a copy of metadata cannot be encoded: {error}")))?;
        let length = bytes.len() - HEAD;
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(length as u32).to_le_bytes());
        let crc = crc32c(&bytes[HEAD..]) ^ crc32c(&bytes[..16]);
        bytes[16..20].copy_from_slice(&crc.to_le_bytes());
        Ok(bytes)
    }

    /// What `bytes` begin with. [`forebay_model::Kind::Version`] if a newer release wrote it.
    pub(super) fn find(bytes: &[u8]) -> Result<Found> {
        let Some(head) = bytes.first_chunk::<HEAD>() else { return Ok(Found::Part) };
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if head[..8] != MAGIC {
            return Ok(Found::Nothing);
        }
        let (version, length) = (number(8), number(12) as usize);
        if length > MOST {
            return Ok(Found::Nothing);
        }
        let Some(body) = bytes.get(HEAD..HEAD + length) else { return Ok(Found::Part) };
        if crc32c(body) ^ crc32c(&head[..16]) != number(16) {
            return Ok(Found::Nothing);
        }
        if version != VERSION {
            return Err(Error::version(format!(
                "a copy of metadata is of version {version}, and this release knows {VERSION}; use the one that wrote it"
            )));
        }
        match postcard::take_from_bytes(body) {
            Ok((record, [])) => Ok(Found::Record(record, HEAD + length)),
            _ => Ok(Found::Nothing),
        }
    }
}

#[cfg(test)]
mod tests;

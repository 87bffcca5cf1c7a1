//! Small objects: their bytes are a row of their own, written with the record that changes them, and take no block.
//!
//! As long as an object has [`INLINE_UP_TO`] bytes at most, its first block is inline: the record of a command carries
//! these bytes in its body, beside those of other commands that came with it, and they go to a leaf with the next
//! checkpoint. Nothing of them is written a second time by taking a log home. The first block of an object is inline, or
//! at home or in a log, never both; the change that puts it to one place takes it from the other, so that growing and
//! shrinking are each whole or not there. Checksums are those of the record and of the leaf.
//!
//! What is inline counts as one block of the object, and so of its volume's quota, as it would anywhere else: growing
//! out of it cannot go beyond a quota.
//!
//! Pure: no waiting, no I/O.

use super::apply::Meta;
use super::record::Write;
use super::rows::{BLOCK, Key, Row};
use super::space::Run;
use super::stretch::{INLINE, Source};
use super::{Work, journal};
use forebay_model::block::crc32c;
use forebay_model::{Bytes, ObjectId};
use std::rc::Rc;

/// The bytes of objects up to this size are inline: three such commands share a record of one block.
pub const INLINE_UP_TO: Bytes = Bytes::kib(1);

/// Whether the bytes of an object of this size are inline, once its first block is written.
pub(super) fn is_small(size: u64) -> bool {
    size <= INLINE_UP_TO.0
}

/// Makes a write of nothing but the first block of a small object one of inline bytes. `content` is what its record
/// redirects: nothing afterwards.
pub(super) fn settle(write: &mut Write, content: &mut Vec<u8>) {
    let first_alone = matches!(&write.logged[..], [(0, crcs)] if crcs.0.len() == 1);
    if first_alone && is_small(write.size) {
        write.logged.clear();
        content.truncate(write.size as usize);
        write.inline = Some(std::mem::take(content));
    }
}

impl Meta {
    /// Whether the first block of an object is inline. Its row must be in memory.
    pub(super) fn is_inline(&self, id: ObjectId) -> bool {
        self.tree.get(&Key::inline(id)).is_some()
    }

    /// Puts the bytes of an object inline, and lets its first block go wherever it was; how many blocks that were, 1 or none.
    pub(super) fn put_inline(&mut self, id: ObjectId, bytes: Vec<u8>, freed: &mut Vec<Run>) -> u64 {
        let were = self.drop_blocks(id, 0, 1, freed);
        self.tree.put(Key::inline(id), Row::Inline(bytes));
        were
    }

    /// Lets what is inline go if it is among the blocks from `first` on; whether it was there.
    pub(super) fn drop_inline(&mut self, id: ObjectId, first: u64) -> bool {
        first == 0 && self.tree.take(&Key::inline(id)).is_some()
    }
}

impl Work {
    /// The first block of an object with its checksum, if it is inline. Its row must be in memory.
    pub(super) fn inline(&self, id: ObjectId) -> Option<(Source, u32)> {
        let Some(Row::Inline(row)) = self.meta.tree.get(&Key::inline(id)) else { return None };
        let mut bytes = row.clone();
        bytes.resize(BLOCK.0 as usize, 0);
        let crc = crc32c(&bytes);
        Some((Source::Memory(Rc::new(journal::Content { at: INLINE, bytes: bytes.into() })), crc))
    }
}

#[cfg(test)]
mod tests;

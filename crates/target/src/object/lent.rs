//! What was read, on its way to whoever asked, as it lies in the buffers of the I/O.
//!
//! Owns how much of that memory is lent. A buffer that is lent stays taken for as long as somebody has a part of it, also when
//! the cache has let go of it; so no more than a bound is lent, and what is beyond it, or too small to be worth it, is copied.
//!
//! Invariant: bytes are lent only when they were verified, and nobody writes into a buffer that others can see.

use bytes::Bytes as Slice;
use forebay_env::Buffer;
use forebay_model::Bytes;
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Parts below this are copied: that costs less than lending.
const WORTH: usize = 16 << 10;

/// A buffer with what was read, of which parts can be lent.
pub(super) struct Held {
    buffer: Buffer,
    /// How many parts of it are lent.
    parts: AtomicU32,
    lent: Arc<AtomicU64>,
}

impl Deref for Held {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Held {
    fn weight(&self) -> u64 {
        self.buffer.capacity() as u64
    }
}

/// The bytes of buffers that are lent, of one target.
pub(super) struct Lending {
    most: u64,
    lent: Arc<AtomicU64>,
}

impl Lending {
    /// Lends `most` bytes of buffers at most.
    pub(super) fn new(most: Bytes) -> Lending {
        Lending { most: most.0, lent: Arc::default() }
    }

    /// What was read, so that it can be lent.
    pub(super) fn hold(&self, buffer: Buffer) -> Arc<Held> {
        Arc::new(Held { buffer, parts: AtomicU32::new(0), lent: self.lent.clone() })
    }

    /// Appends these bytes of a buffer to `answer`; `crcs` are those of its blocks, if they are whole ones.
    pub(super) fn give(&self, held: &Arc<Held>, part: Range<usize>, crcs: &[u32], answer: &mut Answer) {
        match part.len() >= WORTH && self.has_room_for(held) {
            true => answer.lend(Slice::from_owner(Lent::new(held.clone(), part)), crcs.to_vec()),
            false => answer.copied.extend_from_slice(&held[part]),
        }
    }

    /// Only the target's own loop lends, so that what is lent cannot grow beside this.
    fn has_room_for(&self, held: &Held) -> bool {
        held.parts.load(Ordering::Acquire) > 0 || self.lent.load(Ordering::Acquire) + held.weight() <= self.most
    }

    /// Bytes of buffers that are lent.
    #[cfg(test)]
    pub(super) fn lent(&self) -> u64 {
        self.lent.load(Ordering::Acquire)
    }
}

/// A part of a buffer, with whoever asked, on whichever thread.
struct Lent {
    held: Arc<Held>,
    part: Range<usize>,
}

impl Lent {
    fn new(held: Arc<Held>, part: Range<usize>) -> Lent {
        if held.parts.fetch_add(1, Ordering::AcqRel) == 0 {
            held.lent.fetch_add(held.weight(), Ordering::AcqRel);
        }
        Lent { held, part }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if self.held.parts.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.held.lent.fetch_sub(self.held.weight(), Ordering::AcqRel);
        }
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.held[self.part.clone()]
    }
}

/// A part of what was read.
#[derive(Debug, Clone)]
pub struct Piece {
    /// Its bytes, which are not empty.
    pub bytes: Slice,
    /// The CRC-32C of each of its blocks, which it has been compared with; if there are any, it has whole blocks only.
    pub crcs: Vec<u32>,
}

/// What is read, piece by piece.
#[derive(Default)]
pub(super) struct Answer {
    pieces: Vec<Piece>,
    /// Behind them, what was copied.
    copied: Vec<u8>,
}

impl Answer {
    fn lend(&mut self, bytes: Slice, crcs: Vec<u32>) {
        self.flush();
        self.pieces.push(Piece { bytes, crcs });
    }

    /// Appends a copy.
    pub(super) fn copy(&mut self, bytes: &[u8]) {
        self.copied.extend_from_slice(bytes);
    }

    /// Appends so many zeros.
    pub(super) fn zeros(&mut self, length: usize) {
        self.copied.resize(self.copied.len() + length, 0);
    }

    fn flush(&mut self) {
        if !self.copied.is_empty() {
            self.pieces.push(Piece { bytes: std::mem::take(&mut self.copied).into(), crcs: Vec::new() });
        }
    }

    /// Its pieces, none of them empty.
    pub(super) fn into_pieces(mut self) -> Vec<Piece> {
        self.flush();
        self.pieces
    }
}

/// A copy of pieces in one; of a single one that nobody else has, itself.
pub fn joined(mut pieces: Vec<Piece>) -> Vec<u8> {
    match pieces.len() {
        1 => pieces.pop().map(|piece| Vec::from(piece.bytes)).unwrap_or_default(),
        _ => pieces.into_iter().map(|piece| piece.bytes).collect::<Vec<_>>().concat(),
    }
}

#[cfg(test)]
mod tests;

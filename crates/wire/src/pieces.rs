//! Bytes in pieces, one behind the other: what is sent is not copied into one place before, and not gone through for a checksum
//! where those of its blocks are known.

use crate::arrived::Arrived;
use bytes::Bytes;
use forebay_model::sums::{SUMMED, Sum};
use std::collections::VecDeque;

/// Bytes, and what is known of them.
#[derive(Debug, Clone, Default)]
pub struct Piece {
    bytes: Bytes,
    /// The checksum of each of its blocks; if they are known, it has whole ones only.
    sums: Vec<u32>,
}

/// Pieces, none of them empty.
#[derive(Debug, Clone, Default)]
pub struct Pieces {
    parts: VecDeque<Piece>,
    length: usize,
}

impl Piece {
    /// Whole blocks of [`SUMMED`] bytes, whose checksums these are; or bytes of which none is known.
    pub fn new(bytes: Bytes, sums: Vec<u32>) -> Piece {
        assert!(sums.is_empty() || bytes.len() == sums.len() * SUMMED, "{} of {} bytes", sums.len(), bytes.len());
        Piece { bytes, sums }
    }

    /// What is before byte `at` and what is behind. Of a block that is cut nothing is known.
    fn split(mut self, at: usize) -> ([Piece; 2], [Piece; 2]) {
        if self.sums.is_empty() {
            let before = self.bytes.split_to(at).into();
            return ([before, Piece::default()], [Piece::default(), self]);
        }
        let (whole, cut) = (at / SUMMED, at % SUMMED);
        let blocks = Piece { bytes: self.bytes.split_to(whole * SUMMED), sums: self.sums.drain(..whole).collect() };
        if cut == 0 {
            return ([blocks, Piece::default()], [Piece::default(), self]);
        }
        let mut behind = self.bytes.split_to(SUMMED);
        self.sums.remove(0);
        let before = behind.split_to(cut).into();
        ([blocks, before], [behind.into(), self])
    }
}

impl From<Bytes> for Piece {
    fn from(bytes: Bytes) -> Piece {
        Piece { bytes, sums: Vec::new() }
    }
}

impl Pieces {
    /// Bytes in all.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The bytes of each of them.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.parts.iter().map(|part| &part.bytes[..])
    }

    /// The checksum of all.
    pub(crate) fn sum(&self) -> u32 {
        let mut sum = Sum::default();
        for part in &self.parts {
            match part.sums.is_empty() {
                true => sum.update(&part.bytes),
                false => part.sums.iter().for_each(|block| sum.update_block(*block)),
            }
        }
        sum.finish()
    }

    fn push(&mut self, part: Piece) {
        if !part.bytes.is_empty() {
            self.length += part.bytes.len();
            self.parts.push_back(part);
        }
    }

    /// Takes the first `length` bytes, or as many as there are.
    pub fn take(&mut self, length: usize) -> Pieces {
        let mut taken = Pieces::default();
        while taken.length < length
            && let Some(first) = self.parts.pop_front()
        {
            self.length -= first.bytes.len();
            let left = length - taken.length;
            if first.bytes.len() <= left {
                taken.push(first);
                continue;
            }
            let (before, behind) = first.split(left);
            before.into_iter().for_each(|part| taken.push(part));
            for part in behind.into_iter().rev().filter(|part| !part.bytes.is_empty()) {
                self.length += part.bytes.len();
                self.parts.push_front(part);
            }
        }
        taken
    }

    /// All in one: a copy, but of a single piece.
    pub fn into_bytes(mut self) -> Bytes {
        match self.parts.len() {
            1 => self.parts.pop_front().map(|part| part.bytes).unwrap_or_default(),
            _ => self.into_vec().into(),
        }
    }

    /// All in one: a copy, but of a single piece that nobody else has.
    pub fn into_vec(mut self) -> Vec<u8> {
        match self.parts.len() {
            0 => Vec::new(),
            1 => self.parts.pop_front().map(|part| Vec::from(part.bytes)).unwrap_or_default(),
            _ => {
                let mut bytes = Vec::with_capacity(self.length);
                self.iter().for_each(|part| bytes.extend_from_slice(part));
                bytes
            }
        }
    }
}

impl From<Vec<Piece>> for Pieces {
    fn from(parts: Vec<Piece>) -> Pieces {
        let mut pieces = Pieces::default();
        parts.into_iter().for_each(|part| pieces.push(part));
        pieces
    }
}

impl From<Vec<Bytes>> for Pieces {
    fn from(parts: Vec<Bytes>) -> Pieces {
        let mut pieces = Pieces::default();
        parts.into_iter().for_each(|part| pieces.push(part.into()));
        pieces
    }
}

impl From<Arrived> for Pieces {
    fn from(bytes: Arrived) -> Pieces {
        Pieces::from(vec![bytes.into_bytes()])
    }
}

impl From<Vec<u8>> for Pieces {
    fn from(bytes: Vec<u8>) -> Pieces {
        Pieces::from(vec![Bytes::from(bytes)])
    }
}

/// The bytes count, not how they are cut.
impl PartialEq for Pieces {
    fn eq(&self, other: &Pieces) -> bool {
        self.length == other.length && self.iter().flatten().eq(other.iter().flatten())
    }
}

impl Eq for Pieces {}

#[cfg(test)]
mod tests;

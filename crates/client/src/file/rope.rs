//! Bytes in several slices, one behind the other, and what is made of them without a copy.

use super::components::Slice;
use forebay_model::layout::parity;
use std::collections::VecDeque;
use std::ops::Range;

/// Slices, none of them empty.
#[derive(Debug, Clone, Default)]
pub(super) struct Rope {
    parts: VecDeque<Slice>,
    length: u64,
}

impl Rope {
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    pub(super) fn push(&mut self, slice: Slice) {
        self.length += slice.len() as u64;
        if !slice.is_empty() {
            self.parts.push_back(slice);
        }
    }

    pub(super) fn append(&mut self, mut other: Rope) {
        self.length += other.length;
        self.parts.append(&mut other.parts);
    }

    /// Takes the first `length` bytes, as many as there are.
    pub(super) fn take(&mut self, length: u64) -> Rope {
        let mut taken = Rope::default();
        while taken.length < length {
            let Some(mut first) = self.parts.pop_front() else { break };
            let wanted = (length - taken.length).min(first.len() as u64) as usize;
            let head = first.split_to(wanted);
            self.length -= head.len() as u64;
            taken.push(head);
            if !first.is_empty() {
                self.parts.push_front(first);
            }
        }
        taken
    }

    /// The slices of a range, which lies inside.
    pub(super) fn slices(&self, range: Range<u64>) -> Vec<Slice> {
        let mut found = Vec::new();
        let mut at = 0;
        for part in &self.parts {
            let end = at + part.len() as u64;
            if end > range.start && at < range.end {
                let from = range.start.saturating_sub(at) as usize;
                found.push(part.slice(from..(range.end.min(end) - at) as usize));
            }
            at = end;
        }
        found
    }

    pub(super) fn into_slices(self) -> Vec<Slice> {
        self.parts.into()
    }

    /// All in one piece: a copy, unless it is one already.
    pub(super) fn into_slice(self) -> Slice {
        if self.parts.len() == 1 {
            return self.parts.into_iter().next().unwrap_or_default();
        }
        Slice::from(self.into_vec())
    }

    /// A copy of all.
    pub(super) fn into_vec(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.length as usize);
        self.parts.iter().for_each(|part| bytes.extend_from_slice(part));
        bytes
    }

    /// The parity of units, each as long as the first one or shorter.
    pub(super) fn parity(units: &[Rope]) -> Slice {
        let Some((first, others)) = units.split_first() else { return Slice::new() };
        let mut bytes = first.clone().into_vec();
        if units.iter().all(|unit| unit.parts.len() == 1) {
            // So much of the parity at a time that it stays in the nearest cache while all units are added to it.
            for (nth, part) in bytes.chunks_mut(BLOCK).enumerate() {
                for unit in others {
                    let from = &unit.parts[0][(nth * BLOCK).min(unit.parts[0].len())..];
                    parity::add(part, &from[..from.len().min(part.len())]);
                }
            }
        } else {
            for unit in others {
                let mut at = 0;
                for part in &unit.parts {
                    parity::add(&mut bytes[at..at + part.len()], part);
                    at += part.len();
                }
            }
        }
        Slice::from(bytes)
    }
}

/// What stays in the nearest cache beside what is added to it.
const BLOCK: usize = 8 << 10;

impl From<Slice> for Rope {
    fn from(slice: Slice) -> Rope {
        let mut rope = Rope::default();
        rope.push(slice);
        rope
    }
}

#[cfg(test)]
mod tests;

//! Memory for what is written: large payloads come into memory for I/O, so that a target writes them from where they are.
//!
//! Memory that is used again need not be cleared or mapped. It is bounded by what a node takes in at the same time and its
//! targets keep; for what is beyond the bound there is memory of any kind.

use forebay_env::{Buffer, Slab};
use forebay_model::Bytes;

/// Payloads below this come into memory of any kind: copying them costs less than a large buffer is worth.
const WORTH: Bytes = Bytes::kib(256);
/// The sizes of buffers; what is larger than the largest is rare.
const SIZES: [Bytes; 2] = [Bytes::kib(512), Bytes::mib(1)];
/// Bytes of a slab.
const SLAB: Bytes = Bytes::mib(4);
/// What is kept at most while nobody needs it.
const IDLE: Bytes = Bytes::mib(64);

/// The buffers.
pub(super) struct Payloads {
    most: usize,
    /// By size; of each, those that are used first come first.
    slabs: [Vec<Slab>; SIZES.len()],
}

impl Payloads {
    /// At most `most` bytes.
    pub(super) fn new(most: Bytes) -> Payloads {
        Payloads { most: (most / SLAB) as usize, slabs: Default::default() }
    }

    /// A buffer of this length, if it is worth one and there is one.
    pub(super) fn take(&mut self, length: usize) -> Option<Buffer> {
        let size = SIZES.iter().position(|size| length as u64 <= size.0)?;
        if (length as u64) < WORTH.0 {
            return None;
        }
        let mut buffer = match self.slabs[size].iter().find_map(Slab::try_take) {
            Some(buffer) => buffer,
            None => self.grow(size)?,
        };
        buffer.set_len(length);
        Some(buffer)
    }

    fn grow(&mut self, size: usize) -> Option<Buffer> {
        if self.slabs.iter().map(Vec::len).sum::<usize>() >= self.most {
            return None;
        }
        let slab = Slab::new(SIZES[size], (SLAB / SIZES[size]) as usize).ok()?;
        let buffer = slab.try_take();
        self.slabs[size].push(slab);
        buffer
    }

    /// Gives back what is idle beyond what is kept.
    pub(super) fn trim(&mut self) {
        let mut idle = 0;
        for slabs in &mut self.slabs {
            slabs.retain(|slab| {
                let is_idle = slab.available() == slab.count();
                idle += usize::from(is_idle);
                !is_idle || SLAB * idle as u64 <= IDLE
            });
        }
    }
}

#[cfg(test)]
mod tests;

//! Memory for what is read: aligned buffers of two sizes, taken from slabs that are made as they are needed and never
//! more than the bound. A device knows its slabs; a buffer of its own would be mapped, and found, for each I/O.

use super::rows::BLOCK;
use forebay_env::{Buffer, Slab};
use forebay_model::{Bytes, Result};

/// Bytes of a large buffer: what is read at once.
pub const LARGE: Bytes = Bytes::kib(512);
/// Bytes of a small one.
pub const SMALL: Bytes = Bytes::kib(32);
/// Bytes of a slab.
const SLAB: Bytes = Bytes::mib(8);
/// Bytes of small buffers at most.
const MOST_SMALL: Bytes = Bytes::mib(16);

struct Class {
    capacity: Bytes,
    most: usize,
    slabs: Vec<Slab>,
}

impl Class {
    fn take(&mut self) -> Option<Buffer> {
        if let Some(buffer) = self.slabs.iter().find_map(Slab::try_take) {
            return Some(buffer);
        }
        if self.slabs.len() == self.most {
            return None;
        }
        self.slabs.push(Slab::new(self.capacity, (SLAB / self.capacity) as usize).ok()?);
        self.slabs.last()?.try_take()
    }
}

/// The buffers.
pub struct Pool {
    large: Class,
    small: Class,
}

impl Pool {
    /// At most `most` bytes of large buffers, and [`MOST_SMALL`] of small ones.
    pub fn new(most: Bytes) -> Pool {
        let class = |capacity, most: Bytes| Class { capacity, most: (most / SLAB).max(1) as usize, slabs: Vec::new() };
        Pool { large: class(LARGE, most), small: class(SMALL, MOST_SMALL) }
    }

    /// The memory that a buffer for so many blocks takes; at most [`LARGE`].
    pub fn weight(blocks: u64) -> Bytes {
        if BLOCK * blocks <= SMALL { SMALL } else { LARGE }
    }

    /// A buffer for so many blocks, at most [`LARGE`]; `None` if all are taken.
    pub fn take(&mut self, blocks: u64) -> Option<Buffer> {
        let length = BLOCK * blocks;
        let class = if length <= SMALL { &mut self.small } else { &mut self.large };
        let mut buffer = class.take()?;
        buffer.set_len(length.0 as usize);
        Some(buffer)
    }

    /// As [`Pool::take`]; a buffer of its own if all are taken.
    pub fn take_or_make(&mut self, blocks: u64) -> Result<Buffer> {
        self.take(blocks).map_or_else(|| Buffer::alone(BLOCK * blocks), Ok)
    }
}

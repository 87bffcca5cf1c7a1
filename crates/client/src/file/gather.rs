//! What was written and is not yet on its way: one run of bytes, which grows at its end until there are whole stripes
//! enough.

use super::components::Slice;
use super::room::Held;
use super::rope::Rope;

/// What is smaller is copied together, so that requests do not consist of crumbs.
const SMALL: usize = 16 << 10;
/// What is copied together is so large then, at most.
const TOGETHER: usize = 64 << 10;

/// A run of bytes of the file.
pub(super) struct Gather {
    pub(super) from: u64,
    rope: Rope,
    /// What is copied together, and not yet in the rope.
    small: Vec<u8>,
    held: Held,
}

/// A part of it that is written now, and the room that it has.
pub(super) struct Gathered {
    pub(super) from: u64,
    pub(super) bytes: Rope,
    pub(super) held: Held,
}

impl Gather {
    pub(super) fn new(from: u64, bytes: Slice, held: Held) -> Gather {
        let mut gather = Gather { from, rope: Rope::default(), small: Vec::new(), held };
        gather.add(bytes);
        gather
    }

    pub(super) fn length(&self) -> u64 {
        self.rope.length() + self.small.len() as u64
    }

    pub(super) fn end(&self) -> u64 {
        self.from + self.length()
    }

    /// The room that it has.
    pub(super) fn room(&self) -> u64 {
        self.held.bytes()
    }

    /// More, right behind the end.
    pub(super) fn push(&mut self, bytes: Slice, held: Held) {
        self.held.join(held);
        self.add(bytes);
    }

    fn add(&mut self, bytes: Slice) {
        if bytes.len() >= SMALL {
            self.together();
            self.rope.push(bytes);
            return;
        }
        // Of writes here and there each is alone in its run, and has no more memory than it has bytes.
        let most = if self.length() == 0 { bytes.len() } else { TOGETHER };
        self.small.reserve_exact(most.saturating_sub(self.small.len()));
        self.small.extend_from_slice(&bytes);
        if self.small.len() + SMALL > TOGETHER {
            self.together();
        }
    }

    fn together(&mut self) {
        let mut small = std::mem::take(&mut self.small);
        // All its memory stays until the last of it is written, and only its bytes have room: not much more than these.
        if small.len() < small.capacity() / 2 {
            small.shrink_to_fit();
        }
        self.rope.push(Slice::from(small));
    }

    /// Takes the first `length` bytes.
    pub(super) fn take(&mut self, length: u64) -> Gathered {
        self.together();
        let (from, bytes) = (self.from, self.rope.take(length));
        self.from += bytes.length();
        // The last of a run has all the room that is left of it.
        let room = if self.length() == 0 { u64::MAX } else { bytes.length() };
        let held = self.held.split(room);
        Gathered { from, bytes, held }
    }
}

#[cfg(test)]
mod tests;

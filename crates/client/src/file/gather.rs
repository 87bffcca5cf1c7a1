//! What was written and is not yet on its way: one run of bytes, which grows at its end until there are whole stripes
//! enough.

use super::components::Slice;
use super::room::Held;
use super::rope::Rope;
use bytes::BytesMut;

/// What is smaller is copied together, so that requests do not consist of crumbs.
const SMALL: usize = 16 << 10;
/// What is copied together is so large then.
const TOGETHER: usize = 64 << 10;

/// A run of bytes of the file.
pub(super) struct Gather {
    pub(super) from: u64,
    rope: Rope,
    small: BytesMut,
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
        let mut gather = Gather { from, rope: Rope::default(), small: BytesMut::new(), held };
        gather.add(bytes);
        gather
    }

    pub(super) fn length(&self) -> u64 {
        self.rope.length() + self.small.len() as u64
    }

    pub(super) fn end(&self) -> u64 {
        self.from + self.length()
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
        if self.small.is_empty() {
            self.small.reserve(TOGETHER);
        }
        self.small.extend_from_slice(&bytes);
        if self.small.len() + SMALL > TOGETHER {
            self.together();
        }
    }

    fn together(&mut self) {
        self.rope.push(self.small.split().freeze());
    }

    /// Takes the first `length` bytes.
    pub(super) fn take(&mut self, length: u64) -> Gathered {
        self.together();
        let (from, bytes) = (self.from, self.rope.take(length));
        self.from += bytes.length();
        let held = self.held.split(bytes.length());
        Gathered { from, bytes, held }
    }
}

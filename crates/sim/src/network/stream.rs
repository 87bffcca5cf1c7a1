//! The bytes of one direction of a connection, kept once for both ends: from the first that is not acknowledged or not
//! read to the last that was written.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// One direction; both ends have it.
pub(super) type Shared = Rc<RefCell<Stream>>;

/// The bytes from `first` on.
#[derive(Default)]
pub(super) struct Stream {
    first: u64,
    bytes: VecDeque<u8>,
    acked: u64,
    read: u64,
}

impl Stream {
    /// Takes more bytes; all before `acked` is acknowledged.
    pub(super) fn write(&mut self, bytes: &[u8], acked: u64) {
        self.acked = acked;
        self.trim();
        self.bytes.extend(bytes);
    }

    /// Copies what is at `from`, which was written, and marks it as read.
    pub(super) fn read(&mut self, from: u64, into: &mut [u8]) {
        let start = (from - self.first) as usize;
        let (one, two) = self.bytes.as_slices();
        let split = one.len().saturating_sub(start).min(into.len());
        let (head, tail) = into.split_at_mut(split);
        if split > 0 {
            head.copy_from_slice(&one[start..start + split]);
        }
        if !tail.is_empty() {
            let start = (start + split) - one.len();
            tail.copy_from_slice(&two[start..start + tail.len()]);
        }
        self.read = from + into.len() as u64;
        self.trim();
    }

    fn trim(&mut self) {
        let keep = self.acked.min(self.read);
        self.bytes.drain(..(keep - self.first) as usize);
        self.first = keep;
    }
}

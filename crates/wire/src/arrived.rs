//! Payloads of answers as they arrive, and memory for them that is used again: it need neither be cleared nor mapped anew.
//! Of memory that is new only as much is cleared as arrives: most answers are shorter than they may be.
//!
//! Memory comes back when the last who sees a payload lets go of it, on whichever thread; a bound is kept, what is beyond it is
//! given up. A payload shows only what has arrived, never what was in its memory before.

use bytes::Bytes;
use std::ops::{Deref, Range};
use std::sync::{Arc, Mutex, PoisonError};

/// Sizes of memory that is used again, each a power of two: below, clearing costs less than keeping; above is rare.
const SIZES: Range<u32> = 16..23;
/// What is kept at most while nobody needs it.
const IDLE: usize = 32 << 20;

/// Memory for what arrives. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    shared: Arc<Mutex<Idle>>,
}

#[derive(Debug, Default)]
struct Idle {
    /// By power of two. What is in a vector was written at some time; the rest is its capacity.
    pieces: [Vec<Vec<u8>>; SIZES.end as usize],
    /// Their capacities.
    bytes: usize,
}

/// What has arrived of a payload.
#[derive(Debug)]
pub enum Arrived {
    /// In memory of any kind.
    Plain(Vec<u8>),
    /// In memory that is used again.
    Kept(Kept),
}

/// Memory that is used again, and how much of it has arrived.
#[derive(Debug)]
pub struct Kept {
    /// What was written at some time, of room for 2 to the `power`.
    bytes: Vec<u8>,
    power: u32,
    length: usize,
    home: Memory,
}

impl Memory {
    /// Room for a payload of `most` bytes at most.
    pub(crate) fn room(&self, most: usize) -> Arrived {
        let size = most.next_power_of_two();
        let power = size.trailing_zeros();
        if !SIZES.contains(&power) {
            return Arrived::Plain(Vec::with_capacity(most));
        }
        let kept = {
            let mut idle = self.lock();
            let kept = idle.pieces[power as usize].pop();
            idle.bytes -= kept.as_ref().map_or(0, |_| size);
            kept
        };
        let bytes = kept.unwrap_or_else(|| Vec::with_capacity(size));
        Arrived::Kept(Kept { bytes, power, length: 0, home: self.clone() })
    }

    fn give_back(&self, bytes: Vec<u8>, power: u32) {
        let (mut idle, size) = (self.lock(), 1 << power);
        if idle.bytes + size <= IDLE {
            idle.bytes += size;
            idle.pieces[power as usize].push(bytes);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Idle> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Where the next bytes come; [`Kept::came`] says that they did.
    pub(crate) fn next(&mut self, length: usize) -> &mut [u8] {
        let end = self.length + length;
        assert!(end <= 1 << self.power, "{end} bytes for room of {}", 1 << self.power);
        if end > self.bytes.len() {
            self.bytes.resize(end, 0);
        }
        &mut self.bytes[self.length..end]
    }

    /// So many bytes came where [`Kept::next`] said.
    pub(crate) fn came(&mut self, length: usize) {
        self.length += length;
    }
}

impl Arrived {
    /// Its bytes, without a copy.
    pub fn into_vec(self) -> Vec<u8> {
        match self {
            Arrived::Plain(bytes) => bytes,
            Arrived::Kept(mut kept) => {
                let mut bytes = std::mem::take(&mut kept.bytes);
                bytes.truncate(kept.length);
                bytes
            }
        }
    }

    /// Its bytes, so that many may see parts of them.
    pub fn into_bytes(self) -> Bytes {
        match self {
            Arrived::Plain(bytes) => bytes.into(),
            Arrived::Kept(kept) => Bytes::from_owner(kept),
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // What was taken away as a vector left none.
        if self.bytes.capacity() > 0 {
            self.home.give_back(std::mem::take(&mut self.bytes), self.power);
        }
    }
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Deref for Arrived {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Arrived::Plain(bytes) => bytes,
            Arrived::Kept(kept) => kept.as_ref(),
        }
    }
}

impl Default for Arrived {
    fn default() -> Arrived {
        Arrived::Plain(Vec::new())
    }
}

impl PartialEq for Arrived {
    fn eq(&self, other: &Arrived) -> bool {
        **self == **other
    }
}

impl Eq for Arrived {}

#[cfg(test)]
mod tests;

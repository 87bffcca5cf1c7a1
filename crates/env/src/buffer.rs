//! Aligned memory for I/O. A [`Slab`] is one mapping cut into buffers of equal capacity; a [`Buffer`] is one of them,
//! lent until it is dropped. Devices may register whole slabs with the kernel.
//!
//! Backpressure is here: a slab has a fixed number of buffers, and who finds none waits or drops.

mod mapping;

use forebay_model::{Bytes, Error, Result};
use mapping::Mapping;
use std::ops::{Deref, DerefMut, Range};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

/// Alignment of every buffer, enough for every device we know.
pub const ALIGN: usize = 4096;

/// A fixed number of aligned buffers of equal capacity. Cheap to clone; safe to share between threads.
#[derive(Clone)]
pub struct Slab {
    shared: Arc<Shared>,
}

struct Shared {
    memory: Mapping,
    capacity: usize,
    count: usize,
    free: Mutex<Free>,
}

struct Free {
    indexes: Vec<u32>,
    wakers: Vec<Waker>,
}

impl Slab {
    /// `count` buffers of `capacity` bytes each (a multiple of [`ALIGN`]).
    pub fn new(capacity: Bytes, count: usize) -> Result<Slab> {
        let capacity = capacity.0 as usize;
        assert!(capacity > 0 && capacity.is_multiple_of(ALIGN) && count > 0, "{count} buffers of {capacity} bytes");
        let length = capacity
            .checked_mul(count)
            .ok_or_else(|| Error::usage("the staging memory asked for is larger than the address space"))?;
        let memory = Mapping::new(length)
            .map_err(|e| Error::busy(format!("no memory for {count} buffers of {}: {e}", Bytes(capacity as u64))))?;
        Ok(Slab::of(memory, capacity, count))
    }

    fn of(memory: Mapping, capacity: usize, count: usize) -> Slab {
        let indexes = (0..count as u32).rev().collect();
        Slab {
            shared: Arc::new(Shared {
                memory,
                capacity,
                count,
                free: Mutex::new(Free { indexes, wakers: Vec::new() }),
            }),
        }
    }

    /// Bytes in one buffer.
    pub fn capacity(&self) -> Bytes {
        Bytes(self.shared.capacity as u64)
    }

    /// Buffers in all.
    pub fn count(&self) -> usize {
        self.shared.count
    }

    /// Buffers that nobody holds.
    pub fn available(&self) -> usize {
        self.lock().indexes.len()
    }

    /// A buffer of full capacity, if one is free now. Its content is whatever was in it last.
    pub fn try_take(&self) -> Option<Buffer> {
        let index = self.lock().indexes.pop()?;
        Some(self.lend(index))
    }

    /// A buffer of full capacity, waiting for one without holding the thread.
    pub async fn take(&self) -> Buffer {
        std::future::poll_fn(|context| {
            let mut free = self.lock();
            match free.indexes.pop() {
                Some(index) => {
                    drop(free);
                    std::task::Poll::Ready(self.lend(index))
                }
                None => {
                    // Polled again for another reason: one wake-up is enough.
                    if !free.wakers.iter().any(|w| w.will_wake(context.waker())) {
                        free.wakers.push(context.waker().clone());
                    }
                    std::task::Poll::Pending
                }
            }
        })
        .await
    }

    /// First address and length of the mapping, for registering it with a kernel.
    pub fn region(&self) -> (*mut u8, usize) {
        (self.shared.memory.base(), self.shared.capacity * self.shared.count)
    }

    /// Whether this handle is the only one: no buffer is lent, and nobody else has the slab.
    pub(crate) fn is_last_handle(&self) -> bool {
        Arc::strong_count(&self.shared) == 1
    }

    fn lend(&self, index: u32) -> Buffer {
        Buffer { memory: Memory::Own(Loan { slab: self.clone(), index }), length: self.shared.capacity }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Free> {
        self.shared.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An aligned buffer, lent by a [`Slab`] until dropped, or a part of one that others see too, which nobody writes into.
/// Dereferences to its first `len` bytes.
pub struct Buffer {
    memory: Memory,
    length: usize,
}

enum Memory {
    Own(Loan),
    /// Bytes of another buffer from here on, as many as the capacity.
    Part(Arc<Buffer>, usize, usize),
}

/// One index of a slab.
struct Loan {
    slab: Slab,
    index: u32,
}

impl Buffer {
    /// A single buffer with a slab of its own, zeroed: for small or rare I/O.
    pub fn alone(length: Bytes) -> Result<Buffer> {
        let capacity = length.align_up(Bytes(ALIGN as u64)).0 as usize;
        assert!(capacity > 0, "a buffer of nothing");
        let memory = Mapping::zeroed(capacity)
            .map_err(|e| Error::busy(format!("no memory for a buffer of {}: {e}", Bytes(capacity as u64))))?;
        let slab = Slab::of(memory, capacity, 1);
        let mut buffer = slab.try_take().ok_or_else(|| Error::busy("a fresh slab is empty"))?;
        buffer.set_len(length.0 as usize);
        Ok(buffer)
    }

    /// Bytes of `whole` that begin at a multiple of [`ALIGN`], without a copy. They can be read, and written to a device;
    /// `whole` stays taken as long as this is there.
    pub fn part_of(whole: Arc<Buffer>, range: Range<usize>) -> Buffer {
        let fits = range.start <= range.end && range.end <= whole.len() && range.start.is_multiple_of(ALIGN);
        assert!(fits, "bytes {} to {} of a buffer of {}", range.start, range.end, whole.len());
        Buffer { memory: Memory::Part(whole, range.start, range.len()), length: range.len() }
    }

    /// Whether nobody else sees it, so that it may be written into.
    pub fn is_own(&self) -> bool {
        matches!(self.memory, Memory::Own(_))
    }

    /// How many bytes it can hold.
    pub fn capacity(&self) -> usize {
        match &self.memory {
            Memory::Own(loan) => loan.slab.shared.capacity,
            Memory::Part(_, _, length) => *length,
        }
    }

    /// Makes the first `length` bytes the content. What was beyond the old length is whatever was there.
    pub fn set_len(&mut self, length: usize) {
        assert!(length <= self.capacity(), "{length} bytes in a buffer of {}", self.capacity());
        self.length = length;
    }

    /// The slab that lent it.
    pub fn slab(&self) -> &Slab {
        match &self.memory {
            Memory::Own(loan) => &loan.slab,
            Memory::Part(whole, ..) => whole.slab(),
        }
    }

    /// First address, for handing the buffer to a kernel.
    pub fn address(&self) -> *mut u8 {
        match &self.memory {
            // SAFETY: the index is below the count, so the offset stays inside the mapping.
            Memory::Own(Loan { slab, index }) => unsafe {
                slab.shared.memory.base().add(*index as usize * slab.shared.capacity)
            },
            // SAFETY: the part was found to lie inside.
            Memory::Part(whole, from, _) => unsafe { whole.address().add(*from) },
        }
    }
}

// SAFETY: a buffer is the only owner of its part of the mapping, or only read.
unsafe impl Send for Buffer {}
// SAFETY: a shared buffer is only read; who writes through `address` has to own it.
unsafe impl Sync for Buffer {}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `length` bytes from `address` are inside the mapping; this buffer owns them, or what owns them is shared and so
        // nobody writes there.
        unsafe { std::slice::from_raw_parts(self.address(), self.length) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        assert!(self.is_own(), "nobody writes into a part of a buffer that others see");
        // SAFETY: as for `deref`, and we hold `&mut self` of what owns them.
        unsafe { std::slice::from_raw_parts_mut(self.address(), self.length) }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let mut free = self.slab.lock();
        free.indexes.push(self.index);
        let wakers = std::mem::take(&mut free.wakers);
        drop(free);
        for waker in wakers {
            waker.wake();
        }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} of {} bytes)", self.length, self.capacity())
    }
}

#[cfg(test)]
mod tests;

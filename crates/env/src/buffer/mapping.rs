//! Memory of whole pages from the kernel, and what a thread keeps of it for its next buffers.
//!
//! Mapping memory anew for a read, having the kernel clear it page by page as it is first touched, and giving it back costs more than
//! the bytes that it is for. So each thread keeps some of what [`Mapping::zeroed`] gave, the latest.

use super::ALIGN;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ptr::NonNull;

/// A huge page.
pub(super) const HUGE: usize = 2 << 20;
/// The most bytes that a thread keeps, and the most mappings.
const MOST_KEPT: (usize, usize) = (4 << 20, 64);
/// The longest mapping that is kept.
const LONGEST_KEPT: usize = 2 << 20;

thread_local! {
    static KEPT: RefCell<Kept> = const { RefCell::new(Kept { latest_last: VecDeque::new(), bytes: 0 }) };
}

/// Plain memory that nothing else refers to; it is given back, or kept, when this is dropped.
pub(super) struct Mapping {
    base: NonNull<u8>,
    length: usize,
    /// Whether it is kept for the next when it is dropped.
    is_kept: bool,
}

/// What a thread keeps.
struct Kept {
    latest_last: VecDeque<Mapping>,
    bytes: usize,
}

// SAFETY: nothing else refers to the memory; who uses it takes care of who does so at once.
unsafe impl Send for Mapping {}
// SAFETY: as above; it gives no access itself.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// A fresh one, all zeros.
    pub(super) fn new(length: usize) -> rustix::io::Result<Mapping> {
        Ok(Mapping { base: map(length)?, length, is_kept: false })
    }

    /// One of which the first `length` bytes are zeros, a multiple of [`ALIGN`]. It may have more, and may have been used before.
    pub(super) fn zeroed(length: usize) -> rustix::io::Result<Mapping> {
        if length > LONGEST_KEPT {
            return Mapping::new(length);
        }
        // So that one that is nearly as long will do, too. Memory that is never touched is none.
        let room = length.next_multiple_of((length.next_power_of_two() / 8).max(ALIGN));
        let kept = KEPT.try_with(|kept| kept.borrow_mut().take(room));
        match kept.ok().flatten() {
            Some(again) => {
                // SAFETY: it is at least so long, and nothing else refers to it.
                unsafe { again.base.write_bytes(0, length) };
                Ok(again)
            }
            None => {
                let mut fresh = Mapping::new(room)?;
                fresh.is_kept = true;
                Ok(fresh)
            }
        }
    }

    pub(super) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }
}

impl Kept {
    fn take(&mut self, length: usize) -> Option<Mapping> {
        let found = self.latest_last.iter().rposition(|kept| kept.length == length)?;
        self.bytes -= length;
        self.latest_last.remove(found)
    }

    /// Keeps one; what is too much then is given back, the oldest first.
    fn keep(&mut self, mapping: Mapping) {
        self.bytes += mapping.length;
        self.latest_last.push_back(mapping);
        let (bytes, count) = MOST_KEPT;
        while (self.bytes > bytes || self.latest_last.len() > count)
            && let Some(mut oldest) = self.latest_last.pop_front()
        {
            self.bytes -= oldest.length;
            oldest.is_kept = false;
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let Mapping { base, length, is_kept } = *self;
        // A thread that ends keeps nothing any more.
        let kept = is_kept && KEPT.try_with(|kept| kept.borrow_mut().keep(Mapping { base, length, is_kept })).is_ok();
        if !kept {
            // SAFETY: it is all of a mapping, and who has this is the only one who refers to it.
            unsafe { give_back(base, length) };
        }
    }
}

/// Large ones begin where a huge page may, which spares the processor and a kernel that knows the memory looking up each small one.
fn map(length: usize) -> rustix::io::Result<NonNull<u8>> {
    let room = if length < HUGE { length } else { length.checked_add(HUGE).ok_or(rustix::io::Errno::NOMEM)? };
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a fresh anonymous private mapping; nothing else refers to it.
    let base = unsafe { mmap_anonymous(std::ptr::null_mut(), room, protection, flags)? };
    let base = NonNull::new(base.cast::<u8>()).ok_or(rustix::io::Errno::NOMEM)?;
    if room == length {
        return Ok(base);
    }
    let before = base.as_ptr().align_offset(HUGE);
    // SAFETY: all of it lies in the mapping, which is ours; what is given back is before and behind what is used from here on.
    unsafe {
        let used = base.add(before);
        give_back(base, before);
        give_back(used.add(length), room - before - length);
        // Without huge pages it is as good, and only slower.
        let _ = madvise(used.as_ptr().cast(), length, Advice::LinuxHugepage);
        Ok(used)
    }
}

/// Gives memory back to the kernel.
///
/// # Safety
/// It is part of a mapping, and nothing refers to it.
unsafe fn give_back(from: NonNull<u8>, length: usize) {
    if length > 0 {
        // SAFETY: as the caller says.
        let _ = unsafe { munmap(from.as_ptr().cast(), length) };
    }
}

#[cfg(test)]
mod tests;

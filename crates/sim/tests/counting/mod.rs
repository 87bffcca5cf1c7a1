//! What is in use of memory, counted by the allocator, for tests that hold a bound. One test a process: all threads count.

use forebay_model::Bytes;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts bytes in use, and the most that were.
struct Counting;

static USED: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all memory comes from the system's allocator, unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = USED.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(used, Ordering::Relaxed);
        // SAFETY: as our caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as our caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Counts anew from here on.
pub fn begin() -> usize {
    let used = USED.load(Ordering::Relaxed);
    MOST.store(used, Ordering::Relaxed);
    used
}

/// The most that was in use beyond `before`, which [`begin`] gave.
pub fn most(before: usize) -> Bytes {
    Bytes((MOST.load(Ordering::Relaxed) - before) as u64)
}

//! What a thread has in use of memory, counted by the allocator, for tests that hold a bound.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts bytes in use, and the most that were, by thread.
struct Counting;

thread_local! {
    // What another thread frees makes this one's count too high, never too low.
    static USED: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

fn took(bytes: usize) {
    // A thread that ends has no counts any more.
    let _ = USED.try_with(|used| {
        used.set(used.get().wrapping_add(bytes));
        let _ = MOST.try_with(|most| most.set(most.get().max(used.get())));
    });
}

// SAFETY: all memory comes from the system's allocator, unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: as our caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        let _ = USED.try_with(|used| used.set(used.get().saturating_sub(layout.size())));
        // SAFETY: as our caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// What `work` gives, and the most bytes that it had in use at once.
pub(crate) fn most<T>(work: impl FnOnce() -> T) -> (T, usize) {
    // Counted from far above nothing, so that what is freed here and was taken before does not count as less than nothing.
    const BASE: usize = 1 << 40;
    USED.set(BASE);
    MOST.set(BASE);
    let value = work();
    (value, MOST.get() - BASE)
}

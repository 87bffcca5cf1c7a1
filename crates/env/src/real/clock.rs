//! Time of a real machine.
//!
//! Monotonic time is `CLOCK_MONOTONIC`, which stands still while the machine sleeps: deadlines are about what a
//! running machine does, a machine that wakes up should not find all of them missed, and io_uring waits by the same
//! clock. What others wait for ends by `CLOCK_BOOTTIME`, which goes on then. Wall time is `CLOCK_REALTIME`.

use crate::clock::Clock;
use forebay_model::{Moment, Timestamp};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::cell::{Cell, RefCell};
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const NANOS: i64 = 1_000_000_000;

/// Monotonic time, on any thread.
pub fn now() -> Moment {
    moment(ClockId::Monotonic)
}

fn moment(clock: ClockId) -> Moment {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
    Moment((tv_sec * NANOS + tv_nsec) as u64)
}

/// Wall time, on any thread. It may jump either way.
pub fn wall() -> Timestamp {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Realtime);
    Timestamp(tv_sec.saturating_mul(NANOS).saturating_add(tv_nsec))
}

/// Holds this thread for `span`. Not for loops: those have [`Clock::sleep`].
pub fn pause(span: Duration) {
    std::thread::sleep(span);
}

/// The clock of a loop; the loop fires its timers.
#[derive(Clone, Default)]
pub struct RealClock {
    timers: Rc<RefCell<Timers>>,
}

#[derive(Default)]
struct Timers {
    heap: BinaryHeap<Entry>,
    /// Entries of the heap whose sleep was dropped.
    dropped: usize,
    next: u64,
}

struct Entry {
    at: Moment,
    /// Equal times fire in the order in which they were asked for.
    order: u64,
    timer: Rc<Timer>,
}

#[derive(Default)]
struct Timer {
    waker: Cell<Option<Waker>>,
    fired: Cell<bool>,
    dropped: Cell<bool>,
}

impl RealClock {
    /// When the earliest timer is due, if there is one.
    pub(super) fn next_due(&self) -> Option<Moment> {
        self.timers.borrow().heap.peek().map(|entry| entry.at)
    }

    #[cfg(test)]
    pub(super) fn timer_count(&self) -> usize {
        self.timers.borrow().heap.len()
    }

    /// Wakes all sleeps that are over.
    pub(super) fn fire(&self, now: Moment) {
        loop {
            let mut timers = self.timers.borrow_mut();
            if timers.heap.peek().is_none_or(|entry| entry.at > now) {
                return;
            }
            let timer = timers.heap.pop().map(|entry| entry.timer);
            if let Some(timer) = timer {
                timer.fired.set(true);
                if timer.dropped.get() {
                    timers.dropped -= 1;
                }
                drop(timers);
                if let Some(waker) = timer.waker.take() {
                    waker.wake();
                }
            }
        }
    }
}

impl Clock for RealClock {
    fn now(&self) -> Moment {
        now()
    }

    fn through_sleep(&self) -> Moment {
        moment(ClockId::Boottime)
    }

    fn wall(&self) -> Timestamp {
        wall()
    }

    fn sleep_until(&self, moment: Moment) -> Pin<Box<dyn Future<Output = ()>>> {
        if moment <= now() {
            return Box::pin(std::future::ready(()));
        }
        let mut timers = self.timers.borrow_mut();
        let timer = Rc::new(Timer::default());
        let order = timers.next;
        timers.next += 1;
        timers.heap.push(Entry { at: moment, order, timer: timer.clone() });
        Box::pin(Sleep { timer, timers: self.timers.clone() })
    }
}

struct Sleep {
    timer: Rc<Timer>,
    timers: Rc<RefCell<Timers>>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.timer.fired.get() {
            return Poll::Ready(());
        }
        self.timer.waker.set(Some(context.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if self.timer.fired.get() {
            return;
        }
        self.timer.dropped.set(true);
        // The waker may hold the last handle on a task, whose end may drop other sleeps: not under the borrow.
        drop(self.timer.waker.take());
        let mut timers = self.timers.borrow_mut();
        timers.dropped += 1;
        // Sleeps are often dropped (as limits on something faster): sweep when they are most of the heap.
        if timers.dropped > 64 && timers.dropped * 2 > timers.heap.len() {
            timers.heap.retain(|entry| !entry.timer.dropped.get());
            timers.dropped = 0;
        }
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// The earliest is the greatest, since a heap gives its greatest first.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

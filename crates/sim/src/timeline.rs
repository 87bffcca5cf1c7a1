//! Virtual time: the clock of a world, the heap of what happens when, and the running hash of what happened.
//!
//! Time moves only when the world takes the next event, so everything between two events happens at one moment.
//! Events of one moment happen in the order in which they were scheduled.

use forebay_env::{Clock, Random};
use forebay_model::{Moment, Timestamp};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::cell::{Cell, RefCell};
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The wall time at which every world starts: 2026-01-01T00:00:00Z.
const WALL_START: i64 = 1_767_225_600_000_000_000;

/// What is told when its time has come.
pub(crate) trait Handler {
    /// The event that was scheduled with `token` is due.
    fn fire(self: Rc<Self>, token: u64);
}

enum What {
    Timer(Rc<Timer>),
    Call(Rc<dyn Handler>, u64),
}

struct Event {
    at: u64,
    serial: u64,
    what: What,
}

impl PartialEq for Event {
    fn eq(&self, other: &Event) -> bool {
        self.serial == other.serial
    }
}
impl Eq for Event {}
impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Event) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Event {
    /// Reversed, since the heap gives its greatest first: the earliest event is the greatest.
    fn cmp(&self, other: &Event) -> std::cmp::Ordering {
        (other.at, other.serial).cmp(&(self.at, self.serial))
    }
}

/// Time, events and trace of one world.
pub(crate) struct Timeline {
    now: Cell<u64>,
    /// How far the last advance might have gone.
    limit: Cell<u64>,
    wall_offset: Cell<i64>,
    serial: Cell<u64>,
    events: RefCell<BinaryHeap<Event>>,
    trace: Cell<u64>,
    halted: Cell<bool>,
    random: RefCell<ChaCha8Rng>,
    secrets: RefCell<ChaCha8Rng>,
}

impl Timeline {
    pub(crate) fn new(seed: u64) -> Timeline {
        Timeline {
            now: Cell::new(0),
            limit: Cell::new(0),
            wall_offset: Cell::new(WALL_START),
            serial: Cell::new(0),
            events: RefCell::new(BinaryHeap::new()),
            trace: Cell::new(seed),
            halted: Cell::new(false),
            random: RefCell::new(ChaCha8Rng::seed_from_u64(seed)),
            secrets: RefCell::new(ChaCha8Rng::seed_from_u64(!seed)),
        }
    }

    /// Nanoseconds since the world began.
    pub(crate) fn nanos(&self) -> u64 {
        self.now.get()
    }

    /// Moves the wall clock, and only that, to `wall`.
    pub(crate) fn set_wall(&self, wall: Timestamp) {
        self.wall_offset.set(wall.0.saturating_sub_unsigned(self.now.get()));
    }

    /// Tells `handler` at `at`, or now if that has passed.
    pub(crate) fn call_at(&self, at: u64, handler: Rc<dyn Handler>, token: u64) {
        self.push(at, What::Call(handler, token));
    }

    fn push(&self, at: u64, what: What) {
        let serial = self.serial.get();
        self.serial.set(serial + 1);
        self.events.borrow_mut().push(Event { at: at.max(self.now.get()), serial, what });
    }

    /// Moves time to the next event that still matters, unless that is after `limit`, and lets it happen.
    /// False if there is none.
    pub(crate) fn advance(&self, limit: u64) -> bool {
        self.limit.set(limit);
        loop {
            let mut events = self.events.borrow_mut();
            let Some(next) = events.peek() else { return false };
            // A timer that nobody waits for must not move time.
            let forgotten = matches!(&next.what, What::Timer(timer) if Rc::strong_count(timer) == 1);
            if !forgotten && next.at > limit {
                return false;
            }
            let Some(event) = events.pop() else { return false };
            drop(events);
            if forgotten {
                continue;
            }
            self.now.set(event.at);
            match event.what {
                What::Timer(timer) => timer.fire(),
                What::Call(handler, token) => handler.fire(token),
            }
            return true;
        }
    }

    /// Lets time pass to `at`, before which nothing happens.
    pub(crate) fn pass_to(&self, at: u64) {
        self.now.set(self.now.get().max(at));
    }

    /// Whether whoever was told of an event may let time pass to `at` by itself: nothing comes before that, or with it.
    pub(crate) fn is_free_until(&self, at: u64) -> bool {
        at <= self.limit.get() && self.events.borrow().peek().is_none_or(|next| at < next.at)
    }

    /// Whether nothing is to come.
    pub(crate) fn is_empty(&self) -> bool {
        self.events.borrow().is_empty()
    }

    /// Forgets all that was to come. Handlers are released, which ends the circle of world, event and handler.
    pub(crate) fn clear(&self) {
        let events = std::mem::take(&mut *self.events.borrow_mut());
        drop(events);
    }

    /// Folds `words` into the trace.
    pub(crate) fn note(&self, words: &[u64]) {
        let mut trace = self.trace.get();
        for word in words {
            trace = (trace ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
        self.trace.set(trace);
    }

    /// The hash of everything noted so far.
    pub(crate) fn trace(&self) -> u64 {
        self.trace.get()
    }

    /// From now until [`Timeline::resume`] nothing that runs reaches the world, and a run stops where it is.
    pub(crate) fn halt(&self) {
        self.halted.set(true);
    }

    pub(crate) fn halted(&self) -> bool {
        self.halted.get()
    }

    pub(crate) fn resume(&self) {
        self.halted.set(false);
    }
}

struct Timer {
    due: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Timer {
    fn fire(&self) {
        self.due.set(true);
        let waker = self.waker.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The clock of a world: monotonic time is the virtual time, wall time is that plus an offset which tests may move.
pub(crate) struct SimClock {
    pub(crate) timeline: Rc<Timeline>,
}

impl Clock for SimClock {
    fn now(&self) -> Moment {
        Moment(self.timeline.nanos())
    }

    fn wall(&self) -> Timestamp {
        Timestamp(self.timeline.wall_offset.get().saturating_add_unsigned(self.timeline.nanos()))
    }

    fn sleep_until(&self, moment: Moment) -> Pin<Box<dyn Future<Output = ()>>> {
        let timer = Rc::new(Timer { due: Cell::new(moment.0 <= self.timeline.nanos()), waker: RefCell::new(None) });
        if !timer.due.get() {
            self.timeline.push(moment.0, What::Timer(timer.clone()));
        }
        Box::pin(Sleep { timer })
    }
}

struct Sleep {
    timer: Rc<Timer>,
}

impl Future for Sleep {
    type Output = ();
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.timer.due.get() {
            return Poll::Ready(());
        }
        *self.timer.waker.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    }
}

/// The chance of a world.
pub(crate) struct SimRandom {
    pub(crate) timeline: Rc<Timeline>,
}

impl Random for SimRandom {
    fn next_u64(&self) -> u64 {
        self.timeline.random.borrow_mut().next_u64()
    }

    fn secret(&self) -> u64 {
        self.timeline.secrets.borrow_mut().next_u64()
    }
}

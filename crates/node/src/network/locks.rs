//! Locks of parts of objects: held by connections, in the order in which they were asked for.
//!
//! Who loses a lock because its connection ended may not know, and goes on. So a lock keeps others out only since the file was
//! *fenced* after the last of its locks was lost: then whoever goes on is shut out by the version that it shows. A node that
//! was started does not know who held what before, so all locks of that time count as lost.
//!
//! A connection that holds a lock ends when others wait for that, and what allows it to its holder ran out a while ago: a client that
//! was stopped, or wants nothing but to be in the way, keeps nobody out for longer. Who writes shows what counts for longer again and again.
//!
//! Invariant: a part is in the table while somebody holds it or waits for it, and no longer.

use super::sessions::Doing;
use forebay_model::{ObjectId, TargetId, Timestamp};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

/// What is locked.
pub(super) type Part = (TargetId, ObjectId, u64);

/// Objects of which it is known since which version nobody has lost a lock; whatever is forgotten is fenced once more.
const MOST_KNOWN: usize = 64 << 10;

/// All locks of a node.
#[derive(Default)]
pub(super) struct Locks {
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    /// Who holds it comes first.
    queues: BTreeMap<Part, VecDeque<Place>>,
    /// The version that an object has to have for nobody to be left who lost one of its locks.
    fences: BTreeMap<(TargetId, ObjectId), u64>,
}

/// A place in a queue.
struct Place {
    number: u64,
    waker: Option<Waker>,
    until: Rc<Cell<Timestamp>>,
    /// The connection.
    doing: Rc<Doing>,
}

/// A lock that is held, or waited for. It is given back when this is dropped.
pub(super) struct Turn {
    locks: Rc<Locks>,
    part: Part,
    number: u64,
    /// Until when what was shown for it counts.
    until: Rc<Cell<Timestamp>>,
}

impl Locks {
    /// Asks for a lock over a connection, with what counts until then.
    pub(super) fn ask(self: &Rc<Self>, part: Part, until: Timestamp, doing: Rc<Doing>) -> Turn {
        let mut state = self.state.borrow_mut();
        state.next += 1;
        let number = state.next;
        let until = Rc::new(Cell::new(until));
        let place = Place { number, waker: None, until: until.clone(), doing };
        state.queues.entry(part).or_default().push_back(place);
        Turn { locks: self.clone(), part, number, until }
    }

    /// How long who has a lock may still keep others waiting, who has it for so long beyond what was shown.
    pub(super) fn left(&self, part: Part, beyond: Duration, now: Timestamp) -> Duration {
        let state = self.state.borrow();
        let first = state.queues.get(&part).and_then(VecDeque::front);
        first.map_or(Duration::ZERO, |first| first.until.get().after(beyond).since(now))
    }

    /// The connection ends of who has a lock, if it has kept others waiting for too long.
    pub(super) fn end_late(&self, part: Part, beyond: Duration, now: Timestamp) {
        let doing = {
            let state = self.state.borrow();
            let first = state.queues.get(&part).and_then(VecDeque::front);
            first.filter(|first| now >= first.until.get().after(beyond)).map(|first| first.doing.clone())
        };
        if let Some(doing) = doing {
            doing.end();
        }
    }
}

impl Turn {
    /// Waits until the lock is held.
    pub(super) async fn held(&self) {
        poll_fn(|context| {
            let mut state = self.locks.state.borrow_mut();
            let queue = state.queues.get_mut(&self.part).expect("a part is there while somebody waits for it");
            if queue.front().is_some_and(|first| first.number == self.number) {
                return Poll::Ready(());
            }
            if let Some(own) = queue.iter_mut().find(|place| place.number == self.number) {
                own.waker = Some(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    /// Something that counts until then was shown for what is locked.
    pub(super) fn shows(&self, target: TargetId, object: ObjectId, until: Timestamp) {
        if (self.part.0, self.part.1) == (target, object) {
            self.until.set(self.until.get().max(until));
        }
    }

    /// Whether what was shown for it counts no more.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        now >= self.until.get()
    }

    /// The version from which on the lock keeps everybody else out; the object's is `version` now, so whoever lost a lock
    /// of it has shown that at most.
    pub(super) fn fence(&self, version: u64) -> u64 {
        let (target, id, _) = self.part;
        let fences = &mut self.locks.state.borrow_mut().fences;
        if fences.len() >= MOST_KNOWN {
            fences.clear();
        }
        *fences.entry((target, id)).or_insert(version + 1)
    }

    /// The connection ended. If the lock was held, whoever is next has the file fenced.
    pub(super) fn desert(self) {
        let (target, id, _) = self.part;
        let mut state = self.locks.state.borrow_mut();
        let queue = state.queues.get(&self.part);
        let is_held = queue.and_then(VecDeque::front).is_some_and(|first| first.number == self.number);
        if is_held {
            state.fences.remove(&(target, id));
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.locks.state.borrow_mut();
        let Some(queue) = state.queues.get_mut(&self.part) else { return };
        // Whoever waits by it finds that it is over.
        let own = queue.iter_mut().find(|place| place.number == self.number);
        if let Some(waker) = own.and_then(|place| place.waker.take()) {
            waker.wake();
        }
        queue.retain(|place| place.number != self.number);
        match queue.front_mut() {
            Some(place) => {
                if let Some(waker) = place.waker.take() {
                    waker.wake();
                }
            }
            None => {
                state.queues.remove(&self.part);
            }
        }
    }
}

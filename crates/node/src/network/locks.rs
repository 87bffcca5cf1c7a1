//! Locks of parts of objects: held by connections, in the order in which they were asked for.
//!
//! Who loses a lock because its connection ended may not know, and goes on. So a lock keeps others out only since the file was
//! *fenced* after the last of its locks was lost: then whoever goes on is shut out by the version that it shows. A node that
//! was started does not know who held what before, so all locks of that time count as lost.
//!
//! Invariant: a part is in the table while somebody holds it or waits for it, and no longer.

use forebay_model::{ObjectId, TargetId};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

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
    queues: BTreeMap<Part, VecDeque<(u64, Option<Waker>)>>,
    /// The version that an object has to have for nobody to be left who lost one of its locks.
    fences: BTreeMap<(TargetId, ObjectId), u64>,
}

/// A lock that is held, or waited for. It is given back when this is dropped.
pub(super) struct Turn {
    locks: Rc<Locks>,
    part: Part,
    number: u64,
}

impl Locks {
    /// Asks for a lock.
    pub(super) fn ask(self: &Rc<Self>, part: Part) -> Turn {
        let mut state = self.state.borrow_mut();
        state.next += 1;
        let number = state.next;
        state.queues.entry(part).or_default().push_back((number, None));
        Turn { locks: self.clone(), part, number }
    }
}

impl Turn {
    /// Waits until the lock is held.
    pub(super) async fn held(&self) {
        poll_fn(|context| {
            let mut state = self.locks.state.borrow_mut();
            let queue = state.queues.get_mut(&self.part).expect("a part is there while somebody waits for it");
            if queue.front().is_some_and(|(first, _)| *first == self.number) {
                return Poll::Ready(());
            }
            if let Some((_, waker)) = queue.iter_mut().find(|(number, _)| *number == self.number) {
                *waker = Some(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
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
        let is_held = queue.and_then(VecDeque::front).is_some_and(|(first, _)| *first == self.number);
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
        let own = queue.iter_mut().find(|(number, _)| *number == self.number);
        if let Some(waker) = own.and_then(|(_, waker)| waker.take()) {
            waker.wake();
        }
        queue.retain(|(number, _)| *number != self.number);
        match queue.front_mut() {
            Some((_, waker)) => {
                if let Some(waker) = waker.take() {
                    waker.wake();
                }
            }
            None => {
                state.queues.remove(&self.part);
            }
        }
    }
}

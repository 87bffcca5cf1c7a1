//! Locks of parts of objects: held by connections, in the order in which they were asked for.
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

/// Objects whose deserters are remembered, before the numbers of all are raised instead.
const MOST_DESERTED: usize = 4096;

/// All locks of a node.
pub(super) struct Locks {
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    /// Who holds it comes first.
    queues: BTreeMap<Part, VecDeque<(u64, Option<Waker>)>>,
    /// How many connections ended while they held locks of an object, and of objects that are not remembered.
    deserted: BTreeMap<(TargetId, ObjectId), u64>,
    deserted_otherwise: u64,
}

/// A lock that is held, or waited for. It is given back when this is dropped.
pub(super) struct Turn {
    locks: Rc<Locks>,
    part: Part,
    number: u64,
}

impl Locks {
    /// Without any. Desertions are counted from `first` on, a number by chance: a node that was started again does not know
    /// who deserted what before, and must not say the same number as then.
    pub(super) fn new(first: u64) -> Locks {
        Locks { state: RefCell::new(State { deserted_otherwise: first >> 1, ..State::default() }) }
    }

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
    /// Waits until the lock is held; how often locks of this object were deserted.
    pub(super) async fn held(&self) -> u64 {
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
        let (target, id, _) = self.part;
        let state = self.locks.state.borrow();
        state.deserted_otherwise + state.deserted.get(&(target, id)).copied().unwrap_or(0)
    }

    /// The connection ended. If the lock was held, whoever is next learns of it.
    pub(super) fn desert(self) {
        let (target, id, _) = self.part;
        let mut state = self.locks.state.borrow_mut();
        let queue = state.queues.get(&self.part);
        let is_held = queue.and_then(VecDeque::front).is_some_and(|(first, _)| *first == self.number);
        if is_held {
            if state.deserted.len() >= MOST_DESERTED {
                let most = std::mem::take(&mut state.deserted).into_values().max().unwrap_or(0);
                state.deserted_otherwise += most;
            }
            *state.deserted.entry((target, id)).or_default() += 1;
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

//! Locks of parts of objects: held by connections, in the order in which they were asked for.
//!
//! Who loses a lock because its connection ended may not know, and goes on. So a lock keeps others out only since the file was
//! *fenced* after the last of its locks was lost: then whoever goes on is shut out by the version that it shows. A node that
//! was started does not know who held what before, so all locks of that time count as lost; but their holders showed their version
//! here while they had them, so what the file was fenced with since keeps them out. One that is given back with the word that
//! something which was asked under it may still come counts as lost, too.
//!
//! Who holds a lock and hangs, with its connection open, keeps others out until all that it has shown over that has run out: by then
//! it could change nothing here with it. Then its connection is ended for those who wait, and its locks are lost as with any other.
//!
//! Invariant: a part is in the table while somebody holds it or waits for it, and no longer.

use super::sessions::Doing;
use forebay_model::{Error, ObjectId, TargetId, Timestamp};
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
    queues: BTreeMap<Part, VecDeque<Asked>>,
    /// The version that an object has to have for nobody to be left who lost one of its locks; none if one was lost, and nobody got
    /// one since.
    fences: BTreeMap<(TargetId, ObjectId), Option<u64>>,
    /// Some of that was forgotten: of what is not there any lock may have been lost.
    has_forgotten: bool,
}

/// Who holds a lock or waits for it.
struct Asked {
    number: u64,
    waker: Option<Waker>,
    by: Holder,
}

/// A connection that holds locks.
#[derive(Clone)]
pub(super) struct Holder {
    doing: Rc<Doing>,
    came: Rc<Cell<u64>>,
}

/// A lock that is held, or waited for. It is given back when this is dropped.
pub(super) struct Turn {
    locks: Rc<Locks>,
    part: Part,
    number: u64,
}

impl Locks {
    /// Asks for a lock.
    pub(super) fn ask(self: &Rc<Self>, part: Part, by: Holder) -> Turn {
        let mut state = self.state.borrow_mut();
        state.next += 1;
        let number = state.next;
        state.queues.entry(part).or_default().push_back(Asked { number, waker: None, by });
        Turn { locks: self.clone(), part, number }
    }
}

impl State {
    /// What is known of the fence of an object; `raised` if nothing was.
    fn fence(&mut self, object: (TargetId, ObjectId), raised: Option<u64>) -> &mut Option<u64> {
        if self.fences.len() >= MOST_KNOWN && !self.fences.contains_key(&object) {
            self.fences.clear();
            self.has_forgotten = true;
        }
        self.fences.entry(object).or_insert(raised)
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
            if let Some(own) = queue.iter_mut().find(|asked| asked.number == self.number) {
                own.waker = Some(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    /// Who holds the lock that this waits for, and which turn that is.
    pub(super) fn holder(&self) -> Option<(u64, Holder)> {
        let state = self.locks.state.borrow();
        let first = state.queues.get(&self.part)?.front()?;
        Some((first.number, first.by.clone())).filter(|(number, _)| *number != self.number)
    }

    /// The version from which on the lock keeps everybody else out. The object's is `version` now, so whoever lost a lock of it has
    /// shown that at most; and less than `raised`, to which it was raised first since the node was started, whoever lost one before that.
    pub(super) fn fence(&self, version: u64, raised: Option<u64>) -> u64 {
        let (target, id, _) = self.part;
        let mut state = self.locks.state.borrow_mut();
        let raised = raised.filter(|_| !state.has_forgotten);
        *state.fence((target, id), raised).get_or_insert(version + 1)
    }

    /// The connection ended, or something that was asked under the lock may still come. If the lock was held, whoever is next has
    /// the file fenced.
    pub(super) fn desert(self) {
        let (target, id, _) = self.part;
        let mut state = self.locks.state.borrow_mut();
        let queue = state.queues.get(&self.part);
        let is_held = queue.and_then(VecDeque::front).is_some_and(|first| first.number == self.number);
        if is_held {
            *state.fence((target, id), None) = None;
        }
    }
}

impl Holder {
    /// A connection over which so many bytes `came`.
    pub(super) fn new(doing: Rc<Doing>, came: Rc<Cell<u64>>) -> Holder {
        Holder { doing, came }
    }

    /// Bytes that have come over it.
    pub(super) fn came(&self) -> u64 {
        self.came.get()
    }

    /// Ends the connection if all that was shown over it has run out. Nothing came over it for `silence`.
    pub(super) fn end_if_spent(&self, now: Timestamp, silence: Duration) {
        if self.doing.is_over(now) {
            self.doing.end(Error::stale(format!(
                "others wait for a lock that was held over this connection, over which nothing came for {silence:?} and nothing \
                 counts any more that was shown: the lock is lost; connect again"
            )));
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.locks.state.borrow_mut();
        let Some(queue) = state.queues.get_mut(&self.part) else { return };
        // Whoever waits by it finds that it is over.
        let own = queue.iter_mut().find(|asked| asked.number == self.number);
        if let Some(waker) = own.and_then(|own| own.waker.take()) {
            waker.wake();
        }
        queue.retain(|asked| asked.number != self.number);
        match queue.front_mut() {
            Some(next) => {
                if let Some(waker) = next.waker.take() {
                    waker.wake();
                }
            }
            None => {
                state.queues.remove(&self.part);
            }
        }
    }
}

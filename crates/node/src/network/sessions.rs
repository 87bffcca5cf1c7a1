//! The connections of a node by the nonces that it gave them, so that the next one of a client can have the one before ended.
//!
//! A client that lost its connection asks again over another one. What it asked before may still be on its way, and must not be
//! done after its repetition, nor after what came behind that. So nothing of a connection that was replaced is under way any
//! more when the next one is welcome; or, where the device of a target takes longer than a hello may wait, nothing that changes anything
//! of that target is begun over the next one until that is so, while all others serve.
//!
//! A connection ends, too, when the access key was revoked with which its client had what it showed last: queries and recorders
//! were let in once, and go on for long.

use forebay_model::{Error, Result, TargetId, Timestamp};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};

/// How many connections may come behind one of which something is still under way.
const MOST_BEHIND: usize = 1024;

/// What a node calls a connection.
pub(super) type Nonce = [u8; 16];

/// All connections, until the last request of each is done.
#[derive(Default)]
pub(super) struct Sessions {
    all: RefCell<BTreeMap<Nonce, Weak<Doing>>>,
}

/// What is under way of one connection.
pub(super) struct Doing {
    sessions: Rc<Sessions>,
    nonce: Nonce,
    /// How much for each target.
    under_way: RefCell<BTreeMap<TargetId, u64>>,
    /// The nearest one that was replaced before it and of which something was under way then.
    former: RefCell<Option<Rc<Doing>>>,
    /// Those of which this is the former: a client may name each of them as the one before, as long as something is under way here.
    behind: RefCell<Vec<Rc<Doing>>>,
    is_ended: Cell<bool>,
    /// Why the node ended it, which its client is told.
    why: RefCell<Option<Error>>,
    /// The client of the capability that was shown last, and until when that counts.
    shown: Cell<Option<(u64, Timestamp)>>,
    /// Until when anything counts that was shown.
    counts_until: Cell<Option<Timestamp>>,
    waiting: RefCell<Vec<Waker>>,
}

/// A request that is under way, until this is dropped.
pub(super) struct Begun {
    doing: Rc<Doing>,
    target: TargetId,
}

impl Sessions {
    /// A connection begins.
    pub(super) fn begin(self: &Rc<Self>, nonce: Nonce) -> Rc<Doing> {
        let doing = Rc::new(Doing {
            sessions: self.clone(),
            nonce,
            under_way: RefCell::default(),
            former: RefCell::default(),
            behind: RefCell::default(),
            is_ended: Cell::new(false),
            why: RefCell::default(),
            shown: Cell::new(None),
            counts_until: Cell::new(None),
            waiting: RefCell::default(),
        });
        self.all.borrow_mut().insert(nonce, Rc::downgrade(&doing));
        doing
    }

    /// Ends a connection, if there is one of this nonce: it, or one before it of which something is under way.
    pub(super) fn end(&self, nonce: Nonce) -> Option<Rc<Doing>> {
        let found = self.all.borrow().get(&nonce).and_then(Weak::upgrade)?;
        found.is_ended.set(true);
        found.wake();
        found.unfinished()
    }

    /// Ends the connections of clients that are out with what they showed last.
    pub(super) fn shut_out(&self, is_out: impl Fn(u64, Timestamp) -> bool) {
        let all: Vec<Rc<Doing>> = self.all.borrow().values().filter_map(Weak::upgrade).collect();
        for doing in all {
            if doing.shown.get().is_some_and(|(client, until)| is_out(client, until)) {
                doing.is_ended.set(true);
                doing.wake();
            }
        }
    }
}

impl Doing {
    /// What was shown is whose, and counts until then.
    pub(super) fn shows(&self, client: u64, until: Timestamp) {
        self.shown.set(Some((client, until)));
        self.counts_until.set(self.counts_until.get().max(Some(until)));
    }

    /// Something was shown, and nothing of that counts any more.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        self.counts_until.get().is_some_and(|until| until < now)
    }

    /// The node ends it, and says why.
    pub(super) fn end(&self, why: Error) {
        self.why.borrow_mut().get_or_insert(why);
        self.is_ended.set(true);
        self.wake();
    }

    /// Why the node ended it, if it did.
    pub(super) fn why(&self) -> Option<Error> {
        self.why.borrow().clone()
    }

    /// A request that changes something of a target begins, unless the connection was replaced, or something of one before it is
    /// under way there.
    pub(super) fn begin(self: &Rc<Self>, target: TargetId) -> Result<Begun> {
        if self.is_ended.get() {
            return Err(Error::disconnected("the client has another connection; ask over that one"));
        }
        let mut former = self.former.borrow().clone();
        while let Some(before) = former {
            if before.under_way.borrow().contains_key(&target) {
                return Err(Error::busy(format!(
                    "what was asked of target {target} over the connection before is not done yet: its device hangs, or is slow; ask again later"
                )));
            }
            former = before.former.borrow().clone();
        }
        *self.under_way.borrow_mut().entry(target).or_default() += 1;
        Ok(Begun { doing: self.clone(), target })
    }

    /// This or the nearest one before it of which something is under way.
    fn unfinished(self: &Rc<Self>) -> Option<Rc<Doing>> {
        let mut at = Some(self.clone());
        while let Some(doing) = at.take_if(|doing| doing.under_way.borrow().is_empty()) {
            at = doing.former.borrow().clone();
        }
        at
    }

    /// Waits until nothing of it is under way, nor of those before it.
    pub(super) async fn done(self: &Rc<Self>) {
        while let Some(doing) = self.unfinished() {
            doing.until(|doing| doing.under_way.borrow().is_empty()).await;
        }
    }

    /// It comes behind another one of which something is still under way.
    pub(super) fn follow(self: &Rc<Self>, former: &Rc<Doing>) -> Result<()> {
        let Some(former) = former.unfinished() else { return Ok(()) };
        if former.behind.borrow().len() >= MOST_BEHIND {
            return Err(Error::busy(
                "what was asked over the connection before is not done yet: a device hangs; connect again later",
            ));
        }
        former.behind.borrow_mut().push(self.clone());
        self.former.replace(Some(former));
        Ok(())
    }

    /// Waits until the connection is replaced, or ended.
    pub(super) async fn replaced(&self) {
        self.until(|doing| doing.is_ended.get()).await;
    }

    async fn until(&self, is_so: impl Fn(&Doing) -> bool) {
        poll_fn(|context| {
            if is_so(self) {
                return Poll::Ready(());
            }
            // A connection waits for this as long as it lasts, and is polled for each thing that happens on it: one wake-up is enough.
            let mut waiting = self.waiting.borrow_mut();
            if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                waiting.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    fn wake(&self) {
        self.waiting.take().into_iter().for_each(Waker::wake);
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let Begun { doing, target } = self;
        {
            let mut under_way = doing.under_way.borrow_mut();
            if let Some(count) = under_way.get_mut(target) {
                *count -= 1;
                if *count == 0 {
                    under_way.remove(target);
                }
            }
        }
        if doing.under_way.borrow().is_empty() {
            // Who came behind it comes behind what is left before it.
            let behind = doing.behind.take();
            if let Some(left) = doing.unfinished() {
                left.behind.borrow_mut().extend(behind);
            }
        }
        if doing.is_ended.get() {
            doing.wake();
        }
    }
}

impl Drop for Doing {
    fn drop(&mut self) {
        self.sessions.all.borrow_mut().remove(&self.nonce);
    }
}

#[cfg(test)]
mod tests;

//! The connections of a node by the nonces that it gave them, so that the next one of a client can have the one before ended.
//!
//! A client that lost its connection asks again over another one. What it asked before may still be on its way, and must not be
//! done after its repetition, nor after what came behind that. So nothing of a connection that was replaced is under way any
//! more when the next one is welcome.
//!
//! A connection ends, too, when the access key was revoked with which its client had what it showed last: queries and recorders
//! were let in once, and go on for long.

use forebay_model::Timestamp;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};

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
    count: Cell<u64>,
    is_ended: Cell<bool>,
    /// The client of the capability that was shown last, and until when that counts.
    shown: Cell<Option<(u64, Timestamp)>>,
    waiting: RefCell<Vec<Waker>>,
}

/// A request that is under way, until this is dropped.
pub(super) struct Begun(Rc<Doing>);

impl Sessions {
    /// A connection begins.
    pub(super) fn begin(self: &Rc<Self>, nonce: Nonce) -> Rc<Doing> {
        let doing = Rc::new(Doing {
            sessions: self.clone(),
            nonce,
            count: Cell::new(0),
            is_ended: Cell::new(false),
            shown: Cell::new(None),
            waiting: RefCell::default(),
        });
        self.all.borrow_mut().insert(nonce, Rc::downgrade(&doing));
        doing
    }

    /// Ends a connection, if there is one of this nonce, and waits until nothing of it is under way.
    pub(super) async fn end(&self, nonce: Nonce) {
        let found = self.all.borrow().get(&nonce).and_then(Weak::upgrade);
        if let Some(doing) = found {
            doing.is_ended.set(true);
            doing.wake();
            doing.until(|doing| doing.count.get() == 0).await;
        }
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
    }

    /// A request begins, unless the connection was replaced.
    pub(super) fn begin(self: &Rc<Self>) -> Option<Begun> {
        if self.is_ended.get() {
            return None;
        }
        self.count.set(self.count.get() + 1);
        Some(Begun(self.clone()))
    }

    /// Waits until the connection is replaced.
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
        self.0.count.set(self.0.count.get() - 1);
        if self.0.is_ended.get() {
            self.0.wake();
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

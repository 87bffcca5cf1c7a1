//! Requests for locks over one connection ([`super::locks`] has those of all).

use super::Node;
use super::locks::Turn;
use super::session::{OVERHEAD, Parts, Session, parts};
use crate::service::Fenced;
use forebay_env::race::{First, race};
use forebay_model::{Error, Result};
use forebay_wire::Head;
use forebay_wire::RequestId;
use forebay_wire::capability::{Nonces, Rights};
use forebay_wire::lock::{Lock, Locked, Unlock};
use forebay_wire::object::About;
use forebay_wire::pieces::Pieces;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

/// Locks that a connection holds or waits for.
const MOST_LOCKS: usize = 1024;
/// So often within patience it is looked whether who holds a lock that others wait for is there.
const LOOKS: u32 = 4;

impl Session {
    /// Takes a lock in; a malformed one ends the connection.
    pub(super) fn lock(&mut self, head: &Head, nonces: &Nonces) -> Result<Result<()>> {
        let parts = parts(head, self.source.body())?;
        let lock = forebay_wire::read_body(parts.body)?;
        Ok(self.lock_read(head, nonces, &parts, lock))
    }

    fn lock_read(&self, head: &Head, nonces: &Nonces, parts: &Parts<'_>, lock: Lock) -> Result<()> {
        let Lock { target, id, part } = lock;
        let about = About { object: id, rights: Rights::WRITE, bytes: 0..0 };
        let version = self.check(head, nonces, parts, target, about)?.version;
        let fenced = Fenced { object: id, version };
        let handle = self.node.door(target)?.handle;
        if self.locks.borrow().len() >= MOST_LOCKS {
            return Err(Error::busy(format!(
                "{MOST_LOCKS} locks of this connection are held or waited for, and more are not given; give some back"
            )));
        }
        let turn = self.node.locks.ask((target, id, part), self.holder.clone());
        let (answers, locks, request) = (self.answers.clone(), self.locks.clone(), head.request);
        let (small, node) = (self.small.clone(), self.node.clone());
        locks.borrow_mut().insert(request, turn);
        self.node.env.spawner.detach(async move {
            let answer = async {
                held_in_time(&node, &locks, request).await?;
                // Whoever held it last may have been shut out since this was asked.
                let raised = handle.lock(fenced).await?;
                let locks = locks.borrow();
                let turn = locks.get(&request).ok_or_else(given_back)?;
                Ok(Locked { fence: turn.fence(version, raised) })
            };
            let answer = answer.await;
            let room = small.take(OVERHEAD).await;
            match answer {
                Ok(locked) => {
                    let body = forebay_wire::write_body(&locked);
                    answers.answer(request, body.map(|body| (body, Pieces::default())), Rc::new(room));
                }
                Err(error) => {
                    locks.borrow_mut().remove(&request);
                    node.keys.count(&error);
                    answers.refuse(request, &error, Some(Rc::new(room)));
                }
            }
        });
        Ok(())
    }

    pub(super) fn unlock(&mut self, head: &Head) -> Result<Result<()>> {
        let Unlock { request, deserted } = self.source.decode()?;
        let Some(held) = self.locks.borrow_mut().remove(&RequestId(request)) else {
            return Ok(Err(Error::missing(format!("request {request} of this connection holds no lock"))));
        };
        match deserted {
            true => held.desert(),
            false => drop(held),
        }
        self.answer_nothing(head.request);
        Ok(Ok(()))
    }
}

/// Waits until a lock of a connection is held. Who holds it meanwhile and hangs loses its connection: one over which nothing came for as
/// long as patience lasts, once all that was shown over it has run out.
async fn held_in_time(node: &Node, locks: &RefCell<BTreeMap<RequestId, Turn>>, request: RequestId) -> Result<()> {
    let (patience, mut before, mut silent) = (node.bounds.patience, None, 0);
    loop {
        // In parts, of which each counts once: the machine itself may have stopped meanwhile, and what has come is not read yet.
        if let First::Left(held) = race(held(locks, request), node.env.clock.sleep(patience / LOOKS)).await {
            return held;
        }
        let holder = locks.borrow().get(&request).and_then(Turn::holder);
        let seen = holder.as_ref().map(|(turn, holder)| (*turn, holder.came()));
        silent = if seen == before { silent + 1 } else { 0 };
        before = seen;
        if let Some((_, holder)) = holder.filter(|_| silent >= LOOKS) {
            holder.end_if_spent(node.env.clock.wall(), patience);
        }
    }
}

/// Waits until a lock of a connection is held. It may be given back while it is waited for.
async fn held(locks: &RefCell<BTreeMap<RequestId, Turn>>, request: RequestId) -> Result<()> {
    poll_fn(|context| match locks.borrow().get(&request) {
        Some(turn) => pin!(turn.held()).poll(context).map(Ok),
        None => Poll::Ready(Err(given_back())),
    })
    .await
}

fn given_back() -> Error {
    Error::usage("the lock was given back before it was held")
}

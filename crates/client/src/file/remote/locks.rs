//! Locks of stripes, and what makes sure of them.
//!
//! A lock belongs to a connection, and ends with it at the node; the client may learn of that later than the next one has it.
//! So a node that does not know that nobody lost a lock of a component says from which version of the file on it keeps others
//! out. Whoever got the lock then has the manager raise the file's version, and shows the new one to each component: from then
//! on nobody else changes anything with what was given out before. Who is shut out renews, and makes sure that its locks are
//! still held before it changes anything with the new version: it shows that over each lock's own connection, to the object that
//! is locked; a node that answers there still holds the lock, and whoever gets it next needs a version that is newer still. Who
//! has lost one changes nothing more until it has given that back.

use super::super::components::Lock;
use super::super::together::to_its_end;
use super::Shared;
use super::asking::{Answered, of_manager};
use crate::nodes::Request;
use forebay_model::layout::address::StripeId;
use forebay_model::{Error, Kind, Result};
use forebay_wire::Command;
use forebay_wire::control::Change;
use forebay_wire::control::files::Fence;
use forebay_wire::link::Link;
use forebay_wire::lock;
use forebay_wire::object::{Ask, ObjectRequest};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The locks of an open file that this client holds. Clones are the same ones.
#[derive(Clone, Default)]
pub(super) struct Held {
    all: Rc<RefCell<BTreeMap<u64, One>>>,
    next: Rc<Cell<u64>>,
}

struct One {
    link: Link,
    component: u32,
    stripe: StripeId,
    /// It was held at some time after this version was the file's.
    sure: u64,
    is_lost: bool,
}

/// A lock, given back when this is dropped.
struct Guard {
    held: Held,
    number: u64,
    request: u64,
}

impl Held {
    fn add(&self, link: Link, request: u64, (component, stripe): (u32, StripeId), version: u64) -> Guard {
        let number = self.next.get();
        self.next.set(number + 1);
        self.all.borrow_mut().insert(number, One { link, component, stripe, sure: version, is_lost: false });
        Guard { held: self.clone(), number, request }
    }

    /// Some of them keep nobody out any more.
    pub(super) fn lose(&self, is_over: impl Fn(u32, StripeId) -> bool) {
        for one in self.all.borrow_mut().values_mut() {
            one.is_lost |= is_over(one.component, one.stripe);
        }
    }

    /// Whether this client may go on, as far as is known.
    pub(super) fn are_kept(&self) -> Result<()> {
        match self.all.borrow().values().any(|one| one.is_lost) {
            // No component is lost by that.
            true => Err(Error::refused(
                "a stripe of the file was locked where it is not any more, or over a connection that was lost, and somebody else \
                 may have it now: what was being written was not acknowledged; write it again",
            )),
            false => Ok(()),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let Some(one) = self.held.all.borrow_mut().remove(&self.number) else { return };
        let Ok(body) = forebay_wire::write_body(&lock::Unlock { request: self.request }) else { return };
        let asked = forebay_wire::link::Asked {
            command: Command::UNLOCK,
            body: &body,
            payload: Vec::new(),
            most: 0,
            shown: None,
        };
        // Over a connection that ended nothing is held.
        drop(one.link.ask(asked));
    }
}

impl Shared {
    /// Makes sure that all locks were held when the file had this version already, and that the nodes that gave them know of it:
    /// whoever gets one after this client then needs a newer one.
    pub(super) async fn confirm(self: &Rc<Self>, version: u64) -> Result<()> {
        loop {
            let doubtful = {
                let all = self.locks.all.borrow();
                // What is absent has no locks to make sure of.
                let is_there = |one: &One| self.way(one.component).is_ok();
                let doubtful = all.iter().find(|(_, one)| !one.is_lost && one.sure < version && is_there(one));
                doubtful.map(|(number, one)| (*number, one.link.clone(), one.component))
            };
            let Some((number, link, component)) = doubtful else { return Ok(()) };
            let (target, object, shown) = self.way(component)?;
            let request = ObjectRequest::new(target, Ask::Stat { id: object, page: None });
            let body = request.body()?;
            let asked = forebay_wire::link::Asked {
                command: request.command(),
                body: &body,
                payload: Vec::new(),
                most: 0,
                shown: Some(&shown),
            };
            let answered = match link.ask(asked) {
                Ok(coming) => coming.await,
                Err(error) => Err(error),
            };
            let is_held = match answered {
                Ok(_) => true,
                // What is not there yet is locked all the same.
                Err(error) if error.kind == Kind::Missing => true,
                Err(error) if matches!(error.kind, Kind::Stale | Kind::Busy) && link.ended().is_none() => {
                    return Err(error);
                }
                // It is not sure, and what is asked of another component has nothing to do with it.
                Err(_) => false,
            };
            // It may have been given back meanwhile.
            match self.locks.all.borrow_mut().get_mut(&number) {
                Some(one) if is_held => one.sure = one.sure.max(version),
                Some(one) => one.is_lost = true,
                None => {}
            }
        }
    }

    /// Waits for the lock of a stripe, and looks what was left of it.
    pub(super) async fn lock(self: &Rc<Self>, component: u32, StripeId(part): StripeId) -> Result<Lock> {
        let made = move |target, id| {
            let body = forebay_wire::write_body(&lock::Lock { target, id, part })?;
            Ok(Request { command: Command::LOCK, body, payload: Vec::new(), most: 0 })
        };
        let this = self.clone();
        // A lock that comes when nobody waits for it any more is given back.
        let locked = to_its_end(&self.nodes.env().spawner, async move {
            let Answered { answer, request, link, version, .. } = this.ask_by(component, false, made).await?;
            let guard = this.locks.add(link, request.0, (component, StripeId(part)), version);
            let lock::Locked { fence } = forebay_wire::read_body(&answer.body)?;
            Ok((guard, version, fence))
        });
        let (guard, version, fence) = self.unless_silent(component, locked).await?;
        if fence > version {
            self.fence(fence).await?;
        }
        // Only who holds the lock has an intent for this stripe under way, and that is this client from now on: whatever is
        // there was not ended, by somebody who died, or by a write that failed.
        let left = self.unsettled(component, Some(StripeId(part))).await?;
        Ok(Lock { guard: Box::new(guard), left })
    }

    /// Shuts everybody out who may have lost a lock, or be gone.
    pub(super) async fn fence(self: &Rc<Self>, version: u64) -> Result<()> {
        let file = self.grant.borrow().entry.file;
        let fenced = self.control.change(Change::Fence(Fence { file, version })).await;
        fenced.map_err(|error| of_manager(file, error))?;
        if self.version() < version {
            self.renew().await?;
        }
        self.show().await?;
        match self.version() >= version {
            true => Ok(()),
            false => {
                Err(Error::stale(format!("the manager does not know of version {version} of the file; open it again")))
            }
        }
    }
}

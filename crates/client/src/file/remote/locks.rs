//! Locks of stripes, and what makes sure of them.
//!
//! A lock belongs to a connection, and ends with it at the node; the client may learn of that later than the next one has it.
//! So a node that does not know that nobody lost a lock of a component says from which version of the file on it keeps others
//! out. Whoever got the lock then has the manager raise the file's version, and shows the new one to each component: from then
//! on nobody else changes anything with what was given out before; and so does whoever got it with a version that is new enough, for
//! whoever raised that may still be about to. Who is shut out renews, and makes sure that its locks are
//! still held before it changes anything with the new version: it shows that over each lock's own connection, to the object that
//! is locked; a node that answers there still holds the lock, and whoever gets it next needs a version that is newer still. Who
//! has lost one changes nothing more until it has given that back.
//!
//! What was asked under a lock may still come after that was given back, if the connection ended over which it was asked. So such
//! a lock is given back as *deserted*, and whoever gets it next has the file fenced; unless the component was given up, which
//! nobody reads before it is emptied with a newer version. And whoever finds with a lock what somebody else began and did not end
//! has the file fenced before ending it, for whatever reason that was left.

use super::super::components::{Absence, Intent, IntentId, Lock};
use super::super::together::to_its_end;
use super::Shared;
use super::asking::{Answered, of_manager};
use crate::nodes::{PATIENCE, Request};
use forebay_env::together::all;
use forebay_env::{Clock, Spawner};
use forebay_model::layout::address::StripeId;
use forebay_model::{Error, Kind, Result};
use forebay_wire::Command;
use forebay_wire::control::Change;
use forebay_wire::control::files::Fence;
use forebay_wire::link::Link;
use forebay_wire::lock;
use forebay_wire::object::{Ask, ObjectRequest};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// So many versions after what was left was noted, another one may lie in its place: whoever empties a component raises it twice.
const EMPTIED: u64 = 2;

/// Since which version everybody was shut out who had begun something, and what that was, each with its component.
type ShutOut = (u64, BTreeSet<(u32, IntentId)>);

/// The locks of an open file that this client holds. Clones are the same ones.
#[derive(Clone, Default)]
pub(super) struct Held {
    all: Rc<RefCell<BTreeMap<u64, One>>>,
    next: Rc<Cell<u64>>,
    /// Somebody says from time to time that this client is there.
    is_kept: Rc<Cell<bool>>,
    /// What was left when everybody was shut out who had begun it, and the version of the file since then: one fence is enough for
    /// all that one left who is gone.
    shut_out: Rc<RefCell<ShutOut>>,
}

struct One {
    link: Link,
    component: u32,
    stripe: StripeId,
    /// It was held at some time after this version was the file's.
    sure: u64,
    is_lost: bool,
    /// Components that may still change by something that was asked since it is held.
    doubted: BTreeSet<u32>,
    /// How often each component was left when it was locked.
    left: BTreeMap<u32, u64>,
}

/// A lock, given back when this is dropped.
struct Guard {
    shared: Rc<Shared>,
    number: u64,
    request: u64,
}

impl Held {
    fn add(&self, one: One) -> u64 {
        let number = self.next.get();
        self.next.set(number + 1);
        self.all.borrow_mut().insert(number, one);
        number
    }

    /// Says from time to time that this client is there, as long as it holds locks: who holds one, waits long for something else, and
    /// says nothing would lose it to whoever waits for it.
    fn keep(&self, spawner: &Spawner, clock: Rc<dyn Clock>) {
        if self.is_kept.replace(true) {
            return;
        }
        let held = self.clone();
        spawner.detach(async move {
            loop {
                clock.sleep(PATIENCE).await;
                let all: BTreeMap<u32, Link> =
                    held.all.borrow().values().map(|one| (one.component, one.link.clone())).collect();
                if all.is_empty() {
                    return held.is_kept.set(false);
                }
                // An answer is nothing that anybody waits for.
                all.values().for_each(|link| drop(link.ping()));
            }
        });
    }

    /// Something was asked of a component that may still come, now that nobody waits for it.
    pub(super) fn doubt(&self, component: u32) {
        for one in self.all.borrow_mut().values_mut() {
            one.doubted.insert(component);
        }
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
        let Some(one) = self.shared.locks.all.borrow_mut().remove(&self.number) else { return };
        let unlock = lock::Unlock { request: self.request, deserted: self.shared.is_deserted(&one) };
        let Ok(body) = forebay_wire::write_body(&unlock) else { return };
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
            let left = this.left.borrow().clone();
            let (stripe, doubted) = (StripeId(part), BTreeSet::new());
            let one = One { link, component, stripe, sure: version, is_lost: false, doubted, left };
            let guard = Guard { shared: this.clone(), number: this.locks.add(one), request: request.0 };
            this.locks.keep(&this.nodes.env().spawner, this.nodes.env().clock.clone());
            let lock::Locked { fence } = forebay_wire::read_body(&answer.body)?;
            Ok((guard, version, fence))
        });
        let (guard, version, fence) = self.unless_silent(component, locked).await?;
        let is_fenced = fence > version;
        if is_fenced {
            self.fence(fence).await?;
        } else if version > self.shown.get() {
            // Who had it raised may not have come that far. A target without room for it keeps others out as long as it is served.
            match self.show().await {
                Err(error) if error.kind != Kind::Full => return Err(error),
                _ => {}
            }
        }
        // Only who holds the lock has an intent for this stripe under way, and that is this client from now on: whatever is
        // there was not ended, by somebody who died, or by a write that failed.
        let mut left = self.unsettled(component, Some(StripeId(part))).await?;
        if !is_fenced && self.may_come(component, &left) {
            self.shut_out_who_began(version + 1).await?;
            left = self.unsettled(component, Some(StripeId(part))).await?;
        }
        Ok(Lock { guard: Box::new(guard), left })
    }

    /// Whether something may still change a component that was asked while this lock was held. One that was given up may change.
    fn is_deserted(&self, one: &One) -> bool {
        let (absent, left) = (self.absent(), self.left.borrow());
        let was_left = left.iter().filter(|(component, count)| one.left.get(*component) != Some(*count));
        let mut doubted = one.doubted.iter().chain(was_left.map(|(component, _)| component));
        doubted.any(|component| !absent.contains(&(*component, Absence::Missed)))
    }

    /// Whether somebody who may not have been shut out began some of this: what that had asked may come when it is ended.
    fn may_come(&self, component: u32, left: &[(IntentId, Intent)]) -> bool {
        let (own, shut_out) = (self.own.borrow(), self.locks.shut_out.borrow());
        let (since, those) = &*shut_out;
        let counts = self.version() < since.saturating_add(EMPTIED);
        let is_harmless = |of: &(u32, IntentId)| own.contains_key(of) || counts && those.contains(of);
        left.iter().any(|(id, _)| !is_harmless(&(component, *id)))
    }

    /// Shuts everybody out who began what is left by now, of any stripe: who fences the file for each of them has others lose their locks,
    /// who see too many versions go by.
    async fn shut_out_who_began(self: &Rc<Self>, version: u64) -> Result<()> {
        let components = 0..self.grant.borrow().striping.components();
        let looked = all(components.map(|component| async move {
            // Whoever comes across what cannot be looked at now shuts out once more.
            let found = self.unsettled(component, None).await.unwrap_or_default();
            found.into_iter().map(|(id, _)| (component, id)).collect::<Vec<_>>()
        }));
        let those = looked.await.into_iter().flatten().collect();
        // What was found may have been begun with the version that there is by now.
        let version = version.max(self.version() + 1);
        self.fence(version).await?;
        *self.locks.shut_out.borrow_mut() = (self.version(), those);
        Ok(())
    }

    /// Shuts everybody out who may have lost a lock, or be gone.
    pub(super) async fn fence(self: &Rc<Self>, version: u64) -> Result<()> {
        // One does it for all who want it at the same time.
        let _turn = self.fencing.take(1).await;
        if self.shown.get() >= version {
            return Ok(());
        }
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

#[cfg(test)]
mod tests;

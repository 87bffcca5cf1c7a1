//! Components that lack something: what the manager says of each with every grant, and giving up, emptying and filling them.
//!
//! A grant is of one version of the file, and each change of what is absent raises that. Whoever raised it shows the new one to
//! all components that are left, so that whoever has an older grant renews before it changes anything; who only reads is waited
//! for ([`GivenUp`]). A lock that lay at a component that is absent now keeps nobody out of what that had: nothing of the
//! stripe may be lost any more, and so nothing is made of the parity. But who held the end of the file there has lost it; and
//! so has who locks behind a component that is written again, where others ask first now: locks and intents lie at one that is
//! being filled as at one that is whole, so that what was begun while it was filled is found there afterwards.

use super::super::END;
use super::super::components::{Absence, is_lost_or_damaged};
use super::Shared;
use super::asking::of_manager;
use forebay_env::together::all;
use forebay_model::layout::Striping;
use forebay_model::layout::address::StripeId;
use forebay_model::{Error, Kind, ObjectId, Result};
use forebay_wire::capability::{LONGEST_LIFE, SKEW};
use forebay_wire::control::files::{Component, ComponentState, GiveUp, GivenUp, Grant, Rebuilt, Refill};
use forebay_wire::control::names::FileId;
use forebay_wire::control::{Change, Question};
use forebay_wire::object::{Ask, companion};
use std::rc::Rc;
use std::time::Duration;

/// Versions from when a component is given up until it may be whole again.
const CYCLE: u64 = 4;
/// Versions in which what was being filled is emptied and filled anew.
const REFILL: u64 = 2;
/// How often something is asked again because somebody else raised the version meanwhile.
const TRIES: usize = 16;
/// How long between two questions whether somebody may still be answered by what was given up.
const PAUSE: Duration = Duration::from_millis(200);

impl Shared {
    /// What is known of the components without asking.
    pub(super) fn absent(&self) -> Vec<(u32, Absence)> {
        absent(&self.grant.borrow().components)
    }

    fn state(&self, component: u32) -> Option<ComponentState> {
        self.grant.borrow().components.get(component as usize).map(|component| component.state)
    }

    /// [`Kind::Stale`] if a component is written and not read: this client's engine may not have heard of that yet.
    pub(super) fn is_read(&self, component: u32) -> Result<()> {
        match self.state(component) {
            Some(ComponentState::Filling) => {
                Err(Error::stale(format!("component {component} of {} is being rebuilt", self.file())))
            }
            _ => Ok(()),
        }
    }

    /// Whether a component lacks nothing, as far as is known.
    pub(super) fn is_whole(&self, component: u32) -> bool {
        self.state(component).is_none_or(|state| state == ComponentState::Whole)
    }

    pub(super) fn file(&self) -> FileId {
        self.grant.borrow().entry.file
    }

    /// Gives components up. When this is answered, it is durable, and nobody is answered by them any more.
    pub(super) async fn give_up(self: &Rc<Self>, components: Vec<u32>) -> Result<()> {
        let is_known = |this: &Self| {
            let absent = this.absent();
            components.iter().all(|component| absent.contains(&(*component, Absence::Missed)))
        };
        let file = self.file();
        if !is_known(self) {
            let made = |version| Change::GiveUp(GiveUp { file, components: components.clone(), version });
            self.raise(made, || is_known(self)).await?;
        }
        self.nobody_is_answered().await
    }

    /// Waits until nobody is answered any more by what this client does without, or what lies elsewhere by now, whoever gave it
    /// up or copied it. Nothing is acknowledged before.
    pub(super) async fn nobody_is_answered(self: &Rc<Self>) -> Result<()> {
        let is_sure = || self.certain.get() >= self.version();
        if !self.grant.borrow().write || is_sure() {
            return Ok(());
        }
        // One asks for all.
        let _turn = self.asking.take(1).await;
        if is_sure() {
            return Ok(());
        }
        // For as long as a grant counts, by any clock.
        let end = self.nodes.env().clock.now() + LONGEST_LIFE + 2 * SKEW;
        loop {
            let version = self.version();
            let asked = Question::GivenUp(GivenUp { file: self.file(), version });
            match self.control.ask(asked).await {
                Err(error) if error.kind == Kind::Busy && self.nodes.env().clock.now() < end => {
                    self.nodes.env().clock.sleep(PAUSE).await;
                }
                // Somebody gave up more since, and this client counts among those who may not know of it until it has said so.
                Err(error) if error.kind == Kind::Stale && self.nodes.env().clock.now() < end => {
                    self.renew().await?;
                    if self.version() == version {
                        return Err(error);
                    }
                }
                answer => {
                    answer.map_err(|error| of_manager(self.file(), error))?;
                    self.certain.set(self.certain.get().max(version));
                    return Ok(());
                }
            }
        }
    }

    /// Has a component emptied by this client, and written by all from then on.
    pub(super) async fn refill(self: &Rc<Self>, component: u32) -> Result<()> {
        let file = self.file();
        let made = |emptied| move |version| Change::Refill(Refill { file, component, version, emptied });
        self.raise(made(false), || false).await?;
        // Whoever had an older grant for it is shut out by this as well.
        for id in [|object: ObjectId| object, companion] {
            let empty = move |object| Ask::Truncate { id: id(object), size: 0 };
            match self.ask(component, empty, Vec::new()).await {
                Err(error) if error.kind != Kind::Missing => return Err(error),
                _ => {}
            }
        }
        // It says how long the file is when it is whole.
        self.said.set(None);
        self.raise(made(true), || false).await
    }

    /// A component that this client filled has everything.
    pub(super) async fn filled(self: &Rc<Self>, component: u32) -> Result<()> {
        let file = self.file();
        self.raise(|version| Change::Rebuilt(Rebuilt { file, component, version }), || false).await
    }

    /// Has the manager change what is absent, and shows the new version to all that is left; unless somebody else did it.
    async fn raise(self: &Rc<Self>, made: impl Fn(u64) -> Change, is_done: impl Fn() -> bool) -> Result<()> {
        let file = self.file();
        for _ in 0..TRIES {
            let version = self.version();
            // If it was this client that had to stop, they have missed nothing.
            let sure = self.confirm(version).await;
            self.locks.are_kept()?;
            let changed = match sure {
                Ok(()) => self.control.change(made(version)).await,
                Err(error) => Err(error),
            };
            match changed {
                Err(error) if error.kind == Kind::Stale => {
                    self.renew().await?;
                    if is_done() {
                        return Ok(());
                    }
                    if self.version() == version {
                        return Err(error);
                    }
                }
                answer => {
                    answer.map_err(|error| of_manager(file, error))?;
                    self.renew_in_any_case().await?;
                    return self.show().await;
                }
            }
        }
        Err(Error::busy(format!("others changed {} again and again meanwhile; ask again", self.file())))
    }

    /// Shows the newest version to each component: from then on nobody changes it who has an older one.
    pub(super) async fn show(self: &Rc<Self>) -> Result<()> {
        let version = self.version();
        let components = 0..self.grant.borrow().striping.components();
        let shown = all(components.map(|component| {
            let stat = |id| Ask::Stat { id, page: None };
            self.ask(component, stat, Vec::new())
        }));
        for answer in shown.await {
            match answer {
                // What is not there takes nothing in, and what it missed is done again when it is.
                Err(error) if !is_lost_or_damaged(&error) => return Err(error),
                _ => {}
            }
        }
        self.shown.set(self.shown.get().max(version));
        Ok(())
    }

    /// What is remembered of components that are others now is forgotten, and so are locks that keep nobody out any more.
    pub(super) fn heed(self: &Rc<Self>, before: &Grant) {
        let grant = self.grant.borrow();
        let versions = grant.entry.attributes.version - before.entry.attributes.version;
        // Between these two grants something may have been given up, emptied, and be whole again by now.
        let was_filled = before.components.iter().any(|old| old.state == ComponentState::Filling);
        let is_hidden = versions >= CYCLE || versions >= REFILL && was_filled;
        for (component, (now, old)) in (0..).zip(grant.components.iter().zip(&before.components)) {
            if is_hidden {
                self.made.borrow_mut().remove(&component);
                self.seen.borrow_mut().remove(&component);
            }
            if (now.target, now.state) == (old.target, old.state) || now.state == ComponentState::Missed {
                continue;
            }
            self.made.borrow_mut().remove(&component);
            self.epochs.borrow_mut().remove(&component);
            self.seen.borrow_mut().remove(&component);
            self.own.borrow_mut().retain(|(of, _), _| *of != component);
            self.perhaps_twice.borrow_mut().retain(|(of, _)| *of != component);
            self.others.borrow_mut().remove(&component);
        }
        if absent(&grant.components) != absent(&before.components) {
            // Whoever waits for that is told that this client uses nothing older any more.
            let this = self.clone();
            self.nodes.env().spawner.detach(async move { drop(this.renew().await) });
        }
        let state = |component: u32| grant.components.get(component as usize).map(|component| component.state);
        // What is being done under a lock is done without those that were given up when it was begun, and with those that were
        // whole: of what is written from now on, or begins anew, that is not enough.
        let changed = (0..).zip(grant.components.iter().zip(&before.components)).filter(|(_, (now, old))| {
            let is_written = matches!(now.state, ComponentState::Whole | ComponentState::Filling);
            now.state != old.state && is_written && old.state != ComponentState::Filling
        });
        let changed: Vec<u32> = changed.map(|(component, _)| component).collect();
        self.locks.lose(|component, stripe| {
            let family = grant.striping.family(component);
            let is_other = stripe != END && changed.iter().any(|one| family.contains(one));
            is_hidden || is_other || is_over(&grant.striping, component, stripe, state)
        });
    }
}

/// Those that are not whole, as an engine sees them.
fn absent(components: &[Component]) -> Vec<(u32, Absence)> {
    let found = (0..).zip(components).filter_map(|(nth, component)| match component.state {
        ComponentState::Whole => None,
        ComponentState::Missed | ComponentState::Emptying => Some((nth, Absence::Missed)),
        ComponentState::Filling => Some((nth, Absence::Filling)),
    });
    found.collect()
}

/// Whether a lock that a client has at a component keeps nobody out any more, who would have to be kept out.
fn is_over(
    striping: &Striping,
    component: u32,
    stripe: StripeId,
    state: impl Fn(u32) -> Option<ComponentState>,
) -> bool {
    if stripe == END {
        return (0..striping.components()).find(|one| state(*one) == Some(ComponentState::Whole)) != Some(component);
    }
    let is_asked = |one: u32| matches!(state(one), Some(ComponentState::Whole | ComponentState::Filling));
    match state(component) {
        // Of three copies or more all are locked: whoever asks a copy that came back waits at the next one.
        Some(ComponentState::Whole | ComponentState::Filling) => {
            let first = || striping.holders(component, stripe).into_iter().find(|one| is_asked(*one));
            striping.raid().copies() <= 2 && first() != Some(component)
        }
        Some(ComponentState::Missed) => false,
        // What it had is made of the others, who are locked elsewhere.
        _ => true,
    }
}

#[cfg(test)]
mod tests;

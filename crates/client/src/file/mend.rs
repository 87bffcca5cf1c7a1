//! Bytes of components, wherever they can still be had: from a component itself, from its copies, or from all others of
//! its parity group, which lie at the same place in each of them; and stripes that somebody began to change and did not
//! end.
//!
//! What is damaged is written again, in the same request that found it. Of what cannot be had, exactly that is said: to
//! [`GRAIN`] where bytes are damaged. While others may write, what is made of several components is made under the lock
//! of its stripe; by who only reads, of what nobody changed meanwhile.

use super::components::{Begun, Guard, Intent, IntentId, Lock, Slice, is_lost, is_lost_or_damaged};
use super::pace::Patience;
use super::reach::Reach;
use super::together::{all, either, to_its_end};
use forebay_model::layout::address::{Holds, Place, StripeId};
use forebay_model::layout::update::Extent;
use forebay_model::layout::{LARGEST, Raid, parity};
use forebay_model::object::Durability;
use forebay_model::{Bytes, Error, Kind, Moment, Result};
use forebay_wire::object::{LOST_TOGETHER, MOST_AT_ONCE};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

/// What is damaged is told apart so finely.
pub(super) const GRAIN: Bytes = LOST_TOGETHER;

/// A part of a component that can be had from nowhere.
#[derive(Debug, Clone)]
pub(super) struct Gone {
    pub(super) extent: Extent,
    pub(super) error: Error,
}

/// What was read: as long as it was to be, with zeros for what is gone.
#[derive(Debug, Clone, Default)]
pub(super) struct Part {
    pub(super) bytes: Slice,
    pub(super) gone: Vec<Gone>,
}

impl Part {
    /// All of it, or why not.
    pub(super) fn whole(self) -> Result<Slice> {
        match self.gone.into_iter().next() {
            None => Ok(self.bytes),
            Some(gone) => Err(gone.error),
        }
    }
}

/// So long who only reads waits for a moment in which nobody changes a stripe.
const CALM: Duration = Duration::from_secs(10);
/// How long between two looks at it, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_micros(500);
const MOST_PAUSE: Duration = Duration::from_millis(50);
/// So long locks are waited for of a component that has given as many as it gives, and answers everything else.
pub(super) const CROWDED: Duration = Duration::from_secs(60);
/// So often something is done again that lost its lock.
const CHANGES: usize = 12;

/// Whether the stripe is locked by who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Locked {
    No,
    Yes,
}

impl Reach {
    /// Reads a part of a component, wherever it can be had.
    pub(super) fn read(self: &Rc<Self>, extent: Extent, locked: Locked) -> Pin<Box<dyn Future<Output = Part>>> {
        self.read_by(extent, locked, false)
    }

    /// Reads a part of a component, and from others only if it is not to be had there: so damage is found, and made good.
    pub(super) fn verify(self: &Rc<Self>, extent: Extent, locked: Locked) -> Pin<Box<dyn Future<Output = Part>>> {
        self.read_by(extent, locked, true)
    }

    fn read_by(self: &Rc<Self>, extent: Extent, locked: Locked, verify: bool) -> Pin<Box<dyn Future<Output = Part>>> {
        let this = self.clone();
        Box::pin(async move {
            let family = this.family(extent.place.component);
            let lacking = this.lacking(family.clone());
            let read = if verify { this.direct(extent).await } else { this.hedged(extent, locked).await };
            let error = match read {
                Ok(bytes) => return Part { bytes: padded(bytes, extent.length), gone: Vec::new() },
                Err(error) => error,
            };
            let repair = error.kind == Kind::Damaged;
            if !repair && !is_lost(&error) {
                return gone(extent, error);
            }
            let worse = match this.instead(extent, locked, repair).await {
                Ok(bytes) => {
                    if repair && !this.components.may_write() {
                        this.components.found_damaged();
                    }
                    return Part { bytes, gone: Vec::new() };
                }
                Err(worse) => worse,
            };
            if is_lost(&worse) && this.has_changed(family.clone(), &lacking).await {
                return this.read_by(extent, locked, verify).await;
            }
            // Where whole components are lost, a smaller part of them is as lost.
            let left = family.clone().filter(|one| this.is_sound(*one)).count() as u32;
            let enough = left + this.striping.spare() >= family.len() as u32;
            if extent.length <= GRAIN || !enough || !repair && worse.kind != Kind::Damaged {
                return gone(extent, if repair || this.striping.spare() == 0 { error } else { worse });
            }
            let middle = Bytes(extent.place.at.0 + extent.length.0 / 2).align_up(GRAIN).max(extent.place.at + GRAIN);
            let length = middle.saturating_sub(extent.place.at).min(extent.length);
            if length == extent.length {
                return gone(extent, worse);
            }
            let rest = Extent { place: Place { at: middle, ..extent.place }, length: extent.length - length };
            let mut first = this.read_by(Extent { length, ..extent }, locked, verify).await;
            let rest = this.read_by(rest, locked, verify).await;
            first.gone.extend(rest.gone);
            Part { bytes: Slice::from([first.bytes, rest.bytes].concat()), gone: first.gone }
        })
    }

    /// Reads from a component itself, and from the others if it takes far longer than they do.
    async fn hedged(self: &Rc<Self>, extent: Extent, locked: Locked) -> Result<Slice> {
        let component = extent.place.component;
        if self.striping.spare() == 0 || !self.is_sound(component) {
            return self.direct(extent).await;
        }
        let family = self.family(component);
        if self.is_away(component)
            && let Ok(bytes) = self.instead(extent, locked, false).await
        {
            return Ok(bytes);
        }
        match self.pace.patience(component, &family, self.options.hedge_after, extent.length.0) {
            Patience::Avoid => match self.instead(extent, locked, false).await {
                Ok(bytes) => Ok(bytes),
                Err(_) => self.direct(extent).await,
            },
            Patience::Hedge(delay) => {
                let asked = self.clock.now();
                let other = async {
                    self.clock.sleep(delay).await;
                    while !self.pace.is_last(component, &family, asked) {
                        self.clock.sleep(self.options.hedge_after).await;
                    }
                    self.instead(extent, locked, false).await.ok().map(Ok)
                };
                either(self.direct(extent), other).await
            }
        }
    }

    /// A part of a component from the others; written again, if it is to be repaired.
    async fn instead(self: &Rc<Self>, extent: Extent, locked: Locked, repair: bool) -> Result<Slice> {
        if self.striping.spare() == 0 {
            return Err(Error::device(format!(
                "component {} is lost, and RAID 0 keeps nothing beside it; bring its target back",
                extent.place.component
            )));
        }
        if !self.components.may_write() && (self.striping.raid() == Raid::Five || !self.is_alone()) {
            return self.remake_of_what_is_whole(extent).await;
        }
        if self.is_alone() || locked == Locked::Yes {
            return self.remake(extent, repair).await;
        }
        // The lock is of one stripe. Whoever gets it may have to end what others began, and is not to be dropped at it.
        let this = self.clone();
        to_its_end(&self.spawner, async move {
            let mut bytes = Vec::with_capacity(extent.length.0 as usize);
            for part in this.units_of(extent) {
                let _guard = this.lock(part.place).await?;
                bytes.extend_from_slice(&this.remake(part, repair).await?);
            }
            Ok(Slice::from(bytes))
        })
        .await
    }

    /// A part of a component, made of the others of a stripe that nobody changed meanwhile: who only reads locks nothing, and
    /// others may write at any time. They say what they begin before they do.
    async fn remake_of_what_is_whole(self: &Rc<Self>, extent: Extent) -> Result<Slice> {
        let mut bytes = Vec::with_capacity(extent.length.0 as usize);
        for part in self.units_of(extent) {
            match self.held_at(part.place.component, part.place.at) {
                Holds::Data(_) => bytes.extend_from_slice(&self.remake_between_changes(part).await?),
                // It was read only because it lies between two that are wanted; and what was begun in that stripe is said beside it.
                Holds::Parity(..) => bytes.resize(bytes.len() + part.length.0 as usize, 0),
            }
        }
        Ok(Slice::from(bytes))
    }

    /// The parts of an extent that are of one stripe each.
    pub(super) fn units_of(&self, Extent { place, length }: Extent) -> Vec<Extent> {
        let (unit, end) = (self.striping.unit(), place.at + length);
        let (mut parts, mut at) = (Vec::new(), place.at);
        while at < end {
            let length = (at.align_down(unit) + unit).min(end) - at;
            parts.push(Extent { place: Place { at, ..place }, length });
            at += length;
        }
        parts
    }

    /// The same of one stripe.
    async fn remake_between_changes(self: &Rc<Self>, extent: Extent) -> Result<Slice> {
        let stripe = self.stripe_at(extent.place);
        let (late, mut pause) = (self.clock.now() + CALM, FIRST_PAUSE);
        loop {
            self.heed();
            let (holder, begun) = match self.begun(extent.place, stripe).await {
                // Another copy has all that was acknowledged; of what is being written it has all or nothing.
                Err(error) if is_lost_or_damaged(&error) && self.striping.raid() != Raid::Five => {
                    return self.remake(extent, false).await;
                }
                begun => begun?,
            };
            if let Some(before) = begun {
                let bytes = self.remake(extent, false).await;
                if self.components.begun(holder, stripe).await? == Some(before) {
                    return bytes;
                }
            }
            if self.clock.now() >= late {
                return Err(Error::busy(format!(
                    "stripe {} is changed all the time, or was left half written and is to be mended; read it again later, or \
                     when component {} is back",
                    stripe.0, extent.place.component
                )));
            }
            self.clock.sleep(pause).await;
            pause = (pause * 2).min(MOST_PAUSE);
        }
    }

    /// What was begun in a stripe, and beside which component: the first that should have it. Of copies all but the last have it, and if
    /// one cannot be asked, the next one can.
    async fn begun(&self, place: Place, stripe: StripeId) -> Result<(u32, Option<Begun>)> {
        let mut holders = self.striping.holders(place.component, stripe);
        holders.retain(|holder| self.is_asked(*holder));
        let most = if self.striping.raid() == Raid::Five { 1 } else { holders.len().saturating_sub(1).max(1) };
        let mut failed = Error::device(format!("all components of stripe {} are lost; bring them back", stripe.0));
        for holder in holders.into_iter().take(most) {
            match self.components.begun(holder, stripe).await {
                Err(error) if is_lost_or_damaged(&error) => failed = error,
                begun => return begun.map(|begun| (holder, begun)),
            }
        }
        Err(failed)
    }

    /// The stripe of which a component holds something there.
    pub(super) fn stripe_at(&self, place: Place) -> StripeId {
        match self.held_at(place.component, place.at) {
            Holds::Data(byte) => self.striping.stripe_of(byte),
            Holds::Parity(stripe, _) => stripe,
        }
    }

    /// A part of a component, made of the others; written again, if it is to be repaired.
    pub(super) async fn remake(self: &Rc<Self>, extent: Extent, repair: bool) -> Result<Slice> {
        let bytes = self.made_of_others(extent).await?;
        // If it cannot be written, it is made of the others again the next time.
        if repair && self.make_good(extent, &bytes).await.is_ok() {
            self.mended.set(self.mended.get() + extent.length);
        }
        Ok(bytes)
    }

    /// Writes again what was damaged. A block that is damaged takes no part of itself, since what is beside that cannot be kept:
    /// then all of it is made of the others, as far as the component goes.
    async fn make_good(self: &Rc<Self>, extent: Extent, bytes: &Slice) -> Result<()> {
        let Extent { place: Place { component, at }, length } = extent;
        match self.write_durably(extent.place, bytes.clone()).await {
            Err(error) if error.kind == Kind::Damaged => {}
            written => return written,
        }
        let size = self.components.size(component).await?;
        let (from, to) = (at.align_down(GRAIN), (at + length).align_up(GRAIN).min(size).max(at + length));
        let blocks = Extent { place: Place { component, at: from }, length: to - from };
        let bytes = self.made_of_others(blocks).await?;
        self.write_durably(blocks.place, bytes).await
    }

    /// Writes durably, as much at once as a component takes: what is made of the others is right piece by piece.
    async fn write_durably(&self, place: Place, bytes: Slice) -> Result<()> {
        for (place, piece) in pieces(place, bytes) {
            self.write(place, vec![piece], Durability::Durable).await?;
        }
        Ok(())
    }

    /// A part of a component, made of the others. Where some are damaged and some away, damage is said of what can be told apart further,
    /// and of the rest that some are away: they may come back.
    async fn made_of_others(self: &Rc<Self>, extent: Extent) -> Result<Slice> {
        let Place { component, at } = extent.place;
        let others = self.family(component).filter(|other| *other != component);
        let there = |other: u32| Extent { place: Place { component: other, at }, length: extent.length };
        let is_said_last = |error: &Error| (error.kind == Kind::Damaged) != (extent.length > GRAIN);
        if self.striping.raid() == Raid::Five {
            let _room = self.mending.hold(extent.length.0 * u64::from(self.striping.width() - 1)).await;
            let (mut bytes, mut failed) = (vec![0; extent.length.0 as usize], Vec::new());
            for read in all(others.map(|other| self.direct(there(other)))).await {
                match read {
                    Ok(read) => parity::add(&mut bytes, &read),
                    Err(error) => failed.push(error),
                }
            }
            failed.into_iter().min_by_key(is_said_last).map_or(Ok(Slice::from(bytes)), Err)
        } else {
            let mut failed = Vec::new();
            for other in others {
                match self.direct(there(other)).await {
                    Ok(found) => return Ok(padded(found, extent.length)),
                    Err(error) => failed.push(error),
                }
            }
            let none = || Error::device(format!("no copy of component {component} is left; bring one back"));
            Err(failed.into_iter().min_by_key(is_said_last).unwrap_or_else(none))
        }
    }

    /// Takes the lock of the stripe of which a component holds something at `place`, and ends what was begun there. Of three
    /// copies or more all are locked: if the first is given up in the middle, two are left that could disagree, and whoever
    /// comes next waits at the next one.
    pub(super) async fn lock(self: &Rc<Self>, place: Place) -> Result<Vec<Guard>> {
        loop {
            let mut wide = Vec::new();
            let guards = self.take_lock(place, Some(&mut wide)).await?;
            if wide.is_empty() {
                return Ok(guards);
            }
            // Who waits for the lock of another stripe has none meanwhile.
            drop(guards);
            for (holder, id, intent) in wide {
                self.end_wide(holder, id, &intent).await?;
            }
        }
    }

    /// The same; what was begun is not ended but if `wide` is given, which gets what other stripes have part in.
    async fn take_lock(
        self: &Rc<Self>,
        place: Place,
        mut wide: Option<&mut Vec<(u32, IntentId, Intent)>>,
    ) -> Result<Vec<Guard>> {
        let stripe = self.stripe_at(place);
        let order = self.striping.holders(place.component, stripe);
        let most = if self.striping.raid().copies() <= 2 { 1 } else { order.len() };
        let mut guards: Vec<(u32, Guard)> = Vec::new();
        let late = self.clock.now() + CROWDED;
        loop {
            // What was given up meanwhile, or is whole again, is known with the lock.
            self.heed();
            let wanted = order.iter().copied().filter(|holder| self.is_asked(*holder)).take(most);
            let wanted: Vec<u32> = wanted.collect();
            let is_locked = |holder: u32| guards.iter().any(|(locked, _)| *locked == holder);
            let Some(next) = wanted.iter().copied().find(|holder| !is_locked(*holder)) else {
                guards.retain(|(locked, _)| wanted.contains(locked));
                break;
            };
            // Whoever waits for one that comes earlier has none behind it.
            let rank = |holder: u32| order.iter().position(|one| *one == holder);
            guards.retain(|(locked, _)| rank(*locked) < rank(next));
            match self.components.lock(next, stripe).await {
                Ok(Lock { guard, left }) => {
                    self.heed();
                    if !self.is_asked(next) {
                        continue;
                    }
                    guards.push((next, guard));
                    let Some(wide) = wide.as_deref_mut() else { continue };
                    for (id, intent) in left {
                        match self.is_wide(place, stripe, &intent) {
                            true => wide.push((next, id, intent)),
                            false => self.end(next, id, &intent).await?,
                        }
                    }
                }
                Err(error) => self.not_locked(next, error, late).await?,
            }
        }
        match guards.is_empty() {
            true => Err(Error::device(format!("all components of stripe {} are lost; bring them back", stripe.0))),
            false => Ok(guards.into_iter().map(|(_, guard)| guard).collect()),
        }
    }

    /// A component could not be locked: it is given up if it is lost, and if so many locks are held there that it gives no more, they
    /// are waited for until it is `late`.
    pub(super) async fn not_locked(&self, component: u32, error: Error, late: Moment) -> Result<()> {
        let error = match error.kind {
            // One that answers everything else lacks nothing, however many want its locks.
            Kind::Busy => match self.components.size(component).await {
                Ok(_) if self.clock.now() < late => {
                    self.clock.sleep(MOST_PAUSE).await;
                    return Ok(());
                }
                Ok(_) => return Err(error),
                Err(worse) => worse,
            },
            _ => error,
        };
        match is_lost_or_damaged(&error) {
            true => self.lose(component, &error).await,
            false => Err(error),
        }
    }

    /// Whether an intent is about copies of more than what the lock of this stripe is of.
    fn is_wide(&self, place: Place, stripe: StripeId, intent: &Intent) -> bool {
        let family = self.family(place.component);
        let is_own = |part: &Extent| family.contains(&part.place.component) && self.stripe_at(part.place) == stripe;
        // What cannot be is refused when it is to be ended.
        self.check_intent(intent).is_ok()
            && intent.agree.iter().any(|extent| self.units_of(*extent).iter().any(|part| !is_own(part)))
    }

    /// Ends an intent about copies of several stripes, as a client that was alone may have left it, under the lock of each in turn:
    /// beside others who write them.
    async fn end_wide(self: &Rc<Self>, holder: u32, id: IntentId, intent: &Intent) -> Result<()> {
        for part in intent.agree.iter().flat_map(|extent| self.units_of(*extent)) {
            let _guards = self.take_lock(part.place, None).await?;
            self.make_equal(part).await?;
        }
        self.settle(holder, id).await
    }

    /// Gives up a component that could not be locked, unless somebody else did.
    pub(super) async fn lose(&self, component: u32, why: &Error) -> Result<()> {
        self.heed();
        if !self.is_asked(component) {
            return Ok(());
        }
        self.give_up(component, why).await
    }

    /// [`Kind::Damaged`] if an intent says what no client of this file intends. Whoever may write the file may keep anything beside it,
    /// and those who end it are others: they do nothing that the file has no place for, and take no memory that nobody would write.
    pub(super) fn check_intent(&self, intent: &Intent) -> Result<()> {
        let striping = &self.striping;
        let is_part = |extent: &Extent| {
            let end = extent.place.at.0.checked_add(extent.length.0);
            extent.place.component < striping.components()
                && extent.length <= MOST_AT_ONCE
                && end.is_some_and(|end| end <= LARGEST.0)
        };
        let is_stripe = intent.stripe.0 <= LARGEST.0 / striping.stripe().0;
        let writes = intent.writes.iter().map(|redo| (redo.place, Bytes(redo.bytes.len() as u64)));
        let mut writes = writes.map(|(place, length)| Extent { place, length });
        // Under the lock of a stripe nothing of another group is written.
        let is_own = |extent: &Extent| {
            let first = striping.unit_of(intent.stripe, 0).component;
            striping.raid() != Raid::Five || striping.family(first).contains(&extent.place.component)
        };
        let together = intent.agree.iter().try_fold(0_u64, |sum, extent| sum.checked_add(extent.length.0));
        let fits = is_stripe
            && intent.cut.is_none_or(|cut| cut <= LARGEST)
            && intent.agree.iter().all(is_part)
            && together.is_some_and(|together| together <= MOST_AT_ONCE.0)
            && writes.all(|extent| is_part(&extent) && is_own(&extent));
        match fits {
            true => Ok(()),
            false => Err(Error::damaged(format!(
                "what was left to be ended of stripe {} is nothing that a client of this file begins: copy what can be read of the \
                 file, and remove it",
                intent.stripe.0
            ))),
        }
    }

    /// Does again what was intended, however much of it was done, and settles it.
    pub(super) async fn end(self: &Rc<Self>, holder: u32, id: IntentId, intent: &Intent) -> Result<()> {
        self.check_intent(intent)?;
        if let Some(size) = intent.cut {
            self.components.cut(size).await?;
            self.cut_components(size).await?;
        }
        let writes = intent.writes.iter().map(|redo| (redo.place, redo.bytes.clone()));
        self.write_all(writes.collect()).await?;
        for part in intent.agree.iter().flat_map(|extent| self.units_of(*extent)) {
            self.make_equal(part).await?;
        }
        self.settle(holder, id).await
    }

    /// Writes what one copy has of a part to the others.
    async fn make_equal(&self, extent: Extent) -> Result<()> {
        let copies = self.family(extent.place.component);
        let mut source = None;
        for copy in copies.clone().filter(|copy| !self.has_missed(*copy)) {
            match self.direct(Extent { place: Place { component: copy, ..extent.place }, ..extent }).await {
                Ok(bytes) => {
                    source = Some((copy, padded(bytes, extent.length)));
                    break;
                }
                Err(error) if is_lost(&error) => self.give_up(copy, &error).await?,
                Err(error) if error.kind == Kind::Damaged => {}
                Err(error) => return Err(error),
            }
        }
        let Some((source, bytes)) = source else {
            return Err(Error::damaged(format!(
                "no copy of component {} can be read, {} from byte {} on; bring the target of one back",
                extent.place.component, extent.length, extent.place.at.0
            )));
        };
        let others = copies.filter(|copy| *copy != source);
        let writes = others.map(|copy| (Place { component: copy, ..extent.place }, bytes.clone())).collect();
        self.write_all(writes).await
    }

    /// Does something under a lock, and again if the lock was lost because a component that was absent is written again: what was asked
    /// under it has ended, and what that left begun is ended first. Everything is asked again only so often.
    pub(super) async fn despite_changes<T>(&self, work: impl AsyncFn() -> Result<T>) -> Result<T> {
        let (before, mut pause) = (self.components.absent(), FIRST_PAUSE);
        for _ in 0..CHANGES {
            match work().await {
                // Others of this client may still have locks that they lost with this one.
                Err(error) if error.kind == Kind::Refused && self.components.absent() != before => {
                    self.clock.sleep(pause).await;
                    pause = (pause * 2).min(MOST_PAUSE);
                }
                done => return done,
            }
        }
        work().await
    }

    /// Writes durably what can be written; what cannot is given up.
    pub(super) async fn write_all(&self, writes: Vec<(Place, Slice)>) -> Result<()> {
        let writes: Vec<_> = writes.into_iter().filter(|(place, _)| self.is_written(place.component)).collect();
        let places: Vec<Place> = writes.iter().map(|(place, _)| *place).collect();
        let asked = writes.into_iter().map(|(place, bytes)| self.write_durably(place, bytes));
        for (place, written) in places.into_iter().zip(all(asked).await) {
            match written {
                Err(error) if is_lost_or_damaged(&error) => self.give_up(place.component, &error).await?,
                written => written?,
            }
        }
        Ok(())
    }

    /// Cuts every component to what a file of `size` has of it.
    pub(super) async fn cut_components(&self, size: Bytes) -> Result<()> {
        let copies = self.striping.raid().copies();
        let components = (0..self.striping.components()).filter(|component| self.is_written(*component));
        let cut = components.map(|component| async move {
            let most = self.striping.length_of(component / copies * copies, size);
            let cut = async {
                match self.components.size(component).await {
                    Ok(length) if length > most => self.components.truncate(component, most).await,
                    other => other.map(drop),
                }
            };
            (component, self.unless_left(component, cut).await)
        });
        for (component, cut) in all(cut).await {
            match cut {
                Err(error) if is_lost_or_damaged(&error) => self.give_up(component, &error).await?,
                cut => cut?,
            }
        }
        Ok(())
    }

    /// Forgets an intent. If its component is lost, so is the intent, once nobody will ask there any more.
    pub(super) async fn settle(&self, holder: u32, id: IntentId) -> Result<()> {
        if !self.is_asked(holder) {
            return Ok(());
        }
        match self.unless_left(holder, self.components.settle(holder, id)).await {
            Err(error) if is_lost_or_damaged(&error) => self.give_up(holder, &error).await,
            settled => settled,
        }
    }
}

fn gone(extent: Extent, error: Error) -> Part {
    Part { bytes: Slice::from(vec![0; extent.length.0 as usize]), gone: vec![Gone { extent, error }] }
}

/// Bytes of a component in pieces that it takes at once, cut between blocks: one that is damaged takes no part of itself.
pub(super) fn pieces(place: Place, mut bytes: Slice) -> impl Iterator<Item = (Place, Slice)> {
    let mut at = place.at;
    std::iter::from_fn(move || {
        let most = match bytes.len() as u64 > MOST_AT_ONCE.0 {
            true => (at + MOST_AT_ONCE).align_down(GRAIN) - at,
            false => MOST_AT_ONCE,
        };
        let piece = bytes.split_to(bytes.len().min(most.0 as usize));
        let begin = at;
        at += Bytes(piece.len() as u64);
        (!piece.is_empty()).then_some((Place { at: begin, ..place }, piece))
    })
}

/// With zeros behind the end of a component.
pub(super) fn padded(bytes: Slice, length: Bytes) -> Slice {
    if bytes.len() as u64 == length.0 {
        return bytes;
    }
    let mut whole = Vec::with_capacity(length.0 as usize);
    whole.extend_from_slice(&bytes);
    whole.resize(length.0 as usize, 0);
    Slice::from(whole)
}

#[cfg(test)]
mod tests;

//! Asking nodes about the components of a file: where each is and what allows it, renewed when it is refused as stale or shortly
//! before its time is over, until there is an answer or no hope.

use super::{Shared, restarted};
use crate::file::components::Slice;
use crate::file::leave::{LOOKED, is_silent};
use crate::granted::{self, strange_answer};
use crate::nodes::{BUSY, Request};
use crate::way::PAUSE;
use forebay_env::race::{First, race};
use forebay_model::object::{Attribute, FIRST_FENCE};
use forebay_model::{Error, Kind, ObjectId, Result, TargetId};
use forebay_wire::RequestId;
use forebay_wire::control::files::{ComponentState, Renewed};
use forebay_wire::control::names::FileId;
use forebay_wire::link::{Answer, Link};
use forebay_wire::object::{Ask, DESCRIBED, Described, ObjectAnswer, ObjectReply, ObjectRequest};
use forebay_wire::sink::Shown;
use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

/// How often the manager is asked where nodes are that do not answer.
const LOOK: Duration = Duration::from_secs(1);
/// So often in a row what allows a request is renewed before it is refused, if that brings no newer version: clocks may be set between
/// the renewal and its use, so once is too few.
const RENEWALS: u32 = 2;

/// Why the manager did not renew what allows to use a file: it is asked again as long as somebody uses that.
fn not_renewed(file: FileId, Error { kind, message }: Error) -> Error {
    let tried = "the manager is asked for that again with each request; see that it runs and can be reached";
    Error::new(kind, format!("what allows to use {file} cannot be renewed ({message}); {tried}"))
}

/// That the manager does not know the file any more is no answer of a component: one that a node does not know was never written, and
/// reads as nothing, where of a file that was removed nothing can be read.
pub(super) fn of_manager(file: FileId, error: Error) -> Error {
    match error.kind {
        Kind::Missing => Error::refused(format!(
            "{file} was removed or replaced, and nothing of it can be read or written any more ({}); open what has its name now",
            error.message
        )),
        _ => error,
    }
}

/// What becomes of a question to a node that is silent while the file can do without it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Silent {
    /// It is given up.
    Left,
    /// The answer is waited for.
    WaitedFor,
}

impl Shared {
    /// Asks the manager where targets are, and which of them are slow.
    pub(super) async fn look_up(&self) -> Result<()> {
        let map = granted::map(&*self.control).await?;
        map.targets.iter().for_each(|found| self.note_pace(found.target, found.slow));
        *self.addresses.borrow_mut() = granted::addresses(map);
        Ok(())
    }

    /// Whether the device of a component has become slow, as far as this client was told.
    pub(super) fn is_slow(&self, component: u32) -> bool {
        let slow = self.slow.borrow();
        let grant = self.grant.borrow();
        grant.components.get(component as usize).is_some_and(|found| slow.contains(&found.target))
    }

    /// Takes note of what a target said of its device.
    fn note_pace(&self, target: TargetId, is_slow: bool) {
        let mut slow = self.slow.borrow_mut();
        match is_slow {
            true => drop(slow.insert(target)),
            false if slow.is_empty() => {}
            false => drop(slow.remove(&target)),
        }
    }

    /// Asks the manager where targets are, unless that was done a moment ago; who comes meanwhile waits for that answer. If there is
    /// none soon, they are where they were.
    async fn look_up_again(&self) {
        let _turn = self.looking.take(1).await;
        let clock = &self.nodes.env().clock;
        if self.looked_up.get().is_none_or(|looked_up| clock.now() >= looked_up + LOOK) {
            let now = clock.now();
            drop(race(self.look_up(), clock.sleep(LOOK)).await);
            self.looked_up.set(Some(now));
        }
    }

    /// Whether a target has been away for longer than patience lasts, or nobody serves it.
    fn is_gone(&self, target: TargetId) -> bool {
        self.address(target).map_or(true, |address| self.nodes.is_gone(&address))
    }

    /// Whether a target is there, as far as is known; if not, it is looked for meanwhile.
    fn is_there(&self, target: TargetId) -> bool {
        self.address(target).is_ok_and(|address| self.nodes.is_there(&address))
    }

    /// Whether nobody waits for a component: its node has been away for longer than patience lasts, and the file can do without it.
    fn is_spared(&self, component: u32) -> bool {
        self.can_do_without(component, |target| self.is_gone(target))
    }

    /// The same of one whose node is silent, which is known while it is asked.
    pub(super) fn is_silent(&self, component: u32) -> bool {
        let is_silent = |target| self.address(target).is_ok_and(|address| self.nodes.is_silent(&address));
        self.can_do_without(component, is_silent)
    }

    /// Whether the file can do without a component of whose target something is so, and does not already. What others have that are
    /// not there, or silent, counts as lacking, for however short they are not: beside them it is needed, and may be back before they
    /// are given up.
    fn can_do_without(&self, component: u32, is_so: impl Fn(TargetId) -> bool) -> bool {
        let grant = self.grant.borrow();
        let is_whole = |nth: u32| {
            let found = grant.components.get(nth as usize);
            found.filter(|found| found.state == ComponentState::Whole).map(|found| found.target)
        };
        if is_whole(component).is_none_or(|target| !is_so(target)) {
            return false;
        }
        let family = grant.striping.family(component);
        let is_used = |other| self.is_there(other) && !is_so(other);
        let beside = family.filter(|nth| *nth != component && is_whole(*nth).is_none_or(|other| !is_used(other)));
        (beside.count() as u32) < grant.striping.spare()
    }

    /// Asks for capabilities anew, unless what has them was left: the manager renews for a client, which may have opened the file again
    /// by then, and knows nothing of that.
    pub(super) async fn renew(self: &Rc<Self>) -> Result<()> {
        match self.opening.is_left() {
            false => self.renew_in_any_case().await,
            true => Err(Error::refused(format!(
                "{} was not closed by who wrote it, and is mended without what is still under way of that; write it again",
                self.file()
            ))),
        }
    }

    /// The same of one who has changed the file's version itself just now.
    pub(super) async fn renew_in_any_case(self: &Rc<Self>) -> Result<()> {
        let (file, write) = {
            let grant = self.grant.borrow();
            (grant.entry.file, grant.write)
        };
        let asked = Renewed { file, write, version: self.ours.newest.get() };
        let grant = granted::renewed(&*self.control, asked).await.map_err(|error| not_renewed(file, error))?;
        let grant = grant.map_err(|error| of_manager(file, error))?;
        // Another answer may have overtaken this one.
        let version = grant.entry.attributes.version;
        if version >= self.version() {
            let before = self.grant.replace(grant);
            self.ours.newest.set(self.ours.newest.get().max(version));
            self.heed(&before);
        }
        Ok(())
    }

    /// Where a component is, and what allows to use it.
    pub(super) fn way(&self, component: u32) -> Result<(TargetId, ObjectId, Shown)> {
        let grant = self.grant.borrow();
        let found = grant.components.get(component as usize);
        let found = found.ok_or_else(|| Error::usage(format!("the file has no component {component}")))?;
        if found.state == ComponentState::Missed {
            return Err(Error::stale(format!("component {component} of {} was given up", grant.entry.file)));
        }
        Ok((found.target, found.object, granted::shown(found)?))
    }

    pub(super) fn address(&self, target: TargetId) -> Result<String> {
        self.addresses.borrow().get(&target).cloned().ok_or_else(|| granted::nobody_knows(target))
    }

    /// Renews capabilities before their time is over, beside what is asked meanwhile.
    pub(super) fn renew_in_time(self: &Rc<Self>) {
        if self.renewing.begin(self.grant.borrow().until, &*self.nodes.env().clock) {
            let this = self.clone();
            self.nodes.env().spawner.detach(async move {
                // If it fails, whoever is refused asks again.
                drop(this.renew().await);
                this.renewing.end();
            });
        }
    }

    /// Asks of a component's object, or of its companion; one that is silent is left if that can be.
    pub(super) async fn ask(
        self: &Rc<Self>,
        component: u32,
        of: impl Fn(ObjectId) -> Ask,
        payload: Vec<Slice>,
    ) -> Result<ObjectAnswer> {
        self.ask_unless(Silent::Left, component, of, payload).await
    }

    /// The same, and what becomes of one that is silent.
    pub(super) async fn ask_unless(
        self: &Rc<Self>,
        silent: Silent,
        component: u32,
        of: impl Fn(ObjectId) -> Ask,
        payload: Vec<Slice>,
    ) -> Result<ObjectAnswer> {
        let made = |target, object| {
            let request = ObjectRequest::new(target, of(object));
            let most = match request.ask {
                Ask::Read { id, length, .. } => {
                    if id == object {
                        self.is_read(component)?;
                    }
                    length as usize
                }
                _ => 0,
            };
            Ok(Request { command: request.command(), body: request.body()?, payload: payload.clone(), most })
        };
        let asked = of(ObjectId::ROOT);
        let changes = changes(&asked);
        // Reads of bytes turn to the others by themselves, and what becomes of a change that nobody waits for is up to who made it.
        let is_waited_for = silent == Silent::WaitedFor
            || changes
            || matches!(asked, Ask::Read { id: ObjectId::ROOT, .. } | Ask::Flush { .. });
        if matches!(asked, Ask::Read { .. }) && self.is_silent(component) {
            // The others are read at once, and not when this one has had its time.
            return Err(is_silent(component));
        }
        let asking = self.ask_by(component, changes, made);
        let answered = match is_waited_for {
            true => asking.await,
            false => self.unless_silent(component, asking).await,
        };
        // How long the file is nobody takes from one component alone.
        let is_content = changes && !matches!(asked, Ask::SetAttributes { .. });
        if (is_content || matches!(asked, Ask::Flush { .. })) && self.is_whole(component) {
            // Something may be acknowledged for this: readers who do not know yet what was given up have to be gone. Who
            // rebuilds a component acknowledges nothing.
            self.nobody_is_answered().await?;
        }
        let Answered { answer, target, .. } = answered?;
        let answer = ObjectAnswer::read(&answer.body, answer.payload)?;
        self.note_pace(target, answer.receipt.slow);
        let buffered = self.epochs.borrow().get(&component).copied();
        // What is read now may lack what was buffered before.
        match buffered.is_none_or(|epoch| epoch == answer.receipt.epoch) {
            true => Ok(answer),
            false => Err(restarted(component)),
        }
    }

    /// What comes of asking a component, unless its node is silent and the file can do without it. If it changes something, that may
    /// be done later: then the component is to be given up.
    pub(super) async fn unless_silent<T>(&self, component: u32, asking: impl Future<Output = Result<T>>) -> Result<T> {
        if self.grant.borrow().striping.spare() == 0 {
            return asking.await;
        }
        let silent = async {
            while !self.is_silent(component) {
                self.nodes.env().clock.sleep(LOOKED).await;
            }
        };
        match race(asking, silent).await {
            First::Left(answered) => answered,
            First::Right(()) => Err(is_silent(component)),
        }
    }

    /// Asks where a component is, with what allows it, until there is no hope. What changes something is asked only while
    /// every lock of this client is still held; and if nobody knows what came of it, those locks are given back as deserted.
    pub(super) async fn ask_by(
        self: &Rc<Self>,
        component: u32,
        changes: bool,
        made: impl Fn(TargetId, ObjectId) -> Result<Request>,
    ) -> Result<Answered> {
        let is_in_doubt = Cell::new(false);
        let answered = self.ask_until_answered(component, changes, made, &is_in_doubt).await;
        if changes && answered.is_err() && is_in_doubt.get() {
            self.locks.doubt(component);
        }
        answered
    }

    /// The same, and whether a connection ended over which it was asked: it may still come.
    async fn ask_until_answered(
        self: &Rc<Self>,
        component: u32,
        changes: bool,
        made: impl Fn(TargetId, ObjectId) -> Result<Request>,
        is_in_doubt: &Cell<bool>,
    ) -> Result<Answered> {
        let left = || self.left.borrow().get(&component).copied();
        let before = left();
        self.renew_in_time();
        self.is_fresh.set(false);
        if self.ours.newest.get() > self.version() {
            self.renew().await?;
        }
        let clock = &self.nodes.env().clock;
        let (mut fruitless, mut is_looked_up, mut end) = (0, false, clock.now() + self.nodes.patience());
        loop {
            if changes && left() != before {
                return Err(Error::disconnected(format!(
                    "component {component} was left: nobody waits for it any more"
                )));
            }
            let (target, object, shown) = self.way(component)?;
            let version = self.version();
            let request = made(target, object)?;
            let sure = match changes {
                true => {
                    let sure = self.confirm(version).await;
                    self.locks.are_kept()?;
                    sure
                }
                // Who only looks has nobody to keep out.
                false => Ok(()),
            };
            let address = self.address(target);
            let asked = match (sure, &address) {
                (Ok(()), Ok(address)) => {
                    let asked = self.nodes.ask_once(address, &request, Some(&shown)).await;
                    let is_over = asked.as_ref().is_err_and(|error| error.kind == Kind::Disconnected);
                    is_in_doubt.set(is_in_doubt.get() || is_over);
                    asked
                }
                (Err(error), _) => Err(error),
                (Ok(()), Err(error)) => Err(error.clone()),
            };
            match asked {
                // Others may raise it again and again meanwhile.
                Err(error) if error.kind == Kind::Stale && (fruitless < RENEWALS || self.version() != version) => {
                    if self.version() == version {
                        self.renew().await?;
                    }
                    fruitless = if self.version() == version { fruitless + 1 } else { 0 };
                }
                Err(error) if error.kind == Kind::Stale => return Err(self.why_stale(target, error).await),
                // It has to hear of an epoch first, or has no room.
                Err(error) if error.kind == Kind::Busy && clock.now() < end => {
                    clock.sleep(BUSY).await;
                }
                // It may be elsewhere by now, and another one there, of which nobody may do that.
                Err(error) if error.kind == Kind::Disconnected || error.kind == Kind::Forbidden && !is_looked_up => {
                    // Somebody else may have looked it up while this was asked where it was before.
                    let is_elsewhere = || self.address(target).as_ref().ok() != address.as_ref().ok();
                    let is_forbidden = error.kind == Kind::Forbidden;
                    is_looked_up |= is_forbidden;
                    match (is_elsewhere(), is_forbidden || address.is_err()) {
                        (true, _) => {}
                        (false, true) => drop(self.look_up().await),
                        (false, false) => self.look_up_again().await,
                    }
                    // Of a target that nobody serves the manager knows.
                    let is_over = || is_forbidden || address.is_err() || clock.now() >= end;
                    if is_elsewhere() {
                        // There it has the time that it had here.
                        end = clock.now() + self.nodes.patience();
                    } else if is_over() || self.is_spared(component) {
                        return Err(error);
                    } else {
                        clock.sleep(PAUSE).await;
                    }
                    self.nodes.repeats();
                }
                asked => {
                    let (answer, request, link) = asked?;
                    return Ok(Answered { answer, target, request, link, version });
                }
            }
        }
    }

    /// Why a target takes what the manager gave just now for over: its clock, if the manager says that this is off.
    async fn why_stale(&self, target: TargetId, error: Error) -> Error {
        let Ok(map) = granted::map(&*self.control).await else { return error };
        match map.clock_off(target) {
            Some(off) => Error::refused(format!("target {target} does not take what the manager gave just now: {off}")),
            None => error,
        }
    }

    /// The version of the file for which there are capabilities.
    pub(super) fn version(&self) -> u64 {
        self.grant.borrow().entry.attributes.version
    }

    /// What a component says that it is part of, for when nothing else knows that any more.
    fn described(&self) -> Vec<Attribute> {
        let grant = self.grant.borrow();
        let targets = grant.components.iter().map(|component| component.target);
        Described::of(&grant.entry.attributes, grant.striping, targets).attributes()
    }

    /// Makes a component, or what is beside it, unless it is there.
    pub(super) async fn make(self: &Rc<Self>, component: u32, id: fn(ObjectId) -> ObjectId) -> Result<()> {
        let described = self.described();
        let create = move |object| {
            let made = id(object);
            Ask::Create { id: made, attributes: if made == object { described.clone() } else { Vec::new() } }
        };
        match self.ask(component, create, Vec::new()).await {
            Err(error) if error.kind == Kind::Exists => self.describe(component, id).await,
            made => made.map(drop),
        }
    }

    /// A fence makes a component as well that is not there yet, as one does that is to be filled elsewhere, and knows not what it is
    /// part of: that is said by who writes it.
    async fn describe(self: &Rc<Self>, component: u32, id: fn(ObjectId) -> ObjectId) -> Result<()> {
        let (_, object, _) = self.way(component)?;
        // Of the first version nothing was ever fenced.
        if id(object) != object || self.version() <= FIRST_FENCE {
            return Ok(());
        }
        let page = |id| Ask::Attributes { id, page: DESCRIBED, from: 0 };
        match self.ask(component, page, Vec::new()).await?.reply {
            ObjectReply::Attributes { values, .. } if values.is_empty() => {}
            ObjectReply::Attributes { .. } => return Ok(()),
            other => return Err(strange_answer(&other)),
        }
        let changes: Vec<_> =
            self.described().into_iter().map(|(page, number, value)| (page, number, Some(value))).collect();
        let set = |id| Ask::SetAttributes { id, changes: changes.clone() };
        self.ask(component, set, Vec::new()).await.map(drop)
    }

    /// The same of what is to be there: it is made if it is not.
    pub(super) async fn ask_of_made(
        self: &Rc<Self>,
        component: u32,
        id: fn(ObjectId) -> ObjectId,
        of: impl Fn(ObjectId) -> Ask,
        payload: Vec<Slice>,
    ) -> Result<ObjectAnswer> {
        match self.ask(component, |object| of(id(object)), payload.clone()).await {
            Err(error) if error.kind == Kind::Missing => {
                self.make(component, id).await?;
                self.ask(component, |object| of(id(object)), payload).await
            }
            answer => answer,
        }
    }
}

/// What a node answered.
pub(super) struct Answered {
    pub(super) answer: Answer,
    /// Who gave it.
    pub(super) target: TargetId,
    pub(super) request: RequestId,
    pub(super) link: Link,
    /// The version of the file of which the capability was that allowed it.
    pub(super) version: u64,
}

/// Whether it changes what is there.
fn changes(ask: &Ask) -> bool {
    !matches!(ask, Ask::Read { .. } | Ask::Stat { .. } | Ask::Attributes { .. } | Ask::List { .. } | Ask::Flush { .. })
}

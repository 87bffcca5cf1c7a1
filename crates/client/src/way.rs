//! The way to what lies of a ring or a heap on one target: where it is, and what allows to use it.

use crate::control::{Control, strange};
use crate::granted::{self, Renewing};
use crate::nodes::{Nodes, Request};
use bytes::Bytes as Slice;
use forebay_env::race::{First, race};
use forebay_model::layout::Raid;
use forebay_model::{Bytes, Error, Kind, Moment, ObjectId, Result, TargetId, Timestamp};
use forebay_wire::RequestId;
use forebay_wire::control::files::{Component, ComponentState, Grant, Moving, Renewed};
use forebay_wire::control::names::FileId;
use forebay_wire::control::{Change, Reply};
use forebay_wire::link::{Answer, Asked, Coming, Link};
use forebay_wire::sink::Shown;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// How long is waited before something is tried again.
pub(crate) const PAUSE: Duration = Duration::from_millis(200);
/// So long the manager is asked where a target is that was somewhere before, and whether what lay there lies elsewhere.
const LOOKED_UP: Duration = Duration::from_secs(1);

/// A way to a heap or a ring, or to its part on one target. Clones share what they know, and so do the ways to all parts of a ring.
#[derive(Clone)]
pub(crate) struct Way {
    nodes: Nodes,
    known: Rc<Known>,
    component: usize,
    /// It leads to what lies on this target, also when the part lies elsewhere by now or is to.
    bound: Option<TargetId>,
}

struct Known {
    control: Rc<dyn Control>,
    path: String,
    grant: RefCell<Grant>,
    renewing: Renewing,
    /// When the manager was asked last.
    heard: Cell<Moment>,
    /// Where targets are, as was asked last.
    addresses: RefCell<BTreeMap<TargetId, Address>>,
}

/// Where a target is.
#[derive(Clone)]
struct Address {
    at: String,
    /// It may be elsewhere by now.
    is_doubted: bool,
}

/// Asks the manager again, as long as patience lasts, for what is moved and nobody's just now.
pub(crate) async fn until_free<T>(nodes: &Nodes, ask: impl AsyncFn() -> Result<T>) -> Result<T> {
    let clock = &nodes.env().clock;
    let end = clock.now() + nodes.patience();
    loop {
        match ask().await {
            Err(error) if error.kind == Kind::Busy && clock.now() < end => clock.sleep(PAUSE).await,
            answer => return answer,
        }
    }
}

impl Way {
    /// The ways to the parts of what was granted.
    pub(crate) fn all(nodes: &Nodes, control: &Rc<dyn Control>, path: &str, grant: Grant) -> Vec<Way> {
        let components = grant.components.len();
        let known = Rc::new(Known {
            control: control.clone(),
            path: path.to_string(),
            grant: RefCell::new(grant),
            renewing: Renewing::default(),
            heard: Cell::new(nodes.env().clock.now()),
            addresses: RefCell::default(),
        });
        let way = |component| Way { nodes: nodes.clone(), known: known.clone(), component, bound: None };
        (0..components).map(way).collect()
    }

    /// The same over connections of its own.
    pub(crate) fn apart(&self) -> Way {
        Way { nodes: self.nodes.apart(), ..self.clone() }
    }

    pub(crate) fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// What it is called.
    pub(crate) fn path(&self) -> &str {
        &self.known.path
    }

    /// The entry.
    pub(crate) fn file(&self) -> FileId {
        self.known.grant.borrow().entry.file
    }

    /// The target on which it lies.
    pub(crate) fn target(&self) -> TargetId {
        self.bound.unwrap_or_else(|| self.known.grant.borrow().components[self.component].target)
    }

    /// The way to where it lies now, and no other when it lies elsewhere.
    pub(crate) fn bound(&self) -> Way {
        Way { bound: Some(self.target()), ..self.clone() }
    }

    /// The way to where it lay before it left for where it lies: what was recorded there is not anywhere else.
    pub(crate) fn former(&self) -> Option<Way> {
        self.beside_it(true)
    }

    /// Whether what lay there before it left lies elsewhere by now, or is not any more.
    pub(crate) fn has_left(&self, former: &Way) -> bool {
        self.former().is_none_or(|now| now.target() != former.target())
    }

    /// The way to where it is to lie.
    pub(crate) fn next_place(&self) -> Option<Way> {
        self.beside_it(false)
    }

    fn beside_it(&self, moved: bool) -> Option<Way> {
        let grant = self.known.grant.borrow();
        let moving = self.moving(&grant).filter(|moving| moving.moved == moved && self.bound.is_none())?;
        let bound = Some(moving.place.as_ref()?.target);
        Some(Way { bound, ..self.clone() })
    }

    fn moving<'g>(&self, grant: &'g Grant) -> Option<&'g Moving> {
        grant.moving.iter().find(|moving| moving.component as usize == self.component)
    }

    /// Whether it is to leave the target on which it lies.
    pub(crate) fn is_to_leave(&self) -> bool {
        self.moving(&self.known.grant.borrow()).is_some_and(|moving| !moving.moved)
    }

    /// Whether what it had is made of others if it is lost.
    pub(crate) fn is_covered(&self) -> bool {
        self.known.grant.borrow().striping.raid() == Raid::Five
    }

    /// When the entry was made.
    pub(crate) fn created(&self) -> Timestamp {
        self.known.grant.borrow().entry.attributes.created
    }

    /// Asks until it is answered or patience ends; also the number of the request, and the link that answered. `about` says what is
    /// asked of the object on its target.
    pub(crate) async fn ask_about(
        &self,
        about: impl Fn(TargetId, ObjectId) -> Result<Request>,
        may_repeat: bool,
    ) -> Result<(Answer, RequestId, Link)> {
        let clock = &self.nodes.env().clock;
        let (mut is_renewed, mut is_looked_up, end) = (false, false, clock.now() + self.nodes.patience());
        loop {
            let (request, shown) = self.request(&about)?;
            let target = self.target();
            let asked = match self.address().await {
                Ok(address) => self.nodes.ask_once(&address, &request, Some(&shown)).await,
                Err(error) => Err(error),
            };
            let error = match asked {
                Ok(answered) => return Ok(answered),
                Err(error) => error,
            };
            let is_late = clock.now() >= end;
            match error.kind {
                Kind::Stale if !is_renewed => {
                    self.renew().await?;
                    is_renewed = true;
                }
                Kind::Busy if !is_late => clock.sleep(PAUSE).await,
                // It may be elsewhere by now, and another one there, of which nobody may do that.
                Kind::Forbidden if !is_looked_up => {
                    is_looked_up = true;
                    self.doubt_address();
                }
                Kind::Disconnected => {
                    self.doubt_address();
                    if !may_repeat || is_late && !self.lies_elsewhere_than(target).await {
                        return Err(error);
                    }
                    clock.sleep(PAUSE).await;
                }
                _ => return Err(error),
            }
        }
    }

    /// Whether the manager knows by now that it lies elsewhere than where it was asked in vain, if it answers soon.
    async fn lies_elsewhere_than(&self, target: TargetId) -> bool {
        // It may have come to light on the way.
        if self.target() == target && self.bound.is_none() {
            let renewed = self.renew();
            drop(race(renewed, self.nodes.env().clock.sleep(LOOKED_UP)).await);
        }
        self.target() != target
    }

    /// Asks over this link, once.
    pub(crate) fn ask_over_about(
        &self,
        link: &Link,
        about: impl Fn(TargetId, ObjectId) -> Result<Request>,
        payload: Vec<Slice>,
    ) -> Result<Coming> {
        let (Request { command, body, most, .. }, shown) = self.request(about)?;
        link.ask(Asked { command, body: &body, payload, most, shown: Some(&shown) })
    }

    /// The error, with the name that its user knows instead of the one at the target.
    pub(crate) fn with_name(&self, error: Error, name_of: impl Fn(ObjectId) -> String) -> Error {
        let Ok((_, object, _)) = self.shown() else { return error };
        Error { message: error.message.replace(&name_of(object), self.path()), ..error }
    }

    fn request(&self, about: impl Fn(TargetId, ObjectId) -> Result<Request>) -> Result<(Request, Shown)> {
        self.renew_in_time();
        let (target, object, shown) = self.shown()?;
        Ok((about(target, object)?, shown))
    }

    fn shown(&self) -> Result<(TargetId, ObjectId, Shown)> {
        let grant = self.known.grant.borrow();
        let component = self.lying(&grant)?;
        if component.state == ComponentState::Missed {
            return Err(Error::disconnected(format!(
                "what {} had on target {} was lost with it, and lies nowhere else yet",
                self.path(),
                component.target
            )));
        }
        Ok((component.target, component.object, granted::shown(component)?))
    }

    fn lying<'g>(&self, grant: &'g Grant) -> Result<&'g Component> {
        let now = &grant.components[self.component];
        let Some(target) = self.bound.filter(|bound| *bound != now.target) else { return Ok(now) };
        let place = self.moving(grant).and_then(|moving| moving.place.as_ref()).filter(|place| place.target == target);
        let gone = || Error::disconnected(format!("nothing of {} is on target {target} any more", self.path()));
        place.ok_or_else(gone)
    }

    /// Whether it has all that was put there.
    pub(crate) fn state(&self) -> ComponentState {
        self.lying(&self.known.grant.borrow()).map_or(ComponentState::Missed, |component| component.state)
    }

    /// Which part it leads to.
    pub(crate) fn component(&self) -> u32 {
        self.component as u32
    }

    /// Until when counts what allows to use it.
    pub(crate) fn until(&self) -> Timestamp {
        self.known.grant.borrow().until
    }

    /// A connection to its node.
    pub(crate) async fn link(&self) -> Result<Link> {
        let linked = self.nodes.link(&self.address().await?).await;
        // It may be elsewhere by now.
        linked.inspect_err(|_| self.doubt_address())
    }

    /// Where its target is: the manager is asked if that is not known, or may be another place by now, and not waited for where one is known.
    async fn address(&self) -> Result<String> {
        let (target, control) = (self.target(), &*self.known.control);
        let known = self.known.addresses.borrow().get(&target).cloned();
        if let Some(Address { at, is_doubted: false }) = known {
            return Ok(at);
        }
        let found = match &known {
            Some(_) => match race(granted::map(control), self.nodes.env().clock.sleep(LOOKED_UP)).await {
                First::Left(Ok(map)) => granted::addresses(map).remove(&target),
                First::Left(Err(_)) | First::Right(()) => None,
            },
            None => granted::addresses(granted::map(control).await?).remove(&target),
        };
        let is_doubted = found.is_none();
        let at = found.or(known.map(|known| known.at)).ok_or_else(|| granted::nobody_knows(target))?;
        self.known.addresses.borrow_mut().insert(target, Address { at: at.clone(), is_doubted });
        Ok(at)
    }

    /// Its target may be elsewhere by now.
    fn doubt_address(&self) {
        let mut addresses = self.known.addresses.borrow_mut();
        addresses.get_mut(&self.target()).into_iter().for_each(|address| address.is_doubted = true);
    }

    /// The capacity that the volume of a ring is charged for.
    pub(crate) fn charged(&self) -> Bytes {
        self.known.grant.borrow().entry.attributes.size
    }

    /// Asks the manager what is known of it by now, and for what allows as much.
    pub(crate) async fn renew(&self) -> Result<()> {
        let write = self.known.grant.borrow().write;
        let (file, version) = self.version();
        let renewed = async || granted::renewed(&*self.known.control, Renewed { file, write, version }).await?;
        let grant = until_free(&self.nodes, renewed).await.map_err(|error| error.of(self.path()))?;
        self.known.heard.set(self.nodes.env().clock.now());
        self.take(grant)
    }

    /// The same, if the manager was not asked for so long.
    pub(crate) async fn renew_after(&self, while_known: Duration) -> Result<()> {
        let is_old = self.nodes.env().clock.now().since(self.known.heard.get()) >= while_known;
        if is_old { self.renew().await } else { Ok(()) }
    }

    /// Changes something about where it lies.
    pub(crate) async fn change(&self, change: Change) -> Result<()> {
        match self.known.control.change(change).await.map_err(|error| error.of(self.path()))? {
            Reply::Grant(grant) => self.take(grant),
            Reply::Done => Ok(()),
            other => Err(strange(&other)),
        }
    }

    fn take(&self, grant: Grant) -> Result<()> {
        // Each way leads to one of them.
        if grant.components.len() != self.known.grant.borrow().components.len() {
            return Err(Error::damaged("the manager granted it in another form: use the same release"));
        }
        // Another answer may have overtaken this one.
        if grant.until >= self.known.grant.borrow().until {
            self.known.grant.replace(grant);
        }
        Ok(())
    }

    /// The entry, and its version as it is known here.
    pub(crate) fn version(&self) -> (FileId, u64) {
        let grant = self.known.grant.borrow();
        (grant.entry.file, grant.entry.attributes.version)
    }

    /// Renews before the time is over, beside what is asked meanwhile.
    fn renew_in_time(&self) {
        if self.known.renewing.begin(self.known.grant.borrow().until, &*self.nodes.env().clock) {
            let this = self.clone();
            self.nodes.env().spawner.detach(async move {
                // If it fails, whoever is refused asks again.
                drop(this.renew().await);
                this.known.renewing.end();
            });
        }
    }
}

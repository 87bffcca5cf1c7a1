//! The way to what lies of a ring on one target: where it is, and what allows to use it.

use crate::control::{Control, strange};
use crate::granted::{self, Renewing};
use crate::nodes::{Nodes, Request};
use bytes::Bytes as Slice;
use forebay_model::{Bytes, Error, Kind, ObjectId, Result, TargetId};
use forebay_wire::RequestId;
use forebay_wire::control::files::{ComponentState, Grant, Renewed};
use forebay_wire::control::names::FileId;
use forebay_wire::control::{Change, Reply};
use forebay_wire::link::{Answer, Asked, Coming, Link};
use forebay_wire::ring::{RingAsk, RingRequest, name_of};
use forebay_wire::sink::Shown;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// How long is waited before something is tried again.
pub(super) const PAUSE: Duration = Duration::from_millis(200);

/// A way to a ring, or to its part on one target. Clones share what they know, and so do the ways to all parts of a ring.
#[derive(Clone)]
pub(super) struct Way {
    nodes: Nodes,
    known: Rc<Known>,
    component: usize,
    /// Where its target is, as was asked last.
    address: Rc<RefCell<Option<(TargetId, String)>>>,
}

struct Known {
    control: Rc<dyn Control>,
    path: String,
    grant: RefCell<Grant>,
    renewing: Renewing,
}

impl Way {
    /// The ways to the parts of the ring that was granted.
    pub(super) fn all(nodes: &Nodes, control: &Rc<dyn Control>, path: &str, grant: Grant) -> Vec<Way> {
        let components = grant.components.len();
        let (control, grant) = (control.clone(), RefCell::new(grant));
        let known = Rc::new(Known { control, path: path.to_string(), grant, renewing: Renewing::default() });
        let way = |component| Way { nodes: nodes.clone(), known: known.clone(), component, address: Rc::default() };
        (0..components).map(way).collect()
    }

    /// The same over connections of its own.
    pub(super) fn apart(&self) -> Way {
        Way { nodes: self.nodes.apart(), ..self.clone() }
    }

    pub(super) fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// What the ring is called.
    pub(super) fn path(&self) -> &str {
        &self.known.path
    }

    /// The entry.
    pub(super) fn file(&self) -> FileId {
        self.known.grant.borrow().entry.file
    }

    /// The target on which it lies.
    pub(super) fn target(&self) -> TargetId {
        self.known.grant.borrow().components[self.component].target
    }

    /// Asks of the ring until it is answered or patience ends; also the number of the request, and the link that answered.
    pub(super) async fn ask(&self, ask: &RingAsk) -> Result<(Answer, RequestId, Link)> {
        let clock = &self.nodes.env().clock;
        let (mut is_renewed, mut is_looked_up, end) = (false, false, clock.now() + self.nodes.patience());
        // What was pinned twice would be there twice.
        let may_repeat = !matches!(ask, RingAsk::Pin { .. });
        loop {
            let (request, shown) = self.request(ask)?;
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
                    self.address.take();
                }
                Kind::Disconnected => {
                    self.address.take();
                    if is_late || !may_repeat {
                        return Err(self.named(error));
                    }
                    clock.sleep(PAUSE).await;
                }
                _ => return Err(self.named(error)),
            }
        }
    }

    /// Asks over this link, once.
    pub(super) fn ask_over(&self, link: &Link, ask: &RingAsk, payload: Vec<Slice>, most: usize) -> Result<Coming> {
        let (Request { command, body, .. }, shown) = self.request(ask)?;
        link.ask(Asked { command, body: &body, payload, most, shown: Some(&shown) })
    }

    /// The error, with the name of the ring that its user knows.
    pub(super) fn named(&self, error: Error) -> Error {
        let Ok((_, object, _)) = self.shown() else { return error };
        Error { message: error.message.replace(&name_of(object), self.path()), ..error }
    }

    fn request(&self, ask: &RingAsk) -> Result<(Request, Shown)> {
        self.renew_in_time();
        let (target, ring, shown) = self.shown()?;
        let request = RingRequest { target, ring, ask: ask.clone() };
        let request = Request { command: request.command(), body: request.body()?, payload: Vec::new(), most: 0 };
        Ok((request, shown))
    }

    fn shown(&self) -> Result<(TargetId, ObjectId, Shown)> {
        let grant = self.known.grant.borrow();
        let component = &grant.components[self.component];
        if component.state == ComponentState::Missed {
            return Err(Error::disconnected(format!(
                "what {} had on target {} was lost with it, and lies nowhere else yet",
                self.path(),
                component.target
            )));
        }
        Ok((component.target, component.object, granted::shown(component)?))
    }

    /// Whether it has all that was recorded there.
    pub(super) fn state(&self) -> ComponentState {
        self.known.grant.borrow().components[self.component].state
    }

    /// Which part of the ring it leads to.
    pub(super) fn component(&self) -> u32 {
        self.component as u32
    }

    async fn address(&self) -> Result<String> {
        let target = self.target();
        if let Some((_, address)) = self.address.borrow().clone().filter(|(known, _)| *known == target) {
            return Ok(address);
        }
        let found = granted::addresses(granted::map(&*self.known.control).await?).remove(&target);
        let found = found.ok_or_else(|| granted::nobody_knows(target))?;
        *self.address.borrow_mut() = Some((target, found.clone()));
        Ok(found)
    }

    /// The capacity that its volume is charged for.
    pub(super) fn charged(&self) -> Bytes {
        self.known.grant.borrow().entry.attributes.size
    }

    /// Asks the manager what is known of the ring by now, and for what allows as much.
    pub(super) async fn renew(&self) -> Result<()> {
        let write = self.known.grant.borrow().write;
        let (file, version) = self.version();
        let asked = Renewed { file, write, version };
        let grant = granted::renewed(&*self.known.control, asked).await?.map_err(|error| error.of(self.path()))?;
        self.take(grant)
    }

    /// Changes something about where the ring lies.
    pub(super) async fn change(&self, change: Change) -> Result<()> {
        match self.known.control.change(change).await.map_err(|error| error.of(self.path()))? {
            Reply::Grant(grant) => self.take(grant),
            Reply::Done => Ok(()),
            other => Err(strange(&other)),
        }
    }

    fn take(&self, grant: Grant) -> Result<()> {
        // Each way leads to one of them.
        if grant.components.len() != self.known.grant.borrow().components.len() {
            return Err(Error::damaged("the manager granted a ring in another form: use the same release"));
        }
        // Another answer may have overtaken this one.
        if grant.until >= self.known.grant.borrow().until {
            self.known.grant.replace(grant);
        }
        Ok(())
    }

    /// The entry, and its version as it is known here.
    pub(super) fn version(&self) -> (FileId, u64) {
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

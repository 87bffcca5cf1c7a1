//! Connections to the nodes of a cluster: one to each, made when it is first needed, and made again when it ended.
//!
//! Invariant: at most one connection to an address is made at a time, and whoever needs it meanwhile waits for that one.
//! An address that could not be reached is not tried again for a moment, so that nobody waits for each request anew; and one
//! that has not been reached for as long as patience lasts is *gone*: it is tried again beside what is asked, which waits for
//! that no longer than a node that is there would take. A node that does not answer is asked whether it is there, and one that is
//! *silent* then counts as gone for who can do without it, and in the end for all. The connection that is made
//! again replaces the one before at the node, so that nothing of that is done any more when something is asked again.
//!
//! Requests wait here while too many are under way to an address, or to one target there: those to a target that hangs leave room for
//! others. One that is given up goes on at the node, so it counts for its target until it is answered.
//!
//! Who waits for a lock keeps others waiting until that is given back, perhaps by one that waits here as well: so locks of stripes are
//! waited for apart from the ends of files, of which whoever has one takes a stripe next. Whoever has a stripe of a file with parity, or
//! with two copies, takes nothing after that.

mod silence;

use crate::file::END;
use bytes::Bytes;
use forebay_env::allowance::{Allowance, Allowed};
use forebay_env::fabric::Duplex;
use forebay_env::race::{First, race};
use forebay_env::{NetworkEnv, random};
use forebay_model::{Error, Kind, Moment, ObjectId, Result, TargetId};
use forebay_wire::arrived::Memory;
use forebay_wire::capability::{Capability, LENGTH, Proof, Rights};
use forebay_wire::credit::Credit;
use forebay_wire::frame::MAX_STRANGER;
use forebay_wire::link::{Answer, Asked, Link, Running};
use forebay_wire::lock::Lock;
use forebay_wire::object::{About, Ask, ObjectAnswer, ObjectRequest};
use forebay_wire::ring::{RingAsk, RingRequest};
use forebay_wire::sink::Shown;
use forebay_wire::{Command, RequestId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

/// For so long an address is not tried again that could not be reached.
const PAUSE: Duration = Duration::from_millis(200);
/// For so long a request is asked again that nobody answers.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// After this time a node is asked again that has no room, or has to hear something from the manager first.
pub(crate) const BUSY: Duration = Duration::from_millis(50);
/// Requests to a node without an answer, but for those for locks; and as many for locks of stripes.
const MOST_PENDING: usize = 400;
/// The same for the ends of files. All together stay under what a node takes of one connection.
const MOST_ENDS: usize = 200;
/// Bytes of the proof that is shown with a capability.
const PROOF: usize = size_of::<Proof>();
/// Of each of these, one target has one of so many parts at most.
const PARTS: usize = 2;

/// The nodes, as one client reaches them. Clones share the connections.
#[derive(Clone)]
pub struct Nodes {
    shared: Rc<Shared>,
    /// One that is gone is waited for each time as if that was not known.
    is_patient: bool,
}

/// What requests are counted with: an address, what they wait for, and a target if it is about those to one.
type Counted = (String, Waits, Option<TargetId>);

struct Shared {
    env: NetworkEnv,
    credit: Credit,
    /// What answers come into.
    memory: Memory,
    patience: Duration,
    links: RefCell<BTreeMap<String, State>>,
    /// What each node called the last connection to it.
    before: RefCell<BTreeMap<String, [u8; 16]>>,
    /// Those that are silent, or were when the last connection to them ended: until when that counts.
    silent: RefCell<BTreeMap<String, Moment>>,
    /// Requests under way to each, by what they wait for: all, and those to one target, also if nobody waits for the answer any more.
    pending: RefCell<BTreeMap<Counted, Allowance>>,
    repeated: Cell<u64>,
}

/// What a request waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Waits {
    /// The node.
    Node,
    /// Whoever has the lock of a stripe.
    Stripe,
    /// Whoever has the lock of the end of a file, and takes a stripe next.
    End,
}

enum State {
    Open(Link),
    Connecting(Attempt),
    Failed(Failure),
}

/// A connection that is being made.
struct Attempt {
    begun: Moment,
    wakers: Vec<Waker>,
    /// How those before failed, if they did so not long ago.
    before: Option<Failure>,
}

/// How connections could not be made, one after the other.
#[derive(Clone)]
struct Failure {
    error: Error,
    /// When the first was begun, and when the last one failed.
    since: Moment,
    last: Moment,
}

/// What is asked of a node.
#[derive(Debug, Clone)]
pub struct Request {
    /// The command.
    pub command: Command,
    /// Its body.
    pub body: Vec<u8>,
    /// Its payload, piece by piece.
    pub payload: Vec<Bytes>,
    /// The most bytes that the payload of the answer has.
    pub most: usize,
}

impl Request {
    fn waits(&self) -> Waits {
        if self.command != Command::LOCK {
            return Waits::Node;
        }
        let lock: Result<Lock> = forebay_wire::read_body(&self.body);
        match lock.is_ok_and(|lock| lock.part == END.0) {
            true => Waits::End,
            false => Waits::Stripe,
        }
    }
}

impl Shared {
    /// Waits until a request may be under way to a target at an address: what it has of what the target has, and of all.
    async fn room(&self, address: &str, request: &Request, target: Option<TargetId>) -> (Option<Allowed>, Allowed) {
        let waits = request.waits();
        let most = if waits == Waits::End { MOST_ENDS } else { MOST_PENDING };
        let of = |target, most| {
            let mut all = self.pending.borrow_mut();
            all.entry((address.to_string(), waits, target)).or_insert_with(|| Allowance::new(most)).clone()
        };
        // Who waits for others to its own target has nothing yet of what is for all.
        let of_target = match target {
            Some(_) => Some(of(target, most / PARTS).take(1).await),
            None => None,
        };
        (of_target, of(None, most).take(1).await)
    }

    /// A connection to the node at `address`, which has said hello. `before` is what it called the one that this one replaces.
    async fn greet(&self, address: &str, before: Option<[u8; 16]>) -> Result<(Link, Running)> {
        let env = &self.env;
        let unreachable = |error: Error| {
            // Whatever the network calls it, the node is not there now: what it has, others may give. One that cannot show who
            // it is may be anybody.
            let kind = match error.kind {
                Kind::Missing | Kind::Forbidden | Kind::Usage => Kind::Disconnected,
                kind => kind,
            };
            Error::new(kind, format!("the node at {address} cannot be reached: {}", error.message))
        };
        let Duplex { read, write, is_near, .. } = env.fabric.connect(address).await.map_err(unreachable)?;
        let nonce = random::bytes(&*env.random);
        let credit = if is_near { Credit::boundless() } else { self.credit.clone() };
        let opening = Link::open(read, write, (nonce, before), (credit, self.memory.clone()));
        match race(opening, env.clock.sleep(self.patience)).await {
            First::Left(opened) => opened.map_err(unreachable),
            First::Right(()) => Err(unreachable(Error::disconnected("it takes connections and does not say hello"))),
        }
    }
}

impl Nodes {
    /// Reaches nodes over the network of `env`; `credit` bytes of answers are in flight at most, but for those of nodes on
    /// this machine: no port lies between that could drop them.
    pub fn new(env: NetworkEnv, credit: usize, patience: Duration) -> Nodes {
        Nodes::with(env, (Credit::new(credit), Memory::default()), patience)
    }

    /// The same nodes over connections of its own, for who streams and is not to hold up others. What is in flight to this
    /// client counts together.
    pub fn apart(&self) -> Nodes {
        let Shared { env, credit, memory, patience, .. } = &*self.shared;
        Nodes::with(env.clone(), (credit.clone(), memory.clone()), *patience)
    }

    /// The same nodes and connections, for who has nothing to do without what a node has.
    pub(crate) fn patient(&self) -> Nodes {
        Nodes { is_patient: true, ..self.clone() }
    }

    fn with(env: NetworkEnv, (credit, memory): (Credit, Memory), patience: Duration) -> Nodes {
        let shared = Shared {
            env,
            credit,
            memory,
            patience,
            links: RefCell::default(),
            before: RefCell::default(),
            silent: RefCell::default(),
            pending: RefCell::default(),
            repeated: Cell::default(),
        };
        Nodes { shared: Rc::new(shared), is_patient: false }
    }

    /// What it runs on.
    pub fn env(&self) -> &NetworkEnv {
        &self.shared.env
    }

    /// For how long it asks again.
    pub fn patience(&self) -> Duration {
        self.shared.patience
    }

    /// Rises whenever something is asked again that may have been done.
    pub fn repeated(&self) -> u64 {
        self.shared.repeated.get()
    }

    /// Something is asked again that may have been done.
    pub(crate) fn repeats(&self) {
        self.shared.repeated.set(self.shared.repeated.get() + 1);
    }

    /// A connection to the node at `address`.
    pub async fn link(&self, address: &str) -> Result<Link> {
        let begun = self.begun(address);
        let Some(failure) = self.gone(address) else { return self.linked(address).await };
        // One that is there answers at once.
        let left = (begun + PAUSE).since(self.shared.env.clock.now());
        if left.is_zero() {
            return Err(failure.error);
        }
        match race(self.linked(address), self.shared.env.clock.sleep(left)).await {
            First::Left(linked) => linked,
            First::Right(()) => Err(failure.error),
        }
    }

    /// Whether nobody is to wait for the node at `address`: it has not been reached for as long as patience lasts, and was tried
    /// until now; or it is silent.
    pub(crate) fn is_gone(&self, address: &str) -> bool {
        !self.is_patient && (self.gone(address).is_some() || self.is_silent(address))
    }

    /// Whether there is a connection to the node at `address`; if not, one is made meanwhile.
    pub(crate) fn is_there(&self, address: &str) -> bool {
        self.begun(address);
        matches!(self.shared.links.borrow().get(address), Some(State::Open(link)) if link.ended().is_none())
    }

    fn gone(&self, address: &str) -> Option<Failure> {
        let now = self.shared.env.clock.now();
        let links = self.shared.links.borrow();
        let failure = match links.get(address)? {
            State::Failed(failure) => Some(failure).filter(|failure| self.is_fresh(failure)),
            State::Connecting(attempt) => attempt.before.as_ref(),
            State::Open(_) => None,
        };
        failure.filter(|failure| now >= failure.since + self.shared.patience).cloned()
    }

    /// Whether what failed says something about now.
    fn is_fresh(&self, failure: &Failure) -> bool {
        self.shared.env.clock.now() < failure.last + self.shared.patience
    }

    /// Sees to it that there is a connection, or that it is being made, or was not long ago: since when.
    fn begun(&self, address: &str) -> Moment {
        let now = self.shared.env.clock.now();
        let mut links = self.shared.links.borrow_mut();
        let before = match links.get(address) {
            Some(State::Open(link)) if link.ended().is_none() => return now,
            Some(State::Connecting(attempt)) => return attempt.begun,
            Some(State::Failed(failure)) if now < failure.last + PAUSE => return now,
            Some(State::Failed(failure)) => Some(failure.clone()).filter(|failure| self.is_fresh(failure)),
            _ => None,
        };
        let attempt = Attempt { begun: now, wakers: Vec::new(), before };
        links.insert(address.to_string(), State::Connecting(attempt));
        drop(links);
        let place = Place { shared: self.shared.clone(), address: address.to_string(), outcome: None };
        let this = self.clone();
        // Whoever asked for it may not wait to the end.
        self.shared.env.spawner.detach(async move {
            let opened = this.open(&place.address).await;
            place.end(opened);
        });
        now
    }

    /// Waits until the attempt that was begun has come to its end.
    async fn linked(&self, address: &str) -> Result<Link> {
        poll_fn(|context| match self.shared.links.borrow_mut().get_mut(address) {
            Some(State::Open(link)) => Poll::Ready(Ok(link.clone())),
            Some(State::Connecting(attempt)) => {
                if !attempt.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                    attempt.wakers.push(context.waker().clone());
                }
                Poll::Pending
            }
            Some(State::Failed(failure)) => Poll::Ready(Err(failure.error.clone())),
            None => Poll::Ready(Err(Error::disconnected("this client ends"))),
        })
        .await
    }

    async fn open(&self, address: &str) -> Result<Link> {
        let env = &self.shared.env;
        let before = self.shared.before.borrow().get(address).copied();
        let (link, running) = self.shared.greet(address, before).await?;
        self.shared.before.borrow_mut().insert(address.to_string(), link.hello().nonce);
        self.shared.silent.borrow_mut().remove(address);
        env.spawner.detach(async move { drop(running.await) });
        env.spawner.detach(silence::listen(Rc::downgrade(&self.shared), address.to_string(), link.clone()));
        Ok(link)
    }

    /// Asks the node at `address`, over one connection after the other until one answers or patience ends: only what may be
    /// done twice. Also the number of the request, and the link that answered.
    pub async fn ask(
        &self,
        address: &str,
        request: &Request,
        shown: Option<&Shown>,
    ) -> Result<(Answer, RequestId, Link)> {
        let end = self.shared.env.clock.now() + self.shared.patience;
        loop {
            let asked = self.ask_once(address, request, shown).await;
            match asked {
                Err(error) if error.kind == Kind::Disconnected && self.shared.env.clock.now() < end => {
                    self.repeats();
                    self.shared.env.clock.sleep(PAUSE).await;
                }
                asked => return asked,
            }
        }
    }

    /// Asks a target of the node there about an object, which `shown` is shown for. A connection that has ended is made again once, so it
    /// may be done twice; a node that cannot be reached then is not waited for. One that has no room or no keys yet is.
    pub async fn ask_of_object(
        &self,
        address: &str,
        asked: &ObjectRequest,
        payload: &[u8],
        shown: impl FnOnce(ObjectId, Rights) -> Shown,
    ) -> Result<ObjectAnswer> {
        let About { object, rights, .. } = asked.about_with(payload.len())?;
        let shown = shown(object, rights);
        let payload = if payload.is_empty() { Vec::new() } else { vec![payload.to_vec().into()] };
        // Nothing else is answered with bytes.
        let most = if let Ask::Read { length, .. } = asked.ask { length as usize } else { 0 };
        let request = Request { command: asked.command(), body: asked.body()?, payload, most };
        let clock = &self.shared.env.clock;
        let (mut is_again, end) = (false, clock.now() + self.shared.patience);
        loop {
            match self.ask_once(address, &request, Some(&shown)).await {
                Err(error) if error.kind == Kind::Disconnected && !is_again => is_again = true,
                Err(error) if error.kind == Kind::Busy && clock.now() < end => clock.sleep(BUSY).await,
                answer => {
                    let (answer, ..) = answer?;
                    return ObjectAnswer::read(&answer.body, answer.payload);
                }
            }
        }
    }

    /// The same as [`Nodes::ask`], once.
    pub async fn ask_once(
        &self,
        address: &str,
        request: &Request,
        shown: Option<&Shown>,
    ) -> Result<(Answer, RequestId, Link)> {
        let Request { command, body, payload, most } = request;
        let target = shown.and_then(|shown| Capability::target_of(&shown.capability));
        let (of_target, _pending) = self.shared.room(address, request, target).await;
        let link = self.link(address).await?;
        if let Some(shown) = shown {
            introduce(&link, request, shown).await?;
        }
        let asked = Asked { command: *command, body, payload: payload.clone(), most: *most, shown };
        let coming = link.ask(asked)?;
        coming.keep(of_target);
        let id = coming.request();
        Ok((coming.await?, id, link))
    }
}

/// A node takes no body as large as that of a query may be over a connection on which nothing was shown yet that counts: something small
/// is asked before, which is allowed by the same.
async fn introduce(link: &Link, Request { command, body, .. }: &Request, shown: &Shown) -> Result<()> {
    if LENGTH + PROOF + body.len() <= MAX_STRANGER as usize || *command != Command::QUERY {
        return Ok(());
    }
    let Some(RingRequest { target, ring, .. }) = RingRequest::read(*command, body)? else { return Ok(()) };
    let nothing = RingRequest { target, ring, ask: RingAsk::Next(u64::MAX) };
    let body = nothing.body()?;
    let asked = Asked { command: nothing.command(), body: &body, payload: Vec::new(), most: 0, shown: Some(shown) };
    match link.ask(asked)?.await {
        // There is no such query, and who asked may know that.
        Err(error) if error.kind == Kind::Missing => Ok(()),
        answer => answer.map(drop),
    }
}

impl Drop for Shared {
    /// Nobody asks over its connections any more, nor wants what was begun over them: they end once what was asked has gone out.
    fn drop(&mut self) {
        for state in self.links.get_mut().values() {
            if let State::Open(link) = state {
                link.close();
            }
        }
    }
}

/// Where a connection is being made.
struct Place {
    shared: Rc<Shared>,
    address: String,
    /// Of an attempt that came to its end.
    outcome: Option<Result<Link>>,
}

impl Place {
    fn end(mut self, opened: Result<Link>) {
        self.outcome = Some(opened);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut links = self.shared.links.borrow_mut();
        let Some(State::Connecting(Attempt { begun, wakers, before })) = links.remove(&self.address) else { return };
        let outcome = self.outcome.take().map(|outcome| match outcome {
            Ok(link) => State::Open(link),
            Err(error) => {
                let since = before.map_or(begun, |before| before.since);
                State::Failed(Failure { error, since, last: self.shared.env.clock.now() })
            }
        });
        if let Some(outcome) = outcome {
            links.insert(std::mem::take(&mut self.address), outcome);
        }
        drop(links);
        wakers.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests;

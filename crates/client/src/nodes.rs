//! Connections to the nodes of a cluster: one to each, made when it is first needed, and made again when it ended.
//!
//! Invariant: at most one connection to an address is made at a time, and whoever needs it meanwhile waits for that one.
//! An address that could not be reached is not tried again for a moment, so that nobody waits for each request anew. A node
//! that does not answer is asked whether it is there, and one that is silent then counts as gone. The connection that is made
//! again replaces the one before at the node, so that nothing of that is done any more when something is asked again.

use bytes::Bytes;
use forebay_env::allowance::Allowance;
use forebay_env::fabric::Duplex;
use forebay_env::race::{First, race};
use forebay_env::{Clock, NetworkEnv, random};
use forebay_model::{Error, Kind, Moment, Result};
use forebay_wire::arrived::Memory;
use forebay_wire::credit::Credit;
use forebay_wire::frame::HEADER;
use forebay_wire::link::{Answer, Asked, Link};
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
/// Requests to a node without an answer: under what a node takes of one connection.
const MOST_PENDING: usize = 400;

/// The nodes, as one client reaches them. Clones share the connections.
#[derive(Clone)]
pub struct Nodes {
    shared: Rc<Shared>,
}

struct Shared {
    env: NetworkEnv,
    credit: Credit,
    /// What answers come into.
    memory: Memory,
    patience: Duration,
    links: RefCell<BTreeMap<String, State>>,
    /// What each node called the last connection to it.
    before: RefCell<BTreeMap<String, [u8; 16]>>,
    /// Requests under way to each; locks are waited for beside them.
    pending: RefCell<BTreeMap<(String, bool), Allowance>>,
    repeated: Cell<u64>,
}

enum State {
    Open(Link),
    Connecting(Vec<Waker>),
    Failed(Error, Moment),
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

    fn with(env: NetworkEnv, (credit, memory): (Credit, Memory), patience: Duration) -> Nodes {
        let shared = Shared {
            env,
            credit,
            memory,
            patience,
            links: RefCell::default(),
            before: RefCell::default(),
            pending: RefCell::default(),
            repeated: Cell::default(),
        };
        Nodes { shared: Rc::new(shared) }
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
        let shared = &self.shared;
        let known = poll_fn(|context| {
            let mut links = shared.links.borrow_mut();
            match links.get_mut(address) {
                Some(State::Open(link)) if link.ended().is_none() => return Poll::Ready(Ok(Some(link.clone()))),
                Some(State::Connecting(wakers)) => {
                    wakers.push(context.waker().clone());
                    return Poll::Pending;
                }
                Some(State::Failed(error, until)) if shared.env.clock.now() < *until => {
                    return Poll::Ready(Err(error.clone()));
                }
                _ => {}
            }
            links.insert(address.to_string(), State::Connecting(Vec::new()));
            Poll::Ready(Ok(None))
        })
        .await?;
        if let Some(link) = known {
            return Ok(link);
        }
        // Whoever gives up here leaves the place to the next.
        let mut place = Place { shared: shared.clone(), address: address.to_string(), outcome: None };
        let opened = self.open(address).await;
        let pause = shared.env.clock.now() + PAUSE;
        place.outcome = Some(match &opened {
            Ok(link) => State::Open(link.clone()),
            Err(error) => State::Failed(error.clone(), pause),
        });
        opened
    }

    async fn open(&self, address: &str) -> Result<Link> {
        let env = &self.shared.env;
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
        let before = self.shared.before.borrow().get(address).copied();
        let credit = if is_near { Credit::boundless() } else { self.shared.credit.clone() };
        let opening = Link::open(read, write, (nonce, before), (credit, self.shared.memory.clone()));
        let (link, running) = match race(opening, env.clock.sleep(self.shared.patience)).await {
            First::Left(opened) => opened.map_err(unreachable)?,
            First::Right(()) => {
                return Err(unreachable(Error::disconnected("it takes connections and does not say hello")));
            }
        };
        self.shared.before.borrow_mut().insert(address.to_string(), link.hello().nonce);
        env.spawner.detach(async move { drop(running.await) });
        env.spawner.detach(listen(link.clone(), env.clock.clone(), self.shared.patience));
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

    /// The same, once.
    pub async fn ask_once(
        &self,
        address: &str,
        request: &Request,
        shown: Option<&Shown>,
    ) -> Result<(Answer, RequestId, Link)> {
        let Request { command, body, payload, most } = request;
        let pending = {
            let mut all = self.shared.pending.borrow_mut();
            let key = (address.to_string(), *command == Command::LOCK);
            all.entry(key).or_insert_with(|| Allowance::new(MOST_PENDING)).clone()
        };
        let _pending = pending.take(1).await;
        let link = self.link(address).await?;
        let asked = Asked { command: *command, body, payload: payload.clone(), most: *most, shown };
        let coming = link.ask(asked)?;
        let id = coming.request();
        Ok((coming.await?, id, link))
    }
}

/// Asks a node whether it is there when it is silent for a while, and ends the connection to one that is silent then.
async fn listen(link: Link, clock: Rc<dyn Clock>, pause: Duration) {
    let (mut before, mut waited, mut is_asked) = (link.moved(), false, false);
    while link.ended().is_none() {
        clock.sleep(pause).await;
        let (came, gone) = link.moved();
        // The question itself is no sign of life.
        let asked = if is_asked { HEADER as u64 } else { 0 };
        let is_still = came == before.0 && gone <= before.1 + asked;
        // What was asked just now had no time yet.
        let is_silent = link.is_waiting() && waited && is_still;
        if is_silent && is_asked {
            return link
                .abandon(&Error::disconnected("the node takes requests and answers none: it hangs, or is cut off"));
        }
        (before, waited, is_asked) = ((came, gone), link.is_waiting(), is_silent);
        if is_silent {
            // Whatever comes counts, the answer is as good as others.
            drop(link.ping());
        }
    }
}

/// Where a connection is being made.
struct Place {
    shared: Rc<Shared>,
    address: String,
    outcome: Option<State>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut links = self.shared.links.borrow_mut();
        let before = match self.outcome.take() {
            Some(outcome) => links.insert(self.address.clone(), outcome),
            None => links.remove(&self.address),
        };
        if let Some(State::Connecting(wakers)) = before {
            wakers.into_iter().for_each(Waker::wake);
        }
    }
}

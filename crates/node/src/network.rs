//! Targets for clients on other machines: connections, each a task; on every command a capability; memory and connections
//! within bounds.
//!
//! Everything here runs on one loop and never touches a device: targets have loops of their own, reached by their mailboxes.
//! What is shared by all connections is in [`Node`]; [`session`] is one of them, [`answers`] what it sends back.

mod answers;
mod cuts;
mod divided;
mod heaps;
mod images;
mod incoming;
mod intake;
mod keys;
mod load;
mod locking;
mod locks;
mod patience;
mod payloads;
mod places;
mod reports;
mod rings;
mod session;
mod sessions;

pub use crate::service::status::{Moved, TargetStatus, ToldOf};
pub use cuts::{CutCounts, Unwelcome};
pub use keys::{Keys, Refusals};
pub use reports::{Heard, Identity, ToManager};

use crate::host::{Handles, Host, TargetHandle};
use crate::objects::ObjectLink;
use crate::service::{self, LinkId};
use cuts::Cuts;
use divided::{Divided, Portion};
use forebay_env::Env;
use forebay_env::allowance::Allowance;
use forebay_env::fabric::{Door, Duplex, NetworkEnv};
use forebay_env::mailbox::mailbox;
use forebay_env::race::{First, race};
use forebay_env::together::all;
use forebay_model::{Bytes, Error, Rate, Result, TargetId};
use forebay_target::Target;
use forebay_wire::control::cluster::ShutOut;
use forebay_wire::sink::{Frame, FrameSink};
use forebay_wire::{Command, RequestId};
use incoming::Incoming;
use intake::Intake;
use locks::Locks;
use payloads::Payloads;
use places::Places;
use sessions::Sessions;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// What a node takes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Connections at once. When all are taken, the stranger that is there longest makes room: one that has not shown a
    /// capability that counts.
    pub connections: usize,
    /// Strangers among them from one machine, of which the longest makes room for one more.
    pub strangers: usize,
    /// Queries of rings at once, of all connections together: each reads ahead, whether or not somebody asks for what it found.
    pub queries: usize,
    /// Bytes of answers that are under way, of all connections together; and as many of what is written.
    pub memory: Bytes,
    /// Memory for I/O that large payloads of what is written come into; beyond it they come into memory of any kind.
    pub payloads: Bytes,
    /// Bytes of what is written that are on their way, of all connections together: what the node's port in the network takes
    /// without dropping any.
    pub intake: Bytes,
    /// How long a peer may take to say hello; and how long a frame that it began may take, and what it asked for until it has taken
    /// that, besides the time that the bytes need at `least_rate`.
    pub patience: Duration,
    /// The rate with which a frame has to come, and what was asked for has to go, once patience is used up. At no rate any byte is
    /// enough.
    pub least_rate: Rate,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            connections: 4096,
            strangers: 1024,
            queries: 128,
            memory: Bytes::mib(256),
            payloads: Bytes::mib(256),
            intake: Bytes::kib(192),
            patience: Duration::from_secs(30),
            least_rate: Rate(64 << 10),
        }
    }
}

/// A target that commands are passed on to. Clones lead to the same one.
#[derive(Clone)]
pub struct TargetDoor {
    id: TargetId,
    handle: TargetHandle,
}

impl TargetDoor {
    /// Serves `target` by a task on its own loop.
    pub fn open(env: &Env, target: Rc<Target>) -> TargetDoor {
        let (orders, receiver) = mailbox();
        let id = target.id();
        env.spawner.detach(service::serve(env.clone(), target, receiver));
        TargetDoor { id, handle: TargetHandle::new(orders) }
    }

    /// The targets of a host, whose loops have threads of their own; `told` is given those that are added later.
    pub fn of(host: &Host, told: impl Fn(TargetDoor) + Send + 'static) -> Vec<TargetDoor> {
        let there = host.follow(move |id, handle| told(TargetDoor { id, handle }));
        there.into_iter().map(|(id, handle)| TargetDoor { id, handle }).collect()
    }

    /// Which target it is.
    pub fn id(&self) -> TargetId {
        self.id
    }

    /// A way to its objects past the network, which is the only one of its kind.
    pub fn objects(&self) -> ObjectLink {
        ObjectLink::new(LinkId(FIRST_LINK), Handles::one(self.id, self.handle.clone()))
    }
}

/// Targets on the network.
pub struct Node {
    env: NetworkEnv,
    bounds: Bounds,
    process: u32,
    targets: RefCell<BTreeMap<TargetId, TargetDoor>>,
    keys: Keys,
    locks: Rc<Locks>,
    sessions: Rc<Sessions>,
    /// Of answers with payloads: free again when their clients have let them come.
    outgoing: Divided,
    /// Of these, what one request has that is larger than a connection's window: few are let in, so that they do not leave others
    /// without.
    large_outgoing: Divided,
    /// Of what is written: free again when its target has it.
    incoming: Rc<Incoming>,
    /// Of answers without a payload, which so do not wait for those with one.
    small: Allowance,
    /// Of those among them that may be large, for which nobody asks before there is room.
    told: Divided,
    /// Where large payloads come.
    payloads: RefCell<Payloads>,
    /// How much may be on its way here.
    intake: Rc<Intake>,
    places: Rc<Places>,
    cuts: Rc<Cuts>,
    /// Who is told why there is no connection.
    turned_away: Rc<()>,
    /// Queries of rings that go on.
    queries: Rc<()>,
    next_link: Cell<u64>,
}

impl Node {
    /// Serves `targets`; nothing is allowed before [`Node::keys`] has keys. `process` is what clients are told of it.
    pub fn new(env: NetworkEnv, targets: Vec<TargetDoor>, bounds: Bounds, process: u32) -> Rc<Node> {
        let cuts = Cuts::new(env.clock.clone());
        let memory = bounds.memory.0 as usize;
        let told = TOLD.min(memory);
        // Where there is one target, nobody else has use for what it may not have.
        let parts = targets.len().clamp(1, 2);
        Rc::new(Node {
            keys: Keys::default(),
            locks: Rc::default(),
            sessions: Rc::default(),
            outgoing: Divided::new(memory, memory / parts),
            large_outgoing: incoming::for_large(),
            incoming: Incoming::new(bounds.memory, parts, env.clock.clone(), bounds.patience),
            small: Allowance::new(SMALL.min(memory)),
            told: Divided::new(told, told / parts),
            payloads: RefCell::new(Payloads::new(bounds.payloads)),
            intake: Intake::new(bounds.intake, env.clock.clone()),
            places: Places::new(bounds.connections, bounds.strangers, cuts.clone()),
            cuts,
            turned_away: Rc::new(()),
            queries: Rc::new(()),
            next_link: Cell::new(FIRST_LINK),
            targets: RefCell::new(targets.into_iter().map(|target| (target.id, target)).collect()),
            env,
            bounds,
            process,
        })
    }

    /// What commands are checked with.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Of what these clients were given, and of nobody else's, nothing counts any more; what they have under way ends.
    pub(crate) fn shut_out(&self, clients: &[ShutOut]) {
        self.keys.shut_out(clients);
        if !clients.is_empty() {
            self.sessions.shut_out(|client, until| self.keys.is_shut_out(client, until));
        }
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.places.taken()
    }

    /// How its targets are, each as far as it answers in time.
    pub async fn statuses(&self) -> Vec<ToldOf> {
        let doors: Vec<TargetDoor> = self.targets.borrow().values().cloned().collect();
        let asked = doors.iter().map(|door| async {
            match race(door.handle.status(), self.env.clock.sleep(MOST_OF_STATUS)).await {
                First::Left(status) => (door.id, status),
                First::Right(()) => (door.id, Err(Error::disconnected(format!("target {} does not answer", door.id)))),
            }
        });
        all(asked).await
    }

    /// Connections that it ended by itself or did not take, since it began.
    pub fn cuts(&self) -> CutCounts {
        self.cuts.counts()
    }

    /// Has `told` hear of what came that was malformed, once a minute at most.
    pub fn warn(&self, told: impl Fn(Unwelcome) + 'static) {
        self.cuts.tell(Box::new(told));
    }

    /// Bytes of requests and answers that are under way.
    pub fn memory_used(&self) -> Bytes {
        let without_payload = self.small.used() + self.told.used();
        Bytes((self.outgoing.used() + self.incoming.used() + without_payload) as u64)
    }

    /// Waits until there is memory for what is to be read from a target: for all of it, and, if it is one of the large, among those.
    async fn room_to_read(&self, target: TargetId, weight: usize) -> (Option<Portion>, Portion) {
        let large = match incoming::is_large(weight) {
            true => Some(self.large_outgoing.take(target, weight).await),
            false => None,
        };
        (large, self.outgoing.take(target, weight).await)
    }

    /// Takes connections in until the door fails.
    pub async fn serve(self: Rc<Self>, door: Box<dyn Door>) -> Result<()> {
        loop {
            let duplex = door.accept().await?;
            let Some(place) = self.places.join(&duplex.machine) else {
                self.cuts.full();
                self.turn_away(duplex);
                continue;
            };
            let this = self.clone();
            self.env.spawner.detach(async move {
                session::serve(&this, duplex, Rc::new(place)).await;
                this.payloads.borrow_mut().trim();
            });
        }
    }

    /// Says why there is no connection, unless that is being said to many.
    fn turn_away(&self, duplex: Duplex) {
        if Rc::strong_count(&self.turned_away) > MOST_TURNED_AWAY.min(self.bounds.connections / 8 + 1) {
            return;
        }
        let most = self.bounds.connections;
        let error = Error::busy(format!("{most} connections are open already; end some, or try again later"));
        let (limit, told) = (self.env.clock.sleep(self.bounds.patience), self.turned_away.clone());
        // Whoever does not listen to that, or never begins to, is not waited for.
        self.env.spawner.detach(async move {
            race(say_why(duplex, error), limit).await;
            drop(told);
        });
    }

    /// Serves another target, when the manager has heard of it.
    pub fn add(&self, target: TargetDoor) {
        self.targets.borrow_mut().insert(target.id, target);
    }

    fn door(&self, target: TargetId) -> Result<TargetDoor> {
        self.targets
            .borrow()
            .get(&target)
            .cloned()
            .ok_or_else(|| Error::missing(format!("there is no target {target}")))
    }

    fn link(&self) -> LinkId {
        LinkId(self.next())
    }

    /// A number for whatever is at a target.
    fn next(&self) -> u64 {
        self.next_link.set(self.next_link.get() + 1);
        self.next_link.get()
    }
}

/// How long a target may take to say how it is: its loop does nothing else that lasts, whatever its device does.
const MOST_OF_STATUS: Duration = Duration::from_secs(2);
/// Memory for answers without a payload.
const SMALL: usize = 32 << 20;
/// Memory for those that may be large.
const TOLD: usize = 64 << 20;
/// Who is told at the same time that there is no place, and no more than an eighth of the places; others are hung up on.
const MOST_TURNED_AWAY: usize = 64;
/// Links, recorders and queries of the network are told from those of this process by their numbers.
const FIRST_LINK: u64 = 1 << 63;

/// Says why there is no connection.
async fn say_why(duplex: Duplex, error: Error) {
    let Ok(frame) = Frame::error(RequestId(0), Command::HELLO, &error) else { return };
    let sink = FrameSink::default();
    sink.push(frame);
    sink.close();
    // Whoever it is may be gone already.
    drop(sink.drive(duplex.write).await);
}

#[cfg(test)]
mod tests;

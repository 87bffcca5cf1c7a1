//! Targets on the network: a node's loop on a thread of its own.

use crate::tls::{TlsFiles, reached_at};
use forebay_env::mailbox::{Sender, mailbox};
use forebay_env::pipe::{Inlet, pipe};
use forebay_env::race::race;
use forebay_env::real::{self, Tls, process, thread};
use forebay_env::watched::Watched;
use forebay_model::{Bytes, Error, Kind, Result};
use forebay_node::Host;
use forebay_node::network::{
    Bounds, CutCounts, Heard, Identity, Node, Refusals, TargetDoor, ToManager, ToldOf, Unwelcome,
};
use forebay_wire::control::cluster::Report;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a node that ends tries to say so.
const GOODBYE: Duration = Duration::from_secs(1);

/// What a node serves, where, and as whom.
pub struct NodeOptions<'a> {
    /// The targets.
    pub host: &'a Host,
    /// Where it listens: an address and a port, 0 for any that is free.
    pub listen: &'a str,
    /// Where clients reach it, if not there: a host, perhaps with a port.
    pub known_as: Option<String>,
    /// Its number.
    pub node: u64,
    /// The cluster of its targets.
    pub cluster: u128,
    /// What it takes on.
    pub bounds: Bounds,
    /// Called when something came that was malformed, once a minute at most.
    pub warned: fn(Unwelcome),
    /// What it shows to those who connect, if anything.
    pub tls: Option<&'a TlsFiles>,
    /// Whether its manager is another process: that may be away when it starts, and is told when it ends.
    pub is_apart: bool,
}

/// A node at work.
pub struct NodeHost {
    orders: Sender<Order>,
    address: String,
    is_apart: bool,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
    said: Arc<Watched<Said>>,
}

/// What was said to a node.
#[derive(Default)]
struct Said {
    /// By the manager, last.
    last: Option<Result<Heard>>,
    /// Why nobody can connect to it any more.
    failed: Option<Error>,
    /// Its loop has ended.
    is_over: bool,
}

/// Tells how a node is. Clones tell of the same one.
#[derive(Clone)]
pub struct NodeTeller {
    orders: Sender<Order>,
    said: Arc<Watched<Said>>,
}

/// Ends a node from wherever that is decided.
pub struct NodeEnding {
    orders: Sender<Order>,
}

/// What a node's loop is told.
enum Order {
    Tell(Inlet<NodeStatus>),
    Add(TargetDoor),
    End,
}

/// How a node is.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeStatus {
    /// Its targets.
    pub targets: Vec<ToldOf>,
    /// Connections that are open.
    pub connections: usize,
    /// Bytes of requests and answers that are under way.
    pub memory: Bytes,
    /// Commands that were refused.
    pub refusals: Refusals,
    /// Connections that it ended by itself or did not take.
    pub cuts: CutCounts,
}

impl NodeHost {
    /// Listens, and begins to report over the way that `manager` makes; `told` hears what comes of each report. Nothing is
    /// served before the manager has answered: see [`NodeHost::ready`].
    pub fn start(
        options: NodeOptions<'_>,
        manager: impl FnOnce() -> Rc<dyn ToManager> + Send + 'static,
        told: impl Fn(&Result<Heard>) + Send + 'static,
    ) -> Result<NodeHost> {
        let NodeOptions { host, listen, known_as, node: number, cluster, bounds, warned, tls, is_apart } = options;
        let tls = tls.map_or(Ok(Tls::default()), TlsFiles::showing)?;
        let shown = tls.clone();
        let (orders, mut receiver) = mailbox();
        let (adding, failing) = (orders.clone(), orders.clone());
        // A node that has ended serves nothing more.
        let doors = TargetDoor::of(host, move |door| drop(adding.send(Order::Add(door))));
        let (bound, mut outcome) = pipe(0);
        let said: Arc<Watched<Said>> = Arc::default();
        let (listen, hearing) = (listen.to_string(), said.clone());
        let thread = thread::spawn("node", move || {
            let over = hearing.clone();
            let ended = process::or_end("the loop of the node", || {
                real::run_network_with(tls, move |env| async move {
                    let opened = env.fabric.listen(&listen).await.and_then(|door| {
                        let address = reached_at(&door.address(), known_as.as_deref())?;
                        shown.check_name(&address)?;
                        Ok((door, address))
                    });
                    let (door, address) = match opened {
                        Ok(opened) => opened,
                        Err(error) => {
                            bound.send(Err(error), 0).await;
                            return;
                        }
                    };
                    bound.send(Ok(address.clone()), 0).await;
                    drop(bound);
                    let node = Node::new(env.clone(), doors, bounds, process::id());
                    node.warn(warned);
                    let (serving, failed) = (node.clone(), hearing.clone());
                    env.spawner.detach(async move {
                        // One to which nobody can connect any more is none: whoever asks how it is learns why.
                        if let Err(error) = serving.serve(door).await {
                            let error =
                                error.of("the node takes no connections any more and has ended; start it again");
                            failed.change(|said| said.failed = Some(error));
                            drop(failing.send(Order::End));
                        }
                    });
                    let identity = Identity { node: number, cluster, address: address.clone() };
                    let manager = manager();
                    env.spawner.detach(node.clone().keep_reporting(identity, manager.clone(), move |heard| {
                        told(&heard);
                        hearing.change(|said| said.last = Some(heard));
                    }));
                    while let Some(order) = receiver.receive().await {
                        match order {
                            Order::Tell(answer) => {
                                let node = node.clone();
                                // A target that takes its time keeps nobody else waiting.
                                env.spawner.detach(async move {
                                    let status = NodeStatus {
                                        targets: node.statuses().await,
                                        connections: node.connections(),
                                        memory: node.memory_used(),
                                        refusals: node.keys().refusals(),
                                        cuts: node.cuts(),
                                    };
                                    answer.send(status, 0).await;
                                });
                            }
                            Order::Add(door) => node.add(door),
                            Order::End => break,
                        }
                    }
                    if is_apart {
                        // From then on nothing new is put on its targets; without it the manager finds out by itself.
                        let (targets, wall) = (Vec::new(), env.clock.wall());
                        let goodbye = manager.report(Report { node: number, address, targets, wall });
                        race(goodbye, env.clock.sleep(GOODBYE)).await;
                    }
                })
            });
            // Whoever waits for it finds that it is gone.
            drop(ended);
            over.change(|said| said.is_over = true);
        })?;
        let address = outcome.receive_blocking().unwrap_or_else(|| Err(gone()))?;
        Ok(NodeHost { orders, address, is_apart, thread: Mutex::new(Some(thread)), said })
    }

    /// Waits until the manager lets the node serve: true then, and false if the node was ended before that.
    pub fn ready(&self) -> Result<bool> {
        let is_waited_for = |said: &mut Said| match &said.last {
            None => true,
            Some(heard) => self.is_apart && heard.as_ref().is_err_and(is_away),
        };
        let said = self.said.wait_while(self.said.lock(), |said| !said.is_over && is_waited_for(said));
        if let Some(error) = &said.failed {
            return Err(error.clone());
        }
        match &said.last {
            // What may be served is, whatever else there is.
            Some(Ok(Heard { refused, serving, .. })) => match refused.first().filter(|_| *serving == 0) {
                Some((target, error)) => Err(error.clone().of(format!("target {target}"))),
                None => Ok(true),
            },
            Some(Err(error)) if !self.is_apart || !is_away(error) => Err(error.clone()),
            _ => Ok(false),
        }
    }

    /// Where clients reach it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Who ends it.
    pub fn ending(&self) -> NodeEnding {
        NodeEnding { orders: self.orders.clone() }
    }

    /// Who tells how it is.
    pub fn teller(&self) -> NodeTeller {
        NodeTeller { orders: self.orders.clone(), said: self.said.clone() }
    }

    /// Ends all connections. The targets are as they are.
    pub fn close(&self) {
        self.ending().end();
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// Whether the manager cannot be reached just now, or has no room.
pub(crate) fn is_away(error: &Error) -> bool {
    matches!(error.kind, Kind::Disconnected | Kind::Busy)
}

impl NodeEnding {
    /// Ends it, as [`NodeHost::close`] does, and does not wait for that.
    pub fn end(&self) {
        // One that has ended is closed.
        drop(self.orders.send(Order::End));
    }
}

impl NodeTeller {
    /// How it is.
    pub async fn status(&self) -> Result<NodeStatus> {
        let (answer, mut outlet) = pipe(0);
        let why = || self.said.lock().failed.clone().unwrap_or_else(gone);
        self.orders.send(Order::Tell(answer)).map_err(|_| why())?;
        outlet.receive().await.ok_or_else(why)
    }
}

impl Drop for NodeHost {
    fn drop(&mut self) {
        self.close();
    }
}

fn gone() -> Error {
    Error::disconnected("the node's loop has ended")
}

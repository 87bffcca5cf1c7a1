//! Targets on the network: a node's loop on a thread of its own.

use crate::local::LocalReports;
use forebay_env::mailbox::{Sender, mailbox};
use forebay_env::pipe::{Inlet, pipe};
use forebay_env::real::{self, process, thread};
use forebay_manager::Principal;
use forebay_manager::desk::Desk;
use forebay_model::{Bytes, Error, Result};
use forebay_node::Host;
use forebay_node::network::{Bounds, Identity, Node, Refusals, TargetDoor};
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};

/// A node at work.
pub struct NodeHost {
    orders: Sender<Order>,
    address: String,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

/// Tells how a node is. Clones tell of the same one.
#[derive(Clone)]
pub struct NodeTeller {
    orders: Sender<Order>,
}

/// What a node's loop is told.
enum Order {
    Tell(Inlet<NodeStatus>),
    End,
}

/// How a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    /// Connections that are open.
    pub connections: usize,
    /// Bytes of requests and answers that are under way.
    pub memory: Bytes,
    /// Commands that were refused.
    pub refusals: Refusals,
}

impl NodeHost {
    /// Serves the targets of `host` at `listen`, and reports to `desk` as node `number` of `cluster`. It has been heard by
    /// the manager when this returns.
    pub fn start(
        host: &Host,
        listen: &str,
        (number, cluster): (u64, u128),
        desk: Desk,
        by: Principal,
        bounds: Bounds,
    ) -> Result<NodeHost> {
        let doors = TargetDoor::of(host);
        let (orders, mut receiver) = mailbox();
        let (told, mut outcome) = pipe(0);
        let listen = listen.to_string();
        let thread = thread::spawn("node", move || {
            let ended = process::or_end("the loop of the node", || {
                real::run_network(move |env| async move {
                    let door = match env.fabric.listen(&listen).await {
                        Ok(door) => door,
                        Err(error) => {
                            told.send(Err(error), 0).await;
                            return;
                        }
                    };
                    let address = door.address();
                    let node = Node::new(env.clone(), doors, bounds, process::id());
                    let serving = node.clone();
                    env.spawner.detach(async move { drop(serving.serve(door).await) });
                    let identity = Identity { node: number, cluster, address: address.clone() };
                    let manager = Rc::new(LocalReports::new(desk, by));
                    let (answer, mut answered) = mailbox();
                    env.spawner.detach(node.clone().keep_reporting(identity, manager, move |said| {
                        // The first answer is what starts it; nobody waits for the others.
                        drop(answer.send(said));
                    }));
                    let said = answered.receive().await.unwrap_or_else(|| Err(gone()));
                    let started = said.and_then(|mut heard| match heard.refused.pop() {
                        Some((target, error)) => Err(error.of(format!("target {target}"))),
                        None => Ok(address),
                    });
                    told.send(started, 0).await;
                    drop((told, answered));
                    while let Some(order) = receiver.receive().await {
                        match order {
                            Order::Tell(answer) => {
                                let status = NodeStatus {
                                    connections: node.connections(),
                                    memory: node.memory_used(),
                                    refusals: node.keys().refusals(),
                                };
                                answer.send(status, 0).await;
                            }
                            Order::End => return,
                        }
                    }
                })
            });
            // Whoever waits for it finds that it is gone.
            drop(ended);
        })?;
        let address = outcome.receive_blocking().unwrap_or_else(|| Err(gone()))?;
        Ok(NodeHost { orders, address, thread: Mutex::new(Some(thread)) })
    }

    /// Where clients reach it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Who tells how it is.
    pub fn teller(&self) -> NodeTeller {
        NodeTeller { orders: self.orders.clone() }
    }

    /// Ends all connections. The targets are as they are.
    pub fn close(&self) {
        // One that has ended is closed.
        drop(self.orders.send(Order::End));
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl NodeTeller {
    /// How it is.
    pub async fn status(&self) -> Result<NodeStatus> {
        let (answer, mut outlet) = pipe(0);
        self.orders.send(Order::Tell(answer)).map_err(|_| gone())?;
        outlet.receive().await.ok_or_else(gone)
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

//! How a server is, told to people and to programs that watch it: over HTTP, to whoever asks. Nothing of it is secret, and
//! nothing is changed by asking.
//!
//! `/metrics` is for Prometheus, `/status` is one JSON document; `docs/protocol/status.md` has the names.

mod http;

use crate::node::{NodeStatus, NodeTeller};
use crate::targets;
use forebay_control::ControlClient;
use forebay_env::fabric::{Door, NetworkEnv};
use forebay_env::mailbox::{Sender, mailbox};
use forebay_env::pipe::pipe;
use forebay_env::race::race;
use forebay_env::real::{self, process, thread};
use forebay_manager::Principal;
use forebay_manager::desk::Desk;
use forebay_model::{Error, Result};
use forebay_node::network::Refusals;
use forebay_wire::control::cluster::{Map, TargetState};
use forebay_wire::control::files::{After, Degraded, Displaced};
use forebay_wire::control::names::{FileId, MOST_ENTRIES};
use forebay_wire::control::{Question, Reply};
use serde_json::{Value, json};
use std::fmt::Write;
use std::rc::Rc;

/// Tells how a server is, until it is dropped.
pub struct StatusServer {
    address: String,
    end: Sender<()>,
    thread: Option<thread::JoinHandle<()>>,
}

/// Whom it asks.
#[derive(Clone)]
pub struct Sources {
    /// The nodes of this process, with their numbers.
    pub nodes: Vec<(u64, NodeTeller)>,
    /// The manager.
    pub manager: Manager,
}

/// A manager, and as whom it is asked.
#[derive(Clone)]
pub enum Manager {
    /// Of this process.
    Here(Desk, Principal),
    /// Of another one.
    Elsewhere(ControlClient),
}

/// What they answered.
struct Found {
    nodes: Vec<(u64, Result<NodeStatus>)>,
    map: Result<Map>,
    /// Files of which something is to be rebuilt; `None` if it may not be known here.
    degraded: Option<u64>,
    /// Files of which something is to lie elsewhere.
    displaced: Option<u64>,
}

impl StatusServer {
    /// Listens at `listen`, an address and a port, 0 for any that is free.
    pub fn start(listen: &str, sources: Sources) -> Result<StatusServer> {
        let (end, mut ended) = mailbox::<()>();
        let (told, mut outcome) = pipe(0);
        let listen = listen.to_string();
        let thread = thread::spawn("status", move || {
            let run = move || {
                real::run_network(move |env| async move {
                    match env.fabric.listen(&listen).await {
                        Ok(door) => {
                            told.send(Ok(door.address()), 0).await;
                            drop(told);
                            race(serve(env, door, sources), ended.receive()).await;
                        }
                        Err(error) => drop(told.send(Err(error), 0).await),
                    }
                })
            };
            // Whoever waits for it finds that it is gone.
            drop(process::or_end("the loop that tells the status", run));
        })?;
        let gone = || Error::disconnected("the thread that tells the status has ended");
        let address = outcome.receive_blocking().unwrap_or_else(|| Err(gone()))?;
        Ok(StatusServer { address, end, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for StatusServer {
    fn drop(&mut self) {
        // One that has ended is closed.
        let _ = self.end.send(());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

async fn serve(env: NetworkEnv, door: Box<dyn Door>, sources: Sources) {
    let open = Rc::new(());
    while let Ok(duplex) = door.accept().await {
        // Who comes when too many are there may come again.
        if Rc::strong_count(&open) > http::MOST_OPEN {
            continue;
        }
        let (sources, clock, here) = (sources.clone(), env.clock.clone(), open.clone());
        env.spawner.detach(async move {
            let answered = http::answer(duplex, async |path| page(&sources, path).await);
            // Whoever asked may go away, or not go on.
            drop(race(answered, clock.sleep(http::PATIENCE)).await);
            drop(here);
        });
    }
}

/// A page, and of which kind it is; none if there is no such page.
async fn page(sources: &Sources, path: &str) -> Option<(&'static str, String)> {
    match path {
        "/metrics" => Some(("text/plain; version=0.0.4", metrics(&find(sources).await))),
        "/status" => Some(("application/json", status(&find(sources).await).to_string())),
        "/" => Some(("text/plain", "Forebay: /status, /metrics\n".to_string())),
        _ => None,
    }
}

async fn find(sources: &Sources) -> Found {
    let map = match sources.manager.ask(Question::Map).await {
        Ok(Reply::Map(map)) => Ok(map),
        Ok(other) => Err(Error::damaged(format!("the manager answered what it was not asked: {other:?}"))),
        Err(error) => Err(error),
    };
    let mut nodes = Vec::new();
    for (number, node) in &sources.nodes {
        nodes.push((*number, node.status().await));
    }
    let manager = &sources.manager;
    Found {
        nodes,
        map,
        degraded: count(manager, Question::Degraded).await,
        displaced: count(manager, Question::Displaced).await,
    }
}

/// How many files a list of the manager has.
async fn count(manager: &Manager, list: fn(After) -> Question) -> Option<u64> {
    let (mut count, mut after) = (0, FileId(0));
    loop {
        let (files, more) = match manager.ask(list(After { file: after, most: MOST_ENTRIES })).await.ok()? {
            Reply::Degraded(Degraded { files, more }) => (files, more),
            Reply::Displaced(Displaced { files, more }) => (files, more),
            _ => return None,
        };
        count += files.len() as u64;
        match files.last() {
            Some(last) if more => after = *last,
            _ => return Some(count),
        }
    }
}

impl Manager {
    async fn ask(&self, question: Question) -> Result<Reply> {
        match self {
            Manager::Here(desk, by) => desk.ask(by.clone(), question).await,
            Manager::Elsewhere(client) => client.ask(question).await,
        }
    }
}

fn metrics(found: &Found) -> String {
    let mut text = String::new();
    let mut family = |name: &str, kind: &str, help: &str, values: Vec<(String, u64)>| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in values {
            let _ = writeln!(text, "{name}{labels} {value}");
        }
    };
    let one = |value: u64| vec![(String::new(), value)];
    family("forebay_manager_up", "gauge", "Whether the manager answers.", one(u64::from(found.map.is_ok())));
    let up = found.nodes.iter().map(|(n, node)| (format!("{{node=\"{n}\"}}"), u64::from(node.is_ok()))).collect();
    family("forebay_node_up", "gauge", "Whether a node of this process answers.", up);
    let known: Vec<(u64, &NodeStatus)> =
        found.nodes.iter().filter_map(|(n, node)| Some((*n, node.as_ref().ok()?))).collect();
    let of = |value: fn(&NodeStatus) -> u64| {
        known.iter().map(|(n, node)| (format!("{{node=\"{n}\"}}"), value(node))).collect::<Vec<_>>()
    };
    family("forebay_node_connections", "gauge", "Connections that are open.", of(|node| node.connections as u64));
    let help = "Memory of requests and answers under way.";
    family("forebay_node_memory_bytes", "gauge", help, of(|node| node.memory.0));
    let refusals = known.iter().flat_map(|(n, node)| {
        let Refusals { forbidden, stale, behind } = node.refusals;
        let all = [("forbidden", forbidden), ("stale", stale), ("behind", behind)];
        all.map(|(why, count)| (format!("{{node=\"{n}\",why=\"{why}\"}}"), count))
    });
    let help = "Commands that were refused, which did nothing.";
    family("forebay_node_refused_commands_total", "counter", help, refusals.collect());
    if let Ok(map) = &found.map {
        family("forebay_cluster_epoch", "gauge", "The version of the cluster's map.", one(map.epoch));
        let up = map.nodes.iter().map(|node| (format!("{{node=\"{}\"}}", node.node), u64::from(node.up))).collect();
        family("forebay_cluster_node_up", "gauge", "Whether a node reported lately.", up);
        let of = |value: fn(&forebay_wire::control::cluster::Target) -> u64| {
            map.targets.iter().map(|one| (format!("{{target=\"{}\"}}", one.target), value(one))).collect()
        };
        family("forebay_target_size_bytes", "gauge", "What a target can hold.", of(|one| one.size.0));
        family("forebay_target_free_bytes", "gauge", "What is free of that.", of(|one| one.free.0));
        let in_use = of(|one| u64::from(one.state == TargetState::Up));
        family("forebay_target_in_use", "gauge", "Whether new files are put on it.", in_use);
        let failed = of(|one| u64::from(one.failed.is_some() || one.state == TargetState::Failed));
        family("forebay_target_failed", "gauge", "Whether its device failed, or it was said to have failed.", failed);
        let left = map.targets.iter().filter_map(|one| Some((format!("{{target=\"{}\"}}", one.target), one.left?)));
        let help = "Components on a target on which nothing is to stay, as they were counted last.";
        family("forebay_target_components_left", "gauge", help, left.collect());
    }
    let counted = |count: Option<u64>| count.map(|count| (String::new(), count)).into_iter().collect();
    let help = "Files of which something has to be rebuilt.";
    family("forebay_cluster_degraded_files", "gauge", help, counted(found.degraded));
    let help = "Files of which something is to be moved to another target.";
    family("forebay_cluster_displaced_files", "gauge", help, counted(found.displaced));
    text
}

fn status(found: &Found) -> Value {
    let said = |error: &Error| json!({ "error": error.message });
    let node = |(number, node): &(u64, Result<NodeStatus>)| match node {
        Ok(node) => json!({
            "node": number,
            "connections": node.connections,
            "memory_bytes": node.memory.0,
            "refused": {
                "forbidden": node.refusals.forbidden,
                "stale": node.refusals.stale,
                "behind": node.refusals.behind,
            },
        }),
        Err(error) => said(error),
    };
    let cluster = match &found.map {
        Ok(map) => json!({
            "cluster": format!("{:032x}", map.cluster),
            "epoch": map.epoch,
            "nodes": map.nodes.iter().map(|node| json!({
                "node": node.node, "address": node.address, "up": node.up,
            })).collect::<Vec<_>>(),
            "targets": map.targets.iter().map(|target| json!({
                "target": target.target.to_string(),
                "node": target.node,
                "state": targets::state(target.state),
                "size_bytes": target.size.0,
                "free_bytes": target.free.0,
                "failed": target.failed,
                "components_left": target.left,
            })).collect::<Vec<_>>(),
            "degraded_files": found.degraded,
            "displaced_files": found.displaced,
        }),
        Err(error) => said(error),
    };
    json!({ "nodes": found.nodes.iter().map(node).collect::<Vec<_>>(), "cluster": cluster })
}

#[cfg(test)]
mod tests;

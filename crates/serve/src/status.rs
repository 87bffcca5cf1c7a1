//! How a server is, told to people and to programs that watch it: over HTTP, to whoever asks. Nothing of it is secret, and
//! nothing is changed by asking.
//!
//! `/metrics` is for Prometheus, `/status` is one JSON document; `docs/protocol/status.md` has the names.

mod http;
mod served;

use crate::node::{NodeStatus, NodeTeller};
use crate::survey::{Manager, Survey};
use crate::targets;
use crate::upkeep::{Counts, Done};
use forebay_env::Clock;
use forebay_env::fabric::{Door, NetworkEnv};
use forebay_env::mailbox::{Sender, mailbox};
use forebay_env::pipe::pipe;
use forebay_env::race::{First, race};
use forebay_env::real::{self, process, thread};
use forebay_env::together::all;
use forebay_model::{Error, Result, TargetId};
use forebay_node::network::{CutCounts, Refusals};
use forebay_wire::control::cluster::{Map, Target, TargetState};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How long the nodes, and then the manager, may take to say how they are: together less than somebody waits for a page.
const MOST_OF_ANSWER: Duration = Duration::from_secs(3);

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
    /// What this process does for files, if it does.
    pub upkeep: Option<Arc<Done>>,
}

/// What they answered.
struct Found {
    nodes: Vec<(u64, Result<NodeStatus>)>,
    /// What the manager says.
    survey: Result<Survey>,
    /// What was done for files by itself.
    upkeep: Option<Counts>,
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
            let answered = http::answer(duplex, async |path| page(&sources, &*clock, path).await);
            // Whoever asked may go away, or not go on.
            drop(race(answered, clock.sleep(http::PATIENCE)).await);
            drop(here);
        });
    }
}

/// A page, and of which kind it is; none if there is no such page.
async fn page(sources: &Sources, clock: &dyn Clock, path: &str) -> Option<(&'static str, String)> {
    match path {
        "/metrics" => Some(("text/plain; version=0.0.4", metrics(&find(sources, clock).await))),
        "/status" => Some(("application/json", status(&find(sources, clock).await).to_string())),
        "/" => Some(("text/plain", "Forebay: /status, /metrics\n".to_string())),
        _ => None,
    }
}

async fn find(sources: &Sources, clock: &dyn Clock) -> Found {
    let asked = sources.nodes.iter().map(|(number, node)| async move {
        // One that hangs keeps nobody from hearing of the others.
        let status = match race(node.status(), clock.sleep(MOST_OF_ANSWER)).await {
            First::Left(status) => status,
            First::Right(()) => Err(Error::disconnected(format!("the node did not answer within {MOST_OF_ANSWER:?}"))),
        };
        (*number, status)
    });
    let nodes = all(asked).await;
    let survey = Survey::within(&sources.manager, clock, MOST_OF_ANSWER).await;
    let upkeep = sources.upkeep.as_ref().map(|done| done.counts());
    Found { nodes, survey, upkeep }
}

/// Numbers, each with its labels.
type Values = Vec<(String, u64)>;

/// Numbers of one name; `docs/protocol/status.md` has them all.
struct Family {
    name: &'static str,
    kind: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "only the page has them apart"))]
    labels: &'static str,
    help: &'static str,
    /// With their labels; none if nobody knows.
    values: fn(&Found) -> Option<Values>,
}

const FAMILIES: [Family; 24] = [
    Family {
        name: "forebay_manager_up",
        kind: "gauge",
        labels: "",
        help: "Whether the manager answers: 1 or 0. What it would say is left out if not.",
        values: |found| one(u64::from(found.survey.is_ok())),
    },
    Family {
        name: "forebay_node_up",
        kind: "gauge",
        labels: "`node`",
        help: "Whether a node of this process answers.",
        values: |found| {
            let up = |(number, node): &(u64, Result<NodeStatus>)| (of_node(*number), u64::from(node.is_ok()));
            Some(found.nodes.iter().map(up).collect())
        },
    },
    Family {
        name: "forebay_node_connections",
        kind: "gauge",
        labels: "`node`",
        help: "Connections that are open.",
        values: |found| of_nodes(found, |node| node.connections as u64),
    },
    Family {
        name: "forebay_node_memory_bytes",
        kind: "gauge",
        labels: "`node`",
        help: "Memory of requests and answers under way.",
        values: |found| of_nodes(found, |node| node.memory.0),
    },
    Family {
        name: "forebay_node_refused_commands_total",
        kind: "counter",
        labels: "`node`, `why`: `forbidden`, `stale`, `behind`",
        help: "Commands that were refused, which did nothing.",
        values: |found| {
            let refusals = known(found).flat_map(|(number, node)| {
                let Refusals { forbidden, stale, behind } = node.refusals;
                let all = [("forbidden", forbidden), ("stale", stale), ("behind", behind)];
                all.map(|(why, count)| (format!("{{node=\"{number}\",why=\"{why}\"}}"), count))
            });
            Some(refusals.collect())
        },
    },
    Family {
        name: "forebay_node_cut_connections_total",
        kind: "counter",
        labels: "`node`, `why`: `malformed`, `changed`, `slow`, `stranger`, `full`",
        help: "Connections that the node ended by itself or did not take.",
        values: |found| {
            let cuts = known(found).flat_map(|(number, node)| {
                let all = causes(node.cuts);
                all.map(|(why, count)| (format!("{{node=\"{number}\",why=\"{why}\"}}"), count))
            });
            Some(cuts.collect())
        },
    },
    Family {
        name: "forebay_cluster_epoch",
        kind: "gauge",
        labels: "",
        help: "The version of the cluster's map.",
        values: |found| one(found.survey.as_ref().ok()?.map.epoch),
    },
    Family {
        name: "forebay_cluster_node_up",
        kind: "gauge",
        labels: "`node`",
        help: "Whether a node reported lately.",
        values: |found| {
            let nodes = &found.survey.as_ref().ok()?.map.nodes;
            Some(nodes.iter().map(|node| (of_node(node.node), u64::from(node.up))).collect())
        },
    },
    Family {
        name: "forebay_target_size_bytes",
        kind: "gauge",
        labels: "`target`",
        help: "What a target can hold.",
        values: |found| of_targets(found, |target| target.size.0),
    },
    Family {
        name: "forebay_target_free_bytes",
        kind: "gauge",
        labels: "`target`",
        help: "What is free of that.",
        values: |found| of_targets(found, |target| target.free.0),
    },
    Family {
        name: "forebay_target_in_use",
        kind: "gauge",
        labels: "`target`",
        help: "Whether new files are put on it.",
        values: |found| of_targets(found, |target| u64::from(target.state == TargetState::Up)),
    },
    Family {
        name: "forebay_target_failed",
        kind: "gauge",
        labels: "`target`",
        help: "Whether its device failed, its objects are not served, or it was said to have failed.",
        values: |found| {
            of_targets(found, |target| u64::from(target.failed.is_some() || target.state == TargetState::Failed))
        },
    },
    Family {
        name: "forebay_target_slow",
        kind: "gauge",
        labels: "`target`",
        help: "Whether its device takes several times as long as its profile says at the worst.",
        values: |found| of_targets(found, |target| u64::from(target.slow)),
    },
    Family {
        name: "forebay_target_components_left",
        kind: "gauge",
        labels: "`target`",
        help: "Components on a target on which nothing is to stay, as they were counted last.",
        values: |found| {
            let targets = found.survey.as_ref().ok()?.map.targets.iter();
            Some(targets.filter_map(|one| Some((of_target(one), one.left?))).collect())
        },
    },
    Family {
        name: "forebay_cluster_metadata_copies",
        kind: "gauge",
        labels: "",
        help: "Targets that have all that the manager answered; 0 if something of it is on its disk alone.",
        values: |found| one(found.survey.as_ref().ok()?.map.copied_on.len() as u64),
    },
    Family {
        name: "forebay_cluster_metadata_copies_whole",
        kind: "gauge",
        labels: "",
        help: "Whether these have also what there was before their copies were begun, which is being written if not.",
        values: |found| one(u64::from(found.survey.as_ref().ok()?.map.copied_wholly)),
    },
    Family {
        name: "forebay_cluster_degraded_files",
        kind: "gauge",
        labels: "",
        help: "Files of which something has to be rebuilt; only root is told, so not where a node joined.",
        values: |found| one(found.survey.as_ref().ok()?.degraded?),
    },
    Family {
        name: "forebay_cluster_displaced_files",
        kind: "gauge",
        labels: "",
        help: "Files of which something is to be moved to another target; likewise.",
        values: |found| one(found.survey.as_ref().ok()?.displaced?),
    },
    Family {
        name: "forebay_upkeep_scrubbed_files_total",
        kind: "counter",
        labels: "",
        help: "Files that were read and compared to their end since the server began; told where it looks after files.",
        values: |found| one(found.upkeep?.scrubbed_files),
    },
    Family {
        name: "forebay_upkeep_scrubbed_bytes_total",
        kind: "counter",
        labels: "",
        help: "Bytes of components that were compared; likewise.",
        values: |found| one(found.upkeep?.scrubbed_bytes),
    },
    Family {
        name: "forebay_upkeep_repaired_bytes_total",
        kind: "counter",
        labels: "",
        help: "Bytes that were damaged or did not agree with parity or copies, and are right again; likewise.",
        values: |found| one(found.upkeep?.repaired_bytes),
    },
    Family {
        name: "forebay_upkeep_lost_bytes_total",
        kind: "counter",
        labels: "",
        help: "Bytes of files that were found to be lost, each time that they were; likewise.",
        values: |found| one(found.upkeep?.lost_bytes),
    },
    Family {
        name: "forebay_upkeep_rebuilt_components_total",
        kind: "counter",
        labels: "",
        help: "Components that were made anew; likewise.",
        values: |found| one(found.upkeep?.rebuilt_components),
    },
    Family {
        name: "forebay_upkeep_moved_components_total",
        kind: "counter",
        labels: "",
        help: "Components that were moved to other targets; likewise.",
        values: |found| one(found.upkeep?.moved_components),
    },
];

fn one(value: u64) -> Option<Values> {
    Some(vec![(String::new(), value)])
}

fn of_node(number: u64) -> String {
    format!("{{node=\"{number}\"}}")
}

/// Why connections were cut, and how many.
fn causes(cuts: CutCounts) -> [(&'static str, u64); 5] {
    let CutCounts { malformed, changed, slow, stranger, full } = cuts;
    [("malformed", malformed), ("changed", changed), ("slow", slow), ("stranger", stranger), ("full", full)]
}

/// The nodes of this process that answered.
fn known(found: &Found) -> impl Iterator<Item = (u64, &NodeStatus)> {
    found.nodes.iter().filter_map(|(number, node)| Some((*number, node.as_ref().ok()?)))
}

fn of_nodes(found: &Found, value: fn(&NodeStatus) -> u64) -> Option<Values> {
    Some(known(found).map(|(number, node)| (of_node(number), value(node))).collect())
}

fn of_targets(found: &Found, value: fn(&Target) -> u64) -> Option<Values> {
    let targets = &found.survey.as_ref().ok()?.map.targets;
    Some(targets.iter().map(|one| (of_target(one), value(one))).collect())
}

fn of_target(target: &Target) -> String {
    format!("{{target=\"{}\"}}", target.target)
}

fn metrics(found: &Found) -> String {
    let mut text = String::new();
    for Family { name, kind, help, values, .. } in FAMILIES.iter().chain(&served::FAMILIES) {
        let Some(values) = values(found).filter(|values| !values.is_empty()) else { continue };
        // Writing to a string does not fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in values {
            let _ = writeln!(text, "{name}{labels} {value}");
        }
    }
    text
}

/// Where copies of the metadata are, and whether they are whole.
pub fn copies_json(map: &Map) -> Value {
    let targets: Vec<String> = map.copied_on.iter().map(TargetId::to_string).collect();
    json!({ "targets": targets, "whole": map.copied_wholly })
}

fn status(found: &Found) -> Value {
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
            "targets": node.targets.iter().map(served::json).collect::<Vec<_>>(),
            "cut": causes(node.cuts).into_iter().map(|(why, count)| (why, json!(count))).collect::<BTreeMap<_, _>>(),
        }),
        Err(error) => json!({ "node": number, "error": error.message }),
    };
    let cluster = match &found.survey {
        Ok(Survey { map, degraded, displaced, .. }) => json!({
            "cluster": format!("{:032x}", map.cluster),
            "epoch": map.epoch,
            "nodes": map.nodes.iter().map(|node| json!({
                "node": node.node, "address": node.address, "up": node.up,
            })).collect::<Vec<_>>(),
            "targets": map.targets.iter().map(|target| json!({
                "target": target.target.to_string(),
                "node": target.node,
                "served": target.served,
                "state": targets::state(target.state),
                "size_bytes": target.size.0,
                "free_bytes": target.free.0,
                "failed": target.failed,
                "components_left": target.left,
                "slow": target.slow,
                "clock_off": map.clock_off(target.target),
            })).collect::<Vec<_>>(),
            "metadata_copies": copies_json(map),
            "degraded_files": degraded,
            "displaced_files": displaced,
        }),
        Err(error) => json!({ "error": error.message }),
    };
    let upkeep = found.upkeep.map(|counts| {
        json!({
            "scrubbed_files": counts.scrubbed_files,
            "scrubbed_bytes": counts.scrubbed_bytes,
            "repaired_bytes": counts.repaired_bytes,
            "lost_bytes": counts.lost_bytes,
            "rebuilt_components": counts.rebuilt_components,
            "moved_components": counts.moved_components,
        })
    });
    json!({ "nodes": found.nodes.iter().map(node).collect::<Vec<_>>(), "cluster": cluster, "upkeep": upkeep })
}

#[cfg(test)]
mod tests;

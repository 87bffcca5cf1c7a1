//! A target is lost, and what it had is made anew by all that are left: how fast, by how many there are.
//!
//! Panasas ActiveScale (2004) spreads what is rebuilt over all of its targets, so that the more there are the sooner it is done.

use crate::cluster::{ClientMachine, Cluster, ClusterSpec};
use crate::disk::DiskSpec;
use crate::network::{Counters, LinkSpec, NetworkSpec};
use crate::world::World;
use bytes::Bytes as Slice;
use forebay_client::control::Control;
use forebay_client::file::options::Options;
use forebay_client::files::rebuild::Rebuilt;
use forebay_env::together::all;
use forebay_manager::Settings;
use forebay_model::layout::Raid;
use forebay_model::{Bytes, Rate, Result};
use forebay_node::network::Bounds;
use forebay_wire::control::cluster::{SetTarget, TargetState};
use forebay_wire::control::files::OpenToRead;
use forebay_wire::control::names::{FileId, Place};
use forebay_wire::control::volumes::Policy;
use forebay_wire::control::{Change, Question, Reply};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Clients that write the files.
const WRITERS: usize = 4;

/// What is lost of what.
#[derive(Clone)]
pub struct Loss {
    /// Targets, each with a node and a link of its own.
    pub targets: u32,
    /// Targets of a file, which is kept in RAID 5.
    pub width: u32,
    /// Files that had a part on the target that is lost.
    pub files: u32,
    /// Bytes of each.
    pub size: Bytes,
    /// What passes each link in each direction.
    pub link: Rate,
    /// What is in flight to a client at most.
    pub credit: Bytes,
    /// The network.
    pub network: NetworkSpec,
    /// The disk of each target.
    pub disk: DiskSpec,
    /// The seed.
    pub seed: u64,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recovery {
    /// Components that were made anew.
    pub components: u64,
    /// Their bytes.
    pub written: Bytes,
    /// How long that took.
    pub took: Duration,
    /// What the network did meanwhile.
    pub network: Counters,
}

impl Recovery {
    /// Bytes made anew in a second.
    pub fn rate(&self) -> Rate {
        Rate::of(self.written, self.took)
    }
}

/// Has the files written, loses a target, and has everything rebuilt by clients on the machines of all other nodes.
pub fn lose_one(loss: &Loss) -> Recovery {
    let world = Rc::new(World::new(loss.seed));
    let cluster = Cluster::with_first(world.clone(), spec(loss), larger(loss));
    let operator = fill_and_lose(&cluster, loss);
    let (begun, before) = (world.now(), cluster.network().counters());
    let (components, written) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(Bytes::ZERO)));
    let rebuild = |node| {
        let (files, components, written) = (cluster.files_on(node), components.clone(), written.clone());
        world.spawner().spawn(async move {
            let told = |file: FileId, rebuilt: Result<Rebuilt>| {
                let Rebuilt { components: some, written: bytes, .. } =
                    rebuilt.unwrap_or_else(|error| panic!("{file} is rebuilt: {error:?}"));
                components.set(components.get() + u64::from(some));
                written.set(written.get() + bytes);
            };
            files.rebuild_missing(told).await.expect("the manager is there");
        })
    };
    let tasks: Vec<_> = (1..loss.targets as usize).map(rebuild).collect();
    world.run(all(tasks));
    let took = world.now().since(begun);
    let network = cluster.network().counters() - before;
    assert!(cluster.degraded(&operator).is_empty(), "all of it is rebuilt");
    Recovery { components: components.get(), written: written.get(), took, network }
}

/// Has the files written and loses the first target. Who asked the manager until it knew of all that was there.
fn fill_and_lose(cluster: &Cluster, loss: &Loss) -> ClientMachine {
    fill(cluster, loss);
    let operator = cluster.client_machine("looker");
    let (target, control) = (cluster.target(0), operator.control.clone());
    cluster.crash_node(0);
    cluster.world().run(async move {
        let failed = Change::SetTarget(SetTarget { target, state: TargetState::Failed });
        control.change(failed).await.expect("the manager is there");
    });
    // The manager finds out file by file what was there.
    while cluster.degraded(&operator).len() < loss.files as usize {
        cluster.world().run_for(Duration::from_secs(1));
    }
    operator
}

/// All targets.
fn spec(loss: &Loss) -> ClusterSpec {
    let link = LinkSpec::gigabit().with_rate(loss.link);
    ClusterSpec {
        nodes: loss.targets,
        targets: 1,
        disk: loss.disk.clone(),
        network: loss.network,
        node_link: link,
        client_link: link,
        policy: Policy { raid: Raid::Five, unit: forebay_model::layout::UNIT, targets: loss.width },
        bounds: Bounds::default(),
        settings: Settings::default(),
        credit: loss.credit,
        copies: false,
    }
}

/// The disk of the target that is lost. By space alone the manager would put half of all components and more on it, and puts one
/// of nearly each file there, since no file has two; the others lie as on targets that are all alike.
fn larger(loss: &Loss) -> DiskSpec {
    DiskSpec { size: loss.disk.size * (4 * u64::from(loss.targets)), ..loss.disk.clone() }
}

/// Makes files until so many have a part on the first node's target; those are written. How many it made.
fn fill(cluster: &Cluster, loss: &Loss) -> u32 {
    let (left, next) = (Rc::new(Cell::new(loss.files)), Rc::new(Cell::new(0)));
    let lost = cluster.target(0);
    let tasks = (0..WRITERS).map(|writer| {
        let machine = cluster.client_machine(&format!("writer{writer}"));
        let (left, next, size) = (left.clone(), next.clone(), loss.size);
        cluster.world().spawner().spawn(async move {
            let pattern: Vec<u8> = (0..size.0).map(|n| (n.wrapping_mul(0x9e37_79b9) >> 11) as u8).collect();
            let pattern = Slice::from(pattern);
            while left.get() > 0 {
                let path = format!("/file.{}", next.replace(next.get() + 1));
                let file = machine.files.create(&path, 0o644, None, Options::default()).await.expect("a file");
                let asked = Question::OpenToRead(OpenToRead { place: Place::of(file.entry().file), cached: false });
                let Ok(Reply::Grant(grant)) = machine.control.ask(asked).await else { panic!("no grant") };
                if left.get() > 0 && grant.components.iter().any(|component| component.target == lost) {
                    left.set(left.get() - 1);
                    file.write_at(Bytes::ZERO, pattern.clone()).await.expect("it is taken");
                    file.close().await.expect("everything is durable");
                } else {
                    file.close().await.expect("there is nothing in it");
                    machine.files.remove(&path).await.expect("it is there");
                }
            }
        })
    });
    let tasks: Vec<_> = tasks.collect();
    cluster.world().run(all(tasks));
    next.get()
}

#[cfg(test)]
mod tests;

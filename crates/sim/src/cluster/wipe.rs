//! A manager that has lost its disk: its metadata is made anew of what targets have, while nobody serves these.

use super::Cluster;
use crate::disk::SimDisk;
use forebay_env::NetworkEnv;
use forebay_manager::Memory;
use forebay_manager::recover::look::{Targets, look};
use forebay_manager::recover::{Recovered, Seen, recover};
use forebay_model::{Result, TargetId};
use forebay_node::network::TargetDoor;
use forebay_node::objects::ObjectLink;
use forebay_wire::object::{Ask, ObjectAnswer, ObjectRequest};
use std::sync::Arc;

/// Targets that nobody serves.
struct Opened(Vec<(TargetId, ObjectLink)>);

impl Opened {
    /// Opens these when their disks have ended what they were given before.
    async fn open(all: Vec<(NetworkEnv, SimDisk)>) -> Opened {
        let mut opened = Vec::new();
        for (machine, disk) in all {
            let (env, target) = super::opened(&machine, disk).await;
            let door = TargetDoor::open(&env, target);
            opened.push((door.id(), door.objects()));
        }
        Opened(opened)
    }
}

impl Targets for Opened {
    fn targets(&self) -> Vec<TargetId> {
        self.0.iter().map(|(target, _)| *target).collect()
    }

    async fn ask(&self, target: TargetId, ask: Ask) -> Result<ObjectAnswer> {
        let (_, link) = self.0.iter().find(|(there, _)| *there == target).expect("it is one of these");
        link.ask(ObjectRequest::new(target, ask), Arc::default())?.answer().await
    }
}

impl Cluster {
    /// The manager's machine loses its disk: all processes end, it is made anew of what targets have, and everything is started again.
    /// Nodes have reported when this returns.
    pub(super) fn wipe_manager(&self) -> Recovered {
        let recovered = self.remade();
        self.restart_manager();
        (0..self.nodes.len()).for_each(|node| self.restart_node(node));
        recovered
    }

    /// The same, and nothing is started again.
    pub(super) fn remade(&self) -> Recovered {
        self.crash_manager();
        (0..self.nodes.len()).for_each(|node| self.kill_node(node));
        let seen = self.look();
        let mut engine = Memory::new();
        let (policy, now) = (self.spec.policy, self.world.clock().wall());
        let recovered = recover(&mut engine, seen, policy, now, &*self.world.random());
        *self.manager.engine.borrow_mut() = engine;
        recovered.expect("a fresh engine has no cluster")
    }

    /// Looks at what targets have, whose nodes do not run.
    fn look(&self) -> Seen {
        let mut all = Vec::new();
        for machine in &self.nodes {
            machine.host.restart();
            all.extend(machine.disks.iter().map(|(disk, _)| (machine.host.env(), disk.clone())));
        }
        let seen = self.world.run(async move { look(&Opened::open(all).await, |_| ()).await });
        (0..self.nodes.len()).for_each(|node| self.kill_node(node));
        seen.expect("all of it can be read")
    }
}

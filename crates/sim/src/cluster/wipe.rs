//! A manager that has lost its disk: its metadata is made anew of what targets have, while nobody serves these.

use super::Cluster;
use crate::disk::SimDisk;
use forebay_env::NetworkEnv;
use forebay_env::race::{First, race};
use forebay_manager::recover::look::{Targets, look};
use forebay_manager::recover::{Recovered, Seen, recover};
use forebay_manager::{Memory, Principal};
use forebay_model::{Result, TargetId};
use forebay_node::network::TargetDoor;
use forebay_node::objects::ObjectLink;
use forebay_wire::control::{Question, Reply};
use forebay_wire::object::{Ask, ObjectAnswer, ObjectRequest};
use std::sync::Arc;
use std::time::Duration;

/// A manager that says nothing for so long on its own machine does not run.
const SOON: Duration = Duration::from_millis(100);

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
    #[cfg(test)]
    pub(super) fn wipe_manager(&self) -> Recovered {
        let recovered = self.remade(|_| true);
        self.restart_manager();
        (0..self.nodes.len()).for_each(|node| self.restart_node(node));
        recovered
    }

    /// The same of the nodes that are there, and nothing is started again.
    pub(super) fn remade(&self, is_there: impl Fn(usize) -> bool) -> Recovered {
        self.crash_manager();
        (0..self.nodes.len()).for_each(|node| self.kill_node(node));
        let seen = self.look(is_there);
        let mut engine = Memory::new();
        let (policy, now) = (self.spec.policy, self.world.clock().wall());
        let recovered = recover(&mut engine, seen, policy, now, &*self.world.random());
        *self.manager.engine.borrow_mut() = engine;
        recovered.expect("a fresh engine has no cluster")
    }

    /// Targets on each of which all is that the manager has answered, as it says itself, if it runs.
    pub(super) fn copied_on(&self) -> Vec<TargetId> {
        let Some(desk) = self.manager.desk.borrow().clone() else { return Vec::new() };
        let clock = self.world.clock();
        let told =
            self.world.run(async move { race(desk.ask(Principal::root(0), Question::Map), clock.sleep(SOON)).await });
        match told {
            First::Left(Ok(Reply::Map(map))) if map.copied_wholly => map.copied_on,
            _ => Vec::new(),
        }
    }

    /// Looks at what targets of nodes that are there have. None of the nodes runs.
    fn look(&self, is_there: impl Fn(usize) -> bool) -> Seen {
        let mut all = Vec::new();
        for (_, machine) in self.nodes.iter().enumerate().filter(|(node, _)| is_there(*node)) {
            machine.host.restart();
            all.extend(machine.disks.iter().map(|(disk, _)| (machine.host.env(), disk.clone())));
        }
        let seen = self.world.run(async move { look(&Opened::open(all).await, |_| ()).await });
        (0..self.nodes.len()).for_each(|node| self.kill_node(node));
        seen.expect("all of it can be read")
    }
}

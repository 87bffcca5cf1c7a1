//! A manager that has lost its disk: its metadata is made anew of what targets have, while nobody serves these.

use super::Cluster;
use crate::disk::SimDisk;
use forebay_env::NetworkEnv;
use forebay_env::race::{First, race};
use forebay_manager::recover::look::{Targets, look};
use forebay_manager::recover::{Recovered, RingPart, Seen, recover};
use forebay_manager::{Memory, Principal};
use forebay_model::{Error, ObjectId, Result, TargetId};
use forebay_node::network::TargetDoor;
use forebay_node::objects::ObjectLink;
use forebay_target::heap::HeapOptions;
use forebay_wire::control::{Question, Reply};
use forebay_wire::heap::network::heap_of;
use forebay_wire::object::{Ask, ObjectAnswer, ObjectRequest};
use forebay_wire::ring::ring_of;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A manager that says nothing for so long on its own machine does not run.
const SOON: Duration = Duration::from_millis(100);

/// Targets that nobody serves, with the rings and heaps that they have.
struct Opened {
    targets: Vec<(TargetId, ObjectLink)>,
    rings: BTreeMap<(TargetId, ObjectId), RingPart>,
    heaps: BTreeMap<(TargetId, ObjectId), u64>,
}

impl Opened {
    /// Opens these when their disks have ended what they were given before.
    async fn open(all: Vec<(NetworkEnv, SimDisk)>) -> Opened {
        let mut opened = Opened { targets: Vec::new(), rings: BTreeMap::new(), heaps: BTreeMap::new() };
        for (machine, disk) in all {
            let (env, target) = super::opened(&machine, disk).await;
            let id = target.id();
            for name in target.status().into_iter().map(|ring| ring.spec.name) {
                let (Some(ring), opened_ring) = (ring_of(&name), target.ring(&name).expect("it is there")) else {
                    continue;
                };
                opened_ring.ready().await.expect("its tail is found");
                opened.rings.insert((id, ring), RingPart::of(&opened_ring.status()));
            }
            for (name, _) in target.heap_names() {
                let Some(heap) = heap_of(&name) else { continue };
                let opened_heap = target.heap(&name, HeapOptions::default()).await.expect("it opens");
                opened.heaps.insert((id, heap), opened_heap.status().last.commit);
            }
            opened.targets.push((id, TargetDoor::open(&env, target).objects()));
        }
        opened
    }
}

impl Targets for Opened {
    fn targets(&self) -> Vec<TargetId> {
        self.targets.iter().map(|(target, _)| *target).collect()
    }

    async fn ask(&self, target: TargetId, ask: Ask) -> Result<ObjectAnswer> {
        let (_, link) = self.targets.iter().find(|(there, _)| *there == target).expect("it is one of these");
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
        let recovered = recovered.expect("a fresh engine has no cluster");
        self.number.set(recovered.cluster);
        recovered
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
        let seen = self.world.run(async move {
            let opened = Opened::open(all).await;
            let seen = look(&opened, |_| ()).await?;
            Ok::<_, Error>(Seen { rings: opened.rings, heaps: opened.heaps, ..seen })
        });
        (0..self.nodes.len()).for_each(|node| self.kill_node(node));
        seen.expect("all of it can be read")
    }
}

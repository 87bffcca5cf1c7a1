//! The nodes and targets of the cluster as the manager has them in memory: what is kept durably, and what reports said.
//!
//! Always: what is durable of it is changed by effects of drafts alone, which come with the writes that say the same.

use crate::draft::{Draft, View};
use crate::engine::Snapshot;
use crate::keys;
use crate::records::{Epochs, Meta, NodeRecord, TargetRecord, decode};
use forebay_model::{Bytes, Error, Moment, Result, TargetId, Timestamp};
use forebay_wire::capability::{RootKey, TargetKey};
use forebay_wire::control::cluster::{Map, Node, Target, TargetState};
use std::cell::Cell;
use std::collections::BTreeMap;

/// The cluster.
pub(crate) struct Cluster {
    pub(crate) id: u128,
    pub(crate) root_key: RootKey,
    pub(crate) epochs: Epochs,
    pub(crate) nodes: BTreeMap<u64, NodeNow>,
    pub(crate) targets: BTreeMap<TargetId, TargetNow>,
}

/// A node, and when it reported.
pub(crate) struct NodeNow {
    pub(crate) record: NodeRecord,
    /// `None` since the manager was opened.
    pub(crate) reported: Option<Moment>,
    /// What its clock said then, and what the manager's did.
    pub(crate) clocks: Option<(Timestamp, Timestamp)>,
    /// Up to where it was told what is to be fenced, and what to be removed.
    pub(crate) told_up_to: ToldUpTo,
}

/// Keys from which on a node is told with its next report; empty: from the first.
#[derive(Default)]
pub(crate) struct ToldUpTo {
    pub(crate) fences: Vec<u8>,
    pub(crate) removals: Vec<u8>,
    pub(crate) leftovers: Vec<u8>,
}

/// A target, and how it was reported.
pub(crate) struct TargetNow {
    pub(crate) record: TargetRecord,
    pub(crate) free: Bytes,
    pub(crate) load: u8,
    /// Components that were put on it lately, of which its load and its free space may not say anything yet: each report
    /// halves it.
    pub(crate) placed: Cell<u32>,
    /// The epoch and the version of its key that it has heard of, or hears of with the answer to its first report; `None`
    /// since the manager was opened.
    pub(crate) heard: Option<(u64, u32)>,
    /// Whether its node serves it, as that said last: not if it reported without it, or with what was refused. Since the
    /// manager was opened, until it reports, a node has what it had.
    pub(crate) is_served: bool,
    /// Why it takes nothing in any more, as its node said last.
    pub(crate) failed: Option<String>,
    /// Whether its device is far slower than its profile, as its node said last.
    pub(crate) slow: bool,
    /// Whether it was told to do something with the answer to its last report, and not let serve with it all the same.
    pub(crate) is_told: bool,
    /// Whether it carried out nothing of that, until it does something.
    pub(crate) is_stuck: bool,
    /// Components that lie on it, of one on which nothing is to stay, as they were counted last.
    pub(crate) left: Option<u64>,
    /// Files of which something is to leave it, as they were counted last; of rings, who records sees to it.
    pub(crate) to_move: Option<u64>,
    /// The last change of its objects that was durable then, as its node said: it is written down once that is old enough.
    pub(crate) recorded: Option<(u64, Moment)>,
    /// How often something else was thought of it: what was counted meanwhile does not count.
    pub(crate) turns: u64,
}

/// What a draft changes in memory.
#[derive(Debug, Clone)]
pub(crate) enum Effect {
    Epochs(Epochs),
    Node(u64, Option<NodeRecord>),
    Target(TargetId, TargetRecord),
}

impl Cluster {
    /// What is kept of it.
    pub(crate) fn load(view: &dyn Snapshot, meta: &Meta) -> Result<Cluster> {
        let mut cluster = Cluster {
            id: meta.cluster,
            root_key: RootKey::new(meta.root_key),
            epochs: view.require(keys::EPOCHS)?,
            nodes: BTreeMap::new(),
            targets: BTreeMap::new(),
        };
        let (from, to) = keys::all(b'N');
        for (key, value) in view.scan(&from, &to, usize::MAX)? {
            cluster.change(Effect::Node(keys::number(&key), Some(decode(&key, &value)?)));
        }
        let (from, to) = keys::all(b'G');
        for (key, value) in view.scan(&from, &to, usize::MAX)? {
            let Some(target) = keys::target_of(&key) else { return Err(Error::damaged("a target has a wrong key")) };
            cluster.change(Effect::Target(target, decode(&key, &value)?));
        }
        Ok(cluster)
    }

    /// Does what a draft says.
    pub(crate) fn change(&mut self, effect: Effect) {
        match effect {
            Effect::Epochs(epochs) => self.epochs = epochs,
            Effect::Node(node, None) => drop(self.nodes.remove(&node)),
            Effect::Node(node, Some(record)) => {
                let fresh =
                    NodeNow { record: record.clone(), reported: None, clocks: None, told_up_to: ToldUpTo::default() };
                self.nodes.entry(node).or_insert(fresh).record = record;
            }
            Effect::Target(target, record) => {
                let fresh = TargetNow {
                    record: record.clone(),
                    free: record.free,
                    load: 0,
                    placed: Cell::default(),
                    heard: None,
                    is_served: true,
                    failed: None,
                    slow: false,
                    is_told: false,
                    is_stuck: false,
                    left: None,
                    to_move: None,
                    recorded: None,
                    turns: 0,
                };
                let now = self.targets.entry(target).or_insert(fresh);
                if now.record.state != record.state {
                    (now.left, now.to_move) = (None, None);
                    now.turns += 1;
                }
                now.record = record;
            }
        }
    }

    /// Has a draft say that the map is another one now.
    pub(crate) fn raise_epoch(&self, draft: &mut Draft<'_>) -> Result<()> {
        set_epochs(draft, Epochs { epoch: self.epochs.epoch + 1, ..self.epochs })
    }

    /// Whether new things may be put on a target.
    pub(crate) fn is_open(&self, target: &TargetNow) -> bool {
        self.is_up(target) && target.record.state == TargetState::Up
    }

    /// Whether a target can be reached, as far as is known.
    pub(crate) fn is_up(&self, target: &TargetNow) -> bool {
        target.is_served && self.nodes.get(&target.record.node).is_some_and(|node| node.record.up)
    }

    /// Whether something is to leave targets on which nothing is to stay: until it was counted, that may be.
    pub(crate) fn is_draining(&self) -> bool {
        self.targets.values().any(|now| now.record.state == TargetState::Draining && now.to_move != Some(0))
    }

    /// Whether all targets that can be reached have their newest key: if not, another one would take from them the one with which
    /// capabilities are made.
    pub(crate) fn has_newest_keys(&self) -> bool {
        let has = |now: &TargetNow| now.heard.is_some_and(|(_, version)| version >= self.key_version(&now.record));
        self.targets.values().filter(|now| self.is_up(now)).all(has)
    }

    /// The newest version of a target's key.
    pub(crate) fn key_version(&self, record: &TargetRecord) -> u32 {
        1 + self.epochs.rolled + record.rolled
    }

    /// The newest keys of a target, older first.
    pub(crate) fn keys(&self, target: TargetId, record: &TargetRecord) -> Vec<TargetKey> {
        let newest = self.key_version(record);
        (newest.saturating_sub(1).max(1)..=newest).map(|version| self.root_key.of_target(target, version)).collect()
    }

    /// The key with which capabilities for a target are made, and their epoch: what it has heard of, so that a change of
    /// the map or of keys is no moment in which it refuses everybody.
    pub(crate) fn signing(&self, target: TargetId) -> (TargetKey, u64) {
        let Some(now) = self.targets.get(&target) else {
            return (self.root_key.of_target(target, 1), self.epochs.epoch);
        };
        let newest = self.key_version(&now.record);
        let (epoch, version) = match now.heard {
            Some((epoch, version)) => (epoch, version.min(newest)),
            // The one before the newest counts in either case.
            None => (self.epochs.epoch, newest.saturating_sub(1).max(1)),
        };
        (self.root_key.of_target(target, version), epoch.clamp(self.epochs.least, self.epochs.epoch))
    }

    /// As it is told, with where copies of the metadata are and whether they are whole.
    pub(crate) fn map(&self, (copied_on, copied_wholly): (Vec<TargetId>, bool)) -> Map {
        let nodes = self.nodes.iter().map(|(node, now)| Node {
            node: *node,
            user: now.record.user,
            address: now.record.address.clone(),
            up: now.record.up,
            wall: now.clocks.map(|(wall, _)| wall),
            reported: now.clocks.map(|(_, reported)| reported),
        });
        let targets = self.targets.iter().map(|(target, now)| Target {
            target: *target,
            node: now.record.node,
            served: now.is_served,
            state: now.record.state,
            size: now.record.size,
            free: now.free,
            load: now.load,
            key: self.key_version(&now.record),
            failed: now.failed.clone(),
            left: now.left,
            slow: now.slow,
        });
        Map {
            cluster: self.id,
            epoch: self.epochs.epoch,
            least_epoch: self.epochs.least,
            nodes: nodes.collect(),
            targets: targets.collect(),
            copied_on,
            copied_wholly,
        }
    }
}

/// Has a draft say which epochs there are.
pub(crate) fn set_epochs(draft: &mut Draft<'_>, epochs: Epochs) -> Result<()> {
    draft.put(keys::EPOCHS.to_vec(), &epochs)?;
    draft.effect(Effect::Epochs(epochs));
    Ok(())
}

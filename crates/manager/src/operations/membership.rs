//! What people say of nodes and targets. What these say of themselves is in [`crate::report`].

use super::Operation;
use crate::cluster::{Effect, set_epochs};
use crate::keys;
use crate::records::{Epochs, NodeRecord, TargetRecord};
use forebay_model::{Error, Result, TargetId};
use forebay_wire::control::cluster::{AddNode, RemoveNode, RollKeys, SetTarget, TargetState};

impl Operation<'_> {
    /// Makes a node known, or gives it another user.
    pub(super) fn add_node(&mut self, asked: &AddNode) -> Result<()> {
        self.by.require_root("add nodes")?;
        self.user_record(asked.user)?;
        let record = match self.cluster.nodes.get(&asked.node) {
            Some(known) => NodeRecord { user: asked.user, ..known.record.clone() },
            None => NodeRecord { user: asked.user, address: String::new(), up: false },
        };
        self.draft.put(keys::node(asked.node), &record)?;
        self.draft.effect(Effect::Node(asked.node, Some(record)));
        self.cluster.raise_epoch(&mut self.draft)
    }

    /// Forgets a node that serves nothing.
    pub(super) fn remove_node(&mut self, asked: &RemoveNode) -> Result<()> {
        self.by.require_root("remove nodes")?;
        if !self.cluster.nodes.contains_key(&asked.node) {
            return Err(Error::missing(format!("there is no node {}; look at the map", asked.node)));
        }
        let serves = |record: &TargetRecord| record.node == asked.node && record.state != TargetState::Gone;
        let targets = self.cluster.targets.values().filter(|target| serves(&target.record)).count();
        if targets > 0 {
            return Err(Error::refused(format!(
                "node {} has {targets} targets that are not gone; drain them, and say that they are",
                asked.node
            )));
        }
        self.draft.delete(keys::node(asked.node));
        self.draft.effect(Effect::Node(asked.node, None));
        self.cluster.raise_epoch(&mut self.draft)
    }

    /// Changes what is thought of a target.
    pub(super) fn set_target(&mut self, asked: &SetTarget) -> Result<()> {
        self.by.require_root("change targets")?;
        let mut record = self.target_record(asked.target)?;
        if record.state == TargetState::Gone && asked.state != TargetState::Gone {
            return Err(Error::refused(format!(
                "target {} is gone and does not come back; format it anew, as another one",
                asked.target
            )));
        }
        let failed =
            self.cluster.targets.get(&asked.target).filter(|now| now.is_served).and_then(|now| now.failed.as_ref());
        if let (TargetState::Up | TargetState::Draining, Some(why)) = (asked.state, failed) {
            return Err(Error::refused(format!(
                "target {} is not used before it is opened again ({why}): end its node and start it, and say it once more",
                asked.target
            )));
        }
        if asked.state == TargetState::Up {
            // Whoever says so takes it as it is.
            record.recorded = 0;
        }
        record.state = asked.state;
        self.put_target(asked.target, record)?;
        self.cluster.raise_epoch(&mut self.draft)
    }

    /// Rolls the key of a target, or of all.
    pub(super) fn roll_keys(&mut self, asked: &RollKeys) -> Result<()> {
        self.by.require_root("roll keys")?;
        match asked.target {
            Some(target) => {
                let mut record = self.target_record(target)?;
                record.rolled = record.rolled.saturating_add(1);
                self.put_target(target, record)
            }
            None => {
                let rolled = self.cluster.epochs.rolled.saturating_add(1);
                set_epochs(&mut self.draft, Epochs { rolled, rolled_at: self.now.wall, ..self.cluster.epochs })
            }
        }
    }

    fn target_record(&self, target: TargetId) -> Result<TargetRecord> {
        let missing = || Error::missing(format!("there is no target {target}; look at the map"));
        self.cluster.targets.get(&target).map(|now| now.record.clone()).ok_or_else(missing)
    }

    fn put_target(&mut self, target: TargetId, record: TargetRecord) -> Result<()> {
        self.draft.put(keys::target(target), &record)?;
        self.draft.effect(Effect::Target(target, record));
        Ok(())
    }
}

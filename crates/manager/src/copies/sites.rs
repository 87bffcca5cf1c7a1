//! On which targets copies can be, which of them are taken, and how the manager reaches those of other processes.
//!
//! Always: [`WANTED`] at most are taken, no two beside each other while one could be on another machine. A target of another process
//! is none before its node has reported to this manager, unless it was one for the manager before: whoever is not there is not waited
//! for.

use super::{VOLUME, WANTED};
use crate::cluster::TargetNow;
use crate::manager::Manager;
use forebay_model::object::FIRST_FENCE;
use forebay_model::{Moment, ObjectId, TargetId, Timestamp};
use forebay_wire::capability::{Capability, Rights, TargetKey};
use forebay_wire::control::cluster::TargetState;
use forebay_wire::sink::Shown;
use std::collections::BTreeSet;

/// No copy is begun on a target of another process of which less than one part in so many is free.
const LEAST_FREE: u64 = 50;
/// The manager is the client of its own capabilities; no other has this number.
const MANAGER: u64 = 0;

/// A target that copies can be on, and how it is reached.
#[derive(Debug, Clone)]
pub struct Site {
    /// Which.
    pub target: TargetId,
    /// The way to it; `None` if it is in the manager's process.
    pub way: Option<Way>,
}

/// How the manager reaches a target of another process, and what allows it to keep copies there.
#[derive(Debug, Clone)]
pub struct Way {
    /// Where its node is.
    pub address: String,
    allowed: Capability,
    key: TargetKey,
}

impl Way {
    /// What allows this with an object of [`VOLUME`], or with the volume itself, whose number is 0.
    pub fn shown(&self, object: u64, rights: Rights) -> Shown {
        let object = ObjectId { volume: VOLUME, object };
        let allowed = Capability { object, rights, ..self.allowed.clone() };
        Shown { capability: allowed.to_bytes(), secret: self.key.secret(&allowed) }
    }
}

/// A target that may have a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) target: TargetId,
    /// Its node; all that is in the manager's process is lost with the manager, whatever nodes these are.
    pub(super) node: Option<u64>,
    pub(super) is_slow: bool,
    /// It has what was changed all the time, and not only from now on.
    pub(super) has_chain: bool,
    /// Its node has reported to this manager, or is beside it.
    pub(super) is_heard: bool,
    /// When its node did so last, if it is another process.
    pub(super) reported: Option<Moment>,
}

impl Manager {
    /// Targets that can have a copy: those `here`, and others if they can be reached.
    pub(super) fn candidates(&self, here: &[TargetId], reaches_others: bool) -> Vec<Candidate> {
        let having = self.copying.having();
        let candidate = |target: TargetId, node: Option<u64>, known: Option<&TargetNow>| Candidate {
            target,
            node,
            is_slow: known.is_some_and(|now| now.slow),
            has_chain: having.contains(&target),
            is_heard: node.is_none() || known.is_some_and(|now| now.heard.is_some()),
            reported: node.and_then(|node| self.cluster.nodes.get(&node)).and_then(|node| node.reported),
        };
        let is_wanted = |now: &TargetNow| now.record.state == TargetState::Up && now.failed.is_none();
        let of_here = here.iter().map(|target| (*target, self.cluster.targets.get(target)));
        let of_here = of_here.filter(|(_, known)| known.is_none_or(is_wanted));
        let mut found: Vec<Candidate> = of_here.map(|(target, known)| candidate(target, None, known)).collect();
        if reaches_others {
            let others = self.cluster.targets.iter().filter(|(target, now)| {
                let has_room = now.free.0 > 0 && now.free.0 >= now.record.size.0 / LEAST_FREE;
                let has_chain = having.contains(target);
                let is_known = has_chain || now.heard.is_some() && has_room;
                is_known && is_wanted(now) && self.cluster.is_up(now) && !here.contains(target)
            });
            found.extend(others.map(|(target, now)| candidate(*target, Some(now.record.node), Some(now))));
        }
        found
    }

    /// How a target is reached until then, if it is not `here`.
    pub(super) fn site(&mut self, target: TargetId, is_here: bool, until: Timestamp) -> Site {
        let way = if is_here { None } else { self.way(target, until) };
        Site { target, way }
    }

    fn way(&mut self, target: TargetId, until: Timestamp) -> Option<Way> {
        let node = self.cluster.targets.get(&target)?.record.node;
        let address = self.cluster.nodes.get(&node)?.record.address.clone();
        let (key, _) = self.cluster.signing(target);
        self.serial += 1;
        let allowed = Capability {
            cluster: self.cluster.id,
            target,
            client: MANAGER,
            object: ObjectId::volume(VOLUME),
            version: FIRST_FENCE,
            // A target takes what was made since the least that it knows of: so none has to hear of the newest one before.
            epoch: self.cluster.epochs.least,
            rights: Rights::NONE,
            bytes: 0..u64::MAX,
            until,
            key: key.version(),
            serial: self.serial,
        };
        Some(Way { address, allowed, key })
    }
}

/// Those of them on which copies are to be.
pub(super) fn choose(mut left: Vec<Candidate>) -> Vec<Candidate> {
    let mut taken: Vec<Candidate> = Vec::new();
    while taken.len() < WANTED {
        let beside = |one: &Candidate| taken.iter().filter(|other| other.node == one.node).count();
        let preferred = |one: &Candidate| (beside(one), one.is_slow, !one.has_chain, one.node.is_some(), one.target);
        let Some(at) = (0..left.len()).min_by_key(|at| preferred(&left[*at])) else { break };
        let one = left.swap_remove(at);
        taken.push(one);
    }
    taken
}

/// How much copies on these are worth: how many there are, on how many nodes, and how many of them keep nobody waiting.
pub(super) fn worth(taken: &[Candidate]) -> (usize, usize, usize) {
    let nodes: BTreeSet<Option<u64>> = taken.iter().map(|one| one.node).collect();
    (taken.len(), nodes.len(), taken.iter().filter(|one| !one.is_slow).count())
}

#[cfg(test)]
mod tests;

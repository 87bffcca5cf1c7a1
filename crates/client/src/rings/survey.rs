//! What is known of a ring and of its parts, as far as these can be asked: one that cannot takes nothing along.
//!
//! Whether a part has all that was recorded the manager knows, and how far one has come that begins anew only its target does.

use super::{Ring, moved, parts, replaced};
use crate::control::{Control, strange};
use crate::rings::way::Way;
use forebay_env::together::all;
use forebay_model::ring::RingStatus;
use forebay_model::{Bytes, Error, Kind, Result, TargetId, Timestamp};
use forebay_wire::control::files::ComponentState;
use forebay_wire::control::{Question, Reply};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// A ring, as far as its parts could be asked.
#[derive(Debug, Clone)]
pub struct KnownRing {
    /// Its name.
    pub name: String,
    /// What it was made for, as the manager knows it.
    pub capacity: Bytes,
    /// The ring, as it says of itself; or why not.
    pub status: Result<RingStatus>,
    /// What lies of it on each target, that of the parity last. None of one that is not on the network, or could not be opened.
    pub parts: Vec<RingPart>,
}

/// What lies of a ring on one target.
#[derive(Debug, Clone)]
pub struct RingPart {
    /// The target.
    pub target: TargetId,
    /// The node that serves it, if one has reported it.
    pub node: Option<u64>,
    /// Whether it has the parity of the others.
    pub is_parity: bool,
    /// How it is.
    pub state: PartState,
    /// What it says of itself; or why it could not be asked.
    pub status: Result<RingStatus>,
}

/// How a part of a ring is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartState {
    /// It is there, with all that was recorded on it.
    Held,
    /// Its target was lost, and it lies nowhere else yet: it begins anew elsewhere when somebody records.
    Lost,
    /// Its target was lost, and it began anew on this one. What the lost one had is made of the other parts.
    Filling,
    /// It has left this target, which drains, and what was recorded before is read here until the ring has run over as much elsewhere.
    Left,
    /// Its target could not be asked.
    Absent,
}

impl RingPart {
    /// Of a part that fills: since when it has what is recorded, and up to when it does. Nothing of one that has nothing yet.
    pub fn filled(&self) -> Option<(Timestamp, Timestamp)> {
        let status = self.status.as_ref().ok().filter(|_| self.state == PartState::Filling)?;
        status.oldest.zip(status.newest)
    }

    /// Whether one that fills has run over itself, as the others have over what the lost one had: it counts as whole within a
    /// minute, unless something is pinned.
    pub fn has_come_round(&self) -> bool {
        let status = self.status.as_ref().ok().filter(|_| self.state == PartState::Filling);
        status.is_some_and(RingStatus::has_come_round)
    }
}

/// What is known of targets while several rings are asked.
pub(super) struct Targets {
    nodes: BTreeMap<TargetId, u64>,
    /// Those that could not be asked, which is found out once.
    away: RefCell<BTreeMap<TargetId, Error>>,
}

impl Targets {
    pub(super) async fn known_to(control: &dyn Control) -> Result<Targets> {
        let map = match control.ask(Question::Map).await? {
            Reply::Map(map) => map,
            other => return Err(strange(&other)),
        };
        let nodes = map.targets.into_iter().map(|target| (target.target, target.node)).collect();
        Ok(Targets { nodes, away: RefCell::default() })
    }

    async fn status(&self, way: &Way) -> Result<RingStatus> {
        let target = way.target();
        if let Some(error) = self.away.borrow().get(&target) {
            return Err(error.clone());
        }
        let status = replaced::own_status(way).await;
        if let Err(error) = status.as_ref() {
            let is_away = error.kind == Kind::Disconnected && way.state() != ComponentState::Missed;
            if is_away && way.target() == target {
                self.away.borrow_mut().insert(target, error.clone());
            }
        }
        status
    }
}

impl Ring {
    /// What is known of it and of its parts.
    pub async fn survey(&self) -> Result<KnownRing> {
        Ok(self.survey_of(&Targets::known_to(&*self.control).await?).await)
    }

    pub(super) async fn survey_of(&self, targets: &Targets) -> KnownRing {
        let formers: Vec<Way> = self.ways.iter().filter_map(Way::former).collect();
        let asked = all(self.ways.iter().chain(&formers).map(|way| targets.status(way))).await;
        let part = |(way, status): (&Way, &Result<RingStatus>), state: PartState| RingPart {
            target: way.target(),
            node: targets.nodes.get(&way.target()).copied(),
            is_parity: self.spread.parity && way.component() == self.spread.targets,
            state,
            status: status.clone(),
        };
        let (mut statuses, before) = (asked[..self.ways.len()].to_vec(), &asked[self.ways.len()..]);
        let now = self
            .ways
            .iter()
            .zip(&statuses)
            .map(|(way, status)| part((way, status), state(way.state(), status.is_ok())));
        let left = formers.iter().zip(before).map(|(way, status)| part((way, status), PartState::Left));
        let parts = now.chain(left).collect();
        for (former, before) in formers.iter().zip(before) {
            let at = former.component() as usize;
            statuses[at] = statuses[at].clone().and_then(|now| moved::both(&self.ways[at], before.clone(), now));
        }
        KnownRing {
            name: self.path().to_string(),
            capacity: self.ways[0].charged(),
            status: self.status_of(statuses),
            parts,
        }
    }

    /// The ring, of what its parts answered.
    pub(super) fn status_of(&self, mut statuses: Vec<Result<RingStatus>>) -> Result<RingStatus> {
        if self.is_alone() {
            let mut status = statuses.remove(0)?;
            if self.ways[0].former().is_some() {
                status.pins = parts::of_one(&status.pins);
            }
            return Ok(status);
        }
        let parts = parts::answered(statuses, self.spread)?;
        parts::status(self.path(), self.spread, &parts, &self.replaced())
    }
}

fn state(known: ComponentState, answers: bool) -> PartState {
    match known {
        ComponentState::Whole if answers => PartState::Held,
        ComponentState::Whole => PartState::Absent,
        ComponentState::Filling => PartState::Filling,
        ComponentState::Missed | ComponentState::Emptying => PartState::Lost,
    }
}

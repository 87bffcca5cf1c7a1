//! Blocks that are made again for one query, so that each is given once.
//!
//! Whoever makes a block again claims it, and gives it while the claim stands. While what is recorded is followed, a target may turn
//! out to have a block after all that was not known to be there: whoever hands on its answer finds it among the claims, and either
//! drops the claim, if nothing was given yet, or passes over what the target has of it.

use super::stripe::Row;
use std::collections::BTreeMap;

/// So many claims are kept of one query; of what was given or told as missing, the earliest are forgotten first.
const MOST: usize = 1 << 16;

/// The component, the latest time, session and number.
type Name = (u32, i64, u64, u64);

/// The claims of one query.
#[derive(Debug, Default)]
pub(super) struct Claims(BTreeMap<Name, Claim>);

#[derive(Debug)]
struct Claim {
    row: Row,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It is being made.
    Open,
    Given,
    /// It cannot be made, and that was told.
    Missing,
}

impl Claims {
    /// Whether nothing was claimed.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Claims a block. False if somebody did so before.
    pub(super) fn claim(&mut self, row: &Row) -> bool {
        if self.stands(row) {
            return false;
        }
        self.0.insert(name(row), Claim { row: *row, state: State::Open });
        if self.0.len() > MOST {
            // Few are being made at a time.
            let over = self.0.iter().find(|(_, claim)| claim.state != State::Open).map(|(name, _)| *name);
            over.map(|name| self.0.remove(&name));
        }
        true
    }

    /// Takes note that a block is given, if the claim still stands; whether it does.
    pub(super) fn give(&mut self, row: &Row) -> bool {
        self.settle(row, State::Given)
    }

    /// Takes note that a block is told as missing, if the claim still stands; whether it does. If it turns up at its target after
    /// all, that gives it.
    pub(super) fn tell(&mut self, row: &Row) -> bool {
        self.settle(row, State::Missing)
    }

    fn settle(&mut self, row: &Row, state: State) -> bool {
        self.0.get_mut(&name(row)).map(|claim| claim.state = state).is_some()
    }

    /// Whether a claim still stands.
    pub(super) fn stands(&self, row: &Row) -> bool {
        self.0.contains_key(&name(row))
    }

    /// Drops a claim: the target gives the block.
    pub(super) fn drop(&mut self, row: &Row) {
        self.0.remove(&name(row));
    }

    /// Whether it was given by who claimed it.
    pub(super) fn is_given(&self, row: &Row) -> bool {
        self.0.get(&name(row)).is_some_and(|claim| claim.state == State::Given)
    }

    /// The blocks of a component that were claimed and that one of these times, which rise, may belong to.
    pub(super) fn touched(&self, component: u32, times: &[i64]) -> Vec<Row> {
        let (Some(first), Some(last)) = (times.first(), times.last()) else { return Vec::new() };
        let claims = self.0.range((component, *first, 0, 0)..=(component, i64::MAX, u64::MAX, u64::MAX));
        let rows = claims.map(|(_, claim)| claim.row).filter(|row| row.times.0 <= *last);
        rows.filter(|row| times.get(times.partition_point(|at| *at < row.times.0)).is_some_and(|at| *at <= row.times.1))
            .collect()
    }
}

fn name(row: &Row) -> Name {
    (row.component, row.times.1, row.writer, row.number)
}

#[cfg(test)]
mod tests;

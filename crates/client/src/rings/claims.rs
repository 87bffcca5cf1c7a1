//! Blocks that are made again for one query, so that each is given once.
//!
//! Whoever makes a block again claims it, and gives it while the claim stands. While what is recorded is followed, a target may turn
//! out to have a block after all that was not known to be there: whoever hands on its answer finds it among the claims, and either
//! drops the claim, if nothing was given yet, or passes over what the target has of it.

use super::stripe::Row;
use std::collections::{BTreeMap, VecDeque};

/// So many claims are kept of one query; of what was given or told as missing, the earliest are forgotten first.
const MOST: usize = 1 << 16;

/// A block: its component, session and number.
pub(super) type Name = (u32, u64, u64);

/// The claims of one query.
#[derive(Debug, Default)]
pub(super) struct Claims {
    states: BTreeMap<Name, State>,
    /// In the order in which they were claimed; also some that were dropped.
    order: VecDeque<Name>,
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
    /// Claims a block. False if somebody did so before.
    pub(super) fn claim(&mut self, row: &Row) -> bool {
        if self.stands(row) {
            return false;
        }
        self.states.insert(name(row), State::Open);
        self.order.push_back(name(row));
        if self.order.len() > MOST {
            // Few are being made at a time.
            let over = self.order.iter().position(|name| self.states.get(name) != Some(&State::Open));
            let over = over.and_then(|over| self.order.remove(over));
            over.map(|name| self.states.remove(&name));
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
        self.states.get_mut(&name(row)).map(|of_it| *of_it = state).is_some()
    }

    /// Whether a claim still stands.
    pub(super) fn stands(&self, row: &Row) -> bool {
        self.states.contains_key(&name(row))
    }

    /// Drops a claim: the target gives the block.
    pub(super) fn drop(&mut self, row: &Row) {
        self.states.remove(&name(row));
        self.order.pop_back_if(|last| *last == name(row));
    }

    /// Whether a target is to give a block that it turns out to have. If so, nobody else gives it any more.
    pub(super) fn yields(&mut self, block: Name) -> bool {
        if self.states.get(&block) == Some(&State::Given) {
            return false;
        }
        self.states.remove(&block);
        true
    }
}

fn name(row: &Row) -> Name {
    (row.component, row.writer, row.number)
}

#[cfg(test)]
mod tests;

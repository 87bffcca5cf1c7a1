//! Whether the promise is kept whatever the seed: the load of the headline in the states that the seed chooses, so that 128
//! seeds in a row see all choices of states once, and the next 128 see them with other chances. Small writes may be slow,
//! and must not stop.

use super::beside::{self, State};
use crate::disk::presets;
use std::collections::BTreeSet;

/// Virtual seconds that are measured of each.
const SECONDS: u64 = 20;
/// How much smaller than the real one the disk is.
const SCALE: u64 = 100;

/// What came of some seeds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Promises that were kept.
    pub kept: u64,
    /// Small writes that came, and those that were durable in time to be counted.
    pub small_writes: (u64, u64),
}

impl Tally {
    /// Adds another one.
    pub fn add(&mut self, other: Tally) {
        self.kept += other.kept;
        self.small_writes.0 += other.small_writes.0;
        self.small_writes.1 += other.small_writes.1;
    }
}

/// The states that a seed chooses.
fn states(seed: u64) -> BTreeSet<State> {
    State::ALL.into_iter().enumerate().filter(|(n, _)| seed >> n & 1 == 0).map(|(_, state)| state).collect()
}

/// Runs one seed. Panics, and says how to replay it, if the promise was not kept.
pub fn keep(seed: u64) -> Tally {
    let states = states(seed);
    let load = beside::load(presets::wd15ears().scaled(SCALE), &states, SECONDS);
    let names: Vec<&str> = states.iter().map(|state| state.name()).collect();
    let how = format!("seed {seed}, beside {}; replay with `cargo x sim {seed} --promise`", names.join(", "));
    let (outcome, others) = beside::run(seed, &load, &states).unwrap_or_else(|error| panic!("{how}: {error}"));
    assert_eq!((outcome.missed_deadlines, outcome.lost_elements), (0, 0), "late blocks and lost elements: {how}");
    assert!(outcome.worst_second >= load.guarantee, "{} in the worst second: {how}", outcome.worst_second);
    let (waiting, due) = (others.small_waiting, others.small_due);
    assert!(waiting * 10 <= due, "{waiting} of {due} small writes still wait: {how}");
    Tally { kept: 1, small_writes: (others.small_due, others.small.len() as u64) }
}

#[cfg(test)]
mod tests;

//! Lives of one ring, and its sufferings on bad disks.

use forebay_sim::damage::{self, suffer};
use forebay_sim::life;

/// Lives of one ring.
const LIVES: u32 = 5;
/// Rounds of damage to one ring.
const ROUNDS: u32 = 5;

/// What came of some seeds.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    lives: life::Tally,
    damage: damage::Tally,
}

/// Lives the lives of a seed.
pub(crate) fn live(seed: u64, tally: &mut Tally) {
    tally.lives.add(&life::live(seed, life::disk(seed), LIVES));
    tally.damage.add(&suffer(seed, damage::disk(seed), ROUNDS));
}

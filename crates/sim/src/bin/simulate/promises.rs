//! Rings with a promise beside everything else.

use forebay_sim::promise::survey::{self, Tally};

/// Whether the promise of a seed is kept.
pub(crate) fn keep(seed: u64, tally: &mut Tally) {
    tally.add(survey::keep(seed));
}

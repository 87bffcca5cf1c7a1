//! Lives of whole clusters.

use forebay_sim::cluster::life::{Chances, Tally, live as live_one};

/// Lives the lives of a seed: the same as those of the tests.
pub(crate) fn live(seed: u64, tally: &mut Tally) {
    for chances in [Chances::ALONE, Chances::TOGETHER, Chances::DRAINING] {
        tally.add(&live_one(seed, chances).0);
    }
}

/// Lives a short one.
pub(crate) fn live_shortly(seed: u64, tally: &mut Tally) {
    tally.add(&live_one(seed, Chances::SHORT).0);
}

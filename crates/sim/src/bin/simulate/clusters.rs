//! Lives of whole clusters.

use forebay_sim::cluster::life::{Chances, Tally, live as live_one};

/// Lives the lives of a seed: the same as those of the tests.
pub(crate) fn live(seed: u64, tally: &mut Tally) {
    let without_a_manager = Chances { wipes: true, ..Chances::DRAINING };
    for chances in [Chances::ALONE, Chances::TOGETHER, Chances::DRAINING, Chances::SEVERAL, without_a_manager] {
        tally.add(&live_one(seed, chances).0);
    }
}

/// Lives its short ones.
pub(crate) fn live_shortly(seed: u64, tally: &mut Tally) {
    for wipes in [false, true] {
        tally.add(&live_one(seed, Chances { wipes, ..Chances::SHORT }).0);
    }
}

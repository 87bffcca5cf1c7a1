use super::{Tally, disk, live};
use crate::seeds;
use std::cell::Cell;

#[test]
fn a_ring_survives_any_crash_with_everything_it_acknowledged() {
    let total = Cell::new(Tally::default());
    seeds::each(2000, |seed| {
        let mut tally = total.get();
        tally.add(&live(seed, disk(seed), 5));
        total.set(tally);
    });
    let tally = total.get();
    if !seeds::is_replay() {
        // A search that hardly crashed, lapped or pinned has shown nothing.
        assert!(tally.crashes >= 10_000 && tally.cut_tails > 10 && tally.laps > 10 && tally.pins > 10, "{tally:?}");
    }
}

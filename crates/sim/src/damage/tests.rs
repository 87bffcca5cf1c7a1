use super::{Tally, disk, suffer};
use crate::seeds;
use std::cell::Cell;

#[test]
fn whatever_the_disk_does_no_byte_is_wrong_and_nothing_is_missing_in_silence() {
    let total = Cell::new(Tally::default());
    seeds::each(120, |seed| {
        let mut tally = total.get();
        tally.add(&suffer(seed, disk(seed), 5));
        total.set(tally);
    });
    let tally = total.get();
    if seeds::are_the_suites() {
        // A search that damaged, repaired or stopped nothing has shown nothing.
        assert!(tally.faults > 600 && tally.damaged > 300 && tally.repaired > 20 && tally.stopped > 10, "{tally:?}");
    }
}

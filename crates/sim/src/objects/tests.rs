use super::rot::{self, rot};
use super::{Tally, live};
use crate::life::disk;
use crate::seeds;
use std::cell::Cell;

#[test]
fn objects_survive_any_crash_with_everything_that_was_acknowledged() {
    let total = Cell::new(Tally::default());
    seeds::each(60, |seed| {
        let mut tally = total.get();
        tally.add(&live(seed, disk(seed), 6));
        total.set(tally);
    });
    let tally = total.get();
    if seeds::are_the_suites() {
        // A search that hardly crashed, or never within a command, has shown nothing.
        let enough = tally.crashes >= 360 && tally.there > 20 && tally.absent > 20 && tally.homed > 100;
        let enough = enough && tally.swaps > 20;
        let enough = enough && tally.small > 200 && tally.outgrown > 50;
        let enough = enough && tally.lost > 20 && tally.at_risk > tally.lost + 20 && tally.snapshots > 100;
        assert!(enough && tally.commands > 2000 && tally.compared > 1 << 30, "{tally:?}");
    }
}

#[test]
fn whatever_rots_is_told_and_nothing_wrong_is_ever_returned() {
    let total = Cell::new(rot::Tally::default());
    seeds::each(32, |seed| {
        let mut tally = total.get();
        tally.add(&rot(seed, disk(seed), 2, 1 << (seed % 8)));
        total.set(tally);
    });
    let tally = total.get();
    if seeds::are_the_suites() {
        assert!(tally.right > 200 && tally.told > 50 && tally.refused > 0, "{tally:?}");
    }
}

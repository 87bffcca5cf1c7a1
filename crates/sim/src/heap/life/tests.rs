use super::{Tally, live};
use crate::life::disk;
use crate::seeds;
use std::cell::Cell;

#[test]
fn a_heap_is_its_last_commit_after_any_crash() {
    let total = Cell::new(Tally::default());
    seeds::each(32, |seed| {
        let mut tally = total.get();
        tally.add(&live(seed, disk(seed), 8));
        total.set(tally);
    });
    let tally = total.get();
    println!("{tally:?}");
    if seeds::are_the_suites() {
        let both = tally.there > 2 && tally.absent > 20;
        let enough = both && tally.crashes > 150 && tally.commits > 300 && tally.aborts > 60;
        assert!(enough && tally.compared > 10_000 && tally.gone > 5000 && tally.recycled > 1000, "{tally:?}");
        assert!(tally.audits > 50 && tally.looked > 400 && tally.merged > 100 && tally.unmerged > 100, "{tally:?}");
    }
}

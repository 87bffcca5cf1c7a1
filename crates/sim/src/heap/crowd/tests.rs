use super::{Tally, live};
use crate::seeds;
use std::cell::Cell;

#[test]
fn several_users_of_a_heap_that_is_full_again_and_again_each_have_their_last_commit() {
    let total = Cell::new(Tally::default());
    seeds::each(12, |seed| {
        let mut tally = total.get();
        tally.add(&live(seed, 6));
        total.set(tally);
    });
    let tally = total.get();
    println!("{tally:?}");
    if seeds::are_the_suites() {
        let done = tally.commits > 300 && tally.full > 50 && tally.aborts > 100 && tally.large > 300;
        assert!(done && tally.there + tally.absent > 20, "{tally:?}");
    }
}

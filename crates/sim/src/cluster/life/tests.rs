use super::*;
use crate::seeds;

/// Lives as many lives as seeds, and demands that something happened in them.
fn lives(count: u64, chances: Chances) {
    let tally = RefCell::new(Tally::default());
    seeds::each(count, |seed| tally.borrow_mut().add(&live(seed, chances).0));
    let tally = tally.into_inner();
    println!("{tally:?}");
    if !seeds::is_replay() {
        assert!(tally.operations > 50 * count && tally.faults > 5 * count && tally.flushes > count, "{tally:?}");
    }
}

#[test]
fn files_of_one_client_are_what_was_acknowledged_whatever_fails() {
    lives(12, Chances { steps: 40, shared: 0 });
}

#[test]
fn files_of_several_clients_are_what_they_wrote_whatever_fails() {
    lives(8, Chances { steps: 40, shared: 2 });
}

#[test]
fn a_life_is_lived_again_by_its_seed() {
    let chances = Chances { steps: 20, shared: 1 };
    let (_, one) = live(3, chances);
    assert_eq!(one, live(3, chances).1);
    assert_ne!(one, live(4, chances).1);
}

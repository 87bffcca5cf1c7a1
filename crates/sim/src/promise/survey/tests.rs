use super::*;
use std::time::Duration;

#[test]
fn a_hundred_and_twenty_eight_seeds_see_all_choices_of_states() {
    let all: BTreeSet<BTreeSet<State>> = (640..768).map(states).collect();
    assert_eq!(all.len(), 128);
    assert_eq!(states(0).len(), State::ALL.len(), "the first has all of them");
}

#[test]
fn the_promise_is_kept_whatever_the_seed() {
    crate::seeds::each(3, |seed| {
        let seed = seed * 128 + seed;
        let (came, durable) = keep(seed).small_writes;
        assert_eq!((came > 0, durable > 0), (states(seed).contains(&State::SmallWrites), came > 0), "seed {seed}");
    });
}

/// The logs are full again and again, and what is in them goes home beside eight readers with what the ring leaves. The
/// second of these stopped for ten seconds while a log was read a part for each round of turns.
#[test]
fn small_writes_do_not_stop_for_as_long_as_they_come() {
    let left_out = [State::Pins, State::Rebuild];
    let without_pins = State::ALL.into_iter().filter(|state| !left_out.contains(state)).collect();
    for (seed, states, seconds) in [(0, BTreeSet::from(State::ALL), 110), (2, without_pins, 20)] {
        let load = beside::load(presets::wd15ears().scaled(SCALE), &states, seconds);
        let (outcome, others) = beside::run(seed, &load, &states).unwrap();
        let broken = (outcome.missed_deadlines, outcome.lost_elements, others.small_waiting);
        assert_eq!(broken, (0, 0, 0), "seed {seed}");
        let longest = others.small.last().unwrap();
        assert!(*longest < Duration::from_secs(5), "seed {seed}: {longest:?}");
    }
}

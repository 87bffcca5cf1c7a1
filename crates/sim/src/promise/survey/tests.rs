use super::*;
use std::time::Duration;

#[test]
fn sixty_four_seeds_see_all_choices_of_states() {
    let all: BTreeSet<BTreeSet<State>> = (640..704).map(states).collect();
    assert_eq!(all.len(), 64);
    assert_eq!(states(0).len(), State::ALL.len(), "the first has all of them");
}

#[test]
fn the_promise_is_kept_whatever_the_seed() {
    crate::seeds::each(3, |seed| {
        let seed = seed * 64 + seed;
        let (came, durable) = keep(seed).small_writes;
        assert_eq!((came > 0, durable > 0), (states(seed).contains(&State::SmallWrites), came > 0), "seed {seed}");
    });
}

/// The logs are full again and again, and what is in them goes home beside eight readers with what the ring leaves.
#[test]
fn small_writes_do_not_stop_for_as_long_as_they_come() {
    let states = BTreeSet::from(State::ALL);
    let load = beside::load(presets::wd15ears().scaled(SCALE), &states, 110);
    let (outcome, others) = beside::run(0, &load, &states).unwrap();
    assert_eq!((outcome.missed_deadlines, outcome.lost_elements, others.small_waiting), (0, 0, 0));
    let longest = others.small.last().unwrap();
    assert!(*longest < Duration::from_secs(5), "{longest:?}");
}

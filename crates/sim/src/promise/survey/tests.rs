use super::*;

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

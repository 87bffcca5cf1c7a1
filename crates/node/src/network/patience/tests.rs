use super::*;

const TURN: Duration = Duration::from_secs(5);
const LEAST: Rate = Rate(1000);

/// What it costs to wait for the same thing, of which so many bytes come in each turn.
fn costs(moves: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let (mut wait, mut moved) = (Wait::new(), 0);
    wait.over(TURN, Some(1), 0, LEAST);
    let mut cost = |bytes| {
        moved += bytes;
        wait.over(TURN, Some(1), moved, LEAST).as_secs()
    };
    moves.into_iter().map(&mut cost).collect()
}

#[test]
fn whoever_moves_less_than_the_least_rate_costs_what_is_missing_and_whoever_moves_more_costs_nothing() {
    assert_eq!(costs([0, 0, 0, 0]), [5, 10, 15, 20]);
    assert_eq!(costs([5, 5, 5, 5]), [4, 9, 14, 19], "a byte a second");
    assert_eq!(costs([2500; 4]), [2, 5, 7, 10]);
    assert_eq!(costs([5000; 100]), [0; 100]);
    assert_eq!(costs([0, 0, 10_000, 5000]), [5, 10, 5, 5], "what was too slow is made good by what is faster");
    assert_eq!(costs([1_000_000, 0, 0]), [0, 5, 10], "but not ahead");
}

#[test]
fn what_ended_costs_nothing_any_more() {
    let mut wait = Wait::new();
    for frame in 0..20 {
        assert_eq!(wait.over(TURN, Some(frame), 0, LEAST), Duration::ZERO);
        assert_eq!(wait.over(TURN, Some(frame), 0, LEAST), TURN);
    }
    assert_eq!(wait.over(TURN, None, 0, LEAST), Duration::ZERO);
    assert_eq!(wait.over(TURN, None, 0, LEAST), Duration::ZERO);
}

#[test]
fn without_a_least_rate_any_byte_is_enough() {
    let mut wait = Wait::new();
    let mut over = |moved| wait.over(TURN, Some(1), moved, Rate(0));
    assert_eq!([over(0), over(0), over(1), over(1)], [0, 5, 0, 5].map(Duration::from_secs));
}

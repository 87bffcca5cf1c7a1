use super::*;
use forebay_model::Cause;

const WHOLE: Gap = Gap { cause: Cause::TargetAway, count: None, first: Timestamp(0), last: Timestamp(1000) };

fn at(times: &[i64]) -> Vec<Option<Timestamp>> {
    times.iter().map(|time| (*time >= 0).then_some(Timestamp(*time))).collect()
}

fn told(oldest: &[i64], whole: Gap) -> Option<(i64, i64)> {
    before_parity_of(&at(oldest), whole).map(|gap| (gap.first.0, gap.last.0))
}

/// Who follows a ring from before its first element was told that something is missing before all that was recorded.
#[test]
fn of_times_before_all_that_was_recorded_nothing_is_missing() {
    assert_eq!(told(&[100, 100, 100], WHOLE), None);
    assert_eq!(told(&[120, 101, 100], WHOLE), None, "the others have run over more than the parity");
    // One that has nothing, or does not say it, tells nothing of it.
    assert_eq!(told(&[-1, 120, 100], WHOLE), None);
}

#[test]
fn what_the_parity_has_run_over_and_another_part_has_not_is_told_as_far_as_it_was_asked_for() {
    assert_eq!(told(&[100, 50, 90], WHOLE), Some((0, 89)));
    assert_eq!(told(&[100, -1, 200], WHOLE), Some((0, 199)));
    assert_eq!(told(&[10, 10, 2000], WHOLE), Some((0, 1000)), "no later than was asked for");
    assert_eq!(told(&[10, 10, 90], Gap { first: Timestamp(90), ..WHOLE }), None, "what was asked for begins later");
}

#[test]
fn without_anything_in_the_parity_all_times_are_told() {
    assert_eq!(told(&[100, 120, -1], WHOLE), Some((0, 1000)));
    assert_eq!(told(&[-1, -1, -1], WHOLE), Some((0, 1000)), "each may have begun anew");
}

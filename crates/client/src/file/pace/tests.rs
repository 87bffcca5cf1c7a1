use super::{Pace, Patience, UNKNOWN};
use forebay_model::Moment;
use std::time::Duration;

const FLOOR: Duration = Duration::from_millis(2);

#[test]
fn what_is_far_slower_than_the_others_is_avoided_and_seen_when_it_is_fast_again() {
    let pace = Pace::default();
    assert_eq!(pace.patience(0, &(0..4), FLOOR, 0), Patience::Hedge(UNKNOWN), "nothing is known");
    for _ in 0..8 {
        (1..4).for_each(|component| pace.note(component, Duration::from_millis(1), 0));
    }
    assert_eq!(pace.patience(0, &(0..4), FLOOR, 0), Patience::Hedge(Duration::from_millis(4)));
    assert_eq!(pace.patience(0, &(0..4), FLOOR, 1 << 20), Patience::Hedge(Duration::from_millis(20)));
    (0..8).for_each(|_| pace.note(0, Duration::from_millis(100), 0));
    assert!(pace.is_slow(0, &(0..4), FLOOR) && !pace.is_slow(1, &(0..4), FLOOR));
    let asked = (0..32).filter(|_| pace.patience(0, &(0..4), FLOOR, 0) != Patience::Avoid).count();
    assert!((1..20).contains(&asked), "{asked} probes");
    (0..40).for_each(|_| pace.note(0, Duration::from_millis(1), 0));
    assert!(!pace.is_slow(0, &(0..4), FLOOR));
}

#[test]
fn what_is_fast_enough_for_anybody_is_not_slow() {
    let pace = Pace::default();
    for _ in 0..8 {
        (0..4).for_each(|component| pace.note(component, Duration::from_micros(10), 0));
        pace.note(4, Duration::from_micros(500), 0);
    }
    assert!(!pace.is_slow(4, &(0..5), FLOOR));
}

#[test]
fn who_waits_as_the_others_do_is_not_late() {
    let pace = Pace::default();
    let (first, second) = (Moment(5), Moment(6));
    for component in 0..3 {
        (0..2).for_each(|_| pace.asked(component, first));
    }
    pace.asked(1, second);
    let is_last = || pace.is_last(0, &(0..3), first);
    pace.answered(1, first);
    pace.answered(1, first);
    pace.answered(2, first);
    assert!(!is_last(), "2 has another one that was asked as early");
    pace.answered(2, first);
    assert!(is_last(), "what was asked of 1 later counts for nothing");
    assert!(!pace.is_last(1, &(0..3), second) && pace.is_last(5, &(4..6), second), "others are of another family");
}

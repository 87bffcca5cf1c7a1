use super::*;

const WORST: Duration = Duration::from_millis(10);

fn at(milliseconds: u64) -> Moment {
    Moment(milliseconds * 1_000_000)
}

/// One I/O after the other, each taking `takes` ms, for `span` ms; what is said then.
fn one_by_one(pace: &mut Pace, from: u64, takes: u64, span: u64) -> u32 {
    for begin in (from..from + span).step_by(takes as usize) {
        pace.started(WORST, at(begin));
        pace.ended(WORST, at(begin + takes));
    }
    pace.slower(at(from + span))
}

#[test]
fn a_device_that_keeps_to_its_profile_is_not_called_slow() {
    let mut pace = Pace::default();
    assert_eq!(one_by_one(&mut pace, 0, 10, 60_000), 0);
    assert_eq!(one_by_one(&mut pace, 60_000, 30, 60_000), 0, "three times is within what neighbours do");
}

#[test]
fn a_device_a_hundred_times_slower_is_called_so_within_ten_seconds_and_no_longer_when_it_is_over() {
    let mut pace = Pace::default();
    one_by_one(&mut pace, 0, 10, 20_000);
    let said = one_by_one(&mut pace, 20_000, 1000, 10_000);
    assert!((50..=101).contains(&said), "{said}");
    assert_eq!(one_by_one(&mut pace, 30_000, 10, 12_000), 0);
}

#[test]
fn what_was_found_of_a_device_that_nobody_uses_since_counts_for_a_minute() {
    let mut pace = Pace::default();
    one_by_one(&mut pace, 0, 1000, 10_000);
    assert!(pace.slower(at(60_000)) > 0);
    assert_eq!(pace.slower(at(80_000)), 0);
    assert_eq!(one_by_one(&mut pace, 80_000, 10, 2_000), 0, "what was before is forgotten, not averaged");
    assert!(one_by_one(&mut pace, 82_000, 1000, 10_000) > 0);
}

#[test]
fn what_took_a_minute_once_counts_for_a_minute_however_little_is_asked_for_behind_it() {
    let mut pace = Pace::default();
    one_by_one(&mut pace, 0, 10, 10_000);
    one_by_one(&mut pace, 10_000, 80_000, 80_000);
    let mut said = Vec::new();
    for second in 90..400 {
        // As slow as may be, for one part in a hundred of the time.
        said.push(one_by_one(&mut pace, second * 1000, 10, 10) > 0);
    }
    let last = said.iter().rposition(|slow| *slow);
    assert!(said[0] && last.is_some_and(|last| last < 61), "{last:?}");
}

#[test]
fn it_is_noticed_soon_wherever_in_a_span_it_begins() {
    for begins in (20_000..26_000).step_by(100) {
        let mut pace = Pace::default();
        assert_eq!(one_by_one(&mut pace, 0, 10, begins), 0);
        let said = one_by_one(&mut pace, begins, 500, 7_000);
        assert!(said > 0, "nothing is said after seven seconds of it, begun at {begins} ms");
    }
}

#[test]
fn what_takes_as_long_as_a_part_and_more_is_not_held_against_what_was_long_before() {
    let mut pace = Pace::default();
    one_by_one(&mut pace, 0, 10, 20_000);
    for begin in [20_000, 23_600] {
        pace.started(WORST * 20, at(begin));
        pace.ended(WORST * 20, at(begin + 3600));
    }
    assert_eq!(pace.slower(at(27_200)), 18);
}

#[test]
fn it_is_busy_while_anything_is_under_way_however_much_that_is() {
    let mut pace = Pace::default();
    assert_eq!(pace.busy(at(5)), Duration::ZERO);
    pace.started(WORST, at(10));
    pace.started(WORST, at(15));
    assert_eq!(pace.busy(at(17)), Duration::from_millis(7));
    pace.ended(WORST, at(20));
    pace.ended(WORST, at(30));
    assert_eq!(pace.busy(at(80)), Duration::from_millis(20));
    one_by_one(&mut pace, 100, 10, 8_000);
    assert_eq!(pace.busy(at(9_000)), Duration::from_millis(8_020));
}

#[test]
fn what_never_ends_is_said_while_it_lasts() {
    let mut pace = Pace::default();
    pace.started(WORST, at(0));
    assert_eq!(pace.slower(at(4_000)), 0);
    assert_eq!(pace.slower(at(8_000)), 800);
}

#[test]
fn many_at_once_share_the_time_and_idle_time_counts_for_nothing() {
    let mut pace = Pace::default();
    for round in 0..100 {
        let begin = round * 10_000;
        (0..8).for_each(|_| pace.started(WORST, at(begin)));
        (1..=8).for_each(|n| pace.ended(WORST, at(begin + n * 10)));
    }
    assert_eq!(pace.slower(at(2_000_000)), 0);
}

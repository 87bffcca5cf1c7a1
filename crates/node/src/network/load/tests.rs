use super::*;
use crate::network::reports::tests::target;
use forebay_wire::command::Activity;

fn info(openings: u64, busy: u64) -> TargetInfo {
    let activity = Activity { busy: Duration::from_millis(busy), ..Activity::default() };
    TargetInfo { openings, activity, ..target(TargetId(1)) }
}

fn at(milliseconds: u64) -> Moment {
    Moment(milliseconds * 1_000_000)
}

#[test]
fn it_is_the_share_of_time_in_which_there_was_something_to_do_and_changes_by_half() {
    let mut load = Load::default();
    assert_eq!(load.of(&info(1, 9_000), at(10_000)), 0, "what was before it was asked first is not known");
    assert_eq!(load.of(&info(1, 11_000), at(12_000)), 50);
    assert_eq!(load.of(&info(1, 11_001), at(12_001)), 50, "so soon nothing is said");
    assert_eq!(load.of(&info(1, 13_000), at(14_000)), 75);
    assert_eq!(load.of(&info(1, 13_000), at(16_000)), 37);
    // What is opened anew begins anew.
    assert_eq!(load.of(&info(2, 500), at(18_000)), 0);
    assert_eq!(load.of(&info(2, 1_500), at(20_000)), 25);
    assert_eq!(load.of(&info(2, 1_500), at(21_000)), 12);
}

#[test]
fn a_device_that_is_far_slower_than_it_was_measured_is_as_busy_as_can_be() {
    let mut load = Load::default();
    let slow = |slower| {
        let info = info(1, 10);
        TargetInfo { activity: Activity { slower, ..info.activity }, ..info }
    };
    assert_eq!(load.of(&slow(40), at(2_000)), 100);
    assert_eq!(load.of(&slow(0), at(4_000)), 0);
}

use super::{Load, run};
use crate::disk::presets;
use forebay_model::Rate;

#[test]
fn sixty_megabytes_a_second_are_kept_beside_eight_readers_on_a_full_aged_pinned_disk() {
    // Three laps. Where the disk is scaled down less, as in docs/benchmarks.md, there are fewer ways between segments to
    // a second, and readers get more than nine tenths.
    let outcome = run(1, &Load::headline(presets::wd15ears().scaled(1000))).unwrap();
    assert_eq!((outcome.missed_deadlines, outcome.lost_elements), (0, 0));
    assert!(outcome.read.0 * 100 >= outcome.limit.0 * 70, "readers got {} of {}", outcome.read, outcome.limit);
}

#[test]
fn readers_get_nearly_what_raw_io_would_leave_them() {
    let mut load = Load::headline(presets::wd15ears().scaled(300));
    load.laps = 1;
    let outcome = run(1, &load).unwrap();
    assert_eq!((outcome.missed_deadlines, outcome.lost_elements), (0, 0));
    assert!(outcome.read.0 * 100 >= outcome.limit.0 * 85, "readers got {} of {}", outcome.read, outcome.limit);
}

#[test]
fn flash_keeps_nearly_its_whole_rate_beside_readers() {
    let mut load = Load::headline(presets::ssd().scaled(100));
    (load.guarantee, load.rate) = (Rate::mb(350), Rate::mb(350));
    (load.readers, load.seconds) = (4, Some(8));
    let outcome = run(1, &load).unwrap();
    assert_eq!((outcome.missed_deadlines, outcome.lost_elements), (0, 0));
    assert!(outcome.read > Rate(0));
}

use super::{Elements, Load, run};
use crate::disk::presets;
use forebay_model::Bytes;

#[test]
fn sixty_megabytes_a_second_are_kept_beside_eight_readers_on_a_full_aged_pinned_disk() {
    let mut load = Load::headline(presets::wd15ears().scaled(1000));
    load.laps = 1;
    load.fill_percent = 70.0;
    let outcome = run(1, &load).unwrap();
    eprintln!("{outcome:#?}");
    assert_eq!((outcome.missed_deadlines, outcome.lost_elements), (0, 0));
    assert!(outcome.read.0 * 10 >= outcome.limit.0 * 9, "readers got {} of {}", outcome.read, outcome.limit);
}

use super::*;
use crate::disk::presets;

/// With ten files for each of the others.
fn loss(targets: u32) -> Loss {
    Loss {
        targets,
        width: 5,
        files: 10 * (targets - 1),
        size: Bytes::mib(2),
        link: LinkSpec::gigabit().rate,
        // Beside it, a node's port takes what is written to its target.
        credit: Bytes::kib(64),
        network: NetworkSpec::jumbo(),
        disk: presets::ssd().scaled(2000),
        seed: 1,
    }
}

#[test]
fn what_a_lost_target_had_is_made_anew_by_all_others_the_faster_the_more_there_are() {
    let [few, many] = [6, 16].map(|targets| lose_one(&loss(targets)));
    assert_eq!((few.components, many.components), (50, 150));
    assert!(few.written.0 > 0 && many.written == few.written * 3, "{few:?} {many:?}");
    let (faster, more) = (many.rate().0 as f64 / few.rate().0 as f64, 15.0 / 5.0);
    assert!(faster >= 0.8 * more, "{faster:.2} times as fast by {more} times as many: {few:?} {many:?}");
}

#[test]
fn nearly_each_file_has_a_part_on_the_target_that_is_lost_however_many_there_are() {
    for targets in [6, 30] {
        let loss = Loss { files: 50, size: Bytes::kib(64), ..loss(targets) };
        let made = fill(&cluster(Rc::new(World::new(loss.seed)), &loss), &loss);
        // One of each writer may come too late.
        assert!((50..=50 + WRITERS as u32 + 1).contains(&made), "{made} of {targets} targets");
    }
}

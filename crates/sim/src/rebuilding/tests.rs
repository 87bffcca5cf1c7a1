use super::*;
use crate::disk::presets;

fn loss(targets: u32) -> Loss {
    Loss {
        targets,
        width: 5,
        files: 100,
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
    let [few, many] = [6, 12].map(|targets| lose_one(&loss(targets)));
    assert_eq!((few.components, many.components), (100, 100));
    assert!(few.written.0 > 0 && few.written == many.written, "{few:?} {many:?}");
    let (faster, more) = (many.rate().0 as f64 / few.rate().0 as f64, 11.0 / 5.0);
    assert!(faster >= 0.7 * more, "{faster:.2} times as fast by {more} times as many: {few:?} {many:?}");
}

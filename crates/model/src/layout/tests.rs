use super::{MOST_COMPONENTS, MOST_IN_GROUP, Raid, Striping, UNIT, VISIT};
use crate::error::Kind;
use crate::size::Bytes;

#[test]
fn what_is_no_layout_is_refused_with_what_would_be_one() {
    let odd = [
        (Raid::Five, UNIT, 2, 1, 1, "3 to 13"),
        (Raid::Five, UNIT, MOST_IN_GROUP + 1, 1, 1, "3 to 13"),
        (Raid::Zero, UNIT, 0, 1, 1, "1 to 13"),
        (Raid::Zero, UNIT, 4, 0, 1, "visits of 0"),
        (Raid::Zero, UNIT, 4, 1, 0, "0 groups"),
        (Raid::Zero, UNIT, 13, 1, u32::MAX, "1 to 4096"),
        (Raid::One(2), UNIT, 8, 1, MOST_COMPONENTS / 16 + 1, "1 to 4096"),
        (Raid::One(1), UNIT, 4, 1, 1, "2 to 4 copies"),
        (Raid::One(0), UNIT, 4, 1, 1, "2 to 4 copies"),
        (Raid::One(5), UNIT, 4, 1, 1, "2 to 4 copies"),
        (Raid::Five, Bytes::ZERO, 5, 1, 1, "4 KiB to 16 MiB"),
        (Raid::Five, Bytes(5000), 5, 1, 1, "4 KiB to 16 MiB"),
        (Raid::Five, Bytes::mib(32), 5, 1, 1, "4 KiB to 16 MiB"),
    ];
    for (raid, unit, width, depth, groups, words) in odd {
        let error = Striping::new(raid, unit, width, depth, groups).expect_err(words);
        assert!(error.kind == Kind::Usage && error.message.contains(words), "{error}");
    }
    for (raid, targets) in [(Raid::Five, 2), (Raid::Five, 0), (Raid::One(3), 2), (Raid::Zero, 0)] {
        let error = Striping::over(raid, UNIT, targets).expect_err("too few");
        assert!(error.kind == Kind::Usage && error.message.contains(&format!("there are {targets}")), "{error}");
    }
    assert!(Striping::over(Raid::Zero, Bytes::ZERO, 5).is_err());
}

#[test]
fn over_so_many_targets_few_are_left_out_and_groups_are_wide() {
    let shape = |raid, targets| {
        let striping = Striping::over(raid, UNIT, targets).expect("there is one");
        (striping.width(), striping.groups(), striping.components())
    };
    assert_eq!(shape(Raid::Five, 3), (3, 1, 3));
    assert_eq!(shape(Raid::Five, 10), (10, 1, 10));
    assert_eq!(shape(Raid::Five, 12), (6, 2, 12), "rather than one of twelve");
    assert_eq!(shape(Raid::Five, 13), (13, 1, 13), "rather than leave one out");
    assert_eq!(shape(Raid::Five, 100), (10, 10, 100));
    assert_eq!(shape(Raid::One(2), 5), (2, 1, 4));
    assert_eq!(shape(Raid::Zero, 1), (1, 1, 1));
    for targets in 3..6000 {
        for raid in [Raid::Zero, Raid::One(2), Raid::One(3), Raid::Five] {
            let (_, _, components) = shape(raid, targets);
            assert!(components <= targets.min(MOST_COMPONENTS));
            assert!(targets.min(MOST_COMPONENTS) - components <= 2, "{raid} over {targets}");
        }
    }
    let striping = Striping::over(Raid::Five, UNIT, 100).expect("there is one");
    assert_eq!((striping.data_units(), striping.stripe(), striping.spare()), (9, UNIT * 9, 1));
    let visit = striping.stripe() * u64::from(striping.depth());
    assert!(visit <= VISIT && visit + striping.stripe() > VISIT, "{visit}");
    assert_eq!(Striping::over(Raid::One(3), UNIT, 9).expect("there is one").spare(), 2);
}

#[test]
fn each_target_has_its_turn_with_parity_however_few_there_are() {
    for targets in [3, 5, 10, 12, 100] {
        let striping = Striping::over(Raid::Five, UNIT, targets).expect("there is one");
        let stripes = u64::from(striping.depth()) * u64::from(striping.groups());
        let mut turns = vec![0; striping.components() as usize];
        for stripe in (0..stripes).map(super::address::StripeId) {
            turns[striping.parity_of(stripe).expect("it has parity").component as usize] += 1;
        }
        let (least, most) = (turns.iter().min(), turns.iter().max());
        assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1), "{targets} targets: {turns:?}");
    }
}

#[test]
fn what_one_loses_the_others_of_its_family_have_and_families_do_not_overlap() {
    for (raid, width, groups, together) in
        [(Raid::Zero, 3, 2, 1), (Raid::One(2), 3, 2, 2), (Raid::One(4), 1, 3, 4), (Raid::Five, 5, 3, 5)]
    {
        let striping = Striping::new(raid, UNIT, width, 1, groups).expect("a layout");
        for component in 0..striping.components() {
            let family = striping.family(component);
            assert!(family.contains(&component) && family.end <= striping.components(), "{raid}: {family:?}");
            assert_eq!((family.start % together, family.len() as u32), (0, together), "{raid}");
            assert!(family.len() as u32 > striping.spare(), "{raid}");
        }
    }
}

use super::{DESCRIBED, Described};
use forebay_model::layout::{Raid, Striping};
use forebay_model::{Bytes, TargetId, Timestamp};

fn described(targets: usize) -> Described {
    Described {
        striping: Striping::new(Raid::Five, Bytes::kib(64), 3, 16, 1).unwrap(),
        targets: (1..=targets as u128).map(TargetId).collect(),
        mode: 0o644,
        owner: 5,
        group: 6,
        created: Timestamp(1),
    }
}

#[test]
fn what_a_component_says_has_the_bytes_that_are_written_down() {
    let [(page, number, value)] = described(3).attributes().try_into().unwrap();
    assert_eq!((page, number), (DESCRIBED, 1));
    let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "010280800403100103010203a403050602");
    assert_eq!(Described::find(&[(9, vec![1]), (number, value)]), Some(described(3)));
}

#[test]
fn what_is_not_known_says_nothing() {
    let [(_, _, value)] = described(3).attributes().try_into().unwrap();
    let newer = [&[2], &value[1..]].concat();
    for other in [vec![], vec![1], newer, value[..value.len() - 1].to_vec()] {
        assert_eq!(Described::find(&[(1, other)]), None);
    }
    assert_eq!(Described::find(&[]), None);
}

#[test]
fn it_fits_an_attribute_however_many_components_there_are() {
    let attributes = crate::control::names::Attributes {
        kind: crate::control::names::FileKind::File,
        mode: u32::MAX,
        owner: u32::MAX,
        group: u32::MAX,
        size: Bytes(0),
        entries: 0,
        created: Timestamp::MIN,
        modified: Timestamp::MIN,
        accessed: Timestamp::MIN,
        changed: Timestamp::MIN,
        volume: 1,
        version: 1,
    };
    let striping = described(0).striping;
    for (targets, said) in [(128, 128), (129, 0)] {
        let targets = (0..targets).map(|n| TargetId(u128::MAX - n));
        let described = Described::of(&attributes, striping, targets);
        assert_eq!(described.targets.len(), said);
        assert!(described.attributes()[0].2.len() <= 4096);
    }
}

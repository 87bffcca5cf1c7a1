use super::{Content, RingSpec, check_name};
use crate::key::KeyValue;
use crate::size::Bytes;

#[test]
fn names_are_paths_that_stay_inside() {
    for good in ["/a", "/station/7", "/mit leerzeichen"] {
        assert!(check_name(good).is_ok(), "{good}");
    }
    for bad in ["", "a", "/", "/a/", "/a//b", "/../x", "/a/./b", "/a\n", &format!("/{}", "x".repeat(255))] {
        assert!(check_name(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_spec_is_checked_before_it_reaches_a_target() {
    let good = RingSpec::new("/r", Bytes::gib(1));
    assert!(good.check().is_ok());
    assert!(RingSpec { block: Bytes(5000), ..good.clone() }.check().is_err());
    assert!(RingSpec { pin_budget_percent: 100, ..good.clone() }.check().is_err());
    assert!(RingSpec { capacity: Bytes::ZERO, ..good }.check().is_err());
}

#[test]
fn a_key_that_the_first_block_of_a_large_element_does_not_reach_is_refused_with_the_numbers() {
    let with = |key: &str, block| RingSpec {
        keys: vec![key.to_string()],
        block: Bytes::kib(block),
        ..RingSpec::new("/a", Bytes::gib(1))
    };
    let piece = crate::block::largest_piece(64 << 10, 0);
    with(&format!("tag=bytes4@{}", piece - 4), 64).check().expect("its last byte is the last of the first block");
    let error = with(&format!("tag=bytes4@{}", piece - 3), 64).check().expect_err("one byte too far");
    assert_eq!(error.kind, crate::Kind::Usage);
    for part in ["'tag'", "64 KiB", "4 MiB", &piece.to_string(), &(piece + 1).to_string()] {
        assert!(error.message.contains(part), "{part}: {error}");
    }
    with("tag=bytes4@4100000", 4096).check().expect("the largest block");
    with("tag=caller.u64", 4).check().expect("beside the element");
}

#[test]
fn packets_are_read_by_their_link_type_and_not_by_a_part_of_its_number() {
    // In VLAN 5.
    let frame = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0, 0, 5, 8, 6][..], &[0; 46]].concat();
    let found = |content| {
        let spec = RingSpec { content, keys: vec!["vlan=pcap.vlan".into()], ..RingSpec::new("/a", Bytes::mib(1)) };
        let mut values = [KeyValue::MISSING];
        spec.key_set().unwrap().extract(&frame, &[], &mut values);
        values[0] != KeyValue::MISSING
    };
    assert!(found(Content::Packets(1)));
    assert!(!found(Content::Packets(1 << 16 | 1)), "one is Ethernet, 65537 is not");
}

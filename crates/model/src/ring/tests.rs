use super::{RingSpec, check_name};
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

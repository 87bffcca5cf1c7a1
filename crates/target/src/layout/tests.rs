use super::{Layout, MIN_DEVICE};
use forebay_env::PlainZones;
use forebay_model::Bytes;

#[test]
fn parts_follow_one_another_and_fit_any_device() {
    for device in [MIN_DEVICE, Bytes::mib(100), Bytes::gib(1), Bytes::gib(10), Bytes(1_500_000_000_000)] {
        let layout = Layout::for_device(device).unwrap();
        layout.check().unwrap();
        assert!(layout.groups >= 10, "{device}: {} groups", layout.groups);
        assert!(layout.area_at(1) + layout.area <= layout.groups_at);
        let lost = device - layout.group * u64::from(layout.groups);
        assert!(lost.0 <= layout.group.0 + layout.groups_at.0, "{device}: {lost} unused");
    }
}

#[test]
fn a_terabyte_disk_has_groups_of_ninety_and_ten() {
    let layout = Layout::for_device(Bytes(1_500_000_000_000)).unwrap();
    assert_eq!((layout.data(true), layout.log), (Bytes::mib(90), Bytes::mib(10)));
}

#[test]
fn a_device_too_small_is_told_so() {
    assert!(Layout::for_device(Bytes::mib(1)).unwrap_err().message.contains("16 MiB"));
}

#[test]
fn with_plain_zones_each_log_and_the_checkpoints_lie_in_one() {
    let zones = PlainZones { every: Bytes::mib(320), length: Bytes::mib(32) };
    let device = Bytes::gib(100) + Bytes::mib(7);
    let layout = Layout::with_plain_zones(device, zones).unwrap();
    layout.check().unwrap();
    assert!(layout.is_zoned() && !Layout::for_device(device).unwrap().is_zoned());
    assert_eq!((layout.groups, layout.group_at(3)), (319, Bytes::mib(4 * 320)));
    assert_eq!((layout.data(true), layout.log), (Bytes::mib(310), Bytes::mib(10)));
    assert_eq!((layout.area_at(0), layout.area_at(1) + layout.area), (Bytes::mib(288), Bytes::mib(320)));
}

#[test]
fn zones_that_do_not_fit_are_refused_with_why() {
    let refused =
        |length, every, device| Layout::with_plain_zones(device, PlainZones { every, length }).unwrap_err().message;
    assert_eq!(
        refused(Bytes::mib(32), Bytes::mib(320), Bytes::gib(1)),
        "zones of 32 MiB every 320 MiB on a device of 1 GiB: it has 2 of them, and 8 are needed (nothing was changed)"
    );
    for (length, every) in [(0, 320 << 20), (320 << 20, 320 << 20), (5000, 320 << 20), (1 << 20, 5000)] {
        assert!(refused(Bytes(length), Bytes(every), Bytes::gib(100)).contains("multiples of 1 MiB"));
    }
    assert_eq!(PlainZones::parse("32MiB/320MiB").unwrap().every, Bytes::mib(320));
    assert!(PlainZones::parse("32MiB").unwrap_err().message.ends_with("as in 32MiB/320MiB"));
}

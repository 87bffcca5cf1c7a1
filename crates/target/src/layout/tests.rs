use super::{Layout, MIN_DEVICE};
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

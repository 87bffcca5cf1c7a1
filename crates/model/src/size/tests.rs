use super::{Bytes, Rate};
use std::time::Duration;

#[test]
fn sizes_are_read_as_people_write_them() {
    for (text, bytes) in
        [("4096", 4096), ("64KiB", 65536), ("10 GiB", 10 << 30), ("500MB", 500_000_000), ("1.5kB", 1500)]
    {
        assert_eq!(Bytes::parse(text).map(|b| b.0), Ok(bytes), "{text}");
    }
    for text in ["", "GiB", "10 parsecs", "-1", "1e99", "99999999999TiB"] {
        assert!(Bytes::parse(text).is_err(), "{text}");
    }
}

#[test]
fn rates_come_in_bytes_and_bits() {
    for (text, rate) in [("72.5MB/s", 72_500_000), ("4Gbit/s", 500_000_000), ("500000", 500_000), ("8 kbit/s", 1000)] {
        assert_eq!(Rate::parse(text).map(|r| r.0), Ok(rate), "{text}");
    }
    assert!(Rate::parse("fast").is_err());
}

#[test]
fn rate_and_time_are_inverse() {
    assert_eq!(Rate::mb(60).bytes_in(Duration::from_millis(500)), Bytes(30_000_000));
    assert_eq!(Rate::mb(60).time_for(Bytes(30_000_000)), Duration::from_millis(500));
    assert_eq!(Rate::of(Bytes(30_000_000), Duration::from_millis(500)), Rate::mb(60));
}

#[test]
fn sizes_print_short() {
    assert_eq!(Bytes(90 << 20).to_string(), "90 MiB");
    assert_eq!(Bytes(1536).to_string(), "1.5 KiB");
    assert_eq!(Rate(72_500_000).to_string(), "72.5 MB/s");
}

use super::{Timestamp, parse_span};
use std::time::Duration;

const NOW: Timestamp = Timestamp(1_700_000_000_000_000_000);

#[test]
fn times_print_and_read_back() {
    for nanos in [
        0,
        1,
        -1,
        951_782_400_000_000_000,
        1_700_000_000_123_456_789,
        4_102_444_799_999_000_000,
        -62_000_000_000_000_000,
    ] {
        let text = Timestamp(nanos).to_string();
        assert_eq!(Timestamp::parse(&text, NOW), Ok(Timestamp(nanos)), "{text}");
    }
    assert_eq!(Timestamp(951_782_400_000_000_000).to_string(), "2000-02-29T00:00:00Z");
}

#[test]
fn relative_and_offset_times() {
    assert_eq!(Timestamp::parse("10m ago", NOW), Ok(NOW.before(Duration::from_secs(600))));
    assert_eq!(Timestamp::parse("now", NOW), Ok(NOW));
    assert_eq!(Timestamp::parse("2023-11-14T23:13:20+01:00", NOW), Ok(NOW));
    assert_eq!(Timestamp::parse("@1700000000", NOW), Ok(NOW));
    assert_eq!(Timestamp::parse("@1700000000.25", NOW), Ok(NOW.after(Duration::from_millis(250))));
    assert_eq!(Timestamp::parse("@-1.5", NOW), Ok(Timestamp(-1_500_000_000)));
    assert_eq!(Timestamp::parse("@-0.5", NOW), Ok(Timestamp(-500_000_000)));
    for bad in ["", "yesterday", "2023-02-30T00:00:00Z", "2023-11-14", "ago", "-5m ago", "2023-11-14T25:00:00Z"] {
        assert!(Timestamp::parse(bad, NOW).is_err(), "{bad}");
    }
    for offset in ["+25:00", "+01:60", "+-1:00", "+1 :00", "+01:+1"] {
        let bad = format!("2023-11-14T23:13:20{offset}");
        assert!(Timestamp::parse(&bad, NOW).is_err(), "{bad}");
    }
}

#[test]
fn spans() {
    assert_eq!(parse_span("1h30m"), Some(Duration::from_secs(5400)));
    assert_eq!(parse_span("500ms"), Some(Duration::from_millis(500)));
    assert_eq!(parse_span("90"), Some(Duration::from_secs(90)));
    assert_eq!(parse_span("five"), None);
}

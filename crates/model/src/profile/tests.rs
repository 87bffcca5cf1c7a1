use super::*;

/// 110 MB/s falling to 50 in ten steps.
fn falling() -> Profile {
    let mut profile = Profile::guess(Bytes::gib(10), true);
    profile.points = (0..=10)
        .map(|i| Point {
            offset: Bytes::gib(i),
            write: Rate::mb(110 - 6 * i),
            read: Rate::mb(111 - 6 * i),
            worst: Duration::from_millis(50),
        })
        .collect();
    profile
}

#[test]
fn a_place_between_two_points_has_the_lower_rate_of_both() {
    let profile = falling();
    assert_eq!(profile.write_rate(Bytes::mib(1536)), Rate::mb(98));
    assert_eq!(profile.read_rate(Bytes::mib(1536)), Rate::mb(99));
    assert_eq!(profile.write_rate(Bytes::gib(10)), Rate::mb(50));
    assert_eq!(profile.write_rate(Bytes::gib(99)), Rate::mb(50), "beyond the last point the last one holds");
}

#[test]
fn a_range_has_the_lowest_rate_in_it_and_its_end_is_outside() {
    let profile = falling();
    assert_eq!(profile.write_rate_within(Bytes::ZERO, Bytes::gib(10)), Rate::mb(50));
    assert_eq!(profile.write_rate_within(Bytes::ZERO, Bytes::gib(1)), Rate::mb(104));
    assert_eq!(profile.write_rate_within(Bytes::ZERO, Bytes::gib(1) + Bytes(1)), Rate::mb(98));
    assert_eq!(profile.write_rate_within(Bytes::gib(3), Bytes::gib(3)), profile.write_rate(Bytes::gib(3)));
}

#[test]
fn a_dip_inside_a_range_is_seen() {
    let mut profile = falling();
    profile.points[4].write = Rate::mb(7);
    assert_eq!(profile.write_rate_within(Bytes::gib(1), Bytes::gib(8)), Rate::mb(7));
}

#[test]
fn positioning_costs_nothing_in_place_and_at_most_a_full_seek() {
    let profile = falling();
    let time = |from, to| profile.position_time(Bytes::gib(from), Bytes::gib(to));
    assert_eq!(time(3, 3), Duration::ZERO);
    assert!(time(0, 1) > profile.short_seek && time(0, 1) < time(0, 5));
    assert_eq!(time(0, 10), profile.full_seek);
    assert_eq!(time(10, 0), profile.full_seek);
}

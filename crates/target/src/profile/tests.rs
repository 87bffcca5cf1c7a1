use super::*;

fn points(rates: &[(u64, u64)]) -> Vec<Point> {
    let point = |(at, (read, write)): (usize, &(u64, u64))| Point {
        offset: Bytes::gib(at as u64),
        write: Rate::mb(*write),
        read: Rate::mb(*read),
        worst: Duration::ZERO,
    };
    rates.iter().enumerate().map(point).collect()
}

fn writes(points: &[Point]) -> Vec<u64> {
    points.iter().map(|p| p.write.0 / 1_000_000).collect()
}

#[test]
fn positions_that_were_not_written_get_the_share_of_the_nearest_that_were() {
    let mut seen = points(&[(100, 90), (80, 0), (60, 54), (50, 0)]);
    fill_in(&mut seen);
    assert_eq!(writes(&seen), [90, 72, 54, 54]);
}

#[test]
fn a_read_from_some_cache_does_not_make_writes_fast_or_slow() {
    let mut seen = points(&[(100, 90), (2000, 0), (3, 0), (100, 80)]);
    fill_in(&mut seen);
    assert_eq!(writes(&seen), [90, 80, 80, 80]);
    assert_eq!(seen[1].read, Rate::mb(100));
}

#[test]
fn where_nothing_may_be_written_the_stated_share_is_taken() {
    let mut seen = points(&[(100, 0), (40, 0), (700_000, 0)]);
    derive(&mut seen, 0.5).unwrap();
    assert_eq!(writes(&seen), [50, 20, 20]);
    let mut never_written = points(&[(700_000, 0)]);
    assert!(derive(&mut never_written, 0.5).unwrap_err().message.contains("never written"));
}

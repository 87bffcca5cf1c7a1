use super::{MOST, Ranges};

#[test]
fn ranges_that_meet_or_touch_are_one() {
    let mut ranges = Ranges::default();
    for range in [10..20, 30..40, 20..25, 0..0, 50..60, 38..52] {
        ranges.add(range);
    }
    assert_eq!(ranges.iter().collect::<Vec<_>>(), [10..25, 30..60]);
    ranges.add(0..100);
    assert_eq!(ranges.iter().collect::<Vec<_>>(), std::slice::from_ref(&(0..100)));
}

#[test]
fn of_too_many_the_nearest_become_one() {
    let mut ranges = Ranges::default();
    (0..MOST as u64).for_each(|nth| ranges.add(nth * 100..nth * 100 + 10));
    ranges.add(1_000_000..1_000_001);
    assert_eq!(ranges.iter().count(), MOST);
    assert!((0..MOST as u64).all(|nth| ranges.iter().any(|range| range.contains(&(nth * 100 + 5)))));
}

#[test]
fn what_is_taken_out_is_cut_out_of_what_is_there() {
    let mut ranges = Ranges::default();
    ranges.add(10..100);
    ranges.add(200..300);
    ranges.remove(20..30);
    ranges.remove(90..210);
    ranges.remove(0..5);
    ranges.remove(290..290);
    assert_eq!(ranges.iter().collect::<Vec<_>>(), [10..20, 30..90, 210..300]);
    assert_eq!(ranges.total(), 160);
    ranges.remove(0..1000);
    assert_eq!(ranges.total(), 0);
}

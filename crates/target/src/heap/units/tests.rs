use super::{Short, Units};
use crate::seeds::each;
use std::collections::BTreeSet;

#[test]
fn what_is_given_back_is_taken_first_and_what_is_at_the_end_is_no_longer_used() {
    let mut units = Units::new(8, 20);
    assert_eq!([4, 2, 3].map(|count| units.take(count)), [Ok(8), Ok(12), Ok(14)]);
    assert_eq!(units.take(4), Err(Short { units: 1 }));
    units.give(8..12);
    assert_eq!((units.used(), units.count()), (17, 13));
    assert_eq!((units.take(3), units.take(2), units.take(1)), (Ok(8), Ok(17), Ok(11)));
    units.give(17..19);
    units.give(12..14);
    units.give(14..17);
    assert_eq!((units.used(), units.count()), (12, 12));
}

#[test]
fn what_nobody_says_is_used_is_free() {
    let mut units = Units::new(30, 30);
    units.keep_only(8, &[10..12, 12..13, 20..21]);
    assert_eq!((units.used(), units.count()), (21, 8 + 4));
    assert_eq!([2, 7, 1].map(|count| units.take(count)), [Ok(8), Ok(13), Ok(21)]);
}

#[test]
fn no_unit_is_ever_used_twice_and_none_is_lost() {
    each(50, |random| {
        let mut units = Units::new(0, 300);
        let mut taken: Vec<(u32, u32)> = Vec::new();
        for _ in 0..500 {
            if random.below(5) < 3 {
                let count = 1 + random.below(12) as u32;
                if let Ok(first) = units.take(count) {
                    taken.push((first, count));
                }
            } else if !taken.is_empty() {
                let (first, count) = taken.swap_remove(random.below(taken.len() as u64) as usize);
                units.give(first..first + count);
            }
            let used: BTreeSet<u32> = taken.iter().flat_map(|(first, count)| *first..first + count).collect();
            let sum: u32 = taken.iter().map(|(_, count)| count).sum();
            assert_eq!((used.len() as u32, units.count()), (sum, sum));
            assert_eq!(units.used(), used.last().map_or(0, |last| last + 1));
        }
    });
}

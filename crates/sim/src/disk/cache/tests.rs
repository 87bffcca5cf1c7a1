use super::*;
use crate::World;

/// Each byte apart: whether it is dirty, and of which epoch.
struct Plain {
    bytes: Vec<Option<u64>>,
    under_way: Vec<(u64, u64)>,
}

#[test]
fn it_agrees_with_a_map_of_single_bytes() {
    crate::seeds::each(200, |seed| {
        let world = World::new(seed);
        let random = world.random();
        let mut cache = WriteCache::new(1 << 20);
        let mut plain = Plain { bytes: vec![None; 200], under_way: Vec::new() };
        let mut epoch = 0;
        let mut at = 0;
        for _ in 0..200 {
            let start = random.below(190);
            let range = start..start + 1 + random.below(10);
            let place = range.start as usize..range.end as usize;
            match random.below(6) {
                0..=2 => {
                    let oldest = plain.bytes[place.clone()].iter().flatten().min().copied();
                    plain.bytes[place].fill(Some(oldest.unwrap_or(epoch)));
                    cache.insert(range);
                }
                3 => {
                    cache.discard(range);
                    plain.bytes[place].fill(None);
                }
                4 => match cache.next(at, 4) {
                    Some(range) => {
                        let epoch = cache.take(&range);
                        for byte in range.clone() {
                            assert_eq!(plain.bytes[byte as usize].take(), Some(epoch), "byte {byte}");
                        }
                        assert!(range.end - range.start <= 4);
                        plain.under_way.push((epoch, range.end - range.start));
                        at = range.end;
                    }
                    None => assert!(plain.bytes.iter().all(Option::is_none)),
                },
                _ => {
                    if let Some((epoch, bytes)) = plain.under_way.pop() {
                        cache.done(epoch, bytes);
                    }
                    let waits = cache.close();
                    let dirty = plain.bytes.iter().flatten().count() > 0 || !plain.under_way.is_empty();
                    assert_eq!(waits, dirty.then_some(epoch));
                    epoch += 1;
                }
            }
            let asked = random.below(150);
            let asked = asked..asked + 1 + random.below(40);
            let all = plain.bytes[asked.start as usize..asked.end as usize].iter().all(Option::is_some);
            assert_eq!(cache.covers(&asked), all);
            let under_way: u64 = plain.under_way.iter().map(|(_, bytes)| bytes).sum();
            assert_eq!(cache.used(), plain.bytes.iter().flatten().count() as u64 + under_way);
            for asked in 0..=epoch {
                let left = plain.bytes.iter().flatten().chain(plain.under_way.iter().map(|(of, _)| of));
                assert_eq!(cache.is_clean(asked), left.copied().all(|of| of > asked), "epoch {asked}");
            }
        }
    });
}

#[test]
fn the_sweep_goes_up_and_starts_over() {
    let mut cache = WriteCache::new(100);
    for start in [10, 50, 30] {
        cache.insert(start..start + 5);
    }
    assert_eq!(cache.next(20, 100), Some(30..35));
    assert_eq!(cache.next(36, 2), Some(50..52));
    assert_eq!(cache.next(51, 100), Some(10..15));
}

#[test]
fn a_flush_is_for_what_came_before_it_wherever_the_sweep_is() {
    let mut cache = WriteCache::new(1 << 20);
    cache.insert(9000..9100);
    let epoch = cache.close().unwrap();
    cache.insert(100..200);
    assert_eq!(cache.next(0, 50), Some(100..150));
    assert_eq!(cache.next_until(epoch, 0, 50), Some(9000..9050));
    assert_eq!(cache.next_until(epoch, 9001, 500), Some(9000..9100));
    cache.discard(9000..9100);
    assert_eq!(cache.next_until(epoch, 0, 50), None);
}

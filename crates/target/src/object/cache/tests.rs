use super::{Cache, Wanted};
use crate::object::ahead::ACTIVE;
use crate::seeds::each;
use forebay_model::{Bytes, Moment};
use std::collections::BTreeMap;
use std::time::Duration;

const BLOCK: u64 = 4096;

fn at(seconds: u64) -> Moment {
    Moment(0) + Duration::from_secs(seconds)
}

/// Ten blocks for `owner`: its `n`th, and all lie one behind the other on the device.
fn ten(owner: u64, n: u64) -> Wanted {
    let (from, to) = (n * 10 * BLOCK, (n + 1) * 10 * BLOCK);
    Wanted { at: owner * 1000 + n * 10, blocks: 10, weight: Bytes(10 * BLOCK), owner, from, to }
}

/// A cache with room for so many of [`ten`].
fn cache(entries: u64) -> Cache<u64> {
    Cache::new(Bytes(entries * 10 * BLOCK))
}

/// Puts one in; whether there was room.
fn put(cache: &mut Cache<u64>, wanted: Wanted, share: u64, now: Moment) -> bool {
    let room = cache.reserve(wanted, Bytes(share * 10 * BLOCK), now, &mut Vec::new());
    if room {
        cache.fill(wanted.at, wanted.at);
    }
    room
}

#[test]
fn blocks_are_found_by_where_they_lie_and_while_they_are_on_their_way() {
    let mut cache = cache(10);
    assert!(cache.reserve(ten(1, 0), Bytes(0), at(0), &mut Vec::new()));
    assert_eq!(cache.find(1005), Some((1000, 10, None)), "it is on its way");
    cache.fill(1000, 7);
    assert_eq!(cache.find(1009), Some((1000, 10, Some(&7))));
    assert!(cache.find(1010).is_none() && cache.find(999).is_none());
    assert!(put(&mut cache, ten(1, 2), 10, at(0)));
    assert_eq!(cache.missing(995, 40), [(995, 5), (1010, 10), (1030, 5)]);
    assert_eq!(cache.missing(1002, 5), []);
    cache.drop_entry(1000);
    assert_eq!((cache.missing(1002, 5), cache.weight()), (vec![(1002, 5)], Bytes(10 * BLOCK)));
}

#[test]
fn what_was_consumed_goes_first_and_a_slow_reader_keeps_what_it_has_not_read() {
    let mut cache = cache(4);
    // The slow one came first: a plain queue would drop its bytes.
    (0..2).for_each(|n| assert!(put(&mut cache, ten(1, n), 2, at(0))));
    for n in 0..100 {
        assert!(put(&mut cache, ten(2, n), 2, at(n / 10)), "entry {n}");
        cache.pass(2, (n + 1) * 10 * BLOCK, at(n / 10));
        assert!(cache.find(1000).is_some() && cache.find(1010).is_some(), "the slow one lost something at {n}");
    }
    assert_eq!(cache.evicted().unconsumed, 0);
    assert_eq!(cache.evicted().consumed, 98);
}

#[test]
fn nobody_takes_from_an_active_reader_within_its_share() {
    let mut cache = cache(4);
    (0..4).for_each(|n| assert!(put(&mut cache, ten(1, n), 4, at(0))));
    assert!(!put(&mut cache, ten(2, 0), 4, at(1)), "it has its share");
    let mut lost = Vec::new();
    // With a second reader the shares are half as large, and the first gives up what it will need last.
    assert!(cache.reserve(ten(2, 0), Bytes(2 * 10 * BLOCK), at(1), &mut lost));
    assert_eq!(lost, [(1, 3 * 10 * BLOCK)]);
    assert_eq!(cache.evicted().unconsumed, 1);
}

#[test]
fn who_is_not_heard_of_for_long_keeps_nothing() {
    let mut cache = cache(2);
    (0..2).for_each(|n| assert!(put(&mut cache, ten(1, n), 2, at(0))));
    let later = at(0) + ACTIVE;
    assert!(!put(&mut cache, ten(2, 0), 2, later));
    assert!(put(&mut cache, ten(2, 0), 2, later + Duration::from_secs(1)));
    assert!(cache.find(1000).is_some() && cache.find(1010).is_none(), "the furthest goes first");
}

#[test]
fn what_is_on_its_way_stays_and_counts() {
    let mut cache = cache(2);
    assert!(cache.reserve(ten(1, 0), Bytes(0), at(0), &mut Vec::new()));
    assert!(cache.reserve(ten(1, 1), Bytes(0), at(0), &mut Vec::new()));
    assert!(!put(&mut cache, ten(2, 0), 0, at(100)), "buffers of an I/O under way cannot be taken");
    // Its reader has gone on meanwhile: what comes is consumed already.
    cache.pass(1, 20 * BLOCK, at(100));
    cache.fill(1000, 1);
    assert!(put(&mut cache, ten(2, 0), 0, at(100)));
    assert!(cache.find(1000).is_none());
}

#[test]
fn a_cache_does_what_a_plain_list_does_and_never_holds_more_than_its_bound() {
    each(60, |random| {
        let most = 3 + random.below(10);
        let mut cache = cache(most);
        let mut model: BTreeMap<u64, (Wanted, bool)> = BTreeMap::new();
        let mut positions: BTreeMap<u64, u64> = BTreeMap::new();
        for step in 0..400 {
            let owner = 1 + random.below(4);
            let now = at(step / 20);
            match random.below(3) {
                0 => {
                    let wanted = ten(owner, random.below(40));
                    if model.contains_key(&wanted.at) {
                        continue;
                    }
                    let mut lost = Vec::new();
                    let consumed = |model: &BTreeMap<u64, (Wanted, bool)>| {
                        model.values().filter(|(_, consumed)| *consumed).count()
                    };
                    let full = model.len() as u64 == most;
                    let room = cache.reserve(wanted, Bytes(2 * 10 * BLOCK), now, &mut lost);
                    if room {
                        cache.fill(wanted.at, wanted.at);
                    }
                    if full && consumed(&model) > 0 {
                        assert!(room && lost.is_empty(), "something was consumed and could go");
                    }
                    let gone: Vec<u64> = model.keys().filter(|at| cache.find(**at).is_none()).copied().collect();
                    assert!(gone.len() <= 1 && (gone.len() == 1) == (full && room), "{gone:?}");
                    for at in gone {
                        let (old, consumed) = model.remove(&at).unwrap();
                        assert_eq!(consumed, lost.is_empty());
                        if !consumed {
                            let held = model.values().filter(|(w, c)| w.owner == old.owner && !c).count();
                            assert!(old.owner != owner && held >= 2, "{old:?} of one with {held} more");
                        }
                    }
                    if room {
                        model.insert(wanted.at, (wanted, false));
                    }
                }
                1 => {
                    let position = positions.entry(owner).or_insert(0);
                    *position = random.below(40) * 10 * BLOCK;
                    cache.pass(owner, *position, now);
                    for (wanted, consumed) in model.values_mut().filter(|(wanted, _)| wanted.owner == owner) {
                        *consumed |= wanted.to <= *position;
                    }
                }
                _ if random.below(10) == 0 => {
                    cache.forget(owner);
                    model.values_mut().filter(|(w, _)| w.owner == owner).for_each(|(_, consumed)| *consumed = true);
                }
                _ => {}
            }
            assert!(cache.weight() <= cache.most());
            assert_eq!(cache.weight().0, model.len() as u64 * 10 * BLOCK);
            for at in model.keys() {
                assert_eq!(cache.find(*at), Some((*at, 10, Some(at))));
            }
        }
    });
}

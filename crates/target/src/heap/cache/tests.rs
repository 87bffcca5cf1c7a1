use super::{BUFFER, Cache};
use crate::heap::allocation::Slot;
use crate::heap::classes::SLOT_HEADER;
use crate::seeds::each;
use std::collections::BTreeMap;

fn slot(n: u64) -> Slot {
    Slot { allocator: (n / 7168) as u32, slot: (n % 7168) as u16 }
}

fn put(cache: &mut Cache, n: u64, fill: u8, length: usize) {
    let mut header = [9; SLOT_HEADER];
    header[8..].copy_from_slice(&(length as u16).to_le_bytes());
    cache.put(slot(n), &header, &vec![fill; length]);
}

/// All of these are on the device.
fn written(cache: &mut Cache, slots: &[Slot]) {
    let places: Vec<_> = slots.iter().map(|slot| (*slot, cache.find(*slot).unwrap().0)).collect();
    cache.written(&places);
}

#[test]
fn what_was_put_while_it_was_being_written_is_written_again() {
    let mut cache = Cache::new(6);
    put(&mut cache, 1, 1, 100);
    let place = cache.find(slot(1)).unwrap().0;
    put(&mut cache, 1, 2, 100);
    cache.written(&[(slot(1), place)]);
    assert_eq!(cache.get(slot(1)).unwrap()[SLOT_HEADER..], [2; 100]);
}

#[test]
fn the_newest_wins_and_what_is_freed_drops_out() {
    let mut cache = Cache::new(6);
    put(&mut cache, 1, 1, 100);
    put(&mut cache, 2, 2, 100);
    put(&mut cache, 1, 3, 50);
    cache.drop_record(slot(2));
    assert_eq!(cache.read(slot(1)).unwrap()[SLOT_HEADER..], [3; 50]);
    assert_eq!((cache.get(slot(2)), cache.all()), (None, vec![slot(1)]));
    let elisions = cache.elisions();
    assert_eq!((elisions.put, elisions.superseded, elisions.dropped, elisions.hits), (3, 1, 1, 1));
}

#[test]
fn a_buffer_of_which_much_is_dead_is_not_written_but_moves_on() {
    let mut cache = Cache::new(6);
    let mut n = 0;
    while !cache.is_full() {
        put(&mut cache, n, 1, 4000);
        n += 1;
    }
    let first = BUFFER as u64 / 4010;
    // A fifth of the first buffer is dead, and less of the second.
    (0..first / 4).for_each(|n| assert!(cache.drop_record(slot(n)) && !cache.drop_record(slot(n))));
    assert!(cache.oldest().is_none(), "there is room again");
    assert_eq!(cache.elisions().moved, first - first / 4);
    while !cache.is_full() {
        put(&mut cache, n, 1, 4000);
        n += 1;
    }
    let oldest = cache.oldest().unwrap();
    assert_eq!(oldest, (first..2 * first).map(slot).collect::<Vec<_>>());
    written(&mut cache, &oldest);
    assert!(!cache.is_full());
    assert_eq!(cache.all().len() as u64, n - first - first / 4);
}

#[test]
fn it_always_has_what_a_plain_map_has() {
    each(50, |random| {
        let mut cache = Cache::new(6 + random.below(3) as usize);
        let mut model = BTreeMap::new();
        for fill in 0..4000u64 {
            let n = random.below(3000);
            match random.below(4) {
                0 => {
                    cache.drop_record(slot(n));
                    model.remove(&slot(n));
                }
                _ => {
                    let length = random.below(8000) as usize;
                    put(&mut cache, n, fill as u8, length);
                    model.insert(slot(n), (fill as u8, length));
                }
            }
            if let Some(oldest) = cache.oldest() {
                assert!(oldest.iter().all(|slot| model.contains_key(slot)));
                written(&mut cache, &oldest);
                oldest.iter().for_each(|slot| {
                    model.remove(slot);
                });
            }
            assert!(!cache.is_full());
            let (fill, length) = model.get(&slot(n)).copied().unwrap_or((0, 0));
            let here = cache.get(slot(n)).map(|bytes| bytes[SLOT_HEADER..].to_vec());
            assert_eq!(here, model.contains_key(&slot(n)).then(|| vec![fill; length]));
        }
        let mut all = cache.all();
        all.sort_unstable();
        assert!(all.iter().eq(model.keys()), "each once");
        written(&mut cache, &all);
        assert!(cache.places.tables() == 0 && cache.buffers.len() == 1, "only the open one is left");
    });
}

#[test]
fn what_is_put_where_all_was_written_is_not_taken_for_what_lay_there() {
    let mut cache = Cache::new(6);
    put(&mut cache, 1, 1, 100);
    let under_way = cache.find(slot(1)).unwrap().0;
    cache.drop_record(slot(1));
    // Another run ends, and nothing lives here.
    cache.written(&[]);
    put(&mut cache, 1, 2, 100);
    cache.written(&[(slot(1), under_way)]);
    assert_eq!(cache.get(slot(1)).unwrap()[SLOT_HEADER..], [2; 100]);
}

#[test]
fn however_far_apart_the_slots_lie_of_what_waits_finding_it_takes_little_for_each() {
    let mut cache = Cache::new(6);
    let (mut header, mut put) = ([9; SLOT_HEADER], 0);
    header[8..].copy_from_slice(&1u16.to_le_bytes());
    while !cache.is_crammed() && put < 20_000 {
        cache.put(Slot { allocator: put, slot: 7 }, &header, &[1]);
        put += 1;
    }
    assert!(cache.places.memory() <= put as usize * 2048, "{} bytes for {put}", cache.places.memory());
    (0..put).for_each(|allocator| assert!(cache.drop_record(Slot { allocator, slot: 7 })));
    assert_eq!(cache.places.memory(), 0);
}

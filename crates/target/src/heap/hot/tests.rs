use super::{BUFFER, FINDING, Hot};
use crate::heap::allocation::Slot;
use crate::heap::classes::SLOT_HEADER;
use crate::seeds::each;
use std::collections::BTreeMap;

fn slot(n: u32) -> Slot {
    Slot { allocator: n / 7168, slot: (n % 7168) as u16 }
}

fn record(fill: u8, length: usize) -> Vec<u8> {
    let mut bytes = vec![fill; SLOT_HEADER + length];
    bytes[8..SLOT_HEADER].copy_from_slice(&(length as u16).to_le_bytes());
    bytes
}

#[test]
fn what_is_asked_for_again_stays_and_what_is_not_goes() {
    let mut hot = Hot::new(2);
    let per_buffer = BUFFER as u32 / (4096 + FINDING as u32);
    for n in 0..3 * per_buffer {
        hot.put(slot(n), &record(n as u8, 4096 - SLOT_HEADER));
        assert!(hot.get(slot(0)).is_some(), "{n}: it is asked for all the time");
    }
    assert!(hot.get(slot(1)).is_none() && hot.get(slot(per_buffer - 1)).is_none());
    assert!(hot.get(slot(3 * per_buffer - 1)).is_some());
    assert_eq!(hot.hits(), u64::from(3 * per_buffer + 1));
    let mut none = Hot::new(0);
    none.put(slot(1), &record(1, 10));
    assert!(none.get(slot(1)).is_none());
}

#[test]
fn what_it_has_is_what_was_put_last_and_never_more_than_it_may() {
    each(20, |random| {
        let mut hot = Hot::new(3);
        let mut model = BTreeMap::new();
        for fill in 0..5000u32 {
            let n = random.below(2000) as u32;
            let bytes = record(fill as u8, 1 + random.below(8000) as usize);
            if random.below(3) == 0 {
                hot.drop_record(slot(n));
                hot.put(slot(n), &bytes);
                model.insert(n, bytes);
            } else if let Some(found) = hot.get(slot(n)) {
                assert_eq!(found, model[&n]);
            }
            assert!(hot.buffers.len() <= 4);
        }
    });
}

#[test]
fn however_far_apart_lies_what_was_read_and_however_small_it_is_it_takes_no_more_memory() {
    let mut hot = Hot::new(8);
    for allocator in 0..100_000 {
        for slot in [7, 7000] {
            hot.put(Slot { allocator, slot }, &record(1, 1));
        }
    }
    assert!(hot.get(Slot { allocator: 99_999, slot: 7 }).is_some());
    let kept: usize = hot.buffers.iter().map(|page| page.bytes.len() + page.slots.len() * FINDING).sum();
    let found = hot.places.len() * FINDING;
    assert!(kept <= 9 * BUFFER && found <= 9 * BUFFER, "{kept} bytes of records, and {found} that find them");
}

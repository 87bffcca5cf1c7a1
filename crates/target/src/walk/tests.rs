use super::Walk;
use crate::catalog::{Origin, PinRecord, RingRecord, Segment};
use crate::layout::Layout;
use crate::ring::recover::LOOK_AHEAD;
use forebay_model::ring::{Pin, RingSpec};
use forebay_model::{Bytes, RingId, Timestamp};

/// A ring of `groups` groups with one segment each that has come round: slot 0 has the oldest one.
fn ring(groups: u32) -> (Layout, RingRecord) {
    let layout = Layout::for_device(Bytes::gib(64)).expect("a device that is large enough");
    let mut record = RingRecord::empty(
        RingSpec::new("/a", Bytes::gib(1)),
        (0..groups).map(Some).collect(),
        false,
        Origin::here(1, RingId(1)),
    );
    record.segment = layout.data(true);
    record.slots = (0..groups).map(|slot| Some(segment(u64::from(slot) + 101))).collect();
    record.path_segment = 101 + u64::from(groups);
    (layout, record)
}

fn segment(sequence: u64) -> Segment {
    Segment { bytes: 1, ..Segment::opened(sequence, sequence * 10) }
}

fn pin(record: &mut RingRecord, slots: std::ops::Range<u32>) {
    let held = slots.map(|slot| (slot, record.slots[slot as usize].expect("it is there").sequence)).collect();
    let pin = Pin {
        id: 1,
        label: String::new(),
        from: Timestamp(0),
        to: Timestamp(1),
        first_sequence: 0,
        end_sequence: 0,
        segments: 1,
        bytes: Bytes(1),
        relatives: Vec::new(),
    };
    record.pins.push(PinRecord { pin, held, open_end: false });
}

/// Writes a segment into the next slot; which one.
fn next(layout: &Layout, record: &mut RingRecord) -> u32 {
    let slot = record.slot_after(layout, record.path.last().copied().unwrap_or(record.slots.len() as u32 - 1));
    let slot = slot.expect("one is free");
    record.path.push(slot);
    record.slots[slot as usize] = Some(segment(record.path_segment + record.path.len() as u64 - 1));
    slot
}

#[test]
fn what_the_checkpoint_knows_is_taken_in_its_order_until_it_would_be_walked_over() {
    let (layout, mut record) = ring(40);
    let walk = Walk::of(&record);
    for slot in 0..40 {
        assert!(walk.allows(&layout, &record, slot), "slot {slot} is next");
        assert_eq!(next(&layout, &mut record), slot);
    }
    // Path and slots are written to once before the next checkpoint.
    record.path.clear();
    record.path_segment += 40;
    assert!(!walk.allows(&layout, &record, 0), "opening would walk over it");
    assert!(Walk::of(&record).allows(&layout, &record, 0));
}

#[test]
fn pins_that_the_checkpoint_does_not_know_are_skipped_only_as_far_as_opening_looks() {
    let skipped = LOOK_AHEAD as u32 - 1;
    for (pinned, is_allowed) in [(skipped, true), (skipped + 1, false)] {
        let (layout, mut record) = ring(60);
        let walk = Walk::of(&record);
        pin(&mut record, 0..pinned);
        let slot = record.slot_after(&layout, 59).expect("one is free");
        assert_eq!(slot, pinned);
        assert_eq!(walk.allows(&layout, &record, slot), is_allowed, "{pinned} are pinned");
    }
}

#[test]
fn what_the_checkpoint_says_is_pinned_is_not_taken_and_nor_is_what_it_would_not_come_to() {
    let (layout, mut record) = ring(60);
    pin(&mut record, 30..31);
    for _ in 0..40 {
        next(&layout, &mut record);
    }
    let walk = Walk::of(&record);
    // What was pinned is the oldest one now.
    record.pins.clear();
    let slot = record.slot_after(&layout, *record.path.last().expect("there are some")).expect("one is free");
    assert_eq!(slot, 30);
    assert!(!walk.allows(&layout, &record, slot), "after a crash it would be pinned again");
    assert!(Walk::of(&record).allows(&layout, &record, slot));
}

#[test]
fn what_a_ring_has_grown_by_is_taken_when_the_checkpoint_knows_it() {
    let (layout, mut record) = ring(20);
    next(&layout, &mut record);
    let walk = Walk::of(&record);
    record.groups.push(Some(77));
    record.slots.push(None);
    let slot = record.slot_after(&layout, 0).expect("one is free");
    assert_eq!(slot, 20);
    assert!(!walk.allows(&layout, &record, slot));
    assert!(Walk::of(&record).allows(&layout, &record, slot));
}

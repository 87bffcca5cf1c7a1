//! What a target knows beside its data: rings, their places, their segments, their pins. The catalog lives in memory
//! and goes to the device whole, as a checkpoint (`checkpoint.rs`).
//!
//! Segment summaries may be older than the ring itself: opening walks from the last checkpoint to the tail.

use crate::layout::Layout;
use forebay_model::ring::{Losses, Pin, RingSpec};
use forebay_model::{Bytes, RingId, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Who owns a group's data area.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum GroupClass {
    /// Nobody.
    Free,
    /// A ring; its log area is kept for logs.
    Ring(RingId),
    /// A ring that also uses the log area: the group is formatted without a log.
    RingWithoutLog(RingId),
}

/// A summary of one segment that holds data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Its sequence: rises by one with each segment opened in the ring.
    pub sequence: u64,
    /// Sequence of the first element that begins or goes on in it.
    pub first: u64,
    /// Sequence after the last element that begins in it.
    pub end: u64,
    /// Earliest time in it.
    pub min_time: i64,
    /// Latest time in it.
    pub max_time: i64,
    /// Bytes of blocks in it.
    pub bytes: u32,
    /// Elements and gaps lost, by cause, as recorded in it.
    pub losses: Losses,
}

impl Segment {
    /// A segment that was just opened.
    pub fn opened(sequence: u64, first: u64) -> Segment {
        Segment { sequence, first, end: first, min_time: i64::MAX, max_time: i64::MIN, bytes: 0, losses: Losses::default() }
    }

    /// Whether any of its times may lie in `from..=to`.
    pub fn touches(&self, from: Timestamp, to: Timestamp) -> bool {
        self.bytes > 0 && self.min_time <= to.0 && self.max_time >= from.0
    }
}

/// Everything that is kept of a ring.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RingRecord {
    /// How it is now.
    pub spec: RingSpec,
    /// Groups, in the order in which the ring runs over them.
    pub groups: Vec<u32>,
    /// Whether its groups are formatted without logs.
    pub without_logs: bool,
    /// Bytes of a segment.
    pub segment: Bytes,
    /// Segments by slot; `None` where nothing was written yet.
    pub slots: Vec<Option<Segment>>,
    /// Slot being written, or written next.
    pub head: u32,
    /// Sequence of the segment being written, or written next.
    pub next_segment: u64,
    /// Sequence of the next element.
    pub next_element: u64,
    /// Pins.
    pub pins: Vec<PinRecord>,
}

/// A pin and what it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinRecord {
    /// As the user sees it.
    pub pin: Pin,
    /// Slots held, with the sequence of the segment in each.
    pub held: Vec<(u32, u64)>,
    /// Whether segments still to come belong to it.
    pub open_end: bool,
}

/// Everything on a target beside its data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Catalog {
    /// Rises with each opening for writing: the stamp that tells one run's blocks from another's.
    pub epoch: u64,
    /// The next ring's id.
    pub next_ring: u64,
    /// The next pin's id.
    pub next_pin: u64,
    /// Who owns which group.
    pub groups: Vec<GroupClass>,
    /// Rings by id.
    pub rings: BTreeMap<RingId, RingRecord>,
}

impl Catalog {
    /// The catalog of a freshly formatted device.
    pub fn fresh(layout: &Layout) -> Catalog {
        Catalog { epoch: 0, next_ring: 1, next_pin: 1, groups: vec![GroupClass::Free; layout.groups as usize], rings: BTreeMap::new() }
    }
}

impl RingRecord {
    /// Segments in one group.
    pub fn segments_per_group(&self, layout: &Layout) -> u32 {
        (layout.data(!self.without_logs).0 / self.segment.0) as u32
    }

    /// Where slot `slot` begins on the device.
    pub fn slot_at(&self, layout: &Layout, slot: u32) -> Bytes {
        let per_group = self.segments_per_group(layout);
        layout.group_at(self.groups[(slot / per_group) as usize]) + self.segment * u64::from(slot % per_group)
    }

    /// Whether a pin holds the slot.
    pub fn is_pinned(&self, slot: u32) -> bool {
        let Some(segment) = self.slots[slot as usize] else { return false };
        self.pins.iter().any(|p| p.held.binary_search_by_key(&slot, |(s, _)| *s).is_ok_and(|i| p.held[i].1 == segment.sequence))
    }

    /// Slots held by pins.
    pub fn pinned_slots(&self) -> u64 {
        let mut held: Vec<u32> = self.pins.iter().flat_map(|p| p.held.iter().map(|(slot, _)| *slot)).collect();
        held.sort_unstable();
        held.dedup();
        held.len() as u64
    }

    /// The slot that is overwritten after `slot`: the next in ring order that no pin holds. `None` if all others are held.
    pub fn slot_after(&self, slot: u32) -> Option<u32> {
        let n = self.slots.len() as u32;
        (1..=n).map(|step| (slot + step) % n).find(|s| *s != slot && !self.is_pinned(*s))
    }
}

//! What a target knows beside its data: rings, their places, their segments, their pins. The catalog lives in memory
//! and goes to the device whole, as a checkpoint (`checkpoint.rs`).
//!
//! Segment summaries may be older than the ring itself: opening walks from the last checkpoint to the tail.

use crate::heap::slot::Stamp;
use crate::layout::Layout;
use crate::object::logs::{LogRecord, Settings};
use crate::object::rows::Key;
use crate::object::tree::LeafRecord;
use forebay_model::ring::{Beginning, Losses, Pin, RingSpec};
use forebay_model::{Bytes, RingId, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// Who owns a group's data area.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum GroupClass {
    /// Nobody.
    Free,
    /// A ring; its log area is kept for logs.
    Ring(RingId),
    /// A ring that also uses the log area: the group is formatted without a log.
    RingWithoutLog(RingId),
    /// Objects' bytes; its log area is kept for logs.
    Objects,
    /// Rows of objects; its log area is kept for logs.
    Tables,
    /// A heap, by its number; its log area is kept for logs.
    Heap(u64),
}

/// Everything that is kept of a heap beside its own roots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeapRecord {
    /// Its name.
    pub name: String,
    /// Groups, in the order in which it runs over them.
    pub groups: Vec<u32>,
    /// As which heap of which target it was made: what is in it says so wherever it was moved since.
    pub stamp: Stamp,
}

/// Everything that is kept of objects beside their rows and the records since.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ObjectsRecord {
    /// Where their rows lie, in the order of their keys.
    pub leaves: Vec<LeafRecord>,
    /// The last record that these rows include.
    pub number: u64,
    /// The epoch of the records that follow it.
    pub epoch: u64,
    /// Logs with something in them.
    pub logs: Vec<LogRecord>,
    /// Groups whose logs may hold records that follow; records name more.
    pub open: Vec<u32>,
    /// What was chosen of logs.
    pub settings: Settings,
}

/// How far a scrub of the target is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubRecord {
    /// When it began.
    pub began: Timestamp,
    /// What it looks at next.
    pub place: ScrubPlace,
    /// Bytes that it has read.
    pub done: u64,
    /// What it has found damaged.
    pub damaged: u64,
}

/// What a scrub looks at next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScrubPlace {
    /// The first segment of this ring, or of one with a higher id, that has this sequence or a higher one.
    Ring(RingId, u64),
    /// Objects, from this key on.
    Objects(Key),
    /// This allocator of this heap, or the first of one with a higher number.
    Heap(u64, u32),
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
        Segment {
            sequence,
            first,
            end: first,
            min_time: i64::MAX,
            max_time: i64::MIN,
            bytes: 0,
            losses: Losses::default(),
        }
    }

    /// Whether anything is in it, be it only a loss.
    pub fn has_content(&self) -> bool {
        self.bytes > 0 || self.end > self.first
    }

    /// Whether any of its times may lie in `from..=to`.
    pub fn touches(&self, from: Timestamp, to: Timestamp) -> bool {
        self.has_content() && self.min_time <= to.0 && self.max_time >= from.0
    }
}

/// As which ring a ring was made: what its blocks and trailers say, wherever it was moved since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The target on which it was made.
    pub target: u128,
    /// Its id there.
    pub ring: u64,
    /// What is added to the epoch of the target that has it: what is written there is newer than all that was written where it lay.
    pub epochs: u64,
}

impl Origin {
    /// Of a ring that is made here.
    pub fn here(target: u128, ring: RingId) -> Origin {
        Origin { target, ring: ring.0, epochs: 0 }
    }
}

/// Everything that is kept of a ring.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RingRecord {
    /// How it is now.
    pub spec: RingSpec,
    /// Groups, in the order in which the ring runs over them; `None` where one was given back. A place in this list
    /// never changes, since blocks are stamped with it.
    pub groups: Vec<Option<u32>>,
    /// Whether its groups are formatted without logs.
    pub without_logs: bool,
    /// Bytes of a segment.
    pub segment: Bytes,
    /// Segments by slot; `None` where nothing was written yet.
    pub slots: Vec<Option<Segment>>,
    /// Slots of the segments that are not durable as a whole, oldest first; the last is being written.
    pub path: Vec<u32>,
    /// Sequence of the segment at the front of `path`.
    pub path_segment: u64,
    /// Sequence of the first element in the segment at the front of `path`.
    pub path_element: u64,
    /// Sequence after the last element that was known to be durable: what is missing before it was acknowledged.
    pub durable_end: u64,
    /// Segments before this one may have been overwritten in part by what a crash made undone.
    pub doubtful_before: u64,
    /// Pins.
    pub pins: Vec<PinRecord>,
    /// Who recorded last, and how far it is durable.
    pub writers: Writers,
    /// Its fence: of which version the capabilities for it have to be. 0 where only the objects have one for it, if at all.
    pub fence: u64,
    /// Sequence of the first element that was ever recorded, or will be. After the catalog was made anew, of the first that is known.
    pub begins: u64,
    /// As which it was made.
    pub origin: Origin,
    /// Epoch of the target when it came to it from another one; 0 where it was made there.
    pub since: u64,
    /// The fence that its segments told of, if it was made anew of these, and nobody has said since whether it is to be here: then it may have
    /// been deleted, or may have left.
    pub anew: Option<u64>,
}

/// The last block of each of the writer sessions seen last: what a session that resumes need not send again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Writers(Vec<(u64, u64)>);

impl Writers {
    /// Sessions that are remembered; a ring has one writer at a time, and who resumes does so at once.
    const MOST: usize = 16;

    /// Takes note of block `number` of session `writer`.
    pub fn saw(&mut self, writer: u64, number: u64) {
        if let Some((last, before)) = self.0.last_mut()
            && *last == writer
        {
            *before = number;
            return;
        }
        self.0.retain(|(known, _)| *known != writer);
        if self.0.len() == Writers::MOST {
            self.0.remove(0);
        }
        self.0.push((writer, number));
    }

    /// Whether these are as many as are remembered at the most.
    pub(crate) fn is_short(&self) -> bool {
        self.0.len() <= Writers::MOST
    }

    /// Takes note of all that `later` knows.
    pub fn merge(&mut self, later: &Writers) {
        later.0.iter().for_each(|(writer, number)| self.saw(*writer, *number));
    }

    /// The last block of session `writer`, if it is remembered.
    pub fn last_of(&self, writer: u64) -> Option<u64> {
        self.0.iter().find(|(known, _)| *known == writer).map(|(_, number)| *number)
    }

    /// The session seen last and its last block.
    pub fn last(&self) -> Option<(u64, u64)> {
        self.0.last().copied()
    }
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

impl PinRecord {
    /// What it may take of the catalog.
    pub fn weight(&self) -> Bytes {
        let relatives: usize = self.pin.relatives.iter().map(|(name, _)| name.len() + 16).sum();
        Bytes((160 + self.pin.label.len() + relatives + self.held.len() * 10) as u64)
    }
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
    /// Whether the target was closed with this, so that nothing was on its way to the device.
    pub closed: bool,
    /// Who owns which group.
    pub groups: Vec<GroupClass>,
    /// Rings by id.
    pub rings: BTreeMap<RingId, RingRecord>,
    /// Objects.
    pub objects: ObjectsRecord,
    /// How far a scrub is that has not ended.
    pub scrub: Option<ScrubRecord>,
    /// The next heap's number.
    pub next_heap: u64,
    /// Heaps by number.
    pub heaps: BTreeMap<u64, HeapRecord>,
}

impl Catalog {
    /// The catalog of a freshly formatted device.
    pub fn fresh(layout: &Layout) -> Catalog {
        Catalog {
            epoch: 0,
            next_ring: 1,
            next_pin: 1,
            closed: false,
            groups: vec![GroupClass::Free; layout.groups as usize],
            rings: BTreeMap::new(),
            objects: ObjectsRecord { settings: Settings::for_layout(layout), ..ObjectsRecord::default() },
            scrub: None,
            next_heap: 1,
            heaps: BTreeMap::new(),
        }
    }

    /// Runs of groups that nobody owns, as byte ranges.
    pub fn free_runs(&self, layout: &Layout) -> Vec<Range<Bytes>> {
        layout.runs((0..layout.groups).filter(|group| self.groups[*group as usize] == GroupClass::Free))
    }

    /// Frees the groups that are marked as a ring's or a heap's and are not in it: what a change that was cut off leaves.
    pub fn free_strays(&mut self) {
        let Catalog { groups, rings, heaps, .. } = self;
        for (group, class) in (0..).zip(groups.iter_mut()) {
            let is_stray = match class {
                GroupClass::Ring(id) | GroupClass::RingWithoutLog(id) => {
                    !rings.get(id).is_some_and(|ring| ring.groups.contains(&Some(group)))
                }
                GroupClass::Heap(id) => !heaps.get(id).is_some_and(|heap| heap.groups.contains(&group)),
                GroupClass::Free | GroupClass::Objects | GroupClass::Tables => false,
            };
            if is_stray {
                *class = GroupClass::Free;
            }
        }
    }
}

/// What a segment may take of the catalog.
const SEGMENT_RECORD: u64 = 96;

impl RingRecord {
    /// A ring of which nothing is written yet; its slots are still to be laid out.
    pub fn empty(spec: RingSpec, groups: Vec<Option<u32>>, without_logs: bool, origin: Origin) -> RingRecord {
        RingRecord {
            segment: spec.segment,
            spec,
            groups,
            without_logs,
            slots: Vec::new(),
            path: Vec::new(),
            path_segment: 1,
            path_element: 0,
            durable_end: 0,
            doubtful_before: 0,
            pins: Vec::new(),
            writers: Writers::default(),
            fence: 0,
            begins: 0,
            origin,
            since: 0,
            anew: None,
        }
    }

    /// Makes a ring into which nothing was ever recorded begin there; whether it is one.
    pub fn begin(&mut self, Beginning { sequence, writer, number }: Beginning) -> bool {
        let is_new = self.path.is_empty() && self.path_segment == 1 && self.path_element == self.begins;
        if is_new {
            (self.begins, self.path_element, self.durable_end) = (sequence, sequence, sequence);
            if writer != 0 {
                self.writers.saw(writer, number);
            }
        }
        is_new
    }

    /// The most slots of all rings: what their part of the catalog may take.
    pub fn most_slots(layout: &Layout) -> u64 {
        layout.area.0 / 2 / SEGMENT_RECORD
    }

    /// What the pins of all rings may take of the catalog.
    pub fn most_of_pins(layout: &Layout) -> Bytes {
        layout.area / 4
    }

    /// Segments in one group.
    pub fn segments_per_group(&self, layout: &Layout) -> u32 {
        (layout.data(!self.without_logs).0 / self.segment.0) as u32
    }

    /// Segments that have a place on the device: those of groups that were given back have none.
    pub fn segments(&self) -> u64 {
        let per_group = self.slots.len() / self.groups.len().max(1);
        (self.groups.iter().flatten().count() * per_group) as u64
    }

    /// Whether the slot has a place on the device.
    pub fn exists(&self, layout: &Layout, slot: u32) -> bool {
        self.groups.get((slot / self.segments_per_group(layout)) as usize).is_some_and(Option::is_some)
    }

    /// Where slot `slot` begins on the device.
    pub fn slot_at(&self, layout: &Layout, slot: u32) -> Bytes {
        let per_group = self.segments_per_group(layout);
        let group = self.groups[(slot / per_group) as usize].expect("the slot has a group");
        layout.group_at(group) + self.segment * u64::from(slot % per_group)
    }

    /// Slots held by pins, each with the sequence of the segment in it, sorted.
    pub fn held(&self) -> Vec<(u32, u64)> {
        let mut held: Vec<(u32, u64)> = self.pins.iter().flat_map(|p| p.held.iter().copied()).collect();
        held.sort_unstable();
        held.dedup();
        held
    }

    /// The most runs of pinned slots that lie within any stretch of `segments` slots that are not pinned: what the
    /// writer has to skip in the time it writes those.
    pub fn most_pinned_runs(&self, segments: u32) -> u32 {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for (slot, _) in self.held() {
            match runs.last_mut() {
                Some((_, end)) if *end == slot => *end += 1,
                _ => runs.push((slot, slot + 1)),
            }
        }
        let mut most = 0;
        for (first, run) in runs.iter().enumerate() {
            let mut between = 0;
            let mut end = run.1;
            let mut count = 1;
            for later in &runs[first + 1..] {
                between += later.0 - end;
                if between >= segments {
                    break;
                }
                end = later.1;
                count += 1;
            }
            most = most.max(count);
        }
        most
    }

    /// The slot to be overwritten after `slot`: an empty one, the next in ring order, or else the one with the oldest
    /// segment that no pin holds. `None` if all others are held.
    pub fn slot_after(&self, layout: &Layout, slot: u32) -> Option<u32> {
        self.slot_after_by(layout, &self.groups, &self.held(), slot)
    }

    /// The same, if the ring had these groups, and pins held these slots ([`RingRecord::held`]).
    pub fn slot_after_by(
        &self,
        layout: &Layout,
        groups: &[Option<u32>],
        held: &[(u32, u64)],
        slot: u32,
    ) -> Option<u32> {
        let per_group = self.segments_per_group(layout);
        let n = (self.slots.len() as u32).min(groups.len() as u32 * per_group);
        let mut oldest: Option<(u64, u32)> = None;
        for step in 1..=n {
            let candidate = (slot + step) % n;
            if candidate == slot || self.path.contains(&candidate) || groups[(candidate / per_group) as usize].is_none()
            {
                continue;
            }
            let Some(segment) = &self.slots[candidate as usize] else { return Some(candidate) };
            if held.binary_search(&(candidate, segment.sequence)).is_err()
                && oldest.is_none_or(|(s, _)| segment.sequence < s)
            {
                oldest = Some((segment.sequence, candidate));
            }
        }
        oldest.map(|(_, slot)| slot)
    }
}

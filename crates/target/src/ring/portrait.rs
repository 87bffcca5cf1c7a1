//! What goes along with the bytes of a ring to another target: its part of the catalog, but for where it lies. Bytes: `docs/protocol/commands.md`.
//!
//! It comes over the network, so nothing of it is believed before [`Portrait::check`].

use crate::catalog::{Origin, PinRecord, RingRecord, Segment, Writers};
use forebay_model::ring::{Beginning, Pin, RingSpec};
use forebay_model::{Bytes, Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A ring without its bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Portrait {
    /// How it is.
    pub spec: RingSpec,
    /// Whether each of its places has a group: where one was given back it has none.
    pub places: Vec<bool>,
    /// Whether it uses the log areas of its groups, too.
    pub without_logs: bool,
    /// Slots in all places.
    pub slots: u32,
    /// Segments that are durable as a whole, by rising slot.
    pub segments: Vec<(u32, Segment)>,
    /// As in the catalog.
    pub path: Vec<u32>,
    /// As in the catalog.
    pub path_segment: u64,
    /// As in the catalog.
    pub path_element: u64,
    /// As in the catalog.
    pub durable_end: u64,
    /// As in the catalog.
    pub doubtful_before: u64,
    /// Pins.
    pub pins: Vec<PinRecord>,
    /// As in the catalog.
    pub writers: Writers,
    /// As in the catalog.
    pub begins: u64,
    /// As which it was made; `epochs` is that of what is written there now.
    pub origin: Origin,
}

impl Portrait {
    /// Of a ring whose blocks are written with this epoch.
    pub(super) fn of(record: RingRecord, epoch: u64) -> Portrait {
        let is_whole = |(slot, _): &(u32, Segment)| !record.path.contains(slot);
        let segments = (0..).zip(&record.slots).filter_map(|(slot, segment)| Some((slot, (*segment)?)));
        Portrait {
            places: record.groups.iter().map(Option::is_some).collect(),
            without_logs: record.without_logs,
            slots: record.slots.len() as u32,
            segments: segments.filter(is_whole).collect(),
            path_segment: record.path_segment,
            path_element: record.path_element,
            durable_end: record.durable_end,
            doubtful_before: record.doubtful_before,
            begins: record.begins,
            origin: Origin { epochs: epoch, ..record.origin },
            spec: record.spec,
            path: record.path,
            pins: record.pins,
            writers: record.writers,
        }
    }

    /// Its bytes.
    pub fn encode(&self) -> Result<Vec<u8>> {
        postcard::to_stdvec(self).map_err(|error| Error::usage(format!("a ring cannot be described: {error}")))
    }

    /// Reads its bytes; [`forebay_model::Kind::Usage`] if they are none, or no ring can be so. Of `most` slots at most.
    pub fn decode(bytes: &[u8], most: u64) -> Result<Portrait> {
        let read =
            |error| Error::usage(format!("{} bytes describe no ring: {error} (nothing was changed)", bytes.len()));
        let portrait: Portrait = postcard::from_bytes(bytes).map_err(read)?;
        portrait.check(most)?;
        Ok(portrait)
    }

    /// Slots with something in them, in the order in which their bytes are copied.
    pub fn filled(&self) -> Vec<u32> {
        let mut filled: Vec<u32> =
            self.segments.iter().map(|(slot, _)| *slot).chain(self.path.iter().copied()).collect();
        filled.sort_unstable();
        filled
    }

    /// Bytes of all of these.
    pub fn length(&self) -> Bytes {
        self.spec.segment * (self.segments.len() + self.path.len()) as u64
    }

    /// Slots of each place.
    pub fn of_place(&self) -> u32 {
        self.slots / self.places.len().max(1) as u32
    }

    fn check(&self, most: u64) -> Result<()> {
        self.spec.check()?;
        let wrong = |what: &str| Err(Error::usage(format!("no ring has {what} (nothing was changed)")));
        let of_place = self.of_place();
        if self.places.is_empty() || of_place == 0 || self.slots as usize != of_place as usize * self.places.len() {
            return wrong("places of other sizes");
        }
        if u64::from(self.slots) > most {
            return wrong(&format!("{} segments where {most} are kept track of", self.slots));
        }
        if !self.spec.segment.0.is_multiple_of(4096)
            || self.spec.segment.0 > u64::from(u32::MAX)
            || self.spec.segment < self.spec.block * 2
        {
            return wrong(&format!("segments of {} for blocks of {}", self.spec.segment, self.spec.block));
        }
        let there = |slot: u32| self.places.get((slot / of_place) as usize).is_some_and(|there| *there);
        let filled = self.filled();
        if !filled.is_sorted_by(|one, next| one < next) || !filled.iter().all(|slot| there(*slot)) {
            return wrong("one segment in two slots, or in none");
        }
        let count = self.path.len() as u64;
        let numbers = [
            self.path_segment.saturating_add(count),
            self.path_element,
            self.durable_end,
            self.doubtful_before,
            self.begins,
        ];
        let of_pin = |Pin { id, first_sequence, end_sequence, segments, bytes, .. }: &Pin| {
            [*id, *first_sequence, *end_sequence, *segments, bytes.0]
        };
        let pins = self.pins.iter().flat_map(|record| of_pin(&record.pin));
        if self.path_segment == 0
            || numbers.into_iter().chain(pins).chain([self.origin.epochs]).any(|it| it > Beginning::MOST)
        {
            return wrong("such numbers");
        }
        let mut segments: Vec<&Segment> = self.segments.iter().map(|(_, segment)| segment).collect();
        segments.sort_unstable_by_key(|segment| segment.sequence);
        let mut last = (0, 0);
        for segment in segments {
            let is_next = segment.sequence > last.0 && segment.sequence < self.path_segment;
            let is_behind = segment.first >= last.1 && segment.first <= segment.end && segment.end <= self.path_element;
            let is_counted = u64::from(segment.bytes) <= self.spec.segment.0
                && segment.losses.gaps.iter().all(|gaps| *gaps <= u64::from(u32::MAX));
            if !(is_next && is_behind && is_counted) {
                return wrong(&format!(
                    "a segment {} with elements {} to {}",
                    segment.sequence, segment.first, segment.end
                ));
            }
            last = (segment.sequence, segment.end);
        }
        let mut ids = BTreeSet::new();
        let is_held = |pin: &PinRecord| pin.held.iter().all(|(slot, _)| there(*slot)) && pin.pin.label.len() <= 1 << 12;
        match self.pins.iter().all(|pin| ids.insert(pin.pin.id) && is_held(pin)) && self.writers.is_short() {
            true => Ok(()),
            false => wrong("such pins or recorders"),
        }
    }
}

//! Rings that come from another target, as they lie there: each has groups of its own from the beginning, and is a ring of this target once all of
//! it is there.
//!
//! Order of durable steps: groups are taken; segments are written; the newest trailer says that the ring lies here; flush; it is in the catalog. Before the last one it is no ring: after
//! a crash its groups are free, and whoever sends it is told to begin anew.

use super::super::Target;
use super::{check_slots, groups_in, wish};
use crate::admission;
use crate::catalog::{GroupClass, RingRecord};
use crate::ring::image::pieces;
use crate::ring::portrait::Portrait;
use forebay_env::Buffer;
use forebay_model::{Bytes, Error, Rate, Result, RingId};

/// A ring of which not all is there.
pub(in super::super) struct Received {
    id: RingId,
    record: RingRecord,
    /// Slots that come, in their order.
    filled: Vec<u32>,
}

impl Target {
    /// Begins to take in the ring that has this portrait. [`forebay_model::Kind::Exists`] if there is one of this name (but one that was made anew
    /// of its segments gives way), or one is taken in;
    /// [`forebay_model::Kind::Refused`] or [`forebay_model::Kind::Full`] if it cannot be here what it is, and then nothing was begun.
    pub async fn receive_ring(&self, name: &str, portrait: &[u8]) -> Result<()> {
        let _turn = self.receiving_rings.take().await;
        let mut portrait = Portrait::decode(portrait, RingRecord::most_slots(&self.core.layout()))?;
        portrait.spec.name = name.to_owned();
        self.check_relatives(name, &portrait.spec.relatives)?;
        // What comes from elsewhere is not here.
        self.give_way(name, u64::MAX).await?;
        if self.has_ring_named(name) {
            return Err(Error::exists(format!("{name} exists already, or is taken in (nothing was changed)")));
        }
        let (filled, without_logs) = (portrait.filled(), portrait.without_logs);
        let mut record = self.room_for(portrait)?;
        let groups: Vec<u32> = record.groups.iter().flatten().copied().collect();
        let _barred = match without_logs {
            true => Some(self.leave_logs(&groups).await?),
            false => None,
        };
        let id = {
            let catalog = &mut *self.core.catalog.borrow_mut();
            if groups.iter().any(|group| catalog.groups[*group as usize] != GroupClass::Free) {
                return Err(Error::busy("what was to be the ring's was taken at the same time; try again"));
            }
            let id = RingId(catalog.next_ring);
            catalog.next_ring += 1;
            let class = if without_logs { GroupClass::RingWithoutLog(id) } else { GroupClass::Ring(id) };
            groups.iter().for_each(|group| catalog.groups[*group as usize] = class);
            record.origin.epochs = (record.origin.epochs + 1).saturating_sub(catalog.epoch);
            record.since = catalog.epoch;
            id
        };
        self.received_rings.borrow_mut().insert(name.to_owned(), Received { id, record, filled });
        if let Err(error) = self.core.commit().await {
            self.let_received_ring_go(name);
            return Err(error);
        }
        Ok(())
    }

    /// Where a ring that comes would lie.
    fn room_for(&self, portrait: Portrait) -> Result<RingRecord> {
        let (layout, profile) = (self.core.layout(), self.core.profile());
        let data = layout.data(!portrait.without_logs);
        let per_group = (data.0 / portrait.spec.segment.0) as u32;
        if per_group == 0 {
            return Err(Error::refused(format!(
                "segments of {} do not fit the groups of this target, which have {data} each (nothing was changed)",
                portrait.spec.segment
            )));
        }
        let is_alike = per_group == portrait.of_place();
        if !is_alike && !portrait.places.iter().all(|there| *there) {
            return Err(Error::refused(format!(
                "the ring was made smaller, and goes on only where a group has {} of its segments; here it has {per_group} (nothing was \
                 changed)",
                portrait.of_place()
            )));
        }
        let places = match is_alike {
            true => portrait.places,
            false => vec![true; portrait.slots.div_ceil(per_group) as usize],
        };
        let mut spec = portrait.spec;
        spec.capacity = layout.group * places.iter().filter(|there| **there).count() as u64;
        let others = self.core.demands(None);
        let wished = wish(&layout, &spec, spec.capacity, 0, Some(portrait.without_logs));
        let placed = admission::place(&profile, &others, &layout, &self.free_runs(), &wished)?;
        let mut groups = groups_in(&layout, &placed.places).into_iter();
        let groups: Vec<Option<u32>> = places.iter().map(|there| there.then(|| groups.next()).flatten()).collect();
        let count = groups.iter().flatten().count();
        let mut slots = vec![None; groups.len() * per_group as usize];
        portrait.segments.into_iter().for_each(|(slot, segment)| slots[slot as usize] = Some(segment));
        let record = RingRecord {
            segment: spec.segment,
            spec,
            groups,
            without_logs: portrait.without_logs,
            slots,
            path: portrait.path,
            path_segment: portrait.path_segment,
            path_element: portrait.path_element,
            durable_end: portrait.durable_end,
            doubtful_before: portrait.doubtful_before,
            pins: portrait.pins,
            writers: portrait.writers,
            fence: 0,
            begins: portrait.begins,
            origin: portrait.origin,
            since: 0,
            anew: None,
        };
        check_slots(&layout, &record, count, record.groups.len(), self.slots_beside(None))?;
        if record.spec.guarantee > Rate(0) {
            admission::admit(&profile, &others, &self.core.demand(&record))?;
        }
        Ok(record)
    }

    /// Writes bytes of a ring that is taken in, which lie at `offset` in the bytes of all its segments; they are durable with
    /// [`Target::received_ring`]. [`forebay_model::Kind::Stale`] if none is taken in.
    pub async fn write_image(&self, name: &str, offset: Bytes, bytes: &[u8]) -> Result<()> {
        // Nobody removes it meanwhile.
        let _turn = self.receiving_rings.take().await;
        let length = Bytes(bytes.len() as u64);
        let places: Vec<(Bytes, Bytes)> = {
            let received = self.received_rings.borrow();
            let Received { record, filled, .. } = received.get(name).ok_or_else(|| not_taken_in(name))?;
            let (layout, end) = (self.core.layout(), record.segment * filled.len() as u64);
            let is_even = offset.0.is_multiple_of(4096) && length.0.is_multiple_of(4096) && length > Bytes::ZERO;
            if !is_even || offset > end || length > end - offset {
                return Err(Error::usage(format!(
                    "{length} at {offset} are no blocks of a ring that has {end} (nothing was changed)"
                )));
            }
            let place = |(nth, from, length)| (record.slot_at(&layout, filled[nth as usize]) + from, length);
            pieces(record.segment, offset, length).map(place).collect()
        };
        let (disk, stream) = (&self.core.disk, self.core.next_stream());
        let mut rest = bytes;
        let mut result = Ok(());
        for (place, length) in places {
            let (here, behind) = rest.split_at(length.0 as usize);
            let mut buffer = Buffer::alone(length)?;
            buffer.copy_from_slice(here);
            result = disk.write(stream, place, buffer).await.1;
            if result.is_err() {
                break;
            }
            rest = behind;
        }
        disk.end_stream(stream);
        result
    }

    /// All of a ring is there: it is one of the target's from now on, durably, with this fence. What it was promised is asked of admission
    /// again, since others may have been promised something meanwhile: if that cannot be, nothing of it is left.
    pub async fn received_ring(&self, name: &str, fence: u64) -> Result<()> {
        let _turn = self.receiving_rings.take().await;
        let core = &self.core;
        if !self.received_rings.borrow().contains_key(name) {
            return Err(not_taken_in(name));
        }
        let (id, record) = {
            let mut received = self.received_rings.borrow_mut();
            let Received { id, record, .. } = received.get_mut(name).ok_or_else(|| not_taken_in(name))?;
            record.fence = fence;
            (*id, record.clone())
        };
        self.describe_moved(id, &record).await?;
        core.disk.flush().await?;
        let received = self.received_rings.borrow_mut().remove(name);
        let Received { id, record, .. } = received.ok_or_else(|| not_taken_in(name))?;
        {
            let catalog = &mut *core.catalog.borrow_mut();
            // Its pins keep their numbers, which those of other rings may have as well; those that come get others.
            catalog.next_pin = record.pins.iter().map(|pin| pin.pin.id + 1).fold(catalog.next_pin, u64::max);
            catalog.rings.insert(id, record);
        }
        let kept = core.check_admission(id).and_then(|()| core.check_pins());
        let kept = match kept {
            Ok(()) => core.commit().await,
            refused => refused,
        };
        if let Err(error) = kept {
            self.forget(id);
            core.commit().await?;
            return Err(error);
        }
        self.start(id)?.ready().await
    }

    /// Lets go of what there is of a ring that is taken in: its groups, of which the catalog does not know yet that they are free. Whether
    /// there was any.
    pub(super) fn let_received_ring_go(&self, name: &str) -> bool {
        let received = self.received_rings.borrow_mut().remove(name);
        received.inspect(|received| self.forget(received.id)).is_some()
    }
}

fn not_taken_in(name: &str) -> Error {
    Error::stale(format!("{name} is not taken in, or was when the target was opened before; send all of it anew"))
}

#[cfg(test)]
mod tests;

//! What opening would find after a crash: it follows a ring by the checkpoint that is durable, and not by what is in memory.
//!
//! Invariant: nothing is written to a slot to which that walk would not come, or which a pin of the checkpoint holds. Who let go
//! of a pin, made one or resized a ring changed which slot is next, for the writer at once: if a crash came before the catalog
//! told of it, all that was acknowledged from there on would be missing without a word.

use crate::catalog::RingRecord;
use crate::layout::Layout;
use crate::ring::recover::LOOK_AHEAD;

/// What a durable checkpoint says of a ring.
pub(crate) struct Walk {
    /// The segment from which on opening would walk.
    from: u64,
    groups: Vec<Option<u32>>,
    held: Vec<(u32, u64)>,
}

impl Walk {
    /// By a checkpoint that has the ring so.
    pub(crate) fn of(record: &RingRecord) -> Walk {
        Walk { from: record.path_segment, groups: record.groups.clone(), held: record.held() }
    }

    /// Whether the next segment of a ring may be written to this slot: what is in it is needed by nobody, and it is found there.
    pub(crate) fn allows(&self, layout: &Layout, record: &RingRecord, slot: u32) -> bool {
        let old = record.slots[slot as usize].map(|segment| segment.sequence);
        let is_needed = |old: u64| old >= self.from || self.held.binary_search(&(slot, old)).is_ok();
        !old.is_some_and(is_needed) && self.finds(layout, record, slot)
    }

    /// Whether the walk looks for the next segment in this slot.
    fn finds(&self, layout: &Layout, record: &RingRecord, slot: u32) -> bool {
        let per_group = record.segments_per_group(layout);
        let places = self.groups.len() as u32 * per_group;
        let sequence = record.path_segment + record.path.len() as u64;
        let before = match sequence == self.from {
            true => places - 1,
            false => {
                let is_before = |at: &u32| record.slots[*at as usize].is_some_and(|s| s.sequence + 1 == sequence);
                match record.path.last().copied().or_else(|| (0..record.slots.len() as u32).find(is_before)) {
                    Some(before) => before,
                    None => return false,
                }
            }
        };
        let Some(first) = record.slot_after_by(layout, &self.groups, &self.held, before) else { return false };
        let exists = |at: &u32| self.groups[(*at / per_group) as usize].is_some();
        (0..places).map(|step| (first + step) % places).filter(exists).take(LOOK_AHEAD).any(|at| at == slot)
    }
}

#[cfg(test)]
mod tests;

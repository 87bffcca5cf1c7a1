//! Which of the records that a slot ever had is in it now: known for those that were put or read lately; others have to
//! be read before an id can be told from an older one of the same slot.

use super::allocation::Slot;
use super::slot_map::SlotMap;
use std::collections::VecDeque;

/// Allocators of which tags are known at once: 28 MiB of memory.
const MOST: usize = 1024;

/// What distinguishes the records of each slot ([`super::slot::distinction`]).
pub struct Tags {
    /// One more, so that 0 is none.
    known: SlotMap<u32>,
    /// Allocators in the order in which the first of them was known.
    order: VecDeque<u32>,
}

impl Tags {
    /// Nothing is known.
    pub fn new() -> Tags {
        Tags { known: SlotMap::new(), order: VecDeque::new() }
    }

    /// The tag of the record in a slot, if it is known.
    pub fn get(&self, slot: Slot) -> Option<u32> {
        self.known.get(slot).checked_sub(1)
    }

    /// The record in a slot has this tag.
    pub fn set(&mut self, slot: Slot, tag: u32) {
        if !self.known.has_table(slot.allocator) {
            if self.order.len() == MOST
                && let Some(oldest) = self.order.pop_front()
            {
                self.known.drop_table(oldest);
            }
            self.order.push_back(slot.allocator);
        }
        self.known.set(slot, tag + 1);
    }
}

#[cfg(test)]
mod tests;

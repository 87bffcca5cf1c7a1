//! Something for each of some slots, found without searching: a table for every allocator that has any of them.

use super::allocation::Slot;
use super::classes::ALLOCATOR_SLOTS;

struct Table<T> {
    count: u32,
    values: Box<[T]>,
}

/// Values for slots. The default value stands for none.
pub struct SlotMap<T> {
    tables: Vec<Option<Table<T>>>,
    held: usize,
}

impl<T: Copy + Default + PartialEq> Default for SlotMap<T> {
    fn default() -> SlotMap<T> {
        SlotMap::new()
    }
}

impl<T: Copy + Default + PartialEq> SlotMap<T> {
    /// One that is empty.
    pub fn new() -> SlotMap<T> {
        SlotMap { tables: Vec::new(), held: 0 }
    }

    /// What there is for a slot; the default value if nothing is.
    pub fn get(&self, slot: Slot) -> T {
        match self.tables.get(slot.allocator as usize) {
            Some(Some(table)) => table.values[usize::from(slot.slot)],
            _ => T::default(),
        }
    }

    /// Puts a value, the default one to remove what is there: what was there before.
    pub fn set(&mut self, slot: Slot, value: T) -> T {
        let none = T::default();
        let at = slot.allocator as usize;
        if self.tables.len() <= at {
            if value == none {
                return none;
            }
            self.tables.resize_with(at + 1, || None);
        }
        if self.tables[at].is_none() {
            if value == none {
                return none;
            }
            self.held += 1;
        }
        let empty = || Table { count: 0, values: vec![none; ALLOCATOR_SLOTS as usize].into_boxed_slice() };
        let table = self.tables[at].get_or_insert_with(empty);
        let old = std::mem::replace(&mut table.values[usize::from(slot.slot)], value);
        table.count = table.count + u32::from(value != none) - u32::from(old != none);
        if table.count == 0 {
            self.drop_table(slot.allocator);
        }
        old
    }

    /// Allocators that have a table.
    pub fn tables(&self) -> usize {
        self.held
    }

    /// Whether an allocator has a table.
    pub fn has_table(&self, allocator: u32) -> bool {
        matches!(self.tables.get(allocator as usize), Some(Some(_)))
    }

    /// Nothing is known of an allocator's slots any more.
    pub fn drop_table(&mut self, allocator: u32) {
        let table = self.tables.get_mut(allocator as usize).and_then(Option::take);
        self.held -= usize::from(table.is_some());
    }
}

#[cfg(test)]
mod tests;

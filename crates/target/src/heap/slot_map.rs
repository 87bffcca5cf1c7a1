//! Something for each of some slots, found without searching: a table for every allocator that has any of them, with a chunk
//! for each 64 slots of which one has something.
//!
//! So what is far apart takes memory for each, a kilobyte or two, and what lies together no more than itself.

use super::allocation::Slot;
use super::classes::ALLOCATOR_SLOTS;

/// Slots of a chunk.
const CHUNK: usize = 64;
/// Chunks of a table.
const CHUNKS: usize = ALLOCATOR_SLOTS as usize / CHUNK;

struct Chunk<T> {
    count: u32,
    values: [T; CHUNK],
}

struct Table<T> {
    count: u32,
    chunks: [Option<Box<Chunk<T>>>; CHUNKS],
}

/// Values for slots. The default value stands for none.
pub struct SlotMap<T> {
    tables: Vec<Option<Box<Table<T>>>>,
    held: usize,
}

impl<T: Copy + Default + PartialEq> Default for SlotMap<T> {
    fn default() -> SlotMap<T> {
        SlotMap::new()
    }
}

fn place(slot: Slot) -> (usize, usize) {
    (usize::from(slot.slot) / CHUNK, usize::from(slot.slot) % CHUNK)
}

impl<T: Copy + Default + PartialEq> SlotMap<T> {
    /// One that is empty.
    pub fn new() -> SlotMap<T> {
        SlotMap { tables: Vec::new(), held: 0 }
    }

    /// What there is for a slot; the default value if nothing is.
    pub fn get(&self, slot: Slot) -> T {
        let (chunk, at) = place(slot);
        let table = self.tables.get(slot.allocator as usize).and_then(Option::as_ref);
        let chunk = table.and_then(|table| table.chunks[chunk].as_ref());
        chunk.map_or_else(T::default, |chunk| chunk.values[at])
    }

    /// Puts a value, the default one to remove what is there: what was there before.
    pub fn set(&mut self, slot: Slot, value: T) -> T {
        let none = T::default();
        let ((nth, at), allocator) = (place(slot), slot.allocator as usize);
        if value == none && self.get(slot) == none {
            return none;
        }
        if self.tables.len() <= allocator {
            self.tables.resize_with(allocator + 1, || None);
        }
        let table = self.tables[allocator].get_or_insert_with(|| {
            self.held += 1;
            Box::new(Table { count: 0, chunks: [const { None }; CHUNKS] })
        });
        let chunk = table.chunks[nth].get_or_insert_with(|| Box::new(Chunk { count: 0, values: [none; CHUNK] }));
        let old = std::mem::replace(&mut chunk.values[at], value);
        let count = |count: u32| count + u32::from(value != none) - u32::from(old != none);
        (chunk.count, table.count) = (count(chunk.count), count(table.count));
        if chunk.count == 0 {
            table.chunks[nth] = None;
        }
        if table.count == 0 {
            self.drop_table(slot.allocator);
        }
        old
    }

    /// Allocators that have a table.
    pub fn tables(&self) -> usize {
        self.held
    }

    /// Bytes that it takes, but for a word for each allocator.
    #[cfg(test)]
    pub fn memory(&self) -> usize {
        let chunks = self.tables.iter().flatten().flat_map(|table| &table.chunks).flatten().count();
        self.held * size_of::<Table<T>>() + chunks * size_of::<Chunk<T>>()
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

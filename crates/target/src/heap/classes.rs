//! Sizes of slots, and how many of them lie together.

use forebay_model::Bytes;
use forebay_model::heap::LARGEST_SLOT;

/// What heaps take their space in.
pub const UNIT: Bytes = Bytes::kib(64);
/// Sizes of slots in bytes (RWStore, 2010, as it is today).
pub const SLOTS: [u32; 11] = [64, 128, 192, 320, 512, 768, 1024, 2048, 3072, 4096, LARGEST_SLOT];
/// Slots of an allocation block: they lie in one run of units.
pub const BLOCK_SLOTS: u32 = 1024;
/// Allocation blocks of an allocator.
pub const BLOCKS: usize = 7;
/// Slots of an allocator.
pub const ALLOCATOR_SLOTS: u32 = BLOCK_SLOTS * BLOCKS as u32;
/// Bytes of a slot before the record.
pub const SLOT_HEADER: usize = 10;

/// A size of slots: an index into [`SLOTS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class(pub u8);

impl Class {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Class> {
        (0..SLOTS.len() as u8).map(Class)
    }

    /// The smallest whose slots hold a record of `length` bytes; `None` if it has to be chained.
    pub fn holding(length: usize) -> Option<Class> {
        let class = SLOTS.iter().position(|slot| length + SLOT_HEADER <= *slot as usize)?;
        Some(Class(class as u8))
    }

    /// Bytes of its slots.
    pub fn slot(self) -> u32 {
        SLOTS[usize::from(self.0)]
    }

    /// Bytes of the largest record in its slots.
    pub fn most(self) -> usize {
        self.slot() as usize - SLOT_HEADER
    }

    /// Units of an allocation block.
    pub fn units(self) -> u32 {
        ((Bytes(u64::from(self.slot())) * u64::from(BLOCK_SLOTS)).0 / UNIT.0) as u32
    }
}

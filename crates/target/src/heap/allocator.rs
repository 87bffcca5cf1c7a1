//! The slots of one allocator: one size, up to [`BLOCKS`] allocation blocks, four bitmaps.
//!
//! A slot is *live* if a record is in it now, *committed* if one was at the last commit, *kept* if one was at an earlier
//! commit that somebody may still see, and *hidden* if it is that of one writer so far. Only what is none of these is
//! handed out (RWStore, 2010).

use super::classes::{ALLOCATOR_SLOTS, BLOCK_SLOTS, BLOCKS, Class};
use std::rc::Rc;

/// Words of a bitmap.
pub const WORDS: usize = ALLOCATOR_SLOTS as usize / 64;
/// Words of a block in a bitmap.
const BLOCK_WORDS: usize = BLOCK_SLOTS as usize / 64;
/// A bit for each slot.
pub type Bits = [u64; WORDS];

/// What came of looking for a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// This one; it is live now.
    Slot(u16),
    /// There is none up to this block, which has no place.
    Unstarted(usize),
    /// None, until some are freed.
    Nothing,
}

/// How a slot is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Search {
    /// The first there is.
    First,
    /// Onwards from the last one.
    Onwards,
}

/// An allocator.
#[derive(Debug, Clone)]
pub struct Allocator {
    class: Class,
    /// The first unit of each block; 0: it has none.
    starts: [u32; BLOCKS],
    live: Bits,
    /// Shared with those who see this commit.
    committed: Rc<Bits>,
    kept: Bits,
    hidden: Bits,
    /// Slots of started blocks that can be handed out.
    free: u32,
    /// Slots from the first on among which all are that were ever handed out.
    passed: u16,
    /// The word in which the search goes on.
    next: usize,
}

fn is_set(bits: &Bits, slot: u16) -> bool {
    bits[usize::from(slot) / 64] >> (slot % 64) & 1 == 1
}

impl Allocator {
    /// One without a block.
    pub fn new(class: Class) -> Allocator {
        Allocator {
            class,
            starts: [0; BLOCKS],
            live: [0; WORDS],
            committed: Rc::new([0; WORDS]),
            kept: [0; WORDS],
            hidden: [0; WORDS],
            free: 0,
            passed: 0,
            next: 0,
        }
    }

    /// As it was at a commit. Of the first `kept` slots those that are not live have what an older commit has.
    pub fn opened(class: Class, starts: [u32; BLOCKS], live: Bits, kept: u16) -> Allocator {
        let mut opened = Allocator { starts, live, committed: Rc::new(live), passed: kept, ..Allocator::new(class) };
        for slot in 0..kept {
            let (word, bit) = (usize::from(slot) / 64, 1 << (slot % 64));
            opened.kept[word] |= bit & !live[word];
        }
        opened.recount();
        opened
    }

    /// Slots from the first on among which all are that were handed out since it was made, or opened as this says.
    pub fn passed(&self) -> u16 {
        self.passed
    }

    /// The size of its slots.
    pub fn class(&self) -> Class {
        self.class
    }

    /// The first unit of each of its blocks; 0: it has none.
    pub fn starts(&self) -> &[u32; BLOCKS] {
        &self.starts
    }

    /// Slots with records in them now.
    pub fn live(&self) -> &Bits {
        &self.live
    }

    /// Slots with records at the last commit.
    pub fn committed(&self) -> &Rc<Bits> {
        &self.committed
    }

    /// Whether there was a record in the slot at the last commit.
    pub fn is_committed(&self, slot: u16) -> bool {
        is_set(&self.committed, slot)
    }

    /// Whether the slot is that of one writer.
    pub fn is_hidden(&self, slot: u16) -> bool {
        is_set(&self.hidden, slot)
    }

    /// Slots that can be handed out without another block.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// Slots that have a place.
    pub fn started(&self) -> u32 {
        self.starts.iter().filter(|start| **start > 0).count() as u32 * BLOCK_SLOTS
    }

    /// Slots that are those of one writer.
    #[cfg(test)]
    pub fn hidden(&self) -> u32 {
        self.hidden.iter().map(|word| word.count_ones()).sum()
    }

    /// Slots with a record.
    pub fn used(&self) -> u32 {
        self.live.iter().map(|word| word.count_ones()).sum()
    }

    /// Where a slot lies: its first unit, and bytes from there. `None` if it has no place.
    pub fn place(&self, slot: u16) -> Option<(u32, u64)> {
        let block = usize::from(slot) / BLOCK_SLOTS as usize;
        let start = self.starts.get(block).filter(|start| **start > 0)?;
        Some((*start, u64::from(slot) % u64::from(BLOCK_SLOTS) * u64::from(self.class.slot())))
    }

    /// Whether there is a record in the slot.
    pub fn is_live(&self, slot: u16) -> bool {
        u32::from(slot) < ALLOCATOR_SLOTS && is_set(&self.live, slot)
    }

    /// Whether the slot holds bytes that somebody may want.
    pub fn is_held(&self, slot: u16) -> bool {
        self.held(usize::from(slot) / 64) >> (slot % 64) & 1 == 1
    }

    fn held(&self, word: usize) -> u64 {
        self.live[word] | self.committed[word] | self.kept[word] | self.hidden[word]
    }

    fn recount(&mut self) {
        let started = (0..WORDS).filter(|word| self.starts[word / BLOCK_WORDS] > 0);
        self.free = started.map(|word| self.held(word).count_zeros()).sum();
    }

    /// Gives a block its place.
    pub fn start(&mut self, block: usize, unit: u32) {
        assert!(unit > 0 && self.starts[block] == 0, "block {block} has its place already");
        self.starts[block] = unit;
        self.free += BLOCK_SLOTS;
    }

    /// Takes the place of the block of a slot away, if nobody holds anything in it: its first unit.
    pub fn give_back(&mut self, slot: u16) -> Option<u32> {
        let block = usize::from(slot) / BLOCK_SLOTS as usize;
        let mut words = block * BLOCK_WORDS..(block + 1) * BLOCK_WORDS;
        let start = self.starts[block];
        if start == 0 || words.any(|word| self.held(word) != 0) {
            return None;
        }
        self.starts[block] = 0;
        self.free -= BLOCK_SLOTS;
        if self.next / BLOCK_WORDS == block {
            self.next = block * BLOCK_WORDS;
        }
        Some(start)
    }

    /// Whether it has a block without a place.
    pub fn has_room(&self) -> bool {
        self.starts.contains(&0)
    }

    /// The search goes on behind a block.
    pub fn pass(&mut self, block: usize) {
        self.next = (block + 1) * BLOCK_WORDS;
    }

    /// Takes a slot.
    pub fn take(&mut self) -> Found {
        while self.next < WORDS {
            let block = self.next / BLOCK_WORDS;
            if self.starts[block] == 0 {
                return Found::Unstarted(block);
            }
            let clear = !self.held(self.next);
            if clear != 0 {
                let bit = clear.trailing_zeros();
                self.live[self.next] |= 1 << bit;
                self.free -= 1;
                let slot = (self.next * 64) as u16 + bit as u16;
                self.passed = self.passed.max(slot + 1);
                return Found::Slot(slot);
            }
            self.next += 1;
        }
        Found::Nothing
    }

    /// Takes this slot, if it is free and has a place.
    pub fn take_this(&mut self, slot: u16) -> bool {
        if self.place(slot).is_none() || self.is_held(slot) {
            return false;
        }
        self.live[usize::from(slot) / 64] |= 1 << (slot % 64);
        self.free -= 1;
        true
    }

    /// Takes the first slot that is free, wherever the search is.
    pub fn take_left(&mut self) -> Option<u16> {
        let next = std::mem::replace(&mut self.next, 0);
        let slot = loop {
            match self.take() {
                Found::Slot(slot) => break Some(slot),
                Found::Unstarted(block) => self.pass(block),
                Found::Nothing => break None,
            }
        };
        self.next = next;
        slot
    }

    /// It is used again: the search begins anew.
    pub fn rejoin(&mut self) {
        self.next = 0;
    }

    /// The record in a live slot is no longer needed. Whether the slot can be handed out again at once, since no commit
    /// has it.
    pub fn free_slot(&mut self, slot: u16, search: Search) -> bool {
        assert!(self.is_live(slot), "slot {slot} is freed and is not live");
        let word = usize::from(slot) / 64;
        self.live[word] &= !(1 << (slot % 64));
        let at_once = !self.is_held(slot);
        if at_once {
            self.free += 1;
            if search == Search::First && word < self.next {
                self.next = word;
            }
        }
        at_once
    }

    /// What is live is committed. What was and is not any more is kept.
    pub fn commit(&mut self) {
        for word in 0..WORDS {
            self.kept[word] |= self.committed[word] & !self.live[word];
        }
        self.committed = Rc::new(self.live);
    }

    /// Nobody can see any more what was in the slot.
    pub fn release(&mut self, slot: u16, search: Search) {
        assert!(is_set(&self.kept, slot), "slot {slot} is released and was not kept");
        let word = usize::from(slot) / 64;
        self.kept[word] &= !(1 << (slot % 64));
        assert!(!self.is_held(slot), "slot {slot} was handed out while it was kept");
        self.free += 1;
        if search == Search::First && word < self.next {
            self.next = word;
        }
    }

    /// A free slot has what an older commit has.
    pub fn keep(&mut self, slot: u16) {
        assert!(!self.is_held(slot), "slot {slot} is kept and is in use");
        self.kept[usize::from(slot) / 64] |= 1 << (slot % 64);
        self.free -= 1;
    }

    /// A live slot, which no commit has, is that of one writer.
    pub fn hide(&mut self, slot: u16) {
        assert!(self.is_live(slot), "slot {slot} is hidden and is not live");
        let (word, bit) = (usize::from(slot) / 64, 1 << (slot % 64));
        self.live[word] &= !bit;
        self.hidden[word] |= bit;
    }

    /// A hidden slot is live.
    pub fn reveal(&mut self, slot: u16) {
        assert!(self.is_hidden(slot), "slot {slot} is revealed and is not hidden");
        let (word, bit) = (usize::from(slot) / 64, 1 << (slot % 64));
        self.hidden[word] &= !bit;
        self.live[word] |= bit;
    }

    /// A hidden slot is free.
    pub fn free_hidden(&mut self, slot: u16, search: Search) {
        self.reveal(slot);
        let at_once = self.free_slot(slot, search);
        assert!(at_once, "slot {slot} was hidden and in a commit");
    }

    /// What is live is what was committed.
    pub fn abort(&mut self) {
        self.live = *self.committed;
        self.recount();
        self.next = 0;
    }
}

#[cfg(test)]
mod tests;

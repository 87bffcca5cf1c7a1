//! The slots of one allocator: one size, up to [`BLOCKS`] allocation blocks, three bitmaps.
//!
//! A slot is *live* if a record is in it now, *committed* if one was at the last commit, and *kept* if one was at an
//! earlier commit that somebody may still see. Only what is none of these is handed out (RWStore, 2010).

use super::classes::{ALLOCATOR_SLOTS, BLOCK_SLOTS, BLOCKS, Class};
use super::root::PAGE;

/// Words of a bitmap.
pub const WORDS: usize = ALLOCATOR_SLOTS as usize / 64;
/// Words of a block in a bitmap.
const BLOCK_WORDS: usize = BLOCK_SLOTS as usize / 64;
/// A stretch of so many bytes in which anything lies is left alone: what is written there would lie scattered among that,
/// and where it shares a page, this would have to be read first. (RWStore's later rule leaves 32 small slots alone of
/// which 16 are taken.)
const STRETCH: u32 = 16 << 10;

/// A bit for each slot.
pub type Bits = [u64; WORDS];

/// What came of looking for a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// This one; it is live now.
    Slot(u16),
    /// All blocks so far are full, and this one has no place yet.
    Unstarted(usize),
    /// None, until some are freed.
    Nothing,
}

/// How a slot is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Search {
    /// The first there is.
    First,
    /// Onwards from the last one, in stretches in which nothing lies.
    Onwards,
    /// Onwards from the last one, wherever one is free.
    Anywhere,
}

/// An allocator.
#[derive(Debug, Clone)]
pub struct Allocator {
    class: Class,
    /// The first unit of each block; 0: it has none.
    starts: [u32; BLOCKS],
    live: Bits,
    committed: Bits,
    kept: Bits,
    /// Slots of started blocks that can be handed out.
    free: u32,
    /// Slots from the first on among which all are that were ever handed out.
    passed: u16,
    /// The word in which the search goes on, and the slots of it that may be taken.
    next: usize,
    open: Option<u64>,
}

fn is_set(bits: &Bits, slot: u16) -> bool {
    bits[usize::from(slot) / 64] >> (slot % 64) & 1 == 1
}

/// Of 64 slots, those in stretches in which no slot is held. Stretches are whole pages, as 64 slots of any size are.
fn empty_stretches(held: u64, slot: u32) -> u64 {
    let fewest = (STRETCH / slot).clamp(1, 64);
    let slots = (fewest..64).find(|slots| (slots * slot).is_multiple_of(PAGE as u32)).unwrap_or(64);
    let stretch = |first: u32| u64::MAX >> (64 - slots.min(64 - first)) << first;
    let stretches = (0..64).step_by(slots as usize).map(stretch);
    stretches.filter(|stretch| held & stretch == 0).sum()
}

impl Allocator {
    /// One without a block.
    pub fn new(class: Class) -> Allocator {
        Allocator {
            class,
            starts: [0; BLOCKS],
            live: [0; WORDS],
            committed: [0; WORDS],
            kept: [0; WORDS],
            free: 0,
            passed: 0,
            next: 0,
            open: None,
        }
    }

    /// As it was at a commit. Of the first `kept` slots those that are not live have what an older commit has.
    pub fn opened(class: Class, starts: [u32; BLOCKS], live: Bits, kept: u16) -> Allocator {
        let mut opened = Allocator { starts, live, committed: live, passed: kept, ..Allocator::new(class) };
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

    /// Slots that can be handed out without another block.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// Slots that have a place.
    pub fn started(&self) -> u32 {
        self.starts.iter().filter(|start| **start > 0).count() as u32 * BLOCK_SLOTS
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
        is_set(&self.live, slot) || is_set(&self.committed, slot) || is_set(&self.kept, slot)
    }

    fn held(&self, word: usize) -> u64 {
        self.live[word] | self.committed[word] | self.kept[word]
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

    /// Takes a slot.
    pub fn take(&mut self, search: Search) -> Found {
        while self.next < WORDS {
            let block = self.next / BLOCK_WORDS;
            if self.starts[block] == 0 {
                return Found::Unstarted(block);
            }
            let held = self.held(self.next);
            let open = *self.open.get_or_insert_with(|| match search {
                Search::Onwards => empty_stretches(held, self.class.slot()),
                Search::First | Search::Anywhere => u64::MAX,
            });
            let clear = open & !held;
            if clear != 0 {
                let bit = clear.trailing_zeros();
                self.live[self.next] |= 1 << bit;
                self.free -= 1;
                let slot = (self.next * 64) as u16 + bit as u16;
                self.passed = self.passed.max(slot + 1);
                return Found::Slot(slot);
            }
            self.open = None;
            self.next += 1;
        }
        Found::Nothing
    }

    /// It goes on being used: the search begins behind the last slot that has anything.
    pub fn go_on(&mut self) {
        self.open = None;
        self.next = (0..WORDS).rev().find(|word| self.held(*word) != 0).unwrap_or(0);
    }

    /// It is used again: the search begins anew.
    pub fn rejoin(&mut self) {
        (self.next, self.open) = (0, None);
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
                (self.next, self.open) = (word, None);
            }
        }
        at_once
    }

    /// What is live is committed. What was and is not any more is kept.
    pub fn commit(&mut self) {
        for word in 0..WORDS {
            self.kept[word] |= self.committed[word] & !self.live[word];
            self.committed[word] = self.live[word];
        }
    }

    /// Nobody can see any more what was in the slot.
    pub fn release(&mut self, slot: u16, search: Search) {
        assert!(is_set(&self.kept, slot), "slot {slot} is released and was not kept");
        let word = usize::from(slot) / 64;
        self.kept[word] &= !(1 << (slot % 64));
        assert!(!self.is_held(slot), "slot {slot} was handed out while it was kept");
        self.free += 1;
        if search == Search::First && word < self.next {
            (self.next, self.open) = (word, None);
        }
    }

    /// What is live is what was committed.
    pub fn abort(&mut self) {
        self.live = self.committed;
        self.recount();
        (self.next, self.open) = (0, None);
    }
}

#[cfg(test)]
mod tests;

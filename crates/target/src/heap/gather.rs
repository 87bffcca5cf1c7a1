//! What is written together: records sorted by where they lie, padded to whole slots, and what is not far apart in one
//! run of pages.
//!
//! Padding makes neighbours of slots that are full but for their ends (RWStore's double buffering, 2010). Runs go on over
//! what others have in between, too: it is read first and written as it is. So what lies scattered in one place is one
//! read and one write, however many records it is. Arithmetic only.

use super::allocation::{Allocation, Slot};
use super::classes::{BLOCK_SLOTS, UNIT};
use super::root::PAGE;
use std::ops::Range;

/// Bytes of a run, but for the end of its last slot.
pub const LONGEST: u64 = 1 << 20;

/// What runs go on over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gaps {
    /// So many bytes between two records, if others have anything there.
    pub held: u64,
    /// So many, if nobody has.
    pub free: u64,
}

impl Gaps {
    /// Where an arm has to move, it passes over so many bytes in less time than it takes to begin anew.
    pub const ROTATING: Gaps = Gaps { held: 256 << 10, free: 256 << 10 };
    /// Where none has to, what is read and written beside records costs more than another write. (Measured on `ssd`.)
    pub const FLAT: Gaps = Gaps { held: 32 << 10, free: 64 << 10 };
    /// Only neighbours are written together.
    pub const NONE: Gaps = Gaps { held: 0, free: 0 };
}

/// Pages that are written in one go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The first byte in the heap; of a page.
    pub at: u64,
    /// The byte behind the last; of a page.
    pub end: u64,
    /// The records, by where they lie: slot, its first byte, and the byte behind it.
    pub slots: Vec<(Slot, Range<u64>)>,
    /// The byte behind the last page on which something lies beside them that has to stay: so far it is read first.
    pub stays: u64,
}

/// Where a slot lies in the heap.
pub fn extent(allocation: &Allocation, slot: Slot) -> Range<u64> {
    let allocator = allocation.get(slot.allocator);
    let (unit, within) = allocator.place(slot.slot).expect("a slot that was handed out has a place");
    let at = u64::from(unit) * UNIT.0 + within;
    at..at + u64::from(allocator.class().slot())
}

/// The pages on which something lies.
pub fn pages(extent: &Range<u64>) -> Range<u64> {
    let page = PAGE as u64;
    extent.start / page * page..extent.end.next_multiple_of(page)
}

/// The run that writes one record by itself, beside what is on the device already.
pub fn alone(allocation: &Allocation, slot: Slot, waits: impl Fn(Slot) -> bool) -> Run {
    let mut run = Block::of(allocation, slot).run(allocation, pages(&extent(allocation, slot)), &waits);
    run.slots.retain(|(other, _)| *other == slot);
    run
}

/// The runs that write `slots`. With them go those that `waits` and share a page, or lie between two of them: what is on
/// the device of these is nothing yet.
pub fn gather(allocation: &Allocation, slots: &[Slot], gaps: Gaps, waits: impl Fn(Slot) -> bool) -> Vec<Run> {
    let mut slots = slots.to_vec();
    slots.sort_unstable();
    let block_of = |slot: &Slot| (slot.allocator, slot.slot / BLOCK_SLOTS as u16);
    let chunks = slots.chunk_by(|one, other| block_of(one) == block_of(other));
    let mut blocks: Vec<(Block, &[Slot])> = chunks.map(|slots| (Block::of(allocation, slots[0]), slots)).collect();
    blocks.sort_unstable_by_key(|(block, _)| block.begin);
    let mut runs: Vec<Run> = Vec::new();
    for (block, slots) in blocks {
        let on = |slot: &Slot| {
            let nth = slot.slot - block.first.slot;
            block.with_waiting(pages(&block.extent(nth)), &waits)
        };
        let mut all = slots.iter().map(on).peekable();
        while let Some(mut run) = all.next() {
            while let Some(next) = all.next_if(|next| block.joins(allocation, &run, next, gaps)) {
                run = run.start.min(next.start)..run.end.max(next.end);
            }
            let run = block.run(allocation, run, &waits);
            match runs.last_mut() {
                Some(last) if last.end == run.at && run.end - last.at <= LONGEST => last.append(run),
                _ => runs.push(run),
            }
        }
    }
    runs
}

impl Run {
    fn append(&mut self, other: Run) {
        if other.stays > other.at {
            self.stays = other.stays;
        }
        self.end = other.end;
        self.slots.extend(other.slots);
    }
}

/// The slots of a block, which lie one behind the other.
struct Block {
    first: Slot,
    begin: u64,
    size: u64,
}

impl Block {
    fn of(allocation: &Allocation, slot: Slot) -> Block {
        let first = Slot { slot: slot.slot / BLOCK_SLOTS as u16 * BLOCK_SLOTS as u16, ..slot };
        let extent = extent(allocation, first);
        Block { first, begin: extent.start, size: extent.end - extent.start }
    }

    fn slot(&self, nth: u16) -> Slot {
        Slot { slot: self.first.slot + nth, ..self.first }
    }

    fn extent(&self, nth: u16) -> Range<u64> {
        let at = self.begin + u64::from(nth) * self.size;
        at..at + self.size
    }

    /// Those that lie on these pages, and be it with one byte.
    fn on(&self, pages: &Range<u64>) -> Range<u16> {
        let from = pages.start.saturating_sub(self.begin) / self.size;
        let to = pages.end.saturating_sub(self.begin).div_ceil(self.size).min(u64::from(BLOCK_SLOTS));
        from as u16..to as u16
    }

    /// These pages, and those on which slots go on that wait and lie on the first or the last of these.
    fn with_waiting(&self, mut on: Range<u64>, waits: &impl Fn(Slot) -> bool) -> Range<u64> {
        loop {
            let slots = self.on(&on);
            let mut wider = on.clone();
            for nth in [slots.start, slots.end - 1] {
                let pages = pages(&self.extent(nth));
                if (pages.start < on.start || pages.end > on.end) && waits(self.slot(nth)) {
                    wider = wider.start.min(pages.start)..wider.end.max(pages.end);
                }
            }
            if wider == on {
                return on;
            }
            on = wider;
        }
    }

    /// Whether pages that lie behind a run are written with it.
    fn joins(&self, allocation: &Allocation, run: &Range<u64>, next: &Range<u64>, gaps: Gaps) -> bool {
        if next.start < run.end {
            return true;
        }
        if next.end - run.start > LONGEST {
            return false;
        }
        let gap = next.start - run.end;
        let allocator = allocation.get(self.first.allocator);
        let is_held = || self.on(&(run.end..next.start)).any(|nth| allocator.is_held(self.slot(nth).slot));
        gap == 0 || gap <= gaps.held || gap <= gaps.free && !is_held()
    }

    /// The run over these pages.
    fn run(&self, allocation: &Allocation, on: Range<u64>, waits: &impl Fn(Slot) -> bool) -> Run {
        let mut run = Run { at: on.start, end: on.end, slots: Vec::new(), stays: on.start };
        let allocator = allocation.get(self.first.allocator);
        for nth in self.on(&on) {
            let slot = self.slot(nth);
            if waits(slot) {
                run.slots.push((slot, self.extent(nth)));
            } else if allocator.is_held(slot.slot) {
                run.stays = pages(&self.extent(nth)).end.min(on.end);
            }
        }
        run
    }
}

#[cfg(test)]
mod tests;

//! What of a heap is written together ([`coalesce`]): records, padded to whole slots, and what is not far apart in one run
//! of pages.
//!
//! Padding makes neighbours of slots that are full but for their ends (RWStore's double buffering, 2010). Runs go on over
//! what others have in between, too: it is read first and written as it is. So what lies scattered in one place is one
//! read and one write, however many records it is. Arithmetic only.

use super::allocation::{Allocation, Slot};
use super::classes::{BLOCK_SLOTS, UNIT};
use super::root::PAGE;
use crate::coalesce;
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
    /// The records, by where they lie: slot, its first byte, and the byte behind it, when they were gathered.
    pub slots: Vec<(Slot, Range<u64>)>,
    /// The byte behind the last page on which something lies beside them that has to stay: so far it is read first.
    pub stays: u64,
}

/// Where a slot that was handed out lies in the heap.
pub fn extent(allocation: &Allocation, slot: Slot) -> Range<u64> {
    place(allocation, slot).expect("a slot that was handed out has a place")
}

/// Where a slot lies in the heap, if it does.
pub fn place(allocation: &Allocation, slot: Slot) -> Option<Range<u64>> {
    let allocator = allocation.find(slot.allocator)?;
    let (unit, within) = allocator.place(slot.slot)?;
    let at = u64::from(unit) * UNIT.0 + within;
    Some(at..at + u64::from(allocator.class().slot()))
}

/// The pages on which something lies.
pub fn pages(extent: &Range<u64>) -> Range<u64> {
    let page = PAGE as u64;
    extent.start / page * page..extent.end.next_multiple_of(page)
}

/// The run that writes one record by itself, beside what is on the device already.
pub fn alone(allocation: &Allocation, slot: Slot, waits: impl Fn(Slot) -> bool) -> Run {
    let on = pages(&extent(allocation, slot));
    let mut run = Run { at: on.start, end: on.end, slots: Vec::new(), stays: on.start };
    Block::of(allocation, slot).add_to(&mut run, allocation, &waits);
    run.slots.retain(|(other, _)| *other == slot);
    run
}

/// The runs that write `slots`. With them go those that `waits` and share a page, or lie between two of them: what is on
/// the device of these is nothing yet.
pub fn gather(allocation: &Allocation, slots: &[Slot], gaps: Gaps, waits: impl Fn(Slot) -> bool) -> Vec<Run> {
    let with_pages = |slot: &Slot| {
        let block = Block::of(allocation, *slot);
        (block.with_waiting(pages(&block.extent(slot.slot - block.first.slot)), &waits), *slot)
    };
    let pieces = slots.iter().map(with_pages).collect();
    let runs = coalesce::runs(pieces, |run, next, slot| {
        let last = run.pieces[run.pieces.len() - 1];
        let spans = || {
            block_of(last) == block_of(*slot)
                && Block::of(allocation, last).spans(allocation, run.at.end..next.start, gaps)
        };
        next.end - run.at.start <= LONGEST && (next.start == run.at.end || spans())
    });
    let with_beside = |run: coalesce::Run<Slot>| {
        let mut all = Run { at: run.at.start, end: run.at.end, slots: Vec::new(), stays: run.at.start };
        let blocks = run.pieces.chunk_by(|one, other| block_of(*one) == block_of(*other));
        blocks.for_each(|slots| Block::of(allocation, slots[0]).add_to(&mut all, allocation, &waits));
        all
    };
    runs.into_iter().map(with_beside).collect()
}

impl Run {
    /// Its records in runs that have no page without one: with all that may lie beside them there.
    pub fn apart(self) -> Vec<Run> {
        let pieces = self.slots.into_iter().map(|(slot, lies)| (pages(&lies), (slot, lies))).collect();
        let runs = coalesce::runs(pieces, |run, next, _| next.start <= run.at.end);
        let run =
            |run: coalesce::Run<_>| Run { at: run.at.start, end: run.at.end, slots: run.pieces, stays: run.at.end };
        runs.into_iter().map(run).collect()
    }
}

/// Which block a slot is of.
fn block_of(slot: Slot) -> (u32, u16) {
    (slot.allocator, slot.slot / BLOCK_SLOTS as u16)
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

    /// Whether a run goes on over a gap.
    fn spans(&self, allocation: &Allocation, gap: Range<u64>, gaps: Gaps) -> bool {
        let length = gap.end - gap.start;
        let allocator = allocation.get(self.first.allocator);
        let is_held = || self.on(&gap).any(|nth| allocator.is_held(self.slot(nth).slot));
        length <= gaps.held || length <= gaps.free && !is_held()
    }

    /// Adds to a run what of this block lies on its pages.
    fn add_to(&self, run: &mut Run, allocation: &Allocation, waits: &impl Fn(Slot) -> bool) {
        let allocator = allocation.get(self.first.allocator);
        for nth in self.on(&(run.at..run.end)) {
            let slot = self.slot(nth);
            if waits(slot) {
                run.slots.push((slot, self.extent(nth)));
            } else if allocator.is_held(slot.slot) {
                run.stays = pages(&self.extent(nth)).end.min(run.end);
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! What is written together: records sorted by where they lie, padded to whole slots, neighbours in one run of pages.
//!
//! Padding makes neighbours of slots that are full but for their ends, so that no page between them has to be read first
//! (RWStore's double buffering, 2010). Arithmetic only.

use super::allocation::{Allocation, Slot};
use super::classes::{BLOCK_SLOTS, UNIT};
use super::root::PAGE;
use std::collections::BTreeSet;
use std::ops::Range;

/// Bytes of a run, but for the end of its last slot.
pub const LONGEST: u64 = 1 << 20;

/// Pages that are written in one go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The first byte in the heap; of a page.
    pub at: u64,
    /// The byte behind the last; of a page.
    pub end: u64,
    /// The records, by where they lie: slot, its first byte, and the byte behind it.
    pub slots: Vec<(Slot, Range<u64>)>,
    /// What lies on these pages beside them and has to stay: where.
    pub beside: Vec<Range<u64>>,
}

/// Bytes of free slots that are written over rather than left out of a run, at most: a disk passes over so many in less
/// time than it takes to begin another write.
const LONGEST_GAP: u64 = 64 << 10;

/// Where a slot lies in the heap.
pub fn extent(allocation: &Allocation, slot: Slot) -> Range<u64> {
    let allocator = allocation.get(slot.allocator);
    let (unit, within) = allocator.place(slot.slot).expect("a slot that was handed out has a place");
    let at = u64::from(unit) * UNIT.0 + within;
    at..at + u64::from(allocator.class().slot())
}

fn pages(extent: &Range<u64>) -> Range<u64> {
    let page = PAGE as u64;
    extent.start / page * page..extent.end.next_multiple_of(page)
}

/// The slots of the block of `slot` that touch pages from `pages.start` up to `pages.end`.
fn sharing(allocation: &Allocation, slot: Slot, pages: &Range<u64>) -> impl Iterator<Item = Slot> + use<> {
    let size = u64::from(allocation.get(slot.allocator).class().slot());
    let within = slot.slot % BLOCK_SLOTS as u16;
    let begin = extent(allocation, slot).start - u64::from(within) * size;
    let from = pages.start.saturating_sub(begin) / size;
    let to = (pages.end - begin).div_ceil(size).min(u64::from(BLOCK_SLOTS));
    (from as u16..to as u16).map(move |n| Slot { slot: slot.slot - within + n, ..slot })
}

/// The run that writes one record by itself, beside what is on the device already.
pub fn alone(allocation: &Allocation, slot: Slot, waits: impl Fn(Slot) -> bool) -> Run {
    let mut run = open(allocation, slot);
    run.beside = beside(allocation, &run, &waits);
    run
}

/// The runs that write `slots`. With them go those that `waits` and share a page, or lie between two of them: what is on
/// the device of these is nothing yet. Slots between them that nobody holds are written over.
pub fn gather(allocation: &Allocation, slots: &[Slot], waits: impl Fn(Slot) -> bool) -> Vec<Run> {
    let mut all: BTreeSet<Slot> = slots.iter().copied().collect();
    let mut fresh: Vec<Slot> = slots.to_vec();
    while let Some(slot) = fresh.pop() {
        for other in sharing(allocation, slot, &pages(&extent(allocation, slot))) {
            if !all.contains(&other) && waits(other) {
                all.insert(other);
                fresh.push(other);
            }
        }
    }
    // By allocator and slot is by place, but for which block comes first.
    let mut blocks: Vec<Vec<Slot>> = Vec::new();
    for slot in all {
        match blocks.last_mut() {
            Some(block) if block.last().is_some_and(|last| is_same_block(*last, slot)) => {
                let between = between(allocation, block.last().copied(), slot, &waits);
                block.extend(between);
                block.push(slot);
            }
            _ => blocks.push(vec![slot]),
        }
    }
    blocks.sort_unstable_by_key(|block| extent(allocation, block[0]).start);
    let mut runs: Vec<Run> = Vec::new();
    for slot in blocks.into_iter().flatten() {
        let extent = extent(allocation, slot);
        let on = pages(&extent);
        match runs.last_mut() {
            Some(run) if joins(allocation, run, slot, &on, &waits) => {
                run.end = run.end.max(on.end);
                run.slots.push((slot, extent));
            }
            _ => runs.push(open(allocation, slot)),
        }
    }
    for run in &mut runs {
        run.beside = beside(allocation, run, &waits);
    }
    runs
}

fn is_same_block(one: Slot, other: Slot) -> bool {
    let block = |slot: Slot| (slot.allocator, slot.slot / BLOCK_SLOTS as u16);
    block(one) == block(other)
}

/// The slots between two of a block, where that is no more than a gap.
fn gap(allocation: &Allocation, from: Slot, to: Slot) -> Option<std::ops::Range<u16>> {
    let size = u64::from(allocation.get(to.allocator).class().slot());
    let slots = from.slot + 1..to.slot;
    (is_same_block(from, to) && slots.len() as u64 * size <= LONGEST_GAP).then_some(slots)
}

/// What waits between two slots of a block.
fn between(allocation: &Allocation, from: Option<Slot>, to: Slot, waits: &impl Fn(Slot) -> bool) -> Vec<Slot> {
    let slots = from.and_then(|from| gap(allocation, from, to)).unwrap_or_default();
    slots.map(|slot| Slot { slot, ..to }).filter(|slot| waits(*slot)).collect()
}

/// Whether a slot, on these pages, goes on where a run ends: nothing that somebody holds lies between.
fn joins(allocation: &Allocation, run: &Run, slot: Slot, on: &Range<u64>, waits: &impl Fn(Slot) -> bool) -> bool {
    if on.start < run.end {
        return true;
    }
    if on.end - run.at > LONGEST {
        return false;
    }
    let Some((last, _)) = run.slots.last() else { return false };
    let is_free = |slot: Slot| !allocation.get(slot.allocator).is_held(slot.slot) || waits(slot);
    on.start == run.end
        || gap(allocation, *last, slot)
            .is_some_and(|mut slots| slots.all(|between| is_free(Slot { slot: between, ..slot })))
}

fn open(allocation: &Allocation, slot: Slot) -> Run {
    let extent = extent(allocation, slot);
    let on = pages(&extent);
    Run { at: on.start, end: on.end, slots: vec![(slot, extent)], beside: Vec::new() }
}

/// What lies on the pages of a run beside its records, and is on the device: clipped to these pages.
fn beside(allocation: &Allocation, run: &Run, waits: &impl Fn(Slot) -> bool) -> Vec<Range<u64>> {
    let mut found = Vec::new();
    let mut seen = run.at;
    for (n, (slot, own)) in run.slots.iter().enumerate() {
        // Each page once: up to the end of this record's pages, from the end of those before it.
        let on = pages(own);
        let fresh = seen.max(on.start)..on.end;
        seen = seen.max(on.end);
        if fresh.is_empty() || fresh.start >= own.start && fresh.end <= own.end {
            continue;
        }
        let own: BTreeSet<Slot> =
            run.slots[n..].iter().take_while(|(_, e)| e.start < on.end).map(|(s, _)| *s).collect();
        for other in sharing(allocation, *slot, &fresh) {
            let held = allocation.get(other.allocator).is_held(other.slot);
            if held && !own.contains(&other) && !waits(other) {
                let lies = extent(allocation, other);
                found.push(lies.start.max(fresh.start)..lies.end.min(fresh.end));
            }
        }
    }
    found
}

/// The pages that have to be read first, each run of them once.
pub fn to_read(run: &Run) -> Vec<Range<u64>> {
    let mut reads: Vec<Range<u64>> = Vec::new();
    for range in &run.beside {
        let on = pages(range);
        match reads.last_mut() {
            Some(last) if on.start <= last.end => last.end = last.end.max(on.end),
            _ => reads.push(on),
        }
    }
    reads
}

/// The pages of the heap in which a slot lies.
pub fn pages_of(allocation: &Allocation, slot: Slot) -> (Range<u64>, Range<u64>) {
    let lies = extent(allocation, slot);
    (pages(&lies), lies)
}

#[cfg(test)]
mod tests;

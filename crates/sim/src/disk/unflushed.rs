//! What a power cut can still take away: completed writes that no flush has covered, and how a cut decides.
//!
//! The store always holds the newest content. Each entry here remembers, for one write, the slots before and after it,
//! so a cut can go back to what is durable and then forward again with any part of each write. Entries are in the
//! order of completion; a later write to the same sector is never undone in favour of an earlier one that survived.

use super::store::{PAGE, Slot, Store};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use std::collections::VecDeque;

/// The unit in which a write can tear.
pub(super) const SECTOR: u64 = 512;

/// Which of the writes that were not flushed survive a power cut.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Survival {
    /// Of each write, also of those in flight, by chance: all, nothing, a beginning, an end, or any sectors.
    #[default]
    Random,
    /// Nothing.
    Nothing,
    /// Everything, also what was in flight.
    Everything,
    /// In the order of completion, by chance a number of whole writes and a beginning of the next.
    Prefix,
    /// Of the writes in the order of completion, and then those in flight, the ones whose bit is set, whole.
    Chosen(u64),
}

/// How much of one write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Nothing,
    Whole,
    /// Sectors before this one.
    Head(u64),
    /// Sectors from this one on.
    Tail(u64),
    /// Each sector with even odds.
    Scattered,
}

impl Survival {
    /// What survives of each of the writes with these many sectors, in order.
    pub(super) fn decide(self, sectors: &[u64], random: &mut ChaCha8Rng) -> Vec<Part> {
        let below = |random: &mut ChaCha8Rng, n: u64| ((u128::from(random.next_u64()) * u128::from(n)) >> 64) as u64;
        match self {
            Survival::Nothing => vec![Part::Nothing; sectors.len()],
            Survival::Everything => vec![Part::Whole; sectors.len()],
            Survival::Prefix => {
                let whole = below(random, sectors.len() as u64 + 1) as usize;
                let part = |(index, count): (usize, &u64)| match index.cmp(&whole) {
                    std::cmp::Ordering::Less => Part::Whole,
                    std::cmp::Ordering::Equal => Part::Head(below(random, count + 1)),
                    std::cmp::Ordering::Greater => Part::Nothing,
                };
                sectors.iter().enumerate().map(part).collect()
            }
            Survival::Chosen(bits) => {
                let part = |i: usize| if i < 64 && bits >> i & 1 == 1 { Part::Whole } else { Part::Nothing };
                (0..sectors.len()).map(part).collect()
            }
            Survival::Random => {
                // Some cuts are kind and some are not, so that whole histories of either sort occur.
                let kindness = below(random, 101);
                let part = |count: &u64| {
                    if below(random, 3) > 0 {
                        return if below(random, 100) < kindness { Part::Whole } else { Part::Nothing };
                    }
                    match below(random, 3) {
                        0 => Part::Head(below(random, count + 1)),
                        1 => Part::Tail(below(random, count + 1)),
                        _ => Part::Scattered,
                    }
                };
                sectors.iter().map(part).collect()
            }
        }
    }
}

struct Entry {
    serial: u64,
    offset: u64,
    length: u64,
    before: Vec<Slot>,
    after: Vec<Slot>,
    /// It was made durable alone; some before it was not.
    durable: bool,
}

impl Entry {
    fn pages(&self) -> std::ops::Range<u64> {
        pages(self.offset, self.length)
    }
}

fn pages(offset: u64, length: u64) -> std::ops::Range<u64> {
    offset / PAGE as u64..(offset + length).div_ceil(PAGE as u64)
}

/// The writes a power cut can take away.
pub(super) struct Unflushed {
    /// The most bytes of entries.
    limit: u64,
    bytes: u64,
    serial: u64,
    entries: VecDeque<Entry>,
}

impl Unflushed {
    pub(super) fn new(limit: u64) -> Unflushed {
        Unflushed { limit, bytes: 0, serial: 0, entries: VecDeque::new() }
    }

    /// Bytes in completed writes that no flush has covered.
    pub(super) fn bytes(&self) -> u64 {
        self.in_doubt().map(|entry| entry.length).sum()
    }

    fn in_doubt(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| !entry.durable)
    }

    /// Writes to the store and remembers how to take it back; gives a hash of the data.
    pub(super) fn write(&mut self, store: &mut Store, offset: u64, data: &[u8]) -> u64 {
        let length = data.len() as u64;
        let keep = |store: &mut Store| -> Vec<Slot> {
            let slots = pages(offset, length).map(|page| store.slot(page)).collect::<Vec<_>>();
            slots.iter().for_each(|slot| store.retain(*slot));
            slots
        };
        let before = keep(store);
        let hash = store.write(offset, data);
        let after = keep(store);
        self.serial += 1;
        self.entries.push_back(Entry { serial: self.serial, offset, length, before, after, durable: false });
        self.bytes += length;
        while self.bytes > self.limit {
            self.settle_first(store);
        }
        hash
    }

    /// What a flush that starts now will cover.
    pub(super) fn mark(&self) -> u64 {
        self.serial
    }

    /// Everything up to `mark` is durable.
    pub(super) fn settle(&mut self, store: &mut Store, mark: u64) {
        while self.entries.front().is_some_and(|entry| entry.serial <= mark) {
            self.settle_first(store);
        }
    }

    /// The write that was the newest at `mark` is durable, and no other.
    pub(super) fn settle_one(&mut self, store: &mut Store, mark: u64) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.serial == mark) {
            entry.durable = true;
        }
        while self.entries.front().is_some_and(|entry| entry.durable) {
            self.settle_first(store);
        }
    }

    fn settle_first(&mut self, store: &mut Store) {
        if let Some(entry) = self.entries.pop_front() {
            self.bytes -= entry.length;
            entry.before.iter().chain(&entry.after).for_each(|slot| store.release(*slot));
        }
    }

    /// The sectors of each write that a cut decides about, in order of completion.
    pub(super) fn sectors(&self) -> Vec<u64> {
        self.in_doubt().map(|entry| entry.length / SECTOR).collect()
    }

    /// Makes the store what is durable plus these parts of the writes of [`Unflushed::sectors`], and forgets them.
    pub(super) fn cut(&mut self, store: &mut Store, parts: &[Part], random: &mut ChaCha8Rng) {
        for entry in self.entries.iter().rev() {
            for (page, slot) in entry.pages().zip(&entry.before) {
                store.restore(page, *slot);
            }
        }
        let mut parts = parts.iter();
        for entry in &self.entries {
            let mut image = Vec::new();
            for (page, slot) in entry.pages().zip(&entry.after) {
                let mut bytes = [0; PAGE];
                store.copy_slot(*slot, page, &mut bytes);
                image.extend_from_slice(&bytes);
            }
            let first = (entry.offset % PAGE as u64) as usize;
            let part = if entry.durable { Part::Whole } else { *parts.next().expect("there is one for each in doubt") };
            write_part(store, entry.offset, &image[first..first + entry.length as usize], part, random);
        }
        let everything = self.serial;
        self.settle(store, everything);
    }
}

/// Writes that part of `data` straight to the store.
pub(super) fn write_part(store: &mut Store, offset: u64, data: &[u8], part: Part, random: &mut ChaCha8Rng) {
    let place = |sector: u64| (sector * SECTOR).min(data.len() as u64) as usize;
    match part {
        Part::Nothing => (),
        Part::Whole => {
            store.write(offset, data);
        }
        Part::Head(sector) => {
            store.write(offset, &data[..place(sector)]);
        }
        Part::Tail(sector) => {
            store.write(offset + place(sector) as u64, &data[place(sector)..]);
        }
        Part::Scattered => {
            for (index, sector) in data.chunks(SECTOR as usize).enumerate() {
                if random.next_u64() & 1 == 1 {
                    store.write(offset + index as u64 * SECTOR, sector);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;

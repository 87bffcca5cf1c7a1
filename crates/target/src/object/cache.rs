//! What was read ahead, until it is consumed and its room is needed.
//!
//! Owns which blocks of the device are in memory or on their way there, for which reader, and what goes when room is
//! needed: first what its reader has passed, the oldest first; then what belongs to readers that were not heard of for
//! long; then the furthest bytes of a reader that has more than its share. What an active reader has within its share
//! stays, however slowly it reads (Panasas ActiveScale, SC 2004, section 4.3: a plain queue punished slow clients).
//!
//! Blocks are found by where they lie on the device. They may be overwritten there meanwhile: whoever takes them
//! compares them with the checksum that the rows have, as with bytes that come from the device.
//!
//! Pure: no waiting, no I/O; what is kept is `T`.

use super::ahead::ACTIVE;
use forebay_model::{Bytes, Moment};
use std::collections::{BTreeMap, BTreeSet};

/// Something that is to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The device's block where it begins.
    pub at: u64,
    /// How many.
    pub blocks: u64,
    /// The memory that it takes.
    pub weight: Bytes,
    /// The context that it is read for.
    pub owner: u64,
    /// Where it lies in its object: the first byte, and the one behind the last.
    pub from: u64,
    /// See `from`.
    pub to: u64,
}

struct Entry<T> {
    wanted: Wanted,
    /// Nothing while it is on its way.
    content: Option<T>,
    /// Its place in the queue of what was consumed.
    consumed: Option<u64>,
}

#[derive(Default)]
struct Owner {
    /// Its blocks that it has not passed, by where they end in the object.
    entries: BTreeSet<(u64, u64)>,
    weight: u64,
    touched: Moment,
}

/// What has gone since it was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Evicted {
    /// Entries that their readers had passed.
    pub consumed: u64,
    /// Entries that nobody had read.
    pub unconsumed: u64,
}

/// The cache. `T` is what is kept of blocks.
pub struct Cache<T> {
    most: Bytes,
    weight: u64,
    entries: BTreeMap<u64, Entry<T>>,
    consumed: BTreeSet<(u64, u64)>,
    passed: u64,
    owners: BTreeMap<u64, Owner>,
    evicted: Evicted,
}

impl<T> Cache<T> {
    /// An empty one for `most` bytes.
    pub fn new(most: Bytes) -> Cache<T> {
        Cache {
            most,
            weight: 0,
            entries: BTreeMap::new(),
            consumed: BTreeSet::new(),
            passed: 0,
            owners: BTreeMap::new(),
            evicted: Evicted::default(),
        }
    }

    /// The most bytes it keeps.
    pub fn most(&self) -> Bytes {
        self.most
    }

    /// Bytes it keeps, those on their way included.
    pub fn weight(&self) -> Bytes {
        Bytes(self.weight)
    }

    /// What has gone.
    pub fn evicted(&self) -> Evicted {
        self.evicted
    }

    /// The entry that has block `at`: where it begins, how many blocks it has, and the bytes if they have come.
    pub fn find(&self, at: u64) -> Option<(u64, u64, Option<&T>)> {
        let (first, entry) = self.entries.range(..=at).next_back()?;
        (at < first + entry.wanted.blocks).then_some((*first, entry.wanted.blocks, entry.content.as_ref()))
    }

    /// The parts of these blocks that are not here.
    pub fn missing(&self, at: u64, blocks: u64) -> Vec<(u64, u64)> {
        let (mut from, end) = (at, at + blocks);
        let mut missing = Vec::new();
        let before = self.entries.range(..at).next_back().map_or(at, |(first, _)| *first);
        for (first, entry) in self.entries.range(before..end) {
            if *first > from {
                missing.push((from, first - from));
            }
            from = from.max(first + entry.wanted.blocks);
        }
        if from < end {
            missing.push((from, end - from));
        }
        missing
    }

    /// Keeps room for something that is about to be read, where nothing is yet; `share` is what each reader may have.
    /// Whether there is room. What had to go without having been read is added to `lost`: whose, and from where on.
    pub fn reserve(&mut self, wanted: Wanted, share: Bytes, now: Moment, lost: &mut Vec<(u64, u64)>) -> bool {
        debug_assert_eq!(self.missing(wanted.at, wanted.blocks), [(wanted.at, wanted.blocks)]);
        while self.weight + wanted.weight.0 > self.most.0 {
            let Some(at) = self.victim(wanted.owner, share, now) else { return false };
            let entry = self.remove(at).expect("it was there");
            if entry.consumed.is_some() {
                self.evicted.consumed += 1;
            } else {
                self.evicted.unconsumed += 1;
                lost.push((entry.wanted.owner, entry.wanted.from));
            }
        }
        self.weight += wanted.weight.0;
        let owner = self.owners.entry(wanted.owner).or_insert_with(|| Owner { touched: now, ..Owner::default() });
        owner.entries.insert((wanted.to, wanted.at));
        owner.weight += wanted.weight.0;
        self.entries.insert(wanted.at, Entry { wanted, content: None, consumed: None });
        true
    }

    /// What goes first.
    fn victim(&self, but: u64, share: Bytes, now: Moment) -> Option<u64> {
        if let Some((_, at)) = self.consumed.first() {
            return Some(*at);
        }
        let here = |(_, at): &&(u64, u64)| self.entries[at].content.is_some();
        let others = || self.owners.iter().filter(|(number, _)| **number != but);
        let silent = others().filter(|(_, owner)| now.since(owner.touched) > ACTIVE);
        let of_silent = silent.filter_map(|(_, o)| o.entries.iter().rev().find(here).map(|entry| (o.touched, entry.1)));
        if let Some((_, at)) = of_silent.min() {
            return Some(at);
        }
        let greedy = others().filter(|(_, owner)| owner.weight > share.0);
        let of_greedy = greedy.filter_map(|(_, o)| o.entries.iter().rev().find(here).map(|entry| (o.weight, entry.1)));
        of_greedy.max().map(|(_, at)| at)
    }

    /// What was on its way has come.
    pub fn fill(&mut self, at: u64, content: T) {
        if let Some(entry) = self.entries.get_mut(&at) {
            entry.content = Some(content);
            let (owner, number) = (entry.wanted.owner, self.passed);
            // Its reader may have gone, or have been faster.
            if !self.owners.get(&owner).is_some_and(|o| o.entries.contains(&(entry.wanted.to, at))) {
                entry.consumed = Some(number);
                self.consumed.insert((number, at));
                self.passed += 1;
            }
        }
    }

    /// Takes something out: it did not come, or is not what it should be.
    pub fn drop_entry(&mut self, at: u64) {
        self.remove(at);
    }

    fn remove(&mut self, at: u64) -> Option<Entry<T>> {
        let entry = self.entries.remove(&at)?;
        self.weight -= entry.wanted.weight.0;
        if let Some(number) = entry.consumed {
            self.consumed.remove(&(number, at));
        }
        self.disown(&entry.wanted);
        Some(entry)
    }

    fn disown(&mut self, wanted: &Wanted) {
        if let Some(owner) = self.owners.get_mut(&wanted.owner)
            && owner.entries.remove(&(wanted.to, wanted.at))
        {
            owner.weight -= wanted.weight.0;
            if owner.entries.is_empty() {
                self.owners.remove(&wanted.owner);
            }
        }
    }

    /// The reader of `owner` is at byte `last` of its object now.
    pub fn pass(&mut self, owner: u64, last: u64, now: Moment) {
        let Some(of) = self.owners.get_mut(&owner) else { return };
        of.touched = now;
        let passed: Vec<u64> = of.entries.range(..=(last, u64::MAX)).map(|(_, at)| *at).collect();
        self.consume(&passed);
    }

    /// There is no such reader any more.
    pub fn forget(&mut self, owner: u64) {
        let Some(of) = self.owners.get(&owner) else { return };
        let left: Vec<u64> = of.entries.iter().map(|(_, at)| *at).collect();
        self.consume(&left);
    }

    fn consume(&mut self, entries: &[u64]) {
        for at in entries {
            let Some(entry) = self.entries.get_mut(at) else { continue };
            let wanted = entry.wanted;
            if entry.content.is_some() {
                entry.consumed = Some(self.passed);
                self.consumed.insert((self.passed, *at));
                self.passed += 1;
            }
            self.disown(&wanted);
        }
    }
}

#[cfg(test)]
mod tests;

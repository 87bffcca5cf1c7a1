//! All rows of a target, in leaves: those that were looked at lately or changed are in memory, the rest on the device.
//!
//! Owns which leaf has which keys, where each lies, and which have changed. Two levels: the catalog names the leaves.
//! Leaves are never overwritten: [`Tree::cut`] says where the changed ones are to go, and the old places are free once
//! a catalog that names the new ones is durable. Nothing here waits; whoever needs a leaf that is not in memory is told
//! its place ([`Tree::missing`]) and brings it ([`Tree::bring`]).

use super::rows::{BLOCK, Key, LEAF_SPLIT, Row, Rows, encode_leaf};
use forebay_model::block::crc32c;
use forebay_model::{Bytes, Result, TargetId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Where a leaf lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The device's block where it begins.
    pub at: u64,
    /// Its length in blocks.
    pub blocks: u32,
    /// CRC-32C of all its bytes.
    pub crc: u32,
}

/// A leaf as the catalog names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeafRecord {
    /// No key in it is below.
    pub first: Key,
    /// Where it lies.
    pub place: Place,
}

/// Bytes of memory for rows, unless told otherwise: those of a million blocks in logs, since a small write whose rows
/// are not there waits for a read.
pub const ROWS_IN_MEMORY: usize = 256 << 20;
/// What a row takes in memory beside its own bytes: a place in a node of a tree that is half full at worst.
const ROW_IN_MEMORY: usize = 2 * size_of::<(Key, Row)>();
/// What a leaf in memory takes beside its rows.
const LEAF_IN_MEMORY: usize = 200;
/// Bytes that name a leaf in the catalog at most.
pub const NAMED_AT_MOST: u64 = 51;
/// What its name grows by at most when it goes to another place.
const MOVED_AT_MOST: u64 = 17;

impl LeafRecord {
    /// Bytes that it takes in the catalog.
    fn named(&self) -> u64 {
        postcard::experimental::serialized_size(self).map_or(NAMED_AT_MOST, |bytes| bytes as u64)
    }
}

struct Leaf {
    rows: Option<Rows>,
    weight: usize,
    place: Option<Place>,
    dirty: bool,
    /// Whether it was cut and is not on the device yet: until then it cannot be brought from there.
    writing: bool,
    /// When it was last looked at, in looks.
    looked: u64,
}

/// What leaves take: kept up with each change, since every command asks, and a large target has many leaves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sums {
    /// Bytes that rows in memory take there.
    memory: usize,
    /// Those of them that take leaves which have not changed, and so may be forgotten.
    clean: usize,
    /// Bytes of rows that have changed.
    dirty: usize,
    /// Blocks that the next cut takes at most.
    blocks: u64,
    /// Bytes that the names of leaves grow by at most with the next cut.
    names: u64,
    /// Leaves that are not in memory.
    absent: usize,
}

impl Leaf {
    /// Its rows, which must be in memory.
    fn in_memory(&self) -> &Rows {
        self.rows.as_ref().expect("it was brought")
    }

    /// What it takes, where leaves are cut at `split` bytes.
    fn sums(&self, split: usize) -> Sums {
        let Some(rows) = &self.rows else { return Sums { absent: 1, ..Sums::default() } };
        let memory = self.weight + rows.len() * ROW_IN_MEMORY + LEAF_IN_MEMORY;
        if !self.dirty {
            let clean = if self.writing { 0 } else { memory };
            return Sums { memory, clean, ..Sums::default() };
        }
        // Two that follow one another are together larger than what they were cut at.
        let parts = self.weight / (split * 3 / 8) + 1;
        // And one that has not changed may be joined to it.
        let joined = self.weight.max(split / 2);
        let blocks = Bytes((joined + 128 * parts) as u64).align_up(BLOCK).0 / BLOCK.0 + parts as u64;
        let unnamed = parts as u64 - u64::from(self.place.is_some());
        let names = unnamed * NAMED_AT_MOST + 2 * MOVED_AT_MOST;
        Sums { memory, clean: 0, dirty: self.weight, blocks, names, absent: 0 }
    }
}

impl Sums {
    fn of(leaves: &BTreeMap<Key, Leaf>, split: usize) -> Sums {
        leaves.values().fold(Sums::default(), |all, leaf| all.changed(Sums::default(), leaf.sums(split)))
    }

    /// These, with a leaf that had `before` and has `after`.
    fn changed(self, before: Sums, after: Sums) -> Sums {
        Sums {
            memory: self.memory - before.memory + after.memory,
            clean: self.clean - before.clean + after.clean,
            dirty: self.dirty - before.dirty + after.dirty,
            blocks: self.blocks - before.blocks + after.blocks,
            names: self.names - before.names + after.names,
            absent: self.absent - before.absent + after.absent,
        }
    }
}

/// The rows of a target.
pub struct Tree {
    target: TargetId,
    leaves: BTreeMap<Key, Leaf>,
    sums: Sums,
    looks: u64,
    /// Bytes of memory for rows: beyond it those are forgotten that have not changed.
    most: usize,
    /// Bytes at which a leaf is cut in two.
    split: usize,
    /// Places that are free when the next cut is durable, beside those of leaves that change with it.
    left: Vec<Place>,
    /// Bytes that the leaves' names take in the catalog, as of the last cut.
    named: u64,
}

/// Leaves to be written, and what they leave behind.
pub struct Cut {
    /// Places and bytes of the changed leaves.
    pub writes: Vec<(u64, Vec<u8>)>,
    /// All leaves as the catalog is to name them.
    pub leaves: Vec<LeafRecord>,
    /// Places that are free when that catalog is durable.
    pub left: Vec<Place>,
}

impl Tree {
    /// The tree that the catalog names; an empty one if it names no leaf.
    pub fn new(target: TargetId, records: &[LeafRecord]) -> Tree {
        let known = |record: &LeafRecord| {
            let leaf =
                Leaf { rows: None, weight: 0, place: Some(record.place), dirty: false, writing: false, looked: 0 };
            (record.first, leaf)
        };
        let mut leaves: BTreeMap<Key, Leaf> = records.iter().map(known).collect();
        leaves.entry(Key::FIRST).or_insert_with(|| Leaf {
            rows: Some(Rows::new()),
            weight: 0,
            place: None,
            dirty: false,
            writing: false,
            looked: 0,
        });
        let sums = Sums::of(&leaves, LEAF_SPLIT);
        let named = records.iter().map(LeafRecord::named).sum();
        Tree { target, leaves, sums, looks: 0, most: ROWS_IN_MEMORY, split: LEAF_SPLIT, left: Vec::new(), named }
    }

    /// The first leaf with keys in `from..=to` that is not in memory.
    pub fn missing(&self, from: Key, to: Key) -> Option<LeafRecord> {
        if self.sums.absent == 0 {
            return None;
        }
        let first = *self.leaves.range(..=from).next_back().map_or(&Key::FIRST, |(key, _)| key);
        let absent = self.leaves.range(first..=to).find(|(_, leaf)| leaf.rows.is_none());
        absent.map(|(first, leaf)| LeafRecord {
            first: *first,
            place: leaf.place.expect("a leaf is in memory or has a place"),
        })
    }

    /// How many leaves have keys in any of these ranges, at most: one that has keys of several counts for each.
    pub fn leaves_of(&self, ranges: &[(Key, Key)]) -> usize {
        let of = |(from, to): &(Key, Key)| 1 + self.leaves.range((Bound::Excluded(from), Bound::Included(to))).count();
        ranges.iter().map(of).sum()
    }

    /// Takes the rows of a leaf that was missing, unless it has come or changed meanwhile.
    pub fn bring(&mut self, record: &LeafRecord, rows: Rows) {
        if let Some(leaf) = self.leaves.get_mut(&record.first)
            && leaf.rows.is_none()
            && leaf.place == Some(record.place)
        {
            let before = leaf.sums(self.split);
            leaf.weight = rows.values().map(Row::weight).sum();
            leaf.rows = Some(rows);
            self.looks += 1;
            leaf.looked = self.looks;
            self.sums = self.sums.changed(before, leaf.sums(self.split));
        }
    }

    /// Changes the leaf with `key`.
    fn change<T>(&mut self, key: &Key, change: impl FnOnce(&mut Leaf) -> T) -> T {
        self.looks += 1;
        let leaf = self.leaves.range_mut(..=*key).next_back().expect("the first leaf has every low key").1;
        leaf.looked = self.looks;
        let before = leaf.sums(self.split);
        let result = change(leaf);
        self.sums = self.sums.changed(before, leaf.sums(self.split));
        result
    }

    /// The leaf with `key`, and the first key that it may have.
    fn leaf_with(&self, key: &Key) -> (&Key, &Leaf) {
        self.leaves.range(..=*key).next_back().expect("the first leaf has every low key")
    }

    /// The row at `key`. Its leaf must be in memory.
    pub fn get(&self, key: &Key) -> Option<&Row> {
        self.leaf_with(key).1.in_memory().get(key)
    }

    /// The rows in `range`, in order. Their leaves must be in memory.
    pub fn range(&self, from: Key, to: Key) -> impl DoubleEndedIterator<Item = (&Key, &Row)> {
        let within = (Bound::Included(from), Bound::Included(to));
        let (first, last) = self.leaf_with(&to);
        // Mostly one leaf has them all, and to find the others' ends would cost more than the rows.
        let (lone, several) = match *first <= from {
            true => (Some(last), None),
            false => (None, Some(self.leaves.range(*self.leaf_with(&from).0..=to))),
        };
        let leaves = lone.into_iter().chain(several.into_iter().flatten().map(|(_, leaf)| leaf));
        leaves.flat_map(move |leaf| leaf.in_memory().range(within))
    }

    /// The rows in `from..=to`, and before them the last one of those from `low` on: what begins before a range may reach
    /// into it. Their leaves must be in memory.
    pub fn reaching(&self, low: Key, from: Key, to: Key) -> impl DoubleEndedIterator<Item = (&Key, &Row)> {
        self.range(self.last_before(low, from).unwrap_or(from), to)
    }

    /// The last key from `low` on and below `end` that has a row.
    fn last_before(&self, low: Key, end: Key) -> Option<Key> {
        let (first, leaf) = self.leaf_with(&end);
        let near = leaf.in_memory().range(low..end).next_back();
        let mut far = (near.is_none() && *first > low).then(|| self.range(low, end).rev()).into_iter().flatten();
        near.or_else(|| far.find(|(key, _)| **key < end)).map(|(key, _)| *key)
    }

    /// The rows from `from` on that are in the same leaf, which must be in memory.
    pub fn rest_of_leaf(&self, from: Key) -> impl Iterator<Item = (&Key, &Row)> {
        self.leaf_with(&from).1.in_memory().range(from..)
    }

    /// The first key of the leaf behind that of `from`, if it is not above `to`.
    pub fn leaf_end(&self, from: Key, to: Key) -> Option<Key> {
        self.leaves.range((Bound::Excluded(from), Bound::Included(to))).next().map(|(key, _)| *key)
    }

    /// Where the leaf that has `key` lies, if it lies anywhere.
    pub fn leaf_of(&self, key: Key) -> Option<LeafRecord> {
        let (first, leaf) = self.leaves.range(..=key).next_back()?;
        Some(LeafRecord { first: *first, place: leaf.place? })
    }

    /// Puts a row; what was there. Its leaf must be in memory.
    pub fn put(&mut self, key: Key, row: Row) -> Option<Row> {
        self.change(&key, |leaf| {
            leaf.dirty = true;
            leaf.weight += row.weight();
            let old = leaf.rows.as_mut().expect("it was brought").insert(key, row);
            leaf.weight -= old.as_ref().map_or(0, Row::weight);
            old
        })
    }

    /// Changes the row at `key`, if there is one. Its leaf must be in memory.
    pub fn alter(&mut self, key: &Key, alter: impl FnOnce(&mut Row)) {
        self.change(key, |leaf| {
            let Some(row) = leaf.rows.as_mut().expect("it was brought").get_mut(key) else { return };
            leaf.dirty = true;
            leaf.weight -= row.weight();
            alter(row);
            leaf.weight += row.weight();
        });
    }

    /// Takes a row away. Its leaf must be in memory.
    pub fn take(&mut self, key: &Key) -> Option<Row> {
        self.change(key, |leaf| {
            let old = leaf.rows.as_mut().expect("it was brought").remove(key)?;
            leaf.dirty = true;
            leaf.weight -= old.weight();
            Some(old)
        })
    }

    /// Bytes that rows in memory take there.
    pub fn memory(&self) -> usize {
        self.sums.memory
    }

    /// Leaves, in memory or not.
    pub fn leaves(&self) -> usize {
        self.leaves.len()
    }

    /// See [`ROWS_IN_MEMORY`].
    pub fn set_most(&mut self, most: Bytes) {
        self.most = most.0 as usize;
    }

    /// Memory for rows that have not changed.
    pub fn most(&self) -> Bytes {
        Bytes(self.most as u64)
    }

    /// Leaves are cut at so many bytes from now on, and not at [`LEAF_SPLIT`].
    pub fn set_split(&mut self, bytes: usize) {
        self.split = bytes.max(64);
        self.sums = Sums::of(&self.leaves, self.split);
    }

    /// As [`Tree::shrink`], if more is in memory than may be and it is worth looking for what may be forgotten.
    pub fn trim(&mut self) {
        if self.sums.memory > self.most && self.sums.clean > self.most / 8 {
            self.shrink(self.most / 8 * 7);
        }
    }

    /// Whether anything has changed since the last cut.
    pub fn is_dirty(&self) -> bool {
        self.leaves.values().any(|leaf| leaf.dirty)
    }

    /// Bytes of rows that have changed since the last cut.
    pub fn dirty(&self) -> usize {
        self.sums.dirty
    }

    /// Forgets leaves that have not changed, those not looked at for longest first, until `most` bytes are left.
    pub fn shrink(&mut self, most: usize) {
        if self.memory() <= most {
            return;
        }
        let mut clean: Vec<(u64, Key)> = Vec::new();
        for (key, leaf) in &self.leaves {
            if leaf.rows.is_some() && !leaf.dirty && !leaf.writing && leaf.place.is_some() {
                clean.push((leaf.looked, *key));
            }
        }
        clean.sort_unstable();
        for (_, key) in clean {
            if self.memory() <= most {
                return;
            }
            let leaf = self.leaves.get_mut(&key).expect("it was there");
            let before = leaf.sums(self.split);
            leaf.rows = None;
            self.sums = self.sums.changed(before, leaf.sums(self.split));
        }
    }

    /// All leaves with their places: those that changed are cut to size and get new ones from `allocate`. If that has
    /// no room, what has changed is still to be written.
    pub fn cut(&mut self, mut allocate: impl FnMut(u32) -> Result<u64>) -> Result<Cut> {
        self.join();
        self.part();
        self.sums = Sums::of(&self.leaves, self.split);
        let mut writes = Vec::new();
        let mut places = Vec::new();
        for (first, leaf) in self.leaves.iter().filter(|(_, leaf)| leaf.dirty) {
            let bytes = encode_leaf(self.target, *first, leaf.rows.as_ref().expect("what changed is in memory"))?;
            let blocks = (bytes.len() as u64 / BLOCK.0) as u32;
            let place = Place { at: allocate(blocks)?, blocks, crc: crc32c(&bytes) };
            writes.push((place.at, bytes));
            places.push(place);
        }
        let mut left = std::mem::take(&mut self.left);
        for (leaf, place) in self.leaves.values_mut().filter(|leaf| leaf.dirty).zip(places) {
            left.extend(leaf.place.replace(place));
            leaf.dirty = false;
            leaf.writing = true;
        }
        self.sums = Sums::of(&self.leaves, self.split);
        let leaves: Vec<LeafRecord> = self.placed().collect();
        self.named = leaves.iter().map(LeafRecord::named).sum();
        Ok(Cut { writes, leaves, left })
    }

    /// The leaves that have places.
    fn placed(&self) -> impl Iterator<Item = LeafRecord> {
        self.leaves.iter().filter_map(|(first, leaf)| Some(LeafRecord { first: *first, place: leaf.place? }))
    }

    /// What was cut is not all on the device, and no catalog names it: it is still to be written. The places that it had,
    /// which are free; those in `left` are when the next cut is durable.
    pub fn uncut(&mut self, left: Vec<Place>) -> Vec<Place> {
        let mut taken = Vec::new();
        for leaf in self.leaves.values_mut().filter(|leaf| leaf.writing) {
            taken.extend(leaf.place.take());
            (leaf.dirty, leaf.writing) = (true, false);
        }
        self.sums = Sums::of(&self.leaves, self.split);
        self.named = self.placed().map(|leaf| leaf.named()).sum();
        self.keep(left);
        taken
    }

    /// A catalog may still name these places: they are free when the next cut is durable.
    pub fn keep(&mut self, left: Vec<Place>) {
        self.left.extend(left);
    }

    /// What was cut is on the device, and may be forgotten.
    pub fn written(&mut self) {
        self.leaves.values_mut().for_each(|leaf| leaf.writing = false);
        self.sums = Sums::of(&self.leaves, self.split);
    }

    /// Blocks that the next cut takes at most.
    pub fn cut_blocks(&self) -> u64 {
        self.sums.blocks
    }

    /// Blocks that it takes beside those at most where so many `rows` with keys in `from..=to`, of this `weight` together,
    /// are put before it.
    pub fn blocks_for(&self, from: Key, to: Key, rows: usize, weight: usize) -> u64 {
        let Some(more) = rows.checked_sub(1) else { return 0 };
        let leaves = 1 + self.leaves.range((Bound::Excluded(from), Bound::Included(to))).take(more).count();
        let bytes = leaves * self.split + weight;
        let parts = bytes / (self.split * 3 / 8) + leaves;
        Bytes((bytes + 128 * parts) as u64).align_up(BLOCK).0 / BLOCK.0 + parts as u64
    }

    /// Bytes that the leaves' names take in the catalog, as of the last cut.
    pub fn named(&self) -> u64 {
        self.named
    }

    /// Bytes that they take at most with the next one.
    pub fn named_then(&self) -> u64 {
        self.named + self.sums.names
    }

    /// Joins leaves that changed and have become small with the one before, if that is in memory.
    fn join(&mut self) {
        let firsts: Vec<Key> = self.leaves.keys().copied().collect();
        for pair in firsts.windows(2).rev() {
            let [before, after] = pair else { continue };
            let (low, high) = (&self.leaves[before], &self.leaves[after]);
            let small = high.dirty && high.rows.is_some() && low.rows.is_some();
            if small && low.weight + high.weight < self.split / 2 {
                let high = self.leaves.remove(after).expect("it was there");
                self.left.extend(high.place);
                let low = self.leaves.get_mut(before).expect("it was there");
                low.weight += high.weight;
                low.dirty = true;
                low.rows.as_mut().expect("it is in memory").extend(high.rows.expect("it is in memory"));
            }
        }
    }

    /// Cuts leaves that changed and have become large in two or more.
    fn part(&mut self) {
        let large = |(_, leaf): &(&Key, &Leaf)| leaf.dirty && leaf.weight > self.split;
        let firsts: Vec<Key> = self.leaves.iter().filter(large).map(|(first, _)| *first).collect();
        for first in firsts {
            let leaf = self.leaves.get_mut(&first).expect("it was there");
            let rows = std::mem::take(leaf.rows.as_mut().expect("what changed is in memory"));
            let looked = leaf.looked;
            let mut parts: Vec<(Key, Rows, usize)> = vec![(first, Rows::new(), 0)];
            for (key, row) in rows {
                let weight = row.weight();
                let (_, part, size) = parts.last().expect("there is one");
                if !part.is_empty() && size + weight > self.split * 3 / 4 {
                    parts.push((key, Rows::new(), 0));
                }
                let (_, part, size) = parts.last_mut().expect("there is one");
                *size += weight;
                part.insert(key, row);
            }
            for (key, rows, weight) in parts {
                let place = (key == first).then(|| self.leaves[&first].place).flatten();
                self.leaves.insert(key, Leaf { rows: Some(rows), weight, place, dirty: true, writing: false, looked });
            }
        }
    }
}

#[cfg(test)]
mod tests;

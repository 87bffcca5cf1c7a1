//! What copies say: the objects of all targets, read in the order of their numbers.
//!
//! Always: what was whole once stays until another one is whole. What a later object says of a key replaces what an earlier one said,
//! and where its pieces have been, what it does not have is not there; all else is as it was before. So whatever was begun and not
//! written to its end, nothing is lost that was said before, and nothing that was said since. Nothing is called whole of which any
//! target had more that cannot be read.

mod reading;

use super::record::{Change, Found, Record};
use crate::engine::Pair;
use crate::keys;
use forebay_model::{Error, Result, TargetId, Timestamp};
use forebay_wire::control::names::FileId;
use reading::Reading;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// What copies say together.
#[derive(Debug, Default)]
pub struct Chain {
    /// What there was, by its keys.
    pub(crate) state: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Whose it is, and the target that said so first.
    cluster: Option<(u128, TargetId)>,
    /// The last opening of the manager.
    term: u64,
    /// When it was known last that it was so.
    at: Timestamp,
    /// Whether that is all that there was; and whether something was all that there was at some time.
    is_whole: bool,
    was_whole: bool,
    /// The object with which the chain began, the one that is read, and the last batch of it.
    base: u64,
    pub(super) object: u64,
    pub(super) batch: u64,
    /// Records of that object which were done, the last key of its pieces, and all keys of its changes.
    done: usize,
    covered: Option<Vec<u8>>,
    changed: BTreeSet<Vec<u8>>,
    /// Of changes that count together: those that were read.
    waiting: Vec<Change>,
    /// Inodes that were there and are not any more, with where what they are of lay: the list of what is to be removed may not have been
    /// reached.
    gone: BTreeMap<Vec<u8>, Vec<u8>>,
    /// What is read was begun by a manager that was made anew. It says itself what it removed; what it does not have besides is of
    /// another one, of which it knew nothing.
    is_made_anew: bool,
    /// That object, as one target has it; behind what was not written wholly nothing of it counts.
    reading: Option<Reading>,
    /// Bytes of its records, and how many there would be with what some target has that is damaged.
    length: u64,
    damaged: u64,
    /// Of the object before, something that was damaged was on no other target, and nothing has shown yet that it is not needed.
    is_lacking: bool,
    /// The targets that have anything that is damaged.
    damaged_on: BTreeSet<TargetId>,
    /// How far each target goes.
    reached: BTreeMap<TargetId, Reached>,
}

/// How far the copy of a target goes.
#[derive(Debug, Default)]
struct Reached {
    object: u64,
    records: usize,
    at: Timestamp,
}

impl Chain {
    /// What follows is of this object, as this target has it. Objects come by rising number, each from all targets that have it: what
    /// one of them has is the beginning of what another has.
    pub fn begin(&mut self, target: TargetId, object: u64) {
        if let Some(reading) = self.reading.take() {
            self.damaged = self.damaged.max(reading.damaged());
            self.damaged_on.extend(Some(reading.target).filter(|_| reading.damaged() > 0));
        }
        if self.object != object {
            self.is_lacking |= self.damaged > self.length;
            (self.length, self.damaged) = (0, 0);
            self.object = object;
            self.done = 0;
            self.covered = None;
            self.changed.clear();
            self.waiting.clear();
        }
        self.reading = Some(Reading::new(target));
    }

    /// Takes the next bytes of it.
    pub fn take(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(mut reading) = self.reading.take() else { return Ok(()) };
        reading.part.extend_from_slice(bytes);
        while !reading.is_over {
            match Record::find(&reading.part[reading.at..])? {
                Found::Record(record, length) => {
                    reading.at += length;
                    if reading.is_new(&record, length) {
                        self.length = self.length.max(reading.length);
                        self.read(record, reading.target, reading.records)?;
                    }
                }
                Found::Part => break,
                Found::Nothing => reading.is_over = true,
            }
        }
        reading.pass();
        self.reading = Some(reading);
        Ok(())
    }

    /// The next bytes of it are so many, and damaged: nothing of it is read any more.
    pub fn take_damaged(&mut self, bytes: u64) {
        self.reading.iter_mut().for_each(|reading| reading.take_damaged(bytes));
    }

    /// Whether it is all that there was.
    pub fn is_whole(&self) -> bool {
        let damaged = self.reading.as_ref().map_or(0, Reading::damaged).max(self.damaged);
        self.is_whole && !self.is_lacking && damaged <= self.length
    }

    /// The targets that have something that is damaged; another one may have it whole.
    pub fn damaged(&self) -> BTreeSet<TargetId> {
        let last = self.reading.iter().filter(|reading| reading.damaged() > 0).map(|reading| reading.target);
        self.damaged_on.iter().copied().chain(last).collect()
    }

    /// Whether it is all that there was at some time, with what was said since.
    pub fn counts(&self) -> bool {
        self.was_whole
    }

    /// When it was known last that it was so.
    pub fn at(&self) -> Timestamp {
        self.at
    }

    /// How often the manager had been opened that wrote last.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Files, rings and heaps that were there and are not any more, though it may not be said what is to be removed for that: what was
    /// known of them last, by its keys.
    pub(crate) fn gone(&mut self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        std::mem::take(&mut self.gone)
    }

    /// The cluster, if anything of one was found.
    pub fn cluster(&self) -> Option<u128> {
        self.cluster.map(|(cluster, _)| cluster)
    }

    /// The targets that have anything: whether it goes as far as that of any other, and when it was written last.
    pub fn targets(&self) -> impl Iterator<Item = (TargetId, bool, Timestamp)> {
        let far = |reached: &Reached| (reached.object, reached.records);
        let furthest = self.reached.values().map(far).max();
        self.reached.iter().map(move |(target, reached)| (*target, Some(far(reached)) == furthest, reached.at))
    }

    /// That record of the object, as a target has it.
    fn read(&mut self, record: Record, target: TargetId, number: usize) -> Result<()> {
        if let Record::Begin { cluster, .. } = record {
            self.is_of(cluster, target)?;
        }
        let reached = self.reached.entry(target).or_default();
        (reached.object, reached.records) = (self.object, number);
        if let Record::Begin { begun: at, .. } | Record::Changes { at, .. } | Record::Whole { at } = record {
            reached.at = at;
        }
        // Another target had those before.
        if number > self.done {
            self.done = number;
            self.record(record);
        }
        Ok(())
    }

    fn is_of(&mut self, cluster: u128, target: TargetId) -> Result<()> {
        let (known, first) = *self.cluster.get_or_insert((cluster, target));
        if known == cluster {
            return Ok(());
        }
        Err(match first == target {
            true => Error::damaged(format!(
                "target {target} has copies of the metadata of two clusters, {known:032x} and {cluster:032x}; take the devices of one of \
                 them (nothing was changed)"
            )),
            false => Error::usage(format!(
                "targets {first} and {target} have copies of the metadata of two clusters; name the directories of one (nothing was changed)"
            )),
        })
    }

    fn record(&mut self, record: Record) {
        match record {
            Record::Begin { term, base, after, begun, .. } => {
                if self.base != base || after > self.batch {
                    // Something in between is in no object that was found, or another chain begins.
                    self.is_whole = false;
                    (self.base, self.batch) = (base, after);
                }
                // If anything of what was answered were missing, its batch would be.
                self.is_lacking = false;
                self.is_made_anew |= after == 0;
                (self.term, self.at) = (self.term.max(term), begun);
            }
            Record::Changes { batch, more, at, writes } => {
                self.waiting.extend(writes);
                if !more {
                    for (key, value) in std::mem::take(&mut self.waiting) {
                        self.changed.insert(key.clone());
                        match value {
                            Some(value) => drop(self.state.insert(key, value)),
                            None => drop(self.state.remove(&key)),
                        }
                    }
                    (self.batch, self.at) = (batch, at);
                    if self.is_made_anew {
                        self.gone.clear();
                    }
                }
            }
            Record::Piece { pairs } => {
                let last = pairs.last().map(|(key, _)| key.clone());
                if let Some(last) = last.filter(|last| self.covered.as_ref().is_none_or(|covered| covered < last)) {
                    self.forget(Bound::Included(&last), &pairs);
                    self.covered = Some(last);
                }
                self.state.extend(pairs);
            }
            Record::Whole { at } => {
                self.forget(Bound::Unbounded, &[]);
                (self.is_whole, self.was_whole) = (true, true);
                // What is to be removed is among it.
                self.is_made_anew = false;
                self.gone.clear();
                self.at = at;
            }
        }
    }

    /// What there was behind the pieces before and up to this, when the object began, is in the one that comes or not there any more.
    fn forget(&mut self, to: Bound<&Vec<u8>>, comes: &[Pair]) {
        let from = self.covered.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let range = (from.cloned(), to.cloned());
        let Chain { state, changed, gone, is_made_anew, .. } = self;
        let comes = |key: &Vec<u8>| comes.binary_search_by(|(other, _)| other.cmp(key)).is_ok();
        let is_over = |key: &Vec<u8>| !changed.contains(key) && !comes(key);
        for (key, value) in state.extract_if(range, |key, _| is_over(key)) {
            let is_gone = match key.first() {
                Some(b'I') => true,
                Some(&keys::RING_MOVES | &keys::LAYOUTS) => gone.contains_key(&keys::inode(FileId(keys::number(&key)))),
                _ => false,
            };
            if is_gone && !*is_made_anew {
                gone.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests;

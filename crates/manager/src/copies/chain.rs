//! What a copy says, as its objects are read in the order of their numbers.

use super::record::{Change, Found, Record};
use forebay_model::{Error, Result, Timestamp};
use std::collections::BTreeMap;

/// The copy of a target.
#[derive(Debug, Default)]
pub struct Chain {
    /// What there was, by its keys.
    pub(crate) state: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Whose it is.
    cluster: u128,
    /// The last opening of the manager.
    term: u64,
    /// When it was known last that it was so.
    at: Timestamp,
    /// Whether that is all that there was.
    is_whole: bool,
    /// The object with which the chain began, the one that is read, and the last batch of it.
    base: u64,
    object: u64,
    batch: u64,
    /// Of changes that count together: those that were read.
    waiting: Vec<Change>,
    /// Bytes of a record whose end was not read.
    part: Vec<u8>,
    /// Behind what was not written wholly, nothing of an object counts.
    is_over: bool,
}

impl Chain {
    /// What follows is of this object.
    pub fn begin(&mut self, object: u64) {
        self.object = object;
        self.waiting.clear();
        self.part.clear();
        self.is_over = false;
    }

    /// Takes the next bytes of an object.
    pub fn take(&mut self, bytes: &[u8]) -> Result<()> {
        if self.is_over {
            return Ok(());
        }
        let mut part = std::mem::take(&mut self.part);
        part.extend_from_slice(bytes);
        let mut at = 0;
        loop {
            match Record::find(&part[at..])? {
                Found::Record(record, length) => {
                    self.record(record)?;
                    at += length;
                }
                Found::Part => {
                    self.part = part.split_off(at);
                    return Ok(());
                }
                Found::Nothing => {
                    self.is_over = true;
                    return Ok(());
                }
            }
        }
    }

    /// Whether it is a copy of all that there was.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// When it was known last that it was so.
    pub fn at(&self) -> Timestamp {
        self.at
    }

    /// Of two copies the one that counts is greater: a whole one before others, then the newer one.
    pub fn rank(&self) -> (bool, u64, u64) {
        (self.is_whole, self.object, self.batch)
    }

    /// How often the manager had been opened that wrote last.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// The cluster, if anything of one was found.
    pub fn cluster(&self) -> Option<u128> {
        (self.cluster != 0).then_some(self.cluster)
    }

    fn record(&mut self, record: Record) -> Result<()> {
        match record {
            Record::Begin { cluster, term, base, after, begun } => {
                if self.cluster != 0 && self.cluster != cluster {
                    return Err(Error::damaged(format!(
                        "the target has copies of the metadata of two clusters, {:032x} and {cluster:032x}; take the devices of \
                         one of them",
                        self.cluster
                    )));
                }
                // What others had and this one missed is in none of its objects.
                if self.base != base || after > self.batch {
                    self.state.clear();
                    self.is_whole = false;
                }
                (self.base, self.batch) = (base, after);
                (self.cluster, self.term, self.at) = (cluster, term, begun);
            }
            Record::Changes { batch, more, at, writes } => {
                self.waiting.extend(writes);
                if !more {
                    for (key, value) in std::mem::take(&mut self.waiting) {
                        match value {
                            Some(value) => drop(self.state.insert(key, value)),
                            None => drop(self.state.remove(&key)),
                        }
                    }
                    (self.batch, self.at) = (batch, at);
                }
            }
            Record::Piece { pairs } => self.state.extend(pairs),
            Record::Whole { at } => {
                self.is_whole = true;
                self.at = at;
            }
        }
        Ok(())
    }
}

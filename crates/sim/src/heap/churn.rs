//! Records of random sizes that are replaced at random, each by one of another size: what small results, sessions and
//! queues do to a store. It is filled first; what is measured is the replacing.

use super::load::{Tell, normal, tell_now_and_then};
use forebay_btree::PageStore;
use forebay_env::Random;
use forebay_model::heap::LARGEST_RECORD;
use forebay_model::{Error, Result};
use std::rc::Rc;

/// Bytes of a record on average, of the least and of the largest: that one fits the largest slot.
const MEAN: f64 = 1536.0;
const LEAST: f64 = 64.0;
const MOST: f64 = 8182.0;
/// How different records are: the logarithm of their size has this deviation.
const SPREAD: f64 = 0.8;

/// What is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Records that are there at any moment.
    pub keys: u64,
    /// Bytes of each; `None`: from 64 to 8182, 1.5 KB on average, log-normal.
    pub record: Option<usize>,
    /// Replacements for each record that is there.
    pub rounds: u64,
    /// Replacements between commits.
    pub per_commit: u64,
}

impl Load {
    fn check(&self) -> Result<()> {
        if self.keys == 0 || self.per_commit == 0 || self.rounds == 0 {
            return Err(Error::usage("give at least one key, one round, and commit after at least one replacement"));
        }
        check_size(self.record)?;
        check_total(self.keys, self.rounds)
    }
}

/// Whether a record may have so many bytes.
pub fn check_size(record: Option<usize>) -> Result<()> {
    if record.is_some_and(|bytes| !(1..=LARGEST_RECORD).contains(&bytes)) {
        return Err(Error::usage(format!("a record has 1 to {LARGEST_RECORD} bytes; give as many")));
    }
    Ok(())
}

/// Whether keys can be put in so many rounds: a number of 64 bits tells them apart.
pub fn check_total(keys: u64, rounds: u64) -> Result<()> {
    let most = u64::MAX / 2;
    if rounds >= most || keys > most / (rounds + 1) {
        return Err(Error::usage(format!("{keys} keys in {rounds} rounds are too many; give fewer")));
    }
    Ok(())
}

/// Bytes for records, which no compression makes smaller, and of which can be told whose they are.
pub struct Contents {
    bytes: Vec<u8>,
}

impl Contents {
    /// For records of up to `most` bytes.
    pub fn new(random: &dyn Random, most: usize) -> Contents {
        let mut bytes: Vec<u8> = (0..most.div_ceil(8)).flat_map(|_| random.next_u64().to_le_bytes()).collect();
        bytes.truncate(most);
        Contents { bytes }
    }

    /// The bytes of a record of `key`: they begin with it.
    pub fn of(&mut self, key: u64, length: usize) -> &[u8] {
        let stamp = key.to_le_bytes();
        let part = stamp.len().min(length);
        self.bytes[..part].copy_from_slice(&stamp[..part]);
        &self.bytes[..length]
    }

    /// Whether these are the bytes of a record of `key` with this length.
    pub fn are(&mut self, bytes: &[u8], key: u64, length: usize) -> bool {
        self.of(key, length) == bytes
    }
}

/// How large the next record is.
pub fn size(random: &dyn Random, fixed: Option<usize>) -> usize {
    let drawn = || (MEAN * (SPREAD * normal(random) - SPREAD * SPREAD / 2.0).exp()).clamp(LEAST, MOST) as usize;
    fixed.unwrap_or_else(drawn)
}

/// The largest that [`size`] gives.
pub fn largest(fixed: Option<usize>) -> usize {
    fixed.unwrap_or(MOST as usize)
}

/// The load on a store.
pub struct Running<S> {
    load: Load,
    store: S,
    random: Rc<dyn Random>,
    contents: Contents,
    /// Of each key, its record and how long that is.
    records: Vec<(u64, usize)>,
}

impl<S: PageStore> Running<S> {
    /// Puts the first record of each key.
    pub async fn fill(load: &Load, store: S, random: Rc<dyn Random>) -> Result<Running<S>> {
        load.check()?;
        let contents = Contents::new(&*random, largest(load.record));
        let mut running = Running { load: *load, store, random, contents, records: Vec::new() };
        for key in 0..load.keys {
            let record = running.put(key).await?;
            running.records.push(record);
            if (key + 1) % load.per_commit == 0 || key + 1 == load.keys {
                running.store.commit(None).await?;
            }
        }
        Ok(running)
    }

    async fn put(&mut self, key: u64) -> Result<(u64, usize)> {
        let length = size(&*self.random, self.load.record);
        Ok((self.store.put(self.contents.of(key, length)).await?, length))
    }

    /// Replaces.
    pub async fn run(&mut self, tell: &Tell) -> Result<()> {
        let total = self.load.keys * self.load.rounds;
        for done in 1..=total {
            let key = self.random.below(self.load.keys);
            let record = self.put(key).await?;
            let (old, _) = std::mem::replace(&mut self.records[key as usize], record);
            self.store.free(old).await?;
            if done % self.load.per_commit == 0 || done == total {
                self.store.commit(None).await?;
            }
            tell_now_and_then(tell, done, total);
        }
        Ok(())
    }

    /// Reads all.
    pub async fn verify(&mut self) -> Result<()> {
        for (key, (id, length)) in (0..).zip(self.records.clone()) {
            let bytes = self.store.get(id).await?;
            if !self.contents.are(&bytes, key, length) {
                return Err(Error::damaged(format!("record {id:016x} has not the bytes that were put")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

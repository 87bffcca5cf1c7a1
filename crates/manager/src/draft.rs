//! What a batch of changes is going to do: one draft for each, which is taken over or thrown away as a whole.
//!
//! A draft sees what is committed, what drafts before it in the batch do, and what it does itself. Drafts that were taken
//! over are packed into transactions, in their order and never one into two, each with the condition that this manager is
//! still the one.

use crate::cluster::Effect;
use crate::engine::{Condition, MOST_BYTES, MOST_OPERATIONS, Pair, Snapshot, Transaction, Write};
use crate::records::{damaged, decode, encode};
use forebay_model::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Values by their keys; `None` where one is deleted.
type Writes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Where values are read.
pub(crate) trait View {
    /// The bytes under a key.
    fn bytes(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;

    /// The value under a key.
    fn read<T: DeserializeOwned>(&self, key: &[u8]) -> Result<Option<T>> {
        self.bytes(key)?.map(|bytes| decode(key, &bytes)).transpose()
    }

    /// The value under a key that something else says is there.
    fn require<T: DeserializeOwned>(&self, key: &[u8]) -> Result<T> {
        self.read(key)?.ok_or_else(|| damaged(key, "it is not there"))
    }
}

impl View for dyn Snapshot + '_ {
    fn bytes(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get(key)
    }
}

impl<T: View + ?Sized> View for &T {
    fn bytes(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        (**self).bytes(key)
    }
}

/// What drafts of a batch do that were taken over.
pub(crate) struct Batch {
    fence: Condition,
    /// All of it, to be seen by later drafts.
    seen: Writes,
    done: Vec<Transaction>,
    current: Writes,
    current_bytes: usize,
}

/// What one change is going to do.
pub(crate) struct Draft<'a> {
    view: &'a dyn Snapshot,
    batch: &'a Batch,
    writes: Writes,
    effects: Vec<Effect>,
}

/// A draft that is ready to be taken over.
pub(crate) struct Drafted {
    writes: Writes,
    effects: Vec<Effect>,
}

impl Batch {
    /// Of nothing yet.
    pub(crate) fn new(fence: Condition) -> Batch {
        Batch { fence, seen: Writes::new(), done: Vec::new(), current: Writes::new(), current_bytes: 0 }
    }

    /// Takes a draft over, and says what it does to what the manager has in memory.
    pub(crate) fn take(&mut self, drafted: Drafted) -> Vec<Effect> {
        let Drafted { writes, effects } = drafted;
        let fresh = writes.keys().filter(|key| !self.current.contains_key(*key)).count();
        // What replaces another value is counted as well: so the sum is never too small.
        let bytes: usize = writes.iter().map(|(key, value)| key.len() + value.as_ref().map_or(0, Vec::len)).sum();
        let is_full =
            self.current.len() + fresh + 1 > MOST_OPERATIONS || self.current_bytes + bytes > MOST_BYTES - 1024;
        if is_full && !self.current.is_empty() {
            self.end();
        }
        self.current_bytes += bytes;
        for (key, value) in writes {
            self.current.insert(key.clone(), value.clone());
            self.seen.insert(key, value);
        }
        effects
    }

    /// The transactions of all that was taken over.
    pub(crate) fn finish(mut self) -> Vec<Transaction> {
        if !self.current.is_empty() {
            self.end();
        }
        self.done
    }

    fn end(&mut self) {
        let writes = std::mem::take(&mut self.current).into_iter().map(|(key, value)| Write { key, value }).collect();
        self.current_bytes = 0;
        self.done.push(Transaction { conditions: vec![self.fence.clone()], writes });
    }
}

impl<'a> Draft<'a> {
    /// On what is committed and what a batch does already.
    pub(crate) fn new(view: &'a dyn Snapshot, batch: &'a Batch) -> Draft<'a> {
        Draft { view, batch, writes: Writes::new(), effects: Vec::new() }
    }

    /// The first `most` keys from `from` on and before `to`, with their values, as this draft sees them.
    pub(crate) fn scan(&self, from: &[u8], to: &[u8], most: usize) -> Result<Vec<Pair>> {
        let range = (Bound::Included(from), Bound::Excluded(to));
        let mut changed: BTreeMap<&Vec<u8>, &Option<Vec<u8>>> = self.batch.seen.range::<[u8], _>(range).collect();
        changed.extend(self.writes.range::<[u8], _>(range));
        // However many of those that are committed are deleted, enough of them are left.
        let deleted = changed.values().filter(|value| value.is_none()).count();
        let mut pairs: BTreeMap<Vec<u8>, Vec<u8>> = self.view.scan(from, to, most + deleted)?.into_iter().collect();
        for (key, value) in changed {
            match value {
                Some(value) => pairs.insert(key.clone(), value.clone()),
                None => pairs.remove(key),
            };
        }
        Ok(pairs.into_iter().take(most).collect())
    }

    /// Puts a value under a key.
    pub(crate) fn put(&mut self, key: Vec<u8>, value: &impl Serialize) -> Result<()> {
        let value = encode(&key, value)?;
        self.writes.insert(key, Some(value));
        Ok(())
    }

    /// Puts a list under a key; one that is empty is not kept.
    pub(crate) fn put_unless(&mut self, is_empty: bool, key: Vec<u8>, value: &impl Serialize) -> Result<()> {
        match is_empty {
            true => self.delete(key),
            false => self.put(key, value)?,
        }
        Ok(())
    }

    /// Deletes what is under a key, if anything is.
    pub(crate) fn delete(&mut self, key: Vec<u8>) {
        self.writes.insert(key, None);
    }

    /// What is to be changed in memory as well.
    pub(crate) fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Forgets what it was going to do.
    pub(crate) fn clear(&mut self) {
        self.writes.clear();
        self.effects.clear();
    }

    /// Whether there is room for `more` keys in its transaction.
    pub(crate) fn has_room(&self, more: usize) -> bool {
        self.writes.len() + more < MOST_OPERATIONS - 8
    }

    /// Ready to be taken over, if one transaction can hold it.
    pub(crate) fn ready(self) -> Result<Drafted> {
        let bytes: usize = self.writes.iter().map(|(key, value)| key.len() + value.as_ref().map_or(0, Vec::len)).sum();
        if self.writes.len() + 1 > MOST_OPERATIONS || bytes > MOST_BYTES - 1024 {
            return Err(Error::refused(format!(
                "{} changes of {bytes} bytes are too many for one step: {} of {} bytes are the most; ask for less at a time",
                self.writes.len(),
                MOST_OPERATIONS - 1,
                MOST_BYTES - 1024
            )));
        }
        Ok(Drafted { writes: self.writes, effects: self.effects })
    }
}

impl View for Draft<'_> {
    fn bytes(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.writes.get(key).or_else(|| self.batch.seen.get(key)) {
            Some(value) => Ok(value.clone()),
            None => self.view.get(key),
        }
    }
}

#[cfg(test)]
mod tests;

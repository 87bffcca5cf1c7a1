//! A snapshot: an object that has the bytes and attributes of another as they are in one moment, and shares its blocks.
//!
//! Order of durable steps: what is buffered of the object, and what lies in logs of it, goes home; then one record makes
//! the snapshot. Blocks in logs are not shared: a log is to be emptied.

use super::Objects;
use super::apply::Meta;
use super::commands::{exists_already, holds_bytes, set};
use super::quota;
use super::read::missing;
use super::record::Change;
use super::rows::{BLOCK, Key, Part};
use forebay_model::object::AttributeChange;
use forebay_model::{Bytes, Error, ObjectId, Result};

/// The most that an object may occupy of which a snapshot is made: the rows of both are in memory for a moment.
pub const MOST_SHARED: Bytes = Bytes::gib(16);
/// Blocks that are taken home from logs at once.
const AT_ONCE: usize = 1024;

impl Objects {
    /// Makes object `id`, which must not exist, of the bytes and attributes that `of` has now, with `changes` to these;
    /// in the same volume or another.
    pub async fn snapshot(&self, of: ObjectId, id: ObjectId, changes: Vec<AttributeChange>) -> Result<()> {
        holds_bytes(of)?;
        holds_bytes(id)?;
        if of == id {
            return Err(Error::exists(format!(
                "{id} exists already, and cannot be a snapshot of itself; take another number for that"
            )));
        }
        // In the order of their ids, whoever makes a snapshot of which.
        let _first = self.lock(of.min(id)).await?;
        let _second = self.lock(of.max(id)).await?;
        let blocks = self.head(of).await?.blocks;
        if blocks > MOST_SHARED / BLOCK {
            return Err(Error::usage(format!(
                "{of} occupies {}, and snapshots are made of {MOST_SHARED} at most; keep it in several objects",
                BLOCK * blocks
            )));
        }
        self.check_attributes_of(of, &changes).await?;
        let check = |meta: &Meta| {
            if meta.head(id).is_some() {
                return Err(exists_already(id));
            }
            let blocks = meta.head(of).ok_or_else(|| missing(of))?.blocks;
            quota::within(meta, id, 1, blocks)
        };
        let time = self.core.disk.env().clock.wall();
        let mut all = vec![Change::Snapshot { id, of, time }];
        if !changes.is_empty() {
            all.push(set(id, time, changes)?);
        }
        self.prepared(&all).await?;
        check(&self.work.borrow().meta)?;
        self.settle(of).await?;
        while self.unlog(of).await? {}
        self.work.borrow_mut().unreserve(of);
        self.change(all, Vec::new(), check).await
    }

    /// Takes some of what lies in logs of a locked object home; whether there was any.
    async fn unlog(&self, id: ObjectId) -> Result<bool> {
        let mut from = Some(Key::logged(id, 0));
        let last = Key::logged(id, u64::MAX);
        let mut logged = Vec::new();
        while let Some(key) = from.filter(|_| logged.len() < AT_ONCE) {
            self.bring(&[(key, key)]).await?;
            let work = self.work.borrow();
            let rows = work.meta.tree.rest_of_leaf(key).take_while(|(key, _)| **key <= last);
            logged.extend(rows.filter_map(|(key, _)| match key.part {
                Part::Logged(block) => Some(block),
                _ => None,
            }));
            from = work.meta.tree.leaf_end(key, last);
        }
        logged.truncate(AT_ONCE);
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for block in &logged {
            match runs.last_mut() {
                Some((_, end)) if end == block => *end += 1,
                _ => runs.push((*block, block + 1)),
            }
        }
        for (first, end) in runs {
            let content = self.whole_blocks(id, first, end).await?;
            self.rewrite(id, first, content).await?;
        }
        self.settle(id).await?;
        self.head(id).await?;
        Ok(!logged.is_empty())
    }
}

#[cfg(test)]
mod tests;

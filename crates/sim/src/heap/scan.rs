//! How fast a heap is read from one end to the other: when it was just filled, and when all of it was replaced many times.
//!
//! It is filled in the order of keys. Then every record is replaced once in each round: in rounds with even numbers one
//! key after another in an order of chance, in odd ones in runs of neighbouring keys, which come in an order of chance. A
//! scan reads all records, a batch at a time: in the order of their ids, which is that of the heap; and once more in the
//! order of keys.

use super::churn::{Contents, check_size, check_total, largest, size};
use super::load::Tell;
use super::measure::{Machine, Setup, fresh_heap, in_world};
use crate::disk::DiskSpec;
use forebay_env::{Env, Random};
use forebay_model::heap::RecordId;
use forebay_model::{Bytes, Error, Rate, Result};
use forebay_target::heap::{Heap, HeapStatus};
use std::rc::Rc;
use std::time::Duration;

/// Records that are read at once.
pub const BATCH: usize = 4096;

/// What is read and replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Records.
    pub keys: u64,
    /// Bytes of each; `None`: as in [`super::churn::Load`].
    pub record: Option<usize>,
    /// How many times all are replaced.
    pub rounds: u64,
    /// Keys that are neighbours and are replaced after one another, in odd rounds.
    pub run: u64,
    /// Replacements between commits.
    pub per_commit: u64,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Bytes of records a second, in the order of ids, when all was new, and in the end.
    pub fresh: Rate,
    /// See [`Outcome::fresh`].
    pub aged: Rate,
    /// The same in the order of keys.
    pub fresh_by_key: Rate,
    /// See [`Outcome::fresh_by_key`].
    pub aged_by_key: Rate,
    /// Bytes of the records when they were new, and in the end.
    pub content: [Bytes; 2],
    /// Space in use then.
    pub store: [Bytes; 2],
    /// How long the replacing took, and what it cost.
    pub replacing: Duration,
    /// See [`Outcome::replacing`].
    pub cpu: Duration,
    /// What the heap says in the end.
    pub status: HeapStatus,
}

impl Outcome {
    /// Of its fresh speed, what it keeps.
    pub fn share(&self) -> f64 {
        self.aged.0 as f64 / self.fresh.0.max(1) as f64
    }
}

struct Content {
    heap: Rc<Heap>,
    random: Rc<dyn Random>,
    contents: Contents,
    /// Of each key, its record and how long that is.
    records: Vec<(RecordId, usize)>,
    load: Load,
    /// Puts since the last commit.
    since: u64,
}

impl Content {
    async fn put(&mut self, key: u64) -> Result<()> {
        let length = size(&*self.random, self.load.record);
        let id = self.heap.put(self.contents.of(key, length)).await?;
        match self.records.get_mut(key as usize) {
            Some(record) => {
                let (old, _) = std::mem::replace(record, (id, length));
                self.heap.free(old).await?;
            }
            None => self.records.push((id, length)),
        }
        self.since += 1;
        if self.since == self.load.per_commit { self.commit().await } else { Ok(()) }
    }

    async fn commit(&mut self) -> Result<()> {
        self.since = 0;
        self.heap.commit(None).await.map(drop)
    }

    /// Replaces everything once, in runs of so many keys.
    async fn replace(&mut self, run: u64, told: &mut impl FnMut()) -> Result<()> {
        let mut runs: Vec<u64> = (0..self.load.keys.div_ceil(run)).collect();
        for last in (1..runs.len()).rev() {
            runs.swap(last, self.random.below(last as u64 + 1) as usize);
        }
        for first in runs.into_iter().map(|nth| nth * run) {
            for key in first..(first + run).min(self.load.keys) {
                self.put(key).await?;
                told();
            }
        }
        self.commit().await
    }

    /// Reads all records in this order; the bytes a second.
    async fn scan(&mut self, env: &Env, by_key: bool) -> Result<Rate> {
        let mut order: Vec<(RecordId, usize, u64)> =
            (0..).zip(&self.records).map(|(key, (id, length))| (*id, *length, key)).collect();
        if !by_key {
            order.sort_unstable();
        }
        let (began, mut bytes) = (env.clock.now(), 0);
        for batch in order.chunks(BATCH) {
            let ids: Vec<RecordId> = batch.iter().map(|(id, ..)| *id).collect();
            for (read, (id, length, key)) in self.heap.get_many(&ids).await.into_iter().zip(batch) {
                let read = read?;
                bytes += read.len() as u64;
                if !self.contents.are(&read, *key, *length) {
                    return Err(Error::damaged(format!("record {id} has not the bytes that were put")));
                }
            }
        }
        Ok(Rate::of(Bytes(bytes), env.clock.now().since(began)))
    }

    fn bytes(&self) -> Bytes {
        Bytes(self.records.iter().map(|(_, length)| *length as u64).sum())
    }
}

/// Measures on a device, all of which is overwritten.
pub async fn on_device(env: Env, machine: Machine, setup: Setup, load: Load) -> Result<Outcome> {
    if load.keys == 0 || load.per_commit == 0 || load.run == 0 {
        return Err(Error::usage("give at least one key, a run of one, and commit after at least one replacement"));
    }
    check_size(load.record)?;
    check_total(load.keys, load.rounds)?;
    let (_target, heap) = fresh_heap(&env, machine.profile, setup).await?;
    let contents = Contents::new(&*machine.random, largest(load.record));
    let mut content = Content { heap, random: machine.random, contents, records: Vec::new(), load, since: 0 };
    let total = (load.rounds + 1) * load.keys;
    let mut done = 0;
    let tell: Tell = machine.tell;
    let mut told = || {
        done += 1;
        super::load::tell_now_and_then(&tell, done, total);
    };
    for key in 0..load.keys {
        content.put(key).await?;
        told();
    }
    content.commit().await?;
    let (fresh, fresh_by_key) = (content.scan(&env, false).await?, content.scan(&env, true).await?);
    let (new, store) = (content.bytes(), content.heap.status().used);
    let (began, cpu) = (env.clock.now(), (machine.cpu)());
    for round in 0..load.rounds {
        content.replace(if round % 2 == 0 { 1 } else { load.run }, &mut told).await?;
    }
    let replacing = env.clock.now().since(began);
    let cpu = (machine.cpu)().saturating_sub(cpu);
    let (aged, aged_by_key) = (content.scan(&env, false).await?, content.scan(&env, true).await?);
    let status = content.heap.status();
    Ok(Outcome {
        fresh,
        aged,
        fresh_by_key,
        aged_by_key,
        content: [new, content.bytes()],
        store: [store, status.used],
        replacing,
        cpu,
        status,
    })
}

/// Measures on a simulated disk.
pub fn simulated(seed: u64, disk: DiskSpec, setup: Setup, load: Load, tell: Tell) -> Result<Outcome> {
    in_world(seed, disk, tell, |env, machine| on_device(env, machine, setup, load))
}

#[cfg(test)]
mod tests;

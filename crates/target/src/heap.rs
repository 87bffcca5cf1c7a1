//! A heap on a target: records under ids that say where they lie, in transactions.
//!
//! Owns its groups and everything in them. Order of durable steps of a commit: records, and pages of allocators in the
//! places that the last commit does not name; flush; the root in the place that the last commit does not have; flush.
//! No slot that one of the last two commits has is written: whichever root is whole, so is all that it names.
//!
//! [`classes`], [`allocator`], [`allocation`], [`cache`], [`gather`], [`space`], [`slot`] and [`root`] do no I/O;
//! [`output`] writes what was gathered, [`commit`] makes it durable and opens it again.
//!
//! One writer at a time has its transaction here: what is put and freed is seen at once, and is undone by an abort, or by
//! whatever ends the process before the commit.

pub mod allocation;
pub mod allocator;
pub mod cache;
pub mod classes;
mod commit;
pub mod gather;
mod output;
pub mod root;
pub mod slot;
pub mod slot_map;
mod space;
mod tags;
pub mod units;

pub use output::OutputCounters;

use crate::promise::Signal;
use crate::schedule::StreamId;
use crate::target::Core;
use allocation::{Allocation, ClassStatistics, Slot};
use cache::{Cache, Elisions};
use classes::{Class, UNIT};
use forebay_env::{Buffer, Slab};
use forebay_model::heap::{LARGEST_RECORD, LARGEST_SLOT, RecordId};
use forebay_model::{Bytes, Error, Kind, Result};
use root::Root;
use slot::Stamp;
use space::Space;
use std::cell::RefCell;
use std::rc::Rc;
use tags::Tags;
use units::Short;

/// Bytes before the ids in the list of a chained record's parts, and bytes of an id.
const CHAIN_HEADER: usize = 9;
const ID: usize = 8;
/// Parts that are read at once.
const AT_ONCE: usize = 128;

/// How a heap is used, beside what it was set to when it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeapOptions {
    /// Buffers of 1 MiB for records that wait to be written.
    pub buffers: usize,
    /// Whether records are sorted and merged before they are written; without, each is written by itself.
    pub gather: bool,
}

impl Default for HeapOptions {
    fn default() -> HeapOptions {
        HeapOptions { buffers: cache::BUFFERS, gather: true }
    }
}

/// What a heap has, and what it did since it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeapStatus {
    /// The number of the last commit.
    pub commit: u64,
    /// Each class of slots.
    pub classes: Vec<ClassStatistics>,
    /// What the write cache spared.
    pub elisions: Elisions,
    /// What was written.
    pub output: OutputCounters,
    /// Space in use.
    pub used: Bytes,
}

/// A heap, on its target's loop.
pub struct Heap {
    core: Rc<Core>,
    stamp: Stamp,
    stream: StreamId,
    options: HeapOptions,
    work: RefCell<Work>,
    changed: Signal,
    /// For what is written.
    buffers: Slab,
}

struct Work {
    allocation: Allocation,
    cache: Cache,
    space: Space,
    /// The last commit, and which of the two places has it.
    last: Root,
    which: usize,
    next_tag: u32,
    tags: Tags,
    counters: OutputCounters,
    /// Records are being written.
    writing: bool,
    /// Nothing is put or freed while it is.
    committing: bool,
    failure: Option<Error>,
    complaints: Vec<String>,
}

impl Work {
    /// Whether there may be such a record: it is refused if there is none for sure.
    fn check(&self, id: RecordId) -> Result<Slot> {
        let slot = Slot::of(id);
        let there = self.allocation.find(slot.allocator).is_some_and(|allocator| allocator.is_live(slot.slot));
        if !there {
            return Err(Error::missing(format!("there is no record {id}: it was freed, or is that of another heap")));
        }
        match self.tags.get(slot) {
            Some(tag) if tag != low(id) => Err(slot::gone(id)),
            _ => Ok(slot),
        }
    }

    /// Puts a record in a slot that was taken: its id, and whether more waits than should.
    fn cache_record(&mut self, stamp: Stamp, slot: Slot, bytes: &[u8], chain: bool) -> (RecordId, bool) {
        let id = RecordId::new(slot.allocator, slot.slot, self.next_tag, chain);
        self.next_tag = (self.next_tag + 1) % RecordId::TAGS;
        self.tags.set(slot, low(id));
        self.cache.put(slot, &slot::header(stamp, id, bytes), bytes);
        (id, self.cache.is_full())
    }

    /// The record in a live slot is no longer wanted.
    fn forget(&mut self, slot: Slot) {
        if self.allocation.free(slot) {
            self.cache.drop_record(slot);
        }
    }
}

/// The list of the parts of a chained record.
struct Chain {
    /// Bytes of the record.
    length: u64,
    /// How many times the parts are those of a list: 0, they are those of the record.
    levels: u8,
    parts: Vec<RecordId>,
}

impl Chain {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(CHAIN_HEADER + self.parts.len() * ID);
        bytes.extend(self.length.to_le_bytes());
        bytes.push(self.levels);
        self.parts.iter().for_each(|part| bytes.extend(part.number().to_le_bytes()));
        bytes
    }

    /// The list in the slot of a record.
    fn decode(id: RecordId, bytes: &[u8]) -> Result<Chain> {
        let (length, rest) = bytes.split_first_chunk().ok_or_else(|| Chain::odd(id))?;
        let (levels, rest) = rest.split_first().ok_or_else(|| Chain::odd(id))?;
        Ok(Chain { length: u64::from_le_bytes(*length), levels: *levels, parts: ids(rest) })
    }

    fn odd(id: RecordId) -> Error {
        Error::damaged(format!("the list of the parts of record {id} makes no sense"))
    }
}

/// Ids one after the other.
fn ids(bytes: &[u8]) -> Vec<RecordId> {
    let number = |id: &[u8]| u64::from_le_bytes(id.try_into().expect("eight bytes"));
    bytes.chunks_exact(ID).map(|id| RecordId::from_number(number(id))).collect()
}

/// What distinguishes the records of a slot.
fn low(id: RecordId) -> u32 {
    id.tag() << 1 | u32::from(id.is_chain())
}

impl Heap {
    /// Puts a record; its id. [`Kind::Usage`] if it is empty or too large, [`Kind::Full`] if the target has no group left
    /// for it: then nothing was changed.
    pub async fn put(self: &Rc<Self>, bytes: &[u8]) -> Result<RecordId> {
        if bytes.is_empty() || bytes.len() > LARGEST_RECORD {
            return Err(Error::usage(format!(
                "a record has 1 to {LARGEST_RECORD} bytes, and this one {}; cut it into several, or keep it as an object \
                 (nothing was changed)",
                bytes.len()
            )));
        }
        match Class::holding(bytes.len()) {
            Some(class) => self.put_in(class, bytes, false).await,
            None => self.put_chain(bytes).await,
        }
    }

    /// Puts what fits a slot of the class.
    async fn put_in(self: &Rc<Self>, class: Class, bytes: &[u8], chain: bool) -> Result<RecordId> {
        loop {
            self.gate().await?;
            let taken = self.work.borrow_mut().allocation.take(class);
            match taken {
                Ok(slot) => {
                    let (id, is_full) = self.work.borrow_mut().cache_record(self.stamp, slot, bytes, chain);
                    if is_full {
                        self.make_room().await?;
                    }
                    return Ok(id);
                }
                Err(short) => self.grow(short).await?,
            }
        }
    }

    /// Puts the parts of a record that no slot holds, and then the list of them, in parts of its own where no slot holds
    /// it either.
    async fn put_chain(self: &Rc<Self>, bytes: &[u8]) -> Result<RecordId> {
        let mut parts = Vec::with_capacity(bytes.len() / LARGEST_SLOT as usize + 1);
        let put = self.put_parts(bytes, &mut parts).await;
        if put.is_err() {
            let mut work = self.work.borrow_mut();
            parts.iter().for_each(|part| work.forget(Slot::of(*part)));
        }
        put
    }

    async fn put_parts(self: &Rc<Self>, bytes: &[u8], all: &mut Vec<RecordId>) -> Result<RecordId> {
        let mut list = Chain { length: bytes.len() as u64, levels: 0, parts: Vec::new() };
        let largest = Class((classes::SLOTS.len() - 1) as u8);
        let mut level = bytes.to_vec();
        loop {
            list.parts.clear();
            for part in level.chunks(largest.most()) {
                list.parts.push(self.put_in(largest, part, false).await?);
                all.extend(list.parts.last());
            }
            let mut whole = list.encode();
            if let Some(class) = Class::holding(whole.len()) {
                return self.put_in(class, &whole, true).await;
            }
            level = whole.split_off(CHAIN_HEADER);
            list.levels += 1;
        }
    }

    /// The bytes of a record. [`Kind::Missing`] if there is none of this id, [`Kind::Damaged`] if it is not whole.
    pub async fn get(self: &Rc<Self>, id: RecordId) -> Result<Vec<u8>> {
        let bytes = self.bring(id).await?;
        if !id.is_chain() {
            return Ok(bytes);
        }
        let list = Chain::decode(id, &bytes)?;
        let length = list.length;
        let parts = self.lowest(list, &mut Vec::new()).await?;
        let bytes = self.bring_all(parts).await?;
        if bytes.len() as u64 != length { Err(Chain::odd(id)) } else { Ok(bytes) }
    }

    /// The parts of a chained record's bytes, in order. The parts of its lists, all but these, are added to `above`.
    async fn lowest(self: &Rc<Self>, list: Chain, above: &mut Vec<RecordId>) -> Result<Vec<RecordId>> {
        let mut parts = list.parts;
        for _ in 0..list.levels {
            above.extend(&parts);
            parts = ids(&self.bring_all(parts).await?);
        }
        Ok(parts)
    }

    /// The bytes of records, one behind the other. They are read at the same time, [`AT_ONCE`] of them.
    async fn bring_all(self: &Rc<Self>, parts: Vec<RecordId>) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for parts in parts.chunks(AT_ONCE) {
            let read = |part: &RecordId| {
                let (heap, part) = (self.clone(), *part);
                self.core.disk.env().spawner.spawn(async move { heap.bring(part).await })
            };
            let reads: Vec<_> = parts.iter().map(read).collect();
            for read in reads {
                bytes.extend(read.await?);
            }
        }
        Ok(bytes)
    }

    /// Frees a record. [`Kind::Missing`] if there is none of this id (it was freed before, say): then nothing was changed.
    pub async fn free(self: &Rc<Self>, id: RecordId) -> Result<()> {
        self.gate().await?;
        let mut parts = Vec::new();
        if id.is_chain() {
            let list = Chain::decode(id, &self.bring(id).await?)?;
            let lowest = self.lowest(list, &mut parts).await?;
            parts.extend(lowest);
        } else {
            self.know(id).await?;
        }
        self.gate().await?;
        let mut work = self.work.borrow_mut();
        work.check(id)?;
        work.forget(Slot::of(id));
        parts.into_iter().for_each(|part| work.forget(Slot::of(part)));
        Ok(())
    }

    /// Sees to it that there is a record of this id: it is read if nobody did since opening.
    async fn know(&self, id: RecordId) -> Result<()> {
        let known = {
            let work = self.work.borrow();
            work.tags.get(work.check(id)?).is_some()
        };
        if !known {
            self.bring(id).await?;
        }
        Ok(())
    }

    /// What lies in the slot of a record.
    async fn bring(&self, id: RecordId) -> Result<Vec<u8>> {
        let (pages, lies) = {
            let mut work = self.work.borrow_mut();
            let slot = work.check(id)?;
            if let Some(bytes) = work.cache.read(slot) {
                return slot::open(self.stamp, id, bytes).map(<[u8]>::to_vec);
            }
            gather::pages_of(&work.allocation, slot)
        };
        let bytes = self.read(pages.clone()).await?;
        let bytes = &bytes[(lies.start - pages.start) as usize..(lies.end - pages.start) as usize];
        let mut work = self.work.borrow_mut();
        // It may have been freed meanwhile, and its slot be another's.
        work.check(id)?;
        let found = slot::open(self.stamp, id, bytes)?.to_vec();
        work.tags.set(Slot::of(id), low(id));
        Ok(found)
    }

    /// Bytes of the heap, in whole pages.
    async fn read(&self, range: std::ops::Range<u64>) -> Result<Vec<u8>> {
        let runs = self.work.borrow().space.runs(Bytes(range.start), Bytes(range.end - range.start));
        let mut bytes = Vec::with_capacity((range.end - range.start) as usize);
        for (at, length) in runs {
            let (buffer, result) = self.core.disk.read(self.stream, at, Buffer::alone(length)?).await;
            result?;
            bytes.extend_from_slice(&buffer);
        }
        Ok(bytes)
    }

    /// What was put and freed since the last commit is undone.
    pub async fn abort(&self) -> Result<()> {
        self.gate().await?;
        let is_busy = || self.work.borrow().writing || self.work.borrow().committing;
        self.changed.until(|| !is_busy()).await;
        let mut work = self.work.borrow_mut();
        work.allocation.abort();
        work.cache.clear();
        Ok(())
    }

    /// The root of the last commit.
    pub fn root(&self) -> Option<RecordId> {
        self.work.borrow().last.root.map(RecordId::from_number)
    }

    /// What it has, and what it did since it was opened.
    pub fn status(&self) -> HeapStatus {
        let work = self.work.borrow();
        HeapStatus {
            commit: work.last.commit,
            classes: work.allocation.statistics(),
            elisions: work.cache.elisions(),
            output: work.counters,
            used: UNIT * u64::from(work.allocation.units().count()),
        }
    }

    /// What was found damaged at opening, in sentences.
    pub fn complaints(&self) -> Vec<String> {
        self.work.borrow().complaints.clone()
    }

    /// Waits until no commit is under way.
    async fn gate(&self) -> Result<()> {
        if self.work.borrow().committing {
            self.changed.until(|| !self.work.borrow().committing).await;
        }
        self.work.borrow().failure.clone().map_or(Ok(()), Err)
    }

    /// Adds groups for so many units.
    async fn grow(&self, short: Short) -> Result<()> {
        if short.units == u32::MAX {
            return Err(Error::full(format!(
                "heap {} has as many allocators as it can; make another one (nothing was changed)",
                self.stamp.heap
            )));
        }
        let per_group = self.work.borrow().space.units_per_group();
        let groups = short.units.div_ceil(per_group);
        let taken = self.core.grow_heap(self.stamp.heap, groups).await?;
        let mut work = self.work.borrow_mut();
        work.space.add(&taken);
        let units = work.space.units();
        work.allocation.set_units(units);
        Ok(())
    }

    fn fail(&self, error: &Error) {
        if error.kind != Kind::Full {
            self.work.borrow_mut().failure.get_or_insert(error.clone());
        }
    }
}

#[cfg(test)]
mod tests;

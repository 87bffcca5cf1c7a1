//! A heap on a target: records under ids that say where they lie, in transactions.
//!
//! Owns its groups and everything in them. Order of durable steps of a commit: records, and pages of allocators in places
//! that no commit has which can be read; flush; the root in the place that the last commit does not have; flush. Pages and root
//! are read back before anything counts on them, since a device may lose a write and say that it did it. A slot of
//! one of the last two commits, or of one that is kept or looked at, is written only with the bytes that it has: whichever
//! root is whole, so is all that it names.
//!
//! [`classes`], [`allocator`], [`allocation`], [`cache`], [`gather`], [`space`], [`units`], [`slot`] and [`root`] do no
//! I/O; [`output`] writes what was gathered, [`commit`] makes it durable, [`read_back`] looks whether it is, [`open`] finds it
//! again, [`read`] reads records.
//!
//! What is put and freed here is seen by all at once, and is undone by an abort, or by whatever ends the process before the
//! commit; a [`Writer`] does the same for itself alone. A [`Session`] sees one commit.

pub mod allocation;
pub mod allocator;
pub mod audit;
pub mod cache;
mod chain;
pub mod classes;
mod commit;
pub mod gather;
mod hot;
pub mod image;
mod lost;
pub(crate) mod open;
mod output;
mod places;
mod read;
mod read_back;
mod remains;
mod reserve;
pub mod root;
mod session;
pub mod slot;
pub mod slot_map;
pub(crate) mod space;
mod tags;
#[cfg(test)]
mod testing;
pub mod units;
mod view;
mod writer;

pub use output::OutputCounters;
pub use session::Session;
pub use writer::Writer;

use crate::gate::Gate;
use crate::promise::Signal;
use crate::schedule::StreamId;
use crate::target::Core;
use allocation::{Allocation, ClassStatistics, Slot};
use cache::{Cache, Elisions};
use classes::{Class, UNIT};
use commit::Retained;
use forebay_env::Slab;
use forebay_model::heap::{CommitInfo, HeapSettings, LARGEST_RECORD, RecordId};
use forebay_model::{Bytes, Error, Kind, Result};
use hot::Hot;
use image::Watch;
use places::Places;
use root::Root;
use slot::{Role, Stamp};
use space::Space;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::{Rc, Weak};
use tags::Tags;
use units::Short;
use view::{Eye, Own, View};

/// How a heap is used, beside what it was set to when it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeapOptions {
    /// Buffers of 1 MiB for records that wait to be written.
    pub buffers: usize,
    /// Buffers of 1 MiB for records that were read lately; 0: none.
    pub read_buffers: usize,
    /// Whether records are sorted and merged before they are written; without, each is written by itself.
    pub gather: bool,
}

/// Buffers for records that were read lately, if nothing else is said.
const READ_BUFFERS: usize = 8;

impl Default for HeapOptions {
    fn default() -> HeapOptions {
        HeapOptions { buffers: cache::BUFFERS, read_buffers: READ_BUFFERS, gather: true }
    }
}

/// What a heap has, and what it did since it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeapStatus {
    /// The last commit, and the number of the oldest one that can be read.
    pub last: CommitInfo,
    /// See [`HeapStatus::last`].
    pub oldest: u64,
    /// What it was set to when it was made.
    pub settings: HeapSettings,
    /// Of the slots that are used, those in which older commits are kept.
    pub archive_slots: u64,
    /// Each class of slots.
    pub classes: Vec<ClassStatistics>,
    /// What the write cache spared.
    pub elisions: Elisions,
    /// Reads served from among the records that were read lately.
    pub hot_reads: u64,
    /// What was written.
    pub output: OutputCounters,
    /// Space in use.
    pub used: Bytes,
}

/// A heap, on its target's loop.
pub struct Heap {
    core: Rc<Core>,
    /// Which of its target's heaps it is; in what it has stands its stamp.
    number: u64,
    stamp: Stamp,
    stream: StreamId,
    options: HeapOptions,
    work: RefCell<Work>,
    changed: Signal,
    growing: Gate,
    /// For what is written.
    buffers: Slab,
}

struct Work {
    allocation: Allocation,
    places: Places,
    cache: Cache,
    hot: Hot,
    space: Space,
    /// The last commit, and which of the two places has it.
    last: Root,
    which: usize,
    next_tag: u32,
    tags: Tags,
    /// Commits that are looked at, and by how many.
    views: BTreeMap<u64, usize>,
    /// What these have who look at them.
    seen: BTreeMap<u64, Weak<View>>,
    /// Commits before the last that are kept, where slots are used again: oldest first.
    retained: VecDeque<Retained>,
    /// Slots of records that kept commits whose time is over: the next commit frees them.
    going: Vec<Slot>,
    /// Slots that are left for commits to be kept in, where there are no others any more.
    reserved: Vec<(Class, Slot)>,
    /// What each writer has of its own.
    owns: Vec<Weak<RefCell<Own>>>,
    counters: OutputCounters,
    /// Records are being written.
    writing: bool,
    /// Nothing is put or freed while it is.
    committing: bool,
    /// Something was put, freed or merged since the last commit.
    is_changed: bool,
    failure: Option<Error>,
    /// It was deleted, or opened anew: nothing of it can be read.
    ended: bool,
    complaints: Vec<String>,
    /// What is to be read by who copies it.
    watch: Option<Watch>,
    /// Damaged records that were freed, and those of them of which slots may stay taken.
    freed_damaged: (u64, u64),
    /// Pages and roots that were not there when they were read back.
    rewritten: u64,
}

/// What goes into one slot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Whole,
    /// The list of a chained record, and its parts.
    Head,
    Part,
}

impl Work {
    /// Puts a record in a slot that was taken: its id, and whether more waits than should.
    fn cache_record(&mut self, stamp: Stamp, eye: &Eye, slot: Slot, bytes: &[u8], what: What) -> (RecordId, bool) {
        let id = RecordId::new(slot.allocator, slot.slot, self.next_tag, what == What::Head);
        self.next_tag = (self.next_tag + 1) % RecordId::TAGS;
        let role = match (what, eye) {
            (What::Part, _) => Role::Part,
            (_, Eye::Commit) => Role::Commit,
            _ => Role::Record,
        };
        self.tags.set(slot, slot::distinction(id, role));
        self.hot.drop_record(slot);
        self.cache.put(slot, &slot::header(stamp, id, role, bytes), bytes);
        match eye {
            Eye::Own(own) => {
                self.allocation.hide(slot);
                own.borrow_mut().put.insert(slot);
            }
            Eye::Live => self.is_changed = true,
            _ => {}
        }
        (id, self.cache.is_full())
    }
}

impl Heap {
    /// Puts a record; its id. [`Kind::Usage`] if it is empty or too large, [`Kind::Full`] if the target has no group left
    /// for it: then nothing was changed.
    pub async fn put(self: &Rc<Self>, bytes: &[u8]) -> Result<RecordId> {
        self.put_as(&Eye::Live, bytes).await
    }

    async fn put_as(self: &Rc<Self>, eye: &Eye, bytes: &[u8]) -> Result<RecordId> {
        if bytes.is_empty() || bytes.len() > LARGEST_RECORD {
            return Err(Error::usage(format!(
                "a record has 1 to {LARGEST_RECORD} bytes, and this one {}; cut it into several, or keep it as an object \
                 (nothing was changed)",
                bytes.len()
            )));
        }
        // What keeps a commit takes slots like those that are reserved for it.
        let grows = if matches!(eye, Eye::Commit) { reserve::BODY_GROWS } else { 0 };
        match Class::holding(bytes.len() + grows) {
            Some(class) => self.put_in(eye, class, bytes, What::Whole).await,
            None => self.put_large(eye, bytes).await,
        }
    }

    /// Puts what fits a slot of the class.
    async fn put_in(self: &Rc<Self>, eye: &Eye, class: Class, bytes: &[u8], what: What) -> Result<RecordId> {
        let is_commit = matches!(eye, Eye::Commit);
        let slot = match self.take_slot(eye, class).await {
            Err(full) if full.kind == Kind::Full && is_commit => self.take_reserved(bytes.len()).ok_or(full)?,
            slot => slot?,
        };
        let (id, is_full) = self.work.borrow_mut().cache_record(self.stamp, eye, slot, bytes, what);
        if is_full && !is_commit {
            self.make_room().await?;
        }
        Ok(id)
    }

    /// Takes a slot while no commit is under way, but that of which it is.
    async fn take_slot(&self, eye: &Eye, class: Class) -> Result<Slot> {
        let is_commit = matches!(eye, Eye::Commit);
        loop {
            if !is_commit {
                self.gate().await?;
            }
            let taken = self.work.borrow_mut().allocation.take(class);
            let short = match taken {
                Ok(slot) => return Ok(slot),
                Err(short) => short,
            };
            match self.grow(short).await {
                Err(full) if full.kind == Kind::Full => {
                    if !is_commit {
                        self.gate().await?;
                    }
                    // What is free here and there is better than nothing.
                    return self.work.borrow_mut().allocation.take_left(class).ok_or(full);
                }
                grown => grown?,
            }
        }
    }

    /// Frees a record. [`Kind::Missing`] if there is none of this id (it was freed before, say): then nothing was changed.
    pub async fn free(self: &Rc<Self>, id: RecordId) -> Result<()> {
        self.free_many(&[id]).await
    }

    /// Frees records, all or none: [`Kind::Missing`] if there is none of one of these ids, or one is named twice. Those
    /// that nobody used since the heap was opened are read, neighbours together. Of one that is damaged, slots stay taken
    /// of which it is not known whether they are its: [`Heap::complaints`] says so.
    pub async fn free_many(self: &Rc<Self>, ids: &[RecordId]) -> Result<()> {
        self.gate().await?;
        // What others free and commit meanwhile is not somebody else's before this is over.
        let _pinned = self.pin_last();
        let slots = self.slots_of_many(&Eye::Live, ids, Role::Record).await?;
        self.gate().await?;
        let mut work = self.work.borrow_mut();
        ids.iter().try_for_each(|id| work.check(&Eye::Live, *id, Role::Record).map(drop))?;
        work.is_changed = true;
        work.count_damaged(&slots);
        slots.of.into_iter().flatten().for_each(|slot| work.forget(&Eye::Live, slot));
        Ok(())
    }

    /// What was put and freed since the last commit, and merged, is undone.
    pub async fn abort(&self) -> Result<()> {
        self.gate().await?;
        let is_busy = || self.work.borrow().writing || self.work.borrow().committing;
        self.changed.until(|| !is_busy()).await;
        let work = &mut *self.work.borrow_mut();
        work.allocation.abort();
        work.is_changed = false;
        for own in work.owns.iter().filter_map(Weak::upgrade) {
            let own = &mut *own.borrow_mut();
            let is_gone = |id: &&RecordId| work.check(&Eye::Live, **id, Role::Record).is_err();
            // What was freed since is there again, and what was put is not.
            own.lost_for_now = None;
            own.lost = own.lost.or(own.freed.keys().find(is_gone).copied());
        }
        for slot in work.cache.all() {
            // What writers have put for themselves stays theirs.
            if !work.allocation.get(slot.allocator).is_hidden(slot.slot) {
                work.cache.drop_record(slot);
                work.hot.drop_record(slot);
            }
        }
        Ok(())
    }

    /// Nothing is put, freed or committed any more, for this reason; what was being written is written.
    pub(crate) async fn end(&self, why: Error) {
        self.work.borrow_mut().failure = Some(why);
        let is_busy = || self.work.borrow().writing || self.work.borrow().committing;
        self.changed.until(|| !is_busy()).await;
        let work = &mut *self.work.borrow_mut();
        // Its space is that of others from now on.
        work.ended = true;
    }

    /// Whether something was put or freed, other than by a [`Writer`] for itself, that is not committed.
    pub(crate) fn is_changed(&self) -> bool {
        self.work.borrow().is_changed
    }

    /// Why nothing is put, freed or committed any more, if so.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.work.borrow().failure.clone()
    }

    /// Whether it is there no more for who has it: it was deleted, or opened anew.
    pub fn has_ended(&self) -> bool {
        self.work.borrow().ended
    }

    /// The root of the last commit.
    pub fn root(&self) -> Option<RecordId> {
        self.work.borrow().last.root.map(RecordId::from_number)
    }

    /// What it has, and what it did since it was opened.
    pub fn status(&self) -> HeapStatus {
        let work = self.work.borrow();
        let mut classes = work.allocation.statistics();
        // They have nothing yet.
        work.reserved.iter().for_each(|(class, _)| classes[usize::from(class.0)].kept -= 1);
        HeapStatus {
            last: work.last.info(),
            oldest: work.oldest_after(work.last.commit),
            settings: work.last.settings,
            archive_slots: work.last.archive_slots,
            classes,
            elisions: work.cache.elisions(),
            hot_reads: work.hot.hits(),
            output: work.counters,
            used: UNIT * u64::from(work.allocation.units().count()),
        }
    }

    /// What was found damaged at opening, and of what was freed and committed since, in sentences.
    pub fn complaints(&self) -> Vec<String> {
        let work = self.work.borrow();
        work.complaints.iter().cloned().chain(work.of_freed_damaged()).chain(work.of_rewritten()).collect()
    }

    /// Waits until no commit is under way.
    async fn gate(&self) -> Result<()> {
        if self.work.borrow().committing {
            self.changed.until(|| !self.work.borrow().committing).await;
        }
        self.work.borrow().failure.clone().map_or(Ok(()), Err)
    }

    /// Adds groups for so many units, unless others have added some meanwhile.
    async fn grow(&self, short: Short) -> Result<()> {
        let before = self.work.borrow().space.units();
        let _turn = self.growing.take().await;
        if self.work.borrow().space.units() > before {
            return Ok(());
        }
        if short.units == u32::MAX {
            return Err(Error::full(format!(
                "heap {} has as many allocators as it can, or pages of them for commits that are kept; make another one \
                 (nothing was changed)",
                self.number
            )));
        }
        let per_group = self.work.borrow().space.units_per_group();
        let groups = short.units.div_ceil(per_group);
        let all = self.core.grow_heap(self.number, groups).await?;
        let mut work = self.work.borrow_mut();
        // Also those that came by a growth whose end nobody waited for.
        work.space = Space::new(self.core.layout(), all);
        let units = work.space.units();
        work.allocation.set_units(units);
        Ok(())
    }
}

#[cfg(test)]
mod tests;

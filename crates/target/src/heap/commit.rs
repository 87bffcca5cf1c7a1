//! Commits: making what was put and freed durable, all of it or nothing; and keeping older ones.
//!
//! Order of durable steps: records; pages of allocators, in places that no commit names which can be read; flush; the pages are
//! read back; the root, in the place that the last one does not have; flush; it is read back. Only then slots and places of older
//! commits are free for others, and the commit is acknowledged.
//!
//! A commit that is kept is a record with the body of its root, which the next commit puts: so it costs nothing while it
//! is the last one. It is freed by the first commit after its time is over and nobody looks at it.

use super::allocation::Slot;
use super::read_back::Written;
use super::root::{self, PAGE, PER_PAGE, PageRecord, Root};
use super::slot::Role;
use super::view::Eye;
use super::{Heap, Work};
use forebay_env::yield_now;
use forebay_model::block::crc32c;
use forebay_model::heap::{HeapMode, RecordId};
use forebay_model::{Bytes, Error, Kind, Result, Timestamp};
use std::collections::BTreeSet;
use std::rc::{Rc, Weak};
use std::time::Duration;

/// A commit before the last that is kept.
pub(super) struct Retained {
    pub commit: u64,
    /// When the next one was.
    pub superseded: Timestamp,
    /// The slots of the record that has its root.
    pub slots: Vec<Slot>,
}

impl Retained {
    /// Whether its time is over.
    pub(super) fn is_over(&self, now: Timestamp, keep: Duration) -> bool {
        self.superseded.after(keep) <= now
    }
}

/// A record that keeps a commit, and its slots.
type Archive = Option<(RecordId, Vec<Slot>)>;

impl Work {
    pub(super) fn keeps(&self) -> bool {
        self.last.settings.mode == HeapMode::Worm || !self.last.settings.keep.is_zero()
    }

    /// How many of the commits that are kept can go.
    pub(super) fn over(&self, now: Timestamp) -> usize {
        if self.last.settings.mode == HeapMode::Worm {
            return 0;
        }
        let seen = self.views.keys().next().copied().unwrap_or(u64::MAX);
        let keep = self.last.settings.keep;
        self.retained.iter().take_while(|kept| kept.is_over(now, keep) && kept.commit < seen).count()
    }

    /// The oldest commit that can be read once `last` is the one before the last.
    pub(super) fn oldest_after(&self, last: u64) -> u64 {
        if self.last.settings.mode == HeapMode::Worm {
            return 1;
        }
        self.retained.front().map_or(last, |kept| kept.commit.min(last))
    }
}

impl Heap {
    /// Makes everything that was put and freed durable, all of it or nothing: the number of the commit. `root` is what
    /// [`Heap::root`] says from then on; [`Kind::Missing`] if there is no such record. [`Kind::Full`] if the target has
    /// no room for what describes the commit: then nothing was changed, and it can be tried again.
    pub async fn commit(self: &Rc<Self>, root: Option<RecordId>) -> Result<u64> {
        self.gate().await?;
        if let Some(root) = root {
            self.know(&Eye::Live, &[root], Role::Record).await?;
            // Another commit may have begun meanwhile.
            self.gate().await?;
            self.work.borrow().check(&Eye::Live, root, Role::Record)?;
        }
        self.work.borrow_mut().committing = true;
        let result = self.commit_begun(root).await;
        // Who waited has a turn before the next commit of the same user.
        yield_now().await;
        result
    }

    /// Commits the same once more, with pages of allocators that are to be written in other places; not if something was put or
    /// freed that is to be committed or aborted by who did that, or there is no room. Whether it was.
    pub(super) async fn commit_again(self: &Rc<Self>) -> Result<bool> {
        self.gate().await?;
        let root = {
            let work = &mut *self.work.borrow_mut();
            if work.is_changed {
                return Ok(false);
            }
            work.committing = true;
            work.last.root.map(RecordId::from_number)
        };
        match self.commit_begun(root).await {
            Err(error) if error.kind == Kind::Full => Ok(false),
            committed => committed.map(|_| true),
        }
    }

    /// Goes on with a commit, from where nothing is put or freed any more.
    async fn commit_begun(self: &Rc<Self>, root: Option<RecordId>) -> Result<u64> {
        self.changed.until(|| !self.work.borrow().writing).await;
        // What was being written may have failed.
        let failure = self.work.borrow().failure.clone();
        let result = match failure {
            None => self.commit_alone(root).await,
            Some(failure) => Err(failure),
        };
        // Nobody goes on beside what has failed.
        let result = result.inspect_err(|error| self.fail(error));
        self.reserve().await.unwrap_or_else(|error| self.fail(&error));
        self.work.borrow_mut().committing = false;
        self.changed.notify();
        result
    }

    async fn commit_alone(self: &Rc<Self>, root: Option<RecordId>) -> Result<u64> {
        let now = self.core.disk.env().clock.wall();
        let archive = self.archive().await?;
        if let Err(error) = self.reserve_places(now).await {
            let mut work = self.work.borrow_mut();
            let slots = archive.into_iter().flat_map(|(_, slots)| slots);
            slots.for_each(|slot| work.forget(&Eye::Commit, slot));
            return Err(error);
        }
        let (all, next, pages) = self.prepare(root, now, &archive);
        self.write_slots(&all).await?;
        self.write_and_see(&pages).await?;
        let which = 1 - self.work.borrow().which;
        let encoded = [(root::root_at(which), next.encode())];
        self.write_and_see(&encoded).await?;
        let commit = self.is_durable(next, which, archive);
        // Who has read it before could not be told yet whether it is as it should be.
        for (Bytes(at), bytes) in pages.iter().chain(&encoded) {
            self.note_written(*at..*at + bytes.len() as u64);
        }
        Ok(commit)
    }

    /// Puts the record that keeps the last commit, if it is to be kept.
    async fn archive(self: &Rc<Self>) -> Result<Archive> {
        let body = {
            let work = self.work.borrow();
            work.keeps().then(|| work.last.body())
        };
        let Some(body) = body else { return Ok(None) };
        let id = self.put_as(&Eye::Commit, &body).await?;
        let slots = self.slots_of(&Eye::Commit, id, Role::Commit).await?;
        Ok(Some((id, slots)))
    }

    /// Sees to it that there are places for all pages that are going to be written.
    async fn reserve_places(self: &Rc<Self>, now: Timestamp) -> Result<()> {
        loop {
            let short = {
                let work = &mut *self.work.borrow_mut();
                // What only commits before the last two have can be written over.
                let over = work.over(now);
                // Nobody can begin to look at them from now on.
                work.going.extend(work.retained.drain(..over).flat_map(|kept| kept.slots));
                let oldest = work.retained.front().map_or(u64::MAX, |kept| kept.commit);
                // What is looked at was read: only who begins to look at a kept commit reads pages.
                let is_worm = work.last.settings.mode == HeapMode::Worm;
                if !is_worm {
                    work.places.release(oldest.min(work.last.commit.saturating_sub(1)));
                }
                let mut pages: BTreeSet<u32> = work.going.iter().map(|slot| slot.allocator / PER_PAGE).collect();
                pages.extend(work.allocation.changed().iter().map(|number| number / PER_PAGE));
                work.places.set_units(work.allocation.table().len());
                if pages.len() <= work.places.free() {
                    return Ok(());
                }
                work.allocation.add_to_table()
            };
            if let Err(short) = short {
                self.grow(short).await?;
            }
        }
    }

    /// What has to be written: the records, the next root, and the pages that have changed, with where they go.
    fn prepare(&self, root: Option<RecordId>, now: Timestamp, archive: &Archive) -> Prepared {
        let work = &mut *self.work.borrow_mut();
        let gone = std::mem::take(&mut work.going);
        gone.iter().for_each(|slot| work.forget(&Eye::Commit, *slot));
        let last = &work.last;
        let allocators = work.allocation.count();
        let mut next = Root {
            commit: last.commit + 1,
            time: now,
            root: root.map(RecordId::number),
            used_units: work.allocation.units().used(),
            allocators,
            table: work.allocation.table().to_vec(),
            archive_slots: last.archive_slots - gone.len() as u64,
            oldest: if archive.is_some() { work.oldest_after(last.commit) } else { last.commit + 1 },
            ..last.clone()
        };
        if let Some((id, slots)) = archive {
            next.ladder = last.ladder_with(*id);
            next.archived += 1;
            next.archive_slots += slots.len() as u64;
        }
        let mut changed: Vec<u32> = work.allocation.begin_commit().iter().map(|number| number / PER_PAGE).collect();
        changed.dedup();
        let places = work.places.take(changed.len());
        next.pages.resize(allocators.div_ceil(PER_PAGE) as usize, PageRecord { place: 0, crc: 0 });
        let encode = |(page, place): (u32, u32)| {
            let first = page * PER_PAGE;
            let allocators = (first..(first + PER_PAGE).min(allocators)).map(|number| work.allocation.get(number));
            let bytes = root::encode_page(self.stamp, first, allocators);
            next.pages[page as usize] = PageRecord { place, crc: crc32c(&bytes) };
            (Root::place_at(&next.table, place), bytes)
        };
        let pages = changed.into_iter().zip(places).map(encode).collect();
        next.places = next.places.max(work.places.used());
        (work.cache.all(), next, pages)
    }

    /// The root is on the device, and was read back.
    fn is_durable(&self, next: Root, which: usize, archive: Archive) -> u64 {
        let work = &mut *self.work.borrow_mut();
        let before = &work.last;
        let replaced = before.pages.iter().zip(&next.pages).filter(|(old, new)| old.place != new.place);
        work.places.replaced(next.commit, replaced.map(|(old, _)| old.place).collect(), false);
        if let Some((_, slots)) = archive.filter(|_| before.settings.mode == HeapMode::ReadWrite) {
            work.retained.push_back(Retained { commit: before.commit, superseded: next.time, slots });
        }
        let seen = work.views.keys().next().copied().unwrap_or(u64::MAX);
        let oldest = work.oldest_after(before.commit).min(seen);
        work.allocation.committed(next.commit, oldest);
        work.owns.iter().filter_map(Weak::upgrade).for_each(|own| own.borrow_mut().committed());
        (work.last, work.which) = (next, which);
        work.is_changed = false;
        work.counters.commits += 1;
        work.last.commit
    }

    /// The oldest commit that can be read.
    pub(super) fn oldest(&self) -> u64 {
        let work = self.work.borrow();
        work.oldest_after(work.last.commit)
    }

    /// Writes what describes the heap: bytes from a place in it on.
    pub(super) async fn write(&self, at: Bytes, bytes: &[u8]) -> Result<()> {
        let places = self.work.borrow().space.runs(at, Bytes(bytes.len() as u64));
        let (mut rest, mut from) = (bytes, at.0);
        for (place, length) in places {
            let (here, behind) = rest.split_at(length.0 as usize);
            let mut buffer = self.buffers.take().await;
            buffer.set_len(here.len());
            buffer.copy_from_slice(here);
            let (_, result) = self.core.disk.write(self.stream, place, buffer).await;
            self.note_written(from..from + length.0);
            from += length.0;
            result?;
            self.work.borrow_mut().counters.meta_writes += 1;
            rest = behind;
        }
        Ok(())
    }

    /// The page of allocators in a place.
    pub(super) async fn read_page(&self, root: &Root, place: u32) -> Result<Vec<u8>> {
        let Bytes(at) = Root::place_at(&root.table, place);
        let mut page = Vec::with_capacity(PAGE);
        self.read(at..at + PAGE as u64, |_, bytes| page.extend_from_slice(bytes)).await?;
        Ok(page)
    }

    /// What went wrong for good is told to all who come later; a full target is not that.
    pub(super) fn fail(&self, error: &Error) {
        if error.kind != Kind::Full {
            self.work.borrow_mut().failure.get_or_insert(error.clone());
        }
    }
}

/// See [`Heap::prepare`].
type Prepared = (Vec<Slot>, Root, Vec<Written>);

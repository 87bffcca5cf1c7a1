//! Writing what was gathered: pages are read where something else lies on them, records are laid over them, and runs go
//! to the device several at a time.

use super::allocation::Slot;
use super::gather::{self, Gaps, Run};
use super::{Heap, cache, lost};
use crate::coalesce;
use forebay_env::Buffer;
use forebay_model::{Bytes, Kind, Result};
use std::ops::Range;
use std::rc::Rc;

/// Runs under way at once.
pub(super) const UNDER_WAY: usize = 8;
/// Bytes that a run has at most.
pub(super) const MOST: Bytes = Bytes(gather::LONGEST + (64 << 10));

/// What becomes of what others have on the pages of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beside {
    /// It is written as it is.
    IsRead,
    /// The same; but what cannot be read has been lost to them already, and is nothing.
    MayBeLost,
}

/// What was written since the heap was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutputCounters {
    /// Writes of records to the device, and their bytes.
    pub writes: u64,
    /// See [`OutputCounters::writes`].
    pub written: Bytes,
    /// Records in them.
    pub records: u64,
    /// Of these bytes, those that are none of these records': what fills up slots and pages, and what others have there.
    pub padding: Bytes,
    /// Reads of pages that had to be read before they could be written.
    pub read_back: u64,
    /// Commits.
    pub commits: u64,
    /// Writes of pages of allocators and of roots.
    pub meta_writes: u64,
}

impl Heap {
    /// Sees to it that the oldest records are written while more wait than should. Who is far ahead of that waits.
    pub(super) async fn make_room(self: &Rc<Self>) -> Result<()> {
        if !self.work.borrow().writing {
            self.work.borrow_mut().writing = true;
            let heap = self.clone();
            self.core.disk.env().spawner.detach(async move {
                let result = heap.write_oldest().await;
                heap.work.borrow_mut().writing = false;
                heap.changed.notify();
                result.unwrap_or_else(|error| heap.fail(&error));
            });
        }
        if self.work.borrow().cache.is_crammed() {
            self.changed.until(|| !self.work.borrow().writing).await;
        }
        self.gate().await
    }

    async fn write_oldest(self: &Rc<Self>) -> Result<()> {
        loop {
            let oldest = self.work.borrow_mut().cache.oldest();
            match oldest {
                Some(slots) => {
                    self.work.borrow_mut().allocation.begin_writing();
                    self.write_slots(&slots).await?;
                }
                None => return Ok(()),
            }
        }
    }

    /// Writes these records. Those that share pages with them and wait go along.
    pub(super) async fn write_slots(self: &Rc<Self>, slots: &[Slot]) -> Result<()> {
        if self.options.gather {
            let gaps = if self.core.disk.rotates() { Gaps::ROTATING } else { Gaps::FLAT };
            return self.write_runs(self.gathered(slots, gaps)).await;
        }
        for slot in slots {
            let run = {
                let work = self.work.borrow();
                let waits = |slot| work.cache.has(slot);
                waits(*slot).then(|| gather::alone(&work.allocation, *slot, waits))
            };
            self.write_runs(run.into_iter().collect()).await?;
        }
        Ok(())
    }

    fn gathered(&self, slots: &[Slot], gaps: Gaps) -> Vec<Run> {
        let work = self.work.borrow();
        gather::gather(&work.allocation, slots, gaps, |slot| work.cache.has(slot))
    }

    /// Writes runs, several at a time: no two of them share a page.
    async fn write_runs(self: &Rc<Self>, runs: Vec<Run>) -> Result<()> {
        let writes = runs.into_iter().map(|run| self.clone().write_run(run));
        coalesce::write_all(&self.core.disk.env().spawner, UNDER_WAY, writes).await
    }

    async fn write_run(self: Rc<Self>, run: Run) -> Result<()> {
        match self.write_as_one(&run, Beside::IsRead).await {
            // What others have in between, or on the same pages, cannot be read: these records are written without it.
            Err(error) if error.kind == Kind::Damaged && run.stays > run.at => {
                for alone in run.apart() {
                    self.write_as_one(&alone, Beside::MayBeLost).await?;
                }
                Ok(())
            }
            result => result,
        }
    }

    /// Writes a run, in as many writes as there are places on the device where it lies.
    async fn write_as_one(&self, run: &Run, beside: Beside) -> Result<()> {
        let places = self.work.borrow().space.runs(Bytes(run.at), Bytes(run.end - run.at));
        let mut at = run.at;
        let mut written: Vec<(Slot, cache::Place)> = Vec::with_capacity(run.slots.len());
        for (place, length) in places {
            let here = at..at + length.0;
            let mut buffer = self.buffers.take().await;
            let kept = run.stays.clamp(here.start, here.end) - here.start;
            if kept > 0 {
                buffer.set_len(kept as usize);
                self.work.borrow_mut().counters.read_back += 1;
                let (read, result) = self.core.disk.read(self.stream, place, buffer).await;
                buffer = read;
                match result.map_err(|error| lost::meaning(&self.core.disk, error)) {
                    Err(error) if error.kind == Kind::Damaged && beside == Beside::MayBeLost => {
                        self.read_by_blocks(place, &mut buffer, 0).await?;
                    }
                    result => result?,
                }
            }
            buffer.set_len(length.0 as usize);
            buffer[kept as usize..].fill(0);
            self.lay(run, &here, &mut buffer, &mut written);
            let (_, result) = self.core.disk.write(self.stream, place, buffer).await;
            at = here.end;
            self.note_written(here);
            result?;
        }
        self.work.borrow_mut().cache.written(&written);
        Ok(())
    }

    /// Reads what can be read, with `lost` where that is lost: where the device can be read otherwise.
    pub(super) async fn read_by_blocks(&self, place: Bytes, bytes: &mut [u8], lost: u8) -> Result<()> {
        let block = self.core.disk.geometry().block;
        for (nth, to) in (0..).zip(bytes.chunks_mut(block.0 as usize)) {
            let buffer = Buffer::alone(Bytes(to.len() as u64))?;
            let (read, result) = lost::read(&self.core.disk, self.stream, place + block * nth, buffer).await;
            match result {
                Ok(()) => to.copy_from_slice(&read),
                Err(error) if error.kind == Kind::Damaged && self.is_readable().await => to.fill(lost),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether the last root can be read: then what cannot is lost, and it is not the way to the device.
    pub(super) async fn is_readable(&self) -> bool {
        let root = super::root::root_at(self.work.borrow().which).0;
        self.read(root..root + super::root::PAGE as u64, |_, _| ()).await.is_ok()
    }

    /// Lays those records of a run that lie `here` over what is there, each padded to its whole slot.
    fn lay(&self, run: &Run, here: &Range<u64>, buffer: &mut [u8], written: &mut Vec<(Slot, cache::Place)>) {
        let work = &mut *self.work.borrow_mut();
        let counters = &mut work.counters;
        let mut own = 0;
        for (slot, lies) in &run.slots {
            let first = lies.start.max(here.start);
            if first >= lies.end.min(here.end) {
                continue;
            }
            // One that was freed meanwhile has nothing here; or another one, whose block may lie elsewhere by now.
            if gather::place(&work.allocation, *slot).is_none_or(|now| now != *lies) {
                continue;
            }
            let Some((place, bytes)) = work.cache.find(*slot) else { continue };
            own += lay_over(buffer, here, lies.start, bytes);
            let padding = (lies.start + bytes.len() as u64).clamp(here.start, here.end)..lies.end.min(here.end);
            buffer[(padding.start - here.start) as usize..(padding.end - here.start) as usize].fill(0);
            if lies.start >= here.start {
                written.push((*slot, place));
                counters.records += 1;
            } else {
                // If it is another one by now, no part of it counts.
                written.retain(|(other, before)| other != slot || *before == place);
            }
        }
        counters.writes += 1;
        counters.written += Bytes(buffer.len() as u64);
        counters.padding += Bytes(buffer.len() as u64 - own);
    }
}

/// Puts those of `bytes`, which lie from `from` on, into the buffer for `here` that lie there; how many these are.
pub(super) fn lay_over(buffer: &mut [u8], here: &Range<u64>, from: u64, bytes: &[u8]) -> u64 {
    let (first, end) = (from.max(here.start), (from + bytes.len() as u64).min(here.end));
    if first >= end {
        return 0;
    }
    let to = &mut buffer[(first - here.start) as usize..(end - here.start) as usize];
    to.copy_from_slice(&bytes[(first - from) as usize..(end - from) as usize]);
    end - first
}

#[cfg(test)]
mod tests;

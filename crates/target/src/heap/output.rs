//! Writing what was gathered: pages are read where something else lies on them, records are laid over them, and runs go
//! to the device several at a time.

use super::allocation::Slot;
use super::gather::{self, Run};
use super::{Heap, cache};
use forebay_env::Buffer;
use forebay_model::{Bytes, Result};
use std::collections::VecDeque;
use std::ops::Range;

/// Writes under way at once.
const UNDER_WAY: usize = 8;

/// What was written since the heap was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutputCounters {
    /// Writes of records to the device, and their bytes.
    pub writes: u64,
    /// See [`OutputCounters::writes`].
    pub written: Bytes,
    /// Records in them.
    pub records: u64,
    /// Of these bytes, those that fill up slots and pages.
    pub padding: Bytes,
    /// Reads of pages that had to be read before they could be written.
    pub read_back: u64,
    /// Commits.
    pub commits: u64,
    /// Writes of pages of allocators and of roots.
    pub meta_writes: u64,
}

/// A record that is being written: if it changes meanwhile, what was written is not it.
type Waiting = (Slot, cache::Place);

impl Heap {
    /// Writes the oldest records until fewer wait than may.
    pub(super) async fn make_room(&self) -> Result<()> {
        if self.work.borrow().writing {
            // Somebody does already; whoever is far ahead of that waits.
            if self.work.borrow().cache.is_crammed() {
                self.changed.until(|| !self.work.borrow().writing).await;
            }
            return self.gate().await;
        }
        self.work.borrow_mut().writing = true;
        let result = self.write_oldest().await;
        self.work.borrow_mut().writing = false;
        self.changed.notify();
        result.inspect_err(|error| self.fail(error))
    }

    async fn write_oldest(&self) -> Result<()> {
        loop {
            let oldest = self.work.borrow_mut().cache.oldest();
            match oldest {
                Some(slots) => self.write_slots(&slots).await?,
                None => return Ok(()),
            }
        }
    }

    /// Writes these records. Those that share pages with them and wait go along.
    pub(super) async fn write_slots(&self, slots: &[Slot]) -> Result<()> {
        if !self.options.gather {
            for slot in slots {
                let run = {
                    let work = self.work.borrow();
                    let waits = |slot| work.cache.get(slot).is_some();
                    waits(*slot).then(|| gather::alone(&work.allocation, *slot, waits))
                };
                if let Some(run) = run {
                    self.write_runs(vec![run]).await?;
                }
            }
            return Ok(());
        }
        let runs = {
            let work = self.work.borrow();
            gather::gather(&work.allocation, slots, |slot| work.cache.get(slot).is_some())
        };
        self.write_runs(runs).await
    }

    async fn write_runs(&self, runs: Vec<Run>) -> Result<()> {
        let mut writing = VecDeque::new();
        let mut written: Vec<Waiting> = Vec::new();
        let mut result = Ok(());
        for run in runs {
            let beside = self.read_beside(&run).await?;
            written.extend(self.places(&run));
            for (at, buffer) in self.lay(&run, &beside)? {
                let (disk, stream) = (self.core.disk.clone(), self.stream);
                writing.push_back(
                    self.core.disk.env().spawner.spawn(async move { disk.write(stream, at, buffer).await.1 }),
                );
                if writing.len() == UNDER_WAY
                    && let Some(first) = writing.pop_front()
                {
                    result = result.and(first.await);
                }
            }
        }
        for write in writing {
            result = result.and(write.await);
        }
        result?;
        self.work.borrow_mut().cache.written(&written);
        Ok(())
    }

    fn places(&self, run: &Run) -> Vec<Waiting> {
        let work = self.work.borrow();
        run.slots.iter().filter_map(|(slot, _)| Some((*slot, work.cache.place(*slot)?))).collect()
    }

    /// What lies on the pages of a run beside its records: where, and the bytes.
    async fn read_beside(&self, run: &Run) -> Result<Vec<(Range<u64>, Vec<u8>)>> {
        let mut read = Vec::new();
        for pages in gather::to_read(run) {
            self.work.borrow_mut().counters.read_back += 1;
            let bytes = self.read(pages.clone()).await?;
            read.push((pages, bytes));
        }
        let within = |range: &Range<u64>| {
            let (pages, bytes) = read.iter().find(|(pages, _)| pages.start <= range.start && range.end <= pages.end)?;
            let bytes = &bytes[(range.start - pages.start) as usize..(range.end - pages.start) as usize];
            Some((range.clone(), bytes.to_vec()))
        };
        Ok(run.beside.iter().filter_map(within).collect())
    }

    /// The bytes of a run, in as many buffers as there are places on the device where they go.
    fn lay(&self, run: &Run, beside: &[(Range<u64>, Vec<u8>)]) -> Result<Vec<(Bytes, Buffer)>> {
        let mut work = self.work.borrow_mut();
        let mut at = run.at;
        let mut laid = Vec::new();
        for (place, length) in work.space.runs(Bytes(run.at), Bytes(run.end - run.at)) {
            let mut buffer = Buffer::alone(length)?;
            buffer.fill(0);
            let here = at..at + length.0;
            let mut own = 0;
            for (slot, lies) in &run.slots {
                if let Some(bytes) = work.cache.get(*slot) {
                    own += lay_over(&mut buffer, &here, lies.start, bytes);
                }
            }
            for (lies, bytes) in beside {
                own += lay_over(&mut buffer, &here, lies.start, bytes);
            }
            let counters = &mut work.counters;
            counters.writes += 1;
            counters.written += length;
            counters.padding += length - Bytes(own);
            laid.push((place, buffer));
            at = here.end;
        }
        work.counters.records += run.slots.len() as u64;
        Ok(laid)
    }
}

/// Puts those of `bytes`, which lie from `from` on, into the buffer for `here` that lie there; how many these are.
fn lay_over(buffer: &mut [u8], here: &Range<u64>, from: u64, bytes: &[u8]) -> u64 {
    let (first, end) = (from.max(here.start), (from + bytes.len() as u64).min(here.end));
    if first >= end {
        return 0;
    }
    let to = &mut buffer[(first - here.start) as usize..(end - here.start) as usize];
    to.copy_from_slice(&bytes[(first - from) as usize..(end - from) as usize]);
    end - first
}

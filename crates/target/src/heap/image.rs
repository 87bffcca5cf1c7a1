//! A heap as it lies on its device, for who copies it to another target: units, and which of them were written since they were read.
//!
//! Whoever copies is told which units there are, and each that is read is taken off that list before; when a write has ended, what it
//! wrote is put on the list again. So what is not on it was read since it was written last, and a copy is whole when nobody may put or
//! free anything and the list is empty. The list is of one who copies, and is gone when the heap is opened anew.
//!
//! What cannot be read is filled so that no checksum matches: it is as damaged where the copy lies. Not so what describes the last
//! commit: an open heap has that in memory, and goes on with it, while a copy would be as of the commit before, without a word. Where it
//! rotted since, what is in memory is copied; and where that is not known as it was written, nothing is.

use super::allocator::Allocator;
use super::classes::UNIT;
use super::output::lay_over;
use super::root::{self, FIRST_UNIT, PAGE, PER_PAGE, Root};
use super::slot::Stamp;
use super::{Heap, Work, lost};
use forebay_env::Buffer;
use forebay_model::block::crc32c;
use forebay_model::ranges::Ranges;
use forebay_model::{Bytes, Error, Kind, Result};
use std::ops::Range;

/// What stands for bytes that cannot be read: neither a root, nor a page of allocators, nor the header of a record.
const UNREADABLE: u8 = 0xff;
/// Runs of units that are told apart: what is written here and there all the time is not to look like all there is. 2 MiB of memory.
const MOST_APART: usize = 64 << 10;
/// Runs of units that are told at a time.
pub const MOST_RUNS: usize = 256;

/// What is to be read, of one who copies.
pub(super) struct Watch {
    number: u64,
    units: Ranges,
}

/// What is to be read of a heap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// Who copies says this number next time.
    pub watch: u64,
    /// As which heap it was made.
    pub stamp: Stamp,
    /// Units from the one on that was named: the first runs of them, [`MOST_RUNS`] at most.
    pub runs: Vec<Range<u32>>,
    /// Units in all.
    pub units: u64,
    /// Units that the heap has: its commits name no others.
    pub space: u32,
}

impl Work {
    /// Puts right what describes the last commit in bytes of the heap that were read from `at` on, where it rotted; `before` was the last
    /// one when the read began. What has changed since is judged when it is read again: it was written meanwhile.
    fn mend(&self, stamp: Stamp, before: &Root, at: Bytes, bytes: &mut [u8]) -> Result<()> {
        let (last, here) = (&self.last, at.0..at.0 + bytes.len() as u64);
        if before.commit == last.commit && at < UNIT * u64::from(FIRST_UNIT) {
            lay_over(bytes, &here, root::root_at(self.which).0, &last.encode());
        }
        for (page, record) in (0..).zip(&last.pages) {
            let Bytes(place) = Root::place_at(&last.table, record.place);
            // A page lies in one unit.
            if !here.contains(&place) || before.pages.get(page as usize) != Some(record) {
                continue;
            }
            let lies = &mut bytes[(place - at.0) as usize..][..PAGE];
            if crc32c(lies) == record.crc {
                continue;
            }
            let first = page * PER_PAGE;
            let committed = (first..(first + PER_PAGE).min(last.allocators)).map(|number| {
                let now = self.allocation.get(number);
                Allocator::opened(now.class(), *now.starts(), **now.committed(), now.passed())
            });
            let anew = root::page_anew(stamp, last, page, &committed.collect::<Vec<_>>(), lies).ok_or_else(|| {
                Error::damaged(format!(
                    "page {page} of the allocators of heap {} rotted on its device since it was opened, and a copy would be as of \
                     an older commit; put what it has into another heap as long as this one is served (nothing was changed)",
                    stamp.heap
                ))
            })?;
            lies.copy_from_slice(&anew);
        }
        Ok(())
    }
}

impl Heap {
    /// What was written since it was read by who says `watch`, from a unit on; without, all is, and whoever copied before is told to
    /// begin anew: [`Kind::Stale`].
    pub fn unread(&self, watch: Option<u64>, from: u32) -> Result<Unread> {
        let work = &mut *self.work.borrow_mut();
        work.failure.clone().map_or(Ok(()), Err)?;
        if watch.is_none() {
            let mut units = Ranges::at_most(MOST_APART);
            units.add(0..u64::from(work.allocation.units().used().max(work.last.used_units)));
            work.watch = Some(Watch { number: self.core.disk.env().random.next_u64(), units });
        }
        let found = work.watch.as_ref().filter(|found| watch.is_none_or(|watch| watch == found.number));
        let Watch { number, units } = found.ok_or_else(begin_anew)?;
        let run = |run: Range<u64>| (run.start as u32).max(from)..run.end as u32;
        let runs = units.iter().map(run).filter(|run| !run.is_empty()).take(MOST_RUNS).collect();
        Ok(Unread { watch: *number, stamp: self.stamp, runs, units: units.total(), space: work.space.units() })
    }

    /// The bytes of units, which are read then. [`Kind::Damaged`] if some of them describe the last commit, and are known nowhere any more.
    pub async fn image(&self, watch: u64, units: Range<u32>) -> Result<Vec<u8>> {
        let range = u64::from(units.start)..u64::from(units.end);
        let before = {
            let work = &mut *self.work.borrow_mut();
            work.failure.clone().map_or(Ok(()), Err)?;
            if units.is_empty() || units.end > work.space.units() {
                return Err(Error::usage(format!(
                    "units {} to {} of a heap that has {} cannot be read (nothing was changed)",
                    units.start,
                    units.end,
                    work.space.units()
                )));
            }
            work.watch
                .as_mut()
                .filter(|found| found.number == watch)
                .ok_or_else(begin_anew)?
                .units
                .remove(range.clone());
            work.last.clone()
        };
        let read = self.read_units(UNIT * range.start, UNIT * (range.end - range.start)).await;
        let work = &mut *self.work.borrow_mut();
        if work.ended {
            // Its space is that of others.
            return Err(work.failure.clone().unwrap_or_else(begin_anew));
        }
        let read = read.and_then(|mut bytes| {
            work.mend(self.stamp, &before, UNIT * range.start, &mut bytes)?;
            Ok(bytes)
        });
        if read.is_err()
            && let Some(watch) = &mut work.watch
        {
            watch.units.add(range);
        }
        read
    }

    async fn read_units(&self, at: Bytes, length: Bytes) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(length.0 as usize);
        let runs = self.work.borrow().space.runs(at, length);
        for (place, length) in runs {
            let (mut buffer, result) = lost::read(&self.core.disk, self.stream, place, Buffer::alone(length)?).await;
            match result {
                Err(error) if error.kind == Kind::Damaged => {
                    self.read_by_blocks(place, &mut buffer, UNREADABLE).await?
                }
                result => result?,
            }
            bytes.extend_from_slice(&buffer);
        }
        Ok(bytes)
    }

    /// A write of these bytes of the heap has ended.
    pub(super) fn note_written(&self, bytes: Range<u64>) {
        if let Some(watch) = &mut self.work.borrow_mut().watch {
            watch.units.add(bytes.start / UNIT.0..bytes.end.div_ceil(UNIT.0));
        }
    }
}

fn begin_anew() -> Error {
    Error::stale("the heap was opened anew, or somebody else copies it; copy all of it again")
}

#[cfg(test)]
mod tests;

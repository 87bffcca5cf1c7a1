//! A heap as it lies on its device, for who copies it to another target: units, and which of them were written since they were read.
//!
//! Whoever copies is told which units there are, and each that is read is taken off that list before; when a write has ended, what it
//! wrote is put on the list again. So what is not on it was read since it was written last, and a copy is whole when nobody may put or
//! free anything and the list is empty. The list is of one who copies, and is gone when the heap is opened anew.
//!
//! What cannot be read is filled so that no checksum matches: it is as damaged where the copy lies.

use super::classes::UNIT;
use super::slot::Stamp;
use super::{Heap, lost};
use forebay_env::Buffer;
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

    /// The bytes of units, which are read then.
    pub async fn image(&self, watch: u64, units: Range<u32>) -> Result<Vec<u8>> {
        let range = u64::from(units.start)..u64::from(units.end);
        {
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
        }
        let read = self.read_units(UNIT * range.start, UNIT * (range.end - range.start)).await;
        let work = &mut *self.work.borrow_mut();
        if work.ended {
            // Its space is that of others.
            return Err(work.failure.clone().unwrap_or_else(begin_anew));
        }
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

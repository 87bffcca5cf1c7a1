//! The write cache of a rotating disk: which ranges are in memory and not yet on the platters. Only ranges; the
//! content is the store's.
//!
//! Ranges do not overlap. Each belongs to an epoch; a flush ends the epoch and waits until nothing of it, or of an
//! earlier one, is left. A newer write over an older range takes over the older epoch, so no flush forgets it.

use std::collections::BTreeMap;
use std::ops::Range;

#[derive(Clone, Copy)]
struct Dirty {
    end: u64,
    epoch: u64,
}

pub(super) struct WriteCache {
    room: u64,
    used: u64,
    dirty: BTreeMap<u64, Dirty>,
    /// Bytes of each epoch that are not on the platters, those under way included.
    waiting: BTreeMap<u64, u64>,
    epoch: u64,
}

impl WriteCache {
    pub(super) fn new(room: u64) -> WriteCache {
        WriteCache { room, used: 0, dirty: BTreeMap::new(), waiting: BTreeMap::new(), epoch: 0 }
    }

    pub(super) fn room(&self) -> u64 {
        self.room
    }

    pub(super) fn used(&self) -> u64 {
        self.used
    }

    pub(super) fn fits(&self, length: u64) -> bool {
        self.used + length <= self.room
    }

    fn count(&mut self, epoch: u64, bytes: u64) {
        *self.waiting.entry(epoch).or_default() += bytes;
        self.used += bytes;
    }

    fn discount(&mut self, epoch: u64, bytes: u64) {
        self.used -= bytes;
        let left = self.waiting.get_mut(&epoch).expect("bytes in the cache belong to an epoch");
        *left -= bytes;
        if *left == 0 {
            self.waiting.remove(&epoch);
        }
    }

    /// Takes `range` out, since something newer replaces it; gives the oldest epoch found there.
    pub(super) fn discard(&mut self, range: Range<u64>) -> Option<u64> {
        let mut oldest = None;
        while let Some((&start, &Dirty { end, epoch })) = self.dirty.range(..range.end).next_back() {
            if end <= range.start {
                break;
            }
            self.dirty.remove(&start);
            if start < range.start {
                self.dirty.insert(start, Dirty { end: range.start, epoch });
            }
            if end > range.end {
                self.dirty.insert(range.end, Dirty { end, epoch });
            }
            self.discount(epoch, end.min(range.end) - start.max(range.start));
            oldest = Some(oldest.unwrap_or(epoch).min(epoch));
        }
        oldest
    }

    pub(super) fn insert(&mut self, range: Range<u64>) {
        let epoch = self.discard(range.clone()).unwrap_or(self.epoch);
        self.count(epoch, range.end - range.start);
        let (mut start, mut end) = (range.start, range.end);
        if let Some((&before, dirty)) = self.dirty.range(..start).next_back()
            && dirty.end == start
            && dirty.epoch == epoch
        {
            start = before;
        }
        if let Some(dirty) = self.dirty.get(&end).copied()
            && dirty.epoch == epoch
        {
            self.dirty.remove(&end);
            end = dirty.end;
        }
        self.dirty.insert(start, Dirty { end, epoch });
    }

    /// Whether all of `range` is here.
    pub(super) fn covers(&self, range: &Range<u64>) -> bool {
        let mut at = range.end;
        while at > range.start {
            match self.dirty.range(..at).next_back() {
                Some((&start, dirty)) if dirty.end >= at => at = start,
                _ => return false,
            }
        }
        true
    }

    /// The next range to write for an arm that sweeps upwards and is at `from`, at most `most` bytes.
    pub(super) fn next(&self, from: u64, most: u64) -> Option<Range<u64>> {
        let (&start, dirty) = self.dirty.range(from..).next().or_else(|| self.dirty.first_key_value())?;
        Some(start..dirty.end.min(start + most))
    }

    /// As [`WriteCache::next`], but only of `epoch` and earlier ones.
    pub(super) fn next_until(&self, epoch: u64, from: u64, most: u64) -> Option<Range<u64>> {
        let mut of_epoch = self.dirty.range(from..).chain(self.dirty.range(..from)).filter(|(_, d)| d.epoch <= epoch);
        of_epoch.next().map(|(&start, dirty)| start..dirty.end.min(start + most))
    }

    /// Takes out `range`, which [`WriteCache::next`] or [`WriteCache::next_until`] named, to be written; its bytes count until
    /// [`WriteCache::done`].
    pub(super) fn take(&mut self, range: &Range<u64>) -> u64 {
        let Dirty { end, epoch } = self.dirty.remove(&range.start).expect("the range that was named is here");
        if end > range.end {
            self.dirty.insert(range.end, Dirty { end, epoch });
        }
        epoch
    }

    /// `bytes` of `epoch` are on the platters.
    pub(super) fn done(&mut self, epoch: u64, bytes: u64) {
        self.discount(epoch, bytes);
    }

    /// Ends the epoch and names it; `None` if there is nothing to wait for.
    pub(super) fn close(&mut self) -> Option<u64> {
        let closed = self.epoch;
        self.epoch += 1;
        (!self.waiting.is_empty()).then_some(closed)
    }

    /// Whether nothing of `epoch` or an earlier one is left.
    pub(super) fn is_clean(&self, epoch: u64) -> bool {
        self.waiting.first_key_value().is_none_or(|(oldest, _)| *oldest > epoch)
    }
}

#[cfg(test)]
mod tests;

//! Which units of a heap are used: those that were are taken again, the first ones first. Arithmetic only.

use std::collections::BTreeMap;
use std::ops::Range;

/// So many units have to be added before there are as many as were wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Short {
    /// Units; `u32::MAX`: no number of them helps.
    pub units: u32,
}

/// The units of a heap.
#[derive(Debug, Clone)]
pub struct Units {
    /// Runs of units that are free, below `used`: where they begin, and how many they are. No two of them touch each
    /// other, and none touches `used`.
    free: BTreeMap<u32, u32>,
    /// All behind this one are free.
    used: u32,
    all: u32,
}

impl Units {
    /// The first `used` of `all` are in use.
    pub fn new(used: u32, all: u32) -> Units {
        Units { free: BTreeMap::new(), used, all }
    }

    /// The unit behind the last one that is used.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Units that are used.
    pub fn count(&self) -> u32 {
        self.used - self.free.values().sum::<u32>()
    }

    /// There are so many now.
    pub fn set_all(&mut self, all: u32) {
        self.all = all;
    }

    /// Takes units that follow one another: the first of them.
    pub fn take(&mut self, count: u32) -> Result<u32, Short> {
        let fits = self.free.iter().find(|(_, units)| **units >= count);
        if let Some((first, units)) = fits.map(|(first, units)| (*first, *units)) {
            self.free.remove(&first);
            if units > count {
                self.free.insert(first + count, units - count);
            }
            return Ok(first);
        }
        let short = (self.used + count).saturating_sub(self.all);
        if short > 0 {
            return Err(Short { units: short });
        }
        self.used += count;
        Ok(self.used - count)
    }

    /// Gives units back.
    pub fn give(&mut self, units: Range<u32>) {
        let Range { mut start, mut end } = units;
        assert!(start < end && end <= self.used, "units {start} to {end} of {} are given back", self.used);
        if let Some((before, count)) = self.free.range(..end).next_back().map(|(first, count)| (*first, *count)) {
            assert!(before + count <= start, "unit {start} is given back, and is free");
            if before + count == start {
                self.free.remove(&before);
                start = before;
            }
        }
        if let Some(behind) = self.free.remove(&end) {
            end += behind;
        }
        if end == self.used {
            self.used = start;
        } else {
            self.free.insert(start, end - start);
        }
    }

    /// Of the units that follow `first`, and are used, those are given back that are in none of the runs of `used`, which
    /// are in order and do not overlap.
    pub fn keep_only(&mut self, first: u32, used: &[Range<u32>]) {
        let (mut at, end) = (first, self.used);
        for units in used {
            if at < units.start {
                self.give(at..units.start);
            }
            at = units.end;
        }
        if at < end {
            self.give(at..end);
        }
    }
}

#[cfg(test)]
mod tests;

//! Ranges, of bytes say, that grow together, so that there are few of them.

use std::collections::BTreeMap;
use std::ops::Range;

/// The most that are told apart if nothing else is said; of more, those nearest to one another become one, with what is between them.
const MOST: usize = 512;

/// Ranges that neither meet nor touch.
#[derive(Debug, Clone)]
pub struct Ranges {
    all: BTreeMap<u64, u64>,
    most: usize,
}

impl Default for Ranges {
    fn default() -> Ranges {
        Ranges::at_most(MOST)
    }
}

impl Ranges {
    /// None, and so many at most.
    pub fn at_most(most: usize) -> Ranges {
        Ranges { all: BTreeMap::new(), most }
    }

    /// Takes one in.
    pub fn add(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        while let Some((&from, &to)) = self.all.range(..=end).next_back().filter(|(_, to)| **to >= start) {
            self.all.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        self.all.insert(start, end);
        if self.all.len() > self.most {
            self.join_nearest();
        }
    }

    fn join_nearest(&mut self) {
        let pairs = self.all.iter().zip(self.all.keys().skip(1));
        let nearest = pairs.min_by_key(|((_, end), next)| **next - **end).map(|((start, _), next)| (*start, *next));
        if let Some((start, next)) = nearest
            && let Some(end) = self.all.remove(&next)
        {
            self.all.insert(start, end);
        }
    }

    /// Takes one out, whatever of it is there.
    pub fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        while let Some((&from, &to)) = self.all.range(..range.end).next_back().filter(|(_, to)| **to > range.start) {
            self.all.remove(&from);
            if from < range.start {
                self.all.insert(from, range.start);
            }
            if to > range.end {
                self.all.insert(range.end, to);
            }
        }
    }

    /// How much there is in all of them.
    pub fn total(&self) -> u64 {
        self.all.iter().map(|(start, end)| end - start).sum()
    }

    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.all.iter().map(|(start, end)| *start..*end)
    }
}

#[cfg(test)]
mod tests;

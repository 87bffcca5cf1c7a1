//! Ranges, of bytes say, that grow together, so that there are few of them.

use std::collections::BTreeMap;
use std::ops::Range;

/// The most that are told apart; of more, those nearest to one another become one, with what is between them.
const MOST: usize = 512;

/// Ranges that neither meet nor touch.
#[derive(Debug, Default, Clone)]
pub struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Takes one in.
    pub fn add(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        while let Some((&from, &to)) = self.0.range(..=end).next_back().filter(|(_, to)| **to >= start) {
            self.0.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        self.0.insert(start, end);
        if self.0.len() > MOST {
            self.join_nearest();
        }
    }

    fn join_nearest(&mut self) {
        let pairs = self.0.iter().zip(self.0.keys().skip(1));
        let nearest = pairs.min_by_key(|((_, end), next)| **next - **end).map(|((start, _), next)| (*start, *next));
        if let Some((start, next)) = nearest
            && let Some(end) = self.0.remove(&next)
        {
            self.0.insert(start, end);
        }
    }

    /// Takes one out, whatever of it is there.
    pub fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        while let Some((&from, &to)) = self.0.range(..range.end).next_back().filter(|(_, to)| **to > range.start) {
            self.0.remove(&from);
            if from < range.start {
                self.0.insert(from, range.start);
            }
            if to > range.end {
                self.0.insert(range.end, to);
            }
        }
    }

    /// How much there is in all of them.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }

    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.0.iter().map(|(start, end)| *start..*end)
    }
}

#[cfg(test)]
mod tests;

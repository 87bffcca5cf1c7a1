//! Where a disk with overlapping tracks keeps what it cannot write in place: a circle on tracks that do not overlap,
//! written one after the other, and a map from places of the host to places in it. Only ranges; the content is the
//! store's.
//!
//! Ranges in the map do not overlap. A position counts from the first byte ever written, so it only grows; space is
//! free again from the oldest on, once nothing in the map points there.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

#[derive(Clone, Copy)]
struct Kept {
    end: u64,
    position: u64,
}

/// What one write put here.
struct Entry {
    position: u64,
    range: Range<u64>,
}

pub(super) struct MediaCache {
    room: u64,
    /// What a write takes beside its bytes: the record that describes it.
    record: u64,
    kept: BTreeMap<u64, Kept>,
    entries: VecDeque<Entry>,
    head: u64,
}

impl MediaCache {
    pub(super) fn new(room: u64, record: u64) -> MediaCache {
        MediaCache { room, record, kept: BTreeMap::new(), entries: VecDeque::new(), head: 0 }
    }

    /// The position at which the next write goes, skipping what is left of the circle if it is too short.
    fn next(&self, length: u64) -> u64 {
        let left = self.room - self.head % self.room;
        if left < length + self.record { self.head + left } else { self.head }
    }

    fn tail(&self) -> u64 {
        self.entries.front().map_or(self.head, |entry| entry.position)
    }

    /// Whether writes of `lengths` all find room now.
    pub(super) fn fits(&self, lengths: impl Iterator<Item = u64>) -> bool {
        let all: u64 = lengths.map(|length| length + self.record).sum();
        // At most one of them skips the end of the circle, and what it skips is less than itself.
        self.head - self.tail() + 2 * all <= self.room
    }

    /// Takes a write; where in the circle it goes, and its length there.
    pub(super) fn insert(&mut self, range: Range<u64>) -> Range<u64> {
        self.discard(&range);
        let length = range.end - range.start;
        let position = self.next(length);
        self.head = position + length + self.record;
        self.kept.insert(range.start, Kept { end: range.end, position });
        self.entries.push_back(Entry { position, range });
        let at = position % self.room;
        at..at + length + self.record
    }

    /// Forgets `range`: it has been written elsewhere.
    pub(super) fn discard(&mut self, range: &Range<u64>) {
        self.discard_before(range, u64::MAX);
    }

    /// Forgets what of `range` was put here before the circle reached `position`.
    pub(super) fn discard_before(&mut self, range: &Range<u64>, position: u64) {
        let mut at = range.end;
        while let Some((&start, &kept)) = self.kept.range(..at).next_back() {
            if kept.end <= range.start {
                break;
            }
            at = start;
            if kept.position >= position {
                continue;
            }
            self.kept.remove(&start);
            if start < range.start {
                self.kept.insert(start, Kept { end: range.start, ..kept });
            }
            if kept.end > range.end {
                let position = kept.position + (range.end - start);
                self.kept.insert(range.end, Kept { end: kept.end, position });
            }
        }
        while self.entries.front().is_some_and(|entry| !self.is_live(entry)) {
            self.entries.pop_front();
        }
    }

    fn is_live(&self, entry: &Entry) -> bool {
        let own = entry.position..entry.position + (entry.range.end - entry.range.start);
        self.pieces(&entry.range).any(|(_, kept)| own.contains(&kept.position))
    }

    /// What of `range` is here, from its start on: the part of `range`, and where it is.
    fn pieces(&self, range: &Range<u64>) -> impl Iterator<Item = (Range<u64>, Kept)> {
        let first = self.kept.range(..=range.start).next_back().map_or(range.start, |(start, _)| *start);
        let range = range.clone();
        self.kept.range(first..range.end).filter(move |(_, kept)| kept.end > range.start).map(move |(start, kept)| {
            let part = (*start).max(range.start)..kept.end.min(range.end);
            let position = kept.position + (part.start - start);
            (part.clone(), Kept { end: part.end, position })
        })
    }

    /// What of `range` is here: the part of `range`, and where in the circle it begins.
    pub(super) fn find(&self, range: &Range<u64>) -> impl Iterator<Item = (Range<u64>, u64)> {
        self.pieces(range).map(|(part, kept)| (part, kept.position % self.room))
    }

    /// Where the host put the oldest that is still here.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.entries.front().map(|entry| entry.range.start)
    }

    /// The position that the circle has reached.
    pub(super) fn head(&self) -> u64 {
        self.head
    }
}

#[cfg(test)]
mod tests;

//! The second level in memory: the postings of an open segment, within a budget.
//!
//! Postings of a key are sorted runs, one for each group of spans, and the one that is being filled. What exceeds the
//! budget makes the key that has most of them coarser: its groups double where that saves enough, as values that come
//! again and again do; otherwise its spans from here on are read whatever is asked ([`Gathered::dense_from`]).

use super::postings::{COARSEST, FINEST, Gathered, bits_for, bound, entry};
use super::spans::SPAN_BYTES;
use forebay_model::Bytes;
use forebay_model::key::KeyValue;
use forebay_model::query::BlockSet;

/// Places in the table that spots repeated values within a span; the rest is removed when the run is closed.
const RECENT: usize = 2048;
/// A segment's tables have room for a gap in this many bytes.
const GAP_EVERY: u64 = 64 << 10;
/// Memory of a gap, with room to grow.
const GAP_MEMORY: u64 = 160;
/// Elements after which the budget is looked at.
pub(super) const SETTLE_EVERY: usize = 32 << 10;
/// Postings by which the memory of a key grows at least.
const LEAST_GROWTH: usize = 4096;
/// Memory of a run, with room to grow.
const RUN_BYTES: u64 = 4 * size_of::<Run>() as u64;
/// Memory of a span, and of what it says of each key, with room to grow.
const SPAN_MEMORY: u64 = 320;
/// One in this many values tells how much coarser groups would save.
const SAMPLE: u64 = 64;

/// How much of a segment its index may take, on the device; memory follows from that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexBudget {
    /// Bytes of all keys' pages.
    pub bytes: u64,
    /// Spans of a full segment.
    spans: u64,
    /// Gap records that its tables tell.
    gaps: u64,
}

impl IndexBudget {
    /// A budget of `percent` of segments of `segment` bytes for `keys` keys; at least a page for each.
    pub fn for_segment(segment: Bytes, percent: u8, keys: usize) -> IndexBudget {
        let least = if percent == 0 { 0 } else { keys as u64 * bound(1, 1, 0, COARSEST) };
        let bytes = (segment.0 * u64::from(percent) / 100).max(least);
        let gaps = (segment.0 / GAP_EVERY).clamp(16, 1024);
        IndexBudget { bytes, spans: segment.0 / u64::from(SPAN_BYTES) + 1, gaps }
    }

    /// The most postings of all keys together: as many as fit if each stands for one span.
    pub fn postings(&self) -> u64 {
        self.bytes * 8 * 10 / (10 * u64::from(COARSEST) + 34 + 10 * u64::from(bits_for(self.spans)))
    }

    /// Spans of a full segment.
    pub(crate) fn spans(&self) -> u64 {
        self.spans
    }

    /// Gap records that a segment's tables tell, at most.
    pub(crate) fn gaps(&self) -> u64 {
        self.gaps
    }

    /// The most memory that the postings and spans of `keys` keys take: eight bytes for each posting with an eighth to
    /// grow, and those that come before they are found to be too many.
    pub fn memory(&self, keys: u64) -> Bytes {
        let postings = self.postings() + keys * SETTLE_EVERY as u64;
        let of_spans = self.spans * (keys * RUN_BYTES + SPAN_MEMORY * (keys + 1)) + self.gaps * GAP_MEMORY;
        Bytes(postings * 9 + keys * ((RECENT + LEAST_GROWTH) * 8) as u64 + of_spans)
    }

    /// The highest precision at which that many postings fit, of each key with its group, in `room` bytes.
    pub(super) fn precision(&self, keys: impl Iterator<Item = (u64, u8)> + Clone, spans: u64, room: u64) -> u32 {
        let fits = |precision: &u32| self.taken(keys.clone(), spans, *precision) <= room.min(self.bytes);
        (COARSEST..=FINEST).rev().find(fits).unwrap_or(COARSEST)
    }

    /// Bytes that that many postings take at most.
    pub(super) fn taken(&self, keys: impl Iterator<Item = (u64, u8)>, spans: u64, precision: u32) -> u64 {
        keys.map(|(postings, group)| bound(postings, spans.max(self.spans), group, precision)).sum()
    }
}

/// Sorted postings of the spans from `span` on to the next run.
#[derive(Debug, Clone, Copy)]
struct Run {
    span: u16,
    start: usize,
}

/// The postings of one key.
struct Key {
    postings: Vec<u64>,
    /// The last is open: not sorted.
    runs: Vec<Run>,
    group: u8,
    dense_from: Option<u16>,
    recent: Box<[u64]>,
}

impl Key {
    fn new() -> Key {
        Key {
            postings: Vec::new(),
            runs: vec![Run { span: 0, start: 0 }],
            group: 0,
            dense_from: None,
            recent: vec![0; RECENT].into(),
        }
    }

    fn start(&self) -> usize {
        self.runs.last().map_or(0, |run| run.start)
    }

    /// Makes room, an eighth more than there is, so that what is taken is near to what is used.
    #[cold]
    fn grow(&mut self) {
        self.postings.reserve_exact(LEAST_GROWTH.max(self.postings.len() / 8));
    }

    /// Sorts the open run and removes what is told twice.
    fn compact(&mut self) {
        let start = self.start();
        self.postings[start..].sort_unstable();
        let mut kept = start;
        for i in start..self.postings.len() {
            if kept == start || self.postings[kept - 1] != self.postings[i] {
                self.postings[kept] = self.postings[i];
                kept += 1;
            }
        }
        self.postings.truncate(kept);
    }

    /// The next span begins.
    fn next_span(&mut self, span: u16) {
        if !span.is_multiple_of(1 << self.group.min(15)) {
            return;
        }
        if self.start() < self.postings.len() {
            self.compact();
            self.runs.push(Run { span, start: self.postings.len() });
        } else if let Some(run) = self.runs.last_mut() {
            run.span = span;
        }
    }

    /// By how much groups would have to grow so that an eighth of the postings goes, judged by a sample.
    fn worth(&self, spans: u64) -> Option<u8> {
        let mut sample: Vec<u64> = self.postings.iter().copied().filter(|p| (p >> 16).is_multiple_of(SAMPLE)).collect();
        let before = sample.len();
        let most = u64::BITS - ((spans - 1) >> self.group).leading_zeros();
        (1..=most as u8).find(|_| {
            sample.iter_mut().for_each(|p| *p = coarser(*p, 1));
            sample.sort_unstable();
            sample.dedup();
            sample.len() * 8 <= before * 7
        })
    }

    /// Makes groups `by` powers of two larger.
    fn coarsen(&mut self, by: u8) {
        self.group += by;
        let before = std::mem::take(&mut self.runs);
        let (mut kept, mut i) = (0, 0);
        while i < before.len() {
            let group = before[i].span >> self.group;
            let next = (i..before.len()).find(|j| before[*j].span >> self.group != group).unwrap_or(before.len());
            let end = before.get(next).map_or(self.postings.len(), |run| run.start);
            let run = &mut self.postings[before[i].start..end];
            run.iter_mut().for_each(|p| *p = coarser(*p, by));
            run.sort_unstable();
            self.runs.push(Run { span: group << self.group, start: kept });
            let first = kept;
            for at in before[i].start..end {
                if kept == first || self.postings[kept - 1] != self.postings[at] {
                    self.postings[kept] = self.postings[at];
                    kept += 1;
                }
            }
            i = next;
        }
        self.postings.truncate(kept);
        self.recent.fill(0);
    }

    /// Leaves the spans of the last run, and all to come, without postings.
    fn give_up(&mut self) {
        while self.runs.len() > 1 && self.start() == self.postings.len() {
            self.runs.pop();
        }
        let start = self.start();
        self.postings.truncate(start);
        self.dense_from = self.runs.last().map(|run| run.span);
    }

    /// The spans of `set` that may hold a value with this hash, from `from` on, are put into it.
    fn holds(&self, hash: u64, set: &mut BlockSet) {
        let wanted = hash >> 16;
        let spans = set.len();
        let mut found = |posting: u64| {
            let first = usize::from(posting as u16) << self.group;
            (first..(first + (1 << self.group)).min(spans)).for_each(|span| set.set(span));
        };
        for (i, run) in self.runs.iter().enumerate() {
            let end = self.runs.get(i + 1).map_or(self.postings.len(), |next| next.start);
            let postings = &self.postings[run.start..end];
            if i + 1 == self.runs.len() {
                postings.iter().filter(|p| **p >> 16 == wanted).for_each(|p| found(*p));
            } else {
                let first = postings.partition_point(|p| *p >> 16 < wanted);
                postings[first..].iter().take_while(|p| **p >> 16 == wanted).for_each(|p| found(*p));
            }
        }
        if let Some(from) = self.dense_from {
            (usize::from(from)..spans).for_each(|span| set.set(span));
        }
    }
}

fn coarser(posting: u64, by: u8) -> u64 {
    posting & !0xffff | (posting & 0xffff) >> by
}

/// The postings of all keys of an open segment.
pub(super) struct Postings {
    keys: Vec<Key>,
    pub(super) budget: IndexBudget,
}

impl Postings {
    pub(super) fn new(keys: usize, budget: IndexBudget) -> Postings {
        Postings { keys: (0..keys).map(|_| Key::new()).collect(), budget }
    }

    /// The value of key number `key` occurs in `span`, the open one.
    #[inline]
    pub(super) fn add(&mut self, key: usize, value: &KeyValue, span: u16) {
        let key = &mut self.keys[key];
        if key.dense_from.is_some() {
            return;
        }
        let posting = entry(value.hash(), span >> key.group);
        let place = &mut key.recent[(posting >> 16) as usize % RECENT];
        // What was never noted is zero, and so is the posting of one hash in 2^48 in the first span.
        if *place != posting || posting == 0 {
            *place = posting;
            if key.postings.len() == key.postings.capacity() {
                key.grow();
            }
            key.postings.push(posting);
        }
    }

    /// A part of `span` was added, not more than [`SETTLE_EVERY`] elements: keeps the budget.
    pub(super) fn settle(&mut self, span: u16) {
        if self.fits() {
            return;
        }
        self.keys.iter_mut().for_each(Key::compact);
        while !self.fits() {
            let Some(largest) = self.keys.iter_mut().max_by_key(|key| key.postings.len()) else { return };
            match largest.worth(u64::from(span) + 1).filter(|_| largest.dense_from.is_none()) {
                Some(by) => largest.coarsen(by),
                None => largest.give_up(),
            }
            // What one key has let go is for the others.
            largest.postings.shrink_to(largest.postings.len() + LEAST_GROWTH);
        }
    }

    /// Whether the pages, as coarse as can be, fit in the budget, and the postings in memory.
    fn fits(&self) -> bool {
        let postings: usize = self.keys.iter().map(|key| key.postings.len()).sum();
        postings as u64 <= self.budget.postings() && self.budget.taken(self.sizes(0), 0, COARSEST) <= self.budget.bytes
    }

    /// Of each key the postings with `more` to come, and the logarithm of the spans of a group.
    fn sizes(&self, more: u64) -> impl Iterator<Item = (u64, u8)> + Clone {
        self.keys
            .iter()
            .map(move |key| (key.postings.len() as u64 + if key.dense_from.is_some() { 0 } else { more }, key.group))
    }

    /// Bytes that the pages take at most if `entries` more elements come, over `spans` spans.
    pub(super) fn bound(&self, entries: u64, spans: u64) -> u64 {
        let precision = self.budget.precision(self.sizes(entries), spans, u64::MAX);
        self.budget.taken(self.sizes(entries), spans, precision)
    }

    /// Span `span` begins.
    pub(super) fn next_span(&mut self, span: u16) {
        self.keys.iter_mut().for_each(|key| key.next_span(span));
    }

    /// Which of `spans` spans may hold `value` of key number `key`.
    pub(super) fn holding(&self, key: usize, value: &KeyValue, spans: usize) -> BlockSet {
        let mut set = BlockSet::none(spans);
        self.keys[key].holds(value.hash(), &mut set);
        set
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> u64 {
        let each =
            |key: &Key| key.postings.capacity() * 8 + key.recent.len() * 8 + key.runs.capacity() * size_of::<Run>();
        self.keys.iter().map(each).sum::<usize>() as u64
    }

    /// Hands everything over, sorted, and the highest precision at which the pages over `spans` spans fit in `room`.
    pub(super) fn finish(mut self, spans: u64, room: u64) -> (Vec<Gathered>, u32) {
        self.keys.iter_mut().for_each(Key::compact);
        // Only where a damaged segment is indexed anew, in more spans than it had, is there less room than was kept.
        while self.budget.taken(self.sizes(0), spans, COARSEST) > room
            && let Some(largest) = self.keys.iter_mut().max_by_key(|key| key.postings.len())
        {
            largest.give_up();
        }
        let precision = self.budget.precision(self.sizes(0), spans, room);
        let each = |mut key: Key| {
            // Runs are merged.
            key.postings.sort();
            key.postings.dedup();
            Gathered { postings: key.postings, group: key.group, dense_from: key.dense_from }
        };
        (self.keys.into_iter().map(each).collect(), precision)
    }
}

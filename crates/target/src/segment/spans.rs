//! The first level: spans of consecutive blocks with their ranges of sequence, time and keys.
//!
//! A span is what a query reads at once, so it is about half a megabyte or more, however small the blocks are: the
//! tables of a segment stay small whatever is recorded.

use super::postings::entry;
use forebay_model::block::View;
use forebay_model::key::{KeySet, KeyValue};
use forebay_model::{Bytes, Result};
use serde::{Deserialize, Serialize};

/// A span is closed once it has this many bytes.
pub const SPAN_BYTES: u32 = 512 << 10;
/// Places in the table that spots repeated values within a span; the rest is removed when the span is closed.
const RECENT: usize = 2048;

/// Consecutive blocks, and what is in them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// Where it begins in the segment.
    pub offset: u32,
    /// Its bytes.
    pub length: u32,
    /// Number of its first block in the segment.
    pub first_block: u32,
    /// Its blocks.
    pub blocks: u32,
    /// Sequence of its first element.
    pub first: u64,
    /// Sequence after its last element.
    pub end: u64,
    /// Earliest time.
    pub min_time: i64,
    /// Latest time.
    pub max_time: i64,
    /// Whether there are gap records in it.
    pub gaps: bool,
    /// Whether its last element goes on in the next span.
    pub continues: bool,
    /// CRC-32C over the header checksums of its blocks: a block that was written and lost is missed here.
    pub crc: u32,
    /// For each key the least and the greatest value; missing if no element has the key.
    pub keys: Vec<(Wide, Wide)>,
}

/// A key value as it is stored: its length and its bytes.
pub type Wide = Vec<u8>;

/// How much memory the index of an open segment may take.
#[derive(Debug, Clone, Copy)]
pub struct IndexBudget {
    /// Postings of one key; beyond, spans are searched without an index.
    pub postings_per_key: usize,
}

impl IndexBudget {
    /// A budget for segments of `segment` bytes with `keys` keys: footers take at most an eighth of the segment.
    pub fn for_segment(segment: Bytes, keys: usize) -> IndexBudget {
        IndexBudget { postings_per_key: (segment.0 as usize / 8 / 5 / keys.max(1)).max(64) }
    }
}

/// Gathers the tables of an open segment.
pub struct Builder {
    keys: KeySet,
    budget: IndexBudget,
    spans: Vec<Span>,
    /// Crc state of the open span: the header checksums so far.
    open_crcs: Vec<u8>,
    /// Per key: least and greatest value in the open span.
    ranges: Vec<(KeyValue, KeyValue)>,
    /// Per key: postings as `entry` packs them. The open span's part is not yet sorted.
    postings: Vec<Vec<u64>>,
    /// Per key: where the open span's part begins.
    span_starts: Vec<usize>,
    /// Per key: from this span on the index is given up.
    dense_from: Vec<Option<u16>>,
    recent: Vec<u64>,
    scratch: Vec<KeyValue>,
    blocks: u32,
    open: bool,
}

impl Builder {
    /// An empty segment.
    pub fn new(keys: KeySet, budget: IndexBudget) -> Builder {
        let n = keys.len();
        Builder {
            keys,
            budget,
            spans: Vec::new(),
            open_crcs: Vec::new(),
            ranges: vec![(KeyValue::MISSING, KeyValue::MISSING); n],
            postings: vec![Vec::new(); n],
            span_starts: vec![0; n],
            dense_from: vec![None; n],
            recent: vec![0; RECENT * n],
            scratch: vec![KeyValue::MISSING; n],
            blocks: 0,
            open: false,
        }
    }

    /// Takes in the next block, which lies at `offset`. Its header must be stamped (`seal_header` is its checksum).
    pub fn add(&mut self, view: &View<'_>, offset: u32, first_sequence: u64) -> Result<()> {
        let header = view.header();
        let next = header.next_sequence() - header.first_sequence.get() + first_sequence;
        if !self.open {
            self.open = true;
            self.spans.push(Span {
                offset,
                length: 0,
                first_block: self.blocks,
                blocks: 0,
                first: first_sequence,
                end: first_sequence,
                min_time: i64::MAX,
                max_time: i64::MIN,
                gaps: false,
                continues: false,
                crc: 0,
                keys: Vec::new(),
            });
        }
        if !self.keys.is_empty() {
            self.index(view)?;
        }
        let span = self.spans.last_mut().expect("a span is open");
        span.length += header.total_len.get();
        span.blocks += 1;
        span.end = next;
        span.min_time = span.min_time.min(header.min_time.get());
        span.max_time = span.max_time.max(header.max_time.get());
        span.continues = header.continues();
        span.gaps |= header.gaps_len.get() > 0;
        self.blocks += 1;
        Ok(())
    }

    /// Tells the checksum of the header of the block that was added last, once it is stamped.
    pub fn stamped(&mut self, header_crc: u32) {
        self.open_crcs.extend_from_slice(&header_crc.to_le_bytes());
        if self.spans.last().is_some_and(|s| s.length >= SPAN_BYTES) {
            self.close_span();
        }
    }

    /// Blocks before number `index` are lost; the next one added has that number.
    pub fn skip_to(&mut self, index: u32) {
        self.close_span();
        self.blocks = index;
    }

    fn index(&mut self, view: &View<'_>) -> Result<()> {
        let span = self.spans.len() as u16 - 1;
        let bytes = view.bytes();
        for item in view.entries() {
            let item = item?;
            if !item.first {
                continue;
            }
            self.keys.extract(&bytes[item.payload], &bytes[item.caller_keys], &mut self.scratch);
            for (key, value) in self.scratch.iter().enumerate() {
                if *value == KeyValue::MISSING {
                    continue;
                }
                let (least, greatest) = &mut self.ranges[key];
                if *least == KeyValue::MISSING || value < least {
                    *least = *value;
                }
                if value > greatest {
                    *greatest = *value;
                }
                if self.dense_from[key].is_some() {
                    continue;
                }
                let posting = entry(value.hash(), span);
                let place = &mut self.recent[key * RECENT + (posting >> 16) as usize % RECENT];
                if *place != posting {
                    *place = posting;
                    self.postings[key].push(posting);
                }
            }
        }
        for key in 0..self.keys.len() {
            if self.postings[key].len() > self.budget.postings_per_key {
                self.compact(key);
                if self.postings[key].len() > self.budget.postings_per_key && self.dense_from[key].is_none() {
                    self.postings[key].truncate(self.span_starts[key]);
                    self.dense_from[key] = Some(span);
                }
            }
        }
        Ok(())
    }

    /// Sorts the open span's part and removes what is told twice.
    fn compact(&mut self, key: usize) {
        let start = self.span_starts[key];
        let postings = &mut self.postings[key];
        postings[start..].sort_unstable();
        let mut kept = start;
        for i in start..postings.len() {
            if kept == start || postings[kept - 1] != postings[i] {
                postings[kept] = postings[i];
                kept += 1;
            }
        }
        postings.truncate(kept);
    }

    fn close_span(&mut self) {
        if !self.open {
            return;
        }
        for key in 0..self.keys.len() {
            self.compact(key);
            self.span_starts[key] = self.postings[key].len();
        }
        let span = self.spans.last_mut().expect("a span is open");
        span.crc = forebay_model::block::crc32c(&self.open_crcs);
        span.keys = self.ranges.iter().map(|(a, b)| (a.as_bytes().to_vec(), b.as_bytes().to_vec())).collect();
        self.open_crcs.clear();
        self.ranges.fill((KeyValue::MISSING, KeyValue::MISSING));
        self.open = false;
    }

    /// The spans so far. The last may still grow; its key ranges are not told before it is closed.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Blocks so far.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Bytes of memory that the index takes now.
    pub fn memory(&self) -> Bytes {
        let postings: usize = self.postings.iter().map(|p| p.capacity() * 8).sum();
        let spans = self.spans.capacity() * size_of::<Span>() + self.spans.len() * self.keys.len() * 80;
        Bytes((postings + spans + self.recent.len() * 8) as u64)
    }

    /// An upper bound for the footer if a block with `entries` more elements is added.
    pub fn footer_bound(&self, entries: u32) -> u64 {
        let spans = self.spans.len() as u64 + 1;
        let per_span = 80 + 40 * self.keys.len() as u64;
        let mut bound = super::footer::TRAILER_LEN + spans * per_span;
        for (key, postings) in self.postings.iter().enumerate() {
            let more = if self.dense_from[key].is_some() { 0 } else { u64::from(entries) };
            bound += super::postings::bound(postings.len() as u64 + more);
        }
        bound.div_ceil(4096) * 4096 + 4096
    }

    /// Closes the last span and hands everything over: spans, sorted postings, and from where each is given up.
    pub fn finish(mut self) -> (Vec<Span>, Vec<Vec<u64>>, Vec<Option<u16>>) {
        self.close_span();
        for postings in &mut self.postings {
            postings.sort_unstable();
        }
        (self.spans, self.postings, self.dense_from)
    }
}

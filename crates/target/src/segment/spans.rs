//! The first level: spans of consecutive blocks with their ranges of sequence, time and keys.
//!
//! A span is what a query reads at once, so it is about half a megabyte or more, however small the blocks are: the
//! tables of a segment stay small whatever is recorded.

use super::gather::{IndexBudget, Postings, SETTLE_EVERY};
use super::postings::Gathered;
use forebay_model::block::View;
use forebay_model::gap::Gap;
use forebay_model::key::{KeySet, KeyValue, MAX_KEY_BYTES};
use forebay_model::query::{BlockSet, Term};
use forebay_model::{Bytes, Result};
use serde::{Deserialize, Serialize};

/// A span is closed once it has this many bytes.
pub const SPAN_BYTES: u32 = 512 << 10;

/// Bytes of a gap in the tables at most.
const GAP_LEN: u64 = 40;

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
    /// Whether there are gap records in it; in the tables of a sealed segment, whether there are some that these do not
    /// tell.
    pub gaps: bool,
    /// Whether its last element goes on in the next span.
    pub continues: bool,
    /// CRC-32C over the header checksums of its blocks: a block that was written and lost is missed here.
    pub crc: u32,
    /// For each key the least and the greatest value; missing if no element has the key.
    pub keys: Vec<(Wide, Wide)>,
}

/// A gap record, and the span that it lies in.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SpanGap {
    /// Number of the span.
    pub span: u16,
    /// The record.
    pub gap: Gap,
}

/// What a sealed segment says of itself, but for its postings.
pub(super) struct Finished {
    pub spans: Vec<Span>,
    pub gaps: Vec<SpanGap>,
    pub keys: Vec<Gathered>,
    /// How precisely the postings can be told.
    pub precision: u32,
}

/// A key value as it is stored: its length and its bytes.
pub type Wide = Vec<u8>;

/// Gathers the tables of an open segment.
pub struct Builder {
    keys: KeySet,
    spans: Vec<Span>,
    /// Crc state of the open span: the header checksums so far.
    open_crcs: Vec<u8>,
    /// Per key: least and greatest value in the open span.
    ranges: Vec<(KeyValue, KeyValue)>,
    postings: Postings,
    /// Gaps so far, as many as tables tell.
    gaps: Vec<SpanGap>,
    /// The first span with a gap that is not among them.
    gaps_end: u16,
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
            spans: Vec::new(),
            open_crcs: Vec::new(),
            ranges: vec![(KeyValue::MISSING, KeyValue::MISSING); n],
            postings: Postings::new(n, budget),
            gaps: Vec::new(),
            gaps_end: u16::MAX,
            scratch: vec![KeyValue::MISSING; n],
            blocks: 0,
            open: false,
        }
    }

    /// Takes in the next block, which lies at `offset` and begins with element `first_sequence`: it need not be stamped
    /// yet. Once it is, [`Builder::stamped`] is told.
    pub fn add(&mut self, view: &View<'_>, offset: u32, first_sequence: u64) -> Result<()> {
        let header = view.header();
        let next = header.next_sequence() - header.first_sequence.get() + first_sequence;
        if !self.open {
            self.open = true;
            self.postings.next_span(self.spans.len() as u16);
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
        let number = self.spans.len() as u16 - 1;
        for (_, gap) in view.gaps() {
            if (self.gaps.len() as u64) < self.postings.budget.gaps() {
                self.gaps.push(SpanGap { span: number, gap });
            } else {
                self.gaps_end = self.gaps_end.min(number);
            }
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
        for (number, item) in view.entries().enumerate() {
            let item = item?;
            if number % SETTLE_EVERY == SETTLE_EVERY - 1 {
                self.postings.settle(span);
            }
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
                self.postings.add(key, value, span);
            }
        }
        self.postings.settle(span);
        Ok(())
    }

    fn close_span(&mut self) {
        if !self.open {
            return;
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

    /// Which of the spans so far may hold an element for which `term` holds.
    pub fn holding(&self, term: &Term) -> BlockSet {
        let (key, low, high) = match term {
            Term::Equals { key, value } => (*key, value, value),
            Term::Range { key, low, high } => (*key, low, high),
        };
        let mut set = spans_touching(&self.spans, key, low, high);
        if self.open {
            let (least, greatest) = &self.ranges[key];
            if *greatest == KeyValue::MISSING || least > high || greatest < low {
                set.clear(self.spans.len() - 1);
            }
        }
        if let Term::Equals { key, value } = term
            && !set.is_empty()
        {
            set.and(&self.postings.holding(*key, value, self.spans.len()));
        }
        set
    }

    /// Gaps so far, as many as tables tell.
    pub fn gaps(&self) -> &[SpanGap] {
        &self.gaps
    }

    /// Whether span number `span` is closed, and all its gaps are among [`Builder::gaps`].
    pub fn tells_gaps(&self, span: usize) -> bool {
        span + usize::from(self.open) < self.spans.len() && span < usize::from(self.gaps_end)
    }

    /// Blocks so far.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Where the last block so far ends.
    pub fn end(&self) -> u64 {
        self.spans.last().map_or(0, |span| u64::from(span.offset) + u64::from(span.length))
    }

    /// Bytes of memory that the index takes now.
    pub fn memory(&self) -> Bytes {
        let per_span = size_of::<Span>() + self.keys.len() * (size_of::<(Wide, Wide)>() + 2 * MAX_KEY_BYTES);
        Bytes(
            self.postings.memory()
                + (self.spans.capacity() * per_span + self.open_crcs.capacity()) as u64
                + (self.gaps.capacity() * size_of::<SpanGap>()) as u64,
        )
    }

    /// An upper bound for the footer if a block with `entries` more elements is added.
    pub fn footer_bound(&self, entries: u32) -> u64 {
        let spans = self.spans.len() as u64 + 1;
        let bound = super::footer::TRAILER_LEN + self.tables_bound(spans);
        (bound + self.postings.bound(u64::from(entries), spans)).div_ceil(4096) * 4096 + 4096
    }

    /// Bytes of the tables at most, but for what they say of pages.
    fn tables_bound(&self, spans: u64) -> u64 {
        spans * (80 + 40 * self.keys.len() as u64) + 32 * self.keys.len() as u64 + self.postings.budget.gaps() * GAP_LEN
    }

    /// Closes the last span and hands everything over, for a segment of `segment` bytes.
    pub(super) fn finish(mut self, segment: Bytes) -> Finished {
        self.close_span();
        let spans = self.spans.len() as u64;
        let others = super::footer::TRAILER_LEN + self.tables_bound(spans) + 4096;
        let room = segment.0.saturating_sub(self.end() + others);
        let (keys, precision) = self.postings.finish(spans, room);
        let (mut spans, mut gaps) = (self.spans, self.gaps);
        gaps.retain(|gap| gap.span < self.gaps_end);
        spans.iter_mut().take(usize::from(self.gaps_end)).for_each(|span| span.gaps = false);
        Finished { spans, gaps, keys, precision }
    }
}

/// The spans whose range of a key touches `low..=high`; those whose ranges are not told are among them.
pub fn spans_touching(spans: &[Span], key: usize, low: &KeyValue, high: &KeyValue) -> BlockSet {
    spans
        .iter()
        .map(|span| {
            span.keys.get(key).is_none_or(|(least, greatest)| {
                let read = |bytes: &[u8]| KeyValue::from_bytes(bytes).unwrap_or(KeyValue::MISSING);
                let (least, greatest) = (read(least), read(greatest));
                greatest != KeyValue::MISSING && least <= *high && greatest >= *low
            })
        })
        .collect()
}

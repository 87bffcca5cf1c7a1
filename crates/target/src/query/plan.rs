//! Decides what to read of a segment: which spans, or which blocks of the open one, may hold an answer.

use super::{READ_BYTES, Run, Stretch};
use crate::catalog::Segment;
use crate::segment::{KeyIndex, Owner, PAGE_LEN, Span, TRAILER_LEN, Tables, Trailer, is_page, look_up, spans_touching};
use forebay_env::Buffer;
use forebay_model::gap::{Cause, Gap};
use forebay_model::key::KeyValue;
use forebay_model::query::{BlockSet, Term};
use forebay_model::{Bytes, Error, Result};
use std::collections::VecDeque;

/// What is read of a segment's end at first: the trailer, and most tables. A share of the segment,
const TAIL_SHARE: u64 = 1024;
/// and at least this,
const TAIL_LEAST: u64 = 8 << 10;
/// and at most this.
const TAIL_MOST: u64 = 64 << 10;
/// Index pages of a segment that are kept in memory while it is planned.
const PAGES_KEPT: usize = 64;

/// What was decided about a segment.
pub(super) struct Plan {
    /// What may hold answers, in order.
    pub stretches: VecDeque<Stretch>,
    /// Ends of spans or blocks, in order: up to there one may read on where an element goes on.
    pub steps: Vec<u32>,
    /// Gaps in spans that are not read, each with where its span begins, in order.
    pub gaps: VecDeque<(u32, Gap)>,
    /// Whether all of the segment was on the device when this was planned.
    pub complete: bool,
    /// Up to where everything was looked at, if it was not.
    pub end: u32,
    /// Whether stretches end anywhere: a block may go on in the next one.
    pub cut_anywhere: bool,
}

impl Run<'_> {
    /// Decides what to read of a segment.
    pub(super) async fn plan(&self, slot: u32, segment: &Segment, at: Bytes) -> Result<Plan> {
        if let Some(plan) = self.plan_open(segment) {
            return Ok(plan);
        }
        let readable_end = self.ring.readable_end();
        if let Some((tables, on_device)) = self.ring.recent_tables(segment.sequence) {
            let pages = on_device.then_some(at);
            let mut plan = self.plan_spans(&tables, pages).await?;
            plan.complete = segment.end <= readable_end;
            if !plan.complete {
                // Blocks are on their way: read what is there, and come back.
                let readable = tables.spans.iter().take_while(|s| s.end <= readable_end);
                plan.end = readable.last().map_or(0, |s| s.offset + s.length);
                plan.stretches.retain(|s| s.offset + s.length <= plan.end);
                plan.steps.retain(|step| *step <= plan.end);
                plan.gaps.retain(|(at, _)| *at < plan.end);
            }
            return Ok(plan);
        }
        if self.wants_all_of(segment) {
            return Ok(self.plan_without_tables(segment.bytes));
        }
        let tables = self.tables(slot, segment, at).await?;
        self.plan_spans(&tables, Some(at)).await
    }

    async fn tables(&self, slot: u32, segment: &Segment, at: Bytes) -> Result<Tables> {
        let length = self.core.with_ring(self.ring.id, |r| r.segment);
        let tail_len = (length.0 / TAIL_SHARE).next_multiple_of(4096).clamp(TAIL_LEAST, TAIL_MOST).min(length.0);
        let tail = self.fetch(at + length - Bytes(tail_len), tail_len).await?;
        let trailer = Trailer::decode(&tail[(tail_len - TRAILER_LEN) as usize..])?;
        if !trailer.is_at(self.core.target_id(), self.ring.id.0, slot, segment.sequence) {
            return Err(Error::damaged("the trailer of another segment is here"));
        }
        let (tables_at, tables_len) = (u64::from(trailer.tables_at), u64::from(trailer.tables_len));
        if tables_at + tables_len > length.0 {
            return Err(Error::damaged("a trailer tells of tables beyond its segment"));
        }
        if length.0 - tables_at <= tail_len {
            let start = (tables_at + tail_len - length.0) as usize;
            return Tables::decode(&tail[start..start + tables_len as usize], &trailer);
        }
        let from = tables_at / 4096 * 4096;
        let to = (tables_at + tables_len).div_ceil(4096) * 4096;
        let bytes = self.fetch(at + Bytes(from), to - from).await?;
        let start = (tables_at - from) as usize;
        Tables::decode(&bytes[start..start + tables_len as usize], &trailer)
    }

    /// Whether every block is read anyway, so that tables would only cost the arm a way to the segment's end and back.
    fn wants_all_of(&self, segment: &Segment) -> bool {
        // With a hole in it, its blocks reach further than the sum of their bytes.
        !self.needs_keys
            && segment.losses.gaps[Cause::Damaged as usize - 1] == 0
            && segment.min_time >= self.times.0.0
            && segment.max_time <= self.times.1.0
            && segment.first >= self.sequences.0
            && segment.end <= self.sequences.1
    }

    /// The blocks of the segment that is being written: those in spans that may hold an answer.
    fn plan_open(&self, segment: &Segment) -> Option<Plan> {
        self.ring.with_open(segment.sequence, |blocks, builder| {
            let spans = builder.spans();
            let wanted = self.query.candidates(spans.len(), &mut |term| Some(builder.holding(term)));
            let fresh = &blocks[blocks.partition_point(|(offset, _)| *offset < self.offset)..];
            let end = blocks.last().map_or(0, |(offset, length)| offset + length);
            // The gaps of a span of which nothing was told yet and nothing is still to come need not be read.
            let told = |i: usize| {
                builder.tells_gaps(i) && spans[i].offset >= self.offset && spans[i].offset + spans[i].length <= end
            };
            let is_read = |i: usize| self.in_range(&spans[i]) && (wanted.get(i) || spans[i].gaps && !told(i));
            let mut span = 0;
            let chosen = fresh.iter().filter(|(offset, _)| {
                while span + 1 < spans.len() && spans[span + 1].offset <= *offset {
                    span += 1;
                }
                is_read(span)
            });
            let stretches = join(chosen.map(|(offset, length)| Stretch { offset: *offset, length: *length }));
            let gaps = builder.gaps().iter().filter_map(|gap| {
                let i = usize::from(gap.span);
                (told(i) && self.in_range(&spans[i]) && !is_read(i)).then_some((spans[i].offset, gap.gap))
            });
            Plan {
                stretches,
                steps: fresh.iter().map(|(offset, length)| offset + length).collect(),
                gaps: gaps.collect(),
                complete: false,
                end,
                cut_anywhere: false,
            }
        })
    }

    /// Without tables everything is read, and what is no block is passed over.
    pub(super) fn plan_without_tables(&self, length: u32) -> Plan {
        let step = READ_BYTES as u32;
        let stretches = (self.offset..length)
            .step_by(step as usize)
            .map(|offset| Stretch { offset, length: step.min(length - offset) });
        Plan {
            stretches: stretches.collect(),
            steps: Vec::new(),
            gaps: VecDeque::new(),
            complete: true,
            end: length,
            cut_anywhere: true,
        }
    }

    async fn plan_spans(&self, tables: &Tables, pages_at: Option<Bytes>) -> Result<Plan> {
        let spans = &tables.spans;
        let wanted = self.candidates(tables, pages_at).await?;
        // Of a span of which a part was read while it was being written, the rest is, if it may have gaps.
        let begun =
            |i: usize, s: &Span| s.offset < self.offset && tables.gaps.iter().any(|told| usize::from(told.span) == i);
        let is_read = |i: usize, s: &Span| self.in_range(s) && (s.gaps || wanted.get(i) || begun(i, s));
        let chosen = spans.iter().enumerate().filter(|(i, s)| is_read(*i, s) && s.offset + s.length > self.offset).map(
            |(_, s)| {
                let offset = s.offset.max(self.offset);
                Stretch { offset, length: s.offset + s.length - offset }
            },
        );
        let gaps = tables.gaps.iter().filter_map(|told| {
            let number = usize::from(told.span);
            let span = spans.get(number).filter(|s| self.in_range(s) && s.offset >= self.offset)?;
            (!is_read(number, span)).then_some((span.offset, told.gap))
        });
        Ok(Plan {
            stretches: join(chosen),
            steps: spans.iter().map(|s| s.offset + s.length).collect(),
            gaps: gaps.collect(),
            complete: true,
            end: spans.last().map_or(0, |s| s.offset + s.length),
            cut_anywhere: false,
        })
    }

    fn in_range(&self, span: &Span) -> bool {
        span.min_time <= self.times.1.0
            && span.max_time >= self.times.0.0
            && span.end >= self.sequences.0
            && span.first <= self.sequences.1
    }

    /// The spans that may hold matching elements: by their ranges, and where these leave some, by the index.
    async fn candidates(&self, tables: &Tables, pages_at: Option<Bytes>) -> Result<BlockSet> {
        let n = tables.spans.len();
        let mut pages = VecDeque::new();
        let mut known: Vec<(Term, BlockSet)> = Vec::new();
        for term in self.query.terms() {
            let set = match &term {
                Term::Range { key, low, high } => spans_touching(&tables.spans, *key, low, high),
                Term::Equals { key, value } => {
                    let mut set = spans_touching(&tables.spans, *key, value, value);
                    if let (Some(at), Some(index), false) = (pages_at, tables.keys.get(*key), set.is_empty()) {
                        set.and(&self.spans_with(index, value, at, n, &mut pages).await?);
                    }
                    set
                }
            };
            known.push((term, set));
        }
        Ok(self.query.candidates(n, &mut |term| known.iter().find(|(t, _)| t == term).map(|(_, set)| set.clone())))
    }

    async fn spans_with(
        &self,
        index: &KeyIndex,
        value: &KeyValue,
        at: Bytes,
        n: usize,
        pages: &mut VecDeque<(Bytes, Buffer)>,
    ) -> Result<BlockSet> {
        let mut set = BlockSet::none(n);
        let hash = value.hash();
        let owner = Owner { ring: self.ring.id.0, segment: self.segment };
        for number in index.pages(hash) {
            let place = at + Bytes(u64::from(index.at) + (number * PAGE_LEN) as u64);
            if !pages.iter().any(|(kept, _)| *kept == place) {
                let bytes = self.fetch(place, PAGE_LEN as u64).await?;
                if pages.len() == PAGES_KEPT {
                    pages.pop_front();
                }
                pages.push_back((place, bytes));
            }
            let (_, bytes) = pages.iter().find(|(kept, _)| *kept == place).expect("it was just kept");
            if !is_page(index, number, bytes) {
                return Err(Error::damaged("an index page is not the one that its segment's tables tell of"));
            }
            look_up(index, bytes, owner, hash, &mut |span| {
                if usize::from(span) < n {
                    set.set(usize::from(span));
                }
            })?;
        }
        if let Some(from) = index.dense_from {
            (usize::from(from)..n).for_each(|span| set.set(span));
        }
        Ok(set)
    }

    async fn fetch(&self, at: Bytes, length: u64) -> Result<Buffer> {
        let (bytes, result) = self.core.disk.read(self.stream, at, Buffer::alone(Bytes(length))?).await;
        result.map(|()| bytes)
    }
}

/// Joins neighbours into stretches that are read at once.
fn join(parts: impl Iterator<Item = Stretch>) -> VecDeque<Stretch> {
    let mut joined: VecDeque<Stretch> = VecDeque::new();
    for part in parts {
        match joined.back_mut() {
            Some(last)
                if last.offset + last.length == part.offset
                    && u64::from(last.length + part.length) <= 2 * READ_BYTES =>
            {
                last.length += part.length;
            }
            _ => joined.push_back(part),
        }
    }
    joined
}

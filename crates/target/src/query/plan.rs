//! Decides what to read of a segment: which spans, or which blocks of the open one, may hold an answer; and says what has
//! to be found there: what is not found is missing, and told.

use super::Run;
use crate::catalog::Segment;
use crate::segment::{KeyIndex, Owner, PAGE_LEN, Span, TRAILER_LEN, Tables, Trailer, is_page, look_up, spans_touching};
use forebay_env::{Buffer, yield_now};
use forebay_model::gap::{Cause, Gap};
use forebay_model::key::KeyValue;
use forebay_model::query::{BlockSet, Term};
use forebay_model::{Bytes, Error, Result};
use std::collections::{BTreeMap, VecDeque};

/// Bytes read at once where spans lie together.
pub(super) const READ_BYTES: u64 = 2 << 20;
/// What is read of a segment's end at first: the trailer, and most tables. A share of the segment,
const TAIL_SHARE: u64 = 1024;
/// and at least this,
const TAIL_LEAST: u64 = 8 << 10;
/// and at most this.
const TAIL_MOST: u64 = 64 << 10;
/// Index pages of a segment that are kept in memory while it is planned.
const PAGES_KEPT: usize = 64;
/// Terms that are looked up before others have their turn.
const TERMS_AT_ONCE: usize = 64;

/// A stretch of a segment to be read at once, or a hole in it that is known already (of no length).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) offset: u32,
    pub(super) length: u32,
    /// Where what is known before it ends.
    pub(super) after: u32,
    /// Sequence of its first element, where it is known.
    pub(super) begins: Option<u64>,
    /// Sequence after its last element, where it is known.
    pub(super) ends: Option<u64>,
    /// Number of its first block, and after its last, where they are known.
    pub(super) blocks: Option<(u32, u32)>,
    /// Whether blocks directly before it are known to be missing.
    pub(super) torn_off: bool,
    /// Whether its last element may go on behind it.
    pub(super) continues: bool,
    /// Nothing in it is earlier or later.
    pub(super) times: (i64, i64),
}

/// What was decided about a segment.
pub(super) struct Plan {
    /// What may hold answers, in order.
    pub(super) stretches: VecDeque<Stretch>,
    /// All of the segment, in order: there one reads on where an element goes on.
    pub(super) parts: Vec<Stretch>,
    /// Gaps in spans that are not read, each with where its span begins, in order.
    pub(super) gaps: VecDeque<(u32, Gap)>,
    /// Whether all of the segment was on the device when this was planned.
    pub(super) complete: bool,
    /// Whether stretches end anywhere: a block may go on in the next one.
    pub(super) cut_anywhere: bool,
    /// Up to where everything is decided (of no length).
    pub(super) end: Stretch,
}

/// How much of a sealed segment can be read: the elements and the blocks before these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Readable {
    elements: u64,
    blocks: u32,
}

impl Readable {
    const ALL: Readable = Readable { elements: u64::MAX, blocks: u32::MAX };
}

impl Stretch {
    fn hole(offset: u32, elements: (u64, u64), times: (i64, i64)) -> Stretch {
        Stretch {
            offset,
            length: 0,
            after: offset,
            begins: Some(elements.0),
            ends: Some(elements.1),
            blocks: None,
            torn_off: false,
            continues: false,
            times,
        }
    }

    /// Takes in the neighbour behind it, if there is nothing between and both together have at most `most` bytes.
    pub(super) fn join(&mut self, part: &Stretch, most: u64) -> bool {
        let joins = self.length > 0
            && part.length > 0
            && self.offset + self.length == part.offset
            && self.ends == part.begins
            && !part.torn_off
            && self.blocks.map(|b| b.1) == part.blocks.map(|b| b.0)
            && u64::from(self.length) + u64::from(part.length) <= most;
        if joins {
            self.length += part.length;
            (self.ends, self.continues) = (part.ends, part.continues);
            self.blocks = self.blocks.zip(part.blocks).map(|(a, b)| (a.0, b.1));
            self.times = (self.times.0.min(part.times.0), self.times.1.max(part.times.1));
        }
        joins
    }
}

/// Lays a segment out as parts, known holes among them, and notes what is chosen of them.
struct Outline {
    plan: Plan,
    /// Sequence after the last element so far, and its time.
    reached: (u64, i64),
    /// Number of the block that comes next.
    next: u32,
}

impl Outline {
    fn new(segment: &Segment) -> Outline {
        let end = Stretch::hole(0, (segment.first, segment.first), (segment.min_time, segment.min_time));
        let plan = Plan {
            stretches: VecDeque::new(),
            parts: Vec::new(),
            gaps: VecDeque::new(),
            complete: true,
            cut_anywhere: false,
            end,
        };
        Outline { plan, reached: (segment.first, segment.min_time), next: 0 }
    }

    /// The next part: from `part.offset` on, with these elements and blocks. What lies before `from` was looked at.
    ///
    /// One that is not `chosen` is read all the same if blocks before it are missing and it is `in_range`: an element whose
    /// beginning those held goes on in it, and what no index tells of may have been asked for.
    fn part(&mut self, mut part: Stretch, from: u32, chosen: bool, in_range: bool) {
        let (offset, end) = (part.offset, part.offset + part.length);
        let (first, after) = (part.begins.unwrap_or(0), part.ends.unwrap_or(0));
        let (first_block, after_block) = part.blocks.unwrap_or((0, 0));
        if offset >= from {
            if first > self.reached.0 {
                self.hole(first, part.times.0);
            }
            part.after = self.plan.end.offset;
            part.torn_off = first_block > self.next;
        } else {
            (part.offset, part.length, part.after) = (from, end.saturating_sub(from), from);
            (part.begins, part.blocks) = (None, None);
        }
        (self.reached, self.next) = ((after, part.times.1), after_block);
        let (at, blocks, times) = (end, Some((after_block, after_block)), (part.times.1, part.times.1));
        self.plan.end = Stretch { blocks, ..Stretch::hole(at, (after, after), times) };
        if end > from {
            self.plan.parts.push(part);
            if chosen || in_range && part.torn_off {
                self.plan.stretches.push_back(part);
            }
        }
    }

    /// Elements up to `to` are missing here.
    fn hole(&mut self, to: u64, until: i64) {
        let hole = Stretch::hole(self.plan.end.offset, (self.reached.0, to), (self.reached.1, until));
        self.plan.stretches.push_back(hole);
        self.reached.0 = to;
        self.plan.end.ends = Some(to);
    }

    fn done(mut self) -> Plan {
        let mut joined: VecDeque<Stretch> = VecDeque::new();
        for part in self.plan.stretches {
            if !joined.back_mut().is_some_and(|last| last.join(&part, 2 * READ_BYTES)) {
                joined.push_back(part);
            }
        }
        self.plan.stretches = joined;
        self.plan
    }
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
            let unwritten = self.ring.first_unwritten(segment.sequence);
            let complete = segment.end <= readable_end && unwritten.is_none();
            // Where blocks are on their way: read what is there, and come back.
            let readable = match complete {
                true => Readable::ALL,
                false => Readable { elements: readable_end, blocks: unwritten.unwrap_or(u32::MAX) },
            };
            let mut plan = self.plan_spans(&tables, pages, segment, readable).await?;
            plan.complete = complete;
            return Ok(plan);
        }
        if self.wants_all_of(segment) {
            return Ok(self.plan_without_tables(segment.bytes, segment));
        }
        let tables = self.tables(slot, segment, at).await?;
        self.plan_spans(&tables, Some(at), segment, Readable::ALL).await
    }

    async fn tables(&self, slot: u32, segment: &Segment, at: Bytes) -> Result<Tables> {
        let length = self.core.with_ring(self.ring.id, |r| r.segment);
        let tail_len = (length.0 / TAIL_SHARE).next_multiple_of(4096).clamp(TAIL_LEAST, TAIL_MOST).min(length.0);
        let tail = self.fetch(at + length - Bytes(tail_len), tail_len).await?;
        let trailer = Trailer::decode(&tail[(tail_len - TRAILER_LEN) as usize..])?;
        if !trailer.is_at(self.ring.origin.target, self.ring.origin.ring, slot, segment.sequence) {
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
            && !self.limits.gaps_only
            && segment.losses.gaps[Cause::Damaged.index()] == 0
            && segment.min_time >= self.times.0.0
            && segment.max_time <= self.times.1.0
            && segment.first >= self.sequences.0
            && segment.end <= self.sequences.1
    }

    /// The blocks of the segment that is being written: those in spans that may hold an answer.
    fn plan_open(&self, segment: &Segment) -> Option<Plan> {
        // What is acknowledged and not here is missing since the last opening.
        let readable_end = self.ring.readable_end().min(segment.end);
        self.ring.with_open(segment.sequence, |blocks, builder| {
            let spans = builder.spans();
            let wanted = match self.limits.gaps_only {
                true => BlockSet::none(spans.len()),
                false => self.query.candidates(spans.len(), &mut |term| Some(builder.holding(term))),
            };
            let end = blocks.last().map_or(0, |block| block.offset + block.length);
            // The gaps of a span of which nothing was told yet and nothing is still to come need not be read.
            let told = |i: usize| {
                builder.tells_gaps(i) && spans[i].offset >= self.offset && spans[i].offset + spans[i].length <= end
            };
            let is_read = |i: usize| self.in_range(&spans[i]) && (wanted.get(i) || spans[i].gaps && !told(i));
            // A span is read as a whole, as far as it was not looked at.
            let (mut span, mut parts) = (0, Vec::<(Stretch, usize)>::new());
            for block in blocks {
                let before = span;
                while span + 1 < spans.len() && spans[span + 1].offset <= block.offset {
                    span += 1;
                }
                let next = Stretch {
                    length: block.length,
                    blocks: Some((block.index, block.index + 1)),
                    continues: true,
                    ..Stretch::hole(block.offset, block.elements, block.times)
                };
                let with_last = span == before && block.offset != self.offset;
                if !with_last || !parts.last_mut().is_some_and(|(part, _)| part.join(&next, u64::MAX)) {
                    parts.push((next, span));
                }
            }
            let mut outline = Outline::new(segment);
            for (part, span) in parts {
                outline.part(part, self.offset, is_read(span), self.in_range(&spans[span]));
            }
            if readable_end > outline.reached.0 {
                outline.hole(readable_end, segment.max_time);
            }
            let gaps = builder.gaps().iter().filter_map(|gap| {
                let i = usize::from(gap.span);
                (told(i) && self.in_range(&spans[i]) && !is_read(i)).then_some((spans[i].offset, gap.gap))
            });
            outline.plan.gaps = gaps.collect();
            outline.plan.complete = false;
            outline.done()
        })
    }

    /// Without tables everything is read, and what is no block is passed over.
    pub(super) fn plan_without_tables(&self, length: u32, segment: &Segment) -> Plan {
        let step = READ_BYTES as u32;
        let times = (segment.min_time, segment.max_time);
        let mut plan = Outline::new(segment).plan;
        plan.stretches = (self.offset..length)
            .step_by(step as usize)
            .map(|offset| Stretch {
                length: step.min(length - offset),
                begins: None,
                ends: None,
                continues: true,
                ..Stretch::hole(offset, (0, 0), times)
            })
            .collect();
        if let Some(first) = plan.stretches.front_mut().filter(|s| s.offset == 0) {
            first.begins = Some(segment.first);
        }
        if let Some(last) = plan.stretches.back_mut() {
            last.ends = Some(segment.end);
        }
        plan.cut_anywhere = true;
        plan
    }

    /// What to read of a sealed segment, as far as it is `readable`.
    async fn plan_spans(
        &self,
        tables: &Tables,
        pages_at: Option<Bytes>,
        segment: &Segment,
        readable: Readable,
    ) -> Result<Plan> {
        let wanted = self.candidates(tables, pages_at).await?;
        // Blocks in which the last element goes on may still be on their way.
        let there = |s: &&Span| {
            let are_elements = s.end < readable.elements || s.end == readable.elements && !s.continues;
            are_elements && s.first_block.saturating_add(s.blocks) <= readable.blocks
        };
        let spans = &tables.spans[..tables.spans.iter().take_while(there).count()];
        // Of a span of which a part was read while it was being written, the rest is, if it may have gaps.
        let begun =
            |i: usize, s: &Span| s.offset < self.offset && tables.gaps.iter().any(|told| usize::from(told.span) == i);
        let is_read = |i: usize, s: &Span| self.in_range(s) && (s.gaps || wanted.get(i) || begun(i, s));
        let mut outline = Outline::new(segment);
        for (i, span) in spans.iter().enumerate() {
            let part = Stretch {
                length: span.length,
                blocks: Some((span.first_block, span.first_block + span.blocks)),
                continues: span.continues,
                ..Stretch::hole(span.offset, (span.first, span.end), (span.min_time, span.max_time))
            };
            outline.part(part, self.offset, is_read(i, span), self.in_range(span));
        }
        if readable == Readable::ALL && segment.end > outline.reached.0 {
            outline.hole(segment.end, segment.max_time);
        }
        let gaps = tables.gaps.iter().filter_map(|told| {
            let number = usize::from(told.span);
            let span = spans.get(number).filter(|s| self.in_range(s) && s.offset >= self.offset)?;
            (!is_read(number, span)).then_some((span.offset, told.gap))
        });
        outline.plan.gaps = gaps.collect();
        Ok(outline.done())
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
        if self.limits.gaps_only {
            return Ok(BlockSet::none(n));
        }
        let mut pages = VecDeque::new();
        let mut known: BTreeMap<Term, BlockSet> = BTreeMap::new();
        for (number, term) in self.query.terms().into_iter().enumerate() {
            if number % TERMS_AT_ONCE == TERMS_AT_ONCE - 1 {
                // Pages that are kept are not waited for.
                yield_now().await;
            }
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
            known.insert(term, set);
        }
        Ok(self.query.candidates(n, &mut |term| known.get(term).cloned()))
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
        let owner = Owner { ring: self.ring.origin.ring, segment: self.segment };
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

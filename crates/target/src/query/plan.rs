//! Decides what to read of a segment, and says what has to be found there: what is not found is missing, and told.

use super::Run;
use crate::catalog::Segment;
use crate::ring::Written;
use crate::segment::{KeyIndex, Owner, PAGE_LEN, Span, TRAILER_LEN, Tables, Trailer, is_page, look_up};
use forebay_model::gap::Cause;
use forebay_model::key::KeyValue;
use forebay_model::query::{BlockSet, Term};
use forebay_model::{Bytes, Error, Result};
use std::collections::VecDeque;

/// Bytes read at once where spans lie together.
const READ_BYTES: u64 = 2 << 20;
/// What is read of a segment's end at first: the trailer, and most tables.
const TAIL_BYTES: u64 = 64 << 10;

/// A stretch of a segment to be read at once, or a hole in it that is known already (of no length).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) offset: u32,
    pub(super) length: u32,
    /// Sequence of its first element, where it is known.
    pub(super) begins: Option<u64>,
    /// Sequence after its last element, where it is known.
    pub(super) ends: Option<u64>,
    /// Number of its first block, and after its last, where they are known.
    pub(super) blocks: Option<(u32, u32)>,
    /// Whether blocks directly before it are known to be missing.
    pub(super) torn_off: bool,
    /// Nothing in it is earlier or later.
    pub(super) times: (i64, i64),
}

/// What was decided about a segment.
pub(super) struct Plan {
    pub(super) stretches: VecDeque<Stretch>,
    /// Whether the last stretch reaches the segment's last block and that goes on in the next segment.
    pub(super) goes_on: bool,
    /// Whether all of the segment was on the device when this was planned.
    pub(super) complete: bool,
    /// Whether stretches end anywhere: a block may go on in the next one.
    pub(super) cut_anywhere: bool,
}

impl Stretch {
    fn hole(offset: u32, elements: (u64, u64), times: (i64, i64)) -> Stretch {
        let (begins, ends) = (Some(elements.0), Some(elements.1));
        Stretch { offset, length: 0, begins, ends, blocks: None, torn_off: false, times }
    }
}

impl Run<'_> {
    /// Decides what to read of a segment.
    pub(super) async fn plan(&self, slot: u32, segment: Segment, at: Bytes) -> Result<Plan> {
        if let Some(blocks) = self.ring.open_blocks(segment.sequence) {
            return Ok(self.plan_open(&blocks, &segment));
        }
        let readable_end = self.ring.readable_end();
        if let Some((tables, on_device)) = self.ring.recent_tables(segment.sequence) {
            let pages = on_device.then_some(at);
            let mut plan = self.plan_spans(&tables, pages, &segment).await?;
            plan.complete = segment.end <= readable_end;
            if !plan.complete {
                // Blocks are on their way: read what is there, and come back.
                plan.stretches.retain(|s| s.ends.is_some_and(|end| end <= readable_end));
                plan.goes_on = false;
            }
            return Ok(plan);
        }
        if self.wants_all_of(&segment) {
            return Ok(self.plan_without_tables(segment.bytes, &segment));
        }
        let length = self.core.with_ring(self.ring.id, |r| r.segment);
        let tail_len = TAIL_BYTES.min(length.0);
        let tail = self.read(at + length - Bytes(tail_len), tail_len).await?;
        let trailer = Trailer::decode(&tail[(tail_len - TRAILER_LEN) as usize..])?;
        if !trailer.is_at(self.core.target_id(), self.ring.id.0, slot, segment.sequence) {
            return Err(forebay_model::Error::damaged("the trailer of another segment is here"));
        }
        let tables_at = u64::from(trailer.tables_at);
        let tables = if length.0 - tables_at <= tail_len {
            let start = (tables_at + tail_len - length.0) as usize;
            Tables::decode(&tail[start..start + trailer.tables_len as usize], &trailer)?
        } else {
            let from = tables_at / 4096 * 4096;
            let to = (tables_at + u64::from(trailer.tables_len)).div_ceil(4096) * 4096;
            let bytes = self.read(at + Bytes(from), to - from).await?;
            let start = (tables_at - from) as usize;
            Tables::decode(&bytes[start..start + trailer.tables_len as usize], &trailer)?
        };
        self.plan_spans(&tables, Some(at), &segment).await
    }

    /// Whether every block is read anyway, so that tables would only cost the arm a way to the segment's end and back.
    fn wants_all_of(&self, segment: &Segment) -> bool {
        // With a hole in it, its blocks reach further than the sum of their bytes.
        !self.query.needs_keys()
            && !self.limits.gaps_only
            && segment.losses.gaps[Cause::Damaged as usize - 1] == 0
            && segment.min_time >= self.times.0.0
            && segment.max_time <= self.times.1.0
            && segment.first >= self.sequences.0
            && segment.end <= self.sequences.1
    }

    fn plan_open(&self, blocks: &[Written], segment: &Segment) -> Plan {
        let mut stretches = VecDeque::new();
        let (mut at, mut end, mut time, mut next) = (0, segment.first, segment.min_time, 0);
        let with_gaps = self.limits.gaps_only.then(|| self.ring.open_gaps(segment.sequence));
        let looked_at = |offset| with_gaps.as_ref().is_none_or(|spans| spans.iter().any(|s| s.contains(&offset)));
        for block in blocks {
            if block.offset >= self.offset && looked_at(block.offset) {
                if block.elements.0 > end {
                    stretches.push_back(Stretch::hole(at, (end, block.elements.0), (time, block.times.0)));
                }
                stretches.push_back(Stretch {
                    offset: block.offset,
                    length: block.length,
                    begins: Some(block.elements.0),
                    ends: Some(block.elements.1),
                    blocks: Some((block.index, block.index + 1)),
                    torn_off: block.index > next,
                    times: block.times,
                });
            }
            (at, end, time) = (block.offset + block.length, block.elements.1, block.times.1);
            next = block.index + 1;
        }
        // What is acknowledged and not here is missing since the last opening.
        let readable_end = self.ring.readable_end().min(segment.end);
        if readable_end > end {
            stretches.push_back(Stretch::hole(at, (end, readable_end), (time, segment.max_time)));
        }
        Plan { stretches: join(stretches), goes_on: false, complete: false, cut_anywhere: false }
    }

    /// Without tables everything is read, and what is no block is passed over.
    pub(super) fn plan_without_tables(&self, length: u32, segment: &Segment) -> Plan {
        let step = READ_BYTES as u32;
        let mut stretches: VecDeque<Stretch> = (self.offset..length)
            .step_by(step as usize)
            .map(|offset| Stretch {
                offset,
                length: step.min(length - offset),
                begins: None,
                ends: None,
                blocks: None,
                torn_off: false,
                times: (segment.min_time, segment.max_time),
            })
            .collect();
        if let Some(first) = stretches.front_mut().filter(|s| s.offset == 0) {
            first.begins = Some(segment.first);
        }
        if let Some(last) = stretches.back_mut() {
            last.ends = Some(segment.end);
        }
        Plan { stretches, goes_on: true, complete: true, cut_anywhere: true }
    }

    async fn plan_spans(&self, tables: &Tables, pages_at: Option<Bytes>, segment: &Segment) -> Result<Plan> {
        let spans = &tables.spans;
        let candidates = self.candidates(tables, pages_at).await?;
        let mut chosen = vec![false; spans.len()];
        for (i, span) in spans.iter().enumerate() {
            let in_range = span.min_time <= self.times.1.0
                && span.max_time >= self.times.0.0
                && span.end >= self.sequences.0
                && span.first <= self.sequences.1;
            if self.limits.gaps_only {
                chosen[i] = in_range && span.gaps;
                continue;
            }
            let continued = if i == 0 { self.force_first } else { chosen[i - 1] && spans[i - 1].continues };
            chosen[i] = continued || in_range && (span.gaps || candidates.get(i));
        }
        let goes_on =
            !self.limits.gaps_only && spans.last().is_some_and(|s| s.continues) && chosen.last() == Some(&true);
        let mut stretches = VecDeque::new();
        let (mut at, mut end, mut time, mut next) = (0, segment.first, segment.min_time, 0);
        for (span, chosen) in spans.iter().zip(&chosen) {
            if span.first > end && span.offset >= self.offset {
                stretches.push_back(Stretch::hole(at, (end, span.first), (time, span.min_time)));
            }
            (at, end, time) = (span.offset + span.length, span.end, span.max_time);
            let next = std::mem::replace(&mut next, span.first_block + span.blocks);
            if *chosen && at > self.offset {
                let whole = span.offset >= self.offset;
                stretches.push_back(Stretch {
                    offset: span.offset,
                    length: span.length,
                    begins: whole.then_some(span.first),
                    ends: Some(span.end),
                    blocks: whole.then_some((span.first_block, span.first_block + span.blocks)),
                    torn_off: whole && span.first_block > next,
                    times: (span.min_time, span.max_time),
                });
            }
        }
        if segment.end > end {
            stretches.push_back(Stretch::hole(at, (end, segment.end), (time, segment.max_time)));
        }
        Ok(Plan { stretches: join(stretches), goes_on, complete: true, cut_anywhere: false })
    }

    /// The spans that may hold matching elements, by the index.
    async fn candidates(&self, tables: &Tables, pages_at: Option<Bytes>) -> Result<BlockSet> {
        let n = tables.spans.len();
        if self.limits.gaps_only {
            return Ok(BlockSet::none(n));
        }
        let terms = self.query.terms();
        let mut known: Vec<(Term, Option<BlockSet>)> = Vec::new();
        for term in terms {
            let set = match &term {
                Term::Equals { key, value } => match pages_at {
                    Some(at) => Some(self.spans_with(&tables.keys[*key], *value, at, n).await?),
                    None => Some(spans_in(&tables.spans, *key, value, value)),
                },
                Term::Range { key, low, high } => Some(spans_in(&tables.spans, *key, low, high)),
            };
            known.push((term, set));
        }
        Ok(self.query.candidates(n, &mut |term| known.iter().find(|(t, _)| t == term).and_then(|(_, set)| set.clone())))
    }

    async fn spans_with(&self, index: &KeyIndex, value: KeyValue, at: Bytes, n: usize) -> Result<BlockSet> {
        let mut set = BlockSet::none(n);
        let hash = value.hash();
        for page in index.pages(hash) {
            let place = at + Bytes(u64::from(index.at) + (page * PAGE_LEN) as u64);
            let bytes = self.read(place, PAGE_LEN as u64).await?;
            if !is_page(index, page, &bytes) {
                return Err(Error::damaged("an index page is not the one that its segment's tables tell of"));
            }
            let owner = Owner { ring: self.ring.id.0, segment: self.segment };
            look_up(index, &bytes, owner, hash, &mut |span| {
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
}

/// The spans whose range of a key touches `low..=high`.
fn spans_in(spans: &[Span], key: usize, low: &KeyValue, high: &KeyValue) -> BlockSet {
    let mut set = BlockSet::none(spans.len());
    for (i, span) in spans.iter().enumerate() {
        let touches = match span.keys.get(key) {
            None => true,
            Some((least, greatest)) => {
                let read = |bytes: &[u8]| KeyValue::from_bytes(bytes).unwrap_or(KeyValue::MISSING);
                let (least, greatest) = (read(least), read(greatest));
                greatest != KeyValue::MISSING && least <= *high && greatest >= *low
            }
        };
        if touches {
            set.set(i);
        }
    }
    set
}

/// Joins neighbours into stretches that are read at once.
fn join(parts: VecDeque<Stretch>) -> VecDeque<Stretch> {
    let mut joined: VecDeque<Stretch> = VecDeque::new();
    for part in parts {
        match joined.back_mut() {
            Some(last)
                if last.length > 0
                    && part.length > 0
                    && last.offset + last.length == part.offset
                    && last.ends == part.begins
                    && !part.torn_off
                    && last.blocks.map(|b| b.1) == part.blocks.map(|b| b.0)
                    && u64::from(last.length + part.length) <= 2 * READ_BYTES =>
            {
                last.length += part.length;
                last.ends = part.ends;
                last.blocks = last.blocks.zip(part.blocks).map(|(a, b)| (a.0, b.1));
                last.times = (last.times.0.min(part.times.0), last.times.1.max(part.times.1));
            }
            _ => joined.push_back(part),
        }
    }
    joined
}

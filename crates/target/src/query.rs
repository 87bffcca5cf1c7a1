//! Answers queries next to the data: decides which segments, spans and blocks may hold an answer, reads those and
//! nothing else, and streams what matches in order, with gaps and expired ranges in their places.
//!
//! A reader never waits for the writer, nor the writer for a reader: a segment that is overwritten while it is read is
//! told as expired. Nothing is returned whose place, lap and checksum were not verified.

use crate::catalog::{RingRecord, Segment};
use crate::ring::Ring;
use crate::schedule::StreamId;
use crate::segment::{KeyIndex, Owner, PAGE_LEN, Span, TRAILER_LEN, Tables, Trailer, is_page, look_up};
use crate::target::Core;
use forebay_env::Buffer;
use forebay_env::pipe::Inlet;
use forebay_model::block::{Header, View, parse_stamped};
use forebay_model::gap::{Cause, Gap};
use forebay_model::key::KeyValue;
use forebay_model::query::{BlockSet, Query, Term};
use forebay_model::ring::{Batch, Item, QuerySummary};
use forebay_model::{Bytes, Error, Result, RingId, Timestamp};
use std::collections::VecDeque;
use std::rc::Rc;

/// Bytes read at once where spans lie together.
const READ_BYTES: u64 = 2 << 20;
/// Reads under way for one query: one being looked at, two on their way.
const READS_AHEAD: usize = 3;
/// A batch goes out when it has this many bytes of payload,
const BATCH_BYTES: usize = 1 << 20;
/// or this many items.
const BATCH_ITEMS: usize = 64 << 10;
/// What is read of a segment's end at first: the trailer, and most tables.
const TAIL_BYTES: u64 = 64 << 10;

/// Where a query begins and ends.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Go on with what is recorded from now on, until nobody takes the answer.
    pub follow: bool,
    /// Elements at most.
    pub elements: u64,
    /// Only gaps and expired ranges: what has none is not read.
    pub gaps_only: bool,
}

/// Runs `query` over `ring` and sends its answer into `answer`.
pub async fn run(ring: Rc<Ring>, query: Query, limits: Limits, answer: &Inlet<Batch>) -> Result<QuerySummary> {
    ring.ready().await?;
    let core = ring.core().clone();
    let stream = core.next_stream();
    // Also when the answer is no longer wanted and this is dropped in the middle.
    let _turn = Turn { core: core.clone(), stream };
    let mut run = Run::new(ring, core, query, limits, answer, stream);
    run.all().await.map(|()| run.summary)
}

/// A query's place among the streams of the scheduler, given back on drop.
struct Turn {
    core: Rc<Core>,
    stream: StreamId,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.core.disk.end_stream(self.stream);
    }
}

/// A stretch of a segment to be read at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stretch {
    offset: u32,
    length: u32,
}

/// What was decided about a segment.
struct Plan {
    stretches: VecDeque<Stretch>,
    /// Whether the last stretch reaches the segment's last block and that goes on in the next segment.
    goes_on: bool,
    /// Whether all of the segment was on the device when this was planned.
    complete: bool,
    /// Whether stretches end anywhere: a block may go on in the next one.
    cut_anywhere: bool,
}

struct Run<'a> {
    ring: Rc<Ring>,
    core: Rc<Core>,
    query: Query,
    limits: Limits,
    answer: &'a Inlet<Batch>,
    stream: StreamId,
    batch: Batch,
    summary: QuerySummary,
    /// Sequence of the segment being read, and how far.
    segment: u64,
    offset: u32,
    /// Sequence of the element after the last one seen.
    seen: Option<u64>,
    /// The element that is being returned in pieces, if any.
    open_element: Option<u64>,
    /// Writer session and number of the block seen last.
    last_block: Option<(u64, u64)>,
    /// Whether any block was seen in the run of segments being read.
    began: bool,
    /// Whether the writer has taken the slot that is being read.
    overtaking: bool,
    force_first: bool,
    keys: Vec<KeyValue>,
    enough: bool,
    times: (Timestamp, Timestamp),
    sequences: (u64, u64),
}

impl<'a> Run<'a> {
    fn new(
        ring: Rc<Ring>,
        core: Rc<Core>,
        query: Query,
        limits: Limits,
        answer: &'a Inlet<Batch>,
        stream: StreamId,
    ) -> Run<'a> {
        let keys = vec![KeyValue::MISSING; ring.keys.len()];
        let (times, sequences) = (query.time_range(), query.seq_range());
        Run {
            ring,
            core,
            query,
            limits,
            answer,
            stream,
            batch: Batch::default(),
            summary: QuerySummary::default(),
            segment: 0,
            offset: 0,
            seen: None,
            open_element: None,
            last_block: None,
            began: false,
            overtaking: false,
            force_first: false,
            keys,
            enough: false,
            times,
            sequences,
        }
    }

    async fn all(&mut self) -> Result<()> {
        self.tell_expired_beginning().await;
        let ring = self.ring.clone();
        while !self.enough {
            // Asked for before anything is looked at: what becomes readable meanwhile is not missed.
            let changed = ring.progressed.changed();
            if !self.core.has_ring(self.ring.id) {
                break;
            }
            match self.next_segment() {
                Some((slot, segment)) => {
                    if segment.sequence != self.segment {
                        self.segment = segment.sequence;
                        self.offset = 0;
                        // Segments in between are gone, and with them what was in them.
                        if let Some(seen) = self.seen.filter(|seen| self.is_everything() && *seen < segment.first) {
                            self.expired(seen, segment.first).await;
                        }
                    }
                    let complete = self.one_segment(slot, segment).await?;
                    if complete {
                        self.segment = segment.sequence + 1;
                        self.offset = 0;
                        continue;
                    }
                    if !self.limits.follow {
                        // The rest was not durable when it was looked for.
                        if self.next_segment().is_none_or(|(_, s)| s.sequence == segment.sequence) {
                            break;
                        }
                        continue;
                    }
                }
                None if !self.limits.follow => break,
                None => {}
            }
            if self.limits.follow {
                self.send().await;
                if self.enough {
                    break;
                }
                changed.await;
                self.ring.ready().await?;
            }
        }
        self.send().await;
        Ok(())
    }

    /// The first kept segment from the cursor on that may hold answers.
    fn next_segment(&self) -> Option<(u32, Segment)> {
        self.core.with_ring(self.ring.id, |record: &RingRecord| {
            let from = self.segment;
            let wanted = |s: &Segment| {
                s.sequence >= from
                    && s.bytes > 0
                    && (self.force_first && s.sequence == from
                        || s.touches(self.times.0, self.times.1) && s.end >= self.sequences.0 && s.first <= self.sequences.1
                        // The segment being written grows into the range.
                        || self.limits.follow && s.sequence == from)
            };
            let found = record.slots.iter().enumerate().filter_map(|(slot, s)| s.filter(wanted).map(|s| (slot as u32, s)));
            found.min_by_key(|(_, s)| s.sequence)
        })
    }

    /// If the asked range begins before what is kept, says so.
    async fn tell_expired_beginning(&mut self) {
        let oldest = self.core.with_ring(self.ring.id, |r| {
            r.slots.iter().flatten().filter(|s| s.bytes > 0).min_by_key(|s| s.sequence).copied()
        });
        if let Some(oldest) = oldest
            && oldest.first > self.sequences.0
            && oldest.min_time > self.times.0.0
            && oldest.first <= self.sequences.1
        {
            self.expired(self.sequences.0, oldest.first).await;
        }
        if let Some(oldest) = oldest {
            self.seen = Some(oldest.first.max(self.sequences.0.min(oldest.first)));
        }
        let (from, to) = self.times;
        self.summary.pinned = self.core.with_ring(self.ring.id, |r| {
            r.held().iter().any(|(slot, sequence)| {
                r.slots[*slot as usize].is_some_and(|s| s.sequence == *sequence && s.touches(from, to))
            })
        });
    }

    async fn expired(&mut self, from: u64, to: u64) {
        self.summary.expired += to - from;
        self.batch.items.push(Item::Expired { from, to });
        self.seen = Some(to);
        self.open_element = None;
        self.began = false;
    }

    /// Whether the slot still holds the segment.
    fn still_there(&self, slot: u32, sequence: u64) -> bool {
        still_there(&self.core, self.ring.id, slot, sequence)
    }

    /// Reads one segment. True if nothing will follow in it.
    async fn one_segment(&mut self, slot: u32, segment: Segment) -> Result<bool> {
        self.summary.segments += 1;
        if self.limits.gaps_only && segment.losses.gaps.iter().all(|gaps| *gaps == 0) {
            // Nothing is missing in it, as far as it goes.
            self.seen = self.seen.max(Some(segment.end));
            return Ok(self.ring.open_blocks(segment.sequence).is_none());
        }
        let at = self.core.with_ring(self.ring.id, |r| r.slot_at(&self.core.layout(), slot));
        let plan = match self.plan(slot, segment, at).await {
            Ok(plan) => plan,
            Err(_) if !self.still_there(slot, segment.sequence) => {
                self.overtaken(segment).await;
                return Ok(true);
            }
            Err(_) => self.plan_without_tables(self.core.with_ring(self.ring.id, |r| r.segment).0 as u32),
        };
        self.force_first = plan.goes_on;
        let Plan { mut stretches, complete, cut_anywhere, .. } = plan;
        let mut rest = Vec::new();
        let mut reads = VecDeque::new();
        loop {
            while !self.overtaking
                && reads.len() < READS_AHEAD
                && let Some(stretch) = stretches.pop_front()
            {
                let disk = self.core.disk.clone();
                let stream = self.stream;
                let buffer = Buffer::alone(Bytes(u64::from(stretch.length)))?;
                let place = at + Bytes(u64::from(stretch.offset));
                let (core, ring, sequence) = (self.core.clone(), self.ring.id, segment.sequence);
                let wanted = move || still_there(&core, ring, slot, sequence);
                let read = async move { disk.read_while(stream, place, buffer, wanted).await };
                let task = self.core.disk.env().spawner.spawn(read);
                reads.push_back((stretch, task));
            }
            let Some((stretch, task)) = reads.pop_front() else { break };
            let (bytes, result) = task.await;
            self.summary.read += Bytes(u64::from(stretch.length));
            // What was read before the writer came is proven by its stamps, and returned.
            self.overtaking |= !self.still_there(slot, segment.sequence);
            match result {
                Ok(()) if cut_anywhere => self.joined(&mut rest, &bytes, stretch, slot, segment.sequence).await,
                Ok(()) => {
                    self.stretch(&bytes, stretch.offset, slot, segment.sequence).await;
                }
                Err(_) if self.overtaking => {}
                Err(error) => self.unreadable(&error, segment).await,
            }
            if self.enough {
                return Ok(true);
            }
        }
        if std::mem::take(&mut self.overtaking) {
            self.overtaken(segment).await;
            return Ok(true);
        }
        if complete && self.limits.gaps_only {
            self.seen = self.seen.max(Some(segment.end));
        }
        if complete && let Some(seen) = self.seen.filter(|seen| *seen < segment.end && self.continuous()) {
            self.missing(seen, segment.end, Timestamp(segment.max_time)).await;
        }
        Ok(complete)
    }

    /// The writer has taken the slot: what was not yet returned of the segment is gone.
    async fn overtaken(&mut self, segment: Segment) {
        let from = self.seen.unwrap_or(segment.first).max(segment.first);
        if from < segment.end {
            self.expired(from, segment.end).await;
        }
    }

    /// Elements `from..to` of the segment being read are not where they should be. In the oldest segments that is what
    /// a crash leaves of a slot that was being taken; elsewhere it is damage.
    async fn missing(&mut self, from: u64, to: u64, near: Timestamp) {
        if self.overtaking || self.ring.is_doubtful(self.segment) {
            self.expired(from, to).await;
        } else {
            self.damaged(Some(to - from), near, near);
            self.seen = Some(to);
        }
    }

    async fn unreadable(&mut self, _error: &forebay_model::Error, segment: Segment) {
        self.damaged(None, Timestamp(segment.min_time), Timestamp(segment.max_time));
    }

    fn damaged(&mut self, count: Option<u64>, first: Timestamp, last: Timestamp) {
        self.batch.items.push(Item::Gap(Gap { cause: Cause::Damaged, count, first, last }));
        self.open_element = None;
    }

    /// Decides what to read of a segment.
    async fn plan(&self, slot: u32, segment: Segment, at: Bytes) -> Result<Plan> {
        if let Some(mut blocks) = self.ring.open_blocks(segment.sequence) {
            if self.limits.gaps_only {
                let spans = self.ring.open_gaps(segment.sequence);
                blocks.retain(|(offset, _)| spans.iter().any(|span| span.contains(offset)));
            }
            return Ok(self.plan_open(&blocks));
        }
        let readable_end = self.ring.readable_end();
        if let Some((tables, on_device)) = self.ring.recent_tables(segment.sequence) {
            let pages = on_device.then_some(at);
            let mut plan = self.plan_spans(&tables, pages).await?;
            plan.complete = segment.end <= readable_end;
            if !plan.complete {
                // Blocks are on their way: read what is there, and come back.
                let written =
                    tables.spans.iter().take_while(|s| s.end <= readable_end).last().map_or(0, |s| s.offset + s.length);
                plan.stretches.retain(|s| s.offset + s.length <= written);
                plan.goes_on = false;
            }
            return Ok(plan);
        }
        if self.wants_all_of(&segment) {
            return Ok(self.plan_without_tables(segment.bytes));
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
        self.plan_spans(&tables, Some(at)).await
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

    fn plan_open(&self, blocks: &[(u32, u32)]) -> Plan {
        let stretches =
            blocks.iter().filter(|(offset, _)| *offset >= self.offset).map(|(o, l)| Stretch { offset: *o, length: *l });
        Plan { stretches: join(stretches), goes_on: false, complete: false, cut_anywhere: false }
    }

    /// Without tables everything is read, and what is no block is passed over.
    fn plan_without_tables(&self, length: u32) -> Plan {
        let step = READ_BYTES as u32;
        let stretches = (self.offset..length)
            .step_by(step as usize)
            .map(|offset| Stretch { offset, length: step.min(length - offset) });
        Plan { stretches: stretches.collect(), goes_on: true, complete: true, cut_anywhere: true }
    }

    async fn plan_spans(&self, tables: &Tables, pages_at: Option<Bytes>) -> Result<Plan> {
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
        let stretches = spans
            .iter()
            .zip(&chosen)
            .filter(|(s, chosen)| **chosen && s.offset + s.length > self.offset)
            .map(|(s, _)| Stretch { offset: s.offset, length: s.length });
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

    async fn read(&self, at: Bytes, length: u64) -> Result<Buffer> {
        let (bytes, result) = self.core.disk.read(self.stream, at, Buffer::alone(Bytes(length))?).await;
        result.map(|()| bytes)
    }

    /// Looks through a stretch that begins and ends anywhere; `rest` is what the one before left over.
    async fn joined(&mut self, rest: &mut Vec<u8>, bytes: &[u8], stretch: Stretch, slot: u32, segment: u64) {
        let mut used = 0;
        if !rest.is_empty() {
            // Only the block on the border is copied.
            let total = Header::read(rest).map_or(0, |h| h.total_len.get() as usize);
            let missing = total.saturating_sub(rest.len());
            if missing > 0 && missing <= bytes.len() {
                rest.extend_from_slice(&bytes[..missing]);
                used = missing;
            }
            let from = stretch.offset + used as u32 - rest.len() as u32;
            self.stretch(rest, from, slot, segment).await;
            rest.clear();
        }
        let done = used + self.stretch(&bytes[used..], stretch.offset + used as u32, slot, segment).await;
        rest.extend_from_slice(&bytes[done..]);
    }

    /// Looks through the blocks of a stretch that lies at `from`; how far, if the last block is cut off.
    async fn stretch(&mut self, bytes: &[u8], from: u32, slot: u32, segment: u64) -> usize {
        let (target, ring) = (self.core.target_id(), self.ring.id.0);
        let mut pos = 0usize;
        while pos < bytes.len() {
            let offset = from + pos as u32;
            let parsed = parse_stamped(&bytes[pos..], target, ring, segment, slot, offset);
            let view = match parsed.and_then(|view| view.verify().map(|()| view)) {
                Ok(view) => view,
                Err(_) => {
                    let length = Header::read(&bytes[pos..]).map_or(0, |h| h.total_len.get() as usize);
                    if pos + length > bytes.len() {
                        return pos;
                    }
                    // The next block that is whole says how much is missing.
                    pos += 4096;
                    continue;
                }
            };
            pos += view.header().total_len.get() as usize;
            if offset < self.offset {
                continue;
            }
            self.offset = offset + view.header().total_len.get();
            self.summary.blocks += 1;
            self.block(&view).await;
            if self.enough {
                break;
            }
        }
        bytes.len().min(pos)
    }

    /// Looks through one block.
    async fn block(&mut self, view: &View<'_>) {
        let header = view.header();
        let first = header.first_sequence.get();
        if let Some(seen) = self.seen.filter(|seen| *seen < first && self.continuous()) {
            self.missing(seen, first, Timestamp(header.min_time.get())).await;
        }
        let number = (header.writer.get(), header.number.get());
        let follows = self.last_block.replace(number).is_some_and(|last| (last.0, last.1 + 1) == number);
        if header.starts_within() && !follows {
            // The beginning of this element is gone, and with it the element.
            self.open_element = None;
            if self.continuous() {
                match self.began {
                    true => self.missing(first, first + 1, Timestamp(header.min_time.get())).await,
                    false => self.expired(first, first + 1).await,
                }
            }
        }
        self.began = true;
        self.seen = Some(header.next_sequence().max(self.seen.unwrap_or(0)));
        if self.limits.gaps_only {
            view.gaps().for_each(|(_, gap)| self.gap(gap));
            if self.batch.items.len() >= BATCH_ITEMS {
                self.send().await;
            }
            return;
        }
        let mut gaps = view.gaps().peekable();
        let bytes = view.bytes();
        for entry in view.entries() {
            let Ok(entry) = entry else {
                self.damaged(None, Timestamp(header.min_time.get()), Timestamp(header.max_time.get()));
                return;
            };
            while let Some((_, gap)) = gaps.next_if(|(before, _)| *before <= entry.index) {
                self.gap(gap);
            }
            if entry.torn {
                // What was returned of it ends here; the gap that follows tells of it.
                self.open_element = None;
                continue;
            }
            let wanted = if entry.first {
                if self.query.needs_keys() {
                    self.ring.keys.extract(
                        &bytes[entry.payload.clone()],
                        &bytes[entry.caller_keys.clone()],
                        &mut self.keys,
                    );
                }
                self.query.matches(entry.sequence, entry.time, &self.keys)
            } else {
                self.open_element == Some(entry.sequence)
            };
            self.open_element = (wanted && !entry.last).then_some(entry.sequence);
            if !wanted {
                continue;
            }
            self.batch.payload.extend_from_slice(&bytes[entry.payload.clone()]);
            self.batch.payload.extend_from_slice(&bytes[entry.caller_keys.clone()]);
            self.batch.items.push(Item::Element {
                sequence: entry.sequence,
                time: entry.time,
                length: entry.payload.len() as u32,
                caller: entry.caller_keys.len() as u16,
                cut: entry.cut,
                first: entry.first,
                last: entry.last,
            });
            self.summary.bytes += Bytes(entry.payload.len() as u64);
            if entry.last {
                self.summary.elements += 1;
                if self.summary.elements >= self.limits.elements {
                    self.enough = true;
                    break;
                }
            }
            if self.batch.payload.len() >= BATCH_BYTES || self.batch.items.len() >= BATCH_ITEMS {
                self.send().await;
                if self.enough {
                    return;
                }
            }
        }
        for (_, gap) in gaps {
            self.gap(gap);
        }
    }

    /// Whether every block in the range is read, so that a jump in the sequence means that something is missing.
    fn continuous(&self) -> bool {
        self.is_everything() && !self.limits.gaps_only
    }

    /// Whether all of the ring is asked for.
    fn is_everything(&self) -> bool {
        self.times == (Timestamp::MIN, Timestamp::MAX) && self.sequences == (0, u64::MAX) && !self.query.needs_keys()
    }

    fn gap(&mut self, gap: Gap) {
        if gap.first <= self.times.1 && gap.last >= self.times.0 {
            self.batch.items.push(Item::Gap(gap));
        }
    }

    async fn send(&mut self) {
        if self.batch.items.is_empty() {
            self.enough |= !self.answer.is_open();
            return;
        }
        let batch = std::mem::take(&mut self.batch);
        let weight = batch.payload.len() + batch.items.len() * size_of::<Item>();
        if !self.answer.send(batch, weight).await {
            self.enough = true;
        }
    }
}

fn still_there(core: &Core, ring: RingId, slot: u32, sequence: u64) -> bool {
    core.has_ring(ring) && core.with_ring(ring, |r| r.slots[slot as usize].is_some_and(|s| s.sequence == sequence))
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

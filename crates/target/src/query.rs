//! Answers queries next to the data: decides which segments, spans and blocks may hold an answer, reads those and
//! nothing else, and streams what matches in order, with gaps and expired ranges in their places.
//!
//! A reader never waits for the writer, nor the writer for a reader: a segment that is overwritten while it is read is
//! told as expired. Nothing is returned whose place, lap and checksum were not verified. Before a stretch is read it is
//! known which elements lie in it, so that what is not found there is told, whatever the query asks for.

mod plan;

use crate::catalog::{RingRecord, Segment};
use crate::ring::Ring;
use crate::salvage::Salvage;
use crate::schedule::StreamId;
use crate::target::Core;
use forebay_env::Buffer;
use forebay_env::pipe::Inlet;
use forebay_model::block::{Header, View, parse_stamped};
use forebay_model::gap::{Cause, Gap};
use forebay_model::key::KeyValue;
use forebay_model::query::Query;
use forebay_model::ring::{Batch, Item, QuerySummary};
use forebay_model::{Bytes, Result, RingId, Timestamp};
use plan::{Plan, Stretch};
use std::collections::VecDeque;
use std::rc::Rc;

/// Reads under way for one query: one being looked at, two on their way.
const READS_AHEAD: usize = 3;
/// A batch goes out when it has this many bytes of payload,
const BATCH_BYTES: usize = 1 << 20;
/// or this many items.
const BATCH_ITEMS: usize = 64 << 10;
/// Reads that a query may spend on finding out what exactly cannot be read.
const PATIENCE: u32 = 4096;

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
    ring.readable().await?;
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
    /// Of the segment being read: the epoch that no block is older than, and the number of the block that comes next.
    epoch: u64,
    next_index: Option<u32>,
    /// No element that is still to come is before this one.
    next_first: u64,
    /// Sequence after the last element of the segment being read.
    limit: u64,
    /// The latest time that is known to lie before what comes next.
    near: i64,
    /// Whether what lies directly before what comes next is missing.
    lost_before: bool,
    /// Whether the last block's last element goes on.
    goes_on: bool,
    /// Blocks are missing that held no element's end: between which times.
    pending: Option<(i64, i64)>,
    /// An element whose beginning is gone and whose end was not seen yet, and whether that is to be told.
    headless: Option<(u64, bool)>,
    /// The segment that was read last, if all of it was, without knowing its blocks.
    read_whole: Option<u64>,
    salvage: Salvage,
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
        let salvage = Salvage::new(core.disk.clone(), stream, PATIENCE);
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
            epoch: 0,
            next_index: None,
            next_first: 0,
            limit: 0,
            near: i64::MIN,
            lost_before: false,
            goes_on: false,
            pending: None,
            headless: None,
            read_whole: None,
            salvage,
            keys,
            enough: false,
            times,
            sequences,
        }
    }

    async fn all(&mut self) -> Result<()> {
        self.tell_expired_beginning().await;
        let mut holes = self.holes();
        let ring = self.ring.clone();
        while !self.enough {
            // Asked for before anything is looked at: what becomes readable meanwhile is not missed.
            let changed = ring.progressed.changed();
            if !self.core.has_ring(self.ring.id) {
                break;
            }
            match self.next_segment() {
                Some((slot, segment)) => {
                    self.tell_holes(&mut holes, segment.first).await;
                    if segment.sequence != self.segment {
                        self.segment = segment.sequence;
                        (self.offset, self.epoch, self.next_index) = (0, 0, Some(0));
                        // Segments in between are gone, and with them what was in them.
                        if let Some(seen) = self.seen.filter(|seen| self.is_everything() && *seen < segment.first) {
                            self.expired(seen, segment.first).await;
                        }
                    }
                    let complete = self.one_segment(slot, segment).await?;
                    if complete {
                        self.segment = segment.sequence + 1;
                        (self.offset, self.epoch, self.next_index) = (0, 0, Some(0));
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
        self.lost_records();
        self.tell_holes(&mut holes, u64::MAX).await;
        self.send().await;
        Ok(())
    }

    /// What was overwritten between segments that pins hold, as far as it was asked for: sequences, and the times around.
    /// Where all is asked for, the jump in the sequence tells.
    fn holes(&self) -> VecDeque<(u64, u64)> {
        if self.continuous() {
            return VecDeque::new();
        }
        let mut kept: Vec<Segment> = self
            .core
            .with_ring(self.ring.id, |r| r.slots.iter().flatten().filter(|s| s.has_content()).copied().collect());
        kept.sort_unstable_by_key(|s| s.sequence);
        let between = kept.windows(2).filter(|pair| {
            let asked = pair[0].max_time <= self.times.1.0 && pair[1].min_time >= self.times.0.0;
            asked && pair[1].sequence > pair[0].sequence + 1
        });
        let end = self.sequences.1.saturating_add(1);
        let asked = between.map(|pair| (pair[0].end.max(self.sequences.0), pair[1].first.min(end)));
        asked.filter(|(from, to)| from < to).collect()
    }

    /// Tells the holes that end before `next`.
    async fn tell_holes(&mut self, holes: &mut VecDeque<(u64, u64)>, next: u64) {
        while let Some((from, to)) = holes.pop_front_if(|(_, to)| *to <= next) {
            self.expired(from, to).await;
        }
    }

    /// The first kept segment from the cursor on that may hold answers.
    fn next_segment(&self) -> Option<(u32, Segment)> {
        self.core.with_ring(self.ring.id, |record: &RingRecord| {
            let from = self.segment;
            let wanted = |s: &Segment| {
                s.sequence >= from
                    && s.has_content()
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
            r.slots.iter().flatten().filter(|s| s.has_content()).min_by_key(|s| s.sequence).copied()
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
            Err(_) => self.plan_without_tables(self.core.with_ring(self.ring.id, |r| r.segment).0 as u32, &segment),
        };
        self.limit = segment.end;
        self.force_first = plan.goes_on;
        let Plan { mut stretches, complete, cut_anywhere, .. } = plan;
        let mut rest = Vec::new();
        let mut reads = VecDeque::new();
        loop {
            while !self.overtaking
                && reads.len() < READS_AHEAD
                && let Some(stretch) = stretches.pop_front()
            {
                let (disk, stream) = (self.core.disk.clone(), self.stream);
                let place = at + Bytes(u64::from(stretch.offset));
                let task = match stretch.length {
                    0 => None,
                    length => {
                        let buffer = Buffer::alone(Bytes(u64::from(length)))?;
                        let (core, ring, sequence) = (self.core.clone(), self.ring.id, segment.sequence);
                        let wanted = move || still_there(&core, ring, slot, sequence);
                        let read = async move { disk.read_while(stream, place, buffer, wanted).await };
                        Some(self.core.disk.env().spawner.spawn(read))
                    }
                };
                reads.push_back((stretch, task));
            }
            let Some((stretch, task)) = reads.pop_front() else { break };
            self.begin(&stretch);
            if let Some(task) = task {
                let place = at + Bytes(u64::from(stretch.offset));
                let (bytes, result) = task.await;
                self.summary.read += Bytes(u64::from(stretch.length));
                // What was read before the writer came is proven by its stamps, and returned.
                self.overtaking |= !self.still_there(slot, segment.sequence);
                let bytes = match result {
                    Ok(()) => bytes,
                    Err(_) if self.overtaking => continue,
                    Err(error) => self.salvage.again(place, stretch.length as usize, &error).await?,
                };
                self.overtaking |= !self.still_there(slot, segment.sequence);
                if cut_anywhere {
                    self.joined(&mut rest, &bytes, stretch, slot, segment.sequence).await;
                } else {
                    self.stretch(&bytes, stretch.offset, slot, segment.sequence).await;
                }
            }
            if self.enough {
                return Ok(true);
            }
            self.end(&stretch).await;
        }
        if std::mem::take(&mut self.overtaking) {
            self.overtaken(segment).await;
            return Ok(true);
        }
        self.read_whole = (complete && cut_anywhere).then_some(segment.sequence);
        if complete && self.limits.gaps_only {
            self.seen = self.seen.max(Some(segment.end));
        }
        if complete && let Some(seen) = self.seen.filter(|seen| *seen < segment.end && self.continuous()) {
            self.missing(seen, segment.end, segment.max_time).await;
        }
        Ok(complete)
    }

    /// What `stretch` holds is looked through next.
    fn begin(&mut self, stretch: &Stretch) {
        self.next_first = self.next_first.max(stretch.begins.unwrap_or(0));
        if self.near == i64::MIN {
            self.near = stretch.times.0;
        }
        let adjacent = self.seen.is_some() && self.seen == stretch.begins;
        if let Some(begins) = stretch.begins
            && (!self.continuous() || self.seen.is_none())
        {
            // What lies between was not asked for.
            if self.seen != Some(begins) {
                self.lost_records();
                (self.lost_before, self.goes_on, self.near) = (false, false, stretch.times.0);
            }
            self.seen = Some(self.seen.unwrap_or(0).max(begins));
        }
        if let Some((first, _)) = stretch.blocks {
            if stretch.torn_off || adjacent && self.next_index.is_some_and(|next| next < first) {
                self.lost_blocks(stretch.times.0);
            }
            self.next_index = Some(first);
        }
    }

    /// `stretch` was looked through: what should have been there and was not is missing.
    async fn end(&mut self, stretch: &Stretch) {
        let seen = self.seen.unwrap_or(0);
        if let Some(ends) = stretch.ends.filter(|ends| seen < *ends) {
            self.missing(seen, ends, stretch.times.1).await;
        } else if let (Some((_, after)), Some(next)) = (stretch.blocks, self.next_index)
            && next < after
        {
            self.lost_blocks(stretch.times.1);
        }
        if let Some((_, after)) = stretch.blocks {
            self.next_index = Some(after);
        }
    }

    /// The writer has taken the slot: what was not yet returned of the segment is gone.
    async fn overtaken(&mut self, segment: Segment) {
        let from = self.seen.unwrap_or(segment.first).max(segment.first);
        if from < segment.end {
            self.expired(from, segment.end).await;
        }
    }

    /// Elements `from..to` of the segment being read, none later than `until`, are not where they should be. In the
    /// oldest segments that is what a crash leaves of a slot that was being taken; elsewhere it is damage.
    async fn missing(&mut self, from: u64, to: u64, until: i64) {
        let (first, last) = (Timestamp(self.near.min(until)), Timestamp(self.near.max(until)));
        let (asked, end) = (from.max(self.sequences.0), to.min(self.sequences.1.saturating_add(1)));
        if asked < end && first <= self.times.1 && last >= self.times.0 {
            if self.overtaking || self.ring.is_doubtful(self.segment) {
                self.expired(asked, end).await;
            } else {
                self.damaged(Some(end - asked), first, last);
            }
        }
        self.seen = Some(to);
        self.open_element = None;
        (self.lost_before, self.goes_on, self.pending) = (true, false, None);
    }

    /// Some blocks are not where they should be, and no element ends in them: what comes next says whether they held a
    /// part of an element, or nothing but gap records.
    fn lost_blocks(&mut self, until: i64) {
        if !self.goes_on && !self.lost_before {
            self.pending.get_or_insert((self.near.min(until), self.near.max(until)));
        }
    }

    /// The blocks that are missing held gap records: nobody knows how many elements those told of.
    fn lost_records(&mut self) {
        let Some((first, last)) = self.pending.take() else { return };
        let (first, last) = (Timestamp(first), Timestamp(last));
        let damage = !self.overtaking && !self.ring.is_doubtful(self.segment);
        if damage && first <= self.times.1 && last >= self.times.0 {
            self.damaged(None, first, last);
        }
    }

    fn damaged(&mut self, count: Option<u64>, first: Timestamp, last: Timestamp) {
        let gap = Gap { cause: Cause::Damaged, count, first, last };
        match self.batch.items.last_mut() {
            Some(Item::Gap(before)) if self.lost_before && before.cause == Cause::Damaged => before.merge(gap),
            _ => self.batch.items.push(Item::Gap(gap)),
        }
        self.open_element = None;
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
            if let Ok(view) = &parsed
                && offset < self.offset
            {
                pos += view.header().total_len.get() as usize;
                continue;
            }
            let view = match parsed.ok().filter(|view| self.follows(view) && view.verify().is_ok()) {
                Some(view) => view,
                None => {
                    let here = Header::read(&bytes[pos..]).ok().filter(|header| {
                        let stamp = header.stamp();
                        (stamp.target, stamp.ring, stamp.segment, stamp.slot, stamp.offset)
                            == (target, ring, segment, slot, offset)
                    });
                    if here.is_some_and(|header| pos + header.total_len.get() as usize > bytes.len()) {
                        return pos;
                    }
                    // The next block that is whole says how much is missing.
                    pos += 4096;
                    continue;
                }
            };
            pos += view.header().total_len.get() as usize;
            self.offset = offset + view.header().total_len.get();
            self.summary.blocks += 1;
            self.block(&view).await;
            if self.enough {
                break;
            }
        }
        bytes.len().min(pos)
    }

    /// Whether a block that bears its place is also of its time: what a crash undid is older than what was written in its
    /// place, and what lies behind the last block is not data.
    fn follows(&self, view: &View<'_>) -> bool {
        let header = view.header();
        header.epoch.get() >= self.epoch
            && self.next_index.is_none_or(|next| header.index.get() >= next)
            && header.first_sequence.get() >= self.next_first
            && header.next_sequence() <= self.limit
    }

    /// Looks through one block.
    async fn block(&mut self, view: &View<'_>) {
        let header = view.header();
        let first = header.first_sequence.get();
        let within = header.starts_within();
        if let Some(seen) = self.seen.filter(|seen| *seen < first) {
            self.missing(seen, first, header.min_time.get()).await;
        } else if self.next_index.is_some_and(|next| next < header.index.get()) {
            self.lost_blocks(header.min_time.get());
        }
        let number = (header.writer.get(), header.number.get());
        let follows = self.last_block.replace(number).is_some_and(|last| (last.0, last.1 + 1) == number);
        let before = self.headless.take().filter(|(sequence, _)| within && *sequence == first);
        if within && (!follows || before.is_some()) && self.seen.is_none_or(|seen| seen <= first) {
            // The beginning of this element is gone, and with it the element; unless it has no end either: then it was
            // never recorded as a whole, and another one has its number.
            let told = self.lost_before || self.pending.take().is_some() || self.open_element == Some(first);
            let adjoins = header.index.get() == 0 && self.read_whole.is_some_and(|s| s + 1 == self.segment);
            let told = told || before.is_some_and(|(_, told)| told) || adjoins || self.continuous() && self.began;
            self.open_element = None;
            if header.next_sequence() == first {
                self.headless = Some((first, told));
            } else if told {
                self.missing(first, first + 1, header.min_time.get()).await;
            } else if self.continuous() {
                self.expired(first, first + 1).await;
            }
        } else if within && !follows {
            // Told already.
            (self.open_element, self.pending) = (None, None);
        }
        self.lost_records();
        self.began |= self.headless.is_none();
        self.lost_before = false;
        self.goes_on = header.continues();
        self.epoch = header.epoch.get();
        self.next_index = Some(header.index.get() + 1);
        self.next_first = header.next_sequence();
        self.near = header.max_time.get();
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

//! Answers queries next to the data: decides which segments, spans and blocks may hold an answer, reads those and
//! nothing else, and streams what matches in order, with gaps and expired ranges in their places.
//!
//! A reader never waits for the writer, nor the writer for a reader: a segment that is overwritten while it is read is
//! told as expired. Nothing is returned whose place, lap and checksum were not verified.

mod look;
mod plan;

use crate::catalog::{RingRecord, Segment};
use crate::ring::Ring;
use crate::schedule::StreamId;
use crate::target::Core;
use forebay_env::pipe::Inlet;
use forebay_env::{Buffer, Task};
use forebay_model::gap::Gap;
use forebay_model::key::KeyValue;
use forebay_model::query::Query;
use forebay_model::ring::{Batch, Item, QuerySummary};
use forebay_model::{Bytes, Error, Result, RingId, Timestamp};
use plan::Plan;
use std::collections::VecDeque;
use std::rc::Rc;

/// Bytes read at once where spans lie together.
const READ_BYTES: u64 = 2 << 20;
/// Reads under way for one query: one being looked at, two on their way.
const READS_AHEAD: usize = 3;
/// Bytes read at first where an element goes on beyond what was read; each time more, up to [`READ_BYTES`].
const FOLLOW_BYTES: u32 = 256 << 10;

/// Where a query begins and ends.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Go on with what is recorded from now on, until nobody takes the answer.
    pub follow: bool,
    /// Elements at most.
    pub elements: u64,
}

/// Runs `query` over `ring` and sends its answer into `answer`.
pub async fn run(ring: Rc<Ring>, query: Query, limits: Limits, answer: &Inlet<Batch>) -> Result<QuerySummary> {
    ring.readable().await?;
    let core = ring.core().clone();
    if !core.has_ring(ring.id) {
        return Err(Error::missing("the ring was deleted"));
    }
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

/// A read under way.
type Reading = Task<(Buffer, Result<()>)>;

/// A stretch of a segment to be read at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stretch {
    offset: u32,
    length: u32,
}

struct Run<'a> {
    ring: Rc<Ring>,
    core: Rc<Core>,
    query: Query,
    needs_keys: bool,
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
    keys: Vec<KeyValue>,
    /// Buffers for the next reads.
    spare: Vec<Buffer>,
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
            needs_keys: query.needs_keys(),
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
            keys,
            spare: Vec::new(),
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
                        if let Some(seen) = self.seen.filter(|seen| self.continuous() && *seen < segment.first) {
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
            let goes_on = self.open_element.is_some();
            let wanted = |s: &Segment| {
                s.sequence >= from
                    && s.bytes > 0
                    && (goes_on && s.sequence == from
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
            && oldest.min_time > self.times.0.0
            && self.times.0 <= self.times.1
        {
            let (from, last) = self.sequences;
            let to = oldest.first.min(last.saturating_add(1));
            if from < to {
                self.expired(from, to).await;
            }
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
        let at = self.core.with_ring(self.ring.id, |r| r.slot_at(&self.core.layout(), slot));
        let plan = match self.plan(slot, &segment, at).await {
            Ok(plan) => plan,
            Err(_) if !self.still_there(slot, segment.sequence) => {
                self.overtaken(segment).await;
                return Ok(true);
            }
            Err(_) => self.plan_without_tables(self.core.with_ring(self.ring.id, |r| r.segment).0 as u32),
        };
        let Plan { mut stretches, steps, mut gaps, complete, end, cut_anywhere } = plan;
        let mut rest = Vec::new();
        let mut reads: VecDeque<(Stretch, Reading)> = VecDeque::new();
        // Where an element that goes on is followed from, and how far at once.
        let (mut from, mut far) = (self.offset, FOLLOW_BYTES);
        loop {
            let planned = reads.front().map(|(stretch, _)| stretch.offset).or(stretches.front().map(|s| s.offset));
            let goes_on = self.open_element.is_some() && !cut_anywhere && planned.is_none_or(|p| from < p);
            let follow = if goes_on && !self.overtaking { follow(&steps, from, far, planned) } else { None };
            if let Some(stretch) = follow {
                far = far.saturating_mul(2).min(READ_BYTES as u32);
                reads.push_front((stretch, self.read(at, stretch, slot, segment.sequence)?));
            } else {
                far = FOLLOW_BYTES;
            }
            while !self.overtaking
                && reads.len() < READS_AHEAD
                && let Some(stretch) = stretches.pop_front()
            {
                reads.push_back((stretch, self.read(at, stretch, slot, segment.sequence)?));
            }
            let Some((stretch, task)) = reads.pop_front() else { break };
            let (bytes, result) = task.await;
            self.summary.read += Bytes(u64::from(stretch.length));
            // What was read before the writer came is proven by its stamps, and returned.
            self.overtaking |= !self.still_there(slot, segment.sequence);
            self.gaps_up_to(&mut gaps, stretch.offset);
            from = stretch.offset + stretch.length;
            // Where an element is followed, they are read.
            while gaps.pop_front_if(|(at, _)| *at < from).is_some() {}
            match result {
                Ok(()) if cut_anywhere => self.joined(&mut rest, &bytes, stretch, slot, segment.sequence).await,
                Ok(()) => {
                    self.stretch(&bytes, stretch.offset, slot, segment.sequence).await;
                }
                Err(_) if self.overtaking => {}
                Err(_) => self.unreadable(&segment),
            }
            self.spare.push(bytes);
            if self.enough {
                return Ok(true);
            }
        }
        if std::mem::take(&mut self.overtaking) {
            self.overtaken(segment).await;
            return Ok(true);
        }
        self.gaps_up_to(&mut gaps, u32::MAX);
        if complete && let Some(seen) = self.seen.filter(|seen| *seen < segment.end && self.continuous()) {
            self.missing(seen, segment.end, Timestamp(segment.max_time)).await;
        }
        if !complete {
            self.offset = self.offset.max(end);
        }
        Ok(complete)
    }

    /// Tells the gaps of spans that begin before `offset` and are not read.
    fn gaps_up_to(&mut self, gaps: &mut VecDeque<(u32, Gap)>, offset: u32) {
        while let Some((_, gap)) = gaps.pop_front_if(|(at, _)| *at < offset) {
            if gap.first <= self.times.1 && gap.last >= self.times.0 {
                self.batch.items.push(Item::Gap(gap));
            }
        }
    }

    /// Reads a stretch, if the slot still holds the segment when its turn comes.
    fn read(&mut self, at: Bytes, stretch: Stretch, slot: u32, sequence: u64) -> Result<Reading> {
        let (disk, stream) = (self.core.disk.clone(), self.stream);
        let mut buffer = match self.spare.pop().filter(|spare| spare.capacity() >= stretch.length as usize) {
            Some(spare) => spare,
            None => Buffer::alone(Bytes(u64::from(stretch.length)))?,
        };
        buffer.set_len(stretch.length as usize);
        let place = at + Bytes(u64::from(stretch.offset));
        let (core, ring) = (self.core.clone(), self.ring.id);
        let wanted = move || still_there(&core, ring, slot, sequence);
        Ok(self.core.disk.env().spawner.spawn(async move { disk.read_while(stream, place, buffer, wanted).await }))
    }

    /// The writer has taken the slot: what was not yet returned of the segment is gone.
    async fn overtaken(&mut self, segment: Segment) {
        let from = self.seen.unwrap_or(segment.first).max(segment.first);
        if from < segment.end {
            self.expired(from, segment.end).await;
        }
    }
}

fn still_there(core: &Core, ring: RingId, slot: u32, sequence: u64) -> bool {
    core.has_ring(ring) && core.with_ring(ring, |r| r.slots[slot as usize].is_some_and(|s| s.sequence == sequence))
}

/// What to read from `from` on, where an element goes on: up to the end of a span or block, about `far` away, and not
/// beyond what is read anyway.
fn follow(steps: &[u32], from: u32, far: u32, planned: Option<u32>) -> Option<Stretch> {
    let first = steps.partition_point(|end| *end <= from);
    let behind = steps.partition_point(|end| *end <= from.saturating_add(far));
    let end = (*steps.get(first.max(behind.saturating_sub(1)))?).min(planned.unwrap_or(u32::MAX));
    Some(Stretch { offset: from, length: end - from })
}

#[cfg(test)]
mod tests;

//! Answers queries next to the data: decides which segments, spans and blocks may hold an answer, reads those and
//! nothing else, and streams what matches in order, with gaps and expired ranges in their places.
//!
//! A reader never waits for the writer, nor the writer for a reader: a segment that is overwritten while it is read is
//! told as expired. Nothing is returned whose place, lap and checksum were not verified. Before a stretch is read it is
//! known which elements lie in it, so that what is not found there is told, whatever the query asks for.

mod look;
mod plan;

use crate::catalog::{RingRecord, Segment};
use crate::ring::Ring;
use crate::salvage::Salvage;
use crate::schedule::StreamId;
use crate::target::Core;
use forebay_env::pipe::Inlet;
use forebay_env::{Buffer, Task};
use forebay_model::gap::Gap;
use forebay_model::key::KeyValue;
use forebay_model::query::Query;
use forebay_model::ring::{Batch, Item, QuerySummary};
use forebay_model::{Bytes, Error, Result, RingId, Timestamp};
use plan::{Plan, READ_BYTES, Stretch};
use std::collections::VecDeque;
use std::rc::Rc;

/// Reads under way for one query: one being looked at, two on their way.
const READS_AHEAD: usize = 3;
/// Bytes read at first where an element goes on beyond what was read; each time more, up to [`READ_BYTES`].
const FOLLOW_BYTES: u32 = 256 << 10;
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
    /// Whole blocks instead of the elements in them.
    pub blocks: bool,
    /// Before what comes of a block, which one it is.
    pub numbered: bool,
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
    /// Of a query that is not for everything: up to where what was kept was looked at or is not asked for.
    passed: Passed,
    /// Whether the segment that was read last was overwritten then: it may have grown before.
    lapped: bool,
    /// The first element behind what was overwritten: it may have begun there.
    after_hole: Option<u64>,
    /// The element that is being returned in pieces, if any.
    open_element: Option<u64>,
    /// Writer session and number of the block seen last.
    last_block: Option<(u64, u64)>,
    /// Whether any block was seen in the run of segments being read.
    began: bool,
    /// Whether the writer has taken the slot that is being read.
    overtaking: bool,
    /// Whether an element goes on beyond what was read, so that what follows is read, too: a wanted one, or one of which
    /// a part is missing.
    following: bool,
    /// Up to where the segment being read was looked through; what lies between may have been passed over.
    came_to: u32,
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
    /// Buffers for the next reads.
    spare: Vec<Buffer>,
    enough: bool,
    /// Tests that were made since others had their turn.
    tests: usize,
    times: (Timestamp, Timestamp),
    sequences: (u64, u64),
}

/// How far a query has come.
struct Passed {
    /// Sequence of the next segment.
    segment: u64,
    /// Sequence of the next element.
    element: u64,
    /// The latest time before.
    time: i64,
}

impl Passed {
    fn pass(&mut self, segment: &Segment) {
        self.segment = segment.sequence + 1;
        (self.element, self.time) = (self.element.max(segment.end), segment.max_time);
    }
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
            passed: Passed { segment: 0, element: 0, time: i64::MIN },
            lapped: false,
            after_hole: None,
            open_element: None,
            last_block: None,
            began: false,
            overtaking: false,
            following: false,
            came_to: 0,
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
            spare: Vec::new(),
            tests: 0,
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
                    self.tell_holes(segment.sequence).await;
                    if segment.sequence != self.segment {
                        self.segment = segment.sequence;
                        self.at_start();
                        // Segments in between are gone, and with them what was in them.
                        if let Some(seen) = self.seen.filter(|seen| self.is_everything() && *seen < segment.first) {
                            self.expired(seen, segment.first).await;
                        }
                    }
                    let complete = self.one_segment(slot, segment).await?;
                    if complete {
                        self.passed.pass(&segment);
                        self.segment = segment.sequence + 1;
                        self.at_start();
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
        self.tell_holes(u64::MAX).await;
        self.send().await;
        Ok(())
    }

    /// The next segment is read from its start.
    fn at_start(&mut self) {
        (self.offset, self.came_to, self.epoch, self.next_index) = (0, 0, 0, Some(0));
    }

    /// Tells what was overwritten before this segment, as far as it may have been asked for: between segments that pins hold, and
    /// where the writer has overtaken the query. Where all is asked for, the jump in the sequence tells.
    async fn tell_holes(&mut self, until: u64) {
        if self.is_everything() || !self.core.has_ring(self.ring.id) {
            return;
        }
        let mut kept: Vec<Segment> = self.core.with_ring(self.ring.id, |r| {
            let kept = r.slots.iter().flatten().filter(|s| s.has_content());
            kept.filter(|s| (self.passed.segment..=until).contains(&s.sequence)).copied().collect()
        });
        kept.sort_unstable_by_key(|s| s.sequence);
        for segment in kept {
            let is_hole = std::mem::take(&mut self.lapped) || segment.sequence > self.passed.segment;
            if is_hole && self.passed.time <= self.times.1.0 && segment.min_time >= self.times.0.0 {
                let seen = self.passed.element.max(self.seen.unwrap_or(0)).max(self.sequences.0);
                let to = segment.first.min(self.sequences.1.saturating_add(1));
                if seen < to {
                    self.expired(seen, to).await;
                }
                self.after_hole = Some(segment.first);
            }
            if segment.sequence < until {
                self.passed.pass(&segment);
            }
        }
    }

    /// The first kept segment from the cursor on that may hold answers; none once the ring was deleted.
    fn next_segment(&self) -> Option<(u32, Segment)> {
        if !self.core.has_ring(self.ring.id) {
            return None;
        }
        self.core.with_ring(self.ring.id, |record: &RingRecord| {
            let from = self.segment;
            let wanted = |s: &Segment| {
                s.sequence >= from
                    && s.has_content()
                    && (self.following && s.sequence == from
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
            self.passed = Passed { segment: oldest.sequence, element: oldest.first, time: oldest.min_time };
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
        (self.open_element, self.following) = (None, false);
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
            return Ok(self.ring.with_open(segment.sequence, |_, _| ()).is_none());
        }
        let at = self.core.with_ring(self.ring.id, |r| r.slot_at(&self.core.layout(), slot));
        let plan = match self.plan(slot, &segment, at).await {
            Ok(plan) => plan,
            Err(_) if !self.still_there(slot, segment.sequence) => {
                self.overtaken(segment).await;
                return Ok(true);
            }
            Err(_) => self.plan_without_tables(self.core.with_ring(self.ring.id, |r| r.segment).0 as u32, &segment),
        };
        self.limit = segment.end;
        let Plan { mut stretches, parts, mut gaps, complete, cut_anywhere, end } = plan;
        let mut rest = Vec::new();
        let mut reads: VecDeque<(Stretch, Option<Reading>)> = VecDeque::new();
        // How far an element that goes on is followed at once.
        let mut far = FOLLOW_BYTES;
        loop {
            let planned = reads.front().map(|(stretch, _)| stretch.offset).or(stretches.front().map(|s| s.offset));
            let ahead = self.following && !cut_anywhere && !self.overtaking;
            let follow = if ahead { follow(&parts, self.came_to, far, planned) } else { None };
            if let Some(stretch) = follow {
                far = far.saturating_mul(2).min(READ_BYTES as u32);
                reads.push_front((stretch, Some(self.read(at, &stretch, slot, segment.sequence)?)));
            } else {
                far = FOLLOW_BYTES;
            }
            while !self.overtaking
                && reads.len() < READS_AHEAD
                && let Some(stretch) = stretches.pop_front()
            {
                let task = match stretch.length {
                    0 => None,
                    _ => Some(self.read(at, &stretch, slot, segment.sequence)?),
                };
                reads.push_back((stretch, task));
            }
            let Some((stretch, task)) = reads.pop_front() else { break };
            self.gaps_up_to(&mut gaps, stretch.offset);
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
                self.spare.push(bytes);
            }
            if self.enough {
                return Ok(true);
            }
            self.end(&stretch).await;
            // Where an element is followed, they are read.
            while gaps.pop_front_if(|(at, _)| *at < self.came_to).is_some() {}
        }
        if std::mem::take(&mut self.overtaking) {
            self.overtaken(segment).await;
            return Ok(true);
        }
        self.gaps_up_to(&mut gaps, u32::MAX);
        if !self.continuous() && self.came_to < end.offset {
            self.pass_over(&end);
        }
        self.read_whole = (complete && cut_anywhere).then_some(segment.sequence);
        self.following |= complete && cut_anywhere;
        if complete && self.limits.gaps_only {
            self.seen = self.seen.max(Some(segment.end));
        }
        if complete && let Some(seen) = self.seen.filter(|seen| *seen < segment.end && self.continuous()) {
            self.missing(seen, segment.end, segment.max_time).await;
        }
        Ok(complete)
    }

    /// Reads a stretch, if the slot still holds the segment when its turn comes.
    fn read(&mut self, at: Bytes, stretch: &Stretch, slot: u32, sequence: u64) -> Result<Reading> {
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

    /// Tells the gaps of spans that begin before `offset` and are not read.
    fn gaps_up_to(&mut self, gaps: &mut VecDeque<(u32, Gap)>, offset: u32) {
        while let Some((_, gap)) = gaps.pop_front_if(|(at, _)| *at < offset) {
            self.gap(gap);
        }
    }

    /// What lies between what was looked through and `end` was not asked for.
    fn pass_over(&mut self, end: &Stretch) {
        self.lost_records();
        (self.lost_before, self.goes_on, self.following, self.near) = (false, false, false, end.times.1);
        self.seen = self.seen.max(end.ends);
        self.next_index = end.blocks.map(|blocks| blocks.1).or(self.next_index);
        (self.offset, self.came_to) = (self.offset.max(end.offset), end.offset);
    }

    /// What `stretch` holds is looked through next.
    fn begin(&mut self, stretch: &Stretch) {
        self.next_first = self.next_first.max(stretch.begins.unwrap_or(0));
        if self.near == i64::MIN {
            self.near = stretch.times.0;
        }
        let adjacent = self.came_to == stretch.after && self.seen.is_some() && self.seen == stretch.begins;
        if let Some(begins) = stretch.begins
            && (!self.continuous() || self.seen.is_none())
        {
            // What lies between was not asked for.
            if !adjacent {
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
        self.came_to = stretch.offset + stretch.length;
        // Beyond what is missing nobody knows whether the element is wanted.
        let torn = stretch.continues && (self.lost_before || self.pending.is_some());
        self.following = self.open_element.is_some() || self.headless.is_some_and(|(_, told)| told) || torn;
    }

    /// The writer has taken the slot: what was not yet returned of the segment is gone. That is told at once, since who
    /// asked may rather go elsewhere than be overtaken again.
    async fn overtaken(&mut self, segment: Segment) {
        self.lapped = true;
        let from = self.seen.unwrap_or(segment.first).max(segment.first);
        if from < segment.end {
            self.expired(from, segment.end).await;
            self.send().await;
        }
    }
}

fn still_there(core: &Core, ring: RingId, slot: u32, sequence: u64) -> bool {
    core.has_ring(ring) && core.with_ring(ring, |r| r.slots[slot as usize].is_some_and(|s| s.sequence == sequence))
}

/// What to read from `from` on, where an element goes on: the parts that follow, about `far` in all, and none that is
/// read anyway.
fn follow(parts: &[Stretch], from: u32, far: u32, planned: Option<u32>) -> Option<Stretch> {
    let next = parts.partition_point(|part| part.offset < from);
    let mut parts = parts[next..].iter().take_while(|part| planned.is_none_or(|planned| part.offset < planned));
    let mut stretch = *parts.next().filter(|part| part.after == from)?;
    while parts.next().is_some_and(|part| stretch.join(part, u64::from(far))) {}
    Some(stretch)
}

#[cfg(test)]
mod tests;

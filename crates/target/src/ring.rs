//! A ring at work on its target: blocks arrive, get their place, go to the device, become durable.
//!
//! Owns the open segment, the arrivals, and who records. Order of durable steps: blocks in the order of their
//! arrival; a flush makes every block written before it durable, and only then is it acknowledged; a segment's trailer
//! follows its blocks. What recovery does with each state that a crash can leave is told in `ring/recover.rs`.
//!
//! Expiry is in `ring/segments.rs` and nowhere else: taking a slot for writing ends the segment that was in it. There is
//! no cleaner.

mod durable;
pub(crate) mod image;
mod memory;
mod pins;
pub mod portrait;
pub(crate) mod recover;
mod segments;

pub use memory::MemoryLimit;

use crate::catalog::{Origin, RingRecord, Segment, Writers};
use crate::promise::Signal;
use crate::schedule::Event;
use crate::segment::{Builder, Tables};
use crate::target::Core;
use durable::{Accepted, Due};
use forebay_env::{Buffer, Slab};
use forebay_model::block::{Header, Stamp, View};
use forebay_model::key::KeySet;
use forebay_model::ring::{Beginning, Losses, RingState, RingStatus};
use forebay_model::{Bytes, Error, Kind, Moment, Result, RingId, Timestamp};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// A block that a client packed, on its way in.
pub struct Arrival {
    /// The block; its length is the block's.
    pub buffer: Buffer,
    /// When its first element was accepted.
    pub accepted: Moment,
}

/// How far a writer session has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The writer session.
    pub writer: u64,
    /// Blocks up to this number are durable.
    pub durable: u64,
    /// Sequence after the last element that is durable.
    pub sequence: u64,
    /// Why nothing will ever be durable again, if so.
    pub failure: Option<Error>,
}

/// A ring on its target's loop.
pub struct Ring {
    /// Its id.
    pub id: RingId,
    /// Its keys.
    pub keys: KeySet,
    /// What its blocks say of where they belong.
    pub(crate) origin: Origin,
    core: Rc<Core>,
    staging: Slab,
    work: RefCell<Work>,
    arrived: Signal,
    /// Something became durable, or failed, or the state changed.
    pub(crate) progressed: Signal,
}

struct Work {
    state: RingState,
    arrivals: VecDeque<(Buffer, Accepted)>,
    open: Option<Open>,
    next_element: u64,
    /// Elements directly before `next_element` that are gone, as long as no segment tells of them.
    lost_before: u64,
    /// Blocks on their way to durability, oldest first.
    in_flight: VecDeque<InFlight>,
    /// Number of the block at the front of `in_flight`, counted since opening.
    first_in_flight: u64,
    /// Bytes in `in_flight`: what a power cut can undo. Bounded by [`Ring::at_risk_limit`].
    at_risk: u64,
    flushing: bool,
    flush_timer: Option<Moment>,
    last_flush: Moment,
    progress: Progress,
    /// Until when the guaranteed rate has used up its share: deadlines are counted from there.
    paced_until: Moment,
    recent: VecDeque<(u64, Rc<Tables>, Rc<Cell<bool>>)>,
    seals_since_checkpoint: u32,
    counters: Counters,
    recording: Option<u64>,
    /// Whether a block has arrived that is not in flight yet.
    placing: bool,
    stopping: bool,
    failure: Option<Error>,
}

impl Work {
    fn going(&self) -> Result<()> {
        match self.stopping {
            true => Err(Error::disconnected("the ring is being closed")),
            false => Ok(()),
        }
    }

    /// Whether it is being closed while everything in it is pinned.
    fn ends_full(&self) -> bool {
        self.stopping && self.state == RingState::Full
    }

    /// Sequence after the last element that can be read.
    fn readable_end(&self) -> u64 {
        let done = self.in_flight.iter().take_while(|i| i.done.is_some()).last();
        done.map_or(self.progress.sequence, |i| i.end_sequence.max(self.progress.sequence))
    }
}

#[derive(Default)]
struct Counters {
    written: Bytes,
    elements: u64,
    missed: u64,
    staging_peak: Bytes,
}

/// The segment being written.
struct Open {
    slot: u32,
    at: Bytes,
    summary: Segment,
    builder: Builder,
    /// Where the next block goes.
    end: u32,
    /// Blocks written completely, in order.
    written: Vec<Written>,
    /// Number of the block that is readable next.
    next_written: u32,
    durable_blocks: u32,
    /// Whose blocks are in it.
    writers: Writers,
}

/// A block that lies on the device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written {
    /// Its number in the segment.
    pub(crate) index: u32,
    /// Where it begins in the segment.
    pub(crate) offset: u32,
    /// Its bytes.
    pub(crate) length: u32,
    /// Sequence of its first element, and after its last.
    pub(crate) elements: (u64, u64),
    /// Its earliest and its latest time.
    pub(crate) times: (i64, i64),
}

struct InFlight {
    /// Sequence of its segment; the footer's parts have the segment that they seal.
    segment: u64,
    /// A block; nothing for a footer.
    block: Option<Written>,
    writer: u64,
    number: u64,
    end_sequence: u64,
    length: u64,
    due: Moment,
    /// After that it was late for whoever recorded it.
    late_after: Moment,
    seals: bool,
    /// Once it is written: how many flushes were begun by then.
    done: Option<u64>,
}

impl Ring {
    /// A ring as the catalog knows it. [`Ring::run`] makes it work.
    pub(crate) fn new(core: Rc<Core>, id: RingId, staging: Slab, keys: KeySet) -> Rc<Ring> {
        let now = core.disk.env().clock.now();
        let (next_element, origin) = core.with_ring(id, |r| (r.path_element, r.origin));
        Rc::new(Ring {
            id,
            keys,
            origin,
            core,
            staging,
            work: RefCell::new(Work {
                state: RingState::Recovering,
                arrivals: VecDeque::new(),
                open: None,
                next_element,
                lost_before: 0,
                in_flight: VecDeque::new(),
                first_in_flight: 0,
                at_risk: 0,
                flushing: false,
                flush_timer: None,
                last_flush: now,
                progress: Progress { writer: 0, durable: 0, sequence: next_element, failure: None },
                paced_until: now,
                recent: VecDeque::new(),
                seals_since_checkpoint: 0,
                counters: Counters::default(),
                recording: None,
                placing: false,
                stopping: false,
                failure: None,
            }),
            arrived: Signal::default(),
            progressed: Signal::default(),
        })
    }

    pub(crate) fn core(&self) -> &Rc<Core> {
        &self.core
    }

    /// The epoch of what is written now.
    pub(crate) fn epoch(&self) -> u64 {
        self.core.epoch() + self.origin.epochs
    }

    /// Starts tasks on the loop of the ring's target.
    pub fn spawner(&self) -> forebay_env::Spawner {
        self.core.disk.env().spawner.clone()
    }

    /// The staging memory: a client packs into its buffers.
    pub fn staging(&self) -> &Slab {
        &self.staging
    }

    /// Makes `writer` the one who records. A ring has one writer at a time.
    pub fn attach(&self, writer: u64) -> Result<()> {
        let mut work = self.work.borrow_mut();
        if let Some(error) = &work.failure {
            return Err(error.clone());
        }
        work.going()?;
        if work.recording.is_some_and(|w| w != writer) {
            return Err(Error::busy("somebody records into this ring already; a ring has one writer"));
        }
        work.recording = Some(writer);
        Ok(())
    }

    /// Goes on with what another target has, if nothing was ever recorded into it. What it says then is durable with the next
    /// checkpoint; whether it says something new.
    pub(crate) fn begin(&self, beginning: Beginning) -> bool {
        let mut work = self.work.borrow_mut();
        let is_idle = work.open.is_none() && !work.placing && work.arrivals.is_empty() && work.in_flight.is_empty();
        let begins = is_idle && self.core.with_ring_mut(self.id, |record| record.begin(beginning));
        if begins {
            work.next_element = beginning.sequence;
            let progress = &mut work.progress;
            (progress.writer, progress.durable) = (beginning.writer, beginning.number);
            progress.sequence = beginning.sequence;
        }
        begins
    }

    /// `writer` stops recording.
    pub fn detach(&self, writer: u64) {
        let mut work = self.work.borrow_mut();
        if work.recording == Some(writer) {
            work.recording = None;
        }
    }

    /// Takes a packed block in. It is written as soon as the scheduler says, in the order of these calls.
    pub fn accept(&self, arrival: Arrival) -> Result<()> {
        let Arrival { buffer, accepted } = arrival;
        let (lag, now) = (self.core.with_ring(self.id, |r| r.spec.flush_interval), self.core.disk.env().clock.now());
        let mut work = self.work.borrow_mut();
        if let Some(error) = &work.failure {
            return Err(error.clone());
        }
        work.going()?;
        work.arrivals.push_back((buffer, Accepted::new(accepted, now, lag)));
        let used = Bytes((self.staging.count() - self.staging.available()) as u64 * self.staging.capacity().0);
        work.counters.staging_peak = work.counters.staging_peak.max(used);
        drop(work);
        self.arrived.notify();
        Ok(())
    }

    /// How far the writers have come.
    pub fn progress(&self) -> Progress {
        self.work.borrow().progress.clone()
    }

    /// The last durable block of session `writer`, also if another was there since; 0 if nothing is known of it.
    pub fn durable_of(&self, writer: u64) -> u64 {
        self.core.with_ring(self.id, |r| r.writers.last_of(writer).unwrap_or(0))
    }

    /// Waits until the block `number` of `writer` is durable; the sequence after its last element.
    pub async fn durable(&self, writer: u64, number: u64) -> Result<u64> {
        loop {
            let progress = self.progress();
            if progress.writer == writer && progress.durable >= number {
                return Ok(progress.sequence);
            }
            if let Some(error) = progress.failure {
                return Err(error);
            }
            self.progressed.changed().await;
        }
    }

    /// Whether it goes on. Who waits for it to be closed, to remove it, finds it as it was then.
    pub(crate) fn going(&self) -> Result<()> {
        self.work.borrow().going()
    }

    /// Waits until the tail is found.
    pub async fn ready(&self) -> Result<()> {
        self.progressed
            .until(|| {
                let work = self.work.borrow();
                work.state != RingState::Recovering || work.failure.is_some()
            })
            .await;
        self.work.borrow().failure.clone().map_or(Ok(()), Err)
    }

    /// Waits until the tail is found, or cannot be. After a failure what was recorded can still be read.
    pub(crate) async fn readable(&self) -> Result<()> {
        self.progressed
            .until(|| {
                let work = self.work.borrow();
                work.state != RingState::Recovering || work.failure.is_some()
            })
            .await;
        let work = self.work.borrow();
        match &work.failure {
            Some(error) if work.state == RingState::Recovering => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Writes everything that was accepted, makes it durable, and ends. A ring that is full ends without what it has no
    /// room for.
    pub(crate) async fn close(&self) -> Result<()> {
        self.work.borrow_mut().stopping = true;
        self.arrived.notify();
        loop {
            {
                let work = self.work.borrow();
                if let Some(error) = &work.failure {
                    return Err(error.clone());
                }
                // A full ring cannot take what still waits; it was never acknowledged.
                if (work.arrivals.is_empty() && !work.placing || work.state == RingState::Full)
                    && work.in_flight.is_empty()
                    && work.state != RingState::Recovering
                {
                    return Ok(());
                }
            }
            self.progressed.changed().await;
        }
    }

    /// The ring's loop: finds the tail, then gives every arrival its place.
    pub(crate) async fn run(self: Rc<Self>) {
        match self.work_through().await {
            Ok(()) => {}
            // What a full ring could not take when it was closed had not been acknowledged: that is no failure.
            Err(error) if error.kind == Kind::Full && self.work.borrow().ends_full() => {
                self.work.borrow_mut().arrivals.clear();
                self.progressed.notify();
            }
            Err(error) => self.fail(error),
        }
    }

    async fn work_through(self: &Rc<Self>) -> Result<()> {
        recover::recover(self).await?;
        self.doubt_the_oldest();
        self.work.borrow_mut().state = RingState::Ready;
        self.progressed.notify();
        let this = Rc::downgrade(self);
        self.core.disk.tell(self.id, move |event| match (this.upgrade(), event) {
            (Some(ring), Event::Flushed(flush)) => ring.flushed(flush),
            (Some(ring), Event::Swept) => ring.consider_flush(),
            (None, _) => {}
        });
        loop {
            let arrival = self.next_arrival();
            match arrival {
                Some((buffer, accepted)) => self.place(buffer, accepted).await?,
                None if self.work.borrow().stopping => return Ok(()),
                None => self.arrived.changed().await,
            }
            if let Some(error) = &self.work.borrow().failure {
                return Err(error.clone());
            }
        }
    }

    /// What was written and not acknowledged before a crash lies in the slots that were the oldest then. It stays there
    /// until the ring comes round.
    pub(crate) fn doubt_the_oldest(&self) {
        if self.core.was_closed {
            return;
        }
        let n = (self.at_risk_limit() / self.least_in_segment() + 3) as usize;
        let layout = self.core.layout();
        let doubtful = self.core.with_ring(self.id, |record| {
            // Empty slots are written to first, and those that recovery emptied are among the ones meant.
            let empty = |slot: &u32| record.exists(&layout, *slot) && record.slots[*slot as usize].is_none();
            let n = n.saturating_sub((0..record.slots.len() as u32).filter(empty).count());
            if n == 0 {
                return 0;
            }
            let held = record.held();
            let free = |(slot, s): &(usize, u64)| {
                !record.path.contains(&(*slot as u32)) && held.binary_search(&(*slot as u32, *s)).is_err()
            };
            let slots = record.slots.iter().enumerate().filter_map(|(slot, s)| s.map(|s| (slot, s.sequence)));
            let mut sequences: Vec<u64> = slots.filter(free).map(|(_, s)| s).collect();
            sequences.sort_unstable();
            sequences.get(n).copied().unwrap_or(record.path_segment)
        });
        self.core.with_ring_mut(self.id, |r| r.doubtful_before = r.doubtful_before.max(doubtful));
    }

    fn fail(&self, error: Error) {
        // What the target says of it comes with the remedy.
        let error = self.core.disk.failure().unwrap_or(error);
        let mut work = self.work.borrow_mut();
        if work.failure.is_none() {
            work.failure = Some(error.clone());
            work.progress.failure = Some(error);
            // Who waits for a buffer must not wait for ever.
            work.arrivals.clear();
        }
        drop(work);
        self.progressed.notify();
        self.arrived.notify();
    }

    /// Gives a block its place and starts its write.
    fn next_arrival(&self) -> Option<(Buffer, Accepted)> {
        let mut work = self.work.borrow_mut();
        let next = work.arrivals.pop_front();
        work.placing = next.is_some();
        next
    }

    async fn place(self: &Rc<Self>, mut buffer: Buffer, accepted: Accepted) -> Result<()> {
        let (total, entries, begins) = {
            let view = View::of_sealed(&buffer)?;
            let header = view.header();
            (header.total_len.get(), header.entries.get(), Timestamp(header.min_time.get()))
        };
        let fits = {
            let work = self.work.borrow();
            work.open.as_ref().is_some_and(|open| {
                u64::from(open.end) + u64::from(total) + open.builder.footer_bound(entries) <= self.segment().0
            })
        };
        if !fits {
            self.next_segment(accepted, Some(begins)).await?;
        }
        while self.work.borrow().at_risk + u64::from(total) > self.at_risk_limit() {
            self.consider_flush();
            self.progressed.changed().await;
            if let Some(error) = &self.work.borrow().failure {
                return Err(error.clone());
            }
        }
        let mut work = self.work.borrow_mut();
        work.placing = false;
        let Work { open, next_element, in_flight, counters, .. } = &mut *work;
        let open = open.as_mut().expect("a segment is open");
        let offset = open.end;
        let stamp = Stamp {
            target: self.origin.target,
            ring: self.origin.ring,
            segment: open.summary.sequence,
            slot: open.slot,
            index: open.builder.blocks(),
            offset,
            durable_blocks: open.durable_blocks,
            epoch: self.epoch(),
            first_sequence: *next_element,
        };
        let view = View::of_sealed(&buffer)?;
        open.builder.add(&view, offset, *next_element)?;
        let header = *view.header();
        let following = header.next_sequence() - header.first_sequence.get() + *next_element;
        for (_, gap) in view.gaps() {
            open.summary.losses.add(gap.cause, gap.count);
        }
        buffer.set_len(total as usize);
        open.builder.stamped(Header::set_stamp(&mut buffer, &stamp));
        let summary = &mut open.summary;
        summary.end = following;
        summary.min_time = summary.min_time.min(header.min_time.get());
        summary.max_time = summary.max_time.max(header.max_time.get());
        summary.bytes += total;
        open.writers.saw(header.writer.get(), header.number.get());
        open.end += total;
        counters.written += Bytes(u64::from(total));
        counters.elements += following - *next_element;
        let block = Written {
            index: stamp.index,
            offset,
            length: total,
            elements: (*next_element, following),
            times: (header.min_time.get(), header.max_time.get()),
        };
        *next_element = following;
        in_flight.push_back(InFlight {
            segment: stamp.segment,
            block: Some(block),
            writer: header.writer.get(),
            number: header.number.get(),
            end_sequence: following,
            length: 0,
            due: Moment(u64::MAX),
            late_after: Moment(u64::MAX),
            seals: false,
            done: None,
        });
        let at = open.at + Bytes(u64::from(offset));
        drop(work);
        self.publish_summary();
        let due = self.due(accepted, Bytes(u64::from(header.payload_len.get())));
        self.start(at, buffer, &due);
        Ok(())
    }

    fn start(self: &Rc<Self>, at: Bytes, buffer: Buffer, due: &Due) {
        let Due { by, given, promised, late_after } = *due;
        let number = {
            let mut work = self.work.borrow_mut();
            work.at_risk += buffer.len() as u64;
            let number = work.first_in_flight + work.in_flight.len() as u64 - 1;
            let own = work.in_flight.back_mut().expect("it was just added");
            (own.length, own.due, own.late_after) = (buffer.len() as u64, by, late_after);
            number
        };
        let lag = self.core.with_ring(self.id, |r| r.spec.flush_interval);
        let deadline = by + given - self.flush_reserve(lag);
        let this = self.clone();
        let disk = self.core.disk.clone();
        self.core.disk.env().spawner.detach(async move {
            let (buffer, result) = disk.write_promised(this.id, at, buffer, deadline, promised).await;
            drop(buffer);
            match result {
                Ok(()) => this.written(number),
                Err(error) => this.fail(error),
            }
        });
    }

    /// The write `number` (since opening) has ended.
    fn written(self: &Rc<Self>, number: u64) {
        let mut work = self.work.borrow_mut();
        let at = (number - work.first_in_flight) as usize;
        work.in_flight[at].done = Some(self.core.disk.flushes_begun());
        // Blocks become readable in order.
        let Work { open, in_flight, .. } = &mut *work;
        if let Some(open) = open {
            for item in in_flight.iter().take_while(|i| i.done.is_some()) {
                if let Some(block) = item.block
                    && item.segment == open.summary.sequence
                    && block.index == open.next_written
                {
                    open.written.push(block);
                    open.next_written += 1;
                }
            }
        }
        drop(work);
        self.progressed.notify();
        self.consider_flush();
    }

    fn segment(&self) -> Bytes {
        self.core.with_ring(self.id, |r| r.segment)
    }

    /// Looks at the blocks of segment `sequence` that may be read and at its index, if it is the one being written.
    pub(crate) fn with_open<T>(&self, sequence: u64, look: impl FnOnce(&[Written], &Builder) -> T) -> Option<T> {
        let work = self.work.borrow();
        let open = work.open.as_ref().filter(|open| open.summary.sequence == sequence);
        open.map(|open| look(&open.written, &open.builder))
    }

    /// Tables of a segment that was sealed lately, and whether its index pages are on the device.
    pub(crate) fn recent_tables(&self, sequence: u64) -> Option<(Rc<Tables>, bool)> {
        let work = self.work.borrow();
        work.recent
            .iter()
            .find(|(s, _, _)| *s == sequence)
            .map(|(_, tables, on_device)| (tables.clone(), on_device.get()))
    }

    /// Whether the last run may have overwritten parts of the segment before it crashed. Of a ring that was deleted while
    /// it was looked at, others may have all.
    pub(crate) fn is_doubtful(&self, sequence: u64) -> bool {
        !self.core.has_ring(self.id) || sequence < self.core.with_ring(self.id, |r| r.doubtful_before)
    }

    /// Sequence after the last element that can be read.
    pub(crate) fn readable_end(&self) -> u64 {
        self.work.borrow().readable_end()
    }

    /// Number of the first block of this segment that is not written yet, if there is one: of blocks in which no element
    /// ends, sequences say nothing.
    pub(crate) fn first_unwritten(&self, sequence: u64) -> Option<u32> {
        let work = self.work.borrow();
        let mut unwritten = work.in_flight.iter().filter(|item| item.segment == sequence && item.done.is_none());
        unwritten.find_map(|item| item.block).map(|block| block.index)
    }

    /// Blocks under way that can no longer be durable in time: a device that stalls is noticed before it ends.
    fn overdue(&self, work: &Work) -> u64 {
        let now = self.core.disk.env().clock.now();
        work.in_flight.iter().filter(|item| item.block.is_some() && now > item.late_after).count() as u64
    }

    /// What the ring says of itself.
    pub fn status(&self) -> RingStatus {
        let work = self.work.borrow();
        self.core.with_ring(self.id, |record: &RingRecord| {
            let kept = || record.slots.iter().flatten().filter(|s| s.has_content());
            let mut losses = Losses::default();
            kept().for_each(|s| losses.merge(&s.losses));
            RingStatus {
                spec: record.spec.clone(),
                state: if work.failure.is_some() { RingState::Failed } else { work.state },
                segments: record.segments(),
                pinned_segments: record.held().len() as u64,
                first_sequence: kept().map(|s| s.first).min().unwrap_or(work.next_element),
                next_sequence: work.next_element,
                readable_sequence: work.readable_end(),
                oldest: kept().map(|s| s.min_time).min().map(Timestamp),
                newest: kept().map(|s| s.max_time).max().map(Timestamp),
                written: work.counters.written,
                elements: work.counters.elements,
                missed_deadlines: work.counters.missed + self.overdue(&work),
                losses,
                staging_peak: work.counters.staging_peak,
                staging: Bytes(self.staging.capacity().0 * self.staging.count() as u64),
                index_memory: work.open.as_ref().map_or(Bytes::ZERO, |o| o.builder.memory()),
                memory_limit: self.memory_limit().total(),
                recording: work.recording.is_some(),
                pins: record.pins.iter().map(|p| p.pin.clone()).collect(),
                begins: record.begins,
            }
        })
    }
}

#[cfg(test)]
mod tests;

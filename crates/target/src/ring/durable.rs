//! When blocks must be durable, when the ring asks for a flush, and what follows from one, whoever asked for it:
//! acknowledgement, segments that are settled, and from time to time a checkpoint.

use super::{InFlight, Ring};
use crate::admission;
use crate::schedule::{Flush, Promised};
use forebay_model::{Bytes, Moment, Rate};
use std::rc::Rc;
use std::time::Duration;

/// When a block has to be durable.
pub(super) struct Due {
    /// By then, if no more is written beyond the guaranteed rate than was so far: by `given`, in time at that rate.
    pub(super) by: Moment,
    pub(super) given: Duration,
    pub(super) promised: Option<Promised>,
    /// After that it was late for whoever recorded it.
    pub(super) late_after: Moment,
}

/// When a block was accepted, and from when on it counts here: what was held up before it came to the target has waited there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Accepted {
    at: Moment,
    counts: Moment,
}

/// A recorder keeps a block for this part of the flush interval at most, as a divisor. Were what is older counted from then on, who comes
/// back after a while, or says that it did, would have the arm before all others.
const KEPT_BY_RECORDER: u32 = 2;

impl Accepted {
    /// Of a block that comes `now`.
    pub(super) fn new(at: Moment, now: Moment, lag: Duration) -> Accepted {
        Accepted { at, counts: at.max(now - lag / KEPT_BY_RECORDER) }
    }

    /// Of what the target writes of itself.
    pub(super) fn now(now: Moment) -> Accepted {
        Accepted { at: now, counts: now }
    }
}

impl Ring {
    /// The most bytes that may be on their way to durability: staging memory twice (in memory, and in a write cache),
    /// and a segment for the footers between.
    pub(super) fn at_risk_limit(&self) -> u64 {
        2 * self.staging.capacity().0 * self.staging.count() as u64 + self.segment().0
    }

    /// When a block with `promised` bytes of elements must be durable: blocks beyond the guaranteed rate have the
    /// deadlines that they would have had at that rate.
    pub(super) fn due(&self, accepted: Accepted, promised: Bytes) -> Due {
        let Accepted { at, counts: accepted } = accepted;
        let (rate, lag) = self.core.with_ring(self.id, |r| (r.spec.guarantee, r.spec.flush_interval));
        if rate == Rate(0) {
            return Due { by: accepted + lag, given: Duration::ZERO, promised: None, late_after: Moment(u64::MAX) };
        }
        // What was written beyond the rate has used up nothing of it.
        let given = self.core.disk.given(self.id);
        let mut work = self.work.borrow_mut();
        let (start, worth) = (work.paced_until.max(accepted + given), rate.time_for(promised));
        work.paced_until = start + worth;
        let soonest = accepted + lag - self.flush_reserve(lag);
        let by = start - given + lag;
        let late_after = (by - accepted.since(at)).max(at + lag);
        Due { by, given, promised: Some(Promised { soonest, worth }), late_after }
    }

    /// Whether it was promised nothing, and others on its target were: then they come first in everything.
    pub(super) fn is_beside_promises(&self) -> bool {
        let has = self.core.has_ring(self.id);
        has && self.core.disk.is_beside_promises(self.core.with_ring(self.id, |r| r.spec.guarantee))
    }

    /// What of the flush interval is kept for the flush at the end of a sweep.
    pub(super) fn flush_reserve(&self, lag: Duration) -> Duration {
        lag - admission::cycle(&self.core.profile(), lag)
    }

    /// Starts a flush when it is time: eight times an interval, but on a device that rotates only when everything handed
    /// in is written; when the oldest block will be due; or when the ring is being closed.
    pub(super) fn consider_flush(self: &Rc<Self>) {
        // A timer may be left of a ring that was deleted.
        if !self.core.has_ring(self.id) {
            return;
        }
        let (lag, now) = (self.core.with_ring(self.id, |r| r.spec.flush_interval), self.core.disk.env().clock.now());
        let reserve = self.flush_reserve(lag);
        let wait_until = {
            let mut work = self.work.borrow_mut();
            let Some(oldest) = work.in_flight.front().filter(|i| i.done.is_some()) else { return };
            if work.flushing || work.failure.is_some() {
                return;
            }
            // In the middle of a sweep a flush costs a turn, or the way to the next ring; what all of them wrote one flush covers.
            let disk = &self.core.disk;
            let good_moment = if disk.alternates() {
                !disk.is_sweeping()
            } else {
                !disk.rotates() || work.in_flight.iter().all(|i| i.done.is_some())
            };
            // Where the arm goes from ring to ring, another one's writes or flush may be under way: with half a flush for that
            // no block was late, and a whole one took what is left for others.
            let others = if disk.alternates() { self.core.profile().flush / 2 } else { Duration::ZERO };
            let urgent = oldest.due - (reserve + others + disk.owed());
            let earliest = if good_moment { (work.last_flush + lag / 8).min(urgent) } else { urgent };
            let pressed = work.stopping || work.at_risk * 2 > self.at_risk_limit();
            if now < earliest && !pressed {
                if work.flush_timer.is_some_and(|timer| timer <= earliest) {
                    return;
                }
                work.flush_timer = Some(earliest);
                Some(earliest)
            } else {
                work.flushing = true;
                work.last_flush = now;
                None
            }
        };
        if let Some(earliest) = wait_until {
            let this = self.clone();
            self.core.disk.env().spawner.detach(async move {
                this.core.disk.env().clock.sleep_until(earliest).await;
                let mut work = this.work.borrow_mut();
                if work.flush_timer == Some(earliest) {
                    work.flush_timer = None;
                }
                drop(work);
                this.consider_flush();
            });
            return;
        }
        let this = self.clone();
        self.core.disk.env().spawner.detach(async move {
            let disk = &this.core.disk;
            let result = match this.is_beside_promises() {
                // What others were promised does not wait for this one.
                true => disk.flush_metadata().await,
                false => disk.flush().await,
            };
            this.work.borrow_mut().flushing = false;
            match result {
                Ok(()) => this.consider_flush(),
                Err(error) => this.fail(error),
            }
        });
    }

    /// A flush ended well: all is durable that was written before it began.
    pub(super) fn flushed(self: &Rc<Self>, flush: Flush) {
        let now = self.core.disk.env().clock.now();
        let mut settled = 0usize;
        let mut durable_end = None;
        {
            let mut work = self.work.borrow_mut();
            let is_covered = |item: &mut InFlight| item.done.is_some_and(|begun| begun < flush.number);
            while let Some(item) = work.in_flight.pop_front_if(is_covered) {
                work.last_flush = work.last_flush.max(flush.began);
                work.first_in_flight += 1;
                work.at_risk -= item.length;
                if item.block.is_some() && now > item.late_after {
                    work.counters.missed += 1;
                }
                if item.block.is_some() {
                    self.core.with_ring_mut(self.id, |r| r.writers.saw(item.writer, item.number));
                    work.progress.writer = item.writer;
                    work.progress.durable = item.number;
                    work.progress.sequence = item.end_sequence;
                    durable_end = Some(item.end_sequence);
                    if let Some(open) = &mut work.open
                        && open.summary.sequence == item.segment
                    {
                        open.durable_blocks += 1;
                    }
                }
                if item.seals {
                    settled += 1;
                    if let Some((_, _, on_device)) = work.recent.iter().find(|(s, _, _)| *s == item.segment) {
                        on_device.set(true);
                    }
                }
            }
        }
        if let Some(end) = durable_end {
            self.core.with_ring_mut(self.id, |record| record.durable_end = end);
        }
        if settled > 0 {
            self.settle(settled);
        }
        self.progressed.notify();
        self.consider_flush();
    }

    /// The oldest `n` segments of the path are durable as a whole.
    pub(super) fn settle(self: &Rc<Self>, n: usize) {
        self.core.with_ring_mut(self.id, |record| {
            for _ in 0..n {
                let slot = record.path.remove(0);
                record.path_segment += 1;
                record.path_element = record.slots[slot as usize].map_or(record.path_element, |s| s.end);
            }
        });
        let demand = self.core.with_ring(self.id, |record| self.core.demand(record));
        let every = demand.segments_per_checkpoint(&self.core.profile()).max(1);
        let mut work = self.work.borrow_mut();
        work.seals_since_checkpoint += n as u32;
        if u64::from(work.seals_since_checkpoint) >= every {
            work.seals_since_checkpoint = 0;
            drop(work);
            let this = self.clone();
            self.core.disk.env().spawner.detach(async move {
                let committed = match this.is_beside_promises() {
                    true => this.core.commit().await,
                    false => this.core.commit_in_time().await,
                };
                if let Err(error) = committed {
                    this.fail(error);
                }
            });
        }
    }
}

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
}

impl Ring {
    /// The most bytes that may be on their way to durability: staging memory twice (in memory, and in a write cache),
    /// and a segment for the footers between.
    pub(super) fn at_risk_limit(&self) -> u64 {
        2 * self.staging.capacity().0 * self.staging.count() as u64 + self.segment().0
    }

    /// When a block with `promised` bytes of elements must be durable: blocks beyond the guaranteed rate have the
    /// deadlines that they would have had at that rate.
    pub(super) fn due(&self, accepted: Moment, promised: Bytes) -> Due {
        let (rate, lag) = self.core.with_ring(self.id, |r| (r.spec.guarantee, r.spec.flush_interval));
        if rate == Rate(0) {
            return Due { by: accepted + lag, given: Duration::ZERO, promised: None };
        }
        // What was written beyond the rate has used up nothing of it.
        let given = self.core.disk.given(self.id);
        let mut work = self.work.borrow_mut();
        let (start, worth) = (work.paced_until.max(accepted + given), rate.time_for(promised));
        work.paced_until = start + worth;
        let soonest = accepted + lag - self.flush_reserve(lag);
        Due { by: start - given + lag, given, promised: Some(Promised { soonest, worth }) }
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
            let result = this.core.disk.flush().await;
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
        let lag = self.core.with_ring(self.id, |r| r.spec.flush_interval);
        let mut settled = 0usize;
        let mut durable_end = None;
        let guaranteed = self.core.with_ring(self.id, |r| r.spec.guarantee) != Rate(0);
        {
            let mut work = self.work.borrow_mut();
            let is_covered = |item: &mut InFlight| item.done.is_some_and(|begun| begun < flush.number);
            while let Some(item) = work.in_flight.pop_front_if(is_covered) {
                work.last_flush = work.last_flush.max(flush.began);
                work.first_in_flight += 1;
                work.at_risk -= item.length;
                if guaranteed && item.block.is_some() && now > item.due.max(item.accepted + lag) {
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
                if let Err(error) = this.core.commit_in_time().await {
                    this.fail(error);
                }
            });
        }
    }
}

//! From segment to segment: the open one is sealed, and the next slot is taken, which ends what was in it.

use super::durable::Accepted;
use super::{InFlight, Open, Ring};
use crate::catalog::{Segment, Writers};
use crate::schedule::Waiting;
use crate::segment::{Builder, Description, IndexBudget, Trailer, encode_footer};
use forebay_env::Buffer;
use forebay_model::gap::Cause;
use forebay_model::ring::RingState;
use forebay_model::{Bytes, Error, Result, Timestamp};
use std::cell::Cell;
use std::rc::Rc;

/// Tables of segments sealed lately that are kept in memory.
pub(super) const RECENT_TABLES: usize = 8;

impl Ring {
    /// Seals the open segment and takes the next slot: the moment at which what was in it expires. What is to come into it first
    /// has no earlier time than `begins`.
    pub(super) async fn next_segment(self: &Rc<Self>, accepted: Accepted, begins: Option<Timestamp>) -> Result<()> {
        self.seal(accepted)?;
        let layout = self.core.layout();
        loop {
            let next = self.core.with_ring(self.id, |record| {
                record.slot_after(&layout, record.path.last().copied().unwrap_or(record.slots.len() as u32 - 1))
            });
            if next.is_some_and(|slot| !self.core.may_take(self.id, slot)) {
                // A lap in less time than a checkpoint takes, or a change of pins or groups that is not durable.
                self.commit_now().await?;
                // Who closes a full ring does not wait for this: by now it may be deleted, or its target closed.
                self.is_waited_for()?;
                continue;
            }
            let taken = self.core.with_ring_mut(self.id, |record| {
                let slot = next?;
                let sequence = record.path_segment + record.path.len() as u64;
                record.path.push(slot);
                record.slots[slot as usize] = None;
                Some((slot, sequence, record.slot_at(&layout, slot)))
            });
            if let Some((slot, sequence, at)) = taken {
                let (end, lost) = {
                    let work = self.work.borrow();
                    (work.next_element, work.lost_before)
                };
                let mut summary = Segment::opened(sequence, end - lost);
                if lost > 0 {
                    let now = self.core.disk.env().clock.wall().0;
                    let before = self.core.with_ring(self.id, |r| r.slots.iter().flatten().map(|s| s.max_time).max());
                    let before = before.unwrap_or(self.core.formatted().0).min(now);
                    (summary.end, summary.min_time, summary.max_time) = (end, before, now);
                    summary.losses.add(Cause::Damaged, Some(lost));
                }
                let builder = Builder::new(self.keys.clone(), self.index_budget());
                let mut work = self.work.borrow_mut();
                work.lost_before = 0;
                if work.state == RingState::Full {
                    work.state = RingState::Ready;
                }
                work.open = Some(Open {
                    slot,
                    at,
                    summary,
                    builder,
                    end: 0,
                    written: Vec::new(),
                    next_written: 0,
                    durable_blocks: 0,
                    writers: Writers::default(),
                });
                drop(work);
                self.publish_summary();
                self.extend_open_pins(slot, sequence, begins);
                self.progressed.notify();
                self.look_ahead(slot);
                return Ok(());
            }
            // All is pinned: recording stands still until somebody lets go.
            self.work.borrow_mut().state = RingState::Full;
            self.progressed.notify();
            self.consider_flush();
            self.progressed.changed().await;
            self.is_waited_for()?;
        }
    }

    /// An error if nobody waits any more for what is to come into the next segment: the ring failed, or was closed while it was full.
    fn is_waited_for(&self) -> Result<()> {
        let work = self.work.borrow();
        match &work.failure {
            Some(error) => Err(error.clone()),
            None if work.ends_full() => Err(Error::full("the ring was closed while everything in it was pinned")),
            None => Ok(()),
        }
    }

    /// If the slot after `slot` cannot be taken before a checkpoint, sees to it that there is one by then.
    pub(super) fn look_ahead(self: &Rc<Self>, slot: u32) {
        let layout = self.core.layout();
        let next = self.core.with_ring(self.id, |record| record.slot_after(&layout, slot));
        if next.is_some_and(|next| !self.core.may_take(self.id, next)) {
            let this = self.clone();
            self.core.disk.env().spawner.detach(async move {
                if let Err(error) = this.commit_now().await {
                    this.fail(error);
                }
            });
        }
    }

    /// Commits, where the ring cannot go on before.
    async fn commit_now(&self) -> Result<()> {
        self.core.commit_now(if self.is_beside_promises() { Waiting::Objects } else { Waiting::Ring }).await
    }

    /// Writes index, tables and trailer of the open segment, if there is one.
    pub(super) fn seal(self: &Rc<Self>, accepted: Accepted) -> Result<()> {
        let Some(open) = self.work.borrow_mut().open.take() else { return Ok(()) };
        let trailer = Trailer {
            target: self.origin.target,
            ring: self.origin.ring,
            slot: open.slot,
            epoch: self.epoch(),
            summary: open.summary,
            blocks: open.builder.blocks(),
            durable_blocks: open.durable_blocks,
            tables_at: 0,
            tables_len: 0,
            tables_crc: 0,
            writers: open.writers,
            description: self.core.with_ring(self.id, |record| Description::of(self.core.target_id(), self.id, record)),
        };
        let (start, bytes, tables) = encode_footer(open.builder, self.segment(), trailer)?;
        assert!(start >= open.end, "the footer at {start} would overwrite blocks up to {}", open.end);
        let on_device = Rc::new(Cell::new(false));
        {
            let mut work = self.work.borrow_mut();
            work.recent.push_back((open.summary.sequence, Rc::new(tables), on_device));
            if work.recent.len() > RECENT_TABLES && work.recent.front().is_some_and(|(_, _, on_device)| on_device.get())
            {
                work.recent.pop_front();
            }
        }
        let parts = bytes.chunks(Bytes::mib(1).0 as usize);
        let n = parts.len();
        for (i, part) in parts.enumerate() {
            let mut buffer = Buffer::alone(Bytes(part.len() as u64))?;
            buffer.copy_from_slice(part);
            let due = self.due(accepted, Bytes::ZERO);
            let mut work = self.work.borrow_mut();
            work.counters.written += Bytes(part.len() as u64);
            work.in_flight.push_back(InFlight {
                segment: open.summary.sequence,
                block: None,
                writer: 0,
                number: 0,
                end_sequence: open.summary.end,
                length: 0,
                due: due.by,
                late_after: due.late_after,
                seals: i + 1 == n,
                done: None,
            });
            drop(work);
            let at = open.at + Bytes(u64::from(start)) + Bytes::mib(1) * i as u64;
            self.start(at, buffer, &due);
        }
        Ok(())
    }

    /// Tells the catalog what is in the open segment.
    pub(super) fn publish_summary(&self) {
        let summary = self.work.borrow().open.as_ref().map(|open| (open.slot, open.summary));
        if let Some((slot, summary)) = summary {
            self.core.with_ring_mut(self.id, |record| record.slots[slot as usize] = Some(summary));
        }
    }

    /// What the index of a segment may take.
    pub(super) fn index_budget(&self) -> IndexBudget {
        let percent = self.core.with_ring(self.id, |r| r.spec.index_percent);
        IndexBudget::for_segment(self.segment(), percent, self.keys.len())
    }
}

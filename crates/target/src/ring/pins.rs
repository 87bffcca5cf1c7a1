//! Pins: ranges that the ring does not overwrite, in place.
//!
//! A pin takes effect in memory at once, so that it races the writer fairly, and is acknowledged when the catalog that
//! holds it is durable. It holds whole segments, as they are the unit of overwriting.
//!
//! While elements of its range may still come, a pin is *open*: the segment that is written belongs to it, and each that is begun. It
//! ends when two clocks are beyond its end: that of whoever records, as the times of elements tell it, and the target's own. One may be
//! wrong, or be set back. What opening finds behind the last checkpoint belongs to it as well, for what was held there was not durable.

use super::Ring;
use crate::catalog::{PinRecord, RingRecord, Segment};
use crate::layout::Layout;
use forebay_model::ring::{Pin, PinPolicy, Pinned};
use forebay_model::{Bytes, Error, Result, Timestamp};
use std::rc::Rc;

/// Slots that must stay free for the writer, whatever the policy.
const LEAST_FREE: u64 = 3;
/// The most pins of a ring.
const MOST_PINS: usize = 4096;
/// The longest label.
const LONGEST_LABEL: usize = 255;

impl Ring {
    /// Pins everything that still exists between `from` and `to`, both included.
    pub async fn pin(self: &Rc<Self>, label: &str, from: Timestamp, to: Timestamp) -> Result<Pinned> {
        if from > to {
            return Err(Error::usage(format!("a pin from {from} to {to} ends before it begins")));
        }
        let now = self.core.disk.env().clock.wall();
        if from > now {
            return Err(Error::usage(format!(
                "a pin from {from} on lies in the future (it is {now}); pin it when it is there"
            )));
        }
        if label.len() > LONGEST_LABEL {
            return Err(Error::usage(format!(
                "a label of {} bytes is too long; use {LONGEST_LABEL} at most (nothing was pinned)",
                label.len()
            )));
        }
        self.going()?;
        let id = self.core.next_pin();
        let written = self.work.borrow().open.as_ref().map(|open| open.slot);
        let pinned = self.core.with_ring_mut(self.id, |record| take(record, id, label, (from, to), now, written))?;
        let fits = self.core.check_pins().and_then(|()| self.core.check_admission(self.id));
        let made = match fits {
            Ok(()) => self.core.commit().await,
            refused => refused,
        };
        if let Err(error) = made {
            // If it cannot be made durable, it may be there after a crash as well as not.
            self.core.if_ring(self.id, |record| record.pins.retain(|p| p.pin.id != id));
            return Err(error);
        }
        Ok(pinned)
    }

    /// Lets go of a pin: its segments return to the ring.
    pub async fn unpin(self: &Rc<Self>, id: u64) -> Result<Pin> {
        self.going()?;
        let pin = self.core.with_ring_mut(self.id, |record| {
            let at = record
                .pins
                .iter()
                .position(|p| p.pin.id == id)
                .ok_or_else(|| Error::missing(format!("{} has no pin {id}", record.spec.name)))?;
            Ok(record.pins.remove(at).pin)
        })?;
        self.core.commit().await?;
        self.progressed.notify();
        Ok(pin)
    }

    /// Open pins also hold the segment that was just begun. What comes into it first has no earlier time than `begins`.
    pub(super) fn extend_open_pins(self: &Rc<Self>, slot: u32, sequence: u64, begins: Option<Timestamp>) {
        let now = self.core.disk.env().clock.wall();
        let open = self.core.with_ring_mut(self.id, |record| {
            // Elements come as they were accepted: if the first one here is later than the end, all up to there has come.
            let recorded = begins.unwrap_or_else(|| newest(record, sequence));
            for pin in record.pins.iter_mut().filter(|pin| pin.open_end) {
                pin.open_end = recorded <= pin.pin.to || now <= pin.pin.to;
            }
            record.pins.iter().filter(|pin| pin.open_end).map(|pin| pin.pin.id).collect::<Vec<u64>>()
        });
        let held = open.into_iter().filter(|id| self.hold(*id, slot, sequence)).count();
        if held > 0 {
            let this = self.clone();
            self.core.disk.env().spawner.detach(async move {
                if let Err(error) = this.core.commit().await {
                    this.fail(error);
                }
            });
        }
    }

    /// An open pin holds a segment, too, as far as budget, catalog and guarantee allow; else it ends here.
    fn hold(&self, id: u64, slot: u32, sequence: u64) -> bool {
        let held = self.core.with_ring_mut(self.id, |record| {
            let is_allowed = budget_allows(record, 1);
            record.pins.iter_mut().find(|pin| pin.pin.id == id).is_some_and(|pin| {
                pin.open_end = is_allowed;
                if is_allowed {
                    pin.hold(slot, sequence);
                }
                is_allowed
            })
        });
        let fits = held && self.core.check_pins().and_then(|()| self.core.check_admission(self.id)).is_ok();
        if held && !fits {
            self.core.with_ring_mut(self.id, |record| {
                for pin in record.pins.iter_mut().filter(|pin| pin.pin.id == id) {
                    pin.open_end = false;
                    pin.let_go(slot, sequence);
                }
            });
        }
        fits
    }
}

impl RingRecord {
    /// Whether the writer would keep its free slots beside what pins hold if so many groups less were the ring's. One that
    /// stops where all is pinned needs none.
    pub(crate) fn check_free_after(&self, fewer: usize, layout: &Layout) -> Result<()> {
        let per_group = u64::from(self.segments_per_group(layout));
        let (held, left) = (self.held().len() as u64, self.segments().saturating_sub(fewer as u64 * per_group));
        if self.spec.pin_policy == PinPolicy::Stop || held + LEAST_FREE <= left {
            return Ok(());
        }
        let least = layout.group * (held + LEAST_FREE).div_ceil(per_group);
        Err(Error::refused(format!(
            "{} would have {left} segments, of which pins hold {held}, and {LEAST_FREE} must stay free for what is recorded; \
             unpin something, or give it {least} at least (nothing was changed)",
            self.spec.name
        )))
    }
}

impl PinRecord {
    fn hold(&mut self, slot: u32, sequence: u64) {
        self.held.push((slot, sequence));
        self.held.sort_unstable();
        self.pin.segments += 1;
    }

    fn let_go(&mut self, slot: u32, sequence: u64) {
        self.held.retain(|held| *held != (slot, sequence));
        self.pin.segments -= 1;
    }
}

/// The time of the newest element before segment `sequence`.
fn newest(record: &RingRecord, sequence: u64) -> Timestamp {
    let before = record.slots.iter().flatten().filter(|s| s.sequence < sequence && s.bytes > 0);
    before.map(|s| Timestamp(s.max_time)).max().unwrap_or(Timestamp::MIN)
}

/// Opening found these segments behind the last checkpoint, in their order: open pins hold them, as they did before.
pub(super) fn hold_found(record: &mut RingRecord, found: &[(u32, Segment)], now: Timestamp) {
    let grace = record.spec.flush_interval * 2;
    for index in 0..record.pins.len() {
        for (slot, segment) in found {
            let PinRecord { pin, held, open_end } = &record.pins[index];
            let is_in_range = match segment.has_content() {
                true => segment.min_time <= pin.to.0,
                false => newest(record, segment.sequence) <= pin.to || now <= pin.to.after(grace),
            };
            if !open_end || !is_in_range || held.binary_search(&(*slot, segment.sequence)).is_ok() {
                continue;
            }
            match budget_allows(record, 1) {
                true => record.pins[index].hold(*slot, segment.sequence),
                false => record.pins[index].open_end = false,
            }
        }
    }
}

/// `written` is the slot of the segment that is written.
fn take(
    record: &mut RingRecord,
    id: u64,
    label: &str,
    (from, to): (Timestamp, Timestamp),
    now: Timestamp,
    written: Option<u32>,
) -> Result<Pinned> {
    if record.pins.len() >= MOST_PINS {
        return Err(Error::refused(format!(
            "{} has {MOST_PINS} pins, which is the most; unpin one (nothing was pinned)",
            record.spec.name
        )));
    }
    let slots = || (0..).zip(&record.slots).filter_map(|(slot, segment)| segment.map(|segment| (slot, segment)));
    let chosen: Vec<(u32, Segment)> = slots().filter(|(_, segment)| segment.touches(from, to)).collect();
    let oldest = record.slots.iter().flatten().filter(|s| s.bytes > 0).map(|s| s.min_time).min();
    // What was recorded by now may be on its way.
    let open_end = to > now || to >= newest(record, u64::MAX);
    // Of several targets, others may have some of what is on its way here.
    let may_be_empty = to > now || open_end && record.spec.spread.targets > 1;
    if chosen.is_empty() && !may_be_empty {
        return Err(match oldest {
            Some(oldest) if to.0 < oldest => Error::expired(format!(
                "everything up to {to} has been overwritten; what is kept of {} begins at {}",
                record.spec.name,
                Timestamp(oldest)
            )),
            _ => Error::missing(format!("{} has nothing between {from} and {to}", record.spec.name)),
        });
    }
    // What comes next comes into the one that is written, whatever is in it so far.
    let is_to_be_held =
        |(slot, segment): &(u32, Segment)| segment.touches(from, to) || open_end && written == Some(*slot);
    let mut holds: Vec<(u32, u64)> =
        slots().filter(is_to_be_held).map(|(slot, segment)| (slot, segment.sequence)).collect();
    holds.sort_unstable();
    let held = record.held();
    let fresh = holds.iter().filter(|one| held.binary_search(one).is_err()).count() as u64;
    if !holds.is_empty() && !budget_allows(record, fresh) {
        let total = record.segments();
        return Err(Error::refused(format!(
            "this pin would hold {fresh} more of {total} segments, {} are held already, and the budget of {} is {} % ({} segments); pin less or unpin something",
            held.len(),
            record.spec.name,
            record.spec.pin_budget_percent,
            total * u64::from(record.spec.pin_budget_percent) / 100
        )));
    }
    // After it was made larger it may have fewer laps behind it than slots; what it began with is gone all the same.
    let lowest = record.slots.iter().flatten().filter(|s| s.has_content()).map(|s| s.first).min();
    let has_run_over = record.path_segment > record.segments() || lowest.is_some_and(|first| first > record.begins);
    let evicted = oldest.filter(|oldest| from.0 < *oldest && has_run_over);
    let pin = Pin {
        id,
        label: label.to_owned(),
        from,
        to,
        first_sequence: chosen.iter().map(|(_, s)| s.first).min().unwrap_or(0),
        end_sequence: chosen.iter().map(|(_, s)| s.end).max().unwrap_or(0),
        segments: holds.len() as u64,
        bytes: chosen.iter().map(|(_, s)| Bytes(u64::from(s.bytes))).sum(),
        relatives: Vec::new(),
    };
    record.pins.push(PinRecord { pin: pin.clone(), held: holds, open_end });
    Ok(Pinned { pin, expired_until: evicted.map(Timestamp), open_end })
}

fn budget_allows(record: &RingRecord, more: u64) -> bool {
    let held = record.held().len() as u64 + more;
    let total = record.segments();
    match record.spec.pin_policy {
        PinPolicy::Refuse => {
            held * 100 <= total * u64::from(record.spec.pin_budget_percent) && held + LEAST_FREE <= total
        }
        PinPolicy::Shorten => held + LEAST_FREE <= total,
        PinPolicy::Stop => held <= total,
    }
}

#[cfg(test)]
mod tests;

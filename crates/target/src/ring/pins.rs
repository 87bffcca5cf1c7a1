//! Pins: ranges that the ring does not overwrite, in place.
//!
//! A pin takes effect in memory at once, so that it races the writer fairly, and is acknowledged when the catalog that
//! holds it is durable. It holds whole segments, as they are the unit of overwriting.

use super::Ring;
use crate::catalog::{PinRecord, RingRecord};
use forebay_model::ring::{Pin, PinPolicy, Pinned};
use forebay_model::{Bytes, Error, Result, Timestamp};
use std::rc::Rc;

/// Slots that must stay free for the writer, whatever the policy.
const LEAST_FREE: u64 = 3;

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
        let id = self.core.next_pin();
        let pinned = self.core.with_ring_mut(self.id, |record| take(record, id, label, from, to, now))?;
        if let Err(error) = self.core.check_admission(self.id) {
            self.core.with_ring_mut(self.id, |record| record.pins.retain(|p| p.pin.id != id));
            return Err(error);
        }
        self.core.commit().await?;
        Ok(pinned)
    }

    /// Lets go of a pin: its segments return to the ring.
    pub async fn unpin(self: &Rc<Self>, id: u64) -> Result<Pin> {
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

    /// A pin that reaches into the future also holds the segment that was just opened.
    pub(super) fn extend_open_pins(self: &Rc<Self>, slot: u32, sequence: u64) {
        let now = self.core.disk.env().clock.wall();
        let extended = self.core.with_ring_mut(self.id, |record| {
            let mut extended = false;
            for index in 0..record.pins.len() {
                if !record.pins[index].open_end {
                    continue;
                }
                if record.pins[index].pin.to < now || !budget_allows(record, 1) {
                    record.pins[index].open_end = false;
                    continue;
                }
                let pin = &mut record.pins[index];
                pin.held.push((slot, sequence));
                pin.held.sort_unstable();
                pin.pin.segments += 1;
                extended = true;
            }
            extended
        });
        if extended {
            let this = self.clone();
            self.core.disk.env().spawner.detach(async move {
                if let Err(error) = this.core.commit().await {
                    this.fail(error);
                }
            });
        }
    }
}

fn take(
    record: &mut RingRecord,
    id: u64,
    label: &str,
    from: Timestamp,
    to: Timestamp,
    now: Timestamp,
) -> Result<Pinned> {
    let chosen: Vec<(u32, crate::catalog::Segment)> = record
        .slots
        .iter()
        .enumerate()
        .filter_map(|(slot, segment)| segment.filter(|s| s.touches(from, to)).map(|s| (slot as u32, s)))
        .collect();
    let oldest = record.slots.iter().flatten().filter(|s| s.bytes > 0).map(|s| s.min_time).min();
    if chosen.is_empty() {
        return Err(match oldest {
            Some(oldest) if to.0 < oldest => Error::expired(format!(
                "everything up to {to} has been overwritten; what is kept of {} begins at {}",
                record.spec.name,
                Timestamp(oldest)
            )),
            _ => Error::missing(format!("{} has nothing between {from} and {to}", record.spec.name)),
        });
    }
    let held = record.held();
    let fresh = chosen.iter().filter(|(slot, s)| held.binary_search(&(*slot, s.sequence)).is_err()).count() as u64;
    if !budget_allows(record, fresh) {
        let total = record.segments();
        return Err(Error::refused(format!(
            "this pin would hold {fresh} more of {total} segments, {} are held already, and the budget of {} is {} % ({} segments); pin less or unpin something",
            held.len(),
            record.spec.name,
            record.spec.pin_budget_percent,
            total * u64::from(record.spec.pin_budget_percent) / 100
        )));
    }
    let evicted = oldest.filter(|oldest| from.0 < *oldest && record.path_segment > record.segments());
    let pin = Pin {
        id,
        label: label.to_owned(),
        from,
        to,
        first_sequence: chosen.iter().map(|(_, s)| s.first).min().unwrap_or(0),
        end_sequence: chosen.iter().map(|(_, s)| s.end).max().unwrap_or(0),
        segments: chosen.len() as u64,
        bytes: chosen.iter().map(|(_, s)| Bytes(u64::from(s.bytes))).sum(),
        relatives: Vec::new(),
    };
    let mut held: Vec<(u32, u64)> = chosen.iter().map(|(slot, s)| (*slot, s.sequence)).collect();
    held.sort_unstable();
    let open_end = to > now;
    record.pins.push(PinRecord { pin: pin.clone(), held, open_end });
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

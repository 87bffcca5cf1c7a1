//! One disk, or several striped as one, each behind its own elevator.

use super::batch::{Batch, Ended};
use super::disks::Disks;
use super::elevator::{Elevator, ElevatorSpec};
use crate::disk::Op;
use forebay_env::Env;
use forebay_model::{Bytes, Error, Result};
use std::rc::Rc;

/// Consecutive bytes on one disk, if there are several.
pub const STRIPE: Bytes = Bytes::kib(64);

/// Bytes over one or several equal disks.
pub(super) struct Array {
    elevators: Vec<Elevator>,
    size: u64,
    cached: bool,
}

impl Array {
    /// An array over `disks`.
    pub(super) fn new(disks: &Disks, spec: &ElevatorSpec) -> Result<Array> {
        let sizes = disks.each.iter().map(|disk| disk.device.geometry().size);
        let least = sizes.min().ok_or_else(|| Error::usage("an array of no disks; give it one at least"))?;
        let elevator = |disk: &Env| Elevator::new(spec.clone(), disk.clone());
        let elevators: Vec<Elevator> = disks.each.iter().map(elevator).collect::<Result<_>>()?;
        if disks.real {
            elevators.iter().for_each(Elevator::write_no_zeros);
        }
        Ok(Array { size: least.align_down(STRIPE).0 * elevators.len() as u64, elevators, cached: disks.cached })
    }

    /// How many disks.
    pub(super) fn width(&self) -> u64 {
        self.elevators.len() as u64
    }

    /// Bytes in all.
    pub(super) fn size(&self) -> Bytes {
        Bytes(self.size)
    }

    /// Moves one range.
    pub(super) fn transfer(&self, op: Op, at: u64, length: u64) -> Ended {
        self.transfer_all(op, &[(at, length)])
    }

    /// Moves several ranges at once. Starts now; the future waits for the end.
    pub(super) fn transfer_all(&self, op: Op, ranges: &[(u64, u64)]) -> Ended {
        let batch = Rc::new(Batch::default());
        let mut parts = vec![Vec::new(); self.elevators.len()];
        for &(at, length) in ranges {
            split(self.width(), at, length, &mut parts);
        }
        for (elevator, part) in self.elevators.iter().zip(&parts) {
            elevator.submit(op, part, &batch);
        }
        Ended(batch)
    }

    /// Makes all that has been written durable: a barrier, where the disks have volatile caches.
    pub(super) fn flush(&self) -> Ended {
        let batch = Rc::new(Batch::default());
        if self.cached {
            self.elevators.iter().for_each(|elevator| elevator.flush(&batch));
        }
        Ended(batch)
    }
}

/// The parts of a range on each of `width` disks, neighbours as one.
pub(super) fn split(width: u64, at: u64, length: u64, parts: &mut [Vec<(u64, u64)>]) {
    if width == 1 {
        parts[0].push((at, length));
        return;
    }
    let (mut at, end) = (at, at + length);
    while at < end {
        let next = ((at / STRIPE.0 + 1) * STRIPE.0).min(end);
        let unit = at / STRIPE.0;
        let (disk, offset) = ((unit % width) as usize, unit / width * STRIPE.0 + at % STRIPE.0);
        match parts[disk].last_mut() {
            Some((start, length)) if *start + *length == offset => *length += next - at,
            _ => parts[disk].push((offset, next - at)),
        }
        at = next;
    }
}

#[cfg(test)]
mod tests;

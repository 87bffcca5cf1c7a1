//! A ring as it lies on its device, for who copies it to another target: its [`Portrait`], and the bytes of all segments with something in
//! them, one after the other in the order of their slots.
//!
//! Only what nobody records into is copied, and so nothing tells what was written meanwhile: whoever copies asks for the portrait before and
//! after, and what has the same one has the same bytes.
//!
//! What cannot be read is zeros, which are no block: it is as damaged where the copy lies.

use super::Ring;
use super::portrait::Portrait;
use crate::catalog::RingRecord;
use crate::salvage::Salvage;
use forebay_model::{Bytes, Error, Result};

/// Reads that may be spent on finding out what exactly of a piece cannot be read.
const PATIENCE: u32 = 256;
/// What is read at once.
pub const MOST: Bytes = Bytes::mib(4);

impl Ring {
    /// What is to be known of it elsewhere, when all that was recorded is durable. [`forebay_model::Kind::Busy`] as long as somebody records.
    pub async fn portrait(&self) -> Result<Portrait> {
        self.ready().await?;
        loop {
            {
                let work = self.work.borrow();
                work.failure.clone().map_or(Ok(()), Err)?;
                work.going()?;
                if work.recording.is_some() {
                    return Err(Error::busy("somebody records into the ring, and has it leave the target by that"));
                }
                if !work.placing && work.arrivals.is_empty() && work.in_flight.is_empty() {
                    break;
                }
            }
            self.progressed.changed().await;
        }
        Ok(Portrait::of(self.core.with_ring(self.id, RingRecord::clone), self.epoch()))
    }

    /// Bytes of its segments, as they lie there: from `offset` on in all of them.
    pub async fn image(&self, offset: Bytes, length: Bytes) -> Result<Vec<u8>> {
        self.ready().await?;
        self.going()?;
        let (filled, segment) = self.core.with_ring(self.id, |record| (filled(record), record.segment));
        let end = segment * filled.len() as u64;
        if length == Bytes::ZERO || length > MOST.min(end) || offset > end - length {
            return Err(Error::usage(format!(
                "{length} from {offset} on cannot be read of a ring that has {end}, at most {MOST} at once (nothing was changed)"
            )));
        }
        let stream = self.core.next_stream();
        let salvage = Salvage::new(self.core.disk.clone(), stream, PATIENCE);
        let read = self.read_pieces(&salvage, &filled, pieces(segment, offset, length)).await;
        self.core.disk.end_stream(stream);
        read
    }

    async fn read_pieces(
        &self,
        salvage: &Salvage,
        filled: &[u32],
        pieces: impl Iterator<Item = (u64, Bytes, Bytes)>,
    ) -> Result<Vec<u8>> {
        let layout = self.core.layout();
        let mut bytes = Vec::new();
        for (nth, from, length) in pieces {
            let slot = filled[nth as usize];
            let place = self
                .core
                .with_ring(self.id, |record| record.exists(&layout, slot).then(|| record.slot_at(&layout, slot)));
            let place = place.ok_or_else(|| Error::stale("the ring was made smaller; copy all of it again"))?;
            let read = salvage.read(place + from, length.0 as usize).await?;
            // If it was removed meanwhile, its space is that of others.
            self.going()?;
            bytes.extend_from_slice(&read);
        }
        Ok(bytes)
    }
}

/// Slots with something in them, by rising number.
fn filled(record: &RingRecord) -> Vec<u32> {
    let is_filled = |slot: &u32| record.slots[*slot as usize].is_some() || record.path.contains(slot);
    (0..record.slots.len() as u32).filter(is_filled).collect()
}

/// The parts of a stretch of an image, by segment: which one, from where on in it, and how long.
pub(crate) fn pieces(segment: Bytes, offset: Bytes, length: Bytes) -> impl Iterator<Item = (u64, Bytes, Bytes)> {
    let (mut at, end) = (offset.0, offset.0 + length.0);
    std::iter::from_fn(move || {
        let from = at % segment.0;
        let length = (segment.0 - from).min(end - at);
        let piece = (at / segment.0, Bytes(from), Bytes(length));
        at += length;
        (length > 0).then_some(piece)
    })
}

#[cfg(test)]
mod tests;

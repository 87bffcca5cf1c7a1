//! What a ring is, and that it lies here, is said on the device before it counts as there, by the trailer of its newest segment: each that
//! is sealed later says it as well. Where no checkpoint is whole any more, nothing else does.

use super::super::Target;
use crate::catalog::{RingRecord, Segment, Writers};
use crate::segment::{Description, TRAILER_LEN, Trailer};
use forebay_env::Buffer;
use forebay_model::{Bytes, Result, RingId};

impl Target {
    /// Says it of a ring that is made, where the trailer of its first segment will be.
    pub(super) async fn describe_new(&self, id: RingId, record: &RingRecord) -> Result<()> {
        let layout = self.core.layout();
        let first = (0..record.slots.len() as u32).find(|slot| record.exists(&layout, *slot));
        match first {
            Some(slot) => self.describe_at(id, record, slot).await,
            None => Ok(()),
        }
    }

    /// Says it of a ring that was moved here, all of which has been written: its trailers say where it lay.
    pub(super) async fn describe_moved(&self, id: RingId, record: &RingRecord) -> Result<()> {
        let whole = (0..).zip(&record.slots).filter_map(|(slot, segment)| Some((segment.as_ref()?.sequence, slot)));
        let path = (record.path_segment..).zip(record.path.iter().copied());
        let mut newest: Vec<(u64, u32)> = path.chain(whole).collect();
        newest.sort_unstable_by(|a, b| b.cmp(a));
        // The open segment has none; of those that wait to be durable some may not have come whole.
        newest.truncate(record.path.len() + 1);
        for (sequence, slot) in &newest {
            let mut buffer = Buffer::alone(Bytes(TRAILER_LEN))?;
            let read;
            (buffer, read) = self.core.disk.read_metadata(self.trailer_of(record, *slot), buffer).await;
            read?;
            let origin = record.origin;
            let came =
                Trailer::decode(&buffer).ok().filter(|it| it.is_at(origin.target, origin.ring, *slot, *sequence));
            if let Some(trailer) = came {
                let description = Description::of(self.core.target_id(), id, record);
                return self.put_trailer(record, *slot, Trailer { description, ..trailer }).await;
            }
        }
        match newest.first() {
            Some((_, slot)) => self.describe_at(id, record, *slot).await,
            None => self.describe_new(id, record).await,
        }
    }

    /// Writes a trailer of no segment, which is written over when that of the slot is sealed.
    async fn describe_at(&self, id: RingId, record: &RingRecord, slot: u32) -> Result<()> {
        let origin = record.origin;
        let trailer = Trailer {
            target: origin.target,
            ring: origin.ring,
            slot,
            epoch: self.core.epoch() + origin.epochs,
            summary: Segment::opened(0, 0),
            blocks: 0,
            durable_blocks: 0,
            tables_at: 0,
            tables_len: 0,
            tables_crc: 0,
            writers: Writers::default(),
            description: Description::of(self.core.target_id(), id, record),
        };
        self.put_trailer(record, slot, trailer).await
    }

    async fn put_trailer(&self, record: &RingRecord, slot: u32, trailer: Trailer) -> Result<()> {
        let mut buffer = Buffer::alone(Bytes(TRAILER_LEN))?;
        buffer.fill(0);
        trailer.encode(&mut buffer)?;
        self.core.disk.write_metadata(self.trailer_of(record, slot), buffer).await.1
    }

    fn trailer_of(&self, record: &RingRecord, slot: u32) -> Bytes {
        record.slot_at(&self.core.layout(), slot) + record.segment - Bytes(TRAILER_LEN)
    }
}

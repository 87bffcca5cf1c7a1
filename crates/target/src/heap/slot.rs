//! The bytes of a slot: a header and the record. Bytes: `docs/format/heap.md`.

use super::classes::SLOT_HEADER;
use forebay_model::block::crc32c;
use forebay_model::heap::RecordId;
use forebay_model::{Error, Result};

/// Which heap of which target: part of every checksum, so that what another one wrote is not taken for this one's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The target.
    pub target: u128,
    /// The heap.
    pub heap: u64,
}

fn checksum(stamp: Stamp, id: RecordId, length: u16, bytes: &[u8]) -> u32 {
    let mut whose = [0; 34];
    whose[..16].copy_from_slice(&stamp.target.to_le_bytes());
    whose[16..24].copy_from_slice(&stamp.heap.to_le_bytes());
    whose[24..32].copy_from_slice(&id.number().to_le_bytes());
    whose[32..].copy_from_slice(&length.to_le_bytes());
    crc32c(&whose) ^ crc32c(bytes)
}

/// The header of a record that lies behind it.
pub fn header(stamp: Stamp, id: RecordId, bytes: &[u8]) -> [u8; SLOT_HEADER] {
    let length = bytes.len() as u16;
    let mut header = [0; SLOT_HEADER];
    header[..4].copy_from_slice(&checksum(stamp, id, length, bytes).to_le_bytes());
    header[4..8].copy_from_slice(&(id.number() as u32).to_le_bytes());
    header[8..].copy_from_slice(&length.to_le_bytes());
    header
}

/// The record `id` in the bytes of its slot. [`forebay_model::Kind::Missing`] if another one lies there,
/// [`forebay_model::Kind::Damaged`] if nothing whole does.
pub fn open(stamp: Stamp, id: RecordId, slot: &[u8]) -> Result<&[u8]> {
    let word = |at: usize| u32::from_le_bytes(slot[at..at + 4].try_into().expect("four bytes"));
    let (sum, low, length) = (word(0), word(4), u16::from_le_bytes([slot[8], slot[9]]));
    let bytes = slot.get(SLOT_HEADER..SLOT_HEADER + usize::from(length));
    let whole = |id| bytes.filter(|bytes| checksum(stamp, id, length, bytes) == sum);
    // The record that says it lies here; it has the same slot, and may have another tag.
    let here = RecordId::from_number(id.number() >> 32 << 32 | u64::from(low));
    let of_slot = (here.allocator(), here.slot()) == (id.allocator(), id.slot());
    match whole(here).filter(|_| of_slot) {
        Some(bytes) if here == id => return Ok(bytes),
        Some(_) => return Err(gone(id)),
        None => {}
    }
    Err(Error::damaged(format!("record {id} of heap {} is damaged: its checksum does not match", stamp.heap)))
}

/// Bytes of the record in a slot, as its header says.
pub fn length(slot: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([slot[8], slot[9]]))
}

/// There is no such record any more.
pub fn gone(id: RecordId) -> Error {
    Error::missing(format!("record {id} was freed, and its place belongs to another one; ask for the newer id"))
}

#[cfg(test)]
mod tests;

//! The bytes of a slot: a header and the record. Bytes: `docs/format/heap.md`.

use super::classes::SLOT_HEADER;
use forebay_model::block::crc32c;
use forebay_model::heap::RecordId;
use forebay_model::{Error, Result};
use serde::{Deserialize, Serialize};

/// Which heap of which target, when it was made: part of every checksum, so that what another one wrote is not taken for this one's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// The target.
    pub target: u128,
    /// The heap.
    pub heap: u64,
}

/// What a record is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A user has its id.
    Record,
    /// It is a part of a chained one.
    Part,
    /// It keeps a commit.
    Commit,
}

/// Bits of the length that say the role.
const PART: u16 = 1 << 15;
const COMMIT: u16 = 1 << 14;

fn bits(role: Role) -> u16 {
    match role {
        Role::Record => 0,
        Role::Part => PART,
        Role::Commit => COMMIT,
    }
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
pub fn header(stamp: Stamp, id: RecordId, role: Role, bytes: &[u8]) -> [u8; SLOT_HEADER] {
    let length = bytes.len() as u16 | bits(role);
    let mut header = [0; SLOT_HEADER];
    header[..4].copy_from_slice(&checksum(stamp, id, length, bytes).to_le_bytes());
    header[4..8].copy_from_slice(&(id.number() as u32).to_le_bytes());
    header[8..].copy_from_slice(&length.to_le_bytes());
    header
}

/// The record that lies in a slot of an allocator, if a whole one does.
pub fn find(stamp: Stamp, allocator: u32, slot: u16, bytes: &[u8]) -> Option<(RecordId, Role, &[u8])> {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let (sum, low, length) = (word(0), word(4), u16::from_le_bytes([bytes[8], bytes[9]]));
    let any = RecordId::new(allocator, slot, 0, false);
    let id = RecordId::from_number(any.number() >> 32 << 32 | u64::from(low));
    let record = bytes.get(SLOT_HEADER..end(bytes))?;
    let role = match length & (PART | COMMIT) {
        0 => Role::Record,
        PART => Role::Part,
        COMMIT => Role::Commit,
        _ => return None,
    };
    let is_whole = (id.allocator(), id.slot()) == (allocator, slot) && checksum(stamp, id, length, record) == sum;
    is_whole.then_some((id, role, record))
}

/// The record `id` in the bytes of its slot, if it is there for this. [`forebay_model::Kind::Missing`] if another one lies
/// there, [`forebay_model::Kind::Damaged`] if nothing whole does.
pub fn open(stamp: Stamp, id: RecordId, role: Role, slot: &[u8]) -> Result<&[u8]> {
    match find(stamp, id.allocator(), id.slot(), slot) {
        Some((here, its, bytes)) if (here, its) == (id, role) => Ok(bytes),
        Some(_) => Err(gone(id)),
        None => {
            Err(Error::damaged(format!("record {id} of heap {} is damaged: its checksum does not match", stamp.heap)))
        }
    }
}

/// Whether the header of a slot says that this record lies there, for this, whatever became of the rest.
pub fn names(id: RecordId, role: Role, slot: &[u8]) -> bool {
    let low = u32::from_le_bytes([slot[4], slot[5], slot[6], slot[7]]);
    let length = u16::from_le_bytes([slot[8], slot[9]]);
    low == id.number() as u32 && length & (PART | COMMIT) == bits(role) && end(slot) > SLOT_HEADER
}

/// Bytes of a slot's header and record, as the header says.
pub fn end(slot: &[u8]) -> usize {
    SLOT_HEADER + usize::from(u16::from_le_bytes([slot[8], slot[9]]) & !(PART | COMMIT))
}

/// What distinguishes the records of a slot: never all ones.
pub fn distinction(id: RecordId, role: Role) -> u32 {
    let role = match role {
        Role::Record => 0,
        Role::Part => 1,
        Role::Commit => 2,
    };
    role << 30 | id.tag() << 1 | u32::from(id.is_chain())
}

/// There is no such record any more.
pub fn gone(id: RecordId) -> Error {
    Error::missing(format!("record {id} was freed, and its place belongs to another one; ask for the newer id"))
}

#[cfg(test)]
mod tests;

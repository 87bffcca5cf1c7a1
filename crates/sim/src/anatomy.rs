//! What lies where on a disk that holds a target: found by looking at its bytes, so that a fault can be put where it is
//! wanted, and what it may cost can be told beforehand.

use crate::disk::SimDisk;
use forebay_model::Bytes;
use forebay_model::block::{BLOCK_ALIGN, HEADER_LEN, Header};
use forebay_target::catalog::{Catalog, RingRecord};
use forebay_target::layout::{Layout, ROOT_LEN, ROOTS};
use forebay_target::segment::{PAGE_LEN, TRAILER_LEN, Tables, Trailer};
use forebay_target::superblock::Superblock;
use std::ops::Range;

/// A kind of structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A superblock copy.
    Root,
    /// A checkpoint copy.
    Checkpoint,
    /// The superblock behind a checkpoint copy.
    Beside,
    /// The header of a block.
    Header,
    /// The bytes of a block's elements.
    Payload,
    /// A block's directory, keys and gap records.
    Entries,
    /// A page of a segment's index.
    Page,
    /// The tables of a segment.
    Tables,
    /// The trailer of a segment.
    Trailer,
}

/// A structure at its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// What it is.
    pub kind: Kind,
    /// Where it begins.
    pub at: Bytes,
    /// Its bytes.
    pub length: Bytes,
    /// Which copy of two; the ring and the segment's sequence for what belongs to a segment.
    pub owner: (u64, u64),
    /// The elements that are gone with it, in whole or in part.
    pub elements: Range<u64>,
    /// For parts of a block: its number, and how many blocks before it it calls durable.
    pub block: (u32, u32),
    /// Whether it belongs to the segment that is being written.
    pub open: bool,
}

impl Part {
    /// Whether some of its bytes lie in `range`.
    pub fn touches(&self, range: &Range<Bytes>) -> bool {
        self.at < range.end && range.start < self.at + self.length
    }
}

/// All parts of the target on `disk`, by place.
pub fn anatomy(disk: &SimDisk, superblock: &Superblock, catalog: &Catalog) -> Vec<Part> {
    let layout = superblock.layout;
    let mut parts = Vec::new();
    for (copy, at) in ROOTS.into_iter().enumerate() {
        let mut part = |kind, at, length| {
            parts.push(Part { kind, at, length, owner: (copy as u64, 0), elements: 0..0, block: (0, 0), open: false });
        };
        part(Kind::Root, at, word(disk, at + Bytes(12), ROOT_LEN));
        part(Kind::Checkpoint, layout.area_at(copy), Bytes(superblock.checkpoint_len));
        let beside = superblock.beside(copy);
        part(Kind::Beside, beside, word(disk, beside + Bytes(12), ROOT_LEN));
    }
    for (id, record) in &catalog.rings {
        let slots = 0..record.slots.len() as u32;
        for slot in slots.filter(|slot| record.exists(&layout, *slot)) {
            segment(disk, superblock.target.0, id.0, record, &layout, slot, &mut parts);
        }
    }
    parts.sort_by_key(|part| part.at);
    parts
}

/// A structure's length that it tells itself, with the 20 bytes before it.
fn word(disk: &SimDisk, at: Bytes, most: Bytes) -> Bytes {
    let mut bytes = [0; 4];
    disk.peek(at, &mut bytes);
    Bytes(u64::from(u32::from_le_bytes(bytes)) + 20).min(most)
}

fn segment(
    disk: &SimDisk,
    target: u128,
    ring: u64,
    record: &RingRecord,
    layout: &Layout,
    slot: u32,
    to: &mut Vec<Part>,
) {
    let at = record.slot_at(layout, slot);
    let mut bytes = vec![0; record.segment.0 as usize];
    disk.peek(at, &mut bytes);
    let headers = (0..bytes.len()).step_by(BLOCK_ALIGN).filter_map(|pos| {
        let header = Header::read(&bytes[pos..]).ok()?;
        let stamp = header.stamp();
        ((stamp.target, stamp.ring, stamp.slot, stamp.offset as usize) == (target, ring, slot, pos))
            .then_some((pos, header))
    });
    let headers: Vec<(usize, Header)> = headers.collect();
    let Some(sequence) = headers.iter().map(|(_, h)| h.segment.get()).max() else { return };
    let first = to.len();
    let mut put = |kind, range: Range<usize>, elements: Range<u64>, block: (u32, u32)| {
        let length = Bytes(range.len() as u64);
        let owner = (ring, sequence);
        to.push(Part { kind, at: at + Bytes(range.start as u64), length, owner, elements, block, open: false });
    };
    for (pos, header) in headers.iter().filter(|(_, h)| h.segment.get() == sequence) {
        let begins = header.first_sequence.get();
        let elements = begins..begins + u64::from(header.entries.get());
        let block = (header.index.get(), header.durable_blocks.get());
        put(Kind::Header, *pos..pos + HEADER_LEN, elements.clone(), block);
        put(Kind::Payload, pos + HEADER_LEN..pos + header.directory_at(), elements.clone(), block);
        put(Kind::Entries, pos + header.directory_at()..pos + header.end(), elements, block);
    }
    let trailer_at = bytes.len() - TRAILER_LEN as usize;
    let trailer = Trailer::decode(&bytes[trailer_at..]).ok();
    let Some(trailer) = trailer.filter(|t| t.is_at(target, ring, slot, sequence)) else {
        to[first..].iter_mut().for_each(|part| part.open = true);
        return;
    };
    let body = u32::from_le_bytes(std::array::from_fn(|i| bytes[trailer_at + 12 + i])) as usize;
    put(Kind::Trailer, trailer_at..trailer_at + 20 + body, 0..0, (0, 0));
    let tables = trailer.tables_at as usize..(trailer.tables_at + trailer.tables_len) as usize;
    if let Ok(decoded) = Tables::decode(&bytes[tables.clone()], &trailer) {
        for key in &decoded.keys {
            for page in 0..key.firsts.len() {
                let begin = key.at as usize + page * PAGE_LEN;
                put(Kind::Page, begin..begin + PAGE_LEN, 0..0, (0, 0));
            }
        }
    }
    put(Kind::Tables, tables, 0..0, (0, 0));
}

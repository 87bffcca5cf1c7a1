//! The two roots of a heap, and the pages that describe its allocators: the bytes. `docs/format/heap.md`.
//!
//! A commit writes each page that has changed to a place that no commit names which can still be read, and then the root
//! that the last one does not use: until that is durable, the other root and all that it names are whole.

use super::allocator::{Allocator, Bits, WORDS};
use super::classes::{ALLOCATOR_SLOTS, BLOCKS, Class, SLOTS, UNIT};
use super::slot::Stamp;
use crate::superblock::{self, PREFIX};
use forebay_model::block::crc32c;
use forebay_model::heap::{CommitInfo, HeapMode, HeapSettings, RecordId};
use forebay_model::{Bytes, Error, Result, Timestamp};
use serde::{Deserialize, Serialize};

/// First bytes of a root.
pub const MAGIC: [u8; 8] = *b"FBYHEAP\0";
/// Version of everything in a heap.
pub const VERSION: u32 = 1;
/// Bytes of a root at most.
pub const ROOT_LEN: Bytes = Bytes::kib(256);
/// Units before the first that slots may lie in.
pub const FIRST_UNIT: u32 = (2 * ROOT_LEN.0 / UNIT.0) as u32;
/// Bytes of a page of allocators.
pub const PAGE: usize = 4096;
/// Allocators on a page.
pub const PER_PAGE: u32 = 4;
/// Places for pages in a unit.
pub const PLACES_PER_UNIT: u32 = UNIT.0 as u32 / PAGE as u32;
/// Places that there are for each page at least: its own, that of the commit before, and the one that is being written.
const PLACES_PER_PAGE: u32 = 3;
/// Bytes of an allocator on its page.
const RECORD: usize = PAGE / PER_PAGE as usize;
/// Allocators of a heap at most: over 700 million slots. A root has room for their pages, each of which takes up to 8
/// bytes of it.
pub const MOST_ALLOCATORS: u32 = 100_000;
/// Units of places at most, of which a root takes up to 5 bytes each: those that so many allocators need, and as many
/// more for commits that are kept.
pub const MOST_TABLE: usize = 2 * table_for(MOST_ALLOCATORS);
/// Where there is no allocator.
const NONE: u8 = 0xff;

/// Units of places that so many allocators need.
pub const fn table_for(allocators: u32) -> usize {
    (allocators.div_ceil(PER_PAGE) * PLACES_PER_PAGE).div_ceil(PLACES_PER_UNIT) as usize
}

/// Where a root begins in its heap.
pub fn root_at(which: usize) -> Bytes {
    ROOT_LEN * which as u64
}

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Root {
    /// The target that it is on.
    pub target: u128,
    /// The heap.
    pub heap: u64,
    /// The number of the commit.
    pub commit: u64,
    /// When it was.
    pub time: Timestamp,
    /// What the user named as the root: where everything that is wanted can be found from.
    pub root: Option<u64>,
    /// How the heap is set.
    pub settings: HeapSettings,
    /// Units in use.
    pub used_units: u32,
    /// Allocators there are.
    pub allocators: u32,
    /// Units in which they are described.
    pub table: Vec<u32>,
    /// The pages that describe them.
    pub pages: Vec<PageRecord>,
    /// Places for pages that were ever used, from the first on.
    pub places: u32,
    /// The oldest commit that can be read.
    pub oldest: u64,
    /// Commits that are kept as records, ever.
    pub archived: u64,
    /// Slots that these take now.
    pub archive_slots: u64,
    /// Of each *n*, the last of the kept commits whose count is a multiple of 2 to the power of *n*: commit, and the
    /// record that is its root.
    pub ladder: Vec<(u64, u64)>,
}

/// A page of allocators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRecord {
    /// The place that has it.
    pub place: u32,
    /// CRC-32C of it.
    pub crc: u32,
}

impl Root {
    /// The bytes of a root, in whole pages.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.allocators <= MOST_ALLOCATORS, "{} allocators", self.allocators);
        let body = self.body();
        let length = (PREFIX + body.len()).next_multiple_of(PAGE);
        assert!(length as u64 <= ROOT_LEN.0, "a root of {length} bytes");
        let mut out = vec![0; length];
        superblock::put(&mut out, MAGIC, VERSION, &body);
        out
    }

    /// Reads a root. `Ok(None)` where none was ever written; damaged where it is not whole, or that of another heap.
    pub fn decode(stamp: Stamp, bytes: &[u8]) -> Result<Option<Root>> {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        if bytes[..8] != MAGIC {
            return Ok(None);
        }
        let damaged = |why: &str| Error::damaged(format!("a root of heap {} {why}", stamp.heap));
        let length = word(12) as usize;
        let body =
            bytes.get(PREFIX..PREFIX.saturating_add(length)).ok_or_else(|| damaged("is longer than its place"))?;
        if superblock::checksum(bytes, body) != word(16) {
            return Err(damaged("does not match its checksum"));
        }
        if word(8) != VERSION {
            return Err(Error::version(format!(
                "heap {} was written by format version {}, and this Forebay knows {VERSION}; use a newer one (nothing \
                 was changed)",
                stamp.heap,
                word(8)
            )));
        }
        Root::decode_body(stamp, body).map(Some)
    }

    /// Bytes behind its first page that a root has, as that page says: none where it is no root. What lies behind these was
    /// never written.
    pub fn rest(first: &[u8]) -> Bytes {
        if first[..8] != MAGIC {
            return Bytes::ZERO;
        }
        let length = u32::from_le_bytes(first[12..16].try_into().expect("four bytes"));
        // One that would be longer than its place is damaged anyway.
        let all = (PREFIX as u64 + u64::from(length)).next_multiple_of(PAGE as u64).min(ROOT_LEN.0);
        Bytes(all.saturating_sub(first.len() as u64))
    }

    /// The body of a root, as kept commits are.
    pub fn body(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("numbers can be encoded")
    }

    /// See [`Root::body`].
    pub fn decode_body(stamp: Stamp, body: &[u8]) -> Result<Root> {
        let damaged = |why: &str| Error::damaged(format!("a root of heap {} {why}", stamp.heap));
        let root: Root = postcard::from_bytes(body).map_err(|_| damaged("cannot be decoded"))?;
        if (root.target, root.heap) != (stamp.target, stamp.heap) {
            return Err(damaged("is that of another heap"));
        }
        let places = root.table.len() as u32 * PLACES_PER_UNIT;
        if root.allocators > MOST_ALLOCATORS
            || root.pages.len() != root.allocators.div_ceil(PER_PAGE) as usize
            || root.table.len() > MOST_TABLE
            || root.places > places
            || root.pages.iter().any(|page| page.place >= places)
            || root.oldest > root.commit
            || root.table.iter().any(|unit| !(FIRST_UNIT..root.used_units).contains(unit))
        {
            return Err(damaged("contradicts itself"));
        }
        Ok(root)
    }

    /// Where in the heap a place for a page is.
    pub fn place_at(table: &[u32], place: u32) -> Bytes {
        let unit = table[(place / PLACES_PER_UNIT) as usize];
        UNIT * u64::from(unit) + Bytes(PAGE as u64) * u64::from(place % PLACES_PER_UNIT)
    }

    /// What can be said of the commit.
    pub fn info(&self) -> CommitInfo {
        CommitInfo { commit: self.commit, time: self.time, root: self.root.map(RecordId::from_number) }
    }

    /// Of the kept commits that this root names, the one from which it is not far to an older one.
    pub fn towards(&self, commit: u64) -> Option<(u64, RecordId)> {
        let candidates = self.ladder.iter().filter(|(kept, _)| *kept >= commit && *kept < self.commit);
        candidates.min().map(|(kept, id)| (*kept, RecordId::from_number(*id)))
    }

    /// The kept commits that the root of the next commit names, if this one is kept as the record `id`.
    pub fn ladder_with(&self, id: RecordId) -> Vec<(u64, u64)> {
        let mut ladder = self.ladder.clone();
        let rungs = (self.archived + 1).trailing_zeros() as usize + 1;
        ladder.resize(ladder.len().max(rungs), (0, 0));
        ladder[..rungs].fill((self.commit, id.number()));
        ladder
    }
}

/// A page: up to four allocators, the first of which has this number.
pub fn encode_page<'a>(stamp: Stamp, first: u32, allocators: impl IntoIterator<Item = &'a Allocator>) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    page.chunks_mut(RECORD).for_each(|record| record[0] = NONE);
    for ((number, allocator), record) in (first..).zip(allocators).zip(page.chunks_mut(RECORD)) {
        record[0] = allocator.class().0;
        record[4..8].copy_from_slice(&number.to_le_bytes());
        record[2..4].copy_from_slice(&allocator.passed().to_le_bytes());
        record[8..16].copy_from_slice(&stamp.heap.to_le_bytes());
        let starts = allocator.starts().iter().flat_map(|start| start.to_le_bytes());
        let live = allocator.live().iter().flat_map(|word| word.to_le_bytes());
        record[16..].iter_mut().zip(starts.chain(live)).for_each(|(to, byte)| *to = byte);
    }
    page
}

/// A page as it was written, where something else lies in its place by now: made of its allocators as they were committed.
/// `None` if that is not what the root says.
pub fn page_anew(stamp: Stamp, root: &Root, page: u32, committed: &[Allocator], lies: &[u8]) -> Option<Vec<u8>> {
    let mut anew = encode_page(stamp, page * PER_PAGE, committed);
    let is_it = |anew: &[u8]| crc32c(anew) == root.pages[page as usize].crc;
    if !is_it(&anew) {
        // Since when they count what was ever handed out is not the same after an opening.
        let passed = anew.chunks_mut(RECORD).zip(lies.chunks(RECORD)).take(committed.len());
        passed.for_each(|(record, lies)| record[2..4].copy_from_slice(&lies[2..4]));
    }
    is_it(&anew).then_some(anew)
}

/// The allocators of a page that the root says is this one.
pub fn decode_page(stamp: Stamp, root: &Root, page: u32, bytes: &[u8]) -> Result<Vec<Allocator>> {
    let damaged = |why: &str| Error::damaged(format!("page {page} of the allocators of heap {} {why}", stamp.heap));
    if crc32c(bytes) != root.pages[page as usize].crc {
        return Err(damaged("does not match its checksum"));
    }
    let first = page * PER_PAGE;
    let count = (root.allocators - first).min(PER_PAGE);
    (first..first + count)
        .zip(bytes.chunks(RECORD))
        .map(|(number, record)| {
            let word = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().expect("four bytes"));
            let mut starts = [0; BLOCKS];
            starts.iter_mut().enumerate().for_each(|(block, start)| *start = word(16 + block * 4));
            let mut live: Bits = [0; WORDS];
            for (word, bytes) in live.iter_mut().zip(record[16 + BLOCKS * 4..].chunks_exact(8)) {
                *word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
            }
            let class = Class(record[0]);
            let known =
                usize::from(class.0) < SLOTS.len() && word(4) == number && record[8..16] == stamp.heap.to_le_bytes();
            let fits = |start: u32| start >= FIRST_UNIT && start.saturating_add(class.units()) <= root.used_units;
            let passed = u16::from_le_bytes([record[2], record[3]]);
            let kept = if root.settings.mode == HeapMode::Worm { passed } else { 0 };
            if !known || u32::from(passed) > ALLOCATOR_SLOTS || starts.iter().any(|start| *start > 0 && !fits(*start)) {
                return Err(damaged("is that of something else"));
            }
            Ok(Allocator::opened(class, starts, live, kept))
        })
        .collect()
}

#[cfg(test)]
mod tests;

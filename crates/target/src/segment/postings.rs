//! The second level: for each key, which spans hold which values, as sorted pages of (hash, span).
//!
//! A query for one value reads one page of 4 KiB, whatever the number of values: a page says which spans may hold it.
//! A page's checksum covers the segment it belongs to, so that a page of an earlier lap is not taken for it.
//! Hashes are shortened so that neighbours differ by about 64, which makes a posting two to three bytes, and a false
//! span about once in 64 look-ups per segment.

use forebay_model::block::crc32c;
use forebay_model::{Error, Result};
use serde::{Deserialize, Serialize};

/// Bytes of a page.
pub const PAGE_LEN: usize = 4096;
/// Bytes before the entries of a page: first hash 8, entries 2, zero 2, checksum 4.
const PAGE_HEAD: usize = 16;
/// Bits of a hash that are kept in memory; the other 16 of a posting are the span.
const HASH_BITS: u32 = 48;

/// The ring and the sequence of the segment that a page belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// Ring id.
    pub ring: u64,
    /// Sequence of the segment within the ring.
    pub segment: u64,
}

fn checksum(page: &[u8], owner: Owner) -> u32 {
    let mut head = [0u8; 28];
    head[..12].copy_from_slice(&page[..12]);
    head[12..20].copy_from_slice(&owner.ring.to_le_bytes());
    head[20..].copy_from_slice(&owner.segment.to_le_bytes());
    crc32c(&page[PAGE_HEAD..]) ^ crc32c(&head)
}

/// A posting as it is gathered: the upper 48 bits of the hash, and the span.
pub(super) fn entry(hash: u64, span: u16) -> u64 {
    hash & !0xffff | u64::from(span)
}

/// Bytes that `postings` take at most.
pub(super) fn bound(postings: u64) -> u64 {
    // Five bytes each (two varints), and the heads of the pages, which are never less than three quarters full.
    let entries = postings * 5;
    if postings == 0 { 0 } else { entries + (entries / 3000 + 1) * (PAGE_HEAD as u64 + 16) + PAGE_LEN as u64 }
}

/// Where a key's postings are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyIndex {
    /// Where the first page begins in the segment.
    pub at: u32,
    /// The first hash of each page.
    pub firsts: Vec<u64>,
    /// Bits by which the 48-bit hashes are shortened.
    pub shift: u8,
    /// Spans from this one on are not indexed: any value may be there.
    pub dense_from: Option<u16>,
    /// The checksum of each page: a page of an earlier life of the same segment is not taken for it.
    pub checksums: Vec<u32>,
}

impl KeyIndex {
    fn shorten(&self, hash: u64) -> u64 {
        (hash >> (64 - HASH_BITS)) >> self.shift
    }

    /// The pages that may hold the hash, as a range of page numbers.
    pub fn pages(&self, hash: u64) -> std::ops::Range<usize> {
        let wanted = self.shorten(hash);
        // The page before the first that begins at `wanted` may end with it.
        let start = self.firsts.partition_point(|f| *f < wanted).saturating_sub(1);
        let end = self.firsts.partition_point(|f| *f <= wanted);
        start.min(end)..end
    }
}

/// Encodes sorted postings into pages, which will lie at `at` in the segment.
pub(super) fn encode(postings: &[u64], dense_from: Option<u16>, at: u32, owner: Owner, out: &mut Vec<u8>) -> KeyIndex {
    let bits = (postings.len().max(1) as u64).ilog2() + 1 + 6;
    let shift = HASH_BITS.saturating_sub(bits) as u8;
    let mut index = KeyIndex { at, firsts: Vec::new(), shift, dense_from, checksums: Vec::new() };
    let mut page = Vec::with_capacity(PAGE_LEN);
    let (mut last, mut count) = (0u64, 0u16);
    let mut previous = None;
    for posting in postings {
        let hash = index.shorten(*posting);
        let span = posting & 0xffff;
        if previous == Some((hash, span)) {
            continue;
        }
        previous = Some((hash, span));
        if count == 0 || page.len() + 20 > PAGE_LEN {
            close(&mut page, count, owner, out, &mut index);
            page.resize(PAGE_HEAD, 0);
            page[..8].copy_from_slice(&hash.to_le_bytes());
            index.firsts.push(hash);
            last = hash;
            count = 0;
        }
        varint(&mut page, hash - last);
        varint(&mut page, span);
        last = hash;
        count += 1;
    }
    close(&mut page, count, owner, out, &mut index);
    index
}

fn close(page: &mut Vec<u8>, count: u16, owner: Owner, out: &mut Vec<u8>, index: &mut KeyIndex) {
    if count == 0 {
        return;
    }
    page.resize(PAGE_LEN, 0);
    page[8..10].copy_from_slice(&count.to_le_bytes());
    let crc = checksum(page, owner);
    page[12..16].copy_from_slice(&crc.to_le_bytes());
    index.checksums.push(crc);
    out.extend_from_slice(page);
    page.clear();
}

/// Whether page `number` of `index` is whole and where it belongs.
pub fn is_whole(index: &KeyIndex, number: usize, page: &[u8], owner: Owner) -> bool {
    is_page(index, number, page) && page[12..16] == checksum(page, owner).to_le_bytes()
}

/// Whether the page is the one that the tables tell of; its content is checked by [`look_up`].
pub fn is_page(index: &KeyIndex, number: usize, page: &[u8]) -> bool {
    index.checksums.get(number).is_some_and(|crc| page[12..16] == crc.to_le_bytes())
}

/// Calls `found` for each span that the page says may hold the hash.
pub fn look_up(index: &KeyIndex, page: &[u8], owner: Owner, hash: u64, found: &mut dyn FnMut(u16)) -> Result<()> {
    let wanted = index.shorten(hash);
    let crc = u32::from_le_bytes(page[12..16].try_into().expect("four bytes"));
    if page.len() != PAGE_LEN || checksum(page, owner) != crc {
        return Err(Error::damaged("the checksum of an index page does not match"));
    }
    let mut hash = u64::from_le_bytes(page[..8].try_into().expect("eight bytes"));
    let count = u16::from_le_bytes(page[8..10].try_into().expect("two bytes"));
    let mut rest = &page[PAGE_HEAD..];
    for _ in 0..count {
        let (Some(delta), Some(span)) = (read_varint(&mut rest), read_varint(&mut rest)) else {
            return Err(Error::damaged("an index page ends within an entry"));
        };
        hash = hash.wrapping_add(delta);
        if hash > wanted {
            break;
        }
        if hash == wanted {
            found(span as u16);
        }
    }
    Ok(())
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for (i, &byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            *bytes = &bytes[i + 1..];
            return Some(value);
        }
    }
    None
}

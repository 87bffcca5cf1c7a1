//! The second level on the device: for each key, which spans hold which values, as sorted pages.
//!
//! A query for one value reads one page of 4 KiB, whatever the number of values: a page says which spans may hold it.
//! A page's checksum covers the segment it belongs to, so that a page of an earlier lap is not taken for it.
//! A posting is a number, the value's shortened hash above the span; pages hold the differences of the sorted numbers in
//! Rice code. How far hashes are shortened is the precision: a value that is not there finds a false span about once in
//! two to the precision look-ups.

use forebay_model::block::crc32c;
use forebay_model::{Error, Result};
use serde::{Deserialize, Serialize};

/// Bytes of a page.
pub const PAGE_LEN: usize = 4096;
/// Bytes before the postings of a page: first posting 8, how many 2, zero 2, checksum 4.
const PAGE_HEAD: usize = 16;
/// Bits for postings in a page.
const PAGE_BITS: u64 = (PAGE_LEN - PAGE_HEAD) as u64 * 8;
/// What the tables say of a page, at most: its first posting and its checksum.
const PAGE_RECORD: u64 = 16;
/// Bits of a hash that are kept in memory; the other 16 of a gathered posting are the span.
const HASH_BITS: u32 = 48;
/// The highest precision: bits of a hash beyond the logarithm of the number of values.
pub(super) const FINEST: u32 = 6;
/// The lowest.
pub(super) const COARSEST: u32 = 1;

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

/// A posting as it is gathered: the upper 48 bits of the hash, and the span or group of spans.
#[inline]
pub(super) fn entry(hash: u64, group: u16) -> u64 {
    hash & !0xffff | u64::from(group)
}

/// What was gathered of one key in a segment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Gathered {
    /// As [`entry`] makes them, sorted.
    pub postings: Vec<u64>,
    /// Logarithm of the spans that a posting stands for.
    pub group: u8,
    /// Spans from this one on are not indexed.
    pub dense_from: Option<u16>,
}

/// Bits for a number below `count`.
pub(super) fn bits_for(count: u64) -> u32 {
    u64::BITS - count.saturating_sub(1).leading_zeros()
}

/// Bytes, with what the tables say of them, that `postings` postings of a key over `spans` spans take at most.
///
/// Hashes have at most one bit more than the logarithm of the number of values, and the precision; Rice code takes at
/// most 2.4 bits more than the logarithm of the mean difference.
pub(super) fn bound(postings: u64, spans: u64, group: u8, precision: u32) -> u64 {
    if postings == 0 {
        return 0;
    }
    let groups = ((spans.max(1) - 1) >> group) + 1;
    let tenths = 10 * u64::from(precision + bits_for(groups)) + 34;
    // Of each page but the last, what it has and the first posting of the next fill more than a page.
    let pages = postings * tenths / (10 * PAGE_BITS) + 1;
    pages * (PAGE_LEN as u64 + PAGE_RECORD)
}

/// Where a key's postings are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyIndex {
    /// Where the first page begins in the segment.
    pub at: u32,
    /// The first posting of each page.
    pub firsts: Vec<u64>,
    /// Bits of the shortened hashes.
    pub hash_bits: u8,
    /// Bits below them, for the group of spans.
    pub group_bits: u8,
    /// Logarithm of the spans of a group.
    pub group: u8,
    /// Parameter of the Rice code.
    pub rice: u8,
    /// Spans from this one on are not indexed: any value may be there.
    pub dense_from: Option<u16>,
    /// The checksum of each page: a page of an earlier life of the same segment is not taken for it.
    pub checksums: Vec<u32>,
}

impl KeyIndex {
    /// Whether its numbers can be: what was read from a device is not trusted before.
    pub(super) fn check(&self) -> Result<()> {
        let (hash, group) = (u32::from(self.hash_bits), u32::from(self.group_bits));
        if hash == 0 || hash > HASH_BITS || group > 16 || self.group > 16 || self.rice > 63 {
            return Err(Error::damaged("a segment's tables tell of an index that cannot be"));
        }
        Ok(())
    }

    /// The least posting of a hash, and the greatest.
    fn range(&self, hash: u64) -> (u64, u64) {
        let short = hash >> (64 - u32::from(self.hash_bits));
        let low = short << self.group_bits;
        (low, low | ((1 << self.group_bits) - 1))
    }

    /// The pages that may hold the hash, as a range of page numbers.
    pub fn pages(&self, hash: u64) -> std::ops::Range<usize> {
        let (low, high) = self.range(hash);
        // The page before the first that begins behind `low` may have it.
        let start = self.firsts.partition_point(|f| *f <= low).saturating_sub(1);
        let end = self.firsts.partition_point(|f| *f <= high);
        start.min(end)..end
    }
}

/// Encodes what was gathered into pages, which will lie at `at` in the segment.
pub(super) fn encode(
    gathered: Gathered,
    spans: u64,
    precision: u32,
    at: u32,
    owner: Owner,
    out: &mut Vec<u8>,
) -> KeyIndex {
    let Gathered { mut postings, group, dense_from } = gathered;
    let values = (0..postings.len()).filter(|i| *i == 0 || postings[i - 1] >> 16 != postings[*i] >> 16).count() as u64;
    let groups = ((spans.max(1) - 1) >> group) + 1;
    let hash_bits = (bits_for(values + 1) + precision).min(HASH_BITS);
    let group_bits = bits_for(groups);
    shorten(&mut postings, hash_bits, group_bits);
    let mean = (1u128 << (hash_bits + group_bits)) / postings.len().max(1) as u128;
    // The best parameter is the logarithm of the mean times that of 2.
    let rice = (mean * 69 / 100).max(1).ilog2();
    let mut index = KeyIndex {
        at,
        firsts: Vec::new(),
        hash_bits: hash_bits as u8,
        group_bits: group_bits as u8,
        group,
        rice: rice as u8,
        dense_from,
        checksums: Vec::new(),
    };
    let mut page = Page::default();
    let mut last = 0;
    for posting in postings {
        let difference = posting.wrapping_sub(last).wrapping_sub(1);
        last = posting;
        if page.count > 0 && page.push(difference, rice) {
            continue;
        }
        page.close(owner, out, &mut index);
        page.begin(posting);
        index.firsts.push(posting);
    }
    page.close(owner, out, &mut index);
    index
}

/// Makes gathered postings what pages hold: numbers of the shortened hash and the group, sorted, each once.
fn shorten(postings: &mut Vec<u64>, hash_bits: u32, group_bits: u32) {
    for posting in postings.iter_mut() {
        *posting = *posting >> (64 - hash_bits) << group_bits | (*posting & 0xffff);
    }
    // Where two hashes have become one, their groups are not in order.
    let mut from = 0;
    for at in 1..=postings.len() {
        if at == postings.len() || postings[at] >> group_bits != postings[from] >> group_bits {
            postings[from..at].sort_unstable();
            from = at;
        }
    }
    postings.dedup();
}

/// A page in the making.
#[derive(Default)]
struct Page {
    bytes: Vec<u8>,
    count: u16,
    /// Bits that are not in `bytes` yet, and how many.
    pending: u64,
    bits: u32,
}

impl Page {
    fn begin(&mut self, first: u64) {
        self.bytes.clear();
        self.bytes.reserve(PAGE_LEN);
        self.bytes.extend_from_slice(&first.to_le_bytes());
        self.bytes.resize(PAGE_HEAD, 0);
        (self.count, self.pending, self.bits) = (1, 0, 0);
    }

    /// Adds a difference; false if there is no room.
    #[inline]
    fn push(&mut self, difference: u64, rice: u32) -> bool {
        let used = (self.bytes.len() - PAGE_HEAD) as u64 * 8 + u64::from(self.bits);
        let quotient = difference >> rice;
        if quotient.saturating_add(used + 1 + u64::from(rice)) > PAGE_BITS || self.count == u16::MAX {
            return false;
        }
        for _ in 0..quotient / 32 {
            self.put(u64::from(u32::MAX), 32);
        }
        // The rest of the ones, and the zero that ends them.
        let ones = (quotient % 32) as u32;
        self.put((1 << ones) - 1, ones + 1);
        let low = difference & ((1 << rice) - 1);
        if rice > 32 {
            self.put(low & u64::from(u32::MAX), 32);
            self.put(low >> 32, rice - 32);
        } else {
            self.put(low, rice);
        }
        self.count += 1;
        true
    }

    /// Appends the lowest `bits` bits, at most 32, the lowest first.
    #[inline]
    fn put(&mut self, value: u64, bits: u32) {
        self.pending |= value << self.bits;
        self.bits += bits;
        if self.bits >= 32 {
            self.bytes.extend_from_slice(&(self.pending as u32).to_le_bytes());
            self.pending >>= 32;
            self.bits -= 32;
        }
    }

    fn close(&mut self, owner: Owner, out: &mut Vec<u8>, index: &mut KeyIndex) {
        if self.count == 0 {
            return;
        }
        let rest = self.pending.to_le_bytes();
        self.bytes.extend_from_slice(&rest[..self.bits.div_ceil(8) as usize]);
        self.bytes.resize(PAGE_LEN, 0);
        self.bytes[8..10].copy_from_slice(&self.count.to_le_bytes());
        let crc = checksum(&self.bytes, owner);
        self.bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        index.checksums.push(crc);
        out.extend_from_slice(&self.bytes);
        self.count = 0;
    }
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
    let crc = page.get(12..16).and_then(|crc| crc.try_into().ok()).map_or(0, u32::from_le_bytes);
    if page.len() != PAGE_LEN || checksum(page, owner) != crc {
        return Err(Error::damaged("the checksum of an index page does not match"));
    }
    let (low, high) = index.range(hash);
    let mut posting = u64::from_le_bytes(page[..8].try_into().expect("eight bytes"));
    let count = u16::from_le_bytes(page[8..10].try_into().expect("two bytes"));
    let mut bits = Bits { bytes: &page[PAGE_HEAD..], at: 0 };
    for number in 0..count {
        if number > 0 {
            let difference = bits
                .rice(u32::from(index.rice))
                .ok_or_else(|| Error::damaged("an index page ends within a posting"))?;
            posting = posting.wrapping_add(difference).wrapping_add(1);
        }
        if posting > high {
            break;
        }
        if posting >= low {
            let spans = (posting - low) << index.group;
            (spans..spans + (1 << index.group)).for_each(|span| found(span.min(u64::from(u16::MAX)) as u16));
        }
    }
    Ok(())
}

/// Reads bits, the lowest of each byte first.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    /// The next 64 bits, or those that are left and zeros behind, and how many there are at least.
    #[inline]
    fn window(&self) -> (u64, usize) {
        let byte = self.at / 8;
        let mut eight = [0u8; 8];
        let part = self.bytes.get(byte..).unwrap_or_default();
        let length = part.len().min(8);
        eight[..length].copy_from_slice(&part[..length]);
        (u64::from_le_bytes(eight) >> (self.at % 8), (length * 8).saturating_sub(self.at % 8))
    }

    #[inline]
    fn rice(&mut self, rice: u32) -> Option<u64> {
        let mut quotient = 0u64;
        loop {
            let (bits, available) = self.window();
            let ones = (bits.trailing_ones() as usize).min(available);
            if available == 0 {
                return None;
            }
            quotient += ones as u64;
            self.at += ones;
            if ones < available {
                break;
            }
        }
        self.at += 1;
        let (mut low, mut done) = (0u64, 0);
        while done < rice {
            let (bits, available) = self.window();
            let count = (rice - done).min(available as u32).min(32);
            if count == 0 {
                return None;
            }
            low |= (bits & ((1 << count) - 1)) << done;
            done += count;
            self.at += count as usize;
        }
        quotient.checked_shl(rice).map(|high| high | low)
    }
}

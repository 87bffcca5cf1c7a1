//! Reads a block: its entries and gaps, in order, without copying.

use super::crc32c;
use super::header::{HEADER_LEN, Header, Stamp};
use super::packer::{CUT_LEN, GAP_LEN};
use crate::error::{Error, Result};
use crate::gap::{Cause, Gap};
use crate::time::Timestamp;
use std::ops::Range;

/// A block in memory whose header is checked.
#[derive(Clone, Copy)]
pub struct View<'a> {
    header: Header,
    bytes: &'a [u8],
}

/// One entry of the directory: an element, or the piece of one that lies in this block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Sequence of the element within the ring.
    pub sequence: u64,
    /// Its time.
    pub time: Timestamp,
    /// Where its bytes are within the block.
    pub payload: Range<usize>,
    /// Where its caller-supplied keys are within the block.
    pub caller_keys: Range<usize>,
    /// Whether the element begins here.
    pub first: bool,
    /// Whether the element ends here.
    pub last: bool,
    /// Whether it ends here because its source cut it off: then it is not whole, and nothing of it lies here.
    pub torn: bool,
    /// Bytes that whoever captured it had cut off its end.
    pub cut: u32,
    /// Its place in the directory.
    pub index: u32,
}

/// Reads a block at the start of `bytes` that must lie at `place` (segment, slot, ring, target); the other stamps are
/// free. Checks the header only.
pub fn parse_stamped<'a>(
    bytes: &'a [u8],
    target: u128,
    ring: u64,
    segment: u64,
    slot: u32,
    offset: u32,
) -> Result<View<'a>> {
    let view = View::parse(bytes)?;
    let stamp = view.header.stamp();
    if (stamp.target, stamp.ring, stamp.segment, stamp.slot, stamp.offset) != (target, ring, segment, slot, offset) {
        return Err(Error::damaged(format!(
            "a block of ring {} segment {} (slot {}, offset {}) lies where ring {ring} segment {segment} (slot {slot}, offset {offset}) was written",
            stamp.ring, stamp.segment, stamp.slot, stamp.offset
        )));
    }
    Ok(view)
}

impl<'a> View<'a> {
    /// Reads the header at the start of `bytes`, which must hold the whole block.
    pub fn parse(bytes: &'a [u8]) -> Result<View<'a>> {
        View::whole(Header::read(bytes)?, bytes)
    }

    fn whole(header: Header, bytes: &'a [u8]) -> Result<View<'a>> {
        let total = header.total_len.get() as usize;
        match bytes.get(..total) {
            Some(bytes) => Ok(View { header, bytes }),
            None => Err(Error::damaged(format!("a block of {total} bytes is cut off after {}", bytes.len()))),
        }
    }

    /// Trusts a block that was packed in this process and is not stamped yet; lengths are still checked.
    pub fn of_sealed(bytes: &'a [u8]) -> Result<View<'a>> {
        use zerocopy::FromBytes;
        let (header, _) = Header::read_from_prefix(bytes).map_err(|_| Error::damaged("less than a block header"))?;
        if header.magic != super::header::BLOCK_MAGIC {
            return Err(Error::damaged("what was handed in is not a block"));
        }
        header.check_lengths()?;
        View::whole(header, bytes)
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The place stamped on it.
    pub fn stamp(&self) -> Stamp {
        self.header.stamp()
    }

    /// The whole block.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Checks payload and body against their checksums.
    pub fn verify(&self) -> Result<()> {
        let payload = &self.bytes[HEADER_LEN..self.header.directory_at()];
        let body = &self.bytes[self.header.directory_at()..self.header.end()];
        if crc32c(payload) != self.header.payload_crc.get() {
            return Err(Error::damaged("the checksum of a block's payload does not match"));
        }
        if crc32c(body) != self.header.body_crc.get() {
            return Err(Error::damaged("the checksum of a block's directory does not match"));
        }
        Ok(())
    }

    /// The entries in order; ends early with an error where the directory does not fit the block.
    pub fn entries(&self) -> Entries<'a> {
        let header = &self.header;
        let entries = header.entries.get();
        Entries {
            lengths: Runs::new(&self.bytes[header.directory_at()..header.times_at()]),
            times: Runs::new(&self.bytes[header.times_at()..header.keys_at()]),
            payload_at: HEADER_LEN,
            payload_end: header.directory_at(),
            keys_at: header.keys_at(),
            caller: if entries == 0 { 0 } else { header.keys_len.get() as usize / entries as usize },
            time: header.base_time.get(),
            sequence: header.first_sequence.get(),
            entries,
            index: 0,
            starts_within: header.starts_within(),
            continues: header.continues(),
            torn: header.is_torn(),
            cuts: &self.bytes[header.cuts_at()..header.end()],
        }
    }

    /// The cut records in order: entry, and bytes that whoever captured it had cut off its end.
    pub fn cuts(&self) -> impl Iterator<Item = (u32, u32)> + 'a {
        self.bytes[self.header.cuts_at()..self.header.end()].chunks_exact(CUT_LEN).map(cut)
    }

    /// The gaps in order, each with the entry before which it lies.
    pub fn gaps(&self) -> impl Iterator<Item = (u32, Gap)> + 'a {
        let bytes = &self.bytes[self.header.gaps_at()..self.header.cuts_at()];
        bytes.chunks_exact(GAP_LEN).filter_map(|record| {
            let u64_at = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().expect("eight bytes"));
            let before = u32::from_le_bytes(record[..4].try_into().expect("four bytes"));
            let cause = Cause::from_code(record[4])?;
            let count = (record[5] != 0).then(|| u64_at(8));
            Some((
                before,
                Gap { cause, count, first: Timestamp(u64_at(16) as i64), last: Timestamp(u64_at(24) as i64) },
            ))
        })
    }
}

/// Iterates over the entries of a block.
pub struct Entries<'a> {
    lengths: Runs<'a>,
    times: Runs<'a>,
    payload_at: usize,
    payload_end: usize,
    keys_at: usize,
    caller: usize,
    time: i64,
    sequence: u64,
    entries: u32,
    index: u32,
    starts_within: bool,
    continues: bool,
    torn: bool,
    /// The cut records that are left.
    cuts: &'a [u8],
}

fn cut(record: &[u8]) -> (u32, u32) {
    let word = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().expect("four bytes"));
    (word(0), word(4))
}

impl Entries<'_> {
    #[cold]
    fn cut_of(&mut self, entry: u32) -> u32 {
        match self.cuts.split_at_checked(CUT_LEN) {
            Some((record, rest)) if cut(record).0 == entry => {
                self.cuts = rest;
                cut(record).1
            }
            _ => 0,
        }
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<Entry>;

    #[inline]
    fn next(&mut self) -> Option<Result<Entry>> {
        if self.index == self.entries {
            return None;
        }
        let decoded = self.lengths.next().zip(self.times.next());
        let Some((length, delta)) =
            decoded.filter(|(length, _)| *length <= (self.payload_end - self.payload_at) as u64)
        else {
            let at = self.index;
            self.index = self.entries;
            return Some(Err(Error::damaged(format!("entry {at} of a block's directory reaches beyond the block"))));
        };
        self.time = self.time.wrapping_add((delta >> 1) as i64 ^ -((delta & 1) as i64));
        let start = self.payload_at;
        self.payload_at += length as usize;
        let keys = self.keys_at;
        self.keys_at += self.caller;
        let first = !(self.index == 0 && self.starts_within);
        let torn = self.index == 0 && self.torn;
        let cut = if self.cuts.is_empty() { 0 } else { self.cut_of(self.index) };
        self.index += 1;
        let last = !(self.index == self.entries && self.continues);
        let sequence = self.sequence;
        self.sequence += 1;
        Some(Ok(Entry {
            sequence,
            time: Timestamp(self.time),
            payload: start..self.payload_at,
            caller_keys: keys..self.keys_at,
            first,
            last,
            torn,
            cut,
            index: self.index - 1,
        }))
    }
}

/// Reads a directory back from its tokens.
struct Runs<'a> {
    tokens: &'a [u8],
    last: u64,
    repeats: u64,
}

impl<'a> Runs<'a> {
    fn new(tokens: &'a [u8]) -> Runs<'a> {
        Runs { tokens, last: 0, repeats: 0 }
    }

    #[inline]
    fn next(&mut self) -> Option<u64> {
        if self.repeats == 0 {
            let (value, repeat) = self.token()?;
            if !repeat {
                self.last = value;
                return Some(value);
            }
            self.repeats = value;
        }
        self.repeats = self.repeats.checked_sub(1)?;
        Some(self.last)
    }

    #[inline]
    fn token(&mut self) -> Option<(u64, bool)> {
        let (&first, mut rest) = self.tokens.split_first()?;
        let mut value = u64::from(first & 0x7f) >> 1;
        let mut shift = 6;
        let mut byte = first;
        while byte & 0x80 != 0 {
            let (&next, tail) = rest.split_first()?;
            if shift > 62 {
                return None;
            }
            value |= u64::from(next & 0x7f) << shift;
            shift += 7;
            byte = next;
            rest = tail;
        }
        self.tokens = rest;
        Some((value, first & 1 != 0))
    }
}

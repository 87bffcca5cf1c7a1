//! Packs elements into a block: one copy of the payload, straight into the buffer that goes to the device.

use super::crc32c;
use super::header::{BLOCK_ALIGN, Flags, HEADER_LEN, Header, MOST_ENTRIES};
use crate::gap::Gap;
use crate::time::Timestamp;
use std::ops::DerefMut;
use zerocopy::IntoBytes;

/// Bytes of one gap record.
pub(super) const GAP_LEN: usize = 32;
/// Bytes of one cut record.
pub(super) const CUT_LEN: usize = 8;
/// The most that one more entry adds: to each directory a value and the repeats of the one before, and a cut record.
const ENTRY_MAX: usize = 40 + CUT_LEN;

/// The most payload that a fresh block of `capacity` takes of one element with `caller` bytes of keys.
pub fn largest_piece(capacity: usize, caller: usize) -> usize {
    (capacity / BLOCK_ALIGN * BLOCK_ALIGN).saturating_sub(HEADER_LEN + ENTRY_MAX + caller)
}

/// A packed block, not yet stamped with a place.
pub struct Sealed<B> {
    /// The block; its first `length` bytes go to the device.
    pub buffer: B,
    /// Bytes from header to the end of the padding.
    pub length: usize,
    /// Entries in its directory.
    pub entries: u32,
    /// Gap records in it.
    pub gaps: u32,
}

/// Packs one block after another. The scratch space is kept from block to block.
pub struct Packer<B> {
    buffer: Option<B>,
    limit: usize,
    payload_end: usize,
    lengths: Runs,
    times: Runs,
    keys: Vec<u8>,
    gaps: Vec<u8>,
    cuts: Vec<u8>,
    entries: u32,
    base_time: i64,
    last_time: i64,
    min_time: i64,
    max_time: i64,
    /// An element is being written in pieces; its bytes so far in this block.
    open: Option<OpenElement>,
    starts_within: bool,
    /// The element that the block begins within was cut off by its source.
    torn: bool,
    writer: u64,
    number: u64,
}

struct OpenElement {
    bytes: usize,
    time: i64,
    caller: usize,
    cut: u32,
}

impl<B: DerefMut<Target = [u8]>> Packer<B> {
    /// A packer for the writer session `writer`, with no buffer yet.
    pub fn new(writer: u64) -> Self {
        Packer {
            buffer: None,
            limit: 0,
            payload_end: HEADER_LEN,
            lengths: Runs::default(),
            times: Runs::default(),
            keys: Vec::new(),
            gaps: Vec::new(),
            cuts: Vec::new(),
            entries: 0,
            base_time: 0,
            last_time: 0,
            min_time: i64::MAX,
            max_time: i64::MIN,
            open: None,
            starts_within: false,
            torn: false,
            writer,
            number: 1,
        }
    }

    /// Whether there is a buffer to pack into.
    pub fn has_buffer(&self) -> bool {
        self.buffer.is_some()
    }

    /// Gives the buffer of the next block; its whole length is used.
    pub fn give(&mut self, buffer: B) {
        assert!(self.buffer.is_none(), "a block is already being packed");
        self.limit = buffer.len() / BLOCK_ALIGN * BLOCK_ALIGN;
        assert!(self.limit >= BLOCK_ALIGN, "a block needs {BLOCK_ALIGN} bytes, not {}", buffer.len());
        self.buffer = Some(buffer);
    }

    /// Whether nothing is packed.
    pub fn is_empty(&self) -> bool {
        self.entries == 0 && self.gaps.is_empty() && self.open.is_none()
    }

    /// The most payload that a fresh block takes as one element with `caller` bytes of keys.
    pub fn largest(&self, capacity: usize, caller: usize) -> usize {
        largest_piece(capacity, caller)
    }

    #[inline]
    fn used(&self) -> usize {
        let directories = self.lengths.len() + self.times.len();
        self.payload_end + directories + self.keys.len() + self.gaps.len() + self.cuts.len()
    }

    /// Bytes of payload that still fit as one more entry with `caller` bytes of keys.
    pub fn room(&self, caller: usize) -> usize {
        if self.buffer.is_none() {
            return 0;
        }
        let pending = if self.open.is_some() { ENTRY_MAX } else { 0 };
        self.limit.saturating_sub(self.used() + pending + ENTRY_MAX + caller)
    }

    /// Adds an element if it fits. The parts are joined.
    #[inline]
    pub fn push(&mut self, time: Timestamp, parts: &[&[u8]], caller_keys: &[u8]) -> bool {
        debug_assert!(self.open.is_none(), "an element in pieces is not ended");
        let length: usize = parts.iter().map(|p| p.len()).sum();
        let used = self.used();
        let Some(buffer) = self.buffer.as_mut() else { return false };
        if used + ENTRY_MAX + caller_keys.len() + length > self.limit || self.entries >= MOST_ENTRIES {
            return false;
        }
        let mut at = self.payload_end;
        for part in parts {
            buffer[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        self.payload_end = at;
        self.entry(length, time.0);
        self.keys.extend_from_slice(caller_keys);
        true
    }

    /// Adds an element of which whoever captured it had cut off the last `cut` bytes, if it fits.
    pub fn push_cut(&mut self, time: Timestamp, parts: &[&[u8]], caller_keys: &[u8], cut: u32) -> bool {
        let entry = self.entries;
        let fits = self.push(time, parts, caller_keys);
        if fits {
            self.cut(entry, cut);
        }
        fits
    }

    fn cut(&mut self, entry: u32, bytes: u32) {
        if bytes > 0 {
            self.cuts.extend_from_slice(&entry.to_le_bytes());
            self.cuts.extend_from_slice(&bytes.to_le_bytes());
        }
    }

    /// Begins an element that is written in pieces; if it does not end in this block, it goes on in the next. Whoever
    /// captured it had cut off its last `cut` bytes.
    pub fn begin(&mut self, time: Timestamp, caller_keys: &[u8], cut: u32) -> bool {
        assert!(self.open.is_none(), "an element in pieces is not ended");
        if self.room(caller_keys.len()) == 0 || self.entries >= MOST_ENTRIES {
            return false;
        }
        self.open = Some(OpenElement { bytes: 0, time: time.0, caller: caller_keys.len(), cut });
        self.keys.extend_from_slice(caller_keys);
        true
    }

    /// Adds as much of `bytes` to the element in pieces as fits; says how much that was.
    pub fn part(&mut self, bytes: &[u8]) -> usize {
        let room = self.limit.saturating_sub(self.used() + ENTRY_MAX);
        let (Some(open), Some(buffer)) = (self.open.as_mut(), self.buffer.as_mut()) else { return 0 };
        let n = room.min(bytes.len());
        buffer[self.payload_end..self.payload_end + n].copy_from_slice(&bytes[..n]);
        self.payload_end += n;
        open.bytes += n;
        n
    }

    /// Ends the element in pieces.
    pub fn end(&mut self) {
        let open = self.open.take().expect("an element in pieces was begun");
        self.cut(self.entries, open.cut);
        self.entry(open.bytes, open.time);
    }

    /// Gives up the element in pieces. What there is of it in this block is dropped; if it began in an earlier one, it
    /// ends here, torn.
    pub fn abandon(&mut self) {
        let open = self.open.take().expect("an element in pieces was begun");
        self.payload_end -= open.bytes;
        if self.starts_within && self.entries == 0 {
            self.torn = true;
            self.entry(0, open.time);
        } else {
            self.keys.truncate(self.keys.len() - open.caller);
        }
    }

    /// Records a gap before the next entry, if there is room. False if not: seal the block and try again.
    pub fn gap(&mut self, gap: &Gap) -> bool {
        debug_assert!(self.open.is_none(), "a gap inside an element");
        let pending = self.lengths.pending() + self.times.pending();
        if self.buffer.is_none() || self.used() + pending + GAP_LEN > self.limit {
            return false;
        }
        self.gaps.extend_from_slice(&self.entries.to_le_bytes());
        self.gaps.push(gap.cause as u8);
        self.gaps.push(u8::from(gap.count.is_some()));
        self.gaps.extend_from_slice(&[0, 0]);
        self.gaps.extend_from_slice(&gap.count.unwrap_or(0).to_le_bytes());
        self.gaps.extend_from_slice(&gap.first.0.to_le_bytes());
        self.gaps.extend_from_slice(&gap.last.0.to_le_bytes());
        if self.entries == 0 && self.gaps.len() == GAP_LEN {
            self.base_time = gap.first.0;
            self.last_time = gap.first.0;
        }
        self.min_time = self.min_time.min(gap.first.0);
        self.max_time = self.max_time.max(gap.last.0);
        true
    }

    #[inline]
    fn entry(&mut self, length: usize, time: i64) {
        if self.entries == 0 && self.gaps.is_empty() {
            self.base_time = time;
            self.last_time = time;
        }
        self.lengths.push(length as u64);
        self.times.push(zigzag(time.wrapping_sub(self.last_time)));
        self.last_time = time;
        self.min_time = self.min_time.min(time);
        self.max_time = self.max_time.max(time);
        self.entries += 1;
    }

    /// Ends the block: directory, keys, gaps, padding and checksums. `None` if nothing is packed.
    /// An element in pieces goes on in the next block.
    pub fn seal(&mut self) -> Option<Sealed<B>> {
        if self.is_empty() {
            return None;
        }
        let continues = self.open.take();
        if let Some(open) = &continues {
            self.cut(self.entries, open.cut);
            self.entry(open.bytes, open.time);
        }
        let mut buffer = self.buffer.take().expect("something is packed, so there is a buffer");
        let payload_len = self.payload_end - HEADER_LEN;
        self.lengths.finish();
        self.times.finish();
        let mut at = self.payload_end;
        for section in [&self.lengths.tokens, &self.times.tokens, &self.keys, &self.gaps, &self.cuts] {
            buffer[at..at + section.len()].copy_from_slice(section);
            at += section.len();
        }
        let length = at.div_ceil(BLOCK_ALIGN) * BLOCK_ALIGN;
        assert!(length <= self.limit, "{length} bytes packed where {} fit", self.limit);
        buffer[at..length].fill(0);

        let mut header = Header::blank();
        let flags = if self.starts_within { Flags::STARTS_WITHIN } else { 0 }
            | if continues.is_some() { Flags::CONTINUES } else { 0 }
            | if self.torn { Flags::TORN } else { 0 }
            | if self.cuts.is_empty() { 0 } else { Flags::CUTS };
        header.flags = flags.into();
        header.base_time = self.base_time.into();
        header.min_time = self.min_time.into();
        header.max_time = self.max_time.into();
        header.writer = self.writer.into();
        header.number = self.number.into();
        header.total_len = (length as u32).into();
        header.payload_len = (payload_len as u32).into();
        header.lengths_len = (self.lengths.tokens.len() as u32).into();
        header.times_len = (self.times.tokens.len() as u32).into();
        header.keys_len = (self.keys.len() as u32).into();
        header.gaps_len = (self.gaps.len() as u32).into();
        header.cuts_len = (self.cuts.len() as u32).into();
        header.entries = self.entries.into();
        header.payload_crc = crc32c(&buffer[HEADER_LEN..self.payload_end]).into();
        header.body_crc = crc32c(&buffer[self.payload_end..at]).into();
        buffer[..HEADER_LEN].copy_from_slice(header.as_bytes());

        let sealed = Sealed { buffer, length, entries: self.entries, gaps: (self.gaps.len() / GAP_LEN) as u32 };
        self.number += 1;
        self.payload_end = HEADER_LEN;
        self.lengths.clear();
        self.times.clear();
        self.gaps.clear();
        self.cuts.clear();
        self.torn = false;
        self.entries = 0;
        self.min_time = i64::MAX;
        self.max_time = i64::MIN;
        self.starts_within = continues.is_some();
        // The keys of an element that goes on are told again, so that each block can be read alone.
        match continues {
            Some(open) => {
                self.keys.drain(..self.keys.len() - open.caller);
                self.open = Some(OpenElement { bytes: 0, ..open });
            }
            None => self.keys.clear(),
        }
        Some(sealed)
    }
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// A directory as tokens: a value, or how often the value before is repeated. Elements of one size that come at a
/// steady pace cost nothing.
#[derive(Default)]
struct Runs {
    tokens: Vec<u8>,
    last: Option<u64>,
    repeats: u64,
}

impl Runs {
    fn len(&self) -> usize {
        self.tokens.len()
    }

    #[inline]
    fn push(&mut self, value: u64) {
        if self.last == Some(value) {
            self.repeats += 1;
            return;
        }
        self.finish();
        self.last = Some(value);
        token(&mut self.tokens, value, false);
    }

    /// Bytes of the repeat count that is still to come.
    fn pending(&self) -> usize {
        let bits = (u64::BITS - self.repeats.leading_zeros()) as usize + 1;
        if self.repeats > 0 { bits.div_ceil(7) } else { 0 }
    }

    fn finish(&mut self) {
        if self.repeats > 0 {
            token(&mut self.tokens, self.repeats, true);
            self.repeats = 0;
        }
    }

    fn clear(&mut self) {
        self.tokens.clear();
        self.last = None;
        self.repeats = 0;
    }
}

/// A LEB128 varint of `value` with one bit below it that says whether it is a repeat count.
#[inline]
fn token(out: &mut Vec<u8>, value: u64, repeat: bool) {
    let low = (value << 1) as u8 & 0x7e | u8::from(repeat);
    let mut rest = value >> 6;
    out.push(low | if rest > 0 { 0x80 } else { 0 });
    while rest > 0 {
        let more = rest >> 7;
        out.push(rest as u8 & 0x7f | if more > 0 { 0x80 } else { 0 });
        rest = more;
    }
}

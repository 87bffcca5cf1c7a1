//! The 256 bytes at the start of every block.

use super::crc32c;
use crate::error::{Error, Result};
use std::mem::offset_of;
use zerocopy::byteorder::little_endian::{I64, U16, U32, U64, U128};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Blocks begin and end on multiples of this on the device.
pub const BLOCK_ALIGN: usize = 4096;
/// The largest block, header and padding included.
pub const MAX_BLOCK: usize = 4 << 20;
/// The most elements of a block that is taken in: empty ones at equal distances take no bytes, and each is looked at.
pub const MOST_ENTRIES: u32 = 1 << 20;
/// Bytes of the header; the payload follows at once.
pub const HEADER_LEN: usize = 256;
/// The first bytes of every block.
pub const BLOCK_MAGIC: [u8; 8] = *b"FBRBLOCK";
/// The version of the block format written here.
pub const BLOCK_VERSION: u16 = 1;

/// Bits of [`Header::flags`].
pub struct Flags;

impl Flags {
    /// The first entry continues an element that began in an earlier block.
    pub const STARTS_WITHIN: u32 = 1;
    /// The last entry is continued in the next block.
    pub const CONTINUES: u32 = 2;
    /// The first entry ends an element of earlier blocks that was cut off by its source: it is not whole.
    pub const TORN: u32 = 4;
    /// There are cut records.
    pub const CUTS: u32 = 8;
    /// All flags known to this version.
    pub const KNOWN: u32 = 15;
}

/// The header as it lies on the device, little-endian.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Header {
    /// [`BLOCK_MAGIC`].
    pub magic: [u8; 8],
    /// [`BLOCK_VERSION`].
    pub version: U16,
    /// [`HEADER_LEN`].
    pub header_len: U16,
    /// [`Flags`].
    pub flags: U32,
    /// Target that wrote it.
    pub target: U128,
    /// Ring it belongs to.
    pub ring: U64,
    /// Sequence of the segment within the ring: the lap stamp.
    pub segment: U64,
    /// Place of the segment within the ring: the position stamp.
    pub slot: U32,
    /// Number of the block within the segment.
    pub index: U32,
    /// Byte offset of the block within the segment.
    pub offset: U32,
    /// Blocks of this segment that were durable when this one was written.
    pub durable_blocks: U32,
    /// Opening of the target that wrote it; rises with each.
    pub epoch: U64,
    /// Sequence of the first entry's element within the ring.
    pub first_sequence: U64,
    /// Time of the first entry, nanoseconds since 1970.
    pub base_time: I64,
    /// Earliest time in the block.
    pub min_time: I64,
    /// Latest time in the block.
    pub max_time: I64,
    /// Writer session, by chance.
    pub writer: U64,
    /// Number of the block within the writer session, from 1.
    pub number: U64,
    /// Bytes from header to the end of the padding.
    pub total_len: U32,
    /// Bytes of payload, directly after the header.
    pub payload_len: U32,
    /// Bytes of the directory of lengths, directly after the payload.
    pub lengths_len: U32,
    /// Bytes of the directory of times, after the lengths.
    pub times_len: U32,
    /// Bytes of caller-supplied key columns, after the directory.
    pub keys_len: U32,
    /// Bytes of gap records, after the keys.
    pub gaps_len: U32,
    /// Entries in the directory.
    pub entries: U32,
    /// CRC-32C of the payload.
    pub payload_crc: U32,
    /// CRC-32C of directory, keys, gaps and cuts.
    pub body_crc: U32,
    /// Bytes of cut records, after the gap records.
    pub cuts_len: U32,
    /// Zero.
    pub reserved: [u8; 92],
    /// CRC-32C of the header before this field.
    pub header_crc: U32,
}

const _: () = assert!(size_of::<Header>() == HEADER_LEN);
const CRC_AT: usize = offset_of!(Header, header_crc);
const _: () = assert!(CRC_AT == HEADER_LEN - 4);

/// Where a block lies: what makes old, lost and misdirected writes visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Target id.
    pub target: u128,
    /// Ring id.
    pub ring: u64,
    /// Sequence of the segment within the ring.
    pub segment: u64,
    /// Place of the segment within the ring.
    pub slot: u32,
    /// Number of the block within the segment.
    pub index: u32,
    /// Byte offset of the block within the segment.
    pub offset: u32,
    /// Blocks of this segment known durable.
    pub durable_blocks: u32,
    /// Opening of the target.
    pub epoch: u64,
    /// Sequence of the first entry's element.
    pub first_sequence: u64,
}

impl Header {
    /// A header with nothing but what every header has.
    pub fn blank() -> Header {
        let mut header = Header::new_zeroed();
        header.magic = BLOCK_MAGIC;
        header.version = BLOCK_VERSION.into();
        header.header_len = (HEADER_LEN as u16).into();
        header
    }

    /// The place stamped on it.
    pub fn stamp(&self) -> Stamp {
        Stamp {
            target: self.target.get(),
            ring: self.ring.get(),
            segment: self.segment.get(),
            slot: self.slot.get(),
            index: self.index.get(),
            offset: self.offset.get(),
            durable_blocks: self.durable_blocks.get(),
            epoch: self.epoch.get(),
            first_sequence: self.first_sequence.get(),
        }
    }

    /// Stamps the packed block in `bytes` with its place and seals the header; its checksum.
    pub fn set_stamp(bytes: &mut [u8], stamp: &Stamp) -> u32 {
        let (header, _) = Header::mut_from_prefix(bytes).expect("a block is longer than its header");
        header.target = stamp.target.into();
        header.ring = stamp.ring.into();
        header.segment = stamp.segment.into();
        header.slot = stamp.slot.into();
        header.index = stamp.index.into();
        header.offset = stamp.offset.into();
        header.durable_blocks = stamp.durable_blocks.into();
        header.epoch = stamp.epoch.into();
        header.first_sequence = stamp.first_sequence.into();
        let crc = crc32c(&header.as_bytes()[..CRC_AT]);
        header.header_crc = crc.into();
        crc
    }

    /// Gives the packed block in `bytes` to another session, as its block `number`. It has no place yet.
    pub fn set_writer(bytes: &mut [u8], writer: u64, number: u64) {
        let (header, _) = Header::mut_from_prefix(bytes).expect("a block is longer than its header");
        header.writer = writer.into();
        header.number = number.into();
    }

    /// Takes the stamp off the block in `bytes`: it is as it was packed, wherever it lay.
    pub fn clear_stamp(bytes: &mut [u8]) {
        let nowhere = Header::blank().stamp();
        Header::set_stamp(bytes, &nowhere);
        let (header, _) = Header::mut_from_prefix(bytes).expect("a block is longer than its header");
        header.header_crc = 0.into();
    }

    /// Reads and checks a header: magic, version, checksum, lengths. Not the body, not the place.
    pub fn read(bytes: &[u8]) -> Result<Header> {
        let (header, _) =
            Header::read_from_prefix(bytes).map_err(|_| Error::damaged("less than a block header is left"))?;
        if header.magic != BLOCK_MAGIC {
            return Err(Error::damaged("no block begins here"));
        }
        if crc32c(&header.as_bytes()[..CRC_AT]) != header.header_crc.get() {
            return Err(Error::damaged("the checksum of a block header does not match"));
        }
        if header.version.get() != BLOCK_VERSION {
            return Err(Error::version(format!(
                "a block has version {}, and this Forebay knows {BLOCK_VERSION}; use a newer one",
                header.version
            )));
        }
        if header.flags.get() & !Flags::KNOWN != 0 {
            return Err(Error::version(format!("a block has unknown flags {:#x}; use a newer Forebay", header.flags)));
        }
        header.check_lengths()?;
        Ok(header)
    }

    /// Whether the lengths agree with each other and with the bounds, and the elements have numbers.
    pub fn check_lengths(&self) -> Result<()> {
        let total = self.total_len.get() as u64;
        let parts = HEADER_LEN as u64
            + [self.payload_len, self.lengths_len, self.times_len, self.keys_len, self.gaps_len, self.cuts_len]
                .iter()
                .map(|l| u64::from(l.get()))
                .sum::<u64>();
        if total > MAX_BLOCK as u64
            || !total.is_multiple_of(BLOCK_ALIGN as u64)
            || parts > total
            || total - parts >= BLOCK_ALIGN as u64
        {
            return Err(Error::damaged(format!("a block of {total} bytes has parts of {parts} bytes")));
        }
        let (first, entries) = (self.first_sequence.get(), self.entries.get());
        if first.checked_add(u64::from(entries)).is_none() {
            return Err(Error::damaged(format!(
                "a block of {entries} elements from {first} on has no number for what follows"
            )));
        }
        Ok(())
    }

    /// Offset of the directory within the block.
    pub fn directory_at(&self) -> usize {
        HEADER_LEN + self.payload_len.get() as usize
    }

    /// Offset of the directory of times within the block.
    pub fn times_at(&self) -> usize {
        self.directory_at() + self.lengths_len.get() as usize
    }

    /// Offset of the caller-supplied keys within the block.
    pub fn keys_at(&self) -> usize {
        self.times_at() + self.times_len.get() as usize
    }

    /// Offset of the gap records within the block.
    pub fn gaps_at(&self) -> usize {
        self.keys_at() + self.keys_len.get() as usize
    }

    /// Offset of the cut records within the block.
    pub fn cuts_at(&self) -> usize {
        self.gaps_at() + self.gaps_len.get() as usize
    }

    /// Offset of the padding within the block.
    pub fn end(&self) -> usize {
        self.cuts_at() + self.cuts_len.get() as usize
    }

    /// Whether the last entry goes on in the next block.
    pub fn continues(&self) -> bool {
        self.flags.get() & Flags::CONTINUES != 0
    }

    /// Whether the first entry continues an element of an earlier block.
    pub fn starts_within(&self) -> bool {
        self.flags.get() & Flags::STARTS_WITHIN != 0
    }

    /// Whether the first entry ends an element that was cut off by its source.
    pub fn is_torn(&self) -> bool {
        self.flags.get() & Flags::TORN != 0
    }

    /// Sequence of the element after the last that ends or goes on here. An element that goes on keeps its number.
    pub fn next_sequence(&self) -> u64 {
        self.first_sequence.get() + u64::from(self.entries.get()).saturating_sub(u64::from(self.continues()))
    }
}

/// The table of `docs/format/block.md`: offset, bytes, field.
pub fn table() -> String {
    macro_rules! rows {
        ($($field:ident: $bytes:expr),* $(,)?) => {{
            let mut out = String::new();
            let mut at = 0usize;
            $(
                assert_eq!(offset_of!(Header, $field), at, stringify!($field));
                out += &format!("| {:>3} | {:>2} | `{}` |\n", at, $bytes, stringify!($field));
                at += $bytes;
            )*
            assert_eq!(at, HEADER_LEN);
            out
        }};
    }
    rows! {
        magic: 8, version: 2, header_len: 2, flags: 4, target: 16, ring: 8, segment: 8, slot: 4, index: 4, offset: 4,
        durable_blocks: 4, epoch: 8, first_sequence: 8, base_time: 8, min_time: 8, max_time: 8, writer: 8, number: 8,
        total_len: 4, payload_len: 4, lengths_len: 4, times_len: 4, keys_len: 4, gaps_len: 4, entries: 4, payload_crc: 4,
        body_crc: 4, cuts_len: 4, reserved: 92, header_crc: 4,
    }
}

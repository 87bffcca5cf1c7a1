//! A stripe of a ring with parity: blocks that go to different targets, and what makes any one of them from the others.
//!
//! The parity is an ordinary block of the ring that holds it, with two elements: a table of the blocks, and the exclusive or of
//! their bytes. Their times are the earliest and the latest in the stripe, so that whoever asks for a time finds all stripes of
//! it. `docs/format/parity.md` has the bytes.

use forebay_env::Buffer;
use forebay_model::block::{Header, Packer, Sealed, View, crc32c};
use forebay_model::layout::parity;
use forebay_model::ring::PARITY_OVERHEAD;
use forebay_model::{Cause, Error, Gap, Result, Timestamp};

/// What a table begins with.
const MAGIC: [u8; 8] = *b"FBRSTRIP";
/// The version of tables that are written here.
const VERSION: u16 = 1;
/// Bytes before the blocks of a table, and of each.
const HEAD: usize = 32;
const ROW: usize = 56;
/// Bytes after them.
const TAIL: usize = 4;

/// What the element of a block of parity is, as its key says.
pub(super) const PART_PARITY: u8 = 0;
pub(super) const PART_TABLE: u8 = 1;
/// A table with blocks that their target may not have.
pub(super) const PART_ABSENT: u8 = 2;

/// A block of a stripe, as the table has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    /// The component that has it, or was to have it.
    pub(super) component: u32,
    /// Whether that may not have it.
    pub(super) absent: bool,
    /// Its session there, and its number.
    pub(super) writer: u64,
    pub(super) number: u64,
    /// Its bytes, and their checksum.
    pub(super) length: u32,
    pub(super) crc: u32,
    /// Elements that end in it.
    pub(super) elements: u64,
    /// Its times.
    pub(super) times: (i64, i64),
}

/// Which blocks a stripe is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    /// The session and number of the block of parity.
    pub(super) writer: u64,
    pub(super) number: u64,
    pub(super) rows: Vec<Row>,
}

impl Row {
    /// Of the packed block in `bytes`, which has its session and number.
    pub(super) fn of(component: u32, bytes: &[u8]) -> Result<Row> {
        let view = View::of_sealed(bytes)?;
        let header = view.header();
        Ok(Row {
            component,
            absent: false,
            writer: header.writer.get(),
            number: header.number.get(),
            length: header.total_len.get(),
            crc: crc32c(&bytes[..header.total_len.get() as usize]),
            elements: header.next_sequence() - header.first_sequence.get(),
            times: (header.min_time.get(), header.max_time.get()),
        })
    }

    /// Whether it is the same block.
    pub(super) fn is_same(&self, other: &Row) -> bool {
        (self.component, self.writer, self.number) == (other.component, other.writer, other.number)
    }

    /// What is told if it cannot be had.
    pub(super) fn gap(&self) -> Gap {
        let (first, last) = (Timestamp(self.times.0), Timestamp(self.times.1));
        Gap { cause: Cause::TargetAway, count: Some(self.elements), first, last }
    }
}

impl Table {
    /// The earliest and the latest time.
    pub(super) fn times(&self) -> (i64, i64) {
        let rows = self.rows.iter();
        rows.fold((i64::MAX, i64::MIN), |times, row| (times.0.min(row.times.0), times.1.max(row.times.1)))
    }

    /// Whether this came later than `earlier`, of the same stripe without some of its blocks: who recorded gave these up.
    pub(super) fn is_rest_of(&self, earlier: &Table) -> bool {
        let is_in_it = |row: &Row| earlier.rows.iter().any(|other| other.is_same(row));
        self.rows.len() < earlier.rows.len() && self.rows.iter().all(is_in_it)
    }

    /// Whether a block may not be where it was to be.
    pub(super) fn is_absent(&self) -> bool {
        self.rows.iter().any(|row| row.absent)
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD + self.rows.len() * ROW + TAIL);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(self.rows.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.writer.to_le_bytes());
        bytes.extend_from_slice(&self.number.to_le_bytes());
        for row in &self.rows {
            bytes.extend_from_slice(&row.component.to_le_bytes());
            bytes.extend_from_slice(&u32::from(row.absent).to_le_bytes());
            bytes.extend_from_slice(&row.writer.to_le_bytes());
            bytes.extend_from_slice(&row.number.to_le_bytes());
            bytes.extend_from_slice(&row.length.to_le_bytes());
            bytes.extend_from_slice(&row.crc.to_le_bytes());
            bytes.extend_from_slice(&row.elements.to_le_bytes());
            bytes.extend_from_slice(&row.times.0.to_le_bytes());
            bytes.extend_from_slice(&row.times.1.to_le_bytes());
        }
        bytes.extend_from_slice(&crc32c(&bytes).to_le_bytes());
        bytes
    }

    /// Of a ring over so many targets.
    pub(super) fn read(bytes: &[u8], targets: u32) -> Result<Table> {
        let damaged = || Error::damaged("a table of a stripe is not whole: the target that has the parity is broken");
        let (content, crc) = bytes.split_last_chunk::<TAIL>().ok_or_else(damaged)?;
        if content.len() < HEAD || content[..8] != MAGIC || crc32c(content) != u32::from_le_bytes(*crc) {
            return Err(damaged());
        }
        let u16_at = |at: usize| u16::from_le_bytes(content[at..at + 2].try_into().expect("two bytes"));
        let u32_at = |at: usize| u32::from_le_bytes(content[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(content[at..at + 8].try_into().expect("eight bytes"));
        if u16_at(8) != VERSION {
            let version = u16_at(8);
            return Err(Error::version(format!(
                "a table of a stripe has version {version}, and this Forebay knows {VERSION}; use a newer one"
            )));
        }
        let rows = usize::from(u16_at(10));
        if content.len() != HEAD + rows * ROW {
            return Err(damaged());
        }
        let row = |row: usize| {
            let at = HEAD + row * ROW;
            Row {
                component: u32_at(at),
                absent: u32_at(at + 4) & 1 != 0,
                writer: u64_at(at + 8),
                number: u64_at(at + 16),
                length: u32_at(at + 24),
                crc: u32_at(at + 28),
                elements: u64_at(at + 32),
                times: (u64_at(at + 40) as i64, u64_at(at + 48) as i64),
            }
        };
        let table = Table { writer: u64_at(16), number: u64_at(24), rows: (0..rows).map(row).collect() };
        // Who reads it looks for its blocks where it says.
        if table.rows.is_empty() || table.rows.iter().any(|row| row.component >= targets) {
            return Err(damaged());
        }
        Ok(table)
    }
}

/// Packs a stripe's parity into `buffer`, behind what is told of it.
pub(super) fn pack(table: &Table, xor: &[u8], gap: Option<Gap>, buffer: Buffer) -> Result<Buffer> {
    let mut packer = Packer::new(table.writer);
    packer.give(buffer);
    let is_told = gap.is_none_or(|gap| packer.gap(&gap));
    let (first, last) = table.times();
    let part = if table.is_absent() { PART_ABSENT } else { PART_TABLE };
    let fits = packer.push(Timestamp(first), &[&table.to_bytes()], &[part])
        && packer.push(Timestamp(last), &[xor], &[PART_PARITY]);
    let sealed = packer.seal().filter(|_| fits && is_told);
    let Sealed { mut buffer, length, .. } = sealed.ok_or_else(|| {
        Error::usage(format!("{} bytes of parity do not fit a block that has {PARITY_OVERHEAD} more", xor.len()))
    })?;
    buffer.set_len(length);
    Header::set_writer(&mut buffer, table.writer, table.number);
    Ok(buffer)
}

/// The block of `row`, from the parity of its stripe and all of the others as they were packed.
pub(super) fn remake<'a>(row: &Row, xor: &[u8], others: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<u8>> {
    let mut bytes = xor.to_vec();
    for other in others {
        if other.len() > bytes.len() {
            return Err(Error::damaged("a block of a stripe is longer than its parity"));
        }
        parity::add(&mut bytes, other);
    }
    bytes.truncate(row.length as usize);
    if bytes.len() != row.length as usize || crc32c(&bytes) != row.crc {
        return Err(Error::damaged("what was made of the others of a stripe is not the block that was in it"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;

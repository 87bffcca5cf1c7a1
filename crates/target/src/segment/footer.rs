//! What is written when a segment is sealed: index pages, tables, trailer, flush against the segment's end.

use super::description::Description;
use super::postings::{KeyIndex, Owner, encode};
use super::spans::{Builder, Finished, Span, SpanGap};
use crate::catalog::{Segment, Writers};
use crate::superblock::{PREFIX, checksum, put};
use forebay_model::block::crc32c;
use forebay_model::{Bytes, Error, Result};
use serde::{Deserialize, Serialize};

/// Bytes of the trailer, the last of a segment.
pub const TRAILER_LEN: u64 = 4096;
const MAGIC: [u8; 8] = *b"FBRTRAIL";
const VERSION: u32 = 1;

/// The tables of a sealed segment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tables {
    /// Spans in order.
    pub spans: Vec<Span>,
    /// One index a key.
    pub keys: Vec<KeyIndex>,
    /// Gap records, in order, but for those of spans that say that they have some that are not here.
    pub gaps: Vec<SpanGap>,
}

/// The last 4 KiB of a sealed segment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trailer {
    /// Target id.
    pub target: u128,
    /// Ring id.
    pub ring: u64,
    /// Place within the ring.
    pub slot: u32,
    /// Opening of the target that sealed it.
    pub epoch: u64,
    /// What is in it.
    pub summary: Segment,
    /// Blocks in it.
    pub blocks: u32,
    /// How many of them were durable when this was written.
    pub durable_blocks: u32,
    /// Where the tables begin in the segment.
    pub tables_at: u32,
    /// Their bytes.
    pub tables_len: u32,
    /// Their CRC-32C.
    pub tables_crc: u32,
    /// Who recorded it, and the last block of each.
    pub writers: Writers,
    /// What its ring was then, and where.
    pub description: Option<Description>,
}

/// Encodes index, tables and trailer of a segment of `segment` bytes. Returns where the bytes belong in the segment,
/// the bytes (whole blocks, up to the end), and the tables for those who ask before they are on the device.
pub fn encode_footer(builder: Builder, segment: Bytes, mut trailer: Trailer) -> Result<(u32, Vec<u8>, Tables)> {
    let Finished { spans, gaps, keys: gathered, precision } = builder.finish(segment);
    let owner = Owner { ring: trailer.ring, segment: trailer.summary.sequence };
    let mut pages = Vec::new();
    let mut keys: Vec<KeyIndex> = Vec::new();
    for gathered in gathered {
        let at = pages.len() as u32;
        keys.push(encode(gathered, spans.len() as u64, precision, at, owner, &mut pages));
    }
    let mut tables = Tables { spans, keys, gaps };
    // Where the pages begin depends on the length of the tables, which holds where they begin: a postcard number grows
    // to at most five bytes, so encoding with the largest value gives the room to keep.
    let encode_tables = |tables: &Tables| {
        postcard::to_stdvec(tables).map_err(|e| Error::usage(format!("the tables of a segment cannot be encoded: {e}")))
    };
    let room = encode_tables(&tables)?.len() + 5 * tables.keys.len();
    let body = (pages.len() + room) as u64;
    let start = segment.0.checked_sub(TRAILER_LEN + body.div_ceil(4096) * 4096).expect("room for the footer was kept");
    for key in &mut tables.keys {
        key.at += start as u32;
    }
    let encoded = encode_tables(&tables)?;
    assert!(encoded.len() <= room, "tables of {} bytes in room for {room}", encoded.len());
    let mut out = vec![0u8; (segment.0 - start) as usize];
    out[..pages.len()].copy_from_slice(&pages);
    out[pages.len()..pages.len() + encoded.len()].copy_from_slice(&encoded);
    trailer.tables_at = start as u32 + pages.len() as u32;
    trailer.tables_len = encoded.len() as u32;
    trailer.tables_crc = crc32c(&encoded);
    let at = out.len() - TRAILER_LEN as usize;
    trailer.encode(&mut out[at..])?;
    Ok((start as u32, out, tables))
}

impl Trailer {
    /// Writes a trailer at the beginning of what is zero; [`forebay_model::Kind::Usage`] if it has no room there.
    pub fn encode(&self, out: &mut [u8]) -> Result<()> {
        let body = postcard::to_stdvec(self).map_err(|e| Error::usage(format!("a trailer cannot be encoded: {e}")))?;
        if PREFIX + body.len() > out.len() {
            return Err(Error::usage(format!("a trailer of {} bytes has no room in its {}", body.len(), out.len())));
        }
        put(out, MAGIC, VERSION, &body);
        Ok(())
    }

    /// Reads a trailer.
    pub fn decode(bytes: &[u8]) -> Result<Trailer> {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        if bytes.len() < TRAILER_LEN as usize || bytes[..8] != MAGIC {
            return Err(Error::damaged("no trailer is here"));
        }
        let body = bytes
            .get(PREFIX..PREFIX.saturating_add(word(12) as usize))
            .ok_or_else(|| Error::damaged("a trailer is longer than its place"))?;
        if checksum(bytes, body) != word(16) {
            return Err(Error::damaged("the checksum of a trailer does not match"));
        }
        if word(8) != VERSION {
            return Err(Error::version(format!(
                "a segment has version {}, and this Forebay knows {VERSION}; use a newer one",
                word(8)
            )));
        }
        postcard::from_bytes(body).map_err(|e| Error::damaged(format!("a trailer cannot be decoded: {e}")))
    }

    /// Whether it belongs to this place.
    pub fn is_at(&self, target: u128, ring: u64, slot: u32, sequence: u64) -> bool {
        (self.target, self.ring, self.slot, self.summary.sequence) == (target, ring, slot, sequence)
    }
}

impl Tables {
    /// Reads the tables that `trailer` tells of.
    pub fn decode(bytes: &[u8], trailer: &Trailer) -> Result<Tables> {
        if crc32c(bytes) != trailer.tables_crc {
            return Err(Error::damaged("the checksum of a segment's tables does not match"));
        }
        let tables: Tables = postcard::from_bytes(bytes)
            .map_err(|e| Error::damaged(format!("a segment's tables cannot be decoded: {e}")))?;
        tables.keys.iter().try_for_each(KeyIndex::check)?;
        Ok(tables)
    }
}

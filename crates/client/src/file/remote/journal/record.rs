//! The bytes of an intent in a journal: magic, version, length and checksum of what follows, then the client and the intent in
//! postcard, then zeros up to the grain. `docs/format/files.md` has the table.

use super::super::super::components::{Intent, Redo, Slice};
use forebay_model::layout::address::{Place, StripeId};
use forebay_model::layout::update::Extent;
use forebay_model::{Bytes, Error, Result};
use serde::{Deserialize, Serialize};

/// Records begin at multiples of this.
pub(super) const GRAIN: usize = 512;
const MAGIC: [u8; 4] = *b"FBIN";
const VERSION: u32 = 1;
/// Magic, version, length, checksum.
const HEADER: usize = 16;

/// An intent as it is kept.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    client: u64,
    stripe: u64,
    cut: Option<u64>,
    /// Components, places in them, and how many of the bytes that follow go there.
    writes: Vec<(u32, u64, u64)>,
    /// Components, places in them, lengths.
    agree: Vec<(u32, u64, u64)>,
}

/// The bytes of a record.
pub(super) fn encode(client: u64, intent: &Intent) -> Result<Vec<u8>> {
    let kept = Kept {
        client,
        stripe: intent.stripe.0,
        cut: intent.cut.map(|cut| cut.0),
        writes: intent.writes.iter().map(|w| (w.place.component, w.place.at.0, w.bytes.len() as u64)).collect(),
        agree: intent.agree.iter().map(|e| (e.place.component, e.place.at.0, e.length.0)).collect(),
    };
    let head = forebay_wire::write_body(&kept)?;
    let bytes: usize = intent.writes.iter().map(|write| write.bytes.len()).sum();
    let mut record = Vec::with_capacity((HEADER + 4 + head.len() + bytes).next_multiple_of(GRAIN));
    record.extend_from_slice(&MAGIC);
    record.extend_from_slice(&VERSION.to_le_bytes());
    record.extend_from_slice(&[0; 8]);
    record.extend_from_slice(&(head.len() as u32).to_le_bytes());
    record.extend_from_slice(&head);
    intent.writes.iter().for_each(|write| record.extend_from_slice(&write.bytes));
    let length = record.len() - HEADER;
    let too_long = |_| Error::usage(format!("an intent of {length} bytes is too long"));
    let (length, sum) = (u32::try_from(length).map_err(too_long)?, forebay_wire::crc32c(&record[HEADER..]));
    record[8..12].copy_from_slice(&length.to_le_bytes());
    record[12..16].copy_from_slice(&sum.to_le_bytes());
    record.resize(record.len().next_multiple_of(GRAIN), 0);
    Ok(record)
}

/// Whether a record begins here.
pub(super) fn begins(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// How long the record is that begins here, with what fills it up.
pub(super) fn length(bytes: &[u8]) -> Option<u64> {
    let length = bytes.get(8..12).filter(|_| begins(bytes))?.try_into().ok().map(u32::from_le_bytes)?;
    Some((HEADER as u64 + u64::from(length)).next_multiple_of(GRAIN as u64))
}

/// The record at the beginning of these bytes: who wrote it, what, and how long it is with what fills it up. `None` if there
/// is none. Nothing is copied.
pub(super) fn decode(bytes: &Slice) -> Option<(u64, Intent, usize)> {
    let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
    if bytes.get(..4)? != MAGIC || word(4)? != VERSION {
        return None;
    }
    let length = word(8)? as usize;
    let body = bytes.get(HEADER..HEADER.checked_add(length)?)?;
    if forebay_wire::crc32c(body) != word(12)? {
        return None;
    }
    let head = u32::from_le_bytes(body.get(..4)?.try_into().ok()?) as usize;
    let kept: Kept = forebay_wire::read_body(body.get(4..4usize.checked_add(head)?)?).ok()?;
    let mut rest = bytes.slice(HEADER + 4 + head..HEADER + length);
    let mut writes = Vec::new();
    for (component, at, length) in kept.writes {
        let length = usize::try_from(length).ok().filter(|length| *length <= rest.len())?;
        writes.push(Redo { place: Place { component, at: Bytes(at) }, bytes: rest.split_to(length) });
    }
    let extent = |(component, at, length)| Extent { place: Place { component, at: Bytes(at) }, length: Bytes(length) };
    let intent = Intent {
        stripe: StripeId(kept.stripe),
        cut: kept.cut.map(Bytes),
        writes,
        agree: kept.agree.into_iter().map(extent).collect(),
    };
    Some((kept.client, intent, (HEADER + length).next_multiple_of(GRAIN)))
}

#[cfg(test)]
mod tests;

//! What a query returned, in the formats of others.
//!
//! An exporter takes elements, gaps and expired ranges in the order of the stream, and writes as it goes: its memory
//! does not grow with the result. Formats that have no place for a gap say in their [`Totals`] how many they left out,
//! so that the caller can say so.

mod arrow;
mod bytes;
mod out;
mod packets;
mod table;

pub use arrow::ArrowFormat;
use forebay_model::packet::LinkType;
use forebay_model::{Gap, Result, Timestamp};
use out::Out;
use std::io::Write;
use std::ops::Range;

/// The keys of an element: names and values.
pub type Keys<'a> = [(&'a str, &'a str)];

/// Takes the result of a query.
pub trait Exporter {
    /// One element that was captured whole; as [`Exporter::element_cut`].
    fn element(&mut self, sequence: u64, time: Timestamp, parts: &[&[u8]], keys: &Keys<'_>) -> Result<()> {
        self.element_cut(sequence, time, parts, keys, 0)
    }

    /// One element: its sequence number, when it was captured, its payload in parts (concatenated), the values of its
    /// keys by name, and how many bytes of its end were not captured. Formats that do not say how long it was ignore the
    /// last.
    fn element_cut(&mut self, sequence: u64, time: Timestamp, parts: &[&[u8]], keys: &Keys<'_>, cut: u32)
    -> Result<()>;

    /// Whether it has a place for keys; those that have none need not be given any.
    fn has_keys(&self) -> bool {
        false
    }

    /// Data is absent here.
    fn gap(&mut self, gap: &Gap) -> Result<()>;

    /// These sequence numbers were asked for, and were overwritten before they could be read.
    fn expired(&mut self, range: Range<u64>) -> Result<()>;

    /// Hands everything so far to the output, for those who follow a live stream.
    fn flush(&mut self) -> Result<()>;

    /// Completes the output.
    fn finish(self: Box<Self>) -> Result<Totals>;
}

/// What was exported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Elements written.
    pub elements: u64,
    /// Their payload; 0 in tables, which have none.
    pub payload: u64,
    /// Gaps that came, whether or not the format has a place for them.
    pub gaps: u64,
    /// Gaps and expired ranges that the format has no place for.
    pub left_out: u64,
    /// Elements that had expired.
    pub expired: u64,
}

/// A key in a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The name of the key.
    pub name: String,
    /// What its values are.
    pub kind: ColumnKind,
}

/// What the values of a key are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// Any text.
    Text,
    /// Numbers from 0 to 2^64 - 1, in decimal or, with `0x`, hexadecimal digits.
    Number,
}

/// A format to export to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    /// Packets with nanoseconds; gaps as `epb_dropcount` and comments.
    Pcapng {
        /// What the elements are.
        link: LinkType,
        /// Where they came from, if it has a name.
        interface: Option<String>,
    },
    /// Packets with nanoseconds, no gaps.
    Pcap(LinkType),
    /// The payload, one element behind the other.
    Raw,
    /// The payload, each element behind its length: four bytes, least significant first.
    LengthPrefixed,
    /// Text: sequence, time, lengths and keys, a row each; gaps as rows with cause and count.
    Csv(Vec<Column>),
    /// Arrow: the same columns in binary.
    Arrow(ArrowFormat, Vec<Column>),
}

/// An exporter to `format` that writes to `out`, called `name` in messages.
pub fn exporter(format: Format, out: Box<dyn Write + Send>, name: &str) -> Result<Box<dyn Exporter + Send>> {
    let out = Out::new(out, name);
    Ok(match format {
        Format::Pcapng { link, interface } => Box::new(packets::Pcapng::new(out, link, interface.as_deref())?),
        Format::Pcap(link) => Box::new(packets::Pcap::new(out, link)?),
        Format::Raw => Box::new(bytes::Raw::new(out)),
        Format::LengthPrefixed => Box::new(bytes::LengthPrefixed::new(out)),
        Format::Csv(columns) => Box::new(table::Csv::new(out, columns)?),
        Format::Arrow(format, columns) => Box::new(arrow::Arrow::new(out, format, columns)?),
    })
}

impl Totals {
    fn count(&mut self, parts: &[&[u8]]) {
        self.elements += 1;
        self.payload += parts.iter().map(|p| p.len() as u64).sum::<u64>();
    }

    fn count_expired(&mut self, range: &Range<u64>) {
        self.expired += range.end.saturating_sub(range.start);
    }

    /// A gap came that the format has no place for.
    fn leave_out_gap(&mut self) {
        self.gaps += 1;
        self.left_out += 1;
    }

    /// An expired range came that the format has no place for.
    fn leave_out_expired(&mut self, range: &Range<u64>) {
        self.count_expired(range);
        self.left_out += 1;
    }
}

/// The value of column `index` among the keys of an element. Keys usually come in the order of the columns.
fn value<'a>(columns: &[Column], index: usize, keys: &Keys<'a>) -> Option<&'a str> {
    let name = columns[index].name.as_str();
    match keys.get(index) {
        Some((here, value)) if *here == name => Some(value),
        _ => keys.iter().find(|(here, _)| *here == name).map(|(_, value)| *value),
    }
}

#[cfg(test)]
mod tests;

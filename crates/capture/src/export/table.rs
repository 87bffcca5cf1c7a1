//! CSV (RFC 4180): a header, then a row for each element, gap and expired range, in their order.
//!
//! Columns: `sequence,time,length`, `original_length` (longer if its end was cut off before it came), the keys, then `gap`
//! (empty for elements; a cause, or `expired`), `missing` (how many, if known) and `until`. A gap bears in `time` when it
//! began; an expired range bears its first number in `sequence`.

use super::{Column, Exporter, Keys, Out, Totals, value};
use forebay_model::{Error, Gap, Result, Timestamp};
use std::fmt::Write;
use std::ops::Range;

/// The names of columns that are no keys.
pub(super) const FIXED: [&str; 7] = ["sequence", "time", "length", "original_length", "gap", "missing", "until"];

/// What stands in the column `gap` for an expired range.
pub(super) const EXPIRED: &str = "expired";

/// Names in a table are unique.
pub(super) fn check(columns: &[Column]) -> Result<()> {
    for (i, column) in columns.iter().enumerate() {
        let name = &column.name;
        if FIXED.contains(&name.as_str()) {
            return Err(Error::usage(format!("a key called '{name}' collides with a column that every table has")));
        }
        if columns[..i].iter().any(|c| c.name == *name) {
            return Err(Error::usage(format!("the key '{name}' is there twice; name it once")));
        }
    }
    Ok(())
}

pub(super) struct Csv {
    out: Out,
    columns: Vec<Column>,
    row: String,
    totals: Totals,
}

impl Csv {
    pub(super) fn new(out: Out, columns: Vec<Column>) -> Result<Csv> {
        check(&columns)?;
        let mut csv = Csv { out, columns, row: String::new(), totals: Totals::default() };
        csv.row.push_str("sequence,time,length,original_length");
        for column in &csv.columns {
            csv.row.push(',');
            field(&mut csv.row, &column.name);
        }
        csv.row.push_str(",gap,missing,until");
        csv.end_row()?;
        Ok(csv)
    }

    fn end_row(&mut self) -> Result<()> {
        self.row.push_str("\r\n");
        self.out.put(self.row.as_bytes())?;
        self.row.clear();
        Ok(())
    }

    fn no_keys(&mut self) {
        self.row.extend(std::iter::repeat_n(',', self.columns.len()));
    }
}

/// Appends to the row; writing to a string cannot fail.
macro_rules! add {
    ($row:expr, $($what:tt)*) => {
        let _ = write!($row, $($what)*);
    };
}

impl Exporter for Csv {
    fn element_cut(
        &mut self,
        sequence: u64,
        time: Timestamp,
        parts: &[&[u8]],
        keys: &Keys<'_>,
        cut: u32,
    ) -> Result<()> {
        self.totals.elements += 1;
        let length: u64 = parts.iter().map(|p| p.len() as u64).sum();
        add!(self.row, "{sequence},{time},{length},{}", length + u64::from(cut));
        for index in 0..self.columns.len() {
            self.row.push(',');
            field(&mut self.row, value(&self.columns, index, keys).unwrap_or_default());
        }
        self.row.push_str(",,,");
        self.end_row()
    }

    fn has_keys(&self) -> bool {
        true
    }

    fn gap(&mut self, gap: &Gap) -> Result<()> {
        self.totals.gaps += 1;
        add!(self.row, ",{},,", gap.first);
        self.no_keys();
        add!(self.row, ",{},", gap.cause);
        if let Some(count) = gap.count {
            add!(self.row, "{count}");
        }
        add!(self.row, ",{}", gap.last);
        self.end_row()
    }

    fn expired(&mut self, range: Range<u64>) -> Result<()> {
        self.totals.count_expired(&range);
        add!(self.row, "{},,,", range.start);
        self.no_keys();
        add!(self.row, ",{EXPIRED},{},", range.end.saturating_sub(range.start));
        self.end_row()
    }

    fn flush(&mut self) -> Result<()> {
        self.out.push()
    }

    fn finish(mut self: Box<Self>) -> Result<Totals> {
        self.out.push()?;
        Ok(self.totals)
    }
}

/// Appends a field, quoted where it must be.
fn field(row: &mut String, text: &str) {
    if !text.contains([',', '"', '\n', '\r']) {
        row.push_str(text);
        return;
    }
    row.push('"');
    for part in text.split_inclusive('"') {
        row.push_str(part);
        if part.ends_with('"') {
            row.push('"');
        }
    }
    row.push('"');
}

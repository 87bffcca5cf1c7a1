//! Arrow: the columns of the CSV export in batches.
//!
//! `sequence`, `length` and `original_length` are unsigned 64-bit numbers, `time` and `until` are nanoseconds in UTC, keys are
//! text or unsigned 64-bit numbers, `gap` is text and `missing` an unsigned 64-bit number. What a row has no value for is null;
//! `gap` is null for elements and for nothing else.

use super::table::{EXPIRED, check};
use super::{Column, ColumnKind, Exporter, Keys, Out, Totals, value};
use arrow_array::builder::{ArrayBuilder, StringBuilder, TimestampNanosecondBuilder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{ArrowError, DataType, Field, Schema, TimeUnit};
use forebay_model::{Error, Gap, Result, Timestamp};
use std::ops::Range;
use std::sync::Arc;

/// Rows in a batch.
const BATCH: usize = 64 << 10;

/// Text of keys in a batch: below the 2 GiB that a batch may hold, and a bound for memory.
const TEXT: usize = 64 << 20;

/// The two containers of Arrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrowFormat {
    /// Batches one behind the other, for pipes.
    Stream,
    /// With an index at the end, for files that are read in any order.
    File,
}

enum Container {
    Stream(StreamWriter<Out>),
    File(FileWriter<Out>),
}

enum Values {
    Text(StringBuilder),
    Number(UInt64Builder),
}

/// An export under way.
pub(super) struct Arrow {
    container: Container,
    name: String,
    schema: Arc<Schema>,
    columns: Vec<Column>,
    sequence: UInt64Builder,
    time: TimestampNanosecondBuilder,
    length: UInt64Builder,
    original: UInt64Builder,
    keys: Vec<Values>,
    gap: StringBuilder,
    missing: UInt64Builder,
    until: TimestampNanosecondBuilder,
    text: usize,
    totals: Totals,
}

impl Arrow {
    pub(super) fn new(out: Out, format: ArrowFormat, columns: Vec<Column>) -> Result<Arrow> {
        check(&columns)?;
        let time = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
        let mut fields = vec![
            Field::new("sequence", DataType::UInt64, true),
            Field::new("time", time.clone(), true),
            Field::new("length", DataType::UInt64, true),
            Field::new("original_length", DataType::UInt64, true),
        ];
        for column in &columns {
            let kind = match column.kind {
                ColumnKind::Text => DataType::Utf8,
                ColumnKind::Number => DataType::UInt64,
            };
            fields.push(Field::new(&column.name, kind, true));
        }
        fields.push(Field::new("gap", DataType::Utf8, true));
        fields.push(Field::new("missing", DataType::UInt64, true));
        fields.push(Field::new("until", time, true));
        let schema = Arc::new(Schema::new(fields));
        let name = out.name().to_string();
        let container = match format {
            ArrowFormat::Stream => StreamWriter::try_new(out, &schema).map(Container::Stream),
            ArrowFormat::File => FileWriter::try_new(out, &schema).map(Container::File),
        }
        .map_err(|e| failed(&name, e))?;
        let keys = columns
            .iter()
            .map(|column| match column.kind {
                ColumnKind::Text => Values::Text(StringBuilder::new()),
                ColumnKind::Number => Values::Number(UInt64Builder::new()),
            })
            .collect();
        Ok(Arrow {
            container,
            name,
            schema,
            columns,
            sequence: UInt64Builder::new(),
            time: TimestampNanosecondBuilder::new().with_timezone("UTC"),
            length: UInt64Builder::new(),
            original: UInt64Builder::new(),
            keys,
            gap: StringBuilder::new(),
            missing: UInt64Builder::new(),
            until: TimestampNanosecondBuilder::new().with_timezone("UTC"),
            text: 0,
            totals: Totals::default(),
        })
    }

    fn no_keys(&mut self) {
        for values in &mut self.keys {
            match values {
                Values::Text(text) => text.append_null(),
                Values::Number(numbers) => numbers.append_null(),
            }
        }
    }

    fn end_row(&mut self) -> Result<()> {
        if self.sequence.len() < BATCH && self.text < TEXT { Ok(()) } else { self.write_batch() }
    }

    fn write_batch(&mut self) -> Result<()> {
        if self.sequence.is_empty() {
            return Ok(());
        }
        self.text = 0;
        let mut arrays: Vec<ArrayRef> = vec![
            Arc::new(self.sequence.finish()),
            Arc::new(self.time.finish()),
            Arc::new(self.length.finish()),
            Arc::new(self.original.finish()),
        ];
        for values in &mut self.keys {
            arrays.push(match values {
                Values::Text(text) => Arc::new(text.finish()),
                Values::Number(numbers) => Arc::new(numbers.finish()),
            });
        }
        arrays.push(Arc::new(self.gap.finish()));
        arrays.push(Arc::new(self.missing.finish()));
        arrays.push(Arc::new(self.until.finish()));
        RecordBatch::try_new(self.schema.clone(), arrays)
            .and_then(|batch| match &mut self.container {
                Container::Stream(writer) => writer.write(&batch),
                Container::File(writer) => writer.write(&batch),
            })
            .map_err(|e| failed(&self.name, e))
    }
}

impl Exporter for Arrow {
    fn element_cut(
        &mut self,
        sequence: u64,
        time: Timestamp,
        parts: &[&[u8]],
        keys: &Keys<'_>,
        cut: u32,
    ) -> Result<()> {
        // Before anything is appended, so that a refused element leaves no half of a row.
        for (index, column) in self.columns.iter().enumerate() {
            if let (ColumnKind::Number, Some(text)) = (column.kind, value(&self.columns, index, keys))
                && number(text).is_none()
            {
                return Err(Error::usage(format!(
                    "{}: the key {} of element {sequence} is '{}', which is no number; export it as text",
                    self.name,
                    column.name,
                    text.escape_default()
                )));
            }
        }
        self.totals.elements += 1;
        self.sequence.append_value(sequence);
        self.time.append_value(time.0);
        let length = parts.iter().map(|p| p.len() as u64).sum();
        self.length.append_value(length);
        self.original.append_value(length + u64::from(cut));
        for (index, values) in self.keys.iter_mut().enumerate() {
            let value = value(&self.columns, index, keys);
            match values {
                Values::Text(text) => text.append_option(value),
                Values::Number(numbers) => numbers.append_option(value.and_then(number)),
            }
            self.text += value.map_or(0, str::len);
        }
        self.gap.append_null();
        self.missing.append_null();
        self.until.append_null();
        self.end_row()
    }

    fn has_keys(&self) -> bool {
        true
    }

    fn gap(&mut self, gap: &Gap) -> Result<()> {
        self.totals.gaps += 1;
        self.sequence.append_null();
        self.time.append_value(gap.first.0);
        self.length.append_null();
        self.original.append_null();
        self.no_keys();
        self.gap.append_value(gap.cause.name());
        self.missing.append_option(gap.count);
        self.until.append_value(gap.last.0);
        self.end_row()
    }

    fn expired(&mut self, range: Range<u64>) -> Result<()> {
        self.totals.count_expired(&range);
        self.sequence.append_value(range.start);
        self.time.append_null();
        self.length.append_null();
        self.original.append_null();
        self.no_keys();
        self.gap.append_value(EXPIRED);
        self.missing.append_value(range.end.saturating_sub(range.start));
        self.until.append_null();
        self.end_row()
    }

    fn flush(&mut self) -> Result<()> {
        self.write_batch()?;
        match &mut self.container {
            Container::Stream(writer) => writer.get_mut().push(),
            Container::File(writer) => writer.get_mut().push(),
        }
    }

    fn finish(mut self: Box<Self>) -> Result<Totals> {
        self.write_batch()?;
        match &mut self.container {
            Container::Stream(writer) => writer.finish(),
            Container::File(writer) => writer.finish(),
        }
        .map_err(|e| failed(&self.name, e))?;
        self.flush()?;
        Ok(self.totals)
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn failed(name: &str, error: ArrowError) -> Error {
    match error {
        ArrowError::IoError(_, error) => Out::failed(name, &error),
        other => Error::usage(format!("{name}: the table cannot be written as Arrow: {other}")),
    }
}

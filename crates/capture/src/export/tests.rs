use super::{ArrowFormat, Column, ColumnKind, Exporter, Format, Totals, exporter};
use crate::testing::{EPOCH, Shared};
use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampNanosecondType, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, TimeUnit};
use forebay_model::packet::LinkType;
use forebay_model::{Cause, Gap, Kind, Result, Timestamp};
use std::io::{Cursor, ErrorKind, Write};

fn columns() -> Vec<Column> {
    let column = |name: &str, kind| Column { name: name.into(), kind };
    vec![column("src", ColumnKind::Text), column("port", ColumnKind::Number)]
}

fn gap(count: Option<u64>) -> Gap {
    Gap { cause: Cause::Overflow, count, first: EPOCH, last: Timestamp(EPOCH.0 + 1_000_000_000) }
}

/// Two elements, two gaps and an expired range.
fn fill(exporter: &mut dyn Exporter) -> Result<()> {
    exporter.expired(3..7)?;
    exporter.element(7, EPOCH, &[b"ab", b"c"], &[("src", "10.0.0.1"), ("port", "53")])?;
    exporter.gap(&gap(Some(12)))?;
    exporter.gap(&gap(None))?;
    // Keys in another order, one that is no column, one that is missing.
    exporter.element_cut(8, Timestamp(EPOCH.0 + 1), &[], &[("vlan", "4"), ("src", "a,\"b\"\n")], 1500)
}

fn export(format: Format) -> (Vec<u8>, Totals) {
    let output = Shared::default();
    let mut exporter = exporter(format, Box::new(output.clone()), "out").unwrap();
    fill(&mut *exporter).unwrap();
    let totals = exporter.finish().unwrap();
    (output.bytes(), totals)
}

const TOTALS: Totals = Totals { elements: 2, payload: 3, gaps: 2, left_out: 0, expired: 4 };

#[test]
fn raw_is_the_payload_and_says_what_it_leaves_out() {
    let (bytes, totals) = export(Format::Raw);
    assert_eq!((bytes.as_slice(), totals), (&b"abc"[..], Totals { left_out: 3, ..TOTALS }));
}

#[test]
fn length_prefixes_are_little_endian() {
    let (bytes, totals) = export(Format::LengthPrefixed);
    assert_eq!((bytes.as_slice(), totals), (&b"\x03\0\0\0abc\0\0\0\0"[..], Totals { left_out: 3, ..TOTALS }));
}

#[test]
fn packet_captures_account_for_gaps_or_say_that_they_cannot() {
    let (_, totals) = export(Format::Pcap(LinkType::USER0));
    assert_eq!(totals, Totals { left_out: 3, ..TOTALS });
    let (bytes, totals) = export(Format::Pcapng { link: LinkType::USER0, interface: None });
    assert_eq!(totals, TOTALS);
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.contains("elements 3 to 6 had expired"), "{text}");
}

#[test]
fn csv_has_a_row_for_everything() {
    let (bytes, totals) = export(Format::Csv(columns()));
    assert_eq!(totals, Totals { payload: 0, ..TOTALS });
    let expected = "sequence,time,length,original_length,src,port,gap,missing,until\r\n\
        3,,,,,,expired,4,\r\n\
        7,2023-11-14T22:13:20Z,3,3,10.0.0.1,53,,,\r\n\
        ,2023-11-14T22:13:20Z,,,,,overflow,12,2023-11-14T22:13:21Z\r\n\
        ,2023-11-14T22:13:20Z,,,,,overflow,,2023-11-14T22:13:21Z\r\n\
        8,2023-11-14T22:13:20.000000001Z,0,1500,\"a,\"\"b\"\"\n\",,,,\r\n";
    assert_eq!(String::from_utf8(bytes).unwrap(), expected);
}

fn batches(format: ArrowFormat, bytes: Vec<u8>) -> Vec<RecordBatch> {
    match format {
        ArrowFormat::Stream => arrow_ipc::reader::StreamReader::try_new(Cursor::new(bytes), None)
            .unwrap()
            .collect::<std::result::Result<_, _>>()
            .unwrap(),
        ArrowFormat::File => arrow_ipc::reader::FileReader::try_new(Cursor::new(bytes), None)
            .unwrap()
            .collect::<std::result::Result<_, _>>()
            .unwrap(),
    }
}

#[test]
fn arrow_has_the_same_rows_in_columns_with_types() {
    for format in [ArrowFormat::Stream, ArrowFormat::File] {
        let (bytes, totals) = export(Format::Arrow(format, columns()));
        assert_eq!(totals, Totals { payload: 0, ..TOTALS });
        let batches = batches(format, bytes);
        assert_eq!(batches.len(), 1);
        let batch = &batches[0];
        let schema = batch.schema();
        let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, ["sequence", "time", "length", "original_length", "src", "port", "gap", "missing", "until"]);
        let time = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
        assert_eq!(schema.field_with_name("time").unwrap().data_type(), &time);
        let numbers = |name: &str| {
            let column = batch.column_by_name(name).unwrap().as_primitive::<UInt64Type>();
            (0..column.len()).map(|i| column.is_valid(i).then(|| column.value(i))).collect::<Vec<_>>()
        };
        let texts = |name: &str| {
            let column = batch.column_by_name(name).unwrap().as_string::<i32>();
            (0..column.len()).map(|i| column.is_valid(i).then(|| column.value(i).to_string())).collect::<Vec<_>>()
        };
        let times = |name: &str| {
            let column = batch.column_by_name(name).unwrap().as_primitive::<TimestampNanosecondType>();
            (0..column.len()).map(|i| column.is_valid(i).then(|| column.value(i) - EPOCH.0)).collect::<Vec<_>>()
        };
        let text = |text: &str| Some(text.to_string());
        assert_eq!(numbers("sequence"), [Some(3), Some(7), None, None, Some(8)]);
        assert_eq!(numbers("length"), [None, Some(3), None, None, Some(0)]);
        assert_eq!(numbers("original_length"), [None, Some(3), None, None, Some(1500)]);
        assert_eq!(numbers("port"), [None, Some(53), None, None, None]);
        assert_eq!(numbers("missing"), [Some(4), None, Some(12), None, None]);
        assert_eq!(texts("src"), [None, text("10.0.0.1"), None, None, text("a,\"b\"\n")]);
        assert_eq!(texts("gap"), [text("expired"), None, text("overflow"), text("overflow"), None]);
        assert_eq!(times("time"), [None, Some(0), Some(0), Some(0), Some(1)]);
        assert_eq!(times("until"), [None, None, Some(1_000_000_000), Some(1_000_000_000), None]);
    }
}

#[test]
fn arrow_comes_in_batches_of_65536_rows_and_whenever_it_is_flushed() {
    let output = Shared::default();
    let mut exporter = exporter(Format::Arrow(ArrowFormat::Stream, vec![]), Box::new(output.clone()), "out").unwrap();
    for sequence in 0..70_000 {
        exporter.element(sequence, EPOCH, &[], &[]).unwrap();
    }
    exporter.flush().unwrap();
    exporter.element(70_000, EPOCH, &[], &[]).unwrap();
    exporter.finish().unwrap();
    let batches = batches(ArrowFormat::Stream, output.bytes());
    assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [65_536, 4_464, 1]);
}

#[test]
fn a_key_that_is_no_number_is_refused_and_leaves_no_half_of_a_row() {
    let output = Shared::default();
    let format = Format::Arrow(ArrowFormat::Stream, columns());
    let mut exporter = exporter(format, Box::new(output.clone()), "out").unwrap();
    let error = exporter.element(1, EPOCH, &[], &[("src", "x"), ("port", "http")]).unwrap_err();
    assert_eq!(error.message, "out: the key port of element 1 is 'http', which is no number; export it as text");
    exporter.element(2, EPOCH, &[], &[("src", "x"), ("port", "0x50")]).unwrap();
    exporter.finish().unwrap();
    assert_eq!(batches(ArrowFormat::Stream, output.bytes())[0].num_rows(), 1);
}

#[test]
fn keys_whose_columns_would_collide_are_refused() {
    let column = |name: &str| Column { name: name.into(), kind: ColumnKind::Text };
    let refused = |columns| {
        let format = Format::Csv(columns);
        exporter(format, Box::new(std::io::sink()), "out").err().unwrap().message
    };
    assert!(refused(vec![column("time")]).contains("'time' collides"));
    assert!(refused(vec![column("a"), column("a")]).contains("'a' is there twice"));
}

/// An output that fails after some bytes.
struct Failing(usize, ErrorKind);

impl Write for Failing {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0 == 0 {
            return Err(self.1.into());
        }
        let n = bytes.len().min(self.0);
        self.0 -= n;
        Ok(n)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_output_that_fails_is_named_with_the_remedy() {
    let formats = [
        Format::Raw,
        Format::LengthPrefixed,
        Format::Csv(columns()),
        Format::Pcap(LinkType::USER0),
        Format::Pcapng { link: LinkType::USER0, interface: None },
        Format::Arrow(ArrowFormat::Stream, columns()),
        Format::Arrow(ArrowFormat::File, columns()),
    ];
    for format in formats {
        for (cause, kind, words) in [
            (ErrorKind::StorageFull, Kind::Full, "no space is left"),
            (ErrorKind::BrokenPipe, Kind::Disconnected, "went away"),
            (ErrorKind::Other, Kind::Device, "failed"),
        ] {
            let ended = exporter(format.clone(), Box::new(Failing(2, cause)), "big.out").and_then(|mut exporter| {
                fill(&mut *exporter)?;
                exporter.finish()
            });
            let error = ended.unwrap_err();
            assert_eq!(error.kind, kind, "{format:?}: {error}");
            assert!(error.message.starts_with("big.out: ") && error.message.contains(words), "{format:?}: {error}");
        }
    }
}

#[test]
fn elements_too_large_for_a_format_are_refused_with_the_numbers() {
    let large = vec![0; 300_000];
    for format in [Format::Pcap(LinkType::USER0), Format::Pcapng { link: LinkType::USER0, interface: None }] {
        let mut exporter = exporter(format, Box::new(std::io::sink()), "out").unwrap();
        let error = exporter.element(0, EPOCH, &[&large], &[]).unwrap_err();
        assert!(error.message.contains("300000 bytes") && error.message.contains("length-prefixed"), "{error}");
    }
}

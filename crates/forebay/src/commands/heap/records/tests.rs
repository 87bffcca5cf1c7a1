use super::{Format, from_line, whole, write};
use crate::show::out::Out;
use base64::prelude::{BASE64_STANDARD, Engine};
use forebay_client::heaps::{LARGEST_RECORD, RecordId};
use forebay_env::real::file::{self, File};
use forebay_model::Kind;

#[test]
fn a_line_has_data_or_text_and_whatever_else() {
    assert_eq!(from_line(br#"{"text": "a\nb\u00e4"}"#), Ok("a\nb\u{e4}".as_bytes().to_vec()));
    assert_eq!(from_line(br#" {"data": "AAH/", "id": "00"} "#), Ok(vec![0, 1, 255]));
    for (line, words) in [
        ("", "no such JSON"),
        ("[]", "no such JSON"),
        ("text", "no such JSON"),
        (r#"{"text": 5}"#, "no such JSON"),
        (r#"{"text": "a"} {"text": "b"}"#, "no such JSON"),
        (r#"{"data": "AAH"}"#, "no base64"),
        (r#"{"data": "AAH/", "text": "a"}"#, "both data and text"),
        (r#"{"id": "0000000000000000"}"#, "neither data nor text"),
        (r#"{"text": ""}"#, "1 to 67108864 bytes"),
        (r#"{"data": ""}"#, "1 to 67108864 bytes"),
    ] {
        let error = from_line(line.as_bytes()).expect_err(line);
        assert!(error.kind == Kind::Usage && error.message.contains(words), "{line}: {error}");
    }
}

#[test]
fn what_is_written_as_lines_is_read_from_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let records: Vec<Vec<u8>> = (1..70_u8).map(|n| (0..n).map(|at| at.wrapping_mul(n)).collect()).collect();
    let mut out = Out::over(File::create(&path).unwrap());
    for record in &records {
        write(&mut out, Format::Lines, RecordId::from_number(7), record).unwrap();
    }
    out.flush().unwrap();
    let text = file::read_text(&path).unwrap();
    let read: Vec<Vec<u8>> = text.lines().map(|line| from_line(line.as_bytes()).unwrap()).collect();
    assert_eq!(read, records);
    assert!(text.lines().all(|line| line.contains("\"id\":\"0000000000000007\"")), "{text}");
    assert_eq!(BASE64_STANDARD.encode(&records[0]), "AA==");
}

#[test]
fn of_a_source_that_is_too_large_no_more_is_read_than_shows_that() {
    let endless = std::io::repeat(1);
    assert_eq!(whole(&mut { endless }).unwrap().len(), LARGEST_RECORD + 1);
}

//! The bytes of `docs/format/copies.md`, written out. A difference is a new version of the format.

use super::{Found, HEAD, Record};
use forebay_model::block::crc32c;
use forebay_model::{Kind, Timestamp};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn records() -> [(Record, &'static str); 4] {
    let begin = Record::Begin { cluster: 0xc1, term: 2, base: 0x200001, after: 9, begun: Timestamp(-1) };
    let writes = vec![(b"X".to_vec(), Some(vec![1, 2])), (b"I".to_vec(), None)];
    let changes = Record::Changes { batch: 300, more: true, at: Timestamp(1), writes };
    let piece = Record::Piece { pairs: vec![(b"X".to_vec(), vec![1, 2])] };
    [
        (begin, "00c10102818080010901"),
        (changes, "01ac020102020158010201020149 00"),
        (piece, "02010158020102"),
        (Record::Whole { at: Timestamp(1) }, "0302"),
    ]
}

#[test]
fn records_have_the_bytes_that_are_written_down() {
    for (record, body) in records() {
        let bytes = record.to_bytes().unwrap();
        let body = body.replace(' ', "");
        let head = format!("4642434f5059000001000000{}", hex(&((bytes.len() - HEAD) as u32).to_le_bytes()));
        assert_eq!(hex(&bytes[..16]), head);
        assert_eq!(bytes[16..20], (crc32c(&bytes[HEAD..]) ^ crc32c(&bytes[..16])).to_le_bytes());
        assert_eq!(hex(&bytes[HEAD..]), body, "{record:?}");
        let found = Record::find(&[&bytes[..], b"more"].concat()).unwrap();
        assert!(matches!(found, Found::Record(other, length) if other == record && length == bytes.len()));
    }
}

#[test]
fn a_record_of_which_any_bit_is_another_one_or_an_end_is_missing_is_none() {
    for (record, _) in records() {
        let bytes = record.to_bytes().unwrap();
        for length in 0..bytes.len() {
            assert!(matches!(Record::find(&bytes[..length]), Ok(Found::Part)), "{record:?}: {length} bytes of it");
        }
        for bit in 0..8 * bytes.len() {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            // One that is said to be longer may be there in part.
            let found = Record::find(&bytes);
            assert!(matches!(found, Ok(Found::Nothing | Found::Part)), "{record:?}: bit {bit}");
        }
    }
}

#[test]
fn a_record_of_a_newer_version_is_refused_and_never_passed_over() {
    let mut bytes = Record::Whole { at: Timestamp(1) }.to_bytes().unwrap();
    bytes[8] = 2;
    let crc = crc32c(&bytes[HEAD..]) ^ crc32c(&bytes[..16]);
    bytes[16..20].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(Record::find(&bytes).err().unwrap().kind, Kind::Version);
}

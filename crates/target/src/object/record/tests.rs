use super::{Change, Found, HEADER, Record, Stamp, VERSION, Write, decode, encode, finish, header_crc};
use crate::object::rows::{BLOCK, Crcs, Head, Piece, Quota};
use crate::object::testing::id;
use crate::seeds::each;
use forebay_model::Timestamp;

const MARK: u128 = 0x0123_4567_89ab_cdef_0011_2233_4455_6677;
const STAMP: Stamp = Stamp { mark: MARK, epoch: 3, number: 1000, durable: 990, group: 5, block: 11 };

/// A record of `changes` with `content` behind it, as it lies in a log.
fn written(changes: &[Change], content: &[u8]) -> Vec<u8> {
    let mut bytes = encode(changes).unwrap();
    finish(&mut bytes, &STAMP, (content.len() as u64 / BLOCK.0) as u32);
    bytes.extend(content);
    bytes
}

fn read(bytes: &[u8]) -> Found {
    decode(MARK, STAMP.group, STAMP.block, bytes)
}

fn record(bytes: &[u8]) -> Record {
    match read(bytes) {
        Found::Record(record) => *record,
        other => panic!("it is {other:?}"),
    }
}

fn write(logged: Vec<(u64, Crcs)>) -> Write {
    let pieces = vec![(90, Piece { at: 7000, crcs: Crcs(vec![1, 2, 3]) })];
    let inline = Some(vec![5, 6, 7]);
    Write { id: id(4), time: Timestamp(-9), size: 12345, commands: 2, dropped: Some((3, 9)), logged, inline, pieces }
}

/// A record with two blocks of data, and the bytes of its body.
fn with_data() -> (Vec<u8>, usize) {
    let content: Vec<u8> = (0..2 * BLOCK.0).map(|n| (n * 7 + n / 256) as u8).collect();
    let crcs = Crcs::of(&content);
    let (one, two) = (Crcs(vec![crcs.0[0]]), Crcs(vec![crcs.0[1]]));
    let changes = [Change::Write(write(vec![(5, one), (8, two)]))];
    let bytes = written(&changes, &content);
    let body = u32::from_le_bytes(bytes[64..68].try_into().unwrap()) as usize;
    (bytes, body)
}

#[test]
fn a_record_of_every_change_is_read_back_as_it_was_written() {
    let head = Head {
        size: 1,
        created: Timestamp(1),
        modified: Timestamp(2),
        changed: Timestamp(3),
        version: 4,
        blocks: 5,
        volume: None,
    };
    let changes = vec![
        Change::Create { id: id(1), head },
        Change::Remove { id: id(2) },
        Change::Write(write(Vec::new())),
        Change::Move { id: id(3), pieces: vec![(0, Piece { at: 1, crcs: Crcs(vec![9]) })] },
        Change::Attributes { id: id(1), time: Timestamp(5), set: vec![(1, 2, Some(vec![3; 5000])), (1, 3, None)] },
        Change::Quota { id: id(0), time: Timestamp(6), quota: Quota::default() },
        Change::Opens(vec![1, 2, 3]),
    ];
    let found = record(&written(&changes, &[]));
    assert_eq!(found, Record { stamp: STAMP, changes, blocks: 2, data: 0, whole: true });
    let (bytes, _) = with_data();
    let found = record(&bytes);
    assert_eq!((found.blocks, found.data, found.whole), (1, 2, true));
}

#[test]
fn every_flipped_bit_of_the_header_makes_it_nothing() {
    let (mut bytes, _) = with_data();
    for bit in 0..HEADER * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(matches!(read(&bytes), Found::Nothing), "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn every_flipped_bit_of_the_body_makes_it_torn() {
    let (mut bytes, body) = with_data();
    for bit in HEADER * 8..(HEADER + body) * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(matches!(read(&bytes), Found::Torn(STAMP)), "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn every_flipped_bit_of_the_data_is_noticed_and_costs_only_the_data() {
    let (mut bytes, _) = with_data();
    let whole = record(&bytes);
    for bit in BLOCK.0 as usize * 8..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(record(&bytes), Record { whole: false, ..whole.clone() }, "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn a_record_of_another_target_log_or_place_is_nothing() {
    let (bytes, _) = with_data();
    assert!(matches!(decode(1, 5, 11, &bytes), Found::Nothing));
    assert!(matches!(decode(MARK, 6, 11, &bytes), Found::Nothing));
    // A newer version of what somebody else wrote keeps nobody from opening.
    let mut newer = bytes.clone();
    newer[8..12].copy_from_slice(&(VERSION + 1).to_le_bytes());
    let crc = header_crc(&newer);
    newer[12..16].copy_from_slice(&crc.to_le_bytes());
    assert!(matches!(read(&newer), Found::Newer(_)));
    assert!(matches!(decode(1, 5, 11, &newer), Found::Nothing));
    assert!(matches!(decode(MARK, 5, 12, &bytes), Found::Nothing));
    assert!(matches!(read(&vec![0; 4096]), Found::Nothing));
    assert!(matches!(read(&[]), Found::Nothing));
    // None can say of itself that it had been durable when it was written.
    let mut bytes = bytes;
    finish(&mut bytes, &Stamp { durable: STAMP.number, ..STAMP }, 2);
    assert!(matches!(read(&bytes), Found::Nothing));
}

#[test]
fn a_record_that_was_cut_off_is_torn() {
    let (bytes, body) = with_data();
    assert!(matches!(read(&bytes[..HEADER - 1]), Found::Nothing));
    assert!(matches!(read(&bytes[..HEADER]), Found::Torn(STAMP)));
    assert!(matches!(read(&bytes[..HEADER + body - 1]), Found::Torn(STAMP)));
    // Its data would go beyond the log's end.
    assert!(matches!(read(&bytes[..bytes.len() - 1]), Found::Torn(STAMP)));
    let mut long = bytes;
    finish(&mut long, &STAMP, u32::MAX);
    assert!(matches!(read(&long), Found::Torn(STAMP)));
}

#[test]
fn a_record_of_a_newer_version_is_told_from_nothing() {
    let (mut bytes, _) = with_data();
    bytes[8..12].copy_from_slice(&(VERSION + 1).to_le_bytes());
    let crc = header_crc(&bytes);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    assert!(matches!(read(&bytes), Found::Newer(newer) if newer == VERSION + 1));
}

#[test]
fn whatever_lies_in_a_log_is_read_without_harm() {
    each(300, |random| {
        let (mut bytes, body) = with_data();
        for _ in 0..1 + random.below(4) {
            let at = random.below((HEADER + body) as u64) as usize;
            bytes[at] = random.next() as u8;
        }
        // Even with a header that says that it is right.
        let crc = header_crc(&bytes);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        let length = random.below(bytes.len() as u64 + 1) as usize;
        if let Found::Record(record) = read(&bytes[..length]) {
            let all = u64::from(record.blocks + record.data) * BLOCK.0;
            assert!(all <= bytes.len() as u64 + BLOCK.0, "{record:?}");
        }
    });
}

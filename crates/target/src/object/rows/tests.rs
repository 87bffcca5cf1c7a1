use super::{
    BLOCK, Crcs, Head, Key, LEAF_VERSION, Logged, Part, Piece, Quota, Row, Rows, Volume, decode_leaf, encode_leaf,
};
use forebay_model::block::crc32c;
use forebay_model::{Kind, ObjectId, TargetId, Timestamp};

const TARGET: TargetId = TargetId(0x1234_5678_9abc);

fn id(volume: u64, object: u64) -> ObjectId {
    ObjectId { volume, object }
}

fn attribute(object: u64, page: u32, number: u32) -> Key {
    Key { id: id(1, object), part: Part::Attribute { page, number } }
}

/// One row of each kind.
fn rows() -> Rows {
    let quota = Quota { hard_bytes: 1 << 40, ..Quota::default() };
    let head = |volume| Head {
        size: 9000,
        created: Timestamp(-5),
        modified: Timestamp(7),
        changed: Timestamp(8),
        version: 3,
        blocks: 4,
        volume,
    };
    Rows::from([
        (Key::free(7), Row::Free(vec![(0, 3), (17, 200)])),
        (Key::head(id(1, 0)), Row::Head(head(Some(Volume { objects: 1, blocks: 4, quota })))),
        (Key::head(id(1, 5)), Row::Head(head(None))),
        (attribute(5, 9, 1), Row::Attribute(b"a value".to_vec())),
        (Key::inline(id(1, 6)), Row::Inline(b"all of a small object".to_vec())),
        (Key::piece(id(1, 5), 0), Row::Piece(Piece { at: 5000, crcs: Crcs(vec![1, 0x0102_0304, u32::MAX]) })),
        (Key::logged(id(1, 5), 1), Row::Logged(Logged { at: 600, crc: 77 })),
    ])
}

#[test]
fn a_leaf_is_read_back_as_it_was_written() {
    for rows in [Rows::new(), rows()] {
        let bytes = encode_leaf(TARGET, Key::FIRST, &rows).unwrap();
        assert!((bytes.len() as u64).is_multiple_of(BLOCK.0));
        assert_eq!(decode_leaf(TARGET, Key::FIRST, crc32c(&bytes), &bytes).unwrap(), rows);
    }
}

#[test]
fn every_flipped_bit_of_a_leaf_is_noticed() {
    let mut bytes = encode_leaf(TARGET, Key::FIRST, &rows()).unwrap();
    let crc = crc32c(&bytes);
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        let error = decode_leaf(TARGET, Key::FIRST, crc, &bytes).expect_err("a flipped bit");
        assert_eq!(error.kind, Kind::Damaged, "bit {bit}: {error}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn a_leaf_of_another_target_place_or_length_is_damage_though_its_checksum_matches() {
    let bytes = encode_leaf(TARGET, Key::FIRST, &rows()).unwrap();
    let kind =
        |target, first, bytes: &[u8]| decode_leaf(target, first, crc32c(bytes), bytes).expect_err("it is not").kind;
    assert_eq!(kind(TargetId(1), Key::FIRST, &bytes), Kind::Damaged);
    assert_eq!(kind(TARGET, Key::head(id(1, 5)), &bytes), Kind::Damaged);
    assert_eq!(kind(TARGET, Key::FIRST, &vec![0; 4096]), Kind::Damaged);
    assert_eq!(kind(TARGET, Key::FIRST, &[]), Kind::Damaged);
    let mut long = bytes;
    long[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(kind(TARGET, Key::FIRST, &long), Kind::Damaged);
}

#[test]
fn a_leaf_of_a_newer_version_is_refused_and_not_guessed_at() {
    let mut bytes = encode_leaf(TARGET, Key::FIRST, &rows()).unwrap();
    bytes[8..12].copy_from_slice(&(LEAF_VERSION + 1).to_le_bytes());
    let error = decode_leaf(TARGET, Key::FIRST, crc32c(&bytes), &bytes).expect_err("it is newer");
    assert_eq!(error.kind, Kind::Version, "{error}");
}

#[test]
fn rows_stand_in_the_order_in_which_they_are_looked_for() {
    let order = [
        Key::FIRST,
        Key::free(0),
        Key::free(8000),
        Key::end_of(ObjectId::ROOT),
        Key::head(id(1, 0)),
        Key::head(id(1, 5)),
        attribute(5, 1, 9),
        attribute(5, 2, 0),
        attribute(5, u32::MAX, u32::MAX),
        Key::inline(id(1, 5)),
        Key::piece(id(1, 5), 0),
        Key::piece(id(1, 5), u64::MAX),
        Key::logged(id(1, 5), 0),
        Key::logged(id(1, 5), u64::MAX),
        Key::end_of(id(1, 5)),
        Key::head(id(1, 6)),
        Key::head(id(2, 0)),
    ];
    assert!(order.is_sorted_by(|a, b| a < b));
}

#[test]
fn the_weight_of_a_row_is_never_less_than_its_bytes() {
    let most = |n: usize| vec![u32::MAX; n];
    let volume = Volume { objects: u64::MAX, blocks: u64::MAX, quota: Quota::default() };
    let head = Head {
        size: u64::MAX,
        created: Timestamp(i64::MIN),
        modified: Timestamp(i64::MIN),
        changed: Timestamp(i64::MIN),
        version: u64::MAX,
        blocks: u64::MAX,
        volume: Some(volume),
    };
    let rows = [
        Row::Head(head),
        Row::Attribute(vec![255; 4096]),
        Row::Inline(vec![255; 1024]),
        Row::Piece(Piece { at: u64::MAX, crcs: Crcs(most(1024)) }),
        Row::Logged(Logged { at: u64::MAX, crc: u32::MAX }),
        Row::Free(most(300).into_iter().map(|n| (n, n)).collect()),
    ];
    let longest = Key { id: ObjectId::LAST, part: Part::Logged(u64::MAX) };
    for row in rows {
        let bytes = postcard::to_stdvec(&(longest, &row)).unwrap().len();
        assert!(bytes <= row.weight(), "{bytes} bytes weigh {}", row.weight());
    }
}

#[test]
fn checksums_that_are_cut_off_are_not_read() {
    let bytes = postcard::to_stdvec(&Crcs(vec![1, 2])).unwrap();
    assert_eq!(bytes, [8, 1, 0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(postcard::from_bytes::<Crcs>(&bytes).unwrap(), Crcs(vec![1, 2]));
    assert!(postcard::from_bytes::<Crcs>(&[7, 1, 0, 0, 0, 2, 0, 0]).is_err());
}

use super::{Piece, Pieces};
use crate::checksum::crc32c;
use bytes::Bytes;
use forebay_model::sums::SUMMED;

fn of(parts: &[&[u8]]) -> Pieces {
    Pieces::from(parts.iter().map(|part| Bytes::copy_from_slice(part)).collect::<Vec<_>>())
}

#[test]
fn pieces_are_the_same_however_they_are_cut() {
    let (one, other) = (of(&[b"ab", b"", b"cde"]), of(&[b"abcd", b"e"]));
    assert_eq!(one, other);
    assert_eq!(one.iter().count(), 2);
    assert_ne!(one, of(&[b"abcdf"]));
    assert_ne!(one, of(&[b"abcd"]));
    assert_eq!(one.into_vec(), b"abcde");
    assert_eq!(of(&[]).into_vec(), b"");
}

#[test]
fn what_is_taken_ends_where_it_is_said_also_within_a_piece() {
    let mut pieces = of(&[b"abc", b"def", b"g"]);
    let mut take = |length| pieces.take(length).iter().map(<[u8]>::to_vec).collect::<Vec<_>>();
    assert_eq!(take(0), Vec::<Vec<u8>>::new());
    assert_eq!(take(4), [&b"abc"[..], b"d"]);
    assert_eq!(take(2), [b"ef"]);
    assert_eq!(take(9), [b"g"]);
    assert_eq!(take(1), Vec::<Vec<u8>>::new());
    assert!(pieces.is_empty());
}

#[test]
fn a_single_piece_that_nobody_else_has_is_not_copied() {
    let bytes = vec![7; 1000];
    let at = bytes.as_ptr();
    let whole = Pieces::from(bytes).into_vec();
    assert_eq!((whole.as_ptr(), whole), (at, vec![7; 1000]));
}

#[test]
fn wherever_blocks_that_are_summed_are_cut_the_checksums_are_those_of_the_bytes() {
    let bytes: Vec<u8> = (0..5 * SUMMED as u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 37) as u8).collect();
    let sums: Vec<u32> = bytes.chunks(SUMMED).map(crc32c).collect();
    let whole = || Piece::new(bytes.clone().into(), sums.clone());
    let all = [&b"before"[..], &bytes[..], &bytes[..]].concat();
    for length in [1, 5, 100, SUMMED - 1, SUMMED, SUMMED + 7, 3 * SUMMED, 7 * SUMMED + 11, all.len()] {
        let mut left = Pieces::from(vec![Bytes::from_static(b"before").into(), whole(), whole()]);
        assert_eq!((left.len(), left.sum()), (all.len(), crc32c(&all)));
        for part in all.chunks(length) {
            let taken = left.take(length);
            assert_eq!((taken.len(), taken.sum()), (part.len(), crc32c(part)), "{length} at once");
            assert_eq!(taken.into_vec(), part);
        }
        assert!(left.is_empty());
    }
}

#[test]
fn a_block_that_is_known_is_not_gone_through_again() {
    let wrong = Piece::new(vec![0; SUMMED].into(), vec![77]);
    assert_eq!(Pieces::from(vec![wrong]).sum(), 77);
}

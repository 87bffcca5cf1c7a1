use super::{SUMMED, Sum};
use crate::block::crc32c;

/// Bytes that differ everywhere.
fn bytes(length: usize) -> Vec<u8> {
    (0..length as u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 37) as u8).collect()
}

#[test]
fn the_checksum_of_all_is_the_same_whether_blocks_are_gone_through_or_their_checksums_are_known() {
    let all = bytes(9 * SUMMED + 777);
    // Where blocks begin whose checksums are known; what is between them is gone through.
    let cases: [&[usize]; 6] =
        [&[], &[0], &[0, SUMMED, 2 * SUMMED], &[1], &[300, 300 + SUMMED, 5 * SUMMED], &[8 * SUMMED + 777]];
    for known in cases {
        let (mut sum, mut at) = (Sum::default(), 0);
        for &block in known {
            sum.update(&all[at..block]);
            sum.update_block(crc32c(&all[block..block + SUMMED]));
            at = block + SUMMED;
        }
        sum.update(&all[at..]);
        assert_eq!(sum.finish(), crc32c(&all), "with blocks at {known:?}");
    }
}

#[test]
fn the_checksum_of_nothing_is_nothing_and_a_block_that_differs_makes_another_one() {
    assert_eq!(Sum::default().finish(), crc32c(&[]));
    let mut sum = Sum::default();
    sum.update_block(crc32c(&bytes(SUMMED)) ^ 1);
    sum.update(b"behind");
    assert_ne!(sum.finish(), crc32c(&[&bytes(SUMMED)[..], b"behind"].concat()));
}

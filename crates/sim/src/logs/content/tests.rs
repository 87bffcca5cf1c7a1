use super::*;

#[test]
fn on_a_real_disk_nothing_repeats_within_a_write_nor_in_the_next_one() {
    let content = Content::new(64 << 10, true);
    let (one, next) = (content.at(0, 64 << 10), content.at(64 << 10, 64 << 10));
    let mut blocks: Vec<&[u8]> = one.chunks(512).chain(next.chunks(512)).collect();
    let count = blocks.len();
    blocks.sort_unstable();
    blocks.dedup();
    assert_eq!(blocks.len(), count);
    assert!(content.at(u64::MAX, 4096).iter().any(|byte| *byte != 0));
}

#[test]
fn on_a_simulated_disk_all_is_the_same() {
    let content = Content::new(64 << 10, false);
    assert_eq!(content.at(0, 4096), content.at(8192, 4096));
}

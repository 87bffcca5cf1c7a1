use super::*;
use crate::World;

#[test]
fn files_and_log_touch_nothing_of_one_another() {
    for (size, disks) in [(300_000_739_328, 1), (1_000_204_886_016, 1), (4 * 300_000_739_328, 4), (4_000_000_000, 1)] {
        let places = Places::new(Bytes(size), disks).unwrap();
        let mut ranges = vec![places.read.clone(), places.written.clone(), places.log.clone()];
        ranges.extend(places.files.iter().map(|file| file.start - INODE..file.end));
        ranges.sort_by_key(|range| range.start);
        assert_eq!(ranges.len() as u64, 3 + FILES * disks);
        assert!(ranges.iter().all(|range| range.start < range.end && range.end <= size), "{ranges:?}");
        assert!(ranges.is_sorted_by(|a, b| a.end <= b.start), "{ranges:?}");
    }
}

#[test]
fn a_round_writes_one_block_in_each_file() {
    let world = World::new(1);
    let places = Places::new(Bytes(300_000_739_328), 1).unwrap();
    let round = places.round(&*world.random());
    assert_eq!(round.len() as u64, FILES);
    for (write, file) in round.iter().zip(&places.files) {
        assert!(file.start <= write.at.0 && write.at.0 + BLOCK.0 <= file.end);
        assert!(write.at.0.is_multiple_of(BLOCK.0) && write.inode.0.is_multiple_of(BLOCK.0));
    }
    assert_ne!(round, places.round(&*world.random()));
}

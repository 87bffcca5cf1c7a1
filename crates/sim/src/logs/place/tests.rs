use super::*;
use crate::World;

#[test]
fn files_and_log_touch_nothing_of_one_another() {
    for (size, disks) in
        [(300_000_739_328, 1), (1_000_204_886_016, 1), (4 * 300_000_739_328, 4), (4_000_000_000, 1), (170_000_000, 1)]
    {
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

#[test]
fn files_are_smaller_on_a_small_disk_so_that_the_reader_has_room() {
    let length = |range: &Range<u64>| range.end - range.start;
    let small = Places::new(Bytes::gib(1), 1).unwrap();
    assert!(length(&small.read) > 2 * length(&small.files[0]), "{:?}, {:?}", small.read, small.files[0]);
    let large = Places::new(Bytes::gib(500), 1).unwrap();
    assert_eq!((length(&large.read) / 1_000_000, length(&large.files[0])), (1_999, FILE.0));
    assert!(Places::new(Bytes::mib(159), 1).is_err());
}

#[test]
fn the_readers_file_begins_at_the_same_place_of_each_disk() {
    let size = Bytes(300_000_739_328);
    let [one, four] = [1, 4].map(|disks| reader_begins(size, disks).unwrap());
    assert!(one.0.abs_diff(size.0 / 4) < 1 << 20 && four.0.abs_diff(one.0) < 1 << 20, "{one}, {four}");
}

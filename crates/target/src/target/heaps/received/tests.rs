use super::*;
use crate::fake::{Fake, Op};
use crate::heap::HeapOptions;
use forebay_model::heap::HeapSettings;
use std::rc::Rc;
use std::time::Duration;

const NAME: &str = "/heap/1/2a";
const STAMP: Stamp = Stamp { target: 99, heap: 3 };

/// The image of a heap with one record, and its stamp.
fn image() -> (Stamp, Vec<u8>) {
    let fake = Fake::new(Bytes::mib(64), false);
    let target = fake.target();
    let heap = fake.run(target.create_heap(NAME, HeapSettings::default(), HeapOptions::default())).unwrap();
    let id = fake.run(heap.put(b"moved")).unwrap();
    fake.run(heap.commit(Some(id))).unwrap();
    let unread = heap.unread(None, 0).unwrap();
    (unread.stamp, fake.run(heap.image(unread.watch, 0..unread.units as u32)).unwrap())
}

/// How many groups nobody has.
fn free(target: &Rc<Target>) -> usize {
    target.core.groups_of(GroupClass::Free).len()
}

#[test]
fn what_is_not_all_there_is_no_heap_and_its_space_is_free_again_after_a_crash_and_when_it_is_deleted() {
    let (stamp, image) = image();
    let fake = Fake::new(Bytes::mib(64), false);
    let mut target = fake.target();
    let before = free(&target);
    for ends in ["a crash", "deleted"] {
        fake.run(target.receive_heap(NAME, stamp, 9)).unwrap();
        fake.run(target.write_units(NAME, 0, &image)).unwrap();
        assert!(free(&target) < before, "{ends}");
        assert_eq!(fake.run(target.heap(NAME, HeapOptions::default())).map(drop).unwrap_err().kind, Kind::Missing);
        assert_eq!(target.heap_names(), []);
        // Nobody takes another one in under this name, nor makes one.
        assert_eq!(fake.run(target.receive_heap(NAME, STAMP, 9)).unwrap_err().kind, Kind::Exists);
        let made = fake.run(target.create_heap(NAME, HeapSettings::default(), HeapOptions::default()));
        assert_eq!(made.map(drop).unwrap_err().kind, Kind::Exists);
        if ends == "deleted" {
            fake.run(target.delete_heap(NAME)).unwrap();
        } else {
            drop(target);
            fake.kill();
            target = fake.run(Target::open(fake.env())).unwrap();
        }
        assert_eq!(free(&target), before, "{ends}");
        assert_eq!(fake.run(target.write_units(NAME, 0, &image)).unwrap_err().kind, Kind::Stale);
        assert_eq!(fake.run(target.received_heap(NAME, 9)).unwrap_err().kind, Kind::Stale);
        assert_eq!(fake.run(target.delete_heap(NAME)).unwrap_err().kind, Kind::Missing);
    }
    fake.run(target.receive_heap(NAME, stamp, 9)).unwrap();
    fake.run(target.write_units(NAME, 0, &image)).unwrap();
    fake.run(target.received_heap(NAME, 9)).unwrap();
    drop(target);
    fake.kill();
    let target = fake.run(Target::open(fake.env())).unwrap();
    let heap = fake.run(target.heap(NAME, HeapOptions::default())).unwrap();
    let root = heap.root().unwrap();
    assert_eq!(fake.run(heap.get(root)).unwrap(), b"moved");
}

#[test]
fn what_is_no_heap_of_its_stamp_is_refused_and_nothing_of_it_is_left() {
    let (_, image) = image();
    let fake = Fake::new(Bytes::mib(64), false);
    let target = fake.target();
    let before = free(&target);
    fake.run(target.receive_heap(NAME, STAMP, 9)).unwrap();
    fake.run(target.write_units(NAME, 0, &image)).unwrap();
    assert_eq!(fake.run(target.received_heap(NAME, 9)).unwrap_err().kind, Kind::Damaged);
    assert_eq!((target.heap_names().len(), free(&target)), (0, before));
}

#[test]
fn bytes_that_are_no_units_are_refused_and_too_many_are_full_and_change_nothing() {
    let (stamp, image) = image();
    let fake = Fake::new(Bytes::mib(64), false);
    let target = fake.target();
    let before = free(&target);
    // What has no room is not begun.
    assert_eq!(fake.run(target.receive_heap(NAME, stamp, 1 << 16)).unwrap_err().kind, Kind::Full);
    assert_eq!((free(&target), fake.run(target.delete_heap(NAME)).unwrap_err().kind), (before, Kind::Missing));
    fake.run(target.receive_heap(NAME, stamp, 0)).unwrap();
    for odd in [0, 1, UNIT.0 as usize + 4096] {
        assert_eq!(fake.run(target.write_units(NAME, 0, &image[..odd])).unwrap_err().kind, Kind::Usage);
    }
    assert_eq!(free(&target), before);
    assert_eq!(fake.run(target.write_units(NAME, 1 << 16, &image)).unwrap_err().kind, Kind::Full);
    fake.run(target.delete_heap(NAME)).unwrap();
    assert_eq!(free(&target), before);
}

#[test]
fn who_sends_a_heap_is_answered_before_all_commits_that_it_keeps_are_looked_at() {
    let here = Fake::new(Bytes::mib(64), false);
    let source = here.target();
    let settings = HeapSettings { keep: Duration::from_secs(3600), ..HeapSettings::default() };
    let heap = here.run(source.create_heap(NAME, settings, HeapOptions::default())).unwrap();
    for n in 0..100u64 {
        let id = here.run(heap.put(&n.to_le_bytes())).unwrap();
        here.run(heap.commit(Some(id))).unwrap();
    }
    let unread = heap.unread(None, 0).unwrap();
    let image = here.run(heap.image(unread.watch, 0..unread.units as u32)).unwrap();
    let there = Fake::new(Bytes::mib(64), false);
    let target = there.target();
    there.run(target.receive_heap(NAME, unread.stamp, unread.space)).unwrap();
    there.run(target.write_units(NAME, 0, &image)).unwrap();
    there.disk.log();
    there.run(target.received_heap(NAME, unread.space)).unwrap();
    let reads = there.disk.log().into_iter().filter(|op| matches!(op, Op::Read(_))).count();
    assert!(reads < 50, "{reads} reads");
    let copied = there.run(target.heap(NAME, HeapOptions::default())).unwrap();
    assert_eq!((copied.status().last, copied.status().oldest), (heap.status().last, heap.status().oldest));
    assert_eq!(copied.complaints(), Vec::<String>::new());
}

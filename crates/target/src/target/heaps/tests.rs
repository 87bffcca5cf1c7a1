use super::RESTING;
use crate::Target;
use crate::fake::Fake;
use crate::heap::{Heap, HeapOptions};
use forebay_model::heap::{HeapSettings, RecordId};
use forebay_model::{Bytes, Kind};
use std::rc::Rc;
use std::time::Duration;

const HEAPS: usize = 3 * RESTING;

fn name(number: usize) -> String {
    format!("/h{number}")
}

fn open(fake: &Fake, target: &Rc<Target>, number: usize) -> Rc<Heap> {
    fake.run(target.heap(&name(number), HeapOptions::default())).unwrap()
}

/// Heaps, each with one committed record; every other one keeps older commits.
fn with_heaps(fake: &Fake, target: &Rc<Target>) -> Vec<RecordId> {
    let make = |number: usize| {
        let keep = Duration::from_secs(if number.is_multiple_of(2) { 0 } else { 60 });
        let settings = HeapSettings { keep, ..HeapSettings::default() };
        let heap = fake.run(target.create_heap(&name(number), settings, HeapOptions::default())).unwrap();
        let id = fake.run(heap.put(name(number).as_bytes())).unwrap();
        fake.run(heap.commit(Some(id))).unwrap();
        id
    };
    (0..HEAPS).map(make).collect()
}

#[test]
fn of_heaps_that_nobody_uses_those_used_last_stay_open_and_all_are_there() {
    let fake = Fake::new(Bytes::mib(128), false);
    let target = fake.target();
    let ids = with_heaps(&fake, &target);
    assert_eq!(target.heaps.all.borrow().len(), RESTING);
    for round in 0..2 {
        for (number, id) in ids.iter().enumerate() {
            let heap = open(&fake, &target, number);
            assert_eq!(heap.root(), Some(*id), "{round}");
            assert_eq!(fake.run(heap.get(*id)).unwrap(), name(number).as_bytes());
        }
    }
    // One that is used again and again is not closed for others.
    let often = Rc::downgrade(&open(&fake, &target, 0));
    for number in 1..HEAPS {
        open(&fake, &target, number);
        open(&fake, &target, 0);
    }
    assert!(often.upgrade().is_some());
}

#[test]
fn a_heap_that_is_used_or_has_something_uncommitted_stays_open() {
    let fake = Fake::new(Bytes::mib(128), false);
    let target = fake.target();
    let ids = with_heaps(&fake, &target);
    let used = open(&fake, &target, 0);
    let put = fake.run(open(&fake, &target, 1).put(b"not committed")).unwrap();
    fake.run(open(&fake, &target, 2).free(ids[2])).unwrap();
    let writer = open(&fake, &target, 3).writer();
    let own = fake.run(writer.put(b"its own")).unwrap();
    let merged = open(&fake, &target, 4).writer();
    let of_merged = fake.run(merged.put(b"merged")).unwrap();
    fake.run(merged.merge()).unwrap();
    drop(merged);
    for number in (0..HEAPS).rev() {
        open(&fake, &target, number);
    }
    for number in 5..HEAPS {
        open(&fake, &target, number);
    }
    assert!(Rc::ptr_eq(&used, &open(&fake, &target, 0)));
    assert_eq!(fake.run(open(&fake, &target, 1).get(put)).unwrap(), b"not committed");
    assert_eq!(fake.run(open(&fake, &target, 2).get(ids[2])).unwrap_err().kind, Kind::Missing);
    assert_eq!(fake.run(writer.get(own)).unwrap(), b"its own");
    assert_eq!(fake.run(open(&fake, &target, 4).get(of_merged)).unwrap(), b"merged");
    // Once it is committed, or undone, it is as others.
    drop((used, writer));
    fake.run(open(&fake, &target, 1).commit(None)).unwrap();
    fake.run(open(&fake, &target, 2).abort()).unwrap();
    fake.run(open(&fake, &target, 4).commit(None)).unwrap();
    for number in 5..HEAPS {
        open(&fake, &target, number);
    }
    assert_eq!(target.heaps.all.borrow().len(), RESTING);
    assert_eq!(fake.run(open(&fake, &target, 1).get(put)).unwrap(), b"not committed");
    assert_eq!(fake.run(open(&fake, &target, 2).get(ids[2])).unwrap(), name(2).as_bytes());
    assert_eq!(fake.run(open(&fake, &target, 4).get(of_merged)).unwrap(), b"merged");
}

#[test]
fn a_heap_that_failed_since_something_could_not_be_read_is_opened_anew_by_the_next_who_asks_for_it() {
    let fake = Fake::new(Bytes::mib(128), false);
    let target = fake.target();
    let settings = HeapSettings { threshold: 1, ..HeapSettings::default() };
    fake.run(target.create_heap(&name(0), settings, HeapOptions::default())).unwrap();
    let heap = open(&fake, &target, 0);
    let ids: Vec<RecordId> = (0..100).map(|n| fake.run(heap.put(&[n; 500])).unwrap()).collect();
    fake.run(heap.commit(None)).unwrap();
    (0..100).step_by(2).for_each(|n| fake.run(heap.free(ids[n])).unwrap());
    fake.run(heap.commit(None)).unwrap();
    let last = fake.run(heap.commit(None)).unwrap();
    // For a while nothing of it can be read.
    (0..192).for_each(|page| fake.disk.lose(heap.at(Bytes(page * 4096))));
    let (writer, session) = (heap.writer(), heap.session());
    let own = fake.run(writer.put(b"its own")).unwrap();
    let put: Vec<RecordId> = (0..50).map(|n| fake.run(heap.put(&[n; 500])).unwrap()).collect();
    assert_eq!(fake.run(heap.commit(None)).unwrap_err().kind, Kind::Damaged);
    assert_eq!(fake.run(heap.put(b"more")).unwrap_err().kind, Kind::Damaged);
    assert_eq!(fake.run(target.heap(&name(0), HeapOptions::default())).err().unwrap().kind, Kind::Damaged);
    fake.disk.find_again();
    let opened = open(&fake, &target, 0);
    assert!(Rc::ptr_eq(&opened, &open(&fake, &target, 0)) && !Rc::ptr_eq(&opened, &heap));
    // It is its last commit, and who had it before does nothing to it any more.
    assert_eq!((opened.status().last.commit, opened.complaints()), (last, vec![]));
    assert!(put.iter().all(|id| fake.run(opened.get(*id)).unwrap_err().kind == Kind::Missing));
    for error in [
        fake.run(heap.put(b"more")).unwrap_err(),
        fake.run(heap.commit(None)).unwrap_err(),
        fake.run(heap.get(ids[1])).unwrap_err(),
        fake.run(session.get(ids[1])).unwrap_err(),
        fake.run(writer.get(own)).unwrap_err(),
        fake.run(writer.commit(None)).unwrap_err(),
    ] {
        assert!(error.kind == Kind::Damaged && error.message.contains("was opened anew"), "{error}");
    }
    drop((writer, session, heap));
    let new = fake.run(opened.put(b"new")).unwrap();
    fake.run(opened.commit(Some(new))).unwrap();
    for n in (1..100).step_by(2) {
        assert_eq!(fake.run(opened.get(ids[n])).unwrap(), [n as u8; 500]);
    }
}

#[test]
fn a_heap_whose_device_failed_is_not_opened_anew() {
    let fake = Fake::new(Bytes::mib(128), false);
    let target = fake.target();
    fake.run(target.create_heap(&name(0), HeapSettings::default(), HeapOptions::default())).unwrap();
    let heap = open(&fake, &target, 0);
    fake.run(heap.put(b"one")).unwrap();
    fake.disk.fail_writes(true);
    fake.run(heap.commit(None)).unwrap_err();
    fake.disk.fail_writes(false);
    assert!(Rc::ptr_eq(&heap, &open(&fake, &target, 0)));
    assert_eq!(fake.run(heap.put(b"two")).unwrap_err().kind, Kind::Device);
}

#[test]
fn while_a_heap_that_keeps_many_commits_is_opened_others_are_opened_made_and_deleted() {
    let fake = Fake::new(Bytes::mib(128), false);
    let target = fake.target();
    for (number, keep) in [(0, 3600), (1, 0)] {
        let settings = HeapSettings { keep: Duration::from_secs(keep), ..HeapSettings::default() };
        fake.run(target.create_heap(&name(number), settings, HeapOptions::default())).unwrap();
    }
    let many = open(&fake, &target, 0);
    for n in 0..300u64 {
        fake.run(many.put(&n.to_le_bytes())).unwrap();
        fake.run(many.commit(None)).unwrap();
    }
    drop((many, target));
    fake.kill();
    let target = fake.run(Target::open(fake.env())).unwrap();
    let ended = Rc::new(std::cell::RefCell::new(Vec::new()));
    let opened = |number: usize| {
        let (target, ended) = (target.clone(), ended.clone());
        fake.env().spawner.spawn(async move {
            target.heap(&name(number), HeapOptions::default()).await.unwrap();
            ended.borrow_mut().push(number);
        })
    };
    let made = || {
        let (target, ended) = (target.clone(), ended.clone());
        fake.env().spawner.spawn(async move {
            target.create_heap(&name(2), HeapSettings::default(), HeapOptions::default()).await.unwrap();
            target.delete_heap(&name(2)).await.unwrap();
            ended.borrow_mut().push(2);
        })
    };
    fake.run(async {
        let (many, few, made) = (opened(0), opened(1), made());
        few.await;
        made.await;
        many.await;
    });
    assert!(ended.borrow().len() == 3 && ended.borrow().last() == Some(&0), "{ended:?}");
}

#[test]
fn a_heap_that_is_open_is_found_whoever_has_the_turn() {
    let fake = Fake::new(Bytes::mib(128), false);
    let target = fake.target();
    fake.run(target.create_heap(&name(0), HeapSettings::default(), HeapOptions::default())).unwrap();
    let gate = target.heaps.gate(&name(0));
    let turn = fake.run(gate.take());
    open(&fake, &target, 0);
    drop(turn);
}

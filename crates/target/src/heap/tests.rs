use super::allocation::Slot;
use super::testing::{NAME, again, fresh, used};
use super::{Heap, HeapOptions, gather, root, testing};
use crate::Target;
use crate::catalog::GroupClass;
use crate::fake::Fake;
use crate::seeds::each;
use forebay_model::heap::{HeapMode, HeapSettings, LARGEST_RECORD, RecordId};
use forebay_model::ring::RingSpec;
use forebay_model::{Bytes, Kind};
use std::collections::BTreeMap;
use std::rc::Rc;

fn device(size: Bytes, settings: HeapSettings) -> (Fake, Rc<Target>, Rc<Heap>) {
    fresh(size, settings, HeapOptions::default())
}

fn content(n: u64, length: usize) -> Vec<u8> {
    (0..length as u64).map(|at| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (at % 57)) as u8 ^ at as u8).collect()
}

#[test]
fn what_was_committed_is_there_again_and_nothing_else_is() {
    let (fake, target, heap) = device(Bytes::mib(64), HeapSettings::default());
    let a = fake.run(heap.put(b"first")).unwrap();
    let b = fake.run(heap.put(&content(1, 5000))).unwrap();
    assert_eq!(fake.run(heap.get(a)).unwrap(), b"first", "before it is on the device");
    fake.run(heap.commit(Some(b))).unwrap();
    let c = fake.run(heap.put(b"never committed")).unwrap();
    fake.run(heap.free(a)).unwrap();
    let (target, heap) = again(&fake, target, heap);
    assert_eq!((heap.root(), heap.complaints()), (Some(b), vec![]));
    assert_eq!(fake.run(heap.get(a)).unwrap(), b"first");
    assert_eq!(fake.run(heap.get(b)).unwrap(), content(1, 5000));
    assert_eq!(fake.run(heap.get(c)).unwrap_err().kind, Kind::Missing);
    fake.run(heap.free(a)).unwrap();
    fake.run(heap.commit(None)).unwrap();
    let (_target, heap) = again(&fake, target, heap);
    assert_eq!((heap.root(), fake.run(heap.get(a)).unwrap_err().kind), (None, Kind::Missing));
}

#[test]
fn an_id_that_outlived_its_record_is_an_error_and_never_another_record() {
    let settings = HeapSettings { threshold: 1, ..HeapSettings::default() };
    let (fake, target, heap) = device(Bytes::mib(64), settings);
    let old = fake.run(heap.put(b"old")).unwrap();
    fake.run(heap.free(old)).unwrap();
    let error = fake.run(heap.free(old)).unwrap_err();
    assert_eq!(error.kind, Kind::Missing, "freed twice: {error}");
    let mut new = old;
    while (new.allocator(), new.slot()) != (old.allocator(), old.slot()) || new == old {
        new = fake.run(heap.put(b"new")).unwrap();
    }
    fake.run(heap.commit(Some(new))).unwrap();
    let check = |heap: &Rc<Heap>| {
        for kind in [fake.run(heap.get(old)).unwrap_err().kind, fake.run(heap.free(old)).unwrap_err().kind] {
            assert_eq!(kind, Kind::Missing);
        }
        assert_eq!(fake.run(heap.commit(Some(old))).unwrap_err().kind, Kind::Missing);
        assert_eq!(fake.run(heap.get(new)).unwrap(), b"new");
    };
    check(&heap);
    // Which record lies in a slot is not in memory any more: it says so itself.
    let (_target, heap) = again(&fake, target, heap);
    check(&heap);
    for forged in [0, u64::MAX, 1 << 43, new.number() ^ 1, new.number() ^ 1 << 29] {
        let error = fake.run(heap.get(RecordId::from_number(forged))).unwrap_err();
        assert_eq!(error.kind, Kind::Missing, "{forged:x}: {error}");
    }
}

#[test]
fn where_most_is_freed_before_it_is_committed_what_stays_is_written_as_if_nothing_else_had_been_put() {
    let (fake, _target, heap) = device(Bytes::mib(64), HeapSettings::default());
    let put = |n| fake.run(heap.put(&content(n, 2000))).unwrap();
    for commit in 0..4 {
        let (before, mut waiting) = (heap.status().output, std::collections::VecDeque::new());
        for n in 0..2000 {
            waiting.push_back(put(n));
            // Of ten one stays, the others for a while.
            if n % 10 > 0 && waiting.len() > 50 {
                fake.run(heap.free(waiting.pop_front().unwrap())).unwrap();
            } else if n % 10 == 0 {
                waiting.pop_back();
            }
        }
        fake.run(heap.commit(None)).unwrap();
        let (output, stay) = (heap.status().output, 200 + waiting.len() as u64);
        let (written, writes) = (output.written - before.written, output.writes - before.writes);
        assert_eq!(output.records - before.records, stay);
        assert!(written <= Bytes(2048 * (stay + 20)) && writes <= 2, "commit {commit}: {written} in {writes} writes");
    }
}

#[test]
fn large_records_are_chained_and_nothing_of_them_is_left() {
    let (fake, target, heap) = device(Bytes::mib(256), HeapSettings::default());
    let lengths = [8182, 8183, 100_000, 8 << 20, 9 << 20, LARGEST_RECORD];
    let ids: Vec<RecordId> = lengths.map(|length| fake.run(heap.put(&content(7, length))).unwrap()).to_vec();
    assert_eq!(ids.iter().filter(|id| id.is_chain()).count(), 5);
    fake.run(heap.commit(None)).unwrap();
    let (_target, heap) = again(&fake, target, heap);
    for (id, length) in ids.iter().zip(lengths) {
        assert!(fake.run(heap.get(*id)).unwrap() == content(7, length), "{length}");
        fake.run(heap.free(*id)).unwrap();
        assert_eq!(fake.run(heap.free(*id)).unwrap_err().kind, Kind::Missing);
    }
    assert_eq!(heap.status().classes.iter().map(|class| class.used).sum::<u64>(), 0);
    for length in [0, LARGEST_RECORD + 1] {
        assert_eq!(fake.run(heap.put(&vec![1; length])).unwrap_err().kind, Kind::Usage);
    }
}

#[test]
fn a_name_is_that_of_one_heap_or_ring_and_a_refusal_leaves_nothing() {
    let (fake, target, _heap) = device(Bytes::mib(64), HeapSettings::default());
    let free = target.free_runs();
    let made = fake.run(target.create_heap(NAME, HeapSettings::default(), HeapOptions::default()));
    assert_eq!(made.err().unwrap().kind, Kind::Exists);
    let ring = fake.run(target.create_ring(RingSpec::new(NAME, Bytes::mib(4))));
    assert_eq!(ring.err().unwrap().kind, Kind::Exists);
    assert_eq!(fake.run(target.heap("/other", HeapOptions::default())).err().unwrap().kind, Kind::Missing);
    assert_eq!(target.free_runs(), free);
}

#[test]
fn where_slots_are_written_once_none_is_used_again_after_a_kill_either() {
    let settings = HeapSettings { threshold: 1, mode: HeapMode::Worm, ..HeapSettings::default() };
    let (fake, mut target, mut heap) = device(Bytes::mib(64), settings);
    let mut slots = std::collections::BTreeSet::new();
    for round in 0..6 {
        let ids: Vec<RecordId> = (0..40).map(|n| fake.run(heap.put(&content(n, 3000))).unwrap()).collect();
        fake.run(heap.commit(None)).unwrap();
        for id in ids {
            assert!(slots.insert((id.allocator(), id.slot())), "round {round}: {id} has a slot that another one had");
            fake.run(heap.free(id)).unwrap();
        }
        fake.run(heap.commit(None)).unwrap();
        (target, heap) = again(&fake, target, heap);
    }
    drop((target, heap));
}

#[test]
fn a_full_target_refuses_the_record_and_the_heap_stays_usable() {
    let (fake, target, heap) = device(Bytes::mib(16), HeapSettings { threshold: 1, ..HeapSettings::default() });
    let mut ids = Vec::new();
    let error = loop {
        match fake.run(heap.put(&content(ids.len() as u64, 3000))) {
            Ok(id) => ids.push(id),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind, Kind::Full, "{error}");
    assert!(ids.len() > 1000);
    let used = |heap: &Heap| heap.status().classes.iter().map(|class| class.used).sum::<u64>();
    assert_eq!(fake.run(heap.put(&content(1, 1 << 20))).unwrap_err().kind, Kind::Full);
    assert_eq!(used(&heap), ids.len() as u64, "the parts of what could not be put are gone");
    fake.run(heap.commit(None)).unwrap();
    for id in &ids[..500] {
        fake.run(heap.free(*id)).unwrap();
    }
    assert_eq!(fake.run(heap.put(&[1; 3000])).unwrap_err().kind, Kind::Full, "both commits still have them");
    fake.run(heap.commit(None)).unwrap();
    fake.run(heap.commit(None)).unwrap();
    let again_put: Vec<RecordId> = (0..500).map(|n| fake.run(heap.put(&content(n, 3000))).unwrap()).collect();
    fake.run(heap.commit(None)).unwrap();
    let (_target, heap) = again(&fake, target, heap);
    for (n, id) in (0..).zip(again_put).chain((500..).zip(ids[500..].iter().copied())) {
        assert_eq!(fake.run(heap.get(id)).unwrap(), content(n, 3000));
    }
}

#[test]
fn it_has_what_a_plain_map_has_through_commits_aborts_and_kills() {
    each(12, |random| {
        let threshold = [1, 300, 3000][random.below(3) as usize];
        let mode = if random.once_in(4) { HeapMode::Worm } else { HeapMode::ReadWrite };
        let (fake, mut target, mut heap) =
            device(Bytes::mib(256), HeapSettings { threshold, mode, ..HeapSettings::default() });
        let mut committed: BTreeMap<RecordId, Vec<u8>> = BTreeMap::new();
        let mut now = committed.clone();
        let mut gone = Vec::new();
        for n in 0..6000 {
            match random.below(100) {
                0..60 => {
                    let length = match random.below(20) {
                        0 => 1 + random.below(40_000),
                        1..5 => 1 + random.below(8000),
                        _ => 1 + random.below(1500),
                    };
                    let bytes = content(n, length as usize);
                    let id = fake.run(heap.put(&bytes)).unwrap();
                    assert!(now.insert(id, bytes).is_none());
                }
                60..85 if !now.is_empty() => {
                    let (id, _) = now.iter().nth(random.below(now.len() as u64) as usize).unwrap();
                    let id = *id;
                    fake.run(heap.free(id)).unwrap();
                    now.remove(&id);
                    gone.push(id);
                }
                85..98 if !now.is_empty() => {
                    let (id, bytes) = now.iter().nth(random.below(now.len() as u64) as usize).unwrap();
                    assert!(fake.run(heap.get(*id)).unwrap() == *bytes, "{id}");
                }
                98 => {
                    fake.run(heap.commit(now.keys().next().copied())).unwrap();
                    committed.clone_from(&now);
                }
                _ if random.once_in(3) => {
                    fake.run(heap.abort()).unwrap();
                    now.clone_from(&committed);
                }
                _ if random.once_in(5) => {
                    (target, heap) = again(&fake, target, heap);
                    now.clone_from(&committed);
                }
                _ => {}
            }
        }
        fake.run(heap.commit(None)).unwrap();
        let (_target, heap) = again(&fake, target, heap);
        for (id, bytes) in &now {
            assert!(fake.run(heap.get(*id)).unwrap() == *bytes, "{id}");
        }
        for id in gone.iter().filter(|id| !now.contains_key(id)) {
            assert_eq!(fake.run(heap.get(*id)).unwrap_err().kind, Kind::Missing, "{id}");
        }
        let used = used(&heap);
        let slots: usize =
            now.values().map(|bytes| if bytes.len() <= 8182 { 1 } else { 1 + bytes.len().div_ceil(8182) }).sum();
        assert_eq!(used - heap.status().archive_slots, slots as u64, "none is lost, none is there twice");
    });
}

#[test]
fn where_the_last_commit_is_damaged_the_one_before_is_whole_and_it_is_said() {
    // A page of its allocators; its root, and where that says what it is.
    for damage in [None, Some(30), Some(3)] {
        let (fake, target, heap) = device(Bytes::mib(64), HeapSettings { threshold: 1, ..HeapSettings::default() });
        let ids: Vec<RecordId> = (0..2000).map(|n| fake.run(heap.put(&content(n, 3000))).unwrap()).collect();
        fake.run(heap.commit(Some(ids[7]))).unwrap();
        for id in &ids[..1500] {
            fake.run(heap.free(*id)).unwrap();
        }
        fake.run(heap.commit(None)).unwrap();
        let before = heap.status().output.writes;
        for n in 0..6000 {
            fake.run(heap.put(&content(n, 3000))).unwrap();
        }
        assert!(heap.status().output.writes > before, "some of them are on the device");
        let damaged = {
            let work = heap.work.borrow();
            let (root, which) = (&work.last, work.which);
            let at = match damage {
                None => root::Root::place_at(&root.table, root.pages[0].place),
                Some(byte) => root::root_at(which) + Bytes(byte),
            };
            work.space.runs(at, Bytes(4096))[0].0
        };
        fake.disk.flip(damaged);
        let (_target, heap) = again(&fake, target, heap);
        assert_eq!(heap.root(), Some(ids[7]));
        let complaints = heap.complaints();
        assert!(complaints.len() == 1 && complaints[0].contains("opened as of commit 2"), "{complaints:?}");
        for (n, id) in (0..).zip(&ids) {
            assert_eq!(fake.run(heap.get(*id)).unwrap(), content(n, 3000), "{damage:?}");
        }
    }
}

#[test]
fn of_two_who_open_or_make_a_heap_at_once_both_have_the_same_one() {
    let (fake, target, heap) = device(Bytes::mib(64), HeapSettings::default());
    drop(heap);
    drop(target);
    fake.kill();
    let target = fake.run(Target::open(fake.env())).unwrap();
    let both = fake.run(async {
        let open = || {
            let target = target.clone();
            fake.env().spawner.spawn(async move { target.heap(NAME, HeapOptions::default()).await.unwrap() })
        };
        let make = || {
            let (target, settings) = (target.clone(), HeapSettings::default());
            fake.env().spawner.spawn(async move { target.create_heap("/new", settings, HeapOptions::default()).await })
        };
        let (one, other, made, refused) = (open(), open(), make(), make());
        assert_eq!([made.await.err(), refused.await.err()].map(|e| e.map(|e| e.kind)), [None, Some(Kind::Exists)]);
        (one.await, other.await)
    });
    assert!(Rc::ptr_eq(&both.0, &both.1));
}

#[test]
fn a_heap_that_is_deleted_leaves_nothing_and_who_has_it_open_is_told() {
    let (fake, target, heap) = device(Bytes::mib(64), HeapSettings::default());
    let with_it = target.free_runs();
    let id = fake.run(heap.put(b"record")).unwrap();
    fake.run(heap.commit(Some(id))).unwrap();
    let (writer, session) = (heap.writer(), heap.session());
    let own = fake.run(writer.put(b"own")).unwrap();
    fake.run(target.delete_heap(NAME)).unwrap();
    assert_ne!(target.free_runs(), with_it);
    for error in [
        fake.run(heap.get(id)).unwrap_err(),
        fake.run(heap.put(b"more")).unwrap_err(),
        fake.run(heap.commit(None)).unwrap_err(),
        fake.run(session.get(id)).unwrap_err(),
        fake.run(writer.get(own)).unwrap_err(),
        fake.run(writer.commit(None)).unwrap_err(),
    ] {
        assert!(error.kind == Kind::Missing && error.message.contains("was deleted"), "{error}");
    }
    drop((writer, session, heap));
    assert_eq!(fake.run(target.delete_heap(NAME)).unwrap_err().kind, Kind::Missing);
    let settings = HeapSettings::default();
    let heap = fake.run(target.create_heap(NAME, settings, HeapOptions::default())).unwrap();
    assert_eq!((heap.root(), fake.run(heap.get(id)).unwrap_err().kind), (None, Kind::Missing));
    let (target, heap) = again(&fake, target, heap);
    assert_eq!(heap.root(), None);
    fake.run(target.delete_heap(NAME)).unwrap();
    drop((target, heap));
    fake.kill();
    let target = fake.run(Target::open(fake.env())).unwrap();
    assert_eq!(fake.run(target.heap(NAME, HeapOptions::default())).err().unwrap().kind, Kind::Missing);
}

#[test]
fn a_heap_that_is_deleted_while_it_grows_takes_no_group_with_it() {
    let (fake, target, heap) = device(Bytes::mib(64), HeapSettings::default());
    let number = target.core().heap_records()[0].0;
    let (grown, deleted) = fake.run(async {
        let (core, other) = (target.core().clone(), target.clone());
        let grown = fake.env().spawner.spawn(async move { core.grow_heap(number, 1).await });
        let deleted = fake.env().spawner.spawn(async move { other.delete_heap(NAME).await });
        (grown.await, deleted.await)
    });
    deleted.unwrap();
    assert_eq!(grown.unwrap_err().kind, Kind::Missing);
    assert_eq!(target.core().groups_of(GroupClass::Heap(number)), []);
    assert_eq!(fake.run(heap.put(b"record")).unwrap_err().kind, Kind::Missing);
    drop((target, heap));
    fake.kill();
    assert_eq!(fake.run(Target::open(fake.env())).unwrap().core().groups_of(GroupClass::Heap(number)), []);
}

#[test]
fn a_root_record_that_rotted_is_damaged_and_the_heap_opens() {
    let (fake, target, heap) = device(Bytes::mib(64), HeapSettings::default());
    let ids: Vec<RecordId> = (0..10).map(|n| fake.run(heap.put(&content(n, 3000))).unwrap()).collect();
    fake.run(heap.commit(Some(ids[9]))).unwrap();
    let at = {
        let work = heap.work.borrow();
        let lies = gather::extent(&work.allocation, Slot::of(ids[9]));
        work.space.runs(Bytes(lies.start), Bytes(1))[0].0
    };
    fake.disk.flip(at + Bytes(20));
    let (_target, heap) = again(&fake, target, heap);
    assert_eq!(heap.root(), Some(ids[9]));
    assert_eq!(fake.run(heap.get(ids[9])).unwrap_err().kind, Kind::Damaged);
    assert_eq!(fake.run(heap.get(ids[8])).unwrap(), content(8, 3000));
    fake.run(heap.free(ids[8])).unwrap();
    fake.run(heap.commit(Some(ids[0]))).unwrap();
}

#[test]
fn a_root_record_that_rotted_stays_the_root_for_whoever_names_no_other_and_can_be_freed() {
    let (fake, target, heap) = device(Bytes::mib(64), HeapSettings::default());
    let ids: Vec<RecordId> = [3000, 50_000].map(|length| fake.run(heap.put(&content(1, length))).unwrap()).to_vec();
    fake.run(heap.commit(Some(ids[0]))).unwrap();
    let (mut target, mut heap) = (target, heap);
    for root in ids {
        fake.run(heap.commit(Some(root))).unwrap();
        fake.disk.flip(testing::lies(&heap, root) + Bytes(20));
        (target, heap) = again(&fake, target, heap);
        assert_eq!(fake.run(heap.get(root)).unwrap_err().kind, Kind::Damaged);
        let writer = heap.writer();
        fake.run(writer.put(b"beside it")).unwrap();
        fake.run(writer.commit(heap.root())).unwrap();
        fake.run(heap.commit(heap.root())).unwrap();
        assert_eq!(heap.root(), Some(root));
        fake.run(heap.free(root)).unwrap();
        assert_eq!(fake.run(heap.commit(Some(root))).unwrap_err().kind, Kind::Missing, "it was freed");
        fake.run(heap.commit(None)).unwrap();
        assert_eq!(heap.root(), None);
    }
    drop(target);
}

#[test]
fn where_a_root_or_its_page_cannot_be_read_the_other_one_is_taken_and_it_is_said() {
    for in_page in [false, true] {
        let (fake, target, heap) = device(Bytes::mib(64), HeapSettings::default());
        let ids: Vec<RecordId> = (0..100).map(|n| fake.run(heap.put(&content(n, 3000))).unwrap()).collect();
        fake.run(heap.commit(Some(ids[7]))).unwrap();
        fake.run(heap.free(ids[8])).unwrap();
        fake.run(heap.commit(None)).unwrap();
        let lost = {
            let work = heap.work.borrow();
            let at = match in_page {
                true => root::Root::place_at(&work.last.table, work.last.pages[0].place),
                false => root::root_at(work.which),
            };
            work.space.runs(at, Bytes(4096))[0].0
        };
        fake.disk.lose(lost);
        let (_target, heap) = again(&fake, target, heap);
        assert_eq!((heap.root(), heap.complaints().len()), (Some(ids[7]), 1), "{in_page}");
        for (n, id) in (0..).zip(&ids) {
            assert_eq!(fake.run(heap.get(*id)).unwrap(), content(n, 3000));
        }
    }
}

#[test]
fn what_cannot_be_read_behind_the_roots_costs_no_commit() {
    let (fake, target, heap) = device(Bytes::mib(64), HeapSettings::default());
    let ids: Vec<RecordId> = (0..100).map(|n| fake.run(heap.put(&content(n, 3000))).unwrap()).collect();
    fake.run(heap.commit(Some(ids[7]))).unwrap();
    fake.run(heap.commit(Some(ids[8]))).unwrap();
    // Of both places all that was never written.
    let written = heap.work.borrow().last.encode().len() as u64;
    for which in 0..2 {
        let behind = (written..root::ROOT_LEN.0).step_by(root::PAGE);
        behind.for_each(|at| fake.disk.lose(heap.at(root::root_at(which) + Bytes(at))));
    }
    let last = heap.status().last;
    let (_target, heap) = again(&fake, target, heap);
    assert_eq!((heap.status().last, heap.root(), heap.complaints()), (last, Some(ids[8]), vec![]));
}

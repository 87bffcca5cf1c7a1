use super::{HeapFound, finding, rotted};
use crate::Target;
use crate::fake::Fake;
use crate::heap::allocation::Slot;
use crate::heap::root::{Root, root_at};
use crate::heap::testing::{again, fresh, used};
use crate::heap::{Heap, HeapOptions, gather};
use crate::scrub::Options;
use crate::verify::verify;
use forebay_model::heap::{HeapMode, HeapSettings, RecordId};
use forebay_model::{Bytes, Kind};
use std::rc::Rc;
use std::time::Duration;

fn heap(settings: HeapSettings) -> (Fake, Rc<Target>, Rc<Heap>) {
    fresh(Bytes::mib(64), settings, HeapOptions::default())
}

/// Records of all kinds, some of them freed, in several commits.
fn fill(fake: &Fake, heap: &Rc<Heap>) -> Vec<RecordId> {
    let mut ids = Vec::new();
    for round in 0..6u8 {
        ids.extend((0..300).map(|n| fake.run(heap.put(&vec![round; 1 + n * 7])).unwrap()));
        ids.extend((0..3).map(|_| fake.run(heap.put(&vec![round; 100_000])).unwrap()));
        for id in ids.extract_if(.., |id| id.tag() % 5 == 2) {
            fake.run(heap.free(id)).unwrap();
        }
        fake.run(heap.commit(ids.last().copied())).unwrap();
    }
    // More than a list of parts has room for.
    ids.push(fake.run(heap.put(&vec![9; 9 << 20])).unwrap());
    fake.run(heap.commit(None)).unwrap();
    ids
}

fn look_over(fake: &Fake) -> HeapFound {
    fake.run(verify(fake.env(), &mut |_, _| ())).unwrap().heaps.remove(0)
}

fn place(heap: &Heap, id: RecordId) -> Bytes {
    let work = heap.work.borrow();
    let lies = gather::extent(&work.allocation, Slot::of(id));
    work.space.runs(Bytes(lies.start), Bytes(1))[0].0
}

#[test]
fn of_a_whole_heap_nothing_is_leaked_or_used_twice() {
    let eager = HeapSettings { threshold: 1, ..HeapSettings::default() };
    let kept = HeapSettings { keep: Duration::from_secs(3600), ..eager };
    for settings in [eager, kept, HeapSettings { mode: HeapMode::Worm, ..eager }] {
        let (fake, target, heap) = heap(settings);
        let ids = fill(&fake, &heap);
        let used = used(&heap);
        let commit = heap.status().last.commit;
        drop((target, heap));
        fake.kill();
        let (name, records) = ("/heap".to_string(), ids.len() as u64);
        assert_eq!(look_over(&fake), HeapFound { name, commit, records, slots: used, ..HeapFound::default() });
    }
}

#[test]
fn a_record_that_rotted_is_found_offline_and_by_a_scrub_and_only_it() {
    let (fake, target, heap) = heap(HeapSettings::default());
    let ids = fill(&fake, &heap);
    let at = place(&heap, ids[700]);
    fake.disk.flip(at + Bytes(12));
    let options = Options { rate: None, span: Duration::from_secs(600), anew: true };
    let scrubbed = fake.run(target.scrub(options)).unwrap();
    let work = heap.work.borrow();
    let slot = Slot::of(ids[700]);
    let lies = gather::extent(&work.allocation, slot);
    let expected = finding("/heap", &work.space, rotted(slot), lies.start, lies.end - lies.start);
    drop(work);
    assert!(scrubbed.finished);
    assert_eq!((scrubbed.found, expected.at), (vec![expected.clone()], at));
    assert_eq!(fake.run(heap.get(ids[700])).unwrap_err().kind, Kind::Damaged);
    assert!(fake.run(heap.get(ids[701])).is_ok());
    drop((target, heap));
    fake.kill();
    let found = look_over(&fake);
    assert_eq!((found.damage, found.leaked, found.twice), (vec![expected], 0, 0));
}

#[test]
fn what_nobody_names_is_counted() {
    let (fake, target, heap) = heap(HeapSettings::default());
    let large = fake.run(heap.put(&[1; 50_000])).unwrap();
    // As if only the list had been freed.
    heap.work.borrow_mut().allocation.free(Slot::of(large));
    heap.work.borrow_mut().cache.drop_record(Slot::of(large));
    fake.run(heap.commit(None)).unwrap();
    drop((target, heap));
    fake.kill();
    let found = look_over(&fake);
    assert_eq!((found.leaked, found.twice, found.records), (50_000u64.div_ceil(8182), 0, 0));
}

#[test]
fn a_heap_that_cannot_be_opened_is_told_with_its_name() {
    let (fake, target, heap) = heap(HeapSettings::default());
    fill(&fake, &heap);
    let places = [0, 1].map(|which| {
        let work = heap.work.borrow();
        work.space.runs(crate::heap::root::root_at(which), Bytes(4096))[0].0
    });
    drop((target, heap));
    fake.kill();
    places.iter().for_each(|at| fake.disk.flip(*at + Bytes(30)));
    let found = look_over(&fake);
    assert_eq!((found.damage.len(), found.damage[0].owner.as_str()), (1, "/heap"));
    assert!(found.damage[0].what.contains("no commit of heap"), "{}", found.damage[0].what);
}

#[test]
fn a_part_that_is_not_where_its_list_says_is_damage() {
    let (fake, target, heap) = heap(HeapSettings::default());
    let large = fake.run(heap.put(&[1; 50_000])).unwrap();
    // As if somebody had freed one of its parts, and another record had come there.
    let part = Slot { allocator: 0, slot: 1 };
    assert_eq!(Slot::of(large).allocator, 1, "the list is of another class");
    heap.work.borrow_mut().allocation.free(part);
    heap.work.borrow_mut().cache.drop_record(part);
    fake.run(heap.commit(None)).unwrap();
    drop((target, heap));
    fake.kill();
    let found = look_over(&fake);
    assert_eq!((found.leaked, found.twice, found.records, found.damaged), (0, 0, 1, 1));
    assert!(found.damage[0].what.contains("of a chained record"), "{found:?}");
}

#[test]
fn what_cannot_be_read_is_told_and_all_else_is_looked_over() {
    let (fake, target, heap) = heap(HeapSettings::default());
    let ids = fill(&fake, &heap);
    fake.disk.lose(place(&heap, ids[700]));
    assert_eq!(fake.run(heap.get(ids[700])).unwrap_err().kind, Kind::Damaged);
    let options = Options { rate: None, span: Duration::from_secs(600), anew: true };
    let scrubbed = fake.run(target.scrub(options)).unwrap();
    assert!(scrubbed.finished && !scrubbed.found.is_empty(), "{scrubbed:?}");
    drop((target, heap));
    fake.kill();
    let found = look_over(&fake);
    assert!(found.damaged > 0 && found.damaged < 20, "those of one page: {found:?}");
    assert_eq!((found.records + found.damaged, found.twice), (ids.len() as u64, 0));
}

const WHOLE: Options = Options { rate: None, span: Duration::from_secs(600), anew: true };

#[test]
fn a_page_of_allocators_that_rotted_under_an_open_heap_is_told_by_a_scrub_and_costs_nothing() {
    for (is_lost, waits) in [(false, false), (false, true), (true, false)] {
        let (fake, target, heap) = heap(HeapSettings::default());
        let ids = fill(&fake, &heap);
        let page = |heap: &Heap| {
            let last = &heap.work.borrow().last;
            Root::place_at(&last.table, last.pages[0].place)
        };
        let at = heap.at(page(&heap));
        match is_lost {
            true => fake.disk.lose(at),
            false => fake.disk.flip(at + Bytes(50)),
        }
        if waits {
            // Nobody but its user commits or aborts that.
            fake.run(heap.put(b"more")).unwrap();
        }
        let commit = heap.status().last.commit;
        let scrubbed = fake.run(target.scrub(WHOLE)).unwrap();
        assert!(scrubbed.finished);
        assert_eq!((scrubbed.found.len(), scrubbed.found[0].at), (1, at), "{:?}", scrubbed.found);
        assert!(scrubbed.found[0].what.contains("page 0 of the allocators"), "{:?}", scrubbed.found);
        assert_eq!(heap.status().last.commit, commit + if waits { 0 } else { 2 });
        if waits {
            (0..2).for_each(|_| assert!(fake.run(heap.commit(None)).is_ok()));
        }
        assert_ne!(heap.at(page(&heap)), at);
        assert_eq!(fake.run(target.scrub(WHOLE)).unwrap().found, []);
        let last = heap.status().last;
        let (_target, heap) = again(&fake, target, heap);
        assert_eq!((heap.status().last, heap.complaints()), (last, vec![]), "{is_lost}, {waits}");
        assert!(ids.iter().all(|id| fake.run(heap.get(*id)).is_ok()), "{is_lost}, {waits}");
    }
}

#[test]
fn a_root_that_rotted_under_an_open_heap_is_told_by_a_scrub_and_is_there_again() {
    for place in 0..2 {
        let (fake, target, heap) = heap(HeapSettings::default());
        let ids = fill(&fake, &heap);
        let at = heap.at(root_at(place));
        fake.disk.flip(at + Bytes(30));
        // What is put and not committed is not of the root that is written anew.
        let put = fake.run(heap.put(b"more")).unwrap();
        let scrubbed = fake.run(target.scrub(WHOLE)).unwrap();
        assert_eq!((scrubbed.found.len(), scrubbed.found[0].at), (1, at), "{:?}", scrubbed.found);
        assert_eq!(fake.run(target.scrub(WHOLE)).unwrap().found, []);
        let last = heap.status().last;
        let (_target, heap) = again(&fake, target, heap);
        assert_eq!((heap.status().last, heap.complaints()), (last, vec![]), "{place}");
        assert!(ids.iter().all(|id| fake.run(heap.get(*id)).is_ok()), "{place}");
        assert_eq!(fake.run(heap.get(put)).unwrap_err().kind, Kind::Missing);
    }
}

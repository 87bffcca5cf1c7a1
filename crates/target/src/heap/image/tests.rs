use super::*;
use crate::Target;
use crate::fake::Fake;
use crate::heap::HeapOptions;
use crate::heap::testing::{NAME, again, fresh, lies};
use crate::verify::verify;
use forebay_model::heap::{HeapSettings, RecordId};
use std::rc::Rc;
use std::time::Duration;

fn kept() -> HeapSettings {
    HeapSettings { keep: Duration::from_secs(3600), ..HeapSettings::default() }
}

/// A record that comes once.
fn record(number: u64) -> Vec<u8> {
    (0..20 + number * 37 % 12_000).map(|at| (at * 31 + number * 7) as u8).collect()
}

/// Puts some records and commits; the ids.
fn put(fake: &Fake, heap: &Rc<Heap>, numbers: Range<u64>) -> Vec<(u64, RecordId)> {
    let ids = numbers.map(|number| (number, fake.run(heap.put(&record(number))).unwrap())).collect();
    fake.run(heap.commit(None)).unwrap();
    ids
}

/// Copies what is to be read, in pieces of so many units.
fn copy(from: (&Fake, &Rc<Heap>), watch: u64, to: (&Fake, &Rc<Target>), step: u32) {
    let mut next = 0;
    loop {
        let unread = from.1.unread(Some(watch), next).unwrap();
        let Some(last) = unread.runs.last().cloned() else { return };
        for run in unread.runs {
            for first in run.clone().step_by(step as usize) {
                let units = first..(first + step).min(run.end);
                let bytes = from.0.run(from.1.image(watch, units)).unwrap();
                to.0.run(to.1.write_units(NAME, first, &bytes)).unwrap();
            }
        }
        next = last.end;
    }
}

#[test]
fn what_was_written_since_it_was_read_is_to_be_read_again_and_a_copy_is_the_heap_with_its_commits() {
    let (here, _source, heap) = fresh(Bytes::mib(64), kept(), HeapOptions::default());
    let mut ids = put(&here, &heap, 0..300);
    // Groups of another size.
    let there = Fake::new(Bytes::mib(200), false);
    let target = there.target();
    let unread = heap.unread(None, 0).unwrap();
    assert_eq!(unread.units, u64::from(heap.work.borrow().allocation.units().used()));
    there.run(target.receive_heap(NAME, unread.stamp, unread.space)).unwrap();
    copy((&here, &heap), unread.watch, (&there, &target), 7);
    assert_eq!(heap.unread(Some(unread.watch), 0).unwrap().units, 0);
    let commit = heap.status().last.commit;
    // Written while it was copied, and freed: what is kept has it.
    ids.extend(put(&here, &heap, 300..700));
    let freed: Vec<RecordId> = ids.iter().step_by(3).map(|(_, id)| *id).collect();
    here.run(heap.free_many(&freed)).unwrap();
    here.run(heap.commit(Some(ids[1].1))).unwrap();
    let again_unread = heap.unread(Some(unread.watch), 0).unwrap();
    assert!(again_unread.units > 2, "{again_unread:?}");
    let most = u64::from(heap.work.borrow().allocation.units().used());
    assert!(again_unread.units < most, "{again_unread:?} of {most}");
    copy((&here, &heap), unread.watch, (&there, &target), 64);
    there.run(target.received_heap(NAME, heap.unread(Some(unread.watch), 0).unwrap().space)).unwrap();
    let copied = there.run(target.heap(NAME, HeapOptions::default())).unwrap();
    // Also when it is opened again, which has a look at all that is kept.
    let (reopened, copied) = again(&there, target, copied);
    assert_eq!((copied.status().last, copied.complaints()), (heap.status().last, Vec::new()));
    let before = Rc::new(there.run(copied.as_of(commit)).unwrap());
    for (nth, (number, id)) in ids.iter().enumerate() {
        let now = there.run(copied.get(*id));
        match nth.is_multiple_of(3) {
            true => assert_eq!(now.unwrap_err().kind, Kind::Missing),
            false => assert_eq!(now.unwrap(), record(*number)),
        }
        let then = there.run(before.get_many(&[*id])).swap_remove(0);
        match nth < 300 {
            true => assert_eq!(then.unwrap(), record(*number)),
            false => assert_eq!(then.unwrap_err().kind, Kind::Missing),
        }
    }
    // It goes on there, and nothing of it is leaked or used twice.
    put(&there, &copied, 700..720);
    drop((copied, before, reopened));
    there.kill();
    let found = there.run(verify(there.env(), &mut |_, _| ())).unwrap().heaps.remove(0);
    assert_eq!((found.damaged, found.leaked, found.twice, found.complaints), (0, 0, 0, Vec::new()));
}

#[test]
fn what_cannot_be_read_or_rotted_is_damaged_in_the_copy_too_and_nothing_else_is() {
    let (here, source, heap) = fresh(Bytes::mib(64), kept(), HeapOptions::default());
    let ids = put(&here, &heap, 0..300);
    let (lost, rotted) = (ids[40].1, ids[200].1);
    // As if nothing of it was in memory.
    let (_source, heap) = again(&here, source, heap);
    here.disk.lose(lies(&heap, lost));
    here.disk.flip(lies(&heap, rotted) + Bytes(12));
    let damaged = |fake: &Fake, heap: &Rc<Heap>| -> Vec<RecordId> {
        let all: Vec<RecordId> = ids.iter().map(|(_, id)| *id).collect();
        let found = all.iter().zip(fake.run(heap.get_many(&all))).filter_map(|(id, record)| match record {
            Ok(_) => None,
            Err(error) => {
                assert_eq!(error.kind, Kind::Damaged, "{error}");
                Some(*id)
            }
        });
        found.collect()
    };
    let there = Fake::new(Bytes::mib(64), false);
    let target = there.target();
    let unread = heap.unread(None, 0).unwrap();
    there.run(target.receive_heap(NAME, unread.stamp, unread.space)).unwrap();
    copy((&here, &heap), unread.watch, (&there, &target), 64);
    there.run(target.received_heap(NAME, heap.unread(Some(unread.watch), 0).unwrap().space)).unwrap();
    let copied = there.run(target.heap(NAME, HeapOptions::default())).unwrap();
    let found = damaged(&there, &copied);
    assert!(found.contains(&lost) && found.contains(&rotted), "{found:?}");
    // Others on the block that is lost are lost where they were, too.
    let is_gone = |id: RecordId| here.run(heap.get(id)).is_err_and(|error| error.kind == Kind::Damaged);
    assert!(found.iter().all(|id| is_gone(*id)), "{found:?}");
}

#[test]
fn who_copied_before_and_who_copies_what_was_opened_anew_is_told_to_begin_anew() {
    let (here, source, heap) = fresh(Bytes::mib(64), kept(), HeapOptions::default());
    put(&here, &heap, 0..10);
    assert_eq!(heap.unread(Some(7), 0).unwrap_err().kind, Kind::Stale);
    let first = heap.unread(None, 0).unwrap().watch;
    let second = heap.unread(None, 0).unwrap().watch;
    assert_eq!(heap.unread(Some(first), 0).unwrap_err().kind, Kind::Stale);
    assert_eq!(here.run(heap.image(first, 0..1)).unwrap_err().kind, Kind::Stale);
    for odd in [3..3, 0..1 << 20] {
        assert_eq!(here.run(heap.image(second, odd)).unwrap_err().kind, Kind::Usage);
    }
    assert_eq!(here.run(heap.image(second, 0..2)).unwrap().len(), 2 << 16);
    let (source, heap) = again(&here, source, heap);
    assert_eq!(heap.unread(Some(second), 0).unwrap_err().kind, Kind::Stale);
    here.run(source.delete_heap(NAME)).unwrap();
    assert_eq!(heap.unread(None, 0).unwrap_err().kind, Kind::Missing);
}

/// The last commit names space that it does not use any more: what was freed with it.
#[test]
fn a_heap_from_whose_end_much_was_freed_can_be_opened_where_it_was_copied() {
    let settings = HeapSettings { threshold: 1, ..HeapSettings::default() };
    let (here, _source, heap) = fresh(Bytes::mib(128), settings, HeapOptions::default());
    let some = put(&here, &heap, 0..10);
    let large: Vec<RecordId> = (0..6).map(|_| here.run(heap.put(&vec![7; 6 << 20])).unwrap()).collect();
    here.run(heap.commit(None)).unwrap();
    here.run(heap.free_many(&large)).unwrap();
    let used = || heap.work.borrow().allocation.units().used();
    let named = || heap.work.borrow().last.used_units;
    // What was freed is given back when two more commits have passed, by the last of which it is still named.
    for _ in 0..5 {
        if used() < named() {
            break;
        }
        here.run(heap.put(b"more")).unwrap();
        here.run(heap.commit(None)).unwrap();
    }
    let there = Fake::new(Bytes::mib(200), false);
    let target = there.target();
    let unread = heap.unread(None, 0).unwrap();
    assert!(used() < named() && named() <= unread.space, "{} are used, {} named, of {}", used(), named(), unread.space);
    there.run(target.receive_heap(NAME, unread.stamp, unread.space)).unwrap();
    copy((&here, &heap), unread.watch, (&there, &target), 64);
    there.run(target.received_heap(NAME, unread.space)).unwrap();
    let copied = there.run(target.heap(NAME, HeapOptions::default())).unwrap();
    assert_eq!(copied.complaints(), Vec::<String>::new());
    assert!(some.iter().all(|(number, id)| there.run(copied.get(*id)).unwrap() == record(*number)));
}

/// Where the first page of allocators lies that the last commit names.
fn first_page(heap: &Rc<Heap>) -> Bytes {
    let at = {
        let last = &heap.work.borrow().last;
        Root::place_at(&last.table, last.pages[0].place)
    };
    heap.at(at)
}

#[test]
fn what_describes_the_last_commit_is_whole_in_the_copy_also_where_it_rotted_since_the_heap_was_opened() {
    for (damage, is_opened) in [("root", false), ("root", true), ("page", false), ("page", true), ("lost page", false)]
    {
        let (here, source, heap) = fresh(Bytes::mib(64), HeapSettings::default(), HeapOptions::default());
        let mut ids = put(&here, &heap, 0..300);
        let (_source, heap) = if is_opened { again(&here, source, heap) } else { (source, heap) };
        if !is_opened {
            ids.extend(put(&here, &heap, 300..400));
        }
        match damage {
            "root" => {
                let both = if is_opened { 0..2 } else { heap.work.borrow().which..heap.work.borrow().which + 1 };
                both.for_each(|which| here.disk.flip(heap.at(root::root_at(which)) + Bytes(30)));
            }
            "page" => here.disk.flip(first_page(&heap) + Bytes(50)),
            _ => here.disk.lose(first_page(&heap)),
        }
        let there = Fake::new(Bytes::mib(64), false);
        let target = there.target();
        let unread = heap.unread(None, 0).unwrap();
        there.run(target.receive_heap(NAME, unread.stamp, unread.space)).unwrap();
        copy((&here, &heap), unread.watch, (&there, &target), 64);
        there.run(target.received_heap(NAME, unread.space)).unwrap();
        let copied = there.run(target.heap(NAME, HeapOptions::default())).unwrap();
        assert_eq!(copied.status().last, heap.status().last, "{damage}, {is_opened}");
        assert!(ids.iter().all(|(number, id)| there.run(copied.get(*id)).unwrap() == record(*number)), "{damage}");
    }
}

#[test]
fn where_a_page_of_the_last_commit_is_not_known_as_it_was_nothing_is_copied_rather_than_an_older_commit() {
    let (here, source, heap) = fresh(Bytes::mib(64), HeapSettings::default(), HeapOptions::default());
    put(&here, &heap, 0..300);
    put(&here, &heap, 300..400);
    let (_source, heap) = again(&here, source, heap);
    here.disk.lose(first_page(&heap));
    let unread = heap.unread(None, 0).unwrap();
    let error = here.run(heap.image(unread.watch, 0..unread.units as u32)).unwrap_err();
    assert!(error.kind == Kind::Damaged && error.message.contains("an older commit"), "{error}");
    assert_eq!(heap.unread(Some(unread.watch), 0).unwrap(), unread, "all of it is still to be read");
}

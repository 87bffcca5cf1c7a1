use super::Role;
use crate::Target;
use crate::fake::Fake;
use crate::heap::allocation::Slot;
use crate::heap::audit::HeapFound;
use crate::heap::chain::Chain;
use crate::heap::testing::{again, fresh, lies, used};
use crate::heap::view::Eye;
use crate::heap::{Heap, HeapOptions};
use crate::verify::verify;
use forebay_model::heap::{HeapSettings, RecordId};
use forebay_model::{Bytes, Kind};
use std::rc::Rc;

fn heap() -> (Fake, Rc<Target>, Rc<Heap>) {
    fresh(Bytes::mib(128), HeapSettings { threshold: 1, ..HeapSettings::default() }, HeapOptions::default())
}

/// What is there after three more commits and a kill.
fn looked_over(fake: &Fake, target: Rc<Target>, heap: Rc<Heap>) -> (Rc<Target>, Rc<Heap>, HeapFound) {
    (0..3).for_each(|_| assert!(fake.run(heap.commit(None)).is_ok()));
    let (target, heap) = again(fake, target, heap);
    let found = fake.run(verify(fake.env(), &mut |_, _| ())).unwrap().heaps.remove(0);
    (target, heap, found)
}

/// The list of the parts of a chained record.
fn list(fake: &Fake, heap: &Rc<Heap>, id: RecordId) -> Chain {
    Chain::decode(id, &fake.run(heap.bring(&Eye::Live, id, Role::Record)).unwrap()).unwrap()
}

#[test]
fn a_record_that_rotted_is_freed_with_others_and_nothing_of_it_is_left() {
    for by_writer in [false, true] {
        let (fake, target, heap) = heap();
        let ids: Vec<RecordId> =
            [40, 300, 3000, 8000].map(|length| fake.run(heap.put(&vec![7; length])).unwrap()).to_vec();
        fake.run(heap.commit(None)).unwrap();
        ids[..3].iter().for_each(|id| fake.disk.flip(lies(&heap, *id) + Bytes(20)));
        // Of the last one the second page is lost.
        fake.disk.lose(lies(&heap, ids[3]) + Bytes(4096));
        let (target, heap) = again(&fake, target, heap);
        let whole = fake.run(heap.put(b"whole")).unwrap();
        let all: Vec<RecordId> = ids.iter().copied().chain([whole]).collect();
        assert!(ids.iter().all(|id| fake.run(heap.get(*id)).unwrap_err().kind == Kind::Damaged));
        if by_writer {
            let writer = heap.writer();
            fake.run(writer.free_many(&all)).unwrap();
            fake.run(writer.commit(None)).unwrap();
        } else {
            fake.run(heap.free_many(&all)).unwrap();
            fake.run(heap.commit(None)).unwrap();
        }
        assert!(all.iter().all(|id| fake.run(heap.get(*id)).unwrap_err().kind == Kind::Missing));
        assert!(all.iter().all(|id| fake.run(heap.free(*id)).unwrap_err().kind == Kind::Missing));
        let complaints = heap.complaints();
        assert!(complaints.len() == 1 && complaints[0].contains("4 damaged records"), "{complaints:?}");
        assert!(complaints[0].contains("of 0 of them"), "{complaints:?}");
        let (_target, heap, found) = looked_over(&fake, target, heap);
        assert_eq!((used(&heap), found.slots, found.leaked, found.damage), (0, 0, 0, vec![]));
    }
}

#[test]
fn where_nothing_says_whose_a_slot_is_it_is_freed_only_if_no_list_can_name_it() {
    let (fake, target, heap) = heap();
    let small: Vec<RecordId> = (0..10).map(|n| fake.run(heap.put(&[n; 300])).unwrap()).collect();
    let large = fake.run(heap.put(&[7; 8000])).unwrap();
    fake.run(heap.commit(None)).unwrap();
    fake.disk.lose(lies(&heap, small[0]));
    fake.disk.lose(lies(&heap, large));
    let (target, heap) = again(&fake, target, heap);
    fake.run(heap.free_many(&small)).unwrap();
    fake.run(heap.free(large)).unwrap();
    fake.run(heap.commit(None)).unwrap();
    let complaints = heap.complaints();
    assert!(complaints[0].contains("11 damaged") || complaints[0].contains("10 damaged"), "{complaints:?}");
    assert!(complaints[0].contains("of 1 of them"), "{complaints:?}");
    let (_target, heap, found) = looked_over(&fake, target, heap);
    assert_eq!((used(&heap), found.leaked, found.damaged), (1, 0, 1), "the slot of the large one is told");
}

#[test]
fn an_id_that_outlived_its_record_takes_nothing_of_the_one_that_rotted_in_its_slot() {
    let (fake, target, heap) = heap();
    let old = fake.run(heap.put(&[1; 300])).unwrap();
    fake.run(heap.commit(None)).unwrap();
    fake.run(heap.free(old)).unwrap();
    (0..3).for_each(|_| assert!(fake.run(heap.commit(None)).is_ok()));
    let new = fake.run(heap.put(&[2; 300])).unwrap();
    assert_eq!(Slot::of(old), Slot::of(new));
    fake.run(heap.commit(None)).unwrap();
    fake.disk.flip(lies(&heap, new) + Bytes(100));
    let (target, heap) = again(&fake, target, heap);
    fake.run(heap.free(old)).unwrap();
    assert!(heap.complaints()[0].contains("of 1 of them"), "{:?}", heap.complaints());
    assert_eq!((used(&heap), fake.run(heap.get(new)).unwrap_err().kind), (1, Kind::Damaged));
    fake.run(heap.free(new)).unwrap();
    let (_target, heap, found) = looked_over(&fake, target, heap);
    assert_eq!((used(&heap), found.damage), (0, vec![]));
}

#[test]
fn of_a_large_record_whose_list_is_damaged_those_parts_are_freed_that_it_still_names() {
    let (fake, target, heap) = heap();
    let id = fake.run(heap.put(&[1; 100_000])).unwrap();
    let other = fake.run(heap.put(&[2; 100_000])).unwrap();
    fake.run(heap.commit(None)).unwrap();
    let slots = used(&heap);
    let part = list(&fake, &heap, id).parts[6];
    // The slot that the list says the fourth part is in.
    fake.disk.flip(lies(&heap, id) + Bytes(10 + 9 + 3 * 8 + 4));
    // A part that is damaged itself is named by what is damaged, too: nothing says that it is one.
    fake.disk.flip(lies(&heap, part) + Bytes(100));
    let (target, heap) = again(&fake, target, heap);
    fake.run(heap.free(id)).unwrap();
    assert!(heap.complaints()[0].contains("of 1 of them"), "{:?}", heap.complaints());
    assert_eq!(used(&heap), slots / 2 + 2);
    let (_target, heap, found) = looked_over(&fake, target, heap);
    assert_eq!((found.leaked, found.damaged), (1, 1), "both are told");
    assert_eq!(fake.run(heap.get(other)).unwrap(), [2; 100_000]);
    assert_eq!(fake.run(heap.get(id)).unwrap_err().kind, Kind::Missing);
}

#[test]
fn of_a_very_large_record_with_a_damaged_list_of_parts_all_are_freed_that_are_known() {
    for is_lost in [false, true] {
        let (fake, target, heap) = heap();
        let id = fake.run(heap.put(&[1; 10_000_000])).unwrap();
        fake.run(heap.commit(None)).unwrap();
        let list = list(&fake, &heap, id);
        assert_eq!((list.levels, list.parts.len()), (1, 2));
        let at = lies(&heap, list.parts[0]);
        match is_lost {
            false => fake.disk.flip(at + Bytes(10 + 7 * 8)),
            true => [0, 4096].into_iter().for_each(|page| fake.disk.lose(at + Bytes(page))),
        }
        let (target, heap) = again(&fake, target, heap);
        fake.run(heap.free(id)).unwrap();
        // One id is cut where the next part begins.
        assert_eq!(used(&heap), if is_lost { 1023 } else { 1 });
        assert!(heap.complaints()[0].contains("of 1 of them"), "{:?}", heap.complaints());
        let (_target, heap, found) = looked_over(&fake, target, heap);
        assert_eq!((used(&heap), found.leaked), if is_lost { (1023, 1023) } else { (1, 1) });
    }
}

/// Two ids of one slot, of which nothing can be read: the first outlived its record.
fn two_of_one_slot() -> (Fake, Rc<Target>, Rc<Heap>, [RecordId; 2]) {
    let (fake, target, heap) = heap();
    let old = fake.run(heap.put(&[1; 300])).unwrap();
    fake.run(heap.commit(None)).unwrap();
    fake.run(heap.free(old)).unwrap();
    (0..3).for_each(|_| assert!(fake.run(heap.commit(None)).is_ok()));
    let new = fake.run(heap.put(&[2; 300])).unwrap();
    assert!(Slot::of(old) == Slot::of(new) && old != new);
    fake.run(heap.commit(None)).unwrap();
    fake.disk.lose(lies(&heap, new));
    let (target, heap) = again(&fake, target, heap);
    (fake, target, heap, [old, new])
}

#[test]
fn of_two_ids_of_one_slot_that_cannot_be_read_only_one_is_freed() {
    let (fake, target, heap, ids) = two_of_one_slot();
    assert_eq!(fake.run(heap.free_many(&ids)).unwrap_err().kind, Kind::Missing);
    assert_eq!((used(&heap), heap.complaints()), (1, vec![]));
    fake.run(heap.free(ids[0])).unwrap();
    assert_eq!(fake.run(heap.free(ids[1])).unwrap_err().kind, Kind::Missing);
    let (_target, heap, found) = looked_over(&fake, target, heap);
    assert_eq!((used(&heap), found.slots, found.damage), (0, 0, vec![]));
}

#[test]
fn a_writer_too_frees_only_one_of_two_ids_of_one_slot_that_cannot_be_read() {
    let (fake, target, heap, ids) = two_of_one_slot();
    let writer = heap.writer();
    assert_eq!(fake.run(writer.free_many(&ids)).unwrap_err().kind, Kind::Missing);
    fake.run(writer.free(ids[0])).unwrap();
    assert_eq!(fake.run(writer.free(ids[1])).unwrap_err().kind, Kind::Missing);
    assert_eq!((used(&heap), writer.changes()), (1, 1));
    fake.run(writer.commit(None)).unwrap();
    drop(writer);
    let (_target, heap, found) = looked_over(&fake, target, heap);
    assert_eq!((used(&heap), found.slots, found.damage), (0, 0, vec![]));
}

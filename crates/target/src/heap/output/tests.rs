use crate::Target;
use crate::fake::Fake;
use crate::heap::allocation::Slot;
use crate::heap::classes::SLOT_HEADER;
use crate::heap::gather::{self, Gaps, Run};
use crate::heap::testing::{again, fresh};
use crate::heap::{Heap, HeapOptions};
use forebay_model::heap::{HeapSettings, RecordId};
use forebay_model::{Bytes, Kind};
use std::rc::Rc;

fn heap(options: HeapOptions) -> (Fake, Rc<Target>, Rc<Heap>) {
    fresh(Bytes::mib(128), HeapSettings { threshold: 1, ..HeapSettings::default() }, options)
}

fn lies(heap: &Heap, id: RecordId) -> std::ops::Range<u64> {
    gather::extent(&heap.work.borrow().allocation, Slot::of(id))
}

fn on_device(heap: &Heap, at: u64) -> Bytes {
    heap.work.borrow().space.runs(Bytes(at), Bytes(1))[0].0
}

#[test]
fn a_run_that_waits_while_its_block_moves_is_not_taken_for_the_records_that_are_there_by_then() {
    // Nothing is written by itself meanwhile, as it would not be beside a run.
    let (fake, target, heap) = heap(HeapOptions { buffers: 64, ..HeapOptions::default() });
    let writer = heap.writer();
    let first: Vec<RecordId> = (0..900).map(|n| fake.run(writer.put(&[n as u8; 3000])).unwrap()).collect();
    let slots: Vec<Slot> = first.iter().map(|id| Slot::of(*id)).collect();
    let runs: Vec<Run> = heap.gathered(&slots, Gaps::NONE);
    drop(writer);
    // What lay there is given to slots of another size.
    let large: Vec<RecordId> = (0..900).map(|n| fake.run(heap.put(&[n as u8; 8000])).unwrap()).collect();
    let second: Vec<RecordId> = (0..900).map(|n| fake.run(heap.put(&[!n as u8; 3000])).unwrap()).collect();
    assert_eq!(Slot::of(first[0]), Slot::of(second[0]), "the same slots");
    assert_ne!(runs[0].at, lies(&heap, second[0]).start, "in other places");
    for run in runs {
        fake.run(heap.clone().write_run(run)).unwrap();
    }
    fake.run(heap.commit(None)).unwrap();
    let (_target, heap) = again(&fake, target, heap);
    for (n, (large, small)) in large.iter().zip(&second).enumerate() {
        assert_eq!(fake.run(heap.get(*large)).unwrap(), [n as u8; 8000]);
        assert_eq!(fake.run(heap.get(*small)).unwrap(), [!n as u8; 3000]);
    }
}

#[test]
fn a_page_that_cannot_be_read_costs_what_lay_on_it_and_nothing_else() {
    for gather in [true, false] {
        let (fake, target, heap) = heap(HeapOptions { gather, ..HeapOptions::default() });
        let ids: Vec<RecordId> = (0..100).map(|n| fake.run(heap.put(&[n; 500])).unwrap()).collect();
        fake.run(heap.commit(None)).unwrap();
        (0..100).step_by(2).for_each(|n| fake.run(heap.free(ids[n])).unwrap());
        (0..2).for_each(|_| assert!(fake.run(heap.commit(None)).is_ok()));
        let (target, heap) = again(&fake, target, heap);
        let lost = lies(&heap, ids[41]).start / 4096 * 4096;
        fake.disk.lose(on_device(&heap, lost));
        let new: Vec<RecordId> = (100..150).map(|n| fake.run(heap.put(&[n; 500])).unwrap()).collect();
        assert!(new.iter().any(|id| (lost..lost + 4096).contains(&lies(&heap, *id).start)), "some lie there");
        fake.run(heap.commit(None)).unwrap();
        let (_target, heap) = again(&fake, target, heap);
        for (n, id) in (100..).zip(&new) {
            assert_eq!(fake.run(heap.get(*id)).unwrap(), [n; 500]);
        }
        for n in (1..100).step_by(2) {
            let lies = lies(&heap, ids[n]);
            match lies.start < lost + 4096 && lies.end > lost {
                true => assert_eq!(fake.run(heap.get(ids[n])).unwrap_err().kind, Kind::Damaged),
                false => assert_eq!(fake.run(heap.get(ids[n])).unwrap(), [n as u8; 500]),
            }
        }
    }
}

#[test]
fn where_nothing_can_be_read_nothing_of_others_is_written_over() {
    let (fake, target, heap) = heap(HeapOptions::default());
    let ids: Vec<RecordId> = (0..100).map(|n| fake.run(heap.put(&[n; 500])).unwrap()).collect();
    fake.run(heap.commit(None)).unwrap();
    (0..100).step_by(2).for_each(|n| fake.run(heap.free(ids[n])).unwrap());
    (0..2).for_each(|_| assert!(fake.run(heap.commit(None)).is_ok()));
    let (target, heap) = again(&fake, target, heap);
    let first = lies(&heap, ids[1]).start;
    (0..20).for_each(|page| fake.disk.lose(on_device(&heap, first + page * 4096)));
    let root = crate::heap::root::root_at(heap.work.borrow().which);
    fake.disk.lose(on_device(&heap, root.0));
    for n in 0..50 {
        fake.run(heap.put(&[n; 500])).unwrap();
    }
    assert_eq!(fake.run(heap.commit(None)).unwrap_err().kind, Kind::Damaged);
    fake.disk.find_again();
    let (_target, heap) = again(&fake, target, heap);
    for n in (1..100).step_by(2) {
        assert_eq!(fake.run(heap.get(ids[n])).unwrap(), [n as u8; 500]);
    }
}

#[test]
fn what_is_behind_a_record_in_its_slot_is_zero_whatever_lay_there() {
    let (fake, _target, heap) = heap(HeapOptions::default());
    let old: Vec<RecordId> = (0..20).map(|_| fake.run(heap.put(&[0xff; 490])).unwrap()).collect();
    fake.run(heap.commit(None)).unwrap();
    fake.run(heap.free_many(&old)).unwrap();
    (0..2).for_each(|_| assert!(fake.run(heap.commit(None)).is_ok()));
    let new: Vec<RecordId> = (0..20).map(|_| fake.run(heap.put(&[1; 400])).unwrap()).collect();
    assert!(new.iter().zip(&old).all(|(new, old)| Slot::of(*new) == Slot::of(*old)), "where the others lay");
    fake.run(heap.commit(None)).unwrap();
    for id in new {
        let lies = lies(&heap, id);
        let mut page = Vec::new();
        fake.run(heap.read(gather::pages(&lies), |_, bytes| page.extend_from_slice(bytes))).unwrap();
        let slot = &page[(lies.start % 4096) as usize..][..512];
        let (record, behind) = slot[SLOT_HEADER..].split_at(400);
        assert!(record.iter().all(|byte| *byte == 1) && behind.iter().all(|byte| *byte == 0), "{id}");
    }
}

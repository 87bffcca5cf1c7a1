use super::{Run, alone, gather, to_read};
use crate::heap::allocation::{Allocation, Slot};
use crate::heap::classes::{Class, UNIT};
use forebay_model::heap::HeapSettings;

fn allocation() -> Allocation {
    Allocation::new(HeapSettings::default(), 8, 1 << 20, 32)
}

/// Slots of a class, the first at a place that follows from the table's unit before it.
fn slots(allocation: &mut Allocation, class: Class, count: usize) -> Vec<Slot> {
    (0..count).map(|_| allocation.take(class).unwrap()).collect()
}

fn never(_: Slot) -> bool {
    false
}

fn shape(runs: &[Run]) -> Vec<(u64, u64, usize)> {
    runs.iter().map(|run| (run.at, run.end - run.at, run.slots.len())).collect()
}

#[test]
fn neighbours_are_one_run_whatever_order_they_came_in_and_nothing_is_read_for_them() {
    let mut allocation = allocation();
    // 320 bytes: pages and slots have few ends in common.
    let mut all = slots(&mut allocation, Class(3), 1024);
    all.reverse();
    let runs = gather(&allocation, &all, never);
    let at = 9 * UNIT.0;
    assert_eq!(shape(&runs), [(at, 320 << 10, 1024)]);
    assert!(runs[0].beside.is_empty());
    assert!(runs[0].slots.is_sorted_by_key(|(_, extent)| extent.start));
}

#[test]
fn what_lies_on_the_same_page_and_was_written_before_is_read_and_kept() {
    let mut allocation = allocation();
    let all = slots(&mut allocation, Class(2), 64);
    allocation.committed(1, 0);
    let more = slots(&mut allocation, Class(2), 2);
    let runs = gather(&allocation, &more, never);
    let begin = 9 * UNIT.0;
    let page = begin + 64 * 192 / 4096 * 4096;
    // 64 slots end where a page does: nothing lies before on the page.
    assert_eq!(shape(&runs), [(page, 4096, 2)]);
    assert!(runs[0].beside.is_empty());
    let runs = gather(&allocation, &all[30..32], never);
    let page = begin + 4096;
    assert_eq!(shape(&runs), [(page, 4096, 2)]);
    let beside: u64 = runs[0].beside.iter().map(|range| range.end - range.start).sum();
    assert_eq!(beside, 4096 - 2 * 192);
    let read = to_read(&runs[0]);
    assert_eq!((read.len(), read[0].clone()), (1, page..page + 4096));
    // Of those that wait for their own write nothing is on the device, and they go along.
    let along = gather(&allocation, &all[30..32], |slot| slot.slot == 33);
    assert_eq!(along[0].slots.len(), 3);
    let by_itself = alone(&allocation, all[30], |slot| slot.slot == 33);
    let beside: u64 = by_itself.beside.iter().map(|range| range.end - range.start).sum();
    assert_eq!(beside, 4096 - 2 * 192);
}

#[test]
fn runs_end_where_slots_are_far_apart_or_it_would_be_too_long() {
    let mut allocation = allocation();
    let all = slots(&mut allocation, Class(10), 300);
    let runs = gather(&allocation, &all, never);
    let begin = 9 * UNIT.0;
    assert_eq!(
        shape(&runs),
        [(begin, 1 << 20, 128), (begin + (1 << 20), 1 << 20, 128), (begin + (2 << 20), 44 << 13, 44)]
    );
    let runs = gather(&allocation, &[all[0], all[2]], never);
    assert_eq!(shape(&runs), [(begin, 8192, 1), (begin + 16384, 8192, 1)]);
}

use super::{Gaps, Run, alone, gather};
use crate::heap::allocation::{Allocation, Slot};
use crate::heap::classes::{Class, UNIT};
use crate::heap::units::Units;
use forebay_model::heap::HeapSettings;

fn allocation() -> Allocation {
    Allocation::new(HeapSettings::default(), Units::new(8, 1 << 20), 32)
}

/// Slots of a class, the first at a place that follows from the table's unit before it.
fn slots(allocation: &mut Allocation, class: Class, count: usize) -> Vec<Slot> {
    (0..count).map(|_| allocation.take(class).unwrap()).collect()
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
    let runs = gather(&allocation, &all, Gaps::NONE, |_| true);
    let at = 9 * UNIT.0;
    assert_eq!(shape(&runs), [(at, 320 << 10, 1024)]);
    assert_eq!(runs[0].stays, at);
    assert!(runs[0].slots.is_sorted_by_key(|(_, extent)| extent.start));
}

#[test]
fn what_lies_on_the_same_page_and_was_written_before_is_read_and_kept() {
    let mut allocation = allocation();
    let all = slots(&mut allocation, Class(2), 64);
    allocation.committed(1, 0);
    let more = slots(&mut allocation, Class(2), 2);
    let runs = gather(&allocation, &more, Gaps::NONE, |slot| more.contains(&slot));
    let begin = 9 * UNIT.0;
    let page = begin + 64 * 192 / 4096 * 4096;
    // 64 slots end where a page does: nothing lies before on the page.
    assert_eq!((shape(&runs), runs[0].stays), (vec![(page, 4096, 2)], page));
    let runs = gather(&allocation, &all[30..32], Gaps::NONE, |slot| all[30..32].contains(&slot));
    let page = begin + 4096;
    assert_eq!((shape(&runs), runs[0].stays), (vec![(page, 4096, 2)], page + 4096));
    // Of those that wait for their own write nothing is on the device, and they go along.
    let along = gather(&allocation, &all[30..32], Gaps::NONE, |slot| [30, 31, 33].contains(&slot.slot));
    assert_eq!(along[0].slots.len(), 3);
    let by_itself = alone(&allocation, all[30], |slot| [30, 33].contains(&slot.slot));
    assert_eq!((by_itself.slots.len(), by_itself.stays), (1, page + 4096));
}

#[test]
fn runs_end_where_slots_are_far_apart_or_it_would_be_too_long() {
    let mut allocation = allocation();
    let all = slots(&mut allocation, Class(10), 300);
    let begin = 9 * UNIT.0;
    assert_eq!(
        shape(&gather(&allocation, &all, Gaps::NONE, |_| true)),
        [(begin, 1 << 20, 128), (begin + (1 << 20), 1 << 20, 128), (begin + (2 << 20), 44 << 13, 44)]
    );
    let some = [all[0], all[2], all[20]];
    let runs = |gaps| shape(&gather(&allocation, &some, gaps, |slot| some.contains(&slot)));
    assert_eq!(runs(Gaps::NONE).len(), 3);
    let near = Gaps { held: 8 << 10, free: 0 };
    assert_eq!(runs(near), [(begin, 3 << 13, 2), (begin + (20 << 13), 8 << 10, 1)]);
    assert_eq!(runs(Gaps { held: 0, free: 1 << 20 }).len(), 3, "what lies between is held");
    assert_eq!(runs(Gaps::ROTATING), [(begin, 21 << 13, 3)]);
}

#[test]
fn of_a_run_so_much_is_read_as_others_have_something_in_it() {
    let mut allocation = allocation();
    let all = slots(&mut allocation, Class(10), 10);
    let begin = 9 * UNIT.0;
    let some = [all[0], all[2], all[4]];
    let run =
        |allocation: &Allocation| gather(allocation, &some, Gaps::ROTATING, |slot| some.contains(&slot)).remove(0);
    assert_eq!(run(&allocation).stays, begin + 4 * 8192, "what is behind that is written anew");
    allocation.free(all[3]);
    assert_eq!(run(&allocation).stays, begin + 2 * 8192);
    allocation.free(all[1]);
    assert_eq!(run(&allocation).stays, begin);
}

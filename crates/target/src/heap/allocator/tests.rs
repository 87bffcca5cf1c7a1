use super::{Allocator, Found, Search};
use crate::heap::classes::{ALLOCATOR_SLOTS, BLOCK_SLOTS, Class};

const SMALL: Class = Class(0);

/// Takes a slot, and starts blocks as they are needed.
fn take(allocator: &mut Allocator, search: Search) -> Option<u16> {
    loop {
        match allocator.take(search) {
            Found::Slot(slot) => return Some(slot),
            Found::Unstarted(block) => allocator.start(block, 100 + block as u32),
            Found::Nothing => return None,
        }
    }
}

#[test]
fn slots_are_neighbours_until_the_allocator_is_full() {
    let mut allocator = Allocator::new(SMALL);
    let slots: Vec<u16> = std::iter::from_fn(|| take(&mut allocator, Search::Onwards)).collect();
    assert_eq!(slots, (0..ALLOCATOR_SLOTS as u16).collect::<Vec<_>>());
    assert_eq!((allocator.free(), allocator.used()), (0, ALLOCATOR_SLOTS));
    assert_eq!(allocator.place(1025), Some((101, 64)));
}

#[test]
fn a_slot_that_a_commit_has_is_handed_out_only_when_it_is_released() {
    let mut allocator = Allocator::new(SMALL);
    let slot = take(&mut allocator, Search::First).unwrap();
    assert!(allocator.free_slot(slot, Search::First), "no commit has it");
    assert_eq!(take(&mut allocator, Search::First), Some(slot));
    allocator.commit();
    assert!(!allocator.free_slot(slot, Search::First));
    assert_ne!(take(&mut allocator, Search::First), Some(slot));
    allocator.commit();
    assert!(allocator.is_held(slot) && !allocator.is_live(slot));
    let before = allocator.free();
    allocator.release(slot, Search::First);
    assert_eq!(allocator.free(), before + 1);
    assert_eq!(take(&mut allocator, Search::First), Some(slot));
}

#[test]
fn an_abort_leaves_what_was_committed() {
    let mut allocator = Allocator::new(SMALL);
    let [a, b] = [(); 2].map(|()| take(&mut allocator, Search::First).unwrap());
    allocator.commit();
    allocator.free_slot(a, Search::First);
    let c = take(&mut allocator, Search::First).unwrap();
    allocator.abort();
    assert_eq!([a, b, c].map(|slot| allocator.is_live(slot)), [true, true, false]);
    assert_eq!(allocator.free(), BLOCK_SLOTS - 2);
}

#[test]
fn a_stretch_in_which_anything_lies_is_left_alone() {
    // 1 KiB: 16 slots in a stretch of 16 KiB.
    let mut allocator = Allocator::new(Class(6));
    let all: Vec<u16> = (0..64).map(|_| take(&mut allocator, Search::Onwards).unwrap()).collect();
    allocator.commit();
    let freed: Vec<u16> = all.into_iter().filter(|slot| *slot != 5 && *slot != 40).collect();
    freed.iter().for_each(|slot| assert!(!allocator.free_slot(*slot, Search::Onwards)));
    allocator.commit();
    freed.iter().for_each(|slot| allocator.release(*slot, Search::Onwards));
    allocator.rejoin();
    let taken: Vec<u16> = (0..33).map(|_| take(&mut allocator, Search::Onwards).unwrap()).collect();
    assert_eq!(taken, (16..32).chain(48..65).collect::<Vec<_>>());
    allocator.rejoin();
    assert_eq!(take(&mut allocator, Search::Anywhere), Some(0));
}

#[test]
fn what_is_freed_while_its_stretch_is_being_filled_is_filled_with_it() {
    let mut allocator = Allocator::new(Class(6));
    let first = take(&mut allocator, Search::Onwards).unwrap();
    assert!(allocator.free_slot(first, Search::Onwards));
    assert_eq!(take(&mut allocator, Search::Onwards), Some(first));
}

#[test]
fn one_that_was_not_full_goes_on_behind_what_it_has_when_it_is_opened() {
    let mut allocator = Allocator::new(SMALL);
    let slots: Vec<u16> = (0..200).map(|_| take(&mut allocator, Search::First).unwrap()).collect();
    allocator.free_slot(slots[3], Search::First);
    let mut opened = Allocator::opened(SMALL, *allocator.starts(), *allocator.live(), 0);
    opened.go_on();
    assert_eq!(take(&mut opened, Search::Onwards), Some(256), "on a page of its own");
    opened.rejoin();
    assert_eq!(take(&mut opened, Search::Anywhere), Some(3));
}

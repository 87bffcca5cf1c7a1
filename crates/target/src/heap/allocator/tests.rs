use super::{Allocator, Found, Search};
use crate::heap::classes::{ALLOCATOR_SLOTS, BLOCK_SLOTS, Class};

const SMALL: Class = Class(0);

/// Takes a slot, and starts blocks as they are needed.
fn take(allocator: &mut Allocator) -> Option<u16> {
    loop {
        match allocator.take() {
            Found::Slot(slot) => return Some(slot),
            Found::Unstarted(block) => allocator.start(block, 100 + block as u32),
            Found::Nothing => return None,
        }
    }
}

#[test]
fn slots_are_neighbours_until_the_allocator_is_full() {
    let mut allocator = Allocator::new(SMALL);
    let slots: Vec<u16> = std::iter::from_fn(|| take(&mut allocator)).collect();
    assert_eq!(slots, (0..ALLOCATOR_SLOTS as u16).collect::<Vec<_>>());
    assert_eq!((allocator.free(), allocator.used()), (0, ALLOCATOR_SLOTS));
    assert_eq!(allocator.place(1025), Some((101, 64)));
}

#[test]
fn a_slot_that_a_commit_has_is_handed_out_only_when_it_is_released() {
    let mut allocator = Allocator::new(SMALL);
    let slot = take(&mut allocator).unwrap();
    assert!(allocator.free_slot(slot, Search::First), "no commit has it");
    assert_eq!(take(&mut allocator), Some(slot));
    allocator.commit();
    assert!(!allocator.free_slot(slot, Search::First));
    assert_ne!(take(&mut allocator), Some(slot));
    allocator.commit();
    assert!(allocator.is_held(slot) && !allocator.is_live(slot));
    let before = allocator.free();
    allocator.release(slot, Search::First);
    assert_eq!(allocator.free(), before + 1);
    assert_eq!(take(&mut allocator), Some(slot));
}

#[test]
fn an_abort_leaves_what_was_committed() {
    let mut allocator = Allocator::new(SMALL);
    let [a, b] = [(); 2].map(|()| take(&mut allocator).unwrap());
    allocator.commit();
    allocator.free_slot(a, Search::First);
    let c = take(&mut allocator).unwrap();
    allocator.abort();
    assert_eq!([a, b, c].map(|slot| allocator.is_live(slot)), [true, true, false]);
    assert_eq!(allocator.free(), BLOCK_SLOTS - 2);
}

#[test]
fn the_search_goes_on_where_it_was_or_back_to_what_was_freed() {
    for (search, next) in [(Search::Onwards, 3), (Search::First, 0)] {
        let mut allocator = Allocator::new(Class(6));
        let all: Vec<u16> = (0..64 * 3).map(|_| take(&mut allocator).unwrap()).collect();
        allocator.free_slot(all[5], search);
        assert_eq!(take(&mut allocator).unwrap() / 64, next);
        allocator.rejoin();
        let freed = if search == Search::Onwards { 5 } else { 192 };
        assert_eq!(take(&mut allocator), Some(freed));
    }
}

#[test]
fn a_block_in_which_nothing_is_gives_its_place_back_and_gets_another_one() {
    let mut allocator = Allocator::new(SMALL);
    let all: Vec<u16> = (0..3 * BLOCK_SLOTS).map(|_| take(&mut allocator).unwrap()).collect();
    allocator.commit();
    let block = |nth: usize| &all[nth * BLOCK_SLOTS as usize..][..BLOCK_SLOTS as usize];
    block(1).iter().for_each(|slot| assert!(!allocator.free_slot(*slot, Search::Onwards)));
    assert_eq!(allocator.give_back(1024), None, "the commit has them");
    allocator.commit();
    block(1).iter().for_each(|slot| allocator.release(*slot, Search::Onwards));
    assert_eq!([0, 1024, 1024].map(|slot| allocator.give_back(slot)), [None, Some(101), None]);
    assert_eq!((allocator.started(), allocator.free(), allocator.has_room()), (2 * BLOCK_SLOTS, 0, true));
    allocator.rejoin();
    assert_eq!(allocator.take(), Found::Unstarted(1));
    allocator.pass(1);
    assert_eq!(allocator.take(), Found::Unstarted(3));
}

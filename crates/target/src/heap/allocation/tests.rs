use super::{Allocation, Allocator, Slot};
use crate::heap::classes::{ALLOCATOR_SLOTS, BLOCK_SLOTS, Class};
use crate::heap::units::{Short, Units};
use crate::seeds::each;
use forebay_model::heap::{HeapMode, HeapSettings};
use std::collections::BTreeSet;

/// 2 KiB: not small.
const CLASS: Class = Class(7);

fn allocation(threshold: u32, mode: HeapMode) -> Allocation {
    Allocation::new(HeapSettings { threshold, mode, ..HeapSettings::default() }, Units::new(8, 1 << 20)).on(false)
}

fn commit(allocation: &mut Allocation, number: u64, oldest: u64) {
    allocation.begin_commit();
    allocation.committed(number, oldest);
}

fn fill(allocation: &mut Allocation, class: Class, slots: u32) -> Vec<Slot> {
    (0..slots).map(|_| allocation.take(class).unwrap()).collect()
}

#[test]
fn a_full_allocator_comes_back_past_the_threshold_behind_the_others() {
    for (threshold, class) in [(1, CLASS), (300, CLASS), (1500, CLASS), (1, Class(0))] {
        let mut allocation = allocation(threshold, HeapMode::ReadWrite);
        let bar = allocation.bar();
        let slots = fill(&mut allocation, class, ALLOCATOR_SLOTS + 1);
        assert_eq!(slots.last().unwrap().allocator, 1);
        // Of each block some stay, so that none gives its units back.
        let freed: Vec<Slot> = slots.iter().step_by(4).copied().take(bar as usize).collect();
        let (last, others) = freed.split_last().unwrap();
        others.iter().for_each(|slot| assert!(allocation.free(*slot)));
        let more = fill(&mut allocation, class, ALLOCATOR_SLOTS);
        let second = more.iter().filter(|slot| slot.allocator == 1).count() as u32;
        assert_eq!((second, more.last().unwrap().allocator), (ALLOCATOR_SLOTS - 1, 2), "{threshold}");
        assert!(allocation.free(*last));
        let rest = fill(&mut allocation, class, ALLOCATOR_SLOTS);
        assert!(
            rest[..ALLOCATOR_SLOTS as usize - 1].iter().all(|slot| slot.allocator == 2),
            "first the one at the head"
        );
        assert_eq!(rest.last().unwrap().allocator, 0, "{threshold}");
    }
}

#[test]
fn where_much_is_free_the_emptiest_allocator_is_used_before_another_block_is_begun() {
    let mut allocation = allocation(5000, HeapMode::ReadWrite);
    let slots = fill(&mut allocation, CLASS, 2 * ALLOCATOR_SLOTS);
    // Every fourth of the first one, and more of the second.
    let is_freed = |slot: &&Slot| slot.slot.is_multiple_of(4) || slot.allocator == 1 && slot.slot % 4 == 1;
    slots.iter().filter(is_freed).for_each(|slot| assert!(allocation.free(*slot)));
    let next = fill(&mut allocation, CLASS, ALLOCATOR_SLOTS / 2);
    assert!(next.iter().all(|slot| slot.allocator == 1));
    assert_eq!(allocation.take(CLASS).unwrap().allocator, 2, "what is left is less than a quarter");
    // So it is inside an allocator: one that has blocks left does not begin them.
    slots.iter().filter(|slot| slot.slot % 4 == 2).for_each(|slot| assert!(allocation.free(*slot)));
    let on = fill(&mut allocation, CLASS, BLOCK_SLOTS);
    assert_eq!(on[1022].allocator, 2);
    assert_ne!(on[1023].allocator, 2);
}

/// Frees a slot whose record waits to be written.
fn free_waiting(allocation: &mut Allocation, slot: Slot) {
    assert!(allocation.free(slot));
    allocation.hand_out_next(slot);
}

#[test]
fn slots_of_what_was_never_written_are_used_first_so_that_what_stays_lies_close_together() {
    for mode in [HeapMode::ReadWrite, HeapMode::Worm] {
        let mut allocation = allocation(3000, mode);
        let mut live = fill(&mut allocation, CLASS, 200);
        for round in 0..2000 {
            free_waiting(&mut allocation, live.remove(round * 7 % live.len()));
            live.push(allocation.take(CLASS).unwrap());
        }
        assert_eq!(live.iter().collect::<BTreeSet<_>>().len(), 200, "one was handed out twice");
        let last = live.iter().map(|slot| (slot.allocator, slot.slot)).max().unwrap();
        assert_eq!(last, (0, 199), "{mode:?}");
        // What is free when they are committed is for the next pass.
        let (freed, stays): (Vec<Slot>, Vec<Slot>) = live.into_iter().partition(|slot| slot.slot < 150);
        freed.iter().for_each(|slot| free_waiting(&mut allocation, *slot));
        commit(&mut allocation, 1, 0);
        assert_eq!(fill(&mut allocation, CLASS, 2), [200, 201].map(|slot| Slot { allocator: 0, slot }));
        assert!(stays.iter().all(|slot| allocation.get(0).is_committed(slot.slot)));
    }
}

#[test]
fn once_something_is_written_slots_are_used_in_their_order_until_the_next_commit() {
    let mut allocation = allocation(3000, HeapMode::ReadWrite);
    let slots = fill(&mut allocation, CLASS, 100);
    let next = |slot| Ok(Slot { allocator: 0, slot });
    free_waiting(&mut allocation, slots[3]);
    allocation.begin_writing();
    assert_eq!(allocation.take(CLASS), next(100));
    free_waiting(&mut allocation, slots[4]);
    assert_eq!(allocation.take(CLASS), next(101));
    commit(&mut allocation, 1, 0);
    let slot = allocation.take(CLASS).unwrap();
    free_waiting(&mut allocation, slot);
    assert_eq!(fill(&mut allocation, CLASS, 2), [102, 103].map(|slot| Slot { allocator: 0, slot }));
}

#[test]
fn what_was_freed_and_undone_or_went_with_its_block_is_not_used_first() {
    let mut allocation = allocation(3000, HeapMode::ReadWrite);
    fill(&mut allocation, CLASS, BLOCK_SLOTS + 10);
    commit(&mut allocation, 1, 0);
    let more = fill(&mut allocation, CLASS, 20);
    more[..10].iter().for_each(|slot| free_waiting(&mut allocation, *slot));
    allocation.abort();
    assert_eq!(allocation.take(CLASS), Ok(more[0]), "the search begins anew");
    // A block gives its units back, and none of its slots is handed out as if it had a place.
    let small = fill(&mut allocation, Class(0), 30);
    small.iter().for_each(|slot| free_waiting(&mut allocation, *slot));
    assert_eq!(allocation.get(small[0].allocator).place(small[0].slot), None);
    let again = allocation.take(Class(0)).unwrap();
    assert!(allocation.get(again.allocator).place(again.slot).is_some());
}

#[test]
fn units_in_which_nothing_is_left_serve_records_of_other_sizes() {
    let mut allocation = allocation(3000, HeapMode::ReadWrite);
    let slots = fill(&mut allocation, CLASS, ALLOCATOR_SLOTS);
    commit(&mut allocation, 1, 0);
    let used = allocation.units().count();
    slots.iter().for_each(|slot| assert!(!allocation.free(*slot)));
    commit(&mut allocation, 2, 1);
    fill(&mut allocation, Class(0), BLOCK_SLOTS);
    assert_eq!(allocation.units().count(), used + 1, "the roots of both commits have to stay whole");
    commit(&mut allocation, 3, 2);
    assert_eq!(allocation.units().count(), 8 + 1 + 1);
    // It still has its number, and is used before another is made.
    assert_eq!(fill(&mut allocation, CLASS, BLOCK_SLOTS)[0].allocator, 0);
    assert_eq!(allocation.units().used(), 8 + 1 + used - 9 + 1);
    assert_eq!(allocation.changed(), [0]);
}

#[test]
fn what_a_commit_has_is_used_again_when_nobody_can_see_it() {
    let mut allocation = allocation(1, HeapMode::ReadWrite);
    let slots = fill(&mut allocation, CLASS, ALLOCATOR_SLOTS);
    commit(&mut allocation, 1, 0);
    assert!(!allocation.free(slots[5]));
    commit(&mut allocation, 2, 1);
    assert_eq!(allocation.take(CLASS).unwrap().allocator, 1, "commit 1 still has it");
    commit(&mut allocation, 3, 2);
    fill(&mut allocation, CLASS, ALLOCATOR_SLOTS - 1);
    assert_eq!(allocation.take(CLASS), Ok(slots[5]));
}

#[test]
fn what_is_written_once_is_never_used_again() {
    let mut allocation = allocation(1, HeapMode::Worm);
    let slots = fill(&mut allocation, CLASS, ALLOCATOR_SLOTS);
    commit(&mut allocation, 1, 0);
    slots.iter().for_each(|slot| assert!(!allocation.free(*slot)));
    (2..9).for_each(|number| commit(&mut allocation, number, number - 1));
    assert_eq!(allocation.take(CLASS).unwrap().allocator, 1);
}

#[test]
fn blocks_of_slots_that_are_written_once_keep_their_place_though_nothing_was_committed() {
    let mut allocation = allocation(1, HeapMode::Worm);
    let slots = fill(&mut allocation, CLASS, BLOCK_SLOTS + 1);
    slots.iter().for_each(|slot| assert!(allocation.free(*slot)));
    commit(&mut allocation, 1, 0);
    let units = allocation.units().clone();
    assert_eq!(units.count(), units.used());
    let first = allocation.get(0);
    let again = Allocator::opened(CLASS, *first.starts(), *first.live(), first.passed());
    let mut opened =
        Allocation::new(HeapSettings { mode: HeapMode::Worm, threshold: 1, ..HeapSettings::default() }, units)
            .with(vec![again], allocation.table().to_vec());
    assert_eq!(fill(&mut opened, CLASS, ALLOCATOR_SLOTS)[0], Slot { allocator: 0, slot: BLOCK_SLOTS as u16 + 1 });
}

#[test]
fn who_runs_out_of_units_is_told_how_many_are_needed_and_nothing_is_taken() {
    let mut allocation = Allocation::new(HeapSettings::default(), Units::new(8, 10));
    let short = Short { units: 8 + 1 + CLASS.units() - 10 };
    assert_eq!(allocation.take(CLASS), Err(Short { units: CLASS.units() - 1 }));
    allocation.set_units(10 + short.units);
    assert_eq!(allocation.take(CLASS), Ok(Slot { allocator: 0, slot: 0 }));
    assert_eq!(allocation.units().used(), 10 + short.units);
}

#[test]
fn no_slot_is_ever_handed_out_twice_and_none_is_lost() {
    each(20, |random| {
        let threshold = [1, 300, 3000][random.below(3) as usize];
        let mut allocation = allocation(threshold, HeapMode::ReadWrite);
        let mut live = BTreeSet::new();
        let mut committed = BTreeSet::new();
        let mut seen = vec![BTreeSet::new()];
        for number in 1..40 {
            for _ in 0..random.below(3000) {
                let class = Class(random.below(3) as u8);
                let slot = allocation.take(class).unwrap();
                assert!(live.insert(slot), "{slot:?} is live");
                assert!(!seen.iter().any(|view: &BTreeSet<Slot>| view.contains(&slot)), "{slot:?} can be seen");
                if random.below(3) > 0 {
                    let nth = random.below(live.len() as u64) as usize;
                    let freed = *live.iter().nth(nth).unwrap();
                    live.remove(&freed);
                    let at_once = allocation.free(freed);
                    assert_eq!(at_once, !committed.contains(&freed));
                    if at_once && random.below(4) > 0 {
                        allocation.hand_out_next(freed);
                    }
                }
                if random.below(3000) == 0 {
                    allocation.begin_writing();
                }
            }
            if random.below(4) == 0 {
                allocation.abort();
                live.clone_from(&committed);
                continue;
            }
            let number = number as u64;
            commit(&mut allocation, number, number - 1);
            committed.clone_from(&live);
            seen = vec![seen.pop().unwrap(), committed.clone()];
            let used: u64 = allocation.statistics().iter().map(|class| class.used).sum();
            assert_eq!(used, live.len() as u64);
        }
    });
}

#[test]
fn an_allocator_of_which_nothing_could_be_taken_is_described_by_the_next_commit() {
    let settings = HeapSettings { threshold: 1, ..HeapSettings::default() };
    // Room for what describes it, and for no block.
    let mut allocation = Allocation::new(settings, Units::new(8, 9)).on(false);
    assert!(allocation.take(CLASS).is_err());
    assert_eq!((allocation.count(), allocation.changed()), (1, vec![0]));
}

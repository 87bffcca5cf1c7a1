use super::{Form, Group};
use crate::seeds::each;
use std::cell::Cell;
use std::collections::BTreeSet;

/// Not a multiple of a word's bits.
const BLOCKS: u32 = 1000;

fn runs(free: &BTreeSet<u32>) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for block in free {
        match runs.last_mut() {
            Some((at, length)) if *at + *length == *block => *length += 1,
            _ => runs.push((*block, 1)),
        }
    }
    runs
}

#[test]
fn a_group_is_a_set_of_blocks_in_either_form_and_changes_between_them() {
    let forms = [Cell::new(0), Cell::new(0)];
    each(40, |random| {
        let (mut group, mut free) = (Group::of(BLOCKS, &[]), BTreeSet::new());
        for step in 0..600 {
            // Short runs at first, so that there come to be many; long ones afterwards.
            let most = if step % 200 < 100 { 3 } else { 100 };
            let at = random.below(u64::from(BLOCKS)) as u32;
            let wanted = (1 + random.below(most) as u32).min(BLOCKS - at);
            let range = at..at + wanted;
            if range.clone().all(|block| !free.contains(&block)) {
                group.give(at, wanted);
                free.extend(range);
            } else {
                let could = range.clone().all(|block| free.contains(&block));
                assert_eq!(group.take(at, wanted), could, "{range:?}");
                if could {
                    free.retain(|block| !range.contains(block));
                }
            }
            let expected = runs(&free);
            assert_eq!(group.runs().collect::<Vec<_>>(), expected);
            assert_eq!((group.free(), group.count()), (free.len() as u64, expected.len() as u32));
            assert_eq!(group.largest(), expected.iter().map(|(_, length)| *length).max().unwrap_or(0));
            let begins = expected.iter().find(|(first, _)| *first == at).map(|(_, length)| *length);
            assert_eq!(group.run_at(at), begins);
            let form = &forms[usize::from(matches!(group.form, Form::Bits(_)))];
            form.set(form.get() + 1);
        }
    });
    assert!(forms.iter().all(|steps| steps.get() > 100), "{forms:?}");
}

#[test]
fn scattered_blocks_take_a_bit_each_and_a_whole_group_is_one_run() {
    let mut group = Group::of(BLOCKS, &[]);
    (0..BLOCKS).step_by(2).for_each(|at| group.give(at, 1));
    let Form::Bits(bits) = &group.form else { panic!("{group:?}") };
    assert_eq!(bits.len() as u32, BLOCKS.div_ceil(64));
    assert!(!group.take(0, 2) && !group.take(BLOCKS - 2, 3) && !group.take(BLOCKS + 64, 1));
    (1..BLOCKS).step_by(2).for_each(|at| group.give(at, 1));
    assert_eq!(group.form, Form::Runs([(0, BLOCKS)].into()));
    assert!(group.take(0, BLOCKS) && group.free() == 0);
}

#[test]
#[should_panic = "blocks are freed that are free"]
fn a_bit_that_is_freed_twice_is_noticed() {
    let mut group = Group::of(BLOCKS, &[]);
    (0..BLOCKS).step_by(2).for_each(|at| group.give(at, 1));
    group.give(500, 1);
}

#[test]
fn a_group_is_made_of_its_runs() {
    for step in [2, 7, 900] {
        let runs: Vec<(u32, u32)> = (0..BLOCKS - 1).step_by(step).map(|at| (at, 1)).collect();
        let group = Group::of(BLOCKS, &runs);
        assert_eq!((group.runs().collect::<Vec<_>>(), group.count(), group.largest()), (runs, group.count(), 1));
    }
}

use super::{Run, Space};
use crate::layout::Layout;
use crate::object::rows::BLOCK;
use crate::seeds::{Chance, each};
use forebay_model::Bytes;
use std::collections::BTreeSet;

/// Groups of 1 MiB, of which 240 blocks hold data.
fn layout() -> Layout {
    Layout::for_device(Bytes::mib(64)).expect("64 MiB can be formatted")
}

fn first(group: u32) -> u64 {
    layout().group_at(group).0 / BLOCK.0
}

fn data() -> u64 {
    layout().data(true).0 / BLOCK.0
}

/// A space over these groups, wholly free, and the blocks that are.
fn space(groups: &[u32]) -> (Space, BTreeSet<u64>) {
    let mut space = Space::new(layout());
    groups.iter().for_each(|group| space.add(*group, None));
    (space, groups.iter().flat_map(|group| first(*group)..first(*group) + data()).collect())
}

fn blocks(runs: &[Run]) -> Vec<u64> {
    runs.iter().flat_map(|run| run.at..run.end()).collect()
}

/// The longest run of free blocks.
fn longest(free: &BTreeSet<u64>) -> u64 {
    let (mut longest, mut length, mut last) = (0, 0, 0);
    for block in free {
        length = if *block == last + 1 { length + 1 } else { 1 };
        (longest, last) = (longest.max(length), *block);
    }
    longest
}

fn some(random: &Chance, from: &BTreeSet<u64>) -> u64 {
    *from.iter().nth(random.below(from.len() as u64) as usize).expect("it is one of them")
}

#[test]
fn space_is_a_set_of_blocks_whatever_is_taken_claimed_and_given() {
    const GROUPS: [u32; 4] = [2, 3, 7, 20];
    each(60, |random| {
        let (mut space, mut free) = space(&GROUPS);
        let all = free.clone();
        let mut rows: Vec<(u32, Vec<(u32, u32)>)> = Vec::new();
        for _ in 0..300 {
            match random.below(10) {
                0..4 => {
                    let wanted = 1 + if random.once_in(4) { random.below(400) } else { random.below(20) };
                    let near = random.once_in(2).then(|| some(random, &all));
                    let longest = longest(&free);
                    let Some(runs) = space.allocate(wanted, near) else {
                        assert!(wanted > free.len() as u64, "{wanted} of {} are refused", free.len());
                        continue;
                    };
                    let taken = blocks(&runs);
                    assert_eq!(taken.len() as u64, wanted);
                    if near.is_some_and(|near| free.contains(&near)) && space_begins(&free, near) {
                        assert_eq!(Some(taken[0]), near, "what follows comes first");
                    } else if longest >= wanted {
                        assert_eq!(runs.len(), 1, "a run of {longest} is free, and {wanted} were scattered");
                    }
                    taken.iter().for_each(|block| assert!(free.remove(block), "{block} was not free"));
                }
                4..7 => {
                    let used: BTreeSet<u64> = all.difference(&free).copied().collect();
                    if used.is_empty() {
                        continue;
                    }
                    let at = some(random, &used);
                    let most = 1 + random.below(40);
                    let run =
                        Run { at, blocks: (at..at + most).take_while(|block| used.contains(block)).count() as u64 };
                    space.give(run);
                    free.extend(run.at..run.end());
                }
                7 => {
                    let run = Run { at: some(random, &all), blocks: 1 + random.below(30) };
                    let could = (run.at..run.end()).all(|block| free.contains(&block));
                    assert_eq!(space.claim(run), could, "{run:?}");
                    if could {
                        free.retain(|block| !(run.at..run.end()).contains(block));
                    }
                }
                _ => {
                    // What is not free now and would be, were a command to end.
                    let used: BTreeSet<u64> = all.difference(&free).copied().collect();
                    let also: Vec<Run> = if used.is_empty() || random.once_in(2) {
                        Vec::new()
                    } else {
                        vec![Run { at: some(random, &used), blocks: 1 }]
                    };
                    for (group, runs) in space.changed_rows(&also) {
                        rows.retain(|(known, _)| *known != group);
                        rows.push((group, runs));
                    }
                    let mut with = free.clone();
                    with.extend(blocks(&also));
                    // The rows of all groups, with those that have not changed, are what is free.
                    let at = |(group, runs): &(u32, Vec<(u32, u32)>)| {
                        let from = first(*group);
                        runs.iter().map(|(at, n)| Run { at: from + u64::from(*at), blocks: u64::from(*n) }).collect()
                    };
                    let runs: Vec<Run> = rows.iter().flat_map(|row| -> Vec<Run> { at(row) }).collect();
                    assert_eq!(blocks(&runs).into_iter().collect::<BTreeSet<u64>>(), with);
                }
            }
            assert_eq!((space.free(), space.capacity()), (free.len() as u64, all.len() as u64));
        }
        let again = {
            let mut again = Space::new(layout());
            space.changed_rows(&[]).into_iter().for_each(|(group, runs)| {
                rows.retain(|(known, _)| *known != group);
                rows.push((group, runs));
            });
            rows.iter().for_each(|(group, runs)| again.add(*group, Some(runs)));
            again
        };
        assert_eq!(again.free(), space.free());
        assert_eq!(again.empty_groups(), space.empty_groups());
    });
}

/// Whether a run of free blocks begins at `near`.
fn space_begins(free: &BTreeSet<u64>, near: Option<u64>) -> bool {
    let inside = |near: u64| near > 0 && free.contains(&(near - 1)) && !GROUP_STARTS.iter().any(|g| first(*g) == near);
    near.is_some_and(|near| !inside(near))
}

const GROUP_STARTS: [u32; 4] = [2, 3, 7, 20];

#[test]
fn what_continues_an_object_goes_behind_it_and_into_the_same_group() {
    let (mut space, _) = space(&[2, 3]);
    let begun = space.allocate(10, None).unwrap();
    let other = space.allocate(10, None).unwrap();
    let next = space.allocate(5, Some(other[0].end())).unwrap();
    assert_eq!((next.len(), next[0].at), (1, other[0].end()));
    // Its end is taken: the same group, though not behind it.
    let near = space.allocate(5, Some(begun[0].end())).unwrap();
    assert_eq!((near.len(), near[0].at), (1, next[0].end()));
    let far = space.allocate(5, Some(first(3) + 3)).unwrap();
    assert!(far[0].at >= first(3), "the nearest group is its own");
}

#[test]
fn what_has_no_run_of_its_length_takes_the_longest_ones() {
    let (mut space, mut free) = space(&[2]);
    // Holes of 1, 2, ... 20 blocks.
    let whole = space.allocate(data(), None).unwrap();
    assert_eq!(whole, [Run { at: first(2), blocks: data() }]);
    free.clear();
    let mut at = first(2);
    for length in 1..=20 {
        space.give(Run { at, blocks: length });
        at += length + 1;
    }
    let runs = space.allocate(39, None).unwrap();
    let mut lengths: Vec<u64> = runs.iter().map(|run| run.blocks).collect();
    lengths.sort_unstable();
    assert_eq!(lengths, [19, 20]);
    assert_eq!(space.allocate(200, None), None, "only {} are free", space.free());
}

#[test]
fn what_is_not_in_a_group_of_the_space_cannot_be_claimed() {
    let (mut space, _) = space(&[2]);
    assert!(!space.claim(Run { at: first(3), blocks: 1 }));
    assert!(!space.claim(Run { at: first(2) + data() - 1, blocks: 2 }), "its end lies in the log");
    assert!(space.claim(Run { at: first(2) + data() - 1, blocks: 1 }));
    assert_eq!(space.free(), data() - 1);
}

#[test]
#[should_panic = "blocks are freed that are free"]
fn blocks_that_are_freed_twice_are_noticed() {
    let (mut space, _) = space(&[2]);
    let run = space.allocate(4, None).unwrap()[0];
    space.give(run);
    space.give(Run { at: run.at + 1, blocks: 1 });
}

#[test]
fn a_group_is_given_away_when_it_is_wholly_free() {
    let (mut space, _) = space(&[2, 3]);
    let run = space.allocate(data() + 1, None).unwrap();
    assert_eq!(space.empty_groups(), [0u32; 0]);
    run.iter().for_each(|run| space.give(*run));
    assert_eq!(space.empty_groups(), [2, 3]);
    space.remove(2);
    assert_eq!((space.free(), space.capacity()), (data(), data()));
}

#[test]
fn a_group_whose_row_was_read_has_not_changed_before_something_of_it_is_taken_given_or_set() {
    let mut space = Space::new(layout());
    (2..6).for_each(|group| space.add(group, Some(&[(0, 10), (20, 5)])));
    space.add(6, None);
    assert_eq!((space.changed_groups(), space.changed_runs()), (1, 1), "it has no row yet");
    assert_eq!(space.changed_rows(&[]), [(6, vec![(0, data() as u32)])]);
    assert!(space.claim(Run { at: first(2), blocks: 10 }));
    space.give(Run { at: first(3) + 10, blocks: 10 });
    space.set(4, &[(7, 1)]);
    assert_eq!((space.changed_groups(), space.changed_runs()), (3, 3));
    assert_eq!(space.changed_rows(&[]), [(2, vec![(20, 5)]), (3, vec![(0, 25)]), (4, vec![(7, 1)])]);
}

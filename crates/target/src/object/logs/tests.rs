use super::{LogRecord, Logs, MANY_OPEN, MOST_OPEN, OPEN_AHEAD, Spot, WORTH_OPENING};
use crate::layout::Layout;
use crate::seeds::each;
use forebay_model::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// Groups of 1 MiB, each with a log of 16 blocks.
fn layout() -> Layout {
    Layout::for_device(Bytes::mib(64)).expect("64 MiB can be formatted")
}

fn logs() -> Logs {
    Logs::new(layout(), &[], &[])
}

/// Somewhere in a group.
fn within(group: u32) -> Bytes {
    layout().group_at(group) + Bytes::kib(300)
}

fn anywhere(_: u32) -> bool {
    true
}

fn place(logs: &mut Logs, blocks: u32, tracker: Bytes) -> Option<Spot> {
    let spot = logs.place(blocks, tracker, false, false, anywhere)?;
    logs.named(&spot.opens);
    Some(spot)
}

#[test]
fn a_record_goes_to_the_log_of_the_group_that_was_used_last() {
    let mut logs = logs();
    let spot = place(&mut logs, 3, within(7)).unwrap();
    assert_eq!(spot, Spot { group: 7, block: 0, opens: vec![7, 10, 13, 16] });
    assert_eq!(place(&mut logs, 2, within(7)).unwrap(), Spot { group: 7, block: 3, opens: Vec::new() });
    let near = place(&mut logs, 2, within(9)).unwrap();
    assert_eq!(near, Spot { group: 7, block: 5, opens: Vec::new() }, "two groups away is near enough");
    assert_eq!(place(&mut logs, 2, within(10)).unwrap(), Spot { group: 10, block: 0, opens: Vec::new() });
    assert_eq!(place(&mut logs, 2, within(30)).unwrap().opens, [30, 33, 36, 39]);
    // Before the first group, and behind the last.
    assert_eq!(place(&mut logs, 1, Bytes::ZERO).unwrap().group, 0);
    assert_eq!(place(&mut logs, 1, layout().device).unwrap().group, layout().groups - 1);
}

#[test]
fn where_that_log_is_full_or_not_there_the_nearest_is_taken() {
    let mut logs = logs();
    let usable = |group: u32| group != 21;
    let mut to = |blocks| {
        let spot = logs.place(blocks, within(20), false, false, usable).unwrap();
        logs.named(&spot.opens);
        (spot.group, spot.block)
    };
    assert_eq!(to(12), (20, 0));
    assert_eq!(to(12), (19, 0), "group 21 has no log");
    assert_eq!(to(10), (22, 0), "above before below");
    assert_eq!(to(3), (18, 0));
    assert_eq!(to(2), (18, 3), "near enough");
}

#[test]
fn what_follows_while_more_is_on_its_way_stays_in_the_same_log() {
    let mut logs = logs();
    place(&mut logs, 2, within(7)).unwrap();
    let stays = logs.place(2, within(40), true, false, anywhere).unwrap();
    assert_eq!(stays, Spot { group: 7, block: 2, opens: Vec::new() });
    // Until it is full.
    let spot = logs.place(9, within(40), true, false, anywhere).unwrap();
    assert_eq!((spot.group, spot.block), (40, 0));
}

#[test]
fn what_empties_logs_has_room_where_others_have_none() {
    let mut logs = logs();
    let (capacity, largest) = (logs.capacity(), logs.largest());
    assert_eq!((capacity, largest), (16, 12));
    assert_eq!(place(&mut logs, largest + 1, within(3)), None, "no record is that large");
    let only = |group: u32| group == 3;
    logs.place(largest, within(3), false, false, only).map(|spot| logs.named(&spot.opens)).unwrap();
    assert_eq!(logs.place(1, within(3), false, false, only), None);
    let homing = logs.place(2, within(3), false, true, only).unwrap();
    assert_eq!((homing.group, homing.block), (3, largest));
    assert_eq!(logs.place(1, within(3), false, true, only), None, "two blocks are kept to name others");
    assert_eq!(
        [logs.place_opening(), logs.place_opening(), logs.place_opening()],
        [Some((3, 14)), Some((3, 15)), None]
    );
}

#[test]
fn a_log_is_empty_only_when_the_checkpoint_is_durable() {
    let mut logs = logs();
    place(&mut logs, 4, within(5)).unwrap();
    (0..3).for_each(|_| logs.needed(5));
    assert_eq!((logs.live(), logs.fullest(false, 1)), (3, vec![(5, 4)]));
    (0..3).for_each(|_| logs.dropped(5));
    assert_eq!((logs.live(), logs.fullest(false, 1)), (0, vec![]));
    let (named, open) = logs.cut(Some(6), anywhere);
    assert_eq!((named, open), (Vec::new(), vec![6]));
    // The catalog before still counts, and with it what lies there.
    assert_eq!(logs.filled(5), 4);
    let spot = place(&mut logs, 1, within(5)).unwrap();
    assert_ne!(spot.group, 5, "it is written to before it is empty");
    logs.settle();
    assert_eq!(logs.filled(5), 0);
    let (_, open) = logs.cut(Some(30), anywhere);
    assert_eq!(open, [30]);
    assert_eq!(place(&mut logs, 1, within(5)).unwrap(), Spot { group: 5, block: 0, opens: vec![5, 8, 11, 14] });
}

#[test]
fn a_log_with_something_in_it_is_named_with_what_is_needed_and_goes_on_where_it_ended() {
    let mut logs = logs();
    place(&mut logs, 4, within(5)).unwrap();
    logs.needed(5);
    let (named, open) = logs.cut(Some(5), anywhere);
    logs.settle();
    assert_eq!(named, [LogRecord { group: 5, filled: 4, live: 1 }]);
    let mut again = Logs::new(layout(), &named, &open);
    assert_eq!(again.to_read(), [(5, 4)]);
    assert_eq!(again.live(), 1);
    again.found(5, 9);
    assert_eq!(place(&mut again, 1, within(5)).unwrap(), Spot { group: 5, block: 9, opens: Vec::new() });
}

#[test]
fn logs_to_which_the_arm_comes_back_stay_open_over_checkpoints_and_those_that_it_passed_do_not() {
    let mut logs = logs();
    let visit = |logs: &mut Logs, groups: &[u32]| {
        groups.iter().for_each(|group| drop(place(logs, 1, within(*group))));
        let mut open = logs.cut(Some(60), anywhere).1;
        logs.settle();
        open.retain(|group| *group != 60);
        open
    };
    assert_eq!(visit(&mut logs, &[3, 9]), [0; 0], "it was there once");
    assert_eq!(visit(&mut logs, &[3, 20, 26]), [3]);
    assert_eq!(visit(&mut logs, &[9, 20, 32]), [9, 20]);
    assert_eq!(visit(&mut logs, &[38, 44, 50]), [0; 0], "a stream passes, and nothing comes back");
    // However many there are, opening does not read more than it should.
    let many: Vec<u32> = (0..12).map(|n| n * 3).collect();
    visit(&mut logs, &many[..6]);
    visit(&mut logs, &many[6..]);
    logs.named(&many);
    assert_eq!(visit(&mut logs, &many).len(), 8);
    // Full ones, and those that are no logs any more, are left.
    let full = logs.largest() - logs.filled(3);
    assert_eq!(place(&mut logs, full, within(3)).unwrap().group, 3);
    place(&mut logs, 1, within(9)).unwrap();
    place(&mut logs, 1, within(21)).unwrap();
    assert_eq!(logs.cut(Some(60), |group| group != 9).1, [21, 60]);
}

#[test]
fn blocks_know_the_log_in_which_they_lie() {
    let logs = logs();
    for group in [0, 1, 30, layout().groups - 1] {
        for block in [0, logs.capacity() - 1] {
            assert_eq!(logs.log_of(logs.at(group, block)), group);
        }
    }
    assert_eq!(logs.at(4, logs.capacity()), layout().group_at(5).0 / 4096, "logs end with their groups");
}

/// As commands do: records of any size, logs that are opened, checkpoints when many are open.
#[test]
fn no_block_of_a_log_is_given_twice_and_others_can_always_be_named() {
    each(200, |random| {
        let mut logs = logs();
        let first = logs.stays_open(within(0), anywhere);
        let (_, mut open) = logs.cut(first, anywhere);
        logs.settle();
        // Blocks in use, by log, and how many of them are needed.
        let mut used: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        let mut live: BTreeMap<u32, u32> = BTreeMap::new();
        let take = |used: &mut BTreeMap<u32, BTreeSet<u32>>, group: u32, block: u32, blocks: u32| {
            for block in block..block + blocks {
                assert!(block < 16 && used.entry(group).or_default().insert(block), "block {block} of log {group}");
            }
        };
        for _ in 0..400 {
            if logs.open() + OPEN_AHEAD as usize > MOST_OPEN || random.once_in(30) {
                let stays = logs.stays_open(within(random.below(60) as u32), anywhere);
                if let Some(group) = stays.filter(|group| !open.contains(group)) {
                    for _ in 0..2 {
                        let (log, block) = logs.place_opening().expect("a log is open, and keeps blocks for this");
                        take(&mut used, log, block, 1);
                    }
                    logs.named(&[group]);
                }
                let (named, now) = logs.cut(stays, anywhere);
                for record in &named {
                    assert_eq!(record.live, live.get(&record.group).copied().unwrap_or(0));
                }
                if random.once_in(2) {
                    let groups: Vec<u32> = used.keys().copied().collect();
                    for group in groups {
                        let spot = logs.place(1, within(group), false, false, anywhere);
                        let Some(spot) = spot else { continue };
                        assert!(live.get(&spot.group).is_some_and(|live| *live > 0) || logs.filled(spot.group) > 0);
                        if !spot.opens.is_empty() {
                            for _ in 0..2 {
                                let (log, block) =
                                    logs.place_opening().expect("a log is open, and keeps blocks for this");
                                take(&mut used, log, block, 1);
                            }
                            logs.named(&spot.opens);
                        }
                        take(&mut used, spot.group, spot.block, 1);
                        break;
                    }
                }
                logs.settle();
                used.retain(|group, _| logs.filled(*group) > 0);
                open = now;
                continue;
            }
            if random.once_in(3) {
                if let Some((group, _)) = logs.fullest(false, 1).first().copied() {
                    let needed = live.get_mut(&group).unwrap();
                    (0..*needed).for_each(|_| logs.dropped(group));
                    *needed = 0;
                }
                continue;
            }
            let (blocks, tracker) = (1 + random.below(12) as u32, within(random.below(60) as u32));
            let spot = logs.place(blocks, tracker, random.once_in(3), random.once_in(4), anywhere);
            let Some(spot) = spot else { continue };
            if !spot.opens.is_empty() {
                for _ in 0..2 {
                    let (log, block) = logs.place_opening().expect("a log is open, and keeps blocks for this");
                    take(&mut used, log, block, 1);
                }
                logs.named(&spot.opens);
                open.extend(&spot.opens);
            }
            take(&mut used, spot.group, spot.block, blocks);
            assert!(logs.to_read().iter().any(|(group, _)| *group == spot.group), "opening would not read it");
            let data = random.below(u64::from(blocks)) as u32;
            (0..data).for_each(|_| logs.needed(spot.group));
            *live.entry(spot.group).or_default() += data;
            assert_eq!(logs.live(), live.values().map(|n| u64::from(*n)).sum::<u64>());
            assert_eq!(logs.filled_in_all(), used.values().map(|blocks| blocks.len() as u64).sum::<u64>());
        }
    });
}

#[test]
fn where_logs_are_far_between_the_nearest_open_one_is_taken_before_another_is_opened() {
    let mut logs = logs();
    logs.set_near(40);
    assert_eq!(place(&mut logs, 1, within(5)).unwrap().opens, [5, 45]);
    assert_eq!(place(&mut logs, 1, within(30)).unwrap().group, 5, "the one that is written to is near");
    assert_eq!(place(&mut logs, 1, within(40)).unwrap(), Spot { group: 45, block: 0, opens: Vec::new() });
}

#[test]
fn what_is_filled_with_nothing_that_is_needed_is_spent_but_for_the_log_being_written() {
    let mut logs = logs();
    for (group, blocks) in [(7, 5), (20, 4), (40, 3)] {
        place(&mut logs, blocks, within(group)).unwrap();
    }
    logs.needed(7);
    assert_eq!((logs.spent(), logs.filled_in_all()), (4, 12), "one block is needed in 7, and 40 is written to");
    logs.dropped(7);
    assert_eq!(logs.spent(), 9);
    // Of 64 logs of 16 blocks, 1 % are ten blocks and a bit.
    assert!(logs.filled_to(1, 64, 0) && !logs.filled_to(1, 64, logs.spent()));
}

#[test]
fn where_logs_are_far_between_one_is_opened_at_a_place_that_many_records_come_from() {
    let layout = Layout::for_device(Bytes::gib(100)).unwrap();
    let far = layout.groups - 1;
    let mut logs = Logs::new(layout, &[], &[]);
    logs.set_near(layout.groups);
    let at = |group: u32| layout.group_at(group) + Bytes::mib(1);
    assert_eq!(place(&mut logs, 1, at(0)).unwrap().opens, [0]);
    for _ in 0..WORTH_OPENING {
        assert_eq!(place(&mut logs, 1, at(far)).unwrap().group, 0, "one that is open is good enough");
    }
    let own = place(&mut logs, 1, at(far)).unwrap();
    assert_eq!((own.group, &own.opens[..]), (far, &[far][..]));
    // Where one was worth it, the next is when that is full.
    let left = logs.largest() - logs.filled(far);
    assert_eq!(place(&mut logs, left, at(far)).unwrap().group, far);
    assert_eq!(place(&mut logs, 1, at(far)).unwrap().opens, [far - 1]);
    // As many as are open before a checkpoint is due, and no more.
    for n in 1.. {
        let group = n * 64;
        if group >= far {
            break;
        }
        (0..=WORTH_OPENING).for_each(|_| drop(place(&mut logs, 1, at(group)).unwrap()));
    }
    assert_eq!(logs.open(), MANY_OPEN);
}

#[test]
fn of_the_logs_that_were_written_to_again_the_most_used_stay_open() {
    let mut logs = logs();
    let groups: Vec<u32> = (0..10).map(|n| n * 5).collect();
    logs.named(&groups);
    for _ in 0..2 {
        for (n, group) in groups.iter().enumerate() {
            let times = if n < 2 { 1 } else { 2 };
            (0..times).for_each(|_| drop(place(&mut logs, 1, within(*group)).unwrap()));
        }
        logs.cut(Some(60), anywhere);
        logs.settle();
        logs.named(&groups);
    }
    for group in &groups {
        place(&mut logs, 1, within(*group)).unwrap();
        if *group >= 10 {
            place(&mut logs, 1, within(*group)).unwrap();
        }
    }
    assert_eq!(logs.cut(Some(60), anywhere).1, [10, 15, 20, 25, 30, 35, 40, 45, 60]);
}

use super::{GATHERED, PRESSED, QUIET, RUNS, STEP, TOGETHER, steps};
use crate::Target;
use crate::fake::Fake;
use crate::object::Placement;
use crate::object::apply::touching;
use crate::object::gather::{Loose, Origin};
use crate::object::rows::{BLOCK, Key, Quota, Row};
use crate::object::settings::Logging;
use crate::object::testing::{self, again, id};
use crate::seeds::each;
use forebay_model::{Bytes, Kind, ObjectId};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

const ONE: ObjectId = ObjectId { volume: 1, object: 1 };
/// Blocks of the object.
const BLOCKS: u64 = 8192;

/// A device that turns, or not, and an object of 32 MiB at home on it.
fn device(size: Bytes, rotates: bool) -> (Fake, Rc<Target>) {
    let fake = Fake::new(size, rotates);
    let target = fake.target();
    fake.run(async {
        target.objects().create_volume(1, Quota::default()).await.unwrap();
        target.objects().create(ONE, Vec::new()).await.unwrap();
        let bytes = vec![1; (BLOCKS * BLOCK.0) as usize];
        target.objects().write(target.stream(), ONE, 0, &bytes, Placement::Home).await.unwrap();
        target.objects().checkpoint().await.unwrap();
    });
    (fake, target)
}

/// Writes a block of the object to a log.
fn write(fake: &Fake, target: &Target, block: u64, byte: u8) {
    let bytes = [byte; BLOCK.0 as usize];
    fake.run(target.objects().write(target.stream(), ONE, block * BLOCK.0, &bytes, Placement::Log)).unwrap();
}

/// Where the blocks of the object lie at home.
fn homes(fake: &Fake, target: &Target) -> Vec<Option<u64>> {
    fake.run(target.objects().bring(&touching(ONE, 0, BLOCKS))).unwrap();
    let work = target.objects().work.borrow();
    (0..BLOCKS).map(|block| work.meta.home_of(ONE, block)).collect()
}

fn bytes_of(fake: &Fake, target: &Target) -> Vec<u8> {
    let bytes = fake.run(target.objects().read(target.stream(), ONE, 0, BLOCKS * BLOCK.0)).unwrap();
    bytes.chunks(BLOCK.0 as usize).map(|block| block[0]).collect()
}

/// Writes one block in five of the object to logs, one after the other, as long as `more`; nothing is taken home
/// meanwhile. What each block holds.
fn fill(fake: &Fake, target: &Target, mut more: impl FnMut(u64) -> bool) -> Vec<u8> {
    target.objects().work.borrow_mut().tending = true;
    let mut bytes = vec![1; BLOCKS as usize];
    for n in (0..).take_while(|n| more(*n)) {
        let (block, byte) = (n * 5 % BLOCKS, 2 + (n % 250) as u8);
        write(fake, target, block, byte);
        bytes[block as usize] = byte;
    }
    bytes
}

fn full_logs(target: &Target) -> Vec<(u32, u32)> {
    target.objects().work.borrow().meta.logs.fullest(false, TOGETHER)
}

#[test]
fn when_logs_are_nearly_full_what_is_scattered_goes_to_fresh_places_in_one_run() {
    let (fake, target) = device(Bytes::mib(128), true);
    let bytes = fill(&fake, &target, |_| !target.objects().logs_filled_to(PRESSED));
    let before = homes(&fake, &target);
    let live = target.objects().work.borrow().meta.logs.live();
    assert_eq!(fake.run(target.objects().take_home()).unwrap(), live);
    let after = homes(&fake, &target);
    let mut moved: Vec<u64> = after.iter().zip(&before).filter(|(a, b)| a != b).filter_map(|(a, _)| *a).collect();
    moved.sort_unstable();
    assert_eq!(moved.len() as u64, live, "all of them were scattered");
    let runs = moved.chunk_by(|a, b| a + 1 == *b).count() as u64;
    assert!(runs * 100 < live, "{live} blocks lie in {runs} runs");
    assert!(bytes_of(&fake, &target) == bytes);
    drop(target);
    fake.kill();
    let target = fake.run(Target::open(fake.env())).unwrap();
    fake.run(target.objects().ready()).unwrap();
    assert!(bytes_of(&fake, &target) == bytes);
    assert_eq!(homes(&fake, &target), after);
}

#[test]
fn what_has_time_and_what_costs_no_turn_goes_where_it_was() {
    for (rotates, percent) in [(true, PRESSED - 20), (false, PRESSED)] {
        let (fake, target) = device(Bytes::mib(128), rotates);
        let bytes = fill(&fake, &target, |_| !target.objects().logs_filled_to(percent));
        let before = homes(&fake, &target);
        assert!(fake.run(target.objects().take_home()).unwrap() > 0);
        assert!(bytes_of(&fake, &target) == bytes);
        assert!(homes(&fake, &target) == before, "rotates: {rotates}");
    }
}

#[test]
fn what_lies_together_goes_where_it_was_even_when_logs_are_nearly_full() {
    let (fake, target) = device(Bytes::mib(256), true);
    target.objects().work.borrow_mut().tending = true;
    // Two of them fill a log.
    let run = vec![8; (GATHERED + 6) * BLOCK.0 as usize];
    let firsts = (0..BLOCKS).step_by(60).take_while(|_| !target.objects().logs_filled_to(PRESSED));
    let firsts: Vec<usize> = firsts
        .inspect(|first| {
            let at = first * BLOCK.0;
            fake.run(target.objects().write(target.stream(), ONE, at, &run, Placement::Log)).unwrap();
        })
        .map(|first| first as usize)
        .collect();
    assert!(target.objects().logs_filled_to(PRESSED));
    let before = homes(&fake, &target);
    let homed = fake.run(target.objects().take_home()).unwrap() as usize;
    let after = homes(&fake, &target);
    // Some may have had their home made in pieces.
    let together = |first: usize| before[first..first + GATHERED + 6].is_sorted_by(|a, b| a.map(|a| a + 1) == *b);
    let (whole, pieces): (Vec<usize>, Vec<usize>) = firsts.into_iter().partition(|first| together(*first));
    assert!(pieces.len() * 10 < whole.len(), "{} of {} lay together", whole.len(), whole.len() + pieces.len());
    let is_moved = |at: &usize| after[*at] != before[*at];
    let moved = whole.iter().flat_map(|first| *first..first + GATHERED + 6).filter(is_moved).count();
    assert!(moved <= homed / STEP * GATHERED, "{moved} of {homed}: more than the ends of steps cut off");
}

#[test]
fn where_nothing_turns_what_was_emptied_is_room_again_before_anybody_waits_and_nothing_is_left_in_the_end() {
    let (fake, target) = device(Bytes::gib(1), false);
    let objects = target.objects();
    let room = u64::from(objects.work.borrow().meta.logs.capacity()) * objects.core.logs();
    for n in 0..3 * room {
        write(&fake, &target, n * 5 % BLOCKS, (n % 250) as u8);
        assert!(!objects.work.borrow().making_room, "write {n} of {room} waits for room");
    }
    fake.run(objects.core.disk.env().clock.sleep(10 * QUIET));
    let (homed, work) = (objects.counters().homed, objects.work.borrow());
    let (live, filled) = (work.meta.logs.live(), work.meta.logs.filled_in_all());
    // What the last steps emptied is room again with the next checkpoint.
    let is_empty = live == 0 && filled * 1000 < room;
    assert!(homed > room && is_empty, "{homed} blocks went home, {live} and {filled} of {room} are left in logs");
}

#[test]
fn of_what_lies_in_several_logs_only_the_newest_goes_home() {
    let (fake, target) = device(Bytes::mib(128), true);
    target.objects().work.borrow_mut().tending = true;
    let left = |byte: u8| 18 - 2 * u64::from(byte);
    for byte in 2..8 {
        (0..left(byte)).for_each(|n| write(&fake, &target, n * 9, byte));
    }
    let (logs, before) = (full_logs(&target), target.objects().counters().checkpoints);
    assert_eq!(fake.run(target.objects().take_home()).unwrap(), left(2));
    let checkpoints = target.objects().counters().checkpoints - before;
    assert!(logs.len() > 2 && checkpoints < logs.len() as u64, "{checkpoints} for {logs:?}");
    let bytes = bytes_of(&fake, &target);
    for n in 0..left(2) {
        assert_eq!(Some(bytes[n as usize * 9]), (2..8).rev().find(|byte| n < left(*byte)));
    }
}

#[test]
fn who_is_in_the_way_of_others_ends_after_a_step_which_is_short_where_each_block_costs_a_turn() {
    for (rotates, step) in [(true, RUNS as u64), (false, STEP as u64)] {
        let (fake, target) = device(Bytes::mib(256), rotates);
        let bytes = fill(&fake, &target, |n| n < STEP as u64 + 300);
        let objects = target.objects();
        let live = objects.work.borrow().meta.logs.live();
        fake.disk.log();
        assert_eq!(fake.run(objects.empty_logs(&full_logs(&target), false, Some(&|| true))).unwrap(), 0);
        assert_eq!(fake.disk.log(), [], "nothing is read for what would not go home");
        let gives_up = || objects.counters().homed > 0;
        let homed = fake.run(objects.empty_logs(&full_logs(&target), false, Some(&gives_up))).unwrap();
        assert_eq!((live, homed), (STEP as u64 + 300, step));
        assert_eq!(fake.run(objects.take_home()).unwrap(), live - homed, "the rest is not taken for damaged");
        assert!(bytes_of(&fake, &target) == bytes);
    }
}

#[test]
fn steps_have_all_blocks_in_their_order_and_no_more_runs_than_they_may() {
    each(50, |chance| {
        let (mut lying, mut block) = (Vec::new(), 0);
        for _ in 0..chance.below(4000) {
            block += if chance.below(3) == 0 { 1 + chance.below(3) } else { 1 };
            let id = ObjectId { volume: 1, object: 1 + block / 1000 };
            lying.push(Loose { id, block, at: block, crc: 0, from: Origin::Plain(&[]) });
        }
        let runs = 1 + chance.below(40) as usize;
        let cut: Vec<&[Loose<'_>]> = steps(&lying, runs).collect();
        let places = |of: &[Loose<'_>]| of.iter().map(|l| l.at).collect::<Vec<_>>();
        assert_eq!(places(&cut.concat()), places(&lying));
        for (n, step) in cut.iter().enumerate() {
            let has = step.chunk_by(|a, b| a.id == b.id && a.block + 1 == b.block).count();
            let whole = has == runs || step.len() == STEP || n + 1 == cut.len();
            assert!(has <= runs && step.len() <= STEP && whole, "{has} runs, {} blocks", step.len());
        }
    });
}

/// Takes home what lies in logs until others have asked for something.
async fn make_way(target: Rc<Target>, logs: Vec<(u32, u32)>) -> u64 {
    let objects = target.objects();
    let others = objects.others();
    objects.empty_logs(&logs, false, Some(&|| objects.others() != others)).await.unwrap()
}

#[test]
fn nobody_makes_way_for_what_he_does_himself_but_for_whoever_reads_or_writes() {
    let (fake, target) = device(Bytes::mib(256), true);
    let objects = target.objects();
    let live = 10 * RUNS as u64;
    fill(&fake, &target, |n| n < live);
    assert_eq!(fake.run(make_way(target.clone(), full_logs(&target))), live, "its records and writes are its own");
    for reads in [true, false] {
        fill(&fake, &target, |n| n < live);
        let before = objects.counters().homed;
        let homing = fake.env().spawner.spawn(make_way(target.clone(), full_logs(&target)));
        while objects.counters().homed == before {
            fake.wait(Duration::from_micros(100));
        }
        match reads {
            true => drop(fake.run(objects.read(target.stream(), ONE, 0, BLOCK.0)).unwrap()),
            false => write(&fake, &target, 3, 9),
        }
        let homed = fake.run(homing);
        assert!(homed <= 4 * RUNS as u64, "reads: {reads}: {homed} of {live}");
        fake.run(objects.take_home()).unwrap();
    }
}

#[test]
fn what_goes_home_is_hastened_while_logs_are_nearly_full_or_somebody_waits_for_room() {
    let (fake, target) = device(Bytes::mib(128), true);
    let (objects, disk) = (target.objects(), target.disk());
    fill(&fake, &target, |n| n < 10);
    assert_eq!(disk.hastened(), None);
    objects.work.borrow_mut().making_room = true;
    objects.see_to_haste();
    assert_eq!(disk.hastened(), Some(objects.stream));
    objects.work.borrow_mut().making_room = false;
    objects.see_to_haste();
    assert_eq!(disk.hastened(), None);
    fill(&fake, &target, |_| !objects.logs_filled_to(PRESSED));
    write(&fake, &target, 0, 9);
    assert_eq!(disk.hastened(), Some(objects.stream), "whoever fills them sees to it");
    fake.run(objects.make_room()).unwrap();
    assert!(!objects.logs_filled_to(PRESSED));
    assert_eq!(disk.hastened(), None);
}

#[test]
fn room_that_is_made_by_what_goes_home_already_is_enough() {
    let (fake, target) = device(Bytes::mib(128), true);
    let objects = target.objects().clone();
    fill(&fake, &target, |_| !objects.logs_filled_to(PRESSED));
    let logs = full_logs(&target);
    assert!(logs.len() > 1);
    let live = objects.work.borrow().meta.logs.live();
    let waits = objects.clone();
    let homed = fake.run(async {
        let mut first = std::pin::pin!(objects.empty_logs(&logs[..1], false, None));
        std::future::poll_fn(|context| Poll::Ready(first.as_mut().poll(context).is_pending())).await;
        assert!(objects.work.borrow().homing);
        let room = fake.env().spawner.spawn(async move { waits.make_room().await });
        let homed = first.await.unwrap();
        room.await.unwrap();
        homed
    });
    assert!(0 < homed && homed < live, "{homed} of {live}");
    assert_eq!(objects.counters().homed, homed, "of other logs nothing had to go");
}

#[test]
fn who_waits_for_room_goes_on_when_there_is_some_though_more_is_being_made() {
    let (fake, target) = device(Bytes::mib(128), true);
    fill(&fake, &target, |_| !target.objects().logs_filled_to(PRESSED));
    target.objects().work.borrow_mut().making_room = true;
    let waiter = target.clone();
    let waiting = async move { waiter.objects().make_room().await };
    let waiting = target.core().disk.env().spawner.spawn(waiting);
    fake.run(async {
        assert!(target.objects().take_home().await.unwrap() > 0);
        waiting.await.unwrap();
    });
    assert!(target.objects().work.borrow().making_room, "nobody said that it was over");
}

#[test]
fn what_others_shared_is_not_written_over_before_it_is_durable_that_they_let_it_go() {
    for case in 0..4 {
        let fake = Fake::new(Bytes::mib(128), true);
        let target = fake.target();
        let objects = target.objects().clone();
        let two = ObjectId { object: 2, ..ONE };
        fake.run(async {
            objects.create_volume(1, Quota::default()).await.unwrap();
            objects.create(ONE, Vec::new()).await.unwrap();
            objects.write(target.stream(), ONE, 0, &[1; 4 * 4096], Placement::Home).await.unwrap();
            objects.snapshot(ONE, two, Vec::new()).await.unwrap();
            objects.checkpoint().await.unwrap();
        });
        objects.work.borrow_mut().tending = true;
        write(&fake, &target, 0, 9);
        let (group, filled) = full_logs(&target)[0];
        let (bytes, _) = fake.run(objects.read_log(objects.stream, group, 0, filled)).unwrap();
        let other = target.clone();
        fake.env().spawner.detach(async move {
            let (objects, stream) = (other.objects(), other.stream());
            let done = match case {
                0 => objects.write(stream, two, 0, &[2; 4096], Placement::Home).await,
                1 => objects.truncate(two, 0).await,
                2 => objects.punch(two, 0, 4096).await,
                _ => objects.remove(two).await,
            };
            done.unwrap();
        });
        while objects.work.borrow().queue.is_empty() {
            fake.wait(Duration::from_micros(10));
        }
        let homing = objects.clone();
        fake.env().spawner.detach(async move {
            let lying = homing.lying_in(group, &bytes);
            homing.step_home(&lying).await.unwrap();
        });
        fake.wait(Duration::from_micros(100));
        assert!(!objects.work.borrow().queue.is_empty(), "case {case}: the record still waits");
        drop(objects);
        let target = again(&fake, target);
        let of = |id| fake.run(target.objects().read(target.stream(), id, 0, 1 << 20));
        assert!(of(two).unwrap() == [1; 4 * 4096], "case {case}: nobody was told that it had changed");
        assert!(of(ONE).unwrap()[..4096] == [9; 4096], "case {case}");
    }
}

/// A device with five objects, each with two blocks in logs, where what tells of the third cannot be read; and the log in
/// which the blocks of that one lie. Nobody tends to logs.
fn beside_damage() -> (Fake, Rc<Target>, u32) {
    let (fake, target) = testing::device(Bytes::mib(64));
    let objects = target.objects().clone();
    objects.work.borrow_mut().tending = true;
    // A leaf for each row.
    objects.set_leaf_split(Bytes(64));
    fake.run(async {
        for n in 1..=5 {
            objects.create(id(n), Vec::new()).await.unwrap();
            objects.write(target.stream(), id(n), 0, &[n as u8; 8192], Placement::Log).await.unwrap();
        }
        objects.checkpoint().await.unwrap();
    });
    objects.set_leaf_split(Bytes::kib(48));
    let key = Key::logged(id(3), 0);
    let (log, leaf) = {
        let work = objects.work.borrow();
        let Some(Row::Logged(row)) = work.meta.tree.get(&key) else { panic!("it lies in a log") };
        (work.meta.logs.log_of(row.at), work.meta.tree.leaf_of(key).unwrap())
    };
    objects.work.borrow_mut().meta.tree.shrink(0);
    fake.disk.lose(BLOCK * leaf.place.at);
    (fake, target, log)
}

/// Writes block `block` of an object durably to a log.
fn write_beside(fake: &Fake, target: &Target, object: u64, block: u64) {
    let bytes = [object as u8; BLOCK.0 as usize];
    let written = target.objects().write(target.stream(), id(object), block * BLOCK.0, &bytes, Placement::Log);
    fake.run(written).unwrap_or_else(|error| panic!("block {block} of object {object}: {error}"));
}

/// All but the third object have so many blocks, that one says that it is damaged, and once it can be read it has what it
/// had.
fn all_but_the_third(fake: &Fake, target: Rc<Target>, log: u32, blocks: [usize; 5]) {
    let check = |target: &Target, object: u64| {
        let expected = vec![object as u8; blocks[object as usize - 1] * BLOCK.0 as usize];
        assert!(testing::read(fake, target, object) == expected, "object {object}");
    };
    [1, 2, 4, 5].into_iter().for_each(|object| check(&target, object));
    let error = fake.run(target.objects().read(target.stream(), id(3), 0, 8192)).unwrap_err();
    assert_eq!(error.kind, Kind::Damaged, "{error}");
    let live = target.objects().work.borrow().meta.logs.state(log).1;
    assert!(live >= 2, "the log is about to be written over, with {live} blocks in it");
    fake.disk.find_again();
    let target = again(fake, target);
    (1..=5).for_each(|object| check(&target, object));
}

#[test]
fn rows_that_cannot_be_read_keep_only_what_they_tell_of_from_going_home() {
    let (fake, target, log) = beside_damage();
    let objects = target.objects();
    objects.work.borrow_mut().tending = false;
    for n in 0..40 {
        write_beside(&fake, &target, [1, 2, 4, 5][n as usize % 4], 2 + n / 4);
    }
    fake.wait(10 * QUIET);
    assert!(objects.counters().homed >= 40, "{:?}", objects.counters());
    assert_eq!(objects.redirected(), BLOCK * 2, "what cannot be told of is all that is left");
    write_beside(&fake, &target, 4, 12);
    all_but_the_third(&fake, target, log, [12, 12, 2, 13, 12]);
}

#[test]
fn who_waits_for_room_in_logs_has_it_beside_rows_that_cannot_be_read() {
    let (fake, target, log) = beside_damage();
    (2..600).for_each(|block| write_beside(&fake, &target, 5, block));
    assert!(target.objects().counters().homed > 0, "the logs were never full");
    all_but_the_third(&fake, target, log, [2, 2, 2, 2, 600]);
}

#[test]
fn a_log_with_nothing_but_what_stays_and_what_cannot_be_told_of_is_not_read_again() {
    let (fake, target, log) = beside_damage();
    let objects = target.objects();
    for object in [1, 2, 4, 5] {
        fake.run(objects.set_logging(id(object), Some(Logging::Always))).unwrap();
    }
    let live = objects.work.borrow().meta.logs.state(log).1;
    assert!(live > 2, "another one is in that log");
    assert_eq!(fake.run(objects.take_home()).unwrap(), 0);
    assert_eq!(full_logs(&target), []);
    all_but_the_third(&fake, target, log, [2; 5]);
}

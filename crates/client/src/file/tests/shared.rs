//! Several clients of one file, which write the same stripes at the same time, and die at it.

use super::super::fake::Begun;
use super::{Bytes, Open, Raid, Rc, Result, Slice, Striping, UNIT, World, each, recovered, some, striping, tight};
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// Where, and what.
type Write = (u64, Vec<u8>);

#[test]
fn outcome_35_two_clients_write_the_same_stripes_at_the_same_time_100_000_times_and_parity_agrees() {
    let (lives, writes) = (Cell::new(0), Cell::new(0));
    each(3_600, |seed| {
        let world = World::new(striping(seed as usize), seed);
        let opens: Vec<Open> = (0..2).map(|_| Open::new(&world, tight(false))).collect();
        let mut wrote: Vec<(Write, Begun<Result<()>>)> = Vec::new();
        let size = 8 * UNIT;
        // Of several copies one may go in the middle, the one with the locks as well.
        let loses = world.striping.raid().copies() > 2 && seed % 2 == 1;
        let dies = !loses && world.striping.spare() > 0 && seed % 3 != 0;
        for round in 0..6 {
            let first = wrote.len();
            for open in &opens {
                for _ in 0..3 {
                    let at = world.chance.below(size);
                    let bytes = some(&world.chance, 1 + world.chance.below(2 * UNIT));
                    let (file, given) = (open.engine.clone(), Slice::from(bytes.clone()));
                    let begun = world.begin(&open.link, async move { file.write_at(Bytes(at), given).await });
                    wrote.push(((at, bytes), begun));
                }
            }
            if loses && round == 2 {
                world.fail_after(0, world.chance.below(40));
            }
            if dies && round == 3 {
                world.crash_after.set(Some(world.chance.below(40)));
            }
            // What nobody waits for any more is done all the same.
            while world.chance.once_in(2) {
                world.go_on(world.chance.below(30));
                let nth = first + world.chance.below((wrote.len() - first) as u64) as usize;
                wrote[nth].1.give_up();
            }
            world.settle();
            world.crash_after.set(None);
            if world.took_crash() {
                break;
            }
        }
        // Whoever lives, or comes, settles what the other one left where it takes the lock.
        let third = Open::new(&world, tight(false));
        let length = third.run(|file| async move { file.size().await }).0;
        let found = third.all();
        assert_eq!(found.len() as u64, length);
        let answered: Vec<bool> = wrote.iter().map(|(_, begun)| begun.take().is_some_and(|one| one.is_ok())).collect();
        for (((at, bytes), _), answered) in wrote.iter().zip(&answered) {
            assert!(!answered || length >= at + bytes.len() as u64, "{length} bytes are too few");
        }
        for (at, byte) in found.iter().enumerate() {
            let here = |(from, bytes): &Write| bytes.get(at.checked_sub(*from as usize)?).copied();
            let is_written = wrote.iter().any(|(write, _)| here(write) == Some(*byte));
            let must = wrote.iter().zip(&answered).any(|((write, _), answered)| *answered && here(write).is_some());
            assert!(is_written || *byte == 0 && !must, "byte {at} is {byte}");
        }
        for at in (0..10 * UNIT).step_by(UNIT as usize / 2) {
            third.write(at, vec![9; 10]);
        }
        world.settle();
        world.check();
        // Of copies there may be intents that others have ended; they do no harm, and go when all have closed the file.
        opens.iter().for_each(|open| world.crash(open.link.client));
        world.crash(third.link.client);
        recovered(&world);
        assert_eq!(world.intents(), 0);
        world.check();
        lives.set(lives.get() + 1);
        writes.set(writes.get() + wrote.len());
    });
    assert!(lives.get() == 1 || writes.get() >= 100_000, "{} writes", writes.get());
}

#[test]
fn what_one_that_died_left_is_ended_beside_others_who_write_and_what_is_read_then_stays() {
    let ended = Cell::new(0);
    each(400, |seed| {
        let world = World::new(striping(seed as usize), seed);
        let (dying, other) = (Open::new(&world, tight(false)), Open::new(&world, tight(false)));
        let size = 12 * UNIT;
        let before = some(&world.chance, size);
        other.write(0, before.clone());
        let writes: Vec<Write> = (0..4)
            .map(|_| {
                let bytes = some(&world.chance, 1 + world.chance.below(3 * UNIT));
                (world.chance.below(size - bytes.len() as u64), bytes)
            })
            .collect();
        world.crash_after.set(Some(world.chance.below(60)));
        for (at, bytes) in writes.clone() {
            let (file, bytes) = (dying.engine.clone(), Slice::from(bytes));
            drop(world.begin(&dying.link, async move { file.write_at(Bytes(at), bytes).await }));
        }
        while !world.is_dead(dying.link.client) && world.pending() > 0 {
            world.go_on(1);
        }
        world.crash(dying.link.client);
        world.took_crash();
        // Somebody else writes meanwhile, behind all of that.
        let (file, bytes) = (other.engine.clone(), Slice::from(vec![7; 3 * UNIT as usize]));
        let writing = world.begin(&other.link, async move { file.write_at(Bytes(size), bytes).await });
        let next = Open::new(&world, tight(false));
        let left = world.intents();
        next.run(|file| async move { file.end_left().await });
        let mut found = next.read(0, size);
        for (at, byte) in found.iter().enumerate() {
            let here = |(from, bytes): &Write| bytes.get(at.checked_sub(*from as usize)?).copied();
            let is_known = *byte == before[at] || writes.iter().any(|write| here(write) == Some(*byte));
            assert!(is_known, "byte {at} is {byte}");
        }
        // Whoever locks a stripe from now on finds nothing there that changes what was read.
        for at in (0..size).step_by(UNIT as usize / 2) {
            other.write(at, vec![9; 10]);
            found[at as usize..][..10].fill(9);
        }
        world.settle();
        assert!(writing.take().is_some_and(|wrote| wrote.is_ok()));
        assert!(next.read(0, size) == found, "with {left} intents");
        world.check();
        ended.set(ended.get() + left);
    });
    assert!(ended.get() != 0, "nothing was left");
}

#[test]
fn what_several_clients_append_is_there_once_each_and_without_gaps() {
    let world = World::new(Striping::new(Raid::Five, Bytes(UNIT), 4, 1, 1).expect("a layout"), 3);
    let opens: Vec<Open> = (0..3).map(|_| Open::new(&world, tight(false))).collect();
    let places: Rc<RefCell<Vec<u64>>> = Rc::default();
    for (open, letter) in opens.iter().zip(1_u8..) {
        let (file, places) = (open.engine.clone(), places.clone());
        open.link.spawner().detach(async move {
            for _ in 0..20 {
                let at = file.append(Slice::from(vec![letter; 777])).await.expect("it is appended");
                places.borrow_mut().push(at.0);
            }
        });
    }
    world.settle();
    let mut places = places.take();
    places.sort_unstable();
    assert_eq!(places, (0..60).map(|nth| nth * 777).collect::<Vec<u64>>());
    let all = opens[0].all();
    assert!(all.len() == 60 * 777 && all.chunks(777).all(|one| one[0] != 0 && one.iter().all(|byte| *byte == one[0])));
    world.check();
}

#[test]
fn one_client_rebuilds_a_component_while_another_writes_the_same_stripes() {
    for (raid, width) in [(Raid::Five, 4), (Raid::One(2), 2), (Raid::One(3), 1)] {
        each(8, |seed| {
            let world = World::new(Striping::new(raid, Bytes(UNIT), width, 2, 1).expect("a layout"), seed);
            let (writer, builder) = (Open::new(&world, tight(false)), Open::new(&world, tight(false)));
            let size = 40 * UNIT;
            let mut expected = some(&world.chance, size);
            writer.write(0, expected.clone());
            world.set_down(1, true);
            let new = some(&world.chance, size / 2);
            expected[..new.len()].copy_from_slice(&new);
            writer.write(0, new);
            world.set_down(1, false);
            builder.run(|file| async move { file.look_again().await });
            let mut progress = builder.run(|file| async move { file.begin_rebuild(1).await });
            writer.run(|file| async move { file.look_again().await });
            let file = writer.engine.clone();
            let writes: Vec<_> = (0..60).map(|_| (world.chance.below(size - UNIT), some(&world.chance, 700))).collect();
            for (at, bytes) in &writes {
                expected[*at as usize..][..bytes.len()].copy_from_slice(bytes);
            }
            writer.link.spawner().detach(async move {
                for (at, bytes) in writes {
                    file.write_at(Bytes(at), Slice::from(bytes)).await.expect("it is written");
                }
            });
            let file = builder.engine.clone();
            let rebuilt = world.run(&builder.link, async move {
                while !file.rebuild(1, &mut progress, Bytes(UNIT)).await? {}
                Ok::<(), forebay_model::Error>(())
            });
            rebuilt.expect("it lives").expect("it is rebuilt");
            writer.run(|file| async move { file.look_again().await });
            world.settle();
            assert!(world.missing.borrow().is_empty() && world.intents() == 0);
            world.check();
            assert!(writer.all() == expected, "{raid}");
            for lost in (0..width * raid.copies()).filter(|lost| *lost != 1) {
                world.set_down(lost, true);
                assert!(Open::new(&world, tight(true)).all() == expected, "{raid} without {lost}");
                world.set_down(lost, false);
            }
        });
    }
}

#[test]
fn what_one_client_writes_at_the_same_time_is_as_long_as_the_furthest_of_it() {
    each(40, |seed| {
        let world = World::new(striping(seed as usize), seed);
        let open = Open::new(&world, tight(false));
        let ends: Vec<u64> = (0..8).map(|_| 1 + world.chance.below(20 * UNIT)).collect();
        for end in &ends {
            let (file, at) = (open.engine.clone(), Bytes(end - 1));
            world.begin(&open.link, async move { file.write_at(at, Slice::from_static(b"x")).await });
        }
        world.settle();
        let length = Open::new(&world, tight(false)).all().len() as u64;
        assert_eq!(Some(length), ends.into_iter().max());
    });
}

#[test]
fn of_three_copies_two_stay_equal_if_the_one_with_the_lock_goes_in_the_middle_of_a_write() {
    let world = World::new(Striping::new(Raid::One(3), Bytes(UNIT), 1, 1, 1).expect("a layout"), 5);
    let opens: Vec<Open> = (0..2).map(|_| Open::new(&world, tight(false))).collect();
    let write = |open: &Open, byte: u8| {
        let file = open.engine.clone();
        world.begin(&open.link, async move { file.write_at(Bytes::ZERO, Slice::from(vec![byte; 100])).await })
    };
    opens[0].write(0, vec![7; 100]);
    world.set_delay(2, Duration::from_millis(50));
    let first = write(&opens[0], 8);
    while world.with(1, |bytes| bytes[0]) == 7 {
        world.go_on(1);
    }
    assert_eq!(world.with(2, |bytes| bytes[0]), 7, "it is under way");
    world.set_down(0, true);
    world.set_delay(2, Duration::ZERO);
    let second = write(&opens[1], 9);
    world.settle();
    assert!([first, second].iter().all(|one| matches!(one.take(), Some(Ok(())))));
    assert!(world.missing.borrow().contains_key(&0));
    world.check();
    assert_eq!(opens[0].all(), vec![9; 100]);
}

/// All of the file is there, whichever component is lost.
fn is_there_without_any(world: &Rc<World>, all: &[u8], what: &str) {
    for lost in 0..world.striping.components() {
        world.set_down(lost, true);
        assert!(Open::new(world, tight(true)).all() == all, "{what}, without {lost}");
        world.set_down(lost, false);
    }
}

#[test]
fn what_was_begun_while_a_component_was_filled_is_found_when_that_is_whole() {
    let mut died = 0;
    for dies_after in 0..16 {
        let world = World::new(Striping::new(Raid::Five, Bytes(UNIT), 4, 8, 1).expect("a layout"), dies_after);
        let parity = world.striping.parity_of(world.striping.stripe_of(Bytes::ZERO)).expect("it has one").component;
        let (writer, builder) = (Open::new(&world, tight(false)), Open::new(&world, tight(false)));
        writer.write(0, some(&world.chance, 12 * UNIT));
        world.set_down(parity, true);
        writer.write(5, some(&world.chance, 700));
        world.set_down(parity, false);
        builder.run(|file| async move { file.look_again().await });
        let mut progress = builder.run(|file| async move { file.begin_rebuild(parity).await });
        let file = builder.engine.clone();
        let (first, mut progress) = world
            .run(&builder.link, async move { (file.rebuild(parity, &mut progress, Bytes(UNIT)).await, progress) })
            .expect("it lives");
        assert!(!first.expect("it is rebuilt") && progress.at == Bytes(UNIT), "the first stripe is behind it");
        writer.run(|file| async move { file.look_again().await });
        world.crash_after.set(Some(dies_after));
        let new = some(&world.chance, UNIT);
        let wrote = writer.try_run(|file| async move { file.write_at(Bytes(100), Slice::from(new)).await });
        world.crash(writer.link.client);
        died += u64::from(wrote.is_none());
        builder.run(|file| async move {
            while !file.rebuild(parity, &mut progress, Bytes(UNIT)).await? {}
            Ok(())
        });
        let third = Open::new(&world, tight(false));
        third.write(2 * UNIT + 9, some(&world.chance, 300));
        let all = third.all();
        world.check();
        is_there_without_any(&world, &all, &format!("died after {dies_after}"));
    }
    assert!(died >= 4, "{died} died");
}

/// Who wrote did without a component, and died with what it said it would write: whoever comes next writes that, as far as it goes.
#[test]
fn what_was_begun_before_a_component_is_filled_is_filled_as_far_as_it_goes() {
    let mut died = 0;
    for (lost, dies_after) in (0..4).flat_map(|lost| (0..20).map(move |dies_after| (lost, dies_after))) {
        let world = World::new(Striping::new(Raid::Five, Bytes(UNIT), 4, 8, 1).expect("a layout"), dies_after);
        let (writer, builder) = (Open::new(&world, tight(false)), Open::new(&world, tight(false)));
        writer.write(0, some(&world.chance, 3 * UNIT + 100));
        world.set_down(lost, true);
        writer.write(5, some(&world.chance, 3 * UNIT));
        world.crash_after.set(Some(dies_after));
        let new = some(&world.chance, 8 * UNIT);
        let wrote = writer.try_run(|file| async move { file.write_at(Bytes(3 * UNIT + 50), new.into()).await });
        world.crash(writer.link.client);
        died += u64::from(wrote.is_none());
        world.set_down(lost, false);
        builder.run(|file| async move {
            file.look_again().await?;
            let mut progress = file.begin_rebuild(lost).await?;
            while !file.rebuild(lost, &mut progress, Bytes(UNIT)).await? {}
            Ok(())
        });
        let third = Open::new(&world, tight(false));
        for stripe in 0..4 {
            third.write(3 * stripe * UNIT + 9, some(&world.chance, 30));
        }
        let all = third.all();
        world.check();
        is_there_without_any(&world, &all, &format!("died after {dies_after}"));
    }
    assert!(died >= 20, "{died} died");
}

#[test]
fn who_is_alone_again_writes_what_was_rebuilt_while_it_looked_at_the_file() {
    let mut meanwhile = 0;
    for events in 0..20 {
        let world = World::new(Striping::new(Raid::One(2), Bytes(UNIT), 1, 1, 1).expect("a layout"), events);
        let writer = Open::new(&world, tight(false));
        let mut expected = some(&world.chance, 4 * UNIT);
        writer.write(0, expected.clone());
        world.set_down(0, true);
        expected[..100].fill(1);
        writer.write(0, vec![1; 100]);
        assert!(world.missing.borrow().contains_key(&0));
        world.set_down(0, false);
        let file = writer.engine.clone();
        let turning = world.begin(&writer.link, async move { file.unshare().await });
        world.go_on(events);
        if turning.has_ended() {
            break;
        }
        meanwhile += 1;
        let whole = world.with(1, |bytes| bytes.clone());
        world.with(0, |bytes| *bytes = whole);
        world.missing.borrow_mut().clear();
        world.settle();
        assert!(matches!(turning.take(), Some(Ok(()))) && !writer.engine.is_shared());
        expected[UNIT as usize..][..100].fill(2);
        writer.write(UNIT, vec![2; 100]);
        writer.flush();
        world.check();
        is_there_without_any(&world, &expected, &format!("rebuilt after {events}"));
    }
    assert!(meanwhile > 1, "it was rebuilt at {meanwhile} moments");
}

#[test]
fn nobody_reads_what_was_there_before_once_somebody_has_read_what_is_new_of_copies() {
    const AT: u64 = 4 * UNIT;
    for seed in 0..20 {
        let world = World::new(Striping::new(Raid::One(2), Bytes(16 * UNIT), 1, 1, 1).expect("a layout"), seed);
        let writer = Open::new(&world, tight(false));
        writer.write(0, vec![1; 16 * UNIT as usize]);
        let readers = [Open::new(&world, tight(false)), Open::new(&world, tight(false))];
        // It is on the first copy long before it is on the second.
        world.set_delay(1, Duration::from_secs(1));
        let file = writer.engine.clone();
        let new = Slice::from(vec![2; UNIT as usize]);
        let writing = world.begin(&writer.link, async move { file.write_at(Bytes(AT), new).await });
        while world.with(0, |bytes| bytes[AT as usize] == 1) {
            world.go_on(1);
        }
        world.set_delay(1, Duration::ZERO);
        assert_eq!(readers[0].read(0, AT + UNIT)[AT as usize..], vec![2; UNIT as usize], "seed {seed}");
        assert_eq!(readers[1].read(AT, UNIT), vec![2; UNIT as usize], "seed {seed}");
        assert!(world.finish(&writer.link, || writing.has_ended()));
        world.check();
    }
}

//! Single faults, and exactly what comes of each.

use super::{Bytes, Kind, Open, Options, Raid, Slice, Striping, UNIT, World, recover, recovered, some, tight};
use crate::file::components::{Components, Intent, Redo};
use forebay_model::layout::address::{Holds, Place, StripeId};
use forebay_model::layout::update::Extent;
use std::rc::Rc;
use std::time::Duration;

fn five_wide() -> Striping {
    Striping::new(Raid::Five, Bytes(UNIT), 5, 1, 1).expect("a layout")
}

#[test]
fn damaged_bytes_are_read_from_the_others_in_the_same_request_and_written_again() {
    for raid in [Raid::Five, Raid::One(2)] {
        let world = World::new(Striping::new(raid, Bytes(UNIT), 4, 1, 1).expect("a layout"), 1);
        let open = Open::new(&world, tight(true));
        let bytes = some(&world.chance, 30 * UNIT);
        open.write(0, bytes.clone());
        open.flush();
        world.damage(0, 100..3000);
        world.damage(1, 2 * UNIT..2 * UNIT + 1);
        assert!(open.all() == bytes);
        let scrubbed = open.run(|file| async move { file.scrub(0, 100).await });
        assert!(scrubbed.0.lost.is_empty() && !scrubbed.1, "{scrubbed:?}");
        assert!(open.engine.mended() >= Bytes(UNIT));
        for component in [0, 1] {
            world.set_down(component, true);
            assert!(Open::new(&world, tight(true)).all() == bytes, "{raid} without {component}");
            world.set_down(component, false);
        }
    }
}

#[test]
fn a_component_of_which_nothing_is_known_any_more_is_done_without_in_reading_and_in_writing() {
    for raid in [Raid::Five, Raid::One(2)] {
        for (alone, forgotten) in [(true, 0), (false, 3)] {
            let world = World::new(Striping::new(raid, Bytes(UNIT), 4, 1, 1).expect("a layout"), 5);
            let open = Open::new(&world, tight(alone));
            let mut bytes = some(&world.chance, 30 * UNIT);
            open.write(0, bytes.clone());
            open.flush();
            world.forget(forgotten);
            assert!(open.all() == bytes, "{raid}");
            // A part of a stripe, whole stripes, and new ones.
            for (from, length) in [(100, 10), (5 * UNIT, 9 * UNIT), (30 * UNIT, 7 * UNIT + 3)] {
                let new = some(&world.chance, length);
                bytes.resize(bytes.len().max((from + length) as usize), 0);
                bytes[from as usize..(from + length) as usize].copy_from_slice(&new);
                open.write(from, new);
            }
            open.flush();
            assert!(open.all() == bytes, "{raid}");
            if alone {
                open.run(|file| async move { file.truncate(Bytes(33 * UNIT + 7)).await });
                bytes.truncate((33 * UNIT + 7) as usize);
            }
            assert!(Open::new(&world, tight(true)).all() == bytes, "{raid}");
            let missing: Vec<u32> = world.missing.borrow().keys().copied().collect();
            assert_eq!(missing, [forgotten], "{raid}: all know that it lacks something");
        }
    }
}

#[test]
fn who_writes_does_not_wait_for_a_component_whose_device_has_become_slow_but_for_a_second_one() {
    for raid in [Raid::Five, Raid::One(2)] {
        for alone in [true, false] {
            let world = World::new(Striping::new(raid, Bytes(UNIT), 4, 1, 1).expect("a layout"), 6);
            let open = Open::new(&world, tight(alone));
            let mut bytes = some(&world.chance, 30 * UNIT);
            open.write(0, bytes.clone());
            open.flush();
            let changed = |bytes: &mut Vec<u8>| {
                let new = some(&world.chance, 12 * UNIT);
                bytes[100..100 + new.len()].copy_from_slice(&new);
                let begun = world.now();
                open.write(100, new);
                open.flush();
                world.now().since(begun)
            };
            world.slow_down(1, Duration::from_secs(100));
            let took = changed(&mut bytes);
            assert!(took < Duration::from_secs(10), "{raid}: {took:?}");
            let took = changed(&mut bytes);
            assert!(took < Duration::from_millis(100), "{raid}: {took:?}, though it is not asked any more");
            // Nothing can be done without one more of the same.
            world.slow_down(0, Duration::from_secs(20));
            let took = changed(&mut bytes);
            assert!(took > Duration::from_secs(20), "{raid}: {took:?}");
            let missing: Vec<u32> = world.missing.borrow().keys().copied().collect();
            assert_eq!(missing, [1], "{raid}: all know that it lacks something");
            // What was asked of it is done there by now, and counts for nothing.
            world.settle();
            assert!(Open::new(&world, tight(true)).all() == bytes, "{raid}");
        }
    }
}

#[test]
fn outcome_26_without_redundancy_exactly_the_damaged_block_is_lost() {
    let world = World::new(Striping::new(Raid::Zero, Bytes(UNIT), 3, 1, 1).expect("a layout"), 2);
    let open = Open::new(&world, tight(true));
    let bytes = some(&world.chance, 30 * UNIT);
    open.write(0, bytes.clone());
    open.flush();
    // The second unit of the second component: the fifth of the file.
    world.damage(1, UNIT + 10..UNIT + 20);
    let (read, lost) = open.run(|file| async move { file.read_what_is_left(Bytes::ZERO, Bytes(30 * UNIT)).await });
    assert_eq!(lost, std::slice::from_ref(&(4 * UNIT..5 * UNIT)));
    assert!(read[..4 * UNIT as usize] == bytes[..4 * UNIT as usize]);
    assert!(read[5 * UNIT as usize..] == bytes[5 * UNIT as usize..]);
    let failed = open.try_run(|file| async move { file.read_at(Bytes(4 * UNIT - 5), Bytes(20)).await });
    let error = failed.expect("it lives").expect_err("it is lost");
    assert!(error.kind == Kind::Damaged && error.message.contains("bytes 16384 to 16399 are lost"), "{error}");
}

#[test]
fn if_more_is_lost_than_parity_covers_exactly_that_is_said_and_the_rest_is_read() {
    let world = World::new(five_wide(), 3);
    let open = Open::new(&world, tight(true));
    let bytes = some(&world.chance, 12 * UNIT);
    open.write(0, bytes.clone());
    open.flush();
    // Units of the first stripe are on 0 to 3, with parity on 4.
    world.set_down(0, true);
    world.set_down(1, true);
    let (read, lost) = open.run(|file| async move { file.read_what_is_left(Bytes::ZERO, Bytes(4 * UNIT)).await });
    assert_eq!(lost, std::slice::from_ref(&(0..2 * UNIT)));
    assert!(read[2 * UNIT as usize..] == bytes[2 * UNIT as usize..4 * UNIT as usize]);
    let failed = open.try_run(|file| async move {
        file.write_at(Bytes::ZERO, Slice::from_static(b"new")).await?;
        file.flush().await
    });
    assert!(failed.expect("it lives").is_err(), "and nothing is acknowledged");
    world.set_down(0, false);
    world.set_down(1, false);
    world.crash(open.link.client);
    recovered(&world);
    world.check();
    assert!(Open::new(&world, tight(true)).all()[3..] == bytes[3..]);
}

/// A file, and what is in it, of which a component missed some.
fn missed(world: &Rc<World>, component: u32) -> (Open, Vec<u8>) {
    let open = Open::new(world, tight(true));
    let mut bytes = some(&world.chance, 40 * UNIT);
    open.write(0, bytes.clone());
    open.flush();
    world.set_down(component, true);
    let new = some(&world.chance, 10 * UNIT);
    bytes[..new.len()].copy_from_slice(&new);
    open.write(0, new);
    open.flush();
    world.set_down(component, false);
    (open, bytes)
}

#[test]
fn a_component_that_missed_something_is_never_read_again_before_it_is_rebuilt() {
    let world = World::new(five_wide(), 4);
    let (open, mut bytes) = missed(&world, 2);
    assert!(world.missing.borrow().contains_key(&2), "all know it before it is acknowledged");
    assert!(open.all() == bytes);
    assert!(Open::new(&world, tight(true)).all() == bytes, "others do not read it either");
    // Written while it is rebuilt, on both sides of how far that has come.
    let link = open.engine.clone();
    let mut progress = open.run(|file| async move { file.begin_rebuild(2).await });
    let (done, mut at_half) = world
        .run(&open.link, async move {
            let done = link.rebuild(2, &mut progress, Bytes(3 * UNIT)).await;
            done.map(|done| (done, progress))
        })
        .expect("it lives")
        .expect("it goes on");
    assert!(!done && at_half.at == Bytes(3 * UNIT));
    for at in [100, 30 * UNIT] {
        let new = some(&world.chance, 3 * UNIT);
        bytes[at as usize..at as usize + new.len()].copy_from_slice(&new);
        open.write(at, new);
    }
    open.flush();
    let file = open.engine.clone();
    let rebuilt = async move {
        while !file.rebuild(2, &mut at_half, Bytes(3 * UNIT)).await? {}
        Ok::<(), forebay_model::Error>(())
    };
    world.run(&open.link, rebuilt).expect("it lives").expect("it is rebuilt");
    assert!(world.missing.borrow().is_empty());
    world.check();
    world.set_down(0, true);
    assert!(Open::new(&world, tight(true)).all() == bytes, "it stands in for another one");
}

#[test]
fn who_has_not_heard_that_one_was_rebuilt_asks_before_he_takes_another_one_for_lost_beside_it() {
    let world = World::new(five_wide(), 5);
    let writer = Open::new(&world, tight(false));
    let mut bytes = some(&world.chance, 40 * UNIT);
    writer.write(0, bytes.clone());
    writer.flush();
    world.set_down(2, true);
    writer.write(0, bytes[..10 * UNIT as usize].to_vec());
    writer.flush();
    assert!(world.missing.borrow().contains_key(&2));
    // Both do without it, and ask nothing while somebody else makes it anew.
    let reader = Open::new(&world, tight(false));
    assert!(reader.all() == bytes);
    world.set_down(2, false);
    let third = Open::new(&world, tight(false));
    let file = third.engine.clone();
    let rebuilt = async move {
        let mut progress = file.begin_rebuild(2).await?;
        while !file.rebuild(2, &mut progress, Bytes(3 * UNIT)).await? {}
        Ok::<(), forebay_model::Error>(())
    };
    world.run(&third.link, rebuilt).expect("it lives").expect("it is rebuilt");
    world.set_down(3, true);
    assert!(reader.all() == bytes);
    let new = some(&world.chance, 10 * UNIT);
    bytes[..new.len()].copy_from_slice(&new);
    writer.write(0, new);
    writer.flush();
    assert!(reader.all() == bytes && writer.all() == bytes);
}

#[test]
fn outcome_36_if_a_second_one_dies_while_one_is_rebuilt_exactly_what_was_not_rebuilt_is_lost() {
    let world = World::new(five_wide(), 5);
    let open = Open::new(&world, tight(true));
    let bytes = some(&world.chance, 40 * UNIT);
    open.write(0, bytes.clone());
    open.flush();
    world.set_down(0, true);
    open.write(0, bytes[..10].to_vec());
    open.flush();
    world.set_down(0, false);
    let mut progress = open.run(|file| async move { file.begin_rebuild(0).await });
    world.set_down(1, true);
    let file = open.engine.clone();
    let failed = world.run(&open.link, async move { file.rebuild(0, &mut progress, Bytes(UNIT)).await });
    let error = failed.expect("it lives").expect_err("it is lost");
    assert!(error.message.contains("bytes 0 to 4096 are lost"), "{error}");
    let (_, lost) = open.run(|file| async move { file.read_what_is_left(Bytes::ZERO, Bytes(4 * UNIT)).await });
    assert_eq!(lost, std::slice::from_ref(&(0..2 * UNIT)));
}

#[test]
fn what_is_damaged_beside_one_that_is_rebuilt_is_lost_in_both_and_it_stands_in_for_others_elsewhere() {
    for damaged in [0, 4] {
        let world = World::new(five_wide(), 31 + u64::from(damaged));
        let (open, bytes) = missed(&world, 2);
        world.damage(damaged, 5 * UNIT + 7..5 * UNIT + 8);
        let progress = open.run(|file| async move {
            let mut progress = file.begin_rebuild(2).await?;
            while !file.rebuild(2, &mut progress, Bytes(3 * UNIT)).await? {}
            Ok(progress)
        });
        assert!(progress.lost == Bytes(UNIT) && world.missing.borrow().is_empty(), "{progress:?}");
        world.check();
        let left = |name: &str| {
            let open = Open::new(&world, tight(false));
            let (found, lost) =
                open.run(|file| async move { file.read_what_is_left(Bytes::ZERO, Bytes(40 * UNIT)).await });
            let is_lost = |at: usize| lost.iter().any(|range| range.contains(&(at as u64)));
            assert!((0..bytes.len()).all(|at| found[at] == bytes[at] || is_lost(at)), "{name}");
            lost.iter().map(|range| range.end - range.start).sum::<u64>()
        };
        // What is parity there is no byte of the file.
        let is_data =
            |component: u32| matches!(world.striping.held_at(Place { component, at: Bytes(5 * UNIT) }), Holds::Data(_));
        let data = |of: &[u32]| of.iter().filter(|one| is_data(**one)).count() as u64 * UNIT;
        assert_eq!(left("all there"), data(&[2, damaged]));
        world.set_down(1, true);
        assert_eq!(left("without another one"), data(&[1, 2, damaged]));
        world.set_down(1, false);
        // To write some of what is lost there leaves the rest lost; nothing can be made of parity that would be wrong.
        let part = Open::new(&world, tight(false));
        let at = 5 * 4 * UNIT;
        let few = Slice::from(bytes[at as usize..][..100].to_vec());
        let few = part.try_run(|file| async move { file.write_at(Bytes(at), few).await }).expect("it lives");
        assert_eq!(few.map_err(|error| error.kind).err(), Some(Kind::Damaged));
        // All of the stripe is whole when it is written.
        let open = Open::new(&world, tight(false));
        open.write(at, bytes[at as usize..][..4 * UNIT as usize].to_vec());
        open.flush();
        assert_eq!(left("written anew"), 0);
        world.check();
        world.set_down(damaged, true);
        assert!(Open::new(&world, tight(true)).all() == bytes);
    }
}

#[test]
fn what_is_damaged_in_one_and_may_come_back_with_another_is_waited_for_and_not_lost() {
    let three = Striping::new(Raid::One(3), Bytes(UNIT), 1, 1, 1).expect("a layout");
    // What is away is asked before what is damaged, and behind it.
    for (layout, missing, away, damaged) in
        [(five_wide(), 2, 4, 0), (five_wide(), 2, 0, 4), (three, 0, 1, 2), (three, 0, 2, 1)]
    {
        let world = World::new(layout, 33);
        let (open, bytes) = missed(&world, missing);
        world.damage(damaged, 5 * UNIT..6 * UNIT);
        world.set_down(away, true);
        let rebuilt = |open: &Open| {
            open.try_run(move |file| async move {
                let mut progress = file.begin_rebuild(missing).await?;
                while !file.rebuild(missing, &mut progress, Bytes(3 * UNIT)).await? {}
                Ok::<_, forebay_model::Error>(progress)
            })
        };
        let failed = rebuilt(&open).expect("it lives").expect_err("not all can be made");
        assert!(failed.kind != Kind::Damaged && world.missing.borrow().contains_key(&missing), "{failed}");
        world.set_down(away, false);
        let progress = rebuilt(&Open::new(&world, tight(true))).expect("it lives").expect("the others are there");
        let lost = if layout.raid() == Raid::Five { Bytes(UNIT) } else { Bytes::ZERO };
        assert!(progress.lost == lost && world.missing.borrow().is_empty(), "{progress:?}");
        let found = Open::new(&world, tight(true));
        let (found, lost) =
            found.run(|file| async move { file.read_what_is_left(Bytes::ZERO, Bytes(40 * UNIT)).await });
        let is_lost = |at: usize| lost.iter().any(|range| range.contains(&(at as u64)));
        assert!((0..bytes.len()).all(|at| found[at] == bytes[at] || is_lost(at)));
        assert!(layout.raid() == Raid::Five || lost.is_empty());
    }
}

#[test]
fn scrubbing_takes_what_is_away_for_lost_only_when_it_is_damaged_and_tells_nothing_behind_the_end() {
    // The parity missed it, and of the others only the first has something.
    for (missing, away) in [(4, 0), (4, 2)] {
        let world = World::new(five_wide(), 35);
        let open = Open::new(&world, tight(true));
        let bytes = some(&world.chance, 187);
        world.set_down(missing, true);
        open.write(0, bytes.clone());
        open.flush();
        world.set_down(missing, false);
        let scrubbed = |open: &Open| open.try_run(|file| async move { file.scrub(0, 100).await }).expect("it lives");
        world.set_down(away, true);
        let error = scrubbed(&Open::new(&world, tight(true))).expect_err("two are not there");
        assert!(error.kind != Kind::Damaged, "{error}");
        world.set_down(away, false);
        let open = Open::new(&world, tight(true));
        let (found, _) = scrubbed(&open).expect("only one is not there");
        assert!(found.lost.is_empty() && open.all() == bytes, "{found:?}");
        // Damage is lost, and a unit is as long as the longest: of the file there are fewer bytes.
        world.damage(0, 0..187);
        let (found, _) = scrubbed(&Open::new(&world, tight(true))).expect("all answer");
        assert_eq!(found.lost, std::slice::from_ref(&(0..187)));
    }
}

#[test]
fn a_component_that_loses_its_buffers_gets_them_from_the_others_at_the_flush() {
    let world = World::new(five_wide(), 6);
    let open = Open::new(&world, tight(true));
    let bytes = some(&world.chance, 60 * UNIT);
    open.write(0, bytes[..40 * UNIT as usize].to_vec());
    world.settle();
    world.restart(3);
    open.write(40 * UNIT, bytes[40 * UNIT as usize..].to_vec());
    assert!(open.all() == bytes);
    open.flush();
    assert!(world.missing.borrow().is_empty(), "nothing is to be rebuilt");
    world.check();
    world.set_down(1, true);
    assert!(Open::new(&world, tight(true)).all() == bytes);
}

#[test]
fn a_component_that_is_a_hundred_times_slower_is_found_and_reads_do_without_it() {
    let world = World::new(five_wide(), 7);
    let options =
        Options { hedge_after: Duration::from_millis(1), ahead: Bytes::ZERO, cache: Bytes::ZERO, ..tight(true) };
    let open = Open::new(&world, options);
    let bytes = some(&world.chance, 400 * UNIT);
    open.write(0, bytes.clone());
    open.flush();
    let slowest = |reads: u64| {
        let took = |nth: u64| {
            let begun = world.now();
            let at = nth * 37 % 396 * UNIT;
            assert!(open.read(at, 4 * UNIT) == bytes[at as usize..][..4 * UNIT as usize]);
            world.now().since(begun)
        };
        let mut all: Vec<Duration> = (0..reads).map(took).collect();
        all.sort_unstable();
        all[all.len() * 99 / 100]
    };
    let calm = slowest(200);
    assert!(open.engine.slow().is_empty());
    world.set_delay(2, Duration::from_millis(20));
    let begun = world.now();
    let hedged = slowest(200);
    assert_eq!(open.engine.slow(), [2]);
    assert!(world.now().since(begun) < Duration::from_secs(10));
    assert!(hedged <= calm * 6, "{hedged:?} and {calm:?}");
    world.set_delay(2, Duration::ZERO);
    slowest(600);
    assert!(open.engine.slow().is_empty(), "it is fast again");
}

#[test]
fn scrubbing_finds_parity_and_copies_that_do_not_agree() {
    for raid in [Raid::Five, Raid::One(3)] {
        let world = World::new(Striping::new(raid, Bytes(UNIT), 4, 2, 1).expect("a layout"), 8);
        let open = Open::new(&world, tight(true));
        let bytes = some(&world.chance, 50 * UNIT);
        open.write(0, bytes.clone());
        open.flush();
        // Of the first stripe: its parity, or a copy of its first unit.
        let other = if raid == Raid::Five { 3 } else { 1 };
        world.with(other, |bytes| bytes[77] ^= 1);
        // To compare changes nothing.
        for _ in 0..2 {
            let (found, more) = open.run(|file| async move { file.compare(0, 2).await });
            assert!(found.suspects == [0] && found.compared > Bytes::ZERO && more, "{raid}: {found:?}");
        }
        let (found, _) = open.run(|file| async move { file.scrub(0, 2).await });
        assert_eq!((found.repaired, found.lost.len()), (Bytes(UNIT), 0), "{raid}");
        let (found, more) = open.run(|file| async move { file.compare(0, 1000).await });
        assert!(found.suspects.is_empty() && !more, "{raid}: {found:?}");
        world.check();
        assert!(open.all() == bytes);
    }
}

#[test]
fn a_file_that_others_may_write_is_not_cut() {
    let world = World::new(five_wide(), 9);
    let open = Open::new(&world, tight(false));
    let busy = open.try_run(|file| async move { file.truncate(Bytes(5)).await });
    assert_eq!(busy.expect("it lives").expect_err("others may write").kind, Kind::Busy);
}

#[test]
fn outcome_34_wherever_a_client_dies_in_a_stripe_and_whatever_is_lost_then_only_what_it_wrote_may_differ() {
    let layouts = [(Raid::Five, 4, 4), (Raid::One(2), 1, 2), (Raid::One(3), 1, 3)];
    for (raid, width, components) in layouts {
        let mut died = 0;
        for (dies_after, lost) in (0..24).flat_map(|after| (0..components).map(move |lost| (after, lost))) {
            let striping = Striping::new(raid, Bytes(UNIT), width, 1, 1).expect("a layout");
            let world = World::new(striping, dies_after * 10 + u64::from(lost));
            let open = Open::new(&world, tight(true));
            let old = some(&world.chance, 3 * UNIT);
            open.write(0, old.clone());
            open.flush();
            let (at, new) = (100, some(&world.chance, 2 * UNIT));
            let given = Slice::from(new.clone());
            world.crash_after.set(Some(dies_after));
            let wrote = open.try_run(|file| async move {
                file.write_at(Bytes(at), given).await?;
                file.flush().await
            });
            world.crash_after.set(None);
            died += u64::from(wrote.is_none());
            world.crash(open.link.client);
            world.set_down(lost, true);
            recovered(&world);
            world.check();
            let found = Open::new(&world, tight(true)).all();
            assert_eq!(found.len(), old.len());
            let mut expected = old.clone();
            expected[at as usize..at as usize + new.len()].copy_from_slice(&new);
            if wrote.is_some() {
                assert!(found == expected, "{raid}: acknowledged, without {lost}");
            }
            // Piece by piece of a unit it is as before or as it was to be.
            for (nth, piece) in found.chunks(UNIT as usize).enumerate() {
                let at = nth * UNIT as usize..nth * UNIT as usize + piece.len();
                assert!(*piece == old[at.clone()] || *piece == expected[at], "{raid}: unit {nth} without {lost}");
            }
        }
        assert!(died >= 8, "{died} died");
    }
}

#[test]
fn what_could_not_be_read_ahead_is_read_when_it_is_wanted() {
    let world = World::new(Striping::new(Raid::Zero, Bytes(UNIT), 2, 1, 1).expect("a layout"), 10);
    let open = Open::new(&world, tight(true));
    let bytes = some(&world.chance, 100 * UNIT);
    open.write(0, bytes.clone());
    open.flush();
    world.set_down(1, true);
    let failed = |at: u64| {
        let read = open.try_run(|file| async move { file.read_at(Bytes(at), Bytes(UNIT)).await });
        read.expect("it lives").is_err()
    };
    // Far ahead of these all is tried, and fails.
    assert_eq!((0..8).map(|nth| failed(nth * UNIT)).collect::<Vec<bool>>(), [false, true].repeat(4));
    world.settle();
    world.set_down(1, false);
    let mut at = 8 * UNIT;
    while at < 100 * UNIT {
        assert!(open.read(at, 3 * UNIT) == bytes[at as usize..(at + 3 * UNIT).min(100 * UNIT) as usize]);
        at += 3 * UNIT;
    }
}

#[test]
fn what_could_not_be_written_is_not_read_as_what_was_there_before() {
    let world = World::new(Striping::new(Raid::Zero, Bytes(UNIT), 3, 1, 1).expect("a layout"), 9);
    let open = Open::new(&world, tight(true));
    let bytes = some(&world.chance, 6 * UNIT);
    open.write(0, bytes.clone());
    open.flush();
    world.set_down(1, true);
    open.write(UNIT, some(&world.chance, UNIT));
    let read = |from: u64, length: u64| {
        open.try_run(move |file| async move { file.read_at(Bytes(from), Bytes(length)).await })
    };
    read(UNIT, UNIT).expect("it lives").expect_err("the target is not there");
    world.set_down(1, false);
    let error = read(UNIT, 10).expect("it lives").expect_err("it was not written");
    assert!(error.message.contains("were not written"), "{error}");
    let rest = read(2 * UNIT, UNIT).expect("it lives").expect("nobody wrote that");
    assert!(rest == bytes[2 * UNIT as usize..3 * UNIT as usize]);
    assert!(Open::new(&world, tight(true)).all() == bytes);
}

#[test]
fn what_a_failed_write_left_open_is_no_source_for_what_is_damaged_beside_it() {
    let world = World::new(five_wide(), 11);
    let open = Open::new(&world, tight(true));
    let bytes = some(&world.chance, 8 * UNIT);
    open.write(0, bytes.clone());
    open.flush();
    // New bytes of the first unit are there, and the parity has none of them.
    world.set_full(4, true);
    open.write(0, some(&world.chance, 100));
    let failed = open.try_run(|file| async move { file.flush().await });
    assert_eq!(failed.expect("it lives").expect_err("it has no room").kind, Kind::Full);
    world.set_full(4, false);
    world.damage(1, 0..UNIT);
    let read = open.try_run(|file| async move { file.read_at(Bytes(UNIT), Bytes(UNIT)).await });
    let error = read.expect("it lives").expect_err("it is damaged beside a failed write");
    assert!(error.message.contains("were not written"), "{error}");
    let scrubbed = open.try_run(|file| async move { file.scrub(0, u64::MAX).await });
    scrubbed.expect("it lives").expect_err("nothing is made good of it");
    assert_eq!(open.engine.mended(), Bytes::ZERO);
    world.crash(open.link.client);
    recovered(&world);
    world.check();
    assert!(Open::new(&world, tight(true)).all()[100..] == bytes[100..]);
}

#[test]
fn nobody_is_alone_with_a_file_of_which_a_write_beside_others_failed_before_that_is_ended() {
    let world = World::new(five_wide(), 13);
    let open = Open::new(&world, tight(false));
    let bytes = some(&world.chance, 8 * UNIT);
    open.write(0, bytes.clone());
    assert!(open.engine.is_ended());
    // New bytes of the first unit are there, and the parity has none of them.
    world.set_full(4, true);
    let few = Slice::from(some(&world.chance, 100));
    let failed = open.try_run(|file| async move { file.write_at(Bytes::ZERO, few).await });
    assert_eq!(failed.expect("it lives").expect_err("it has no room").kind, Kind::Full);
    world.set_full(4, false);
    let alone = open.try_run(|file| async move { file.unshare().await });
    assert_eq!(alone.expect("it lives").expect_err("what it began is not ended").kind, Kind::Full);
    assert!(open.engine.is_shared() && !open.engine.is_ended());
    // With its lock, what is damaged is made of a parity that agrees.
    world.damage(1, 0..UNIT);
    assert!(open.all()[100..] == bytes[100..]);
    world.check();
}

#[test]
fn a_cut_that_somebody_left_takes_nothing_away_that_others_write_behind_it() {
    let mut left = 0;
    for steps in 0..200 {
        let world = World::new(five_wide(), steps);
        let gone = Open::new(&world, tight(true));
        gone.write(0, some(&world.chance, 40 * UNIT));
        gone.flush();
        world.crash_after.set(Some(steps));
        let cut = gone.try_run(|file| async move { file.truncate(Bytes(100)).await });
        if cut.is_some() {
            break;
        }
        let open = Open::new(&world, tight(false));
        // It is gone for long: what it had under way is done or not.
        world.run(&open.link, open.link.shut_out()).expect("it lives").expect("it is told");
        open.run(|file| async move { file.end_left_cut(true).await });
        let new = some(&world.chance, 100);
        open.write(30 * UNIT, new.clone());
        let other = Open::new(&world, tight(false));
        other.run(|file| async move { file.end_left().await });
        assert!(other.read(30 * UNIT, 100) == new, "cut for {steps} steps");
        recovered(&world);
        world.check();
        assert!(Open::new(&world, tight(true)).read(30 * UNIT, 100) == new, "cut for {steps} steps, and mended");
        left += 1;
    }
    assert!(left >= 5, "it was left {left} times");
}

#[test]
fn a_component_that_loses_its_buffers_while_it_is_rebuilt_is_not_whole_however_often_it_is_asked() {
    let world = World::new(five_wide(), 12);
    let open = Open::new(&world, tight(true));
    // Behind the bytes is a hole, of which nothing is written.
    let bytes = some(&world.chance, 20 * UNIT);
    open.write(0, bytes.clone());
    open.write(40 * UNIT, vec![1]);
    open.flush();
    world.set_down(2, true);
    open.write(0, bytes.clone());
    open.flush();
    world.set_down(2, false);
    let file = open.engine.clone();
    let lost = async move {
        let mut progress = file.begin_rebuild(2).await?;
        while progress.at < Bytes(6 * UNIT) {
            assert!(!file.rebuild(2, &mut progress, Bytes(UNIT)).await?);
        }
        Ok::<_, forebay_model::Error>(progress)
    };
    let mut progress = world.run(&open.link, lost).expect("it lives").expect("so far it is rebuilt");
    world.restart(2);
    for _ in 0..3 {
        let file = open.engine.clone();
        let rebuilt = world.run(&open.link, async move {
            let rebuilt = file.rebuild(2, &mut progress, Bytes(UNIT * 100)).await;
            Ok::<_, forebay_model::Error>((rebuilt, progress))
        });
        let (rebuilt, at) = rebuilt.expect("it lives").expect("it is told");
        progress = at;
        rebuilt.expect_err("it lost what was written");
    }
    let file = open.engine.clone();
    let anew = async move {
        let mut progress = file.begin_rebuild(2).await?;
        while !file.rebuild(2, &mut progress, Bytes(UNIT)).await? {}
        Ok::<_, forebay_model::Error>(())
    };
    world.run(&open.link, anew).expect("it lives").expect("it is rebuilt");
    world.check();
    world.set_down(0, true);
    assert!(Open::new(&world, tight(true)).all()[..bytes.len()] == bytes);
}

#[test]
fn more_is_not_gathered_than_there_is_room_for() {
    let world = World::new(five_wide(), 13);
    let options = Options { window: Bytes::kib(32), ..tight(true) };
    let opened = Open::by(world.client(), options).expect("it lives");
    let error = opened.err().expect("it would never be written");
    assert!(error.kind == Kind::Usage && error.message.contains("make the window"), "{error}");
}

#[test]
fn if_the_holder_of_an_intent_goes_while_that_is_ended_the_next_one_is_locked_and_the_write_is_done() {
    let mut ended = 0;
    for dies_after in 0..24 {
        let world = World::new(five_wide(), dies_after);
        let first = Open::new(&world, tight(false));
        first.write(0, some(&world.chance, 8 * UNIT));
        let new = Slice::from(some(&world.chance, 100));
        world.crash_after.set(Some(dies_after));
        drop(first.try_run(|file| async move { file.write_at(Bytes::ZERO, new).await }));
        world.crash(first.link.client);
        ended += world.intents();
        let second = Open::new(&world, tight(false));
        // The parity of the first stripe: it gives the lock, and nothing any more after that.
        world.fail_after(4, 1);
        let bytes = some(&world.chance, 50);
        second.write(200, bytes.clone());
        assert!(world.is_down(4) && second.read(200, 50) == bytes, "after {dies_after}");
        world.heal(4);
        world.crash(second.link.client);
        recovered(&world);
        world.check();
    }
    assert!(ended > 2, "{ended} intents were left");
}

/// What somebody who may write the file left beside a component, and no client that is one of ours.
fn strange() -> Vec<Intent> {
    let extent = |component, at, length| Extent { place: Place { component, at: Bytes(at) }, length: Bytes(length) };
    let agree = |extents: &[Extent]| Intent { agree: extents.to_vec(), ..Intent::default() };
    let write = |component, at| Redo { place: Place { component, at: Bytes(at) }, bytes: Slice::from(vec![1; 10]) };
    vec![
        // More than there is memory for, at once or together.
        agree(&[extent(0, 0, 1 << 50)]),
        agree(&[extent(0, 0, u64::MAX)]),
        agree(&[extent(0, 0, 4 << 20), extent(0, 4 << 20, 4 << 20)]),
        // What no file has.
        agree(&[extent(77, 0, 10)]),
        agree(&[extent(0, u64::MAX - 5, 10)]),
        Intent { stripe: StripeId(u64::MAX - 1), ..Intent::default() },
        Intent { cut: Some(Bytes(u64::MAX)), ..Intent::default() },
        Intent { writes: vec![write(77, 0)], ..Intent::default() },
        Intent { writes: vec![write(0, u64::MAX - 5)], ..Intent::default() },
    ]
}

#[test]
fn what_a_strange_client_left_to_be_ended_is_refused_by_who_ends_it_and_takes_no_memory() {
    for raid in [Raid::Five, Raid::One(2)] {
        for intent in strange() {
            let world = World::new(Striping::new(raid, Bytes(UNIT), 4, 1, 1).expect("a layout"), 31);
            let open = Open::new(&world, tight(false));
            open.write(0, some(&world.chance, 3 * UNIT));
            open.flush();
            let gone = world.client();
            let left = gone.intend(0, intent.clone());
            world.run(&gone, left).expect("it lives").expect("it is kept");
            world.crash(gone.client);
            let beside = open.try_run(|file| async move { file.end_left().await }).expect("it lives");
            assert_eq!(beside.expect_err("nobody ends that").kind, Kind::Damaged, "{raid}: {intent:?}");
            let mender = world.client();
            let mended = recover(mender.clone(), world.striping, world.clock(), mender.spawner());
            let error = world.run(&mender, mended).expect("it lives").expect_err("nobody ends that");
            assert!(error.kind == Kind::Damaged && error.message.contains("remove it"), "{raid}: {intent:?}: {error}");
        }
    }
}

#[test]
fn stripes_that_have_no_room_in_one_intent_are_overwritten_in_parts() {
    let unit = 1 << 20;
    for alone in [true, false] {
        let world = World::new(Striping::new(Raid::Five, Bytes(unit), 10, 1, 1).expect("a layout"), 41);
        let sharing = tight(alone).sharing;
        let open = Open::new(&world, Options { sharing, ..Options::default() });
        let mut bytes = some(&world.chance, 12 * unit);
        open.write(0, bytes.clone());
        open.flush();
        // All of the first stripe and what follows it, and parts of units behind the end of the file.
        for (from, length) in [(100, 11 * unit), (10 * unit - 5, 7 * unit + 9)] {
            let new = some(&world.chance, length);
            bytes.resize(bytes.len().max((from + length) as usize), 0);
            bytes[from as usize..(from + length) as usize].copy_from_slice(&new);
            open.write(from, new);
            open.flush();
        }
        assert!(open.all() == bytes, "alone: {alone}");
        world.check();
        for component in [0, 4, 9] {
            world.set_down(component, true);
            let options = Options { sharing, ..Options::default() };
            assert!(Open::new(&world, options).all() == bytes, "alone: {alone}, without {component}");
            world.set_down(component, false);
        }
    }
}

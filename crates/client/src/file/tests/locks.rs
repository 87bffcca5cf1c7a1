//! Locks of stripes that are lost, are not given, or are of somebody who left something.

use super::super::fake::Begun;
use super::super::{Absence, Components, Intent};
use super::{Bytes, Kind, Open, Raid, Rc, Result, Slice, Striping, UNIT, World, each, some, tight};
use forebay_model::layout::address::{Place, StripeId};
use forebay_model::layout::update::Extent;
use std::cell::Cell;

fn copies(width: u32, depth: u32, groups: u32) -> Striping {
    Striping::new(Raid::One(2), Bytes(UNIT), width, depth, groups).expect("a layout")
}

/// Two clients write a piece of each of the first `units` units, at the same time, and each copy has it all when all is ended.
fn written_at_once(world: &Rc<World>, units: u64, what: &str) {
    let opens = [Open::new(world, tight(false)), Open::new(world, tight(false))];
    let mut wrote: Vec<(u64, Vec<u8>, Begun<Result<()>>)> = Vec::new();
    for nth in 0..units {
        let (open, at, bytes) = (&opens[world.chance.below(2) as usize], nth * UNIT + 50, some(&world.chance, 1000));
        let (file, given) = (open.engine.clone(), Slice::from(bytes.clone()));
        wrote.push((at, bytes, world.begin(&open.link, async move { file.write_at(Bytes(at), given).await })));
    }
    world.settle();
    assert!(wrote.iter().all(|(_, _, begun)| matches!(begun.take(), Some(Ok(())))), "{what}");
    let third = Open::new(world, tight(false));
    third.run(|file| async move { file.end_left().await });
    world.settle();
    world.check();
    for lost in 0..world.striping.components() {
        world.set_down(lost, true);
        let reader = Open::new(world, tight(true));
        for (at, bytes, _) in &wrote {
            assert!(reader.read(*at, bytes.len() as u64) == *bytes, "{what}: {at}, without {lost}");
        }
        world.set_down(lost, false);
    }
}

#[test]
fn what_one_left_who_was_alone_with_copies_takes_nothing_away_that_others_write_when_it_is_ended() {
    let left = Cell::new(0);
    for (width, depth, groups) in [(1, 1, 1), (2, 3, 2)] {
        each(60, |seed| {
            let world = World::new(copies(width, depth, groups), seed);
            let dying = Open::new(&world, tight(true));
            dying.write(0, some(&world.chance, 16 * UNIT));
            dying.flush();
            let new = Slice::from(some(&world.chance, 12 * UNIT));
            // It begins in the middle of a stripe, where there are several columns.
            let at = Bytes(UNIT + UNIT / 2);
            world.crash_after.set(Some(world.chance.below(60)));
            let file = dying.engine.clone();
            let begun = world.begin(&dying.link, async move {
                file.write_at(at, new).await?;
                file.flush().await
            });
            while !world.is_dead(dying.link.client) && begun.take().is_none() {
                world.go_on(1);
            }
            world.crash(dying.link.client);
            world.took_crash();
            let fences = world.client();
            world.run(&fences, fences.shut_out()).expect("it lives").expect("it is shut out");
            left.set(left.get() + world.intents());
            written_at_once(&world, 16, &format!("seed {seed}"));
            assert_eq!(world.intents(), 0, "seed {seed}");
        });
    }
    assert!(left.get() > 0, "nothing was left");
}

#[test]
fn an_intent_of_copies_is_of_one_stripe_each_and_settled_like_one() {
    for (width, depth, groups) in [(1, 1, 1), (2, 3, 2)] {
        let world = World::new(copies(width, depth, groups), 1);
        let open = Open::new(&world, tight(true));
        open.write(0, some(&world.chance, 16 * UNIT));
        open.flush();
        world.take_counts();
        open.write(UNIT / 2, some(&world.chance, 9 * UNIT));
        open.flush();
        // The first and the last one are written in part.
        assert_eq!((world.take_counts().intents, world.intents()), (10, 0));
        world.check();
    }
}

#[test]
fn an_intent_of_copies_of_many_stripes_is_ended_under_the_lock_of_each() {
    each(60, |seed| {
        let world = World::new(copies(1, 1, 1), seed);
        let gone = world.client();
        let before = Open::new(&world, tight(false));
        before.write(0, some(&world.chance, 8 * UNIT));
        let place = Place { component: 0, at: Bytes::ZERO };
        let agree = vec![Extent { place, length: Bytes(8 * UNIT) }];
        let intent = Intent { stripe: StripeId(0), agree, ..Intent::default() };
        world.run(&gone, gone.intend(0, intent)).expect("it lives").expect("it is kept");
        world.crash(gone.client);
        world.took_crash();
        world.with(1, |bytes| bytes.fill(7));
        written_at_once(&world, 8, &format!("seed {seed}"));
        assert_eq!(world.intents(), 0);
    });
}

/// A file of which the first component is absent, and what it has.
fn without_first(striping: Striping) -> (Rc<World>, Open, Vec<u8>) {
    let world = World::new(striping, 3);
    let open = Open::new(&world, tight(false));
    let mut expected = some(&world.chance, 12 * UNIT);
    open.write(0, expected.clone());
    world.set_down(0, true);
    let new = some(&world.chance, 6 * UNIT);
    expected[..new.len()].copy_from_slice(&new);
    open.write(0, new);
    assert!(world.missing.borrow().contains_key(&0), "it is given up");
    world.set_down(0, false);
    (world, open, expected)
}

/// From now on the first component is written by all, and all that was locked before is to be locked anew.
fn begins_to_fill(world: &Rc<World>, open: &Open, locks: usize) {
    while world.locks_of(open.link.client) < locks {
        world.go_on(1);
    }
    world.missing.borrow_mut().insert(0, Absence::Filling);
    world.lose_locks(open.link.client);
}

fn five() -> Striping {
    Striping::new(Raid::Five, Bytes(UNIT), 4, 1, 1).expect("a layout")
}

#[test]
fn a_write_whose_locks_are_lost_since_a_component_begins_to_be_filled_is_done_under_new_ones() {
    for striping in [five(), copies(1, 1, 1)] {
        let (world, open, mut expected) = without_first(striping);
        let new = some(&world.chance, 4 * UNIT);
        expected[100..][..new.len()].copy_from_slice(&new);
        let file = open.engine.clone();
        let writing = world.begin(&open.link, async move { file.write_at(Bytes(100), Slice::from(new)).await });
        begins_to_fill(&world, &open, 1);
        assert!(world.finish(&open.link, || writing.has_ended()));
        assert_eq!(writing.take(), Some(Ok(())));
        assert!(open.all() == expected && open.engine.is_ended());
        assert_eq!(world.intents(), 0);
    }
}

#[test]
fn what_is_appended_while_the_lock_of_the_end_is_lost_is_there_once() {
    let (world, open, mut expected) = without_first(five());
    let new = some(&world.chance, 2 * UNIT);
    expected.extend_from_slice(&new);
    let file = open.engine.clone();
    let appending = world.begin(&open.link, async move { file.append(Slice::from(new)).await });
    begins_to_fill(&world, &open, 2);
    assert!(world.finish(&open.link, || appending.has_ended()));
    assert_eq!(appending.take(), Some(Ok(Bytes(12 * UNIT))));
    assert!(open.all() == expected);
}

#[test]
fn what_was_appended_in_part_is_not_appended_again_where_the_file_ends_by_then() {
    let (world, open, _) = without_first(five());
    let other = Open::new(&world, tight(false));
    let file = open.engine.clone();
    let appending = world.begin(&open.link, async move { file.append(Slice::from(vec![1; 100])).await });
    begins_to_fill(&world, &open, 2);
    other.write(20 * UNIT, vec![2; 10]);
    assert!(world.finish(&open.link, || appending.has_ended()));
    let error = appending.take().expect("it ended").expect_err("nobody knows where it is");
    assert!(error.kind == Kind::Refused && error.message.contains("was not acknowledged"), "{error}");
    assert_eq!(open.run(|file| async move { file.size().await }), Bytes(20 * UNIT + 10));
}

#[test]
fn a_component_that_gives_no_more_locks_is_waited_for_and_not_given_up() {
    for striping in [five(), copies(1, 1, 1)] {
        let world = World::new(striping, 4);
        let open = Open::new(&world, tight(false));
        open.write(0, vec![1; 100]);
        let crowd = |crowded| (0..striping.components()).for_each(|one| world.set_crowded(one, crowded));
        crowd(true);
        let write = |byte| {
            let file = open.engine.clone();
            world.begin(&open.link, async move { file.write_at(Bytes::ZERO, Slice::from(vec![byte; 100])).await })
        };
        let written = write(2);
        world.go_on(300);
        assert!(!written.has_ended());
        crowd(false);
        assert!(world.finish(&open.link, || written.has_ended()));
        assert_eq!(written.take(), Some(Ok(())));
        // For ever it is not.
        crowd(true);
        let refused = write(3);
        assert!(world.finish(&open.link, || refused.has_ended()));
        assert_eq!(refused.take().expect("it ended").expect_err("it is given no lock").kind, Kind::Busy);
        assert!(world.missing.borrow().is_empty());
        crowd(false);
        assert_eq!(open.all(), vec![2; 100]);
        world.check();
    }
}

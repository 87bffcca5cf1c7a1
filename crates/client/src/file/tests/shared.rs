//! Several clients of one file, which write the same stripes at the same time, and die at it.

use super::super::together::all;
use super::{Bytes, Open, Raid, Rc, Slice, Striping, UNIT, World, each, recover, some, striping, tight};
use std::cell::RefCell;

/// Where, and what.
type Write = (u64, Vec<u8>);

#[test]
fn two_clients_write_the_same_stripes_at_the_same_time_and_parity_agrees() {
    each(60, |seed| {
        let world = World::new(striping(seed as usize), seed);
        let opens: Vec<Open> = (0..2).map(|_| Open::new(&world, tight(false))).collect();
        let wrote: Rc<RefCell<Vec<Write>>> = Rc::default();
        let size = 8 * UNIT;
        for round in 0..6 {
            for open in &opens {
                let writes = (0..3).map(|_| {
                    let at = world.chance.below(size);
                    let bytes = some(&world.chance, 1 + world.chance.below(2 * UNIT));
                    wrote.borrow_mut().push((at, bytes.clone()));
                    let file = open.engine.clone();
                    async move { file.write_at(Bytes(at), Slice::from(bytes)).await }
                });
                let writes: Vec<_> = writes.collect();
                open.link.spawner().detach(async move {
                    all(writes).await.into_iter().for_each(|written| written.expect("it is written"));
                });
            }
            let dies = round == 3 && world.striping.spare() > 0;
            if dies {
                world.crash_after.set(Some(world.chance.below(40)));
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
        let zero_lengthened = third.all();
        assert_eq!(zero_lengthened.len() as u64, length);
        let wrote = wrote.borrow();
        for (at, byte) in zero_lengthened.iter().enumerate() {
            let is = |(from, bytes): &Write| {
                at as u64 >= *from && bytes.get(at - *from as usize).is_some_and(|one| one == byte)
            };
            assert!(*byte == 0 || wrote.iter().any(is), "byte {at} is {byte}");
        }
        for at in (0..10 * UNIT).step_by(UNIT as usize / 2) {
            third.write(at, vec![9; 10]);
        }
        world.settle();
        world.check();
        // Of copies there may be intents that others have ended; they do no harm, and go when all have closed the file.
        opens.iter().for_each(|open| world.crash(open.link.client));
        world.crash(third.link.client);
        let link = world.client();
        world
            .run(&link, recover(link.clone(), world.striping, world.clock(), link.spawner()))
            .expect("it lives")
            .expect("it recovers");
        assert_eq!(world.intents(), 0);
        world.check();
    });
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
            writer.write(0, some(&world.chance, size));
            world.set_down(1, true);
            writer.write(0, some(&world.chance, size / 2));
            world.set_down(1, false);
            builder.run(|file| async move { file.look_again().await });
            let mut progress = builder.run(|file| async move { file.begin_rebuild(1).await });
            writer.run(|file| async move { file.look_again().await });
            let file = writer.engine.clone();
            let writes: Vec<_> = (0..60).map(|_| (world.chance.below(size - UNIT), some(&world.chance, 700))).collect();
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
        });
    }
}

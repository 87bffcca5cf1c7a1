use crate::Target;
use crate::catalog::GroupClass;
use crate::fake::{Fake, small};
use crate::object::record::Change;
use crate::object::rows::{BLOCK, Key};
use crate::object::testing::{again, device, id, read};
use crate::object::{Objects, Placement};
use crate::verify::verify;
use forebay_model::{Bytes, Kind, RingId};
use std::time::Duration;

/// Objects whose bytes lie in rows: enough for many more leaves than are written at once.
const OBJECTS: u64 = 1500;

#[test]
fn leaves_on_their_way_to_the_device_are_not_looked_for_there() {
    let (fake, target) = device(Bytes::mib(256));
    let objects = target.objects();
    let written = |number: u64| vec![number as u8; 1000];
    (1..=OBJECTS).for_each(|number| fake.run(objects.create(id(number), Vec::new())).unwrap());
    // Together, so that no checkpoint comes between.
    let write = |number: u64| {
        let (objects, stream) = (objects.clone(), target.stream());
        async move { objects.write(stream, id(number), 0, &written(number), Placement::Auto).await }
    };
    let writes: Vec<_> = (1..=OBJECTS).map(|number| fake.env().spawner.spawn(write(number))).collect();
    writes.into_iter().for_each(|write| fake.run(write).unwrap());
    let before = objects.counters().checkpoints;
    objects.set_rows_in_memory(Bytes::ZERO);
    let checkpoint = fake.env().spawner.spawn({
        let objects = objects.clone();
        async move { objects.checkpoint().await }
    });
    // From the end: the first leaves are soon written.
    let mut number = OBJECTS;
    while !checkpoint.is_finished() {
        fake.run(fake.env().clock.sleep(Duration::from_micros(20)));
        // As each record that goes out does.
        objects.work_mut().meta.tree.trim();
        assert!(read(&fake, &target, number) == written(number), "object {number}");
        number -= 20;
    }
    fake.run(checkpoint).unwrap();
    assert!(objects.work().meta.tree.leaves() > 20);
    assert_eq!(objects.counters().checkpoints, before + 1);
}

/// Makes objects from `first` on with these bytes of attributes until the tables have no more room; the first that there is not.
fn fill(fake: &Fake, objects: &Objects, first: u64, attributes: &[usize]) -> u64 {
    for object in first.. {
        let set = (0..).zip(attributes).map(|(number, length)| (1, number, vec![1; *length])).collect();
        let Err(error) = fake.run(objects.create(id(object), set)) else { continue };
        assert_eq!(error.kind, Kind::Full, "{error}");
        return object;
    }
    unreachable!("it becomes full")
}

#[test]
fn where_tables_have_taken_all_space_a_large_object_can_be_removed_and_others_go_on() {
    const LARGE: u64 = 1;
    let (fake, target) = device(Bytes::mib(64));
    let objects = target.objects();
    // Few rows in each leaf, and so many leaves of one object.
    objects.set_leaf_split(Bytes::kib(1));
    fake.run(async {
        objects.create(id(LARGE), Vec::new()).await.unwrap();
        for n in 0..3000 {
            let at = 2 * n * BLOCK.0;
            objects.write(target.stream(), id(LARGE), at, &[1; 4096], Placement::Home).await.unwrap();
        }
        objects.checkpoint().await.unwrap();
    });
    let first = fill(&fake, objects, 10, &[4000; 8]);
    let last = fill(&fake, objects, first, &[900]);
    fake.run(objects.checkpoint()).unwrap();
    fake.run(objects.remove(id(LARGE))).unwrap();
    let short = |work: &crate::object::Work| work.meta.tree.cut_blocks() > work.meta.tables.free();
    assert!(short(&objects.work()), "leaves that have become empty are more than are free");
    fake.run(objects.remove(id(first))).unwrap();
    fake.run(objects.checkpoint()).expect("they take nothing");
    fake.run(objects.create(id(first), Vec::new())).unwrap();
    // And where it was in a log when the power went.
    fake.run(objects.remove(id(last - 1))).unwrap();
    let target = again(&fake, target);
    let listed = fake.run(target.objects().list(1, 0, 100_000)).unwrap();
    assert!(listed.iter().map(|found| found.id).eq((10..last - 1).map(id)), "{} objects", listed.len());
}

#[test]
fn a_removal_that_the_map_has_no_room_for_is_refused_and_nothing_has_changed() {
    let (fake, target) = device(Bytes::mib(64));
    let objects = target.objects();
    let bytes: Vec<u8> = (0..40 * BLOCK.0).map(|at| (at / BLOCK.0 + 1) as u8).collect();
    fake.run(async {
        for n in [1, 3] {
            objects.create(id(n), vec![(1, 1, vec![7; 40])]).await.unwrap();
            objects.write(target.stream(), id(n), 0, &bytes, Placement::Home).await.unwrap();
        }
        objects.snapshot(id(1), id(2), Vec::new()).await.unwrap();
        objects.write(target.stream(), id(1), 3 * BLOCK.0, &bytes[..2 * 4096], Placement::Log).await.unwrap();
        objects.checkpoint().await.unwrap();
        while objects.take_groups(GroupClass::Tables).await.is_ok() {}
    });
    let taken = {
        let tables = &mut objects.work_mut().meta.tables;
        let free = tables.free();
        tables.allocate(free, None).expect("as many are free")
    };
    let before = (fake.run(objects.list(1, 0, 9)).unwrap(), objects.work().meta.data.free(), objects.redirected());
    let removal = [Change::Remove { id: id(1) }];
    let refused = fake.run(objects.enact_in_map(&removal, |_| Ok(()))).expect_err("there is no room");
    assert_eq!(refused.kind, Kind::Full, "{refused}");
    assert!(refused.message.contains("; remove objects"), "{refused}");
    let after = (fake.run(objects.list(1, 0, 9)).unwrap(), objects.work().meta.data.free(), objects.redirected());
    assert_eq!(before, after);
    let mut one = bytes.clone();
    one[3 * 4096..5 * 4096].copy_from_slice(&bytes[..2 * 4096]);
    assert!(read(&fake, &target, 1) == one && read(&fake, &target, 2) == bytes);
    // With room it is removed, and what rows say agrees.
    taken.into_iter().for_each(|run| objects.work_mut().meta.tables.give(run));
    fake.run(objects.enact_in_map(&removal, |_| Ok(()))).unwrap();
    fake.run(target.close()).unwrap();
    drop(target);
    fake.kill();
    let found = fake.run(verify(fake.env(), &mut |_, _| ())).unwrap().objects;
    assert_eq!((found.objects, &found.contradictions, &found.damage), (2, &vec![], &vec![]));
    let target = fake.run(Target::open(fake.env())).unwrap();
    fake.run(target.objects().ready()).unwrap();
    assert!(read(&fake, &target, 2) == bytes && read(&fake, &target, 3) == bytes);
}

/// Lets a ring's part of the catalog grow until no block more of it has room.
fn crowd(fake: &Fake, objects: &Objects, ring: RingId) {
    let name = |length: usize| objects.core.with_ring_mut(ring, |record| record.spec.name = "/".repeat(length));
    let mut length = BLOCK.0 as usize;
    loop {
        name(length);
        if let Err(error) = fake.run(objects.core.commit()) {
            assert_eq!(error.kind, Kind::Full, "{error}");
            break;
        }
        length += BLOCK.0 as usize;
    }
    name(length - BLOCK.0 as usize);
    fake.run(objects.core.commit()).expect("it had room before");
}

#[test]
fn tables_that_the_catalog_has_no_room_to_name_are_refused_and_rings_go_on() {
    const OBJECTS: u64 = 600;
    let (fake, target) = device(Bytes::mib(64));
    let objects = target.objects();
    let ring = fake.create(&target, small("/ring", Bytes::mib(4))).unwrap();
    (1..=OBJECTS).for_each(|number| fake.run(objects.create(id(number), Vec::new())).unwrap());
    fake.run(objects.checkpoint()).unwrap();
    crowd(&fake, objects, ring.id);
    // A leaf for each row, all of which have changed.
    objects.set_leaf_split(Bytes(64));
    (1..=OBJECTS).for_each(|number| objects.work_mut().meta.tree.alter(&Key::head(id(number)), |_| ()));
    fake.run(objects.take_groups(GroupClass::Tables)).unwrap();
    while objects.work().meta.tree.cut_blocks() + 1000 > objects.work().meta.tables.free() {
        fake.run(objects.take_groups(GroupClass::Tables)).unwrap();
    }
    let free = objects.work().meta.tables.free();
    for _ in 0..2 {
        let refused = fake.run(objects.checkpoint()).expect_err("they are too many");
        assert_eq!(refused.kind, Kind::Full, "{refused}");
        assert!(refused.message.contains("; remove objects"), "{refused}");
        assert_eq!(objects.work().meta.tables.free(), free, "places that nothing was written to are free");
        fake.run(objects.core.commit()).expect("what is said of rings has room");
    }
    // What would need more is refused before it is in a log.
    let refused = fake.run(objects.create(id(OBJECTS + 1), Vec::new())).expect_err("there is no room for its row");
    assert_eq!(refused.kind, Kind::Full, "{refused}");
    // And all is written where there is room again.
    objects.core.with_ring_mut(ring.id, |record| record.spec.name = "/ring".to_owned());
    fake.run(objects.create(id(OBJECTS + 1), Vec::new())).unwrap();
    fake.run(objects.checkpoint()).unwrap();
    assert!(objects.work().meta.tree.leaves() as u64 > OBJECTS);
    drop(ring);
    let target = again(&fake, target);
    let listed = fake.run(target.objects().list(1, 0, 10_000)).unwrap();
    assert!(listed.iter().map(|found| found.id).eq((1..=OBJECTS + 1).map(id)), "{} objects", listed.len());
}

#[test]
fn opening_writes_no_rows_of_groups_in_which_nothing_has_changed() {
    let (fake, target) = device(Bytes::mib(64));
    fake.run(async {
        target.objects().create(id(1), Vec::new()).await.unwrap();
        for block in 0..1500 {
            target.objects().write(target.stream(), id(1), block * BLOCK.0, &[1; 4096], Placement::Home).await.unwrap();
        }
        target.objects().checkpoint().await.unwrap();
    });
    let leaf = |target: &Target| target.objects().work().meta.tree.leaf_of(Key::free(0));
    let before = leaf(&target);
    assert!(before.is_some());
    let target = again(&fake, target);
    assert_eq!(leaf(&target), before, "its leaf lies where it lay");
    assert!(read(&fake, &target, 1) == vec![1; 1500 * 4096]);
}

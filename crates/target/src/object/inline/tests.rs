use super::super::rows::{BLOCK, Key, Quota, Row};
use super::super::testing::{again, device, id, read};
use super::super::{How, Placement, Scope};
use super::INLINE_UP_TO;
use crate::Target;
use crate::fake::Fake;
use crate::seeds::{Chance, each};
use crate::verify::verify;
use forebay_model::object::Durability;
use forebay_model::{Bytes, Kind, ObjectId};
use std::collections::BTreeMap;
use std::rc::Rc;

const MOST: u64 = INLINE_UP_TO.0;

fn write(fake: &Fake, target: &Target, object: u64, offset: u64, bytes: &[u8]) {
    fake.run(target.objects().write(target.stream(), id(object), offset, bytes, Placement::Auto)).unwrap();
}

/// Bytes that are inline, if any are.
fn inline(target: &Target, object: u64) -> Option<usize> {
    match target.objects().work().meta.tree.get(&Key::inline(id(object))) {
        Some(Row::Inline(bytes)) => Some(bytes.len()),
        _ => None,
    }
}

fn blocks(fake: &Fake, target: &Target, object: u64) -> u64 {
    fake.run(target.objects().head(id(object))).unwrap().blocks
}

/// What opening would find wrong.
fn contradictions(fake: &Fake, target: Rc<Target>) -> Vec<String> {
    drop(target);
    fake.kill();
    let found = fake.run(verify(fake.env(), &mut |_, _| ())).unwrap().objects;
    assert_eq!(found.damage, []);
    found.contradictions.into_iter().map(|c| c.what).collect()
}

/// Creates and writes `objects` objects of `length` bytes, 64 at once.
fn many(fake: &Fake, target: &Rc<Target>, objects: u64, length: usize, place: Placement) {
    for first in (1..=objects).step_by(64) {
        fake.run(async {
            let writers: Vec<_> = (first..(first + 64).min(objects + 1))
                .map(|object| {
                    let target = target.clone();
                    fake.env().spawner.spawn(async move {
                        target.objects().create(id(object), Vec::new()).await?;
                        let bytes = vec![object as u8; length];
                        target.objects().write(target.stream(), id(object), 0, &bytes, place).await
                    })
                })
                .collect();
            for writer in writers {
                writer.await.unwrap();
            }
        });
    }
}

/// Bytes written to logs, home, and for the rows, for each object of `length` bytes that was written and is home; and
/// how many it occupies then.
fn cost(length: usize, place: Placement) -> (f64, f64, f64, f64) {
    const OBJECTS: u64 = 2048;
    let (fake, target) = device(Bytes::mib(640));
    let before = target.disk().counters();
    many(&fake, &target, OBJECTS, length, place);
    fake.run(async {
        target.objects().take_home().await.unwrap();
        target.objects().checkpoint().await.unwrap();
    });
    let after = target.disk().counters();
    let each = |after: Bytes, before: Bytes| (after - before).0 as f64 / OBJECTS as f64;
    let home = each(after.normal, before.normal) + each(after.background, before.background);
    let leaves =
        |objects: &crate::catalog::ObjectsRecord| objects.leaves.iter().map(|l| u64::from(l.place.blocks)).sum();
    let leaves: u64 = target.objects().core.with_objects(leaves);
    let data = target.objects().work().meta.data.capacity() - target.objects().work().meta.data.free();
    let occupied = each(BLOCK * (leaves + data), Bytes::ZERO);
    (each(after.logged, before.logged), home, each(after.metadata, before.metadata), occupied)
}

#[test]
fn a_small_object_costs_a_share_of_a_block_and_no_place_of_its_own() {
    let (log, home, rows, occupied) = cost(100, Placement::Auto);
    let (log_before, home_before, rows_before, occupied_before) = cost(100, Placement::Log);
    assert!(occupied < 200.0 && occupied_before > 4096.0, "{occupied} and {occupied_before} bytes are occupied");
    assert!(home == 0.0 && log < 200.0, "{log} bytes in logs and {home} at home");
    assert!(log_before > 4096.0 && home_before >= 4096.0, "{log_before} and {home_before}");
    assert!(log + rows < (log_before + home_before + rows_before) / 4.0);
}

#[test]
fn a_small_object_is_read_from_its_row_after_a_kill_and_after_a_checkpoint() {
    let (fake, target) = device(Bytes::mib(64));
    let free = || target.objects().work().meta.data.free();
    let before = free();
    many(&fake, &target, 100, 100, Placement::Auto);
    assert_eq!((free(), target.objects().redirected()), (before, Bytes::ZERO));
    let target = again(&fake, target);
    (1..=100).for_each(|object| assert_eq!(read(&fake, &target, object), [object as u8; 100]));
    fake.run(target.close()).unwrap();
    let target = again(&fake, target);
    let reads = target.objects().read_counters().reads;
    (1..=100).for_each(|object| assert_eq!(read(&fake, &target, object), [object as u8; 100]));
    assert_eq!(target.objects().read_counters().reads, reads, "nothing of it lies anywhere else");
    assert_eq!(fake.run(target.objects().extents(id(1))).unwrap(), []);
    assert_eq!(contradictions(&fake, target), Vec::<String>::new());
}

#[test]
fn what_grows_goes_to_blocks_in_one_step_and_what_shrinks_comes_back() {
    let (fake, target) = device(Bytes::mib(64));
    fake.run(target.objects().create(id(1), Vec::new())).unwrap();
    let mut bytes = vec![1; MOST as usize];
    write(&fake, &target, 1, 0, &bytes);
    assert_eq!((inline(&target, 1), blocks(&fake, &target, 1)), (Some(MOST as usize), 1));
    // One byte more than what is inline.
    fake.run(target.objects().append(target.stream(), id(1), b"2", Placement::Auto)).unwrap();
    bytes.push(b'2');
    assert_eq!((inline(&target, 1), blocks(&fake, &target, 1)), (None, 1));
    assert!(read(&fake, &target, 1) == bytes);
    let target = again(&fake, target);
    assert!(read(&fake, &target, 1) == bytes);
    fake.run(target.objects().take_home()).unwrap();
    let free = target.objects().work().meta.data.free();
    for _ in 0..2 {
        fake.run(target.objects().truncate(id(1), 10)).unwrap();
        assert_eq!((inline(&target, 1), blocks(&fake, &target, 1)), (Some(10), 1));
        assert_eq!(target.objects().work().meta.data.free(), free + 1, "its block at home is free");
        assert_eq!(read(&fake, &target, 1), [1; 10]);
        // What lies behind is nothing, however far.
        fake.run(target.objects().truncate(id(1), 1 << 30)).unwrap();
        let far = fake.run(target.objects().read(target.stream(), id(1), 4000, 200)).unwrap();
        assert_eq!((inline(&target, 1), far), (Some(10), vec![0; 200]));
    }
    write(&fake, &target, 1, 5 * BLOCK.0, b"far");
    assert_eq!((inline(&target, 1), blocks(&fake, &target, 1)), (Some(10), 2));
    write(&fake, &target, 1, 5, b"near");
    assert_eq!((inline(&target, 1), blocks(&fake, &target, 1)), (None, 2));
    assert_eq!(read(&fake, &target, 1)[..12], *b"\x01\x01\x01\x01\x01near\x01\0\0");
    fake.run(target.objects().truncate(id(1), 0)).unwrap();
    assert_eq!((inline(&target, 1), blocks(&fake, &target, 1)), (None, 0));
    assert_eq!(contradictions(&fake, target), Vec::<String>::new());
}

#[test]
fn small_objects_that_were_buffered_take_no_place_when_they_are_flushed() {
    let (fake, target) = device(Bytes::mib(64));
    let used = || target.objects().work().meta.data.capacity() - target.objects().work().meta.data.free();
    let buffered = How { durability: Durability::Buffered, ..How::default() };
    fake.run(async {
        let (objects, stream) = (target.objects(), target.stream());
        for object in 1..=100 {
            objects.create(id(object), Vec::new()).await.unwrap();
            for part in [&[1; 50], &[2; 50]] {
                objects.write_as(stream, id(object), None, part, &buffered).await.unwrap();
            }
        }
        // Beside one that is not small.
        objects.write_as(stream, id(50), None, &[3; 9000], &buffered).await.unwrap();
        objects.flush_buffered(Scope::Target, None).await.unwrap();
    });
    assert_eq!((target.objects().buffered(), used()), (Bytes::ZERO, 3));
    let target = again(&fake, target);
    let expected = [[1; 50], [2; 50]].concat();
    for object in (1..=100).filter(|object| *object != 50) {
        assert_eq!((inline(&target, object), read(&fake, &target, object)), (Some(100), expected.clone()));
    }
    assert!(read(&fake, &target, 50) == [expected, vec![3; 9000]].concat());
    assert_eq!(contradictions(&fake, target), Vec::<String>::new());
}

#[test]
fn a_quota_counts_a_small_object_as_one_block_and_growing_out_of_it_as_nothing() {
    let (fake, target) = device(Bytes::mib(64));
    let quota = Quota { hard_bytes: 2 * BLOCK.0, ..Quota::default() };
    fake.run(target.objects().set_quota(1, quota)).unwrap();
    (1..=3).for_each(|object| fake.run(target.objects().create(id(object), Vec::new())).unwrap());
    write(&fake, &target, 1, 0, b"one");
    write(&fake, &target, 2, 0, b"two");
    let refused = target.objects().write(target.stream(), id(3), 0, b"three", Placement::Auto);
    assert_eq!(fake.run(refused).expect_err("the quota is full").kind, Kind::Refused);
    write(&fake, &target, 1, 0, &[1; 4096]);
    fake.run(target.objects().remove(id(2))).unwrap();
    write(&fake, &target, 3, 0, b"three");
    assert_eq!((inline(&target, 1), inline(&target, 3)), (None, Some(5)));
}

#[test]
fn what_is_inline_and_elsewhere_too_is_told() {
    for place in [Placement::Home, Placement::Log] {
        let (fake, target) = device(Bytes::mib(64));
        fake.run(async {
            target.objects().create(id(1), Vec::new()).await.unwrap();
            target.objects().write(target.stream(), id(1), 0, &[1; 9000], place).await.unwrap();
        });
        target.objects().work_mut().meta.tree.put(Key::inline(id(1)), Row::Inline(vec![1; 2000]));
        fake.run(target.objects().checkpoint()).unwrap();
        let told = contradictions(&fake, target);
        assert!(told.iter().any(|what| what.contains("first block inline and")), "{told:?}");
        assert!(told.iter().any(|what| what.contains("2000 bytes inline")), "{told:?}");
    }
}

/// A command to an object of about the size up to which they are inline, and to its bytes in `model`.
async fn command(target: &Rc<Target>, random: &Chance, model: &mut BTreeMap<u64, Vec<u8>>) {
    let (objects, stream) = (target.objects(), target.stream());
    let object = 1 + random.below(4);
    let Some(bytes) = model.get_mut(&object) else {
        match model.iter().next().map(|(of, bytes)| (*of, bytes.clone())).filter(|_| random.once_in(2)) {
            Some((of, bytes)) => {
                objects.snapshot(id(of), id(object), Vec::new()).await.unwrap();
                model.insert(object, bytes);
            }
            None => {
                objects.create(id(object), Vec::new()).await.unwrap();
                model.insert(object, Vec::new());
            }
        }
        return;
    };
    let some = |below: u64| random.below(if random.once_in(4) { 3 * BLOCK.0 } else { below });
    let (offset, length) = (some(700), 1 + some(600));
    let placement = [Placement::Auto, Placement::Auto, Placement::Home, Placement::Log][random.below(4) as usize];
    let durability = [Durability::Durable, Durability::Buffered][random.below(2) as usize];
    let how = How { placement, durability, ..How::default() };
    let new = vec![random.next() as u8 | 1; length as usize];
    match random.below(20) {
        0..6 => {
            objects.write_as(stream, id(object), Some(offset), &new, &how).await.unwrap();
            bytes.resize(bytes.len().max((offset + length) as usize), 0);
            bytes[offset as usize..][..new.len()].copy_from_slice(&new);
        }
        6..9 => {
            let at = objects.write_as(stream, id(object), None, &new, &how).await.unwrap();
            assert_eq!(at, bytes.len() as u64);
            bytes.extend(new);
        }
        9..13 => {
            objects.truncate(id(object), offset).await.unwrap();
            bytes.resize(offset as usize, 0);
        }
        13..15 => {
            objects.punch(id(object), offset, length).await.unwrap();
            let end = bytes.len().min((offset + length) as usize);
            bytes[end.min(offset as usize)..end].fill(0);
        }
        15 => drop(objects.take_home().await.unwrap()),
        16 => objects.checkpoint().await.unwrap(),
        17 => drop(objects.flush_buffered(Scope::Object(id(object)), None).await.unwrap()),
        18 => {
            objects.remove(id(object)).await.unwrap();
            model.remove(&object);
        }
        _ => {}
    }
}

#[test]
fn small_objects_are_what_was_made_of_them_whatever_it_was() {
    each(30, |random| {
        let (fake, mut target) = device(Bytes::mib(64));
        let mut model = BTreeMap::new();
        for step in 0..150 {
            fake.run(command(&target, random, &mut model));
            if random.once_in(30) {
                fake.run(target.objects().flush_buffered(Scope::Target, None)).unwrap();
                target = again(&fake, target);
            }
            for (object, bytes) in &model {
                assert!(read(&fake, &target, *object) == *bytes, "object {object} after step {step}");
            }
        }
        let mut counted = 0;
        for object in model.keys() {
            counted += blocks(&fake, &target, *object);
        }
        let volume = fake.run(target.objects().head(ObjectId::volume(1))).unwrap().volume.unwrap();
        assert_eq!((volume.objects, volume.blocks), (model.len() as u64, counted));
        fake.run(target.close()).unwrap();
        assert_eq!(contradictions(&fake, target), Vec::<String>::new());
    });
}

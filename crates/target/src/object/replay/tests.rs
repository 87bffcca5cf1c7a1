use crate::Target;
use crate::fake::Fake;
use crate::object::record::{Change, Stamp, encode, finish};
use crate::object::rows::BLOCK;
use crate::object::testing::{self, again, id, read};
use crate::object::{How, Placement};
use forebay_env::{Buffer, Device};
use forebay_model::object::Durability;
use forebay_model::{Bytes, Kind, Result};
use std::rc::Rc;

/// How many objects have a snapshot.
const SHARED: u64 = 30;

/// A device with objects that have snapshots, with a leaf for each row, and an empty object, number 200; of all that a
/// checkpoint tells.
fn shared() -> (Fake, Rc<Target>) {
    // Large enough for logs with room.
    let (fake, target) = testing::device(Bytes::mib(640));
    fake.run(async {
        let objects = target.objects();
        objects.set_leaf_split(Bytes(64));
        for n in 1..=SHARED {
            objects.create(id(n), Vec::new()).await.unwrap();
            objects.write(target.stream(), id(n), 0, &[n as u8; 8192], Placement::Home).await.unwrap();
            objects.snapshot(id(n), id(100 + n), Vec::new()).await.unwrap();
        }
        objects.create(id(200), Vec::new()).await.unwrap();
        objects.checkpoint().await.unwrap();
    });
    (fake, target)
}

#[test]
fn what_one_change_of_a_record_puts_somewhere_another_one_behind_it_lets_go() {
    type Next = fn(&Target) -> std::pin::Pin<Box<dyn Future<Output = Result<()>> + '_>>;
    let cases: [(Next, u64); 4] = [
        (|target| Box::pin(target.objects().truncate(id(200), 0)), 0),
        (|target| Box::pin(target.objects().punch(id(200), 0, 8 * BLOCK.0)), 8),
        (|target| Box::pin(target.objects().snapshot(id(200), id(201), Vec::new())), 8),
        (|target| Box::pin(target.objects().remove(id(200))), 0),
    ];
    for (n, (next, blocks)) in cases.into_iter().enumerate() {
        let (fake, target) = shared();
        let before = target.objects().work().last;
        fake.run(async {
            let how = How { durability: Durability::Buffered, ..How::default() };
            let objects = target.objects();
            objects.write_as(target.stream(), id(200), Some(0), &[9; 8 * 4096], &how).await.unwrap();
            if n == 3 {
                objects.settle(id(200)).await.unwrap();
            }
            next(&target).await.unwrap();
        });
        assert_eq!(target.objects().work().last, before + 1, "case {n}: both are in one record");
        let target = again(&fake, target);
        if n < 3 {
            assert_eq!(read(&fake, &target, 200).len() as u64, blocks * BLOCK.0, "case {n}");
        }
        for object in (1..=SHARED).flat_map(|n| [n, 100 + n]) {
            assert_eq!(read(&fake, &target, object), [(object % 100) as u8; 8192], "case {n}");
        }
        fake.run(async {
            for found in target.objects().list(1, 0, 1000).await.unwrap() {
                target.objects().remove(found.id).await.unwrap();
            }
        });
        let work = target.objects().work();
        assert_eq!(work.meta.data.free(), work.meta.data.capacity(), "case {n}: nothing is lost");
    }
}

/// Writes a record that removes object 1, and that says that so many blocks of `data` follow it, to its place in a log.
fn plant(fake: &Fake, target: &Target, stamp: &Stamp, data: u32) {
    let at = target.objects().work().meta.logs.at(stamp.group, stamp.block);
    let mut bytes = encode(&[Change::Remove { id: id(1) }]).unwrap();
    finish(&mut bytes, stamp, data);
    let mut buffer = Buffer::alone(BLOCK).unwrap();
    buffer[..bytes.len()].copy_from_slice(&bytes);
    fake.run(fake.disk.write(BLOCK * at, buffer)).1.unwrap();
}

/// Writes a record that removes object 1 to where a log has not been filled again, or where its next record would
/// begin, as users could whose bytes lie there. How many objects there are after opening.
fn after_planting(stamp: impl FnOnce(&Target) -> Stamp) -> usize {
    let (fake, target) = testing::device(Bytes::mib(64));
    fake.run(target.objects().create(id(1), Vec::new())).unwrap();
    let stamp = stamp(&target);
    plant(&fake, &target, &stamp, 0);
    let target = again(&fake, target);
    fake.run(target.objects().list(1, 0, 9)).unwrap().len()
}

/// As the next record of the target would be stamped.
fn next(target: &Target) -> Stamp {
    let (objects, work) = (target.objects(), target.objects().work());
    let (group, block) = work.meta.logs.to_read().into_iter().max_by_key(|(_, filled)| *filled).unwrap();
    let (number, durable) = (work.last + 1, work.last);
    Stamp { mark: objects.core.mark(), epoch: objects.core.epoch(), number, durable, group, block }
}

#[test]
fn what_looks_like_a_record_and_cannot_be_one_counts_for_nothing() {
    for (number, durable) in [(1 << 40, (1 << 40) - 1), (9, 1 << 40), (9, 9)] {
        let there = after_planting(|target| {
            let next = next(target);
            Stamp { number, durable, block: next.block + 2, ..next }
        });
        assert_eq!(there, 1);
    }
}

#[test]
fn nobody_who_knows_all_but_the_mark_of_a_target_can_write_what_counts_as_a_record() {
    assert_eq!(after_planting(next), 0, "it would count, but for the mark");
    let target_instead = |target: &Target| Stamp { mark: target.objects().core.target_id(), ..next(target) };
    assert_eq!(after_planting(target_instead), 1);
}

#[test]
fn a_lost_write_is_said_also_where_it_leaves_a_record_of_before_whose_blocks_hide_what_came_since() {
    let (fake, target) = testing::device(Bytes::mib(64));
    (1..=4).for_each(|n| fake.run(target.objects().create(id(n), Vec::new())).unwrap());
    let next = next(&target);
    let core = &target.objects().core;
    let log = core.with_objects(|record| record.logs.iter().find(|log| log.group == next.group).copied());
    let first = log.map_or(0, |log| log.filled);
    assert!((3..=7).contains(&(next.block - first)), "records since the checkpoint: {first} to {}", next.block);
    // What was at the first one's place before the log was emptied.
    plant(&fake, &target, &Stamp { epoch: core.epoch() - 1, block: first, ..next }, 7);
    drop(target);
    fake.kill();
    let target = fake.run(Target::open(fake.env())).unwrap();
    let error = fake.run(target.objects().ready()).unwrap_err();
    assert!(error.kind == Kind::Device && error.message.contains("acknowledged"), "{error}");
}

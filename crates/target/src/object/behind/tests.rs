use super::super::rows::{BLOCK, Key, Quota};
use super::super::testing::{self, again, id, read};
use super::super::{How, Memory, Placement, Scope};
use super::{LONGEST, LOOK, MOST_BUFFERED};
use crate::Target;
use crate::fake::Fake;
use crate::object::given::Given;
use crate::seeds::each;
use forebay_env::Buffer;
use forebay_model::object::Durability;
use forebay_model::{Bytes, Kind, ObjectId, Result};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const VOLUME: ObjectId = ObjectId::volume(1);

/// A device with a volume and `objects` empty objects on it.
fn device(size: Bytes, objects: u64) -> (Fake, Rc<Target>) {
    let (fake, target) = testing::device(size);
    (1..=objects).for_each(|object| fake.run(target.objects().create(id(object), Vec::new())).unwrap());
    (fake, target)
}

async fn buffer(target: &Target, object: u64, offset: Option<u64>, bytes: &[u8]) -> Result<u64> {
    let how = How { durability: Durability::Buffered, ..How::default() };
    target.objects().write_as(target.stream(), id(object), offset, bytes, &how).await
}

/// Bytes that are written home or to logs by `doing`.
fn written(fake: &Fake, target: &Target, doing: impl Future<Output = ()>) -> Bytes {
    let before = target.disk().counters();
    fake.run(doing);
    let after = target.disk().counters();
    after.normal + after.logged - before.normal - before.logged
}

#[test]
fn what_is_buffered_is_read_and_counted_at_once_and_costs_the_device_nothing() {
    let (fake, target) = device(Bytes::mib(64), 2);
    let objects = target.objects();
    let moved = written(&fake, &target, async {
        assert_eq!(buffer(&target, 1, Some(5), b"one").await, Ok(5));
        assert_eq!(buffer(&target, 1, None, b"two").await, Ok(8));
        assert_eq!(buffer(&target, 1, Some(6), b"N").await, Ok(6));
        assert_eq!(buffer(&target, 2, Some(3 * BLOCK.0), &[7; 9000]).await, Ok(3 * BLOCK.0));
    });
    assert_eq!(moved, Bytes::ZERO);
    assert_eq!(read(&fake, &target, 1), b"\0\0\0\0\0oNetwo");
    let head = fake.run(objects.head(id(2))).unwrap();
    assert_eq!((head.size, head.blocks, head.version), (3 * BLOCK.0 + 9000, 3, 2));
    assert_eq!(fake.run(objects.head(VOLUME)).unwrap().volume.unwrap().blocks, 4);
    assert_eq!(fake.run(objects.list(1, 0, 9)).unwrap()[0].head.size, 11);
    assert_eq!(objects.buffered(), BLOCK * 4);
    let before = fake.run(objects.list(1, 0, 9)).unwrap();
    let epoch = fake.run(objects.flush_buffered(Scope::Target, Some(objects.boot_epoch()))).unwrap();
    assert_eq!((epoch, objects.buffered()), (objects.boot_epoch(), Bytes::ZERO));
    assert_eq!(fake.run(objects.list(1, 0, 9)).unwrap(), before, "nothing that is said of them changes");
    let target = again(&fake, target);
    assert_eq!(read(&fake, &target, 1), b"\0\0\0\0\0oNetwo");
    assert_eq!(fake.run(target.objects().list(1, 0, 9)).unwrap(), before);
}

#[test]
fn a_flush_makes_durable_what_is_in_its_scope_and_leaves_the_rest() {
    let (fake, target) = device(Bytes::mib(64), 3);
    fake.run(target.objects().create_volume(2, Quota::default())).unwrap();
    fake.run(target.objects().create(ObjectId { volume: 2, object: 1 }, Vec::new())).unwrap();
    let fill = async |target: &Target| {
        for object in 1..=3 {
            buffer(target, object, Some(BLOCK.0), &[object as u8; 5000]).await.unwrap();
        }
        let how = How { durability: Durability::Buffered, ..How::default() };
        let other = ObjectId { volume: 2, object: 1 };
        target.objects().write_as(target.stream(), other, Some(0), b"other", &how).await.unwrap();
    };
    let left = |scope: Scope| {
        fake.run(fill(&target));
        fake.run(target.objects().flush_buffered(scope, None)).unwrap();
        let left = target.objects().buffered() / BLOCK;
        fake.run(target.objects().flush_buffered(Scope::Target, None)).unwrap();
        left
    };
    assert_eq!(left(Scope::Object(id(1))), 5);
    assert_eq!(left(Scope::Range(id(1), 0, BLOCK.0)), 7, "nothing is buffered there");
    assert_eq!(left(Scope::Range(id(1), 2 * BLOCK.0, 1)), 5);
    assert_eq!(left(Scope::Volume(2)), 6);
    assert_eq!(left(Scope::Volume(1)), 1);
    assert_eq!(left(Scope::Target), 0);
    let refused = |scope| fake.run(target.objects().flush_buffered(scope, None)).expect_err("it is refused").kind;
    assert_eq!((refused(Scope::Object(id(9))), refused(Scope::Volume(9))), (Kind::Missing, Kind::Missing));
}

#[test]
fn what_was_not_flushed_is_lost_with_the_process_and_a_flush_with_the_old_epoch_says_to_send_it_again() {
    let (fake, target) = device(Bytes::mib(64), 1);
    fake.run(buffer(&target, 1, Some(0), b"kept")).unwrap();
    let epoch = fake.run(target.objects().flush_buffered(Scope::Object(id(1)), None)).unwrap();
    fake.run(buffer(&target, 1, Some(0), b"lost")).unwrap();
    let target = again(&fake, target);
    assert_eq!(read(&fake, &target, 1), b"kept");
    let error = fake.run(target.objects().flush_buffered(Scope::Object(id(1)), Some(epoch))).expect_err("it is told");
    assert_eq!(error.kind, Kind::Restarted, "{error}");
    assert!(error.message.contains("send it again") && error.message.contains(&epoch.to_string()), "{error}");
    assert!(target.objects().boot_epoch() > epoch);
}

#[test]
fn closing_makes_all_durable_and_so_does_time() {
    let (fake, target) = device(Bytes::mib(64), 1);
    fake.run(buffer(&target, 1, Some(0), b"first")).unwrap();
    fake.run(target.close()).unwrap();
    let target = again(&fake, target);
    assert_eq!(read(&fake, &target, 1), b"first");
    fake.run(buffer(&target, 1, Some(0), b"FIRST")).unwrap();
    fake.run(target.disk().env().clock.sleep(Duration::from_secs(8)));
    assert_eq!(target.objects().buffered(), Bytes::ZERO);
    let target = again(&fake, target);
    assert_eq!(read(&fake, &target, 1), b"FIRST");
}

#[test]
fn what_is_buffered_is_durable_in_time_also_where_another_object_is_flushed_again_and_again() {
    let (fake, target) = device(Bytes::mib(64), 2);
    fake.run(buffer(&target, 1, Some(0), b"once")).unwrap();
    let begun = fake.now();
    let waits = || target.objects().work().behind.layers(id(1)).any(|layer| layer.count() > 0);
    while waits() {
        // Never quiet for as long as what is quiet would be flushed.
        fake.run(buffer(&target, 2, Some(0), b"again")).unwrap();
        fake.wait(Duration::from_millis(400));
        fake.run(target.objects().flush_buffered(Scope::Object(id(2)), None)).unwrap();
        let passed = Duration::from_nanos((fake.now().0 - begun.0) as u64);
        assert!(passed < LONGEST + 3 * LOOK, "it waits for {passed:?} already");
    }
    let target = again(&fake, target);
    assert_eq!(read(&fake, &target, 1), b"once");
}

#[test]
fn no_more_is_buffered_than_may_be_and_all_of_it_arrives() {
    let (fake, target) = device(Bytes::mib(256), 12);
    let most = std::cell::Cell::new(Bytes::ZERO);
    fake.run(async {
        for round in 0..8_u64 {
            for object in 1..=12 {
                let bytes = vec![(round + object) as u8; 1 << 20];
                buffer(&target, object, None, &bytes).await.unwrap();
                most.set(most.get().max(target.objects().buffered()));
            }
        }
    });
    assert!(most.get() <= MOST_BUFFERED && most.get() > Bytes::mib(8), "{} were buffered", most.get());
    fake.run(target.objects().flush_buffered(Scope::Volume(1), None)).unwrap();
    let target = again(&fake, target);
    for object in 1..=12 {
        let bytes = read(&fake, &target, object);
        let first = bytes.chunks(1 << 20).map(|part| (part[0], part.iter().all(|b| *b == part[0])));
        assert!(first.eq((0..8).map(|round| ((round + object) as u8, true))), "object {object}");
    }
}

#[test]
fn whatever_changes_an_object_comes_after_what_was_buffered_before() {
    let (fake, target) = device(Bytes::mib(64), 4);
    let objects = target.objects();
    fake.run(async {
        buffer(&target, 1, Some(0), &[1; 9000]).await.unwrap();
        objects.write(target.stream(), id(1), 100, b"durable", Placement::Auto).await.unwrap();
        buffer(&target, 2, Some(0), &[2; 9000]).await.unwrap();
        objects.truncate(id(2), 5).await.unwrap();
        buffer(&target, 3, Some(0), &[3; 9000]).await.unwrap();
        objects.punch(id(3), 10, 8900).await.unwrap();
        buffer(&target, 4, Some(0), &[4; 9000]).await.unwrap();
        objects.set_attributes(id(4), vec![(1, 1, Some(vec![4]))]).await.unwrap();
    });
    let target = again(&fake, target);
    let mut one = [1; 9000];
    one[100..107].copy_from_slice(b"durable");
    assert_eq!(read(&fake, &target, 1), one);
    assert_eq!(read(&fake, &target, 2), [2; 5]);
    let mut three = [3; 9000];
    three[10..8910].fill(0);
    assert_eq!(read(&fake, &target, 3), three);
    assert_eq!(read(&fake, &target, 4), [4; 9000]);
}

#[test]
fn removing_an_object_ends_what_is_buffered_of_it_unwritten() {
    let (fake, target) = device(Bytes::mib(64), 2);
    let moved = written(&fake, &target, async {
        buffer(&target, 1, Some(0), &[1; 1 << 20]).await.unwrap();
        target.objects().remove(id(1)).await.unwrap();
    });
    assert!(moved <= Bytes::kib(16), "{moved} were written");
    assert_eq!(target.objects().buffered(), Bytes::ZERO);
    assert_eq!(fake.run(target.objects().head(VOLUME)).unwrap().volume.unwrap().blocks, 0);
    fake.run(target.objects().create(id(1), Vec::new())).unwrap();
    assert_eq!(read(&fake, &target, 1), [0_u8; 0]);
}

#[test]
fn what_has_no_room_is_refused_when_it_is_written_and_what_was_taken_in_has_it() {
    let (fake, target) = device(Bytes::mib(64), 3);
    let fill = vec![9; 1 << 20];
    let mut full = None;
    fake.run(async {
        while full.is_none() {
            full = buffer(&target, 1, None, &fill).await.err();
        }
    });
    assert_eq!(full.expect("it is full").kind, Kind::Full);
    let quarter = |n: usize| vec![n as u8; 4000];
    fake.run(async {
        for n in 0..1000 {
            if buffer(&target, 2, None, &quarter(n)).await.is_err() {
                break;
            }
        }
    });
    fake.run(target.objects().flush_buffered(Scope::Target, None)).expect("what was taken in has room");
    let sizes = [1, 2].map(|object| read(&fake, &target, object).len());
    let target = again(&fake, target);
    assert_eq!([1, 2].map(|object| read(&fake, &target, object).len()), sizes);
    fake.run(target.objects().remove(id(1))).unwrap();
    fake.run(buffer(&target, 3, Some(0), &fill)).expect("there is room again");
}

#[test]
fn a_hard_quota_counts_what_is_buffered_and_counts_what_is_overwritten_once() {
    let (fake, target) = device(Bytes::mib(64), 2);
    let quota = Quota { hard_bytes: 10 * BLOCK.0, soft_bytes: 8 * BLOCK.0, ..Quota::default() };
    fake.run(target.objects().set_quota(1, quota)).unwrap();
    fake.run(buffer(&target, 1, Some(0), &[1; 8 * 4096])).unwrap();
    assert_eq!(fake.run(target.objects().over_quota(id(1))), Ok(None));
    fake.run(buffer(&target, 1, None, &[1; 4096])).unwrap();
    let over = fake.run(target.objects().over_quota(id(1))).unwrap().expect("it is said");
    assert_eq!((over.used, over.soft_bytes), (BLOCK * 9, BLOCK * 8));
    fake.run(buffer(&target, 2, Some(0), &[1; 4096])).unwrap();
    let refused = fake.run(buffer(&target, 2, Some(4096), &[1; 1])).expect_err("it is too much");
    assert_eq!(refused.kind, Kind::Refused, "{refused}");
    for how in [Durability::Buffered, Durability::Durable] {
        for placement in [Placement::Auto, Placement::Home, Placement::Log] {
            let how = How { durability: how, placement, ..How::default() };
            let write = target.objects().write_as(target.stream(), id(1), Some(0), &[2; 9 * 4096], &how);
            fake.run(write).expect("overwriting adds nothing");
        }
    }
}

#[test]
fn a_failed_write_on_the_way_home_is_said_to_who_flushes_and_the_target_stops() {
    let (fake, target) = device(Bytes::mib(64), 1);
    fake.run(buffer(&target, 1, Some(0), &[1; 9000])).unwrap();
    fake.disk.fail_writes(true);
    let error = fake.run(target.objects().flush_buffered(Scope::Target, None)).expect_err("it fails");
    assert_eq!(error.kind, Kind::Device, "{error}");
    let error = fake.run(buffer(&target, 1, Some(0), b"more")).expect_err("it has stopped");
    assert_eq!(error.kind, Kind::Device, "{error}");
}

#[test]
fn what_was_replaced_counts_as_buffered_for_as_long_as_it_takes_memory() {
    let (fake, target) = device(Bytes::mib(256), 1);
    // Each leaves one block of the one before, which keeps the memory of all of that.
    let piece = vec![3; Bytes::mib(4).0 as usize];
    let most = MOST_BUFFERED.0 / piece.len() as u64;
    let moved = |from: u64, to: u64| {
        written(&fake, &target, async {
            for n in from..to {
                buffer(&target, 1, Some(n * BLOCK.0), &piece).await.unwrap();
            }
        })
    };
    assert_eq!(moved(0, most), Bytes::ZERO);
    assert!(moved(most, most + 1) >= Bytes::mib(4), "there was room for one more");
    assert_eq!(read(&fake, &target, 1), vec![3; piece.len() + (most * BLOCK.0) as usize]);
}

/// Bytes in memory for I/O.
fn aligned(bytes: &[u8]) -> Arc<Buffer> {
    let mut buffer = Buffer::alone(Bytes(bytes.len() as u64)).unwrap();
    buffer.copy_from_slice(bytes);
    Arc::new(buffer)
}

#[test]
fn what_comes_in_memory_for_io_goes_home_from_there_or_is_gathered_where_it_was_overwritten() {
    each(20, |chance| {
        let (fake, target) = device(Bytes::mib(64), 1);
        let (blocks, block) = (160, BLOCK.0 as usize);
        let mut model = vec![0; blocks * block];
        for _ in 0..1 + chance.below(6) {
            let first = chance.below(blocks as u64 - 1) as usize;
            let many = 1 + chance.below((blocks - first) as u64) as usize;
            let range = first * block..(first + many) * block;
            let bytes: Vec<u8> = (0..many).flat_map(|_| vec![chance.below(256) as u8; block]).collect();
            let durability = if chance.below(4) == 0 { Durability::Durable } else { Durability::Buffered };
            let how = How { durability, placement: Placement::Home, ..How::default() };
            let offset = Some(range.start as u64);
            let given = match chance.below(3) {
                0 => Given::from(&bytes),
                _ => Given::from(aligned(&bytes)),
            };
            fake.run(target.objects().write_as(target.stream(), id(1), offset, given, &how)).unwrap();
            model[range].copy_from_slice(&bytes);
        }
        fake.run(target.objects().truncate(id(1), model.len() as u64)).unwrap();
        assert!(read(&fake, &target, 1) == model);
        fake.run(target.objects().flush_buffered(Scope::Target, None)).unwrap();
        assert!(read(&fake, &target, 1) == model);
        assert!(read(&fake, &again(&fake, target), 1) == model);
    });
}

#[test]
fn a_large_write_from_memory_for_io_needs_no_other_memory_for_it_and_keeps_it_no_longer_than_it_has_to() {
    let (fake, target) = device(Bytes::mib(64), 1);
    for durability in [Durability::Buffered, Durability::Durable] {
        let how = How { durability, placement: Placement::Home, ..How::default() };
        let bytes = aligned(&[7; 1 << 20]);
        let held = Arc::downgrade(&bytes);
        fake.run(target.objects().write_as(target.stream(), id(1), Some(0), bytes, &how)).unwrap();
        assert_eq!(held.upgrade().is_some(), durability == Durability::Buffered);
        fake.run(target.objects().flush_buffered(Scope::Target, None)).unwrap();
        assert!(held.upgrade().is_none(), "it is home");
    }
    assert!(read(&fake, &target, 1) == [7; 1 << 20]);
}

/// A device with six objects, each with bytes that are buffered, and what tells of the third of them cannot be read.
fn beside_damage() -> (Fake, Rc<Target>) {
    let (fake, target) = device(Bytes::mib(64), 6);
    let objects = target.objects();
    // A leaf for each row.
    objects.set_leaf_split(Bytes(64));
    fake.run(objects.checkpoint()).unwrap();
    for n in 1..=6 {
        fake.run(buffer(&target, n, Some(0), &[n as u8; 9000])).unwrap();
    }
    objects.work_mut().meta.tree.shrink(0);
    let leaf = objects.work().meta.tree.leaf_of(Key::head(id(3))).expect("it was written");
    fake.disk.lose(BLOCK * leaf.place.at);
    (fake, target)
}

/// After a crash, or the end of the process, all but the third have their bytes; and that one is as it was before.
fn all_but_the_third(fake: &Fake, target: Rc<Target>) {
    fake.disk.find_again();
    let target = again(fake, target);
    for n in 1..=6 {
        let bytes = if n == 3 { Vec::new() } else { vec![n as u8; 9000] };
        assert!(read(fake, &target, n) == bytes, "object {n}");
    }
}

#[test]
fn what_lies_beside_damage_keeps_nothing_else_from_going_home() {
    // By who asks, in time, and when the target is closed.
    let (fake, target) = beside_damage();
    let error = fake.run(target.objects().flush_buffered(Scope::Target, None)).expect_err("one is not durable");
    assert!(error.kind == Kind::Damaged && error.message.contains("1/3"), "{error}");
    assert_eq!(target.objects().buffered(), BLOCK * 3);
    fake.run(target.objects().flush_buffered(Scope::Object(id(1)), None)).expect("it is durable");
    all_but_the_third(&fake, target);
    let (fake, target) = beside_damage();
    fake.wait(LONGEST);
    all_but_the_third(&fake, target);
    let (fake, target) = beside_damage();
    let error = fake.run(target.close()).expect_err("what was acknowledged is lost, and that is said");
    assert!(error.kind == Kind::Damaged && error.message.contains("1/3"), "{error}");
    all_but_the_third(&fake, target);
}

#[test]
fn who_finds_memory_full_has_room_beside_what_cannot_go_home() {
    let (fake, target) = beside_damage();
    target.objects().stay_within(Memory { buffered: Bytes::kib(200), ..Memory::default() });
    target.objects().work_mut().meta.tree.shrink(0);
    fake.run(async {
        for n in 0..20 {
            buffer(&target, 5, Some(9000 + n * 50_000), &[5; 50_000]).await.expect("there is room");
        }
        target.objects().flush_buffered(Scope::Object(id(5)), None).await.unwrap();
    });
    assert!(target.objects().buffered() >= BLOCK * 3);
    fake.disk.find_again();
    fake.run(target.objects().flush_buffered(Scope::Target, None)).expect("all of it can be read");
    let target = again(&fake, target);
    assert!(read(&fake, &target, 3) == [3; 9000]);
    assert!(read(&fake, &target, 5) == vec![5; 9000 + 20 * 50_000]);
}

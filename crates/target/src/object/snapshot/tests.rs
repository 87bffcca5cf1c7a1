use super::super::rows::{BLOCK, Quota};
use super::super::testing::{self, again, id};
use super::super::{How, Placement, Scope};
use crate::Target;
use crate::fake::Fake;
use forebay_model::object::Durability;
use forebay_model::{Bytes, Kind, ObjectId};
use std::rc::Rc;

/// In another volume.
const FAR: ObjectId = ObjectId { volume: 2, object: 9 };

/// A device with two volumes, and an object with bytes at home, in a log, in memory, and an attribute.
fn device() -> (Fake, Rc<Target>, Vec<u8>) {
    let (fake, target) = testing::device(Bytes::mib(64));
    let mut bytes: Vec<u8> = (0..40 * BLOCK.0).map(|at| (at / BLOCK.0 + 1) as u8).collect();
    fake.run(async {
        let (objects, stream) = (target.objects(), target.stream());
        objects.create_volume(2, Quota::default()).await.unwrap();
        objects.create(id(1), vec![(3, 4, b"old".to_vec())]).await.unwrap();
        objects.write(stream, id(1), 0, &bytes, Placement::Home).await.unwrap();
        objects.write(stream, id(1), 5 * BLOCK.0 + 7, &[55; 9000], Placement::Log).await.unwrap();
        let buffered = How { durability: Durability::Buffered, ..How::default() };
        objects.write_as(stream, id(1), Some(20 * BLOCK.0), &[66; 100], &buffered).await.unwrap();
    });
    bytes[5 * 4096 + 7..][..9000].fill(55);
    bytes[20 * 4096..][..100].fill(66);
    (fake, target, bytes)
}

fn read(fake: &Fake, target: &Target, id: ObjectId) -> Vec<u8> {
    fake.run(target.objects().read(target.stream(), id, 0, 1 << 20)).expect("it can be read")
}

fn free(target: &Target) -> u64 {
    target.objects().work.borrow().meta.data.free()
}

#[test]
fn a_snapshot_has_bytes_and_attributes_of_one_moment_whatever_becomes_of_both() {
    let (fake, target, bytes) = device();
    let objects = target.objects();
    fake.run(async {
        objects.snapshot(id(1), id(2), Vec::new()).await.unwrap();
        objects.snapshot(id(1), FAR, vec![(3, 4, None), (3, 5, Some(b"new".to_vec()))]).await.unwrap();
        objects.snapshot(id(2), id(3), Vec::new()).await.unwrap();
        let stream = target.stream();
        objects.write(stream, id(1), 0, &[1; 9000], Placement::Log).await.unwrap();
        objects.write(stream, id(1), 30 * BLOCK.0, &[2; 9000], Placement::Home).await.unwrap();
        objects.truncate(id(1), 35 * BLOCK.0).await.unwrap();
        objects.punch(FAR, 0, 10 * BLOCK.0).await.unwrap();
        objects.take_home().await.unwrap();
    });
    let mut far = bytes.clone();
    far[..10 * 4096].fill(0);
    let mut one = bytes.clone();
    one[..9000].fill(1);
    one[30 * 4096..][..9000].fill(2);
    one.truncate(35 * 4096);
    let check = |target: &Target| {
        assert!(read(&fake, target, id(1)) == one);
        assert!(read(&fake, target, id(2)) == bytes);
        assert!(read(&fake, target, id(3)) == bytes);
        assert!(read(&fake, target, FAR) == far);
        let attributes = |id| fake.run(target.objects().attributes(id, 3)).unwrap();
        assert_eq!(attributes(id(2)), [(4, b"old".to_vec())]);
        assert_eq!(attributes(FAR), [(5, b"new".to_vec())]);
    };
    check(&target);
    let target = again(&fake, target);
    check(&target);
    fake.run(target.close()).unwrap();
    check(&again(&fake, target));
}

#[test]
fn sharers_take_no_space_and_the_last_of_them_frees_it() {
    let (fake, target, bytes) = device();
    let objects = target.objects();
    fake.run(objects.flush_buffered(Scope::Target, None)).unwrap();
    fake.run(objects.snapshot(id(1), id(2), Vec::new())).unwrap();
    let before = free(&target);
    fake.run(objects.snapshot(id(1), FAR, Vec::new())).unwrap();
    assert_eq!(free(&target), before, "a snapshot takes no blocks");
    let blocks = |id| fake.run(objects.head(id)).unwrap().blocks;
    assert_eq!([id(1), id(2), FAR].map(blocks), [40; 3], "each counts what it has");
    let held = |volume| fake.run(objects.head(ObjectId::volume(volume))).unwrap().volume.unwrap();
    assert_eq!([held(1).blocks, held(2).blocks, held(1).objects], [80, 40, 2]);
    fake.run(objects.remove(id(1))).unwrap();
    fake.run(objects.remove(FAR)).unwrap();
    assert_eq!(free(&target), before, "one still has them");
    let target = again(&fake, target);
    assert!(read(&fake, &target, id(2)) == bytes);
    fake.run(target.objects().remove(id(2))).unwrap();
    assert_eq!(free(&target), before + 40);
}

#[test]
fn a_snapshot_that_cannot_be_is_refused_and_changes_nothing() {
    let (fake, target, _) = device();
    let objects = target.objects();
    fake.run(objects.create(id(7), Vec::new())).unwrap();
    let quota = Quota { hard_bytes: 39 * BLOCK.0, ..Quota::default() };
    fake.run(objects.set_quota(2, quota)).unwrap();
    let refused = |of, id| fake.run(objects.snapshot(of, id, Vec::new())).expect_err("it is refused").kind;
    assert_eq!(refused(id(1), id(7)), Kind::Exists);
    assert_eq!(refused(id(1), id(1)), Kind::Exists);
    assert_eq!(refused(id(8), id(9)), Kind::Missing);
    assert_eq!(refused(id(1), ObjectId { volume: 3, object: 1 }), Kind::Missing);
    assert_eq!(refused(ObjectId::volume(1), id(9)), Kind::Usage);
    assert_eq!(refused(id(1), ObjectId::volume(9)), Kind::Usage);
    assert_eq!(refused(id(1), FAR), Kind::Refused);
    let too_long = vec![(1, 1, Some(vec![0; 5000]))];
    assert_eq!(fake.run(objects.snapshot(id(1), id(9), too_long)).expect_err("too long").kind, Kind::Usage);
    assert_eq!(fake.run(objects.list(1, 0, 99)).unwrap().len(), 2);
    assert_eq!(fake.run(objects.list(2, 0, 99)).unwrap().len(), 0);
}

#[test]
fn a_damaged_block_is_said_by_all_who_share_it_and_by_nobody_who_wrote_it_anew() {
    let (fake, target, bytes) = device();
    let objects = target.objects();
    fake.run(objects.snapshot(id(1), id(2), Vec::new())).unwrap();
    fake.run(objects.snapshot(id(1), id(3), Vec::new())).unwrap();
    let extents = fake.run(objects.extents(id(1))).unwrap();
    assert_eq!(extents, fake.run(objects.extents(id(2))).unwrap());
    let of_block = |block: u64| extents.iter().find(|e| (e.offset..e.offset + e.length.0).contains(&(block * BLOCK.0)));
    let extent = of_block(10).expect("it is at home");
    fake.disk.flip(extent.at + Bytes(10 * BLOCK.0 - extent.offset + 5));
    fake.run(objects.write(target.stream(), id(3), 10 * BLOCK.0, &[9; 4096], Placement::Log)).unwrap();
    for object in [1, 2] {
        let read = fake.run(objects.read(target.stream(), id(object), 0, 1 << 20)).expect_err("it is damaged");
        assert!(read.kind == Kind::Damaged && read.message.contains(&format!("1/{object}")), "{read}");
    }
    assert!(read(&fake, &target, id(3))[11 * 4096..] == bytes[11 * 4096..]);
    // Taking home does not write over what others have.
    fake.run(objects.take_home()).unwrap();
    assert_eq!(read(&fake, &target, id(3))[10 * 4096..11 * 4096], [9; 4096]);
    assert_eq!(fake.run(objects.extents(id(1))).unwrap(), extents);
}

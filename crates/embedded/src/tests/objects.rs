//! Every command of objects, for the process that has the targets and for one that talks to it.

use super::sharing::frames;
use super::{enter, fresh};
use crate::{FormatOptions, Measure, format};
use forebay_client::Cluster;
use forebay_client::objects::{Durability, LARGEST, Place, Placement, Quota, Scope, WriteOptions, place};
use forebay_model::{Bytes, Kind, ObjectId, TargetId};
use forebay_wire::object::{ObjectAnswer, Riders};
use forebay_wire::{Command, Flags, RequestId};

const PLAIN: WriteOptions = WriteOptions { placement: Placement::Auto, durability: Durability::Durable };
const LOGGED: WriteOptions = WriteOptions { placement: Placement::Log, durability: Durability::Buffered };

#[test]
fn every_command_does_the_same_for_the_owner_and_for_its_guest() {
    let dir = fresh();
    let (owner, guest) = (enter(dir.path()), enter(dir.path()));
    for (volume, cluster) in [(8, &owner), (9, &guest)] {
        every_command(cluster, volume);
    }
    for cluster in [guest, owner] {
        cluster.close().expect("closed");
    }
}

#[test]
fn what_is_written_with_64_mebibytes_at_once_is_read_as_a_whole_by_the_owner_and_by_its_guest() {
    let dir = tempfile::tempdir().expect("a directory");
    format(dir.path(), &FormatOptions::file(Bytes::mib(512), Measure::Guess)).expect("formatted");
    let (owner, guest) = (enter(dir.path()), enter(dir.path()));
    let target = owner.info().expect("who serves").targets[0].id;
    let at = place(target, 8, 1);
    owner.objects().create_volume(target, 8, Quota::default()).expect("a volume");
    owner.objects().create(at, Vec::new()).expect("an object");
    let all = LARGEST.0 as usize;
    // In the middle of a block.
    let from = 100;
    owner.objects().write_at(at, from, vec![1; all], PLAIN).expect("written");
    std::thread::scope(|threads| {
        for (cluster, byte) in [(&owner, 2), (&guest, 3)] {
            threads.spawn(move || cluster.objects().write_at(at, from, vec![byte; all], PLAIN).expect("written"));
        }
        for cluster in [&guest, &owner] {
            threads.spawn(move || {
                for _ in 0..4 {
                    let read = cluster.objects().read_at(at, from, all as u64).expect("read");
                    assert_eq!(read.len(), all);
                    let first = read.iter().position(|byte| *byte != read[0]);
                    assert_eq!(first, None, "{} and something else: a mix", read[0]);
                }
            });
        }
    });
    for cluster in [&owner, &guest] {
        let before = cluster.objects().stat(at, None).expect("it is there").head;
        let refused = cluster.objects().append(at, &vec![4; all + 1], PLAIN).expect_err("more than that");
        assert_eq!(refused.kind, Kind::Usage, "{refused}");
        assert_eq!(cluster.objects().append(at, &[5], PLAIN), Ok(before.size), "nothing was changed");
    }
    for cluster in [guest, owner] {
        cluster.close().expect("closed");
    }
}

#[test]
fn what_is_written_of_objects_is_not_told_as_read() {
    let dir = fresh();
    let owner = enter(dir.path());
    let target = owner.info().expect("who serves").targets[0].id;
    let at = place(target, 8, 1);
    owner.objects().create_volume(target, 8, Quota::default()).expect("a volume");
    owner.objects().create(at, Vec::new()).expect("an object");
    let read = || owner.info().expect("who serves").targets[0].activity.read;
    let (before, size) = (read(), Bytes::mib(4));
    owner.objects().write_at(at, 0, vec![1; size.0 as usize], PLAIN).expect("written");
    let after = read();
    assert!(after - before < size / 2, "{after} after {before}");
    owner.close().expect("closed");
}

#[test]
fn a_level_of_durability_that_is_not_known_is_refused_and_the_connection_is_as_good_as_before() {
    let dir = fresh();
    let owner = enter(dir.path());
    let objects = owner.objects();
    let target = owner.info().expect("who serves").targets[0].id;
    let at = place(target, 8, 1);
    objects.create_volume(target, 8, Quota::default()).expect("a volume");
    objects.create(at, Vec::new()).expect("an object");
    objects.write_at(at, 0, b"before", PLAIN).expect("written");
    let (mut reader, mut writer) = frames(dir.path());
    // A number for each placement and level, as a newer client would send it.
    let write =
        |offset: u64, placement: u32, level: u32| ((target, Riders::default()), at.id, offset, placement, level);
    let append = ((target, Riders::default()), at.id, 0_u32, u32::MAX);
    let large = vec![7; 3 << 20];
    for (number, body) in [(1, write(0, 0, 9)), (2, write(0, 77, 0)), (3, write(6, 0, 0))] {
        let payload: &[u8] = if number == 3 { b" after" } else { &large };
        writer.send(RequestId(number), Command::WRITE_OBJECT, Flags::NONE, &body, &[payload]).expect("sent");
    }
    writer.send(RequestId(4), Command::APPEND_OBJECT, Flags::NONE, &append, &[b"never"]).expect("sent");
    let mut answers = [None, None, None, None];
    for _ in 0..4 {
        let head = reader.receive().expect("a good frame").expect("an answer");
        answers[head.request.0 as usize - 1] = Some(ObjectAnswer::receive(&mut reader, &head));
    }
    let [level, placement, good, appended] = answers.map(|answer| answer.expect("each is answered"));
    good.expect("what is known is done");
    for (refused, words) in [(level, "level of durability 9"), (placement, "placement 77"), (appended, "4294967295")] {
        let error = refused.expect_err("it is not known");
        assert!(error.kind == Kind::Usage && error.message.contains(words), "{error}");
        assert!(error.message.contains("0 durable, 1 buffered") || words.starts_with("placement"), "{error}");
    }
    assert_eq!(objects.read_at(at, 0, 100).expect("read"), b"before after");
    drop((reader, writer));
    owner.close().expect("closed");
}

/// Writes as buffered, with attributes along; the object has `before` and 10 bytes more afterwards, then `before` again.
fn buffered_and_riding(cluster: &Cluster, one: Place, before: &[u8]) {
    let objects = cluster.objects();
    let size = before.len() as u64;
    let buffered = WriteOptions { durability: Durability::Buffered, ..PLAIN };
    let receipt = objects.write_with(one, size, b"0123456789", buffered, Vec::new()).expect("taken in");
    assert_eq!(receipt.over, None);
    assert_eq!(objects.read_at(one, size, 99).expect("it is there"), b"0123456789");
    for scope in [Scope::Range(one.id, size, 3), Scope::Object(one.id), Scope::Volume(one.id.volume), Scope::Target] {
        assert_eq!(objects.flush_scope(one.target, scope, Some(receipt.epoch)), Ok(receipt.epoch));
    }
    let old = objects.flush_scope(one.target, Scope::Target, Some(receipt.epoch - 1)).expect_err("another epoch");
    assert_eq!(old.kind, Kind::Restarted, "{old}");
    let mut writer = objects.writer(one, size, buffered);
    writer.write(b"9876543210").expect("taken in");
    assert_eq!(writer.finish(), Ok(size + 10));
    let set = vec![(7, 1, Some(b"rides".to_vec()))];
    objects.write_with(one, size, b"abc", PLAIN, set.clone()).expect("written");
    let (bytes, riding) = objects.read_with(one, size, 5, 7).expect("read");
    assert_eq!((bytes, riding), (b"abc65".to_vec(), vec![(1, b"rides".to_vec())]));
    let too_long = vec![(7, 1, Some(vec![0; 5000]))];
    assert_eq!(objects.write_with(one, size, b"xyz", PLAIN, too_long).expect_err("too long").kind, Kind::Usage);
    assert_eq!(objects.read_at(one, size, 3).expect("nothing was changed"), b"abc");
    // The volume may hold less than it does, and is told of by whoever writes.
    let soft = |soft_bytes| Quota { soft_bytes, hard_bytes: Bytes::mib(20), ..Quota::default() };
    objects.set_quota(one.target, one.id.volume, soft(Bytes::kib(1))).expect("less");
    let over = objects.write_with(one, size, b"ABC", buffered, Vec::new()).expect("written").over.expect("a warning");
    assert!(over.used > over.soft_bytes && over.soft_bytes == Bytes::kib(1), "{over:?}");
    objects.set_quota(one.target, one.id.volume, soft(Bytes(u64::MAX))).expect("more");
    objects.truncate(one, size).expect("as before");
}

fn every_command(cluster: &Cluster, volume: u64) {
    let target = cluster.info().expect("who serves").targets[0].id;
    let objects = cluster.objects();
    let quota = Quota { hard_objects: 2, ..Quota::default() };
    objects.create_volume(target, volume, quota).expect("a volume");
    assert_eq!(objects.create_volume(target, volume, quota).expect_err("twice").kind, Kind::Exists);
    let (one, two) = (place(target, volume, 1), place(target, volume, u64::MAX));
    objects.create(one, vec![(2, 5, b"five".to_vec()), (2, 9, b"nine".to_vec())]).expect("the first");
    objects.create(two, Vec::new()).expect("the last that there can be");
    let third = objects.create(place(target, volume, 3), Vec::new()).expect_err("beyond the quota");
    assert_eq!(third.kind, Kind::Refused, "{third}");
    objects.set_quota(target, volume, Quota { hard_bytes: Bytes::mib(20), ..Quota::default() }).expect("more");
    // Large, and not where blocks begin.
    let bytes: Vec<u8> = (0..9_000_000_u32).map(|n| (n ^ n >> 8) as u8).collect();
    objects.write_at(one, 777, &bytes, PLAIN).expect("written");
    objects.write_at(one, 700, &[7; 177], LOGGED).expect("over its beginning");
    let mut expected = [vec![0; 777], bytes].concat();
    expected[700..877].fill(7);
    assert_eq!(objects.append(one, b"the end", PLAIN).expect("appended"), expected.len() as u64);
    expected.extend_from_slice(b"the end");
    objects.punch(one, 4000, 100_000).expect("punched");
    expected[4000..104_000].fill(0);
    assert!(objects.read_at(one, 0, u64::MAX).expect("all of it") == expected);
    objects.truncate(one, 5000).expect("shorter");
    objects.truncate(one, 6000).expect("longer");
    expected.truncate(5000);
    expected.resize(6000, 0);
    assert!(objects.read_at(one, 0, 10_000).expect("all of it") == expected);
    assert_eq!(objects.read_at(one, 6000, 1).expect("nothing is behind"), []);
    for at in [one, place(target, volume, 0), forebay_client::objects::Place { target, id: ObjectId::ROOT }] {
        objects.flush(at).expect("flushed");
    }
    buffered_and_riding(cluster, one, &expected);
    let copy = place(target, volume, 77);
    objects.snapshot(one, copy.id, vec![(2, 9, None)]).expect("a snapshot");
    objects.write_at(copy, 0, b"other", PLAIN).expect("written");
    assert_eq!(objects.attributes(copy, 2).expect("attributes"), [(5, b"five".to_vec())]);
    assert!(objects.read_at(one, 0, u64::MAX).expect("as before") == expected);
    assert_eq!(objects.snapshot(one, copy.id, Vec::new()).expect_err("twice").kind, Kind::Exists);
    objects.remove(copy).expect("removed");
    objects.set_attributes(one, vec![(2, 5, None), (2, 7, Some(b"seven".to_vec()))]).expect("set");
    let left = vec![(7, b"seven".to_vec()), (9, b"nine".to_vec())];
    assert_eq!(objects.attributes(one, 2).expect("attributes"), left);
    let info = objects.stat(one, Some(2)).expect("known");
    assert_eq!((info.head.size, info.attributes), (6000, left));
    let held = objects.stat(place(target, volume, 0), None).expect("the volume").head.volume.expect("it is one");
    assert_eq!((held.objects, held.quota.hard_bytes), (2, Bytes::mib(20)));
    let (listed, next) = objects.list(target, volume, 1, None).expect("a list");
    assert_eq!(listed.iter().map(|info| info.id.object).collect::<Vec<_>>(), [1, u64::MAX]);
    assert_eq!(next, None);
    // What is wrong is refused, and changes nothing.
    let beyond = objects.write_at(one, 1 << 61, b"x", PLAIN).expect_err("beyond the largest");
    assert_eq!(beyond.kind, Kind::Usage, "{beyond}");
    let large = objects.append(one, &vec![0; LARGEST.0 as usize + 1], PLAIN).expect_err("too much at once");
    assert_eq!(large.kind, Kind::Usage, "{large}");
    let full = objects.write_at(one, 6000, vec![1; 21 << 20], PLAIN).expect_err("beyond the quota");
    assert_eq!(full.kind, Kind::Refused, "{full}");
    assert_eq!(objects.stat(one, None).expect("it is there").head.size, 6000);
    let nowhere = objects.stat(place(TargetId(1), volume, 1), None).expect_err("no such target");
    assert_eq!(nowhere.kind, Kind::Missing, "{nowhere}");
    let not_empty = objects.remove(place(target, volume, 0)).expect_err("it holds two");
    assert_eq!(not_empty.kind, Kind::Usage, "{not_empty}");
    for at in [one, two, place(target, volume, 0)] {
        objects.remove(at).expect("removed");
        assert_eq!(objects.remove(at).expect_err("twice").kind, Kind::Missing);
    }
}

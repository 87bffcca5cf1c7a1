use crate::object::quota::MOST_ATTRIBUTES;
use crate::object::rows::{BLOCK, Head};
use crate::object::testing::{self, id};
use crate::object::{How, Placement, attribute_weight};
use forebay_model::object::{AttributeChange, Durability};
use forebay_model::{Bytes, Kind};
use std::time::Duration;

/// Which of the times an object was changed, and what else the target keeps, a command moves.
#[derive(Debug, PartialEq, Eq)]
struct Moved {
    modified: bool,
    changed: bool,
    version: u64,
    size: u64,
    blocks: u64,
}

#[test]
fn what_the_target_keeps_of_an_object_says_when_its_bytes_and_when_anything_of_it_last_changed() {
    let (fake, target) = testing::device(Bytes::mib(64));
    let (objects, stream, block) = (target.objects(), target.stream(), BLOCK.0);
    fake.run(objects.create(id(1), Vec::new())).unwrap();
    let created = fake.run(objects.head(id(1))).unwrap();
    assert_eq!((created.modified, created.changed, created.version), (created.created, created.created, 1));
    let mut before = created.clone();
    let mut after = |what: &str, done: &dyn Fn()| {
        fake.run(target.core().disk.env().clock.sleep(Duration::from_secs(1)));
        let now = target.core().disk.env().clock.wall();
        done();
        let head = fake.run(objects.head(id(1))).unwrap();
        let Head { modified, changed, version, size, blocks, .. } = head;
        for time in [modified, changed] {
            assert!([before.modified, before.changed].contains(&time) || time >= now, "{what}: {head:?}");
        }
        assert_eq!(head.created, created.created, "{what}");
        let moved = Moved {
            modified: modified != before.modified,
            changed: changed != before.changed,
            version: version - before.version,
            size,
            blocks,
        };
        before = head;
        moved
    };
    let bytes = vec![7; 3 * BLOCK.0 as usize];
    let both = |size, blocks| Moved { modified: true, changed: true, version: 1, size, blocks };
    let neither = |size, blocks| Moved { modified: false, changed: false, version: 0, size, blocks };
    let write = |at, length: usize, placement| {
        fake.run(objects.write(stream, id(1), at, &bytes[..length], placement)).unwrap();
    };
    assert_eq!(after("written home", &|| write(0, bytes.len(), Placement::Home)), both(3 * block, 3));
    assert_eq!(after("over it, in a log", &|| write(block, 10, Placement::Log)), both(3 * block, 3));
    assert_eq!(after("behind a hole", &|| write(9 * block, 5, Placement::Auto)), both(9 * block + 5, 4));
    let read = || drop(fake.run(objects.read(stream, id(1), 0, 4 * block)).unwrap());
    assert_eq!(after("read", &read), neither(9 * block + 5, 4));
    let buffered = || {
        let how = How { durability: Durability::Buffered, ..How::default() };
        fake.run(objects.write_as(stream, id(1), Some(5 * block), &bytes[..20], &how)).map(drop).unwrap();
    };
    assert_eq!(after("buffered", &buffered), both(9 * block + 5, 5));
    // In the pauses, too.
    let home = || {
        fake.run(objects.take_home()).unwrap();
        assert!(objects.counters().homed > 0);
    };
    assert_eq!(after("taken home", &home), neither(9 * block + 5, 5));
    let attribute = || fake.run(objects.set_attributes(id(1), vec![(9, 1, Some(b"red".to_vec()))])).unwrap();
    let changed = Moved { modified: false, ..both(9 * block + 5, 5) };
    assert_eq!(after("an attribute", &attribute), changed);
    let punch = || fake.run(objects.punch(id(1), 0, 2 * block)).unwrap();
    assert_eq!(after("punched", &punch), both(9 * block + 5, 3));
    assert_eq!(after("cut off", &|| fake.run(objects.truncate(id(1), block)).unwrap()), both(block, 0));
    let kept = fake.run(objects.head(id(1))).unwrap();
    let target = testing::again(&fake, target.clone());
    assert_eq!(fake.run(target.objects().head(id(1))).unwrap(), kept, "after a crash");
}

#[test]
fn attributes_of_an_object_take_no_more_than_they_may_and_neither_do_those_of_a_snapshot() {
    let (fake, target) = testing::device(Bytes::mib(64));
    let objects = target.objects();
    (1..=2).for_each(|n| fake.run(objects.create(id(n), Vec::new())).unwrap());
    let value = vec![1; 4096];
    let page = |page: u32| (0..8).map(|number| (page, number, Some(value.clone()))).collect::<Vec<AttributeChange>>();
    let most = (MOST_ATTRIBUTES.0 as usize / (8 * attribute_weight(&value))) as u32;
    (0..most).for_each(|n| fake.run(objects.set_attributes(id(1), page(n))).unwrap());
    let how = How { set: page(most), ..How::default() };
    let refusals = [
        fake.run(objects.set_attributes(id(1), page(most))),
        fake.run(objects.write_as(target.stream(), id(1), Some(0), b"x", &how)).map(drop),
        fake.run(objects.write_as(target.stream(), id(1), None, b"", &how)).map(drop),
        fake.run(objects.truncate_as(id(1), 5, &how.set)),
        fake.run(objects.punch_as(id(1), 0, 5, &how.set)),
        fake.run(objects.snapshot(id(1), id(3), how.set.clone())),
    ];
    for (n, refused) in refusals.into_iter().enumerate() {
        let error = refused.expect_err("it is too much");
        assert!(error.kind == Kind::Usage && error.message.contains("; remove some"), "{n}: {error}");
    }
    assert_eq!(fake.run(objects.head(id(1))).unwrap().size, 0, "nothing was changed");
    // Others may have as much, and so may a snapshot; what is no more makes room, and what is the same takes none.
    fake.run(objects.set_attributes(id(2), page(0))).unwrap();
    fake.run(objects.set_attributes(id(1), page(0))).unwrap();
    fake.run(objects.snapshot(id(1), id(3), Vec::new())).unwrap();
    let ended = page(0).into_iter().map(|(page, number, _)| (page, number, None)).collect();
    fake.run(objects.set_attributes(id(1), ended)).unwrap();
    fake.run(objects.set_attributes(id(1), page(most))).unwrap();
}

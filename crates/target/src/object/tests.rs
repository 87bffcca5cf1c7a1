use super::record::{Found, HEADER};
use super::rows::{BLOCK, Quota};
use super::settings::Logging;
use super::testing::{self, again, id, opened};
use super::{How, Objects, Placement, commands, logs, replay};
use crate::Target;
use crate::fake::{Fake, Op, Writer, sequences, small};
use crate::scrub::Options;
use crate::seeds::each;
use forebay_model::object::Durability;
use forebay_model::ring::RingSpec;
use forebay_model::{Bytes, Error, Kind, ObjectId, Rate, Result};
use std::rc::Rc;
use std::time::Duration;

const VOLUME: ObjectId = ObjectId::volume(1);

fn device() -> (Fake, Rc<Target>) {
    testing::device(Bytes::mib(64))
}

fn create(fake: &Fake, target: &Target, object: u64) {
    fake.run(target.objects().create(id(object), Vec::new())).unwrap();
}

fn write(fake: &Fake, target: &Target, object: u64, offset: u64, bytes: &[u8], place: Placement) -> Result<()> {
    fake.run(target.objects().write(target.stream(), id(object), offset, bytes, place))
}

fn read(fake: &Fake, target: &Target, object: u64, offset: u64, length: u64) -> Result<Vec<u8>> {
    fake.run(target.objects().read(target.stream(), id(object), offset, length))
}

fn refused<T>(result: Result<T>) -> Error {
    result.err().expect("it is refused")
}

/// Blocks `n` of an object, each of its own number.
fn numbered(blocks: u64) -> Vec<u8> {
    (0..blocks * BLOCK.0).map(|at| (at / BLOCK.0 + 1) as u8).collect()
}

/// Device offsets of the records in all logs that opening would read, with what they are, oldest first.
fn records(fake: &Fake, target: &Target) -> Vec<(u64, Bytes, u64, u32)> {
    let objects = target.objects();
    let mut found = Vec::new();
    let groups: Vec<u32> = objects.work.borrow().meta.logs.to_read().iter().map(|(group, _)| *group).collect();
    for group in groups {
        let capacity = objects.work.borrow().meta.logs.capacity();
        let (bytes, _) = fake.run(objects.read_log(objects.stream, group, 0, capacity)).unwrap();
        let start = objects.work.borrow().meta.logs.at(group, 0);
        replay::scan(objects.core.mark(), group, 0, &bytes, |entry| {
            if let Found::Record(record) = entry {
                let at = BLOCK * (start + u64::from(record.stamp.block));
                found.push((record.stamp.number, at, BLOCK.0 * u64::from(record.blocks), record.data));
            }
        });
    }
    found.sort_unstable();
    found
}

#[test]
fn what_cannot_be_done_is_refused_with_what_to_do_and_nothing_changes() {
    let (fake, target) = device();
    create(&fake, &target, 1);
    write(&fake, &target, 1, 0, b"something", Placement::Auto).unwrap();
    let objects = target.objects();
    let before = (fake.run(objects.list(1, 0, 10)).unwrap(), fake.run(objects.head(VOLUME)).unwrap());
    let records = objects.counters().records;
    let put = |id, offset, bytes: &[u8]| {
        refused(fake.run(objects.write(target.stream(), id, offset, bytes, Placement::Auto)))
    };
    let large = vec![0; commands::MOST_WRITTEN.0 as usize + 1];
    let long = |n: usize| vec![(1, 1, Some(vec![0; n]))];
    let many = |n: u32| (0..n).map(|number| (1, number, Some(vec![0]))).collect::<Vec<_>>();
    let append = |id, bytes: &[u8]| refused(fake.run(objects.append(target.stream(), id, bytes, Placement::Auto)));
    // Attributes that ride along are refused with what they ride on, buffered or not.
    let riding = |durability, offset| {
        let how = How { durability, set: long(4097), ..How::default() };
        refused(fake.run(objects.write_as(target.stream(), id(1), offset, b"x", &how)))
    };
    let cases = [
        (Kind::Usage, put(id(1), u64::MAX, b"x")),
        (Kind::Usage, put(id(1), 1 << 60, b"x")),
        (Kind::Usage, put(id(1), 0, &large)),
        (Kind::Usage, put(VOLUME, 0, b"x")),
        (Kind::Usage, put(ObjectId::ROOT, 0, b"x")),
        (Kind::Missing, put(id(2), 0, b"x")),
        (Kind::Missing, put(id(2), 0, b"")),
        (Kind::Usage, append(id(1), &large)),
        (Kind::Usage, append(VOLUME, b"x")),
        (Kind::Missing, append(id(2), b"x")),
        (Kind::Usage, riding(Durability::Durable, Some(0))),
        (Kind::Usage, riding(Durability::Buffered, Some(0))),
        (Kind::Usage, riding(Durability::Durable, None)),
        (Kind::Usage, refused(fake.run(objects.truncate_as(id(1), 5, &long(4097))))),
        (Kind::Usage, refused(fake.run(objects.punch_as(id(1), 0, 5, &long(4097))))),
        (Kind::Usage, refused(fake.run(objects.punch(VOLUME, 0, 5)))),
        (Kind::Exists, refused(fake.run(objects.create(id(1), Vec::new())))),
        (Kind::Missing, refused(fake.run(objects.create(ObjectId { volume: 2, object: 1 }, Vec::new())))),
        (Kind::Usage, refused(fake.run(objects.create(VOLUME, Vec::new())))),
        (Kind::Exists, refused(fake.run(objects.create_volume(1, Quota::default())))),
        (Kind::Usage, refused(fake.run(objects.create_volume(0, Quota::default())))),
        (Kind::Missing, refused(fake.run(objects.remove(id(2))))),
        (Kind::Usage, refused(fake.run(objects.remove(VOLUME)))),
        (Kind::Missing, refused(fake.run(objects.truncate(id(2), 5)))),
        (Kind::Usage, refused(fake.run(objects.truncate(VOLUME, 5)))),
        (Kind::Usage, refused(fake.run(objects.truncate(id(1), (1 << 60) + 1)))),
        (Kind::Missing, refused(fake.run(objects.punch(id(2), 0, 5)))),
        (Kind::Usage, refused(fake.run(objects.punch(id(1), 5, u64::MAX)))),
        (Kind::Usage, refused(fake.run(objects.set_attributes(id(1), long(4097))))),
        (Kind::Usage, refused(fake.run(objects.set_attributes(id(1), many(257))))),
        (Kind::Missing, refused(fake.run(objects.set_attributes(id(2), many(1))))),
        (Kind::Usage, refused(fake.run(objects.create(id(2), vec![(1, 1, vec![0; 4097])])))),
        (Kind::Missing, refused(fake.run(objects.attributes(id(2), 1)))),
        (Kind::Missing, refused(fake.run(objects.read(target.stream(), id(2), 0, 5)))),
        (Kind::Missing, refused(fake.run(objects.list(2, 0, 5)))),
        (Kind::Missing, refused(fake.run(objects.set_quota(2, Quota::default())))),
        (Kind::Missing, refused(fake.run(objects.head(id(2))))),
    ];
    for (n, (kind, error)) in cases.into_iter().enumerate() {
        assert_eq!(error.kind, kind, "{n}: {error}");
        let (_, remedy) = error.message.split_once("; ").unwrap_or_else(|| panic!("{n}: {error}: and what then?"));
        match kind {
            Kind::Missing => assert!(remedy.starts_with("create it first"), "{n}: {error}"),
            Kind::Exists => assert_eq!(remedy, "take another number, or remove it first", "{n}"),
            _ if error.message.contains(" lie beyond ") => assert_eq!(remedy, "stay below 1152921504606846976", "{n}"),
            _ => {}
        }
    }
    let after = (fake.run(objects.list(1, 0, 10)).unwrap(), fake.run(objects.head(VOLUME)).unwrap());
    assert_eq!((after, objects.counters().records), (before, records));
    assert_eq!(read(&fake, &target, 1, 0, 100).unwrap(), b"something");
}

#[test]
fn attributes_that_no_log_could_take_at_once_are_refused_as_too_many() {
    let (fake, target) = device();
    create(&fake, &target, 1);
    let values = (0..200).map(|number| (1, number, Some(vec![0; 4096]))).collect();
    let error = refused(fake.run(target.objects().set_attributes(id(1), values)));
    assert_eq!(error.kind, Kind::Usage, "{error}");
}

#[test]
fn attributes_come_in_parts_of_no_more_than_was_asked_for_but_always_one() {
    let (fake, target) = device();
    create(&fake, &target, 1);
    let objects = target.objects();
    let value = |number: u32| vec![number as u8; number as usize % 50];
    for numbers in [0..250, 250..400] {
        let values = numbers.map(|number| (1, number * 3, Some(value(number))));
        let others = [(0, 7, Some(vec![1])), (2, 7, Some(vec![1]))];
        fake.run(objects.set_attributes(id(1), values.chain(others).collect())).unwrap();
    }
    let all: Vec<_> = (0..400).map(|number| (number * 3, value(number))).collect();
    assert_eq!(fake.run(objects.attributes(id(1), 1)).unwrap(), all);
    for most in [0, 60, 700, usize::MAX] {
        let (mut found, mut from) = (Vec::new(), Some(0));
        while let Some(first) = from {
            let (part, next) = fake.run(objects.attributes_from(id(1), 1, first, most)).unwrap();
            let bytes: usize = part.iter().map(|(_, value)| value.len() + 8).sum();
            assert!(part.len() == 1 || bytes <= most, "{bytes} of {most}");
            found.extend(part);
            from = next;
        }
        assert_eq!(found, all, "{most} at once");
    }
    let (bytes, riding) = fake.run(objects.read_with(target.stream(), id(1), 0, 10, 1, 700)).unwrap();
    assert!(bytes.is_empty() && riding.len() < 100 && all.starts_with(&riding), "{} ride", riding.len());
}

#[test]
fn what_was_never_written_reads_as_zeros_and_beyond_the_end_there_is_nothing() {
    let (fake, target) = device();
    for (object, place) in [(1, Placement::Log), (2, Placement::Home)] {
        create(&fake, &target, object);
        write(&fake, &target, object, 3 * BLOCK.0 + 100, b"far", place).unwrap();
        write(&fake, &target, object, 10 * BLOCK.0, &[9; 10], place).unwrap();
        let size = 10 * BLOCK.0 + 10;
        let all = read(&fake, &target, object, 0, 1 << 20).unwrap();
        assert_eq!(all.len() as u64, size);
        let not_zero: Vec<u64> = (0..).zip(&all).filter(|(_, byte)| **byte != 0).map(|(at, _)| at).collect();
        let expected: Vec<u64> = (12388..12391).chain(10 * BLOCK.0..size).collect();
        assert_eq!(not_zero, expected);
        assert_eq!(read(&fake, &target, object, size - 4, 100).unwrap(), [9; 4]);
        assert_eq!(read(&fake, &target, object, size, 100).unwrap(), [0u8; 0]);
        assert_eq!(read(&fake, &target, object, u64::MAX, u64::MAX).unwrap(), [0u8; 0]);
        assert_eq!(fake.run(target.objects().head(id(object))).unwrap().blocks, 2, "holes take nothing");
        // Longer by nothing, and shorter: what was cut off does not come back.
        fake.run(target.objects().truncate(id(object), 10 * BLOCK.0 + 4)).unwrap();
        fake.run(target.objects().truncate(id(object), 1 << 40)).unwrap();
        assert_eq!(read(&fake, &target, object, 10 * BLOCK.0, 12).unwrap(), [9, 9, 9, 9, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(read(&fake, &target, object, (1 << 40) - 1, 9).unwrap(), [0]);
    }
}

#[test]
fn a_read_of_more_than_memory_holds_is_refused() {
    let (fake, target) = device();
    create(&fake, &target, 1);
    fake.run(target.objects().truncate(id(1), 1 << 60)).unwrap();
    let error = refused(read(&fake, &target, 1, 0, u64::MAX));
    assert_eq!(error.kind, Kind::Usage, "{error}");
}

#[test]
fn a_hard_quota_refuses_the_whole_command_and_says_the_numbers() {
    let (fake, target) = device();
    let quota = Quota { hard_bytes: 10 * BLOCK.0, hard_objects: 2, ..Quota::default() };
    fake.run(target.objects().set_quota(1, quota)).unwrap();
    create(&fake, &target, 1);
    create(&fake, &target, 2);
    let error = refused(fake.run(target.objects().create(id(3), Vec::new())));
    assert!(error.kind == Kind::Refused && error.message.contains("2 objects"), "{error}");
    for place in [Placement::Log, Placement::Home] {
        let free = target.objects().work.borrow().meta.data.free();
        let error = refused(write(&fake, &target, 1, 0, &numbered(11), place));
        assert_eq!(error.kind, Kind::Refused, "{error}");
        assert!(error.message.contains(&format!("{}", Bytes(10 * BLOCK.0))), "{error}");
        assert_eq!(fake.run(target.objects().head(id(1))).unwrap().size, 0);
        assert_eq!(target.objects().work.borrow().meta.data.free(), free, "what it took is given back");
    }
    write(&fake, &target, 1, 0, &numbered(10), Placement::Auto).unwrap();
    let full = refused(write(&fake, &target, 2, 0, b"x", Placement::Auto));
    assert_eq!(full.kind, Kind::Refused, "{full}");
    // Making less is never refused, and makes room; so does a larger quota.
    fake.run(target.objects().punch(id(1), 0, 2 * BLOCK.0)).unwrap();
    write(&fake, &target, 2, 0, b"x", Placement::Auto).unwrap();
    fake.run(target.objects().set_quota(1, Quota::default())).unwrap();
    write(&fake, &target, 2, 0, &numbered(100), Placement::Auto).unwrap();
}

/// Fills the device with objects of `blocks` at home; how many.
fn fill(fake: &Fake, target: &Target, blocks: u64) -> u64 {
    for object in 1..10_000 {
        create(fake, target, object);
        let Err(error) = write(fake, target, object, 0, &numbered(blocks), Placement::Home) else { continue };
        assert_eq!(error.kind, Kind::Full, "{error}");
        assert_eq!(fake.run(target.objects().head(id(object))).unwrap().blocks, 0, "nothing was changed");
        return object;
    }
    panic!("it never fills");
}

#[test]
fn a_full_device_refuses_before_anything_is_written_and_removing_goes_on() {
    let (fake, target) = device();
    let last = fill(&fake, &target, 200);
    assert!(last > 40 && last < 80, "{last} objects");
    fake.disk.log();
    let error = refused(write(&fake, &target, last, 0, &numbered(300), Placement::Home));
    assert!(error.message.contains("remove"), "{error}");
    let wrote = fake.disk.log().into_iter().filter(|op| matches!(op, Op::Write(_))).count();
    assert_eq!(wrote, 0, "something was written");
    // What is there is read, and so it is after opening again.
    let target = again(&fake, target);
    assert!(read(&fake, &target, 1, 0, 1 << 20).unwrap() == numbered(200));
    for object in 1..=last {
        fake.run(target.objects().remove(id(object))).unwrap_or_else(|e| panic!("removing {object}: {e}"));
    }
    assert_eq!(fill(&fake, &target, 200), last, "all of it can be had again");
}

#[test]
fn a_device_whose_logs_are_full_too_still_removes() {
    let (fake, target) = device();
    let last = fill(&fake, &target, 60);
    // Small writes go to logs until these are full, and nothing can be taken home.
    let full = (0..100_000u64).find_map(|n| {
        write(&fake, &target, last, n * BLOCK.0, &numbered(1), Placement::Log).err().map(|error| (n, error))
    });
    let (count, error) = full.expect("the logs are never full");
    assert!(error.kind == Kind::Full && count > 100, "{count}: {error}");
    let target = again(&fake, target);
    for object in 1..=last {
        fake.run(target.objects().remove(id(object))).unwrap_or_else(|e| panic!("removing {object}: {e}"));
    }
    assert_eq!(fill(&fake, &target, 60), last, "all of it can be had again");
}

#[test]
fn writers_at_once_share_their_flushes_and_the_headers_of_their_records() {
    let fake = Fake::new(Bytes::mib(640), false);
    let target = fake.target();
    fake.run(target.objects().create_volume(1, Quota::default())).unwrap();
    (1..=64).for_each(|object| create(&fake, &target, object));
    let filled = || target.objects().work.borrow().meta.logs.filled_in_all();
    let (before, filled_before) = (target.objects().counters(), filled());
    fake.run(async {
        let writers: Vec<_> = (1..=64)
            .map(|object| {
                let target = target.clone();
                fake.env().spawner.spawn(async move {
                    let bytes = [object as u8; 100];
                    target.objects().write(target.stream(), id(object), 0, &bytes, Placement::Auto).await
                })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
    });
    let after = target.objects().counters();
    assert_eq!(after.commands - before.commands, 64);
    assert!(after.records - before.records <= 8, "{} records", after.records - before.records);
    assert!(filled() - filled_before <= 72, "{} blocks for 64", filled() - filled_before);
    assert!(after.syncs - before.syncs <= 8, "{} flushes for 64 writes", after.syncs - before.syncs);
    let target = again(&fake, target);
    (1..=64).for_each(|object| assert_eq!(read(&fake, &target, object, 0, 200).unwrap(), [object as u8; 100]));
}

#[test]
fn removing_while_reading_gives_the_bytes_or_says_that_it_is_gone() {
    let (fake, target) = device();
    for object in 1..30 {
        create(&fake, &target, object);
        write(&fake, &target, object, 0, &numbered(100), Placement::Home).unwrap();
        let reader = target.clone();
        let result = fake.run(async {
            let read = fake
                .env()
                .spawner
                .spawn(async move { reader.objects().read(reader.stream(), id(object), 0, 1 << 20).await });
            fake.env().clock.sleep(Duration::from_micros(object * 150)).await;
            target.objects().remove(id(object)).await.unwrap();
            // Another takes its place.
            target.objects().create(id(object), Vec::new()).await.unwrap();
            let bytes = vec![0xee; 100 * BLOCK.0 as usize];
            target.objects().write(target.stream(), id(object), 0, &bytes, Placement::Home).await.unwrap();
            read.await
        });
        match result {
            Ok(bytes) => assert!(bytes == numbered(100) || bytes.iter().all(|byte| *byte == 0xee)),
            Err(error) => assert_eq!(error.kind, Kind::Missing, "{error}"),
        }
    }
}

#[test]
fn a_volume_of_many_objects_is_listed_also_when_hardly_any_of_it_is_in_memory() {
    let (fake, target) = device();
    for object in 1..=700 {
        fake.run(target.objects().create(id(object * 3), vec![(1, 1, vec![1; 50])])).unwrap();
    }
    fake.run(target.close()).unwrap();
    let target = again(&fake, target);
    assert!(fake.run(Target::inspect(fake.env())).unwrap().1.objects.leaves.len() > 2);
    let all = fake.run(target.objects().list(1, 0, 10_000)).unwrap();
    assert_eq!(all.iter().map(|f| f.id.object).collect::<Vec<u64>>(), (1..=700).map(|n| n * 3).collect::<Vec<u64>>());
    let some = fake.run(target.objects().list(1, 1000, 5)).unwrap();
    assert_eq!(some.iter().map(|f| f.id.object).collect::<Vec<u64>>(), [1002, 1005, 1008, 1011, 1014]);
}

#[test]
fn what_went_home_beside_what_was_there_stays_taken_after_a_crash() {
    each(20, |random| {
        let (fake, target) = device();
        (1..=3).for_each(|object| create(&fake, &target, object));
        // At home, and behind it in the log: so what goes home continues it.
        for object in 1..=3 {
            write(&fake, &target, object, 0, &numbered(2), Placement::Home).unwrap();
        }
        fake.run(target.objects().remove(id(2))).unwrap();
        fake.run(target.objects().checkpoint()).unwrap();
        write(&fake, &target, 1, 0, &numbered(2 + random.below(3)), Placement::Log).unwrap();
        let bytes = read(&fake, &target, 1, 0, 1 << 20).unwrap();
        let logs = target.objects().work.borrow().meta.logs.fullest(false, 1);
        assert!(fake.run(target.objects().empty_logs(&logs, false, None)).unwrap() > 0);
        // A crash before the next checkpoint; then others take what is free.
        let target = again(&fake, target);
        assert!(read(&fake, &target, 1, 0, 1 << 20).unwrap() == bytes);
        for object in 10..20 {
            create(&fake, &target, object);
            write(&fake, &target, object, 0, &[0xee; 9 * 4096], Placement::Home).unwrap();
        }
        let now = read(&fake, &target, 1, 0, 1 << 20).expect("others have written over it");
        assert!(now == bytes);
    });
}

/// Ten records after a checkpoint, the seventh with data; the target, killed, and where the records lie.
fn ten_records(fake: &Fake, target: Rc<Target>) -> Vec<(u64, Bytes, u64, u32)> {
    (1..=10).for_each(|object| create(fake, &target, object));
    fake.run(target.objects().checkpoint()).unwrap();
    let before = target.objects().work.borrow().last;
    for object in 1..=10 {
        let bytes = if object == 7 { numbered(2) } else { vec![object as u8; 40] };
        write(fake, &target, object, 0, &bytes, Placement::Log).unwrap();
    }
    let mut found = records(fake, &target);
    found.retain(|(number, _, _, data)| *number > before && *data > 0);
    assert_eq!(found.len(), 10);
    drop(target);
    fake.kill();
    found
}

#[test]
fn outcome_24_a_record_damaged_in_the_middle_of_a_log_is_said_and_not_taken_for_a_torn_tail() {
    // In its header, then in its body.
    for at in [0, 20, 41, HEADER as u64 + 3] {
        let (fake, target) = device();
        let ring = fake.create(&target, small("/a", Bytes::mib(4))).unwrap();
        let mut writer = Writer::new(&fake, &ring);
        fake.run(async {
            writer.element(b"an element").await.unwrap();
            writer.durable().await.unwrap();
        });
        drop((writer, ring));
        let records = ten_records(&fake, target);
        let (number, place, ..) = records[4];
        fake.disk.flip(place + Bytes(at));
        let target = fake.run(Target::open(fake.env())).expect("rings are served");
        let error = refused(fake.run(target.objects().ready()));
        assert_eq!(error.kind, Kind::Device, "{error}");
        assert_eq!(target.objects().lost(), Some(error.clone()), "the device works");
        assert!(error.message.contains(&format!("record {number} ")), "{error}");
        // The last one says that the one before it was durable, and nobody says so of the last.
        let after = records[9].0 - 1 - number;
        assert!(error.message.contains(&format!(" {after} after it")), "{error}");
        let stream = target.stream();
        assert_eq!(refused(fake.run(target.objects().read(stream, id(1), 0, 9))), error);
        assert_eq!(refused(fake.run(target.objects().create(id(99), Vec::new()))), error);
        // Rings are served, and the target closes.
        let ring = target.ring("/a").unwrap();
        fake.run(ring.ready()).unwrap();
        assert_eq!(sequences(&fake.ask(&ring, "all").0), [0]);
        drop(ring);
        fake.run(target.close()).unwrap();
        // It is not forgotten by that.
        drop(target);
        fake.kill();
        let target = fake.run(Target::open(fake.env())).unwrap();
        assert_eq!(refused(fake.run(target.objects().ready())), error);
    }
}

#[test]
fn outcome_23_a_torn_tail_of_which_nobody_was_told_is_left_out() {
    for at in [0, 41, HEADER as u64 + 3] {
        let (fake, target) = device();
        let records = ten_records(&fake, target);
        let (_, place, ..) = records[9];
        fake.disk.flip(place + Bytes(at));
        let target = fake.run(Target::open(fake.env())).unwrap();
        fake.run(target.objects().ready()).unwrap();
        assert_eq!(read(&fake, &target, 10, 0, 100).unwrap(), [0u8; 0]);
        assert_eq!(read(&fake, &target, 9, 0, 100).unwrap(), [9; 40]);
        // It never comes back.
        write(&fake, &target, 10, 0, b"after", Placement::Log).unwrap();
        let target = again(&fake, target);
        assert_eq!(read(&fake, &target, 10, 0, 100).unwrap(), b"after");
    }
}

/// A device with three objects, the last of a few bytes, all of them in records alone so far, and where these lie.
fn in_records(settings: impl FnOnce(&Fake, &Target)) -> (Fake, Rc<Target>, Vec<Bytes>) {
    let (fake, target) = device();
    (1..=3).for_each(|object| create(&fake, &target, object));
    write(&fake, &target, 3, 0, &[3; 40], Placement::default()).unwrap();
    let last = target.objects().work.borrow().last;
    let found = records(&fake, &target);
    assert_eq!(found.last().map(|(number, ..)| *number), Some(last));
    settings(&fake, &target);
    (fake, target, found.into_iter().map(|(_, place, ..)| place).collect())
}

/// What is known after a crash by which every record has become another one, in this byte.
fn after_rot(fake: &Fake, target: Rc<Target>, places: &[Bytes], byte: u64) -> Rc<Target> {
    drop(target);
    fake.kill();
    places.iter().for_each(|place| fake.disk.flip(*place + Bytes(byte)));
    let target = opened(fake);
    assert_eq!(read(fake, &target, 3, 0, 100).unwrap(), [3; 40]);
    assert_eq!(fake.run(target.objects().list(1, 0, 10)).unwrap().len(), 3);
    target
}

#[test]
fn when_no_record_came_for_a_while_a_checkpoint_covers_them_so_that_damage_to_them_costs_nothing() {
    for byte in [0, 41, HEADER as u64 + 3] {
        // Nothing tells the last one from one that was being written.
        let (fake, target, places) = in_records(|_, _| ());
        drop(target);
        fake.kill();
        fake.disk.flip(places[places.len() - 1] + Bytes(byte));
        assert_eq!(read(&fake, &opened(&fake), 3, 0, 100).unwrap(), [0u8; 0]);
        let (fake, target, places) = in_records(|fake, _| fake.wait(Duration::from_secs(3)));
        after_rot(&fake, target, &places, byte);
    }
    // Once: who does nothing writes nothing.
    let (fake, target) = device();
    create(&fake, &target, 1);
    fake.wait(Duration::from_secs(3));
    fake.disk.log();
    fake.wait(Duration::from_secs(600));
    assert_eq!(fake.disk.log(), []);
}

#[test]
fn a_pass_of_a_scrub_begins_with_a_checkpoint_so_that_damage_to_records_before_it_costs_nothing() {
    let scrub = |fake: &Fake, target: &Target| {
        let options = Options { rate: None, span: Duration::from_secs(60), anew: true };
        let scrubbed = fake.run(target.scrub(options)).unwrap();
        assert!(scrubbed.finished && scrubbed.damaged == 0, "{scrubbed:?}");
    };
    let (fake, target, places) = in_records(scrub);
    let before = target.objects().counters().checkpoints;
    scrub(&fake, &target);
    assert_eq!(target.objects().counters().checkpoints, before, "nothing came since the one before");
    scrub(&fake, &after_rot(&fake, target, &places, HEADER as u64 + 3));
}

/// A ring that is promised something, as long as it is there.
fn promised_ring() -> RingSpec {
    RingSpec { guarantee: Rate::mb(1), flush_interval: Duration::from_secs(1), ..small("/ring", Bytes::mib(4)) }
}

#[test]
fn beside_a_promised_ring_on_a_disk_that_turns_a_scrub_begins_without_a_checkpoint() {
    for promised in [false, true] {
        let fake = Fake::new(Bytes::mib(64), true);
        let target = fake.target();
        if promised {
            fake.create(&target, promised_ring()).unwrap();
        }
        fake.run(target.objects().create_volume(1, Quota::default())).unwrap();
        create(&fake, &target, 1);
        let before = target.objects().counters().checkpoints;
        let options = Options { rate: None, span: Duration::from_secs(60), anew: true };
        assert!(fake.run(target.scrub(options)).unwrap().finished);
        assert_eq!(target.objects().counters().checkpoints > before, !promised);
    }
}

#[test]
fn what_is_to_stay_in_logs_and_what_comes_beside_a_promised_ring_is_covered_too() {
    for (rotates, seconds) in [(false, 3), (true, 70)] {
        let fake = Fake::new(Bytes::mib(64), rotates);
        let target = fake.target();
        if rotates {
            fake.create(&target, promised_ring()).unwrap();
        }
        fake.run(target.objects().create_volume(1, Quota::default())).unwrap();
        create(&fake, &target, 1);
        fake.run(target.objects().set_logging(id(1), Some(Logging::Always))).unwrap();
        write(&fake, &target, 1, 0, &numbered(2), Placement::default()).unwrap();
        fake.wait(Duration::from_secs(seconds));
        assert!(rotates || target.objects().redirected() == BLOCK * 2, "it stays");
        let (number, meant) = (target.objects().core.with_objects(|o| o.number), target.objects().work.borrow().meant);
        assert!(number >= meant, "rotates: {rotates}: {number} of {meant}");
    }
}

#[test]
fn a_block_of_a_log_that_cannot_be_read_is_said_only_where_the_next_record_would_be() {
    for behind in [0, 1, 5] {
        let (fake, target) = device();
        let records = ten_records(&fake, target);
        let (_, place, length, data) = records[9];
        let end = place + Bytes(length) + BLOCK * u64::from(data);
        fake.disk.lose(end + BLOCK * behind);
        let target = fake.run(Target::open(fake.env())).unwrap();
        let ready = fake.run(target.objects().ready());
        if behind == 0 {
            // A record there would have been acknowledged, as far as anybody knows.
            assert_eq!(refused(ready).kind, Kind::Device);
            continue;
        }
        ready.unwrap_or_else(|error| panic!("{behind} blocks behind the last record: {error}"));
        (1..=10).filter(|n| *n != 7).for_each(|n| assert_eq!(read(&fake, &target, n, 0, 100).unwrap(), [n as u8; 40]));
    }
}

#[test]
fn a_damaged_block_of_a_log_costs_its_object_only_and_is_said_when_it_is_read() {
    let (fake, target) = device();
    let records = ten_records(&fake, target);
    let (_, place, length, data) = records[6];
    assert_eq!(data, 2);
    fake.disk.flip(place + Bytes(length) + BLOCK + Bytes(9));
    let target = opened(&fake);
    for object in (1..=10).filter(|object| *object != 7) {
        assert_eq!(read(&fake, &target, object, 0, 100).unwrap(), vec![object as u8; 40]);
    }
    assert!(read(&fake, &target, 7, 0, BLOCK.0).unwrap() == numbered(1));
    let error = refused(read(&fake, &target, 7, 0, 2 * BLOCK.0));
    assert!(error.kind == Kind::Damaged && error.message.contains("1/7"), "{error}");
    assert!(error.message.contains("offset 4096"), "{error}");
    assert!(error.message.ends_with("; write these bytes again, or put it anew"), "{error}");
    // Others go home all the same, from this log and from others, and it is still said.
    for _ in 0..40 {
        write(&fake, &target, 3, 0, &numbered(2), Placement::Log).unwrap();
    }
    fake.run(target.objects().take_home()).unwrap();
    assert_eq!(target.objects().redirected(), BLOCK, "only what is damaged stays");
    assert_eq!(refused(read(&fake, &target, 7, 0, 2 * BLOCK.0)).kind, Kind::Damaged);
    // Written anew, it is whole.
    write(&fake, &target, 7, 0, &numbered(2), Placement::Log).unwrap();
    assert!(read(&fake, &target, 7, 0, 1 << 20).unwrap() == numbered(2));
}

#[test]
fn a_damaged_record_that_names_other_logs_is_not_taken_for_a_torn_tail() {
    let (fake, target) = device();
    (1..=10).for_each(|object| create(&fake, &target, object));
    fake.run(target.objects().checkpoint()).unwrap();
    let before = target.objects().work.borrow().last;
    let first = records(&fake, &target).len();
    // Large enough that another log is opened, and not so many that a checkpoint comes between.
    for object in 1..=10 {
        write(&fake, &target, object, 0, &numbered(1), Placement::Log).unwrap();
    }
    let found = records(&fake, &target);
    let open = target.objects().work.borrow().meta.logs.open();
    assert!(found.len() > first && open > 1, "{first}, then {} records; {open} logs are open", found.len());
    let opening = opening(&fake, &target, before);
    drop(target);
    fake.kill();
    fake.disk.flip(opening + Bytes(30));
    let target = fake.run(Target::open(fake.env())).unwrap();
    let error = fake.run(target.objects().ready()).err();
    let acknowledged = error.is_some() || (1..=10).all(|n| read(&fake, &target, n, 0, 9).is_ok_and(|b| b.len() == 9));
    assert!(acknowledged, "what was acknowledged is gone, and nobody says so");
}

/// Where the first record after number `before` lies that names other logs.
fn opening(fake: &Fake, target: &Target, before: u64) -> Bytes {
    let objects: &Objects = target.objects();
    let groups: Vec<u32> = objects.work.borrow().meta.logs.to_read().iter().map(|(group, _)| *group).collect();
    let mut opening = None;
    for group in groups {
        let capacity = objects.work.borrow().meta.logs.capacity();
        let (bytes, _) = fake.run(objects.read_log(objects.stream, group, 0, capacity)).unwrap();
        let start = objects.work.borrow().meta.logs.at(group, 0);
        replay::scan(objects.core.mark(), group, 0, &bytes, |entry| {
            if let Found::Record(record) = entry
                && record.stamp.number > before
                && matches!(record.changes[..], [super::record::Change::Opens(_)])
            {
                opening.get_or_insert(BLOCK * (start + u64::from(record.stamp.block)));
            }
        });
    }
    opening.expect("another log was opened")
}

#[test]
fn opening_reads_few_logs_however_many_were_written_to() {
    let (fake, target) = device();
    create(&fake, &target, 1);
    for n in 0..300 {
        write(&fake, &target, 1, n * BLOCK.0, &numbered(1), Placement::Log).unwrap();
        assert!(target.objects().work.borrow().meta.logs.open() <= logs::MOST_OPEN);
    }
    let target = again(&fake, target);
    let all = read(&fake, &target, 1, 0, 1 << 30).unwrap();
    assert!(all.len() as u64 == 300 * BLOCK.0 && all.iter().all(|byte| *byte == 1));
}

#[test]
fn a_target_that_was_closed_takes_no_more_commands() {
    let (fake, target) = device();
    create(&fake, &target, 1);
    fake.run(target.close()).unwrap();
    refused(fake.run(target.objects().create(id(2), Vec::new())));
    refused(write(&fake, &target, 1, 0, b"x", Placement::Log));
    refused(write(&fake, &target, 1, 0, b"x", Placement::Home));
}

#[test]
fn a_failed_write_is_said_to_all_and_nothing_more_is_written() {
    let (fake, target) = device();
    (1..=3).for_each(|object| create(&fake, &target, object));
    write(&fake, &target, 1, 0, b"kept", Placement::Log).unwrap();
    fake.disk.fail_writes(true);
    let error = refused(write(&fake, &target, 2, 0, b"lost", Placement::Log));
    fake.disk.fail_writes(false);
    assert_eq!(error.kind, Kind::Device, "{error}");
    assert_eq!(refused(write(&fake, &target, 3, 0, b"more", Placement::Home)).kind, Kind::Device);
    assert_eq!(refused(fake.run(target.objects().checkpoint())).kind, Kind::Device);
    let target = again(&fake, target);
    assert_eq!(read(&fake, &target, 1, 0, 9).unwrap(), b"kept");
    assert_eq!(read(&fake, &target, 2, 0, 9).unwrap(), [0u8; 0]);
}

#[test]
fn a_device_full_of_bytes_keeps_room_for_what_is_known_of_them() {
    let (fake, target) = device();
    let last = fill(&fake, &target, 200);
    // Attributes of many objects are more than the tables had room for when the device became full.
    let mut refusal = None;
    for object in 1..=last {
        let set = |page| (0..8).map(|number| (page, number, Some(vec![1; 4000]))).collect();
        for page in 0..8 {
            match fake.run(target.objects().set_attributes(id(object), set(page))) {
                Ok(()) => {}
                Err(error) => refusal = Some(error),
            }
        }
    }
    // Whatever is refused is refused for want of room, and that is not the end of anything.
    if let Some(error) = &refusal {
        assert_eq!(error.kind, Kind::Full, "{error}");
    }
    assert!(read(&fake, &target, 1, 0, 1 << 20).unwrap() == numbered(200));
    let target = again(&fake, target);
    assert!(read(&fake, &target, 1, 0, 1 << 20).unwrap() == numbered(200));
    for object in 1..=last {
        fake.run(target.objects().remove(id(object))).unwrap_or_else(|e| panic!("removing {object}: {e}"));
    }
    fake.run(target.close()).unwrap();
}

#[test]
fn a_target_without_objects_gives_them_no_space() {
    let fake = Fake::new(Bytes::mib(64), false);
    let target = fake.target();
    let free = target.free_runs();
    fake.run(target.close()).unwrap();
    assert_eq!(target.free_runs(), free);
    let target = again(&fake, target);
    assert_eq!(target.free_runs(), free);
}

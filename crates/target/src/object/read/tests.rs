use crate::Target;
use crate::fake::Fake;
use crate::object::lent::joined;
use crate::object::rows::BLOCK;
use crate::object::testing;
use crate::object::{How, Objects, Placement};
use crate::seeds::each;
use forebay_model::object::Durability;
use forebay_model::{Bytes, Kind, ObjectId};
use std::rc::Rc;
use std::time::Duration;

const ONE: ObjectId = ObjectId { volume: 1, object: 1 };
const STEP: u64 = 16 << 10;

/// A device of 64 MiB with an object of `blocks` that lies at home, each block of its own bytes.
fn device(blocks: u64) -> (Fake, Rc<Target>, Vec<u8>) {
    let (fake, target) = testing::device(Bytes::mib(64));
    fake.run(target.objects().create(ONE, Vec::new())).unwrap();
    let bytes: Vec<u8> = (0..blocks * BLOCK.0).map(|at| (at / BLOCK.0 * 7 + at % 251) as u8).collect();
    fake.run(target.objects().write(target.stream(), ONE, 0, &bytes, Placement::Home)).unwrap();
    (fake, target, bytes)
}

fn objects(target: &Target) -> &Rc<Objects> {
    target.objects()
}

fn read(fake: &Fake, target: &Target, offset: u64, length: u64) -> Vec<u8> {
    fake.run(objects(target).read(target.stream(), ONE, offset, length)).unwrap()
}

/// Lets everything under way end.
fn settle(fake: &Fake) {
    fake.wait(Duration::from_millis(100));
}

#[test]
fn who_goes_on_reading_asks_nothing_of_the_device_and_gets_the_same_bytes() {
    let (fake, target, bytes) = device(2000);
    for at in (0..bytes.len() as u64).step_by(STEP as usize) {
        assert!(read(&fake, &target, at, STEP) == bytes[at as usize..][..STEP.min(bytes.len() as u64 - at) as usize]);
        settle(&fake);
    }
    let counters = objects(&target).read_counters();
    assert_eq!(counters.reads - counters.ahead, 2, "{counters:?}: the first two could not be foreseen");
    assert_eq!((counters.stale, counters.awaited), (0, 0), "{counters:?}");
    assert!(counters.read_ahead <= Bytes(bytes.len() as u64), "nothing is read twice: {counters:?}");
}

#[test]
fn who_jumps_about_has_nothing_read_ahead() {
    let (fake, target, bytes) = device(2000);
    // Forward by more than may be left out, and backward by less.
    for n in 0..100 {
        let at = (bytes.len() as u64 - STEP) / BLOCK.0 * BLOCK.0 - n * BLOCK.0 * 3;
        read(&fake, &target, at - if n % 2 == 0 { 0 } else { 3 << 20 }, BLOCK.0);
    }
    let counters = objects(&target).read_counters();
    assert_eq!((counters.reads, counters.ahead, counters.read_ahead), (100, 0, Bytes::ZERO), "{counters:?}");
}

#[test]
fn bytes_that_were_read_ahead_and_overwritten_are_never_returned() {
    let (fake, target, mut bytes) = device(1000);
    for at in 0..4 {
        read(&fake, &target, at * STEP, STEP);
    }
    settle(&fake);
    assert!(objects(&target).read_counters().read_ahead > Bytes::ZERO);
    // What was read ahead is overwritten: through a log, and at home; then others take what that freed.
    for (offset, length, place) in [(5 * STEP, 3000, Placement::Auto), (6 * STEP, 4 * STEP, Placement::Home)] {
        let new = vec![0xee; length as usize];
        bytes[offset as usize..][..length as usize].copy_from_slice(&new);
        fake.run(objects(&target).write(target.stream(), ONE, offset, &new, place)).unwrap();
    }
    let other = ObjectId { volume: 1, object: 2 };
    fake.run(objects(&target).create(other, Vec::new())).unwrap();
    fake.run(objects(&target).write(target.stream(), other, 0, &vec![0x55; 8 << 20], Placement::Home)).unwrap();
    for at in 4..20 {
        assert!(read(&fake, &target, at * STEP, STEP) == bytes[(at * STEP) as usize..][..STEP as usize], "at {at}");
    }
    assert_eq!(fake.run(objects(&target).read(target.stream(), other, 0, u64::MAX)).unwrap(), vec![0x55; 8 << 20]);
}

#[test]
fn blocks_that_rot_before_they_are_read_ahead_are_said_to_be_damaged_and_others_are_read() {
    let (fake, target, bytes) = device(1000);
    let at = {
        let work = objects(&target).work.borrow();
        BLOCK * work.stretches(ONE, 100, 101)[0].at
    };
    fake.disk.flip(at + Bytes(77));
    let mut damaged = 0;
    for n in 0..100 {
        match fake.run(objects(&target).read(target.stream(), ONE, n * STEP, STEP)) {
            Ok(got) => assert!(got == bytes[(n * STEP) as usize..][..STEP as usize]),
            Err(error) => {
                assert_eq!((error.kind, n), (Kind::Damaged, 100 * BLOCK.0 / STEP), "{error}");
                damaged += 1;
            }
        }
        settle(&fake);
    }
    assert_eq!((damaged, objects(&target).counters().damaged), (1, 1));
}

#[test]
fn a_cache_of_nothing_reads_nothing_ahead() {
    let (fake, target, bytes) = device(500);
    objects(&target).set_cache(Bytes::ZERO);
    for n in 0..100 {
        assert!(read(&fake, &target, n * STEP, STEP) == bytes[(n * STEP) as usize..][..STEP as usize]);
    }
    let counters = objects(&target).read_counters();
    assert_eq!((counters.ahead, counters.read_ahead), (0, Bytes::ZERO));
}

#[test]
fn readers_and_writers_of_one_object_never_see_a_mix_whatever_is_in_the_cache() {
    // Each block is all of one byte, and each write is, too: a block that is a mix was returned half old.
    each(6, |random| {
        let (fake, target, _) = device(600);
        if random.once_in(2) {
            objects(&target).set_cache(Bytes::mib(1));
        }
        let fill = vec![1; 600 * BLOCK.0 as usize];
        fake.run(objects(&target).write(target.stream(), ONE, 0, &fill, Placement::Home)).unwrap();
        let spawner = target.disk().env().spawner.clone();
        let readers: Vec<_> = (0..4)
            .map(|reader| {
                let target = target.clone();
                let step = (1 + reader) * BLOCK.0 * 3;
                spawner.spawn(async move {
                    let stream = target.stream();
                    for n in 0..60 {
                        let at = n * step % (500 * BLOCK.0);
                        let bytes = objects(&target).read(stream, ONE, at, step).await.unwrap();
                        for block in bytes.chunks(BLOCK.0 as usize) {
                            assert!(block.iter().all(|byte| *byte == block[0] && *byte > 0), "a block is a mix");
                        }
                    }
                })
            })
            .collect();
        for n in 0..40 {
            let (at, blocks) = (random.below(500), 1 + random.below(90));
            let bytes = vec![2 + n as u8; (blocks * BLOCK.0) as usize];
            let place = if random.once_in(2) { Placement::Home } else { Placement::Auto };
            fake.run(objects(&target).write(target.stream(), ONE, at * BLOCK.0, &bytes, place)).unwrap();
            if random.once_in(10) {
                fake.run(objects(&target).take_home()).unwrap();
            }
        }
        for reader in readers {
            fake.run(reader);
        }
    });
}

#[test]
fn who_reads_what_changes_all_the_time_is_answered_and_does_not_wait_for_the_end_of_that() {
    for riding in [false, true] {
        let (fake, target, bytes) = device(1000);
        let (writer, done) = (target.clone(), Rc::new(std::cell::Cell::new(false)));
        let (read, clock) = (done.clone(), fake.env().clock);
        let writes = fake.env().spawner.spawn(async move {
            let how = How { durability: Durability::Buffered, ..How::default() };
            let mut writes = 0;
            while !read.get() && writes < 3000 {
                let block = [writes as u8; BLOCK.0 as usize];
                writer.objects().write_as(writer.stream(), ONE, Some(0), &block, &how).await.unwrap();
                clock.sleep(Duration::from_millis(1)).await;
                writes += 1;
            }
            writes
        });
        fake.wait(Duration::from_millis(5));
        let (stream, length) = (target.stream(), bytes.len() as u64);
        let answer = match riding {
            true => joined(fake.run(objects(&target).read_with(stream, ONE, 0, length, 1, 100)).unwrap().0),
            false => fake.run(objects(&target).read(stream, ONE, 0, length)).unwrap(),
        };
        done.set(true);
        let writes = fake.run(writes);
        assert!(writes < 1000, "it waited for {writes} writes");
        assert!(answer[BLOCK.0 as usize..] == bytes[BLOCK.0 as usize..]);
        assert!(answer[..BLOCK.0 as usize].iter().all(|byte| *byte == answer[0]), "a mix of two writes");
    }
}

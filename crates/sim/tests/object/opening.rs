//! After a crash at the worst of moments, with as many logs open as there may be and tens of thousands of objects, a disk
//! of true size opens within seconds: what is read is bounded by the logs, not by what the target holds.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use forebay_env::{Buffer, Env, Spawner};
use forebay_model::ring::RingSpec;
use forebay_model::{Bytes, ObjectId, Rate};
use forebay_sim::World;
use forebay_sim::disk::presets;
use forebay_sim::feeder::Feeder;
use forebay_target::Target;
use forebay_target::object::Placement;
use forebay_target::object::rows::{BLOCK, Quota};
use forebay_target::profile::{MeasureOptions, measure};
use std::rc::Rc;
use std::time::Duration;

const VOLUME: u64 = 1;
const RING: &str = "/ring";
/// Four fifths of what the disk can promise.
const RATE: Rate = Rate::mb(60);
const OBJECTS: u64 = 20_000;
/// Those who write at once, and the bytes of each write: far more than a checkpoint keeps up with.
const WRITERS: u64 = 16;
const WRITE: usize = 252 << 10;
/// What logs may be read of, and how long it may take (`docs/promises/object.md`).
const MOST_READ: Bytes = Bytes::mib(160);
const MOST_TIME: Duration = Duration::from_secs(5);

fn id(object: u64) -> ObjectId {
    ObjectId { volume: VOLUME, object }
}

/// Makes many objects with a few bytes each.
async fn make(env: Env, spawner: Spawner) {
    let geometry = env.device.geometry();
    let options = MeasureOptions::for_extent(geometry.size, geometry.rotates, true);
    let profile = measure(&env, Bytes::ZERO..geometry.size, options, &mut |_| ()).await.unwrap();
    Target::format(env.clone(), profile).await.unwrap();
    let target = Target::open(env).await.unwrap();
    let mut spec = RingSpec::new(RING, Bytes::gib(20));
    spec.guarantee = RATE;
    target.create_ring(spec).await.unwrap().ready().await.unwrap();
    target.objects().create_volume(VOLUME, Quota::default()).await.unwrap();
    let makers: Vec<_> = (0..64)
        .map(|maker| {
            let target = target.clone();
            spawner.spawn(async move {
                let stream = target.stream();
                for object in (1..=OBJECTS).filter(|object| object % 64 == maker) {
                    target.objects().create(id(object), vec![(9, 1, vec![7; 100])]).await.unwrap();
                    target.objects().write(stream, id(object), 0, &[1; 5000], Placement::Auto).await.unwrap();
                }
            })
        })
        .collect();
    for maker in makers {
        maker.await;
    }
    target.close().await.unwrap();
}

/// Writes into logs until the power goes.
async fn crowd(target: Rc<Target>, writer: u64) {
    let (stream, bytes) = (target.stream(), vec![writer as u8 | 1; WRITE]);
    let random = target.disk().env().random.clone();
    loop {
        let object = 1 + random.below(OBJECTS);
        let offset = random.below(64) << 18;
        if target.objects().write(stream, id(object), offset, &bytes, Placement::Log).await.is_err() {
            return;
        }
    }
}

/// Records at the promised rate, so that little is left for checkpoints.
async fn record(target: Rc<Target>, epoch: u64) {
    let clock = target.disk().env().clock.clone();
    let ring = target.ring(RING).unwrap();
    ring.ready().await.unwrap();
    let mut feeder = Feeder::new(ring, clock.clone(), epoch).unwrap();
    let (element, began, mut given) = (vec![1; 1 << 20], clock.now(), 0);
    loop {
        while given < RATE.bytes_in(clock.now().since(began)).0 {
            if feeder.room_or_take(element.len()) && feeder.element(clock.wall(), &[&element]).await.is_err() {
                return;
            }
            given += element.len() as u64;
        }
        feeder.tick(Duration::from_millis(400)).unwrap();
        clock.sleep(Duration::from_millis(5)).await;
    }
}

/// Moves the arm about, so that logs are opened all over the disk.
async fn roam(target: Rc<Target>) {
    let (disk, stream) = (target.disk().clone(), target.stream());
    let env = disk.env().clone();
    let size = env.device.geometry().size;
    loop {
        let at = Bytes(env.random.below(size.0 - (1 << 20)) / 4096 * 4096);
        if disk.read(stream, at, Buffer::alone(Bytes::kib(256)).unwrap()).await.1.is_err() {
            return;
        }
    }
}

#[test]
fn a_target_with_crowded_logs_and_many_objects_opens_within_seconds() {
    let world = World::new(5);
    let disk = world.disk(presets::sata7200());
    world.run(make(world.env(disk.clone()), world.spawner()));
    world.kill();
    let (mut most, mut slowest) = (Bytes::ZERO, Duration::ZERO);
    for life in 0..12 {
        let env = world.env(disk.clone());
        let target = world.run(Target::open(env.clone())).unwrap();
        world.run(target.objects().ready()).unwrap();
        for writer in 0..WRITERS {
            world.spawner().detach(crowd(target.clone(), writer));
        }
        world.spawner().detach(record(target.clone(), life + 1));
        if life % 2 == 0 {
            world.spawner().detach(roam(target.clone()));
        }
        // So long as fills some of the logs, or all that may be open, with checkpoints in between.
        let before = disk.counters().bytes_written;
        world.run(env.clock.sleep(Duration::from_millis(500 + env.random.below(8000))));
        let written = disk.counters().bytes_written - before;
        drop(target);
        world.crash(&[&disk]);
        let (before, began) = (disk.counters().bytes_read, world.now());
        let target = world.run(Target::open(world.env(disk.clone()))).unwrap();
        world.run(target.objects().ready()).unwrap();
        let (all, time) = (disk.counters().bytes_read - before, world.now().since(began));
        let read = BLOCK * target.objects().counters().replayed;
        println!("after {written} were written: {read} of logs read and {} beside, ready in {time:.2?}", all - read);
        (most, slowest) = (most.max(read), slowest.max(time));
        assert_eq!(world.run(target.objects().list(VOLUME, 1, usize::MAX)).unwrap().len() as u64, OBJECTS);
        drop(target);
        world.kill();
    }
    assert!(most > Bytes::mib(80), "logs that were hardly filled show nothing: {most}");
    assert!(most <= MOST_READ, "{most} read");
    assert!(slowest <= MOST_TIME, "ready after {slowest:?}");
}

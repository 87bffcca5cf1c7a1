//! What the maps of objects take of memory stays below what the target says, however many objects there are and however
//! scattered they lie: counted by the allocator, on a device that is a file.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod counting;

use counting::{begin, most};
use forebay_env::{Buffer, Device, DeviceFuture, Env, Geometry};
use forebay_model::{Bytes, ObjectId, Profile, Result};
use forebay_sim::World;
use forebay_target::Target;
use forebay_target::object::Placement;
use forebay_target::object::rows::Quota;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::rc::Rc;

/// A device whose bytes are not in memory.
struct InFile {
    path: PathBuf,
    file: File,
    size: Bytes,
}

impl InFile {
    fn new(size: Bytes) -> InFile {
        let name = format!("object-memory-{}", std::process::id());
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        file.set_len(size.0).unwrap();
        InFile { path, file, size }
    }
}

impl Drop for InFile {
    fn drop(&mut self) {
        std::fs::remove_file(&self.path).unwrap();
    }
}

impl Device for InFile {
    fn geometry(&self) -> Geometry {
        Geometry { size: self.size, block: Bytes(4096), rotates: false, plain: None, name: "a file".to_owned() }
    }

    fn read(&self, offset: Bytes, mut buffer: Buffer) -> DeviceFuture<(Buffer, Result<()>)> {
        self.file.read_exact_at(&mut buffer, offset.0).unwrap();
        Box::pin(std::future::ready((buffer, Ok(()))))
    }

    fn write(&self, offset: Bytes, buffer: Buffer) -> DeviceFuture<(Buffer, Result<()>)> {
        self.file.write_all_at(&buffer, offset.0).unwrap();
        Box::pin(std::future::ready((buffer, Ok(()))))
    }

    fn write_durable(&self, offset: Bytes, buffer: Buffer) -> DeviceFuture<(Buffer, Result<()>)> {
        self.write(offset, buffer)
    }

    fn flush(&self) -> DeviceFuture<Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

const VOLUME: u64 = 1;
/// Memory for rows: a quarter of what is usual, so that fewer of them are several times as much.
const ROWS: Bytes = Bytes::mib(64);
/// Objects with an attribute each, whose rows are several times what may be in memory.
const OBJECTS: u64 = 80_000;
const ATTRIBUTE: usize = 4000;
/// Blocks of an object of which every second one is free again.
const SCATTERED: u64 = 40_000;
/// Memory for I/O that there is beside maps: buffers, records, one log at opening.
const BESIDE: Bytes = Bytes::mib(64);

fn id(object: u64) -> ObjectId {
    ObjectId { volume: VOLUME, object }
}

fn attribute(object: u64) -> Vec<u8> {
    vec![object as u8; ATTRIBUTE]
}

async fn fill(env: &Env) {
    Target::format(env.clone(), Profile::guess(env.device.geometry().size, false)).await.unwrap();
    let before = begin();
    let target = Target::open(env.clone()).await.unwrap();
    let objects = target.objects();
    objects.set_cache(Bytes::ZERO);
    objects.set_rows_in_memory(ROWS);
    objects.create_volume(VOLUME, Quota::default()).await.unwrap();
    for object in 1..=OBJECTS {
        objects.create(id(object), vec![(7, 1, attribute(object))]).await.unwrap();
    }
    let scattered = id(u64::MAX);
    objects.create(scattered, Vec::new()).await.unwrap();
    for at in (0..SCATTERED).step_by(1000) {
        let bytes = vec![1; 1000 << 12];
        objects.write(target.stream(), scattered, at << 12, &bytes, Placement::Home).await.unwrap();
    }
    for block in (0..SCATTERED).step_by(2) {
        objects.punch(scattered, block << 12, 4096).await.unwrap();
    }
    let limit = objects.map_memory().limit;
    println!("filling took {} of {limit}, {} of them rows", most(before), objects.map_memory().used);
    assert!(most(before) <= limit + BESIDE, "{} of {limit}", most(before));
    // Not closed: opening replays.
    assert!(objects.counters().checkpoints > 3, "{:?}", objects.counters());
}

async fn look_at_all(env: &Env) {
    let before = begin();
    let target = Target::open(env.clone()).await.unwrap();
    let objects = target.objects();
    objects.ready().await.unwrap();
    objects.set_cache(Bytes::ZERO);
    objects.set_rows_in_memory(ROWS);
    println!("opening took {}", most(before));
    for object in (1..=OBJECTS).chain((1..=OBJECTS).step_by(97)) {
        assert_eq!(objects.attributes(id(object), 7).await.unwrap(), [(1, attribute(object))]);
    }
    let bytes = objects.read(target.stream(), id(u64::MAX), 0, 1000 << 12).await.unwrap();
    let block = |n: usize| &bytes[n << 12..(n + 1) << 12];
    assert!((0..1000).all(|n| block(n).iter().all(|byte| *byte == (n % 2) as u8)));
    let maps = objects.map_memory();
    println!("looking at all took {}, of it rows {}; limit {}", most(before), maps.used, maps.limit);
    // What has not changed is forgotten; the rows of all objects would be several times as much.
    let rows = OBJECTS * ATTRIBUTE as u64;
    assert!(rows > 4 * Bytes::mib(72).0 && maps.used < Bytes::mib(80), "{maps:?}");
    assert!(most(before) < Bytes::mib(80) + BESIDE && most(before) < maps.limit, "{} of {maps:?}", most(before));
    target.close().await.unwrap();
}

#[test]
fn maps_take_no_more_memory_than_the_target_says_however_many_objects_there_are() {
    let world = World::new(1);
    let device = Rc::new(InFile::new(Bytes::gib(2)));
    let env = Env { device, ..world.env(world.disk(forebay_sim::disk::presets::ssd().scaled(10_000))) };
    world.run(fill(&env));
    world.run(look_at_all(&env));
}

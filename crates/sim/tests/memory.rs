//! What a ring takes of memory stays below what it says, whatever the ring's size and the elements': counted by the
//! allocator, on a device that keeps nothing.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod counting;

use counting::{begin, most};
use forebay_env::{Buffer, Device, DeviceFuture, Env, Geometry};
use forebay_model::ring::RingSpec;
use forebay_model::{Bytes, Profile, Rate, Result, Timestamp};
use forebay_sim::World;
use forebay_sim::feeder::Feeder;
use forebay_target::Target;
use std::cell::RefCell;
use std::rc::Rc;

/// A device that keeps its first mebibytes, where roots and checkpoints are, and nothing else.
struct Hollow {
    size: Bytes,
    head: RefCell<Vec<u8>>,
}

impl Hollow {
    fn ready(&self, buffer: Buffer) -> DeviceFuture<(Buffer, Result<()>)> {
        Box::pin(std::future::ready((buffer, Ok(()))))
    }
}

impl Device for Hollow {
    fn geometry(&self) -> Geometry {
        Geometry { size: self.size, block: Bytes(4096), rotates: false, plain: None, name: "hollow".to_owned() }
    }

    fn read(&self, offset: Bytes, mut buffer: Buffer) -> DeviceFuture<(Buffer, Result<()>)> {
        let head = self.head.borrow();
        match head.get(offset.0 as usize..offset.0 as usize + buffer.len()) {
            Some(bytes) => buffer.copy_from_slice(bytes),
            None => buffer.fill(0),
        }
        self.ready(buffer)
    }

    fn write(&self, offset: Bytes, buffer: Buffer) -> DeviceFuture<(Buffer, Result<()>)> {
        if let Some(bytes) = self.head.borrow_mut().get_mut(offset.0 as usize..offset.0 as usize + buffer.len()) {
            bytes.copy_from_slice(&buffer);
        }
        self.ready(buffer)
    }

    fn write_durable(&self, offset: Bytes, buffer: Buffer) -> DeviceFuture<(Buffer, Result<()>)> {
        self.write(offset, buffer)
    }

    fn flush(&self) -> DeviceFuture<Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

struct Case {
    capacity: Bytes,
    element: usize,
    keys: &'static [&'static str],
    index_percent: u8,
    segments: u64,
}

async fn record(env: Env, case: &Case) {
    Target::format(env.clone(), Profile::guess(env.device.geometry().size, false)).await.unwrap();
    let before = begin();
    let target = Target::open(env.clone()).await.unwrap();
    let mut spec = RingSpec::new("/a", case.capacity);
    spec.guarantee = Rate::mb(20);
    spec.keys = case.keys.iter().map(|k| (*k).to_owned()).collect();
    spec.index_percent = case.index_percent;
    let ring = target.create_ring(spec).await.unwrap();
    ring.ready().await.unwrap();
    let limit = ring.memory_limit();
    assert_eq!(limit.total(), ring.status().memory_limit);
    let mut feeder = Feeder::new(ring.clone(), env.clock.clone(), 1).unwrap();
    let mut element = vec![0u8; case.element];
    let (mut number, mut index) = (0u64, Bytes::ZERO);
    while number * (case.element as u64) < case.segments * (90 << 20) {
        for _ in 0..((1 << 20) / case.element).max(1) {
            element[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
            element[8..12].copy_from_slice(&((number % 70_000) as u32).to_le_bytes());
            feeder.element(Timestamp(number as i64), &[&element]).await.unwrap();
            number += 1;
        }
        index = index.max(ring.status().index_memory);
    }
    feeder.durable().await.unwrap();
    let heap = most(before);
    let allowed = limit.total() - limit.staging;
    println!(
        "{} of {} B, {} keys, index {} %: {heap} of {allowed} beside {} of staging; index {index} of {}; {limit:?}",
        case.capacity,
        case.element,
        case.keys.len(),
        ring.status().spec.index_percent,
        limit.staging,
        limit.index
    );
    assert!(heap <= allowed, "{heap} in use where {allowed} was said");
    assert!(index <= limit.index, "an index of {index} where {} was said", limit.index);
    assert!(ring.status().staging_peak <= limit.staging);
}

#[test]
fn a_ring_takes_no_more_memory_than_it_says_whatever_its_size_and_its_elements() {
    let keys = &["id=u64le@0", "often=u32le@8"][..];
    for case in [
        Case { capacity: Bytes::gib(1), element: 1024, keys, index_percent: 0, segments: 3 },
        Case { capacity: Bytes::gib(1), element: 64, keys, index_percent: 0, segments: 2 },
        Case { capacity: Bytes::gib(1), element: 20, keys, index_percent: 0, segments: 2 },
        Case { capacity: Bytes::gib(1), element: 20, keys: &keys[..1], index_percent: 8, segments: 2 },
        Case { capacity: Bytes::gib(1), element: 20, keys: &[], index_percent: 0, segments: 2 },
        Case { capacity: Bytes::gib(100), element: 4096, keys, index_percent: 0, segments: 40 },
        Case { capacity: Bytes::gib(1300), element: 1 << 20, keys, index_percent: 0, segments: 40 },
    ] {
        let world = World::new(1);
        let size = Bytes(1_500_299_395_072);
        let device = Rc::new(Hollow { size, head: RefCell::new(vec![0; 40 << 20]) });
        let env = Env { device, ..world.env(world.disk(forebay_sim::disk::presets::ssd().scaled(10_000))) };
        world.run(record(env, &case));
    }
}

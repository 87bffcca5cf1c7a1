//! What the device gives to raw I/O, without rings and elements: the limit beside what was measured.

use forebay_env::real::{self, OpenMode, Options};
use forebay_env::{Buffer, Env, Slab};
use forebay_model::{Bytes, Error, Rate, Result};
use forebay_sim::limit;
use forebay_sim::logs::BLOCK;
use forebay_target::Target;
use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

/// What raw large sequential writes reach on the device: 1 MiB each, eight in flight, for at most one pass.
pub(in crate::bench) fn writes(path: &Path, size: Bytes, seconds: Duration) -> Result<Rate> {
    let opened = real::open(path, OpenMode::Exclusive)?;
    real::run(Options { device: opened }, move |env| go_through(env, Bytes::ZERO..size, seconds, true))?
}

/// The same of reads.
pub(in crate::bench) fn reads(path: &Path, size: Bytes, seconds: Duration) -> Result<Rate> {
    let opened = real::open(path, OpenMode::Inspect)?;
    real::run(Options { device: opened }, move |env| go_through(env, Bytes::ZERO..size, seconds, false))?
}

/// Either of them on a part of a device that is open.
pub(in crate::bench) async fn go_through(
    env: Env,
    part: Range<Bytes>,
    seconds: Duration,
    writes: bool,
) -> Result<Rate> {
    let slab = Slab::new(Bytes::mib(1), 8)?;
    let start = env.clock.now();
    let mut in_flight = VecDeque::new();
    let mut at = part.start;
    let mut moved = Bytes::ZERO;
    loop {
        let over = env.clock.now().since(start) >= seconds || at + Bytes::mib(1) > part.end;
        if over && in_flight.is_empty() {
            break;
        }
        match (over, slab.try_take()) {
            (false, Some(mut buffer)) => {
                let io = if writes {
                    fill(&mut buffer, at);
                    env.device.write(at, buffer)
                } else {
                    env.device.read(at, buffer)
                };
                in_flight.push_back(env.spawner.spawn(io));
                at += Bytes::mib(1);
            }
            (_, buffer) => {
                drop(buffer);
                if let Some(io) = in_flight.pop_front() {
                    let (_buffer, result) = io.await;
                    result?;
                    moved += Bytes::mib(1);
                }
            }
        }
    }
    if writes {
        env.device.flush().await?;
    }
    Ok(Rate::of(moved, env.clock.now().since(start)))
}

/// How long one write of 4 KiB takes until it is durable, by itself and at a place of chance: the mean over `span`.
pub(in crate::bench) async fn durable(env: &Env, span: Duration) -> Result<Duration> {
    let (begin, size) = (env.clock.now(), env.device.geometry().size);
    let mut buffer = Buffer::alone(BLOCK)?;
    let mut written = 0;
    while written == 0 || env.clock.now().since(begin) < span {
        let at = BLOCK * env.random.below(size.0 / BLOCK.0);
        fill(&mut buffer, at);
        let (back, result) = env.device.write(at, buffer).await;
        result?;
        env.device.flush().await?;
        (buffer, written) = (back, written + 1);
    }
    Ok(env.clock.now().since(begin) / written)
}

/// No two blocks alike, so that nothing below saves work that real data would cost.
pub(in crate::bench) fn fill(buffer: &mut [u8], at: Bytes) {
    for (i, part) in buffer.chunks_exact_mut(512).enumerate() {
        part[..8].copy_from_slice(&(at.0 + i as u64 * 512).to_le_bytes());
    }
}

/// What one reader gets beside a writer of `write`, both with raw large I/O in turns, at the places of `ring`: what
/// the limit is in simulation. Overwrites the ring.
pub(super) fn alternating(path: &Path, ring: &str, write: Rate, span: Duration) -> Result<Rate> {
    let places = places(path, ring)?;
    let opened = real::open(path, OpenMode::Exclusive)?;
    real::run(Options { device: opened }, move |env| async move {
        let at = Cell::new(Bytes::ZERO);
        let fill_next = |buffer: &mut Buffer| {
            let next = at.get() + Bytes(buffer.len() as u64);
            fill(buffer, at.replace(next));
        };
        limit::on_device(&env, &places, write, span, &fill_next).await
    })?
}

/// Where the ring lies on the device.
fn places(path: &Path, ring: &str) -> Result<Vec<Range<Bytes>>> {
    let opened = real::open(path, OpenMode::Inspect)?;
    let inspected = real::run(Options { device: opened }, |env| async move { Target::inspect(env).await })?;
    let (superblock, catalog, _) = inspected?;
    let record = catalog.rings.values().find(|record| record.spec.name == ring);
    let record = record.ok_or_else(|| Error::missing(format!("{} has no ring {ring}", path.display())))?;
    Ok(superblock.layout.runs(record.groups.iter().flatten().copied()))
}

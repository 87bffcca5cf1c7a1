//! One user that writes on where its last write of an object ended, each write durable before the next, beside a reader
//! or alone: what it gets, what the reader keeps, and what it costs afterwards to have all of it at home.

use crate::disk::DiskSpec;
use crate::fresh;
use crate::world::World;
use forebay_env::Clock;
use forebay_model::{Bytes, Error, Moment, ObjectId, Rate, Result};
use forebay_target::object::Placement;
use forebay_target::{Objects, Target};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// The volume of all objects.
const VOLUME: u64 = 1;
/// What is appended to.
const APPENDED: ObjectId = ObjectId { volume: VOLUME, object: 1 };
/// What is read from its beginning to its end and again.
const READ: ObjectId = ObjectId { volume: VOLUME, object: 2 };
/// How large that is, and what is asked for at once.
const FILE: Bytes = Bytes::mib(512);
const PIECE: Bytes = Bytes::mib(4);

/// What is run.
#[derive(Debug, Clone)]
pub struct Load {
    /// The disk.
    pub disk: DiskSpec,
    /// Bytes of each write.
    pub size: Bytes,
    /// Where writes go.
    pub placement: Placement,
    /// From one write to the next; or as soon as the last one is durable.
    pub pace: Option<Duration>,
    /// Whether somebody reads meanwhile.
    pub reader: bool,
    /// Time measured.
    pub span: Duration,
}

/// What came of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Writes that became durable.
    pub writes: u64,
    /// How long one took on average.
    pub latency: Duration,
    /// What the reader got.
    pub read: Rate,
    /// How long it took afterwards, with nothing else to do, until all of it lay at home.
    pub home: Duration,
    /// Runs of blocks in which the object lies then.
    pub runs: u64,
}

/// Runs the load.
pub fn run(seed: u64, load: &Load) -> Result<Outcome> {
    if load.size == Bytes::ZERO || load.span.is_zero() {
        return Err(Error::usage("a writer needs bytes, and time"));
    }
    let world = World::new(seed);
    let disk = world.disk(load.disk.clone());
    let env = world.env(disk);
    let clock = world.clock();
    let load = load.clone();
    world.run(async move {
        let target = fresh::target(env.clone(), fresh::guessed(&env), VOLUME).await?;
        let objects = target.objects();
        objects.create(APPENDED, Vec::new()).await?;
        objects.create(READ, Vec::new()).await?;
        let stream = target.stream();
        if load.reader {
            for at in (0..FILE.0).step_by(PIECE.0 as usize) {
                objects.write(stream, READ, at, &vec![2; PIECE.0 as usize], Placement::Home).await?;
            }
        }
        objects.checkpoint().await?;
        let (begin, moved) = (clock.now(), Rc::new(Cell::new(0)));
        let until = begin + load.span;
        let reading = load.reader.then(|| {
            let (target, clock, moved) = (target.clone(), clock.clone(), moved.clone());
            env.spawner.spawn(async move { read_on(&target, &*clock, until, &moved).await })
        });
        let (writes, taken) = write_on(objects, &*clock, until, stream, &load).await?;
        if let Some(reading) = reading {
            reading.await?;
        }
        let begin = clock.now();
        objects.take_home().await?;
        Ok(Outcome {
            writes,
            latency: taken / writes.max(1) as u32,
            read: Rate::of(Bytes(moved.get()), load.span),
            home: clock.now().since(begin),
            runs: objects.extents(APPENDED).await?.len() as u64,
        })
    })
}

async fn write_on(
    objects: &Objects,
    clock: &dyn Clock,
    until: Moment,
    stream: forebay_target::schedule::StreamId,
    load: &Load,
) -> Result<(u64, Duration)> {
    let bytes = vec![1; load.size.0 as usize];
    let (mut writes, mut taken, mut due) = (0, Duration::ZERO, clock.now());
    while clock.now() < until {
        let begin = clock.now();
        objects.append(stream, APPENDED, &bytes, load.placement).await?;
        writes += 1;
        taken += clock.now().since(begin);
        if let Some(pace) = load.pace {
            due = due + pace;
            clock.sleep_until(due).await;
        }
    }
    Ok((writes, taken))
}

async fn read_on(target: &Target, clock: &dyn Clock, until: Moment, moved: &Cell<u64>) -> Result<()> {
    let stream = target.stream();
    let mut at = 0;
    while clock.now() < until {
        let read = target.objects().read(stream, READ, at, PIECE.0).await?;
        moved.set(moved.get() + read.len() as u64);
        at = (at + PIECE.0) % FILE.0;
    }
    Ok(())
}

#[cfg(test)]
mod tests;

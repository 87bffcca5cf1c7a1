//! Many readers at once on one simulated disk, each with an object of its own that it reads from its beginning to its
//! end and again: what read-ahead finds for them, for a slow one among them, and what all of them get.

use crate::disk::DiskSpec;
use crate::fresh;
use crate::world::World;
use forebay_env::Clock;
use forebay_model::{Bytes, Error, ObjectId, Rate, Result};
use forebay_target::object::Placement;
use forebay_target::schedule::StreamId;
use forebay_target::{Objects, Target};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// The volume of all objects.
const VOLUME: u64 = 1;
/// How much of an object is written at once: its bytes lie together in runs of this length.
const RUN: Bytes = Bytes::mib(4);
/// How long readers are given to get going.
const WARM_UP: Duration = Duration::from_secs(5);

/// What is run.
#[derive(Debug, Clone)]
pub struct Load {
    /// The disk.
    pub disk: DiskSpec,
    /// Readers that ask for more as soon as they have something.
    pub readers: u64,
    /// One reader more, who waits so long between reads.
    pub slow: Option<Duration>,
    /// Whether all of them ask over one connection, and so are one stream to the scheduler.
    pub together: bool,
    /// What each asks for at once.
    pub request: Bytes,
    /// Bytes of each object.
    pub size: Bytes,
    /// What all that is read ahead may take.
    pub cache: Bytes,
    /// Time measured.
    pub span: Duration,
}

impl Load {
    /// Sixty readers of 64 KiB requests on `disk`, and a slow one.
    pub fn sixty(disk: DiskSpec) -> Load {
        Load {
            disk,
            readers: 60,
            slow: Some(Duration::from_millis(500)),
            together: false,
            request: Bytes::kib(64),
            size: Bytes::mib(64),
            cache: forebay_target::object::CACHE,
            span: Duration::from_secs(60),
        }
    }
}

/// What came of it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Outcome {
    /// What all readers got.
    pub read: Rate,
    /// Their reads, and how many of these asked nothing of the disk, since all had been read ahead or was on its way.
    pub reads: u64,
    /// See `reads`.
    pub found: u64,
    /// Those of `found` that waited for something on its way.
    pub awaited: u64,
    /// The slow one's reads, and how many of these took no time.
    pub slow_reads: u64,
    /// See `slow_reads`.
    pub slow_found: u64,
    /// What went from the cache without having been read.
    pub evicted_unread: u64,
    /// The slowest of the others got this part of what the fastest got.
    pub fairness: f64,
}

impl Outcome {
    /// The share of reads that were found ahead.
    pub fn share(&self) -> f64 {
        self.found as f64 / self.reads.max(1) as f64
    }
}

/// A reader: what it has read, how often, and how often that took no time.
#[derive(Default)]
struct Reader {
    bytes: Cell<u64>,
    reads: Cell<u64>,
    at_once: Cell<u64>,
    stopped: Cell<bool>,
}

/// Runs the load.
pub fn run(seed: u64, load: &Load) -> Result<Outcome> {
    if load.request == Bytes::ZERO || load.size < load.request || load.span.is_zero() {
        return Err(Error::usage("readers need objects of at least one request, and time"));
    }
    let world = World::new(seed);
    let disk = world.disk(load.disk.clone());
    let env = world.env(disk.clone());
    let clock = world.clock();
    let load = load.clone();
    world.run(async move {
        let target = fresh::target(env.clone(), fresh::guessed(&env), VOLUME).await?;
        let all = load.readers + u64::from(load.slow.is_some());
        write_all(&target, all, load.size).await?;
        target.objects().set_cache(load.cache);
        let readers: Vec<Rc<Reader>> = (0..all).map(|_| Rc::default()).collect();
        let mut tasks = Vec::new();
        let common = target.stream();
        for (n, reader) in (1..).zip(&readers) {
            let pause = load.slow.filter(|_| n > load.readers);
            let stream = if load.together { common } else { target.stream() };
            let (target, reader, clock, load) = (target.clone(), reader.clone(), clock.clone(), load.clone());
            tasks.push(
                env.spawner.spawn(async move { read_on((&target, stream), n, &reader, &*clock, &load, pause).await }),
            );
        }
        clock.sleep(WARM_UP).await;
        let look = |target: &Target| {
            let bytes: Vec<u64> = readers.iter().map(|reader| reader.bytes.get()).collect();
            let slow = readers.last().filter(|_| load.slow.is_some());
            (target.objects().read_counters(), bytes, slow.map_or((0, 0), |r| (r.reads.get(), r.at_once.get())))
        };
        let (before, bytes_before, slow_before) = look(&target);
        clock.sleep(load.span).await;
        let (after, bytes_after, slow_after) = look(&target);
        readers.iter().for_each(|reader| reader.stopped.set(true));
        for task in tasks {
            task.await?;
        }
        let got: Vec<u64> = bytes_before.iter().zip(&bytes_after).map(|(before, after)| after - before).collect();
        let eager = &got[..load.readers as usize];
        let (least, most) = (eager.iter().min(), eager.iter().max());
        Ok(Outcome {
            read: Rate::of(Bytes(got.iter().sum()), load.span),
            reads: after.reads - before.reads,
            found: after.ahead - before.ahead,
            awaited: after.awaited - before.awaited,
            slow_reads: slow_after.0 - slow_before.0,
            slow_found: slow_after.1 - slow_before.1,
            evicted_unread: after.evicted.unconsumed - before.evicted.unconsumed,
            fairness: least.zip(most).map_or(1.0, |(least, most)| *least as f64 / (*most).max(1) as f64),
        })
    })
}

fn id(object: u64) -> ObjectId {
    ObjectId { volume: VOLUME, object }
}

/// Objects that were written side by side: a run of each, then the next of each.
async fn write_all(target: &Rc<Target>, objects: u64, size: Bytes) -> Result<()> {
    let stream = target.stream();
    for object in 1..=objects {
        target.objects().create(id(object), Vec::new()).await?;
    }
    let mut at = 0;
    while at < size.0 {
        for object in 1..=objects {
            let bytes = vec![object as u8; RUN.0.min(size.0 - at) as usize];
            target.objects().write(stream, id(object), at, &bytes, Placement::Home).await?;
        }
        at += RUN.0;
    }
    target.objects().checkpoint().await
}

async fn read_on(
    (target, stream): (&Target, StreamId),
    object: u64,
    reader: &Reader,
    clock: &dyn Clock,
    load: &Load,
    pause: Option<Duration>,
) -> Result<()> {
    let objects: &Rc<Objects> = target.objects();
    // Readers are not in step.
    let mut at = object * 7919 % (load.size / load.request) * load.request.0;
    while !reader.stopped.get() {
        let begin = clock.now();
        let bytes = objects.read(stream, id(object), at, load.request.0).await?;
        if bytes.iter().any(|byte| *byte != object as u8) {
            return Err(Error::damaged(format!("{} has bytes of another object at {at}", id(object))));
        }
        reader.bytes.set(reader.bytes.get() + bytes.len() as u64);
        reader.reads.set(reader.reads.get() + 1);
        reader.at_once.set(reader.at_once.get() + u64::from(clock.now() == begin));
        at = (at + load.request.0) % load.size.0;
        if let Some(pause) = pause {
            clock.sleep(pause).await;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

//! The promise under load: one ring with a guarantee on a simulated disk, beside saturating readers and pins, on an
//! aged and full device. Says what was promised, what was kept, and what the readers got of what was left.
//!
//! Not checked here: crashes (see `life`).

pub mod beside;
mod producer;
mod reader;
pub mod survey;

use crate::disk::{DiskSpec, SimDisk};
use crate::limit;
use crate::world::World;
use forebay_env::{Clock, Env};
use forebay_model::ring::RingSpec;
use forebay_model::{Bytes, Error, Profile, Rate, Result};
use forebay_target::profile::{MeasureOptions, measure as measure_profile};
use forebay_target::{Ring, Target};
use producer::{Arrivals, Source, feed};
use reader::Reader;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Sizes of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Elements {
    /// All of one size.
    Fixed(Bytes),
    /// 20 B to 60 MB, each size with an equal share of the bytes but the smallest, which have a tenth.
    Mixed,
}

impl Elements {
    fn largest(self) -> Bytes {
        match self {
            Elements::Fixed(size) => size,
            Elements::Mixed => LARGEST,
        }
    }
}

/// What is run.
#[derive(Debug, Clone)]
pub struct Load {
    /// The disk.
    pub disk: DiskSpec,
    /// The guarantee asked for.
    pub guarantee: Rate,
    /// The rate at which elements come: the guarantee unless told otherwise.
    pub rate: Rate,
    /// The elements.
    pub elements: Elements,
    /// Saturating readers.
    pub readers: u64,
    /// Share of the ring's segments that is pinned, scattered, in percent.
    pub pins_percent: u64,
    /// Whether the ring has gone round before the measurement.
    pub aged: bool,
    /// Share of what could hold the guarantee that the ring takes, in percent.
    pub fill_percent: f64,
    /// Laps measured.
    pub laps: u64,
    /// At most this long, whatever the laps.
    pub seconds: Option<u64>,
    /// Keys of the ring.
    pub keys: Vec<String>,
    /// How long an element may stay in memory.
    pub flush_interval: Duration,
}

/// What came of it.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// The guarantee admitted.
    pub guarantee: Rate,
    /// Bytes of elements accepted and durable, per second.
    pub written: Rate,
    /// The same in the worst second of arrival: what came then, was kept, and was durable in time.
    pub worst_second: Rate,
    /// Blocks that were not durable in time.
    pub missed_deadlines: u64,
    /// Elements for which there was no room.
    pub lost_elements: u64,
    /// What the readers got.
    pub read: Rate,
    /// What a reader gets beside raw large alternating I/O of the same write rate at the same places.
    pub limit: Rate,
    /// Elements recorded.
    pub elements: u64,
    /// Virtual time measured.
    pub elapsed: Duration,
    /// Capacity of the ring.
    pub capacity: Bytes,
    /// Segments pinned.
    pub pinned: u64,
    /// The most staging memory in use.
    pub staging_peak: Bytes,
    /// Staging memory.
    pub staging: Bytes,
    /// Sweeps of the arm.
    pub sweeps: u64,
    /// Least slack at which a read was started.
    pub least_slack: Duration,
    /// Bytes that the device read and wrote, metadata and index included.
    pub device_read: Bytes,
    /// See `device_read`.
    pub device_written: Bytes,
    /// How long the device worked.
    pub device_busy: Duration,
}

impl Load {
    /// The load of the headline: 60 MB/s on `disk`, aged, full, pinned, with eight readers, for three laps.
    pub fn headline(disk: DiskSpec) -> Load {
        Load {
            disk,
            guarantee: Rate::mb(60),
            rate: Rate::mb(60),
            elements: Elements::Fixed(Bytes::mib(1)),
            readers: 8,
            pins_percent: 5,
            aged: true,
            fill_percent: 99.9,
            laps: 3,
            seconds: None,
            keys: Vec::new(),
            flush_interval: Duration::from_secs(1),
        }
    }
}

const NAME: &str = "/promise";
/// The largest of mixed elements.
const LARGEST: Bytes = Bytes(60_000_000);

/// Runs the load.
pub fn run(seed: u64, load: &Load) -> Result<Outcome> {
    let world = World::new(seed);
    let disk = world.disk(load.disk.clone());
    let env = world.env(disk.clone());
    let (target, ring) = world.run(set_up(env, load))?;
    let mut outcome = world.run(measure(&world, &disk, target.clone(), ring, load, &|| ()))?;
    let places = places(&target)?;
    let sample = limit::Sample { places, write: load.rate, seconds: 6 };
    outcome.limit = limit::alternating(seed, &load.disk, &sample);
    Ok(outcome)
}

/// The profile that the bench trusts: measured on the fresh disk.
async fn measured(env: &Env) -> Result<Profile> {
    let geometry = env.device.geometry();
    let options = MeasureOptions::for_extent(geometry.size, geometry.rotates, true);
    measure_profile(env, Bytes::ZERO..geometry.size, options, &mut |_| ()).await
}

async fn set_up(env: Env, load: &Load) -> Result<(Rc<Target>, Rc<Ring>)> {
    let profile = measured(&env).await?;
    Target::format(env.clone(), profile).await?;
    let target = Target::open(env).await?;
    let mut spec = RingSpec::new(NAME, Bytes(1));
    spec.guarantee = load.guarantee;
    spec.pin_budget_percent = (load.pins_percent + 3).min(95) as u8;
    spec.keys.clone_from(&load.keys);
    spec.flush_interval = load.flush_interval;
    spec.capacity = largest(&target, &spec, load.fill_percent)?;
    let ring = target.create_ring(spec).await?;
    ring.ready().await?;
    Ok((target, ring))
}

/// The largest capacity at which the guarantee is admitted, times the share asked for.
fn largest(target: &Target, spec: &RingSpec, percent: f64) -> Result<Bytes> {
    let group = target.layout().group;
    let (mut low, mut high) = (0u64, u64::from(target.layout().groups));
    while low < high {
        let middle = (low + high).div_ceil(2);
        let mut tried = spec.clone();
        tried.capacity = group * middle;
        match target.could_create(&tried) {
            Ok(()) => low = middle,
            Err(_) => high = middle - 1,
        }
    }
    if low == 0 {
        let mut least = spec.clone();
        least.capacity = group * 3;
        return Err(target.could_create(&least).err().unwrap_or_else(|| Error::refused("no place for the ring")));
    }
    Ok(group * ((low as f64 * percent / 100.0).ceil() as u64).max(1))
}

fn places(target: &Target) -> Result<Vec<std::ops::Range<Bytes>>> {
    let demand = target.demands().into_iter().next();
    demand.map(|d| d.places).ok_or_else(|| Error::usage("the bench needs a guarantee"))
}

/// Brings the ring to where the load wants it, calls `begin`, and measures.
async fn measure(
    world: &World,
    disk: &SimDisk,
    target: Rc<Target>,
    ring: Rc<Ring>,
    load: &Load,
    begin: &dyn Fn(),
) -> Result<Outcome> {
    let clock = world.clock();
    let mut source = Source::new(ring.clone(), clock.clone(), world.random().next_u64(), load.elements)?;
    let status = ring.status();
    let capacity = status.spec.capacity;
    if load.aged {
        let lap = capacity.0 + capacity.0 / 20;
        feed(&mut source, |given| given >= lap, &mut Arrivals::new(load.rate)).await?;
    }
    let pinned = pin_scattered(&target, &ring, load, &clock).await?;
    source.durable().await?;
    let before = ring.status();
    // What pins hold of earlier laps lies behind holes.
    let history = load.rate.time_for(capacity).mul_f64(0.95 * (100 - load.pins_percent) as f64 / 100.0);
    let stop = Rc::new(Cell::new(false));
    let read = Rc::new(Cell::new(0u64));
    let mut tasks = Vec::new();
    for _ in 0..load.readers {
        let reader = Reader {
            ring: ring.clone(),
            random: world.random(),
            clock: clock.clone(),
            history,
            stop: stop.clone(),
            read: read.clone(),
        };
        tasks.push(world.spawner().spawn(reader.saturate()));
    }
    let (counters, device) = (target.disk().counters(), disk.counters());
    begin();
    let (start, first_count) = (clock.now(), source.count());
    let first_lost = source.lost();
    let lap = capacity.0.saturating_mul(load.laps);
    let mut arrivals = Arrivals::new(load.rate);
    let limit = load.seconds.map(Duration::from_secs);
    let enough = |given: u64| given >= lap || limit.is_some_and(|l| clock.now().since(start) >= l);
    let given = feed(&mut source, enough, &mut arrivals).await?;
    let elapsed = clock.now().since(start);
    stop.set(true);
    source.durable().await?;
    let after = ring.status();
    drop(tasks);
    let (now, device_now) = (target.disk().counters(), disk.counters());
    let missed = after.missed_deadlines - before.missed_deadlines;
    let worst = arrivals.worst(given);
    Ok(Outcome {
        guarantee: load.guarantee,
        written: Rate::of(Bytes(given), elapsed),
        worst_second: Rate(worst.0.saturating_sub(missed * after.spec.block.0)),
        missed_deadlines: missed,
        lost_elements: source.lost() - first_lost,
        read: Rate::of(Bytes(read.get()), elapsed),
        limit: Rate(0),
        elements: source.count() - first_count,
        elapsed,
        capacity,
        pinned,
        staging_peak: after.staging_peak,
        staging: after.staging,
        sweeps: now.sweeps - counters.sweeps,
        least_slack: now.least_slack,
        device_read: device_now.bytes_read - device.bytes_read,
        device_written: device_now.bytes_written - device.bytes_written,
        device_busy: device_now.busy - device.busy,
    })
}

/// Pins single segments, spread evenly over the ring, until the share is reached.
async fn pin_scattered(target: &Target, ring: &Rc<Ring>, load: &Load, clock: &Rc<dyn Clock>) -> Result<u64> {
    let segments = ring.status().segments;
    let wanted = (segments * load.pins_percent).div_ceil(100);
    if wanted == 0 {
        return Ok(0);
    }
    let status = ring.status();
    let (Some(oldest), newest) = (status.oldest, clock.wall()) else { return Ok(0) };
    let span = newest.since(oldest);
    // As long as the largest element takes to come: some segment has a part of it.
    let window = load.rate.time_for(load.elements.largest()).max(Duration::from_millis(30));
    for i in 0..wanted {
        // A range at the border of two segments holds both.
        if ring.status().pinned_segments >= wanted {
            break;
        }
        let at = oldest.after(span.mul_f64((i as f64 + 0.5) / wanted as f64));
        target.pin(NAME, "bench", at, at.after(window)).await?;
    }
    Ok(ring.status().pinned_segments)
}

#[cfg(test)]
mod tests;

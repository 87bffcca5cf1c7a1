//! The promise under load: one ring with a guarantee on a simulated disk, beside saturating readers and pins, on an
//! aged and full device. Says what was promised, what was kept, and what the readers got of what was left.
//!
//! Not checked here: crashes (see `life`).

use crate::disk::{DiskSpec, SimDisk};
use crate::feeder::Feeder;
use crate::limit;
use crate::world::World;
use forebay_env::pipe::pipe;
use forebay_env::{Clock, Env, Random};
use forebay_model::query::Query;
use forebay_model::ring::{Batch, Item, RingSpec};
use forebay_model::{Bytes, Error, Profile, Rate, Result};
use forebay_target::profile::{MeasureOptions, measure as measure_profile};
use forebay_target::query::Limits;
use forebay_target::{Ring, Target};
use std::cell::{Cell, RefCell};
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
    let mut outcome = world.run(measure(&world, &disk, target.clone(), ring.clone(), load))?;
    let places = places(&target, &ring)?;
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

fn places(target: &Target, ring: &Rc<Ring>) -> Result<Vec<std::ops::Range<Bytes>>> {
    let demand = target.demands().into_iter().next();
    let _ = ring;
    demand.map(|d| d.places).ok_or_else(|| Error::usage("the bench needs a guarantee"))
}

struct Source {
    feeder: Feeder,
    clock: Rc<dyn Clock>,
    elements: Elements,
    payload: Vec<u8>,
    lost: u64,
    count: u64,
    mixed: [u64; 5],
}

impl Source {
    fn next_size(&mut self) -> usize {
        match self.elements {
            Elements::Fixed(size) => size.0 as usize,
            Elements::Mixed => {
                const SIZES: [(u64, u64); 5] = [(20, 1), (1 << 10, 2), (64 << 10, 2), (1 << 20, 2), (LARGEST.0, 3)];
                // The size that has had the least of its share comes next.
                let at = (0..5).min_by_key(|i| self.mixed[*i] / SIZES[*i].1).expect("five sizes");
                self.mixed[at] += SIZES[at].0;
                SIZES[at].0 as usize
            }
        }
    }

    /// Adds elements worth `bytes`, as they would have come by now; `carry` is what is left over.
    async fn add(&mut self, bytes: u64) -> Result<u64> {
        let time = self.clock.wall();
        let mut used = 0;
        while used < bytes {
            let size = self.next_size();
            used += size as u64;
            self.count += 1;
            if self.feeder.room_or_take(size) {
                self.feeder.element(time, &[&self.payload[..size]]).await?;
            } else {
                self.lost += 1;
            }
        }
        Ok(used)
    }
}

async fn feed(
    source: &mut Source,
    rate: Rate,
    until: impl Fn(u64) -> bool,
    per_second: &RefCell<Vec<u64>>,
) -> Result<u64> {
    let clock = source.clock.clone();
    let start = clock.now();
    let mut given = 0u64;
    while !until(given) {
        let due = rate.bytes_in(clock.now().since(start)).0;
        if due > given {
            let lost = source.lost;
            let used = source.add(due - given).await?;
            given += used;
            let second = clock.now().since(start).as_secs() as usize;
            let mut seconds = per_second.borrow_mut();
            let length = seconds.len().max(second + 1);
            seconds.resize(length, 0);
            if source.lost == lost {
                seconds[second] += used;
            }
        }
        source.feeder.tick(Duration::from_millis(400))?;
        clock.sleep(Duration::from_millis(5)).await;
    }
    Ok(given)
}

async fn measure(world: &World, disk: &SimDisk, target: Rc<Target>, ring: Rc<Ring>, load: &Load) -> Result<Outcome> {
    let clock = world.clock();
    let largest = match load.elements {
        Elements::Fixed(size) => size.0 as usize,
        Elements::Mixed => LARGEST.0 as usize,
    };
    let feeder = Feeder::new(ring.clone(), clock.clone(), world.random().next_u64())?;
    let mut source = Source {
        feeder,
        clock: clock.clone(),
        elements: load.elements,
        payload: (0..largest).map(|i| (i % 64) as u8).collect(),
        lost: 0,
        count: 0,
        mixed: [0; 5],
    };
    let status = ring.status();
    let capacity = status.spec.capacity;
    let ignored = RefCell::new(Vec::new());
    if load.aged {
        let lap = capacity.0 + capacity.0 / 20;
        feed(&mut source, load.rate, |given| given >= lap, &ignored).await?;
    }
    let pinned = pin_scattered(&target, &ring, load, &clock).await?;
    source.feeder.durable().await?;
    let before = ring.status();
    let stop = Rc::new(Cell::new(false));
    let read = Rc::new(Cell::new(0u64));
    let mut tasks = Vec::new();
    for _ in 0..load.readers {
        let reader = saturate(ring.clone(), world.random(), clock.clone(), stop.clone(), read.clone());
        tasks.push(world.spawner().spawn(reader));
    }
    let (counters, device) = (target.disk().counters(), disk.counters());
    let (start, first_count) = (clock.now(), source.count);
    source.lost = 0;
    let lap = capacity.0 * load.laps;
    let seconds = RefCell::new(Vec::new());
    let limit = load.seconds.map(Duration::from_secs);
    let enough = |given: u64| given >= lap || limit.is_some_and(|l| clock.now().since(start) >= l);
    let given = feed(&mut source, load.rate, enough, &seconds).await?;
    let elapsed = clock.now().since(start);
    stop.set(true);
    source.feeder.durable().await?;
    let after = ring.status();
    drop(tasks);
    let (now, device_now) = (target.disk().counters(), disk.counters());
    let missed = after.missed_deadlines - before.missed_deadlines;
    let mut seconds = seconds.into_inner();
    // The last second is not whole.
    seconds.pop();
    // The first second of a large element counts it whole: a rate below the guarantee there is arithmetic, not loss.
    let smallest = seconds.iter().copied().min().unwrap_or(0);
    Ok(Outcome {
        guarantee: load.guarantee,
        written: Rate::of(Bytes(given), elapsed),
        worst_second: Rate(if missed == 0 { smallest } else { smallest.saturating_sub(missed * after.spec.block.0) }),
        missed_deadlines: missed,
        lost_elements: source.lost,
        read: Rate::of(Bytes(read.get()), elapsed),
        limit: Rate(0),
        elements: source.count - first_count,
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
    let largest = match load.elements {
        Elements::Fixed(size) => size,
        Elements::Mixed => LARGEST,
    };
    let window = load.rate.time_for(largest).max(Duration::from_millis(30));
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

/// Reads from one place in the ring on and, at the end or when the writer has overtaken it, from another.
async fn saturate(
    ring: Rc<Ring>,
    random: Rc<dyn Random>,
    clock: Rc<dyn Clock>,
    stop: Rc<Cell<bool>>,
    read: Rc<Cell<u64>>,
) {
    while !stop.get() {
        let status = ring.status();
        let kept = status.next_sequence - status.first_sequence;
        let from = status.first_sequence + random.below(kept.max(1));
        let Ok(query) = Query::parse(&format!("seq >= {from}"), &ring.keys, clock.wall()) else { return };
        let (inlet, mut outlet) = pipe::<Batch>(8 << 20);
        let limits = Limits { follow: false, elements: u64::MAX, gaps_only: false };
        let spawner = ring.spawner();
        let answer = ring.clone();
        let task = spawner.spawn(async move { forebay_target::query::run(answer, query, limits, &inlet).await });
        while let Some(batch) = outlet.receive().await {
            read.set(read.get() + batch.payload.len() as u64);
            if stop.get() {
                return;
            }
            // What lies before the first element it found was expired when it asked.
            if batch.items.iter().skip(1).any(|item| matches!(item, Item::Expired { .. })) {
                break;
            }
        }
        drop(outlet);
        if task.await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;

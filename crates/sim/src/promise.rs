//! The promise under load: one ring with a guarantee on a simulated disk, beside saturating readers and pins, on an
//! aged and full device. Says what was promised, what was kept, and what the readers got of what was left.
//!
//! Not checked here: crashes (see `life`).

pub mod beside;

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
    let mut outcome = world.run(measure(&world, &disk, target.clone(), ring.clone(), load, &|| ()))?;
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

    /// Adds elements of at least `bytes`, as they would have come by now; `given` came before. Says how many bytes it was.
    async fn add(&mut self, bytes: u64, given: u64, arrivals: &mut Arrivals) -> Result<u64> {
        let time = self.clock.wall();
        let mut used = 0;
        while used < bytes {
            let size = self.next_size();
            used += size as u64;
            self.count += 1;
            if self.feeder.room_or_take(size) {
                self.feeder.element(time, &[&self.payload[..size]]).await?;
                arrivals.kept(given + used - size as u64, given + used);
            } else {
                self.lost += 1;
            }
        }
        Ok(used)
    }
}

/// What came and was kept in each second: elements come one after the other at the rate, and a large one for as long
/// as its bytes take.
struct Arrivals {
    rate: Rate,
    seconds: Vec<u64>,
}

impl Arrivals {
    fn new(rate: Rate) -> Arrivals {
        Arrivals { rate, seconds: Vec::new() }
    }

    /// Bytes `from..to` of the stream were kept.
    fn kept(&mut self, mut from: u64, to: u64) {
        while from < to {
            let second = from / self.rate.0;
            let end = to.min((second + 1) * self.rate.0);
            self.seconds.resize(self.seconds.len().max(second as usize + 1), 0);
            self.seconds[second as usize] += end - from;
            from = end;
        }
    }

    /// The worst of the seconds that are over when `given` bytes have come.
    fn worst(&self, given: u64) -> Rate {
        let over = (given / self.rate.0) as usize;
        let kept = |second| self.seconds.get(second).copied().unwrap_or(0);
        Rate((0..over).map(kept).min().unwrap_or(0))
    }
}

async fn feed(source: &mut Source, until: impl Fn(u64) -> bool, arrivals: &mut Arrivals) -> Result<u64> {
    let clock = source.clock.clone();
    let start = clock.now();
    let mut given = 0u64;
    while !until(given) {
        let due = arrivals.rate.bytes_in(clock.now().since(start)).0;
        if due > given {
            given += source.add(due - given, given, arrivals).await?;
        }
        source.feeder.tick(Duration::from_millis(400))?;
        clock.sleep(Duration::from_millis(5)).await;
    }
    Ok(given)
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
    if load.aged {
        let lap = capacity.0 + capacity.0 / 20;
        feed(&mut source, |given| given >= lap, &mut Arrivals::new(load.rate)).await?;
    }
    let pinned = pin_scattered(&target, &ring, load, &clock).await?;
    source.feeder.durable().await?;
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
    let (start, first_count) = (clock.now(), source.count);
    source.lost = 0;
    let lap = capacity.0.saturating_mul(load.laps);
    let mut arrivals = Arrivals::new(load.rate);
    let limit = load.seconds.map(Duration::from_secs);
    let enough = |given: u64| given >= lap || limit.is_some_and(|l| clock.now().since(start) >= l);
    let given = feed(&mut source, enough, &mut arrivals).await?;
    let elapsed = clock.now().since(start);
    stop.set(true);
    source.feeder.durable().await?;
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

/// Reads from a random moment of the history on and, at the end or when the writer has overtaken it, from another.
struct Reader {
    ring: Rc<Ring>,
    random: Rc<dyn Random>,
    clock: Rc<dyn Clock>,
    /// How far back nothing is missing.
    history: Duration,
    stop: Rc<Cell<bool>>,
    read: Rc<Cell<u64>>,
}

/// How long a reader waits before it looks elsewhere when it found nothing.
const NOTHING_THERE: Duration = Duration::from_millis(20);

impl Reader {
    async fn saturate(self) {
        while !self.stop.get() {
            let back = Duration::from_micros(self.random.below(self.history.as_micros() as u64 + 1));
            let text = format!("after {}us ago", back.as_micros());
            let query = Query::parse(&text, &self.ring.keys, self.clock.wall()).expect("a query of the bench's own");
            let before = self.read.get();
            if self.look_back(query).await.is_err() {
                return;
            }
            if self.read.get() == before {
                // Nothing is there yet, or not where it looked.
                self.clock.sleep(NOTHING_THERE).await;
            }
        }
    }

    /// Takes what `query` finds, until the writer overtakes it.
    async fn look_back(&self, query: Query) -> Result<()> {
        let (inlet, mut outlet) = pipe::<Batch>(8 << 20);
        let limits = Limits { follow: false, elements: u64::MAX, gaps_only: false };
        let ring = self.ring.clone();
        let task =
            self.ring.spawner().spawn(async move { forebay_target::query::run(ring, query, limits, &inlet).await });
        while let Some(batch) = outlet.receive().await {
            self.read.set(self.read.get() + batch.payload.len() as u64);
            let overtaken = batch.items.iter().any(|item| matches!(item, Item::Expired { .. }));
            if self.stop.get() || overtaken {
                break;
            }
        }
        drop(outlet);
        task.await.map(|_| ())
    }
}

#[cfg(test)]
mod tests;

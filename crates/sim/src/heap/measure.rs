//! A load on a heap of its own, on a fresh target: on a simulated disk, or on any device that counts what it is asked for.

use super::load::{Counting, Given, Running, Tell, Work};
use crate::disk::{Counters, DiskSpec};
use crate::fresh;
use crate::world::World;
use forebay_env::{Env, Random};
use forebay_model::heap::HeapSettings;
use forebay_model::{Error, Profile, Result};
use forebay_target::Target;
use forebay_target::heap::allocation::ClassStatistics;
use forebay_target::heap::{Heap, HeapOptions, HeapStatus};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// The heap's name.
const NAME: &str = "/bench";

/// How the heap is set, and how it is used.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// What it is made with.
    pub settings: HeapSettings,
    /// What it is opened with.
    pub options: HeapOptions,
}

/// What a measurement needs of the machine it runs on, beside the device.
pub struct Machine {
    /// What is thought of the device.
    pub profile: Profile,
    /// What the device was asked for so far.
    pub counters: Rc<dyn Fn() -> Counters>,
    /// Chance, for the load.
    pub random: Rc<dyn Random>,
    /// What the process has cost so far.
    pub cpu: fn() -> Duration,
    /// Who is told how far it is.
    pub tell: Tell,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// What the device was asked for.
    pub device: Counters,
    /// How far apart writes that followed one another were, as a share of the device, on average.
    pub seek_fraction: f64,
    /// How long it took.
    pub span: Duration,
    /// What it cost.
    pub cpu: Duration,
    /// What the heap was asked for.
    pub given: Given,
    /// What the heap says in the end.
    pub status: HeapStatus,
    /// Of the slots that have a place, those in use, when most of them were: so many places it takes.
    pub slot_efficiency: f64,
    /// What it costs to get a record that is in memory.
    pub cached_get: Duration,
}

/// Records in memory that are got, their bytes, and how often each is.
const CACHED: usize = 1000;
const CACHED_BYTES: usize = 1500;
const TIMES: u32 = 200;

/// What it costs to get a record that waits to be written.
async fn cached_get(heap: &Rc<Heap>, cpu: fn() -> Duration) -> Result<Duration> {
    let mut ids = Vec::with_capacity(CACHED);
    for n in 0..CACHED {
        ids.push(heap.put(&[n as u8; CACHED_BYTES]).await?);
    }
    let began = cpu();
    for _ in 0..TIMES {
        for (n, id) in ids.iter().enumerate() {
            if heap.get(*id).await?[0] != n as u8 {
                return Err(Error::damaged(format!("record {id} is another one in memory")));
            }
        }
    }
    let cost = cpu().saturating_sub(began);
    heap.abort().await?;
    Ok(cost / (CACHED as u32 * TIMES))
}

/// Of the slots that have a place, those that have a record, or had one that an older commit still has, or the one that is
/// being made.
fn in_use(status: &HeapStatus) -> f64 {
    let sum = |of: fn(&ClassStatistics) -> u64| -> u64 { status.classes.iter().map(of).sum() };
    sum(|class| class.used + class.kept) as f64 / sum(|class| class.slots).max(1) as f64
}

/// Measures on a device, all of which is overwritten.
pub async fn on_device(env: Env, machine: Machine, setup: Setup, work: Work) -> Result<Outcome> {
    let (_target, heap) = fresh_heap(&env, machine.profile, setup).await?;
    let store = Counting::new(heap.clone());
    let mut running = Running::prepare(&work, store.clone(), machine.random).await?;
    store.reset();
    let (began, before, cpu) = (env.clock.now(), (machine.counters)(), (machine.cpu)());
    let fullest = Rc::new(Cell::new(0.0));
    let (fuller, of, tell) = (fullest.clone(), heap.clone(), machine.tell);
    let tell: Tell = Rc::new(move |done, total| {
        fuller.set(in_use(&of.status()).max(fuller.get()));
        tell(done, total);
    });
    running.run(&tell).await?;
    let (span, given) = (env.clock.now().since(began), store.given());
    let device = (machine.counters)() - before;
    let cpu = (machine.cpu)().saturating_sub(cpu);
    let status = heap.status();
    running.verify().await?;
    let cached_get = cached_get(&heap, machine.cpu).await?;
    let apart = device.between_writes.0 as f64 / device.writes.max(1) as f64;
    let seek_fraction = apart / env.device.geometry().size.0 as f64;
    Ok(Outcome { device, seek_fraction, span, cpu, given, status, slot_efficiency: fullest.get(), cached_get })
}

/// Measures on a simulated disk; the load's cost is that of simulating, so it counts as none.
pub fn simulated(seed: u64, disk: DiskSpec, setup: Setup, work: Work, tell: Tell) -> Result<Outcome> {
    in_world(seed, disk, tell, |env, machine| on_device(env, machine, setup, work))
}

/// Runs what is measured in a world of its own.
pub(super) fn in_world<T, F: Future<Output = Result<T>>>(
    seed: u64,
    disk: DiskSpec,
    tell: Tell,
    measure: impl FnOnce(Env, Machine) -> F,
) -> Result<T> {
    let world = World::new(seed);
    let disk = world.disk(disk);
    let env = world.env(disk.clone());
    let machine = Machine {
        profile: fresh::guessed(&env),
        counters: Rc::new(move || disk.counters()),
        random: world.random(),
        cpu: || Duration::ZERO,
        tell,
    };
    world.run(measure(env, machine))
}

/// A heap on a target that is new. The target has to stay.
pub(super) async fn fresh_heap(env: &Env, profile: Profile, setup: Setup) -> Result<(Rc<Target>, Rc<Heap>)> {
    Target::format(env.clone(), profile).await?;
    let target = Target::open(env.clone()).await?;
    let heap = target.create_heap(NAME, setup.settings, setup.options).await?;
    Ok((target, heap))
}

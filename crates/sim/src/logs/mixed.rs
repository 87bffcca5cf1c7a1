//! A mixed load on one disk, open loop: reads and durable writes of 4 to 64 KiB at places of chance, most of them in a few
//! hot regions, beside sequential reads and writes. What matters is how long each takes, from the moment it is due.
//!
//! The regions lie at the same places for every policy, evenly over the disk, and are written before anything is timed.
//! What is logged is the same, too: writes of up to [`LOGGED`].

mod place;
mod systems;
mod trace;

use super::Policy;
use crate::disk::{Counters, DiskSpec, Op, SimDisk};
use crate::world::World;
use forebay_env::{Random, Task};
use forebay_model::{Bytes, Error, Result};
use place::Regions;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use systems::{OneLog, Place, System};
use trace::{Access, trace};

/// Writes of up to so many bytes go to a log.
const LOGGED: u64 = Bytes::kib(256).0;
/// Not counted: what the load does to a system that just began.
const WARM_UP: Duration = Duration::from_secs(10);
/// Accesses under way at most. One that is due later begins when the oldest has ended, and its time counts.
const UNDER_WAY: usize = 512;
/// Accesses a second that can be asked for.
const MOST: u64 = 100_000;

/// What is run.
#[derive(Debug, Clone)]
pub struct MixedLoad {
    /// The disk.
    pub disk: DiskSpec,
    /// `home`, `single`, `nearest` or `ideal`.
    pub policy: Policy,
    /// Accesses a second on average.
    pub iops: u64,
    /// Time measured.
    pub span: Duration,
}

/// What came of it: how long accesses took from when they were due, the shortest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MixedOutcome {
    /// Reads, sequential ones included.
    pub reads: Vec<Duration>,
    /// Writes, until they were durable, sequential ones included.
    pub writes: Vec<Duration>,
    /// Those of the reads that were in sequence.
    pub sequential_reads: Vec<Duration>,
    /// Those of the writes.
    pub sequential_writes: Vec<Duration>,
    /// What the disk did, from the first access that counts until the last one ended.
    pub disk: Counters,
    /// How long that was.
    pub took: Duration,
}

impl MixedOutcome {
    fn add(&mut self, access: &Access, latency: Duration) {
        let (all, sequential) = match access.op {
            Op::Read => (&mut self.reads, &mut self.sequential_reads),
            _ => (&mut self.writes, &mut self.sequential_writes),
        };
        all.push(latency);
        if access.sequential {
            sequential.push(latency);
        }
    }

    /// Both, the shortest first.
    pub fn all(&self) -> Vec<Duration> {
        let mut all = [&self.reads[..], &self.writes].concat();
        all.sort_unstable();
        all
    }
}

/// The mean; zero of none.
pub fn mean(latencies: &[Duration]) -> Duration {
    latencies.iter().sum::<Duration>() / latencies.len().max(1) as u32
}

/// Runs the load.
pub fn run_mixed(seed: u64, load: &MixedLoad) -> Result<MixedOutcome> {
    if load.iops == 0 || load.iops > MOST {
        return Err(Error::usage(format!("{} accesses a second; give 1 to {MOST}", load.iops)));
    }
    if load.span.is_zero() {
        return Err(Error::usage("nothing can be measured in no time; give --seconds 1 or more"));
    }
    let world = World::new(seed);
    let disk = world.disk(load.disk.clone());
    let regions = Regions::of(&disk)?;
    let system: Rc<dyn System> = match load.policy {
        Policy::Home => Rc::new(systems::Home::build(&world, &disk, &regions)?),
        Policy::Single => Rc::new(OneLog::build(&world, &disk, &regions, Place::Outside)?),
        Policy::Ideal => {
            let place = Place::UnderArm(Cell::new(regions.at(0)), Cell::new(0));
            Rc::new(OneLog::build(&world, &disk, &regions, place)?)
        }
        Policy::Nearest => Rc::new(systems::Nearest::build(&world, &disk, &regions)?),
        other => {
            return Err(Error::usage(format!(
                "the mixed load is not modelled for {}; take home, single, nearest or ideal",
                other.name()
            )));
        }
    };
    // Drawn apart, so that each policy gets the same.
    let random: Rc<dyn Random> = World::new(seed).random();
    let accesses = trace(&*random, load.iops, WARM_UP + load.span, &regions);
    world.run(measure(&world, &disk, system, accesses))
}

async fn measure(world: &World, disk: &SimDisk, system: Rc<dyn System>, accesses: Vec<Access>) -> Result<MixedOutcome> {
    let (clock, spawner) = (world.clock(), world.spawner());
    let taken: Rc<RefCell<MixedOutcome>> = Rc::default();
    let mut under_way: VecDeque<Task<Result<()>>> = VecDeque::new();
    let begin = clock.now();
    let mut before = None;
    for access in accesses {
        let due = begin + access.due;
        clock.sleep_until(due).await;
        if access.due >= WARM_UP {
            before.get_or_insert_with(|| (disk.counters(), clock.now()));
        }
        while under_way.front().is_some_and(Task::is_finished) || under_way.len() >= UNDER_WAY {
            if let Some(oldest) = under_way.pop_front() {
                oldest.await?;
            }
        }
        let (clock, taken, system) = (clock.clone(), taken.clone(), system.clone());
        under_way.push_back(spawner.spawn(async move {
            system.access(access).await?;
            if access.due >= WARM_UP {
                taken.borrow_mut().add(&access, clock.now().since(due));
            }
            Ok(())
        }));
    }
    for access in under_way {
        access.await?;
    }
    let mut outcome = taken.take();
    if let Some((counters, since)) = before {
        outcome.disk = disk.counters() - counters;
        outcome.took = clock.now().since(since);
    }
    let MixedOutcome { reads, writes, sequential_reads, sequential_writes, .. } = &mut outcome;
    [reads, writes, sequential_reads, sequential_writes].into_iter().for_each(|some| some.sort_unstable());
    Ok(outcome)
}

#[cfg(test)]
mod tests;

//! Small durable writes beside a streaming user: what each way of making them durable costs both of them. Published ways
//! are modelled here as opponents: file systems that journal, above a kernel's elevator. All of it runs on any device
//! behind the doors, so on real disks as on simulated ones.
//!
//! - [`system`]: what competes; `home`, `journal` and `single` are the systems, `group` and `log` what they share.
//! - `measure`: one run from beginning to end, `users`: who uses the system, `disks`: on what, `content`: what is
//!   written, `place`: where; `clients`: many at once, `mixed`: a load of all kinds of access; `array`, [`elevator`],
//!   `batch`: the kernel between a system and its disks.

mod array;
mod batch;
mod clients;
mod content;
mod disks;
pub mod elevator;
mod group;
mod home;
mod journal;
mod log;
mod measure;
mod mixed;
mod nearest;
mod place;
mod single;
pub mod system;
mod users;

pub use array::STRIPE;
pub use clients::{Clients, Durable};
pub use disks::Disks;
pub use measure::{Stage, on_disks};
pub use mixed::{MixedLoad, MixedOutcome, mean, run_mixed};
pub use place::{BLOCK, FILES, SmallWrite, reader_begins};

use crate::disk::{DiskSpec, RotatingSpec};
use crate::world::World;
use elevator::ElevatorSpec;
use forebay_model::{Bytes, Error, Rate, Result};
use std::time::Duration;
use system::Window;

/// How small writes are made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Written in place, and flushed.
    Home,
    /// Data home, then metadata into a journal.
    Ordered,
    /// Data and metadata into a journal, and home every few seconds.
    Data,
    /// As ordered, but random data goes into the journal.
    Adaptive,
    /// One log at one place, lazily brought home.
    Single,
    /// Objects on a target: the log nearest to where the arm is.
    Nearest,
    /// A log that is always where the arm is, and whose map costs nothing: a bound, of the mixed load only.
    Ideal,
}

impl Policy {
    /// All, by the names that [`Policy::parse`] reads.
    pub const ALL: [(&str, Policy); 7] = [
        ("home", Policy::Home),
        ("ordered", Policy::Ordered),
        ("data", Policy::Data),
        ("adaptive", Policy::Adaptive),
        ("single", Policy::Single),
        ("nearest", Policy::Nearest),
        ("ideal", Policy::Ideal),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Policy::ALL.iter().find(|(_, policy)| *policy == self).map_or("", |(name, _)| name)
    }

    /// Reads a name.
    pub fn parse(text: &str) -> Result<Policy> {
        let found = Policy::ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, policy)| *policy).ok_or_else(|| {
            let names: Vec<&str> = Policy::ALL.iter().map(|(name, _)| *name).collect();
            Error::usage(format!("no policy is called '{text}'; the names are {}", names.join(", ")))
        })
    }
}

/// Writes a second for each disk that can be asked for: a round every 200 us.
const MOST: u64 = 100_000;

/// How the kernel cuts a streaming reader's and a streaming writer's requests: read ahead by one window, written behind
/// by two requests. Found by calibration against the published shares.
const WINDOWS: [Window; 2] = [Window { piece: Bytes::kib(256), depth: 1 }, Window { piece: Bytes::kib(512), depth: 2 }];

/// What is run.
#[derive(Debug, Clone)]
pub struct Load {
    /// How small writes are made durable.
    pub policy: Policy,
    /// 4 KiB writes a second for each disk; none if zero. A round has [`FILES`] of them for each disk.
    pub iops: u64,
    /// Requests of a streaming reader.
    pub reader: Option<Bytes>,
    /// Requests of a streaming writer.
    pub writer: Option<Bytes>,
    /// Time measured.
    pub span: Duration,
    /// The kernel's queue for each disk.
    pub elevator: ElevatorSpec,
    /// How the kernel cuts what the streaming user reads and writes.
    pub windows: [Window; 2],
}

impl Load {
    /// `policy` at `iops` beside a reader of 128 MB requests, for a minute.
    pub fn beside_reader(policy: Policy, iops: u64) -> Load {
        Load {
            policy,
            iops,
            reader: Some(Bytes(128_000_000)),
            writer: None,
            span: Duration::from_secs(60),
            elevator: ElevatorSpec::default(),
            windows: WINDOWS,
        }
    }

    /// Refuses what cannot be run on so many disks.
    pub fn check(&self, disks: u64) -> Result<()> {
        if disks == 0 || disks > 64 {
            return Err(Error::usage(format!("{disks} disks cannot be striped; take 1 to 64")));
        }
        if self.iops > MOST {
            return Err(Error::usage(format!("{} writes a second for each disk; give at most {MOST}", self.iops)));
        }
        if self.span.is_zero() {
            return Err(Error::usage("nothing can be measured in no time; give --seconds 1 or more"));
        }
        if self.policy == Policy::Ideal {
            return Err(Error::usage(
                "ideal is modelled for the mixed load only; give --trace mixed, or another policy",
            ));
        }
        Ok(())
    }
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// What the reader read, and what it reads alone.
    pub read: Option<Share>,
    /// The same of the streaming writer.
    pub written: Option<Share>,
    /// How long after it was due each round was durable, the shortest first.
    pub latencies: Vec<Duration>,
    /// Rounds that the pace asked for.
    pub due: u64,
    /// Logs that changed places.
    pub log_swaps: u64,
    /// How long it took to bring all home that was in logs, in the run and after it; with us also how long checkpoints
    /// of the map and swaps took. Counted on the clock, whatever went on beside it.
    pub checkpoint: Duration,
    /// The part of it that was in the run.
    pub checkpoint_in_run: Duration,
    /// Simulated: the sustained rate of all disks where the reader is.
    pub disk_rate: Rate,
    /// Simulated: one rotation.
    pub turn: Duration,
}

/// What a streaming user got beside small writes, and alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    /// Beside small writes.
    pub beside: Rate,
    /// Alone on the same disks at the same place.
    pub alone: Rate,
}

impl Share {
    /// Of what it gets alone.
    pub fn share(&self) -> f64 {
        self.beside.0 as f64 / self.alone.0.max(1) as f64
    }
}

/// Runs the load on `disks` simulated disks, striped as one.
pub fn run(seed: u64, disk: &DiskSpec, disks: u64, load: &Load) -> Result<Outcome> {
    load.check(disks)?;
    let world = World::new(seed);
    let each: Vec<_> = (0..disks).map(|_| world.disk(disk.clone())).collect();
    let begins = reader_begins(disk.size, disks)?;
    let outcome = world.run(on_disks(Disks::simulated(&world, &each), load, &|_, _| ()))?;
    Ok(Outcome {
        disk_rate: Rate(disk.rate_at(begins).0 * disks),
        turn: Duration::from_nanos(disk.rotating().map_or(0, RotatingSpec::turn)),
        ..outcome
    })
}

#[cfg(test)]
mod tests;

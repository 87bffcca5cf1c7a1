//! Small durable writes beside a streaming user on simulated disks: what each way of making them durable costs both of
//! them. Published ways are modelled here as opponents: file systems that journal, above a kernel's elevator.
//!
//! - [`system`]: what competes; `home`, `journal` and `single` are the systems, `group` and `log` what they share.
//! - `users`: who uses them, `clients`: many at once on any device, `mixed`: a load
//!   of all kinds of access, `place`: where; `array`, [`elevator`], `batch`: the kernel between a system and its disks.

mod array;
mod batch;
mod clients;
pub mod elevator;
mod group;
mod home;
mod journal;
mod log;
mod mixed;
mod nearest;
mod place;
mod single;
pub mod system;
mod users;

pub use array::STRIPE;
pub use clients::{Clients, Durable};
pub use mixed::{MixedLoad, MixedOutcome, mean, run_mixed};
pub use place::{BLOCK, FILES, SmallWrite};

use crate::disk::{DiskSpec, Op, RotatingSpec};
use crate::world::World;
use array::Array;
use elevator::ElevatorSpec;
use forebay_model::{Bytes, Error, Rate, Result};
use place::Places;
use std::rc::Rc;
use std::time::Duration;
use system::{Streams, System, Window};
use users::{Streamer, rate, write_rounds};

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

/// How the kernel cuts a streaming reader's and a streaming writer's requests: read ahead by one window, written behind
/// by two requests. Found by calibration against the published shares.
const WINDOWS: [Window; 2] = [Window { piece: Bytes::kib(256), depth: 1 }, Window { piece: Bytes::kib(512), depth: 2 }];

/// What is run.
#[derive(Debug, Clone)]
pub struct Load {
    /// Each of the disks.
    pub disk: DiskSpec,
    /// How many, striped as one.
    pub disks: u64,
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
    /// `policy` at `iops` beside a reader of 128 MB requests on one `disk`, for a minute.
    pub fn beside_reader(disk: DiskSpec, policy: Policy, iops: u64) -> Load {
        Load {
            disk,
            disks: 1,
            policy,
            iops,
            reader: Some(Bytes(128_000_000)),
            writer: None,
            span: Duration::from_secs(60),
            elevator: ElevatorSpec::default(),
            windows: WINDOWS,
        }
    }
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// What the reader read, and what it reads alone.
    pub read: Option<Share>,
    /// The same of the streaming writer.
    pub written: Option<Share>,
    /// How long each round took until it was durable, the shortest first.
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
    /// The sustained rate of all disks where the streaming user is.
    pub disk_rate: Rate,
    /// One rotation.
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

/// Runs the load.
pub fn run(seed: u64, load: &Load) -> Result<Outcome> {
    if load.disks == 0 || load.disks > 64 {
        return Err(Error::usage(format!("{} disks cannot be striped; take 1 to 64", load.disks)));
    }
    if load.iops > MOST {
        return Err(Error::usage(format!("{} writes a second for each disk; give at most {MOST}", load.iops)));
    }
    if load.span.is_zero() {
        return Err(Error::usage("nothing can be measured in no time; give --seconds 1 or more"));
    }
    let world = World::new(seed);
    let disks: Vec<_> = (0..load.disks).map(|_| world.disk(load.disk.clone())).collect();
    let array = Rc::new(Array::new(&world, &disks, &load.elevator)?);
    let places = Places::new(array.size(), load.disks)?;
    let streams = |windows: &[Window; 2]| Streams::new(array.clone(), windows.clone());
    let users = [(load.reader, &places.read), (load.writer, &places.written)];
    let streamed: Vec<_> =
        users.into_iter().filter(|(user, _)| user.is_some()).map(|(_, range)| range.clone()).collect();
    let system = match load.policy {
        Policy::Nearest => nearest::Nearest::build(&world, &disks, &streamed)?,
        Policy::Home => Rc::new(home::Home::new(array.clone(), streams(&load.windows))),
        Policy::Ideal => {
            return Err(Error::usage(
                "ideal is modelled for the mixed load only; give --trace mixed, or another policy",
            ));
        }
        Policy::Single => {
            Rc::new(single::Single::new(&world, array.clone(), places.log.clone(), streams(&load.windows)))
        }
        journal => {
            Rc::new(journal::Journal::new(&world, journal, array.clone(), places.log.clone(), streams(&load.windows)))
        }
    };
    let mut outcome = Outcome {
        disk_rate: Rate(load.disk.rate_at(Bytes(places.read.start / load.disks)).0 * load.disks),
        turn: Duration::from_nanos(load.disk.rotating().map_or(0, RotatingSpec::turn)),
        ..Outcome::default()
    };
    world.run(measure(&world, load, &system, &places, &mut outcome))?;
    Ok(outcome)
}

/// Writes a second for each disk that can be asked for: a round every 200 us.
const MOST: u64 = 100_000;
/// How long a streaming user is given to get going.
const WARM_UP: Duration = Duration::from_secs(1);

async fn measure(
    world: &World,
    load: &Load,
    system: &Rc<dyn System>,
    places: &Places,
    outcome: &mut Outcome,
) -> Result<()> {
    let clock = world.clock();
    let users = [(Op::Read, load.reader, &places.read), (Op::Write, load.writer, &places.written)];
    let start =
        |op, request, file: &std::ops::Range<u64>| Streamer::start(world, system.clone(), op, file.clone(), request);
    let mut shares = [None, None];
    for (share, (op, request, file)) in shares.iter_mut().zip(users) {
        let Some(request) = request else { continue };
        let user = start(op, request, file);
        clock.sleep(WARM_UP).await;
        let (before, begin) = (user.moved(), clock.now());
        clock.sleep((load.span / 6).max(Duration::from_secs(5))).await;
        let alone = rate(before, user.moved(), clock.now().since(begin));
        user.stop().await?;
        *share = Some(Share { alone, beside: Rate(0) });
    }
    let streamers = users.map(|(op, request, file)| request.map(|request| start(op, request, file)));
    clock.sleep(WARM_UP).await;
    let moved = || streamers.each_ref().map(|user| user.as_ref().map_or(0, Streamer::moved));
    let (before, begin) = (moved(), clock.now());
    let until = begin + load.span;
    let rounds = async {
        if load.iops == 0 {
            return Ok(Vec::new());
        }
        let period = Duration::from_nanos(FILES * 1_000_000_000 / load.iops);
        outcome.due = (load.span.as_nanos() / period.as_nanos().max(1)) as u64;
        write_rounds(world, system, places, period, until).await
    };
    let rounds = std::pin::pin!(rounds);
    let stopwatch = async {
        clock.sleep_until(until).await;
        moved()
    };
    let (latencies, after) = both(rounds, std::pin::pin!(stopwatch)).await;
    outcome.latencies = latencies?;
    outcome.latencies.sort_unstable();
    for (i, streamer) in streamers.into_iter().enumerate() {
        if let Some(streamer) = streamer {
            streamer.stop().await?;
        }
        if let Some(share) = &mut shares[i] {
            share.beside = rate(before[i], after[i], load.span);
        }
    }
    [outcome.read, outcome.written] = shares;
    outcome.checkpoint_in_run = system.tally().checkpoint;
    system.settle().await?;
    let tally = system.tally();
    (outcome.log_swaps, outcome.checkpoint) = (tally.log_swaps, tally.checkpoint);
    Ok(())
}

/// Waits for both.
async fn both<A, B>(
    mut a: std::pin::Pin<&mut impl Future<Output = A>>,
    mut b: std::pin::Pin<&mut impl Future<Output = B>>,
) -> (A, B) {
    let (mut first, mut second) = (None, None);
    std::future::poll_fn(move |context| {
        use std::task::Poll;
        if first.is_none()
            && let Poll::Ready(value) = a.as_mut().poll(context)
        {
            first = Some(value);
        }
        if second.is_none()
            && let Poll::Ready(value) = b.as_mut().poll(context)
        {
            second = Some(value);
        }
        match (first.take(), second.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            rest => {
                (first, second) = rest;
                Poll::Pending
            }
        }
    })
    .await
}

#[cfg(test)]
mod tests;

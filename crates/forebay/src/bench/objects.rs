//! `forebay bench objects`: large sequential I/O of objects on a real disk, through a target in this process, beside
//! what the device gives to raw I/O; or many readers at once on a simulated one.

use super::figures::{self, fields};
use super::real::raw;
use clap::Args;
use forebay_env::Env;
use forebay_env::real::{self, OpenMode, Options, process};
use forebay_model::{Bytes, Error, ObjectId, Profile, Rate, Result};
use forebay_sim::disk::{DiskSpec, presets};
use forebay_sim::many;
use forebay_target::Target;
use forebay_target::object::Placement;
use forebay_target::object::rows::Quota;
use serde::Serialize;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// The volume of all objects.
const VOLUME: u64 = 1;
/// Bytes of an object on a real disk.
const OBJECT: Bytes = Bytes::mib(256);

/// What is measured.
#[derive(Args)]
pub struct ObjectsArgs {
    /// A directory in which a device file is made, or `sim:sata7200` (or cheetah15k, wd15ears, ssd, smr)
    #[arg(long)]
    disk: String,
    /// What is asked for at once
    #[arg(long, default_value = "8MiB", value_name = "SIZE")]
    request: Bytes,
    /// Real disks: requests under way
    #[arg(long, default_value_t = 2, value_name = "N")]
    depth: usize,
    /// Real disks: bytes written and read in all
    #[arg(long, default_value = "4GiB", value_name = "SIZE")]
    size: Bytes,
    /// Simulated disks: readers at once, and a slow one beside them
    #[arg(long, default_value_t = 60, value_name = "N")]
    readers: u64,
    /// Simulated disks: all readers come over one connection
    #[arg(long)]
    together: bool,
    /// Memory for what is read ahead
    #[arg(long, default_value = "150MB", value_name = "SIZE")]
    cache: Bytes,
    /// Virtual seconds measured
    #[arg(long, default_value_t = 60, value_name = "N")]
    seconds: u64,
    /// Seed of the simulation
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

/// The fields of the JSON of a real disk. The limits are raw I/O of 1 MiB, eight under way, before and after.
#[derive(Debug, Serialize)]
struct Figures {
    disk: String,
    request_bytes: u64,
    depth: usize,
    written_bytes_per_second: u64,
    write_limit_bytes_per_second: u64,
    read_bytes_per_second: u64,
    read_limit_bytes_per_second: u64,
    write_cpu_nanoseconds_per_kib: f64,
    read_cpu_nanoseconds_per_kib: f64,
    peak_memory_bytes: u64,
}

/// The fields of the JSON of a simulated disk.
#[derive(Debug, Serialize)]
struct Simulated {
    disk: String,
    readers: u64,
    together: bool,
    request_bytes: u64,
    cache_bytes: u64,
    read_bytes_per_second: u64,
    limit_bytes_per_second: u64,
    reads: u64,
    found_ahead_share: f64,
    awaited_share: f64,
    slow_found_at_once_share: f64,
    evicted_unread: u64,
    fairness: f64,
}

/// Runs the measurement.
pub fn run(args: &ObjectsArgs) -> Result<Value> {
    if args.request == Bytes::ZERO || args.request > Bytes::mib(64) || args.depth == 0 {
        return Err(Error::usage(format!("{} at once; ask for 1 B to 64 MiB, at least one under way", args.request)));
    }
    match presets::parse(&args.disk) {
        Some(disk) => fields(simulated(args, disk?)?),
        None => fields(figures::in_directory(&args.disk, |dir| on_disk(args, &dir.join("target.0")))?),
    }
}

fn simulated(args: &ObjectsArgs, disk: DiskSpec) -> Result<Simulated> {
    let load = many::Load {
        readers: args.readers,
        together: args.together,
        request: args.request,
        cache: args.cache,
        span: Duration::from_secs(args.seconds),
        ..many::Load::sixty(disk)
    };
    let outcome = many::run(args.seed, &load)?;
    let share = |part: u64, of: u64| part as f64 / of.max(1) as f64;
    Ok(Simulated {
        disk: args.disk.clone(),
        readers: args.readers,
        together: args.together,
        request_bytes: args.request.0,
        cache_bytes: args.cache.0,
        read_bytes_per_second: outcome.read.0,
        limit_bytes_per_second: load.disk.rate_at(Bytes::ZERO).0,
        reads: outcome.reads,
        found_ahead_share: outcome.share(),
        awaited_share: share(outcome.awaited, outcome.reads),
        slow_found_at_once_share: share(outcome.slow_found, outcome.slow_reads),
        evicted_unread: outcome.evicted_unread,
        fairness: outcome.fairness,
    })
}

fn on_disk(args: &ObjectsArgs, path: &Path) -> Result<Figures> {
    // Beside objects there are logs, rows, and what a target keeps free.
    let device = Bytes(args.size.0 + args.size.0 / 3) + Bytes::mib(512);
    drop(real::create_file(path, device)?);
    let span = Duration::from_secs(60);
    // The file's blocks are written once before anything is timed: first writes to unwritten extents cost more.
    raw::writes(path, device, span)?;
    let limits = |size| Ok::<_, Error>((raw::writes(path, size, span)?, raw::reads(path, size, span)?));
    let before = limits(args.size)?;
    let opened = real::open(path, OpenMode::Exclusive)?;
    let (size, request, depth, cache) = (args.size, args.request, args.depth, args.cache);
    let (written, read) = real::run(Options { device: opened }, move |env| async move {
        Target::format(env.clone(), Profile::guess(env.device.geometry().size, false)).await?;
        let target = Target::open(env.clone()).await?;
        target.objects().set_cache(cache);
        let load = Sequence { env, target, size, request, depth };
        let figures = load.run().await?;
        load.target.close().await?;
        Ok::<_, Error>(figures)
    })??;
    let after = limits(args.size)?;
    let mean = |a: Rate, b: Rate| a.0 / 2 + b.0 / 2;
    Ok(Figures {
        disk: args.disk.clone(),
        request_bytes: args.request.0,
        depth: args.depth,
        written_bytes_per_second: written.rate.0,
        write_limit_bytes_per_second: mean(before.0, after.0),
        read_bytes_per_second: read.rate.0,
        read_limit_bytes_per_second: mean(before.1, after.1),
        write_cpu_nanoseconds_per_kib: written.cpu,
        read_cpu_nanoseconds_per_kib: read.cpu,
        peak_memory_bytes: process::peak_memory().0,
    })
}

/// Objects that are written, and then read, from the first byte to the last, one after another.
struct Sequence {
    env: Env,
    target: Rc<Target>,
    size: Bytes,
    request: Bytes,
    depth: usize,
}

/// What one pass reached: bytes a second, and nanoseconds of CPU for a KiB.
struct Pass {
    rate: Rate,
    cpu: f64,
}

impl Sequence {
    async fn run(&self) -> Result<(Pass, Pass)> {
        let objects = self.target.objects();
        objects.create_volume(VOLUME, Quota::default()).await?;
        for object in 1..=self.size.0.div_ceil(OBJECT.0) {
            objects.create(ObjectId { volume: VOLUME, object }, Vec::new()).await?;
        }
        let stream = self.target.stream();
        // One for each request under way. No two places hold the same: what is below may know that it has it already.
        let byte = |n: u64| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
        let made = (0..self.depth).map(|_| (0..self.request.0).map(byte).collect()).collect();
        let buffers: Rc<RefCell<Vec<Vec<u8>>>> = Rc::new(RefCell::new(made));
        let written = self
            .pass(self.size, |target, id, offset, length| {
                let buffers = buffers.clone();
                async move {
                    let mut bytes = buffers.borrow_mut().pop().expect("there are as many as requests under way");
                    raw::fill(&mut bytes, Bytes(id.object * OBJECT.0 + offset));
                    let result =
                        target.objects().write(stream, id, offset, &bytes[..length as usize], Placement::Home).await;
                    buffers.borrow_mut().push(bytes);
                    result.map(|()| length)
                }
            })
            .await?;
        let read = |target: Rc<Target>, id, offset, length| async move {
            Ok(target.objects().read(stream, id, offset, length).await?.len() as u64)
        };
        // The cache takes its memory once, in the first seconds of a process.
        self.pass(self.size.min(OBJECT), read).await?;
        let read = self.pass(self.size, read).await?;
        Ok((written, read))
    }

    /// Asks for the first `size` bytes.
    async fn pass<F>(&self, size: Bytes, ask: impl Fn(Rc<Target>, ObjectId, u64, u64) -> F) -> Result<Pass>
    where
        F: Future<Output = Result<u64>> + 'static,
    {
        let (begin, cpu) = (self.env.clock.now(), process::cpu_time());
        let (mut at, mut moved) = (0, 0);
        let mut under_way = VecDeque::new();
        loop {
            while at < size.0 && under_way.len() < self.depth {
                let (object, offset) = (1 + at / OBJECT.0, at % OBJECT.0);
                let length = self.request.0.min(OBJECT.0 - offset).min(size.0 - at);
                let id = ObjectId { volume: VOLUME, object };
                under_way.push_back(self.env.spawner.spawn(ask(self.target.clone(), id, offset, length)));
                at += length;
            }
            let Some(next) = under_way.pop_front() else { break };
            moved += next.await?;
        }
        let rate = Rate::of(Bytes(moved), self.env.clock.now().since(begin));
        let cpu = process::cpu_time().saturating_sub(cpu);
        Ok(Pass { rate, cpu: cpu.as_nanos() as f64 / (moved as f64 / 1024.0) })
    }
}

//! `forebay bench logs`: small durable writes beside a streaming user, or of many clients at once, on simulated disks and
//! on a real one.

mod on_path;

use super::figures::{self, Latency, fields, millis, rounded};
use clap::{Args, ValueEnum};
use forebay_env::real::{self, OpenMode, Options, process, thread};
use forebay_model::{Bytes, Error, Rate, Result};
use forebay_sim::disk::{DiskSpec, presets};
use forebay_sim::logs::{Clients, Durable, Load, MixedLoad, Outcome, Policy, Share, run as run_load, run_mixed};
use forebay_sim::world::World;
use forebay_target::profile::{MeasureOptions, measure};
use serde::Serialize;
use serde_json::Value;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

/// What is measured.
#[derive(Args)]
pub struct LogsArgs {
    /// `sim:cheetah15k` (or sata7200, wd15ears, ssd, smr), or a real one: a directory, in which a file of --size is made and
    /// removed again; or, without --clients, a block device or a file, all of which is overwritten
    #[arg(long)]
    disk: String,
    /// Clients that each write 4 KiB and wait until that is durable, as fast as they can, instead of all else
    #[arg(long, value_name = "N", conflicts_with_all = ["iops", "reader", "writer", "disks"])]
    clients: Option<u64>,
    /// Targets on the real disk, each with a thread of its own and its part of --size and of the clients
    #[arg(long, default_value_t = 1, value_name = "N", requires = "clients", value_parser = clap::value_parser!(u64).range(1..=64))]
    targets: u64,
    /// Instead of small writes beside streams: mixed, random and sequential reads and writes that come --iops times a
    /// second, on one simulated disk
    #[arg(long, value_name = "NAME", conflicts_with_all = ["clients", "reader", "writer", "disks"])]
    trace: Option<Trace>,
    /// The file on a real disk that stands for a device; 4GiB, with --clients 1GiB. The streaming user's file is a
    /// fiftieth of it, up to 2 GB
    #[arg(long, value_name = "SIZE", value_parser = Bytes::parse)]
    size: Option<Bytes>,
    /// Overwrite a device or file also if something is known to be on it
    #[arg(long, conflicts_with_all = ["clients", "trace"])]
    force: bool,
    /// How small writes are made durable: home, ordered, data, adaptive, single or nearest; with --trace also ideal, a
    /// log that is always where the arm is
    #[arg(long, value_parser = Policy::parse)]
    policy: Policy,
    /// Small writes a second for each disk, in rounds of 20 for each disk; 0 for none
    #[arg(long, default_value_t = 320, value_name = "N")]
    iops: u64,
    /// Requests of a user that reads in sequence as fast as it can; or none
    #[arg(long, default_value = "128MB", value_name = "SIZE", value_parser = request)]
    reader: Request,
    /// Requests of a user that writes in sequence as fast as it can; or none
    #[arg(long, default_value = "none", value_name = "SIZE", value_parser = request)]
    writer: Request,
    /// Simulated disks, striped with a unit of 64 KiB
    #[arg(long, default_value_t = 1, value_name = "N")]
    disks: u64,
    /// Seconds measured, virtual on simulated disks. Before that each streaming user is measured alone: for five seconds, or
    /// a sixth of these if that is more, but never for longer than these
    #[arg(long, default_value_t = 60, value_name = "N")]
    seconds: u64,
    /// Seed of the simulation, and on a real disk of the places of small writes
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

/// A load that is not made of streams.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Trace {
    /// All kinds of access, hot and cold regions, open loop.
    Mixed,
}

/// The size of a streaming user's requests, if there is one.
#[derive(Debug, Clone, Copy)]
struct Request(Option<Bytes>);

fn request(text: &str) -> Result<Request> {
    if text == "none" {
        return Ok(Request(None));
    }
    let size = Bytes::parse(text)?;
    if size.0 == 0 || !size.0.is_multiple_of(4096) {
        return Err(Error::usage(format!("requests of {} bytes; give a multiple of 4096, or none", size.0)));
    }
    Ok(Request(Some(size)))
}

/// The fields of the JSON.
#[derive(Debug, Serialize)]
struct Figures {
    disk: String,
    disks: u64,
    policy: &'static str,
    iops: u64,
    seconds: u64,
    seed: u64,
    read_share: Option<f64>,
    write_share: Option<f64>,
    sync_latency_ms: Latency,
    rounds: u64,
    rounds_due: u64,
    log_swaps: u64,
    checkpoint_seconds: f64,
    checkpoint_in_run_seconds: f64,
    read_bytes_per_second: Option<u64>,
    read_alone_bytes_per_second: Option<u64>,
    written_bytes_per_second: Option<u64>,
    written_alone_bytes_per_second: Option<u64>,
    limit_bytes_per_second: u64,
    /// Of simulated disks.
    limit_turn_ms: Option<f64>,
    /// Of real ones.
    limit_sync_ms: Option<f64>,
}

/// The fields of the JSON with clients.
#[derive(Debug, Serialize)]
struct ClientFigures {
    disk: String,
    policy: &'static str,
    clients: u64,
    targets: u64,
    seconds: f64,
    writes: u64,
    writes_per_second: f64,
    flushes: u64,
    cpu_microseconds_per_write: f64,
    sync_latency_ms: Latency,
}

/// The fields of the JSON with a trace.
#[derive(Debug, Serialize)]
struct TraceFigures {
    disk: String,
    policy: &'static str,
    trace: &'static str,
    iops: u64,
    seconds: u64,
    seed: u64,
    accesses: u64,
    latency_ms: Latency,
    read_latency_ms: Latency,
    write_latency_ms: Latency,
    sequential_read_latency_ms: Latency,
    sequential_write_latency_ms: Latency,
    busy_share: f64,
    seeks_per_second: f64,
    flushes_per_second: f64,
}

/// What the disk can do at most.
enum Limits {
    /// What is known of a simulated one is in the outcome.
    Known,
    /// Large reads in sequence where the reader is, and one small write by itself until it is durable.
    Measured(Rate, Duration),
}

/// Runs the measurement; `json`: for a program, so that no progress is shown.
pub fn run(args: &LogsArgs, json: bool) -> Result<Value> {
    let simulated = presets::parse(&args.disk).transpose();
    if let Some(clients) = args.clients {
        return fields(of_clients(args, clients, simulated?)?);
    }
    if let Some(Trace::Mixed) = args.trace {
        let disk = figures::simulated(&args.disk, "; on a real one leave --trace out")?;
        return fields(of_trace(args, disk)?);
    }
    let load = Load {
        reader: args.reader.0,
        writer: args.writer.0,
        span: Duration::from_secs(args.seconds),
        ..Load::beside_reader(args.policy, args.iops)
    };
    fields(match simulated? {
        Some(disk) => figures(args, &run_load(args.seed, &disk, args.disks, &load)?, Limits::Known),
        None => {
            let (outcome, limits) = on_path::run(args, load, json)?;
            figures(args, &outcome, limits)
        }
    })
}

fn of_trace(args: &LogsArgs, disk: DiskSpec) -> Result<TraceFigures> {
    let span = Duration::from_secs(args.seconds);
    let outcome = run_mixed(args.seed, &MixedLoad { disk, policy: args.policy, iops: args.iops, span })?;
    let all = outcome.all();
    let took = outcome.took.as_secs_f64().max(f64::MIN_POSITIVE);
    Ok(TraceFigures {
        disk: args.disk.clone(),
        policy: args.policy.name(),
        trace: "mixed",
        iops: args.iops,
        seconds: args.seconds,
        seed: args.seed,
        accesses: all.len() as u64,
        latency_ms: Latency::of(&all),
        read_latency_ms: Latency::of(&outcome.reads),
        write_latency_ms: Latency::of(&outcome.writes),
        sequential_read_latency_ms: Latency::of(&outcome.sequential_reads),
        sequential_write_latency_ms: Latency::of(&outcome.sequential_writes),
        busy_share: rounded(outcome.disk.busy.as_secs_f64() / took),
        seeks_per_second: rounded(outcome.disk.seeks as f64 / took),
        flushes_per_second: rounded(outcome.disk.flushes as f64 / took),
    })
}

fn of_clients(args: &LogsArgs, clients: u64, disk: Option<DiskSpec>) -> Result<ClientFigures> {
    if args.policy != Policy::Nearest {
        return Err(Error::usage("clients write to a target; say --policy nearest"));
    }
    let span = Duration::from_secs(args.seconds);
    let durable = match disk {
        Some(disk) => {
            if args.targets > 1 {
                return Err(Error::usage("a simulated disk has one target; leave --targets out, or name a directory"));
            }
            let world = World::new(args.seed);
            let env = world.env(world.disk(disk));
            world.run(async { Clients::on(env, None, clients).await?.write(span, process::cpu_time).await })?
        }
        None => figures::in_directory(&args.disk, |dir| on_files(args, dir, clients, span))?,
    };
    Ok(ClientFigures {
        disk: args.disk.clone(),
        policy: args.policy.name(),
        clients,
        targets: args.targets,
        seconds: rounded(durable.span.as_secs_f64()),
        writes: durable.latencies.len() as u64,
        writes_per_second: rounded(durable.rate()),
        flushes: durable.syncs,
        cpu_microseconds_per_write: rounded(durable.cpu.as_secs_f64() * 1e6 / durable.latencies.len().max(1) as f64),
        sync_latency_ms: Latency::of(&durable.latencies),
    })
}

/// On files, each with a target that has its part of the clients, all of which begin at the same time.
fn on_files(args: &LogsArgs, dir: &Path, clients: u64, span: Duration) -> Result<Durable> {
    let targets = args.targets;
    if clients < targets {
        return Err(Error::usage(format!("{targets} targets for {clients} clients; give each target one at least")));
    }
    let paths: Vec<PathBuf> = (0..targets).map(|number| dir.join(format!("target-{number}"))).collect();
    for path in &paths {
        // Their blocks are written once before anything is timed: first writes to unwritten extents cost more.
        let size = (args.size.unwrap_or(Bytes::gib(1)) / targets).align_down(Bytes::mib(1));
        drop(real::create_file(path, size)?);
        super::real::raw::writes(path, size, Duration::from_secs(120))?;
    }
    // All begin when each is ready, or has failed.
    let (ready, all_ready) = mpsc::channel();
    let mut threads = Vec::new();
    for (number, path) in (0..).zip(paths) {
        let count = clients / targets + u64::from(number < clients % targets);
        let (ready, (begin, begun)) = (ready.clone(), mpsc::channel());
        let target = thread::spawn("target", move || on_file(&path, count, span, Start { ready, begun }))?;
        threads.push((target, begin));
    }
    drop(ready);
    let Err(mpsc::RecvError) = all_ready.recv();
    let (targets, begin): (Vec<_>, Vec<_>) = threads.into_iter().unzip();
    drop(begin);
    let mut each = Vec::new();
    for target in targets {
        each.push(target.join().unwrap_or_else(|_| Err(Error::disconnected("a target panicked")))?);
    }
    Ok(Durable::together(each))
}

/// How targets begin together: whoever drops `ready` is, and waits until `begun` ends.
struct Start {
    ready: Sender<Infallible>,
    begun: Receiver<Infallible>,
}

fn on_file(path: &Path, clients: u64, span: Duration, start: Start) -> Result<Durable> {
    let device = real::open(path, OpenMode::Exclusive)?;
    real::run(Options { device }, move |env| async move {
        // As formatting does: virtual disks often say that they rotate when nothing does.
        let geometry = env.device.geometry();
        let options = MeasureOptions::for_extent(geometry.size, geometry.rotates, true);
        let profile = measure(&env, Bytes::ZERO..geometry.size, options, &mut |_| ()).await?;
        let clients = Clients::on(env, Some(profile), clients).await?;
        drop(start.ready);
        let Err(mpsc::RecvError) = start.begun.recv();
        clients.write(span, process::cpu_time).await
    })?
}

fn figures(args: &LogsArgs, outcome: &Outcome, limits: Limits) -> Figures {
    let (limit, turn, sync) = match limits {
        Limits::Known => (outcome.disk_rate, Some(outcome.turn), None),
        Limits::Measured(rate, sync) => (rate, None, Some(sync)),
    };
    let share = |share: &Option<Share>| share.map(|share| rounded(share.share()));
    Figures {
        disk: args.disk.clone(),
        disks: args.disks,
        policy: args.policy.name(),
        iops: args.iops,
        seconds: args.seconds,
        seed: args.seed,
        read_share: share(&outcome.read),
        write_share: share(&outcome.written),
        sync_latency_ms: Latency::of(&outcome.latencies),
        rounds: outcome.latencies.len() as u64,
        rounds_due: outcome.due,
        log_swaps: outcome.log_swaps,
        checkpoint_seconds: rounded(outcome.checkpoint.as_secs_f64()),
        checkpoint_in_run_seconds: rounded(outcome.checkpoint_in_run.as_secs_f64()),
        read_bytes_per_second: outcome.read.map(|share| share.beside.0),
        read_alone_bytes_per_second: outcome.read.map(|share| share.alone.0),
        written_bytes_per_second: outcome.written.map(|share| share.beside.0),
        written_alone_bytes_per_second: outcome.written.map(|share| share.alone.0),
        limit_bytes_per_second: limit.0,
        limit_turn_ms: turn.map(millis),
        limit_sync_ms: sync.map(millis),
    }
}

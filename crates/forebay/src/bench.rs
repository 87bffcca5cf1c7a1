//! `forebay bench`: measures what is promised, beside the limit of the device it ran on.

mod figures;
mod file;
mod heap;
mod logs;
mod objects;
mod promise;
mod real;
mod rebuild;
mod simulated;
mod spread;

use crate::context::Context;
use clap::{Args, Subcommand};
use forebay_model::{Bytes, Rate, Result};
use serde::Serialize;

/// What can be measured.
#[derive(Subcommand)]
pub enum BenchCommand {
    /// A ring with a guarantee, beside readers and pins. The limit beside the figures is what raw large I/O gives to one
    /// reader in turns with writing at the same rate; on a real disk without readers, or at rate 0, what raw large
    /// sequential writes reach. Or, with --sim, a ring over several targets of a cluster, and what links and disks allow
    Ring(RingArgs),
    /// Small durable writes beside a streaming user, on simulated disks or on a real one
    Logs(logs::LogsArgs),
    /// Objects: large sequential writes and reads on a real disk, or many readers at once on a simulated one
    Objects(objects::ObjectsArgs),
    /// A heap: what small records that come and go cost a disk, and what is left of its speed in the end
    Heap(heap::HeapArgs),
    /// Striped files, over nodes on the network
    File(file::FileArgs),
    /// A target of a simulated cluster is lost, and all others make anew what it had
    Rebuild(rebuild::RebuildArgs),
    /// A promise beside everything else at once: readers, pins, an aged and full disk, small durable writes, large ones
    Promise(promise::PromiseArgs),
}

/// How a ring is measured.
#[derive(Args)]
pub struct RingArgs {
    /// `sim:wd15ears` (or cheetah15k, sata7200, ssd, smr), or a directory in which a device file is made
    #[arg(long, required_unless_present = "sim", default_value = "")]
    pub disk: String,
    /// Simulated disks: divide the capacity by this
    #[arg(long, default_value_t = 100)]
    pub scale: u64,
    /// Size of elements; or `mixed`, from 20 B to 60 MB; or `packets`, frames of the usual mix of sizes, or
    /// `packets:SIZE` (real disks), with the keys of packets if no others are given
    #[arg(long, default_value = "1MiB")]
    pub element: String,
    /// Guaranteed rate; the stream comes as fast as that. On a real disk 0 measures the most
    #[arg(long, default_value = "60MB/s")]
    pub rate: Rate,
    /// Saturating readers
    #[arg(long, default_value_t = 8)]
    pub readers: u64,
    /// Share of the ring that is pinned, in percent, of what an aged ring has; an empty one has nothing to pin
    #[arg(long, default_value_t = 5, value_name = "PERCENT")]
    pub pins: u64,
    /// Go round once before measuring
    #[arg(long)]
    pub aged: bool,
    /// Share of what can hold the guarantee that the ring takes, in percent
    #[arg(long, default_value_t = 99.9, value_name = "PERCENT")]
    pub fill: f64,
    /// Measure this long instead of three laps (simulated) or ten seconds (real)
    #[arg(long)]
    pub seconds: Option<u64>,
    /// A key of the ring; repeat it for more
    #[arg(long = "key")]
    pub keys: Vec<String>,
    /// How long an accepted element may stay in memory
    #[arg(long, default_value = "1s", value_name = "SPAN")]
    pub flush_interval: String,
    /// Seed of the simulation
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Real disks: bytes of the device file
    #[arg(long, default_value = "4GiB")]
    pub size: Bytes,
    /// Over several targets
    #[command(flatten)]
    pub spread: spread::SpreadArgs,
}

/// What came of it: the fields of the JSON.
///
/// `worst_second_bytes_per_second` counts what came in a second, was kept, and was durable in time; without a rate, what
/// became durable in a second. `limit_bytes_per_second` is what raw large I/O gives in place of the readers, in turns
/// with writing at the same rate, at the same places; on a real disk without readers, or without a rate, it is what raw
/// large sequential writes reach.
#[derive(Debug, Default, Serialize)]
pub struct Figures {
    disk: String,
    element: String,
    guarantee_bytes_per_second: u64,
    written_bytes_per_second: u64,
    worst_second_bytes_per_second: u64,
    missed_deadlines: u64,
    lost_elements: u64,
    read_bytes_per_second: u64,
    limit_bytes_per_second: u64,
    elements_per_second: u64,
    cpu_nanoseconds_per_element: f64,
    seconds: f64,
    capacity_bytes: u64,
    pinned_segments: u64,
    staging_bytes: u64,
    staging_peak_bytes: u64,
    /// What the simulated device read and wrote in all, and how much of the time it worked; zero on a real one.
    device_read_bytes_per_second: u64,
    device_written_bytes_per_second: u64,
    device_busy_share: f64,
    peak_memory_bytes: u64,
}

/// Runs the measurement and shows it.
pub fn run(context: &mut Context, command: &BenchCommand) -> Result<()> {
    let fields = match command {
        BenchCommand::Ring(args) if args.spread.is_asked() => spread::run(args),
        BenchCommand::Ring(args) => figures::fields(ring(args)?),
        BenchCommand::Logs(args) => logs::run(args, context.json),
        BenchCommand::Objects(args) => objects::run(args),
        BenchCommand::Heap(args) => heap::run(args, context.json),
        BenchCommand::File(args) => file::run(args),
        BenchCommand::Rebuild(args) => rebuild::run(args),
        BenchCommand::Promise(args) => promise::run(args),
    };
    figures::show(context, &fields?)
}

fn ring(args: &RingArgs) -> Result<Figures> {
    let mut figures = match forebay_sim::disk::presets::parse(&args.disk) {
        Some(spec) => simulated::run(args, spec?)?,
        None => figures::in_directory(&args.disk, |dir| real::run(args, dir))?,
    };
    figures.disk.clone_from(&args.disk);
    figures.element.clone_from(&args.element);
    Ok(figures)
}

//! `forebay bench heap`: what small records that come and go cost a disk, simulated or real, with one way of using slots
//! again or another; and how fast a heap is read through when all of it was replaced many times.

mod disk;

use super::figures::{fields, rounded};
use crate::show::live::{Live, bar};
use clap::{Args, ValueEnum};
use disk::Disk;
use forebay_env::real::file;
use forebay_model::heap::{HeapMode, HeapSettings};
use forebay_model::{Bytes, Error, Result};
use forebay_sim::heap::load::{Tell, Work};
use forebay_sim::heap::measure::{Outcome, Setup};
use forebay_sim::heap::trace::Trace;
use forebay_sim::heap::{churn, pages, scan, tree};
use forebay_target::heap::HeapOptions;
use serde::Serialize;
use serde_json::Value;
use std::cell::RefCell;
use std::rc::Rc;

/// Whether slots are used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Read and write: they are
    Rw,
    /// Write once, read many: they are not
    Worm,
}

/// Whether records are sorted and merged before they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Gather {
    /// They are
    On,
    /// Each is written by itself
    Off,
}

/// In which order keys come into trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Order {
    /// One tree, each key greater than those before
    Rising,
    /// One tree, any order
    Random,
    /// Three trees: rising in one, any order in two
    Both,
}

/// What is measured.
#[derive(Args)]
pub struct HeapArgs {
    /// `sim:sata7200` (or cheetah15k, which is scsi15k too, wd15ears, ssd, smr), or a directory in which a device file is made
    #[arg(long, default_value = "sim:sata7200")]
    disk: String,
    /// What is put, read and freed. pages: those of three B+trees, without their keys: each that changes goes to a new
    /// record, and its old one is freed. tree: keys, in three real B+trees. churn: records that are replaced at random, by
    /// others of other sizes. trace FILE: lines `put NAME LENGTH`, `free NAME`, `get NAME` and `commit`. scan: reading
    /// all, when it is new and when all of it was replaced --rounds times
    #[arg(long, num_args = 1..=2, value_names = ["LOAD", "FILE"], default_value = "pages")]
    load: Vec<String>,
    /// Free slots at which an allocator that was full is used again; 1 is eager
    #[arg(long, default_value_t = HeapSettings::default().threshold, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=5000))]
    threshold: u32,
    /// Whether records are sorted and merged before they are written
    #[arg(long, value_enum, default_value = "on")]
    gather: Gather,
    /// Whether slots are used again
    #[arg(long, value_enum, default_value = "rw")]
    mode: Mode,
    /// Keys that are put into each tree, or records that are there at any moment; 400000, of churn and scan 100000
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    keys: Option<u64>,
    /// Keys, or puts, between commits; 100000, of churn and scan 10000
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    per_commit: Option<u64>,
    /// tree: in which order keys come
    #[arg(long, value_enum, default_value = "both")]
    order: Order,
    /// churn and scan: bytes of a record, instead of 64 to 8182 and 1.5 KB on average
    #[arg(long, value_name = "SIZE")]
    record_bytes: Option<Bytes>,
    /// churn and scan: how many times each record is replaced (by churn, on average); 4, of scan 20
    #[arg(long, value_name = "N")]
    rounds: Option<u64>,
    /// scan: neighbouring keys that are replaced after one another, in every second round; in the others keys are
    /// replaced in any order
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    run: u64,
    /// Buffers of 1 MiB for records that wait to be written
    #[arg(long, default_value_t = HeapOptions::default().buffers, value_name = "N")]
    buffers: usize,
    /// Real disks: bytes of the device file
    #[arg(long, default_value = "4GiB", value_name = "SIZE")]
    size: Bytes,
    /// Seed of the load, and of the simulation
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

/// What is run: a load, or reading all.
enum Measured {
    Load(Work),
    Scan(scan::Load),
}

/// The fields of the JSON that say what was measured. `seed` is that of the load on a real disk.
#[derive(Debug, Serialize)]
struct Asked {
    disk: String,
    load: String,
    threshold: u32,
    gather: bool,
    worm: bool,
    seed: u64,
}

/// The fields of the JSON. `mean_seek_fraction` is how far apart writes that follow one another are, as a share of the
/// disk. What a load costs is not known of simulated disks.
#[derive(Debug, Serialize)]
struct Figures {
    #[serde(flatten)]
    asked: Asked,
    device_writes: u64,
    device_written_bytes: u64,
    device_reads: u64,
    device_flushes: u64,
    mean_write_bytes: f64,
    mean_seek_fraction: f64,
    read_back: u64,
    seconds: f64,
    records: u64,
    records_per_second: f64,
    record_bytes: u64,
    dropped_records: u64,
    store_bytes: u64,
    slot_efficiency: f64,
    cpu_seconds: Option<f64>,
    puts_per_cpu_second: Option<f64>,
    cached_get_nanoseconds: Option<u64>,
}

/// The fields of the JSON of a scan.
#[derive(Debug, Serialize)]
struct ScanFigures {
    #[serde(flatten)]
    asked: Asked,
    records: u64,
    rounds: u64,
    batch_records: usize,
    fresh_scan: u64,
    aged_scan: u64,
    share: f64,
    fresh_scan_by_key: u64,
    aged_scan_by_key: u64,
    share_by_key: f64,
    fresh_record_bytes: u64,
    aged_record_bytes: u64,
    fresh_store_bytes: u64,
    aged_store_bytes: u64,
    replacing_seconds: f64,
    cpu_seconds: Option<f64>,
}

/// Runs the measurement; `json`: for a program, so that no progress is shown.
pub fn run(args: &HeapArgs, json: bool) -> Result<Value> {
    let mode = if args.mode == Mode::Worm { HeapMode::Worm } else { HeapMode::ReadWrite };
    let setup = Setup {
        settings: HeapSettings { threshold: args.threshold, mode, ..HeapSettings::default() },
        options: HeapOptions { buffers: args.buffers, gather: args.gather == Gather::On, ..HeapOptions::default() },
    };
    let asked = Asked {
        disk: args.disk.clone(),
        load: args.load.join(" "),
        threshold: args.threshold,
        gather: setup.options.gather,
        worm: args.mode == Mode::Worm,
        seed: args.seed,
    };
    let measured = measured(args)?;
    let disk = Disk::of(args)?;
    let tell = progress(&asked, json);
    match measured {
        Measured::Load(work) => fields(of_load(asked, &disk.load(setup, work, tell)?, disk.is_real())),
        Measured::Scan(load) => fields(of_scan(asked, &load, &disk.scan(setup, load, tell)?, disk.is_real())),
    }
}

/// What --load and the options beside it mean.
fn measured(args: &HeapArgs) -> Result<Measured> {
    let keys = |usual| args.keys.unwrap_or(usual);
    let per_commit = |usual| args.per_commit.unwrap_or(usual);
    let record = args.record_bytes.map(|bytes| bytes.0 as usize);
    let words: Vec<&str> = args.load.iter().map(String::as_str).collect();
    Ok(match words[..] {
        ["pages"] => Measured::Load(Work::Pages(pages::Load { keys: keys(400_000), per_commit: per_commit(100_000) })),
        ["tree"] => {
            let order = match args.order {
                Order::Rising => tree::Order::Rising,
                Order::Random => tree::Order::Random,
                Order::Both => tree::Order::Both,
            };
            Measured::Load(Work::Tree(tree::Load { keys: keys(400_000), per_commit: per_commit(100_000), order }))
        }
        ["churn"] => Measured::Load(Work::Churn(churn::Load {
            keys: keys(100_000),
            record,
            rounds: args.rounds.unwrap_or(4),
            per_commit: per_commit(10_000),
        })),
        ["scan"] => Measured::Scan(scan::Load {
            keys: keys(100_000),
            record,
            rounds: args.rounds.unwrap_or(20),
            run: args.run,
            per_commit: per_commit(10_000),
        }),
        ["trace", name] => Measured::Load(Work::Trace(Rc::new(Trace::parse(name, &file::read_text(name)?)?))),
        ["trace"] => return Err(Error::usage("which trace is not said; give --load trace FILE")),
        _ => {
            return Err(Error::usage(format!(
                "no load is called '{}'; the names are pages, tree, churn, scan, and trace with a file",
                args.load.join(" ")
            )));
        }
    })
}

/// A line on a terminal that says how far it is.
fn progress(asked: &Asked, json: bool) -> Tell {
    let live = RefCell::new(Live::new(!json));
    let doing = format!("{} on {}", asked.load, asked.disk);
    Rc::new(move |done, total| {
        let mut live = live.borrow_mut();
        if live.is_due() {
            live.show(&format!("{doing} {}", bar(done, total, 30)));
        }
    })
}

fn of_load(asked: Asked, outcome: &Outcome, is_real: bool) -> Figures {
    let (device, given) = (outcome.device, outcome.given);
    let (seconds, cpu) = (outcome.span.as_secs_f64(), outcome.cpu.as_secs_f64());
    Figures {
        asked,
        device_writes: device.writes,
        device_written_bytes: device.bytes_written.0,
        device_reads: device.reads,
        device_flushes: device.flushes,
        mean_write_bytes: rounded(device.bytes_written.0 as f64 / device.writes.max(1) as f64),
        mean_seek_fraction: outcome.seek_fraction,
        read_back: outcome.status.output.read_back,
        seconds: rounded(seconds),
        records: given.puts,
        records_per_second: rounded(given.puts as f64 / seconds.max(f64::MIN_POSITIVE)),
        record_bytes: given.put_bytes.0,
        dropped_records: outcome.status.elisions.dropped,
        store_bytes: outcome.status.used.0,
        slot_efficiency: rounded(outcome.slot_efficiency),
        cpu_seconds: is_real.then(|| rounded(cpu)),
        puts_per_cpu_second: is_real.then(|| rounded(given.puts as f64 / cpu.max(f64::MIN_POSITIVE))),
        cached_get_nanoseconds: is_real.then_some(outcome.cached_get.as_nanos() as u64),
    }
}

fn of_scan(asked: Asked, load: &scan::Load, outcome: &scan::Outcome, is_real: bool) -> ScanFigures {
    ScanFigures {
        asked,
        records: load.keys,
        rounds: load.rounds,
        batch_records: scan::BATCH,
        fresh_scan: outcome.fresh.0,
        aged_scan: outcome.aged.0,
        share: rounded(outcome.share()),
        fresh_scan_by_key: outcome.fresh_by_key.0,
        aged_scan_by_key: outcome.aged_by_key.0,
        share_by_key: rounded(outcome.aged_by_key.0 as f64 / outcome.fresh_by_key.0.max(1) as f64),
        fresh_record_bytes: outcome.content[0].0,
        aged_record_bytes: outcome.content[1].0,
        fresh_store_bytes: outcome.store[0].0,
        aged_store_bytes: outcome.store[1].0,
        replacing_seconds: rounded(outcome.replacing.as_secs_f64()),
        cpu_seconds: is_real.then(|| rounded(outcome.cpu.as_secs_f64())),
    }
}

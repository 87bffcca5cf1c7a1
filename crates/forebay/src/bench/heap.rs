//! `forebay bench heap`: what the churn of small records costs a disk, with one way of using slots again or another.

use super::figures::{fields, rounded, simulated};
use clap::{Args, ValueEnum};
use forebay_model::heap::{HeapMode, HeapSettings};
use forebay_model::{Bytes, Result};
use forebay_sim::heap::pages;
use forebay_target::heap::HeapOptions;
use serde::Serialize;
use serde_json::Value;

/// What is put and freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LoadName {
    /// The pages of three B+trees: each that changes goes to a new record, and its old one is freed
    Pages,
}

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

/// What is measured.
#[derive(Args)]
pub struct HeapArgs {
    /// `sim:sata7200` (or cheetah15k, wd15ears, ssd, smr)
    #[arg(long, default_value = "sim:sata7200")]
    disk: String,
    /// What is put and freed
    #[arg(long, value_enum, default_value = "pages")]
    load: LoadName,
    /// Free slots at which an allocator that was full is used again; 1 is eager
    #[arg(long, default_value_t = HeapSettings::default().threshold, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=5000))]
    threshold: u32,
    /// Whether records are sorted and merged before they are written
    #[arg(long, value_enum, default_value = "on")]
    gather: Gather,
    /// Whether slots are used again
    #[arg(long, value_enum, default_value = "rw")]
    mode: Mode,
    /// Keys that are put into each tree
    #[arg(long, default_value_t = 400_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,
    /// Keys between commits
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    per_commit: u64,
    /// Buffers of 1 MiB for records that wait to be written
    #[arg(long, default_value_t = HeapOptions::default().buffers, value_name = "N")]
    buffers: usize,
    /// Seed of the simulation
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

/// The fields of the JSON. `mean_seek_fraction` is how far apart writes that follow one another are, as a share of the
/// disk.
#[derive(Debug, Serialize)]
struct Figures {
    disk: String,
    threshold: u32,
    gather: bool,
    worm: bool,
    seed: u64,
    device_writes: u64,
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
}

/// Runs the measurement.
pub fn run(args: &HeapArgs) -> Result<Value> {
    let LoadName::Pages = args.load;
    let mode = if args.mode == Mode::Worm { HeapMode::Worm } else { HeapMode::ReadWrite };
    let load = pages::Load {
        disk: simulated(&args.disk, "")?,
        settings: HeapSettings { threshold: args.threshold, mode },
        options: HeapOptions { buffers: args.buffers, gather: args.gather == Gather::On },
        keys: args.keys,
        per_commit: args.per_commit,
    };
    let outcome = pages::run(args.seed, &load)?;
    let Bytes(written) = outcome.written;
    fields(Figures {
        disk: args.disk.clone(),
        threshold: args.threshold,
        gather: load.options.gather,
        worm: args.mode == Mode::Worm,
        seed: args.seed,
        device_writes: outcome.device_writes,
        mean_write_bytes: rounded(written as f64 / outcome.device_writes.max(1) as f64),
        mean_seek_fraction: outcome.seek_fraction,
        read_back: outcome.status.output.read_back,
        seconds: rounded(outcome.span.as_secs_f64()),
        records: outcome.pages,
        records_per_second: rounded(outcome.pages as f64 / outcome.span.as_secs_f64()),
        record_bytes: outcome.page_bytes.0,
        dropped_records: outcome.status.elisions.dropped,
        store_bytes: outcome.status.used.0,
        slot_efficiency: rounded(outcome.slot_efficiency()),
    })
}

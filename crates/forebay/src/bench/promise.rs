//! `forebay bench promise`: a ring with a guarantee on a simulated disk, beside everything else at once.

use super::figures::{self, Latency, rounded};
use clap::Args;
use forebay_model::{Bytes, Error, Rate, Result};
use forebay_sim::promise::Elements;
use forebay_sim::promise::beside::{self, State};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;

/// What is measured.
#[derive(Args)]
pub struct PromiseArgs {
    /// `sim:wd15ears` (or cheetah15k, sata7200, ssd, smr)
    #[arg(long, default_value = "sim:wd15ears")]
    disk: String,
    /// Divide the capacity by this
    #[arg(long, default_value_t = 100, value_name = "N")]
    scale: u64,
    /// Guaranteed rate; the stream comes as fast as that
    #[arg(long, default_value = "60MB/s")]
    rate: Rate,
    /// A state that is left out (readers, pins, aged, small-writes, large-writes, scrub, rebuild); may be repeated
    #[arg(long = "without", value_name = "STATE", value_parser = State::parse)]
    without: Vec<State>,
    /// Virtual seconds measured
    #[arg(long, default_value_t = 60, value_name = "N", value_parser = clap::value_parser!(u64).range(2..))]
    seconds: u64,
    /// Seed of the simulation
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

/// The fields of the JSON. `missed_deadlines` and `lost_bytes` are what was promised to be none; the rest is what the
/// others got beside it.
#[derive(Debug, Serialize)]
struct Figures {
    disk: String,
    states: Vec<&'static str>,
    seconds: f64,
    seed: u64,
    guarantee_bytes_per_second: u64,
    written_bytes_per_second: u64,
    worst_second_bytes_per_second: u64,
    missed_deadlines: u64,
    lost_bytes: u64,
    read_bytes_per_second: u64,
    large_bytes_per_second: u64,
    scrubbed_bytes_per_second: u64,
    rebuilt_bytes_per_second: u64,
    small_writes: u64,
    small_writes_due: u64,
    small_writes_waiting: u64,
    small_latency_ms: Latency,
    capacity_bytes: u64,
    filled_bytes: u64,
    pinned_segments: u64,
    device_read_bytes_per_second: u64,
    device_written_bytes_per_second: u64,
    device_busy_share: f64,
}

/// Runs the measurement.
pub fn run(args: &PromiseArgs) -> Result<Value> {
    let disk = figures::simulated(&args.disk, "")?;
    if args.rate == Rate(0) {
        return Err(Error::usage("a promise of nothing is always kept; give a --rate, such as 60MB/s"));
    }
    let states: BTreeSet<State> = State::ALL.into_iter().filter(|state| !args.without.contains(state)).collect();
    let mut load = beside::load(disk.scaled(args.scale.max(1)), &states, args.seconds);
    (load.guarantee, load.rate) = (args.rate, args.rate);
    let Elements::Fixed(element) = load.elements else { unreachable!("the headline has elements of one size") };
    let (outcome, others) = beside::run(args.seed, &load, &states)?;
    let per_second = |bytes: Bytes| Rate::of(bytes, outcome.elapsed).0;
    figures::fields(Figures {
        disk: args.disk.clone(),
        states: states.iter().map(|state| state.name()).collect(),
        seconds: outcome.elapsed.as_secs_f64(),
        seed: args.seed,
        guarantee_bytes_per_second: outcome.guarantee.0,
        written_bytes_per_second: outcome.written.0,
        worst_second_bytes_per_second: outcome.worst_second.0,
        missed_deadlines: outcome.missed_deadlines,
        lost_bytes: outcome.lost_elements * element.0,
        read_bytes_per_second: outcome.read.0,
        large_bytes_per_second: others.large.0,
        scrubbed_bytes_per_second: others.scrubbed.0,
        rebuilt_bytes_per_second: others.rebuilt.0,
        small_writes: others.small.len() as u64,
        small_writes_due: others.small_due,
        small_writes_waiting: others.small_waiting,
        small_latency_ms: Latency::of(&others.small),
        capacity_bytes: outcome.capacity.0,
        filled_bytes: others.filled.0,
        pinned_segments: outcome.pinned,
        device_read_bytes_per_second: per_second(outcome.device_read),
        device_written_bytes_per_second: per_second(outcome.device_written),
        device_busy_share: rounded(outcome.device_busy.as_secs_f64() / outcome.elapsed.as_secs_f64()),
    })
}

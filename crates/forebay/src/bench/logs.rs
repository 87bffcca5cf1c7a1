//! `forebay bench logs`: small durable writes beside a streaming user, on simulated disks.

use crate::context::Context;
use clap::Args;
use forebay_model::{Bytes, Error, Result};
use forebay_sim::disk::presets;
use forebay_sim::logs::{Load, Outcome, Policy, Share, run as run_load};
use serde::Serialize;
use std::time::Duration;

/// What is measured.
#[derive(Args)]
pub struct LogsArgs {
    /// `sim:cheetah15k` (or sata7200, wd15ears, ssd, smr)
    #[arg(long)]
    disk: String,
    /// How small writes are made durable: home, ordered, data, adaptive, single or nearest
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
    /// Disks, striped with a unit of 64 KiB
    #[arg(long, default_value_t = 1, value_name = "N")]
    disks: u64,
    /// Virtual seconds measured
    #[arg(long, default_value_t = 60, value_name = "N")]
    seconds: u64,
    /// Seed of the simulation
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
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
    read_bytes_per_second: Option<u64>,
    read_alone_bytes_per_second: Option<u64>,
    written_bytes_per_second: Option<u64>,
    written_alone_bytes_per_second: Option<u64>,
    limit_bytes_per_second: u64,
    limit_turn_ms: f64,
}

#[derive(Debug, Serialize)]
struct Latency {
    mean: f64,
    p50: f64,
    p99: f64,
    max: f64,
}

/// Runs the measurement and shows it.
pub fn run(context: &mut Context, args: &LogsArgs) -> Result<()> {
    let disk = presets::parse(&args.disk).ok_or_else(|| {
        Error::usage(format!("{} is no simulated disk; the names are sim:{}", args.disk, presets::NAMES.join(", sim:")))
    })??;
    let load = Load {
        disks: args.disks,
        reader: args.reader.0,
        writer: args.writer.0,
        span: Duration::from_secs(args.seconds),
        ..Load::beside_reader(disk, args.policy, args.iops)
    };
    let outcome = run_load(args.seed, &load)?;
    let json = serde_json::to_value(figures(args, &outcome))
        .map_err(|e| Error::usage(format!("the figures cannot be shown: {e}")))?;
    if context.json {
        context.out.json(&json)?;
    } else {
        for (name, value) in json.as_object().into_iter().flatten() {
            context.out.line(format!("{name:32} {value}"))?;
        }
    }
    context.out.flush()
}

fn figures(args: &LogsArgs, outcome: &Outcome) -> Figures {
    let millis = |span: Duration| rounded(span.as_secs_f64() * 1e3);
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
        sync_latency_ms: Latency {
            mean: millis(outcome.mean()),
            p50: millis(outcome.percentile(0.5)),
            p99: millis(outcome.percentile(0.99)),
            max: millis(outcome.percentile(1.0)),
        },
        rounds: outcome.latencies.len() as u64,
        rounds_due: outcome.due,
        log_swaps: outcome.log_swaps,
        checkpoint_seconds: rounded(outcome.checkpoint.as_secs_f64()),
        read_bytes_per_second: outcome.read.map(|share| share.beside.0),
        read_alone_bytes_per_second: outcome.read.map(|share| share.alone.0),
        written_bytes_per_second: outcome.written.map(|share| share.beside.0),
        written_alone_bytes_per_second: outcome.written.map(|share| share.alone.0),
        limit_bytes_per_second: outcome.disk_rate.0,
        limit_turn_ms: millis(outcome.turn),
    }
}

/// To a thousandth: more says nothing.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

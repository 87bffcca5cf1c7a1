//! The bench on a simulated disk, in virtual time.

use super::{Figures, RingArgs};
use crate::args;
use forebay_model::{Bytes, Error, Rate, Result};
use forebay_sim::DiskSpec;
use forebay_sim::promise::{Elements, Load, run as run_load};

pub(super) fn run(args: &RingArgs, spec: DiskSpec) -> Result<Figures> {
    if args.rate == Rate(0) {
        return Err(Error::usage("a simulated disk is measured at a rate; give one with --rate, such as 60MB/s"));
    }
    let elements =
        if args.element == "mixed" { Elements::Mixed } else { Elements::Fixed(Bytes::parse(&args.element)?) };
    let load = Load {
        disk: spec.scaled(args.scale.max(1)),
        guarantee: args.rate,
        rate: args.rate,
        elements,
        readers: args.readers,
        pins_percent: args.pins,
        aged: args.aged,
        fill_percent: args.fill,
        laps: 3,
        seconds: args.seconds,
        keys: args.keys.clone(),
        flush_interval: args::span(&args.flush_interval)?,
    };
    let cpu = forebay_env::real::process::cpu_time();
    let outcome = run_load(args.seed, &load)?;
    let cpu = forebay_env::real::process::cpu_time().saturating_sub(cpu);
    let seconds = outcome.elapsed.as_secs_f64().max(1e-9);
    Ok(Figures {
        guarantee_bytes_per_second: outcome.guarantee.0,
        written_bytes_per_second: outcome.written.0,
        worst_second_bytes_per_second: outcome.worst_second.0,
        missed_deadlines: outcome.missed_deadlines,
        lost_elements: outcome.lost_elements,
        read_bytes_per_second: outcome.read.0,
        limit_bytes_per_second: outcome.limit.0,
        elements_per_second: (outcome.elements as f64 / seconds) as u64,
        // Of the simulation, with its disk: not what an element costs in reality.
        cpu_nanoseconds_per_element: cpu.as_nanos() as f64 / outcome.elements.max(1) as f64,
        seconds,
        capacity_bytes: outcome.capacity.0,
        pinned_segments: outcome.pinned,
        staging_bytes: outcome.staging.0,
        staging_peak_bytes: outcome.staging_peak.0,
        device_read_bytes_per_second: Rate::of(outcome.device_read, outcome.elapsed).0,
        device_written_bytes_per_second: Rate::of(outcome.device_written, outcome.elapsed).0,
        device_busy_share: outcome.device_busy.as_secs_f64() / seconds,
        ..Figures::default()
    })
}

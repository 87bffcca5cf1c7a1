//! Striped files in simulation: a whole cluster, every machine on a link of its own.

use super::{Figures, FileArgs};
use crate::bench::figures::simulated;
use forebay_env::real::process;
use forebay_model::Result;
use forebay_sim::network::NetworkSpec;
use forebay_sim::striped::{Load, stream};

pub(super) fn run(args: &FileArgs, disk: &str) -> Result<Figures> {
    let load = Load {
        targets: args.targets,
        clients: args.clients,
        raid: args.raid()?,
        width: args.width,
        unit: args.unit,
        size: args.size,
        request: args.request,
        link: args.link,
        credit: args.credit,
        intake: args.intake,
        network: if args.small_frames { NetworkSpec::default() } else { NetworkSpec::jumbo() },
        disk: simulated(disk, ", or --real DIR")?.scaled(args.scale),
        seed: args.seed,
    };
    let streamed = stream(&load);
    let (writing, reading) = streamed.network;
    Ok(Figures {
        targets: args.targets,
        clients: args.clients,
        width: streamed.striping.width(),
        raid: args.raid,
        tls: false,
        written_bytes_per_second: streamed.written.0,
        write_limit_bytes_per_second: streamed.write_limit.0,
        read_bytes_per_second: streamed.read.0,
        read_limit_bytes_per_second: streamed.read_limit.0,
        cpu_nanoseconds_per_byte: None,
        write_cpu_nanoseconds_per_byte: None,
        read_cpu_nanoseconds_per_byte: None,
        retransmission_timeouts: writing.timeouts + reading.timeouts,
        dropped_segments: writing.drops + reading.drops,
        file_bytes: args.size.0,
        peak_memory_bytes: process::peak_memory().0,
    })
}

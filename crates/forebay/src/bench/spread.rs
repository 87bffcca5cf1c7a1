//! `forebay bench ring --sim`: rings over several targets of a simulated cluster, each recorded into and read by a client of its own.

use super::RingArgs;
use super::figures::{self, simulated};
use clap::Args;
use forebay_env::real::process;
use forebay_model::ring::{RingSpec, Spread};
use forebay_model::{Bytes, Error, Rate, Result};
use forebay_sim::recorded::{Load, record};
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;

/// How a ring over several targets is measured.
#[derive(Default, Args)]
pub struct SpreadArgs {
    /// Over several targets: a simulated disk for each, `ssd` (or wd15ears, cheetah15k, sata7200, smr)
    #[arg(long, value_name = "DISK", conflicts_with = "disk")]
    sim: Option<String>,
    /// Over several targets: how many there are, each with a node of its own
    #[arg(long, default_value_t = 5, requires = "sim")]
    targets: u32,
    /// Over several targets: clients, each with a ring of its own
    #[arg(long, default_value_t = 1, requires = "sim", value_parser = clap::value_parser!(u32).range(1..=1000))]
    clients: u32,
    /// Over several targets: what each ring is promised, for which its targets have memory; half of what links and disks allow if
    /// nothing is said
    #[arg(long, requires = "sim", value_name = "RATE")]
    guarantee: Option<Rate>,
    /// Over several targets: targets of the ring, with that of the parity; all, if it is 0
    #[arg(long, default_value_t = 0, requires = "sim")]
    width: u32,
    /// Over several targets: 0, or 4 for parity on the last
    #[arg(long, default_value_t = 0, requires = "sim")]
    raid: u32,
    /// Over several targets: the link of each node
    #[arg(long, default_value = "1Gbit/s", requires = "sim")]
    link: Rate,
    /// Over several targets: the link of each client
    #[arg(long, default_value = "10Gbit/s", requires = "sim")]
    client_link: Rate,
}

/// What came of it: the fields of the JSON.
#[derive(Debug, Serialize)]
struct Figures {
    targets: u32,
    width: u32,
    raid: u32,
    clients: u32,
    element_bytes: u64,
    guarantee_bytes_per_second: u64,
    written_bytes_per_second: u64,
    write_limit_bytes_per_second: u64,
    read_bytes_per_second: u64,
    read_limit_bytes_per_second: u64,
    /// Of the simulated network.
    retransmission_timeouts: u64,
    dropped_segments: u64,
    seconds: f64,
    peak_memory_bytes: u64,
}

impl SpreadArgs {
    /// Whether this is what is to be measured.
    pub fn is_asked(&self) -> bool {
        self.sim.is_some()
    }
}

/// Measures.
pub fn run(args: &RingArgs) -> Result<Value> {
    let SpreadArgs { sim, targets, clients, guarantee, width, raid, link, client_link } = &args.spread;
    let parity = match raid {
        0 => false,
        4 => true,
        other => return Err(Error::usage(format!("there is no RAID {other} of rings; take 0 or 4"))),
    };
    let width = if *width == 0 { *targets } else { *width };
    let spread = Spread { targets: width.saturating_sub(u32::from(parity)), parity };
    spread.check()?;
    let (element, block) = (Bytes::parse(&args.element)?, RingSpec::new("/ring", Bytes(1)).block);
    if element == Bytes::ZERO || element * 2 > block {
        return Err(Error::usage(format!(
            "elements of {element} are not recorded over several targets here, whose blocks are of {block}: give --element 64KiB, or \
             another size up to half of a block"
        )));
    }
    let span = Duration::from_secs(args.seconds.unwrap_or(5));
    let disk = format!("sim:{}", sim.as_deref().unwrap_or("ssd"));
    let load = Load {
        targets: *targets,
        clients: *clients,
        spread,
        capacity: Bytes::gib(1) * u64::from(spread.targets),
        guarantee: *guarantee,
        element,
        link: *link,
        client_link: *client_link,
        span,
        disk: simulated(&disk, "")?.scaled(args.scale.max(1)),
        seed: args.seed,
    };
    let recorded = record(&load)?;
    figures::fields(Figures {
        targets: *targets,
        width,
        raid: *raid,
        clients: *clients,
        element_bytes: element.0,
        guarantee_bytes_per_second: recorded.guarantee.0,
        written_bytes_per_second: recorded.written.0,
        write_limit_bytes_per_second: recorded.write_limit.0,
        read_bytes_per_second: recorded.read.0,
        read_limit_bytes_per_second: recorded.read_limit.0,
        retransmission_timeouts: recorded.network.timeouts,
        dropped_segments: recorded.network.drops,
        seconds: span.as_secs_f64(),
        peak_memory_bytes: process::peak_memory().0,
    })
}

//! `forebay bench rebuild`: a target of a simulated cluster is lost, and all others make anew what it had.

use super::figures::{fields, rounded, simulated};
use clap::Args;
use forebay_env::real::process;
use forebay_model::{Bytes, Error, Rate, Result};
use forebay_serve::server::UPKEEP_CREDIT;
use forebay_sim::network::NetworkSpec;
use forebay_sim::rebuilding::{Loss, lose_one};
use serde::Serialize;
use serde_json::Value;

/// What is lost of what.
#[derive(Args)]
pub struct RebuildArgs {
    /// A simulated disk for each target: `ssd` (or wd15ears, cheetah15k, sata7200, smr)
    #[arg(long, value_name = "DISK", default_value = "ssd")]
    sim: String,
    /// The link of each node
    #[arg(long, default_value = "1Gbit/s")]
    link: Rate,
    /// Divide the capacity of disks by this
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    scale: u64,
    /// The seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Targets, each with a node of its own
    #[arg(long, default_value_t = 10)]
    targets: u32,
    /// Targets of a file, in RAID 5
    #[arg(long, default_value_t = 5)]
    width: u32,
    /// Files that had a part on the target that is lost
    #[arg(long, default_value_t = 400)]
    files: u32,
    /// Bytes of each
    #[arg(long, default_value = "4MiB")]
    size: Bytes,
    /// Bytes of answers that are in flight to a client at most; to its port comes what is written to its node's target, too
    #[arg(long, default_value_t = UPKEEP_CREDIT)]
    credit: Bytes,
}

/// What came of it: the fields of the JSON.
#[derive(Debug, Serialize)]
struct Figures {
    targets: u32,
    width: u32,
    components: u64,
    rebuilt_bytes: u64,
    seconds: f64,
    rebuilt_bytes_per_second: u64,
    /// Of the simulated network.
    retransmission_timeouts: u64,
    dropped_segments: u64,
    peak_memory_bytes: u64,
}

/// Measures.
pub fn run(args: &RebuildArgs) -> Result<Value> {
    let RebuildArgs { targets, width, .. } = *args;
    if width < 3 || targets <= width {
        return Err(Error::usage(format!(
            "of {targets} targets with files over {width} none is left to take the place of the one that is lost; give --width 3 at \
             least, and more --targets than that"
        )));
    }
    let rebuilt = lose_one(&Loss {
        targets: args.targets,
        width: args.width,
        files: args.files,
        size: args.size,
        link: args.link,
        credit: args.credit,
        network: NetworkSpec::jumbo(),
        disk: simulated(&format!("sim:{}", args.sim), "")?.scaled(args.scale),
        seed: args.seed,
    });
    fields(Figures {
        targets: args.targets,
        width: args.width,
        components: rebuilt.components,
        rebuilt_bytes: rebuilt.written.0,
        seconds: rounded(rebuilt.took.as_secs_f64()),
        rebuilt_bytes_per_second: rebuilt.rate().0,
        retransmission_timeouts: rebuilt.network.timeouts,
        dropped_segments: rebuilt.network.drops,
        peak_memory_bytes: process::peak_memory().0,
    })
}

//! `forebay bench file`: striped files, written and read by clients of their own.

mod real;
mod simulated;

use super::figures;
use clap::Args;
use forebay_model::layout::{Raid, UNIT};
use forebay_model::{Bytes, Error, Rate, Result};
use forebay_serve::server::CREDIT;
use serde::Serialize;
use serde_json::Value;

/// How striped files are measured.
#[derive(Args)]
pub struct FileArgs {
    /// A directory on the disk where the targets' files are made
    #[arg(long, value_name = "DIR", required_unless_present = "sim")]
    real: Option<String>,
    /// A simulated disk for each target: `ssd` (or wd15ears, cheetah15k, sata7200, smr)
    #[arg(long, value_name = "DISK", conflicts_with = "real")]
    sim: Option<String>,
    /// Simulated: the link of each node and client
    #[arg(long, default_value = "1Gbit/s")]
    link: Rate,
    /// Simulated: Ethernet frames of 1500 bytes instead of 9000
    #[arg(long)]
    small_frames: bool,
    /// Simulated: divide the capacity of disks by this
    #[arg(long, default_value_t = 50)]
    scale: u64,
    /// Simulated: the seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Targets, each with a node of its own
    #[arg(long, default_value_t = 5)]
    targets: u32,
    /// Clients, each with a file of its own
    #[arg(long, default_value_t = 1)]
    clients: u32,
    /// Targets of a file; all, if it is 0
    #[arg(long, default_value_t = 0)]
    width: u32,
    /// 0, 1 or 5
    #[arg(long, default_value_t = 5)]
    raid: u32,
    /// Bytes of a stripe unit
    #[arg(long, default_value_t = UNIT)]
    unit: Bytes,
    /// Bytes of each client's file
    #[arg(long, default_value = "1GiB")]
    size: Bytes,
    /// Bytes that a client writes or reads at once
    #[arg(long, default_value = "1MiB")]
    request: Bytes,
    /// Real: with TLS between clients and nodes
    #[arg(long, conflicts_with = "sim")]
    tls: bool,
    /// Bytes of answers that are in flight to a client at most
    #[arg(long, default_value_t = CREDIT)]
    credit: Bytes,
    /// Simulated: bytes of what is written that are in flight to a node at most
    #[arg(long, default_value = "192KiB")]
    intake: Bytes,
}

/// What came of it: the fields of the JSON.
///
/// The limits are what the device beneath gives to raw large sequential I/O, for writes the part of it that is not parity or
/// a copy; simulated, what links and disks allow. Processor time is that of all clients and nodes together, for each byte of
/// the files; simulated there is none, since computing takes no time there.
#[derive(Debug, Default, Serialize)]
struct Figures {
    targets: u32,
    clients: u32,
    width: u32,
    raid: u32,
    tls: bool,
    written_bytes_per_second: u64,
    write_limit_bytes_per_second: u64,
    read_bytes_per_second: u64,
    read_limit_bytes_per_second: u64,
    /// Of what was written and what was read, taken together.
    cpu_nanoseconds_per_byte: Option<f64>,
    write_cpu_nanoseconds_per_byte: Option<f64>,
    read_cpu_nanoseconds_per_byte: Option<f64>,
    /// Of the simulated network.
    retransmission_timeouts: u64,
    dropped_segments: u64,
    file_bytes: u64,
    peak_memory_bytes: u64,
}

impl FileArgs {
    fn raid(&self) -> Result<Raid> {
        match self.raid {
            0 => Ok(Raid::Zero),
            1 => Ok(Raid::One(2)),
            5 => Ok(Raid::Five),
            other => Err(Error::usage(format!("there is no RAID {other} here; take 0, 1 or 5"))),
        }
    }
}

/// Measures.
pub fn run(args: &FileArgs) -> Result<Value> {
    figures::fields(match (&args.real, &args.sim) {
        (Some(real), _) => figures::in_directory(real, |dir| real::run(args, dir))?,
        (None, Some(sim)) => simulated::run(args, &format!("sim:{sim}"))?,
        (None, None) => return Err(Error::usage("give --real DIR or --sim DISK")),
    })
}

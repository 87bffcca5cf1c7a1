//! `forebay bench file`: striped files, written and read by clients of their own.

mod real;

use super::figures;
use clap::Args;
use forebay_model::layout::{Raid, UNIT};
use forebay_model::{Bytes, Error, Result};
use serde::Serialize;
use serde_json::Value;

/// How striped files are measured.
#[derive(Args)]
pub struct FileArgs {
    /// A directory on the disk where the targets' files are made
    #[arg(long, value_name = "DIR")]
    real: String,
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
    /// Bytes of answers that are in flight to a client at most
    #[arg(long, default_value = "1MiB")]
    credit: Bytes,
}

/// What came of it: the fields of the JSON.
///
/// The limits are what the device beneath gives to raw large sequential I/O, for writes the part of it that is not parity or
/// a copy. Processor time is that of all clients and nodes together, for each byte of the files.
#[derive(Debug, Default, Serialize)]
struct Figures {
    targets: u32,
    clients: u32,
    width: u32,
    raid: u32,
    written_bytes_per_second: u64,
    write_limit_bytes_per_second: u64,
    read_bytes_per_second: u64,
    read_limit_bytes_per_second: u64,
    write_cpu_nanoseconds_per_byte: f64,
    read_cpu_nanoseconds_per_byte: f64,
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
    figures::fields(figures::in_directory(&args.real, |dir| real::run(args, dir))?)
}

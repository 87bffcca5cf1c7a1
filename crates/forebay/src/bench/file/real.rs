//! Striped files in reality: nodes in this process, each with a target in a file, and clients that reach them over TCP.

use super::{Figures, FileArgs};
use crate::bench::real::raw;
use bytes::Bytes as Slice;
use forebay_client::file::options::Options;
use forebay_client::files::blocking::FilesClient;
use forebay_embedded::{FormatOptions, Measure, own};
use forebay_env::real::{clock, create_file, file, process, thread};
use forebay_model::{Bytes, Error, Rate, Result};
use forebay_node::network::Bounds;
use forebay_serve::certificates::{self, MakeOptions};
use forebay_serve::limits::METADATA_CACHE;
use forebay_serve::manager::{Metadata, Settings};
use forebay_serve::rack::{Listening, Rack};
use forebay_serve::tls::TlsFiles;
use forebay_wire::control::volumes::Policy;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Raw I/O beside which the figures stand is measured for so long, each way.
const RAW: Duration = Duration::from_secs(4);
/// So much is written, and removed, before writing is timed, and read of each file before reading is: the memory that nodes take
/// once in their lives for payloads and caches is touched then, and blocks of the targets' files are written for the first time.
const WARMING: Bytes = Bytes::gib(1);
/// What a target's file has besides what is written to it.
const SPARE: Bytes = Bytes::mib(256);

/// What a client is to do with its file.
#[derive(Clone, Copy)]
enum Work {
    Write,
    Read,
}

pub(super) fn run(args: &FileArgs, dir: &Path) -> Result<Figures> {
    let targets = if args.width == 0 { args.targets } else { args.width };
    let policy = Policy { raid: args.raid()?, unit: args.unit, targets };
    let dirs = format(args, dir)?;
    let tls = if args.tls { Some(certificate(&dir.join("tls"))?) } else { None };
    let owned = dirs.iter().map(|dir| own(dir)).collect::<Result<Vec<_>>>()?;
    let bounds = Bounds::default();
    let listening =
        Listening { data: "127.0.0.1:0", known_as: None, tls: tls.as_ref(), bounds, warned: |_| {}, told: |_| {} };
    let metadata = Metadata { path: &dir.join("manager.redb"), cache: METADATA_CACHE };
    let rack = Rack::over(owned, metadata, policy, Settings::default(), &listening)?;
    let clients = (0..args.clients).map(|_| rack.files(args.credit)).collect::<Result<Vec<_>>>()?;
    measure(args, &clients, "/first", args.size.min(WARMING), Work::Write)?;
    for (number, files) in clients.iter().enumerate() {
        files.remove(&format!("/first.{number}"))?;
    }
    let (written, write_cpu) = measure(args, &clients, "/file", args.size, Work::Write)?;
    measure(args, &clients, "/file", args.size.min(WARMING), Work::Read)?;
    let (read, read_cpu) = measure(args, &clients, "/file", args.size, Work::Read)?;
    let width = clients.first().map_or(Ok(0), width)?;
    drop(clients);
    rack.close()?;
    let raw = dir.join("raw");
    let device = create_file(&raw, Bytes::gib(2))?;
    drop(device);
    // The file's blocks are written once before anything is timed: first writes to unwritten extents cost more.
    raw::writes(&raw, Bytes::gib(2), Duration::from_secs(30))?;
    let raw_writes = raw::writes(&raw, Bytes::gib(2), RAW)?;
    let raw_reads = raw::reads(&raw, Bytes::gib(2), RAW)?;
    let data = match args.raid()? {
        forebay_model::layout::Raid::Zero => 1.0,
        forebay_model::layout::Raid::One(copies) => 1.0 / f64::from(copies),
        forebay_model::layout::Raid::Five => f64::from(width.max(2) - 1) / f64::from(width.max(2)),
    };
    Ok(Figures {
        targets: args.targets,
        clients: args.clients,
        width,
        raid: args.raid,
        tls: args.tls,
        written_bytes_per_second: written.0,
        write_limit_bytes_per_second: (raw_writes.0 as f64 * data) as u64,
        read_bytes_per_second: read.0,
        read_limit_bytes_per_second: raw_reads.0,
        cpu_nanoseconds_per_byte: Some((write_cpu + read_cpu) / 2.0),
        write_cpu_nanoseconds_per_byte: Some(write_cpu),
        read_cpu_nanoseconds_per_byte: Some(read_cpu),
        // Of this machine's own network, which drops nothing.
        retransmission_timeouts: 0,
        dropped_segments: 0,
        file_bytes: args.size.0,
        peak_memory_bytes: process::peak_memory().0,
    })
}

/// Makes a certificate for this machine alone.
fn certificate(dir: &Path) -> Result<TlsFiles> {
    certificates::make(dir, dir, &MakeOptions { names: vec!["127.0.0.1".to_string()], days: 1 })?;
    TlsFiles::of(dir)
}

/// Makes a directory with one target for each node.
fn format(args: &FileArgs, dir: &Path) -> Result<Vec<PathBuf>> {
    // What parity takes comes on top, and nothing is spread quite evenly; what was written first is freed some time later.
    let size = args.size + args.size.min(WARMING);
    let share = Bytes(size.0 * u64::from(args.clients) * 2 / u64::from(args.targets.max(1)));
    let mut dirs = Vec::new();
    for node in 0..args.targets {
        let place = dir.join(format!("node.{node}"));
        file::make_directory(&place)?;
        forebay_embedded::format(
            &place,
            &FormatOptions { force: true, ..FormatOptions::file(share + SPARE, Measure::Guess) },
        )?;
        dirs.push(place);
    }
    Ok(dirs)
}

/// Units of a stripe.
fn width(files: &FilesClient) -> Result<u32> {
    let file = files.open("/file.0", Options::default())?;
    let width = file.striping().width();
    file.close()?;
    Ok(width)
}

/// All clients at once, so much of each one's file with this name; what they moved in a second, and the processor's time for a
/// byte in nanoseconds.
fn measure(args: &FileArgs, clients: &[FilesClient], name: &str, size: Bytes, work: Work) -> Result<(Rate, f64)> {
    let request = args.request;
    let (start, cpu) = (clock::now(), process::cpu_time());
    let mut threads = Vec::new();
    for (number, files) in clients.iter().enumerate() {
        let (files, path) = (files.clone(), format!("{name}.{number}"));
        threads.push(thread::spawn("client", move || one(&files, &path, size, request, work))?);
    }
    for thread in threads {
        thread.join().unwrap_or_else(|_| Err(Error::disconnected("a client panicked")))?;
    }
    let (elapsed, cpu) = (clock::now().since(start), process::cpu_time().saturating_sub(cpu));
    let bytes = Bytes(size.0 * clients.len() as u64);
    Ok((Rate::of(bytes, elapsed), cpu.as_nanos() as f64 / bytes.0 as f64))
}

fn one(files: &FilesClient, path: &str, size: Bytes, request: Bytes, work: Work) -> Result<()> {
    let file = match work {
        Work::Write => files.create(path, 0o644, None, Options::default())?,
        Work::Read => files.open(path, Options::default())?,
    };
    // Not compressible, and not the same in any two stripes; made once, so that it is not what is measured.
    let pattern: Vec<u8> = (0..2 * request.0).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 37) as u8).collect();
    let pattern = Slice::from(pattern);
    let mut at = Bytes::ZERO;
    while at < size {
        let length = request.min(size - at);
        match work {
            Work::Write => {
                let from = (at.0 / request.0 * 4099 % request.0) as usize;
                file.write_at(at, pattern.slice(from..from + length.0 as usize))?;
            }
            Work::Read => {
                let pieces = file.read_slices(at, length)?;
                let from = (at.0 / request.0 * 4099 % request.0) as usize;
                let come: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
                if come != length.0 || !pieces[0].starts_with(&pattern[from..from + 64]) {
                    return Err(Error::damaged(format!("{path} has other bytes at {at} than were written")));
                }
            }
        }
        at += length;
    }
    file.close()
}

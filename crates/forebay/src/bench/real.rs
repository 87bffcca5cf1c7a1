//! The bench on a real disk: a device file in a directory, the whole path from recorder to io_uring.

use super::{Figures, RingArgs};
use crate::args;
use crate::input::RealTime;
use forebay_capture::generator::{Content as Generated, GeneratorSource, PacketSizes};
use forebay_capture::{LinkType, Sink, Source};
use forebay_client::{Cluster, RecorderOptions};
use forebay_embedded::{FormatOptions, Measure, Options};
use forebay_env::real::{clock, file, process, thread};
use forebay_env::{Buffer, Env, Slab};
use forebay_model::key::KeySet;
use forebay_model::ring::{Content, Overflow, RingSpec};
use forebay_model::{Bytes, Error, Gap, Rate, Result, Timestamp};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The ring's name.
const NAME: &str = "/bench";
/// Elements between two looks at the clock.
const BATCH: u64 = 512;

pub(super) fn run(args: &RingArgs, parent: PathBuf) -> Result<Figures> {
    if !file::is_directory(&parent) {
        return Err(Error::usage(format!(
            "{} is not a directory; name one on the disk to be measured",
            parent.display()
        )));
    }
    let dir = parent.join(format!("bench-{}.forebay-tmp", process::id()));
    let figures = in_directory(args, &dir);
    file::remove_directory(&dir)?;
    figures
}

fn in_directory(args: &RingArgs, dir: &Path) -> Result<Figures> {
    let format = FormatOptions {
        size: Some(args.size),
        devices: Vec::new(),
        measure: Measure::For(Duration::from_secs(3)),
        force: true,
    };
    forebay_embedded::format(dir, &format)?;
    let seconds = Duration::from_secs(args.seconds.unwrap_or(10));
    // The file's blocks are written once before anything is timed: first writes to unwritten extents cost more.
    raw_writes(&dir.join("target.0"), args.size, Duration::from_secs(60))?;
    forebay_embedded::format(dir, &FormatOptions { force: true, ..reformat(dir) })?;
    let before = raw_writes(&dir.join("target.0"), args.size, seconds / 4)?;
    forebay_embedded::format(dir, &FormatOptions { force: true, ..reformat(dir) })?;
    let cluster = forebay_embedded::open(dir, Options::default())?;
    let figures = record(args, &cluster, seconds);
    cluster.close()?;
    let after = raw_writes(&dir.join("target.0"), args.size, seconds / 4)?;
    let mut figures = figures?;
    figures.limit_bytes_per_second = (before.0 + after.0) / 2;
    Ok(figures)
}

fn reformat(dir: &Path) -> FormatOptions {
    FormatOptions {
        size: None,
        devices: vec![dir.join("target.0")],
        measure: Measure::For(Duration::from_secs(2)),
        force: true,
    }
}

fn record(args: &RingArgs, cluster: &Cluster, seconds: Duration) -> Result<Figures> {
    let mut spec = RingSpec::new(NAME, Bytes((args.size.0 as f64 * args.fill / 100.0 * 0.9) as u64));
    spec.guarantee = args.rate;
    let elements = Elements::parse(&args.element)?;
    spec.keys.clone_from(&args.keys);
    if let Elements::Frames { .. } = elements {
        spec.content = Content::Packets(u32::from(LinkType::ETHERNET.0));
        if spec.keys.is_empty() {
            spec.keys.push("pcap".to_string());
        }
    }
    spec.keys = KeySet::parse(&spec.keys)?.specs().iter().map(ToString::to_string).collect();
    spec.flush_interval = args::span(&args.flush_interval)?;
    spec.overflow = if args.rate == Rate(0) { Overflow::Block } else { Overflow::DropNewest };
    cluster.create_ring(spec)?;
    let mut recorder = cluster.recorder_with(NAME, RecorderOptions::default())?;
    let stop = Arc::new(AtomicBool::new(false));
    let read = Arc::new(AtomicU64::new(0));
    let mut readers = Vec::new();
    for _ in 0..args.readers {
        let (cluster, stop, read) = (cluster.clone(), stop.clone(), read.clone());
        readers.push(thread::spawn("reader", move || saturate(&cluster, &stop, &read))?);
    }
    let (start, cpu) = (clock::now(), process::cpu_time());
    let (mut given, mut worst, mut second_start, mut second_given) = (0u64, u64::MAX, clock::now(), 0u64);
    let batch = (BATCH * 64 / elements.size().max(1) as u64).clamp(1, BATCH);
    let mut number = 0;
    loop {
        let now = clock::now();
        if now.since(start) >= seconds {
            break;
        }
        if now.since(second_start) >= Duration::from_secs(1) {
            worst = worst.min(given - second_given);
            (second_start, second_given) = (now, given);
        }
        if args.rate > Rate(0) && given > args.rate.bytes_in(now.since(start)).0 {
            recorder.tick()?;
            clock::pause(Duration::from_millis(1));
            continue;
        }
        let time = clock::wall();
        for i in 0..batch {
            let element = elements.number(number);
            number += 1;
            recorder.element(Timestamp(time.0 + i as i64), &[element], &[])?;
            given += element.len() as u64;
        }
        recorder.tick()?;
    }
    let progress = recorder.close()?;
    let elapsed = clock::now().since(start);
    let cpu = process::cpu_time().saturating_sub(cpu);
    stop.store(true, Ordering::Relaxed);
    let status = cluster.ring(NAME)?;
    for reader in readers {
        reader.join().map_err(|_| Error::busy("a reader of the bench failed"))??;
    }
    let per_second = |n: u64| (n as f64 / elapsed.as_secs_f64()) as u64;
    Ok(Figures {
        guarantee_bytes_per_second: args.rate.0,
        written_bytes_per_second: per_second(progress.bytes.0),
        worst_second_bytes_per_second: if worst == u64::MAX { 0 } else { worst },
        missed_deadlines: status.missed_deadlines,
        lost_elements: progress.losses.total(),
        read_bytes_per_second: per_second(read.load(Ordering::Relaxed)),
        elements_per_second: per_second(progress.elements),
        cpu_nanoseconds_per_element: cpu.as_nanos() as f64 / progress.elements.max(1) as f64,
        seconds: elapsed.as_secs_f64(),
        capacity_bytes: status.spec.capacity.0,
        pinned_segments: status.pinned_segments,
        staging_bytes: status.staging.0,
        staging_peak_bytes: status.staging_peak.0,
        peak_memory_bytes: process::peak_memory().0,
        ..Figures::default()
    })
}

/// What is recorded, made before anything is measured.
enum Elements {
    /// All of one size, each beginning elsewhere in a pattern.
    Pattern { pattern: Vec<u8>, size: usize },
    /// Packets of many flows, one after the other.
    Frames { memory: Vec<u8>, ends: Vec<usize> },
}

/// Frames that are made: as many as make flows come as often as they should.
const FRAMES: u64 = 1 << 16;

impl Elements {
    fn parse(text: &str) -> Result<Elements> {
        let sizes = match (text, text.strip_prefix("packets:")) {
            ("packets", _) => PacketSizes::Mix,
            (_, Some(size)) => PacketSizes::Fixed(Bytes::parse(size)?.0.min(u64::from(u16::MAX)) as u16),
            _ => {
                let size = Bytes::parse(text)?.0 as usize;
                return Ok(Elements::Pattern { pattern: (0..size + 4096).map(|i| (i % 251) as u8).collect(), size });
            }
        };
        let mut frames = Collected { memory: Vec::new(), ends: vec![0] };
        let content = Generated::Packets(sizes);
        GeneratorSource::new(content, None, Some(FRAMES), 1, Arc::new(RealTime))?.run(&mut frames)?;
        Ok(Elements::Frames { memory: frames.memory, ends: frames.ends })
    }

    /// The usual size.
    fn size(&self) -> usize {
        match self {
            Elements::Pattern { size, .. } => *size,
            Elements::Frames { memory, ends } => memory.len() / ends.len(),
        }
    }

    #[inline]
    fn number(&self, n: usize) -> &[u8] {
        match self {
            Elements::Pattern { pattern, size } => {
                let from = (n % BATCH as usize * 61) % 4096;
                &pattern[from..from + size]
            }
            Elements::Frames { memory, ends } => {
                let n = n % (ends.len() - 1);
                &memory[ends[n]..ends[n + 1]]
            }
        }
    }
}

/// Takes what a generator makes.
struct Collected {
    memory: Vec<u8>,
    ends: Vec<usize>,
}

impl Sink for Collected {
    fn element(&mut self, _: Timestamp, parts: &[&[u8]], _: &[u8]) -> Result<()> {
        parts.iter().for_each(|part| self.memory.extend_from_slice(part));
        self.ends.push(self.memory.len());
        Ok(())
    }

    fn begin(&mut self, _: Timestamp, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn part(&mut self, bytes: &[u8]) -> Result<()> {
        self.memory.extend_from_slice(bytes);
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        self.ends.push(self.memory.len());
        Ok(())
    }

    fn gap(&mut self, _: Gap) -> Result<()> {
        Ok(())
    }

    fn tick(&mut self) -> Result<bool> {
        Ok(true)
    }
}

fn saturate(cluster: &Cluster, stop: &AtomicBool, read: &AtomicU64) -> Result<()> {
    while !stop.load(Ordering::Relaxed) {
        let mut answer = cluster.query(NAME, "all")?;
        while let Some(batch) = answer.next_batch()? {
            read.fetch_add(batch.payload.len() as u64, Ordering::Relaxed);
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// What raw large sequential writes reach on the device: 1 MiB each, eight in flight, for at most one pass.
fn raw_writes(path: &Path, size: Bytes, seconds: Duration) -> Result<Rate> {
    let opened = forebay_env::real::open(path, forebay_env::real::OpenMode::Exclusive)?;
    forebay_env::real::run(forebay_env::real::Options { device: opened }, move |env| write_through(env, size, seconds))?
}

async fn write_through(env: Env, size: Bytes, seconds: Duration) -> Result<Rate> {
    let slab = Slab::new(Bytes::mib(1), 8)?;
    let start = env.clock.now();
    let mut in_flight = VecDeque::new();
    let mut at = Bytes::ZERO;
    let mut written = Bytes::ZERO;
    loop {
        let over = env.clock.now().since(start) >= seconds || at + Bytes::mib(1) > size;
        if over && in_flight.is_empty() {
            break;
        }
        match (over, slab.try_take()) {
            (false, Some(mut buffer)) => {
                fill(&mut buffer, at);
                in_flight.push_back(env.spawner.spawn(env.device.write(at, buffer)));
                at += Bytes::mib(1);
            }
            (_, buffer) => {
                drop(buffer);
                if let Some(io) = in_flight.pop_front() {
                    let (_buffer, result) = io.await;
                    result?;
                    written += Bytes::mib(1);
                }
            }
        }
    }
    env.device.flush().await?;
    Ok(Rate::of(written, env.clock.now().since(start)))
}

/// No two blocks alike, so that nothing below saves work that real data would cost.
fn fill(buffer: &mut Buffer, at: Bytes) {
    for (i, part) in buffer.chunks_exact_mut(512).enumerate() {
        part[..8].copy_from_slice(&(at.0 + i as u64 * 512).to_le_bytes());
    }
}

#[cfg(test)]
mod tests;

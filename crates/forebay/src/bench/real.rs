//! The bench on a real disk: a device file in a directory, the whole path from recorder to io_uring.

mod elements;
pub(super) mod raw;
mod readers;
mod seconds;

use super::{Figures, RingArgs};
use crate::args;
use elements::Elements;
use forebay_capture::LinkType;
use forebay_client::{Cluster, PlanRequest, Recorder, RecorderOptions};
use forebay_embedded::{FormatOptions, Measure, Options};
use forebay_env::real::{clock, process};
use forebay_model::key::KeySet;
use forebay_model::ring::{Content, Overflow, RingSpec};
use forebay_model::{Bytes, Rate, Result, Timestamp};
use readers::Readers;
use seconds::Seconds;
use std::path::Path;
use std::time::Duration;

/// The ring's name.
const NAME: &str = "/bench";
/// At most so many elements, or bytes, between two looks at the clock.
const BATCH: (usize, usize) = (512, 32 << 10);

pub(super) fn run(args: &RingArgs, dir: &Path) -> Result<Figures> {
    // Measured below, once it is written.
    forebay_embedded::format(dir, &FormatOptions { force: true, ..FormatOptions::file(args.size, Measure::Guess) })?;
    let seconds = Duration::from_secs(args.seconds.unwrap_or(10));
    let file = dir.join("target.0");
    // The file's blocks are written once before anything is timed: first writes to unwritten extents cost more.
    raw::writes(&file, args.size, Duration::from_secs(60))?;
    // What readers can be given depends on the ring's places; what a ring alone can do, on the device.
    let beside_readers = args.readers > 0 && args.rate > Rate(0);
    let before = if beside_readers { Rate(0) } else { raw::writes(&file, args.size, seconds / 4)? };
    forebay_embedded::format(dir, &FormatOptions { force: true, ..reformat(dir) })?;
    let cluster = forebay_embedded::open(dir, Options::default())?;
    let figures = record(args, &cluster, seconds);
    cluster.close()?;
    let mut figures = figures?;
    let limit = if beside_readers {
        raw::alternating(&file, NAME, args.rate, seconds)?
    } else {
        Rate((before.0 + raw::writes(&file, args.size, seconds / 4)?.0) / 2)
    };
    figures.limit_bytes_per_second = limit.0;
    Ok(figures)
}

fn reformat(dir: &Path) -> FormatOptions {
    let measure = Measure::For(Duration::from_secs(2));
    FormatOptions { force: true, ..FormatOptions::devices(vec![dir.join("target.0")], measure) }
}

fn record(args: &RingArgs, cluster: &Cluster, seconds: Duration) -> Result<Figures> {
    let elements = Elements::parse(&args.element)?;
    let spec = spec(args, &elements, cluster)?;
    cluster.create_ring(spec)?;
    let mut stream = Stream { elements, number: 0 };
    if args.aged {
        go_round(cluster, &mut stream)?;
    }
    pin_scattered(args, cluster, &stream.elements)?;
    let mut recorder = cluster.recorder_with(NAME, RecorderOptions::default())?;
    let before = cluster.ring(NAME)?;
    let readers = Readers::begin(cluster, args.readers, &before)?;
    let (start, cpu) = (clock::now(), process::cpu_time());
    let mut kept = Seconds::new(args.rate);
    let mut given = 0;
    loop {
        let time = clock::now().since(start);
        if time >= seconds {
            break;
        }
        if args.rate > Rate(0) && given > args.rate.bytes_in(time).0 {
            recorder.tick()?;
            clock::pause(Duration::from_millis(1));
            continue;
        }
        let had = recorder.progress();
        let came = stream.batch(&mut recorder)?;
        recorder.tick()?;
        let has = recorder.progress();
        kept.came(came, (has.bytes - had.bytes).0, has.elements);
        kept.durable(has.durable_elements, time);
        given += came;
    }
    let progress = recorder.close()?;
    let elapsed = clock::now().since(start);
    let cpu = process::cpu_time().saturating_sub(cpu);
    let status = cluster.ring(NAME)?;
    let read = readers.end()?;
    let missed = status.missed_deadlines - before.missed_deadlines;
    // Blocks that came late may all have been of one second.
    let late = if args.rate > Rate(0) { missed * status.spec.block.0 } else { 0 };
    Ok(Figures {
        guarantee_bytes_per_second: args.rate.0,
        written_bytes_per_second: Rate::of(progress.bytes, elapsed).0,
        worst_second_bytes_per_second: kept.worst(elapsed).0.saturating_sub(late),
        missed_deadlines: missed,
        lost_elements: progress.losses.total(),
        read_bytes_per_second: Rate::of(read, elapsed).0,
        elements_per_second: (progress.elements as f64 / elapsed.as_secs_f64()) as u64,
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

/// The ring: of what can hold the guarantee it takes the share asked for.
fn spec(args: &RingArgs, elements: &Elements, cluster: &Cluster) -> Result<RingSpec> {
    let mut spec = RingSpec::new(NAME, args.size);
    spec.guarantee = args.rate;
    spec.keys.clone_from(&args.keys);
    if let Elements::Frames { .. } = elements {
        spec.content = Content::Packets(u32::from(LinkType::ETHERNET.0));
        if spec.keys.is_empty() {
            spec.keys.push("pcap".to_string());
        }
    }
    let keys = KeySet::parse(&spec.keys)?;
    spec.keys = keys.specs().iter().map(ToString::to_string).collect();
    spec.flush_interval = args::span(&args.flush_interval)?;
    spec.overflow = if args.rate == Rate(0) { Overflow::Block } else { Overflow::DropNewest };
    spec.pin_budget_percent = (args.pins + 3).min(95) as u8;
    let request = PlanRequest {
        rate: args.rate,
        capacity: None,
        pin_percent: spec.pin_budget_percent,
        flush_interval: spec.flush_interval,
        block: spec.block,
        keys: keys.len() as u32,
    };
    let largest = cluster.plan(request)?.told.into_iter().map(|plan| plan.plan.largest).max().unwrap_or(Bytes::ZERO);
    // Where there is none, making a ring as large as the device says why.
    if largest > Bytes::ZERO {
        spec.capacity = Bytes((largest.0 as f64 * args.fill / 100.0) as u64);
    }
    Ok(spec)
}

/// What is recorded, and how far it is.
struct Stream {
    elements: Elements,
    number: usize,
}

impl Stream {
    /// Gives the next elements; their bytes.
    fn batch(&mut self, recorder: &mut Recorder) -> Result<u64> {
        let time = clock::wall();
        let (mut bytes, mut count) = (0, 0);
        while count < BATCH.0 && bytes < BATCH.1 {
            let element = self.elements.number(self.number);
            recorder.element(Timestamp(time.0 + count as i64), &[element], &[])?;
            self.number += 1;
            count += 1;
            bytes += element.len();
        }
        Ok(bytes as u64)
    }
}

/// Fills the ring and goes on for a twentieth of it, as fast as it can: what is measured afterwards overwrites.
fn go_round(cluster: &Cluster, stream: &mut Stream) -> Result<()> {
    let capacity = cluster.ring(NAME)?.spec.capacity;
    let mut recorder = cluster.recorder_with(NAME, RecorderOptions { overflow: Some(Overflow::Block) })?;
    let mut given = 0;
    while given < capacity.0 + capacity.0 / 20 {
        given += stream.batch(&mut recorder)?;
        recorder.tick()?;
    }
    recorder.close().map(drop)
}

/// Pins single segments, spread evenly over what the ring has, until the share is reached.
fn pin_scattered(args: &RingArgs, cluster: &Cluster, elements: &Elements) -> Result<()> {
    let status = cluster.ring(NAME)?;
    let wanted = (status.segments * args.pins).div_ceil(100);
    let (Some(oldest), Some(newest)) = (status.oldest, status.newest) else { return Ok(()) };
    let span = newest.since(oldest);
    // So long that it has an element, and so short that it is in no more than two segments, unless elements are large.
    let share = |bytes: Bytes| span.mul_f64(bytes.0 as f64 / status.spec.capacity.0 as f64);
    let window = share(elements.largest()).max(span / 8 / status.segments.max(1) as u32);
    for i in 0..wanted {
        if cluster.ring(NAME)?.pinned_segments >= wanted {
            break;
        }
        let at = oldest.after(span.mul_f64((i as f64 + 0.5) / wanted as f64));
        cluster.pin(NAME, "bench", at, at.after(window))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;

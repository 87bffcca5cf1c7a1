//! `forebay demo`: all of it at work in two minutes, in a temporary place that is removed afterwards.

use crate::args::span;
use crate::commands::export;
use crate::context::Context;
use crate::show::human;
use crate::show::live::{Live, bar};
use clap::Args;
use forebay_capture::export::{Format, exporter};
use forebay_client::{Cluster, Event, Recorder};
use forebay_embedded::{FormatOptions, Formatted, Measure, Options};
use forebay_env::real::file::{self, File};
use forebay_env::real::signal::Stop;
use forebay_env::real::{clock, process, thread};
use forebay_model::ring::RingSpec;
use forebay_model::{Bytes, Error, Kind, Moment, Profile, Rate, Result};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const RING: &str = "/telescope";
/// Stations of the telescope.
const STATIONS: u32 = 53;
/// A frame of the telescope: station, number, samples.
const FRAME: usize = 8 << 10;
/// How much is pinned, looking back.
const EVENT: Duration = Duration::from_secs(10);
/// Space for the demo, if there is so much.
const SPACE: Bytes = Bytes::gib(2);
/// Less is not worth it.
const LEAST: Bytes = Bytes::mib(256);

/// How to show it.
#[derive(Args)]
pub struct DemoArgs {
    /// The rate of the stream
    #[arg(long, value_name = "RATE", default_value = "72.5MB/s")]
    rate: Rate,
    /// How long to record
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "20s")]
    seconds: Duration,
    /// Readers that pull at full speed meanwhile
    #[arg(long, value_name = "N", default_value_t = 3)]
    readers: usize,
    /// Where to make the target; the faster of the temporary and the current directory if left out
    #[arg(long, value_name = "DIR")]
    place: Option<PathBuf>,
}

/// A directory that goes when this does.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // What is left of it, if anything, is in a place for temporary things.
        let _ = file::remove_directory(&self.0);
    }
}

/// What was seen while recording.
struct Seen {
    bytes: Bytes,
    elements: u64,
    lost: u64,
    /// Blocks that came to the disk after their deadline.
    late: u64,
    time: Duration,
    worst: Rate,
    read: Bytes,
    pinned: Option<String>,
}

/// Shows it.
pub fn run(context: &mut Context, args: &DemoArgs) -> Result<ExitCode> {
    context.out.outlive_reader();
    let stop = Stop::on_signals()?;
    let talk = !context.json;
    let say = |context: &mut Context, text: &str| -> Result<()> {
        if talk {
            context.out.line(text)?;
            context.out.flush()?;
        }
        Ok(())
    };
    say(context, "1. A target in a temporary place")?;
    let (place, formatted) = choose(args)?;
    let (write, read) = means(&formatted.profile);
    say(
        context,
        &format!(
            "   {} of {} is formatted and measured: it writes {write} at its best.\n",
            place.0.join(&formatted.device).display(),
            formatted.size
        ),
    )?;

    let cluster = forebay_embedded::open(&place.0, Options::default())?;
    let outcome = (|| -> Result<ExitCode> {
        say(context, "2. A ring with a promise")?;
        let (spec, rate) = ring(&cluster, &formatted, args.rate)?;
        let less = if rate < args.rate {
            format!(" ({} is more than this disk can promise)", args.rate)
        } else {
            String::new()
        };
        say(
            context,
            &format!(
                "   {RING} has {} for ever, and {rate} promised{less}: {} of history.\n",
                spec.capacity,
                human::span(rate.time_for(spec.capacity))
            ),
        )?;

        say(
            context,
            &format!(
                "3. {} stations send {rate} for {}, while {} readers pull as fast as they can",
                STATIONS,
                human::span(args.seconds),
                args.readers
            ),
        )?;
        let seen = record(context, &cluster, args, rate, &stop)?;
        if stop.is_set() {
            say(context, "   Stopped; removing what was made.")?;
            return Ok(ExitCode::from(130));
        }
        say(context, &format!("   {} frames, {}, are on disk.", human::count(seen.elements), seen.bytes))?;
        if let Some(pinned) = &seen.pinned {
            say(context, &format!("   While recording, {pinned}."))?;
        }

        say(context, "\n4. Looking back")?;
        let query = format!("station=7 and after {}", clock::wall().before(EVENT));
        let (found, took) = look_back(&cluster, &query)?;
        say(
            context,
            &format!("   station=7 and after 10s ago: {} frames in {}.", human::count(found), human::span(took)),
        )?;
        let path = place.0.join("station7.lp");
        let out = exporter(Format::LengthPrefixed, Box::new(File::create(&path)?), "station7.lp")?;
        let totals = export::write(&cluster, &spec, cluster.query(RING, &query)?, out, &stop, talk)?;
        say(context, &format!("   Exported {} of them to {}.\n", human::count(totals.elements), path.display()))?;
        report(context, &seen, args, rate, write, read)
    })();
    let closed = cluster.close();
    let code = outcome?;
    closed?;
    drop(place);
    say(context, "Everything that was made is removed again. Next: forebay record --help")?;
    Ok(code)
}

fn report(
    context: &mut Context,
    seen: &Seen,
    args: &DemoArgs,
    rate: Rate,
    write: Rate,
    read: Rate,
) -> Result<ExitCode> {
    let readers = Rate::of(seen.read, seen.time);
    // A stream that is made up on a busy machine comes unevenly by itself.
    let kept = seen.lost == 0 && seen.late == 0 && seen.worst.0 as f64 >= rate.0 as f64 * 0.9;
    if context.json {
        context.out.json(&json!({
            "asked_bytes_per_second": args.rate.0, "guarantee_bytes_per_second": rate.0,
            "worst_second_bytes_per_second": seen.worst.0, "read_bytes_per_second": readers.0,
            "limit_write_bytes_per_second": write.0, "limit_read_bytes_per_second": read.0,
            "elements": seen.elements, "bytes": seen.bytes.0, "lost_elements": seen.lost,
            "missed_deadlines": seen.late, "kept": kept,
        }))?;
    } else {
        for (name, value) in [
            ("promised", rate.to_string()),
            ("kept, worst second", seen.worst.to_string()),
            ("readers got", readers.to_string()),
            (
                "late on disk",
                if seen.late == 0 { "nothing".to_string() } else { format!("{} blocks", human::count(seen.late)) },
            ),
            // Reading a file that is new says nothing of the disk: where nothing was written, nothing is read.
            ("device's limit", format!("{write} writing")),
            (
                "lost",
                if seen.lost == 0 { "nothing".to_string() } else { format!("{} frames", human::count(seen.lost)) },
            ),
        ] {
            context.out.line(format_args!("   {name:<20}{value}"))?;
        }
        context.out.line(if kept { "\nThe promise was kept.\n" } else { "\nThe promise was NOT kept.\n" })?;
    }
    context.out.flush()?;
    Ok(if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Makes a target in each place that will do, and keeps the fastest.
fn choose(args: &DemoArgs) -> Result<(Temporary, Formatted)> {
    let mut best: Option<(Temporary, Formatted)> = None;
    let mut trouble = None;
    let places = match &args.place {
        Some(place) => vec![place.clone()],
        None => vec![std::env::temp_dir(), PathBuf::from(".")],
    };
    for place in places {
        // The current directory may be the temporary one: what is there now is ours already.
        let same =
            |(made, _): &(Temporary, Formatted)| file::absolute(&place).is_ok_and(|p| made.0.parent() == Some(&p));
        if best.as_ref().is_some_and(same) {
            continue;
        }
        match target(&place, args.place.is_some()) {
            Ok(made) => {
                let faster = best.as_ref().is_none_or(|(_, b)| means(&made.1.profile).0 > means(&b.profile).0);
                if faster {
                    best = Some(made);
                }
            }
            Err(error) => trouble = Some(error),
        }
    }
    best.ok_or_else(|| {
        let reason = trouble.map_or_else(String::new, |error| format!(" ({error})"));
        Error::full(format!("there is no place for the demo{reason}; name one with --place"))
    })
}

fn target(place: &Path, named: bool) -> Result<(Temporary, Formatted)> {
    if !named && is_memory(place)? {
        return Err(Error::usage(format!("{} is in memory, not on a disk", place.display())));
    }
    let size = SPACE.0.min(file::available(place)?.0 / 2);
    if size < LEAST.0 {
        return Err(Error::full(format!("{} has no room for twice {LEAST}", place.display())));
    }
    let dir = Temporary(file::absolute(place)?.join(format!("forebay-demo-{}", process::id())));
    let size = Bytes(size).align_down(Bytes::mib(1));
    let options = FormatOptions::file(size, Measure::AtMost(Duration::from_secs(4)));
    let mut formatted = forebay_embedded::format(&dir.0, &options)?;
    match formatted.pop() {
        Some(formatted) => Ok((dir, formatted)),
        None => Err(Error::missing("nothing was formatted")),
    }
}

/// Whether a directory is in a file system that has no disk under it.
fn is_memory(place: &Path) -> Result<bool> {
    let place = file::absolute(place)?;
    let mounts = file::read_text("/proc/self/mounts")?;
    let mount = mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some((words.nth(1)?, words.next()?))
        })
        .filter(|(point, _)| place.starts_with(point))
        .max_by_key(|(point, _)| point.len());
    Ok(mount.is_some_and(|(_, kind)| matches!(kind, "tmpfs" | "ramfs")))
}

/// Mean write and read rates.
fn means(profile: &Profile) -> (Rate, Rate) {
    let points = profile.points.len().max(1) as u64;
    let sum =
        |rate: &dyn Fn(&forebay_model::profile::Point) -> Rate| profile.points.iter().map(|p| rate(p).0).sum::<u64>();
    (Rate(sum(&|p| p.write) / points), Rate(sum(&|p| p.read) / points))
}

/// Creates the ring with the rate asked for, or else the highest that is accepted on the way down.
fn ring(cluster: &Cluster, formatted: &Formatted, asked: Rate) -> Result<(RingSpec, Rate)> {
    let mut spec = RingSpec::new(RING, Bytes(formatted.size.0 / 100 * 80));
    spec.keys = vec!["station=u32le@0".to_string(), "number=u64le@8".to_string()];
    spec.pin_budget_percent = 80;
    spec.guarantee = asked;
    loop {
        match cluster.create_ring(spec.clone()) {
            Ok(status) => return Ok((status.spec, spec.guarantee)),
            Err(error) if error.kind == Kind::Refused && spec.guarantee > Rate::mb(1) => {
                spec.guarantee = Rate(spec.guarantee.0 / 10 * 9);
            }
            Err(error) => return Err(error),
        }
    }
}

fn record(context: &Context, cluster: &Cluster, args: &DemoArgs, rate: Rate, stop: &Stop) -> Result<Seen> {
    let over = Arc::new(AtomicBool::new(false));
    let read = Arc::new(AtomicU64::new(0));
    let mut readers = Vec::new();
    for _ in 0..args.readers {
        let (cluster, over, read) = (cluster.clone(), over.clone(), read.clone());
        readers.push(thread::spawn("reader", move || pull(&cluster, &over, &read))?);
    }
    let recorder = cluster.recorder(RING)?;
    let mut stream = Stream { frame: vec![0x5a; FRAME], number: 0, recorder };
    let recorded = stream.run(context, cluster, args, rate, stop, &read);
    over.store(true, Ordering::Relaxed);
    for reader in readers {
        // A reader that came to grief has read what it has read.
        let _ = reader.join();
    }
    let mut seen = recorded?;
    let progress = stream.recorder.close()?;
    seen.elements = progress.elements;
    seen.bytes = progress.bytes;
    seen.lost = progress.losses.total();
    seen.late = cluster.ring(RING)?.missed_deadlines;
    Ok(seen)
}

/// Reads everything that is kept, again and again.
fn pull(cluster: &Cluster, over: &AtomicBool, read: &AtomicU64) -> Result<()> {
    while !over.load(Ordering::Relaxed) {
        let mut any = false;
        let mut answer = cluster.query(RING, "")?;
        answer.for_each(|event| {
            if let Event::Element { payload, .. } = event {
                any = true;
                read.fetch_add(payload.len() as u64, Ordering::Relaxed);
            }
            Ok(!over.load(Ordering::Relaxed))
        })?;
        if !any {
            clock::pause(Duration::from_millis(20));
        }
    }
    Ok(())
}

/// What the stations send.
struct Stream {
    frame: Vec<u8>,
    number: u64,
    recorder: Recorder,
}

impl Stream {
    fn run(
        &mut self,
        context: &Context,
        cluster: &Cluster,
        args: &DemoArgs,
        rate: Rate,
        stop: &Stop,
        read: &AtomicU64,
    ) -> Result<Seen> {
        let mut live = Live::new(!context.json);
        let began = clock::now();
        let mut seen = Seen {
            bytes: Bytes(0),
            elements: 0,
            lost: 0,
            late: 0,
            time: Duration::ZERO,
            worst: Rate(u64::MAX),
            read: Bytes(0),
            pinned: None,
        };
        // What was taken in is on disk by its deadline, or counts as late. The first second has the beginning in it.
        let mut second: (Moment, u64) = (began + Duration::from_secs(1), 0);
        let mut settled = false;
        loop {
            let now = clock::now();
            let time = now.since(began);
            if time >= args.seconds || stop.is_set() {
                break;
            }
            let due = rate.bytes_in(time).0 / FRAME as u64;
            let at = clock::wall();
            while self.number < due {
                let station = (self.number % u64::from(STATIONS)) as u32;
                self.frame[..4].copy_from_slice(&station.to_le_bytes());
                self.frame[8..16].copy_from_slice(&self.number.to_le_bytes());
                self.recorder.element(at, &[&self.frame], &[])?;
                self.number += 1;
            }
            self.recorder.tick()?;
            if now.since(second.0) >= Duration::from_secs(1) || (!settled && now >= second.0) {
                let taken = self.recorder.progress().bytes.0;
                if settled {
                    let kept = Rate::of(Bytes(taken - second.1), now.since(second.0));
                    seen.worst = seen.worst.min(kept);
                }
                settled = true;
                second = (now, taken);
            }
            if seen.pinned.is_none() && time >= args.seconds.mul_f64(0.75) {
                let pinned = cluster.pin(RING, "the event", at.before(EVENT), at)?;
                seen.pinned = Some(format!(
                    "the last {} were pinned: {} in {} segments stay where they are",
                    human::span(EVENT),
                    pinned.pin.bytes,
                    pinned.pin.segments
                ));
            }
            if live.is_due() {
                let progress = self.recorder.progress();
                live.show(&format!(
                    "   {}  writing {}  readers {}  lost {}",
                    bar(time.as_millis() as u64, args.seconds.as_millis() as u64, 30),
                    Rate::of(progress.bytes, time),
                    Rate::of(Bytes(read.load(Ordering::Relaxed)), time),
                    progress.losses.total()
                ));
            }
            clock::pause(Duration::from_millis(2));
        }
        seen.time = clock::now().since(began);
        seen.read = Bytes(read.load(Ordering::Relaxed));
        if seen.worst == Rate(u64::MAX) {
            seen.worst = Rate::of(self.recorder.progress().bytes, seen.time);
        }
        Ok(seen)
    }
}

/// Finds one station's frames of the last ten seconds.
fn look_back(cluster: &Cluster, query: &str) -> Result<(u64, Duration)> {
    let began = clock::now();
    let summary = cluster.query(RING, query)?.for_each(|_| Ok(true))?;
    Ok((summary.elements, clock::now().since(began)))
}

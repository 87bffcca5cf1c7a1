//! `forebay record`: from a source into a ring, until the source ends or somebody says stop.
//!
//! Invariant: whatever ends it, everything that was accepted is durable before the summary is printed; only if the ring
//! cannot go on, it is not, and the summary says how much. Whoever reads what is said of it changes nothing of that.

mod report;

use crate::args::{RingArgs, span};
use crate::commands::format;
use crate::context::{Context, when_stopped};
use crate::input::InputArgs;
use crate::show::{human, json, out, rings, say};
use clap::Args;
use forebay_capture::{LinkType, Sink};
use forebay_client::{Cluster, Recorder, RecorderOptions, RecorderProgress, Stopper};
use forebay_env::real::signal::Stop;
use forebay_env::real::{clock, thread};
use forebay_model::key::{Extraction, KeySet};
use forebay_model::ring::{Content, Overflow, RingStatus};
use forebay_model::{Bytes, Cause, Error, Gap, Kind, Moment, Rate, Result, Timestamp};
use report::Report;
use std::time::Duration;

/// How long what was read when the time was over may still wait for room.
const LATE: Duration = Duration::from_secs(1);

/// What to record, and where.
#[derive(Args)]
pub struct RecordArgs {
    /// The ring
    ring: String,
    #[command(flatten)]
    input: InputArgs,
    /// Create the ring if it is not there, and the cluster too
    #[arg(long)]
    create: bool,
    #[command(flatten)]
    spec: RingArgs,
    /// End after so long
    #[arg(long, value_name = "TIME", value_parser = span)]
    seconds: Option<Duration>,
    /// End after so many elements
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

/// Records.
pub fn run(context: &mut Context, args: &RecordArgs) -> Result<()> {
    if !args.create
        && let Some(option) = args.spec.given()
    {
        return Err(Error::usage(format!("{option} says how a ring is created: give --create too, or leave it out")));
    }
    if args.create && !context.is_remote() && !format::is_cluster(context.dir()?) {
        let capacity = args.spec.spec(&args.ring, args.input.content(), &[])?.capacity;
        // Room for the ring, for metadata, and for a little more; on less, segments are too small for usual blocks.
        let size = Bytes(capacity.0 + capacity.0 / 8 + Bytes::mib(64).0).align_up(Bytes::mib(1));
        format::make(context.dir()?, size.max(Bytes::mib(256)))?;
    }
    context.with_cluster(|context, cluster| {
        let recorded = record(context, cluster, args)?;
        // Before the cluster is closed, which fails if its device did.
        let told = recorded.told.clone().and_then(|()| summary(context, &recorded));
        // How a recording ended is worth more than that it was not told to its end, which is no success either.
        recorded.ended.and(told.map_err(untold))
    })
}

fn untold(error: Error) -> Error {
    if !out::is_closed(&error) {
        return error;
    }
    Error::disconnected(format!("{}, so how the recording went was not told; it ended in order", error.message))
}

fn summary(context: &mut Context, Recorded { progress, time, .. }: &Recorded) -> Result<()> {
    if context.json {
        context.out.json(&json::recorded("summary", progress, time.as_secs_f64()))?;
    } else {
        let there = match progress.elements - progress.durable_elements {
            0 => "all of it is on disk".to_string(),
            lost => format!("the last {} of it not known to be on disk", human::some(lost, "element")),
        };
        context.out.line(format_args!(
            "Recorded {}, {}, in {} ({}); lost: {}; {there}.",
            human::some(progress.elements, "element"),
            progress.bytes,
            human::span(*time),
            Rate::of(progress.bytes, *time),
            human::losses(&progress.losses)
        ))?;
    }
    context.out.flush()
}

struct Recorded {
    progress: RecorderProgress,
    time: Duration,
    /// Why it ended, if not in order.
    ended: Result<()>,
    /// Whether it could be told how it went.
    told: Result<()>,
}

fn record(context: &Context, cluster: &Cluster, args: &RecordArgs) -> Result<Recorded> {
    let existing = find(cluster, &args.ring)?;
    match &existing {
        // Whoever believes that a rate is promised has to hear that none is.
        Some(ring) => args.spec.check_as_given(&ring.spec)?,
        None if !args.create => {
            return Err(Error::missing(format!(
                "there is no ring {}; create it with `forebay ring create`, or give --create and --capacity",
                args.ring
            )));
        }
        None => {}
    }
    // Before there is anything to stop in order, a signal ends this at once.
    let stop = &Stop::on_signals()?;
    // A quarter of the ring is the most it takes; the recorder checks it once more.
    let capacity = existing.as_ref().map(|ring| ring.spec.capacity).or(args.spec.capacity).unwrap_or(Bytes::gib(1));
    let Some((mut source, link)) = args.input.open(capacity / 4, args.count, stop)? else {
        // A ring that is made now would have no keys of packets for ever.
        return Ok(Recorded {
            progress: RecorderProgress::default(),
            time: Duration::ZERO,
            ended: Ok(()),
            told: Ok(()),
        });
    };
    let ring = match existing {
        Some(ring) => {
            check_content(&ring, args.input.content(), link)?;
            ring
        }
        None => {
            let ring = create(cluster, args, link)?;
            say(&rings::created(&ring));
            ring
        }
    };
    if let Some(size) = args.input.element_size() {
        let keys = KeySet::parse(&ring.spec.keys)?;
        keys.check_fits(size)?;
        if let Some(key) = keys.specs().iter().find(|key| matches!(key.extraction(), Extraction::Caller { .. })) {
            return Err(Error::usage(format!(
                "key '{}' of {} is given by a program beside each element; record with the library, or without that key",
                key.name(),
                args.ring
            )));
        }
    }
    // What is in a file is there as well when there is room.
    let overflow = args.spec.overflow.map(Overflow::from).or(args.input.waits().then_some(Overflow::Block));
    let options = RecorderOptions { overflow };
    let recorder = cluster.recorder_with(&args.ring, options)?;
    let (stopper, stopping) = (recorder.stopper(), recorder.stopper());
    when_stopped(stop, move || stopping.stop())?;
    if !context.json {
        say(&format!("Recording {} into {}; Ctrl-C ends it in order.", source.describe(), args.ring));
    }
    let (began, over) = (clock::now(), Stop::new()?);
    if let Some(seconds) = args.seconds {
        end_waiting(seconds, over.clone(), stopper.clone())?;
    }
    let mut feed = Feed {
        is_live: args.input.is_live(),
        recorder,
        stop: stop.clone(),
        until: args.seconds.map(|seconds| began + seconds),
        left: args.count.unwrap_or(u64::MAX),
        open: None,
        refused: None,
        report: Report::begin(context.json, cluster, &ring, began)?,
    };
    let ended = source.run(&mut feed).map(drop);
    let time = clock::now().since(began);
    over.set();
    let stopped = stopper.is_stopped();
    let Feed { mut recorder, open, refused, report, .. } = feed;
    let mut kept = Ok(());
    if open.is_some() {
        // An element that was cut off is none: a gap says that it is missing.
        let was_stopped = ended.as_ref().map_or_else(|error| stopped && error.kind == Kind::Busy, |()| true);
        kept = recorder.abandon(if was_stopped { Cause::Restart } else { Cause::Rejected });
    }
    if let Some(time) = refused.filter(|_| stopped && kept.is_ok()) {
        // It was taken out of the source, and nobody knows what came with it.
        kept = recorder.gap(Gap { cause: Cause::Restart, count: None, first: time, last: time });
    }
    let kept = kept.and_then(|()| recorder.flush());
    let progress = recorder.progress();
    let kept = kept.and_then(|_| recorder.close());
    // From here on nobody has to wait for who reads.
    let told = report.end();
    // Being stopped while waiting for room is no failure.
    let ended = match ended {
        Err(error) if stopped && error.kind == Kind::Busy => Ok(()),
        other => other,
    };
    // Why the recorder cannot go on is said once, also if it is why the source did not.
    Ok(Recorded { progress, time, ended: kept.map(drop).and(ended), told })
}

/// Whoever waits for room looks at no clock: ends the wait some time after the time is over, unless the recording is `over` by then.
fn end_waiting(seconds: Duration, over: Stop, stopper: Stopper) -> Result<()> {
    let limit = seconds.saturating_add(LATE);
    let waiting = thread::spawn("seconds", move || {
        if over.wait(Some(limit)).is_ok_and(|over| !over) {
            stopper.stop();
        }
    });
    waiting.map(drop)
}

fn find(cluster: &Cluster, name: &str) -> Result<Option<RingStatus>> {
    match cluster.ring(name) {
        Ok(ring) => Ok(Some(ring)),
        Err(error) if error.kind == Kind::Missing => Ok(None),
        Err(error) => Err(error),
    }
}

fn create(cluster: &Cluster, args: &RecordArgs, link: Option<LinkType>) -> Result<RingStatus> {
    let content = link.map_or(Content::Opaque, |link| Content::Packets(u32::from(link.0)));
    let keys: &[&str] = if link.is_some() { &["pcap"] } else { &[] };
    cluster.create_ring(args.spec.spec(&args.ring, content, keys)?)
}

/// Packets of one kind do not go among those of another, and what is no packet does not go among packets.
fn check_content(ring: &RingStatus, content: Content, link: Option<LinkType>) -> Result<()> {
    let Content::Packets(has) = ring.spec.content else { return Ok(()) };
    let name = &ring.spec.name;
    match link {
        _ if content == Content::Opaque => Err(Error::usage(format!(
            "{name} has packets, and what comes from this source is none (a datagram is but the content of one); \
             record it into a ring that was created without --packets"
        ))),
        Some(link) if has != u32::from(link.0) => Err(Error::usage(format!(
            "{name} has packets of link type {has}, and these have {link}; record them into a ring of their own"
        ))),
        _ => Ok(()),
    }
}

/// Feeds a recorder.
struct Feed {
    recorder: Recorder,
    /// Whether what it feeds comes by itself, and cannot be read again.
    is_live: bool,
    stop: Stop,
    until: Option<Moment>,
    /// Elements still wanted.
    left: u64,
    /// When the element was captured that is under way in pieces.
    open: Option<Timestamp>,
    /// When the element was captured that found no room before the stop.
    refused: Option<Timestamp>,
    report: Report,
}

impl Feed {
    /// Takes note of what finds no room any more.
    fn taken(&mut self, time: Timestamp, result: Result<()>) -> Result<()> {
        if result.as_ref().is_err_and(|error| error.kind == Kind::Busy) {
            self.refused = Some(time);
        }
        result
    }

    /// The same of a whole element; one that is too large is no end of what comes by itself.
    fn taken_whole(&mut self, time: Timestamp, parts: &[&[u8]], result: Result<()>) -> Result<()> {
        if self.is_live && result.as_ref().is_err_and(|error| error.kind == Kind::Usage) {
            let length: usize = parts.iter().map(|part| part.len()).sum();
            if length as u64 > self.recorder.largest_element().0 {
                // The recorder has a gap for it; it is none of those that are wanted.
                self.left += 1;
                return Ok(());
            }
        }
        self.taken(time, result)
    }
}

impl Sink for Feed {
    fn element(&mut self, time: Timestamp, parts: &[&[u8]], caller_keys: &[u8]) -> Result<()> {
        // A source looks up only now and then; what it offers beyond the wanted is not recorded.
        if self.left == 0 {
            return Ok(());
        }
        self.left -= 1;
        let taken = self.recorder.element(time, parts, caller_keys);
        self.taken_whole(time, parts, taken)
    }

    fn element_cut(&mut self, time: Timestamp, parts: &[&[u8]], caller_keys: &[u8], cut: u32) -> Result<()> {
        if self.left == 0 {
            return Ok(());
        }
        self.left -= 1;
        let taken = self.recorder.element_cut(time, parts, caller_keys, cut);
        self.taken_whole(time, parts, taken)
    }

    fn begin(&mut self, time: Timestamp, caller_keys: &[u8]) -> Result<()> {
        if self.left > 0 {
            let begun = self.recorder.begin(time, caller_keys);
            self.taken(time, begun)?;
            self.open = Some(time);
        }
        Ok(())
    }

    fn part(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(time) = self.open else { return Ok(()) };
        let taken = self.recorder.part(bytes).inspect_err(|_| self.open = None);
        self.taken(time, taken)
    }

    fn end(&mut self) -> Result<()> {
        if self.open.take().is_none() {
            return Ok(());
        }
        self.left -= 1;
        self.recorder.end()
    }

    fn gap(&mut self, gap: Gap) -> Result<()> {
        if self.left == 0 { Ok(()) } else { self.recorder.gap(gap) }
    }

    fn tick(&mut self) -> Result<bool> {
        self.recorder.tick()?;
        self.report.note(self.recorder.progress());
        Ok(self.left > 0 && !self.stop.is_set() && self.until.is_none_or(|until| clock::now() < until))
    }
}

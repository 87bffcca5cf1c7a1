//! The run of simulated disks in reality: on a file that is made in a directory, or on a device or file that is there.
//!
//! Invariants: what is there is only written over if nothing is known to be on it, or if that is asked for; nothing is
//! left behind but bytes that mean nothing. All I/O is direct, and what is read was written before.

use super::{Limits, LogsArgs};
use crate::bench::figures;
use crate::bench::real::raw;
use crate::commands::format::with_option;
use crate::show::live::{Live, bar};
use forebay_embedded::nothing_to_lose;
use forebay_env::real::{self, OpenMode, Opened, Options, file};
use forebay_env::{Buffer, Clock};
use forebay_model::{Bytes, Error, Moment, Result};
use forebay_sim::disk::presets;
use forebay_sim::logs::{Disks, Load, Outcome, Stage, on_disks, reader_begins};
use forebay_target::layout::{ROOT_LEN, ROOTS};
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// The file that is made in a directory, unless told otherwise.
const SIZE: Bytes = Bytes::gib(4);
/// How long each limit of the disk is measured, where the run takes longer.
const LIMIT: Duration = Duration::from_secs(2);
/// How often the line on the terminal moves.
const TICK: Duration = Duration::from_millis(500);

pub(super) fn run(args: &LogsArgs, load: Load, json: bool) -> Result<(Outcome, Limits)> {
    if args.disks != 1 {
        return Err(Error::usage(format!(
            "{} disks at one path; leave --disks out, or stripe real disks into one device and name that",
            args.disks
        )));
    }
    load.check(args.disks)?;
    let path = Path::new(&args.disk);
    if !file::exists(path) {
        let names = presets::NAMES.join(", sim:");
        return Err(Error::usage(format!(
            "{} does not exist; name a directory, a device or a file, or one of sim:{names}",
            args.disk
        )));
    }
    if file::is_directory(path) {
        let size = args.size.unwrap_or(SIZE);
        reader_begins(size, args.disks)?;
        return figures::in_directory(&args.disk, |dir| {
            on_device(args, load, real::create_file(dir.join("target.0"), size)?, true, json)
        });
    }
    if args.size.is_some() {
        return Err(Error::usage(format!(
            "{} is used as it is; leave --size out, or name a directory in which a file of that size can be made",
            args.disk
        )));
    }
    let opened = real::open(path, OpenMode::Exclusive)?;
    let opened = if args.force { opened } else { nothing_to_lose(opened, "measuring").map_err(with_option)? };
    let measured = on_device(args, load, opened, file::is_file(path), json);
    let forgotten = forget(path);
    let measured = measured?;
    forgotten.map(|()| measured)
}

/// What is told on a terminal.
struct Progress {
    live: Live,
    doing: String,
    begun: Moment,
    span: Option<Duration>,
}

impl Progress {
    fn begin(&mut self, doing: String, span: Option<Duration>, now: Moment) {
        (self.doing, self.begun, self.span) = (doing, now, span);
        self.tell(now);
    }

    fn tell(&mut self, now: Moment) {
        let passed = now.since(self.begun);
        match self.span {
            Some(span) => self.live.show(&format!(
                "{} {}",
                self.doing,
                bar(passed.as_millis() as u64, span.as_millis() as u64, 30)
            )),
            None => self.live.show(&format!("{} {} s", self.doing, passed.as_secs())),
        }
    }
}

/// Runs it on an open device. Of a file all blocks are `written` once before anything is timed: to read what never was
/// costs nothing, and first writes to unwritten extents cost more.
fn on_device(args: &LogsArgs, load: Load, opened: Opened, written: bool, json: bool) -> Result<(Outcome, Limits)> {
    let (seed, disk, live) = (args.seed, args.disk.clone(), Live::new(!json));
    real::run(Options { device: opened }, move |env| async move {
        let begun = env.clock.now();
        let progress = Rc::new(RefCell::new(Progress { live, doing: String::new(), begun, span: None }));
        // It ends when it is dropped.
        let _ticks = env.spawner.spawn(tick(env.clock.clone(), progress.clone()));
        let tell = |doing: &str, span| {
            progress.borrow_mut().begin(format!("{disk}: {doing}"), span, env.clock.now());
        };
        let size = env.device.geometry().size;
        if written {
            tell("writing all of it once", None);
            raw::go_through(env.clone(), Bytes::ZERO..size, Duration::MAX, true).await?;
        }
        let span = LIMIT.min(load.span);
        tell("what the disk can do", Some(span * 2));
        let at = reader_begins(size, 1)?;
        let reads = raw::go_through(env.clone(), at..size, span, false).await?;
        let limits = Limits::Measured(reads, raw::durable(&env, span).await?);
        let told = |stage, span| {
            let doing = match stage {
                Stage::Preparing => "writing what will be read",
                Stage::Alone => "a streaming user alone",
                Stage::Beside => "small durable writes beside all else",
                Stage::Settling => "taking home what lies in logs",
            };
            tell(doing, span);
        };
        let outcome = on_disks(Disks::real(vec![env.clone()], seed), &load, &told).await?;
        Ok((outcome, limits))
    })?
}

async fn tick(clock: Rc<dyn Clock>, progress: Rc<RefCell<Progress>>) {
    loop {
        clock.sleep(TICK).await;
        progress.borrow_mut().tell(clock.now());
    }
}

/// Takes the superblocks away, so that nobody takes what is left for a target. The one that was there has ended by now.
fn forget(path: &Path) -> Result<()> {
    let device = real::open(path, OpenMode::Exclusive)?;
    real::run(Options { device }, |env| async move {
        for root in ROOTS {
            let (_buffer, result) = env.device.write(root, Buffer::alone(ROOT_LEN)?).await;
            result?;
        }
        env.device.flush().await
    })?
}

//! `forebay scrub` of a cluster on the network: all of its files, or those below a directory, are read and compared with their parity
//! or copies, and what can be mended is.

use super::ScrubArgs;
use crate::commands::serve::ranges;
use crate::context::Context;
use crate::show::human;
use crate::show::live::Live;
use forebay_client::files::blocking::FilesClient;
use forebay_client::files::scrub::Scrubbed;
use forebay_env::real::signal::Stop;
use forebay_model::{Bytes, Error, Kind, Rate, Result};
use forebay_wire::control::names::{FileId, FileKind};
use serde_json::json;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

/// All that was done.
#[derive(Default)]
struct Sum {
    files: u64,
    /// Files of which not all could be read now.
    left: u64,
    compared: Bytes,
    repaired: Bytes,
    lost: u64,
}

/// Scrubs them. The exit code is 1 if bytes are lost, a file could not be scrubbed, or it was stopped before its end.
pub(super) fn run(context: &mut Context, args: &ScrubArgs, files: &FilesClient, stop: &Stop) -> Result<ExitCode> {
    if args.restart {
        return Err(Error::usage(
            "files of a cluster on the network are scrubbed from the beginning; leave out --restart",
        ));
    }
    let rate = args.rate.filter(|rate| *rate > Rate(0));
    let live = Arc::new(Mutex::new(Live::new(!context.json)));
    let mut sum = Sum::default();
    let first = args.path.clone().unwrap_or_else(|| "/".to_string());
    let mut left = vec![first.clone()];
    while let Some(path) = left.pop().filter(|_| !stop.is_set()) {
        let looked = files.stat(&path).and_then(|entry| match entry.attributes.kind {
            FileKind::Directory => names(files, &path).map(|names| left.extend(names)),
            FileKind::File => one(context, files, (&path, entry.file), rate, &live, stop, &mut sum),
            // Its blocks or records have checksums, which its targets compare.
            FileKind::Ring | FileKind::Heap => Ok(()),
        });
        match looked {
            // It was removed since its directory was listed.
            Err(error) if error.kind == Kind::Missing && path != first => {}
            looked => looked?,
        }
    }
    cleared(&live);
    let finished = !stop.is_set();
    sum_up(context, &sum, finished)?;
    context.out.flush()?;
    Ok(if finished && sum.lost == 0 && sum.left == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What is in a directory, the last one first.
fn names(files: &FilesClient, directory: &str) -> Result<Vec<String>> {
    let (mut after, mut found) = (String::new(), Vec::new());
    loop {
        let (entries, more) = files.list(directory, &after)?;
        found.extend(entries.iter().map(|listed| format!("{}/{}", directory.trim_end_matches('/'), listed.name)));
        match entries.into_iter().next_back().filter(|_| more) {
            Some(last) => after = last.name,
            None => break,
        }
    }
    found.reverse();
    Ok(found)
}

fn one(
    context: &mut Context,
    files: &FilesClient,
    (path, file): (&str, FileId),
    rate: Option<Rate>,
    live: &Arc<Mutex<Live>>,
    stop: &Stop,
    sum: &mut Sum,
) -> Result<()> {
    let progress = {
        let (live, stop, name, mut done) = (live.clone(), stop.clone(), path.to_string(), Bytes::ZERO);
        move |more: Bytes| {
            done += more;
            let mut live = live.lock().unwrap_or_else(PoisonError::into_inner);
            if live.is_due() {
                live.show(&format!("scrubbing {name}: {done} compared"));
            }
            match stop.is_set() {
                true => Err(Error::busy("it was stopped before its end")),
                false => Ok(()),
            }
        }
    };
    let scrubbed = files.scrub(file, rate, progress).map_err(|error| error.of(path))?;
    let Some(Scrubbed { compared, repaired, lost, .. }) = scrubbed else {
        if !stop.is_set() {
            sum.left += 1;
            tell(
                context,
                live,
                path,
                "is for later: part of it is away or to be rebuilt, or somebody is alone with it",
                || json!({ "name": path, "file": file.0, "finished": false }),
            )?;
        }
        return Ok(());
    };
    sum.files += 1;
    sum.compared += compared;
    sum.repaired += repaired;
    sum.lost += lost.iter().map(|range| range.end - range.start).sum::<u64>();
    let mut found = Vec::new();
    if repaired > Bytes::ZERO {
        found.push(format!("{repaired} were damaged or unlike parity or copies, and are right again"));
    }
    if !lost.is_empty() {
        found.push(format!("bytes {} are lost; restore them", ranges(&lost)));
    }
    if found.is_empty() {
        return Ok(());
    }
    tell(context, live, path, &found.join("; "), || {
        let lost = lost.iter().map(|range| json!({ "from": range.start, "to": range.end }));
        json!({
            "name": path, "file": file.0, "finished": true, "compared_bytes": compared.0, "repaired_bytes": repaired.0,
            "lost": lost.collect::<Vec<_>>(),
        })
    })
}

fn cleared(live: &Mutex<Live>) {
    live.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

fn tell(
    context: &mut Context,
    live: &Mutex<Live>,
    path: &str,
    text: &str,
    told: impl FnOnce() -> serde_json::Value,
) -> Result<()> {
    cleared(live);
    match context.json {
        true => context.out.json(&told()),
        false => context.out.line(format_args!("{path}: {text}")),
    }
}

fn sum_up(context: &mut Context, sum: &Sum, finished: bool) -> Result<()> {
    let Sum { files, left, compared, repaired, lost } = sum;
    if context.json {
        return context.out.json(&json!({
            "files": files, "files_left": left, "compared_bytes": compared.0, "repaired_bytes": repaired.0, "lost_bytes": lost,
            "finished": finished,
        }));
    }
    let end = if finished { "." } else { "; stopped before the end." };
    context.out.line(format_args!(
        "{} scrubbed, {compared} compared: {repaired} repaired, {} lost{}{end}",
        human::some(*files, "file"),
        Bytes(*lost),
        if *left > 0 { format!("; {} for later", human::some(*left, "file")) } else { String::new() },
    ))
}

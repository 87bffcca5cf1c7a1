//! `forebay scrub`: reads all that a cluster keeps and compares it with its checksums, beside all other work; of a cluster on the
//! network its files, with their parity or copies.

mod files;

use crate::context::Context;
use crate::show::human;
use crate::show::live::Live;
use clap::Args;
use forebay_client::Cluster;
use forebay_env::real::signal::Stop;
use forebay_model::scrub::{Finding, Scrubbed};
use forebay_model::{Error, Rate, Result, TargetId};
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;

/// How long one step takes: how often progress is told.
const STEP: Duration = Duration::from_millis(500);

/// How to look.
#[derive(Args)]
pub struct ScrubArgs {
    /// Of a cluster on the network: the file, or the directory with all that is below it
    #[arg(value_name = "PATH")]
    path: Option<String>,
    /// Bytes a second at most for each target, or of files together; as fast as other work leaves if left out
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,
    /// Begin anew, instead of where the last scrub ended or was stopped
    #[arg(long)]
    restart: bool,
}

/// Looks. The exit code is 1 if anything is damaged, also what was found before it was stopped and went on; and if it was stopped
/// before its end, as nobody knows of the rest.
pub fn run(context: &mut Context, args: &ScrubArgs) -> Result<ExitCode> {
    context.out.outlive_reader();
    let stop = Stop::on_signals()?;
    if let Some(files) = context.remote()? {
        return files::run(context, args, &files, &stop);
    }
    if let Some(path) = &args.path {
        return Err(Error::usage(format!(
            "{path} is a name in a cluster on the network: give --cluster forebay://HOST:PORT, or no name to scrub all of a directory"
        )));
    }
    let sound = context.with_cluster(|context, cluster| {
        let targets: Vec<TargetId> = cluster.info()?.targets.iter().map(|target| target.id).collect();
        let mut sound = true;
        for target in targets {
            let last = one(context, cluster, args, target, &stop)?;
            sound &= last.finished && last.damaged == 0;
            if !last.finished {
                break;
            }
        }
        Ok(sound)
    })?;
    context.out.flush()?;
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Scrubs a target to its end, unless somebody stops it; what it said last.
fn one(context: &mut Context, cluster: &Cluster, args: &ScrubArgs, target: TargetId, stop: &Stop) -> Result<Scrubbed> {
    let mut live = Live::new(!context.json);
    let mut anew = args.restart;
    loop {
        let step = cluster.scrub(target, args.rate, STEP, std::mem::take(&mut anew))?;
        live.progress(format_args!("scrubbing {}", step.device), step.done, step.total);
        if !step.found.is_empty() {
            live.clear();
        }
        for finding in &step.found {
            tell(context, &step, finding)?;
        }
        // A scrub takes hours: what it finds is seen when it is found.
        context.out.flush()?;
        if step.finished || stop.is_set() {
            live.clear();
            sum_up(context, &step)?;
            return Ok(step);
        }
    }
}

fn tell(context: &mut Context, step: &Scrubbed, finding: &Finding) -> Result<()> {
    let Finding { owner, what, at, length, remedy } = finding;
    if context.json {
        return context.out.json(&json!({
            "device": step.device, "target": step.target.to_string(), "owner": owner, "what": what,
            "offset_bytes": at.0, "length_bytes": length.0, "remedy": remedy,
        }));
    }
    context.out.line(format_args!("{owner}: {what} ({} bytes at {} of {}); {remedy}", length.0, at.0, step.device))
}

fn sum_up(context: &mut Context, step: &Scrubbed) -> Result<()> {
    let Scrubbed { target, device, began, done, total, finished, damaged, .. } = step;
    if context.json {
        return context.out.json(&json!({
            "device": device, "target": target.to_string(), "began": began.to_string(), "done_bytes": done.0,
            "total_bytes": total.0, "finished": finished, "damaged": damaged,
        }));
    }
    let found = match damaged {
        0 => "nothing is damaged".to_string(),
        n => human::some(*n, "damaged place"),
    };
    if *finished {
        context.out.line(format_args!("{device}: read {done} since {began}: {found}."))
    } else {
        context.out.line(format_args!(
            "{device}: stopped after {done} of {total}: {found}; scrub again to go on, or with --restart from the beginning."
        ))
    }
}

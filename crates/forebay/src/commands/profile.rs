//! `forebay profile`: what a device can do, by position.

use crate::args::span;
use crate::commands::format::with_option;
use crate::context::Context;
use crate::draw::{Charset, svg_curve, terminal_curve};
use crate::show::live::{Live, bar};
use crate::show::{human, json, say};
use clap::Args;
use forebay_embedded::nothing_to_lose;
use forebay_env::real::process::{self, Standard};
use forebay_env::real::{self, OpenMode, file};
use forebay_model::{Bytes, Error, Profile, Result, TargetId};
use forebay_target::Target;
use forebay_target::profile::{MeasureOptions, measure};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What to measure, and how.
#[derive(Args)]
pub struct ProfileArgs {
    /// A block device or file; the targets of the cluster if left out
    device: Option<PathBuf>,
    /// Draw the curve of one device into this file as well
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Time for each device
    #[arg(long, value_name = "TIME", value_parser = span)]
    time: Option<Duration>,
    /// Measure writing too: everything on the device is lost
    #[arg(long, requires = "device")]
    overwrite: bool,
    /// Measure writing over what is there
    #[arg(long, requires = "overwrite")]
    force: bool,
    /// Show what was measured before, and measure nothing
    #[arg(long, conflicts_with_all = ["overwrite", "time"])]
    stored: bool,
}

/// Measures, shows, keeps.
pub fn run(context: &mut Context, args: &ProfileArgs) -> Result<()> {
    match &args.device {
        Some(device) => {
            let (profile, kept) = if args.stored { (stored(device)?, true) } else { of_device(context, device, args)? };
            show(context, args, (None, &device.display().to_string()), &profile)?;
            if !context.json && kept && !args.stored {
                context.out.line("It is a formatted target, which keeps this profile from now on.")?;
            }
            Ok(())
        }
        None if context.is_remote() && !args.stored => Err(Error::usage(
            "measuring goes past what keeps the promises of a target, so those of a cluster on the network are not measured while they are \
             served: give --stored for what was measured, or stop the server of a target and measure its device on that machine with \
             `forebay profile DEVICE`, which keeps the result in it",
        )),
        None => context.with_cluster(|context, cluster| {
            let profiles = cluster.profiles()?;
            if let (Some(path), several @ 2..) = (&args.svg, profiles.told.len()) {
                return Err(Error::usage(format!(
                    "{several} targets are to be drawn into {}, which has room for one curve: name the device of one, or \
                     leave out --svg",
                    path.display()
                )));
            }
            for target in profiles.told {
                let profile = if args.stored {
                    target.profile
                } else {
                    let budget = args.time.unwrap_or(Duration::from_secs(10));
                    cluster.measure(target.target, budget)?.profile
                };
                show(context, args, (Some(target.target), &target.device), &profile)?;
            }
            for error in &profiles.silent {
                say(&format!("forebay: what was measured is not known there: {error}"));
            }
            Ok(())
        }),
    }
}

/// What the device keeps of what was measured.
fn stored(device: &Path) -> Result<Profile> {
    let opened = real::open(device, OpenMode::Inspect)?;
    let inspected = real::run(real::Options { device: opened }, |env| async move { Target::inspect(env).await })?;
    inspected.map(|(superblock, _, _)| superblock.profile).map_err(|e| e.of(device.display()))
}

/// Measures a device that nobody uses; whether it is a target that keeps the result.
fn of_device(context: &Context, device: &Path, args: &ProfileArgs) -> Result<(Profile, bool)> {
    let mut opened = real::open(device, OpenMode::Exclusive)?;
    if args.overwrite && !args.force {
        opened = nothing_to_lose(opened, "measuring writes").map_err(with_option)?;
    }
    let geometry = opened.geometry().clone();
    let mut options = MeasureOptions::for_extent(geometry.size, geometry.rotates, args.overwrite);
    options.budget = args.time.unwrap_or(options.budget);
    let mut live = Live::new(!context.json);
    let name = geometry.name.clone();
    let overwrite = args.overwrite;
    real::run(real::Options { device: opened }, move |env| async move {
        let is_target = !overwrite && Target::inspect(env.clone()).await.is_ok();
        let size = env.device.geometry().size;
        let mut progress = |share: f32| {
            if live.is_due() {
                live.show(&format!("measuring {name} {}", bar((share * 1000.0) as u64, 1000, 30)));
            }
        };
        let mut profile = measure(&env, Bytes::ZERO..size, options, &mut progress).await?;
        if is_target {
            let target = Target::open(env).await?;
            // Reads alone say little of writes: what formatting measured of those stays.
            let before = target.profile();
            if !profile.writes_measured && before.writes_measured {
                for point in &mut profile.points {
                    point.write = before.write_rate(point.offset);
                }
                profile.writes_measured = true;
                profile.stall = profile.stall.max(before.stall);
                profile.flush = profile.flush.max(before.flush);
            }
            target.set_profile(profile.clone()).await?;
            target.close().await?;
        }
        Ok((profile, is_target))
    })?
}

fn show(
    context: &mut Context,
    args: &ProfileArgs,
    (target, device): (Option<TargetId>, &str),
    profile: &Profile,
) -> Result<()> {
    if let Some(path) = &args.svg {
        file::replace(path, svg_curve(profile, device).as_bytes())?;
    }
    if context.json {
        let mut said = json!({ "device": device, "profile": json::profile(profile) });
        if let Some(target) = target {
            said["target"] = Value::String(target.to_string());
        }
        return context.out.json(&said);
    }
    context.out.line(target.map_or(device.to_string(), |target| context.device(target, device)))?;
    let charset = if process::is_terminal(Standard::Output) { Charset::Unicode } else { Charset::Ascii };
    let width = usize::from(process::terminal_width().unwrap_or(90)).min(110);
    context.out.line(terminal_curve(profile, width, 16, charset).trim_end_matches('\n'))?;
    let (short, full) = (human::span(profile.short_seek), human::span(profile.full_seek));
    context.out.line(format_args!(
        "worst positioning {short} near, {full} across; longest stall {}, flush {}{}",
        human::span(profile.stall),
        human::span(profile.flush),
        if profile.writes_measured { "" } else { "; write rates are taken from reads, not measured" }
    ))?;
    if let Some(path) = &args.svg {
        context.out.line(format_args!("The curve is in {} too.", path.display()))?;
    }
    Ok(())
}

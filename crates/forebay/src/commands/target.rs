//! `forebay target`: the targets of a cluster on the network, and what is to be thought of them; and what is chosen of how
//! targets keep objects.

use crate::commands::format::with_option;
use crate::commands::several::each_target;
use crate::context::Context;
use crate::show::{human, network};
use clap::{Args, Subcommand};
use forebay_client::{Cluster, TargetInfo};
use forebay_env::real::file;
use forebay_model::settings::{SettingsChange, TargetSettings};
use forebay_model::{Bytes, Error, Result, TargetId};
use forebay_serve::{admission, targets};
use forebay_wire::command::AddTarget;
use forebay_wire::control::cluster::{Target, TargetState};
use serde_json::json;
use std::path::PathBuf;

/// What to do with targets.
#[derive(Subcommand)]
pub enum TargetCommand {
    /// List the targets of a cluster on the network: how they are, how full, and what is still to be moved or rebuilt
    List,
    /// Make a file or device another target of a directory, also while that is served; the cluster uses it at once
    Add(AddArgs),
    /// Move what lies on a target to others, beside those who use it: files and heaps are copied, who records into a ring goes on elsewhere. Nothing new is put there
    Drain(WhichArgs),
    /// Say that a target has failed: what lies on it is rebuilt elsewhere
    Fail(WhichArgs),
    /// Use a target again that was drained or has failed
    Return(WhichArgs),
    /// Say that a target will not come back
    Rm(RemoveArgs),
    /// Show what is chosen for targets, or choose; what is not named stays as it is
    Settings(SettingsArgs),
}

/// A file or device that becomes a target.
#[derive(Args)]
pub struct AddArgs {
    /// The device, or the file
    path: PathBuf,
    /// Make a file of this size there, with its space set aside
    #[arg(long, value_name = "SIZE", value_parser = Bytes::parse)]
    size: Option<Bytes>,
    /// Format over what is there
    #[arg(long)]
    force: bool,
}

/// A target.
#[derive(Args)]
pub struct WhichArgs {
    /// The target's id, or as much of its beginning as tells it from others
    target: String,
}

/// A target that will not come back.
#[derive(Args)]
pub struct RemoveArgs {
    /// The target.
    #[command(flatten)]
    which: WhichArgs,
    /// Also if something lies on it that cannot be had anywhere else
    #[arg(long)]
    lost: bool,
}

/// What is chosen.
#[derive(Args)]
pub struct SettingsArgs {
    /// The target's id, or as much of its beginning as tells it from others; all targets if left out
    target: Option<String>,
    /// Durable writes of up to this go to a log, where no object or volume has another choice
    #[arg(long, value_name = "SIZE", value_parser = Bytes::parse)]
    logged_up_to: Option<Bytes>,
    /// A log near the disk's arm that is filled to this is emptied into another one in a pause: 1 to 100
    #[arg(long, value_name = "PERCENT")]
    hot_percent: Option<u32>,
    /// A log less than so many groups away from the arm is near enough
    #[arg(long, value_name = "N")]
    near_groups: Option<u32>,
    /// Memory for what is read ahead, at most; 0 for no reading ahead
    #[arg(long, value_name = "SIZE", value_parser = Bytes::parse)]
    cache: Option<Bytes>,
}

/// Does it.
pub fn run(context: &mut Context, command: TargetCommand) -> Result<()> {
    match command {
        TargetCommand::List => list(context),
        TargetCommand::Add(args) => add(context, &args),
        TargetCommand::Drain(args) => set(context, args.target, TargetState::Draining, |_| Ok(())),
        TargetCommand::Fail(args) => set(context, args.target, TargetState::Failed, |_| Ok(())),
        TargetCommand::Return(args) => set(context, args.target, TargetState::Up, |_| Ok(())),
        TargetCommand::Rm(args) => {
            let may_be = if args.lost { |_: &Target| Ok(()) } else { is_empty };
            set(context, args.which.target, TargetState::Gone, may_be)
        }
        TargetCommand::Settings(args) => settings(context, &args),
    }
}

fn add(context: &mut Context, args: &AddArgs) -> Result<()> {
    // Whoever serves the directory may have another place to begin from.
    let path = file::from_root(&args.path)?;
    let text = path.to_str().map(str::to_string);
    let path = text.ok_or_else(|| Error::usage(format!("{} is not UTF-8; give it another name", path.display())))?;
    let added = AddTarget { path, size: args.size, force: args.force };
    context.dir()?;
    context.with_cluster(|context, cluster| {
        let target = cluster.add_target(added).map_err(with_option)?;
        if context.json {
            return context.out.json(&json!({
                "target": target.id.to_string(), "device": target.device, "size_bytes": target.size.0,
            }));
        }
        let TargetInfo { id, device, size, .. } = target;
        context.out.line(format_args!("{device} is target {id}, of {size}, and in use."))
    })
}

/// Whether nothing lies on a target any more.
fn is_empty(target: &Target) -> Result<()> {
    let Target { target, left, .. } = target;
    match left {
        Some(0) => Ok(()),
        Some(left) => Err(Error::refused(format!(
            "{} of files, rings and heaps lie on target {target} still; drain it and wait (a ring that no other target can promise stays: remove it), or give them up with --lost",
            human::some(*left, "component")
        ))),
        None => Err(Error::refused(format!(
            "it is not known whether anything lies on target {target}; drain it and wait until it is empty, or give that up with --lost"
        ))),
    }
}

fn list(context: &mut Context) -> Result<()> {
    let map = context.manager()?.ask(|manager| async move { admission::map(&manager).await })?;
    if context.json {
        return map.targets.iter().try_for_each(|target| context.out.json(&network::target(&map, target)));
    }
    network::targets(&map).iter().try_for_each(|line| context.out.line(line))
}

fn set(context: &mut Context, id: String, state: TargetState, may_be: fn(&Target) -> Result<()>) -> Result<()> {
    let target: TargetId = context.manager()?.ask(move |manager| async move {
        let target = targets::meant(&admission::map(&manager).await?, &id)?;
        may_be(&target)?;
        targets::set(&manager, target.target, state).await?;
        Ok(target.target)
    })?;
    if context.json {
        return context.out.json(&json!({ "target": target.to_string(), "state": targets::state(state) }));
    }
    let then = match state {
        TargetState::Up => "is used again.",
        TargetState::Draining => {
            "takes nothing new; what is on it is moved, and who records into a ring goes on elsewhere; `forebay target list` says when it is empty."
        }
        TargetState::Failed => {
            "counts as failed, and what lay on it is rebuilt elsewhere; `forebay target list` says how far that is."
        }
        TargetState::Gone => "is gone.",
    };
    context.out.line(format_args!("Target {target} {then}"))
}

fn settings(context: &mut Context, args: &SettingsArgs) -> Result<()> {
    context.with_cluster(|context, cluster| {
        let change = SettingsChange {
            logged_up_to: args.logged_up_to,
            hot_percent: args.hot_percent,
            near_groups: args.near_groups,
            cache: args.cache,
        };
        let targets = meant(cluster, args.target.as_deref())?;
        let choose = |target: TargetInfo| cluster.settings(target.id, change).map(|settings| (target, settings));
        let chosen = match change == SettingsChange::default() {
            // Nothing is chosen, so nothing was done.
            true => targets.into_iter().map(choose).collect::<Result<Vec<_>>>()?,
            false => each_target(targets, choose)?,
        };
        show(context, &chosen)
    })
}

/// The targets that are meant.
fn meant(cluster: &Cluster, id: Option<&str>) -> Result<Vec<TargetInfo>> {
    let mut targets = cluster.info()?.targets;
    let Some(id) = id else { return Ok(targets) };
    targets.retain(|target| target.id.to_string().starts_with(id));
    match targets.len() {
        1 => Ok(targets),
        0 => Err(Error::missing(format!("there is no target {id}; `forebay target settings` lists them"))),
        many => Err(Error::usage(format!("{many} targets have ids that begin with '{id}'; give more of it"))),
    }
}

fn show(context: &mut Context, chosen: &[(TargetInfo, TargetSettings)]) -> Result<()> {
    if context.json {
        return chosen.iter().try_for_each(|(target, settings)| {
            context.out.json(&json!({
                "target": target.id.to_string(), "device": target.device,
                "logged_up_to_bytes": settings.logged_up_to.0, "hot_percent": settings.hot_percent,
                "near_groups": settings.near_groups, "cache_bytes": settings.cache.0,
            }))
        });
    }
    let mut table = human::table(&["target", "logged up to", "hot at", "near groups", "cache"], &[]);
    for (target, settings) in chosen {
        table.add_row([
            target.id.to_string(),
            settings.logged_up_to.to_string(),
            format!("{} %", settings.hot_percent),
            settings.near_groups.to_string(),
            settings.cache.to_string(),
        ]);
    }
    human::lines(&table).iter().try_for_each(|line| context.out.line(line))
}

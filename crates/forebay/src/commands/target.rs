//! `forebay target`: what is chosen of how targets keep objects.

use crate::context::Context;
use crate::show::human;
use clap::{Args, Subcommand};
use forebay_client::{Cluster, TargetInfo};
use forebay_model::settings::{SettingsChange, TargetSettings};
use forebay_model::{Bytes, Error, Result};
use serde_json::json;

/// What to do with targets.
#[derive(Subcommand)]
pub enum TargetCommand {
    /// Show what is chosen for targets, or choose; what is not named stays as it is
    Settings(SettingsArgs),
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
    let TargetCommand::Settings(args) = command;
    context.with_cluster(|context, cluster| {
        let change = SettingsChange {
            logged_up_to: args.logged_up_to,
            hot_percent: args.hot_percent,
            near_groups: args.near_groups,
            cache: args.cache,
        };
        let mut chosen = Vec::new();
        for target in meant(cluster, args.target.as_deref())? {
            let settings = cluster.settings(target.id, change)?;
            chosen.push((target, settings));
        }
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

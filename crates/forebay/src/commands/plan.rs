//! `forebay plan`: can this disk promise a rate, for how long a history, and where?

use crate::context::Context;
use crate::show::{human, json, say};
use clap::Args;
use forebay_env::real::{self, OpenMode};
use forebay_model::key::KeySet;
use forebay_model::{Bytes, Error, Kind, PlanRequest, Profile, Rate, Result};
use forebay_target::Target;
use forebay_target::layout::Layout;
use forebay_target::plan::{Ground, plan};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What somebody wants to know.
#[derive(Args)]
pub struct PlanArgs {
    /// Bytes per second that must be recorded at any time
    #[arg(long, value_name = "RATE")]
    rate: Rate,
    /// Space for it; as much as can be had at that rate if left out
    #[arg(long, value_name = "SIZE")]
    capacity: Option<Bytes>,
    /// A key, as for a ring; its index takes space and time, too; may be repeated
    #[arg(long = "key", value_name = "KEY")]
    keys: Vec<String>,
    /// A device that promises nothing yet, empty or formatted; the cluster's targets if left out
    #[arg(long, value_name = "PATH")]
    device: Option<PathBuf>,
}

/// Answers. The exit code is 0 if it can be promised somewhere.
pub fn run(context: &mut Context, args: &PlanArgs) -> Result<ExitCode> {
    context.out.outlive_reader();
    let can = match &args.device {
        Some(device) => of_device(context, args, device)?,
        None => of_cluster(context, args)?,
    };
    context.out.flush()?;
    Ok(if can { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn of_device(context: &mut Context, args: &PlanArgs, device: &Path) -> Result<bool> {
    let opened = real::open(device, OpenMode::Inspect)?;
    let geometry = opened.geometry().clone();
    let found = real::run(real::Options { device: opened }, |env| async move { Target::inspect(env).await })?;
    let (profile, layout, free): (Profile, Layout, Vec<Range<Bytes>>) = match found {
        Ok((superblock, catalog, _)) => {
            let mut promised = catalog.rings.values().filter(|ring| ring.spec.guarantee > Rate(0));
            if let Some(first) = promised.next() {
                // What is left beside promises only their target knows.
                return Err(Error::usage(format!(
                    "{} has {} with a promised rate already, {} first: ask what can be promised beside that with \
                     --cluster, in place of --device",
                    geometry.name,
                    human::some(1 + promised.count() as u64, "ring"),
                    first.spec.name
                )));
            }
            let layout = superblock.layout;
            let free = catalog.free_runs(&layout);
            (superblock.profile, layout, free)
        }
        // Of what is damaged, or of a later version, nobody knows what it promises.
        Err(error) if error.kind != Kind::Usage => return Err(error),
        Err(_) => {
            say(&format!(
                "{} is not formatted, so this rests on a cautious guess; `forebay profile` measures it",
                geometry.name
            ));
            let layout = Layout::for_geometry(&geometry)?;
            let end = layout.groups_at + layout.group * u64::from(layout.groups);
            (Profile::guess(geometry.size, geometry.rotates), layout, Vec::from([layout.groups_at..end]))
        }
    };
    let question = question(args)?;
    let answer = plan(Ground { profile: &profile, layout: &layout, free: &free, existing: &[] }, &question);
    if context.json {
        context.out.json(&json::plan(&geometry.name, &answer))?;
    } else {
        context.out.line(answer.to_string().trim_end())?;
    }
    Ok(answer.can)
}

fn question(args: &PlanArgs) -> Result<PlanRequest> {
    let keys = KeySet::parse(&args.keys)?.len() as u32;
    Ok(PlanRequest { capacity: args.capacity, keys, ..PlanRequest::new(args.rate) })
}

fn of_cluster(context: &mut Context, args: &PlanArgs) -> Result<bool> {
    let question = question(args)?;
    context.with_cluster(|context, cluster| {
        let plans = cluster.plan(question)?;
        for plan in &plans.told {
            if context.json {
                context.out.json(&json::target_plan(plan))?;
            } else {
                let device = context.device(plan.target, &plan.device);
                context.out.line(format_args!("{device}: {}", plan.plan.to_string().trim_end()))?;
            }
        }
        for error in &plans.silent {
            say(&format!("forebay: what could be promised there is not known: {error}"));
        }
        Ok(plans.told.iter().any(|plan| plan.plan.can))
    })
}

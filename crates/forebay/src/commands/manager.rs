//! `forebay manager`: what the manager of a cluster on the network knows, made anew from its targets.

use crate::context::Context;
use crate::show::human;
use crate::show::live::Live;
use clap::{Args, Subcommand};
use forebay_model::{Result, TargetId};
use forebay_serve::recover::{Finding, Progress, Recovery, What, recover as make};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Findings that are told one by one to people; programs are told all.
const TOLD: usize = 50;

/// What to do with a manager.
#[derive(Subcommand)]
pub enum ManagerCommand {
    /// Make names, sizes, layouts, volumes and their quotas anew from the targets of the directory that --cluster names, while
    /// nobody serves it. Keys are made anew; the file with root's is written
    Recover(RecoverArgs),
}

/// How.
#[derive(Args)]
pub struct RecoverArgs {
    /// Also where there is metadata, which is left beside the new one
    #[arg(long)]
    over: bool,
    /// Look at the targets of this directory, too, of a node that joined; more than once for several
    #[arg(long, value_name = "DIR")]
    also: Vec<PathBuf>,
}

/// Does it.
pub fn run(context: &mut Context, command: ManagerCommand) -> Result<()> {
    match command {
        ManagerCommand::Recover(args) => recover(context, &args),
    }
}

fn recover(context: &mut Context, args: &RecoverArgs) -> Result<()> {
    let dir = context.dir()?.to_path_buf();
    let mut live = Live::new(!context.json);
    let told = move |progress: Progress| {
        let Progress { targets: (done, all), objects } = progress;
        if done == all {
            live.clear();
        } else if live.is_due() {
            live.show(&format!(
                "looking at target {} of {all}, {} so far",
                done + 1,
                human::some(objects, "component")
            ));
        }
    };
    let recovery = make(&dir, &args.also, args.over, told)?;
    if context.json {
        return context.out.json(&as_json(&recovery));
    }
    let Recovery { recovered, copy, is_whole, behind, damaged, targets, lost, old, key } = &recovery;
    let out = &mut context.out;
    for (dir, error) in lost {
        out.line(format_args!("{} was left out: {error}", dir.display()))?;
    }
    match (copy, recovered.at) {
        (Some(target), Some(at)) => out.line(format_args!(
            "Made of the copy on target {target}, last written {at}, and what {} had.",
            human::some(targets.len() as u64, "target")
        ))?,
        _ => out.line(format_args!(
            "There was no whole copy on {}: made of what components say, without names, volumes and users.",
            human::some(targets.len() as u64, "target")
        ))?,
    }
    if copy.is_some() && !is_whole {
        out.line(format_args!(
            "It was not written to its end, or something of it is damaged, or was not found between it and older ones: the rest is as \
             these have it."
        ))?;
    }
    for target in damaged {
        let then = if copy.is_some() && *is_whole { "; another one had that" } else { "" };
        out.line(format_args!("Something of the copy on target {target} is damaged{then}."))?;
    }
    for (target, at) in behind {
        let why = if copy.is_some() { "older" } else { "not whole" };
        out.line(format_args!("The copy on target {target}, last written {at}, is {why}."))?;
    }
    out.line(format_args!(
        "There are {}, directories: {}, {}, {} and {}; what volumes hold was counted anew.",
        human::some(recovered.files, "file"),
        human::count(recovered.directories),
        human::some(recovered.rings, "ring"),
        human::some(recovered.heaps, "heap"),
        human::some(recovered.volumes, "volume"),
    ))?;
    for finding in recovered.findings.iter().take(TOLD) {
        out.line(in_words(finding))?;
    }
    if recovered.findings.len() > TOLD {
        out.line(format_args!("{} more of these; --json tells all.", recovered.findings.len() - TOLD))?;
    }
    if let Some(old) = old {
        out.line(format_args!("What was there before is {}.", old.display()))?;
    }
    out.line(format_args!(
        "Root's new key is in {}. Users and nodes that join have none any more: `forebay keys issue` and `forebay node add` make them.",
        key.display()
    ))?;
    out.line(format_args!("`forebay serve {}` serves it again.", dir.display()))
}

/// A finding, as people read it.
fn in_words(Finding { file, path, what }: &Finding) -> String {
    let which = |components: &[(u32, TargetId)]| {
        let each = components.iter().map(|(component, target)| format!("{component} on target {target}"));
        each.collect::<Vec<String>>().join(", ")
    };
    match what {
        What::Lacks { components, is_enough } => {
            let then = match is_enough {
                true => {
                    "the others make up for that: if no copy knew it, it is rebuilt at once, and otherwise when `forebay target fail` says that \
                     its target is lost"
                }
                false => "the others are not enough: serve these targets again, or restore it from elsewhere",
            };
            format!("{path}: components were not found ({}): {then}", which(components))
        }
        What::Unwritten { components } => format!(
            "{path}: components are not on their targets ({}): either nothing was ever written there, which reads as \
             zeros, or they lost it: read the file, and restore it from elsewhere if that is not what it was",
            which(components)
        ),
        What::Nameless => format!("{path}: had no name ({file})"),
        What::Unknown => format!("{path}: no copy knew it, and it was made of what its components say ({file})"),
        What::Newer { size } => format!("{path}: its components are newer than the copy, and it has {size} by them"),
        What::Dangling => format!("{path}: a name that led nowhere was dropped"),
    }
}

/// A finding, as programs read it.
fn finding_as_json(Finding { file, path, what }: &Finding) -> Value {
    let (found, size, components, enough) = match what {
        What::Lacks { components, is_enough } => ("lacks_components", None, Some(components), Some(*is_enough)),
        What::Unwritten { components } => ("not_on_targets", None, Some(components), None),
        What::Nameless => ("had_no_name", None, None, None),
        What::Unknown => ("in_no_copy", None, None, None),
        What::Newer { size } => ("newer_than_copy", Some(size.0), None, None),
        What::Dangling => ("name_led_nowhere", None, None, None),
    };
    let components = components.map(|all| {
        let each = all.iter().map(|(number, target)| json!({ "component": number, "target": target.to_string() }));
        each.collect::<Vec<Value>>()
    });
    json!({
        "name": path, "file": file.0, "found": found, "size_bytes": size, "components": components, "enough_left": enough,
    })
}

/// All of it for programs.
fn as_json(recovery: &Recovery) -> Value {
    let Recovery { recovered, copy, is_whole, behind, damaged, targets, lost, old, key } = recovery;
    json!({
        "cluster": format!("{:032x}", recovered.cluster),
        "copy": copy.map(|target| target.to_string()),
        "copy_written": recovered.at.map(|at| at.to_string()),
        "copy_whole": copy.map(|_| is_whole),
        "behind": behind.iter().map(|(target, _)| target.to_string()).collect::<Vec<_>>(),
        "damaged": damaged.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "targets": targets.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "left_out": lost.iter().map(|(dir, error)| json!({ "dir": dir.display().to_string(), "why": error.to_string() }))
            .collect::<Vec<_>>(),
        "files": recovered.files, "directories": recovered.directories, "rings": recovered.rings,
        "heaps": recovered.heaps, "volumes": recovered.volumes,
        "findings": recovered.findings.iter().map(finding_as_json).collect::<Vec<_>>(),
        "old": old.as_ref().map(|old| old.display().to_string()),
        "key": key.display().to_string(),
    })
}

#[cfg(test)]
mod tests;

//! `forebay check`: looks over a device without changing anything, also while it is in use.

use crate::context::Context;
use crate::show::human;
use clap::Args;
use forebay_embedded::Settings;
use forebay_env::real::{self, OpenMode};
use forebay_model::{Bytes, Error, Rate, Result};
use forebay_target::Target;
use forebay_target::catalog::Catalog;
use forebay_target::superblock::Superblock;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What to look over.
#[derive(Args)]
pub struct CheckArgs {
    /// A block device or file; the targets of the cluster if left out
    device: Option<PathBuf>,
}

/// Looks. The exit code is 1 if anything is wrong, also what opening would repair.
pub fn run(context: &mut Context, args: &CheckArgs) -> Result<ExitCode> {
    let devices = match &args.device {
        Some(device) => vec![device.clone()],
        None => {
            let dir = context.dir()?;
            Settings::read(dir)?.targets.into_iter().map(|target| dir.join(target)).collect()
        }
    };
    let mut sound = true;
    for device in devices {
        sound &= one(context, &device)?;
    }
    context.out.flush()?;
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn one(context: &mut Context, device: &Path) -> Result<bool> {
    let opened = real::open(device, OpenMode::Inspect)?;
    let inspected = real::run(real::Options { device: opened }, |env| async move {
        let geometry = env.device.geometry();
        let found = Target::inspect(env).await?;
        found.0.check_size(geometry.size, &geometry.name)?;
        Ok::<_, Error>(found)
    })?;
    let name = device.display().to_string();
    let named = |e: Error| if e.message.contains(&name) { e } else { e.of(&name) };
    let (superblock, catalog, mut complaints) = inspected.map_err(named)?;
    complaints.extend(contradictions(&superblock, &catalog));
    if context.json {
        let rings: Vec<&str> = catalog.rings.values().map(|ring| ring.spec.name.as_str()).collect();
        context.out.json(&json!({
            "device": device.display().to_string(), "target": superblock.target.to_string(),
            "formatted": superblock.formatted.to_string(), "generation": superblock.generation,
            "groups": superblock.layout.groups, "rings": rings, "complaints": complaints,
        }))?;
        return Ok(complaints.is_empty());
    }
    context.out.line(format_args!(
        "{}: target {}, formatted {}, {} groups of {}, generation {}",
        device.display(),
        superblock.target,
        superblock.formatted,
        superblock.layout.groups,
        superblock.layout.group,
        superblock.generation
    ))?;
    for ring in catalog.rings.values() {
        let sealed = ring.slots.iter().flatten().count();
        let promise =
            if ring.spec.guarantee == Rate(0) { "no rate".to_string() } else { ring.spec.guarantee.to_string() };
        context.out.line(format_args!(
            "  {}: {} promised {promise}, {} of {} segments sealed, {} pins",
            ring.spec.name,
            ring.spec.capacity,
            human::count(sealed as u64),
            human::count(ring.slots.len() as u64),
            ring.pins.len()
        ))?;
    }
    for complaint in &complaints {
        context.out.line(format_args!("  {complaint}"))?;
    }
    context.out.line(match complaints.len() {
        0 => "Sound.".to_string(),
        1 => "1 complaint; opening the target repairs what can be repaired.".to_string(),
        n => format!("{n} complaints; opening the target repairs what can be repaired."),
    })?;
    Ok(complaints.is_empty())
}

/// What the superblock and the catalog say against one another.
fn contradictions(superblock: &Superblock, catalog: &Catalog) -> Vec<String> {
    let mut found = Vec::new();
    let groups = superblock.layout.groups;
    if catalog.groups.len() as u64 != u64::from(groups) {
        found.push(format!("the group table has {} entries for {groups} groups", catalog.groups.len()));
    }
    let mut owner = std::collections::BTreeMap::new();
    for ring in catalog.rings.values() {
        for group in ring.groups.iter().flatten() {
            if *group >= groups {
                found.push(format!("{} has group {group}, and there are {groups}", ring.spec.name));
            } else if let Some(other) = owner.insert(*group, &ring.spec.name) {
                found.push(format!("group {group} belongs to both {other} and {}", ring.spec.name));
            }
        }
        let mut sequences: Vec<u64> = ring.slots.iter().flatten().map(|segment| segment.sequence).collect();
        sequences.sort_unstable();
        if sequences.windows(2).any(|pair| pair[0] == pair[1]) {
            found.push(format!("{} has two segments of one number", ring.spec.name));
        }
        let too_full = ring.slots.iter().flatten().any(|segment| Bytes(u64::from(segment.bytes)) > ring.segment);
        if too_full {
            found.push(format!("{} has a segment that is longer than its place", ring.spec.name));
        }
    }
    found
}

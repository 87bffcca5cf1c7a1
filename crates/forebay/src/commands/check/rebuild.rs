//! `forebay check DEVICE --rebuild`: says what can be made anew of a target that has lost both copies of superblock or
//! checkpoint, and with `--write` makes it.

use crate::context::Context;
use crate::show::human;
use crate::show::live::Live;
use forebay_env::real::{self, OpenMode};
use forebay_model::{Bytes, Error, Result, TargetId};
use forebay_target::rebuild::{Candidate, Plan, RingFound, look};
use serde_json::{Value, json};
use std::path::Path;

/// Looks, says, and writes if that is wanted.
pub fn run(
    context: &mut Context,
    device: &Path,
    target: Option<TargetId>,
    write: bool,
    without_objects: bool,
) -> Result<()> {
    let opened = real::open(device, if write { OpenMode::Exclusive } else { OpenMode::Inspect })?;
    if !write && !opened.hold_still() {
        return Err(Error::busy(format!("{} is in use by another process; end that first", device.display())));
    }
    let mut live = Live::new(!context.json);
    let name = device.display().to_string();
    let done = real::run(real::Options { device: opened }, move |env| async move {
        let mut progress = |done, total| live.progress(format_args!("reading {name}"), done, total);
        let plan = look(env.clone(), target, &mut progress).await?;
        drop(live);
        let said = Said::of(&plan);
        if write && plan.tables > 0 && !without_objects {
            return Err(Error::refused(format!(
                "{} tables of objects and roots of heaps were found, and these are not rebuilt: their space would be given to others; say --without-objects if that is meant (nothing was changed)",
                plan.tables
            )));
        }
        if write {
            plan.write(env).await?;
        }
        Ok::<_, Error>(said)
    })?;
    let name = device.display().to_string();
    let said = done.map_err(|error| super::named(error, &name))?;
    if context.json {
        context.out.json(&said.json(&name, write))?
    } else {
        said.tell(context, &name, write)?
    }
    context.out.flush()
}

/// What is said of a plan, which itself may have been used up.
struct Said {
    target: TargetId,
    others: Vec<Candidate>,
    rings: Vec<RingFound>,
    groups: (u32, u32),
    kept: (bool, bool),
    unreadable: Bytes,
    tables: u64,
}

impl Said {
    fn of(plan: &Plan) -> Said {
        Said {
            target: plan.target,
            others: plan.others.clone(),
            rings: plan.rings.clone(),
            groups: (plan.free_groups, plan.groups),
            kept: (plan.superblock_kept, plan.checkpoint_kept),
            unreadable: plan.unreadable,
            tables: plan.tables,
        }
    }

    fn tell(&self, context: &mut Context, name: &str, written: bool) -> Result<()> {
        let out = &mut context.out;
        let (superblock_kept, checkpoint_kept) = self.kept;
        let (free, groups) = self.groups;
        out.line(format_args!("{name}: target {}, {free} of {groups} groups hold nothing known", self.target))?;
        for ring in &self.rings {
            out.line(format_args!("  {}", ring_line(ring)))?;
        }
        for other in &self.others {
            let n = human::count(other.segments);
            out.line(format_args!("  {n} segments of target {} are left out; they will be overwritten", other.target))?;
        }
        if self.unreadable > Bytes::ZERO {
            out.line(format_args!("  {} could not be read", self.unreadable))?;
        }
        if self.tables > 0 {
            let n = human::count(self.tables);
            out.line(format_args!(
                "  {n} tables of objects and roots of heaps are left out: these are not rebuilt, and their space is free"
            ))?;
        }
        out.line(match (checkpoint_kept, superblock_kept) {
            (true, _) => "A checkpoint is whole, and a superblock that tells of it: nothing is lost.",
            (false, true) => "Pins were in the checkpoint: they are lost.",
            (false, false) => "Pins were in the checkpoint, the profile in the superblock: they are lost.",
        })?;
        if self.rings.iter().any(|ring| !ring.described) {
            out.line("Of rings without any whole trailer, keys, guarantee and what the elements are are lost, too.")?;
        }
        if !checkpoint_kept {
            out.line(
                "Rings that were deleted, and groups that were given back, come back as far as nothing was written over them.",
            )?;
        }
        out.line(match (written, superblock_kept) {
            (false, _) => "Nothing was changed; --write writes it.",
            (true, true) => "Written.",
            (true, false) => "Written. The profile is a cautious guess: run `forebay profile`.",
        })
    }

    fn json(&self, name: &str, written: bool) -> Value {
        let others = self.others.iter().map(|other| {
            json!({
                "target": other.target.to_string(), "segments": other.segments, "newest": other.newest.to_string(),
            })
        });
        let rings = self.rings.iter().map(|ring| {
            json!({
                "name": ring.name, "described": ring.described, "capacity_bytes": ring.capacity.0, "segment_bytes": ring.segment.0,
                "groups": ring.groups, "missing_groups": ring.missing_groups, "segments": ring.segments,
                "segments_without_trailer": ring.without_trailer, "from": ring.elements.start,
                "to": ring.elements.end, "oldest": ring.times.map(|(oldest, _)| oldest.to_string()),
                "newest": ring.times.map(|(_, newest)| newest.to_string()),
            })
        });
        json!({
            "device": name, "target": self.target.to_string(), "rebuilt": rings.collect::<Vec<Value>>(),
            "others": others.collect::<Vec<Value>>(), "free_groups": self.groups.0, "groups": self.groups.1,
            "superblock_kept": self.kept.0, "checkpoint_kept": self.kept.1, "unreadable_bytes": self.unreadable.0, "object_tables": self.tables,
            "written": written,
        })
    }
}

fn ring_line(ring: &RingFound) -> String {
    let mut line = format!(
        "{}: {} in segments of {}, {} of them found, elements {} to {}",
        ring.name,
        ring.capacity,
        ring.segment,
        human::count(ring.segments),
        ring.elements.start,
        ring.elements.end.saturating_sub(1)
    );
    if let Some((oldest, newest)) = ring.times {
        line += &format!(", {oldest} to {newest}");
    }
    if ring.without_trailer > 1 {
        line +=
            &format!("; {} have no whole trailer, one of which is being written", human::count(ring.without_trailer));
    }
    if ring.missing_groups > 0 {
        line += &format!("; {} of its groups were not found", human::count(ring.missing_groups));
    }
    line
}

//! `forebay check`: looks over a device without changing anything: superblock and catalog also while it is in use, and
//! all that is recorded if it is not. With `--write` what can be put right is, before that (`repair.rs`). With
//! `--rebuild`, for one that has lost both copies of superblock or checkpoint (`rebuild.rs`).

mod rebuild;
mod repair;

use crate::args;
use crate::context::Context;
use crate::show::live::Live;
use crate::show::{complain, human};
use clap::Args;
use forebay_embedded::Settings;
use forebay_env::real::{self, OpenMode};
use forebay_model::scrub::Finding;
use forebay_model::{Bytes, Error, Rate, Result, TargetId};
use forebay_target::Target;
use forebay_target::catalog::Catalog;
use forebay_target::heap::audit::HeapFound;
use forebay_target::object::audit::{Contradiction, ObjectsFound};
use forebay_target::superblock::Superblock;
use forebay_target::verify::{Damage, Found, RingFound, verify};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What to look over.
#[derive(Args)]
pub struct CheckArgs {
    /// A block device or file; the targets of the cluster if left out
    device: Option<PathBuf>,
    /// Only superblock and catalog, which takes a moment; otherwise all that is recorded is read
    #[arg(long)]
    quick: bool,
    /// Both copies of superblock or checkpoint are gone: say what can be made anew from the segments
    #[arg(long, requires = "device", conflicts_with = "quick")]
    rebuild: bool,
    /// Put right what can be; with --rebuild, write what was made anew. Without it nothing is changed
    #[arg(long, conflicts_with = "quick")]
    write: bool,
    /// Rebuild although objects were found, which are lost by that
    #[arg(long, requires = "rebuild")]
    without_objects: bool,
    /// The target that is meant, where segments of several lie on the device
    #[arg(long, value_name = "ID", requires = "rebuild", value_parser = args::target)]
    target: Option<TargetId>,
}

/// Looks. The exit code is 1 if anything is wrong, also what opening would repair, and if one of several cannot be
/// looked at.
pub fn run(context: &mut Context, args: &CheckArgs) -> Result<ExitCode> {
    context.out.outlive_reader();
    if let Some(device) = args.device.as_ref().filter(|_| args.rebuild) {
        rebuild::run(context, device, args.target, args.write, args.without_objects)?;
        return Ok(ExitCode::SUCCESS);
    }
    let devices = match &args.device {
        Some(device) => vec![device.clone()],
        None => {
            let dir = context.dir()?;
            Settings::read(dir)?.targets.into_iter().map(|target| dir.join(target)).collect()
        }
    };
    let (alone, mut sound) = (devices.len() == 1, true);
    for device in devices {
        sound &= match looked_at(context, &device, args) {
            // What there is to say of the others does not depend on it.
            Err(error) if !alone => {
                complain(&named(error, &device.display().to_string()));
                false
            }
            looked => looked?,
        };
    }
    context.out.flush()?;
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Puts right what can be of one, if that is wanted, and looks it over; whether it is sound.
fn looked_at(context: &mut Context, device: &Path, args: &CheckArgs) -> Result<bool> {
    let repaired = if args.write { Some(repair::run(device, Live::new(!context.json))?) } else { None };
    one(context, device, args.quick, repaired)
}

/// Looks over one, of which these things were put right if that was wanted; whether it is sound.
fn one(context: &mut Context, device: &Path, quick: bool, repaired: Option<Vec<String>>) -> Result<bool> {
    let opened = real::open(device, OpenMode::Inspect)?;
    let in_use = !opened.hold_still();
    let mut live = Live::new(!context.json);
    let name = device.display().to_string();
    let inspected = real::run(real::Options { device: opened }, move |env| async move {
        let geometry = env.device.geometry();
        let (superblock, catalog, complaints) = Target::inspect(env.clone()).await?;
        superblock.check_size(geometry.size, &geometry.name)?;
        let contradictions = contradictions(&superblock, &catalog);
        if quick || in_use || !contradictions.is_empty() {
            // What contradicts itself cannot be followed to the data.
            let complaints = complaints.into_iter().chain(contradictions).collect();
            return Ok::<_, Error>((superblock, catalog, Found { complaints, ..Found::default() }, false));
        }
        let mut progress = |done, total| live.progress(format_args!("reading {name}"), done, total);
        let found = verify(env, &mut progress).await?;
        Ok((superblock, catalog, found, true))
    })?;
    let name = device.display().to_string();
    let (superblock, catalog, found, read) = inspected.map_err(|error| named(error, &name))?;
    let damage: usize = found.rings.iter().map(|ring| ring.damage.len()).sum();
    let objects = &found.objects;
    let damage = damage + objects.damage.len() + objects.contradictions.len();
    let of_heaps = found.heaps.iter().map(|heap| heap.damaged as usize + (heap.leaked + heap.twice).min(1) as usize);
    let damage = damage + of_heaps.sum::<usize>();
    let complaints = found.complaints.len() + found.heaps.iter().map(|heap| heap.complaints.len()).sum::<usize>();
    let sound = complaints == 0 && damage == 0;
    if context.json {
        let rings: Vec<&str> = catalog.rings.values().map(|ring| ring.spec.name.as_str()).collect();
        context.out.json(&json!({
            "device": device.display().to_string(), "target": superblock.target.to_string(),
            "formatted": superblock.formatted.to_string(), "generation": superblock.generation,
            "groups": superblock.layout.groups, "rings": rings, "complaints": found.complaints,
            "in_use": in_use, "read": read, "unreadable_bytes": found.unreadable.0,
            "found": found.rings.iter().map(ring_json).collect::<Vec<Value>>(),
            "objects": objects_json(&found.objects),
            "heaps": found.heaps.iter().map(heap_json).collect::<Vec<Value>>(), "repaired": repaired,
        }))?;
        return Ok(sound);
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
    for what in repaired.iter().flatten() {
        context.out.line(format_args!("  put right: {what}"))?;
    }
    let of_rings = found.rings.iter().flat_map(ring_lines);
    let of_objects = Some(objects).filter(|_| read).into_iter().flat_map(|found| objects_lines(found, &name));
    let of_heaps = found.heaps.iter().flat_map(heap_lines);
    for line in found.complaints.iter().cloned().chain(of_rings).chain(of_heaps).chain(of_objects) {
        context.out.line(format_args!("  {line}"))?;
    }
    if in_use && !quick {
        context.out.line("  It is in use: what is recorded was not read; check it when nobody uses it.")?;
    }
    context.out.line(match (complaints, damage) {
        (0, 0) if read => "Sound.".to_string(),
        (0, 0) => "Superblock and catalog are sound.".to_string(),
        (1, 0) => "1 complaint; opening the target repairs what can be repaired.".to_string(),
        (n, 0) => format!("{n} complaints; opening the target repairs what can be repaired."),
        (complaints, damage) => format!(
            "{complaints} complaints and {damage} places that are damaged or contradict others; what is gone is told where it is asked for, and all the rest is returned."
        ),
    })?;
    Ok(sound)
}

/// The error, which names the device then.
fn named(error: Error, device: &str) -> Error {
    if error.message.contains(device) { error } else { error.of(device) }
}

fn ring_lines(ring: &RingFound) -> Vec<String> {
    let mut lines = vec![format!(
        "{}: read {} segments, {} blocks, {} elements",
        ring.name,
        human::count(ring.segments),
        human::count(ring.blocks),
        human::count(ring.elements)
    )];
    if ring.half_expired > 0 {
        let n = human::count(ring.half_expired);
        lines.push(format!("{}: {n} of the oldest segments were partly overwritten before a crash", ring.name));
    }
    lines.extend(ring.repairs.iter().map(|repair| format!("{}: {repair}", ring.name)));
    lines.extend(ring.damage.iter().map(|damage| format!("{}: {}", ring.name, damage_line(damage))));
    lines
}

fn objects_lines(found: &ObjectsFound, device: &str) -> Vec<String> {
    let mut lines = Vec::new();
    if found.volumes > 0 || found.blocks > 0 {
        lines.push(format!(
            "objects: read {} of them in {} volumes, {} blocks",
            human::count(found.objects),
            human::count(found.volumes),
            human::count(found.blocks)
        ));
    }
    if found.records > 0 {
        lines.push(format!("objects: opening lets {} records in logs take effect", human::count(found.records)));
    }
    lines.extend(found.damage.iter().map(finding_line));
    lines.extend(found.contradictions.iter().map(|Contradiction { what, repairable }| match repairable {
        true => format!("objects: {what}; `forebay check {device} --write` puts it right"),
        false => format!("objects: {what}; this cannot be put right"),
    }));
    lines
}

fn heap_lines(found: &HeapFound) -> Vec<String> {
    let name = &found.name;
    let mut lines = vec![format!(
        "{name}: read {} records in {} slots, as of commit {}",
        human::count(found.records),
        human::count(found.slots),
        found.commit
    )];
    lines.extend(found.complaints.iter().map(|what| format!("{name}: {what}")));
    if found.leaked + found.twice > 0 {
        lines.push(format!(
            "{name}: {} slots are used by nobody and {} twice; this cannot be put right, report it",
            human::count(found.leaked),
            human::count(found.twice)
        ));
    }
    lines.extend(found.damage.iter().map(finding_line));
    let more = found.damaged - found.damage.len() as u64;
    if more > 0 {
        lines.push(format!("{name}: and {} more", human::some(more, "damaged slot")));
    }
    lines
}

fn heap_json(found: &HeapFound) -> Value {
    json!({
        "heap": found.name, "commit": found.commit, "records": found.records, "slots": found.slots,
        "leaked_slots": found.leaked, "doubly_used_slots": found.twice, "complaints": found.complaints,
        "damage": findings_json(&found.damage), "damaged_slots": found.damaged,
    })
}

fn finding_line(finding: &Finding) -> String {
    let Finding { owner, what, at, length, remedy } = finding;
    format!("{owner}: {what} ({} bytes at {}); {remedy}", length.0, at.0)
}

fn findings_json(findings: &[Finding]) -> Vec<Value> {
    let json = |Finding { owner, what, at, length, .. }: &Finding| json!({"owner": owner, "what": what, "offset_bytes": at.0, "length_bytes": length.0});
    findings.iter().map(json).collect()
}

fn objects_json(found: &ObjectsFound) -> Value {
    let contradictions = found
        .contradictions
        .iter()
        .map(|Contradiction { what, repairable }| json!({"what": what, "repairable": repairable}));
    json!({
        "volumes": found.volumes, "objects": found.objects, "blocks": found.blocks, "records": found.records,
        "damage": findings_json(&found.damage),
        "contradictions": contradictions.collect::<Vec<Value>>(),
    })
}

fn damage_line(damage: &Damage) -> String {
    let Damage { what, segment, at, length, elements, cause } = damage;
    let cost = match elements.end - elements.start {
        0 => "no element is gone".to_string(),
        1 => format!("element {} is gone", elements.start),
        n => format!("elements {} to {} are gone ({n})", elements.start, elements.end - 1),
    };
    match *what {
        "end" => format!("blocks behind segment {segment} are missing: {cost}"),
        _ => format!("{what} of segment {segment} {}, {} bytes at {}: {cost}", cause.meaning(), length.0, at.0),
    }
}

fn ring_json(ring: &RingFound) -> Value {
    let damage: Vec<Value> = ring
        .damage
        .iter()
        .map(|d| {
            json!({
                "what": d.what, "segment": d.segment, "offset_bytes": d.at.0, "length_bytes": d.length.0,
                "from": d.elements.start, "to": d.elements.end, "cause": d.cause.name(),
            })
        })
        .collect();
    json!({
        "ring": ring.name, "segments": ring.segments, "blocks": ring.blocks, "elements": ring.elements,
        "half_expired_segments": ring.half_expired, "repairs": ring.repairs, "damage": damage,
    })
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

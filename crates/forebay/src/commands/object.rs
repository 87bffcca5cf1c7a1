//! `forebay ls`, `forebay stat`, `forebay snapshot` and `forebay rm`: what objects there are.

use super::files;
use super::several::removed_before;
use crate::context::Context;
use crate::show::{human, json, say};
use clap::Args;
use forebay_client::Cluster;
use forebay_client::heaps::HeapName;
use forebay_client::objects::{Listing, Named};
use forebay_model::ring::{RingStatus, check_name};
use forebay_model::{Bytes, Error, Kind, Result};
use serde_json::{Value, json};

/// What to list.
#[derive(Args)]
pub struct LsArgs {
    /// Only this name, and those under it
    #[arg(default_value = "/")]
    prefix: String,
}

/// An object.
#[derive(Args)]
pub struct StatArgs {
    /// The name
    name: String,
}

/// What is to have a second name, as it is now.
#[derive(Args)]
pub struct SnapshotArgs {
    /// The object
    of: String,
    /// The name of the snapshot, which must be free
    name: String,
}

/// What to remove.
#[derive(Args)]
pub struct RmArgs {
    /// The name
    name: String,
    /// Not the name, but what was written for it, and for the names under it, by processes that were killed; on the network, for names
    /// in this directory; puts that are under way now are ended as well
    #[arg(long)]
    unfinished: bool,
}

/// The number of the object that has the bytes, as people and programs see it.
pub fn number(named: &Named) -> String {
    format!("{:x}/{:x}", named.place.id.volume, named.place.id.object)
}

fn object(named: &Named) -> Value {
    let head = &named.head;
    json!({
        "type": "object", "name": named.name, "size_bytes": head.size, "used_bytes": head.used.0,
        "created": json::time(head.created), "modified": json::time(head.modified), "version": head.version,
        "target": named.place.target.to_string(), "object": number(named),
    })
}

/// Lists objects, and rings and heaps, which have names of the same kind.
pub fn ls(context: &mut Context, args: &LsArgs) -> Result<()> {
    if let Some(files) = context.remote()? {
        return files::ls(context, &files, &args.prefix);
    }
    let prefix = prefix(&args.prefix)?;
    context.with_cluster(|context, cluster| match context.json {
        true => list_json(context, cluster, prefix, NAMES_AT_ONCE),
        false => list(context, cluster, prefix, NAMES_AT_ONCE),
    })
}

/// Names that are held in memory at once: some tens of megabytes.
const NAMES_AT_ONCE: usize = 50_000;

/// Shows what there is, one part of about `most` names after the other.
fn parts(cluster: &Cluster, prefix: &str, most: usize, mut show: impl FnMut(&Listing) -> Result<()>) -> Result<()> {
    let mut from: Option<String> = None;
    loop {
        let listing = cluster.objects().names(prefix, from.as_deref(), most)?;
        show(&listing)?;
        from = listing.next;
        if from.is_none() {
            return Ok(());
        }
    }
}

fn list(context: &mut Context, cluster: &Cluster, prefix: &str, most: usize) -> Result<()> {
    let mut others = others(cluster, prefix)?;
    let (mut first, mut unfinished, mut used) = (None, 0, Bytes::ZERO);
    let mut empty = true;
    parts(cluster, prefix, most, |listing| {
        let next = listing.next.as_deref();
        let (here, later) = others.drain(..).partition(|other| next.is_none_or(|next| other[0].as_str() < next));
        others = later;
        let lines = table(listing, &here);
        // One heading is enough.
        lines.iter().skip(usize::from(!empty)).try_for_each(|line| context.out.line(line))?;
        empty &= lines.is_empty();
        first = first.take().or_else(|| listing.unfinished.first().map(|found| found.name.clone()));
        unfinished += listing.unfinished.len() as u64;
        used += listing.unfinished.iter().map(|found| found.head.used).sum::<Bytes>();
        Ok(())
    })?;
    if empty {
        context.out.line("Nothing here; `forebay put FILE /name` makes an object.")?;
    }
    context.out.flush()?;
    if let Some(name) = first {
        say(&format!(
            "{} in {used} without a name: being put just now, or left behind by a process that was killed; \
             `forebay rm --unfinished {name}` removes both, and so ends puts that are under way now",
            human::some(unfinished, "object"),
        ));
    }
    Ok(())
}

fn list_json(context: &mut Context, cluster: &Cluster, prefix: &str, most: usize) -> Result<()> {
    for ring in rings(cluster, prefix)? {
        let (name, capacity) = (&ring.spec.name, ring.spec.capacity.0);
        context.out.json(&json!({ "type": "ring", "name": name, "capacity_bytes": capacity }))?;
    }
    for heap in heaps(cluster, prefix)? {
        let (name, space) = (&heap.name, heap.space.0);
        context.out.json(&json!({ "type": "heap", "name": name, "space_bytes": space }))?;
    }
    parts(cluster, prefix, most, |listing| part_json(context, listing))
}

fn part_json(context: &mut Context, listing: &Listing) -> Result<()> {
    for named in &listing.names {
        context.out.json(&object(named))?;
    }
    listing.unfinished.iter().try_for_each(|found| {
        context.out.json(&json!({
            "type": "unfinished", "name": found.name, "size_bytes": found.head.size,
            "used_bytes": found.head.used.0, "modified": json::time(found.head.modified),
        }))
    })
}

/// A line of the list: name, what it is, size and time.
type Row = [String; 4];

fn table(listing: &Listing, others: &[Row]) -> Vec<String> {
    if listing.names.is_empty() && others.is_empty() {
        return Vec::new();
    }
    let mut rows = others.to_vec();
    for named in &listing.names {
        let (size, modified) = (Bytes(named.head.size).to_string(), human::clock(named.head.modified));
        rows.push([named.name.clone(), "object".to_string(), size, modified]);
    }
    rows.sort();
    let mut table = human::table(&["name", "what", "size", "modified"], &[2]);
    rows.into_iter().for_each(|row| table.add_row(row));
    human::lines(&table)
}

/// Everything about one object.
pub fn stat(context: &mut Context, args: &StatArgs) -> Result<()> {
    if let Some(files) = context.remote()? {
        return files::stat(context, &files, &args.name);
    }
    context.with_cluster(|context, cluster| {
        let named = cluster.objects().find(&args.name).map_err(|error| unless_ring(cluster, &args.name, error))?;
        if context.json {
            return context.out.json(&object(&named));
        }
        let head = &named.head;
        context.out.line(&named.name)?;
        context.out.line(format_args!("  size      {} ({} bytes)", Bytes(head.size), human::count(head.size)))?;
        context.out.line(format_args!("  space     {}", head.used))?;
        context.out.line(format_args!("  created   {}", human::clock(head.created)))?;
        context.out.line(format_args!("  modified  {}", human::clock(head.modified)))?;
        context.out.line(format_args!("  object    {} on target {}", number(&named), named.place.target))
    })
}

/// Makes an object of what another one is now; both share their blocks until one of them is written to.
pub fn snapshot(context: &mut Context, args: &SnapshotArgs) -> Result<()> {
    context.with_cluster(|context, cluster| {
        let made = cluster.objects().snapshot_name(&args.of, &args.name);
        let named = made.map_err(|error| unless_ring(cluster, &args.of, error))?;
        if context.json {
            return context.out.json(&object(&named));
        }
        let size = Bytes(named.head.size);
        context.out.line(format_args!("{} is what {} is now, {size}.", args.name, args.of))
    })
}

/// Removes an object, or what was left behind.
pub fn rm(context: &mut Context, args: &RmArgs) -> Result<()> {
    if let Some(files) = context.remote()? {
        return match args.unfinished {
            true => files::rm_unfinished(context, &files, &args.name),
            false => files::rm(context, &files, &args.name),
        };
    }
    if args.unfinished {
        return rm_unfinished(context, prefix(&args.name)?);
    }
    context.with_cluster(|context, cluster| {
        let removed = cluster.objects().remove_name(&args.name);
        removed.map_err(|error| unless_ring(cluster, &args.name, error))?;
        if context.json {
            context.out.json(&json!({ "removed": args.name }))
        } else {
            context.out.line(format_args!("Removed {}.", args.name))
        }
    })
}

fn rm_unfinished(context: &mut Context, prefix: &str) -> Result<()> {
    context.with_cluster(|context, cluster| {
        let objects = cluster.objects();
        let (mut removed, mut used) = (0, Bytes::ZERO);
        let all = parts(cluster, prefix, NAMES_AT_ONCE, |listing| {
            for unfinished in &listing.unfinished {
                if objects.remove_unfinished(unfinished)? {
                    (removed, used) = (removed + 1, used + unfinished.head.used);
                }
            }
            Ok(())
        });
        all.map_err(|error| removed_before(error, removed, "object"))?;
        if context.json {
            return context.out.json(&json!({ "removed_unfinished": removed, "used_bytes": used.0 }));
        }
        context.out.line(format_args!("Removed {} in {used} without a name.", human::some(removed, "object")))
    })
}

fn prefix(text: &str) -> Result<&str> {
    if text != "/" {
        check_name(text.trim_end_matches('/'))?;
    }
    Ok(text)
}

/// What has a name and is no object.
fn others(cluster: &Cluster, prefix: &str) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for ring in rings(cluster, prefix)? {
        let newest = ring.newest.map_or_else(|| "-".to_string(), human::clock);
        rows.push([ring.spec.name.clone(), "ring".to_string(), ring.spec.capacity.to_string(), newest]);
    }
    for heap in heaps(cluster, prefix)? {
        rows.push([heap.name, "heap".to_string(), heap.space.to_string(), "-".to_string()]);
    }
    Ok(rows)
}

fn heaps(cluster: &Cluster, prefix: &str) -> Result<Vec<HeapName>> {
    let mut heaps = cluster.heaps().list()?.heaps;
    heaps.retain(|heap| forebay_client::objects::is_under(&heap.name, prefix));
    Ok(heaps)
}

fn rings(cluster: &Cluster, prefix: &str) -> Result<Vec<RingStatus>> {
    let mut rings = cluster.status()?;
    rings.retain(|ring| forebay_client::objects::is_under(&ring.spec.name, prefix));
    Ok(rings)
}

/// The error, unless the name is that of a ring or of a heap, which have commands of their own.
pub(super) fn unless_ring(cluster: &Cluster, name: &str, error: Error) -> Error {
    match error.kind {
        Kind::Missing if heaps(cluster, name).is_ok_and(|heaps| heaps.iter().any(|heap| heap.name == name)) => {
            Error::usage(format!("{name} is a heap; see `forebay heap stat {name}`, and `forebay heap delete`"))
        }
        Kind::Missing if cluster.ring(name).is_ok() => {
            Error::usage(format!("{name} is a ring; see `forebay ring show {name}` and `forebay ring delete {name}`"))
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests;

//! `forebay format`: makes a cluster in a directory.

use crate::args::span;
use crate::context::Context;
use crate::show::{json, say};
use clap::Args;
use forebay_embedded::{FormatOptions, Formatted, Measure};
use forebay_env::PlainZones;
use forebay_model::{Bytes, Error, Result};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a device is measured at format time, at most, if nothing is said.
const QUICK: Duration = Duration::from_secs(4);

/// What to make the cluster of.
#[derive(Args)]
pub struct FormatArgs {
    /// A file of this size in the directory, with its space set aside
    #[arg(long, value_name = "SIZE", required_unless_present = "devices", conflicts_with = "devices")]
    size: Option<Bytes>,
    /// A block device or preallocated file; may be repeated
    #[arg(long = "device", value_name = "PATH")]
    devices: Vec<PathBuf>,
    /// How long each device is measured, 4s at most if left out; 0 for a cautious guess
    #[arg(long, value_name = "TIME", value_parser = span)]
    measure: Option<Duration>,
    /// Zones where tracks do not overlap, on devices that hide that others do (drive-managed SMR): each so long, one at
    /// the end of every so many bytes
    #[arg(long, value_name = "LENGTH/EVERY", value_parser = PlainZones::parse)]
    plain_zones: Option<PlainZones>,
    /// Format over what is there
    #[arg(long)]
    force: bool,
}

/// Does it.
pub fn run(context: &mut Context, args: &FormatArgs) -> Result<()> {
    let measure = match args.measure {
        None => Measure::AtMost(QUICK),
        Some(Duration::ZERO) => Measure::Guess,
        Some(time) => Measure::For(time),
    };
    let options = FormatOptions {
        size: args.size,
        devices: args.devices.clone(),
        measure,
        force: args.force,
        plain_zones: args.plain_zones,
    };
    let dir = context.dir()?.to_path_buf();
    let formatted = forebay_embedded::format(&dir, &options).map_err(with_option)?;
    for target in &formatted {
        if context.json {
            let profile = json::profile(&target.profile);
            context.out.json(&json!({
                "target": target.target.to_string(), "device": target.device.display().to_string(),
                "size_bytes": target.size.0, "profile": profile,
            }))?;
        } else {
            context.out.line(sentence(&dir, target))?;
        }
    }
    Ok(())
}

/// Makes a cluster of one file, quickly, and says so to people: for commands that make what they need.
pub fn make(dir: &Path, size: Bytes) -> Result<()> {
    for target in forebay_embedded::format(dir, &FormatOptions::file(size, Measure::AtMost(QUICK)))? {
        say(&sentence(dir, &target));
    }
    Ok(())
}

/// Whether a cluster is there.
pub fn is_cluster(dir: &Path) -> bool {
    forebay_env::real::file::exists(dir.join("cluster.toml"))
}

fn sentence(dir: &Path, target: &Formatted) -> String {
    let profile = &target.profile;
    let (slowest, fastest) = profile
        .points
        .iter()
        .map(|point| point.write)
        .fold((profile.points[0].write, profile.points[0].write), |(low, high), rate| (low.min(rate), high.max(rate)));
    format!(
        "Made a cluster in {}: {} of {}, writing {slowest} to {fastest}.",
        dir.display(),
        target.device.display(),
        target.size
    )
}

/// The library cannot know what the option is called here.
pub fn with_option(error: Error) -> Error {
    match error.kind {
        forebay_model::Kind::Exists => Error::new(error.kind, format!("{} (--force does)", error.message)),
        _ => error,
    }
}

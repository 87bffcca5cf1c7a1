//! What all measurements share: which disk is meant, a place on a real one, and how figures are shown.

use crate::context::Context;
use forebay_env::real::{file, process};
use forebay_model::{Error, Result};
use forebay_sim::disk::{DiskSpec, presets};
use forebay_sim::logs::mean;
use serde::Serialize;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// Latencies in milliseconds, to a thousandth.
#[derive(Debug, Serialize)]
pub struct Latency {
    mean: f64,
    p50: f64,
    p99: f64,
    max: f64,
}

impl Latency {
    /// Of latencies, the shortest first; zero of none.
    pub fn of(sorted: &[Duration]) -> Latency {
        let percentile = |share: f64| {
            let rank = ((sorted.len() as f64 * share).ceil() as usize).max(1) - 1;
            millis(sorted.get(rank).copied().unwrap_or_default())
        };
        Latency { mean: millis(mean(sorted)), p50: percentile(0.5), p99: percentile(0.99), max: percentile(1.0) }
    }
}

/// Milliseconds, to a thousandth.
pub fn millis(span: Duration) -> f64 {
    rounded(span.as_secs_f64() * 1e3)
}

/// To a thousandth: more says nothing.
pub fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// The fields of the JSON.
pub fn fields(figures: impl Serialize) -> Result<Value> {
    serde_json::to_value(figures).map_err(|e| Error::usage(format!("the figures cannot be shown: {e}")))
}

/// Shows the fields: as JSON to programs, and to others one on a line.
pub fn show(context: &mut Context, fields: &Value) -> Result<()> {
    if context.json {
        context.out.json(fields)?;
    } else {
        for (name, value) in fields.as_object().into_iter().flatten() {
            context.out.line(format!("{name:32} {value}"))?;
        }
    }
    context.out.flush()
}

/// Where only a simulated disk will do; `otherwise` follows the names in the error.
pub fn simulated(disk: &str, otherwise: &str) -> Result<DiskSpec> {
    presets::parse(disk).unwrap_or_else(|| {
        let names = presets::NAMES.join(", sim:");
        Err(Error::usage(format!("{disk} is no simulated disk; the names are sim:{names}{otherwise}")))
    })
}

/// Measures in a directory of its own on a real disk, which is removed afterwards with all that is in it.
pub fn in_directory<T>(parent: &str, measure: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    let parent = Path::new(parent);
    if !file::is_directory(parent) {
        return Err(Error::usage(format!(
            "{} is not a directory; name one on the disk to be measured",
            parent.display()
        )));
    }
    let dir = parent.join(format!("bench-{}.forebay-tmp", process::id()));
    file::make_directory(&dir)?;
    let measured = measure(&dir);
    let removed = file::remove_directory(&dir);
    let measured = measured?;
    removed?;
    Ok(measured)
}

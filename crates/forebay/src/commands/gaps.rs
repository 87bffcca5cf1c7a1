//! `forebay gaps`: what could not be stored, and why. Damage that nobody has read is not among it, and that is said.

use crate::args::time;
use crate::context::Context;
use crate::show::{human, json};
use clap::Args;
use forebay_model::{Result, Timestamp};

/// Where to look.
#[derive(Args)]
pub struct GapsArgs {
    /// The ring
    ring: String,
    /// From this time, such as '1h ago'
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Up to this time
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
}

/// Lists them.
pub fn run(context: &mut Context, args: &GapsArgs) -> Result<()> {
    context.with_cluster(|context, cluster| {
        let now = cluster.wall();
        let read = |text: &Option<String>, open| text.as_ref().map_or(Ok(open), |text| time(text, now));
        let (from, to) = (read(&args.from, Timestamp::MIN)?, read(&args.to, Timestamp::MAX)?);
        let gaps = cluster.gaps(&args.ring, from, to)?;
        if context.json {
            return gaps.iter().try_for_each(|gap| context.out.json(&json::gap(gap)));
        }
        if gaps.is_empty() {
            context.out.line(none(from, to))?;
            return say_where_damage_shows(context);
        }
        let mut table = human::table(&["first", "last", "missing", "cause"], &[2]);
        for gap in &gaps {
            let count = gap.count.map_or_else(|| "unknown".to_string(), human::count);
            table.add_row([gap.first.to_string(), gap.last.to_string(), count, gap.cause.to_string()]);
        }
        human::lines(&table).iter().try_for_each(|line| context.out.line(line))?;
        say_where_damage_shows(context)
    })
}

/// What is said if there are none; of a range nothing is said of the rest.
fn none(from: Timestamp, to: Timestamp) -> String {
    let (first, last) = match (from, to) {
        (Timestamp::MIN, Timestamp::MAX) => return "No gaps: everything that was offered was stored.".to_string(),
        (from, Timestamp::MAX) => (from.to_string(), "now".to_string()),
        (Timestamp::MIN, to) => ("the beginning".to_string(), to.to_string()),
        (from, to) => (from.to_string(), to.to_string()),
    };
    format!("No gaps between {first} and {last}: everything that was offered then was stored.")
}

/// Gaps were recorded when something was missing. What the disk has lost since is known only to who reads it.
fn say_where_damage_shows(context: &mut Context) -> Result<()> {
    context.out.line("What was damaged since shows where it is read: `forebay check` reads everything.")
}

#[cfg(test)]
mod tests;

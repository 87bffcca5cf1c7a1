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
        let gaps = cluster.gaps(&args.ring, read(&args.from, Timestamp::MIN)?, read(&args.to, Timestamp::MAX)?)?;
        if context.json {
            return gaps.iter().try_for_each(|gap| context.out.json(&json::gap(gap)));
        }
        if gaps.is_empty() {
            context.out.line("No gaps: everything that was offered was stored.")?;
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

/// Gaps were recorded when something was missing. What the disk has lost since is known only to who reads it.
fn say_where_damage_shows(context: &mut Context) -> Result<()> {
    context.out.line("What was damaged since shows where it is read: `forebay check` reads everything.")
}

//! `forebay pin`, `unpin` and `pins`: what is preserved.

use crate::args::time;
use crate::context::Context;
use crate::show::{human, json};
use clap::Args;
use forebay_model::{Error, Result};
use serde_json::json;

/// What to preserve.
#[derive(Args)]
pub struct PinArgs {
    /// The ring
    ring: String,
    /// From this time, such as '10m ago' or 2026-11-21T10:00:00Z
    #[arg(long, value_name = "TIME")]
    from: String,
    /// Up to this time, which may lie in the future
    #[arg(long, value_name = "TIME", default_value = "now")]
    to: String,
    /// What you call it
    #[arg(long, value_name = "TEXT", default_value = "")]
    label: String,
}

/// What to let go of.
#[derive(Args)]
pub struct UnpinArgs {
    /// The ring
    ring: String,
    /// The pin's number, as `forebay pins` shows it
    id: u64,
}

/// Whose pins to list.
#[derive(Args)]
pub struct PinsArgs {
    /// The ring; all rings if left out
    ring: Option<String>,
}

/// Preserves.
pub fn pin(context: &mut Context, args: &PinArgs) -> Result<()> {
    context.with_cluster(|context, cluster| {
        let now = cluster.wall();
        let (from, to) = (time(&args.from, now)?, time(&args.to, now)?);
        if to < from {
            return Err(Error::usage(format!("a range from {from} to {to} ends before it begins; swap the two")));
        }
        let pinned = cluster.pin(&args.ring, &args.label, from, to)?;
        if context.json {
            return context.out.json(&json::pinned(&args.ring, &pinned));
        }
        let pin = &pinned.pin;
        context.out.line(format_args!(
            "Pin {} holds {} of {}: {} in {}, {} to {}.",
            pin.id,
            human::some(pin.end_sequence.saturating_sub(pin.first_sequence), "element"),
            args.ring,
            pin.bytes,
            human::some(pin.segments, "segment"),
            pin.from,
            pin.to
        ))?;
        if let Some(until) = pinned.expired_until {
            context.out.line(format_args!("What was before {until} had been overwritten already."))?;
        }
        if pinned.open_end {
            context.out.line(format_args!("Its end is not recorded yet; it is held as it comes."))?;
        }
        for (ring, id) in &pin.relatives {
            context.out.line(format_args!("Along with it: pin {id} of {ring}."))?;
        }
        Ok(())
    })
}

/// Lets go.
pub fn unpin(context: &mut Context, args: &UnpinArgs) -> Result<()> {
    context.with_cluster(|context, cluster| {
        cluster.unpin(&args.ring, args.id)?;
        if context.json {
            context.out.json(&json!({ "ring": args.ring, "unpinned": args.id }))
        } else {
            context
                .out
                .line(format_args!("Pin {} of {} is gone; what it held expires in its turn.", args.id, args.ring))
        }
    })
}

/// Lists.
pub fn pins(context: &mut Context, args: &PinsArgs) -> Result<()> {
    context.with_cluster(|context, cluster| {
        let names = match &args.ring {
            Some(ring) => vec![ring.clone()],
            None => cluster.status()?.into_iter().map(|ring| ring.spec.name).collect(),
        };
        let mut table = human::table(&["ring", "pin", "from", "to", "elements", "size", "label"], &[1, 4, 5]);
        let mut any = false;
        for name in names {
            for pin in cluster.pins(&name)? {
                any = true;
                if context.json {
                    context.out.json(&json::pin(&name, &pin))?;
                    continue;
                }
                table.add_row([
                    name.clone(),
                    pin.id.to_string(),
                    human::clock(pin.from),
                    human::clock(pin.to),
                    human::count(pin.end_sequence.saturating_sub(pin.first_sequence)),
                    pin.bytes.to_string(),
                    pin.label.clone(),
                ]);
            }
        }
        match (context.json, any) {
            (true, _) => Ok(()),
            (false, false) => context.out.line("No pins."),
            (false, true) => human::lines(&table).iter().try_for_each(|line| context.out.line(line)),
        }
    })
}

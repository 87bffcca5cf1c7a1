//! `forebay ring`: what rings there are.

use crate::args::RingArgs;
use crate::context::Context;
use crate::show::{self, json, parts, rings};
use clap::{Args, Subcommand};
use forebay_model::ring::{Content, Spread};
use forebay_model::{Bytes, Result};
use serde_json::json;

/// What to do with rings.
#[derive(Subcommand)]
pub enum RingCommand {
    /// Create a ring
    Create(CreateArgs),
    /// List all rings
    List,
    /// Everything about one ring
    Show(NameArgs),
    /// Delete a ring with everything in it
    Delete(NameArgs),
    /// Give a ring another capacity; what still fits is kept
    Resize(ResizeArgs),
    /// Say which rings are pinned along with a ring, from now on
    Relate(RelateArgs),
}

/// A ring to create.
#[derive(Args)]
pub struct CreateArgs {
    /// Its name, such as /station/7
    name: String,
    /// Targets of a cluster on the network that have its elements, each a share of capacity and guarantee
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    targets: u32,
    /// One target more has the parity of what they have, so that any one may be lost; elements fit a block then
    #[arg(long)]
    parity: bool,
    /// How it is to be.
    #[command(flatten)]
    ring: RingArgs,
}

/// A ring.
#[derive(Args)]
pub struct NameArgs {
    /// Its name
    name: String,
}

/// A ring and its new capacity.
#[derive(Args)]
pub struct ResizeArgs {
    /// Its name
    name: String,
    /// What it shall have; rounded up to whole groups
    #[arg(long, value_name = "SIZE")]
    capacity: Bytes,
}

/// A ring and its relatives.
#[derive(Args)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["relatives", "none"]))]
pub struct RelateArgs {
    /// Its name
    name: String,
    /// All of its relatives: rings whose data of the same time is pinned along
    relatives: Vec<String>,
    /// It has no relatives any more
    #[arg(long)]
    none: bool,
}

/// Does it.
pub fn run(context: &mut Context, command: RingCommand) -> Result<()> {
    match command {
        RingCommand::Create(args) => {
            let spec = args.ring.spec(&args.name, Content::Opaque, &[])?;
            let spread = Spread { targets: args.targets, parity: args.parity };
            spread.check()?;
            context.with_cluster(|context, cluster| {
                let ring = match spread.components() {
                    1 => cluster.create_ring(spec)?,
                    _ => cluster.create_spread(spec, spread)?,
                };
                if context.json {
                    context.out.json(&json::ring(&ring))
                } else {
                    context.out.line(rings::created(&ring))
                }
            })
        }
        RingCommand::List => context.with_cluster(|context, cluster| {
            let list = cluster.list_rings()?;
            for error in &list.unread {
                show::say(&format!("What rings there are is not known of {error}"));
            }
            if context.json {
                return list.rings.iter().try_for_each(|ring| context.out.json(&parts::json(ring)));
            }
            if list.rings.is_empty() {
                return context.out.line("No rings yet; make one with `forebay ring create /name --capacity 10GiB`.");
            }
            parts::table(&list.rings, None).iter().try_for_each(|line| context.out.line(line))
        }),
        RingCommand::Show(args) => context.with_cluster(|context, cluster| {
            let ring = cluster.survey_ring(&args.name)?;
            if context.json {
                context.out.json(&parts::json(&ring))?;
            } else {
                parts::details(&ring).iter().try_for_each(|line| context.out.line(line))?;
            }
            context.out.flush()?;
            ring.status.map(drop)
        }),
        RingCommand::Delete(args) => context.with_cluster(|context, cluster| {
            cluster.delete_ring(&args.name)?;
            if context.json {
                context.out.json(&json!({ "deleted": args.name }))
            } else {
                context.out.line(format_args!("Deleted {}.", args.name))
            }
        }),
        RingCommand::Resize(args) => context.with_cluster(|context, cluster| {
            let capacity = cluster.resize_ring(&args.name, args.capacity)?;
            if context.json {
                context.out.json(&json!({ "name": args.name, "capacity_bytes": capacity.0 }))
            } else {
                context.out.line(format_args!("{} has {capacity} now.", args.name))
            }
        }),
        RingCommand::Relate(args) => context.with_cluster(|context, cluster| {
            let ring = cluster.relate_ring(&args.name, args.relatives)?;
            if context.json {
                return context.out.json(&json::ring(&ring));
            }
            match &ring.spec.relatives[..] {
                [] => context.out.line(format_args!("{} is pinned alone now.", args.name)),
                all => {
                    context.out.line(format_args!("Along with {}, {} will be pinned.", args.name, all.join(" and ")))
                }
            }
        }),
    }
}

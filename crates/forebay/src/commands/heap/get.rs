//! `forebay heap get`: records, or the root, to standard output.

use super::records::{Format, stopped, write};
use super::{Ids, open};
use crate::context::Context;
use crate::show::human;
use crate::show::live::Live;
use clap::Args;
use forebay_client::heaps::{Heap, RecordId};
use forebay_env::real::process::{self, Standard};
use forebay_env::real::signal::Stop;
use forebay_model::{Bytes, Error, Result};

/// What to get.
#[derive(Args)]
pub struct GetArgs {
    /// The heap
    name: String,
    /// The records, in this order; - reads their ids from standard input, one a line. Without any, the root
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// How they are written; a single one that is named, and the root, as it is if this is left out
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// As of this commit; `forebay heap history` lists them
    #[arg(long, value_name = "COMMIT")]
    as_of: Option<u64>,
}

/// Gets it.
pub fn run(context: &mut Context, args: &GetArgs) -> Result<()> {
    let stop = Stop::on_signals()?;
    let format = match (args.format, context.json) {
        (Some(Format::Lengths), true) => {
            return Err(Error::usage(
                "records behind their lengths are no JSON; leave out --json, or say --format lines",
            ));
        }
        (None, true) => Some(Format::Lines),
        (format, _) => format,
    };
    let mut ids = Ids::new(&args.ids, &stop)?;
    let is_lone = matches!(&ids, Ids::Named(ids) if ids.len() <= 1);
    if format.is_none() && !is_lone {
        return Err(Error::usage(
            "where one record ends is not to be seen among several; say --format lines or lengths",
        ));
    }
    context.with_cluster(|context, cluster| {
        let mut heap = open(cluster, &args.name)?;
        if args.ids.is_empty() {
            let (commit, root) = heap.root(args.as_of)?;
            let (id, record) = root.ok_or_else(|| no_root(&heap, commit))?;
            return tell(context, format, id, &record);
        }
        // On a terminal that shows the records, it would be among them.
        let mut live = Live::new(!context.json && !process::is_terminal(Standard::Output));
        let (mut count, mut bytes) = (0, 0);
        while let Some(some) = ids.next_some()? {
            heap.get_each(&some, args.as_of, |id, record| {
                if stop.is_set() {
                    return Err(stopped().of(format!("getting records of {}", args.name)));
                }
                let record = record?;
                (count, bytes) = (count + 1, bytes + record.len() as u64);
                if live.is_due() {
                    live.show(&format!("getting {}, {}", human::some(count, "record"), Bytes(bytes)));
                }
                tell(context, format, id, &record)
            })?;
        }
        Ok(())
    })
}

fn tell(context: &mut Context, format: Option<Format>, id: RecordId, record: &[u8]) -> Result<()> {
    match format {
        Some(format) => write(&mut context.out, format, id, record),
        None => context.out.bytes(record),
    }
}

fn no_root(heap: &Heap, commit: u64) -> Error {
    let name = heap.name();
    Error::missing(format!("commit {commit} of {name} has no root; `forebay heap commit {name} --root ID` names one"))
}

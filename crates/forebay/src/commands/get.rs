//! `forebay get`: an object, or a part of it, into a file or to standard output.

use super::files;
use super::put::progress;
use crate::context::Context;
use crate::show::live::Live;
use crate::show::{out, say};
use clap::Args;
use forebay_client::objects::ObjectReader;
use forebay_env::real::clock;
use forebay_env::real::file::NewFile;
use forebay_env::real::signal::Stop;
use forebay_model::{Bytes, Error, Kind, Result};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What to get, and where to.
#[derive(Args)]
pub struct GetArgs {
    /// The name
    name: String,
    /// The file; - is standard output
    file: PathBuf,
    /// Begin at this byte, such as 4096 or 1MiB
    #[arg(long, value_name = "SIZE", default_value = "0")]
    offset: Bytes,
    /// So many bytes at most; all if left out
    #[arg(long, value_name = "SIZE")]
    length: Option<Bytes>,
    /// Overwrite the file if it is there
    #[arg(long)]
    force: bool,
}

/// Gets it.
pub fn run(context: &mut Context, args: &GetArgs) -> Result<()> {
    if let Some(files) = context.remote()? {
        return files::get(context, &files, &args.name, &args.file, (args.offset, args.length), args.force);
    }
    let to_stdout = args.file == Path::new("-");
    let stop = Stop::on_signals()?;
    context.with_cluster(|context, cluster| {
        let length = args.length.map_or(u64::MAX, |length| length.0);
        let (named, mut reader) = cluster.objects().get(&args.name, args.offset.0, length)?;
        let due = named.head.size.saturating_sub(args.offset.0).min(length);
        let mut live = Live::new(!context.json && !to_stdout);
        if to_stdout {
            let bytes = copy(&mut reader, due, &args.name, &stop, &mut live, |bytes| context.out.bytes(bytes))?;
            context.out.flush()?;
            if context.json {
                say(&json!({ "name": args.name, "bytes": bytes }).to_string());
            }
            return Ok(());
        }
        let to = args.file.display();
        let mut file = NewFile::begin(&args.file, args.force).map_err(forcible)?;
        let copied = copy(&mut reader, due, &args.name, &stop, &mut live, |bytes| {
            file.write_all(bytes).map_err(|error| out::trouble_with(&to, &error))
        });
        drop(live);
        let bytes = copied?;
        file.keep().map_err(forcible)?;
        if context.json {
            return context.out.json(&json!({ "name": args.name, "to": to.to_string(), "bytes": bytes }));
        }
        context.out.line(format_args!("Got {} of {} into {to}.", Bytes(bytes), args.name))
    })
}

fn forcible(error: Error) -> Error {
    match error.kind {
        Kind::Exists => Error::exists(format!("{error}; --force overwrites it")),
        _ => error,
    }
}

/// Hands the bytes over as they come; how many there were.
fn copy(
    reader: &mut ObjectReader,
    due: u64,
    name: &str,
    stop: &Stop,
    live: &mut Live,
    mut take: impl FnMut(&[u8]) -> Result<()>,
) -> Result<u64> {
    let (began, mut done) = (clock::now(), 0);
    loop {
        if stop.is_set() {
            return Err(Error::busy(format!("getting {name} was stopped before its end")));
        }
        let next = reader.next_bytes().map_err(|error| match error.kind {
            Kind::Missing => Error::missing(format!("{name} was replaced or removed while it was read; get it again")),
            _ => error.of(name),
        })?;
        let Some(bytes) = next else { break };
        take(&bytes)?;
        done += bytes.len() as u64;
        if live.is_due() {
            live.show(&progress("getting", done, Some(due), began));
        }
    }
    if done < due {
        return Err(Error::busy(format!("{name} became shorter while it was read; get it again")));
    }
    Ok(done)
}

//! `forebay put`: a file, or standard input, becomes an object with a name. It has the name when all of it is durable.

use super::files;
use super::volume::unless_none;
use crate::args::{self, StripingArgs};
use crate::context::Context;
use crate::show::live::{Live, bar};
use crate::show::say;
use clap::Args;
use forebay_client::objects::{MOST_AT_ONCE, OverQuota, Put};
use forebay_env::real::clock;
use forebay_env::real::file::{self, File};
use forebay_env::real::signal::{Ready, Stop};
use forebay_model::{Bytes, Error, Moment, Rate, Result};
use serde_json::json;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// What to keep, and under which name.
#[derive(Args)]
pub struct PutArgs {
    /// The file; - is standard input
    pub(super) file: PathBuf,
    /// The name, such as /data/x
    pub(super) name: String,
    /// Replace what has the name already; it stays until the new one is there as a whole
    #[arg(long)]
    pub(super) force: bool,
    /// Who may do what with a file of a cluster on the network, in octal; 644, or as the one that it replaces
    #[arg(long, value_name = "MODE", value_parser = args::mode)]
    pub(super) mode: Option<u32>,
    /// How a file of a cluster on the network is striped; as its volume says, where nothing else is said.
    #[command(flatten)]
    pub(super) striping: StripingArgs,
}

/// Keeps it.
pub fn run(context: &mut Context, args: &PutArgs) -> Result<()> {
    if let Some(files) = context.remote()? {
        return files::put(context, &files, args);
    }
    require_object(args.mode, args.striping)?;
    let (source, from, size) = open(&args.file)?;
    let stop = Stop::on_signals()?;
    context.with_cluster(|context, cluster| {
        let began = clock::now();
        let mut put = cluster.objects().put(&args.name, args.force)?;
        let live = Live::new(!context.json);
        match copy(source, &from, size, &mut put, &stop, live, began) {
            Ok(true) => {}
            Ok(false) => {
                put.abandon()?;
                return Err(Error::busy(format!(
                    "putting {} was stopped before its end; nothing of it stays",
                    args.name
                )));
            }
            Err(error) => {
                if let Err(second) = put.abandon() {
                    say(&format!("forebay: what was written of {} was not removed: {second}", args.name));
                }
                return Err(error);
            }
        }
        let named = put.finish()?;
        let seconds = clock::now().since(began).as_secs_f64();
        if context.json {
            let over = named.over.map(|over| {
                json!({
                    "volume": over.volume, "used_bytes": over.used.0, "soft_bytes": unless_none(over.soft_bytes.0),
                    "objects": over.objects, "soft_objects": unless_none(over.soft_objects),
                })
            });
            return context.out.json(&json!({
                "name": named.name, "size_bytes": named.head.size, "target": named.place.target.to_string(),
                "object": super::object::number(&named), "seconds": seconds, "over_quota": over,
            }));
        }
        if let Some(over) = named.over {
            say(&format!("forebay: {}", warning(&over)));
        }
        context.out.line(format_args!("Put {} into {}.", Bytes(named.head.size), named.name))
    })
}

/// That nothing is said which is of files alone.
pub(super) fn require_object(mode: Option<u32>, striping: StripingArgs) -> Result<()> {
    match mode.is_some() || striping.is_any() {
        true => Err(Error::usage(
            "an object of a directory has no mode, and lies on one target; leave out --mode, --raid, --targets and --unit",
        )),
        false => Ok(()),
    }
}

fn warning(over: &OverQuota) -> String {
    let mut said = Vec::new();
    if over.used > over.soft_bytes {
        said.push(format!("{} of {}", over.used, over.soft_bytes));
    }
    if over.objects > over.soft_objects {
        said.push(format!("{} of {} objects", over.objects, over.soft_objects));
    }
    format!(
        "volume {} holds more than its soft quota: {}; remove something before it is full",
        over.volume,
        said.join(" and ")
    )
}

/// The source, what people call it, and its size if that is known.
fn open(path: &Path) -> Result<(File, String, Option<u64>)> {
    if path == Path::new("-") {
        return Ok((file::stdin()?, "standard input".to_string(), None));
    }
    if file::is_directory(path) {
        return Err(Error::usage(format!("{} is a directory; name a file", path.display())));
    }
    let source = File::open(path)?;
    // A pipe has no size.
    let size = source.size().ok().map(|size| size.0).filter(|size| *size > 0);
    Ok((source, path.display().to_string(), size))
}

/// Copies to the end of the source; false if it was stopped before.
fn copy(
    mut source: File,
    from: &str,
    size: Option<u64>,
    put: &mut Put,
    stop: &Stop,
    mut live: Live,
    began: Moment,
) -> Result<bool> {
    let mut buffer = vec![0; MOST_AT_ONCE.0 as usize];
    loop {
        if stop.wait_input(&source, None)? == Ready::Stopped {
            return Ok(false);
        }
        let count = match source.read(&mut buffer) {
            Ok(0) => return Ok(true),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(Error::device(format!("reading {from} failed: {error}"))),
        };
        put.write(&buffer[..count])?;
        if live.is_due() {
            live.show(&progress("putting", put.written(), size, began));
        }
    }
}

/// A line about what is under way.
pub fn progress(doing: &str, done: u64, size: Option<u64>, began: Moment) -> String {
    let rate = Rate::of(Bytes(done), clock::now().since(began));
    match size {
        Some(size) => format!("{doing} {}  {} of {}, {rate}", bar(done, size, 40), Bytes(done), Bytes(size)),
        None => format!("{doing} {}, {rate}", Bytes(done)),
    }
}

//! `forebay serve`: everything of a directory, for this machine's processes and for the network, until it is stopped; or the
//! targets of one, as a node of a cluster whose manager is elsewhere. What is said meanwhile is said aside: a server that waits for
//! who reads that serves nobody.

use crate::args::{raid, span};
use crate::context::{Context, manager_of, when_stopped};
use crate::show::{aside, say};
use clap::Args;
use forebay_client::files::keep::Kept;
use forebay_client::files::left::Mended;
use forebay_client::files::moving::Moved;
use forebay_client::files::rebuild::Rebuilt;
use forebay_client::files::scrub::{Scrubbed, Scrubbing};
use forebay_embedded::{FormatOptions, Measure, Settings, format};
use forebay_env::real::file;
use forebay_env::real::signal::Stop;
use forebay_model::layout::Raid;
use forebay_model::{Bytes, Error, Rate, Result};
use forebay_node::network::{Bounds, Unwelcome};
use forebay_serve::limits::{Allowed, Parts, Taken};
use forebay_serve::tls::{AUTHORITY, TlsFiles};
use forebay_serve::upkeep::UpkeepOptions;
use forebay_serve::{JoinOptions, Joined, METADATA, News, Rebuilding, Server, ServerOptions};
use forebay_wire::control::names::FileId;
use forebay_wire::ring::name_of;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is served if no directory is named.
const UNNAMED: &str = "forebay-data";
/// The most nodes of a directory.
const MOST_NODES: u16 = 1000;

/// What is served, and where.
#[derive(Args)]
pub struct ServeArgs {
    /// The cluster's directory: if left out, the one that --cluster names, or else forebay-data; it is made if it is not
    /// there, with one target in a file
    dir: Option<PathBuf>,
    /// Where the manager listens: an address and a port, 0 for any that is free
    #[arg(long, default_value = "127.0.0.1:7400", value_name = "ADDRESS")]
    listen: String,
    /// Serve the targets of DIR as a node of the cluster whose manager is at that address; the first time, --access-key takes
    /// root's key or one that `forebay node add` made
    #[arg(long, value_name = "forebay://HOST:PORT", conflicts_with_all = ["listen", "nodes", "raid", "scrub_every", "scrub_rate", "balance_above", "balance_rate"])]
    join: Option<String>,
    /// With --join: make anew as well what targets of the cluster lost, each server some of it, with root's key, which is in that
    /// file; whoever reads it there is root
    #[arg(long, value_name = "FILE", requires = "join")]
    rebuild_key: Option<PathBuf>,
    /// Where the node listens, which has the data
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    data: String,
    /// Where others reach manager and node, if they listen at all addresses: a host, perhaps with the node's port
    #[arg(long, value_name = "HOST")]
    address: Option<String>,
    /// Speak TLS, with what `forebay keys make DIR` made; without, all listen on this machine alone
    #[arg(long, value_name = "DIR")]
    tls: Option<PathBuf>,
    /// Where it tells over HTTP how it is: /status, and /metrics for Prometheus
    #[arg(long, value_name = "ADDRESS")]
    status: Option<String>,
    /// Nodes, each with a target of its own: of more than one, in DIR/node-1 and so on; 0: a manager, for nodes that join; if
    /// nothing is said, as many as there are, and one in a new directory
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=i64::from(MOST_NODES)))]
    nodes: Option<u16>,
    /// How files are kept in a cluster that is made: striped with nothing to spare (0), twice (1), or with parity (5), which it
    /// is if nothing is said and there are three targets, or none yet
    #[arg(long, value_name = "0|1|5", value_parser = raid)]
    raid: Option<Raid>,
    /// The size of each target that is made
    #[arg(long, default_value = "10GiB", value_name = "SIZE")]
    size: Bytes,
    /// Memory for what is written, and as much for what is read, of all connections together
    #[arg(long, default_value = "256MiB", value_name = "SIZE")]
    memory: Bytes,
    /// What may be on its way to a node of what is written: what its port in the network takes without dropping any
    #[arg(long, default_value = "192KiB", value_name = "SIZE")]
    intake: Bytes,
    /// Read all of each file so often, and compare it with its parity or copies
    #[arg(long, default_value = "14d", value_name = "SPAN", value_parser = span)]
    scrub_every: Duration,
    /// Read so much a second for that at most; 0: never
    #[arg(long, default_value = "32MB/s", value_name = "RATE")]
    scrub_rate: Rate,
    /// Move components from targets that are used more to others when the fullest and the emptiest are so many points apart, until
    /// they are half as many; 0: never
    #[arg(long, default_value_t = 10, value_name = "POINTS", value_parser = clap::value_parser!(u8).range(0..=100))]
    balance_above: u8,
    /// Move so much a second of each component for that at most; 0: as fast as it goes
    #[arg(long, default_value = "32MB/s", value_name = "RATE")]
    balance_rate: Rate,
    /// Connections of each node at once; when all are taken, the one that is there longest without a valid capability makes room,
    /// and a machine has a quarter of them for such at most
    #[arg(long, default_value_t = 4096, value_name = "N")]
    connections: usize,
}

/// Serves it.
pub fn run(context: &mut Context, args: &ServeArgs) -> Result<()> {
    let dir = directory(context, args.dir.as_deref())?;
    let stop = Stop::on_signals()?;
    let allowed = Allowed::here();
    let (connections, memory, intake) = (args.connections, args.memory, args.intake);
    let strangers = (connections / 4).max(1);
    let bounds = Bounds { connections, strangers, memory, payloads: memory, intake, ..Bounds::default() };
    if let Some(manager) = &args.join {
        return join(context, args, &dir, manager, &|parts| fit(bounds, &allowed, parts), &stop);
    }
    let dirs = directories(args, &dir)?;
    let targets = dirs.iter().map(|dir| targets(dir)).sum::<Result<usize>>()?;
    let taken = fit(bounds, &allowed, Parts { has_manager: true, nodes: dirs.len(), targets })?;
    if dirs.is_empty() && !file::exists(&dir) {
        file::make_directory(&dir)?;
    }
    dirs.iter().try_for_each(|dir| made(dir, args.size))?;
    let options = ServerOptions {
        data: args.data.clone(),
        control: args.listen.clone(),
        tls: files(args)?,
        address: args.address.clone(),
        status: args.status.clone(),
        taken,
        raid: args.raid,
        upkeep: UpkeepOptions {
            scrubbing: Scrubbing { every: args.scrub_every, rate: args.scrub_rate },
            balance_above: args.balance_above,
            balance_rate: args.balance_rate,
        },
        kept,
        warned,
        told,
    };
    let server = Server::start(&dir, &dirs, &options)?;
    // A manager that cannot go on serves nobody: then this ends, with what helps.
    let ending = stop.clone();
    server.when_manager_is_over(move || ending.set())?;
    let ca = args.tls.as_ref().map(|dir| dir.join(AUTHORITY).display().to_string());
    let (control, key) = (server.control(), server.key().display().to_string());
    if context.json {
        context.out.json(&json!({
            "cluster": format!("forebay://{control}"),
            "data": server.addresses(),
            "key": key,
            "status": server.status(),
            "ca": ca,
        }))?;
    } else {
        context.out.line(format_args!("{} is served until Ctrl-C. To use it:", dir.display()))?;
        let ca = ca.map(|ca| format!(" FOREBAY_CA={ca}")).unwrap_or_default();
        context.out.line(format_args!("  export FOREBAY_CLUSTER=forebay://{control} FOREBAY_ACCESS_KEY={key}{ca}"))?;
        if let Some(status) = server.status() {
            context.out.line(how_it_is(status))?;
        }
    }
    context.out.flush()?;
    stop.wait(None)?;
    server.close()
}

/// The directory that is served: the one that is given, or else the one that is the cluster. What the environment names
/// is for who names none.
fn directory(context: &Context, given: Option<&Path>) -> Result<PathBuf> {
    let named = context.cluster.as_deref().filter(|_| !context.is_remote());
    match (given, named) {
        (Some(dir), Some(named)) if context.is_cluster_said && file::from_root(dir)? != file::from_root(named)? => {
            Err(Error::usage(format!(
                "{} is to be served, and --cluster names another directory, {}; leave one of them out",
                dir.display(),
                named.display()
            )))
        }
        (Some(dir), _) | (None, Some(dir)) => Ok(dir.to_path_buf()),
        (None, None) => Ok(PathBuf::from(UNNAMED)),
    }
}

/// What there is room for of what was asked for; what there is not is said.
fn fit(bounds: Bounds, allowed: &Allowed, parts: Parts) -> Result<Taken> {
    let (taken, told) = Taken::from(bounds).fit(allowed, parts)?;
    told.iter().for_each(|told| say(&format!("forebay: {told}")));
    Ok(taken)
}

/// How many targets a directory has, or will have when they are made.
fn targets(dir: &Path) -> Result<usize> {
    if has_targets(dir) { Ok(Settings::read(dir)?.targets.len()) } else { Ok(1) }
}

/// The directories of the nodes that are served: all that there are, for files lie on each of them; and more only where each has
/// a directory of its own.
fn directories(args: &ServeArgs, dir: &Path) -> Result<Vec<PathBuf>> {
    let node = |n: u16| dir.join(format!("node-{n}"));
    let several = (1..=MOST_NODES).filter(|n| has_targets(&node(*n))).count() as u16;
    if let Some(missing) = (1..=several).find(|n| !has_targets(&node(*n))) {
        return Err(Error::missing(format!(
            "{} has nodes behind node-{missing}, which is not there; put it back",
            dir.display()
        )));
    }
    let alone = has_targets(dir);
    let there = match several {
        0 if alone => 1,
        0 if !file::exists(dir.join(METADATA)) => args.nodes.unwrap_or(1),
        several => several,
    };
    let asked = args.nodes.unwrap_or(there);
    if asked != there && (several == 0 || asked < there) {
        let has = match there {
            0 => "no node of its own".to_string(),
            1 => "one node".to_string(),
            several => format!("{several} nodes"),
        };
        let or = if several > 0 { ", give more, or move away the directories of those that are lost" } else { "" };
        return Err(Error::usage(format!(
            "{} has {has} and cannot be served with {asked}; leave --nodes out{or}",
            dir.display()
        )));
    }
    Ok(match asked {
        1 if several == 0 => vec![dir.to_path_buf()],
        asked => (1..=asked).map(node).collect(),
    })
}

fn has_targets(dir: &Path) -> bool {
    file::exists(dir.join("cluster.toml"))
}

/// Makes targets where there are none.
fn made(dir: &Path, size: Bytes) -> Result<()> {
    if has_targets(dir) {
        return Ok(());
    }
    format(dir, &FormatOptions::file(size, Measure::Guess))?;
    say(&format!("forebay: made a target of {size} in {}", dir.display()));
    Ok(())
}

/// What is needed for TLS, if that is spoken.
fn files(args: &ServeArgs) -> Result<Option<TlsFiles>> {
    args.tls.as_ref().map(|dir| TlsFiles::of(dir)).transpose()
}

/// Serves the targets of a directory as a node.
fn join(
    context: &mut Context,
    args: &ServeArgs,
    dir: &Path,
    manager: &str,
    fit: &dyn Fn(Parts) -> Result<Taken>,
    stop: &Stop,
) -> Result<()> {
    let manager = manager_of(manager)?.to_string();
    let taken = fit(Parts { has_manager: false, nodes: 1, targets: targets(dir)? })?;
    made(dir, args.size)?;
    let options = JoinOptions {
        manager: manager.clone(),
        key: context.key().map(Path::to_path_buf),
        data: args.data.clone(),
        status: args.status.clone(),
        address: args.address.clone(),
        tls: files(args)?,
        taken,
        patience: context.wait(),
        told,
        warned,
        rebuilding: args.rebuild_key.clone().map(|key| Rebuilding { key, kept }),
    };
    let node = Joined::start(dir, options)?;
    let ending = node.ending();
    when_stopped(stop, move || ending.end())?;
    // Whoever stops it meanwhile does not wait for the manager.
    if node.ready()? {
        if context.json {
            context.out.json(&json!({
                "cluster": format!("forebay://{manager}"),
                "data": [node.address()],
                "node": node.number(),
                "status": node.status(),
            }))?;
        } else {
            let (dir, number, at) = (dir.display(), node.number(), node.address());
            context.out.line(format_args!(
                "{dir} is node {number} of forebay://{manager}, and is served at {at} until Ctrl-C."
            ))?;
            if let Some(status) = node.status() {
                context.out.line(how_it_is(status))?;
            }
        }
        context.out.flush()?;
        stop.wait(None)?;
    }
    node.close()
}

fn how_it_is(status: &str) -> String {
    format!("How it is: http://{status}/status, and http://{status}/metrics for Prometheus")
}

/// Says what changed between a node and its manager, or between that and its metadata.
fn told(news: News) {
    aside::say(match news {
        News::Away(error) => format!(
            "forebay: the manager is away; what was allowed is served on, and it is asked again every few seconds: {error}"
        ),
        News::Refused(error) => format!(
            "forebay: the manager refuses this node; what was allowed is served on, and it is asked again every few seconds: \
             {error}"
        ),
        News::TargetRefused(target, error) => format!("forebay: target {target} may not be served: {error}"),
        News::Unable(target, error) => format!(
            "forebay: target {target} cannot do what the manager wants done there; all else of it is served, and it is tried \
             again: {error}"
        ),
        News::SetAside(target, ring) => format!(
            "forebay: target {target} made {} anew of its segments, and it is not to be there: what it has was kept under a name that begins \
             with /recovered/, and is promised nothing; `forebay ring list` and `forebay ring delete` with `--cluster` and the directory of \
             this node show it and give its room back",
            name_of(ring)
        ),
        News::ClockOff(how) => {
            format!("forebay: {how}; what clients show is refused until then, or counts for too short")
        }
        News::Well => "forebay: the manager has this node again, and all that it serves".to_string(),
        News::ManagerTroubled(error) => {
            format!(
                "forebay: the manager could not go on, and opens its metadata anew; what was answered is kept: {error}"
            )
        }
        News::MetadataAway(error) => format!(
            "forebay: the manager cannot open its metadata and answers nobody; what was allowed is served on, and it is tried again \
             every few seconds: {error}"
        ),
        News::MetadataBack => "forebay: the manager could open its metadata, and answers again".to_string(),
    });
}

/// Says what came to a node and was malformed.
fn warned(Unwelcome { peer, error, count }: Unwelcome) {
    let others = match count {
        1 => String::new(),
        count => format!(" ({count} such since it was said last)"),
    };
    aside::say(format!(
        "forebay: what came from {peer} was malformed, and that connection alone is ended{others}: {error}"
    ));
}

/// Says what came of a file that was looked after.
fn kept(file: FileId, kept: Result<Kept>) {
    aside::say(match kept {
        Ok(Kept::Scrubbed(Scrubbed { lost, path, .. })) if !lost.is_empty() => {
            let name = path.unwrap_or_else(|| file.to_string());
            format!("forebay: a scrub found bytes {} of {name} lost; restore them", ranges(&lost))
        }
        Ok(Kept::Scrubbed(Scrubbed { repaired, .. })) if repaired == Bytes::ZERO => return,
        Ok(Kept::Scrubbed(Scrubbed { repaired, .. })) => {
            format!(
                "forebay: a scrub found {repaired} of {file} damaged or unlike its parity or copies; they are right again"
            )
        }
        Ok(Kept::Mended(Mended { ended, size, repaired, lost })) if lost.is_empty() => format!(
            "forebay: {file} was left half written by a client that is gone: it is whole and has {size} ({ended} updates were \
             ended, {repaired} of parity or copies made to agree)"
        ),
        Ok(Kept::Mended(Mended { lost, .. })) => format!(
            "forebay: {file} was left half written by a client that is gone, and bytes {lost:?} of it are lost: restore them"
        ),
        Ok(Kept::Rebuilt(Rebuilt { components, written, lost })) => format!(
            "forebay: {components} of the components of {file} had missed something, and are rebuilt ({written} written{})",
            and_lost(lost)
        ),
        Ok(Kept::Moved(Moved { components, written, lost })) => format!(
            "forebay: {components} of the components of {file} lay where nothing is to stay or more than elsewhere, and were moved ({written} written{})",
            and_lost(lost)
        ),
        Err(error) => {
            format!(
                "forebay: {file} is not whole or where it should be yet; what was acknowledged is there, and it is tried again: {error}"
            )
        }
    });
}

/// What is said of bytes of components that are lost, if there are any.
fn and_lost(lost: Bytes) -> String {
    match lost {
        Bytes::ZERO => String::new(),
        lost => format!(
            "; {lost} of them are damaged beyond what the others can make: a scrub of the file, which comes soon, names its bytes"
        ),
    }
}

/// Ranges of bytes, as people read them.
pub fn ranges(ranges: &[std::ops::Range<u64>]) -> String {
    let named: Vec<String> = ranges.iter().map(|range| format!("{} to {}", range.start, range.end)).collect();
    named.join(", ")
}

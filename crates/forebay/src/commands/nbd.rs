//! `forebay nbd`: an object, or a file of a cluster on the network, as a block device, until it is stopped.

use super::files;
use super::object::{number, unless_ring};
use super::put::require_object;
use crate::args::{self, StripingArgs};
use crate::context::Context;
use crate::show::say;
use clap::Args;
use forebay_client::Cluster;
use forebay_client::files::blocking::FilesClient;
use forebay_client::objects::Named;
use forebay_env::Network;
use forebay_env::real::file;
use forebay_env::real::signal::Stop;
use forebay_env::real::{TcpNetwork, UnixNetwork};
use forebay_model::{Bytes, Error, Kind, Result};
use forebay_nbd::{Disk, FileDisk, ObjectDisk, Server};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// How long clients may take to read their last answers.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is served, and where.
#[derive(Args)]
pub struct NbdArgs {
    /// The object, or the file of a cluster on the network
    name: String,
    /// An address of this machine and a port, 0 for any that is free; or the path of a Unix socket, which only this user
    /// can use
    #[arg(long, default_value = "127.0.0.1:10809", value_name = "ADDRESS")]
    listen: String,
    /// Create it with this size, if it is not there; it takes space as it is written to
    #[arg(long, value_name = "SIZE")]
    size: Option<Bytes>,
    /// Who may do what with a file that is created, in octal; 644 if nothing is said
    #[arg(long, value_name = "MODE", value_parser = args::mode, requires = "size")]
    mode: Option<u32>,
    /// How a file that is created is striped; as its volume says, where nothing else is said.
    #[command(flatten)]
    striping: StripingArgs,
}

/// Serves it.
pub fn run(context: &mut Context, args: &NbdArgs) -> Result<()> {
    let stop = Stop::on_signals()?;
    if args.size == Some(Bytes::ZERO) {
        return Err(Error::usage("a device of no bytes is none; give a --size, such as 10GiB"));
    }
    if let Some(files) = context.remote()? {
        let disk = Arc::new(opened(&files, args)?);
        let place = json!({ "file": disk.number() });
        let served = serve(context, args, &stop, disk.clone(), &place);
        let closed = disk.close();
        return served.and(closed);
    }
    require_object(args.mode, args.striping)?;
    context.with_cluster(|context, cluster| {
        let named = object(cluster, args)?;
        let place = json!({ "target": named.place.target.to_string(), "object": number(&named) });
        let disk = ObjectDisk::new(cluster.objects(), named.place, named.head.size);
        serve(context, args, &stop, Arc::new(disk), &place)
    })
}

/// Serves a device until it is to end. `place` says to programs what it is.
fn serve(context: &mut Context, args: &NbdArgs, stop: &Stop, disk: Arc<dyn Disk>, place: &Value) -> Result<()> {
    let size = disk.size();
    let unix = args.listen.contains('/');
    let listener = if unix { UnixNetwork.listen(&socket(&args.listen)?)? } else { TcpNetwork.listen(&args.listen)? };
    let server = Server::start(listener, &args.name, disk)?;
    let address = server.address();
    let uri = if unix {
        format!("nbd+unix://{}?socket={address}", args.name)
    } else {
        format!("nbd://{address}{}", args.name)
    };
    if context.json {
        let mut said = json!({ "name": args.name, "size_bytes": size, "listening": address, "uri": uri });
        for (field, value) in place.as_object().into_iter().flatten() {
            said[field] = value.clone();
        }
        context.out.json(&said)?;
    } else {
        context.out.line(format_args!("{} ({}) is a block device at {uri} until Ctrl-C.", args.name, Bytes(size)))?;
    }
    context.out.flush()?;
    stop.wait(None)?;
    server.close(PATIENCE);
    if unix && let Err(error) = file::remove(&args.listen) {
        say(&format!("forebay: the socket stays: {error}"));
    }
    Ok(())
}

/// The path from the root, by which others find it as well.
fn socket(path: &str) -> Result<String> {
    let (folder, name) = path.rsplit_once('/').unwrap_or((".", path));
    let folder = file::absolute(if folder.is_empty() { "/" } else { folder })?;
    Ok(folder.join(name).display().to_string())
}

/// The object, created if it is to be.
fn object(cluster: &Cluster, args: &NbdArgs) -> Result<Named> {
    let objects = cluster.objects();
    let named = match (objects.find(&args.name), args.size) {
        (Err(error), Some(size)) if error.kind == Kind::Missing => {
            let mut put = objects.put(&args.name, false)?;
            put.extend_to(size.0)?;
            put.finish()?
        }
        (Err(error), None) if error.kind == Kind::Missing => {
            let error = unless_ring(cluster, &args.name, error);
            return Err(match error.kind {
                Kind::Missing => makeable(&error),
                _ => error,
            });
        }
        (found, _) => found?,
    };
    check_size(args, Bytes(named.head.size))?;
    Ok(named)
}

/// The file, created if it is to be.
fn opened(files: &FilesClient, args: &NbdArgs) -> Result<FileDisk> {
    match (files.stat(&args.name), args.size) {
        (Err(error), Some(size)) if error.kind == Kind::Missing => {
            let (draft, file) = files::create_draft(files, &args.name, args.mode, args.striping)?;
            let sized = file.truncate(size);
            files::give_name(files, (&draft, file), sized.map(Some), &args.name, false)?;
        }
        (Err(error), None) if error.kind == Kind::Missing => return Err(makeable(&error)),
        (found, _) => {
            found?;
        }
    }
    let disk = FileDisk::open(files, &args.name)?;
    // The manager is told that nobody has it open after all.
    check_size(args, Bytes(disk.size())).inspect_err(|_| drop(disk.close()))?;
    Ok(disk)
}

fn makeable(error: &Error) -> Error {
    Error::missing(format!("{}; --size makes it", error.message))
}

/// That what is there can be served as it is asked for.
fn check_size(args: &NbdArgs, size: Bytes) -> Result<()> {
    match args.size {
        Some(asked) if asked != size => Err(Error::exists(format!(
            "{} exists already and has {} bytes, not {}; leave --size away to serve it as it is",
            args.name, size.0, asked.0
        ))),
        _ if size == Bytes::ZERO => Err(Error::usage(format!(
            "{} has no bytes, and a device needs some; take another name with --size",
            args.name
        ))),
        _ => Ok(()),
    }
}

//! `forebay nbd`: an object as a block device, until it is stopped.

use super::object::{number, unless_ring};
use crate::context::Context;
use crate::show::say;
use clap::Args;
use forebay_client::Cluster;
use forebay_client::objects::Named;
use forebay_env::Network;
use forebay_env::real::file;
use forebay_env::real::signal::Stop;
use forebay_env::real::{TcpNetwork, UnixNetwork};
use forebay_model::{Bytes, Error, Kind, Result};
use forebay_nbd::{ObjectDisk, Server};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// How long clients may take to read their last answers.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is served, and where.
#[derive(Args)]
pub struct NbdArgs {
    /// The object
    name: String,
    /// An address of this machine and a port, 0 for any that is free; or the path of a Unix socket, which only this user
    /// can use
    #[arg(long, default_value = "127.0.0.1:10809", value_name = "ADDRESS")]
    listen: String,
    /// Create the object with this size, if it is not there; it takes space as it is written to
    #[arg(long, value_name = "SIZE")]
    size: Option<Bytes>,
}

/// Serves it.
pub fn run(context: &mut Context, args: &NbdArgs) -> Result<()> {
    let stop = Stop::on_signals()?;
    context.with_cluster(|context, cluster| {
        let named = object(cluster, args)?;
        let size = named.head.size;
        let unix = args.listen.contains('/');
        let listener =
            if unix { UnixNetwork.listen(&socket(&args.listen)?)? } else { TcpNetwork.listen(&args.listen)? };
        let disk = ObjectDisk::new(cluster.objects(), named.place, size);
        let server = Server::start(listener, &args.name, Arc::new(disk))?;
        let address = server.address();
        let uri = if unix {
            format!("nbd+unix://{}?socket={address}", args.name)
        } else {
            format!("nbd://{address}{}", args.name)
        };
        if context.json {
            context.out.json(&json!({
                "name": args.name, "size_bytes": size, "listening": address, "uri": uri,
                "target": named.place.target.to_string(), "object": number(&named),
            }))?;
        } else {
            context.out.line(format_args!(
                "{} ({}) is a block device at {uri} until Ctrl-C.",
                args.name,
                Bytes(size)
            ))?;
        }
        context.out.flush()?;
        stop.wait(None)?;
        server.close(PATIENCE);
        if unix && let Err(error) = file::remove(&args.listen) {
            say(&format!("forebay: the socket stays: {error}"));
        }
        Ok(())
    })
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
    if args.size == Some(Bytes::ZERO) {
        return Err(Error::usage("a device of no bytes is none; give a --size, such as 10GiB"));
    }
    let named = match (objects.find(&args.name), args.size) {
        (Err(error), Some(size)) if error.kind == Kind::Missing => {
            let mut put = objects.put(&args.name, false)?;
            put.extend_to(size.0)?;
            put.finish()?
        }
        (Err(error), None) if error.kind == Kind::Missing => {
            let error = unless_ring(cluster, &args.name, error);
            return Err(match error.kind {
                Kind::Missing => Error::missing(format!("{}; --size makes it", error.message)),
                _ => error,
            });
        }
        (found, _) => found?,
    };
    let size = Bytes(named.head.size);
    match args.size {
        Some(asked) if asked != size => Err(Error::exists(format!(
            "{} exists already and has {} bytes, not {}; leave --size away to serve it as it is",
            args.name, size.0, asked.0
        ))),
        _ if size == Bytes::ZERO => Err(Error::usage(format!(
            "{} has no bytes, and a device needs some; take another name with --size",
            args.name
        ))),
        _ => Ok(named),
    }
}

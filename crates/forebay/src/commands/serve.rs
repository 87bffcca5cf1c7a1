//! `forebay serve`: everything of a directory, for this machine's processes and for the network, until it is stopped.

use crate::context::Context;
use crate::show::say;
use clap::Args;
use forebay_client::files::left::Mended;
use forebay_embedded::{FormatOptions, Measure, format};
use forebay_env::real::file;
use forebay_env::real::signal::Stop;
use forebay_model::{Bytes, Result};
use forebay_node::network::Bounds;
use forebay_serve::{Server, ServerOptions};
use forebay_wire::control::names::FileId;
use serde_json::json;
use std::path::PathBuf;

/// What is served, and where.
#[derive(Args)]
pub struct ServeArgs {
    /// The cluster's directory; it is made if it is not there, with one target in a file
    dir: PathBuf,
    /// Where the manager listens: an address and a port, 0 for any that is free
    #[arg(long, default_value = "127.0.0.1:7400", value_name = "ADDRESS")]
    listen: String,
    /// Where the node listens, which has the data
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    data: String,
    /// Where it tells over HTTP how it is: /status, and /metrics for Prometheus
    #[arg(long, value_name = "ADDRESS")]
    status: Option<String>,
    /// Nodes, each with a target of its own: of more than one, in DIR/node-1 and so on
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    nodes: u16,
    /// The size of each target that is made
    #[arg(long, default_value = "10GiB", value_name = "SIZE")]
    size: Bytes,
    /// Memory for what is written, and as much for what is read, of all connections together
    #[arg(long, default_value = "256MiB", value_name = "SIZE")]
    memory: Bytes,
    /// What may be on its way to a node of what is written: what its port in the network takes without dropping any
    #[arg(long, default_value = "192KiB", value_name = "SIZE")]
    intake: Bytes,
    /// Connections at once
    #[arg(long, default_value_t = 4096, value_name = "N")]
    connections: usize,
}

/// Serves it.
pub fn run(context: &mut Context, args: &ServeArgs) -> Result<()> {
    let stop = Stop::on_signals()?;
    let dirs: Vec<PathBuf> = match args.nodes {
        1 => vec![args.dir.clone()],
        nodes => (1..=nodes).map(|n| args.dir.join(format!("node-{n}"))).collect(),
    };
    for dir in &dirs {
        if !file::exists(dir.join("cluster.toml")) {
            format(dir, &FormatOptions::file(args.size, Measure::Guess))?;
            say(&format!("forebay: {} is a new cluster with a target of {}", dir.display(), args.size));
        }
    }
    let Bounds { patience, .. } = Bounds::default();
    let bounds = Bounds { connections: args.connections, memory: args.memory, intake: args.intake, patience };
    let options = ServerOptions {
        data: args.data.clone(),
        control: args.listen.clone(),
        tls: None,
        status: args.status.clone(),
        bounds,
        mended,
    };
    let server = Server::start(&args.dir, &dirs, &options)?;
    let (control, key) = (server.control(), server.key().display().to_string());
    if context.json {
        context.out.json(&json!({
            "cluster": format!("forebay://{control}"),
            "data": server.addresses(),
            "key": key,
            "status": server.status(),
        }))?;
    } else {
        context.out.line(format_args!("{} is served until Ctrl-C. To use it:", args.dir.display()))?;
        context.out.line(format_args!("  export FOREBAY_CLUSTER=forebay://{control} FOREBAY_ACCESS_KEY={key}"))?;
        if let Some(status) = server.status() {
            context
                .out
                .line(format_args!("How it is: http://{status}/status, and http://{status}/metrics for Prometheus"))?;
        }
    }
    context.out.flush()?;
    stop.wait(None)?;
    server.close()
}

/// Says what came of a file that a client left half written.
fn mended(file: FileId, mended: Result<Mended>) {
    say(&match mended {
        Ok(Mended { ended, size, repaired, lost }) if lost.is_empty() => format!(
            "forebay: {file} was left half written by a client that is gone: it is whole and has {size} ({ended} updates were \
             ended, {repaired} of parity or copies made to agree)"
        ),
        Ok(Mended { lost, .. }) => format!(
            "forebay: {file} was left half written by a client that is gone, and bytes {lost:?} of it are lost: restore them"
        ),
        Err(error) => format!(
            "forebay: {file} was left half written by a client that is gone; what was acknowledged is there, and the rest is \
             looked at again: {error}"
        ),
    });
}

//! `forebay node`: who may be a node of a cluster on the network.

use super::keys;
use crate::context::Context;
use crate::show::network;
use clap::{Args, Subcommand};
use forebay_env::real::file;
use forebay_model::{Error, Result};
use forebay_serve::admission;
use serde_json::json;
use std::path::PathBuf;

/// What a node needs beside, where TLS is spoken.
const TLS: &str = " --tls DIR --data 0.0.0.0:PORT --address NAME";

/// What to do with nodes.
#[derive(Subcommand)]
pub enum NodeCommand {
    /// Make a node known, and a key for it alone; `forebay serve DIR --join` takes that. What it had before counts no more
    Add(AddArgs),
    /// List nodes and their targets
    List,
    /// Forget a node whose targets are gone, and revoke its keys
    Rm(NodeArgs),
}

/// A node that is made known.
#[derive(Args)]
pub struct AddArgs {
    /// The node.
    #[command(flatten)]
    which: NodeArgs,
    /// The file that the node's key is written into; it must not be there
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
}

/// A node.
#[derive(Args)]
pub struct NodeArgs {
    /// Its number, from 1 on
    node: u64,
}

/// Does it.
pub fn run(context: &mut Context, command: NodeCommand) -> Result<()> {
    match command {
        NodeCommand::Add(args) => add(context, &args),
        NodeCommand::List => list(context),
        NodeCommand::Rm(args) => remove(context, args.node),
    }
}

fn add(context: &mut Context, args: &AddArgs) -> Result<()> {
    let (node, path) = (args.which.node, &args.key);
    if file::exists(path) {
        return Err(Error::exists(format!("{} is there already; name another file", path.display())));
    }
    let issued = context.manager()?.ask(move |manager| async move { admission::admit(&manager, node).await })?;
    keys::keep(context, path, &issued)?;
    if context.json {
        return context.out.json(&json!({ "node": node, "key": path.display().to_string() }));
    }
    let (cluster, tls) = (context.manager_name()?, if context.has_authority() { TLS } else { "" });
    let path = path.display();
    context.out.line(format_args!("Node {node} may join, with the key in {path}. On its machine:"))?;
    context.out.line(format_args!("  forebay serve DIR --join {cluster} --access-key {path}{tls}"))
}

fn list(context: &mut Context) -> Result<()> {
    let map = context.manager()?.ask(|manager| async move { admission::map(&manager).await })?;
    if context.json {
        return map.nodes.iter().try_for_each(|node| context.out.json(&network::node(&map, node)));
    }
    network::nodes(&map).iter().try_for_each(|line| context.out.line(line))
}

fn remove(context: &mut Context, node: u64) -> Result<()> {
    context.manager()?.ask(move |manager| async move { admission::dismiss(&manager, node).await })?;
    match context.json {
        true => context.out.json(&json!({ "removed_node": node })),
        false => context.out.line(format_args!("Node {node} is forgotten.")),
    }
}

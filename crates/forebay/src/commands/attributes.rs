//! `forebay chmod`, `forebay chown` and `forebay revoke`: who may use a file, directory or ring of a cluster on the network.

use super::{files, user};
use crate::args;
use crate::context::Context;
use clap::Args;
use forebay_model::{Error, Result};
use serde_json::json;

/// Who may do what from now on.
#[derive(Args)]
pub struct ChmodArgs {
    /// Read, write and search for owner, group and others, in octal, such as 640
    #[arg(value_parser = args::mode)]
    mode: u32,
    /// The file, directory or ring. Who has it open goes on for minutes, unless that is revoked
    name: String,
}

/// To whom something belongs from now on.
#[derive(Args)]
pub struct ChownArgs {
    /// The user, by number or name, and perhaps the group, by number: USER, USER:GROUP or :GROUP
    owner: String,
    /// The file, directory or ring
    name: String,
}

/// Of what all is taken back that was given out.
#[derive(Args)]
pub struct RevokeArgs {
    /// The file or ring: whoever uses it opens it again, if its mode still allows that
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    name: Option<String>,
    /// Everything in the cluster
    #[arg(long)]
    all: bool,
}

/// Says who may do what.
pub fn chmod(context: &mut Context, args: &ChmodArgs) -> Result<()> {
    let found = context.files()?.set_mode(&args.name, args.mode)?;
    match context.json {
        true => context.out.json(&files::entry(&args.name, found.file.0, &found.attributes)),
        false => context.out.line(format_args!("{} has mode {:04o} now.", args.name, found.attributes.mode)),
    }
}

/// Says to whom it belongs.
pub fn chown(context: &mut Context, args: &ChownArgs) -> Result<()> {
    let client = context.files()?;
    let (owner, group) = args.owner.split_once(':').map_or((args.owner.as_str(), None), |(u, g)| (u, Some(g)));
    if owner.is_empty() && group.is_none() {
        return Err(Error::usage("it is not said to whom it is to belong; write it like USER, USER:GROUP or :GROUP"));
    }
    let group = group.map(number_of_group).transpose()?;
    let owner = if owner.is_empty() { None } else { Some(user::number(&client, owner)?) };
    let found = client.set_owner(&args.name, owner, group)?;
    if context.json {
        return context.out.json(&files::entry(&args.name, found.file.0, &found.attributes));
    }
    let (owner, group) = (found.attributes.owner, found.attributes.group);
    context.out.line(format_args!("{} belongs to user {owner} and group {group} now.", args.name))
}

fn number_of_group(text: &str) -> Result<u32> {
    text.parse().map_err(|_| Error::usage(format!("'{text}' is not a group; groups have numbers, write it like 100")))
}

/// Takes back what was given out.
pub fn revoke(context: &mut Context, args: &RevokeArgs) -> Result<()> {
    let client = context.files()?;
    match &args.name {
        Some(name) => client.revoke(name)?,
        None => client.revoke_all()?,
    }
    let of = args.name.as_deref();
    match (context.json, of) {
        (true, of) => context.out.json(&json!({ "revoked": of.unwrap_or("all") })),
        (false, Some(of)) => context
            .out
            .line(format_args!("What was given out for {of} counts no more once its targets have heard of it.")),
        (false, None) => context.out.line("What was given out before counts no more once each node has reported."),
    }
}

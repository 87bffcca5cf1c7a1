//! One file for each command.

pub mod attributes;
pub mod check;
pub mod demo;
pub mod export;
pub mod files;
pub mod format;
pub mod gaps;
pub mod get;
pub mod heap;
pub mod keys;
pub mod manager;
pub mod nbd;
pub mod node;
pub mod object;
pub mod pin;
pub mod plan;
pub mod profile;
pub mod put;
pub mod query;
pub mod record;
pub mod ring;
pub mod scrub;
pub mod serve;
mod several;
pub mod status;
pub mod target;
pub mod user;
pub mod volume;

use crate::cli::{Cli, Command};
use crate::context::Context;
use forebay_model::Result;
use std::process::ExitCode;

/// Does what the command line asks for.
pub fn run(cli: Cli) -> Result<ExitCode> {
    let mut context = Context::new(cli.global)?;
    let context = &mut context;
    match cli.command {
        Command::Format(args) => format::run(context, &args)?,
        Command::Profile(args) => profile::run(context, &args)?,
        Command::Plan(args) => return plan::run(context, &args),
        Command::Ring(command) => ring::run(context, command)?,
        Command::Record(args) => record::run(context, &args)?,
        Command::Tail(args) => query::tail(context, &args)?,
        Command::Query(args) => query::run(context, &args)?,
        Command::Export(args) => export::run(context, &args)?,
        Command::Pin(args) => pin::pin(context, &args)?,
        Command::Unpin(args) => pin::unpin(context, &args)?,
        Command::Pins(args) => pin::pins(context, &args)?,
        Command::Gaps(args) => gaps::run(context, &args)?,
        Command::Put(args) => put::run(context, &args)?,
        Command::Get(args) => get::run(context, &args)?,
        Command::Ls(args) => object::ls(context, &args)?,
        Command::Stat(args) => object::stat(context, &args)?,
        Command::Snapshot(args) => object::snapshot(context, &args)?,
        Command::Rm(args) => object::rm(context, &args)?,
        Command::Mkdir(args) => files::mkdir(context, &args)?,
        Command::Mv(args) => files::mv(context, &args)?,
        Command::Chmod(args) => attributes::chmod(context, &args)?,
        Command::Chown(args) => attributes::chown(context, &args)?,
        Command::Revoke(args) => attributes::revoke(context, &args)?,
        Command::Serve(args) => serve::run(context, &args)?,
        Command::Keys(command) => keys::run(context, command)?,
        Command::User(command) => user::run(context, command)?,
        Command::Node(command) => node::run(context, command)?,
        Command::Manager(command) => manager::run(context, command)?,
        Command::Heap(command) => heap::run(context, command)?,
        Command::Nbd(args) => nbd::run(context, &args)?,
        Command::Volume(command) => volume::run(context, command)?,
        Command::Target(command) => target::run(context, command)?,
        Command::Status(args) => status::run(context, &args)?,
        Command::Top(args) => status::top(context, &args)?,
        Command::Check(args) => return check::run(context, &args),
        Command::Scrub(args) => return scrub::run(context, &args),
        Command::Bench(command) => crate::bench::run(context, &command)?,
        Command::Demo(args) => return demo::run(context, &args),
    }
    context.out.flush()?;
    Ok(ExitCode::SUCCESS)
}

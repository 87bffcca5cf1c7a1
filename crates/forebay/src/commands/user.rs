//! `forebay user`: who may use a cluster on the network, beside root.

use crate::context::Context;
use clap::{Args, Subcommand};
use forebay_client::files::blocking::FilesClient;
use forebay_model::{Error, Result};
use forebay_wire::control::access::User;
use serde_json::json;

/// What to do with users.
#[derive(Subcommand)]
pub enum UserCommand {
    /// Make a user, or give it another name or other groups; what is not said stays. Its key is made by `forebay keys issue`
    Set(SetArgs),
    /// List users and their groups
    List,
    /// Remove a user and its keys, also from whoever is connected with them; what belongs to it stays
    Rm(RmArgs),
}

/// A user as it is to be.
#[derive(Args)]
pub struct SetArgs {
    /// Its number, from 1 on
    user: u32,
    /// What people call it
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// A group, by its number; may be repeated: these and no others. What the user makes belongs to the first
    #[arg(long = "group", value_name = "N")]
    groups: Vec<u32>,
}

/// A user that is removed.
#[derive(Args)]
pub struct RmArgs {
    /// Its number or name
    user: String,
}

/// Does it.
pub fn run(context: &mut Context, command: UserCommand) -> Result<()> {
    let files = context.network("users are those of a cluster on the network")?;
    match command {
        UserCommand::Set(args) => set(context, &files, args),
        UserCommand::List => files.users().list()?.iter().try_for_each(|user| show(context, user)),
        UserCommand::Rm(args) => remove(context, &files, &args.user),
    }
}

fn set(context: &mut Context, files: &FilesClient, args: SetArgs) -> Result<()> {
    let SetArgs { user: number, name, groups } = args;
    let before = files.users().list()?.into_iter().find(|user| user.user == number);
    let (named, within) = before.map_or((None, Vec::new()), |user| (Some(user.name), user.groups));
    let Some(name) = name.or(named) else {
        return Err(Error::usage(format!("there is no user {number} yet; to make it, say --name NAME and --group N")));
    };
    let groups = if groups.is_empty() { within } else { groups };
    if groups.is_empty() {
        return Err(Error::usage(format!(
            "user {number} would be in no group, and what it makes belongs to its first; say --group N"
        )));
    }
    let user = User { user: number, name, groups };
    files.users().set(user.clone())?;
    show(context, &user)
}

fn remove(context: &mut Context, files: &FilesClient, user: &str) -> Result<()> {
    let user = number(files, user)?;
    files.users().remove(user)?;
    match context.json {
        true => context.out.json(&json!({ "removed_user": user })),
        false => context.out.line(format_args!("User {user} is removed, and its keys count no more.")),
    }
}

fn show(context: &mut Context, user: &User) -> Result<()> {
    if context.json {
        return context.out.json(&json!({ "user": user.user, "name": user.name, "groups": user.groups }));
    }
    let groups: Vec<String> = user.groups.iter().map(u32::to_string).collect();
    let (what, groups) = (if groups.len() == 1 { "group" } else { "groups" }, groups.join(", "));
    context.out.line(format_args!("{:>10}  {}  {what} {groups}", user.user, user.name))
}

/// The number of a user that is named by it, or by what people call it.
pub(super) fn number(files: &FilesClient, text: &str) -> Result<u32> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let found = files.users().list()?.into_iter().find(|user| user.name == text);
    let missing =
        || Error::missing(format!("there is no user '{text}'; `forebay user list` lists them, by number and name"));
    found.map(|user| user.user).ok_or_else(missing)
}

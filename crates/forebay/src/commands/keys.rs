//! `forebay keys`: certificates for TLS, access keys of users, and the keys of targets.

use super::user;
use crate::args;
use crate::context::Context;
use crate::show::{human, json};
use clap::{Args, Subcommand};
use forebay_env::real::file;
use forebay_model::{Error, Result, TargetId};
use forebay_serve::certificates::{self, MakeOptions};
use forebay_serve::key::{self, AccessKey};
use forebay_serve::{access, tls};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Whose keys they are.
const USERS: &str = "keys are those of users of a cluster on the network";

/// What to do with keys.
#[derive(Subcommand)]
pub enum KeysCommand {
    /// Make a certificate for a manager or a node, which `forebay serve --tls` takes, and an authority if there is none
    Make(MakeArgs),
    /// List access keys, without what is secret
    List(ListArgs),
    /// Make an access key
    Issue(IssueArgs),
    /// Take an access key back, also from whoever is connected with it
    Revoke(RevokeArgs),
    /// Give targets another key, which capabilities are signed with; what was made with the one before still counts
    Roll(RollArgs),
}

/// What a certificate is made for.
#[derive(Args)]
pub struct MakeArgs {
    /// The directory for it: authority.pem, certificate.pem and certificate.key
    dir: PathBuf,
    /// The names and addresses by which clients reach whoever shows it; this machine alone, if none is given
    names: Vec<String>,
    /// The directory of the authority, made if it is not there; DIR itself, if it is not given
    #[arg(long, value_name = "DIR")]
    authority: Option<PathBuf>,
    /// For how many days it is made
    #[arg(long, default_value_t = 365, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=36500))]
    days: u32,
}

/// Whose keys.
#[derive(Args)]
pub struct ListArgs {
    /// The user, by number or name; all of them, if none is given
    #[arg(long, value_name = "USER")]
    user: Option<String>,
}

/// What key is made.
#[derive(Args)]
pub struct IssueArgs {
    /// The file that it is written into; it must not be there
    file: PathBuf,
    /// For whom, by number or name; root, if nobody is named
    #[arg(long, default_value = "0", value_name = "USER")]
    user: String,
    /// What it is for, in your words
    #[arg(long, default_value = "", value_name = "TEXT")]
    label: String,
}

/// What key is taken back.
#[derive(Args)]
pub struct RevokeArgs {
    /// Its id, as `forebay keys list` has it
    #[arg(value_parser = id)]
    key: u64,
}

/// Whose key is rolled.
#[derive(Args)]
pub struct RollArgs {
    /// The target; all of them, if none is given
    #[arg(long, value_name = "ID", value_parser = args::target)]
    target: Option<TargetId>,
}

/// Does it.
pub fn run(context: &mut Context, command: KeysCommand) -> Result<()> {
    match command {
        KeysCommand::Make(args) => make(context, &args),
        KeysCommand::List(args) => list(context, args.user.as_deref()),
        KeysCommand::Issue(args) => issue(context, args),
        KeysCommand::Revoke(args) => revoke(context, args.key),
        KeysCommand::Roll(args) => roll(context, args.target),
    }
}

fn make(context: &mut Context, args: &MakeArgs) -> Result<()> {
    let authority = args.authority.as_deref().unwrap_or(&args.dir);
    let names = match args.names.is_empty() {
        true => ["localhost", "127.0.0.1", "::1"].map(str::to_string).to_vec(),
        false => args.names.clone(),
    };
    let is_new = certificates::make(&args.dir, authority, &MakeOptions { names: names.clone(), days: args.days })?;
    let (dir, trusted) = (args.dir.display(), args.dir.join(tls::AUTHORITY).display().to_string());
    if context.json {
        let authority = authority.display().to_string();
        return context.out.json(&json!({
            "dir": dir.to_string(), "names": names, "days": args.days, "ca": trusted, "authority": authority,
            "new_authority": is_new,
        }));
    }
    if is_new {
        let key = authority.join(tls::AUTHORITY_KEY);
        context.out.line(format_args!("A new authority; whoever has {} can vouch for anybody.", key.display()))?;
    }
    let names = names.join(", ");
    context.out.line(format_args!("A certificate for {names} is in {dir}: forebay serve ... --tls {dir}"))?;
    context.out.line(format_args!("Clients trust it with --ca {trusted}, or FOREBAY_CA."))
}

fn list(context: &mut Context, user: Option<&str>) -> Result<()> {
    let files = context.network(USERS)?;
    let user = user.map(|user| user::number(&files, user)).transpose()?;
    let mut users = files.users().list()?;
    users.retain(|known| user.is_none_or(|user| known.user == user));
    if let (Some(user), true) = (user, users.is_empty()) {
        return Err(Error::missing(format!("there is no user {user}; `forebay user list` lists them")));
    }
    let found = context.manager()?.ask(move |manager| async move {
        let mut found = Vec::new();
        for known in users {
            let keys = access::keys(&manager, known.user).await?;
            found.push((known, keys));
        }
        Ok(found)
    })?;
    for (user, keys) in found {
        for key in keys {
            if context.json {
                context.out.json(&json!({
                    "key": format!("{:016x}", key.key), "user": key.user, "name": user.name, "label": key.label,
                    "issued": json::time(key.issued),
                }))?;
            } else {
                let issued = human::clock(key.issued);
                context.out.line(format_args!("{:016x}  {issued}  {}  {}", key.key, user.name, key.label))?;
            }
        }
    }
    Ok(())
}

fn issue(context: &mut Context, args: IssueArgs) -> Result<()> {
    let IssueArgs { file: path, user, label } = args;
    if file::exists(&path) {
        return Err(Error::exists(format!("{} is there already; name another file", path.display())));
    }
    let user = user::number(&context.network(USERS)?, &user)?;
    let issued = context.manager()?.ask(move |manager| async move { access::issue(&manager, user, label).await })?;
    keep(context, &path, &issued)?;
    match context.json {
        true => context.out.json(&json!({
            "key": format!("{:016x}", issued.key), "user": user, "file": path.display().to_string(),
        })),
        false => context.out.line(format_args!("A key of user {user} is in {}.", path.display())),
    }
}

/// Writes a key that was issued into a file; one that nobody can have counts no more.
pub fn keep(context: &Context, path: &Path, issued: &AccessKey) -> Result<()> {
    let Err(error) = key::create(path, issued) else { return Ok(()) };
    let id = issued.key;
    let revoked = context.manager()?.ask(move |manager| async move { access::revoke(&manager, id).await });
    Err(error.of(match revoked {
        Ok(()) => "the key was taken back".to_string(),
        Err(_) => format!("key {id:016x} was issued and is nowhere: take it back with `forebay keys revoke {id:016x}`"),
    }))
}

fn revoke(context: &mut Context, key: u64) -> Result<()> {
    context.manager()?.ask(move |manager| async move { access::revoke(&manager, key).await })?;
    match context.json {
        true => context.out.json(&json!({ "revoked": format!("{key:016x}") })),
        false => context.out.line(format_args!("Key {key:016x} counts no more.")),
    }
}

fn roll(context: &mut Context, target: Option<TargetId>) -> Result<()> {
    context.manager()?.ask(move |manager| async move { access::roll(&manager, target).await })?;
    let of = target.map(|target| target.to_string());
    match (context.json, of) {
        (true, of) => context.out.json(&json!({ "rolled": of.unwrap_or_else(|| "all".to_string()) })),
        (false, Some(of)) => context.out.line(format_args!("Target {of} has another key when it has reported.")),
        (false, None) => context.out.line("Each target has another key when it has reported."),
    }
}

fn id(text: &str) -> Result<u64> {
    u64::from_str_radix(text, 16)
        .map_err(|_| Error::usage(format!("'{text}' is no id of a key; `forebay keys list` has them")))
}

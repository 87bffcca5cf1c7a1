//! `forebay heap`: small records under ids, in transactions.

mod get;
mod put;
mod records;

use super::several::with;
use crate::args::span;
use crate::context::Context;
use crate::show::{heaps, human, json, say};
use clap::{Args, Subcommand};
use forebay_client::Cluster;
use forebay_client::heaps::{Heap, HeapMode, HeapSettings, NewRoot, RecordId};
use forebay_env::real::signal::Stop;
use forebay_model::{Error, Kind, Result};
use records::{Input, stopped};
use serde_json::json;
use std::time::Duration;

/// Ids that are read from standard input before something is done with them.
const IDS_AT_ONCE: usize = 1024;

/// What to do with heaps.
#[derive(Subcommand)]
pub enum HeapCommand {
    /// Create a heap
    Create(CreateArgs),
    /// Put records: files, or a batch from standard input; prints their ids once they are committed
    Put(put::PutArgs),
    /// Write records, or the root, to standard output
    Get(get::GetArgs),
    /// Free records, all or none
    Free(FreeArgs),
    /// Name a record as the root
    Commit(CommitArgs),
    /// Commits that can be read, the newest first
    History(HistoryArgs),
    /// Commit, root, settings, space and slots of a heap
    Stat(NameArgs),
    /// Delete a heap with everything in it
    Delete(NameArgs),
}

/// A heap to create.
#[derive(Args)]
pub struct CreateArgs {
    /// Its name, such as /pages
    name: String,
    /// Free slots at which a group of slots that was full is used again; 1: any, at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    threshold: Option<u32>,
    /// Write once: no slot is ever used again, and every commit can be read for ever
    #[arg(long)]
    worm: bool,
    /// How long a commit can be read after the next one
    #[arg(long, value_name = "TIME", value_parser = span, conflicts_with = "worm")]
    keep: Option<Duration>,
}

/// Which commits.
#[derive(Args)]
pub struct HistoryArgs {
    /// The heap
    name: String,
    /// So many at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

/// A heap.
#[derive(Args)]
pub struct NameArgs {
    /// Its name
    name: String,
}

/// What to free.
#[derive(Args)]
pub struct FreeArgs {
    /// The heap
    name: String,
    /// The records; - reads their ids from standard input, one a line
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// Commit after so many records, about, and at the end; without, once at the end, so that all are freed or none
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    commit_every: Option<u64>,
}

/// The root to be.
#[derive(Args)]
pub struct CommitArgs {
    /// The heap
    name: String,
    /// The record that is the root from then on, or none
    #[arg(long, value_name = "ID", value_parser = root)]
    root: NewRoot,
}

/// Reads an id, or `none`.
fn root(text: &str) -> Result<NewRoot> {
    if text == "none" { Ok(NewRoot::None) } else { text.parse().map(NewRoot::Record) }
}

/// Does it.
pub fn run(context: &mut Context, command: HeapCommand) -> Result<()> {
    match command {
        HeapCommand::Create(args) => create(context, &args),
        HeapCommand::Put(args) => put::run(context, &args),
        HeapCommand::Get(args) => get::run(context, &args),
        HeapCommand::Free(args) => free(context, &args),
        HeapCommand::Commit(args) => commit(context, &args),
        HeapCommand::History(args) => history(context, &args),
        HeapCommand::Stat(args) => context.with_cluster(|context, cluster| {
            let heap = cluster.heaps().info(&args.name).map_err(|error| unless_other(cluster, &args.name, error))?;
            if context.json {
                return context.out.json(&json::heap(&heap));
            }
            heaps::details(&heap).iter().try_for_each(|line| context.out.line(line))
        }),
        HeapCommand::Delete(args) => context.with_cluster(|context, cluster| {
            cluster.heaps().delete(&args.name).map_err(|error| unless_other(cluster, &args.name, error))?;
            match context.json {
                true => context.out.json(&json!({ "deleted": args.name })),
                false => context.out.line(format_args!("Deleted {}.", args.name)),
            }
        }),
    }
}

fn create(context: &mut Context, args: &CreateArgs) -> Result<()> {
    let default = HeapSettings::default();
    let settings = HeapSettings {
        threshold: args.threshold.unwrap_or(default.threshold),
        mode: if args.worm { HeapMode::Worm } else { HeapMode::ReadWrite },
        keep: args.keep.unwrap_or(default.keep),
    };
    context.with_cluster(|context, cluster| {
        let heap = cluster.heaps().create(&args.name, settings)?;
        if context.json {
            return context.out.json(&json::heap(&heap));
        }
        context.out.line(format_args!("Created {}: {}.", args.name, heaps::settings(&settings)))
    })
}

fn history(context: &mut Context, args: &HistoryArgs) -> Result<()> {
    context.with_cluster(|context, cluster| {
        let mut heap = open(cluster, &args.name)?;
        let most = args.limit.unwrap_or(u64::MAX);
        if context.json {
            return heap.history(most, |commit| context.out.json(&json::commit(&commit)));
        }
        let mut commits = Vec::new();
        heap.history(most, |commit| {
            commits.push(commit);
            Ok(())
        })?;
        heaps::commits(&commits).iter().try_for_each(|line| context.out.line(line))
    })
}

fn free(context: &mut Context, args: &FreeArgs) -> Result<()> {
    let stop = Stop::on_signals()?;
    let mut ids = Ids::new(&args.ids, &stop)?;
    context.with_cluster(|context, cluster| {
        let mut heap = open(cluster, &args.name)?;
        let mut freeing = Freeing { every: args.commit_every.unwrap_or(u64::MAX), ..Freeing::default() };
        let all = freeing.all(&mut heap, &mut ids, &stop);
        all.inspect_err(|_| abort(&mut heap)).map_err(|error| match freeing.left(&args.name) {
            None => error,
            Some(left) => with(error, &left),
        })?;
        let Freeing { committed, commit, .. } = freeing;
        if context.json {
            return context.out.json(&json!({ "name": args.name, "freed": committed, "commit": commit }));
        }
        context.out.line(format_args!("Freed {} of {}.", human::some(committed, "record"), args.name))
    })
}

/// How far records are freed.
#[derive(Default)]
struct Freeing {
    /// Records after which there is a commit.
    every: u64,
    freed: u64,
    committed: u64,
    /// The last commit.
    commit: Option<u64>,
    /// Whether it is not known if the last commit was made.
    is_unknown: bool,
}

impl Freeing {
    fn all(&mut self, heap: &mut Heap, ids: &mut Ids, stop: &Stop) -> Result<()> {
        while let Some(some) = ids.next_some()? {
            if stop.is_set() {
                return Err(stopped().of(format!("freeing records of {}", heap.name())));
            }
            heap.free(&some)?;
            self.freed += some.len() as u64;
            if self.freed - self.committed >= self.every {
                self.commit(heap)?;
            }
        }
        if self.freed > self.committed { self.commit(heap) } else { Ok(()) }
    }

    fn commit(&mut self, heap: &mut Heap) -> Result<()> {
        let commit = heap.commit(NewRoot::Same);
        self.made(commit)
    }

    /// Takes down what came of a commit.
    fn made(&mut self, commit: Result<u64>) -> Result<()> {
        self.is_unknown = commit.as_ref().is_err_and(|error| error.kind == Kind::Disconnected);
        self.commit = Some(commit?);
        self.committed = self.freed;
        Ok(())
    }

    /// What is said of the records of a heap where it ends before all are freed, if that is more than that none was.
    fn left(&self, name: &str) -> Option<String> {
        let first = (self.committed > 0).then(|| human::some(self.committed, "record"));
        match (first, self.is_unknown) {
            (None, false) => None,
            (None, true) => Some(format!("all that were to be freed of {name} were, or none")),
            (Some(first), false) => Some(format!("of {name} {first} were freed before")),
            (Some(first), true) => {
                Some(format!("of {name} {first} were freed before; all that came after were freed as well, or none"))
            }
        }
    }
}

fn commit(context: &mut Context, args: &CommitArgs) -> Result<()> {
    context.with_cluster(|context, cluster| {
        let commit = open(cluster, &args.name)?.commit(args.root)?;
        let root = match args.root {
            NewRoot::Record(id) => Some(id.to_string()),
            NewRoot::None | NewRoot::Same => None,
        };
        if context.json {
            return context.out.json(&json!({ "name": args.name, "commit": commit, "root": root }));
        }
        let root = root.map_or_else(|| "has no root".to_string(), |root| format!("has the root {root}"));
        context.out.line(format_args!("Commit {commit} of {} {root}.", args.name))
    })
}

/// Ids that were named, or that come on standard input.
enum Ids {
    Named(Vec<RecordId>),
    Input(Box<Input>),
}

impl Ids {
    fn new(words: &[String], stop: &Stop) -> Result<Ids> {
        if let [word] = words
            && word == "-"
        {
            return Ok(Ids::Input(Box::new(Input::new(stop)?)));
        }
        words.iter().map(|word| word.parse()).collect::<Result<_>>().map(Ids::Named)
    }

    /// The next of them; `None` at the end.
    fn next_some(&mut self) -> Result<Option<Vec<RecordId>>> {
        let mut some = Vec::new();
        match self {
            Ids::Named(ids) => some = std::mem::take(ids),
            Ids::Input(input) => {
                while some.len() < IDS_AT_ONCE
                    && let Some(id) = input.id()?
                {
                    some.push(id);
                }
            }
        }
        Ok((!some.is_empty()).then_some(some))
    }
}

/// A way to the records of a heap.
fn open(cluster: &Cluster, name: &str) -> Result<Heap> {
    cluster.heaps().open(name).map_err(|error| unless_other(cluster, name, error))
}

/// Undoes what is not committed.
fn abort(heap: &mut Heap) {
    if let Err(error) = heap.abort() {
        say(&format!("forebay: what was not committed was not undone yet: {error}"));
    }
}

/// The error, unless the name is that of something else.
fn unless_other(cluster: &Cluster, name: &str, error: Error) -> Error {
    if error.kind != Kind::Missing {
        return error;
    }
    if cluster.ring(name).is_ok() {
        return Error::usage(format!("{name} is a ring; see `forebay ring show {name}`"));
    }
    if cluster.objects().find(name).is_ok() {
        return Error::usage(format!("{name} is an object; see `forebay stat {name}`"));
    }
    error
}

#[cfg(test)]
mod tests;

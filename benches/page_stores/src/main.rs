//! Forebay's heap beside redb, fjall and RocksDB as stores of pages: the same loads over each, in turns, in fresh
//! directories on the same disk, every commit durable. `README.md` beside this says how, and how each is set.
//!
//! It is exempt from the lint about doors: its rivals have doors of their own.

#![allow(clippy::disallowed_methods)]

mod measure;
mod stores;
mod table;

use clap::{Parser, ValueEnum};
use forebay_env::real::{file, process};
use forebay_model::{Bytes, Error, Result};
use forebay_sim::heap::load::Work;
use forebay_sim::heap::{churn, pages, tree};
use measure::{Figures, Store};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What is put and freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Load {
    /// The pages of three B+trees, without their keys
    Pages,
    /// Keys, in three B+trees
    Tree,
    /// Records that are replaced at random
    Churn,
}

/// Forebay's heap beside other engines, as stores of pages.
#[derive(Parser)]
#[command(name = "page-stores")]
pub struct Options {
    /// A directory on the disk that is to be measured; what is made in it is removed
    #[arg(long)]
    dir: PathBuf,
    /// What is put and freed, as `forebay bench heap` has it
    #[arg(long, value_enum, default_value = "churn")]
    load: Load,
    /// Keys of each tree, or records that are there at any moment
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,
    /// Keys, or puts, between commits
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    per_commit: u64,
    /// churn: bytes of a record, instead of 64 to 8182 and 1.5 KB on average
    #[arg(long, value_name = "SIZE")]
    record_bytes: Option<Bytes>,
    /// churn: how many times each record is replaced, on average
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    replace: u64,
    /// How often each store is measured, in turns
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Which, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Store::all())]
    stores: Vec<Store>,
    /// Memory for pages, of each store: for those that wait, and for those that were read
    #[arg(long, default_value = "64MiB", value_name = "SIZE")]
    cache: Bytes,
    /// Bytes of the heap's device file
    #[arg(long, default_value = "4GiB", value_name = "SIZE")]
    size: Bytes,
    /// Seed of the load
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Figures as JSON
    #[arg(long)]
    json: bool,
}

impl Options {
    fn work(&self) -> Work {
        let (keys, per_commit) = (self.keys, self.per_commit);
        match self.load {
            Load::Pages => Work::Pages(pages::Load { keys, per_commit }),
            Load::Tree => Work::Tree(tree::Load { keys, per_commit, order: tree::Order::Both }),
            Load::Churn => Work::Churn(churn::Load {
                keys,
                record: self.record_bytes.map(|bytes| bytes.0 as usize),
                rounds: self.replace,
                per_commit,
            }),
        }
    }
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("page-stores: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    if options.cache < Bytes::mib(8) {
        return Err(Error::usage(format!(
            "{} of memory is too little for any of them; give 8MiB at least",
            options.cache
        )));
    }
    let mut figures: Vec<(Store, Vec<Figures>)> = options.stores.iter().map(|store| (*store, Vec::new())).collect();
    let count = figures.len();
    for round in 0..options.rounds {
        // Who goes first differs from round to round: the disk may not be as it was.
        for turn in 0..count {
            let (store, rounds) = &mut figures[(turn + round as usize) % count];
            let measured = in_directory(&options.dir, |dir| measure::measure(options, *store, dir))?;
            eprintln!("round {} of {}: {}: {measured}", round + 1, options.rounds, store.name());
            rounds.push(measured);
        }
    }
    table::show(options, &figures)
}

/// Measures in a directory of its own, which is removed afterwards with all that is in it.
fn in_directory<T>(parent: &Path, measure: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    if !file::is_directory(parent) {
        let parent = parent.display();
        return Err(Error::usage(format!("{parent} is not a directory; name one on the disk to be measured")));
    }
    let dir = parent.join(format!("page-stores-{}.forebay-tmp", process::id()));
    file::make_directory(&dir)?;
    let measured = measure(&dir);
    let removed = file::remove_directory(&dir);
    let measured = measured?;
    removed?;
    Ok(measured)
}

//! Simulates by seed, for as many seeds as asked for: `simulate [SEED] [--seeds N]`. Lives of rings and their sufferings on bad
//! disks; with `--promise` rings with a promise beside everything else; with `--cluster` lives of whole clusters, with `--short`
//! shorter ones. On a terminal it says how far it is; a seed that fails is told with the command that replays it, and the
//! others go on.

mod asked;
mod clusters;
mod progress;
mod promises;
mod rings;

use asked::{Asked, Subject};
use progress::Progress;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(asked) = Asked::parse(&arguments) else {
        eprintln!("usage: simulate [SEED] [--seeds N] [--promise | --cluster [--short]]");
        return ExitCode::from(2);
    };
    match asked.subject {
        Subject::Rings => each(&asked, rings::live),
        Subject::Promises => each(&asked, promises::keep),
        Subject::Clusters => each(&asked, clusters::live),
        Subject::ShortClusters => each(&asked, clusters::live_shortly),
    }
}

/// Has one seed after the other add what it did to a tally, and says what came of all.
fn each<T: Default + Debug>(asked: &Asked, one: impl Fn(u64, &mut T)) -> ExitCode {
    let progress = Progress::new(asked.count);
    let (mut tally, mut failed) = (T::default(), Vec::new());
    for seed in asked.from..asked.from.saturating_add(asked.count) {
        // What a seed that fails has added is only a count.
        if catch_unwind(AssertUnwindSafe(|| one(seed, &mut tally))).is_err() {
            eprintln!("seed {seed} failed; replay with: {}", asked.replay(seed));
            failed.push(seed);
        }
        progress.tell(seed - asked.from + 1, failed.len());
    }
    progress.clear();
    println!("{} seeds from {}: {tally:?}", asked.count, asked.from);
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("{} failed:", failed.len());
    failed.iter().for_each(|seed| println!("  {}", asked.replay(*seed)));
    ExitCode::FAILURE
}

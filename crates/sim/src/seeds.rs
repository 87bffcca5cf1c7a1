//! Many seeds for one test, and how to replay one of them.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The variable that makes [`each`] run one seed only.
pub const SEED: &str = "FOREBAY_SEED";
/// The variable that multiplies how many seeds [`each_of`] runs, for long searches.
pub const FACTOR: &str = "FOREBAY_SEEDS_FACTOR";
/// The variable that says how many times chance is asked before a world begins: with each number, all tests have other chance.
pub const DRAWS: &str = "FOREBAY_DRAWS";

#[expect(clippy::disallowed_methods, reason = "which seed to replay is told from outside")]
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// How many times chance is asked before a world begins.
pub(crate) fn draws() -> u64 {
    number(DRAWS).unwrap_or(0)
}

/// Whether one seed is replayed, so that what only many seeds reach cannot be demanded.
pub fn is_replay() -> bool {
    number(SEED).is_some()
}

/// Whether these are the seeds and draws of the suite: of others nobody can demand that enough happens in them.
pub fn are_the_suites() -> bool {
    !is_replay() && number(DRAWS).is_none()
}

/// Runs `test` with `count` seeds, or with the one in `FOREBAY_SEED`. The panic of a failing seed names the seed and
/// the command that replays it.
pub fn each(count: u64, test: impl Fn(u64)) {
    each_of(0..count, test);
}

/// As [`each`], with these seeds, so that several tests share them.
pub fn each_of(seeds: Range<u64>, test: impl Fn(u64)) {
    if let Some(seed) = number(SEED) {
        return test(seed);
    }
    let factor = number(FACTOR).unwrap_or(1);
    for seed in seeds.start * factor..seeds.end * factor {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| test(seed))) {
            let said = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("(no message)");
            panic!("{}", failure(seed, number(DRAWS), std::thread::current().name(), said));
        }
    }
}

/// What is said of a seed that failed, with so many draws, in the test of that name, which is that of its thread.
fn failure(seed: u64, draws: Option<u64>, test: Option<&str>, said: &str) -> String {
    // With one thread for all of them, a test has none of its own.
    let test = test.filter(|name| *name != "main").map_or(String::new(), |name| format!(" {name} -- --exact"));
    let draws = draws.map_or(String::new(), |draws| format!("{DRAWS}={draws} "));
    format!("seed {seed} failed: {said}\nreplay with: {draws}{SEED}={seed} cargo test -p forebay-sim{test}")
}

#[cfg(test)]
mod tests;

//! Many seeds for one test, and how to replay one of them.

use super::next;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The variable that makes [`each`] run one seed only.
const SEED: &str = "FOREBAY_SEED";
/// The variable that multiplies how many seeds [`each`] runs, for long searches.
const FACTOR: &str = "FOREBAY_SEEDS_FACTOR";

/// Chance that a seed decides.
pub(crate) struct Chance(Cell<u64>);

impl Chance {
    /// A number.
    pub(crate) fn next(&self) -> u64 {
        let mut state = self.0.get();
        let number = next(&mut state);
        self.0.set(state);
        number
    }

    /// A number below `bound`.
    pub(crate) fn below(&self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// True once in `n` times.
    pub(crate) fn once_in(&self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of these.
    pub(crate) fn of<'a, T>(&self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// So many bytes at most.
    pub(crate) fn bytes(&self, most: usize) -> Vec<u8> {
        (0..self.below(most + 1)).map(|_| self.next() as u8).collect()
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Whether one seed is replayed, so that what only many seeds reach cannot be demanded.
pub(crate) fn is_replay() -> bool {
    number(SEED).is_some()
}

/// Runs `test` with `count` seeds, or with the one in `FOREBAY_SEED`. The panic of a failing seed names it.
pub(crate) fn each(count: u64, test: impl Fn(&Chance)) {
    let run = |seed: u64| test(&Chance(Cell::new(seed.wrapping_mul(0xa076_1d64_78bd_642f))));
    if let Some(seed) = number(SEED) {
        return run(seed);
    }
    for seed in 0..count * number(FACTOR).unwrap_or(1) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(seed))) {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("(no message)");
            panic!("seed {seed} failed: {said}\nreplay with {SEED}={seed} cargo test -p forebay-wire");
        }
    }
}

//! For tests: many seeds for one test, and how to replay one of them.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The variable that makes [`each`] run one seed only.
const SEED: &str = "FOREBAY_SEED";

/// Chance that a seed decides.
pub(crate) struct Chance(Cell<u64>);

impl Chance {
    /// The same for the same seed.
    pub(crate) fn of(seed: u64) -> Chance {
        Chance(Cell::new(seed.wrapping_mul(0xa076_1d64_78bd_642f)))
    }

    /// A number.
    pub(crate) fn next(&self) -> u64 {
        self.0.set(self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        let mixed = (self.0.get() ^ self.0.get() >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `bound`.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// True once in `n` times.
    pub(crate) fn once_in(&self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Whether one seed is replayed, so that what only many seeds reach cannot be demanded.
pub(crate) fn is_replay() -> bool {
    given().is_some()
}

#[expect(clippy::disallowed_methods, reason = "which seed to replay is told from outside")]
fn given() -> Option<u64> {
    std::env::var(SEED).ok().and_then(|text| text.parse().ok())
}

/// Runs `test` with `count` seeds, or with the one in `FOREBAY_SEED`. The panic of a failing seed names it.
pub(crate) fn each(count: u64, test: impl Fn(&Chance)) {
    let run = |seed: u64| test(&Chance::of(seed));
    if let Some(seed) = given() {
        return run(seed);
    }
    for seed in 0..count {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(seed))) {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("(no message)");
            panic!("seed {seed} failed: {said}\nreplay with {SEED}={seed}");
        }
    }
}

/// Chance that a seed decides, behind the door to it.
impl forebay_env::Random for Chance {
    fn next_u64(&self) -> u64 {
        self.next()
    }
}

//! Chance that a seed decides, and tests of many seeds.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Chance that a seed decides.
pub(in crate::file) struct Chance(Cell<u64>);

impl Chance {
    pub(in crate::file) fn of(seed: u64) -> Chance {
        Chance(Cell::new(seed.wrapping_mul(0xa076_1d64_78bd_642f)))
    }

    pub(in crate::file) fn next(&self) -> u64 {
        self.0.set(self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        let mixed = (self.0.get() ^ self.0.get() >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(in crate::file) fn below(&self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(in crate::file) fn once_in(&self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Runs `test` with `count` seeds, or with the one in `FOREBAY_SEED`; `FOREBAY_SEEDS_FACTOR` times as many for long
/// searches. The panic of a failing seed names it.
#[expect(clippy::disallowed_methods, reason = "which seed to replay is told from outside")]
pub(in crate::file) fn each(count: u64, test: impl Fn(u64)) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    if let Some(seed) = number("FOREBAY_SEED") {
        return test(seed);
    }
    for seed in 0..count * number("FOREBAY_SEEDS_FACTOR").unwrap_or(1) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| test(seed))) {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("(no message)");
            panic!("seed {seed} failed: {said}\nreplay with FOREBAY_SEED={seed}");
        }
    }
}

//! Chance for tests that a seed replays.

// The seed to replay comes from the environment of the test.
#![allow(clippy::disallowed_methods)]

use super::Random;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::cell::RefCell;

pub(crate) struct Seeded(RefCell<ChaCha8Rng>);

impl Seeded {
    pub(crate) fn new(seed: u64) -> Seeded {
        Seeded(RefCell::new(ChaCha8Rng::seed_from_u64(seed)))
    }

    /// From `FOREBAY_SEED` if it is set, else from a fresh seed; prints it, so that a failure can be replayed.
    pub(crate) fn announced(name: &str) -> Seeded {
        let given = std::env::var("FOREBAY_SEED").ok().and_then(|text| text.parse().ok());
        let seed = given.unwrap_or_else(|| crate::real::KernelRandom::default().next_u64());
        println!("{name}: replay with FOREBAY_SEED={seed}");
        Seeded::new(seed)
    }
}

impl Random for Seeded {
    fn next_u64(&self) -> u64 {
        self.0.borrow_mut().next_u64()
    }
}

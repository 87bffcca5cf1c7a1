//! Seeded numbers for the random tests of this crate.

/// A small generator (SplitMix64): enough for tests, and the same everywhere.
pub(crate) struct Chance(u64);

impl Chance {
    /// Starts from `FOREBAY_SEED` if it is set, else from a fixed seed; prints it, so that a failure can be replayed.
    pub(crate) fn for_test(name: &str) -> Chance {
        // The one thing a test may ask the environment for: which run to replay.
        #[allow(clippy::disallowed_methods)]
        let seed = std::env::var("FOREBAY_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(0x5eed);
        eprintln!("{name}: replay with FOREBAY_SEED={seed}");
        Chance(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// True once in `n` times.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

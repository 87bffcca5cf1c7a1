//! How large generated elements are.

use super::chance::Chance;
use forebay_model::{Bytes, Error, Result};

/// A distribution of sizes.
#[derive(Debug, Clone, PartialEq)]
pub enum Sizes {
    /// All the same.
    Fixed(Bytes),
    /// Any size between these two, both included, each as often as any other.
    Uniform(Bytes, Bytes),
    /// These sizes, each so often in proportion.
    Weighted(Vec<(Bytes, u32)>),
}

impl Sizes {
    /// From 20 B to 60 MB, such that each size has about the same share of the bytes.
    pub fn mixed() -> Sizes {
        const LARGEST: u64 = 60_000_000;
        let sizes = [20, 1_000, 64_000, 1_000_000, LARGEST];
        Sizes::Weighted(sizes.into_iter().map(|size| (Bytes(size), (LARGEST / size) as u32)).collect())
    }

    /// The largest size that occurs.
    pub fn largest(&self) -> Bytes {
        match self {
            Sizes::Fixed(size) => *size,
            Sizes::Uniform(_, largest) => *largest,
            Sizes::Weighted(weights) => weights.iter().map(|(size, _)| *size).max().unwrap_or_default(),
        }
    }
}

/// Picks sizes.
pub(super) struct Picker {
    sizes: Sizes,
    total: u64,
    chance: Chance,
}

impl Picker {
    pub(super) fn new(sizes: Sizes, chance: Chance) -> Result<Picker> {
        let total = match &sizes {
            Sizes::Fixed(_) => 0,
            Sizes::Uniform(smallest, largest) if smallest > largest => {
                return Err(Error::usage(format!("there is no size from {smallest} up to {largest}; swap the two")));
            }
            Sizes::Uniform(smallest, largest) => (largest.0 - smallest.0).saturating_add(1),
            Sizes::Weighted(weights) => weights.iter().map(|(_, weight)| u64::from(*weight)).sum(),
        };
        if matches!(sizes, Sizes::Weighted(_)) && total == 0 {
            return Err(Error::usage("sizes whose weights add up to 0 never occur; give one of them a weight"));
        }
        if sizes.largest() == Bytes::ZERO {
            return Err(Error::usage("elements of 0 bytes make no stream; ask for 1 or more"));
        }
        Ok(Picker { sizes, total, chance })
    }

    pub(super) fn largest(&self) -> u64 {
        self.sizes.largest().0
    }

    #[inline]
    pub(super) fn next(&mut self) -> u64 {
        match &self.sizes {
            Sizes::Fixed(size) => size.0,
            Sizes::Uniform(smallest, _) => smallest.0 + self.chance.below(self.total),
            Sizes::Weighted(weights) => {
                let mut at = self.chance.below(self.total);
                for (size, weight) in weights {
                    match at.checked_sub(u64::from(*weight)) {
                        Some(rest) => at = rest,
                        None => return size.0,
                    }
                }
                // Not reached: `at` is below the sum of the weights.
                self.sizes.largest().0
            }
        }
    }
}

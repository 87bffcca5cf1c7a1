//! Positioning times: small reads, each at a place where the head is not.

use forebay_env::{Env, Slab};
use forebay_model::{Bytes, Result};
use std::ops::Range;
use std::time::Duration;

/// Samples of each kind, if there is time.
const SAMPLES: u128 = 64;
/// Samples of each kind, whatever they cost.
const LEAST_SAMPLES: u128 = 12;
/// What a sample costs where something rotates, and elsewhere.
const COST_ROTATING: Duration = Duration::from_millis(20);
const COST_FLAT: Duration = Duration::from_millis(1);
/// Beyond what a drive reads ahead on its own, and what log areas are long.
const SHORT: Bytes = Bytes::mib(10);
/// Added by chance: a few turns' worth.
const SHORT_CHANCE: Bytes = Bytes::mib(4);

/// What was seen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seeks {
    pub short_worst: Duration,
    pub short_mean: Duration,
    pub full_worst: Duration,
    pub full_mean: Duration,
}

/// Where to read. Both kinds go downwards, since drives read on upwards by themselves: what is read was not in their
/// memory.
pub(super) struct Plan {
    /// Each a short distance from the one before, but where the flag is not set.
    short: Vec<(Bytes, bool)>,
    /// By turns at the end and near the start.
    full: Vec<(Bytes, bool)>,
}

impl Plan {
    /// Places in `extent` that can be sampled in about `budget`.
    pub(super) fn new(env: &Env, extent: &Range<Bytes>, rotates: bool, budget: Duration) -> Plan {
        let block = env.device.geometry().block;
        let by_chance = |most: Bytes| Bytes(env.random.below(most.0.max(1))).align_down(block);
        let length = extent.end - extent.start;
        let cost = if rotates { COST_ROTATING } else { COST_FLAT };
        let samples = ((budget / 2).as_nanos() / cost.as_nanos()).clamp(LEAST_SAMPLES, SAMPLES) as usize;
        let distance = SHORT.min(length / 8).align_down(block);
        let mut at = extent.end;
        let short = std::iter::repeat_with(|| {
            let next = at.saturating_sub(distance + by_chance(SHORT_CHANCE.min(distance)));
            let again = next < extent.start + block;
            at = if again { extent.end - block } else { next };
            (at, !again)
        });
        let short = short.take(samples + 1).collect();
        // Steps by chance, so that rotations are met at all angles.
        let step = length / (samples as u64 * 32);
        let mut down = Bytes::ZERO;
        let full = (0..=samples).map(|n| {
            down = (down + block + by_chance(step)).min(length / 4).align_down(block);
            let from = if n % 2 == 0 { extent.end - block } else { extent.start + length / 32 };
            (from.align_down(block).saturating_sub(down).max(extent.start), true)
        });
        let full = full.collect();
        Plan { short, full }
    }

    /// Writes all places.
    pub(super) async fn prepare(&self, env: &Env, slab: &Slab) -> Result<()> {
        let block = env.device.geometry().block;
        let mut places: Vec<Bytes> = self.short.iter().chain(&self.full).map(|(at, _)| *at).collect();
        places.sort_unstable();
        for some in places.chunks(slab.count()) {
            let mut writes = Vec::with_capacity(some.len());
            for at in some {
                let mut buffer = slab.take().await;
                buffer.set_len(block.0 as usize);
                writes.push(env.device.write(*at, buffer));
            }
            for write in writes {
                write.await.1?;
            }
        }
        env.device.flush().await
    }

    /// Reads all places.
    pub(super) async fn measure(&self, env: &Env, slab: &Slab) -> Result<Seeks> {
        let (short_worst, short_mean) = sample(env, slab, &self.short).await?;
        let (full_worst, full_mean) = sample(env, slab, &self.full).await?;
        // What chance did not meet, and what a write takes longer to settle than a read.
        let allow = |worst: Duration| worst + worst / 20;
        let short_worst = allow(short_worst);
        Ok(Seeks { short_worst, short_mean, full_worst: allow(full_worst).max(short_worst), full_mean })
    }
}

/// Worst and mean time of reads at `places`; only those with the flag count, and not the first, since nobody knows
/// where the head was before it.
async fn sample(env: &Env, slab: &Slab, places: &[(Bytes, bool)]) -> Result<(Duration, Duration)> {
    let block = env.device.geometry().block;
    let (mut worst, mut sum, mut count) = (Duration::ZERO, Duration::ZERO, 0);
    for (number, (offset, counts)) in places.iter().enumerate() {
        let mut buffer = slab.take().await;
        buffer.set_len(block.0 as usize);
        let start = env.clock.now();
        env.device.read(*offset, buffer).await.1?;
        let took = env.clock.now().since(start);
        if *counts && number > 0 {
            worst = worst.max(took);
            sum += took;
            count += 1;
        }
    }
    Ok((worst, sum / count.max(1)))
}

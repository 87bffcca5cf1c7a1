//! Positioning times: small reads, each at a place where the head is not.

use forebay_env::{Env, Slab};
use forebay_model::{Bytes, Result};
use std::ops::Range;
use std::time::Duration;

/// Samples of each kind, if there is time.
const SAMPLES: u32 = 64;
/// Samples of each kind, whatever they cost.
const LEAST_SAMPLES: u32 = 8;
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

/// Samples both kinds within about `budget`.
///
/// Both go downwards, since drives read on upwards by themselves: what is read was not in their memory.
pub(super) async fn measure(env: &Env, slab: &Slab, extent: &Range<Bytes>, budget: Duration) -> Result<Seeks> {
    let block = env.device.geometry().block;
    let length = extent.end - extent.start;
    // Steps between places of one kind, by chance, so that rotations are met at all angles.
    let step = (length / (u64::from(SAMPLES) * 32)).align_down(block).max(block);
    let by_chance = |most: Bytes| Bytes(env.random.below(most.0.max(1))).align_down(block);
    let short = SHORT.min(length / 8).align_down(block);
    let mut at = extent.end;
    let (short_worst, short_mean) = sample(env, slab, budget / 2, || {
        let next = at.saturating_sub(short + by_chance(SHORT_CHANCE.min(short)));
        let again = next < extent.start + block;
        at = if again { extent.end - block } else { next };
        (at, !again)
    })
    .await?;
    let (mut down, mut outside) = (Bytes::ZERO, false);
    let (full_worst, full_mean) = sample(env, slab, budget / 2, || {
        outside = !outside;
        down = (down + block + by_chance(step)).min(length / 4).align_down(block);
        let from = if outside { extent.start + length / 32 } else { extent.end - block };
        (from.align_down(block).saturating_sub(down).max(extent.start), true)
    })
    .await?;
    // What chance did not meet, and what a write takes longer to settle than a read.
    let allow = |worst: Duration| worst + worst / 20;
    let short_worst = allow(short_worst);
    Ok(Seeks { short_worst, short_mean, full_worst: allow(full_worst).max(short_worst), full_mean })
}

/// Worst and mean time of reads at the places that `place` names; it also says whether a read there counts.
async fn sample(
    env: &Env,
    slab: &Slab,
    budget: Duration,
    mut place: impl FnMut() -> (Bytes, bool),
) -> Result<(Duration, Duration)> {
    let block = env.device.geometry().block;
    let began = env.clock.now();
    let (mut worst, mut sum, mut count) = (Duration::ZERO, Duration::ZERO, 0);
    let mut first = true;
    while count < SAMPLES && (count < LEAST_SAMPLES || env.clock.now().since(began) < budget) {
        let (offset, counts) = place();
        let mut buffer = slab.take().await;
        buffer.set_len(block.0 as usize);
        let start = env.clock.now();
        let (_, result) = env.device.read(offset, buffer).await;
        result?;
        let took = env.clock.now().since(start);
        // Where the head was before the first read is not known.
        if counts && !first {
            worst = worst.max(took);
            sum += took;
            count += 1;
        }
        first = false;
    }
    Ok((worst, sum / count.max(1)))
}

//! What the mixed load asks for, and when.

use super::place::{HOT, READ, REGIONS, Regions, WRITTEN};
use crate::disk::Op;
use forebay_env::Random;
use forebay_model::Bytes;
use std::time::Duration;

/// Of a hundred accesses, so many read at places of chance, write there, and read in sequence; the others write in
/// sequence.
const READS: u64 = 42;
const WRITES: u64 = 48;
const SEQUENTIAL_READS: u64 = 8;
/// Of a hundred random accesses, so many go to hot regions.
const HOT_PERCENT: u64 = 80;
/// One of them is 4 KiB times two to the power of less than this.
const SIZES: u64 = 5;
/// One access in sequence.
const READ_AT_ONCE: u64 = Bytes::kib(256).0;
const WRITTEN_AT_ONCE: u64 = Bytes::mib(4).0;

/// One access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Access {
    /// When, from the beginning.
    pub(super) due: Duration,
    pub(super) op: Op,
    /// Whether it continues the one before of its kind.
    pub(super) sequential: bool,
    pub(super) region: u32,
    /// Its first byte in the region.
    pub(super) at: u64,
    pub(super) length: u64,
}

/// `iops` accesses a second on average, for so long; they come independently of each other.
pub(super) fn trace(random: &dyn Random, iops: u64, span: Duration, regions: &Regions) -> Vec<Access> {
    let mut accesses = Vec::new();
    let (mut read, mut written) = (0, 0);
    let mut due = Duration::ZERO;
    loop {
        let chance = (random.below(1 << 52) + 1) as f64 / (1u64 << 52) as f64;
        due += Duration::from_secs_f64(-chance.ln() / iops as f64);
        if due >= span {
            return accesses;
        }
        let next = |cursor: &mut u64, op, region, length| {
            let at = *cursor % (regions.length / length * length);
            *cursor = at + length;
            Access { due, op, sequential: true, region, at, length }
        };
        accesses.push(match random.below(100) {
            kind if kind < READS + WRITES => {
                let length = 4096 << random.below(SIZES);
                let at = random.below((regions.length - length) / 4096) * 4096;
                let op = if kind < READS { Op::Read } else { Op::Write };
                Access { due, op, sequential: false, region: region(random), at, length }
            }
            kind if kind < READS + WRITES + SEQUENTIAL_READS => next(&mut read, Op::Read, READ, READ_AT_ONCE),
            _ => next(&mut written, Op::Write, WRITTEN, WRITTEN_AT_ONCE),
        });
    }
}

/// Where a random access goes: to a hot region, or to any other that nobody goes through in sequence.
fn region(random: &dyn Random) -> u32 {
    if random.below(100) < HOT_PERCENT {
        return HOT[random.below(HOT.len() as u64) as usize];
    }
    loop {
        let region = random.below(u64::from(REGIONS)) as u32;
        if !HOT.contains(&region) && region != READ && region != WRITTEN {
            return region;
        }
    }
}

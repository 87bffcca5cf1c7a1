//! What may be promised: pure arithmetic over a profile, the promises already given, and a new one.
//!
//! The device's time is the currency. Each guarantee takes, of every second of the device, what its bytes take at the
//! lowest rate of the places it occupies, and what its worst positionings take; a set of guarantees is kept if these
//! shares add up to less than the whole ([`Load`]). A slow place that is passed in less time than deadlines have slack
//! is no obstacle: there, writes fall behind, and catch up later.
//!
//! That is the long run. In the short run, several costs may meet by accident (a hole in the middle of a checkpoint): a
//! guarantee is refused where its flush interval has no room for all of them at once, [`reserve`], beside the way back
//! and what is under way ([`least_lag`]). The scheduler holds nothing of that back from best-effort I/O. It counts
//! deadlines to the end of [`cycle`], which leaves the rest of the flush interval to the flush.
//!
//! Best-effort I/O is not charged. It starts only if its worst case, the way back included, fits in the slack; so it
//! lengthens no sweep, it only decides when the sweep begins.

pub(crate) mod place;

pub use place::{Placed, Wish, place};

use crate::schedule::AHEAD;
use crate::segment::IndexBudget;
use forebay_model::profile::FLUSH_BURST;
use forebay_model::ring::default_index_percent;
use forebay_model::{Bytes, Error, Profile, Rate, Result};
use std::ops::Range;
use std::time::Duration;

/// Bytes of a block that are no elements, on average: its header, and half of what blocks are rounded up to.
const BLOCK_OVERHEAD: f64 = 256.0 + 2048.0;
/// Bytes of a segment that neither are blocks nor postings: its trailer, and what its footer is rounded up to.
const SEGMENT_OVERHEAD: f64 = 8192.0;
/// Tables of segments and directories of blocks.
const TABLES: f64 = 0.0025;

/// Bytes of a ring that are headers, index and footers, as a share of its elements: what it may take beyond what the
/// guarantee counts. What stays free at a segment's end, where the next block would not have fitted, is not written, and
/// is not charged.
pub fn overhead(block: Bytes, segment: Bytes, index: IndexBudget) -> f64 {
    let (block, segment) = (block.0.max(1) as f64, segment.0.max(1) as f64);
    let rest = (index.bytes as f64 + SEGMENT_OVERHEAD).min(segment / 2.0);
    TABLES + BLOCK_OVERHEAD / block + rest / (segment - rest)
}

/// [`overhead`] of a ring with that many keys that leaves all else to the target, on a large device.
pub fn index_share(keys: usize) -> f64 {
    let segment = Bytes::mib(90);
    overhead(Bytes::mib(1), segment, IndexBudget::for_segment(segment, default_index_percent(keys), keys))
}

/// Share of the device's time that is never promised.
pub const MARGIN: f64 = 0.015;
/// Sealed segments of a ring between two checkpoints, at most: what opening has to walk.
const SEGMENTS_PER_CHECKPOINT: u64 = 32;
/// Durable steps of a checkpoint, each ended by a flush.
const STEPS_PER_CHECKPOINT: u32 = 4;
/// Positionings of a checkpoint: each step there, and every other one back; the rest ride at the end of a sweep, from
/// where the arm leaves anyway.
const POSITIONINGS_PER_CHECKPOINT: u32 = STEPS_PER_CHECKPOINT * 3 / 2;
/// What one step of a checkpoint may wait for a better moment: this part of a lap, as a divisor.
const PATIENCE: u32 = 128;
/// Each step may wait twice, with its write and with its flush.
const WAITS_PER_CHECKPOINT: u32 = 2 * STEPS_PER_CHECKPOINT;
/// Above this share of its place's rate, a ring gets groups without logs: it has no time to pass over them.
const WITHOUT_LOGS_PERCENT: u64 = 85;
/// Blocks of staging beyond rate and time: one being packed, one being sealed, and as many under way.
const STAGING_BLOCKS: u64 = 8;
/// The most memory of one ring for what is on its way to the device.
pub(crate) const MOST_STAGING: Bytes = Bytes::gib(4);
/// More than any device writes: where the search for the highest rate begins.
const UNHEARD_OF: Rate = Rate(1 << 40);

/// A guarantee, as the device feels it.
#[derive(Debug, Clone, PartialEq)]
pub struct Demand {
    /// Promised bytes per second.
    pub rate: Rate,
    /// How long an accepted element may take to be durable: the flush interval.
    pub lag: Duration,
    /// Where it writes, in its order; never empty.
    pub places: Vec<Range<Bytes>>,
    /// A log area lies behind each this many bytes of data; `None` where there are no logs.
    pub hole_every: Option<Bytes>,
    /// The most runs of pinned segments that are passed within one flush interval.
    pub skips_per_cycle: u32,
    /// Unit of overwriting and pinning: between two skips lies at least one.
    pub segment: Bytes,
    /// Bytes beyond the promised ones, as a share of them ([`overhead`]).
    pub index: f64,
    /// Segments of a lap: those that no pin holds.
    pub lap: u64,
}

impl Demand {
    /// Bytes per second that are written for the promised ones.
    pub fn written(&self) -> Rate {
        Rate((self.rate.0 as f64 * (1.0 + self.index)) as u64)
    }

    /// Sealed segments between two checkpoints: none has to be waited for. What is overwritten must have left the path
    /// that opening would walk; from its last block on, a segment is made durable, waits for the checkpoint under way,
    /// and is passed by the next one. Zero if a lap does not last long enough for that.
    pub fn segments_per_checkpoint(&self, profile: &Profile) -> u64 {
        if self.rate == Rate(0) {
            return (self.lap / 4).clamp(1, SEGMENTS_PER_CHECKPOINT);
        }
        let segment = self.written().time_for(self.segment);
        let checkpoint = profile.full_seek * POSITIONINGS_PER_CHECKPOINT
            + profile.flush * STEPS_PER_CHECKPOINT
            + self.patience() * WAITS_PER_CHECKPOINT;
        let passing = (self.lag + checkpoint * 2).as_secs_f64() / segment.as_secs_f64();
        let most = (self.lap as f64 / 2.0).min(SEGMENTS_PER_CHECKPOINT as f64);
        (self.lap as f64 - 1.0 - passing).clamp(0.0, most) as u64
    }

    /// How long a step of a checkpoint may wait.
    pub fn patience(&self) -> Duration {
        self.written().time_for(self.segment) * u32::try_from(self.lap).unwrap_or(u32::MAX) / PATIENCE
    }

    /// Lowest write rate of its places.
    pub fn floor(&self, profile: &Profile) -> Rate {
        let rates = self.places.iter().map(|p| profile.write_rate_within(p.start, p.end));
        rates.min().unwrap_or(Rate(1)).max(Rate(1))
    }

    /// The longest that its writes fall behind, in seconds, on their way through its places, if they come at `rate` and
    /// have `share` of the device's time; without end if they never catch up.
    fn delay(&self, profile: &Profile, rate: f64, share: f64) -> f64 {
        let (mut behind, mut longest) = (0.0f64, 0.0f64);
        let mut ends = [0.0; 2];
        // What is left over from the first lap meets the second.
        for end in &mut ends {
            for place in &self.places {
                let inside = profile.points.iter().map(|p| p.offset).filter(|o| *o > place.start && *o < place.end);
                let mut from = place.start;
                for to in inside.chain([place.end]) {
                    let bytes = (to - from).0 as f64;
                    behind += bytes / profile.write_rate(from).0 as f64 / share - bytes / rate;
                    behind = behind.max(0.0);
                    longest = longest.max(behind);
                    from = to;
                }
            }
            *end = behind;
        }
        if ends[1] > ends[0] { f64::INFINITY } else { longest }
    }

    /// Worst positioning from a place of `others`, or of its own, to one of its places.
    fn farthest(&self, profile: &Profile, others: &[&Demand]) -> Duration {
        let from = others.iter().flat_map(|d| &d.places).chain(&self.places);
        let distances = from.flat_map(|a| self.places.iter().map(move |b| distance(a, b)));
        let farthest = distances.max().unwrap_or(Bytes::ZERO);
        profile.position_time(Bytes::ZERO, farthest.max(Bytes(1)))
    }
}

/// The greatest distance between a point of one range and a point of the other.
fn distance(a: &Range<Bytes>, b: &Range<Bytes>) -> Bytes {
    Bytes(a.end.0.abs_diff(b.start.0).max(b.end.0.abs_diff(a.start.0)))
}

/// Shares of the device's time, 1 being all of it, that a set of guarantees takes in the long run at the worst.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Load {
    /// Moving the promised bytes, with their index, at the lowest rates of their places. With it the sum may exceed 1
    /// where these are so short that slack makes up for them.
    pub transfer: f64,
    /// Passing over logs and pinned segments.
    pub skips: f64,
    /// Moving from ring to ring.
    pub positions: f64,
    /// Checkpoints.
    pub checkpoints: f64,
    /// Flushes, beyond what the write rates contain.
    pub flushes: f64,
}

impl Load {
    /// The load of `demands` together.
    pub fn of(profile: &Profile, demands: &[&Demand]) -> Load {
        let mut load = Load::default();
        let Some(shortest) = demands.iter().map(|d| cycle(profile, d.lag)).min() else { return load };
        let seconds = |time: Duration| time.as_secs_f64();
        let (mut in_turn, mut preempting) = (0.0, 0.0);
        for demand in demands {
            let rate = demand.written().0 as f64;
            let segments = rate / demand.segment.0.max(1) as f64;
            load.transfer += rate / demand.floor(profile).0 as f64;
            let holes = demand.hole_every.map_or(0.0, |every| rate / every.0.max(1) as f64);
            let pinned = f64::from(demand.skips_per_cycle) / seconds(demand.lag).max(1e-9);
            // All skips are at boundaries of segments or before a log, so there are no more of them than of both.
            let over_pins = pinned.min((segments - holes).max(0.0));
            // Where each segment ends at a log, the way over a pinned one replaces the way over the log.
            let longer = (pinned - over_pins).clamp(0.0, holes);
            let over_segment = seconds(profile.position_time(Bytes::ZERO, demand.segment.max(Bytes(1))));
            let over_hole = seconds(profile.short_seek);
            load.skips += (over_pins + longer) * over_segment.max(over_hole) + (holes - longer) * over_hole;
            let to_roots = demand.places.iter().map(|p| profile.position_time(Bytes::ZERO, p.end)).max();
            // In the long run the mean counts; that several meet at their worst is what the reserve is for.
            let mean = seconds(profile.mean_full_seek) / seconds(profile.full_seek).max(1e-9);
            let checkpoint =
                f64::from(POSITIONINGS_PER_CHECKPOINT) * seconds(to_roots.unwrap_or(profile.full_seek)) * mean.min(1.0);
            load.checkpoints += segments / demand.segments_per_checkpoint(profile).max(1) as f64 * checkpoint;
            if demands.len() > 1 {
                // Each visit ends with a flush, and the drive has nothing else to write while that ends.
                let position = seconds(demand.farthest(profile, demands) + profile.short_seek);
                in_turn += position / seconds(shortest).max(1e-9);
                // A ring that comes in between costs the way back, too.
                preempting += 2.0 * position / seconds(cycle(profile, demand.lag)).max(1e-9);
            }
        }
        load.positions = in_turn.min(preempting);
        let lag = demands.iter().map(|d| d.lag).min().unwrap_or_default();
        load.flushes = seconds(flush_beyond(profile)) / seconds(lag).max(1e-9);
        load
    }

    /// All of it.
    pub fn total(&self) -> f64 {
        self.transfer + self.skips + self.positions + self.checkpoints + self.flushes
    }
}

/// Whether all that is promised can be kept by this profile, which may be another one than it was promised by.
pub(crate) fn keeps(profile: &Profile, promised: &[Demand]) -> bool {
    let all: Vec<&Demand> = promised.iter().collect();
    all.is_empty() || all.iter().all(|demand| check_lag(profile, demand.lag).is_ok()) && fit(profile, &all)
}

/// Whether all of `demands` can be promised together: in their slowest places at the same time, or, where one of them
/// passes its slowest place in less time than its deadlines have slack, with that one on its way and all others in
/// their slowest.
fn fit(profile: &Profile, demands: &[&Demand]) -> bool {
    if !demands.iter().all(|d| d.segments_per_checkpoint(profile) > 0) {
        return false;
    }
    let load = Load::of(profile, demands);
    if load.total() <= 1.0 - MARGIN {
        return true;
    }
    let Some(cycle) = demands.iter().map(|d| cycle(profile, d.lag)).min() else { return true };
    let slack = cycle.saturating_sub(profile.full_seek + profile.short_seek).as_secs_f64();
    demands.iter().any(|demand| {
        let rate = demand.written().0 as f64;
        let others = load.total() - rate / demand.floor(profile).0 as f64;
        let left = 1.0 - MARGIN - others;
        left > 0.0 && demand.delay(profile, rate, left) <= slack
    })
}

/// What a flush costs beyond writing what was not written yet, and beyond the turn that continuing costs: write rates
/// are measured with flushes among the writes, so both are in them.
fn flush_beyond(profile: &Profile) -> Duration {
    let slowest = profile.points.iter().map(|p| p.write).min().unwrap_or(Rate(1));
    profile.flush.saturating_sub(slowest.time_for(FLUSH_BURST)).saturating_sub(profile.short_seek)
}

/// How long a write with flush interval `lag` may take: the rest is for the flush, and for what then still runs ahead
/// of the platters. The scheduler's deadlines are counted with it.
pub fn cycle(profile: &Profile, lag: Duration) -> Duration {
    lag - (lag / 10).max((profile.flush + AHEAD).min(lag / 2))
}

/// What a flush interval has to leave for what nobody foresees: one step of a checkpoint there and back, the way from a
/// ring's end to its start, and one hole.
pub fn reserve(profile: &Profile) -> Duration {
    profile.full_seek * 3 + profile.short_seek
}

/// The shortest flush interval with which anything can be promised: beside the reserve, the head has to come back, and
/// what is under way has to end.
pub fn least_lag(profile: &Profile) -> Duration {
    let slowest = profile.points.iter().map(|p| p.write).min().unwrap_or(Rate(1));
    let needed = reserve(profile) + profile.full_seek + slowest.time_for(FLUSH_BURST);
    // The inverse of `cycle`, rounded up, so that the stated least suffices.
    Duration::from_nanos((needed.as_nanos() as u64 * 10).div_ceil(9)).max(needed + profile.flush + AHEAD)
}

/// A guarantee that can be kept beside the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Admitted {
    /// The load with it.
    pub load: Load,
    /// What could have been promised instead, at most.
    pub highest: Rate,
}

/// Whether `new` can be promised beside `existing`.
pub fn admit(profile: &Profile, existing: &[Demand], new: &Demand) -> Result<Admitted> {
    check_lag(profile, new.lag)?;
    let highest = highest(profile, existing, new);
    let load = Load::of(profile, &with(existing, new));
    if fit(profile, &with(existing, new)) {
        return Ok(Admitted { load, highest: highest.max(new.rate) });
    }
    let beside = promised_already(existing);
    let floor = new.floor(profile);
    Err(Error::refused(if highest == Rate(0) {
        format!("{} cannot be promised{beside}, nor anything else: the device has no time left", new.rate)
    } else {
        format!(
            "{} cannot be promised{beside}: the most is {highest} here, where the device writes {floor} at its slowest",
            beyond(new.rate, highest)
        )
    }))
}

/// A rate in words that are not those of `highest`, which it is a little more than.
fn beyond(rate: Rate, highest: Rate) -> String {
    let text = rate.to_string();
    if text == highest.to_string() { format!("{} B/s", rate.0) } else { text }
}

fn promised_already(existing: &[Demand]) -> String {
    let already = Rate(existing.iter().map(|d| d.rate.0).sum());
    if already == Rate(0) { String::new() } else { format!(" beside the {already} promised already") }
}

/// Whether a flush interval leaves time to position at all.
fn check_lag(profile: &Profile, lag: Duration) -> Result<()> {
    let least = least_lag(profile);
    if lag < least {
        return Err(Error::refused(format!(
            "with a flush interval of {lag:?} nothing can be promised on this device, which may take {:?} to reach a place and {:?} to flush; the least is {least:?}",
            profile.full_seek, profile.flush
        )));
    }
    Ok(())
}

/// The highest rate that could be promised to `new`, whatever it asks for; a number that reads as it is.
pub fn highest(profile: &Profile, existing: &[Demand], new: &Demand) -> Rate {
    if check_lag(profile, new.lag).is_err() {
        return Rate(0);
    }
    let fits = |rate: Rate| {
        let asked = Demand { rate, ..new.clone() };
        fit(profile, &with(existing, &asked))
    };
    let (mut good, mut bad) = (0, UNHEARD_OF.0);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if fits(Rate(middle)) { good = middle } else { bad = middle }
    }
    as_shown(Rate(good))
}

/// Rounded down to what [`Rate`] shows, so that asking for the number in a message does not fail.
fn as_shown(rate: Rate) -> Rate {
    let digit = match rate.0 {
        0..1_000 => 1,
        1_000..1_000_000 => 100,
        1_000_000..1_000_000_000 => 100_000,
        _ => 10_000_000,
    };
    Rate(rate.0 / digit * digit)
}

fn with<'a>(existing: &'a [Demand], new: &'a Demand) -> Vec<&'a Demand> {
    // What nobody was promised takes no time that is promised.
    existing.iter().filter(|d| d.rate > Rate(0)).chain([new]).collect()
}

/// Whether there may be as much memory as a promise needs.
pub(crate) fn check_staging(profile: &Profile, rate: Rate, flush_interval: Duration, block: Bytes) -> Result<()> {
    let staging = staging(profile, rate, flush_interval, block);
    if staging > MOST_STAGING {
        return Err(Error::refused(format!(
            "{rate} with a flush interval of {flush_interval:?} would need {staging} of memory for what is on its way to the device, and \
             {MOST_STAGING} are the most; a shorter interval needs less"
        )));
    }
    Ok(())
}

/// The highest rate for which there may be as much memory as a promise needs.
pub(crate) fn most_staged(profile: &Profile, flush_interval: Duration, block: Bytes) -> Rate {
    as_shown(Rate::of(MOST_STAGING.saturating_sub(block * (STAGING_BLOCKS + 1)), flush_interval + profile.stall))
}

/// Memory that a ring needs so that nothing is lost: what arrives while the oldest waits for its flush, and the longest
/// stall on top.
pub fn staging(profile: &Profile, rate: Rate, flush_interval: Duration, block: Bytes) -> Bytes {
    (rate.bytes_in(flush_interval + profile.stall) + block * STAGING_BLOCKS).align_up(block)
}

#[cfg(test)]
pub(crate) mod tests;

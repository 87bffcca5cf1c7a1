//! How long the guaranteed writes can still wait: pure arithmetic over the queues and the profile.

use super::{AHEAD, State};
use forebay_model::{Bytes, Moment, Profile, Rate, RingId};
use std::time::Duration;

/// For each ring with a backlog: the latest moment at which a sweep over it may start, were it alone.
pub(super) fn latest_starts(state: &State, profile: &Profile) -> Vec<(RingId, Moment)> {
    state
        .guaranteed
        .iter()
        .filter(|(_, q)| !q.is_empty())
        .map(|(ring, _)| (*ring, one(state, profile, *ring).0))
        .collect()
}

/// Latest start of a ring's backlog, and how long the backlog takes.
///
/// Nothing of a sweep is durable before the flush that ends it, so all of it must be done when its first part is due.
/// While it lasts, more arrives: at a device rate W and an arrival rate r it takes W / (W - r) times as long.
fn one(state: &State, profile: &Profile, ring: RingId) -> (Moment, Duration) {
    let mut spent = Duration::ZERO;
    let mut due = Moment(u64::MAX);
    let mut end: Option<Bytes> = None;
    let mut slowest = u64::MAX;
    for pending in &state.guaranteed[&ring] {
        let length = Bytes(pending.buffer.len() as u64);
        if end.is_some_and(|end| end != pending.offset) {
            spent += profile.short_seek;
        }
        end = Some(pending.offset + length);
        let rate = profile.write_rate(pending.offset);
        slowest = slowest.min(rate.0);
        spent += rate.time_for(length);
        due = due.min(pending.deadline);
    }
    let arriving: u64 = state.rates.values().map(|(rate, _)| rate.0).sum();
    // What arrives later also costs a skip at the end of each run.
    let run = state.rates.get(&ring).map_or(Bytes::mib(64), |(_, run)| *run);
    let with_skip = Rate(slowest).time_for(run) + profile.short_seek;
    let slowest = Rate::of(run, with_skip).0;
    let growth = slowest as f64 / slowest.saturating_sub(arriving).max(slowest / 50).max(1) as f64;
    // The queue is empty before the platters are done, by what runs ahead of them; that much arrives for the next sweep.
    let spent = profile.full_seek + spent.saturating_sub(AHEAD).mul_f64(growth);
    (due - spent, spent)
}

/// How long guaranteed writes can wait from `now` on, behind what is in flight; zero if they must start.
pub(super) fn slack(state: &State, profile: &Profile, now: Moment) -> Duration {
    let mut rings: Vec<(Moment, Duration)> =
        state.guaranteed.iter().filter(|(_, q)| !q.is_empty()).map(|(ring, _)| one(state, profile, *ring)).collect();
    rings.sort();
    let mut start = now + state.busy;
    let mut least = Duration::MAX;
    for (latest, takes) in rings {
        least = least.min(latest.since(start));
        start = start + takes;
    }
    least
}

//! How long the guaranteed writes can still wait: pure arithmetic over the queues and the profile.

use super::State;
use forebay_model::{Bytes, Moment, Profile, RingId};
use std::time::Duration;

/// For each ring with a backlog: the latest moment at which a sweep over it may start, were it alone.
pub(super) fn latest_starts(state: &State, profile: &Profile) -> Vec<(RingId, Moment)> {
    state.guaranteed.iter().filter(|(_, q)| !q.is_empty()).map(|(ring, _)| (*ring, one(state, profile, *ring).0)).collect()
}

/// Latest start of a ring's backlog, and how long the backlog takes.
fn one(state: &State, profile: &Profile, ring: RingId) -> (Moment, Duration) {
    let mut spent = profile.full_seek;
    let mut latest = Moment(u64::MAX);
    let mut end: Option<Bytes> = None;
    for pending in &state.guaranteed[&ring] {
        let length = Bytes(pending.buffer.len() as u64);
        if end.is_some_and(|end| end != pending.offset) {
            spent += profile.short_seek;
        }
        end = Some(pending.offset + length);
        spent += profile.write_rate(pending.offset).time_for(length);
        latest = latest.min(pending.deadline - spent);
    }
    (latest, spent)
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

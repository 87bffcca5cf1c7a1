//! How long the guaranteed writes can still wait: pure arithmetic over the queues and the profile.

use super::Pending;
use super::state::{AHEAD, Expected, State};
use forebay_model::{Bytes, Moment, Profile, Rate, RingId};
use std::collections::VecDeque;
use std::time::Duration;

/// The share of its flush interval that a ring's sweep may take until its first flush, as a divisor.
const FIRST_FLUSH: u32 = 8;

/// For each ring with a backlog: the latest moment at which a sweep over it may start, were it alone.
pub(super) fn latest_starts(state: &State, profile: &Profile, now: Moment) -> Vec<(RingId, Moment)> {
    let waiting = state.guaranteed.iter().filter(|(_, q)| !q.is_empty());
    waiting.map(|(ring, _)| (*ring, one(state, profile, *ring, now).0)).collect()
}

/// Latest start of a ring's backlog on a device that rotates, and how long it keeps the arm from then on: of what is
/// within its promise, since the rest of it waits for others.
///
/// Nothing of a sweep is durable before a flush. While a sweep over a backlog lasts, more arrives: at a device rate W
/// and an arrival rate r it takes W / (W - r) times as long. If that is long, a first flush comes on the way: what was
/// written by then was written faster than it had arrived, so what follows is due later by more than it takes. Only
/// the way to that first flush has to fit before the first deadline then.
fn one(state: &State, profile: &Profile, ring: RingId, now: Moment) -> (Moment, Duration) {
    let mut spent = Duration::ZERO;
    let mut due = Moment(u64::MAX);
    let mut end: Option<Bytes> = None;
    let mut slowest = u64::MAX;
    for pending in state.guaranteed[&ring].iter().take_while(|pending| state.is_within(ring, pending, now)) {
        let length = Bytes(pending.buffer.len() as u64);
        if end.is_some_and(|end| end != pending.offset) {
            spent += profile.short_seek;
        }
        end = Some(pending.offset + length);
        let rate = profile.write_rate(pending.offset);
        slowest = slowest.min(rate.0);
        spent += rate.time_for(length);
        due = due.min(state.deadline(ring, pending));
    }
    let expected = state.expected.get(&ring).copied().unwrap_or(Expected::NOTHING);
    // What arrives later also costs a skip at the end of each run.
    let with_skip = Rate(slowest).time_for(expected.run) + profile.short_seek;
    let slowest = Rate::of(expected.run, with_skip).0;
    let growth = slowest as f64 / slowest.saturating_sub(expected.rate.0).max(slowest / 50).max(1) as f64;
    // The queue is empty before the platters are done, by what runs ahead of them; that much arrives for the next sweep.
    let whole = spent.saturating_sub(AHEAD).mul_f64(growth);
    let until_durable = whole.min(to_first_flush(expected, profile, growth));
    // A flush of another ring may be under way when this one's is due.
    let others = if state.is_promised_to_several() { profile.flush } else { Duration::ZERO };
    (due - (profile.full_seek + until_durable + others), profile.full_seek + whole + profile.flush)
}

/// How long a sweep goes on until it is flushed on the way: so long that what each flush costs, a turn of the platters
/// at the worst, is little beside what is gained between two.
fn to_first_flush(expected: Expected, profile: &Profile, growth: f64) -> Duration {
    (expected.lag / FIRST_FLUSH).max((profile.short_seek * 4).mul_f64(growth - 1.0))
}

/// How long guaranteed writes can wait from `now` on, behind what is in flight and what the drive owes; zero if they must
/// start.
pub(super) fn slack(state: &State, profile: &Profile, now: Moment) -> Duration {
    if state.failed.is_some() {
        // No deadline is kept any more; what can be read has all the time.
        return Duration::MAX;
    }
    if !profile.rotates {
        return slack_flat(state, profile, now);
    }
    let within = |(ring, waiting): &(&RingId, &VecDeque<Pending>)| {
        waiting.front().is_some_and(|first| state.is_within(**ring, first, now))
    };
    let waiting = state.guaranteed.iter().filter(within);
    let mut rings: Vec<(Moment, Duration)> = waiting.map(|(ring, _)| one(state, profile, *ring, now)).collect();
    rings.sort();
    let mut start = (now + state.busy).max(state.owed_until);
    let mut least = Duration::MAX;
    for (latest, takes) in rings {
        least = least.min(latest.since(start));
        start = start + takes;
    }
    least
}

/// The same on a device without position, where writes go out as they come. Its cache takes more than it has done, and
/// reads hold up what it still owes: so all that no flush has covered counts as not begun, and counts twice, so that
/// what arrives while that is done finds as much time again; and the flush that will cover it may have to wait for two,
/// the one under way and one of metadata, each as long as what is owed now.
fn slack_flat(state: &State, profile: &Profile, now: Moment) -> Duration {
    let owed = state.undurable.iter().map(|w| (w.deadline, w.takes));
    let of_rings = state.guaranteed.iter().flat_map(|(ring, waiting)| waiting.iter().map(move |p| (*ring, p)));
    let waiting = of_rings.filter(|(ring, pending)| state.is_within(*ring, pending, now)).map(|(ring, pending)| {
        let length = Bytes(pending.buffer.len() as u64);
        (state.deadline(ring, pending), profile.write_rate(pending.offset).time_for(length))
    });
    let mut least = Duration::MAX;
    let mut done = now + state.normal_busy + state.undurable.iter().map(|w| w.takes).sum::<Duration>() * 2;
    for (deadline, takes) in owed.chain(waiting) {
        done = done + takes * 2;
        least = least.min(deadline.since(done));
    }
    least
}

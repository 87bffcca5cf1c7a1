//! In which order a sweep goes to the rings that are promised something, and how long it stays: one visit to each, which
//! empties it, unless another ring's latest start has come.
//!
//! Pure: no I/O, no waiting.

use super::Pending;
use super::slack;
use super::state::State;
use forebay_model::{Bytes, Moment, Profile, Rate, RingId};
use std::time::Duration;

/// Bytes of one ring's writes that another ring's deadline lets pass first.
const BEFORE_OTHERS: Bytes = Bytes::mib(4);

/// The share of its flush interval that a late ring leaves to another late one at once, as a divisor.
const SHARE_OF_LATE: u32 = 4;

impl State {
    /// Whether a sweep that nobody is in the way of waits all the same: it goes to several rings, and were it begun for
    /// each write, the arm would do little but go from one to the other.
    pub(super) fn gathers(&self) -> bool {
        let promised = |ring: &RingId| self.expected.get(ring).is_some_and(|expected| expected.rate > Rate(0));
        self.is_promised_to_several() && self.guaranteed.iter().all(|(ring, queue)| queue.is_empty() || promised(ring))
    }

    /// Whether a sweep over several rings has emptied each of them once: what came to the first meanwhile is for the next.
    pub(super) fn has_been_everywhere(&self) -> bool {
        let goes_on = self.current_ring.is_some_and(|ring| self.waits(ring));
        let left = |ring: &RingId| self.current_ring != Some(*ring) && !self.visited.contains(ring);
        self.gathers() && !goes_on && !self.guaranteed.keys().any(|ring| left(ring) && self.waits(*ring))
    }

    fn waits(&self, ring: RingId) -> bool {
        self.guaranteed.get(&ring).is_some_and(|queue| !queue.is_empty())
    }

    /// The next write of the sweep: of the ring being written, unless another ring's latest start has come.
    pub(super) fn next_guaranteed(&mut self, profile: &Profile, now: Moment) -> Option<Pending> {
        let mut waiting = self.guaranteed.iter().filter(|(_, q)| !q.is_empty()).map(|(ring, _)| *ring);
        let first = waiting.next()?;
        let ring = if waiting.next().is_none() { first } else { self.most_urgent(profile, now)? };
        let ring = if self.is_wanted_by_others(now) { self.within_first(ring, now)? } else { ring };
        if let Some(before) = self.current_ring.replace(ring).filter(|before| *before != ring) {
            self.run = Bytes::ZERO;
            self.visited.insert(before);
        }
        let (pending, _) = self.take_of(ring, now)?;
        self.run += Bytes(pending.buffer.len() as u64);
        Some(pending)
    }

    fn most_urgent(&self, profile: &Profile, now: Moment) -> Option<RingId> {
        let latest = slack::latest_starts(self, profile, now);
        let (urgent, start) = latest.iter().copied().min_by_key(|(_, start)| *start)?;
        let Some((current, own)) = latest.iter().copied().find(|(ring, _)| self.current_ring == Some(*ring)) else {
            return Some(urgent);
        };
        let calls = |start| start < now + profile.worst_write(self.head, BEFORE_OTHERS);
        // Where both are late, an arm that went from one to the other would make them later.
        let lag = self.expected.get(&urgent).map_or(Duration::ZERO, |expected| expected.lag);
        let stays = calls(own) && self.run < profile.write_rate(self.head).bytes_in(lag / SHARE_OF_LATE);
        Some(if calls(start) && !stays { urgent } else { current })
    }
}

//! What a ring writes beyond the rate that it was promised: as soon as others want something, it takes turns with them, in
//! bytes, like a stream of normal I/O. A ring whose producer never pauses would otherwise never end a sweep. For a ring that
//! was promised nothing that is all it writes, as long as it is durable in its flush interval. Where others are promised something
//! it is a stream of normal I/O and nothing else: its deadlines would take the arm from theirs, and nobody has reckoned with them.
//!
//! The rate is kept as a bucket of tokens, as deep as a flush interval: a write whose turn at the promised rate comes
//! later than that is beyond. What is written beyond uses up nothing of what is promised: all that follows is due sooner by
//! as much, and never sooner than if it had come alone. Writes of a ring keep their order in all this.

use super::state::{Choice, State};
use super::{Class, Pending, StreamId};
use forebay_model::{Bytes, Moment, Profile, Rate, RingId};
use std::time::Duration;

/// The share of its flush interval that a ring without a promise leaves for its writes and their flush, as a divisor: what has
/// waited for its turn until then goes before all others.
const KEPT_UNPROMISED: u32 = 2;

/// How a guaranteed write counts against the promised rate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Promised {
    /// Its deadline is never sooner than this.
    pub(crate) soonest: Moment,
    /// How long its bytes take at the promised rate.
    pub(crate) worth: Duration,
}

/// What a ring takes turns as.
pub(super) fn stream(ring: RingId) -> StreamId {
    StreamId(u64::MAX - ring.0)
}

impl State {
    /// When a write that waits has to be done.
    pub(super) fn deadline(&self, ring: RingId, pending: &Pending) -> Moment {
        let Some(promised) = pending.promised else { return pending.deadline };
        (pending.deadline - self.given(ring)).max(promised.soonest)
    }

    /// How much sooner than counted at the promised rate alone a ring's writes are due.
    pub(super) fn given(&self, ring: RingId) -> Duration {
        self.given.get(&ring).copied().unwrap_or_default()
    }

    /// From when on a write is within what its ring was promised, or, if that was nothing, has to be done to be durable in time.
    fn within_from(&self, ring: RingId, pending: &Pending) -> Moment {
        match self.expected.get(&ring) {
            Some(expected) if expected.rate == Rate(0) => pending.deadline - expected.lag / KEPT_UNPROMISED,
            Some(expected) if pending.promised.is_some() => self.deadline(ring, pending) - expected.lag * 2,
            _ => Moment(0),
        }
    }

    /// Whether a ring has turns and nothing else: it was promised nothing, and another one was promised something.
    fn has_turns_alone(&self, ring: RingId) -> bool {
        self.is_promised() && self.expected.get(&ring).is_some_and(|expected| expected.rate == Rate(0))
    }

    /// Takes in the next write of `ring`, behind those that wait.
    pub(super) fn push_of_ring(&mut self, ring: RingId, pending: Pending, rotates: bool) {
        let stays = self.streams.has_waiting(ring);
        if !stays && !self.has_turns_alone(ring) {
            return self.guaranteed.entry(ring).or_default().push_back(pending);
        }
        let before = self.guaranteed.get_mut(&ring).map(std::mem::take).unwrap_or_default();
        self.streams.set_beyond(ring, false, rotates);
        for pending in before.into_iter().chain([pending]) {
            self.streams.push_of_ring(ring, Pending { stream: Some(stream(ring)), ..pending }, rotates);
        }
    }

    /// If nothing is promised any more: what waits of rings has its deadlines again.
    pub(super) fn see_promises(&mut self) {
        if self.is_promised() {
            return;
        }
        for (ring, waiting) in self.streams.take_of_rings() {
            let waiting = waiting.into_iter().map(|pending| Pending { stream: None, ..pending });
            self.guaranteed.entry(ring).or_default().extend(waiting);
        }
    }

    /// Tells the streams which rings have more than was promised.
    pub(super) fn see_beyond(&mut self, rotates: bool, now: Moment) {
        for (ring, waiting) in &self.guaranteed {
            let beyond = waiting.back().is_some_and(|last| !self.is_within(*ring, last, now));
            self.streams.set_beyond(*ring, beyond, rotates);
        }
    }

    /// Whether somebody else wants what a ring would take beyond what it was promised, or may at any time: where several
    /// rings are promised something, each has to find the arm when its own deadlines call.
    pub(super) fn is_wanted_by_others(&self, now: Moment) -> bool {
        self.is_promised_to_several()
            || self.streams.is_asked(now)
            || !self.background.is_empty() && self.is_share_due(now)
    }

    /// Whether more than one ring is promised a rate.
    pub(super) fn is_promised_to_several(&self) -> bool {
        self.expected.values().filter(|expected| expected.rate > Rate(0)).count() > 1
    }

    /// Whether a write that waits is within what its ring was promised.
    pub(super) fn is_within(&self, ring: RingId, pending: &Pending, now: Moment) -> bool {
        self.within_from(ring, pending) <= now
    }

    /// When the first of what waits is within what was promised; nothing if nothing waits.
    pub(super) fn within_at(&self) -> Option<Moment> {
        let firsts = self.guaranteed.iter().filter_map(|(ring, waiting)| Some((ring, waiting.front()?)));
        firsts.map(|(ring, first)| self.within_from(*ring, first)).min()
    }

    /// A ring with something within what was promised: `ring` if that has.
    pub(super) fn within_first(&self, ring: RingId, now: Moment) -> Option<RingId> {
        let is_within = |ring: &RingId| {
            let first = self.guaranteed.get(ring).and_then(|waiting| waiting.front());
            first.is_some_and(|first| self.is_within(*ring, first, now))
        };
        if is_within(&ring) { Some(ring) } else { self.guaranteed.keys().copied().find(is_within) }
    }

    /// Takes the next write of `ring` off its queue, and counts it. Whether it is beyond what was promised.
    pub(super) fn take_of(&mut self, ring: RingId, now: Moment) -> Option<(Pending, bool)> {
        let first = self.guaranteed.get(&ring)?.front()?;
        let (beyond, deadline) = (!self.is_within(ring, first, now), self.deadline(ring, first));
        let mut pending = self.guaranteed.get_mut(&ring)?.pop_front()?;
        pending.deadline = deadline;
        if beyond {
            let worth = pending.promised.map_or(Duration::ZERO, |promised| promised.worth);
            *self.given.entry(ring).or_default() += worth;
            let length = Bytes(pending.buffer.len() as u64);
            self.counters.beyond += length;
            self.in_turn += length;
        }
        Some((pending, beyond))
    }

    /// The next write of `ring` in its turn: what is within on its way costs nothing of the turn.
    pub(super) fn start_in_turn(&mut self, ring: RingId, now: Moment) -> Choice {
        let Some((mut pending, beyond)) = self.take_of(ring, now) else { return Choice::Wait(None) };
        let counts = if beyond { pending.buffer.len() } else { 0 };
        self.streams.take_beyond(counts as i64);
        pending.stream = Some(stream(ring));
        Choice::Start(Class::Guaranteed, pending)
    }

    /// How long the next write of `ring` takes at the worst.
    pub(super) fn next_of_ring_worst(&self, ring: RingId, profile: &Profile) -> Duration {
        let first = self.guaranteed.get(&ring).and_then(|waiting| waiting.front());
        first.map_or(Duration::ZERO, |p| profile.worst_write(p.offset, Bytes(p.buffer.len() as u64)))
    }
}

//! One direction of a link: segments leave it in the order in which they came, each after the ones before it.
//!
//! How much waits follows from when the link is free, so that nothing happens when a segment has left.

use super::segment::Segment;
use forebay_model::Rate;
use std::collections::VecDeque;

const SECOND: u128 = 1_000_000_000;

/// One direction of a link, with what is on it.
#[derive(Default)]
pub(super) struct Lane {
    /// When all that was put in has left.
    free: u64,
    /// When the last of it arrives.
    last: u64,
    under_way: VecDeque<(u64, Segment)>,
}

impl Lane {
    /// Bytes that wait or are leaving.
    pub(super) fn backlog(&self, now: u64, rate: Rate) -> u64 {
        let time = self.free.saturating_sub(now);
        if time == 0 { 0 } else { u64::try_from(u128::from(time) * u128::from(rate.0) / SECOND).unwrap_or(u64::MAX) }
    }

    /// Puts `segment` in. When it arrives, if it is the only one.
    pub(super) fn carry(&mut self, now: u64, rate: Rate, latency: u64, segment: Segment) -> Option<u64> {
        // Segments are of a MiB at most, so this does not overflow.
        self.free = self.free.max(now) + (segment.size() * SECOND as u64).div_ceil(rate.0);
        // A latency that has just become shorter reorders nothing.
        self.last = self.last.max(self.free + latency);
        self.under_way.push_back((self.last, segment));
        (self.under_way.len() == 1).then_some(self.last)
    }

    /// The first one, which has arrived.
    pub(super) fn arrived(&mut self) -> Option<Segment> {
        self.under_way.pop_front().map(|(_, segment)| segment)
    }

    /// When the second one arrives.
    pub(super) fn following(&self) -> Option<u64> {
        self.under_way.get(1).map(|(at, _)| *at)
    }
}

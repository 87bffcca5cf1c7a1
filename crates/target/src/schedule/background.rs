//! When I/O in the background has its moment: nothing else is done, or a small share of the time is due to it.
//!
//! The share is kept while there is no moment, for a while, so that it gets on beside a ring that leaves little; slack
//! that a guarantee needs is never its.

use super::state::{Slack, State};
use super::{Direction, Pending};
use forebay_model::{Bytes, Moment, Profile};
use std::time::Duration;

/// How long nothing but background I/O was done before more of it is begun at once: a closed loop of reads or durable
/// writes pauses less, where a turn of the arm would cost it something.
const QUIET_ROTATING: Duration = Duration::from_millis(20);
const QUIET_FLAT: Duration = Duration::from_millis(1);
/// Beside other work background I/O takes one part in so many of the time.
const BACKGROUND_PART: u32 = 32;
/// For how long its share is kept for it while there is no moment: sweeps and records come first, and what passed with
/// them is made up for in between.
const BACKGROUND_SAVED: Duration = Duration::from_secs(8);
/// The most background I/Os in flight, on a device that rotates and on one that does not.
const BACKGROUND_IN_FLIGHT: [usize; 2] = [1, 2];

impl State {
    fn quiet(profile: &Profile) -> Duration {
        if profile.rotates { QUIET_ROTATING } else { QUIET_FLAT }
    }

    /// The background I/O that may begin: nothing else was done for a while, or its share of the time is due; and
    /// guaranteed writes can wait for it. It does not come into a sweep, nor in the way of a flush. What asks for no share
    /// comes last.
    pub(super) fn take_background(&mut self, slack: &Slack<'_>) -> Option<Pending> {
        let Slack { profile, now, .. } = *slack;
        let has_share = !self.background.is_empty();
        let next = if has_share { self.background.front() } else { self.when_quiet.front() }?;
        let most = BACKGROUND_IN_FLIGHT[usize::from(!profile.rotates)];
        if self.background_in_flight >= most || profile.rotates && (self.flushing || self.sweeping) {
            return None;
        }
        let quiet = self.is_idle() && now >= self.foreground_end + State::quiet(profile);
        let is_its_turn = quiet || has_share && self.is_share_due(now);
        if !is_its_turn {
            return None;
        }
        let length = Bytes(next.buffer.len() as u64);
        let rate = match next.direction {
            Direction::Read => profile.read_rate(next.offset),
            Direction::Write => profile.write_rate(next.offset),
        };
        let worst = profile.position_time(self.head, next.offset) + rate.time_for(length);
        if slack.of(self) <= worst * 2 + profile.full_seek * 2 + profile.flush {
            return None;
        }
        if has_share { self.background.pop_front() } else { self.when_quiet.pop_front() }
    }

    /// Whether it is the background's turn beside others.
    pub(super) fn is_share_due(&self, now: Moment) -> bool {
        now >= self.background_due && self.background_in_flight == 0
    }

    /// When background I/O has to be looked at again; other I/O that ends asks, too.
    pub(super) fn background_wakes(&self, slack: &Slack<'_>) -> Option<Moment> {
        let Slack { profile, now, .. } = *slack;
        let has_share = !self.background.is_empty();
        let quiet = (has_share || !self.when_quiet.is_empty()).then(|| self.foreground_end + State::quiet(profile));
        let share = has_share.then_some(self.background_due);
        quiet.into_iter().chain(share).filter(|moment| *moment > now).min()
    }

    /// One was started that takes the device so long, and `worst` with the way there.
    pub(super) fn background_started(&mut self, takes: Duration, worst: Duration, now: Moment) {
        self.background_in_flight += 1;
        // What goes on while nothing else is done costs nothing of the share.
        let asked = self.background_asked.take().unwrap_or(now);
        let since = self.background_due.max(asked).clamp(now - BACKGROUND_SAVED, now);
        // On the way to where it is the arm takes half of the worst, on average.
        self.background_due = since + (takes + (worst - takes) / 2) * BACKGROUND_PART;
    }
}

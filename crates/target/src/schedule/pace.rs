//! Whether the device is as quick as its profile says: disks become slow before they die, and report no error.
//!
//! The time in which something was under way is held against what all of it takes at its worst by the profile. Queues,
//! seeks and turns are in that worst already, so a device that takes several times as long is not the one that was
//! measured. Nothing is changed by this: it is said, and somebody replaces the disk or measures it anew.

use forebay_model::Moment;
use std::time::Duration;

/// How many times the worst is too long.
const FACTOR: u32 = 4;
/// How long something has to have been under way before anything is said.
const SPAN: Duration = Duration::from_secs(5);
/// The span moves in so many parts, so that what begins within one is found soon after as long as it takes.
const PARTS: usize = 4;
/// After so long without I/O what was found is forgotten: who knew of it asks little since, and it may have passed.
const COUNTS: Duration = Duration::from_secs(60);
/// No I/O counts for less: what is shorter has to do with the machine, and not with the device.
const LEAST: Duration = Duration::from_millis(1);

#[derive(Default)]
pub(super) struct Pace {
    in_flight: usize,
    /// Since when the device has not been idle.
    since: Option<Moment>,
    /// When something ended last.
    ended_at: Moment,
    /// What is under way takes this long at the worst.
    under_way: Duration,
    /// The parts of this span, the current one first.
    parts: [Part; PARTS],
    /// What was found when the last part was over.
    found: u32,
    /// How long the device was not idle, as far as that ended.
    busy: Duration,
}

#[derive(Clone, Copy, Default)]
struct Part {
    /// How long the device was not idle.
    taken: Duration,
    /// What ended meanwhile takes so long at the worst.
    worth: Duration,
}

impl Pace {
    /// Something that takes `worst` by the profile begins.
    pub(super) fn started(&mut self, worst: Duration, now: Moment) {
        if self.in_flight == 0 && now.since(self.ended_at) >= COUNTS {
            (self.parts, self.found) = Default::default();
        }
        self.in_flight += 1;
        self.under_way += worst.max(LEAST);
        self.since.get_or_insert(now);
    }

    /// It has ended.
    pub(super) fn ended(&mut self, worst: Duration, now: Moment) {
        let worst = worst.max(LEAST);
        self.in_flight -= 1;
        self.under_way -= worst;
        self.parts[0].worth += worst;
        if let Some(since) = self.since {
            self.parts[0].taken += now.since(since);
            self.busy += now.since(since);
        }
        self.since = (self.in_flight > 0).then_some(now);
        self.ended_at = now;
        if self.parts[0].taken >= SPAN / PARTS as u32 {
            self.found = self.slower(now);
            self.parts.rotate_right(1);
            self.parts[0] = Part::default();
        }
    }

    /// How long the device had something to do, since it was opened.
    pub(super) fn busy(&self, now: Moment) -> Duration {
        self.busy + self.since.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// How many times longer than at its worst by the profile the device takes; 0 if that is not worth a word.
    pub(super) fn slower(&self, now: Moment) -> u32 {
        if self.in_flight == 0 && now.since(self.ended_at) >= COUNTS {
            return 0;
        }
        let under_way = self.since.map_or(Duration::ZERO, |since| now.since(since));
        let taken = self.parts.iter().map(|part| part.taken).sum::<Duration>() + under_way;
        if taken < SPAN {
            return self.found;
        }
        let worth = (self.parts.iter().map(|part| part.worth).sum::<Duration>() + self.under_way).max(LEAST);
        let times = (taken.as_nanos() / worth.as_nanos()).min(u128::from(u32::MAX)) as u32;
        if times >= FACTOR { times } else { 0 }
    }
}

#[cfg(test)]
mod tests;

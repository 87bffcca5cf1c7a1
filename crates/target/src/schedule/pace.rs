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
const PARTS: u32 = 4;
/// So long it counts what was found: who knew of it asks little since, and it may have passed.
const COUNTS: Duration = Duration::from_secs(60);
/// No I/O counts for less: what is shorter has to do with the machine, and not with the device.
const LEAST: Duration = Duration::from_millis(1);

#[derive(Default)]
pub(super) struct Pace {
    in_flight: usize,
    /// Since when the device has not been idle.
    since: Option<Moment>,
    /// What is under way takes this long at the worst.
    under_way: Duration,
    /// The parts of this span, the current one first.
    parts: [Part; PARTS as usize],
    /// What was found at the end of a part, and when that was.
    found: u32,
    found_at: Moment,
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

impl Part {
    fn with(self, other: Part) -> Part {
        Part { taken: self.taken + other.taken, worth: self.worth + other.worth }
    }

    /// How many times longer than at the worst it took.
    fn times(self) -> u32 {
        let times = self.taken.as_nanos() / self.worth.max(LEAST).as_nanos();
        times.min(u128::from(u32::MAX)) as u32
    }
}

impl Pace {
    /// Something that takes `worst` by the profile begins.
    pub(super) fn started(&mut self, worst: Duration, now: Moment) {
        self.in_flight += 1;
        self.under_way += worst.max(LEAST);
        self.since.get_or_insert(now);
    }

    /// It has ended.
    pub(super) fn ended(&mut self, worst: Duration, now: Moment) {
        let worst = worst.max(LEAST);
        let taken = self.since.map_or(Duration::ZERO, |since| now.since(since));
        self.in_flight -= 1;
        self.under_way -= worst;
        self.busy += taken;
        self.parts[0] = self.parts[0].with(Part { taken, worth: worst });
        self.since = (self.in_flight > 0).then_some(now);
        if self.parts[0].taken >= SPAN / PARTS {
            if let Some(found) = self.judged(now) {
                (self.found, self.found_at) = (found, now);
            }
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
        let counts = now.since(self.found_at) < COUNTS;
        self.judged(now).unwrap_or(if counts { self.found } else { 0 })
    }

    /// The same by what was under way in this span, if that was enough for a word: all of it took too long, and the current part did,
    /// or it is over.
    fn judged(&self, now: Moment) -> Option<u32> {
        let taken = self.since.map_or(Duration::ZERO, |since| now.since(since));
        let current = self.parts[0].with(Part { taken, worth: self.under_way });
        // Where I/Os take longer than a part, all parts are more than a span, and the oldest may be from before it became slow.
        let enough = |all: Part, part: &Part| if all.taken < SPAN { all.with(*part) } else { all };
        let all = self.parts[1..].iter().fold(current, enough);
        let times = current.times().min(all.times());
        let is_enough = current.taken >= SPAN / PARTS && all.taken >= SPAN;
        is_enough.then_some(if times >= FACTOR { times } else { 0 })
    }
}

#[cfg(test)]
mod tests;

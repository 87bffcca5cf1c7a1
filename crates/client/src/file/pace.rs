//! How fast components answer: which of them are far slower than those beside them, and how long to wait for one before
//! its bytes are taken from the others.
//!
//! What is asked of many at once waits for the reader's own link, all of it for about as long: whoever waits is late only if
//! the others have answered what was asked of them before.

use forebay_model::Moment;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// So long a request may take when nothing is known of others.
const UNKNOWN: Duration = Duration::from_secs(1);
/// Requests of a component that are known before anything follows from them.
const ENOUGH: u32 = 4;
/// Times as long as the others: then the others are asked as well.
const LATE: u32 = 4;
/// Times as long as the others: then it is slow, and the others are asked at once.
const SLOW: u32 = 8;
/// One in so many requests is still asked of a slow component, so that it is seen when it is fast again.
const PROBE: u32 = 16;
/// A request takes as long again for each so many bytes.
const LIKE_A_REQUEST: u64 = 256 << 10;

/// What is known of each component.
#[derive(Default)]
pub(super) struct Pace {
    known: RefCell<BTreeMap<u32, Known>>,
    /// What is under way: when it was asked of each component, and how often.
    asked: RefCell<BTreeMap<(u32, Moment), u32>>,
}

#[derive(Default, Clone, Copy)]
struct Known {
    /// Moving average of nanoseconds for a request of no bytes.
    nanos: u64,
    requests: u32,
    avoided: u32,
}

/// How to read from a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// Wait so long, then ask the others as well.
    Hedge(Duration),
    /// Ask the others.
    Avoid,
}

fn weight(bytes: u64) -> u64 {
    1 + bytes / LIKE_A_REQUEST
}

impl Pace {
    /// A request about so many bytes took so long, or took so long and had not ended.
    pub(super) fn note(&self, component: u32, took: Duration, bytes: u64) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX) / weight(bytes);
        let mut all = self.known.borrow_mut();
        let known = all.entry(component).or_default();
        let shift = known.requests.min(3);
        known.nanos = known.nanos - (known.nanos >> shift) + (nanos >> shift);
        known.requests = known.requests.saturating_add(1);
        known.avoided = 0;
    }

    /// Something is asked of a component.
    pub(super) fn asked(&self, component: u32, at: Moment) {
        *self.asked.borrow_mut().entry((component, at)).or_default() += 1;
    }

    /// What was asked of it then was answered, or nobody waits for it any more.
    pub(super) fn answered(&self, component: u32, at: Moment) {
        let mut asked = self.asked.borrow_mut();
        if let Some(times) = asked.get_mut(&(component, at)) {
            *times -= 1;
            if *times == 0 {
                asked.remove(&(component, at));
            }
        }
    }

    /// Whether all others of its family have answered what was asked of them up to then.
    pub(super) fn is_last(&self, component: u32, family: &Range<u32>, since: Moment) -> bool {
        let asked = self.asked.borrow();
        let oldest = |one: u32| asked.range((one, Moment(0))..=(one, since)).next();
        family.clone().filter(|one| *one != component).all(|one| oldest(one).is_none())
    }

    /// The median of the others, and this one.
    fn beside(&self, component: u32, family: &Range<u32>) -> Option<(u64, u64)> {
        let all = self.known.borrow();
        let of = |one: u32| all.get(&one).filter(|known| known.requests >= ENOUGH).map(|known| known.nanos);
        let mut others: Vec<u64> = family.clone().filter(|one| *one != component).filter_map(of).collect();
        others.sort_unstable();
        Some((*others.get(others.len() / 2)?, of(component).unwrap_or(0)))
    }

    /// Whether a component is far slower than its family, and slower than `floor`.
    pub(super) fn is_slow(&self, component: u32, family: &Range<u32>, floor: Duration) -> bool {
        self.beside(component, family)
            .is_some_and(|(others, this)| this > others * u64::from(SLOW) && u128::from(this) > floor.as_nanos())
    }

    /// How to read so many bytes of a component.
    pub(super) fn patience(&self, component: u32, family: &Range<u32>, floor: Duration, bytes: u64) -> Patience {
        let Some((others, _)) = self.beside(component, family) else {
            return Patience::Hedge(floor.max(UNKNOWN));
        };
        if self.is_slow(component, family, floor) {
            let mut all = self.known.borrow_mut();
            let known = all.entry(component).or_default();
            known.avoided += 1;
            if known.avoided < PROBE {
                return Patience::Avoid;
            }
        }
        let usual = Duration::from_nanos(others.saturating_mul(weight(bytes)));
        Patience::Hedge((usual * LATE).max(floor))
    }
}

#[cfg(test)]
mod tests;

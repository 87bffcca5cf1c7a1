//! How busy targets are, as the manager is told, which puts less that is new on those that are: a disk that is slow, or has a ring
//! to write, has something to do all the time.
//!
//! That is the share of time in which a device had something to do since it was asked before, and half of it counts from then on,
//! so that one short pause changes little. Of a device that is far slower than its profile says nothing is asked more than must be.

use forebay_model::{Moment, TargetId};
use forebay_wire::command::TargetInfo;
use std::collections::BTreeMap;
use std::time::Duration;

/// What is asked sooner says nothing new.
const SHORTEST: Duration = Duration::from_millis(500);

/// How busy targets were.
#[derive(Default)]
pub(super) struct Load {
    known: BTreeMap<TargetId, Known>,
}

#[derive(Clone, Copy)]
struct Known {
    openings: u64,
    at: Moment,
    busy: Duration,
    /// In thousandths.
    share: u64,
}

impl Load {
    /// How busy a target is that says this now, in hundredths.
    pub(super) fn of(&mut self, info: &TargetInfo, now: Moment) -> u8 {
        let busy = info.activity.busy;
        let fresh = Known { openings: info.openings, at: now, busy, share: 0 };
        let known = self.known.entry(info.id).or_insert(fresh);
        if known.openings != info.openings || busy < known.busy {
            *known = fresh;
        }
        let passed = now.since(known.at);
        if passed >= SHORTEST {
            let share = ((busy - known.busy).as_nanos() * 1000 / passed.as_nanos()).min(1000) as u64;
            *known = Known { share: (known.share + share) / 2, ..fresh };
        }
        if info.activity.slower > 0 { 100 } else { (known.share / 10) as u8 }
    }
}

#[cfg(test)]
mod tests;

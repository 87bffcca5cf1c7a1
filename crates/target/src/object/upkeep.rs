//! How long a target is at work for itself: checkpoints of the map, steps home, logs that change places.

use super::Objects;
use forebay_model::Moment;

/// What is under way of that.
#[derive(Default)]
pub(super) struct Upkeep {
    under_way: u32,
    /// Since when something is.
    since: Option<Moment>,
}

/// Counted while it lives; what is under way at the same time counts once.
pub(super) struct AtWork<'a>(&'a Objects);

impl Objects {
    /// Counts the time from now on.
    pub(super) fn at_work(&self) -> AtWork<'_> {
        let now = self.core.disk.env().clock.now();
        let mut work = self.work.borrow_mut();
        work.upkeep.under_way += 1;
        work.upkeep.since.get_or_insert(now);
        AtWork(self)
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        let now = self.0.core.disk.env().clock.now();
        let mut work = self.0.work.borrow_mut();
        work.upkeep.under_way -= 1;
        if work.upkeep.under_way == 0
            && let Some(since) = work.upkeep.since.take()
        {
            work.counters.upkeep += now.since(since);
        }
    }
}

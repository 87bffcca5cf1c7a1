//! Where a ring goes: the slowest run of free groups where its guarantee can be kept, so that the fast ones stay free
//! for those who need them.

use super::{Demand, WITHOUT_LOGS_PERCENT, admit, beyond, check_lag, highest, promised_already};
use crate::layout::Layout;
use forebay_model::{Bytes, Error, Profile, Rate, Result};
use std::cmp::Reverse;
use std::ops::Range;
use std::time::Duration;

/// What a ring asks of its place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wish {
    /// Space; rounded up to whole groups.
    pub capacity: Bytes,
    /// Promised bytes per second; none if zero.
    pub rate: Rate,
    /// How long an accepted element may take to be durable.
    pub flush_interval: Duration,
    /// Unit of overwriting; a group's data if zero.
    pub segment: Bytes,
    /// Bytes beyond the promised ones, as a share of them ([`super::overhead`]).
    pub index: f64,
    /// Share of the space that may be pinned without breaking the guarantee, however the pins lie; in percent.
    pub pin_percent: u8,
    /// Whether its groups are without logs; `None` if that may be decided here.
    pub without_logs: Option<bool>,
    /// Space that the ring has already, beside `capacity`.
    pub beside: Bytes,
}

/// A place for a ring.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed {
    /// Runs of whole groups, by rising offset.
    pub places: Vec<Range<Bytes>>,
    /// Whether the groups are to have no logs, because the ring has no time to pass over them.
    pub without_logs: bool,
    /// The most that could be promised there.
    pub highest: Rate,
}

impl Placed {
    /// Space in all.
    pub fn size(&self) -> Bytes {
        self.places.iter().map(|run| run.end - run.start).sum()
    }
}

/// Chooses a place for a ring, beside what is promised already.
///
/// One run if there is one, and among those the slowest that suffices; without a guarantee, simply the slowest. A place
/// where the ring can keep its logs, and so leaves time to others, is preferred to one that it would use up.
pub fn place(
    profile: &Profile,
    existing: &[Demand],
    layout: &Layout,
    free: &[Range<Bytes>],
    wish: &Wish,
) -> Result<Placed> {
    Site { profile, existing, layout, free, wish }.place()
}

/// A device, with what is promised of it and what is free, in front of a wish.
#[derive(Clone, Copy)]
pub(crate) struct Site<'a> {
    pub profile: &'a Profile,
    pub existing: &'a [Demand],
    pub layout: &'a Layout,
    /// Runs of free groups, by rising offset.
    pub free: &'a [Range<Bytes>],
    pub wish: &'a Wish,
}

impl Site<'_> {
    pub(crate) fn place(&self) -> Result<Placed> {
        if self.wish.rate > Rate(0) {
            check_lag(self.profile, self.wish.flush_interval)?;
        }
        let groups = self.wanted();
        let free: u64 = self.free.iter().map(|run| self.count(run)).sum();
        if groups > free {
            return Err(Error::full(format!(
                "a ring of {} does not fit: {} are free of {}; make it smaller, or delete or resize another",
                self.layout.group * groups,
                self.layout.group * free,
                self.layout.group * u64::from(self.layout.groups)
            )));
        }
        self.find().ok_or_else(|| self.refusal(groups))
    }

    /// The best place, if the guarantee can be kept in any.
    fn find(&self) -> Option<Placed> {
        let (groups, terms) = (self.wanted(), self.terms());
        let in_one = terms.iter().find_map(|without_logs| self.in_one_run(groups, *without_logs));
        in_one.or_else(|| terms.iter().find_map(|without| self.in_several_runs(groups, *without)))
    }

    fn wanted(&self) -> u64 {
        self.wish.capacity.0.div_ceil(self.layout.group.0).max(1)
    }

    fn count(&self, run: &Range<Bytes>) -> u64 {
        run.end.saturating_sub(run.start) / self.layout.group
    }

    fn floor(&self, run: &Range<Bytes>) -> Rate {
        self.profile.write_rate_within(run.start, run.end)
    }

    /// Free groups one by one, with their rates.
    fn groups(&self) -> impl Iterator<Item = (Range<Bytes>, Rate)> {
        let starts = self.free.iter().flat_map(|run| (0..self.count(run)).map(|n| run.start + self.layout.group * n));
        starts.map(|start| start..start + self.layout.group).map(|group| (group.clone(), self.floor(&group)))
    }

    /// The demand that the ring would be in these places.
    fn demand(&self, places: &[Range<Bytes>], without_logs: bool) -> Demand {
        let data = self.layout.data(!without_logs);
        let segment = if self.wish.segment == Bytes::ZERO { data } else { self.wish.segment };
        Demand {
            rate: self.wish.rate,
            lag: self.wish.flush_interval,
            places: places.to_vec(),
            hole_every: (!without_logs).then_some(data),
            skips_per_cycle: self.skips(segment),
            segment,
            index: self.wish.index,
            lap: self.lap(places, segment, data),
        }
    }

    /// Runs of pinned segments that a flush interval meets at the worst: every other segment is pinned until the share
    /// is used up.
    fn skips(&self, segment: Bytes) -> u32 {
        let pinned = (self.wish.capacity.0 / 100).saturating_mul(u64::from(self.wish.pin_percent)).div_ceil(segment.0);
        let met = self.wish.rate.bytes_in(self.wish.flush_interval).0.div_ceil(segment.0) + 1;
        u32::try_from(pinned.min(met)).unwrap_or(u32::MAX)
    }

    /// Segments that no pin holds, were the pin budget used up.
    fn lap(&self, places: &[Range<Bytes>], segment: Bytes, data: Bytes) -> u64 {
        let groups = places.iter().map(|run| self.count(run)).sum::<u64>() + self.wish.beside / self.layout.group;
        let segments = groups * (data.0 / segment.0.max(1)).max(1);
        segments - (segments * u64::from(self.wish.pin_percent)).div_ceil(100).min(segments)
    }

    /// Whether to do without logs, in the order in which it is tried.
    fn terms(&self) -> Vec<bool> {
        match (self.wish.without_logs, self.wish.rate) {
            (Some(without_logs), _) => vec![without_logs],
            (None, Rate(0)) => vec![false],
            (None, _) => vec![false, true],
        }
    }

    /// The places, if the guarantee can be kept there.
    fn try_places(&self, places: Vec<Range<Bytes>>, without_logs: bool) -> Option<Placed> {
        let floor = places.iter().map(|run| self.floor(run)).min()?;
        if self.wish.rate == Rate(0) {
            return Some(Placed { places, without_logs, highest: floor });
        }
        let tight = self.wish.rate.0.saturating_mul(100) > floor.0.saturating_mul(WITHOUT_LOGS_PERCENT);
        if self.wish.without_logs.is_none() && tight && !without_logs {
            return None;
        }
        let admitted = admit(self.profile, self.existing, &self.demand(&places, without_logs)).ok()?;
        Some(Placed { places, without_logs, highest: admitted.highest })
    }

    fn in_one_run(&self, groups: u64, without_logs: bool) -> Option<Placed> {
        let length = self.layout.group * groups;
        // Sorted by what is lost with them: speed, then runs cut in two, then long runs, then the front of the device.
        let mut windows: Vec<(Rate, bool, Bytes, Reverse<Bytes>)> = Vec::new();
        for run in self.free {
            let room = self.count(run);
            for first in 0..(room + 1).saturating_sub(groups) {
                let start = run.start + self.layout.group * first;
                let inside = first != 0 && first + groups != room;
                windows.push((self.floor(&(start..start + length)), inside, run.end - run.start, Reverse(start)));
            }
        }
        windows.sort_unstable();
        let window = |at: usize| {
            let Reverse(start) = windows[at].3;
            vec![start..start + length]
        };
        // The faster the better, so the first that suffices is found by halving; where the distance to other rings
        // matters as well, it may be a little further on.
        let (mut low, mut high) = (0, windows.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.try_places(window(middle), without_logs).is_some() { high = middle } else { low = middle + 1 }
        }
        (low..windows.len()).find_map(|at| self.try_places(window(at), without_logs))
    }

    fn in_several_runs(&self, groups: u64, without_logs: bool) -> Option<Placed> {
        self.rates().into_iter().find_map(|least| self.try_places(self.gather(least, groups)?, without_logs))
    }

    /// Rates of free groups, each once, rising.
    fn rates(&self) -> Vec<Rate> {
        let mut rates: Vec<Rate> = self.groups().map(|(_, rate)| rate).collect();
        rates.sort_unstable();
        rates.dedup();
        rates
    }

    /// Runs of free groups that write at `least` or more.
    fn at_least(&self, least: Rate) -> Vec<Range<Bytes>> {
        let mut runs: Vec<Range<Bytes>> = Vec::new();
        for (group, _) in self.groups().filter(|(_, rate)| *rate >= least) {
            match runs.last_mut() {
                Some(last) if last.end == group.start => last.end = group.end,
                _ => runs.push(group),
            }
        }
        runs
    }

    /// `groups` groups that write at `least` or more, in as few runs as possible.
    fn gather(&self, least: Rate, groups: u64) -> Option<Vec<Range<Bytes>>> {
        let mut runs = self.at_least(least);
        runs.sort_by_key(|run| (Reverse(self.count(run)), run.start));
        let mut left = groups;
        let mut chosen = Vec::new();
        for run in runs {
            let take = self.count(&run).min(left);
            if take > 0 {
                // On most devices the back of a run is its slower part.
                chosen.push(run.end - self.layout.group * take..run.end);
                left -= take;
            }
        }
        chosen.sort_by_key(|run| run.start);
        (left == 0).then_some(chosen)
    }

    /// The most that can be promised to a ring of the wished capacity, in the fastest groups that are free.
    pub(crate) fn best_rate(&self) -> Rate {
        let Some(places) = self.rates().iter().rev().find_map(|least| self.gather(*least, self.wanted())) else {
            return Rate(0);
        };
        highest(self.profile, self.existing, &self.demand(&places, self.wish.without_logs.unwrap_or(true)))
    }

    /// The largest place in which the rate can be promised.
    pub(crate) fn largest(&self) -> Option<Placed> {
        let without_logs = *self.terms().last()?;
        self.rates().into_iter().find_map(|least| self.try_places(self.at_least(least), without_logs))
    }

    /// The fewest groups in which the rate can be promised, more than `few` and at most `many`.
    fn least(&self, few: u64, many: u64) -> u64 {
        let (mut few, mut many) = (few, many);
        while many - few > 1 {
            let middle = few + (many - few) / 2;
            let wish = Wish { capacity: self.layout.group * middle, ..*self.wish };
            if (Site { wish: &wish, ..*self }).find().is_some() { many = middle } else { few = middle }
        }
        many
    }

    fn refusal(&self, groups: u64) -> Error {
        let rate = self.wish.rate;
        let (best, largest) = (self.best_rate(), self.largest());
        let what = match (best, largest) {
            (Rate(0), None) => "the device has no time left".to_owned(),
            (best, None) => format!("the most is {best} at that size, and not even the fastest place has {rate}"),
            (best, Some(largest)) if largest.size() > self.layout.group * groups => {
                let least = self.layout.group * self.least(groups, largest.size() / self.layout.group);
                format!(
                    "the most is {best} at that size, which comes round too soon for the map of its segments to be kept; it can be promised to a ring of {least}"
                )
            }
            (best, Some(largest)) => {
                format!("the most is {best} at that size, and {rate} can be promised up to {}", largest.size())
            }
        };
        let size = self.layout.group * groups;
        let beside = promised_already(self.existing);
        let asked = beyond(rate, best);
        Error::refused(format!("{asked} cannot be promised to a ring of {size}{beside}: {what}"))
    }
}

#[cfg(test)]
mod tests;

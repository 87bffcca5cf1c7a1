//! "Can this disk promise X, for how long a history, and where?" Answered by the arithmetic that will decide when the
//! ring is created, so the answer holds as long as nothing else is promised meanwhile.

use crate::admission::place::Site;
use crate::admission::{self, Demand, Placed, Wish, index_share};
use crate::layout::Layout;
use forebay_model::{Bytes, Plan, PlanRequest, Profile, Rate};
use std::ops::Range;
use std::time::Duration;

/// Groups of a ring that is small, but comes round seldom enough for the map of its segments to be kept.
const FEW_GROUPS: u64 = 4;

/// The device, as it is now.
#[derive(Debug, Clone, Copy)]
pub struct Ground<'a> {
    /// What was measured of it.
    pub profile: &'a Profile,
    /// Where things lie.
    pub layout: &'a Layout,
    /// Runs of free groups, by rising offset.
    pub free: &'a [Range<Bytes>],
    /// What is promised already.
    pub existing: &'a [Demand],
}

/// Answers `question`.
pub fn plan(ground: Ground<'_>, question: &PlanRequest) -> Plan {
    let Ground { profile, layout, free, existing } = ground;
    let all_free: Bytes = free.iter().map(|run| run.end - run.start).sum();
    let wish = wish(question, question.capacity.unwrap_or(all_free));
    let site = Site { profile, existing, layout, free, wish: &wish };
    let largest = site.largest();
    let staged = admission::check_staging(profile, question.rate, question.flush_interval, question.block);
    let found = match question.capacity {
        Some(_) => site.place().map_err(|error| error.message),
        None => largest.clone().ok_or_else(|| site.place().err().map_or_else(String::new, |error| error.message)),
    };
    let found = match (found, staged) {
        (Ok(_), Err(error)) => Err(error.message),
        (found, _) => found,
    };
    let highest = site.best_rate().min(admission::most_staged(profile, question.flush_interval, question.block));
    let staging = admission::staging(profile, question.rate, question.flush_interval, question.block);
    let mut plan = Plan {
        can: found.is_ok(),
        rate: question.rate,
        highest,
        largest: largest.map_or(Bytes::ZERO, |placed| placed.size()),
        places: Vec::new(),
        without_logs: false,
        capacity: Bytes::ZERO,
        usable: 0.0,
        history: Duration::ZERO,
        staging,
        note: String::new(),
    };
    match found {
        Ok(placed) => fill(&mut plan, ground, question, all_free, placed),
        Err(message) => plan.note = message,
    }
    plan
}

/// The most that can be promised now: to a ring of few groups, in the fastest ones that are free.
pub fn headroom(ground: Ground<'_>) -> Rate {
    let Ground { profile, layout, free, existing } = ground;
    let wish = wish(&PlanRequest::new(Rate(1)), layout.group * FEW_GROUPS);
    Site { profile, existing, layout, free, wish: &wish }.best_rate()
}

fn wish(question: &PlanRequest, capacity: Bytes) -> Wish {
    Wish {
        capacity,
        rate: question.rate,
        flush_interval: question.flush_interval,
        segment: Bytes::ZERO,
        index: index_share(question.keys as usize),
        pin_percent: question.pin_percent,
        without_logs: None,
        beside: Bytes::ZERO,
    }
}

/// Says where the ring would be, and what follows from that.
fn fill(plan: &mut Plan, ground: Ground<'_>, question: &PlanRequest, all_free: Bytes, placed: Placed) {
    let Ground { profile, layout, .. } = ground;
    let data = layout.data(!placed.without_logs).0 as f64 / layout.group.0 as f64;
    let unpinned = 1.0 - f64::from(question.pin_percent.min(100)) / 100.0;
    plan.capacity = placed.size();
    plan.usable = data / (1.0 + index_share(question.keys as usize)) * unpinned;
    let history = plan.capacity.0 as f64 * plan.usable / plan.rate.0.max(1) as f64;
    plan.history = Duration::try_from_secs_f64(history).unwrap_or(Duration::MAX);
    plan.without_logs = placed.without_logs;
    plan.places = placed.places;
    let slowest = plan.places.iter().map(|run| profile.write_rate_within(run.start, run.end)).min();
    let slowest = slowest.unwrap_or(Rate(0));
    plan.note = match (question.capacity, plan.places.len()) {
        (None, _) if plan.capacity < all_free => {
            format!("{} of {all_free} free is too slow for it; a lower rate could use more", all_free - plan.capacity)
        }
        (_, 2..) => {
            format!("no single run of free space suffices, so the ring would be in {} pieces", plan.places.len())
        }
        _ => format!("the device writes {slowest} there at its slowest"),
    };
    if !profile.writes_measured {
        plan.note += "; write rates were not measured, but taken from reads";
    }
}

#[cfg(test)]
mod tests;

//! Rings as tables and sentences, and the health of their targets.

use super::human;
use forebay_client::Info;
use forebay_model::ring::{Overflow, PinPolicy, RingState, RingStatus};
use forebay_model::{Rate, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long the history of a ring is.
pub fn history(ring: &RingStatus) -> Duration {
    ring.newest.zip(ring.oldest).map_or(Duration::ZERO, |(newest, oldest)| newest.since(oldest))
}

/// A ring that was just created, in a sentence.
pub fn created(ring: &RingStatus) -> String {
    let spec = &ring.spec;
    let promise = if spec.guarantee == Rate(0) {
        "no rate promised".to_string()
    } else {
        let holds = spec.guarantee.time_for(spec.capacity);
        format!("{} promised, which is about {} of history", spec.guarantee, human::span(holds))
    };
    format!("Created {}: {} in {} segments, {promise}.", spec.name, spec.capacity, ring.segments)
}

/// A line for each ring. `rates` has what each is written at now, where that is known.
pub fn table(rings: &[RingStatus], rates: Option<&BTreeMap<String, Rate>>) -> Vec<String> {
    let headings = headings(rates.is_some());
    let right: Vec<usize> = (2..headings.len() - 1).collect();
    let mut table = human::table(&headings, &right);
    for ring in rings {
        let rate = rates.map(|rates| rates.get(&ring.spec.name).copied());
        table.add_row(row(ring, rate));
    }
    human::lines(&table)
}

/// What is above the columns of [`row`].
pub fn headings(with_rate: bool) -> Vec<&'static str> {
    let mut headings = vec!["ring", "state", "capacity", "guarantee"];
    if with_rate {
        headings.push("rate");
    }
    headings.extend(["history", "elements", "pins", "lost"]);
    headings
}

/// What a line of [`table`] says of a ring; `rate` is what it is written at now, if that is told and known.
pub fn row(ring: &RingStatus, rate: Option<Option<Rate>>) -> Vec<String> {
    let spec = &ring.spec;
    let state = match (ring.state, ring.recording) {
        (RingState::Ready, true) => "recording",
        (RingState::Ready, false) => "idle",
        (RingState::Recovering, _) => "recovering",
        (RingState::Full, _) => "full",
        (RingState::Failed, _) => "failed",
    };
    let mut row = vec![spec.name.clone(), state.to_string(), spec.capacity.to_string(), guarantee(spec.guarantee)];
    if let Some(rate) = rate {
        row.push(rate.map_or_else(|| "-".to_string(), |rate| rate.to_string()));
    }
    row.push(human::span(history(ring)));
    row.push(human::count(ring.next_sequence.saturating_sub(ring.first_sequence)));
    row.push(match ring.pins.len() {
        0 => "-".to_string(),
        pins => format!("{pins} ({} %)", ring.pinned_segments * 100 / ring.segments.max(1)),
    });
    row.push(human::losses(&ring.losses));
    row
}

/// A guarantee, in a table.
pub fn guarantee(rate: Rate) -> String {
    if rate == Rate(0) { "-".to_string() } else { rate.to_string() }
}

/// Everything about a ring, a line each.
pub fn details(ring: &RingStatus) -> Vec<String> {
    let spec = &ring.spec;
    let time = |time: Option<Timestamp>| time.map_or_else(|| "-".to_string(), |time| time.to_string());
    let mut lines = vec![
        format!("{}  {}{}", spec.name, ring.state.name(), if ring.recording { ", recording" } else { "" }),
        format!("  capacity    {} in {} segments of {}", spec.capacity, ring.segments, spec.segment),
        format!(
            "  guarantee   {}",
            if spec.guarantee == Rate(0) { "none".to_string() } else { spec.guarantee.to_string() }
        ),
        format!("  history     {} ({} to {})", human::span(history(ring)), time(ring.oldest), time(ring.newest)),
        format!(
            "  elements    {} (sequence {} to before {})",
            human::count(ring.next_sequence.saturating_sub(ring.first_sequence)),
            ring.first_sequence,
            ring.next_sequence
        ),
        format!(
            "  keys        {}",
            match spec.keys.is_empty() {
                true => "none".to_string(),
                false => format!("{} (index up to {} %)", spec.keys.join(" "), spec.index_percent),
            }
        ),
        format!("  blocks      up to {}, on disk within {}", spec.block, human::span(spec.flush_interval)),
        format!(
            "  when full   {}",
            match spec.overflow {
                Overflow::Block => "the source waits",
                Overflow::DropNewest => "the newest is dropped, and recorded as a gap",
            }
        ),
        format!(
            "  pins        {} hold {} of {} segments; budget {} %, beyond it {}",
            ring.pins.len(),
            ring.pinned_segments,
            ring.segments,
            spec.pin_budget_percent,
            match spec.pin_policy {
                PinPolicy::Refuse => "a pin is refused",
                PinPolicy::Shorten => "history shortens",
                PinPolicy::Stop => "recording stops in the end",
            }
        ),
        format!("  lost        {}", human::losses(&ring.losses)),
        format!(
            "  memory      staging {} (most used {}), index {}, never more than {} in all",
            ring.staging, ring.staging_peak, ring.index_memory, ring.memory_limit
        ),
    ];
    if !spec.relatives.is_empty() {
        lines.push(format!("  relatives   {}", spec.relatives.join(" ")));
    }
    lines
}

/// A named state of health, and what to do about it.
pub struct Health {
    /// Its name, for programs.
    pub code: &'static str,
    /// What it means and what helps, for people.
    pub remedy: String,
}

/// The worst that can be said of a cluster.
pub fn health(rings: &[RingStatus], info: &Info) -> Health {
    if let Some(ring) = rings.iter().find(|ring| ring.state == RingState::Failed) {
        let failure = info.targets.iter().find_map(|target| target.complaints.first());
        let failure = failure.map_or_else(|| "its device failed".to_string(), Clone::clone);
        return Health { code: "failed", remedy: format!("{} records nothing any more: {failure}", ring.spec.name) };
    }
    if let Some(ring) = rings.iter().find(|ring| ring.state == RingState::Full) {
        return Health {
            code: "ring_full",
            remedy: format!("everything in {} is pinned, so nothing can be recorded; unpin something", ring.spec.name),
        };
    }
    if let Some(target) = info.targets.iter().find(|target| target.activity.slower > 0) {
        return Health {
            code: "slow_device",
            remedy: format!(
                "{} takes {} times as long as at its worst by its profile, and reports no error; replace it, or measure it \
                 anew with `forebay profile` if it is meant to be so",
                target.device, target.activity.slower
            ),
        };
    }
    let missed: u64 = rings.iter().map(|ring| ring.missed_deadlines).sum();
    if missed > 0 {
        return Health {
            code: "deadlines_missed",
            remedy: format!(
                "{} writes came after their deadline, so the device is slower than its profile; measure it anew with \
                 `forebay profile`",
                human::count(missed)
            ),
        };
    }
    if let Some(complaint) = info.targets.iter().find_map(|target| target.complaints.first()) {
        return Health {
            code: "repaired",
            remedy: format!("{complaint}; it is repaired, and a device that does this again should be replaced"),
        };
    }
    if let Some(ring) = rings.iter().find(|ring| ring.state == RingState::Recovering) {
        return Health {
            code: "recovering",
            remedy: format!("{} is finding its tail; it records already, and this ends by itself", ring.spec.name),
        };
    }
    Health { code: "ok", remedy: "nothing to do".to_string() }
}

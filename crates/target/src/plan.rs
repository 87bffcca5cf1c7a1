//! "Can this disk promise X, for how long a history, and where?" Answered by the arithmetic that will decide when the
//! ring is created, so the answer holds as long as nothing else is promised meanwhile.

use crate::admission::place::Site;
use crate::admission::{self, Demand, Placed, Wish, index_share};
use crate::layout::Layout;
use forebay_model::{Bytes, Profile, Rate};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// What somebody wants to know.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Question {
    /// Bytes per second that must be recorded at any time.
    pub rate: Rate,
    /// Space for it; as much as can be had at that rate if `None`.
    pub capacity: Option<Bytes>,
    /// Share of the space that will be pinned, in percent.
    pub pin_percent: u8,
    /// How long an accepted element may take to be durable.
    pub flush_interval: Duration,
    /// Largest block.
    pub block: Bytes,
    /// Number of keys that are indexed.
    pub keys: usize,
}

impl Question {
    /// Whether `rate` can be promised, with the default of everything else.
    pub fn new(rate: Rate) -> Question {
        Question {
            rate,
            capacity: None,
            pin_percent: 0,
            flush_interval: Duration::from_secs(1),
            block: Bytes::mib(1),
            keys: 0,
        }
    }
}

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

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Whether it can be promised.
    pub can: bool,
    /// What was asked for.
    pub rate: Rate,
    /// The most that could be promised with this capacity, in the fastest free place.
    pub highest: Rate,
    /// The largest ring that can have the rate.
    pub largest: Bytes,
    /// Where the ring would be.
    pub places: Vec<Range<Bytes>>,
    /// Whether its groups would have no logs.
    pub without_logs: bool,
    /// Space of the ring, in whole groups.
    pub capacity: Bytes,
    /// Share of the capacity that holds history: without logs, index and pins.
    pub usable: f64,
    /// Time from an element's arrival until it is overwritten, at the full rate.
    pub history: Duration,
    /// Memory for what has arrived and is not durable.
    pub staging: Bytes,
    /// What is in the way, or worth knowing, in a sentence.
    pub note: String,
}

/// Answers `question`.
pub fn plan(ground: Ground<'_>, question: &Question) -> Plan {
    let Ground { profile, layout, free, existing } = ground;
    let all_free: Bytes = free.iter().map(|run| run.end - run.start).sum();
    let wish = Wish {
        capacity: question.capacity.unwrap_or(all_free),
        rate: question.rate,
        flush_interval: question.flush_interval,
        segment: Bytes::ZERO,
        index: index_share(question.keys),
        pin_percent: question.pin_percent,
        without_logs: None,
        beside: Bytes::ZERO,
    };
    let site = Site { profile, existing, layout, free, wish: &wish };
    let largest = site.largest();
    let found = match question.capacity {
        Some(_) => site.place().map_err(|error| error.message),
        None => largest.clone().ok_or_else(|| site.place().err().map_or_else(String::new, |error| error.message)),
    };
    let highest = site.best_rate();
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
        Ok(placed) => plan.fill(profile, layout, question, all_free, placed),
        Err(message) => plan.note = message,
    }
    plan
}

impl Plan {
    fn fill(&mut self, profile: &Profile, layout: &Layout, question: &Question, all_free: Bytes, placed: Placed) {
        let data = layout.data(!placed.without_logs).0 as f64 / layout.group.0 as f64;
        let unpinned = 1.0 - f64::from(question.pin_percent.min(100)) / 100.0;
        self.capacity = placed.size();
        self.usable = data / (1.0 + index_share(question.keys)) * unpinned;
        let history = self.capacity.0 as f64 * self.usable / self.rate.0.max(1) as f64;
        self.history = Duration::try_from_secs_f64(history).unwrap_or(Duration::MAX);
        self.without_logs = placed.without_logs;
        self.places = placed.places;
        let slowest = self.places.iter().map(|run| profile.write_rate_within(run.start, run.end)).min();
        let slowest = slowest.unwrap_or(Rate(0));
        self.note = match (question.capacity, self.places.len()) {
            (None, _) if self.capacity < all_free => format!(
                "{} of {all_free} free is too slow for it; a lower rate could use more",
                all_free - self.capacity
            ),
            (_, 2..) => {
                format!("no single run of free space suffices, so the ring would be in {} pieces", self.places.len())
            }
            _ => format!("the device writes {slowest} there at its slowest"),
        };
        if !profile.writes_measured {
            self.note += "; write rates were not measured, but taken from reads";
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.can {
            writeln!(f, "no: {} cannot be promised", self.rate)?;
            writeln!(f, "  why      {}", self.note)?;
            writeln!(f, "  instead  at most {} in that space, or this rate in at most {}", self.highest, self.largest)?;
            return Ok(());
        }
        writeln!(f, "yes: {} can be promised", self.rate)?;
        writeln!(
            f,
            "  history  {} in {} ({:.0} % of it usable)",
            Span(self.history),
            self.capacity,
            self.usable * 100.0
        )?;
        let runs: Vec<String> =
            self.places.iter().take(4).map(|run| format!("{:.1} to {:.1} GiB", gib(run.start), gib(run.end))).collect();
        let more = self.places.len().saturating_sub(4);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let logs = if self.without_logs { ", without logs" } else { "" };
        writeln!(f, "  where    {}{more}{logs}", runs.join(", "))?;
        writeln!(f, "  memory   {} for what is not durable yet", self.staging)?;
        writeln!(f, "  highest  {} in that much space", self.highest)?;
        writeln!(f, "  note     {}", self.note)
    }
}

fn gib(offset: Bytes) -> f64 {
    offset.0 as f64 / Bytes::gib(1).0 as f64
}

/// A time in the two units that people read first.
struct Span(Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        match seconds {
            0 => write!(f, "{} ms", self.0.as_millis()),
            1..60 => write!(f, "{seconds} s"),
            60..3_600 => write!(f, "{} min {} s", seconds / 60, seconds % 60),
            3_600..86_400 => write!(f, "{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
            _ => write!(f, "{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
        }
    }
}

#[cfg(test)]
mod tests;

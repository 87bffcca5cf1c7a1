//! "Can this disk promise X, for how long a history, and where?" and its answer.

use crate::key::MAX_KEYS;
use crate::{Bytes, Error, Rate, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// No device has more bytes, or takes more in a second.
const MOST: u64 = 1 << 56;

/// A question about what could be promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanRequest {
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
    pub keys: u32,
}

impl PlanRequest {
    /// Whether `rate` can be promised, with the default of everything else.
    pub fn new(rate: Rate) -> PlanRequest {
        PlanRequest {
            rate,
            capacity: None,
            pin_percent: 0,
            flush_interval: Duration::from_secs(1),
            block: Bytes::mib(1),
            keys: 0,
        }
    }

    /// [`crate::Kind::Usage`] if there is no such ring, whatever the device.
    pub fn check(&self) -> Result<()> {
        let block = self.block.0;
        if !(4096..=crate::block::MAX_BLOCK as u64).contains(&block) {
            return Err(Error::usage(format!("a block of {} is none; blocks have 4 KiB to 4 MiB", self.block)));
        }
        if self.rate.0 > MOST || self.capacity.is_some_and(|capacity| capacity.0 > MOST) {
            return Err(Error::usage(format!(
                "no device has a rate or a capacity of more than {}; ask for less",
                Bytes(MOST)
            )));
        }
        if self.flush_interval > Duration::from_secs(3600) || self.pin_percent > 95 || self.keys as usize > MAX_KEYS {
            return Err(Error::usage(format!(
                "a ring with {} keys, {} % of it pinned and a flush interval of {} s is none; the most are {MAX_KEYS} keys, 95 % and an hour",
                self.keys,
                self.pin_percent,
                self.flush_interval.as_secs()
            )));
        }
        Ok(())
    }
}

/// What a device could promise to a ring.
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

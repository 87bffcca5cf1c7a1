//! What could not be stored, accounted for.

use crate::time::Timestamp;
use std::fmt;

/// Why data is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[repr(u8)]
pub enum Cause {
    /// The stream came faster than the ring could take it, and the policy is to drop the newest.
    Overflow = 1,
    /// The kernel dropped packets before we saw them.
    Kernel = 2,
    /// The interface or source was away.
    SourceAway = 3,
    /// The recorder was stopped or killed; what came meanwhile was never offered.
    Restart = 4,
    /// Stored bytes were found damaged.
    Damaged = 5,
    /// A target was away: it did not take what it was to have, or it does not give what it has.
    TargetAway = 6,
    /// An element was larger than the ring takes, or malformed.
    Rejected = 7,
    /// The wall clock was set back; no data is missing, but times are not in order here.
    ClockBack = 8,
}

impl Cause {
    /// How many codes there are.
    pub const CODES: usize = Cause::ALL.len();

    /// All causes, in the order of their codes.
    pub const ALL: [Cause; 8] = [
        Cause::Overflow,
        Cause::Kernel,
        Cause::SourceAway,
        Cause::Restart,
        Cause::Damaged,
        Cause::TargetAway,
        Cause::Rejected,
        Cause::ClockBack,
    ];

    /// The cause with this code on disk and wire.
    pub fn from_code(code: u8) -> Option<Cause> {
        Cause::ALL.into_iter().find(|c| *c as u8 == code)
    }

    /// Its place where something is kept for each code.
    #[inline]
    pub const fn index(self) -> usize {
        self as usize - 1
    }

    /// The name in messages, metrics and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Overflow => "overflow",
            Cause::Kernel => "kernel",
            Cause::SourceAway => "source_away",
            Cause::Restart => "restart",
            Cause::Damaged => "damaged",
            Cause::TargetAway => "target_away",
            Cause::Rejected => "rejected",
            Cause::ClockBack => "clock_back",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A recorded absence of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Gap {
    /// Why.
    pub cause: Cause,
    /// Elements missing; `None` where nobody can know.
    pub count: Option<u64>,
    /// Time of the first missing element, as well as it is known.
    pub first: Timestamp,
    /// Time of the last missing element.
    pub last: Timestamp,
}

impl Gap {
    /// Takes in a gap of the same cause that follows at once. Counts add up, as far as they can; an unknown count stays unknown.
    pub fn merge(&mut self, next: Gap) {
        debug_assert_eq!(self.cause, next.cause);
        self.count = self.count.zip(next.count).map(|(a, b)| a.saturating_add(b));
        self.first = self.first.min(next.first);
        self.last = self.last.max(next.last);
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            Some(n) => write!(f, "{n} missing ({}) from {} to {}", self.cause, self.first, self.last),
            None => write!(f, "an unknown number missing ({}) from {} to {}", self.cause, self.first, self.last),
        }
    }
}

#[cfg(test)]
mod tests;

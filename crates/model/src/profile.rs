//! A device's measured bandwidth and latency by position, and the arithmetic of worst cases that promises rest on.

use crate::size::{Bytes, Rate};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What is written before the flush whose time a profile keeps.
pub const FLUSH_BURST: Bytes = Bytes::mib(8);

/// One measured position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// Where.
    pub offset: Bytes,
    /// Sustained sequential write rate here.
    pub write: Rate,
    /// Sustained sequential read rate here.
    pub read: Rate,
    /// Slowest single large I/O seen here.
    pub worst: Duration,
}

/// What was measured of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// Points by rising offset; never empty.
    pub points: Vec<Point>,
    /// Whether the position of the last I/O matters for the next.
    pub rotates: bool,
    /// Positioning at the shortest distance, rotation included: worst seen.
    pub short_seek: Duration,
    /// Positioning over the whole device, rotation included: worst seen.
    pub full_seek: Duration,
    /// The same over the shortest distance: mean.
    pub mean_short_seek: Duration,
    /// The same over the whole device: mean.
    pub mean_full_seek: Duration,
    /// Longest stall of a write seen: what staging memory must cover.
    pub stall: Duration,
    /// Longest flush seen after a burst of [`FLUSH_BURST`].
    pub flush: Duration,
    /// Whether writes were measured. If not, write rates are a stated share of the read rates.
    pub writes_measured: bool,
    /// When it was measured, nanoseconds since 1970.
    pub measured: crate::time::Timestamp,
}

impl Profile {
    /// A guess for a device that nobody has measured: safe, not tight.
    pub fn guess(size: Bytes, rotates: bool) -> Profile {
        let (rate, short, full) = if rotates {
            (Rate::mb(40), Duration::from_millis(15), Duration::from_millis(40))
        } else {
            (Rate::mb(100), Duration::from_micros(500), Duration::from_micros(500))
        };
        let point = |offset| Point { offset, write: rate, read: rate, worst: Duration::from_millis(50) };
        Profile {
            points: vec![point(Bytes::ZERO), point(size)],
            rotates,
            short_seek: short,
            full_seek: full,
            mean_short_seek: short,
            mean_full_seek: full,
            stall: Duration::from_secs(2),
            flush: full,
            writes_measured: false,
            measured: crate::time::Timestamp(0),
        }
    }

    /// The lower rate of the two points around `offset`: a floor, not a guess in between.
    fn floor(&self, offset: Bytes, rate: impl Fn(&Point) -> Rate) -> Rate {
        let after = self.points.partition_point(|p| p.offset <= offset);
        let left = &self.points[after.saturating_sub(1)];
        let right = &self.points[after.min(self.points.len() - 1)];
        rate(left).min(rate(right)).max(Rate(1))
    }

    /// Write rate that can be counted on at `offset`.
    pub fn write_rate(&self, offset: Bytes) -> Rate {
        self.floor(offset, |p| p.write)
    }

    /// Read rate that can be counted on at `offset`.
    pub fn read_rate(&self, offset: Bytes) -> Rate {
        self.floor(offset, |p| p.read)
    }

    /// Lowest write rate in `from..to`.
    pub fn write_rate_within(&self, from: Bytes, to: Bytes) -> Rate {
        let inside = self.points.iter().filter(|p| p.offset > from && p.offset < to).map(|p| p.write).min();
        // `to` itself is outside: a range that ends on a point does not pay for what follows.
        let last = to.saturating_sub(Bytes(1)).max(from);
        let edges = self.write_rate(from).min(self.write_rate(last));
        inside.map_or(edges, |rate| rate.min(edges))
    }

    /// Worst positioning time from `from` to `to`, rotation included (linear between short and full seek in the root
    /// of the distance: an arm accelerates for the first half of its way).
    pub fn position_time(&self, from: Bytes, to: Bytes) -> Duration {
        if from == to {
            return Duration::ZERO;
        }
        let size = self.points.last().map_or(1, |p| p.offset.0).max(1);
        let share = (from.0.abs_diff(to.0) as f64 / size as f64).clamp(0.0, 1.0).sqrt();
        self.short_seek + self.full_seek.saturating_sub(self.short_seek).mul_f64(share)
    }

    /// Worst time for a write of `length` at `offset` with the head anywhere.
    pub fn worst_write(&self, offset: Bytes, length: Bytes) -> Duration {
        self.full_seek + self.write_rate(offset).time_for(length)
    }
}

#[cfg(test)]
mod tests;

//! How long a segment takes there and its acknowledgement back, and how long to wait before it is sent again.

/// Doublings of the time-out at most.
const DOUBLINGS: u32 = 8;
/// The time-out before anything was measured.
const UNKNOWN: u64 = 1_000_000_000;
const LONGEST: u64 = 60_000_000_000;

/// Smoothed times of one connection, in nanoseconds (RFC 6298).
#[derive(Debug, Clone)]
pub(super) struct RoundTrip {
    smoothed: u64,
    varies: u64,
    shortest: u64,
    doublings: u32,
}

impl RoundTrip {
    pub(super) fn new(shortest: u64) -> RoundTrip {
        RoundTrip { smoothed: 0, varies: 0, shortest, doublings: 0 }
    }

    /// Takes a measurement in.
    pub(super) fn sample(&mut self, span: u64) {
        if self.smoothed == 0 {
            (self.smoothed, self.varies) = (span.max(1), span / 2);
            return;
        }
        self.varies = (3 * self.varies + self.smoothed.abs_diff(span)) / 4;
        self.smoothed = ((7 * self.smoothed + span) / 8).max(1);
    }

    /// How long to wait.
    pub(super) fn timeout(&self) -> u64 {
        let base = if self.smoothed == 0 { UNKNOWN } else { self.smoothed + 4 * self.varies };
        (base.max(self.shortest) << self.doublings).min(LONGEST)
    }

    /// The last wait was in vain.
    pub(super) fn double(&mut self) {
        self.doublings = (self.doublings + 1).min(DOUBLINGS);
    }

    /// Something was acknowledged.
    pub(super) fn answered(&mut self) {
        self.doublings = 0;
    }
}

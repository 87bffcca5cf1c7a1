//! What connections have done.

use forebay_model::Bytes;
use std::ops::{AddAssign, Sub};

/// What one direction of a connection has done so far, or all of them together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Data that arrived in order, once.
    pub bytes: Bytes,
    /// Segments sent, acknowledgements and repetitions among them.
    pub segments: u64,
    /// Segments that a full port of the switch dropped.
    pub drops: u64,
    /// Segments lost by chance, at a cut, or at a machine that was down.
    pub lost: u64,
    /// Acknowledgements that said nothing new.
    pub duplicate_acks: u64,
    /// Segments repeated after three of those.
    pub fast_retransmits: u64,
    /// Times that nothing was acknowledged for so long that all was sent again.
    pub timeouts: u64,
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Counters) {
        self.bytes += other.bytes;
        self.segments += other.segments;
        self.drops += other.drops;
        self.lost += other.lost;
        self.duplicate_acks += other.duplicate_acks;
        self.fast_retransmits += other.fast_retransmits;
        self.timeouts += other.timeouts;
    }
}

impl Sub for Counters {
    type Output = Counters;
    fn sub(self, earlier: Counters) -> Counters {
        Counters {
            bytes: self.bytes - earlier.bytes,
            segments: self.segments - earlier.segments,
            drops: self.drops - earlier.drops,
            lost: self.lost - earlier.lost,
            duplicate_acks: self.duplicate_acks - earlier.duplicate_acks,
            fast_retransmits: self.fast_retransmits - earlier.fast_retransmits,
            timeouts: self.timeouts - earlier.timeouts,
        }
    }
}

//! What a disk has done.

use forebay_model::Bytes;
use std::ops::Sub;
use std::time::Duration;

/// What a disk has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Reads completed.
    pub reads: u64,
    /// Writes completed.
    pub writes: u64,
    /// Flushes completed.
    pub flushes: u64,
    /// Bytes in completed reads.
    pub bytes_read: Bytes,
    /// Bytes in completed writes.
    pub bytes_written: Bytes,
    /// From the end of each completed write to where the next one began, forwards or backwards, all together.
    pub between_writes: Bytes,
    /// I/Os that failed.
    pub failed: u64,
    /// Movements of the arm to another cylinder.
    pub seeks: u64,
    /// Time that the head (or the channels, on average) was at work on commands and on emptying the cache.
    pub busy: Duration,
}

impl Sub for Counters {
    type Output = Counters;
    fn sub(self, earlier: Counters) -> Counters {
        Counters {
            reads: self.reads - earlier.reads,
            writes: self.writes - earlier.writes,
            flushes: self.flushes - earlier.flushes,
            bytes_read: self.bytes_read - earlier.bytes_read,
            bytes_written: self.bytes_written - earlier.bytes_written,
            between_writes: self.between_writes - earlier.between_writes,
            failed: self.failed - earlier.failed,
            seeks: self.seeks - earlier.seeks,
            busy: self.busy - earlier.busy,
        }
    }
}

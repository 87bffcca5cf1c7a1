//! The contract between what is recorded and who records it.
//!
//! A source runs on the thread that calls [`Source::run`] until its input ends or the sink says stop. It offers
//! elements in order, with every absence of data that it learns of as a gap in its place.

use forebay_model::{Bytes, Gap, Moment, Result, Timestamp};
use std::fmt;
use std::time::Duration;

/// Takes what a source offers.
///
/// An element that was begun and never ended (the input was cut off, or recording was stopped) was not captured: the
/// sink drops what it has of it, and records a gap in its place.
pub trait Sink {
    /// One element: `time` of capture, payload in parts (concatenated), caller key columns (empty if none).
    fn element(&mut self, time: Timestamp, parts: &[&[u8]], caller_keys: &[u8]) -> Result<()>;

    /// One element of which whoever captured it had cut off the last `cut` bytes (a frame longer than a snap length). A
    /// sink that does not override this forgets how many.
    fn element_cut(&mut self, time: Timestamp, parts: &[&[u8]], caller_keys: &[u8], cut: u32) -> Result<()> {
        let _ = cut;
        self.element(time, parts, caller_keys)
    }

    /// One element that comes in pieces and may be larger than memory should hold: begin with its time, then parts,
    /// then end.
    fn begin(&mut self, time: Timestamp, caller_keys: &[u8]) -> Result<()>;

    /// The next piece of the element that was begun.
    fn part(&mut self, bytes: &[u8]) -> Result<()>;

    /// The element that was begun is complete.
    fn end(&mut self) -> Result<()>;

    /// Data is absent between the element before and the next.
    fn gap(&mut self, gap: Gap) -> Result<()>;

    /// Called at least every 50 ms while a source is alive and idle or busy (flush timers, progress, stop requests).
    /// False: stop orderly.
    fn tick(&mut self) -> Result<bool>;
}

/// Something that can be recorded.
pub trait Source {
    /// Offers everything to `sink` until the input ends or the sink says stop. What was offered before an error stays
    /// offered; the error says how much that was.
    fn run(&mut self, sink: &mut dyn Sink) -> Result<Summary>;

    /// What is recorded, for people: `interface eth0`, `packets from trace.pcap`.
    fn describe(&self) -> String;
}

/// What a source offered while it ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Elements offered whole.
    pub elements: u64,
    /// Payload of these elements.
    pub bytes: Bytes,
    /// Gaps offered.
    pub gaps: u64,
    /// Elements known to be missing in these gaps.
    pub missing: u64,
    /// Whether the sink ended it; otherwise the input did.
    pub stopped: bool,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} elements ({}), {} gaps ({} missing)", self.elements, self.bytes, self.gaps, self.missing)
    }
}

/// Time as sources need it: they block, so they pause instead of awaiting.
pub trait ClockDoor: Send + Sync {
    /// Wall time. It may jump either way.
    fn wall(&self) -> Timestamp;

    /// Monotonic time.
    fn now(&self) -> Moment;

    /// Blocks this thread for `span`.
    fn pause(&self, span: Duration);
}

//! A segment on the device: blocks from its start, its index and tables before its end, its trailer in the last 4 KiB.
//!
//! `spans` gathers what the tables say while the segment is open, and `gather` the second level of the index, within
//! its budget; `postings` is that level on the device; `footer` writes all of it behind the blocks when the segment is
//! sealed, and reads it back, with what `description` says of the ring. Bytes: `docs/format/segment.md`.

mod description;
mod footer;
mod gather;
mod postings;
mod spans;

pub use description::Description;
pub use footer::{TRAILER_LEN, Tables, Trailer, encode_footer};
pub use gather::IndexBudget;
pub use postings::{KeyIndex, Owner, PAGE_LEN, is_page, is_whole, look_up};
pub use spans::{Builder, SPAN_BYTES, Span, SpanGap, spans_touching};

#[cfg(test)]
mod tests;

//! A segment on the device: blocks from its start, its index and tables before its end, its trailer in the last 4 KiB.
//!
//! `spans` gathers what the tables say while the segment is open; `postings` are the second level of the index;
//! `footer` writes both behind the blocks when the segment is sealed and reads them back. Bytes:
//! `docs/format/segment.md`.

mod footer;
mod postings;
mod spans;

pub use footer::{TRAILER_LEN, Tables, Trailer, encode_footer};
pub use postings::{KeyIndex, Owner, PAGE_LEN, is_page, is_whole, look_up};
pub use spans::{Builder, IndexBudget, SPAN_BYTES, Span};

#[cfg(test)]
mod tests;

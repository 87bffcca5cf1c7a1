//! What anybody may send, and what lies on a device, as functions of bytes: each ends for all of them, and panics if something does not hold that has to.
//!
//! `cargo x fuzz` looks for bytes that reach what others did not (libFuzzer); what it found and keeps is in `corpus`, and
//! `crates/node/tests/corpus.rs` gives them all of it with every run of the tests.

mod blocks;
mod bodies;
mod capabilities;
mod frames;
mod packets;
mod portraits;
mod queries;
mod records;
mod roots;
mod rows;
mod sealed;
mod trailers;

/// An input: its name, and what takes it.
pub type Input = (&'static str, fn(&[u8]));

/// All of them.
pub const ALL: [Input; 11] = [
    ("blocks", blocks::take),
    ("bodies", bodies::take),
    ("capabilities", capabilities::take),
    ("frames", frames::take),
    ("packets", packets::take),
    ("portraits", portraits::take),
    ("queries", queries::take),
    ("records", records::take),
    ("roots", roots::take),
    ("rows", rows::take),
    ("trailers", trailers::take),
];

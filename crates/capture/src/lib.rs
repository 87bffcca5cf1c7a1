//! What is recorded and what comes out: sources and export formats.
//!
//! - [`source`]: the contract between what is recorded ([`Source`]) and who records it ([`Sink`]).
//! - The sources: [`interface`], [`file`], [`udp`], [`stream`], [`generator`].
//! - [`pcap`] and [`pcapng`]: packet captures, read and written as streams; [`packets`] is what they have in common.
//! - [`export`]: what a query returned, as packet captures, raw bytes, tables.
//!
//! Invariants: input is never trusted, so malformed bytes end in one sentence and never in a panic; memory is bounded
//! whatever the input says of its own size; elements reach the sink in the order of the source, with the gaps in
//! their places; an element costs no allocation on its way.

pub mod export;
mod feed;
pub mod file;
pub mod generator;
mod input;
pub mod interface;
pub mod packets;
pub mod pcap;
pub mod pcapng;
pub mod source;
pub mod stream;
#[cfg(test)]
mod testing;
pub mod udp;

pub use forebay_model::packet::LinkType;
pub use source::{ClockDoor, Sink, Source, Summary};

//! Serves targets to clients.
//!
//! - [`service`]: what one target does for whoever asks, on its loop; knows no threads.
//! - [`host`]: targets on their threads, and which of them has a name.
//! - [`writer`] and [`answer`]: streams into and out of a target, for callers on other threads; [`objects`] and
//!   [`heaps`]: requests about objects and records, several of them under way.
//! - [`server`]: the same for other processes, in frames.
//!
//! Invariants: whoever is slow holds up nothing but itself; what a peer sends is checked before a target sees it; a
//! block that was accepted once is never accepted again.

pub mod answer;
mod check;
pub mod heaps;
pub mod host;
pub mod network;
pub mod objects;
pub mod server;
pub mod service;
mod turns;
mod watch;
pub mod writer;

pub use answer::{Answer, Part};
pub use heaps::HeapLink;
pub use host::{Host, Make};
pub use objects::ObjectLink;
pub use server::Server;
pub use writer::Writer;

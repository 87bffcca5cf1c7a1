//! The public Rust API: [`Cluster`] is what a program holds; [`Recorder`] writes into a ring, [`Answer`] reads from it;
//! [`Objects`] are bytes under names, [`Heaps`] have small records under ids.
//!
//! - [`cluster`]: everything that is asked once; [`recorder`] and [`answer`]: streams in and out.
//! - [`objects`]: bytes under an id or a name.
//! - [`heaps`]: records, in transactions.
//! - [`file`]: files striped over targets; its clients compute their parity.
//! - [`files`]: files by their names; [`file`]: how one is striped over targets.
//! - [`rings`]: rings of a cluster on the network; [`targets`]: its targets, as they say of themselves.
//! - [`users`] of such a cluster, and its [`volumes`]: what trees of files may have together.
//! - [`nodes`]: connections to the nodes of a cluster; [`control`]: what is asked of its manager.
//! - [`peer`]: what a cluster is reached by: in this process, or through a connection ([`remote`]).
//! - [`again`]: what is asked twice takes effect once.
//! - [`stopper`]: how another thread ends a wait.
//!
//! Invariants: what a recorder says is durable stays, also when the process that serves the ring goes away and another
//! takes over; nothing is recorded twice; what could not be recorded is recorded as a gap. Nothing here allocates or
//! reads a clock for each element.

pub mod again;
pub mod answer;
pub mod cluster;
pub mod control;
#[cfg(test)]
mod fake;
pub mod file;
pub mod files;
mod granted;
pub mod heaps;
pub mod nodes;
pub mod objects;
mod outbox;
pub mod peer;
pub mod recorder;
pub mod remote;
pub mod rings;
pub mod stopper;
pub mod targets;
pub mod users;
pub mod volumes;
mod way;

pub use answer::{Answer, Event};
pub use cluster::{Cluster, QueryOptions};
pub use forebay_model::PlanRequest;
pub use forebay_wire::command::{Activity, Durable, Info, TargetInfo, TargetPlan, TargetProfile};
pub use heaps::Heaps;
pub use objects::Objects;
pub use peer::Peer;
pub use recorder::{Recorder, RecorderOptions, RecorderProgress};
pub use remote::{Patience, Remote};
pub use stopper::Stopper;
pub use targets::OfTargets;

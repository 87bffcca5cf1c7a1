//! Files striped over targets, as their clients read and write them: each client computes parity, and does without
//! what is lost. [`components`] is what can be asked of one open file's components.
//!
//! Async, on one thread, and of no runtime: the same code runs in reality and in simulation.

pub mod components;

pub use components::{Asked, Components, Guard, Intent, IntentId, Lock, Redo, Slice};

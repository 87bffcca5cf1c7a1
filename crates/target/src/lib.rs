//! One device's store: rings on a formatted device, with their promises.
//!
//! Layers, top down: [`target`] (names, pins, resizing) and [`ring`] (blocks, segments, durability) decide *what*;
//! [`admission`] decides what may be promised and [`schedule`] keeps it; [`checkpoint`], [`superblock`], [`segment`]
//! and `forebay_model::block` are the bytes; [`layout`] is where they lie. [`query`] reads beside all of this; [`verify`]
//! looks over all of it without changing anything; [`rebuild`] makes superblock and checkpoint anew where both copies are
//! gone.
//! One thread owns a target; inside it there are no locks.

pub mod admission;
pub mod catalog;
mod checkpoint;
mod coalesce;
#[cfg(test)]
mod fake;
mod gate;
pub mod heap;
pub mod layout;
pub mod object;
pub mod plan;
pub mod profile;
mod promise;
pub mod query;
pub mod rebuild;
pub mod ring;
mod salvage;
pub mod schedule;
pub mod scrub;
#[cfg(test)]
mod seeds;
pub mod segment;
pub mod superblock;
pub mod target;
pub mod verify;
mod walk;

pub use heap::Heap;
pub use object::Objects;
pub use ring::{Arrival, Progress, Ring};
pub use target::Target;

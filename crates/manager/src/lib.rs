//! The manager: names, volumes, users, the map of the cluster, where files lie, and who may do what with their bytes.
//!
//! A [`Manager`] is a state machine without threads, clocks or networks of its own: it is told the time, carries out
//! batches of changes ([`Manager::apply`]) and answers questions ([`Manager::ask`]) and reports ([`Manager::report`]).
//! What it knows is in a metadata engine ([`engine`]); what is asked and answered are the types of
//! [`forebay_wire::control`].
//!
//! Invariants: what was answered to a change is durable; a change that is asked for again is not done again; a file or
//! directory has one name, and its number never is another's; what volumes are charged is the sum of what is in them.

pub mod engine;

mod authenticate;
mod balance;
mod callbacks;
mod cluster;
pub mod copies;
pub mod desk;
mod draft;
mod given;
mod grant;
mod holders;
mod keys;
mod lengths;
mod listening;
mod manager;
mod operations;
mod place;
mod placement;
mod principal;
mod questions;
mod quota;
mod records;
pub mod recover;
mod remembered;
mod report;
mod tick;

pub use engine::{Engine, Memory, Redb};
pub use manager::{Asked, Manager, Now, Settings};
pub use principal::Principal;
pub use tick::Ticked;

#[cfg(test)]
mod history;
#[cfg(test)]
mod rates;
#[cfg(test)]
mod rot;
#[cfg(test)]
mod seeds;
#[cfg(test)]
mod testing;

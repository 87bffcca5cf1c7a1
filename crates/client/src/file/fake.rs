//! For tests: components in memory, in time that moves to the next event when nothing is ready. Requests of one client are
//! done in any order, and answered later; components fail, lose their buffers and are damaged; connections end in the
//! middle; clients die, and what they had asked is done or not, until somebody asks what they had begun.

mod chance;
mod check;
mod component;
mod link;
mod world;

pub(super) use chance::{Chance, each};
pub(super) use link::Link;
pub(super) use world::{Begun, World};

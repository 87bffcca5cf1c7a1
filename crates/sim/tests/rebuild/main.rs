//! Both copies of superblock and checkpoint are gone: what the segments say themselves makes a target of the device again,
//! with everything that was durable. Outcome 29 of the list in `docs/promises/ring.md`.

#![allow(clippy::unwrap_used)]

mod copies;
mod damaged;
mod refused;
mod rings;
mod whole;

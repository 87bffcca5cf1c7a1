//! Rings of a target: each file has one promise, or one kind of fault, and tries it to its end.

mod admission;
mod astray;
mod changed_laps;
mod damage_matrix;
mod deadlines;
mod every_cut;
mod every_failure;
mod flush_interval;
mod gaps;
#[path = "../harm/mod.rs"]
mod harm;
mod opening;
mod query_cost;
mod read_ring;
mod refusals;
mod undone;
mod writers;

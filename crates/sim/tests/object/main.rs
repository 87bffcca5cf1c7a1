//! Objects of a target: each file has one promise, or one kind of fault, and tries it to its end.

mod damage;
mod faults;
#[path = "../harm/mod.rs"]
mod harm;
mod homing;
mod largest;
mod opening;

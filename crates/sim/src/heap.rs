//! Heaps on simulated disks: what the churn of pages costs with one way of using slots again and another, and lives with
//! power cuts beside a plain model.

pub mod life;
pub mod pages;

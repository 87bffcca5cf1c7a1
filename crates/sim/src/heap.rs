//! Heaps on simulated disks: lives with power cuts beside a plain model, and loads that are measured, also elsewhere.
//!
//! - [`life`]: a heap beside a plain model; [`crowd`]: several users of one that is full.
//! - [`load`]: what loads share, which know no world; [`pages`], [`tree`], [`churn`] and [`trace`] are some.
//! - [`measure`]: one of them on a fresh heap, on a simulated disk or on any device; [`scan`]: reading a heap through.

pub mod churn;
pub mod crowd;
pub mod life;
pub mod load;
pub mod measure;
pub mod pages;
pub mod scan;
pub mod trace;
pub mod tree;

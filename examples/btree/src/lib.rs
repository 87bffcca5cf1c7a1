//! A worked example: a B+tree whose pages are records of a heap. `README.md` beside this says how it works and why so.
//!
//! - [`tree`]: insert, get, remove, range, commit, abort, and opening again.
//! - [`page`]: a page as bytes.
//! - [`store`]: what a tree needs of whoever keeps its pages; a heap is one such store, and others can be measured with
//!   the same tree.

pub mod page;
pub mod store;
pub mod tree;

pub use store::PageStore;
pub use tree::{Shape, Tree, TreeOptions};

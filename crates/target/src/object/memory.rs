//! What a target holds in memory of its maps: rows, which leaves there are, and what is free; and the most that this is.
//!
//! Rows are forgotten beyond [`ROWS_IN_MEMORY`](super::tree::ROWS_IN_MEMORY) unless they have changed, and written when
//! [`CHANGED_ROWS`] have. Leaves are named in a checkpoint area, which bounds their number. Free blocks take a bit each
//! at worst.

use super::rows::{BLOCK, LEAF_SPLIT};
use super::{CHANGED_ROWS, Objects, Work};
use crate::layout::Layout;
use forebay_model::Bytes;

/// A changed row takes in memory at most this many times what it takes as it is written, if it is a small one.
const AS_WRITTEN: u64 = 8;
/// What a leaf takes in memory, of which the catalog tells in [`LEAF_NAMED`] bytes at least: its place among the others,
/// and what the catalog knows of it, twice while a checkpoint is made.
const LEAF_KNOWN: u64 = 500;
/// Bytes that name a leaf in the catalog, at least.
const LEAF_NAMED: u64 = 12;
/// What a group takes in memory beside a bit for each block: how far its log is filled, who owns it.
const GROUP_KNOWN: u64 = 512;
/// Bytes as they are written that a free run takes in a row.
const RUN: usize = 10;

/// Memory for maps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MapMemory {
    /// What rows take, and the leaves that they are in.
    pub used: Bytes,
    /// The most that all of it takes, whatever is kept: rows, leaves, free blocks.
    pub limit: Bytes,
}

/// The most memory that the maps of a target take, where rows are kept up to `most`.
fn limit(layout: &Layout, most: Bytes) -> Bytes {
    let rows = most.0 * 9 / 8 + CHANGED_ROWS as u64 * (AS_WRITTEN + 1) + 64 * LEAF_SPLIT as u64;
    // Its bytes beside it, while it is read or written.
    let leaves = layout.area.0 / LEAF_NAMED * LEAF_KNOWN + 2 * layout.area.0;
    let groups = u64::from(layout.groups) * GROUP_KNOWN + layout.device.0 / BLOCK.0 / 8;
    Bytes(rows + leaves + groups)
}

impl Objects {
    /// What maps take in memory now, and at most.
    pub fn map_memory(&self) -> MapMemory {
        let tree = &self.work.borrow().meta.tree;
        let used = Bytes(tree.memory() as u64 + tree.leaves() as u64 * LEAF_KNOWN);
        MapMemory { used, limit: limit(&self.core.layout(), tree.most()) }
    }
}

impl Work {
    /// Bytes of rows that the next checkpoint writes.
    pub(super) fn changed_rows(&self) -> usize {
        self.meta.tree.dirty() + RUN * self.meta.data.changed_runs()
    }
}

//! What a target may hold in memory; and what it holds there of its maps: rows, which leaves there are, and what is free; and the
//! most that this is.
//!
//! Rows are forgotten beyond [`ROWS_IN_MEMORY`](super::tree::ROWS_IN_MEMORY) unless they have changed, and written when
//! [`CHANGED_ROWS`] have. Leaves are named in a checkpoint area, which bounds their number. Free blocks take a bit each
//! at worst.

use super::behind::MOST_BUFFERED;
use super::logs::MOST_CACHE;
use super::read::FOR_READS;
use super::rows::{BLOCK, LEAF_SPLIT};
use super::tree::ROWS_IN_MEMORY;
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

/// What a target may hold in memory at most. All of it is taken only as it is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Rows that have not changed.
    pub rows: Bytes,
    /// What is read ahead, whatever was chosen.
    pub ahead: Bytes,
    /// Reads that are under way, and what was read and is on its way to whoever asked: each so much.
    pub reads: Bytes,
    /// Bytes that are buffered; a command brings up to 8 MiB.
    pub buffered: Bytes,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory { rows: Bytes(ROWS_IN_MEMORY as u64), ahead: MOST_CACHE, reads: FOR_READS, buffered: MOST_BUFFERED }
    }
}

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

#[cfg(test)]
mod tests;

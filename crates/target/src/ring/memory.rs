//! The most memory that a ring takes, whatever is recorded: arithmetic over its settings, without looking at it.

use super::segments::RECENT_TABLES;
use super::{InFlight, Ring};
use crate::catalog::Segment;
use crate::segment::{IndexBudget, Span, SpanGap};
use forebay_model::Bytes;

/// Bytes of a ring's part of the catalog as a checkpoint, for each segment, at most.
const ENCODED_SEGMENT: u64 = 96;
/// What is not counted in detail: queues, timers, tasks, the ring itself.
const OTHERS: Bytes = Bytes::mib(1);

/// The most memory that a ring takes, by what for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimit {
    /// Blocks that arrive, and those on their way to the device: rate times the longest stall.
    pub staging: Bytes,
    /// The index of the open segment.
    pub index: Bytes,
    /// Footers in the making and on their way, and tables of segments sealed lately.
    pub footers: Bytes,
    /// What is known of blocks that are not durable yet, or are in the open segment.
    pub blocks: Bytes,
    /// Summaries of all segments, with their copy and their bytes while a checkpoint is made.
    pub summaries: Bytes,
}

impl MemoryLimit {
    /// All of it.
    pub fn total(&self) -> Bytes {
        self.staging + self.index + self.footers + self.blocks + self.summaries + OTHERS
    }
}

impl Ring {
    /// The most memory that the ring takes.
    pub fn memory_limit(&self) -> MemoryLimit {
        let (segment, block, slots) =
            self.core.with_ring(self.id, |r| (r.segment.0, r.spec.block.0, r.slots.len() as u64));
        let budget = self.index_budget();
        let keys = self.keys.len() as u64;
        let staging = self.staging.capacity().0 * self.staging.count() as u64;
        let index = budget.memory(keys);
        let footer = footer(&budget, keys);
        // While a footer is encoded there are its pages, the whole, and what sorting needs.
        let sealing = budget.postings() * 8 + 2 * footer;
        let under_way = self.at_risk_limit() / segment.max(1) + 2;
        let tables = tables(&budget, keys) * (RECENT_TABLES as u64 + under_way);
        // Vectors that grow by doubling are up to twice as long as what is in them.
        let in_flight = self.at_risk_limit() / 4096 * 2 * size_of::<InFlight>() as u64;
        let written = segment / 4096 * 2 * size_of::<(u32, u32)>() as u64;
        let arrivals = staging / block.max(1) * 2 * 128;
        MemoryLimit {
            staging: Bytes(staging),
            index,
            footers: Bytes(sealing + footer * under_way + tables),
            blocks: Bytes(in_flight + written + arrivals),
            summaries: Bytes(slots * (2 * size_of::<Option<Segment>>() as u64 + 2 * ENCODED_SEGMENT)),
        }
    }
}

impl Ring {
    /// Bytes of blocks at least in a segment that had no room for one more.
    pub(super) fn least_in_segment(&self) -> u64 {
        let (segment, block) = self.core.with_ring(self.id, |r| (r.segment.0, r.spec.block.0));
        segment.saturating_sub(footer(&self.index_budget(), self.keys.len() as u64) + block).max(4096)
    }
}

/// Bytes of a footer at most.
fn footer(budget: &IndexBudget, keys: u64) -> u64 {
    budget.bytes + keys * 8192 + budget.spans() * (80 + 40 * keys) + budget.gaps() * 40 + (16 << 10)
}

/// Memory of a sealed segment's tables at most.
fn tables(budget: &IndexBudget, keys: u64) -> u64 {
    let of_span = size_of::<Span>() as u64 + keys * (2 * size_of::<Vec<u8>>() as u64 + 64);
    let of_page = 2 * (size_of::<u64>() + size_of::<u32>()) as u64;
    2 * budget.spans() * of_span
        + (budget.bytes / 4096 + 2 * keys) * of_page
        + 2 * budget.gaps() * size_of::<SpanGap>() as u64
}

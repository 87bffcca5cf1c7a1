//! What was given to the targets of a ring and is not settled: blocks that are durable together, or lost.

use super::super::stripe::{Row, Table};
use super::lane::Lane;
use crate::peer::Block;
use forebay_env::Buffer;
use forebay_model::block::View;
use forebay_model::{Gap, Moment};
use std::sync::Arc;

/// Blocks that are settled together.
pub(super) struct Stripe {
    pub(super) members: Vec<Member>,
    /// The number of the last block in it.
    pub(super) last: u64,
    pub(super) is_open: bool,
    pub(super) parity: Parity,
}

pub(super) struct Member {
    pub(super) row: Row,
    /// When it was handed over; nothing if its target was away.
    pub(super) sent: Option<Moment>,
    pub(super) is_durable: bool,
    /// Its number in the recorder's session, and the gaps that it tells of.
    pub(super) number: u64,
    pub(super) gaps: Vec<Gap>,
    /// Until its stripe has all of its blocks.
    pub(super) block: Option<Arc<Block>>,
    pub(super) is_lost: bool,
}

pub(super) enum Parity {
    /// There is none.
    None,
    /// A buffer for it.
    Reserved(Buffer),
    /// It was handed over.
    Sent { sent: Moment, is_durable: bool, table: Table, block: Arc<Block> },
}

impl Parity {
    /// The parity in the block that was handed over.
    pub(super) fn xor(&self) -> Option<Vec<u8>> {
        let Parity::Sent { table, block, .. } = self else { return None };
        let view = View::of_sealed(&block.buffer).ok()?;
        let longest = table.rows.iter().map(|row| row.length).max()?;
        let xor = view.entries().nth(1)?.ok()?;
        (xor.payload.len() == longest as usize).then(|| block.buffer[xor.payload].to_vec())
    }
}

impl Stripe {
    /// Whether it is as safe as it gets.
    pub(super) fn is_settled(&self) -> bool {
        if self.is_open {
            return false;
        }
        let is_covered = |member: &Member| {
            matches!(&self.parity, Parity::Sent { is_durable: true, table, .. }
                if table.rows.iter().any(|row| row.absent && row.component == member.row.component))
        };
        let members = self.members.iter().all(|member| member.is_durable || member.is_lost || is_covered(member));
        members && !matches!(self.parity, Parity::Reserved(_) | Parity::Sent { is_durable: false, .. })
    }

    /// What its target does not have, and no parity covers, is lost.
    pub(super) fn lose_what_is_nowhere(&mut self, lanes: &[Lane]) {
        if self.is_open || matches!(self.parity, Parity::Sent { .. }) {
            return;
        }
        for member in self.members.iter_mut().filter(|member| !member.is_durable) {
            let lane = &lanes[member.row.component as usize];
            member.is_lost |= lane.up().is_none() || lane.writer != member.row.writer;
        }
    }
}

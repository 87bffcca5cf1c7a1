//! What was given to the targets of a ring and is not settled: blocks that are durable together, or lost.

use super::super::stripe::{Row, Table};
use super::lane::Lane;
use crate::peer::Block;
use forebay_env::Buffer;
use forebay_model::block::View;
use forebay_model::layout::parity;
use forebay_model::{Cause, Gap, Moment, Timestamp};
use std::collections::VecDeque;
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

impl Member {
    /// Whether it may not be where it belongs, and is not given up: the parity is to make it good.
    pub(super) fn is_covered(&self) -> bool {
        self.row.absent && !self.is_durable && !self.is_lost
    }
}

pub(super) enum Parity {
    /// There is none.
    None,
    /// A buffer for it.
    Reserved(Buffer),
    /// It was handed over, and tells of what was recorded without it before.
    Sent { sent: Moment, is_durable: bool, table: Table, block: Arc<Block>, told: Option<Gap> },
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

    /// What it tells that may not be durable.
    pub(super) fn told(&self) -> Option<Gap> {
        match self {
            Parity::Sent { is_durable: false, told, .. } => *told,
            _ => None,
        }
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

    /// The bytes of the longest block that its parity is of.
    pub(super) fn longest(&self) -> usize {
        let kept = self.members.iter().filter(|member| !member.is_lost);
        kept.map(|member| member.row.length).max().unwrap_or(0) as usize
    }

    /// Its parity without what a target was to have and is lost; nothing if that is not among the blocks that were kept for it.
    pub(super) fn without_lost_of(&self, at: usize, mut xor: Vec<u8>, kept: &VecDeque<Arc<Block>>) -> Option<Vec<u8>> {
        for member in self.members.iter().filter(|member| member.row.component as usize == at && member.is_lost) {
            let block = kept.iter().find(|block| block.number == member.row.number)?;
            if block.buffer.len() > xor.len() {
                return None;
            }
            parity::add(&mut xor, &block.buffer);
        }
        xor.truncate(self.longest());
        Some(xor)
    }

    /// What the parity is to tell of it that does not have it: by the times that it has, whatever the clock says now.
    pub(super) fn uncovered(&self) -> Gap {
        let times = self.members.iter().map(|member| member.row.times);
        let (first, last) = times.fold((i64::MAX, i64::MIN), |all, of_it| (all.0.min(of_it.0), all.1.max(of_it.1)));
        Gap { cause: Cause::TargetAway, count: None, first: Timestamp(first), last: Timestamp(last) }
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

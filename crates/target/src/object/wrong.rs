//! Blocks of objects that were found to be damaged, until something else is in their place: so it is counted what was put right,
//! whoever did that. A client that reads makes them of the others in the same request, and writes them again.
//!
//! Bounded: beyond [`MOST`] they are not remembered, and so not counted.

use super::record::{Change, Write};
use forebay_model::ObjectId;
use std::collections::BTreeSet;

/// Blocks that are remembered at once.
const MOST: usize = 4096;

/// The blocks.
#[derive(Default)]
pub(super) struct Wrong {
    blocks: BTreeSet<(ObjectId, u64)>,
}

impl Wrong {
    /// A block could not be read, or was not what was written.
    pub(super) fn found(&mut self, id: ObjectId, block: u64) {
        if self.blocks.len() < MOST {
            self.blocks.insert((id, block));
        }
    }

    /// A change takes effect: how many of them it put right. What is gone is not.
    pub(super) fn heed(&mut self, change: &Change) -> u64 {
        match change {
            _ if self.blocks.is_empty() => 0,
            Change::Remove { id } => {
                self.blocks.retain(|(of, _)| of != id);
                0
            }
            Change::Write(Write { id, dropped, logged, inline, pieces, .. }) => {
                let logged = logged.iter().map(|(at, crcs)| (*at, at + crcs.0.len() as u64));
                let home = pieces.iter().map(|(at, piece)| (*at, at + piece.blocks()));
                let written = logged.chain(home).chain(inline.iter().map(|_| (0, 1)));
                let right = written.map(|(from, to)| self.forget(*id, from, to)).sum();
                if let Some((from, to)) = dropped {
                    self.forget(*id, *from, *to);
                }
                right
            }
            _ => 0,
        }
    }

    fn forget(&mut self, id: ObjectId, from: u64, to: u64) -> u64 {
        let before = self.blocks.len();
        self.blocks.retain(|block| !((id, from)..(id, to)).contains(block));
        (before - self.blocks.len()) as u64
    }
}

#[cfg(test)]
mod tests;

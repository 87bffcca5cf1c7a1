//! Large records that are got: so many are read at once, and what came of one is held until its last part was asked for.
//!
//! Invariant: what is held of all of them is bounded. What was let go of is read again by who wants it.

use super::LinkId;
use forebay_env::allowance::{Allowance, Allowed};
use forebay_model::heap::{LARGEST_RECORD, RecordId};
use std::cell::RefCell;
use std::collections::VecDeque;

/// Chained records that are read at once: nobody knows before how large one is, and most are not much larger than a slot.
const AT_ONCE: usize = 16;
/// The most bytes that are held.
const MOST_HELD: usize = 2 * LARGEST_RECORD;

/// The large records of a target.
pub(super) struct Large {
    reading: Allowance,
    /// Those that were got in part, the one that was so last behind.
    held: RefCell<VecDeque<(Part, Vec<u8>)>>,
}

/// A record of which a part was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub link: LinkId,
    pub heap: String,
    pub id: RecordId,
    /// The commit that it was asked of.
    pub as_of: Option<u64>,
}

impl Default for Large {
    fn default() -> Large {
        Large { reading: Allowance::new(AT_ONCE), held: RefCell::default() }
    }
}

impl Large {
    /// Waits until one more may be read.
    pub(super) async fn turn(&self) -> Allowed {
        self.reading.take(1).await
    }

    /// What is held of it.
    pub(super) fn take(&self, part: &Part) -> Option<Vec<u8>> {
        let mut held = self.held.borrow_mut();
        let at = held.iter().position(|(other, _)| other == part)?;
        held.remove(at).map(|(_, bytes)| bytes)
    }

    /// More of it will be asked for.
    pub(super) fn hold(&self, part: Part, bytes: Vec<u8>) {
        let mut held = self.held.borrow_mut();
        held.push_back((part, bytes));
        while held.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() > MOST_HELD {
            held.pop_front();
        }
    }

    /// Nobody asks for more of these.
    pub(super) fn let_go(&self, which: impl Fn(&Part) -> bool) {
        self.held.borrow_mut().retain(|(part, _)| !which(part));
    }
}

#[cfg(test)]
mod tests;

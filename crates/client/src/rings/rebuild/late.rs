//! What is told late, in the order of time again.
//!
//! A target that takes nothing is given up seconds after blocks went to it: only then it is told that these may not be there, behind
//! what was recorded meanwhile. So what is told is kept for a while before it is given; what one part has stays in its order.

use super::super::stripe::{Row, Table};
use forebay_model::Gap;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

/// So much later it may be told of a block: a target is given up after ten seconds, and who records may stop for a while.
const LATE: Duration = Duration::from_secs(60);
/// So many blocks are kept at most: with tables of ten rows they take 24 MiB.
const MOST: usize = 1 << 15;

/// A block that may not be where it belongs, or a gap.
pub(super) enum Told {
    Block(Rc<Table>, Row),
    Gap(Gap),
}

struct Kept {
    told: Told,
    /// The number at the parity of what told it.
    sequence: u64,
}

/// What was told and is not given yet.
pub(super) struct Late {
    /// Of each part, and the gaps.
    queues: Vec<VecDeque<Kept>>,
    /// The latest time of anything that was told.
    newest: i64,
    /// How much of what is kept was told by each block of parity.
    told_by: BTreeMap<u64, usize>,
    count: usize,
}

impl Kept {
    /// Of a block the last time: the first may be that of a gap that was told long after.
    fn time(&self) -> i64 {
        match &self.told {
            Told::Block(_, row) => row.times.1,
            Told::Gap(gap) => gap.first.0,
        }
    }

    /// Whether it is of the same session of the same part, and comes behind it there.
    fn is_behind(&self, row: &Row) -> bool {
        matches!(&self.told, Told::Block(_, other) if other.writer == row.writer && other.number > row.number)
    }
}

impl Late {
    /// Of a ring of so many parts.
    pub(super) fn of(parts: u32) -> Late {
        let queues = (0..=parts).map(|_| VecDeque::new()).collect();
        Late { queues, newest: i64::MIN, told_by: BTreeMap::new(), count: 0 }
    }

    /// A block was told of by this number at the parity.
    pub(super) fn block(&mut self, table: &Rc<Table>, row: Row, sequence: u64) {
        let queue = &mut self.queues[row.component as usize];
        let before = queue.iter().rev().take_while(|kept| kept.is_behind(&row)).count();
        let told = Told::Block(table.clone(), row);
        queue.insert(queue.len() - before, Kept { told, sequence });
        self.note(row.times.1, sequence);
    }

    /// A gap was told.
    pub(super) fn gap(&mut self, gap: Gap, sequence: u64) {
        let gaps = self.queues.last_mut().expect("there is one for gaps");
        gaps.push_back(Kept { told: Told::Gap(gap), sequence });
        self.note(gap.first.0, sequence);
    }

    fn note(&mut self, time: i64, sequence: u64) {
        self.newest = self.newest.max(time);
        *self.told_by.entry(sequence).or_default() += 1;
        self.count += 1;
    }

    /// What is to be given next; if not `all` is, only before what nothing earlier can be told of any more.
    pub(super) fn next(&mut self, all: bool) -> Option<Told> {
        let time = |queue: &VecDeque<Kept>| queue.front().map(Kept::time);
        let (time, at) = self.queues.iter().enumerate().filter_map(|(at, queue)| Some((time(queue)?, at))).min()?;
        let is_over = time.saturating_add(LATE.as_nanos() as i64) < self.newest;
        if !all && !is_over && self.count <= MOST {
            return None;
        }
        let Kept { told, sequence } = self.queues[at].pop_front().expect("it has a time");
        self.count -= 1;
        let left = self.told_by.get_mut(&sequence).expect("each is noted");
        *left -= 1;
        if *left == 0 {
            self.told_by.remove(&sequence);
        }
        Some(told)
    }

    /// The lowest number at the parity of what told anything that is kept.
    pub(super) fn first(&self) -> Option<u64> {
        self.told_by.keys().next().copied()
    }
}

#[cfg(test)]
mod tests;

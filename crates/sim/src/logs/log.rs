//! One log at one place: a circle of blocks, what in it has not been brought home, and bringing it home.

use super::array::Array;
use super::batch::{Batch, Ended};
use super::place::BLOCK;
use crate::disk::Op;
use forebay_env::Clock;
use forebay_model::Result;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

/// Blocks written home at once: as many as a kernel queues.
const HOMEWARD: usize = 128;

/// In which order blocks go home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Commit by commit, the oldest first, each in the order of places: as journals do.
    Commits,
    /// All in the order of places.
    Places,
}

/// A log. Its space is free again when all that was in it is home.
pub(super) struct Log {
    array: Rc<Array>,
    clock: Rc<dyn Clock>,
    space: Range<u64>,
    head: Cell<u64>,
    /// Bytes appended in all; those of them whose blocks are in `away`; and those that are home, whose space is free.
    appended: Cell<u64>,
    kept: Cell<u64>,
    home: Cell<u64>,
    order: Order,
    /// Home places of blocks that are in the log alone, with the commit that has their newest content.
    away: RefCell<BTreeMap<u64, u64>>,
    commits: Cell<u64>,
    /// Who waits until all is home, while it is being brought there.
    homecoming: RefCell<Option<Vec<Rc<Batch>>>>,
    homeward: Cell<Duration>,
}

impl Log {
    pub(super) fn new(array: Rc<Array>, clock: Rc<dyn Clock>, space: Range<u64>, order: Order) -> Rc<Log> {
        Rc::new(Log {
            head: Cell::new(space.start),
            appended: Cell::new(0),
            kept: Cell::new(0),
            home: Cell::new(0),
            homecoming: RefCell::default(),
            array,
            clock,
            space,
            order,
            commits: Cell::new(0),
            away: RefCell::default(),
            homeward: Cell::new(Duration::ZERO),
        })
    }

    /// Appends so many blocks; where the first of them lies. A log that is nearly full is emptied first.
    pub(super) async fn append(&self, blocks: usize) -> Result<u64> {
        let length = blocks as u64 * BLOCK.0;
        let room = self.space.end - self.space.start;
        if self.appended.get() - self.home.get() + length > room / 4 * 3 {
            self.bring_home().await?;
        }
        let mut at = self.head.get();
        if at + length > self.space.end {
            at = self.space.start;
        }
        self.head.set(at + length);
        self.appended.set(self.appended.get() + length);
        self.array.transfer(Op::Write, at, length).await.map(|()| at)
    }

    /// These home places now have their newest content in the log, from one commit.
    pub(super) fn keep(&self, homes: impl IntoIterator<Item = u64>) {
        let commit = self.commits.get();
        self.commits.set(commit + 1);
        self.kept.set(self.appended.get());
        self.away.borrow_mut().extend(homes.into_iter().map(|home| (home, commit)));
    }

    /// Whether the newest content of a block is in the log alone.
    pub(super) fn holds(&self, home: u64) -> bool {
        self.away.borrow().contains_key(&home)
    }

    /// Writes all blocks home, neighbours as one; or waits for whoever does so already.
    pub(super) async fn bring_home(&self) -> Result<()> {
        let waiting = self.homecoming.borrow_mut().as_mut().map(|waiters| {
            let batch = Rc::new(Batch::default());
            batch.add();
            waiters.push(batch.clone());
            Ended(batch)
        });
        if let Some(waiting) = waiting {
            return waiting.await;
        }
        *self.homecoming.borrow_mut() = Some(Vec::new());
        let begin = self.clock.now();
        let result = self.write_home().await;
        self.homeward.set(self.homeward.get() + self.clock.now().since(begin));
        for waiter in self.homecoming.borrow_mut().take().unwrap_or_default() {
            waiter.end(result.clone());
        }
        result
    }

    async fn write_home(&self) -> Result<()> {
        let kept = self.kept.get();
        let mut homes: Vec<(u64, u64)> = std::mem::take(&mut *self.away.borrow_mut()).into_iter().collect();
        if self.order == Order::Commits {
            homes.sort_unstable_by_key(|(home, commit)| (*commit, *home));
        }
        let together = |a: &(u64, u64), b: &(u64, u64)| self.order == Order::Places || a.1 == b.1;
        for some in homes.chunk_by(together).flat_map(|of_one| of_one.chunks(HOMEWARD)) {
            let ranges: Vec<(u64, u64)> = some
                .chunk_by(|a, b| a.0 + BLOCK.0 == b.0)
                .filter_map(|run| run.first().map(|(at, _)| (*at, run.len() as u64 * BLOCK.0)))
                .collect();
            self.array.transfer_all(Op::Write, &ranges).await?;
        }
        if !homes.is_empty() {
            self.array.flush().await?;
        }
        self.home.set(kept);
        Ok(())
    }

    /// How long blocks have been brought home so far.
    pub(super) fn homeward(&self) -> Duration {
        self.homeward.get()
    }
}

#[cfg(test)]
mod tests;

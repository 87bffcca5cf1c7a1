//! Commits of the catalog: one at a time, for all who wait for it, and a look whether the device has kept it.
//!
//! Order of durable steps: those of [`checkpoint::commit`]; then it counts, and whoever waited goes on. Where a rate is
//! promised the look comes after that, when the device has nothing else to do, since it would cost the promise time of
//! the arm: until then the pair written last is taken for whole. A commit that begins meanwhile makes it needless.

use super::Core;
use crate::catalog::Catalog;
use crate::checkpoint::{self, ReadBack};
use crate::gate::Gate;
use crate::promise::{Giver, promise};
use crate::schedule::{Class, Waiting};
use crate::walk::Walk;
use forebay_model::Result;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Who waits for a commit, and what is known of the last one.
pub(super) struct Commits {
    under_way: Cell<bool>,
    /// Who waits for the one after that.
    waiting: RefCell<Vec<Giver<Result<()>>>>,
    /// The pair that the next one writes first: the one that is not known to be whole, or was replaced first.
    first_pair: Cell<usize>,
    /// How many were begun, and whether what the last one writes is not yet there.
    begun: Cell<u64>,
    is_writing: Cell<bool>,
    /// Whether the last one was not read back.
    is_unread: Cell<bool>,
    /// Whether the next one is read back before it counts, whatever is promised.
    insists: Cell<bool>,
    reading_back: Gate,
}

impl Commits {
    pub(super) fn new(first_pair: usize) -> Commits {
        Commits {
            under_way: Cell::new(false),
            waiting: RefCell::default(),
            first_pair: Cell::new(first_pair),
            begun: Cell::new(0),
            is_writing: Cell::new(false),
            is_unread: Cell::new(false),
            insists: Cell::new(false),
            reading_back: Gate::default(),
        }
    }
}

impl Core {
    /// Makes the catalog durable as it is now. One commit at a time: who comes while one is under way gets the next,
    /// which is the same for all of them.
    pub(crate) async fn commit(self: &Rc<Self>) -> Result<()> {
        let (done, result) = promise();
        self.commits.waiting.borrow_mut().push(done);
        if !self.commits.under_way.replace(true) {
            let this = self.clone();
            self.disk.env().spawner.detach(async move { this.commit_for_all().await });
        }
        result.await
    }

    /// Commits until nobody waits for it.
    async fn commit_for_all(self: &Rc<Self>) {
        loop {
            let waiting = self.commits.waiting.take();
            if waiting.is_empty() {
                return self.commits.under_way.set(false);
            }
            let result = self.commit_alone().await;
            waiting.into_iter().for_each(|waiter| waiter.give(result.clone()));
        }
    }

    /// As [`Core::commit`], for a ring that reckons with it: none of its steps waits longer than a ring can.
    pub(crate) async fn commit_in_time(self: &Rc<Self>) -> Result<()> {
        self.disk.need(true);
        let result = self.commit().await;
        self.disk.need(false);
        result
    }

    /// As [`Core::commit`], for a ring that cannot go on before.
    pub(crate) async fn commit_now(self: &Rc<Self>, who: Waiting) -> Result<()> {
        self.disk.hurry(who, true);
        let result = self.commit().await;
        self.disk.hurry(who, false);
        result
    }

    async fn commit_alone(self: &Rc<Self>) -> Result<()> {
        let commits = &self.commits;
        commits.begun.set(commits.begun.get() + 1);
        // What the one before it wrote is written over.
        commits.is_unread.set(false);
        self.disk.refuse_when_quiet();
        let closes = self.catalog.borrow().closed;
        // When a target is closed, nothing of it is on its way to the device.
        let nothing_else = if closes { Some(commits.reading_back.take().await) } else { None };
        commits.is_writing.set(true);
        let mut superblock = self.superblock.borrow().clone();
        let catalog = self.durable_view();
        let insists = commits.insists.take() || closes || !self.disk.is_promised();
        let read_back = if insists { ReadBack::First } else { ReadBack::Later };
        let first = commits.first_pair.get();
        let written = checkpoint::commit(&self.disk, &mut superblock, &catalog, first, read_back).await;
        commits.is_writing.set(false);
        drop(nothing_else);
        commits.first_pair.set(1 - written?);
        *self.walks.borrow_mut() = catalog.rings.iter().map(|(id, ring)| (*id, Walk::of(ring))).collect();
        {
            let mut now = self.superblock.borrow_mut();
            now.generation = superblock.generation;
            now.checkpoint_len = superblock.checkpoint_len;
            now.checkpoint_crc = superblock.checkpoint_crc;
        }
        if read_back == ReadBack::Later && !commits.is_unread.replace(true) {
            let this = self.clone();
            self.disk.env().spawner.detach(async move { this.read_back().await });
        }
        Ok(())
    }

    /// Looks for what commits wrote last until it has seen that of the newest, and commits again if it is not there.
    async fn read_back(self: Rc<Self>) {
        let commits = &self.commits;
        let turn = commits.reading_back.take().await;
        while commits.is_unread.take() && !commits.is_writing.get() {
            let (begun, last) = (commits.begun.get(), 1 - commits.first_pair.get());
            let superblock = self.superblock.borrow().clone();
            let is_there = checkpoint::is_there(&self.disk, &superblock, last, Class::Background).await;
            if commits.begun.get() != begun || is_there {
                continue;
            }
            self.disk.count_rewritten();
            // What the other pair has is taken for whole until this one is.
            commits.first_pair.set(last);
            commits.insists.set(true);
            drop(turn);
            // If that fails, the target has stopped, and says so to whoever wants something.
            let _ = self.commit().await;
            return;
        }
    }

    /// The catalog without what is not durable yet: segments on a ring's path are found again by walking.
    fn durable_view(&self) -> Catalog {
        let mut catalog = self.catalog.borrow().clone();
        for record in catalog.rings.values_mut() {
            for slot in &record.path {
                record.slots[*slot as usize] = None;
            }
        }
        catalog
    }
}

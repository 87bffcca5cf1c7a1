//! What was put into a heap and freed in it over one connection, and is not committed; and the commit that is looked at.
//!
//! It is a writer's of the heap: nobody else sees it, and no commit but its own takes it. Commits of a heap are made one
//! at a time, so that what one merges is committed by itself or undone.

use crate::turns::Turns;
use forebay_model::heap::RecordId;
use forebay_model::{Error, Moment, Result};
use forebay_target::Heap;
use forebay_target::heap::{Session, Writer};
use forebay_wire::heap::{MOST_UNCOMMITTED, NewRoot};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// So long after it was last asked about it a commit stays readable, whatever others commit.
const LOOKED_AT: Duration = Duration::from_secs(60);

/// A transaction; for one task at a time. Dropped, it is undone.
pub(super) struct Transaction {
    heap: Rc<Heap>,
    writer: Writer,
    /// A part of what was asked for was done, or all was undone, so that a commit would be of a part of what was meant.
    failed: Cell<bool>,
    /// The commit that was last looked at, so that all of what is asked about it is answered; and when it was last asked about.
    look: RefCell<Option<Rc<Session>>>,
    asked: Cell<Moment>,
    /// One for each commit of the heap, whoever makes it.
    commits: Rc<Turns>,
}

impl Transaction {
    pub(super) fn new(heap: Rc<Heap>, commits: Rc<Turns>) -> Transaction {
        let (failed, look, asked) = (Cell::new(false), RefCell::default(), Cell::default());
        Transaction { writer: heap.writer(), heap, failed, look, asked, commits }
    }

    pub(super) fn heap(&self) -> &Rc<Heap> {
        &self.heap
    }

    /// Whether it has nothing of its own.
    pub(super) fn is_idle(&self) -> bool {
        self.writer.changes() == 0 && !self.failed.get()
    }

    /// The heap as of a commit, which is asked about now.
    pub(super) async fn as_of(&self, commit: u64, now: Moment) -> Result<Rc<Session>> {
        self.asked.set(now);
        let last = self.look.borrow().clone().filter(|look| look.info().commit == commit);
        let look = match last {
            Some(look) => look,
            None => {
                // What it takes to look at one commit is free for the next.
                self.look.take();
                Rc::new(self.heap.as_of(commit).await?)
            }
        };
        *self.look.borrow_mut() = Some(look.clone());
        Ok(look)
    }

    /// Lets go of the commit that was looked at if nobody has asked about it for a while.
    pub(super) fn let_look_go(&self, now: Moment) {
        let is_forgotten = now.since(self.asked.get()) >= LOOKED_AT;
        // What is being read is looked at.
        drop(self.look.borrow_mut().take_if(|look| is_forgotten && Rc::strong_count(look) == 1));
    }

    fn check_room(&self, more: usize) -> Result<()> {
        let count = self.writer.changes();
        if count + more <= MOST_UNCOMMITTED {
            return Ok(());
        }
        Err(Error::busy(format!(
            "{count} records were put and freed without a commit, and with {more} more they are over the \
             {MOST_UNCOMMITTED} that may be; commit more often, with `--commit-every` (nothing was changed)"
        )))
    }

    /// Puts records, all or none; their ids, in order.
    pub(super) async fn put(&self, records: &[&[u8]]) -> Result<Vec<RecordId>> {
        self.check_room(records.len())?;
        let mut ids = Vec::with_capacity(records.len());
        for record in records {
            match self.writer.put(record).await {
                Ok(id) => ids.push(id),
                Err(error) => {
                    self.failed.set(self.failed.get() || self.writer.free_many(&ids).await.is_err());
                    return Err(error);
                }
            }
        }
        Ok(ids)
    }

    /// The bytes of records.
    pub(super) async fn get_many(&self, ids: &[RecordId]) -> Vec<Result<Vec<u8>>> {
        self.writer.get_many(ids).await
    }

    /// Frees records, all or none.
    pub(super) async fn free(&self, ids: &[RecordId]) -> Result<()> {
        self.check_room(ids.len())?;
        self.writer.free_many(ids).await
    }

    /// Makes all of it durable, or nothing: the number of the commit.
    pub(super) async fn commit(&self, root: NewRoot) -> Result<u64> {
        if self.failed.get() {
            return Err(Error::usage(
                "a part of what was to be put or freed was not; abort before anything else (nothing was changed)",
            ));
        }
        let _turn = self.commits.take().await;
        let root = match root {
            NewRoot::Same => self.heap.root(),
            NewRoot::None => None,
            NewRoot::Record(id) => Some(id),
        };
        if let Some(id) = root {
            if self.writer.has_freed(id) {
                return Err(Error::usage(format!(
                    "record {id} is the root, and is to be freed; name another root, or none (nothing was changed)"
                )));
            }
            self.writer.check(id).await?;
        }
        self.writer.merge().await?;
        match self.heap.commit(root).await {
            Ok(commit) => Ok(commit),
            Err(error) => {
                // What is merged is only of this transaction.
                self.failed.set(true);
                self.heap.abort().await?;
                Err(Error::new(
                    error.kind,
                    format!("{}; what was put and freed is undone, abort and do it again", error.message),
                ))
            }
        }
    }
}

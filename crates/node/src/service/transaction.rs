//! What was put into a heap and freed in it over one connection, and is not committed.
//!
//! It is a writer's of the heap: nobody else sees it, and no commit but its own takes it. Commits of a heap are made one
//! at a time, so that what one merges is committed by itself or undone.

use crate::turns::Turns;
use forebay_env::Env;
use forebay_model::heap::RecordId;
use forebay_model::{Error, Kind, Result};
use forebay_target::Heap;
use forebay_target::heap::Writer;
use forebay_wire::heap::{MOST_UNCOMMITTED, NewRoot};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;

/// Chained records whose lists are read at once.
const AT_ONCE: usize = 128;

/// A transaction; for one task at a time. Dropped, it is undone.
pub(super) struct Transaction {
    env: Env,
    heap: Rc<Heap>,
    writer: Writer,
    put: RefCell<BTreeSet<RecordId>>,
    freed: RefCell<BTreeSet<RecordId>>,
    /// A part of what was asked for was done, or all was undone, so that a commit would be of a part of what was meant.
    failed: Cell<bool>,
    /// One for each commit of the heap, whoever makes it.
    commits: Rc<Turns>,
}

impl Transaction {
    pub(super) fn new(env: Env, heap: Rc<Heap>, commits: Rc<Turns>) -> Transaction {
        let (put, freed, failed) = (RefCell::default(), RefCell::default(), Cell::new(false));
        Transaction { env, writer: heap.writer(), heap, put, freed, failed, commits }
    }

    pub(super) fn heap(&self) -> &Rc<Heap> {
        &self.heap
    }

    fn check_room(&self, more: usize) -> Result<()> {
        let count = self.put.borrow().len() + self.freed.borrow().len();
        if count + more <= MOST_UNCOMMITTED {
            return Ok(());
        }
        Err(Error::busy(format!(
            "{count} records were put and freed without a commit, and {more} more are too many; commit before"
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
                    for id in ids {
                        self.writer.free(id).await.inspect_err(|_| self.failed.set(true))?;
                    }
                    return Err(error);
                }
            }
        }
        self.put.borrow_mut().extend(&ids);
        Ok(ids)
    }

    /// The bytes of records.
    pub(super) async fn get_many(&self, ids: &[RecordId]) -> Vec<Result<Vec<u8>>> {
        self.writer.get_many(ids).await
    }

    /// Frees records, all or none.
    pub(super) async fn free(&self, ids: &[RecordId]) -> Result<()> {
        self.check_room(ids.len())?;
        let mut named = BTreeSet::new();
        if let Some(twice) = ids.iter().find(|id| !named.insert(**id)) {
            return Err(Error::missing(format!("record {twice} is to be freed twice (nothing was changed)")));
        }
        if let Some(id) = ids.iter().find(|id| self.freed.borrow().contains(id)) {
            return Err(Error::missing(format!("there is no record {id}: it was freed")));
        }
        let others: Vec<RecordId> = ids.iter().copied().filter(|id| !self.put.borrow().contains(id)).collect();
        self.check_others(&others).await?;
        // Nothing is waited for but lists of chained records.
        let (chains, small): (Vec<RecordId>, Vec<RecordId>) = ids.iter().partition(|id| id.is_chain());
        for (done, id) in chains.into_iter().chain(small).enumerate() {
            self.writer.free(id).await.inspect_err(|_| self.failed.set(self.failed.get() || done > 0))?;
            if !self.put.borrow_mut().remove(&id) {
                self.freed.borrow_mut().insert(id);
            }
        }
        Ok(())
    }

    /// Whether there are these records, which were not put here.
    async fn check_others(&self, ids: &[RecordId]) -> Result<()> {
        // What it frees is undone when it goes.
        let trial = Rc::new(self.heap.writer());
        let (chains, small): (Vec<RecordId>, Vec<RecordId>) = ids.iter().partition(|id| id.is_chain());
        let mut is_cold = false;
        for (id, behind) in small.iter().zip(1..) {
            let (freed, has_waited) = waited(trial.free(*id)).await;
            freed?;
            if has_waited && !is_cold {
                // They were not used since the heap was opened. Read together they take few reads, and are known then;
                // what is wrong with one is said when it is tried.
                drop(self.heap.get_many(&small[behind..]).await);
                is_cold = true;
            }
        }
        for some in chains.chunks(AT_ONCE) {
            let free = |id: &RecordId| {
                let (trial, id) = (trial.clone(), *id);
                self.env.spawner.spawn(async move { trial.free(id).await })
            };
            let under_way: Vec<_> = some.iter().map(free).collect();
            let mut freed = Ok(());
            for one in under_way {
                freed = freed.and(one.await);
            }
            freed?;
        }
        Ok(())
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
            if self.freed.borrow().contains(&id) {
                return Err(Error::usage(format!(
                    "record {id} is the root, and is to be freed; name another root, or none (nothing was changed)"
                )));
            }
            if !self.put.borrow().contains(&id) {
                self.check_others(&[id]).await?;
            }
        }
        self.writer.merge().await.map_err(|error| match error.kind {
            Kind::Missing => Error::missing(format!(
                "{}; somebody else has freed it since it was freed here (nothing was changed)",
                error.message
            )),
            _ => error,
        })?;
        match self.heap.commit(root).await {
            Ok(commit) => {
                self.forget();
                Ok(commit)
            }
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

    /// Undoes all of it.
    pub(super) fn abort(&self) {
        self.writer.abort();
        self.failed.set(false);
        self.forget();
    }

    fn forget(&self) {
        self.put.borrow_mut().clear();
        self.freed.borrow_mut().clear();
    }
}

/// What comes of it, and whether it had to be waited for.
async fn waited<T>(future: impl Future<Output = T>) -> (T, bool) {
    let (mut future, mut has_waited) = (pin!(future), false);
    let output = poll_fn(|context| {
        let poll = future.as_mut().poll(context);
        has_waited |= poll.is_pending();
        poll
    });
    let output = output.await;
    (output, has_waited)
}

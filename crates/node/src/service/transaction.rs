//! What was put into a heap and freed in it over one connection, and is not committed.
//!
//! Records lie in the heap as soon as they are put, and are freed when they are undone; what is freed stays until the
//! commit, which nobody else can make fail: a record that one transaction frees is refused to every other one. If another
//! one commits meanwhile, what was put here is durable with that, and so is its undoing made.

use forebay_env::Env;
use forebay_model::heap::RecordId;
use forebay_model::{Error, Result};
use forebay_target::Heap;
use forebay_wire::heap::{MOST_UNCOMMITTED, NewRoot};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

/// Records that are read at once.
const AT_ONCE: usize = 128;

/// The records of one heap that are freed by transactions that are open.
pub(super) type Doomed = Rc<RefCell<BTreeSet<RecordId>>>;

/// A transaction; for one task at a time.
pub(super) struct Transaction {
    env: Env,
    heap: Rc<Heap>,
    put: RefCell<BTreeSet<RecordId>>,
    /// The last commit when the first of them was put, also if that was freed again.
    since: Cell<Option<u64>>,
    freed: RefCell<BTreeSet<RecordId>>,
    doomed: Doomed,
}

impl Transaction {
    pub(super) fn new(env: Env, heap: Rc<Heap>, doomed: Doomed) -> Transaction {
        Transaction { env, heap, put: RefCell::default(), since: Cell::new(None), freed: RefCell::default(), doomed }
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
        self.since.set(self.since.get().or_else(|| Some(self.heap.status().last.commit)));
        let mut ids = Vec::with_capacity(records.len());
        for record in records {
            match self.heap.put(record).await {
                Ok(id) => ids.push(id),
                Err(error) => {
                    for id in ids {
                        self.heap.free(id).await?;
                    }
                    return Err(error);
                }
            }
        }
        self.put.borrow_mut().extend(&ids);
        Ok(ids)
    }

    /// Of the first of these records, as many as are read at once and one at least: their bytes.
    pub(super) async fn get_some(&self, ids: &[RecordId]) -> Vec<Result<Vec<u8>>> {
        // A chained one may be larger than all others together.
        let together = ids.iter().take_while(|id| !id.is_chain()).count().clamp(1, AT_ONCE).min(ids.len());
        let read = |id: &RecordId| {
            let (heap, id, is_freed) = (self.heap.clone(), *id, self.freed.borrow().contains(id));
            self.env.spawner.spawn(async move { if is_freed { Err(freed(id)) } else { heap.get(id).await } })
        };
        let reads: Vec<_> = ids[..together].iter().map(read).collect();
        let mut found = Vec::with_capacity(together);
        for read in reads {
            found.push(read.await);
        }
        found
    }

    /// Frees records, all or none.
    pub(super) async fn free(&self, ids: &[RecordId]) -> Result<()> {
        self.check_room(ids.len())?;
        let mut named = BTreeSet::new();
        if let Some(twice) = ids.iter().find(|id| !named.insert(**id)) {
            return Err(Error::missing(format!("record {twice} is to be freed twice (nothing was changed)")));
        }
        let mut rest = ids;
        while !rest.is_empty() {
            let found = self.get_some(rest).await;
            rest = &rest[found.len()..];
            found.into_iter().try_for_each(|record| record.map(drop))?;
        }
        if let Some(id) = ids.iter().find(|id| self.doomed.borrow().contains(id)) {
            return Err(Error::busy(format!(
                "record {id} is being freed by somebody else, who has not committed; try again (nothing was changed)"
            )));
        }
        for id in ids {
            if self.put.borrow_mut().remove(id) {
                self.heap.free(*id).await?;
            } else {
                self.freed.borrow_mut().insert(*id);
                self.doomed.borrow_mut().insert(*id);
            }
        }
        Ok(())
    }

    /// Makes all of it durable, or nothing: the number of the commit.
    pub(super) async fn commit(&self, root: NewRoot) -> Result<u64> {
        let root = match root {
            NewRoot::Same => self.heap.root(),
            NewRoot::None => None,
            NewRoot::Record(id) => {
                self.get_some(&[id]).await.into_iter().try_for_each(|record| record.map(drop))?;
                Some(id)
            }
        };
        if let Some(id) = root.filter(|id| self.freed.borrow().contains(id)) {
            return Err(Error::usage(format!(
                "record {id} is the root, and is to be freed; name another root, or none (nothing was changed)"
            )));
        }
        let freed = std::mem::take(&mut *self.freed.borrow_mut());
        let mut gone = Ok(());
        for id in &freed {
            if gone.is_ok() {
                gone = self.heap.free(*id).await;
            }
        }
        self.spare(&freed);
        gone?;
        let commit = self.heap.commit(root).await?;
        self.put.borrow_mut().clear();
        self.since.set(None);
        Ok(commit)
    }

    /// Undoes all of it.
    pub(super) async fn abort(&self) -> Result<()> {
        let freed = std::mem::take(&mut *self.freed.borrow_mut());
        self.spare(&freed);
        let put = std::mem::take(&mut *self.put.borrow_mut());
        for id in put {
            self.heap.free(id).await?;
        }
        if self.since.take().is_some_and(|since| self.heap.status().last.commit > since) {
            self.heap.commit(self.heap.root()).await?;
        }
        Ok(())
    }

    /// These are no longer to be freed by this transaction.
    fn spare(&self, freed: &BTreeSet<RecordId>) {
        self.doomed.borrow_mut().retain(|id| !freed.contains(id));
    }
}

fn freed(id: RecordId) -> Error {
    Error::missing(format!("there is no record {id}: it was freed"))
}

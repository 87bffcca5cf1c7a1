//! A writer of its own: what it puts and frees is seen by nobody else until it is merged, and is undone by an abort
//! (RWStore's isolated contexts, in its sources). Several may work at the same time, each beside the others.

use super::Heap;
use super::view::{Eye, Own, missing};
use crate::heap::allocation::Slot;
use forebay_model::Result;
use forebay_model::heap::RecordId;
use std::cell::RefCell;
use std::rc::Rc;

/// What one writer does to a heap. Dropped, it is aborted.
pub struct Writer {
    heap: Rc<Heap>,
    own: Rc<RefCell<Own>>,
    eye: Eye,
}

impl Heap {
    /// A writer of its own.
    pub fn writer(self: &Rc<Self>) -> Writer {
        let own = Rc::new(RefCell::new(Own::default()));
        Writer { heap: self.clone(), eye: Eye::Own(own.clone()), own }
    }
}

impl Writer {
    /// As [`Heap::put`]; others see it when it is merged.
    pub async fn put(&self, bytes: &[u8]) -> Result<RecordId> {
        self.heap.put_as(&self.eye, bytes).await
    }

    /// As [`Heap::get`]; also what it has put itself, but for what it has freed.
    pub async fn get(&self, id: RecordId) -> Result<Vec<u8>> {
        self.heap.get_as(&self.eye, id).await
    }

    /// As [`Heap::get_many`], like [`Writer::get`].
    pub async fn get_many(&self, ids: &[RecordId]) -> Vec<Result<Vec<u8>>> {
        self.heap.get_many_as(&self.eye, ids).await
    }

    /// As [`Heap::free`]; others have the record until it is merged.
    pub async fn free(&self, id: RecordId) -> Result<()> {
        let slots = self.heap.slots_of(&self.eye, id).await?;
        let mut work = self.heap.work.borrow_mut();
        work.check(&self.eye, id)?;
        if !self.own.borrow().put.contains(&slots[0]) {
            self.own.borrow_mut().freed.insert(id, slots);
            return Ok(());
        }
        slots.into_iter().for_each(|slot| work.forget(&self.eye, slot));
        Ok(())
    }

    /// Whether it has put or freed anything since it was made, merged or aborted.
    pub fn is_idle(&self) -> bool {
        let own = self.own.borrow();
        own.put.is_empty() && own.freed.is_empty()
    }

    /// What it has put and freed is there for all, and in the next commit. [`forebay_model::Kind::Missing`] if another
    /// one has freed a record meanwhile that it has freed, too: then nothing was changed.
    pub async fn merge(&self) -> Result<()> {
        self.heap.gate().await?;
        let mut work = self.heap.work.borrow_mut();
        let own = &mut *self.own.borrow_mut();
        for id in own.freed.keys() {
            work.check(&Eye::Live, *id).map_err(|_| missing(*id))?;
        }
        std::mem::take(&mut own.put).into_iter().for_each(|slot| work.allocation.reveal(slot));
        let freed = std::mem::take(&mut own.freed);
        freed.into_values().flatten().for_each(|slot| work.forget(&Eye::Live, slot));
        Ok(())
    }

    /// Merges, and commits all that is merged: as [`Heap::commit`].
    pub async fn commit(&self, root: Option<RecordId>) -> Result<u64> {
        if let Some(root) = root {
            self.heap.know(&self.eye, root).await?;
        }
        self.merge().await?;
        self.heap.commit(root).await
    }

    /// What it has put and freed is undone.
    pub fn abort(&self) {
        let mut work = self.heap.work.borrow_mut();
        let put: Vec<Slot> = self.own.borrow().put.iter().copied().collect();
        put.into_iter().for_each(|slot| work.forget(&self.eye, slot));
        self.own.borrow_mut().freed.clear();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.abort();
    }
}

#[cfg(test)]
mod tests;

//! A writer of its own: what it puts and frees is seen by nobody else until it is merged, and is undone by an abort
//! (RWStore's isolated contexts, in its sources). Several may work at the same time, each beside the others.

use super::Heap;
use super::chain::same_slot;
use super::slot::Role;
use super::view::{Eye, Own};
use crate::heap::allocation::Slot;
use forebay_model::heap::RecordId;
use forebay_model::{Error, Result};
use std::cell::RefCell;
use std::collections::BTreeSet;
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
        let owns = &mut self.work.borrow_mut().owns;
        owns.retain(|own| own.strong_count() > 0);
        owns.push(Rc::downgrade(&own));
        Writer { heap: self.clone(), eye: Eye::Own(own.clone()), own }
    }
}

impl Writer {
    /// As [`Heap::put`]; others see it when it is merged.
    pub async fn put(&self, bytes: &[u8]) -> Result<RecordId> {
        let id = self.heap.put_as(&self.eye, bytes).await?;
        self.own.borrow_mut().records += 1;
        Ok(id)
    }

    /// As [`Heap::get`]; also what it has put itself, but for what it has freed.
    pub async fn get(&self, id: RecordId) -> Result<Vec<u8>> {
        self.heap.get_as(&self.eye, id, Role::Record).await
    }

    /// As [`Heap::get_many`], like [`Writer::get`].
    pub async fn get_many(&self, ids: &[RecordId]) -> Vec<Result<Vec<u8>>> {
        self.heap.get_many_as(&self.eye, ids).await
    }

    /// As [`Heap::free`]; others have the record until it is merged.
    pub async fn free(&self, id: RecordId) -> Result<()> {
        self.free_many(&[id]).await
    }

    /// As [`Heap::free_many`], like [`Writer::free`].
    pub async fn free_many(&self, ids: &[RecordId]) -> Result<()> {
        // What others free and commit meanwhile is not somebody else's before this is over.
        let _pinned = self.heap.pin_last();
        let slots = self.heap.slots_of_many(&self.eye, ids, Role::Record).await?;
        let mut work = self.heap.work.borrow_mut();
        for id in ids {
            let slot = work.check(&self.eye, *id, Role::Record)?;
            let own = self.own.borrow();
            // Where nothing can be read, only this tells that one of the two outlived its record.
            if let Some(other) = own.freed_in(slot).filter(|_| !own.put.contains(&slot)) {
                return Err(same_slot(other, *id));
            }
        }
        work.count_damaged(&slots);
        for (id, slots) in ids.iter().zip(slots.of) {
            let mut own = self.own.borrow_mut();
            if !own.put.contains(&Slot::of(*id)) {
                own.freed.insert(*id, slots);
                continue;
            }
            own.records -= 1;
            drop(own);
            slots.into_iter().for_each(|slot| work.forget(&self.eye, slot));
        }
        Ok(())
    }

    pub(super) fn eye(&self) -> &Eye {
        &self.eye
    }

    /// What it has put is what another one has.
    pub(super) fn hand_over(self, to: &mut Own) {
        to.put.append(&mut self.own.borrow_mut().put);
    }

    /// [`forebay_model::Kind::Missing`] if there is no such record, for this writer.
    pub async fn check(&self, id: RecordId) -> Result<()> {
        self.heap.know(&self.eye, &[id], Role::Record).await
    }

    /// Whether it has freed this record of others, and has not merged.
    pub fn has_freed(&self, id: RecordId) -> bool {
        self.own.borrow().freed.contains_key(&id)
    }

    /// Records that it has put and freed since it was made, merged or aborted, but for those of its own that it has freed.
    pub fn changes(&self) -> usize {
        let own = self.own.borrow();
        own.records + own.freed.len()
    }

    /// What it has put and freed is there for all, and in the next commit. [`forebay_model::Kind::Missing`] if another
    /// one has freed a record meanwhile that it has freed, too: then nothing was changed.
    pub async fn merge(&self) -> Result<()> {
        self.heap.gate().await?;
        let mut work = self.heap.work.borrow_mut();
        let lost = self.own.borrow().lost.or(self.own.borrow().lost_for_now);
        if let Some(id) = lost {
            return Err(Error::missing(format!(
                "there is no record {id} any more: somebody else has freed it since it was freed here (nothing was changed)"
            )));
        }
        let Own { put, freed, .. } = self.own.take();
        work.is_changed |= !put.is_empty() || !freed.is_empty();
        put.into_iter().for_each(|slot| work.allocation.reveal(slot));
        // Two that were freed one after the other may have had the same part, where a write was lost.
        let freed: BTreeSet<Slot> = freed.into_values().flatten().collect();
        freed.into_iter().for_each(|slot| work.forget(&Eye::Live, slot));
        Ok(())
    }

    /// Merges, and commits all that is merged: as [`Heap::commit`].
    pub async fn commit(&self, root: Option<RecordId>) -> Result<u64> {
        if let Some(root) = root {
            self.check(root).await?;
        }
        self.merge().await?;
        self.heap.commit(root).await
    }

    /// What it has put and freed is undone.
    pub fn abort(&self) {
        let mut work = self.heap.work.borrow_mut();
        let put: Vec<Slot> = self.own.borrow().put.iter().copied().collect();
        put.into_iter().for_each(|slot| work.forget(&self.eye, slot));
        self.own.take();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.abort();
    }
}

#[cfg(test)]
mod tests;

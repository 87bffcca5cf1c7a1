//! Heaps of a target: making and finding them, and the groups that they grow by.
//!
//! An open heap has tens of MiB for what is written and read. It stays open for whoever comes next, unless more are open than
//! [`RESTING`] that nobody uses: then the one that was used longest ago is closed, as if the process had ended. So is one that
//! failed, by whoever opens it next.
//!
//! Invariant: a heap is made, opened, taken in and deleted by one at a time, and whoever does that with another one does not wait for
//! it: to open one that keeps many commits takes long.

mod received;

use super::{Core, Target};
use crate::catalog::{GroupClass, HeapRecord};
use crate::gate::Gate;
use crate::heap::slot::Stamp;
use crate::heap::{Heap, HeapOptions};
use forebay_model::heap::HeapSettings;
use forebay_model::{Bytes, Error, Result};
use received::Received;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

/// The most heaps that stay open without anybody who uses them.
const RESTING: usize = 8;

/// Heaps that are open, each with its place in the order in which they were last asked for.
#[derive(Default)]
pub(super) struct OpenHeaps {
    all: RefCell<BTreeMap<u64, (Rc<Heap>, u64)>>,
    /// Those that come from elsewhere, and are not all there.
    received: RefCell<BTreeMap<String, Received>>,
    /// By name, who makes one, opens it, takes it in or deletes it, as long as somebody does.
    gates: RefCell<BTreeMap<String, Weak<Gate>>>,
}

impl OpenHeaps {
    /// What only one at a time may pass who makes the heap of this name, opens it, takes it in or deletes it.
    fn gate(&self, name: &str) -> Rc<Gate> {
        let mut gates = self.gates.borrow_mut();
        if let Some(known) = gates.get(name).and_then(Weak::upgrade) {
            return known;
        }
        gates.retain(|_, gate| gate.strong_count() > 0);
        let gate = Rc::default();
        gates.insert(name.to_owned(), Rc::downgrade(&gate));
        gate
    }

    /// A heap that is open already.
    fn find(&self, number: u64) -> Option<Rc<Heap>> {
        let all = &mut *self.all.borrow_mut();
        let turn = next_turn(all);
        let (heap, last) = all.get_mut(&number)?;
        *last = turn;
        Some(heap.clone())
    }

    /// Takes one in that was opened. Of those that nobody uses, the ones that are too many are closed.
    fn add(&self, number: u64, heap: Rc<Heap>) {
        let all = &mut *self.all.borrow_mut();
        // What is put and not committed is there as long as it is open. Whatever is under way has it, too.
        let rests = |heap: &Rc<Heap>| Rc::strong_count(heap) == 1 && !heap.is_changed();
        let resting = all.iter().filter(|(_, (heap, _))| rests(heap)).map(|(number, (_, last))| (*last, *number));
        let mut resting: Vec<(u64, u64)> = resting.collect();
        resting.sort_unstable();
        resting.iter().rev().skip(RESTING - 1).for_each(|(_, number)| drop(all.remove(number)));
        let turn = next_turn(all);
        all.insert(number, (heap, turn));
    }
}

fn next_turn(all: &BTreeMap<u64, (Rc<Heap>, u64)>) -> u64 {
    all.values().map(|(_, last)| last + 1).max().unwrap_or(0)
}

impl Core {
    /// All heaps: number, and what the catalog has of each.
    pub(crate) fn heap_records(&self) -> Vec<(u64, HeapRecord)> {
        self.catalog.borrow().heaps.iter().map(|(number, heap)| (*number, heap.clone())).collect()
    }

    /// Nobody has these groups, by the next commit of the catalog.
    fn give_back(&self, groups: &[u32]) {
        let catalog = &mut *self.catalog.borrow_mut();
        groups.iter().for_each(|group| catalog.groups[*group as usize] = GroupClass::Free);
    }

    /// Gives a heap `most` more groups, or as many as are free, durably: all that it has then, in their order.
    pub(crate) async fn grow_heap(self: &Rc<Self>, heap: u64, most: u32) -> Result<Vec<u32>> {
        let taken = self.take_groups(GroupClass::Heap(heap), most).await?;
        let all = {
            let catalog = &mut *self.catalog.borrow_mut();
            let record = catalog.heaps.get_mut(&heap);
            match record {
                Some(record) => {
                    record.groups.extend_from_slice(&taken);
                    Some(record.groups.clone())
                }
                None => {
                    // It was deleted meanwhile, which did not know of these.
                    taken.iter().for_each(|group| catalog.groups[*group as usize] = GroupClass::Free);
                    None
                }
            }
        };
        self.commit().await?;
        all.ok_or_else(|| Error::missing("the heap was deleted while it grew"))
    }
}

impl Target {
    /// Makes a heap. [`forebay_model::Kind::Exists`] if the name is taken.
    pub async fn create_heap(&self, name: &str, settings: HeapSettings, options: HeapOptions) -> Result<Rc<Heap>> {
        let gate = self.heaps.gate(name);
        let turn = gate.take().await;
        let core = &self.core;
        Heap::check_groups(&core.layout())?;
        let number = {
            let mut catalog = core.catalog.borrow_mut();
            if catalog.heaps.values().any(|heap| heap.name == name)
                || self.heaps.received.borrow().contains_key(name)
                || catalog.rings.values().any(|r| r.spec.name == name)
            {
                return Err(Error::exists(format!("{name} exists already; choose another name (nothing was changed)")));
            }
            catalog.next_heap += 1;
            catalog.next_heap - 1
        };
        let groups = core.take_groups(GroupClass::Heap(number), 1).await?;
        let stamp = Stamp { target: core.target_id(), heap: number };
        if let Err(error) = Heap::format(core, stamp, &groups, settings).await {
            // No heap names them: they would be nobody's, and not free.
            core.give_back(&groups);
            core.commit().await?;
            return Err(error);
        }
        let record = HeapRecord { name: name.to_owned(), groups, stamp };
        core.catalog.borrow_mut().heaps.insert(number, record);
        core.commit().await?;
        drop(turn);
        self.heap(name, options).await
    }

    /// The heap of this name; `options` count if it was not opened before. One that something could not be read for, and that
    /// is refused since, is opened anew.
    pub async fn heap(&self, name: &str, options: HeapOptions) -> Result<Rc<Heap>> {
        // One that is open needs nobody's turn: what ends is taken from among these first.
        if let Some(heap) = self.number_of(name).and_then(|number| self.heaps.find(number))
            && heap.failure().is_none()
        {
            return Ok(heap);
        }
        // Two that open one at the same time would each believe that nobody else uses its slots.
        let gate = self.heaps.gate(name);
        let _turn = gate.take().await;
        let (number, _) = self.find_heap(name)?;
        if let Some(heap) = self.heaps.find(number) {
            match heap.failure().filter(|_| self.core.disk.failure().is_none()) {
                None => return Ok(heap),
                Some(why) => self.close_failed(name, number, &heap, why).await,
            }
        }
        // By now: it may have grown while what was under way in it came to its end.
        let (number, record) = self.find_heap(name)?;
        let heap = Heap::open(self.core.clone(), number, record, options).await?;
        self.heaps.add(number, heap.clone());
        Ok(heap)
    }

    /// Whoever still has a heap that failed can do no more with it. What is on the device is its last commit: only a read
    /// can have failed, or the device had, and nothing that was begun is left when this ends.
    async fn close_failed(&self, name: &str, number: u64, heap: &Rc<Heap>, why: Error) {
        self.heaps.all.borrow_mut().remove(&number);
        let message = format!(
            "heap {name} was opened anew since something of it could not be read; what was put and freed before, and not \
             committed, is undone: abort, and do it again ({})",
            why.message
        );
        heap.end(Error { message, ..why }).await;
    }

    fn number_of(&self, name: &str) -> Option<u64> {
        let catalog = self.core.catalog.borrow();
        catalog.heaps.iter().find(|(_, heap)| heap.name == name).map(|(number, _)| *number)
    }

    fn find_heap(&self, name: &str) -> Result<(u64, HeapRecord)> {
        let catalog = self.core.catalog.borrow();
        let found = catalog.heaps.iter().find(|(_, heap)| heap.name == name);
        let found = found.map(|(number, heap)| (*number, heap.clone()));
        found.ok_or_else(|| Error::missing(format!("there is no heap {name}")))
    }

    /// Deletes a heap with everything in it: its groups are free. Whoever has it open is told that it is gone.
    pub async fn delete_heap(&self, name: &str) -> Result<()> {
        let gate = self.heaps.gate(name);
        let _turn = gate.take().await;
        if let Some(freed) = self.let_received_go(name) {
            self.objects.leave_logs(&freed).await?;
            return self.core.commit().await;
        }
        let (number, _) = self.find_heap(name)?;
        let opened = self.heaps.all.borrow_mut().remove(&number);
        if let Some((heap, _)) = opened {
            heap.end(Error::missing(format!("heap {name} was deleted"))).await;
        }
        let deleted = self.core.catalog.borrow_mut().heaps.remove(&number);
        let freed = deleted.map(|heap| heap.groups).unwrap_or_default();
        self.core.give_back(&freed);
        self.objects.leave_logs(&freed).await?;
        self.core.commit().await
    }

    /// The names of all heaps, and the space that each has.
    pub fn heap_names(&self) -> Vec<(String, Bytes)> {
        let data = self.core.layout().data(true);
        let heaps = self.core.heap_records().into_iter();
        heaps.map(|(_, heap)| (heap.name, data * heap.groups.len() as u64)).collect()
    }

    /// Space in use of heaps that are open.
    pub(crate) fn kept_by_heaps(&self) -> Bytes {
        self.heaps.all.borrow().values().map(|(heap, _)| heap.status().used).sum()
    }
}

#[cfg(test)]
mod tests;

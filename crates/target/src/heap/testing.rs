//! For tests: a heap on a device in memory.

use super::allocation::Slot;
use super::{Heap, HeapOptions, gather};
use crate::Target;
use crate::fake::Fake;
use forebay_model::Bytes;
use forebay_model::heap::{HeapSettings, RecordId};
use std::rc::Rc;

pub(super) const NAME: &str = "/heap";

/// A heap on a fresh device.
pub(super) fn fresh(size: Bytes, settings: HeapSettings, options: HeapOptions) -> (Fake, Rc<Target>, Rc<Heap>) {
    let fake = Fake::new(size, false);
    let target = fake.target();
    let heap = fake.run(target.create_heap(NAME, settings, options)).unwrap();
    (fake, target, heap)
}

/// The heap after `kill -9`, which leaves nothing in any cache.
pub(super) fn again(fake: &Fake, target: Rc<Target>, heap: Rc<Heap>) -> (Rc<Target>, Rc<Heap>) {
    drop((target, heap));
    fake.kill();
    let target = fake.run(Target::open(fake.env())).unwrap();
    let heap = fake.run(target.heap(NAME, HeapOptions::default())).unwrap();
    (target, heap)
}

/// Slots with a record, or a part of one.
pub(super) fn used(heap: &Heap) -> u64 {
    heap.status().classes.iter().map(|class| class.used).sum()
}

/// Where the slot of a record begins on the device.
pub(super) fn lies(heap: &Heap, id: RecordId) -> Bytes {
    let lies = gather::extent(&heap.work.borrow().allocation, Slot::of(id));
    heap.at(Bytes(lies.start))
}

impl Heap {
    /// Where a place in it is on the device.
    pub(crate) fn at(&self, at: Bytes) -> Bytes {
        self.work.borrow().space.runs(at, Bytes(1))[0].0
    }
}

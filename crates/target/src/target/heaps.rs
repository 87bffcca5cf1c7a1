//! Heaps of a target: making and finding them, and the groups that they grow by.

use super::{Core, Target};
use crate::catalog::{GroupClass, HeapRecord};
use crate::heap::{Heap, HeapOptions};
use forebay_model::heap::HeapSettings;
use forebay_model::{Error, Result};
use std::rc::Rc;

impl Core {
    fn with_heap<T>(&self, heap: u64, change: impl FnOnce(&mut HeapRecord) -> T) -> T {
        change(self.catalog.borrow_mut().heaps.get_mut(&heap).expect("a heap that works is in the catalog"))
    }

    /// Gives a heap `most` more groups, or as many as are free, durably.
    pub(crate) async fn grow_heap(self: &Rc<Self>, heap: u64, most: u32) -> Result<Vec<u32>> {
        let taken = self.take_groups(GroupClass::Heap(heap), most).await?;
        self.with_heap(heap, |record| record.groups.extend_from_slice(&taken));
        self.commit().await?;
        Ok(taken)
    }
}

impl Target {
    /// Makes a heap. [`forebay_model::Kind::Exists`] if the name is taken.
    pub async fn create_heap(&self, name: &str, settings: HeapSettings, options: HeapOptions) -> Result<Rc<Heap>> {
        let core = &self.core;
        Heap::check_groups(&core.layout())?;
        let number = {
            let mut catalog = core.catalog.borrow_mut();
            if catalog.heaps.values().any(|heap| heap.name == name)
                || catalog.rings.values().any(|r| r.spec.name == name)
            {
                return Err(Error::exists(format!("{name} exists already; choose another name (nothing was changed)")));
            }
            catalog.next_heap += 1;
            catalog.next_heap - 1
        };
        let groups = core.take_groups(GroupClass::Heap(number), 1).await?;
        Heap::format(core, number, &groups, settings).await?;
        let record = HeapRecord { name: name.to_owned(), groups };
        core.catalog.borrow_mut().heaps.insert(number, record);
        core.commit().await?;
        self.heap(name, options).await
    }

    /// The heap of this name; `options` count if it was not opened before.
    pub async fn heap(&self, name: &str, options: HeapOptions) -> Result<Rc<Heap>> {
        let found = {
            let catalog = self.core.catalog.borrow();
            let found = catalog.heaps.iter().find(|(_, heap)| heap.name == name);
            found.map(|(number, heap)| (*number, heap.groups.clone()))
        };
        let (number, groups) = found.ok_or_else(|| Error::missing(format!("there is no heap {name}")))?;
        if let Some(heap) = self.heaps.borrow().get(&number) {
            return Ok(heap.clone());
        }
        let heap = Heap::open(self.core.clone(), number, groups, options).await?;
        self.heaps.borrow_mut().insert(number, heap.clone());
        Ok(heap)
    }
}

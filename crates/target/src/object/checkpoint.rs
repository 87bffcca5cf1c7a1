//! The map on the device: changed leaves go to fresh places, and the catalog names them.
//!
//! Order of durable steps: the records of all that took effect; leaves; the catalog (its area, its root, twice). Only then
//! are the leaves of before, and logs of which nothing is needed any more, free. A crash before leaves the map of before,
//! and the logs that go with it.

use super::logs::MANY_OPEN;
use super::rows::{BLOCK, Key, Row};
use super::space::Run;
use super::{Objects, Work};
use crate::catalog::{GroupClass, ObjectsRecord};
use forebay_env::Buffer;
use forebay_model::{Error, Result};

/// Groups that are taken at once.
const GROUPS_AT_ONCE: u32 = 4;

impl Objects {
    /// Makes the map durable as it is now. Commands wait only until what took effect before is in the logs.
    pub async fn checkpoint(&self) -> Result<()> {
        self.changed.until(|| !self.work.borrow().checkpointing || self.work.borrow().failure.is_some()).await;
        self.alive()?;
        self.work.borrow_mut().checkpointing = true;
        // Commands will soon wait for it.
        let pressing = self.work.borrow().meta.logs.open() >= MANY_OPEN;
        if pressing {
            self.core.disk.hurry(true);
        }
        let result = self.checkpoint_alone().await;
        if pressing {
            self.core.disk.hurry(false);
        }
        let mut work = self.work.borrow_mut();
        work.checkpointing = false;
        work.gate_closed = false;
        drop(work);
        self.changed.notify();
        result
    }

    async fn checkpoint_alone(&self) -> Result<()> {
        // Room for the leaves, with some to spare for what still takes effect.
        loop {
            let short = {
                let work = self.work.borrow();
                work.meta.tree.cut_blocks() + 64 > work.meta.tables.free()
            };
            if !short {
                break;
            }
            self.take_groups(GroupClass::Tables).await?;
        }
        self.work.borrow_mut().gate_closed = true;
        self.drained().await?;
        let open = {
            let mut work = self.work.borrow_mut();
            let open = work.meta.logs.stays_open(self.core.disk.tracker(), |group| self.core.has_log(group));
            // While opening nobody was told of anything that relies on it.
            let reached = |logs: &super::logs::Logs, group| logs.open() == 0 || logs.is_open(group);
            if let Some(open) = open.filter(|open| work.ready && !reached(&work.meta.logs, *open)) {
                work.open(vec![open])?;
            }
            open
        };
        self.queued.notify();
        self.drained().await?;
        let ranges: Vec<(Key, Key)> = {
            let groups = self.core.groups_of(GroupClass::Objects);
            groups.into_iter().map(|group| (Key::free(group), Key::free(group))).collect()
        };
        self.bring(&ranges).await?;
        let (cut, number, logs, open) = {
            let mut work = self.work.borrow_mut();
            let work = &mut *work;
            // What commands took that have not taken effect, and what waits for a step home to end.
            let limbo = work.limbo.iter().flat_map(|(_, runs)| runs);
            let free: Vec<Run> = work.taken.values().flatten().chain(limbo).copied().collect();
            for (group, runs) in work.meta.data.changed_rows(&free) {
                work.meta.tree.put(Key::free(group), Row::Free(runs));
            }
            let tables = &mut work.meta.tables;
            let mut allocate = |blocks: u32| {
                let runs = tables.allocate(u64::from(blocks), None).filter(|runs| runs.len() == 1);
                runs.map(|runs| runs[0].at).ok_or_else(|| Error::full("no room is left for the tables of objects"))
            };
            let cut = work.meta.tree.cut(&mut allocate)?;
            let (logs, open) = work.meta.logs.cut(open);
            work.gate_closed = false;
            (cut, work.last, logs, open)
        };
        self.changed.notify();
        for (at, bytes) in &cut.writes {
            let mut buffer = Buffer::alone(forebay_model::Bytes(bytes.len() as u64))?;
            buffer.copy_from_slice(bytes);
            self.core.disk.write_metadata(BLOCK * *at, buffer).await.1?;
        }
        let record = ObjectsRecord { leaves: cut.leaves, number, epoch: self.core.epoch(), logs, open };
        self.core.with_objects_mut(|objects| *objects = record);
        self.core.commit().await?;
        let mut work = self.work.borrow_mut();
        let Work { meta, counters, .. } = &mut *work;
        counters.checkpoints += 1;
        cut.left.iter().for_each(|p| meta.tables.give(Run { at: p.at, blocks: u64::from(p.blocks) }));
        meta.logs.settle();
        Ok(())
    }

    /// Waits until all that took effect is in the logs.
    async fn drained(&self) -> Result<()> {
        loop {
            let last = self.work.borrow().last;
            self.durable(last).await?;
            if self.work.borrow().last == last {
                return Ok(());
            }
        }
    }

    /// Takes some groups more for `class`, durably.
    pub(super) async fn take_groups(&self, class: GroupClass) -> Result<()> {
        let groups = self.core.take_groups(class, GROUPS_AT_ONCE).await?;
        if class == GroupClass::Objects {
            let ranges: Vec<(Key, Key)> = groups.iter().map(|group| (Key::free(*group), Key::free(*group))).collect();
            self.bring(&ranges).await?;
        }
        let mut work = self.work.borrow_mut();
        let space = if class == GroupClass::Objects { &mut work.meta.data } else { &mut work.meta.tables };
        groups.iter().for_each(|group| space.add(*group, None));
        Ok(())
    }
}

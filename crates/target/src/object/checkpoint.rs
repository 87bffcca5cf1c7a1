//! The map on the device: changed leaves go to fresh places, and the catalog names them.
//!
//! Order of durable steps: the records of all that took effect; leaves; the catalog (its area, its root, twice). Only
//! then are the leaves of before, and logs of which nothing is needed any more, free. A crash before leaves the map of
//! before, and the logs that go with it.

use super::apply::{Meta, needs};
use super::logs::{LogRecord, MANY_OPEN};
use super::record::Change;
use super::rows::{BLOCK, Key, Row};
use super::space::Run;
use super::tree::{Cut, NAMED_AT_MOST, Place};
use super::{Objects, Work};
use crate::catalog::{GroupClass, ObjectsRecord};
use crate::checkpoint::size;
use crate::schedule::Waiting;
use forebay_env::Buffer;
use forebay_model::{Bytes, Error, Kind, Result};
use std::collections::{BTreeMap, VecDeque};

/// Blocks for leaves that are free beside those that the next checkpoint takes.
const SPARE: u64 = 64;
/// Blocks that a change adds to those at most for each leaf that it touches.
const OF_A_LEAF: u64 = 16;
/// Leaves that are written at once.
const LEAVES_UNDER_WAY: usize = 8;
/// Bytes that a free run takes in a row at most.
const RUN: usize = 10;
/// Groups that are taken at once.
const GROUPS_AT_ONCE: u32 = 4;

impl Objects {
    /// Makes the map durable as it is now. Commands wait only until what took effect before is in the logs.
    pub async fn checkpoint(&self) -> Result<()> {
        self.changed.until(|| !self.work.borrow().checkpointing || self.work.borrow().failure.is_some()).await;
        self.alive()?;
        self.work.borrow_mut().checkpointing = true;
        let _counted = self.at_work();
        // Commands will soon wait for it.
        let pressing = self.work.borrow().meta.logs.open() >= MANY_OPEN;
        if pressing {
            self.core.disk.hurry(Waiting::Objects, true);
        }
        let result = self.checkpoint_alone(false).await;
        if pressing {
            self.core.disk.hurry(Waiting::Objects, false);
        }
        let mut work = self.work.borrow_mut();
        work.checkpointing = false;
        work.gate_closed = false;
        drop(work);
        self.changed.notify();
        result
    }

    /// Commands take effect again when the map is cut, or only at the end if the gate is to be `held`.
    pub(super) async fn checkpoint_alone(&self, held: bool) -> Result<()> {
        // Room for the leaves, with some to spare for what still takes effect.
        loop {
            let enough = {
                let work = self.work.borrow();
                work.cut_blocks() + SPARE <= work.meta.tables.free()
            };
            if enough {
                break;
            }
            match self.take_groups(GroupClass::Tables).await {
                // Fewer may do: leaves that have become empty count here, and are none when the map is cut.
                Err(error) if error.kind == Kind::Full => break,
                taken => taken?,
            }
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
        let (cut, number, logs, open) = loop {
            // Another one may change while the rows of these are brought.
            loop {
                let groups = self.work.borrow().groups_to_cut();
                let ranges: Vec<(Key, Key)> = groups.into_iter().map(|g| (Key::free(g), Key::free(g))).collect();
                self.bring(&ranges).await?;
                let work = self.work.borrow();
                let changed: Vec<_> = work.groups_to_cut().into_iter().map(|g| (Key::free(g), Key::free(g))).collect();
                if !work.lacks(&changed) {
                    break;
                }
            }
            match self.work.borrow_mut().cut(open, |group| self.core.has_log(group), held) {
                // What is free lies too scattered for a leaf.
                Err(error) if error.kind == Kind::Full => {}
                cut => break cut?,
            }
            self.take_groups(GroupClass::Tables).await?;
        };
        self.changed.notify();
        let (leaves, epoch, settings) = (cut.leaves, self.core.epoch(), self.settings());
        let record = ObjectsRecord { leaves, number, epoch, logs, open, settings };
        let written = match self.measure(&record) {
            Ok(()) => self.write_leaves(&cut.writes).await,
            full => full,
        };
        if let Err(error) = written {
            // Else the next one would name places at which nothing was written.
            let mut work = self.work.borrow_mut();
            let Meta { tree, tables, .. } = &mut work.meta;
            tree.uncut(cut.left).into_iter().for_each(|place| tables.give(run(place)));
            return Err(error);
        }
        self.work.borrow_mut().meta.tree.written();
        // Something may have been chosen meanwhile.
        let before = self.core.with_objects_mut(|objects| {
            let settings = objects.settings;
            std::mem::replace(objects, ObjectsRecord { settings, ..record })
        });
        if let Err(error) = self.core.commit().await {
            if error.kind == Kind::Full {
                // Rings have to go on with the catalog as it was, which has room.
                self.core.with_objects_mut(|objects| {
                    *objects = ObjectsRecord { settings: objects.settings, ..before };
                });
            }
            // Nobody knows which of both the device has.
            self.work.borrow_mut().meta.tree.keep(cut.left);
            return Err(error);
        }
        let mut work = self.work.borrow_mut();
        let Work { meta, counters, .. } = &mut *work;
        counters.checkpoints += 1;
        cut.left.into_iter().for_each(|place| meta.tables.give(run(place)));
        meta.logs.settle();
        Ok(())
    }

    /// Refuses what the catalog has no room for, before it is told of it: else it could be written no more, and rings
    /// could not go on. Takes note of how much room there is for the names of leaves.
    fn measure(&self, record: &ObjectsRecord) -> Result<()> {
        let (takes, room) = (size(record)?, self.core.room_for_objects()?);
        let mut work = self.work.borrow_mut();
        let beside = takes.saturating_sub(Bytes(work.meta.tree.named()));
        work.names = room.kept.saturating_sub(beside);
        match takes <= room.now {
            true => Ok(()),
            false => Err(Error::full(format!(
                "where the tables of objects lie would take {takes} of the target's catalog, and {} are left for it; \
                 remove objects, or a ring (nothing was changed)",
                room.now
            ))),
        }
    }

    /// Writes leaves, several at once: they lie near each other, and each way of the arm costs a reader. When it ends
    /// nothing is on its way, also where it fails: their places may be taken by others then.
    async fn write_leaves(&self, leaves: &[(u64, Vec<u8>)]) -> Result<()> {
        let mut writing = VecDeque::new();
        let mut leaves = leaves.iter();
        let mut result = Ok(());
        loop {
            while result.is_ok()
                && writing.len() < LEAVES_UNDER_WAY
                && let Some((at, bytes)) = leaves.next()
            {
                let mut buffer = match Buffer::alone(Bytes(bytes.len() as u64)) {
                    Ok(buffer) => buffer,
                    Err(error) => {
                        result = Err(error);
                        break;
                    }
                };
                buffer.copy_from_slice(bytes);
                let (disk, offset) = (self.core.disk.clone(), BLOCK * *at);
                let write = async move { disk.write_metadata(offset, buffer).await.1 };
                writing.push_back(self.core.disk.env().spawner.spawn(write));
            }
            let Some(first) = writing.pop_front() else { return result };
            let written = first.await;
            result = result.and(written);
        }
    }

    /// Makes changes that no log has room for durable with the map itself: nothing else takes effect meanwhile, and
    /// what they free is free when that is durable.
    pub(super) async fn enact_in_map(&self, changes: &[Change], check: impl Fn(&Meta) -> Result<()>) -> Result<()> {
        self.alone(self.enact_alone(changes, check)).await
    }

    /// Does something while nothing else takes effect, and nothing goes home.
    pub(super) async fn alone<T>(&self, what: impl Future<Output = Result<T>>) -> Result<T> {
        let free = || {
            let work = self.work.borrow();
            !work.checkpointing && !work.homing || work.failure.is_some()
        };
        self.changed.until(free).await;
        self.alive()?;
        let set = |busy: bool| {
            let mut work = self.work.borrow_mut();
            (work.checkpointing, work.gate_closed, work.homing) = (busy, busy, busy);
        };
        self.release();
        set(true);
        let result = match self.drained().await {
            Ok(()) => what.await,
            Err(error) => Err(error),
        };
        set(false);
        self.release();
        self.changed.notify();
        result
    }

    async fn enact_alone(&self, changes: &[Change], check: impl Fn(&Meta) -> Result<()>) -> Result<()> {
        self.bring_for(changes).await?;
        let before = {
            let mut work = self.work.borrow_mut();
            check(&work.meta)?;
            let before = Before::of(&work.meta, changes);
            let mut freed = Vec::new();
            for change in changes {
                freed.extend(work.meta.apply(change, &mut 0)?);
            }
            let last = work.last;
            work.limbo.push_back((last, freed));
            before
        };
        let result = self.checkpoint_alone(true).await;
        match &result {
            // The catalog of before counts: what has taken effect in memory is taken back.
            Err(error) if error.kind == Kind::Full => {
                self.bring(&before.ranges).await?;
                let mut work = self.work.borrow_mut();
                work.limbo.pop_back();
                before.restore(&mut work.meta);
            }
            // It has taken effect in memory, and nobody knows whether it has on the device.
            Err(error) => self.fail(error.clone()),
            Ok(()) => {}
        }
        result
    }

    /// Waits until the rows that changes make find room with the next checkpoint: what is in the logs and finds none
    /// could not be opened again; and so do the names of their leaves in the catalog. They look at rows in `ranges`, and
    /// their record takes so many `blocks`. What `removes` goes on as long as it can.
    pub(super) async fn room_for_rows(&self, ranges: &[(Key, Key)], blocks: u32, removes: bool) -> Result<()> {
        let leaves = self.work.borrow().meta.tree.leaves_of(ranges) as u64;
        let added = if removes { 0 } else { OF_A_LEAF * leaves + 2 * u64::from(blocks) };
        let short = || {
            let work = self.work.borrow();
            work.cut_blocks() + 2 * SPARE + added > work.meta.tables.free()
        };
        // A leaf that grows is cut in three at most.
        let names = (2 * leaves + u64::from(blocks)) * NAMED_AT_MOST;
        let unnamed = || {
            let work = self.work.borrow();
            !removes && work.meta.tree.named_then() + names > work.names.0
        };
        while short() {
            match self.take_groups(GroupClass::Tables).await {
                Err(error) if error.kind == Kind::Full => {
                    match self.checkpoint().await {
                        // With less in it the map may fit.
                        Err(full) if full.kind == Kind::Full && removes => {}
                        done => done?,
                    }
                    if short() && !removes {
                        return Err(error);
                    }
                    break;
                }
                taken => taken?,
            }
        }
        if unnamed() {
            // It says how many there are, where before it was only known how many there may be.
            self.checkpoint().await?;
            if unnamed() {
                return Err(Error::full(format!(
                    "the catalog of the target has {} to name tables of objects, and they take {}; \
                     remove objects, or a ring (nothing was changed)",
                    self.work.borrow().names,
                    Bytes(self.work.borrow().meta.tree.named())
                )));
            }
        }
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

    /// Takes some groups more for `class`, durably, or waits until somebody else has, who does so now: many who find no room
    /// at the same time would take all that there is, and be refused beside room. Whoever needs more asks again.
    pub(super) async fn take_groups(&self, class: GroupClass) -> Result<()> {
        let which = usize::from(class == GroupClass::Objects);
        if self.work.borrow().taking[which] {
            self.changed.until(|| !self.work.borrow().taking[which]).await;
            return self.alive();
        }
        self.work.borrow_mut().taking[which] = true;
        let taken = self.take_groups_alone(class).await;
        self.work.borrow_mut().taking[which] = false;
        self.changed.notify();
        taken
    }

    async fn take_groups_alone(&self, class: GroupClass) -> Result<()> {
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

/// The rows that changes touch, as they were before these.
struct Before {
    ranges: Vec<(Key, Key)>,
    rows: BTreeMap<Key, Row>,
}

impl Before {
    /// What is now. The rows that the changes touch must be in memory.
    fn of(meta: &Meta, changes: &[Change]) -> Before {
        let ranges: Vec<(Key, Key)> = changes.iter().flat_map(needs).chain(meta.sharing(changes)).collect();
        let rows = ranges.iter().flat_map(|(from, to)| meta.tree.range(*from, *to));
        Before { rows: rows.map(|(key, row)| (*key, row.clone())).collect(), ranges }
    }

    /// Takes back what removals have done since. The rows must be in memory.
    fn restore(self, meta: &mut Meta) {
        for (from, to) in self.ranges {
            let keys: Vec<Key> = meta.tree.range(from, to).map(|(key, _)| *key).collect();
            keys.iter().filter(|key| !self.rows.contains_key(key)).for_each(|key| drop(meta.tree.take(key)));
        }
        for (key, row) in self.rows {
            if let (Row::Logged(logged), None) = (&row, meta.tree.get(&key)) {
                meta.logs.needed(meta.logs.log_of(logged.at));
            }
            meta.tree.put(key, row);
        }
    }
}

/// The blocks of a leaf.
fn run(place: Place) -> Run {
    Run { at: place.at, blocks: u64::from(place.blocks) }
}

impl Work {
    /// Blocks that the next cut takes at most: for leaves that have changed, and for those in which it puts what is free.
    fn cut_blocks(&self) -> u64 {
        let Meta { tree, data, .. } = &self.meta;
        // What is freed and not free yet may lie in groups that have not changed.
        let freed: usize = self.limbo.iter().map(|(_, runs)| runs.len()).sum();
        let (groups, runs) = (data.changed_groups() + freed, data.changed_runs() + freed);
        let weight = groups * Row::Free(Vec::new()).weight() + runs * RUN;
        tree.cut_blocks() + tree.blocks_for(Key::free(0), Key::free(u32::MAX), groups, weight)
    }

    /// What is free as far as rows say: what commands took that have not taken effect, what is kept for them, and what
    /// waits for a step home to end.
    fn free_in_rows(&self) -> Vec<Run> {
        let limbo = self.limbo.iter().flat_map(|(_, runs)| runs);
        self.taken.values().flatten().chain(limbo).chain(self.reserved.values()).copied().collect()
    }

    /// Groups whose rows the next cut writes.
    fn groups_to_cut(&self) -> std::collections::BTreeSet<u32> {
        self.meta.data.changed(&self.free_in_rows())
    }

    /// The map as it is now, with places for what has changed, the number of the last record in it, and what the
    /// catalog says of the logs. If there is no room for it, nothing has happened.
    fn cut(
        &mut self,
        open: Option<u32>,
        has_log: impl Fn(u32) -> bool,
        held: bool,
    ) -> Result<(Cut, u64, Vec<LogRecord>, Vec<u32>)> {
        let free = self.free_in_rows();
        let Work { meta, .. } = self;
        for (group, runs) in meta.data.changed_rows(&free) {
            meta.tree.put(Key::free(group), Row::Free(runs));
        }
        let tables = &mut meta.tables;
        let mut taken = Vec::new();
        let allocate = |blocks: u32| {
            taken.extend(tables.allocate(u64::from(blocks), None).unwrap_or_default());
            match taken.last() {
                Some(run) if run.blocks == u64::from(blocks) => Ok(run.at),
                _ => Err(Error::full("no room is left for the tables of objects")),
            }
        };
        match meta.tree.cut(allocate) {
            Ok(cut) => {
                let (logs, open) = meta.logs.cut(open, has_log);
                self.gate_closed = held;
                Ok((cut, self.last, logs, open))
            }
            Err(error) => {
                taken.into_iter().for_each(|run| meta.tables.give(run));
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests;

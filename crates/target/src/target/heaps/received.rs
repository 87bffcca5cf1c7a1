//! Heaps that come from another target, unit by unit: each lies in groups of its own, which it has for good once all of it is there.
//!
//! Order of durable steps: groups are taken; units are written; flush; its newest commit is looked at; it is in the catalog. Before the
//! last one it is no heap: after a crash its groups are free, and whoever sends it is told to begin anew. What older commits have that it
//! keeps is looked at by whoever opens it: that takes longer than who sends it waits for an answer.

use super::super::Target;
use crate::catalog::{GroupClass, HeapRecord};
use crate::heap::Heap;
use crate::heap::classes::UNIT;
use crate::heap::open::Closed;
use crate::heap::slot::Stamp;
use crate::heap::space::Space;
use forebay_model::{Bytes, Error, Kind, Result};

/// A heap of which not all is there.
pub(super) struct Received {
    number: u64,
    stamp: Stamp,
    groups: Vec<u32>,
}

impl Target {
    /// Begins to take a heap in that was made with this stamp and has so many units. [`Kind::Exists`] if there is one of this name, or
    /// one is taken in; [`Kind::Full`] if it has no room, and then nothing was begun.
    pub async fn receive_heap(&self, name: &str, stamp: Stamp, units: u32) -> Result<()> {
        let gate = self.heaps.gate(name);
        let _turn = gate.take().await;
        Heap::check_groups(&self.core.layout())?;
        let number = {
            let mut catalog = self.core.catalog.borrow_mut();
            if catalog.heaps.values().any(|heap| heap.name == name) || self.heaps.received.borrow().contains_key(name) {
                return Err(Error::exists(format!("{name} exists already, or is taken in (nothing was changed)")));
            }
            catalog.next_heap += 1;
            catalog.next_heap - 1
        };
        let received = Received { number, stamp, groups: Vec::new() };
        self.heaps.received.borrow_mut().insert(name.to_owned(), received);
        if let Err(error) = self.grow_received(name, u64::from(units)).await {
            self.let_received_go(name);
            self.core.commit().await?;
            return Err(error);
        }
        Ok(())
    }

    /// Writes units of a heap that is taken in, from `first` on; they are durable with [`Target::received_heap`]. [`Kind::Stale`] if
    /// none is, [`Kind::Full`] if it has no room.
    pub async fn write_units(&self, name: &str, first: u32, bytes: &[u8]) -> Result<()> {
        // Nobody removes it meanwhile.
        let gate = self.heaps.gate(name);
        let _turn = gate.take().await;
        let units = bytes.len() as u64 / UNIT.0;
        if units == 0 || bytes.len() as u64 != units * UNIT.0 {
            return Err(Error::usage(format!(
                "{} are no units of {UNIT} each (nothing was changed)",
                Bytes(bytes.len() as u64)
            )));
        }
        self.grow_received(name, u64::from(first) + units).await?;
        let core = &self.core;
        let (stamp, space) = {
            let received = self.heaps.received.borrow();
            let Received { stamp, groups, .. } = received.get(name).ok_or_else(|| not_taken_in(name))?;
            (*stamp, Space::new(core.layout(), groups.clone()))
        };
        let closed = Closed { core, stamp, stream: core.next_stream(), space: &space };
        closed.write(UNIT * u64::from(first), bytes).await
    }

    /// All of a heap is there, which has so many units: it is one of the target's from now on, durably. [`Kind::Damaged`] if no commit of
    /// it is whole: then nothing of it is left.
    pub async fn received_heap(&self, name: &str, units: u32) -> Result<()> {
        let gate = self.heaps.gate(name);
        let _turn = gate.take().await;
        self.grow_received(name, u64::from(units)).await?;
        let core = &self.core;
        core.disk.flush().await?;
        let (number, record) = {
            let received = self.heaps.received.borrow();
            let Received { number, stamp, groups } = received.get(name).ok_or_else(|| not_taken_in(name))?;
            (*number, HeapRecord { name: name.to_owned(), groups: groups.clone(), stamp: *stamp })
        };
        let space = Space::new(core.layout(), record.groups.clone());
        let closed = Closed { core, stamp: record.stamp, stream: core.next_stream(), space: &space };
        if let Err(error) = closed.newest().await {
            if error.kind == Kind::Damaged
                && let Some(freed) = self.let_received_go(name)
            {
                self.objects.leave_logs(&freed).await?;
                core.commit().await?;
            }
            return Err(error);
        }
        self.heaps.received.borrow_mut().remove(name);
        core.catalog.borrow_mut().heaps.insert(number, record);
        core.commit().await
    }

    /// Takes groups until a heap that is taken in has so many units, in its turn.
    async fn grow_received(&self, name: &str, units: u64) -> Result<()> {
        let of_group = u64::from(Space::new(self.core.layout(), Vec::new()).units_per_group());
        loop {
            let (number, short) = {
                let received = self.heaps.received.borrow();
                let Received { number, groups, .. } = received.get(name).ok_or_else(|| not_taken_in(name))?;
                (*number, units.div_ceil(of_group).saturating_sub(groups.len() as u64))
            };
            if short == 0 {
                return Ok(());
            }
            let most = short.min(u64::from(u32::MAX)) as u32;
            let taken = self.core.take_groups(GroupClass::Heap(number), most).await?;
            if let Some(received) = self.heaps.received.borrow_mut().get_mut(name) {
                received.groups.extend(taken);
            }
        }
    }

    /// Lets go of what there is of a heap that is taken in: its groups, of which the catalog does not know yet that they are free.
    pub(super) fn let_received_go(&self, name: &str) -> Option<Vec<u32>> {
        let Received { groups, .. } = self.heaps.received.borrow_mut().remove(name)?;
        self.core.give_back(&groups);
        Some(groups)
    }
}

fn not_taken_in(name: &str) -> Error {
    Error::stale(format!("{name} is not taken in, or was when the target was opened before; send all of it anew"))
}

#[cfg(test)]
mod tests;

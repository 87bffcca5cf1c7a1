//! Records that no slot holds: a list of parts, which are records like others, and lists of lists where that is too long.

use super::allocation::Slot;
use super::classes::{Class, SLOTS};
use super::slot::Role;
use super::view::Eye;
use super::{Heap, What};
use forebay_model::heap::{LARGEST_RECORD, RecordId};
use forebay_model::{Error, Result};
use std::rc::Rc;

/// Bytes before the ids in the list of a chained record's parts, and bytes of an id.
const HEADER: usize = 9;
const ID: usize = 8;
/// Parts that are read at once: as many as make up the reads that are under way at the same time, 8 MiB.
const AT_ONCE: usize = 1024;

/// The list of the parts of a chained record.
pub(super) struct Chain {
    /// Bytes of the record.
    pub(super) length: u64,
    /// How many times the parts are those of a list: 0, they are those of the record.
    pub(super) levels: u8,
    pub(super) parts: Vec<RecordId>,
}

impl Chain {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + self.parts.len() * ID);
        bytes.extend(self.length.to_le_bytes());
        bytes.push(self.levels);
        self.parts.iter().for_each(|part| bytes.extend(part.number().to_le_bytes()));
        bytes
    }

    /// The list in the slot of a record.
    pub(super) fn decode(id: RecordId, bytes: &[u8]) -> Result<Chain> {
        let (length, rest) = bytes.split_first_chunk().ok_or_else(|| Chain::odd(id))?;
        let (levels, rest) = rest.split_first().ok_or_else(|| Chain::odd(id))?;
        let length = u64::from_le_bytes(*length);
        if length > LARGEST_RECORD as u64 || *levels > 2 {
            return Err(Chain::odd(id));
        }
        Ok(Chain { length, levels: *levels, parts: ids(rest) })
    }

    fn odd(id: RecordId) -> Error {
        Error::damaged(format!("the list of the parts of record {id} makes no sense"))
    }
}

/// The classes of the slots that a record of so many bytes takes, however large it is.
pub(super) fn classes(length: usize) -> Vec<Class> {
    let mut all = Vec::new();
    let mut left = length;
    loop {
        if let Some(class) = Class::holding(left) {
            all.push(class);
            return all;
        }
        let parts = left.div_ceil(Class::LARGEST.most());
        all.extend(std::iter::repeat_n(Class::LARGEST, parts));
        left = HEADER + parts * ID;
    }
}

/// Ids one after the other.
pub(super) fn ids(bytes: &[u8]) -> Vec<RecordId> {
    let number = |id: &[u8]| u64::from_le_bytes(id.try_into().expect("eight bytes"));
    bytes.chunks_exact(ID).map(|id| RecordId::from_number(number(id))).collect()
}

impl Heap {
    /// Puts a record that no slot holds, all of it in one step beside commits, aborts, and this future's end.
    pub(super) async fn put_large(self: &Rc<Self>, eye: &Eye, bytes: &[u8]) -> Result<RecordId> {
        if matches!(eye, Eye::Commit) {
            return self.put_chain(eye, bytes).await;
        }
        let aside = self.writer();
        let id = self.put_chain(aside.eye(), bytes).await?;
        match eye {
            Eye::Own(own) => aside.hand_over(&mut own.borrow_mut()),
            _ => aside.merge().await?,
        }
        Ok(id)
    }

    /// Puts the parts of a record that no slot holds, and then the list of them, in parts of its own where no slot holds
    /// it either.
    async fn put_chain(self: &Rc<Self>, eye: &Eye, bytes: &[u8]) -> Result<RecordId> {
        let mut parts = Vec::with_capacity(bytes.len() / Class::LARGEST.most() + 1);
        let put = self.put_parts(eye, bytes, &mut parts).await;
        if put.is_err() {
            let mut work = self.work.borrow_mut();
            parts.iter().for_each(|part| work.forget(eye, Slot::of(*part)));
        }
        put
    }

    async fn put_parts(self: &Rc<Self>, eye: &Eye, bytes: &[u8], all: &mut Vec<RecordId>) -> Result<RecordId> {
        let mut list = Chain { length: bytes.len() as u64, levels: 0, parts: Vec::new() };
        let mut level = bytes.to_vec();
        loop {
            list.parts.clear();
            for part in level.chunks(Class::LARGEST.most()) {
                list.parts.push(self.put_in(eye, Class::LARGEST, part, What::Part).await?);
                all.extend(list.parts.last());
            }
            let mut whole = list.encode();
            if let Some(class) = Class::holding(whole.len()) {
                return self.put_in(eye, class, &whole, What::Head).await;
            }
            level = whole.split_off(HEADER);
            list.levels += 1;
        }
    }

    /// The bytes of a chained record, in whose slot these lie.
    pub(super) async fn bring_chain(self: &Rc<Self>, eye: &Eye, id: RecordId, slot: &[u8]) -> Result<Vec<u8>> {
        let list = Chain::decode(id, slot)?;
        let length = list.length;
        let parts = self.lowest(eye, list, &mut Vec::new()).await?;
        let bytes = self.bring_all(eye, parts).await?;
        if bytes.len() as u64 != length { Err(Chain::odd(id)) } else { Ok(bytes) }
    }

    /// All slots that a record takes: its own is the first.
    pub(super) async fn slots_of(self: &Rc<Self>, eye: &Eye, id: RecordId, role: Role) -> Result<Vec<Slot>> {
        Ok(self.slots_of_many(eye, &[id], role).await?.remove(0))
    }

    /// All slots that each of these records takes: its own is the first. [`forebay_model::Kind::Missing`] if one of them
    /// is none, or is named twice.
    pub(super) async fn slots_of_many(
        self: &Rc<Self>,
        eye: &Eye,
        ids: &[RecordId],
        role: Role,
    ) -> Result<Vec<Vec<Slot>>> {
        let mut sorted = ids.to_vec();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|two| two[0] == two[1]).map(|two| two[0]) {
            return Err(Error::missing(format!("record {twice} is to be freed twice (nothing was changed)")));
        }
        let (chains, whole): (Vec<RecordId>, Vec<RecordId>) = ids.iter().partition(|id| id.is_chain());
        self.know(eye, &whole, role).await?;
        let mut slots: Vec<Vec<Slot>> = ids.iter().map(|id| vec![Slot::of(*id)]).collect();
        let mut of_chains = slots.iter_mut().zip(ids).filter(|(_, id)| id.is_chain());
        for chains in chains.chunks(AT_ONCE) {
            for list in self.bring_many(eye, chains, role).await {
                let (slots, id) = of_chains.next().expect("one for each");
                let mut above = Vec::new();
                let lowest = self.lowest(eye, Chain::decode(*id, &list?)?, &mut above).await?;
                slots.extend(above.into_iter().chain(lowest).map(Slot::of));
            }
        }
        Ok(slots)
    }

    /// The parts of a chained record's bytes, in order. The parts of its lists, all but these, are added to `above`.
    async fn lowest(self: &Rc<Self>, eye: &Eye, list: Chain, above: &mut Vec<RecordId>) -> Result<Vec<RecordId>> {
        let mut parts = list.parts;
        for _ in 0..list.levels {
            above.extend(&parts);
            parts = ids(&self.bring_all(eye, parts).await?);
        }
        Ok(parts)
    }

    /// The bytes of records, one behind the other. They are read at the same time, [`AT_ONCE`] of them.
    async fn bring_all(self: &Rc<Self>, eye: &Eye, parts: Vec<RecordId>) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for parts in parts.chunks(AT_ONCE) {
            for part in self.bring_many(eye, parts, Role::Part).await {
                bytes.extend(part?);
            }
        }
        Ok(bytes)
    }
}

impl Class {
    /// The one with the largest slots.
    const LARGEST: Class = Class((SLOTS.len() - 1) as u8);
}

#[cfg(test)]
mod tests;

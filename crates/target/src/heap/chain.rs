//! Records that no slot holds: a list of parts, which are records like others, and lists of lists where that is too long.

use super::allocation::Slot;
use super::classes::{Class, SLOTS};
use super::remains::{Named, Remains, Slots};
use super::slot::Role;
use super::view::Eye;
use super::{Heap, What};
use forebay_model::heap::{LARGEST_RECORD, RecordId};
use forebay_model::{Error, Kind, Result};
use std::collections::BTreeSet;
use std::rc::Rc;

/// Bytes before the ids in the list of a chained record's parts, and bytes of an id.
const HEADER: usize = 9;
pub(super) const ID: usize = 8;
/// Parts that are read at once: as many as make up the reads that are under way at the same time, 8 MiB.
pub(super) const AT_ONCE: usize = 1024;

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

    /// How many parts a record of its length has: of its bytes, of the list of these, and so on.
    pub(super) fn counts(&self) -> Vec<usize> {
        let mut counts = vec![(self.length as usize).div_ceil(Class::LARGEST.most())];
        let mut last = counts[0];
        while HEADER + last * ID > Class::LARGEST.most() {
            last = (last * ID).div_ceil(Class::LARGEST.most());
            counts.push(last);
        }
        counts
    }

    /// The list without what is behind it in its slot; `None` if a chained record of its length has no such list.
    pub(super) fn if_sound(mut self) -> Option<Chain> {
        let counts = self.counts();
        let parts = counts[counts.len() - 1];
        let is_sound = self.length > 0 && counts.len() == usize::from(self.levels) + 1 && parts <= self.parts.len();
        self.parts.truncate(parts);
        is_sound.then_some(self)
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

/// Two ids are of one slot.
pub(super) fn same_slot(one: RecordId, other: RecordId) -> Error {
    Error::missing(format!(
        "there is one record at most for {one} and {other}, which name the same place, and both are to be freed (nothing was \
         changed)"
    ))
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
        let mut parts = list.parts;
        for _ in 0..list.levels {
            parts = ids(&self.bring_whole(eye, &parts).await?);
        }
        let bytes = self.bring_whole(eye, &parts).await?;
        if bytes.len() as u64 != length { Err(Chain::odd(id)) } else { Ok(bytes) }
    }

    /// All slots that a record takes: its own is the first.
    pub(super) async fn slots_of(self: &Rc<Self>, eye: &Eye, id: RecordId, role: Role) -> Result<Vec<Slot>> {
        Ok(self.slots_of_many(eye, &[id], role).await?.of.remove(0))
    }

    /// The slots that each of these records takes; of those that are damaged, what is known of them.
    /// [`forebay_model::Kind::Missing`] if one of them is none, or is named twice. No slot is said twice.
    pub(super) async fn slots_of_many(self: &Rc<Self>, eye: &Eye, ids: &[RecordId], role: Role) -> Result<Slots> {
        let mut sorted = ids.to_vec();
        sorted.sort_unstable();
        // Of two ids of one slot, which sorting has side by side, one outlived its record, whatever can be read there.
        if let Some(two) = sorted.windows(2).find(|two| Slot::of(two[0]) == Slot::of(two[1])) {
            return Err(match two[0] == two[1] {
                true => Error::missing(format!("record {} is to be freed twice (nothing was changed)", two[0])),
                false => same_slot(two[0], two[1]),
            });
        }
        let (chains, whole): (Vec<RecordId>, Vec<RecordId>) = ids.iter().partition(|id| id.is_chain());
        let damaged: BTreeSet<RecordId> =
            self.find_damaged(eye, &whole, role).await?.into_iter().map(|(id, _)| id).collect();
        let mut slots = Slots::default();
        let mut chains = chains.chunks(AT_ONCE);
        let mut lists = Vec::new().into_iter();
        for id in ids {
            if !id.is_chain() {
                match damaged.contains(id) {
                    true => slots.add_damaged(self.remains(eye, *id, role, Named::Perhaps).await?),
                    false => slots.of.push(vec![Slot::of(*id)]),
                }
                continue;
            }
            if lists.len() == 0 {
                lists = self.bring_many(eye, chains.next().expect("it is one of them"), role).await.into_iter();
            }
            let list = lists.next().expect("one for each");
            let list = list.and_then(|bytes| Chain::decode(*id, &bytes)?.if_sound().ok_or_else(|| Chain::odd(*id)));
            match list {
                Ok(list) => {
                    let mut remains = Remains { slots: vec![Slot::of(*id)], is_all: true };
                    self.add_parts(eye, list, Named::Surely, &mut remains).await?;
                    match remains.is_all {
                        true => slots.of.push(remains.slots),
                        false => slots.add_damaged(remains),
                    }
                }
                Err(error) if error.kind == Kind::Damaged => {
                    slots.add_damaged(self.remains(eye, *id, role, Named::Perhaps).await?);
                }
                Err(error) => return Err(error),
            }
        }
        // Where a write was lost, a record that was freed lies whole where another one has a part.
        let mut said = BTreeSet::new();
        slots.of.iter_mut().for_each(|its| its.retain(|slot| said.insert(*slot)));
        Ok(slots)
    }

    /// The bytes of records, one behind the other.
    async fn bring_whole(self: &Rc<Self>, eye: &Eye, parts: &[RecordId]) -> Result<Vec<u8>> {
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
    pub(super) const LARGEST: Class = Class((SLOTS.len() - 1) as u8);
}

#[cfg(test)]
mod tests;

//! Freeing records that are damaged: what of them is known to be theirs is free, and what is not stays taken, and is counted.
//!
//! A slot is a record's if its header says so, whatever became of the rest; if a list or a root that is whole names it; or if
//! nothing is left of the header, and no list can name the slot: parts lie in the largest slots only. The parts of a list
//! that is damaged itself are those that are whole, and say that they are what it names.

use super::allocation::Slot;
use super::chain::{AT_ONCE, Chain, ID, ids};
use super::classes::{Class, SLOT_HEADER};
use super::root::PAGE;
use super::slot::{self, Role};
use super::view::Eye;
use super::{Heap, Work, gather};
use forebay_model::heap::{HeapMode, RecordId};
use forebay_model::{Kind, Result};
use std::collections::BTreeSet;
use std::rc::Rc;

/// The slots of records that are to be freed, and what was found of these.
#[derive(Default)]
pub(super) struct Slots {
    /// Of each record: its own is the first, if it is known to be that.
    pub of: Vec<Vec<Slot>>,
    /// Records that are damaged, and those of them of which it is not known which slots are theirs as well.
    pub damaged: u64,
    /// See [`Slots::damaged`].
    pub in_part: u64,
}

impl Slots {
    pub(super) fn add_damaged(&mut self, Remains { slots, is_all }: Remains) {
        self.of.push(slots);
        self.damaged += 1;
        self.in_part += u64::from(!is_all);
    }
}

/// What is known of a damaged record.
#[derive(Default)]
pub(super) struct Remains {
    /// Slots that are its.
    pub slots: Vec<Slot>,
    /// Whether these are all.
    pub is_all: bool,
}

/// Whether something names what is taken for a part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Named {
    /// What names it is whole.
    Surely,
    /// What names it is damaged: it has to say so itself.
    Perhaps,
    /// Nothing does.
    Not,
}

/// What lists name, put together from their parts, which cut ids anywhere.
struct Below {
    bytes: Vec<u8>,
    named: Vec<Named>,
    at: usize,
}

impl Below {
    fn new(count: usize) -> Below {
        Below { bytes: vec![0; count * ID], named: vec![Named::Surely; count], at: 0 }
    }

    /// What the next part of the lists has.
    fn add(&mut self, (bytes, named): (Vec<u8>, Named)) {
        let here = self.at..self.bytes.len().min(self.at + Class::LARGEST.most());
        if here.is_empty() {
            return;
        }
        let known = bytes.get(..here.len());
        let named = if known.is_some() { named } else { Named::Not };
        self.named[here.start / ID..here.end.div_ceil(ID)].iter_mut().for_each(|its| *its = named.max(*its));
        self.bytes[here.clone()].copy_from_slice(known.unwrap_or(&vec![0; here.len()]));
        self.at = here.end;
    }

    fn parts(self) -> Vec<(RecordId, Named)> {
        ids(&self.bytes).into_iter().zip(self.named).collect()
    }
}

impl Work {
    /// Damaged records were freed.
    pub(super) fn count_damaged(&mut self, slots: &Slots) {
        self.freed_damaged.0 += slots.damaged;
        self.freed_damaged.1 += slots.in_part;
    }

    /// What is to be said of those.
    pub(super) fn of_freed_damaged(&self) -> Option<String> {
        let (all, in_part) = self.freed_damaged;
        (all > 0).then(|| {
            format!(
                "{all} damaged records were freed since the heap was opened; of {in_part} of them it could not be told \
                 which slots were theirs, and these stay taken: `forebay check` counts them"
            )
        })
    }

    /// Whether no list, and no root, names the slot.
    fn is_named_by_users_only(&self, slot: Slot) -> bool {
        let mut keepers = self.retained.iter().flat_map(|kept| &kept.slots).chain(&self.going);
        self.last.settings.mode == HeapMode::ReadWrite
            && self.allocation.get(slot.allocator).class() != Class::LARGEST
            && !keepers.any(|kept| *kept == slot)
    }
}

impl Heap {
    /// What is known of a record that is damaged.
    pub(super) async fn remains(self: &Rc<Self>, eye: &Eye, id: RecordId, role: Role, named: Named) -> Result<Remains> {
        let bytes = self.raw(eye, id, role).await?;
        let slot = {
            let work = self.work.borrow();
            // It may have been freed meanwhile.
            let slot = work.check(eye, id, role)?;
            let says_nothing = bytes[..SLOT_HEADER].iter().all(|byte| *byte == 0);
            let is_its = named == Named::Surely
                || slot::names(id, role, &bytes)
                || says_nothing && work.is_named_by_users_only(slot);
            if !is_its {
                return Ok(Remains::default());
            }
            slot
        };
        let mut remains = Remains { slots: vec![slot], is_all: true };
        if id.is_chain() {
            match Chain::decode(id, &bytes[SLOT_HEADER..]).ok().and_then(Chain::if_sound) {
                Some(list) => self.add_parts(eye, list, Named::Perhaps, &mut remains).await?,
                None => remains.is_all = false,
            }
        }
        Ok(remains)
    }

    /// Adds the slots of all parts of a list, those of its lists among them.
    pub(super) async fn add_parts(
        self: &Rc<Self>,
        eye: &Eye,
        list: Chain,
        named: Named,
        remains: &mut Remains,
    ) -> Result<()> {
        let (counts, mut own) = (list.counts(), 0);
        let mut seen: BTreeSet<Slot> = remains.slots.iter().copied().collect();
        let mut parts: Vec<(RecordId, Named)> = list.parts.into_iter().map(|part| (part, named)).collect();
        for above in (0..counts.len()).rev() {
            let mut below = Below::new(if above > 0 { counts[above - 1] } else { 0 });
            // The bytes of a record need not be read to be freed.
            let is_read = |named: Named| named == Named::Perhaps || named == Named::Surely && above > 0;
            for parts in parts.chunks(AT_ONCE) {
                let wanted = parts.iter().filter(|(_, named)| is_read(*named));
                let wanted: Vec<RecordId> = wanted.map(|(id, _)| *id).collect();
                let mut read = self.bring_many(eye, &wanted, Role::Part).await.into_iter();
                for (part, named) in parts {
                    let record = if is_read(*named) { read.next() } else { None };
                    let (is_its, bytes) = match record {
                        None => (*named == Named::Surely, (Vec::new(), Named::Not)),
                        Some(Ok(bytes)) => (true, (bytes, Named::Surely)),
                        Some(Err(error)) if error.kind == Kind::Damaged && *named == Named::Surely => {
                            let raw = self.raw(eye, *part, Role::Part).await?;
                            (true, (raw[SLOT_HEADER..].to_vec(), Named::Perhaps))
                        }
                        Some(Err(error)) if matches!(error.kind, Kind::Damaged | Kind::Missing) => {
                            (false, (Vec::new(), Named::Not))
                        }
                        Some(Err(error)) => return Err(error),
                    };
                    below.add(bytes);
                    let slot = self.work.borrow().check(eye, *part, Role::Part).ok().filter(|_| is_its);
                    if let Some(slot) = slot.filter(|slot| seen.insert(*slot)) {
                        remains.slots.push(slot);
                        own += usize::from(above == 0);
                    }
                }
            }
            parts = below.parts();
        }
        remains.is_all = own == counts[0];
        Ok(())
    }

    /// What lies in the slot of a record, whole or not: zeros where it cannot be read, while the device can be otherwise.
    async fn raw(&self, eye: &Eye, id: RecordId, role: Role) -> Result<Vec<u8>> {
        let lies = {
            let work = self.work.borrow();
            gather::extent(&work.allocation, work.check(eye, id, role)?)
        };
        let pages = gather::pages(&lies);
        let mut all = Vec::with_capacity((pages.end - pages.start) as usize);
        for at in pages.clone().step_by(PAGE) {
            let mut page = Vec::with_capacity(PAGE);
            match self.read(at..at + PAGE as u64, |_, bytes| page.extend_from_slice(bytes)).await {
                Err(error) if error.kind == Kind::Damaged && self.is_readable().await => page.clear(),
                read => read?,
            }
            page.resize(PAGE, 0);
            all.append(&mut page);
        }
        Ok(all[(lies.start - pages.start) as usize..][..(lies.end - lies.start) as usize].to_vec())
    }
}

#[cfg(test)]
mod tests;

//! Who looks at a heap: at what is in it now, at a commit, or at what one writer has put besides.

use super::Work;
use super::allocation::Slot;
use super::allocator::Bits;
use super::slot::{self, Role};
use forebay_model::heap::{CommitInfo, RecordId};
use forebay_model::{Bytes, Error, Result};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::{Rc, Weak};

/// What one sees.
#[derive(Clone)]
pub(super) enum Eye {
    /// What is in the heap now.
    Live,
    /// The same, for a commit that is being made: nothing else goes on beside it.
    Commit,
    /// What is in a commit.
    At(Rc<View>),
    /// What is in the heap now, and what a writer has put and freed.
    Own(Rc<RefCell<Own>>),
}

/// The most bytes that views of commits take, of all heaps of a target; one is allowed, however large it is.
pub(super) const MOST_SEEN: usize = 256 << 20;
/// Bytes of a view for each allocator: its slots, which nobody else may have any more, and what shares them.
const SEEN: usize = size_of::<Bits>() + 3 * size_of::<usize>();

/// A commit: the slots of each allocator that have records of it. All who look at it share one.
pub(super) struct View {
    pub info: CommitInfo,
    pub slots: Vec<Rc<Bits>>,
    pub _seen: Seen,
}

/// Bytes of a view, counted as long as this lives.
pub(super) struct Seen {
    all: Rc<Cell<usize>>,
    bytes: usize,
}

impl Seen {
    /// Of one of so many allocators.
    pub fn count(all: &Rc<Cell<usize>>, allocators: u32) -> Seen {
        let bytes = allocators as usize * SEEN;
        all.set(all.get() + bytes);
        Seen { all: all.clone(), bytes }
    }

    /// The same, if it may be.
    pub fn within(all: &Rc<Cell<usize>>, allocators: u32) -> Result<Seen> {
        let there = all.get();
        if there > 0 && there + allocators as usize * SEEN > MOST_SEEN {
            return Err(Error::busy(format!(
                "others look at commits of heaps on this target, which takes {} of the {} that it may; try again when some \
                 have ended (nothing was changed)",
                Bytes(there as u64),
                Bytes(MOST_SEEN as u64)
            )));
        }
        Ok(Seen::count(all, allocators))
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        self.all.set(self.all.get() - self.bytes);
    }
}

/// What a writer has put, by slot, of how many records, and those of others that it has freed: these with all of their
/// slots.
#[derive(Default)]
pub(super) struct Own {
    pub put: BTreeSet<Slot>,
    pub records: usize,
    pub freed: BTreeMap<RecordId, Vec<Slot>>,
    /// One that it has freed, and that was freed for all by another one: for good, or as long as there is no abort.
    pub lost: Option<RecordId>,
    /// See [`Own::lost`].
    pub lost_for_now: Option<RecordId>,
}

impl Own {
    /// The record of others in this slot that it has freed.
    pub fn freed_in(&self, slot: Slot) -> Option<RecordId> {
        let of_slot = |tag, chain| RecordId::new(slot.allocator, slot.slot, tag, chain);
        let any = of_slot(0, false)..=of_slot(RecordId::TAGS - 1, true);
        self.freed.range(any).next().map(|(id, _)| *id)
    }

    /// What lies in the slot is freed for all.
    fn notice(&mut self, slot: Slot) {
        self.lost_for_now = self.lost_for_now.or_else(|| self.freed_in(slot));
    }

    /// What was freed for all is committed.
    pub fn committed(&mut self) {
        self.lost = self.lost.or(self.lost_for_now.take());
    }
}

impl View {
    fn has(&self, slot: Slot) -> bool {
        let bits = self.slots.get(slot.allocator as usize);
        let word = bits.and_then(|bits| bits.get(usize::from(slot.slot) / 64));
        word.is_some_and(|word| word >> (slot.slot % 64) & 1 == 1)
    }
}

/// There is no such record.
pub(super) fn missing(id: RecordId) -> Error {
    Error::missing(format!("there is no record {id}: it was freed, or is that of another heap"))
}

impl Work {
    /// Whether there may be such a record, there for this: it is refused if there is none for sure.
    pub(super) fn check(&self, eye: &Eye, id: RecordId, role: Role) -> Result<Slot> {
        if let Some(why) = self.failure.as_ref().filter(|_| self.ended) {
            return Err(why.clone());
        }
        let slot = Slot::of(id);
        let is_live = || self.allocation.find(slot.allocator).is_some_and(|allocator| allocator.is_live(slot.slot));
        match eye {
            Eye::Live | Eye::Commit if is_live() => {}
            Eye::Own(own) if own.borrow().put.contains(&slot) => {}
            Eye::Own(own) if !own.borrow().freed.contains_key(&id) && is_live() => {}
            // What is known of the slot by now is not what it had then, and what is read says itself what it is.
            Eye::At(view) if view.has(slot) => return Ok(slot),
            Eye::At(view) => {
                return Err(Error::missing(format!(
                    "there is no record {id} in commit {}: it was put later, freed before, or is that of another heap",
                    view.info.commit
                )));
            }
            _ => return Err(missing(id)),
        }
        match self.tags.get(slot) {
            Some(known) if known != slot::distinction(id, role) => Err(slot::gone(id)),
            _ => Ok(slot),
        }
    }

    /// Whether the last commit names it as its root. Then it was there, and as long as its slot is live it has been no
    /// other's: nobody has to read it to know that.
    pub(super) fn is_last_root(&self, id: RecordId, role: Role) -> bool {
        role == Role::Record && self.last.root == Some(id.number())
    }

    /// The record in a slot is no longer wanted by who put it.
    pub(super) fn forget(&mut self, eye: &Eye, slot: Slot) {
        let at_once = match eye {
            Eye::Own(own) => {
                own.borrow_mut().put.remove(&slot);
                self.allocation.free_hidden(slot);
                true
            }
            _ => {
                let owns = self.owns.iter().filter_map(Weak::upgrade);
                owns.for_each(|own| own.borrow_mut().notice(slot));
                self.allocation.free(slot)
            }
        };
        if at_once && self.cache.drop_record(slot) {
            self.allocation.hand_out_next(slot);
        }
        self.hot.drop_record(slot);
    }
}

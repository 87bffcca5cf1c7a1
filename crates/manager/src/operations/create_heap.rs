//! Making a heap: its name, and the target on which it lies.
//!
//! The entry is there before the heap: a client that dies in between leaves an entry that anybody may remove, and never a heap
//! that has space and no name. A heap grows by itself, and nobody says how far: its volume is charged for the entry alone.

use super::Operation;
use super::inodes::exists;
use crate::keys;
use crate::place;
use crate::placement;
use crate::principal::Wanted;
use crate::quota::{self, Charge};
use crate::records::{Answer, Fresh, Layout};
use forebay_model::layout::{Raid, Striping, UNIT};
use forebay_model::{Error, Result};
use forebay_wire::control::files::{CreateHeap, MOST_REFUSALS};
use forebay_wire::control::names::FileKind;

impl Operation<'_> {
    /// Makes a heap under a name that is free. Whoever makes it has to be allowed to write it by its mode.
    pub(super) fn create_heap(&mut self, asked: &CreateHeap) -> Result<Answer> {
        let CreateHeap { place, mode, refused_by } = asked;
        if refused_by.len() > MOST_REFUSALS {
            return Err(Error::usage(format!(
                "{} targets refused the heap, and {MOST_REFUSALS} are asked at most; remove something, or add targets",
                refused_by.len()
            )));
        }
        let slot = place::slot(&self.draft, self.by, place)?;
        if slot.there.is_some() {
            return Err(exists(&slot));
        }
        self.by.require(slot.directory.file, &slot.directory.inode, Wanted::CHANGE)?;
        let volume = slot.directory.inode.attributes.volume;
        quota::charge(&mut self.draft, self.now.wall, volume, Charge { files_in: 1, ..Charge::default() })?;
        let targets = vec![placement::place_heap(self.cluster, refused_by, self.random)?];
        let striping = Striping::new(Raid::Zero, UNIT, 1, 1, 1)?;
        let layout = Layout { striping, targets, absent: Vec::new() };
        let (owner, group) = (self.by.user, self.by.first_group()?);
        let found = self.make(&slot, Fresh { kind: FileKind::Heap, mode: *mode, owner, group, volume })?;
        self.by.require(found.file, &found.inode, Wanted::WRITE)?;
        self.draft.put(keys::layout(found.file), &layout)?;
        Ok(Answer::Opened(found.file))
    }
}

#[cfg(test)]
mod tests;

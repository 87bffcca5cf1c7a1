//! Making a ring: its name, and the targets on which it lies.
//!
//! The entry is there before the rings: a client that dies in between leaves an entry that anybody may remove, and never a
//! ring that has space and a promise and no name.

use super::Operation;
use super::inodes::exists;
use crate::keys;
use crate::place;
use crate::placement::{self, RingPlaces};
use crate::principal::Wanted;
use crate::quota::{self, Charge};
use crate::records::{Answer, Fresh, Layout};
use forebay_model::layout::{LARGEST, Raid, Striping, UNIT};
use forebay_model::ring::Spread;
use forebay_model::{Bytes, Error, Result};
use forebay_wire::control::files::{CreateRing, MOST_REFUSALS};
use forebay_wire::control::names::FileKind;

impl Operation<'_> {
    /// Makes a ring under a name that is free. Whoever makes it has to be allowed to write it by its mode.
    pub(super) fn create_ring(&mut self, asked: &CreateRing) -> Result<Answer> {
        let CreateRing { place, mode, capacity, refused_by, targets, parity, again, leaving } = asked;
        check_capacity(*capacity)?;
        if refused_by.len() > MOST_REFUSALS {
            return Err(Error::usage(format!(
                "{} targets refused the ring, and {MOST_REFUSALS} are asked at most; make it smaller",
                refused_by.len()
            )));
        }
        let spread = Spread { targets: *targets, parity: *parity };
        spread.check()?;
        if let Some(component) = leaving {
            return self.find_next_place(asked, *component, part_of(asked));
        }
        if *again {
            return self.place_again(asked, part_of(asked));
        }
        let slot = place::slot(&self.draft, self.by, place)?;
        if slot.there.is_some() {
            return Err(exists(&slot));
        }
        self.by.require(slot.directory.file, &slot.directory.inode, Wanted::CHANGE)?;
        let volume = slot.directory.inode.attributes.volume;
        let charge = Charge { files_in: 1, bytes_in: *capacity, ..Charge::default() };
        quota::charge(&mut self.draft, self.now.wall, volume, charge)?;
        let components = spread.components();
        let wanted = (components as usize, &RingPlaces::default());
        let targets = placement::place_ring(self.cluster, part_of(asked), wanted, refused_by, self.random)?;
        // Of a ring, the parity lies on the last one.
        let raid = if spread.parity { Raid::Five } else { Raid::Zero };
        let striping = Striping::new(raid, UNIT, components, 1, 1)?;
        let layout = Layout { striping, targets, absent: Vec::new() };
        let (owner, group) = (self.by.user, self.by.first_group()?);
        let mut found = self.make(&slot, Fresh { kind: FileKind::Ring, mode: *mode, owner, group, volume })?;
        self.by.require(found.file, &found.inode, Wanted::WRITE)?;
        found.inode.attributes.size = *capacity;
        self.draft.put(keys::inode(found.file), &found.inode)?;
        self.draft.put(keys::layout(found.file), &layout)?;
        Ok(Answer::Opened(found.file))
    }
}

/// What each target has of it.
fn part_of(asked: &CreateRing) -> Bytes {
    Bytes(asked.capacity.0.div_ceil(u64::from(asked.targets)))
}

/// [`forebay_model::Kind::Usage`] if no ring has this capacity.
pub(super) fn check_capacity(capacity: Bytes) -> Result<()> {
    if capacity == Bytes::ZERO || capacity > LARGEST {
        return Err(Error::usage(format!("a ring has between 1 B and {LARGEST}, and not {capacity}; give it such")));
    }
    Ok(())
}

#[cfg(test)]
mod tests;

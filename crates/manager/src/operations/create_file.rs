//! Making a file: its name, its layout, and if it is wanted its opening, in one step.

use super::Operation;
use super::inodes::exists;
use super::open_to_write::Wish;
use crate::draft::View;
use crate::keys;
use crate::place;
use crate::placement;
use crate::principal::Wanted;
use crate::quota::{self, Charge};
use crate::records::{Answer, Fresh, VolumeRecord};
use forebay_model::Result;
use forebay_wire::control::Reply;
use forebay_wire::control::names::{CreateFile, FileKind};

impl Operation<'_> {
    /// Makes a file, or finds the one that is there.
    pub(super) fn create_file(&mut self, asked: &CreateFile) -> Result<Answer> {
        let wish = Wish { alone: asked.alone, cached: asked.cached, ..Wish::default() };
        wish.check()?;
        let slot = place::slot(&self.draft, self.by, &asked.place)?;
        if slot.there.is_some() {
            if asked.exclusive {
                return Err(exists(&slot));
            }
            let found = place::taken(&self.draft, &slot)?;
            place::require_file(found.file, &found.inode)?;
            if asked.open {
                return self.open_found(found, wish);
            }
            return Ok(Answer::Reply(Reply::Entry(found.inode.entry(found.file))));
        }
        self.by.require(slot.directory.file, &slot.directory.inode, Wanted::CHANGE)?;
        let volume = slot.directory.inode.attributes.volume;
        let record: VolumeRecord = self.draft.require(&keys::volume(volume))?;
        asked.policy.as_ref().map_or(Ok(()), |policy| placement::check_width(self.cluster, policy))?;
        let policy = asked.policy.unwrap_or(record.policy);
        quota::charge(&mut self.draft, self.now.wall, volume, Charge { files_in: 1, ..Charge::default() })?;
        let layout = placement::place(self.cluster, &policy, self.random)?;
        let (owner, group) = (self.by.user, self.by.first_group()?);
        let found = self.make(&slot, Fresh { kind: FileKind::File, mode: asked.mode, owner, group, volume })?;
        self.draft.put(keys::layout(found.file), &layout)?;
        if asked.open {
            // Whoever makes a file may write it, whatever its mode is going to allow.
            return self.opened(found, wish);
        }
        Ok(Answer::Reply(Reply::Entry(found.inode.entry(found.file))))
    }
}

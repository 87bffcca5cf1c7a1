//! Making a directory.

use super::Operation;
use super::inodes::exists;
use crate::place;
use crate::principal::Wanted;
use crate::quota::{self, Charge};
use crate::records::Fresh;
use forebay_model::Result;
use forebay_wire::control::names::{Entry, FileKind, MakeDirectory};

impl Operation<'_> {
    /// Makes a directory under a name that is free.
    pub(super) fn make_directory(&mut self, asked: &MakeDirectory) -> Result<Entry> {
        let slot = place::slot(&self.draft, self.by, &asked.place)?;
        if slot.there.is_some() {
            return Err(exists(&slot));
        }
        self.by.require(slot.directory.file, &slot.directory.inode, Wanted::CHANGE)?;
        self.require_depth(slot.directory.file)?;
        let volume = slot.directory.inode.attributes.volume;
        quota::charge(&mut self.draft, self.now.wall, volume, Charge { files_in: 1, ..Charge::default() })?;
        let (owner, group) = (self.by.user, self.by.first_group()?);
        let found = self.make(&slot, Fresh { kind: FileKind::Directory, mode: asked.mode, owner, group, volume })?;
        Ok(found.inode.entry(found.file))
    }
}

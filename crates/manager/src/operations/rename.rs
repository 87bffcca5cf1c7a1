//! Renaming, in one step: whatever was under the new name is replaced, and nobody ever sees neither.

use super::Operation;
use super::inodes::exists;
use super::remove::require_empty;
use crate::draft::View;
use crate::keys;
use crate::place::{self, Slot};
use crate::principal::Wanted;
use crate::records::{Inode, Named};
use forebay_model::{Error, Result};
use forebay_wire::control::names::{Entry, Rename};

impl Operation<'_> {
    /// Gives a file or directory another name, another directory, or both.
    pub(super) fn rename(&mut self, asked: &Rename) -> Result<Entry> {
        let from = place::slot(&self.draft, self.by, &asked.from)?;
        let to = place::slot(&self.draft, self.by, &asked.to)?;
        let moved = place::taken(&self.draft, &from)?;
        self.by.require_removable((from.directory.file, &from.directory.inode), &moved.inode)?;
        self.by.require(to.directory.file, &to.directory.inode, Wanted::CHANGE)?;
        if from.directory.inode.attributes.volume != to.directory.inode.attributes.volume {
            return Err(Error::refused(format!(
                "'{}' is in volume {} and cannot be moved into volume {}; copy it",
                from.name, from.directory.inode.attributes.volume, to.directory.inode.attributes.volume
            )));
        }
        if moved.inode.is_directory() && from.directory.file != to.directory.file {
            if place::is_within(&self.draft, to.directory.file, moved.file)? {
                return Err(Error::usage(format!(
                    "'{}' cannot be moved into itself or below; take a directory elsewhere",
                    from.name
                )));
            }
            self.require_depth(to.directory.file)?;
        }
        if to.there.is_some_and(|there| there.file == moved.file) {
            return Ok(moved.inode.entry(moved.file));
        }
        if to.there.is_some() {
            self.replace(&to, moved.inode.is_directory(), asked.exclusive)?;
        }
        self.draft.delete(keys::name(from.directory.file, from.name));
        let named = Named { file: moved.file, kind: moved.inode.attributes.kind };
        self.draft.put(keys::name(to.directory.file, to.name), &named)?;
        self.entries_changed(from.directory.file, -1)?;
        self.entries_changed(to.directory.file, 1)?;
        let key = keys::inode(moved.file);
        let mut inode: Inode = self.draft.require(&key)?;
        inode.parent = to.directory.file;
        inode.attributes.changed = self.now.wall;
        self.draft.put(key, &inode)?;
        Ok(inode.entry(moved.file))
    }

    /// Removes what is in the way, if it may be.
    fn replace(&mut self, to: &Slot<'_>, by_directory: bool, exclusive: bool) -> Result<()> {
        if exclusive {
            return Err(exists(to));
        }
        let replaced = place::taken(&self.draft, to)?;
        self.by.require_removable((to.directory.file, &to.directory.inode), &replaced.inode)?;
        match (by_directory, replaced.inode.is_directory()) {
            (true, true) => require_empty(to, &replaced)?,
            (false, false) => {}
            (true, false) => {
                return Err(Error::usage(format!("'{}' is a file, and no directory replaces one; remove it", to.name)));
            }
            (false, true) => {
                return Err(Error::usage(format!("'{}' is a directory, and no file replaces one; remove it", to.name)));
            }
        }
        self.unmake(to, &replaced)
    }
}

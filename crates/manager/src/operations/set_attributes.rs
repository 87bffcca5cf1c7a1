//! Changing attributes: who may is as in POSIX.

use super::Operation;
use super::create_ring::check_capacity;
use super::inodes::check_mode;
use crate::keys;
use crate::place::{self, Found};
use crate::principal::Wanted;
use crate::quota::{self, Charge};
use crate::records::Inode;
use forebay_model::layout::LARGEST;
use forebay_model::{Bytes, Error, Result, Timestamp};
use forebay_wire::control::names::{Entry, FileId, FileKind, SetAttributes};

/// The bits with which a program runs as its owner or group.
const SET_ID: u32 = 0o6000;

impl Operation<'_> {
    /// Changes what is said, and nothing else.
    pub(super) fn set_attributes(&mut self, asked: &SetAttributes) -> Result<Entry> {
        let Found { file, mut inode } = place::find(&self.draft, self.by, &asked.place)?;
        let is_owners = asked.mode.is_some() || asked.modified.is_some() || asked.accessed.is_some();
        if is_owners && !self.by.owns(&inode.attributes) {
            return Err(self.not_the_owner(file, &inode));
        }
        if let Some(owner) = asked.owner.filter(|owner| *owner != inode.attributes.owner) {
            self.by.require_root("give a file to another user")?;
            inode.attributes.owner = owner;
        }
        if let Some(group) = asked.group.filter(|group| *group != inode.attributes.group) {
            if !self.by.owns(&inode.attributes) {
                return Err(self.not_the_owner(file, &inode));
            }
            if !self.by.is_root() && !self.by.groups.contains(&group) {
                return Err(Error::forbidden(format!(
                    "user {} may not give {file} to group {group}, of which it is not: only root may; ask somebody who has its key",
                    self.by.user
                )));
            }
            inode.attributes.group = group;
            inode.attributes.mode &= if self.by.is_root() { u32::MAX } else { !SET_ID };
        }
        if let Some(mode) = asked.mode {
            check_mode(mode)?;
            inode.attributes.mode = mode;
        }
        if let Some(size) = asked.size {
            self.by.require(file, &inode, Wanted::WRITE)?;
            match inode.attributes.kind {
                FileKind::Ring => check_capacity(size)?,
                // A heap grows by itself.
                _ => place::require_file(file, &inode)?,
            }
            self.set_size(&mut inode, size, false)?;
            inode.attributes.modified = self.now.wall;
        }
        inode.attributes.modified = asked.modified.unwrap_or(inode.attributes.modified);
        inode.attributes.accessed = asked.accessed.unwrap_or(inode.attributes.accessed);
        inode.attributes.changed = self.now.wall;
        self.draft.put(keys::inode(file), &inode)?;
        Ok(inode.entry(file))
    }

    /// Gives a file another size, and charges its volume; beyond its bounds only where that is so already.
    pub(super) fn set_size(&mut self, inode: &mut Inode, size: Bytes, is_so_already: bool) -> Result<()> {
        if size > LARGEST {
            return Err(Error::usage(format!("a file has {LARGEST} at most, and not {size}; take several files")));
        }
        let charge = Charge { bytes_in: size, bytes_out: inode.attributes.size, ..Charge::default() };
        let volume = inode.attributes.volume;
        match is_so_already {
            true => quota::note(&mut self.draft, self.now.wall, volume, charge)?,
            false => quota::charge(&mut self.draft, self.now.wall, volume, charge)?,
        }
        inode.attributes.size = size;
        Ok(())
    }

    /// Notes when a file was written.
    pub(super) fn set_modified(&self, inode: &mut Inode, modified: Option<Timestamp>) {
        inode.attributes.modified = modified.unwrap_or(inode.attributes.modified);
        inode.attributes.changed = self.now.wall;
    }

    fn not_the_owner(&self, file: FileId, inode: &Inode) -> Error {
        Error::forbidden(format!(
            "user {} may not change attributes of {file}: only user {} and root may; ask them",
            self.by.user, inode.attributes.owner
        ))
    }
}

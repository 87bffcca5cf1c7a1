//! Removing files and empty directories.

use super::Operation;
use crate::place::{self, Found, Slot};
use forebay_model::{Error, Result};
use forebay_wire::control::names::{RemoveDirectory, RemoveFile};

impl Operation<'_> {
    /// Removes a file: its name at once, its objects later.
    pub(super) fn remove_file(&mut self, asked: &RemoveFile) -> Result<()> {
        let slot = place::slot(&self.draft, self.by, &asked.place)?;
        let found = place::taken(&self.draft, &slot)?;
        if asked.only.is_some_and(|only| only != found.file) {
            return Err(Error::missing(format!("'{}' is another one by now (nothing was removed)", slot.name)));
        }
        place::require_objects(found.file, &found.inode)?;
        self.by.require_removable((slot.directory.file, &slot.directory.inode), &found.inode)?;
        self.unmake(&slot, &found)
    }

    /// Removes a directory that has no entries.
    pub(super) fn remove_directory(&mut self, asked: &RemoveDirectory) -> Result<()> {
        let slot = place::slot(&self.draft, self.by, &asked.place)?;
        let found = place::taken(&self.draft, &slot)?;
        place::require_directory(&found)?;
        self.by.require_removable((slot.directory.file, &slot.directory.inode), &found.inode)?;
        require_empty(&slot, &found)?;
        self.unmake(&slot, &found)
    }
}

/// Whether a directory may be removed.
pub(super) fn require_empty(slot: &Slot<'_>, found: &Found) -> Result<()> {
    let attributes = &found.inode.attributes;
    if attributes.volume != slot.directory.inode.attributes.volume {
        return Err(Error::usage(format!(
            "'{}' is the root of volume {}; remove the volume",
            slot.name, attributes.volume
        )));
    }
    if attributes.entries > 0 {
        return Err(Error::refused(format!(
            "the directory '{}' has {} entries; remove them first",
            slot.name, attributes.entries
        )));
    }
    Ok(())
}

//! Who asks, and what a mode allows whom: as in POSIX, for owner, group and others.

use crate::records::Inode;
use forebay_model::{Error, Result};
use forebay_wire::control::access::ROOT_USER;
use forebay_wire::control::names::{Attributes, FileId};

/// Somebody whose connection was proven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The user.
    pub user: u32,
    /// The user's groups; what it makes belongs to the first.
    pub groups: Vec<u32>,
    /// The client program.
    pub client: u64,
    /// The access key that proved it. None was taken for whoever is in the manager's own process, who is whom it says.
    pub key: Option<u64>,
}

/// What may be done with a file or directory, as the three bits of a mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted(u32);

impl Wanted {
    /// Read bytes, or names.
    pub(crate) const READ: Wanted = Wanted(4);
    /// Write bytes.
    pub(crate) const WRITE: Wanted = Wanted(2);
    /// Find names.
    pub(crate) const SEARCH: Wanted = Wanted(1);
    /// Make, rename and remove names.
    pub(crate) const CHANGE: Wanted = Wanted(3);
}

/// Only the owner of an entry, and of the directory, removes it.
const STICKY: u32 = 0o1000;

impl Principal {
    /// Root, as this client.
    pub fn root(client: u64) -> Principal {
        Principal { user: ROOT_USER, groups: vec![0], client, key: None }
    }

    /// Whether everything is allowed.
    pub fn is_root(&self) -> bool {
        self.user == ROOT_USER
    }

    /// Whether it may do everything; [`forebay_model::Kind::Forbidden`] if not.
    pub(crate) fn require_root(&self, doing: &str) -> Result<()> {
        if self.is_root() {
            return Ok(());
        }
        Err(Error::forbidden(format!(
            "user {} may not {doing}: only root may; ask somebody who has its key",
            self.user
        )))
    }

    /// Whether it may do everything, or is this user.
    pub(crate) fn require_self(&self, user: u32, doing: &str) -> Result<()> {
        if self.is_root() || self.user == user {
            return Ok(());
        }
        Err(Error::forbidden(format!("user {} may not {doing}: only root and user {user} may", self.user)))
    }

    /// The group that what it makes belongs to. A number of a user is none of a group.
    pub(crate) fn first_group(&self) -> Result<u32> {
        let none = || {
            Error::forbidden(format!(
                "user {} is in no group, to which what it makes would belong; give it one",
                self.user
            ))
        };
        self.groups.first().copied().ok_or_else(none)
    }

    /// Whether the mode allows this.
    pub(crate) fn may(&self, attributes: &Attributes, Wanted(bits): Wanted) -> bool {
        let allowed = if attributes.owner == self.user {
            attributes.mode >> 6
        } else if self.groups.contains(&attributes.group) {
            attributes.mode >> 3
        } else {
            attributes.mode
        };
        self.is_root() || allowed & bits == bits
    }

    /// Whether it owns this, or is root.
    pub(crate) fn owns(&self, attributes: &Attributes) -> bool {
        self.is_root() || attributes.owner == self.user
    }

    /// [`forebay_model::Kind::Forbidden`] if the mode does not allow this.
    pub(crate) fn require(&self, file: FileId, inode: &Inode, wanted: Wanted) -> Result<()> {
        let attributes = &inode.attributes;
        if self.may(attributes, wanted) {
            return Ok(());
        }
        let doing = match (wanted, inode.is_directory()) {
            (Wanted::READ, _) => "read",
            (Wanted::WRITE, _) => "write",
            (Wanted::SEARCH, true) => "search",
            _ => "change",
        };
        Err(Error::forbidden(format!(
            "user {} may not {doing} {file}: it belongs to user {} and group {}, and its mode is {:o}; have user {1} or root \
             change that",
            self.user, attributes.owner, attributes.group, attributes.mode
        )))
    }

    /// [`forebay_model::Kind::Forbidden`] if it may not rename or remove this entry of the directory.
    pub(crate) fn require_removable(&self, directory: (FileId, &Inode), entry: &Inode) -> Result<()> {
        let (file, inode) = directory;
        self.require(file, inode, Wanted::CHANGE)?;
        let is_kept = inode.attributes.mode & STICKY != 0;
        if is_kept && !self.owns(&inode.attributes) && !self.owns(&entry.attributes) {
            return Err(Error::forbidden(format!(
                "user {} may not remove or rename what belongs to user {} in {file}: it is sticky; ask that user",
                self.user, entry.attributes.owner
            )));
        }
        Ok(())
    }
}

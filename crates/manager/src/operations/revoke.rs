//! Taking back what was given out: for one file by raising its version, for all by the least epoch that counts.

use super::{Operation, left};
use crate::cluster::set_epochs;
use crate::draft::{Draft, View};
use crate::keys;
use crate::place::{self, Found};
use crate::records::{Epochs, Inode, Layout, NOWHERE, Orders, RingMoves, Writers};
use forebay_model::{Error, Result, Timestamp};
use forebay_wire::control::files::{Fence, Revoke};
use forebay_wire::control::names::{FileId, FileKind, Place};

impl Operation<'_> {
    /// Raises the version of a file, and has its targets told. Whoever writes it has to open it again, as its mode may not
    /// allow that any more; what it has begun may be half done.
    pub(super) fn revoke(&mut self, asked: &Revoke) -> Result<()> {
        let Found { file, inode } = place::find(&self.draft, self.by, &Place::of(asked.file))?;
        if !self.by.owns(&inode.attributes) {
            return Err(Error::forbidden(format!(
                "user {} may not revoke what was given out for {file}: only user {} and root may; ask them",
                self.by.user, inode.attributes.owner
            )));
        }
        place::require_objects(file, &inode)?;
        left(&mut self.draft, file, self.now.wall, |_| true)?;
        self.raise(file, inode)
    }

    /// Raises the version of a file that the client has open to write, unless somebody else did.
    pub(super) fn fence(&mut self, asked: &Fence) -> Result<()> {
        let Found { file, inode } = place::find(&self.draft, self.by, &Place::of(asked.file))?;
        let Writers(writers) = self.draft.read(&keys::writers(file))?.unwrap_or_default();
        if !writers.iter().any(|writer| writer.is(self.by)) {
            return Err(Error::stale(format!("this client does not have {file} open to write; open it again")));
        }
        let version = inode.attributes.version;
        if asked.version > version + 1 {
            return Err(Error::usage(format!(
                "{file} has version {version}, and {} is not the next one: nobody was told of it",
                asked.version
            )));
        }
        if asked.version <= version { Ok(()) } else { self.raise(file, inode) }
    }

    /// Raises the version of a file, and has its targets told.
    pub(super) fn raise(&mut self, file: FileId, inode: Inode) -> Result<()> {
        raise(&mut self.draft, file, inode, self.now.wall)
    }

    /// Lets no capability count that was made before.
    pub(super) fn revoke_all(&mut self) -> Result<()> {
        self.by.require_root("revoke everything")?;
        self.shut_all_out()
    }

    /// The same, for whoever may.
    pub(super) fn shut_all_out(&mut self) -> Result<()> {
        let epoch = self.cluster.epochs.epoch + 1;
        set_epochs(&mut self.draft, Epochs { epoch, least: epoch, ..self.cluster.epochs })
    }
}

/// Raises the version of a file, and has its targets told.
pub(crate) fn raise(draft: &mut Draft<'_>, file: FileId, mut inode: Inode, now: Timestamp) -> Result<()> {
    inode.attributes.version += 1;
    inode.attributes.changed = now;
    if inode.written {
        let layout: Layout = draft.require(&keys::layout(file))?;
        let version = inode.attributes.version;
        let before: Option<Orders> = draft.read(&keys::fences(file))?;
        let unheard = before.map(|before| before.pending).unwrap_or_default();
        let left: Option<Orders> = draft.read(&keys::leftovers(file))?;
        // A target that a component has left answers those who know of no other one, until it has heard of that once.
        let newest =
            left.iter().filter(|left| left.version + 1 == version).find_map(|left| left.pending.last().copied());
        let left = left.into_iter().flat_map(|left| left.pending);
        let left = left.filter(|there| Some(*there) == newest || unheard.contains(there));
        let ring: Option<RingMoves> = match inode.attributes.kind {
            FileKind::Ring => draft.read(&keys::ring_moves(file))?,
            _ => None,
        };
        let ring = ring.iter().flat_map(RingMoves::places);
        let places = layout.components().into_iter().chain(left).chain(ring);
        // What lies nowhere nobody would ever say to have heard.
        let pending: Vec<_> = places.filter(|(_, target)| *target != NOWHERE).collect();
        let (volume, is_empty) = (inode.attributes.volume, pending.is_empty());
        draft.put_unless(is_empty, keys::fences(file), &Orders { volume, version, due: now, pending })?;
    }
    draft.put(keys::inode(file), &inode)
}

//! What operations on names share: making and removing a file or directory, and noting that a directory changed.

use super::Operation;
use crate::draft::View;
use crate::keys;
use crate::place::{Found, Slot, too_deep};
use crate::quota::{self, Charge};
use crate::records::{Fresh, Inode, Layout, MOST_FILES, Moves, NOWHERE, Named, Next, Orders, RingMoves};
use forebay_model::{Error, Result};
use forebay_wire::capability::SKEW;
use forebay_wire::control::names::{FileId, FileKind, MOST_DEPTH};

/// The bits of a mode.
const MODE: u32 = 0o7777;

impl Operation<'_> {
    /// Makes a file or directory under a name that is free.
    pub(super) fn make(&mut self, slot: &Slot<'_>, fresh: Fresh) -> Result<Found> {
        check_mode(fresh.mode)?;
        let mut next: Next = self.draft.require(keys::NEXT)?;
        if next.file >= MOST_FILES {
            return Err(Error::full("there are no more numbers for files; make another cluster"));
        }
        let file = FileId(next.file);
        next.file += 1;
        self.draft.put(keys::NEXT.to_vec(), &next)?;
        let now = self.now.wall;
        let (kind, attributes) = (fresh.kind, fresh.attributes(now));
        // A ring or a heap is to be made on its target at once.
        let written = matches!(kind, FileKind::Ring | FileKind::Heap);
        let inode = Inode { parent: slot.directory.file, attributes, written };
        self.draft.put(keys::inode(file), &inode)?;
        self.draft.put(keys::name(slot.directory.file, slot.name), &Named { file, kind })?;
        self.entries_changed(slot.directory.file, 1)?;
        Ok(Found { file, inode })
    }

    /// Removes a file or an empty directory that is under this name, with all that is kept of it.
    pub(super) fn unmake(&mut self, slot: &Slot<'_>, found: &Found) -> Result<()> {
        let Found { file, inode } = found;
        let attributes = &inode.attributes;
        self.draft.delete(keys::name(slot.directory.file, slot.name));
        self.draft.delete(keys::inode(*file));
        if attributes.kind != FileKind::Directory {
            if inode.written {
                let layout: Layout = self.draft.require(&keys::layout(*file))?;
                let Moves(moves) = self.draft.read(&keys::moves(*file))?.unwrap_or_default();
                let copies = moves.iter().map(|copied| (copied.component, copied.to));
                let ring: RingMoves = self.draft.read(&keys::ring_moves(*file))?.unwrap_or_default();
                let places = layout.components().into_iter().chain(copies).chain(ring.places());
                let orders = Orders {
                    volume: attributes.volume,
                    version: attributes.version,
                    due: self.now.wall.after(self.settings.life + SKEW),
                    // What lies nowhere nobody would ever say to have removed.
                    pending: places.filter(|(_, target)| *target != NOWHERE).collect(),
                };
                self.draft.put_unless(orders.pending.is_empty(), keys::removals(*file), &orders)?;
                self.draft.delete(keys::writers(*file));
                self.draft.delete(keys::to_scrub(*file));
            }
            self.draft.delete(keys::layout(*file));
            self.draft.delete(keys::degraded(*file));
            self.draft.delete(keys::moves(*file));
            self.draft.delete(keys::ring_moves(*file));
            self.draft.delete(keys::verified(*file));
        }
        let charge = Charge { bytes_out: attributes.size, files_out: 1, ..Charge::default() };
        quota::charge(&mut self.draft, self.now.wall, attributes.volume, charge)?;
        self.entries_changed(slot.directory.file, -1)
    }

    /// Notes that a directory has so many more entries.
    pub(super) fn entries_changed(&mut self, directory: FileId, more: i64) -> Result<()> {
        let key = keys::inode(directory);
        let mut inode: Inode = self.draft.require(&key)?;
        inode.attributes.entries = inode.attributes.entries.saturating_add_signed(more);
        inode.attributes.modified = self.now.wall;
        inode.attributes.changed = self.now.wall;
        self.draft.put(key, &inode)
    }

    /// [`forebay_model::Kind::Usage`] if no directory may be made in this one.
    pub(super) fn require_depth(&self, directory: FileId) -> Result<()> {
        if crate::place::depth(&self.draft, directory)? + 1 >= MOST_DEPTH {
            return Err(too_deep());
        }
        Ok(())
    }
}

/// [`forebay_model::Kind::Usage`] if a mode has bits that no mode has.
pub(super) fn check_mode(mode: u32) -> Result<()> {
    if mode & !MODE == 0 {
        return Ok(());
    }
    Err(Error::usage(format!("{mode:o} is no mode: its bits are {MODE:o}, in octal")))
}

/// What is under a name is in the way.
pub(super) fn exists(slot: &Slot<'_>) -> Error {
    Error::exists(format!("there is a '{}' in {} already; take another name", slot.name, slot.directory.file))
}

//! Capabilities for the components of a file, and their secrets.
//!
//! Always: nobody gets one whom the mode does not allow it now; it counts until a time that was promised, and no longer
//! than five minutes.

use crate::cluster::Cluster;
use crate::draft::View;
use crate::engine::Snapshot;
use crate::holders::Holders;
use crate::keys;
use crate::manager::{Manager, Now};
use crate::operations::{is_lost, is_to_leave};
use crate::place::{self, Found};
use crate::principal::{Principal, Wanted};
use crate::records::{Absence, Inode, Layout, RingMoves, Writers, object};
use forebay_model::block::BLOCK_ALIGN;
use forebay_model::layout::{Raid, Striping};
use forebay_model::ring::{RingSpec, Spread};
use forebay_model::{Bytes, Error, ObjectId, Result, TargetId, Timestamp};
use forebay_wire::capability::{Capability, Rights, SKEW};
use forebay_wire::control::Reply;
use forebay_wire::control::access::Hidden;
use forebay_wire::control::cluster::TargetState;
use forebay_wire::control::files::{
    Component, ComponentState, Grant, Granted, Grants, MOST_RENEWED, Moving, OpenHeap, OpenRing, OpenToRead, Renew,
};
use forebay_wire::control::names::{FileId, FileKind, Place};
use forebay_wire::target::ITSELF;
use std::ops::Range;

/// What makes capabilities for somebody.
pub(crate) struct Granting<'a> {
    pub(crate) view: &'a dyn Snapshot,
    pub(crate) cluster: &'a Cluster,
    pub(crate) by: &'a Principal,
    pub(crate) now: Timestamp,
    pub(crate) until: Timestamp,
    pub(crate) serial: &'a mut u64,
    pub(crate) holders: &'a mut Holders,
}

impl Manager {
    /// Opens a file to read it.
    pub(crate) fn open_to_read(&mut self, now: Now, by: &Principal, asked: &OpenToRead) -> Result<Reply> {
        let found = place::find(&self.view()?, by, &asked.place)?;
        place::require_file(found.file, &found.inode)?;
        by.require(found.file, &found.inode, Wanted::READ)?;
        let file = found.file;
        if asked.cached && self.is_kept_from(now, by, file, false)? {
            return Ok(Reply::Calling);
        }
        let grant = self.granting(now, by)?.grant(found, false)?;
        let callback = if asked.cached { Some(self.keep_what_is_read(now, by, file)?) } else { None };
        Ok(Reply::Grant(Grant { callback, ..grant }))
    }

    /// Opens a ring.
    pub(crate) fn open_ring(&mut self, now: Now, by: &Principal, asked: &OpenRing) -> Result<Grant> {
        let found = place::find(&self.view()?, by, &asked.place)?;
        place::require_kind(found.file, &found.inode, FileKind::Ring)?;
        self.grant(now, by, found.file, asked.write)
    }

    /// Opens a heap. One that was lost is not opened: nothing is left that it could be made of.
    pub(crate) fn open_heap(&mut self, now: Now, by: &Principal, asked: &OpenHeap) -> Result<Grant> {
        let view = self.view()?;
        let found = place::find(&view, by, &asked.place)?;
        place::require_kind(found.file, &found.inode, FileKind::Heap)?;
        let wanted = if asked.write { Wanted::WRITE } else { Wanted::READ };
        by.require(found.file, &found.inode, wanted)?;
        let layout: Layout = view.require(&keys::layout(found.file))?;
        if let Some(lost) = layout.targets.iter().find(|target| is_lost(&self.cluster, **target)) {
            return Err(Error::refused(format!(
                "the heap lies on target {lost} alone, which counts as failed, so that its records are lost: remove it, or take the \
                 target back if it still has them"
            )));
        }
        self.grant(now, by, found.file, asked.write)
    }

    /// Capabilities for each of several files again.
    pub(crate) fn renew(&mut self, now: Now, by: &Principal, asked: &Renew) -> Result<Grants> {
        if asked.files.len() > MOST_RENEWED {
            return Err(Error::usage(format!(
                "{} files cannot be renewed at a time, and {MOST_RENEWED} are the most; ask several times",
                asked.files.len()
            )));
        }
        let mut grants = Vec::with_capacity(asked.files.len());
        for renewed in &asked.files {
            self.holders.knows(renewed.file, by.client, renewed.version);
            grants.push(match self.grant(now, by, renewed.file, renewed.write) {
                Ok(grant) => Granted { grant: Some(grant), error: None },
                Err(error) => Granted { grant: None, error: Some(error) },
            });
        }
        Ok(Grants { grants })
    }

    /// With what each target is asked about itself: for everybody who is told of the map.
    pub(crate) fn targets(&mut self, now: Now, by: &Principal) -> Result<Vec<Component>> {
        let there = self.cluster.targets.iter().filter(|(_, now)| now.record.state != TargetState::Gone);
        let targets: Vec<TargetId> = there.map(|(target, _)| *target).collect();
        let mut granting = self.granting(now, by)?;
        let bytes = 0..0;
        let allowed = |target| granting.capability(target, (ITSELF, 0), (Rights::GET_ATTRIBUTES, bytes.clone()));
        Ok(targets.into_iter().map(allowed).collect())
    }

    /// Capabilities for a file; to write it, this client has to have it open.
    pub(crate) fn grant(&mut self, now: Now, by: &Principal, file: FileId, write: bool) -> Result<Grant> {
        let view = self.view()?;
        let found = place::find(&view, by, &Place::of(file))?;
        place::require_objects(found.file, &found.inode)?;
        if matches!(found.inode.attributes.kind, FileKind::Ring | FileKind::Heap) {
            by.require(file, &found.inode, if write { Wanted::WRITE } else { Wanted::READ })?;
            let Writers(writers) = view.read(&keys::writers(file))?.unwrap_or_default();
            if writers.iter().any(|writer| writer.alone) {
                return Err(Error::busy(format!(
                    "{file} is moved to another target, and the last of it is copied; ask again in a second"
                )));
            }
        } else if write {
            let writers: Option<Writers> = view.read(&keys::writers(file))?;
            let is_open = |Writers(writers): &Writers| writers.iter().any(|writer| writer.is(by));
            if !writers.as_ref().is_some_and(is_open) {
                return Err(Error::stale(format!(
                    "client {:x} does not have {file} open to write any more; open it again",
                    by.client
                )));
            }
        } else {
            by.require(file, &found.inode, Wanted::READ)?;
        }
        self.granting(now, by)?.grant(found, write)
    }
}

impl Granting<'_> {
    fn grant(&mut self, found: Found, write: bool) -> Result<Grant> {
        let Found { file, inode } = found;
        let layout: Layout = self.view.require(&keys::layout(file))?;
        let striping = layout.striping;
        let attributes = &inode.attributes;
        let mut rights = Rights::GET_ATTRIBUTES;
        // Parity is computed from what is there: whoever writes it reads.
        let may_read = !write || striping.raid() == Raid::Five || self.by.may(attributes, Wanted::READ);
        let read = if may_read { Rights::READ } else { Rights::NONE };
        if write {
            rights = rights | Rights::WRITE | Rights::TRUNCATE | Rights::SET_ATTRIBUTES | Rights::CREATE;
        }
        let mut components = Vec::with_capacity(layout.targets.len());
        for (component, target) in layout.components() {
            let state = match layout.absence(component) {
                None => ComponentState::Whole,
                Some(Absence::Filling(_)) => ComponentState::Filling,
                Some(Absence::Emptying(client)) if client == self.by.client && write => ComponentState::Emptying,
                Some(Absence::Emptying(_) | Absence::Missed) => {
                    components.push(missed(target, object(attributes.volume, file, component)));
                    continue;
                }
            };
            // A file's bytes are charged when it is closed, those of a ring before it has them.
            let bytes = match attributes.kind {
                FileKind::Ring => 0..most_of_ring(striping, component, attributes.size).0,
                // Records are no bytes of an object.
                FileKind::Heap => 0..0,
                FileKind::File | FileKind::Directory => 0..u64::MAX,
            };
            // What is emptied is not read. Of what is filled everybody reads the intents beside it: who only reads makes nothing of a
            // stripe that somebody changes. Of a ring who reads takes what is there.
            let rights = if state == ComponentState::Emptying { rights } else { rights | read };
            components.push(Component { state, ..self.component((file, component), &inode, target, (rights, bytes)) });
        }
        // Of a ring or a heap no version is in the way of another one, so nobody is waited for.
        if attributes.kind == FileKind::File {
            self.holders.note(file, self.by.client, attributes.version, self.until.after(SKEW), self.now);
        }
        let moving = match attributes.kind {
            FileKind::Ring => self.moving((file, &inode), &layout, write, read)?,
            FileKind::File | FileKind::Heap | FileKind::Directory => Vec::new(),
        };
        let entry = inode.entry(file);
        Ok(Grant { entry, write, striping, components, until: self.until, callback: None, moving, left: false })
    }

    /// Parts of a ring that leave targets, or have left them.
    fn moving(
        &mut self,
        (file, inode): (FileId, &Inode),
        layout: &Layout,
        write: bool,
        read: Rights,
    ) -> Result<Vec<Moving>> {
        let moves: RingMoves = self.view.read(&keys::ring_moves(file))?.unwrap_or_default();
        let mut moving = Vec::new();
        for component in 0..layout.targets.len() as u32 {
            let there = moves.of(component).filter(|it| it.moved || write);
            let moved = there.is_some_and(|it| it.moved);
            if !(moved || write && is_to_leave(self.cluster, layout, component)) {
                continue;
            }
            // Who records there comes to an end of it, and what is pinned there can be let go of.
            let rights = match (write, moved) {
                (true, false) => Rights::WRITE | Rights::CREATE | Rights::SET_ATTRIBUTES,
                (true, true) => Rights::WRITE | Rights::SET_ATTRIBUTES,
                (false, _) => Rights::NONE,
            };
            let bytes = 0..most_of_ring(layout.striping, component, inode.attributes.size).0;
            let allowed = (rights | read | Rights::GET_ATTRIBUTES, bytes);
            let place = there.map(|it| match is_lost(self.cluster, it.target) {
                true => missed(it.target, object(inode.attributes.volume, file, component)),
                false => self.component((file, component), inode, it.target, allowed),
            });
            moving.push(Moving { component, place, moved });
        }
        Ok(moving)
    }

    /// A capability for a component on a target.
    pub(crate) fn component(
        &mut self,
        (file, component): (FileId, u32),
        Inode { attributes, .. }: &Inode,
        target: TargetId,
        (rights, bytes): (Rights, Range<u64>),
    ) -> Component {
        let object = object(attributes.volume, file, component);
        self.capability(target, (object, attributes.version), (rights, bytes))
    }

    /// A capability for an object of a target.
    fn capability(
        &mut self,
        target: TargetId,
        (object, version): (ObjectId, u64),
        (rights, bytes): (Rights, Range<u64>),
    ) -> Component {
        let (key, epoch) = self.cluster.signing(target);
        *self.serial += 1;
        let capability = Capability {
            cluster: self.cluster.id,
            target,
            client: self.by.client,
            object,
            version,
            epoch,
            rights,
            bytes,
            until: self.until,
            key: key.version(),
            serial: *self.serial,
        };
        let secret = Hidden(key.secret(&capability).to_bytes().to_vec());
        let capability = capability.to_bytes().to_vec();
        Component { target, object, capability, secret, state: ComponentState::Whole }
    }
}

/// A component that nobody is given anything of.
fn missed(target: TargetId, object: ObjectId) -> Component {
    Component { target, object, capability: Vec::new(), secret: Hidden(Vec::new()), state: ComponentState::Missed }
}

/// The most that a part of a ring may take of so many bytes in all: parity takes more than its share, by its tables.
pub(crate) fn most_of_ring(striping: Striping, component: u32, size: Bytes) -> Bytes {
    let parity = striping.raid().parity_units();
    let spread = Spread { targets: striping.components() - parity, parity: parity > 0 };
    // Of which blocks it is, its targets know alone: of the smallest, parity takes the most beside itself.
    let whole = RingSpec { block: Bytes(BLOCK_ALIGN as u64), ..RingSpec::new("", size) };
    let most = spread.part(&whole, component).capacity;
    // Where parity moves, it takes along what its target rounded it up to.
    if component < spread.targets { most } else { most.max(size) }
}

#[cfg(test)]
mod tests;

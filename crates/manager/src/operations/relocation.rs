//! Components that are to lie elsewhere, because nothing is to stay where they lie or so that targets are filled evenly: who copies one is alone with the file
//! meanwhile, and makes way for whoever wants to write it.
//!
//! A heap is used while it is copied, and nobody's but its copier's while the last of it is. So is a part of a ring that nobody records
//! into: who records has it leave by that ([`super::ring_parts`]), and who copies it makes way.
//!
//! Always: until a component was copied to its end it lies where it lay, and all read it there; of a copy that came to nothing
//! it is known where that lies, until it is written anew or removed. A file that others have open for long is not waited for:
//! if it can do without the component, and another target would take it, that is given up, and made anew elsewhere.

use super::Operation;
use super::absences::{give_up_one, leave_behind, put_absences, require_version};
use crate::cluster::Cluster;
use crate::draft::{Draft, View};
use crate::keys;
use crate::manager::{Manager, Now, Settings};
use crate::place::{self, Found};
use crate::principal::Principal;
use crate::records::{Layout, Move, Moves, RingMove, RingMoves, ToScrub, Writer, Writers};
use forebay_model::{Error, Result, Timestamp};
use forebay_wire::capability::{Rights, SKEW};
use forebay_wire::control::cluster::TargetState;
use forebay_wire::control::files::{Relocate, Relocated, Relocating, Relocation};
use forebay_wire::control::names::{FileId, FileKind, Place};
use std::time::Duration;

impl Operation<'_> {
    /// Has this client copy a component of a file.
    pub(super) fn relocate(&mut self, asked: &Relocate) -> Result<()> {
        self.by.require_root("move components")?;
        let Found { file, inode } = place::find(&self.draft, self.by, &Place::of(asked.file))?;
        let is_used = is_used_meanwhile(inode.attributes.kind);
        if !is_used {
            place::require_file(file, &inode)?;
        }
        let mut layout: Layout = self.draft.require(&keys::layout(file))?;
        let Moves(mut moves) = self.draft.read(&keys::moves(file))?.unwrap_or_default();
        if is_used {
            return self.relocate_beside(Found { file, inode }, &layout, moves, asked.last);
        }
        let Some(component) = displaced(self.cluster, &layout, &moves) else { return Err(nothing_to_do(file)) };
        if asked.last {
            return Err(Error::usage(format!(
                "{file} is a file, and who copies one is alone with it from the beginning on"
            )));
        }
        let even = !lies_wrong(self.cluster, &layout, component);
        if !inode.written {
            // It has no objects yet.
            let to = self.place_elsewhere(file, &layout, component)?;
            layout.targets[component as usize] = to;
            return self.draft.put(keys::layout(file), &layout);
        }
        if self.draft.read::<ToScrub>(&keys::to_scrub(file))?.is_some() {
            return Err(Error::busy(format!("{file} was left half written and is mended first; ask again later")));
        }
        if even && is_any_hurried(&self.draft, self.cluster)? {
            return Err(Error::busy(
                "what lies on targets that drain is moved, and what was given up is rebuilt, before targets are filled evenly; ask \
                 again later",
            ));
        }
        let Writers(mut writers) = self.draft.read(&keys::writers(file))?.unwrap_or_default();
        writers.retain(|writer| !copies(&moves, writer));
        if let Some(first) = writers.iter().map(|writer| writer.since).min() {
            let is_long = self.now.wall.since(first) > self.settings.life && writers.iter().all(|writer| !writer.alone);
            if even || !is_long || layout.striping.spare() == 0 {
                return Err(Error::busy(format!(
                    "{} clients have {file} open to write; what lies of it on target {} is copied when they have closed it",
                    writers.len(),
                    layout.targets[component as usize]
                )));
            }
            give_up_one(file, &inode, &mut layout, component)?;
            // What no other target takes would be made anew where it lies, again and again, of a component that was good.
            self.place_elsewhere(file, &layout, component)?;
            put_absences(&mut self.draft, file, &layout)?;
            return self.raise(file, inode);
        }
        moves.iter_mut().for_each(|copied| copied.by = 0);
        let before = moves.iter().position(|copied| copied.component == component);
        let usable = |copied: &Move| self.cluster.targets.get(&copied.to).is_some_and(|now| self.cluster.is_open(now));
        let to = match before.map(|at| moves.swap_remove(at)) {
            Some(copied) if usable(&copied) => copied.to,
            Some(copied) => {
                // Nobody ever read it there.
                let due = self.now.wall.after(self.settings.life + SKEW);
                leave_behind(&mut self.draft, file, &inode, (component, copied.to), 0, due)?;
                self.place_elsewhere(file, &layout, component)?
            }
            None => self.place_elsewhere(file, &layout, component)?,
        };
        moves.push(Move { component, to, by: self.by.client, even, former: false });
        self.draft.put(keys::moves(file), &Moves(moves))?;
        let since = self.now.wall;
        let writer =
            Writer { client: self.by.client, user: self.by.user, since, alone: true, yields: false, cached: false };
        self.draft.put(keys::writers(file), &Writers(vec![writer]))?;
        // What another one began to copy there writes nothing any more.
        self.raise(file, inode)
    }

    /// Has this client copy a heap or a part of a ring, which is used meanwhile; and, for the `last` of it, have it for itself.
    fn relocate_beside(
        &mut self,
        Found { file, inode }: Found,
        layout: &Layout,
        mut moves: Vec<Move>,
        last: bool,
    ) -> Result<()> {
        let ring: RingMoves = self.draft.read(&keys::ring_moves(file))?.unwrap_or_default();
        let (component, from, former) = displaced(self.cluster, layout, &[])
            .map(|component| (component, layout.targets[component as usize], false))
            .or_else(|| left_displaced(self.cluster, layout, &ring).map(|it| (it.component, it.target, true)))
            .ok_or_else(|| nothing_to_do(file))?;
        let Writers(writers) = self.draft.read(&keys::writers(file))?.unwrap_or_default();
        if writers.iter().any(|writer| !writer.is(self.by)) {
            return Err(Error::busy(format!("another client moves {file}; ask again later")));
        }
        if last {
            if !moves.iter().any(|copied| copied.by == self.by.client) {
                return Err(not_copied_by(self.by, file));
            }
            self.copies(file, true)?;
            return self.raise(file, inode);
        }
        if !self.cluster.targets.get(&from).is_some_and(|now| self.cluster.is_up(now)) {
            return Err(Error::busy(format!(
                "{file} lies on target {from}, which is away; it is copied when that is back"
            )));
        }
        let to = match inode.attributes.kind {
            FileKind::Ring => self.place_of_part(Found { file, inode: inode.clone() }, layout, component)?,
            _ => self.place_elsewhere(file, layout, component)?,
        };
        // What is not all there is not gone on with: what there is of it is removed, and nobody else writes where this one does.
        let due = self.now.wall.after(self.settings.life + SKEW);
        for copied in moves.drain(..) {
            leave_behind(&mut self.draft, file, &inode, (copied.component, copied.to), 0, due)?;
        }
        moves.push(Move { component, to, by: self.by.client, even: false, former });
        self.draft.put(keys::moves(file), &Moves(moves))?;
        self.copies(file, false)
    }

    /// This client copies a heap or a ring, and nobody else does: beside those who use it, or alone.
    fn copies(&mut self, file: FileId, alone: bool) -> Result<()> {
        let (client, user, since) = (self.by.client, self.by.user, self.now.wall);
        let writer = Writer { client, user, since, alone, yields: !alone, cached: false };
        self.draft.put(keys::writers(file), &Writers(vec![writer]))
    }

    /// A component lies where it was copied to.
    pub(super) fn relocated(&mut self, asked: &Relocated) -> Result<()> {
        let Found { file, inode } = place::find(&self.draft, self.by, &Place::of(asked.file))?;
        if asked.recorded {
            place::require_kind(file, &inode, FileKind::Ring)?;
            return self.part_has_left(&Relocated { file, ..*asked }, inode);
        }
        require_version(file, &inode, asked.version)?;
        let (mut moves, at) = copied_by(&self.draft, self.by, file, Copier::Alone)?;
        let Move { component, to, former, .. } = moves.swap_remove(at);
        let mut layout: Layout = self.draft.require(&keys::layout(file))?;
        let mut ring: RingMoves = self.draft.read(&keys::ring_moves(file))?.unwrap_or_default();
        if component != asked.component || layout.absence(component).is_some() || layout.targets.contains(&to) {
            return Err(nothing_to_do(file));
        }
        if !self.cluster.targets.get(&to).is_some_and(|now| self.cluster.is_open(now)) {
            return Err(Error::busy(format!(
                "target {to} takes nothing new any more, so component {component} of {file} is to be copied to another one; begin anew"
            )));
        }
        if former {
            let left = ring.0.iter_mut().find(|it| it.component == component && it.moved);
            let from = std::mem::replace(&mut left.ok_or_else(|| nothing_to_do(file))?.target, to);
            let due = self.now.wall.after(self.settings.life + SKEW);
            leave_behind(&mut self.draft, file, &inode, (component, from), inode.attributes.version, due)?;
            self.draft.put(keys::ring_moves(file), &ring)?;
        } else {
            self.leave(file, &inode, &mut layout, (component, to), inode.attributes.version)?;
            self.draft.put(keys::layout(file), &layout)?;
        }
        self.draft.delete(keys::writers(file));
        self.callbacks.free(file);
        let is_displaced = displaced(self.cluster, &layout, &moves).is_some()
            || left_displaced(self.cluster, &layout, &ring).is_some();
        let is_done = moves.is_empty() && !is_displaced;
        self.draft.put_unless(is_done, keys::moves(file), &Moves(moves))?;
        self.raise(file, inode)
    }

    /// Who copies makes way: whether somebody did.
    pub(super) fn stop_relocating(&mut self, file: FileId, writers: &mut Vec<Writer>) -> Result<bool> {
        let key = keys::moves(file);
        let Some(Moves(mut moves)) = self.draft.read(&key)? else { return Ok(false) };
        if moves.iter().all(|copied| copied.by == 0) {
            return Ok(false);
        }
        let there = writers.len();
        writers.retain(|writer| !copies(&moves, writer));
        // Also if it has closed the file: opened again, that is to write.
        moves.iter_mut().for_each(|copied| copied.by = 0);
        self.draft.put(key, &Moves(moves))?;
        if writers.len() == there {
            return Ok(false);
        }
        let inode = place::inode(&self.draft, file)?;
        self.raise(file, inode)?;
        Ok(true)
    }
}

/// Whether a client has a file open to copy it, and for nothing else.
fn copies(moves: &[Move], writer: &Writer) -> bool {
    writer.alone && moves.iter().any(|copied| copied.by == writer.client)
}

/// Who copies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Copier {
    /// It is alone with what it copies.
    Alone,
    /// Of a heap or a ring most is copied while others use it.
    Beside,
}

/// Whether it is used while it is copied, and nobody's while the last of it is.
pub(crate) fn is_used_meanwhile(kind: FileKind) -> bool {
    matches!(kind, FileKind::Heap | FileKind::Ring)
}

/// What is copied of a file, and which of it by this client.
fn copied_by(view: &impl View, by: &Principal, file: FileId, copier: Copier) -> Result<(Vec<Move>, usize)> {
    let Moves(moves) = view.read(&keys::moves(file))?.unwrap_or_default();
    let Writers(writers) = view.read(&keys::writers(file))?.unwrap_or_default();
    let is_fit = |writer: &Writer| writer.is(by) && (copier == Copier::Beside || writer.alone);
    let is_fit = writers.iter().all(is_fit) && !writers.is_empty();
    match moves.iter().position(|copied| copied.by == by.client).filter(|_| is_fit) {
        Some(at) => Ok((moves, at)),
        None => Err(not_copied_by(by, file)),
    }
}

fn not_copied_by(by: &Principal, file: FileId) -> Error {
    Error::stale(format!(
        "client {:x} does not copy anything of {file}, or had to make way for one who writes it; begin anew",
        by.client
    ))
}

/// How long a heap or a ring is nobody else's while the last of it is copied, at the most.
const LAST: Duration = Duration::from_secs(60);

/// Whether who copies the last of it has taken too long, and others use it again. A clock that was set back far is not waited for.
pub(crate) fn is_late(writer: &Writer, now: Timestamp) -> bool {
    writer.alone && (now.since(writer.since) > LAST || writer.since.since(now) > LAST)
}

/// Nobody copies the last of a heap or a ring any more: it lies where it lay, and all use it again.
pub(super) fn give_up_copy(draft: &mut Draft<'_>, file: FileId) -> Result<()> {
    let key = keys::moves(file);
    let Some(Moves(mut moves)) = draft.read(&key)? else { return Ok(()) };
    moves.iter_mut().for_each(|copied| copied.by = 0);
    draft.put(key, &Moves(moves))
}

fn nothing_to_do(file: FileId) -> Error {
    Error::stale(format!("nothing of {file} is to lie elsewhere; there is nothing to do"))
}

/// Whether a component of a file is whole, and lies where nothing is to stay.
fn lies_wrong(cluster: &Cluster, layout: &Layout, component: u32) -> bool {
    let target = cluster.targets.get(&layout.targets[component as usize]);
    target.is_some_and(|now| now.record.state == TargetState::Draining) && layout.absence(component).is_none()
}

/// The first component of a file that is to lie elsewhere: because nothing is to stay where it lies, or so that targets are filled
/// evenly.
fn displaced(cluster: &Cluster, layout: &Layout, moves: &[Move]) -> Option<u32> {
    let wrong = (0..layout.targets.len() as u32).find(|component| lies_wrong(cluster, layout, *component));
    wrong.or_else(|| {
        moves.iter().find(|copied| copied.even && is_possible(cluster, layout, copied)).map(|it| it.component)
    })
}

/// Whether a component may lie where it was to be copied.
fn is_possible(cluster: &Cluster, layout: &Layout, copied: &Move) -> bool {
    let is_open = cluster.targets.get(&copied.to).is_some_and(|now| cluster.is_open(now));
    is_open && layout.absent.is_empty() && !layout.targets.contains(&copied.to)
}

/// What a part of a ring has left behind where nothing is to stay.
fn left_displaced(cluster: &Cluster, layout: &Layout, ring: &RingMoves) -> Option<RingMove> {
    let lies_wrong = |it: &&RingMove| {
        let target = cluster.targets.get(&it.target);
        let is_draining = target.is_some_and(|now| now.record.state == TargetState::Draining);
        it.moved && is_draining && layout.absence(it.component).is_none()
    };
    ring.0.iter().find(lies_wrong).copied()
}

/// Whether something of a file lies where nothing is to stay; of a ring also what it has left behind.
pub(crate) fn is_displaced(cluster: &Cluster, layout: &Layout, ring: &RingMoves) -> bool {
    displaced(cluster, layout, &[]).is_some() || left_displaced(cluster, layout, ring).is_some()
}

/// Whether anything is under keys that begin so.
pub(crate) fn is_any(draft: &Draft<'_>, prefix: u8) -> Result<bool> {
    let (from, to) = keys::all(prefix);
    Ok(!draft.scan(&from, &to, 1)?.is_empty())
}

/// Whether there is anything that comes before filling targets evenly: what drains, or is to be rebuilt.
pub(crate) fn is_any_hurried(draft: &Draft<'_>, cluster: &Cluster) -> Result<bool> {
    Ok(cluster.is_draining() || is_any(draft, keys::DEGRADED)?)
}

/// Puts a file on the list of those of which something is to be moved; whether it was not there.
pub(crate) fn displace(draft: &mut Draft<'_>, file: FileId) -> Result<bool> {
    let key = keys::moves(file);
    if draft.read::<Moves>(&key)?.is_some() {
        return Ok(false);
    }
    draft.put(key, &Moves::default())?;
    Ok(true)
}

/// Takes a file off the list of which nothing is to be moved any more, unless somebody is at it; what was copied in vain is
/// removed. Whether it was. To fill targets evenly no file is moved that somebody writes, and none is begun while anything drains or is to be rebuilt.
pub(crate) fn stay(
    draft: &mut Draft<'_>,
    cluster: &Cluster,
    file: FileId,
    moves: Moves,
    (now, settings): (Now, &Settings),
) -> Result<bool> {
    let layout: Layout = draft.require(&keys::layout(file))?;
    let Writers(writers) = draft.read(&keys::writers(file))?.unwrap_or_default();
    let is_even = moves.0.iter().any(|copied| copied.even);
    let is_free = is_even && writers.is_empty() && !is_any_hurried(draft, cluster)?;
    let ring: RingMoves = draft.read(&keys::ring_moves(file))?.unwrap_or_default();
    let is_wanted = displaced(cluster, &layout, if is_free { &moves.0 } else { &[] }).is_some()
        || left_displaced(cluster, &layout, &ring).is_some();
    if is_wanted || writers.iter().any(|writer| copies(&moves.0, writer)) {
        return Ok(false);
    }
    let inode = place::inode(&*draft, file)?;
    let due = now.wall.after(settings.life + SKEW);
    for Move { component, to, .. } in moves.0 {
        leave_behind(draft, file, &inode, (component, to), 0, due)?;
    }
    draft.delete(keys::moves(file));
    Ok(true)
}

impl Manager {
    /// With what a client copies a component.
    pub(crate) fn relocating(&mut self, now: Now, by: &Principal, asked: &Relocating) -> Result<Relocation> {
        let view = self.view()?;
        let Found { file, inode } = place::find(&view, by, &Place::of(asked.file))?;
        let is_used = is_used_meanwhile(inode.attributes.kind);
        let (moves, at) = copied_by(&view, by, file, if is_used { Copier::Beside } else { Copier::Alone })?;
        let Move { component, to, even, former, .. } = moves[at];
        let from = if former {
            let ring: RingMoves = view.read(&keys::ring_moves(file))?.unwrap_or_default();
            let left = ring.0.iter().find(|it| it.component == component && it.moved);
            left.ok_or_else(|| nothing_to_do(file))?.target
        } else {
            let Layout { targets, .. } = view.require(&keys::layout(file))?;
            targets[component as usize]
        };
        let mut read = Rights::READ | Rights::GET_ATTRIBUTES;
        let mut write = read | Rights::WRITE | Rights::TRUNCATE | Rights::SET_ATTRIBUTES | Rights::CREATE;
        if is_used {
            // As it lies on the device, which nobody sees who only uses it.
            (read, write) = (read | Rights::REMOVE, write | Rights::REMOVE);
        }
        let mut granting = self.granting(now, by)?;
        let version = inode.attributes.version;
        let from = granting.component((file, component), &inode, from, (read, 0..u64::MAX));
        let to = granting.component((file, component), &inode, to, (write, 0..u64::MAX));
        // What drains waits for whoever copies already, however little that matters.
        let hurries = !even || granting.cluster.is_draining();
        Ok(Relocation { component, version, from, to, until: granting.until, hurries })
    }
}

#[cfg(test)]
mod tests;

//! Components that are to lie elsewhere because nothing is to stay where they lie: who copies one is alone with the file meanwhile,
//! and makes way for whoever wants to write it.
//!
//! Always: until a component was copied to its end it lies where it lay, and all read it there; of a copy that came to nothing it
//! is known where that lies, until it is written anew or removed. A file that others have open for long is not waited for: if it can
//! do without the component, that is given up, and made anew elsewhere.

use super::Operation;
use super::absences::{give_up_one, left_behind, put_absences, require_version};
use crate::cluster::Cluster;
use crate::draft::{Draft, View};
use crate::grant::Granting;
use crate::keys;
use crate::manager::{Manager, Now, Settings};
use crate::place::{self, Found};
use crate::principal::Principal;
use crate::records::{Inode, Layout, Move, Moves, ToScrub, Writer, Writers};
use forebay_model::{Error, Result, TargetId};
use forebay_wire::capability::Rights;
use forebay_wire::control::cluster::TargetState;
use forebay_wire::control::files::{Relocate, Relocated, Relocating, Relocation};
use forebay_wire::control::names::{FileId, FileKind, Place};

impl Operation<'_> {
    /// Has this client copy a component of a file.
    pub(super) fn relocate(&mut self, asked: &Relocate) -> Result<()> {
        self.by.require_root("move components")?;
        let Found { file, inode } = place::find(&self.draft, self.by, &Place::of(asked.file))?;
        place::require_file(file, &inode)?;
        let mut layout: Layout = self.draft.require(&keys::layout(file))?;
        let Some(component) = displaced(self.cluster, &layout) else { return Err(nothing_to_do(file)) };
        if !inode.written {
            // It has no objects yet.
            let to = self.place_elsewhere(file, &layout, component)?;
            layout.targets[component as usize] = to;
            return self.draft.put(keys::layout(file), &layout);
        }
        if self.draft.read::<ToScrub>(&keys::to_scrub(file))?.is_some() {
            return Err(Error::busy(format!("{file} was left half written and is mended first; ask again later")));
        }
        let Moves(mut moves) = self.draft.read(&keys::moves(file))?.unwrap_or_default();
        let Writers(mut writers) = self.draft.read(&keys::writers(file))?.unwrap_or_default();
        writers.retain(|writer| !copies(&moves, writer));
        if let Some(first) = writers.iter().map(|writer| writer.since).min() {
            let is_long = self.now.wall.since(first) > self.settings.life && writers.iter().all(|writer| !writer.alone);
            if !is_long || layout.striping.spare() == 0 {
                return Err(Error::busy(format!(
                    "{} clients have {file} open to write; what lies of it on target {} is copied when they have closed it",
                    writers.len(),
                    layout.targets[component as usize]
                )));
            }
            give_up_one(file, &inode, &mut layout, component)?;
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
                let left = left_behind(&self.draft, file, &inode, (component, copied.to), 0)?;
                self.draft.put(keys::leftovers(file), &left.due_at(self.now, self.settings))?;
                self.place_elsewhere(file, &layout, component)?
            }
            None => self.place_elsewhere(file, &layout, component)?,
        };
        moves.push(Move { component, to, by: self.by.client });
        self.draft.put(keys::moves(file), &Moves(moves))?;
        let since = self.now.wall;
        let writer = Writer { client: self.by.client, user: self.by.user, since, alone: true, yields: false };
        self.draft.put(keys::writers(file), &Writers(vec![writer]))?;
        // What another one began to copy there writes nothing any more.
        self.raise(file, inode)
    }

    /// A component lies where it was copied to.
    pub(super) fn relocated(&mut self, asked: &Relocated) -> Result<()> {
        let Found { file, inode } = place::find(&self.draft, self.by, &Place::of(asked.file))?;
        require_version(file, &inode, asked.version)?;
        let (mut moves, at) = copied_by(&self.draft, self.by, file)?;
        let Move { component, to, .. } = moves.swap_remove(at);
        let mut layout: Layout = self.draft.require(&keys::layout(file))?;
        if component != asked.component || layout.absence(component).is_some() || layout.targets.contains(&to) {
            return Err(nothing_to_do(file));
        }
        if !self.cluster.targets.get(&to).is_some_and(|now| self.cluster.is_open(now)) {
            return Err(Error::busy(format!(
                "target {to} takes nothing new any more, so component {component} of {file} is to be copied to another one; begin anew"
            )));
        }
        self.leave(file, &inode, &mut layout, (component, to), inode.attributes.version)?;
        self.draft.put(keys::layout(file), &layout)?;
        self.draft.delete(keys::writers(file));
        let is_done = moves.is_empty() && displaced(self.cluster, &layout).is_none();
        self.draft.put_unless(is_done, keys::moves(file), &Moves(moves))?;
        self.raise(file, inode)
    }

    /// Who copies makes way: whether somebody did.
    pub(super) fn stop_relocating(&mut self, file: FileId, writers: &mut Vec<Writer>) -> Result<bool> {
        let key = keys::moves(file);
        let Some(Moves(mut moves)) = self.draft.read(&key)? else { return Ok(false) };
        let there = writers.len();
        writers.retain(|writer| !copies(&moves, writer));
        if writers.len() == there {
            return Ok(false);
        }
        moves.iter_mut().for_each(|copied| copied.by = 0);
        self.draft.put(key, &Moves(moves))?;
        let inode = place::inode(&self.draft, file)?;
        self.raise(file, inode)?;
        Ok(true)
    }
}

/// Whether a client has a file open to copy it, and for nothing else.
fn copies(moves: &[Move], writer: &Writer) -> bool {
    writer.alone && moves.iter().any(|copied| copied.by == writer.client)
}

/// What is copied of a file, and which of it by this client, which is alone with the file.
fn copied_by(view: &impl View, by: &Principal, file: FileId) -> Result<(Vec<Move>, usize)> {
    let Moves(moves) = view.read(&keys::moves(file))?.unwrap_or_default();
    let Writers(writers) = view.read(&keys::writers(file))?.unwrap_or_default();
    let is_alone = writers.iter().all(|writer| writer.is(by)) && !writers.is_empty();
    match moves.iter().position(|copied| copied.by == by.client).filter(|_| is_alone) {
        Some(at) => Ok((moves, at)),
        None => Err(Error::stale(format!(
            "client {:x} does not copy anything of {file}, or had to make way for one who writes it; begin anew",
            by.client
        ))),
    }
}

fn nothing_to_do(file: FileId) -> Error {
    Error::stale(format!("nothing of {file} lies where nothing is to stay; there is nothing to do"))
}

/// The first component of a file that is whole, and lies where nothing is to stay.
fn displaced(cluster: &Cluster, layout: &Layout) -> Option<u32> {
    let is_draining =
        |target: &TargetId| cluster.targets.get(target).is_some_and(|now| now.record.state == TargetState::Draining);
    let there = (0..)
        .zip(&layout.targets)
        .find(|(component, target)| is_draining(target) && layout.absence(*component).is_none());
    there.map(|(component, _)| component)
}

/// Whether something of a file is to lie elsewhere.
pub(crate) fn is_displaced(cluster: &Cluster, layout: &Layout) -> bool {
    displaced(cluster, layout).is_some()
}

/// Puts a file on the list of those of which something is to be moved; whether it was not there.
pub(crate) fn displace(draft: &mut Draft<'_>, file: FileId) -> Result<bool> {
    let key = keys::moves(file);
    // A ring stays where it was promised what it was promised.
    if draft.read::<Moves>(&key)?.is_some() || place::inode(&*draft, file)?.attributes.kind != FileKind::File {
        return Ok(false);
    }
    draft.put(key, &Moves::default())?;
    Ok(true)
}

/// Takes a file off the list of which nothing is to be moved any more, unless somebody is at it; what was copied in vain is
/// removed. Whether it was.
pub(crate) fn stay(draft: &mut Draft<'_>, file: FileId, moves: Moves, now: Now, settings: &Settings) -> Result<bool> {
    let Writers(writers) = draft.read(&keys::writers(file))?.unwrap_or_default();
    if writers.iter().any(|writer| copies(&moves.0, writer)) {
        return Ok(false);
    }
    let inode: Inode = place::inode(&*draft, file)?;
    for Move { component, to, .. } in moves.0 {
        let left = left_behind(draft, file, &inode, (component, to), 0)?;
        draft.put(keys::leftovers(file), &left.due_at(now, settings))?;
    }
    draft.delete(keys::moves(file));
    Ok(true)
}

impl Manager {
    /// With what a client copies a component.
    pub(crate) fn relocating(&mut self, now: Now, by: &Principal, asked: &Relocating) -> Result<Relocation> {
        let view = self.view()?;
        let Found { file, inode } = place::find(&view, by, &Place::of(asked.file))?;
        let (moves, at) = copied_by(&view, by, file)?;
        let Move { component, to, .. } = moves[at];
        let Layout { targets, .. } = view.require(&keys::layout(file))?;
        let from = targets[component as usize];
        let read = Rights::READ | Rights::GET_ATTRIBUTES;
        let write = read | Rights::WRITE | Rights::TRUNCATE | Rights::SET_ATTRIBUTES | Rights::CREATE;
        let mut granting: Granting<'_> = self.granting(now, by)?;
        let version = inode.attributes.version;
        let from = granting.component((file, component), &inode, from, (read, 0..u64::MAX));
        let to = granting.component((file, component), &inode, to, (write, 0..u64::MAX));
        Ok(Relocation { component, version, from, to, until: granting.until })
    }
}

#[cfg(test)]
mod tests;

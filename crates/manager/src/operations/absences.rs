//! Components that lack something: who writes a file gives them up, and who rebuilds one says how far that is. Rings have it
//! their way: [`super::ring_parts`].
//!
//! Always: of those that share what can be lost, no more are given up than that is enough for; whoever is given a capability is
//! told what each component is, and gets none for one that is given up. Each step raises the file's version, so that nobody goes
//! on who has not heard of it.

use super::Operation;
use super::revoke::raise;
use super::ring_parts::lose_parts;
use crate::cluster::Cluster;
use crate::draft::{Draft, View};
use crate::engine::Snapshot;
use crate::keys;
use crate::manager::{Manager, Now, Settings};
use crate::place::{self, Found};
use crate::placement;
use crate::principal::Principal;
use crate::records::{Absence, Absent, Inode, Layout, Moves, NOWHERE, Orders, RingMoves, Writer, Writers};
use forebay_model::{Error, Result, TargetId, Timestamp};
use forebay_wire::capability::SKEW;
use forebay_wire::control::cluster::TargetState;
use forebay_wire::control::files::{GiveUp, GivenUp, Rebuilt, Refill};
use forebay_wire::control::names::{FileId, FileKind, Place};

impl Operation<'_> {
    /// Gives components up.
    pub(super) fn give_up(&mut self, asked: &GiveUp) -> Result<()> {
        let (inode, mut layout) = self.used(asked.file)?;
        let components = layout.striping.components();
        if asked.components.len() > components as usize {
            return Err(Error::usage(format!(
                "{} has {components} components, and {} were named to be given up; name each once",
                asked.file,
                asked.components.len()
            )));
        }
        if let Some(component) = asked.components.iter().find(|component| **component >= components) {
            return Err(Error::usage(format!("{} has {components} components, and not one {component}", asked.file)));
        }
        let is_known = |component: &u32| layout.absence(*component) == Some(Absence::Missed);
        if asked.components.iter().all(is_known) {
            return Ok(());
        }
        require_version(asked.file, &inode, asked.version)?;
        for component in &asked.components {
            give_up_one(asked.file, &inode, &mut layout, *component)?;
        }
        put_absences(&mut self.draft, asked.file, &layout)?;
        self.raise(asked.file, inode)
    }

    /// Has a component emptied, or filled.
    pub(super) fn refill(&mut self, asked: &Refill) -> Result<()> {
        let (inode, mut layout) = self.used(asked.file)?;
        require_version(asked.file, &inode, asked.version)?;
        let by = self.by.client;
        let Writers(writers) = self.draft.read(&keys::writers(asked.file))?.unwrap_or_default();
        if let Some(other) = rebuilder(layout.absence(asked.component), &writers).filter(|other| *other != by) {
            return Err(Error::busy(format!(
                "client {other:x} rebuilds component {} of {}; ask again when it has closed the file",
                asked.component, asked.file
            )));
        }
        let next = match (layout.absence(asked.component), asked.emptied) {
            (None, _) => {
                return Err(Error::stale(format!(
                    "component {} of {} has missed nothing, or was rebuilt by somebody else; there is nothing to do",
                    asked.component, asked.file
                )));
            }
            (Some(_), false) => Absence::Emptying(by),
            (Some(Absence::Emptying(client)), true) if client == by => Absence::Filling(by),
            (Some(_), true) => return Err(taken(asked.file, asked.component)),
        };
        if !asked.emptied {
            self.find_place(asked.file, &inode, &mut layout, asked.component)?;
        }
        set(&mut layout, asked.component, &inode, next);
        put_absences(&mut self.draft, asked.file, &layout)?;
        self.raise(asked.file, inode)
    }

    /// A component has everything again.
    pub(super) fn rebuilt(&mut self, asked: &Rebuilt) -> Result<()> {
        let Found { file, inode } = place::find(&self.draft, self.by, &Place::of(asked.file))?;
        if inode.attributes.kind == FileKind::Ring {
            return self.come_round(&Rebuilt { file, ..*asked }, inode);
        }
        let (inode, mut layout) = self.used(asked.file)?;
        require_version(asked.file, &inode, asked.version)?;
        if layout.absence(asked.component) != Some(Absence::Filling(self.by.client)) {
            return Err(taken(asked.file, asked.component));
        }
        layout.absent.retain(|absent| absent.component != asked.component);
        put_absences(&mut self.draft, asked.file, &layout)?;
        self.raise(asked.file, inode)
    }

    /// Who rebuilds a file makes way for one who wants to be alone with it: whether only such ones were in the way. What they
    /// were rebuilding has to be begun anew.
    pub(super) fn stop_rebuilding(&mut self, file: FileId, writers: &mut Vec<Writer>) -> Result<bool> {
        if writers.iter().all(|writer| writer.is(self.by)) {
            return Ok(false);
        }
        let mut layout: Layout = self.draft.require(&keys::layout(file))?;
        let rebuilds = |client: u64| {
            let by =
                |absence: &Absence| matches!(absence, Absence::Emptying(by) | Absence::Filling(by) if *by == client);
            layout.absent.iter().any(|absent| by(&absent.absence))
        };
        if !writers.iter().all(|writer| writer.is(self.by) || !writer.alone && rebuilds(writer.client)) {
            return Ok(false);
        }
        writers.retain(|writer| writer.is(self.by));
        let inode = place::inode(&self.draft, file)?;
        for component in layout.absent.iter().map(|absent| absent.component).collect::<Vec<_>>() {
            set(&mut layout, component, &inode, Absence::Missed);
        }
        put_absences(&mut self.draft, file, &layout)?;
        self.raise(file, inode)?;
        Ok(true)
    }

    /// A file that this client has open to write.
    fn used(&self, file: FileId) -> Result<(Inode, Layout)> {
        let Found { file, inode } = place::find(&self.draft, self.by, &Place::of(file))?;
        let Writers(writers) = self.draft.read(&keys::writers(file))?.unwrap_or_default();
        if !writers.iter().any(|writer| writer.is(self.by)) {
            return Err(Error::stale(format!("this client does not have {file} open to write; open it again")));
        }
        Ok((inode, self.draft.require(&keys::layout(file))?))
    }

    /// A component stays where it is, if that target is to be used and is not slow; otherwise it gets another one, and what is
    /// left behind is removed if that one ever comes back.
    fn find_place(&mut self, file: FileId, inode: &Inode, layout: &mut Layout, component: u32) -> Result<()> {
        let target = layout.targets[component as usize];
        let now = self.cluster.targets.get(&target);
        let is_up = now.is_some_and(|now| self.cluster.is_up(now));
        let is_draining = now.is_some_and(|now| now.record.state == TargetState::Draining);
        // Whoever writes would give it up there again.
        let is_slow = is_up && now.is_some_and(|now| now.slow);
        if !(is_lost(self.cluster, target) || is_draining || is_slow) {
            return match is_up {
                true => Ok(()),
                false => Err(Error::device(format!(
                    "component {component} of {file} is on target {target}, which nobody serves now; bring it back, or say \
                     that it has failed"
                ))),
            };
        }
        match self.place_elsewhere(file, layout, component) {
            Ok(to) => {
                // Whoever knows that it lacks something does not read it where it lay either.
                let absent = layout.absent.iter().find(|absent| absent.component == component);
                let before = absent.map_or(inode.attributes.version, |absent| absent.since.saturating_sub(1));
                self.leave(file, inode, layout, (component, to), before)
            }
            // Where there is no other place, it is better where it was than nowhere.
            Err(_) if is_draining && is_up => Ok(()),
            Err(error) if is_slow => Err(Error::device(format!(
                "component {component} of {file} is on target {target}, whose device has become slow: whoever writes would give it \
                 up again ({})",
                error.message
            ))),
            Err(error) => Err(error),
        }
    }

    /// A target that may take a component, and has nothing of the file that is to be removed, now or when a copy comes to
    /// nothing.
    pub(super) fn place_elsewhere(&self, file: FileId, layout: &Layout, component: u32) -> Result<TargetId> {
        let left: Option<Orders> = self.draft.read(&keys::leftovers(file))?;
        let Moves(moves) = self.draft.read(&keys::moves(file))?.unwrap_or_default();
        let is_left = |target: TargetId| {
            left.iter().flat_map(|left| &left.pending).any(|(_, there)| *there == target)
                || moves.iter().any(|copied| copied.to == target)
        };
        placement::replace(self.cluster, layout, component, is_left, self.random)
    }

    /// A component lies elsewhere from now on, and what is left behind is removed. Whoever was given something of the version
    /// `before`, or of an older one, may read it there.
    pub(super) fn leave(
        &mut self,
        file: FileId,
        inode: &Inode,
        layout: &mut Layout,
        (component, to): (u32, TargetId),
        before: u64,
    ) -> Result<()> {
        let target = std::mem::replace(&mut layout.targets[component as usize], to);
        let due = self.now.wall.after(self.settings.life + SKEW);
        leave_behind(&mut self.draft, file, inode, (component, target), before, due)
    }
}

/// A component is left behind on a target, where it may be read by whoever was given something of the version `before`; it is
/// removed there when nothing of that counts any more, as objects of files that are removed.
pub(super) fn leave_behind(
    draft: &mut Draft<'_>,
    file: FileId,
    inode: &Inode,
    there: (u32, TargetId),
    before: u64,
    due: Timestamp,
) -> Result<()> {
    if there.1 == NOWHERE {
        return Ok(());
    }
    let key = keys::leftovers(file);
    let left: Option<Orders> = draft.read(&key)?;
    let (version, mut pending) = match left {
        Some(left) => (before.max(left.version), left.pending),
        None => (before, Vec::new()),
    };
    pending.push(there);
    draft.put(key, &Orders { volume: inode.attributes.volume, version, due, pending })
}

/// Gives up what lies on targets that are lost, as far as a file can do without; whether there was anything. `ring` says what of a ring lies
/// beside its layout.
pub(crate) fn give_up_lost(
    draft: &mut Draft<'_>,
    cluster: &Cluster,
    file: FileId,
    mut layout: Layout,
    ring: RingMoves,
    (now, settings): (Now, &Settings),
) -> Result<bool> {
    let mut lost = layout.components();
    lost.retain(|(component, target)| is_lost(cluster, *target) && layout.absence(*component) != Some(Absence::Missed));
    let is_former_lost = ring.places().any(|(_, target)| is_lost(cluster, target));
    if lost.is_empty() && !is_former_lost {
        return Ok(false);
    }
    let (mut is_new, inode) = (false, place::inode(&*draft, file)?);
    if inode.attributes.kind != FileKind::File {
        let due = now.wall.after(settings.life + SKEW);
        return lose_parts(draft, cluster, Found { file, inode }, (layout, ring), (&lost, due));
    }
    // What was never written lacks nothing, and has no objects by which somebody could be answered.
    if !inode.written {
        return Ok(false);
    }
    for (component, _) in lost {
        // What nothing can be made of stays as it is: the target may be taken back.
        is_new |= give_up_one(file, &inode, &mut layout, component).is_ok();
    }
    if is_new {
        put_absences(draft, file, &layout)?;
        raise(draft, file, inode, now.wall)?;
    }
    Ok(is_new)
}

/// The client that rebuilds what is absent, as long as it has the file open: one that is gone does not.
fn rebuilder(absence: Option<Absence>, writers: &[Writer]) -> Option<u64> {
    match absence? {
        Absence::Missed => None,
        Absence::Emptying(by) | Absence::Filling(by) => writers.iter().any(|writer| writer.client == by).then_some(by),
    }
}

/// Whether something of a file is absent that no other client rebuilds.
pub(crate) fn is_left_to_rebuild(view: &dyn Snapshot, by: &Principal, file: FileId) -> Result<bool> {
    let Writers(writers) = view.read(&keys::writers(file))?.unwrap_or_default();
    if writers.iter().all(|writer| writer.is(by)) {
        return Ok(true);
    }
    let layout: Layout = view.require(&keys::layout(file))?;
    let is_taken = |absent: &Absent| rebuilder(Some(absent.absence), &writers).is_some_and(|other| other != by.client);
    Ok(!layout.absent.iter().all(is_taken))
}

/// Whether what is on a target is lost.
pub(crate) fn is_lost(cluster: &Cluster, target: TargetId) -> bool {
    target == NOWHERE || cluster.targets.get(&target).is_some_and(|now| now.record.is_lost())
}

pub(super) fn give_up_one(file: FileId, inode: &Inode, layout: &mut Layout, component: u32) -> Result<()> {
    let family = layout.striping.family(component);
    let gone: Vec<u32> = family.filter(|one| *one != component && layout.absence(*one).is_some()).collect();
    if gone.len() as u32 >= layout.striping.spare() {
        return Err(Error::device(format!(
            "component {component} of {file} cannot be given up beside {gone:?}: {} keeps enough for {}; bring one of them back",
            layout.striping.raid(),
            layout.striping.spare()
        )));
    }
    set(layout, component, inode, Absence::Missed);
    Ok(())
}

/// A component lacks something. The version of the file is raised with it.
pub(super) fn set(layout: &mut Layout, component: u32, inode: &Inode, absence: Absence) {
    let before = layout.absent.iter().find(|absent| absent.component == component).copied();
    let since = match before.filter(|before| matches!(before.absence, Absence::Missed | Absence::Emptying(_))) {
        Some(before) => before.since,
        None => inode.attributes.version + 1,
    };
    layout.absent.retain(|absent| absent.component != component);
    layout.absent.push(Absent { component, since, absence });
    layout.absent.sort_by_key(|absent| absent.component);
}

pub(super) fn put_absences(draft: &mut Draft<'_>, file: FileId, layout: &Layout) -> Result<()> {
    draft.put(keys::layout(file), layout)?;
    draft.put_unless(layout.absent.is_empty(), keys::degraded(file), &())
}

pub(super) fn require_version(file: FileId, inode: &Inode, version: u64) -> Result<()> {
    let now = inode.attributes.version;
    match version == now {
        true => Ok(()),
        false => {
            Err(Error::stale(format!("{file} has version {now} by now, and not {version}; renew what was granted")))
        }
    }
}

pub(super) fn taken(file: FileId, component: u32) -> Error {
    Error::stale(format!(
        "component {component} of {file} missed something, or somebody else rebuilds it since; begin its rebuild anew"
    ))
}

impl Manager {
    /// [`forebay_model::Kind::Busy`] while somebody may be answered by components of a file that were given up;
    /// [`forebay_model::Kind::Stale`] if who asks does not know yet of all of them.
    pub(crate) fn given_up(&mut self, now: Now, by: &Principal, asked: &GivenUp) -> Result<()> {
        self.holders.knows(asked.file, by.client, asked.version);
        let view = self.view()?;
        let Found { file, inode } = place::find(&view, by, &Place::of(asked.file))?;
        let Layout { absent, targets, .. } = view.require(&keys::layout(file))?;
        // What lies elsewhere by now may still be read where it lay.
        let left: Option<Orders> = view.read(&keys::leftovers(file))?;
        let left = left.map(|left| left.version + 1);
        let Some(since) = absent.iter().map(|absent| absent.since).chain(left).max() else { return Ok(()) };
        // Targets that have heard of it answer nobody who has not; those that a component has left are among them.
        let fences: Option<Orders> = view.read(&keys::fences(file))?;
        // What is not told apart any more was given before the version was raised last, too.
        let last = fences.iter().map(|fences| fences.due.after(self.settings.life + SKEW)).max();
        let held = self.holders.until(file, since).min(last);
        let Some(until) = held.filter(|until| *until > now.wall) else { return Ok(()) };
        let is_over = |(component, target): &(u32, TargetId)| {
            let is_absent = absent.iter().any(|absent| absent.component == *component);
            is_absent || targets.get(*component as usize) != Some(target)
        };
        match fences.into_iter().flat_map(|orders| orders.pending).find(is_over) {
            None => Ok(()),
            // It may be the only one that is waited for, and does not know.
            Some(_) if asked.version < since.min(inode.attributes.version) => {
                require_version(file, &inode, asked.version)
            }
            Some((component, target)) => Err(Error::busy(format!(
                "target {target} may answer others for component {component} of {file}, which was given up, for {} seconds; ask \
                 again",
                until.since(now.wall).as_secs() + 1
            ))),
        }
    }
}

#[cfg(test)]
mod tests;

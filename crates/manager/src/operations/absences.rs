//! Components that lack something: who writes a file gives them up, and who rebuilds one says how far that is.
//!
//! Always: of those that share what can be lost, no more are given up than that is enough for; whoever is given a capability is
//! told what each component is, and gets none for one that is given up. Each step raises the file's version, so that nobody goes
//! on who has not heard of it.

use super::Operation;
use super::revoke::raise;
use crate::cluster::Cluster;
use crate::draft::{Draft, View};
use crate::keys;
use crate::manager::{Manager, Now};
use crate::place::{self, Found};
use crate::placement;
use crate::principal::Principal;
use crate::records::{Absence, Absent, Inode, Layout, Orders, Writer, Writers};
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
        if let Some(Absence::Emptying(other) | Absence::Filling(other)) = layout.absence(asked.component)
            && other != by
            && writers.iter().any(|writer| writer.client == other)
        {
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

    /// A component stays where it is, if that target is to be used; otherwise it gets another one, and what is left behind is
    /// removed if that one ever comes back.
    fn find_place(&mut self, file: FileId, inode: &Inode, layout: &mut Layout, component: u32) -> Result<()> {
        let target = layout.targets[component as usize];
        let now = self.cluster.targets.get(&target);
        if !is_lost(self.cluster, target) {
            let is_up = now.is_some_and(|now| self.cluster.is_up(now));
            return match is_up {
                true => Ok(()),
                false => Err(Error::busy(format!(
                    "component {component} of {file} is on target {target}, which nobody serves now; bring it back, or say \
                     that it has failed"
                ))),
            };
        }
        let key = keys::leftovers(file);
        let Inode { attributes, .. } = inode;
        let mut left = self.draft.read(&key)?.unwrap_or_else(|| Orders {
            volume: attributes.volume,
            version: attributes.version,
            due: self.now.wall,
            pending: Vec::new(),
        });
        let is_left = |target: TargetId| left.pending.iter().any(|(_, pending)| *pending == target);
        layout.targets[component as usize] = placement::replace(self.cluster, layout, component, is_left, self.random)?;
        // As of files that are removed: what counts for it makes it anew until then.
        (left.version, left.due) = (attributes.version, self.now.wall.after(self.settings.life + SKEW));
        left.pending.push((component, target));
        self.draft.put(key, &left)
    }
}

/// Gives up what lies on targets that are lost, as far as a file can do without; whether there was anything.
pub(crate) fn give_up_lost(
    draft: &mut Draft<'_>,
    cluster: &Cluster,
    file: FileId,
    mut layout: Layout,
    now: Timestamp,
) -> Result<bool> {
    let (mut is_new, inode) = (false, place::inode(&*draft, file)?);
    if inode.attributes.kind == FileKind::Ring {
        // Whoever reads it sees what does not come, and the target may be taken back.
        return Ok(false);
    }
    for (component, target) in layout.components() {
        if is_lost(cluster, target) && layout.absence(component) != Some(Absence::Missed) {
            // What nothing can be made of stays as it is: the target may be taken back.
            is_new |= give_up_one(file, &inode, &mut layout, component).is_ok();
        }
    }
    if is_new {
        put_absences(draft, file, &layout)?;
        raise(draft, file, inode, now)?;
    }
    Ok(is_new)
}

/// Whether what is on a target is lost.
fn is_lost(cluster: &Cluster, target: TargetId) -> bool {
    let state = cluster.targets.get(&target).map(|now| now.record.state);
    matches!(state, Some(TargetState::Failed | TargetState::Gone))
}

fn give_up_one(file: FileId, inode: &Inode, layout: &mut Layout, component: u32) -> Result<()> {
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
fn set(layout: &mut Layout, component: u32, inode: &Inode, absence: Absence) {
    let before = layout.absent.iter().find(|absent| absent.component == component).copied();
    let since = match before.filter(|before| matches!(before.absence, Absence::Missed | Absence::Emptying(_))) {
        Some(before) => before.since,
        None => inode.attributes.version + 1,
    };
    layout.absent.retain(|absent| absent.component != component);
    layout.absent.push(Absent { component, since, absence });
    layout.absent.sort_by_key(|absent| absent.component);
}

fn put_absences(draft: &mut Draft<'_>, file: FileId, layout: &Layout) -> Result<()> {
    draft.put(keys::layout(file), layout)?;
    draft.put_unless(layout.absent.is_empty(), keys::degraded(file), &())
}

fn require_version(file: FileId, inode: &Inode, version: u64) -> Result<()> {
    let now = inode.attributes.version;
    match version == now {
        true => Ok(()),
        false => {
            Err(Error::stale(format!("{file} has version {now} by now, and not {version}; renew what was granted")))
        }
    }
}

fn taken(file: FileId, component: u32) -> Error {
    Error::stale(format!(
        "component {component} of {file} missed something, or somebody else rebuilds it since; begin its rebuild anew"
    ))
}

impl Manager {
    /// [`forebay_model::Kind::Busy`] while somebody may be answered by components of a file that were given up.
    pub(crate) fn given_up(&mut self, now: Now, by: &Principal, asked: &GivenUp) -> Result<()> {
        self.holders.knows(asked.file, by.client, asked.version);
        let view = self.view()?;
        let Found { file, .. } = place::find(&view, by, &Place::of(asked.file))?;
        let Layout { absent, .. } = view.require(&keys::layout(file))?;
        let Some(since) = absent.iter().map(|absent| absent.since).max() else { return Ok(()) };
        let held = self.holders.until(file, since).map(|until| until.after(SKEW));
        let Some(until) = held.filter(|until| *until > now.wall) else { return Ok(()) };
        // Targets that have heard of it answer nobody who has not.
        let fences: Option<Orders> = view.read(&keys::fences(file))?;
        let moved: Option<Orders> = view.read(&keys::leftovers(file))?;
        let pending = fences.into_iter().chain(moved).flat_map(|orders| orders.pending);
        let gone = |component: u32| absent.iter().any(|absent| absent.component == component);
        match pending.into_iter().find(|(component, _)| gone(*component)) {
            None => Ok(()),
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

//! Parts of rings that come to lie on other targets: those that refused them when the ring was made, those that are lost, and
//! those that leave targets that drain.
//!
//! What was on a lost target is made of the other parts, as long as there is parity; so one part at a time gets another
//! target, and until that one has come round it lacks what the others still have. It is marked so: whoever reads makes of the
//! others what it has not. Nothing is moved there: a ring forgets in its time what it had.
//!
//! Who records has a part leave: another target is named, makes its ring, and from then on that is where it lies. What was recorded
//! before stays where it was, and is read there, until the ring has run over as much in the new place; then it is removed. Always: a part has one
//! place beside that of the layout at most.

use super::Operation;
use super::absences::{give_up_one, is_lost, leave_behind, require_version, set, taken};
use crate::cluster::Cluster;
use crate::draft::{Draft, View};
use crate::grant::most_of_ring;
use crate::keys;
use crate::manager::{Now, Settings};
use crate::place::{self, Found};
use crate::placement::{self, RingPlaces};
use crate::principal::Wanted;
use crate::records::{Absence, Answer, Inode, Layout, Moves, Orders, RingMove, RingMoves};
use forebay_model::{Bytes, Error, Result, TargetId, Timestamp};
use forebay_wire::capability::SKEW;
use forebay_wire::control::cluster::TargetState;
use forebay_wire::control::files::{CreateRing, Rebuilt, Relocated};
use forebay_wire::control::names::{FileId, FileKind};

/// Of what lies on lost targets nobody is given anything any more, as far as the ring can do without; whether that is new.
pub(super) fn lose_parts(
    draft: &mut Draft<'_>,
    cluster: &Cluster,
    Found { file, inode }: Found,
    (mut layout, RingMoves(mut moves)): (Layout, RingMoves),
    (lost, due): (&[(u32, TargetId)], Timestamp),
) -> Result<bool> {
    // What nothing can be made of stays as it is: the target may be taken back.
    let mut is_new =
        lost.iter().filter(|(component, _)| give_up_one(file, &inode, &mut layout, *component).is_ok()).count() > 0;
    let gone: Vec<RingMove> = moves.extract_if(.., |it| it.moved && is_lost(cluster, it.target)).collect();
    for left in gone {
        let component = left.component;
        let is_absent = layout.absence(component).is_some();
        if !is_absent && give_up_one(file, &inode, &mut layout, component).is_err() {
            moves.push(left);
            continue;
        }
        if !is_absent {
            // What is in the new place is read; what was recorded before is made of the others.
            set(&mut layout, component, &inode, Absence::Filling(0));
        }
        leave_behind(draft, file, &inode, (component, left.target), inode.attributes.version, due)?;
        is_new = true;
    }
    if is_new {
        put_moves(draft, file, RingMoves(moves))?;
        put_parts(draft, file, inode, &layout)?;
    }
    Ok(is_new)
}

/// The parts lie otherwise from now on. No target is told: a recorder that goes on where the ring lay is read all the same.
fn put_parts(draft: &mut Draft<'_>, file: FileId, mut inode: Inode, layout: &Layout) -> Result<()> {
    inode.attributes.version += 1;
    draft.put(keys::inode(file), &inode)?;
    draft.put(keys::layout(file), layout)
}

fn put_moves(draft: &mut Draft<'_>, ring: FileId, moves: RingMoves) -> Result<()> {
    draft.put_unless(moves.0.is_empty(), keys::ring_moves(ring), &moves)
}

/// Whether a part lies where nothing is to stay, and somebody would find another place for it.
pub(crate) fn is_to_leave(cluster: &Cluster, layout: &Layout, component: u32) -> bool {
    let now = cluster.targets.get(&layout.targets[component as usize]);
    now.is_some_and(|now| now.record.state == TargetState::Draining) && layout.absence(component).is_none()
}

/// Parts that were to go elsewhere, and were not recorded there, stay if their targets are used again: what was made elsewhere is removed.
/// Whether there were any.
pub(crate) fn stay_of_ring(
    draft: &mut Draft<'_>,
    cluster: &Cluster,
    file: FileId,
    RingMoves(mut moves): RingMoves,
    (now, settings): (Now, &Settings),
) -> Result<bool> {
    let layout: Layout = draft.require(&keys::layout(file))?;
    let is_vain =
        |it: &mut RingMove| !it.moved && (!is_to_leave(cluster, &layout, it.component) || is_lost(cluster, it.target));
    let vain: Vec<RingMove> = moves.extract_if(.., is_vain).collect();
    if vain.is_empty() {
        return Ok(false);
    }
    let inode = place::inode(&*draft, file)?;
    let due = now.wall.after(settings.life + SKEW);
    for RingMove { component, target, .. } in vain {
        leave_behind(draft, file, &inode, (component, target), 0, due)?;
    }
    put_moves(draft, file, RingMoves(moves))?;
    Ok(true)
}

impl Operation<'_> {
    /// Names another target for a part that is to leave the one on which it lies.
    pub(super) fn find_next_place(&mut self, asked: &CreateRing, component: u32, part: Bytes) -> Result<Answer> {
        let Found { file, inode } = place::find(&self.draft, self.by, &asked.place)?;
        place::require_kind(file, &inode, FileKind::Ring)?;
        self.by.require(file, &inode, Wanted::WRITE)?;
        let layout: Layout = self.draft.require(&keys::layout(file))?;
        if component as usize >= layout.targets.len() {
            let parts = layout.targets.len();
            return Err(Error::usage(format!("{file} has {parts} parts, and not one {component}")));
        }
        let mut moves: RingMoves = self.draft.read(&keys::ring_moves(file))?.unwrap_or_default();
        let before = moves.of(component);
        if before.is_some_and(|it| it.moved) || !is_to_leave(self.cluster, &layout, component) {
            return Err(stays(file, component));
        }
        if let Some(before) = before {
            let is_open = self.cluster.targets.get(&before.target).is_some_and(|now| self.cluster.is_open(now));
            if is_open && !asked.refused_by.contains(&before.target) {
                return Ok(Answer::Opened(file));
            }
        }
        self.stop_copying(file, &inode)?;
        let there = self.places_but(file, &layout, &moves, &[component])?;
        let found = placement::place_ring(self.cluster, part, (1, &there), &asked.refused_by, self.random)?;
        moves.0.retain(|it| it.component != component);
        if let Some(before) = before {
            self.leave_unread(file, &inode, (component, before.target))?;
        }
        moves.0.extend(found.into_iter().map(|target| RingMove { component, target, moved: false }));
        put_moves(&mut self.draft, file, moves)?;
        Ok(Answer::Opened(file))
    }

    /// A part lies from now on where it was to go; what was recorded before stays where it is.
    pub(super) fn part_has_left(&mut self, asked: &Relocated, inode: Inode) -> Result<()> {
        self.by.require(asked.file, &inode, Wanted::WRITE)?;
        require_version(asked.file, &inode, asked.version)?;
        let mut layout: Layout = self.draft.require(&keys::layout(asked.file))?;
        let mut moves: RingMoves = self.draft.read(&keys::ring_moves(asked.file))?.unwrap_or_default();
        let found = moves.0.iter_mut().find(|it| it.component == asked.component && !it.moved);
        let Some(found) = found.filter(|it| !is_lost(self.cluster, it.target)) else {
            return Err(stays(asked.file, asked.component));
        };
        let lies =
            layout.targets.get_mut(asked.component as usize).ok_or_else(|| stays(asked.file, asked.component))?;
        std::mem::swap(lies, &mut found.target);
        found.moved = true;
        put_moves(&mut self.draft, asked.file, moves)?;
        put_parts(&mut self.draft, asked.file, inode, &layout)
    }

    /// Another target for a part that is copied, since nobody records there. What somebody who recorded made elsewhere for it, and did not
    /// come to use, is removed.
    pub(super) fn place_of_part(
        &mut self,
        Found { file, inode }: Found,
        layout: &Layout,
        component: u32,
    ) -> Result<TargetId> {
        let mut moves: RingMoves = self.draft.read(&keys::ring_moves(file))?.unwrap_or_default();
        let is_vain = |it: &mut RingMove| it.component == component && !it.moved;
        let vain: Vec<RingMove> = moves.0.extract_if(.., is_vain).collect();
        for RingMove { component, target, .. } in vain {
            self.leave_unread(file, &inode, (component, target))?;
        }
        put_moves(&mut self.draft, file, moves.clone())?;
        let there = self.places_but(file, layout, &moves, &[component])?;
        // That of the parity takes a little more, which only its target knows.
        let part = most_of_ring(layout.striping, 0, inode.attributes.size);
        let found = placement::place_ring(self.cluster, part, (1, &there), &[], self.random)?;
        found.into_iter().next().ok_or_else(|| Error::full("no target takes a part of a ring"))
    }

    /// Who copies makes way for who records: what was copied is removed.
    fn stop_copying(&mut self, file: FileId, inode: &Inode) -> Result<()> {
        let key = keys::moves(file);
        let Some(Moves(copied)) = self.draft.read(&key)? else { return Ok(()) };
        for it in copied {
            self.leave_unread(file, inode, (it.component, it.to))?;
        }
        self.draft.put(key, &Moves::default())
    }

    /// Targets that have something of a ring, or are to have: one part lies on each, and where something is to be removed, a part
    /// would be, too. Of the parts that are `placed` anew nothing counts for what else their nodes take.
    fn places_but(&self, file: FileId, layout: &Layout, moves: &RingMoves, placed: &[u32]) -> Result<RingPlaces> {
        let left: Option<Orders> = self.draft.read(&keys::leftovers(file))?;
        let Moves(copied) = self.draft.read(&keys::moves(file))?.unwrap_or_default();
        let copied = copied.into_iter().map(|it| (it.component, it.to));
        let parts: Vec<(u32, TargetId)> = layout.components().into_iter().chain(moves.places()).chain(copied).collect();
        let others = parts.iter().filter(|(component, _)| !placed.contains(component)).map(|(_, target)| *target);
        let left = left.into_iter().flat_map(|left| left.pending).map(|(_, target)| target);
        Ok(RingPlaces {
            others: others.collect(),
            taken: parts.iter().map(|(_, target)| *target).chain(left).collect(),
        })
    }

    /// What is made of a ring on a target is removed there; nobody ever read it.
    fn leave_unread(&mut self, file: FileId, inode: &Inode, there: (u32, TargetId)) -> Result<()> {
        let due = self.now.wall.after(self.settings.life + SKEW);
        leave_behind(&mut self.draft, file, inode, there, 0, due)
    }

    /// Puts what lies on targets that refused it or are lost on others; nothing is made there yet. A target that was lost and
    /// is back has what it had.
    pub(super) fn place_again(&mut self, asked: &CreateRing, part: Bytes) -> Result<Answer> {
        let Found { file, inode } = place::find(&self.draft, self.by, &asked.place)?;
        place::require_kind(file, &inode, FileKind::Ring)?;
        self.by.require(file, &inode, Wanted::WRITE)?;
        let mut layout: Layout = self.draft.require(&keys::layout(file))?;
        let (cluster, there) = (self.cluster, layout.targets.clone());
        let is_back = |component: u32| !is_lost(cluster, there[component as usize]);
        layout.absent.retain(|absent| absent.absence != Absence::Missed || !is_back(absent.component));
        let is_missed = |layout: &Layout, component| layout.absence(component) == Some(Absence::Missed);
        let components = layout.components().into_iter();
        let wrong: Vec<(u32, TargetId)> = components
            .filter(|(component, target)| asked.refused_by.contains(target) || is_missed(&layout, *component))
            .collect();
        let moves: RingMoves = self.draft.read(&keys::ring_moves(file))?.unwrap_or_default();
        let placed: Vec<u32> = wrong.iter().map(|(component, _)| *component).collect();
        let there = self.places_but(file, &layout, &moves, &placed)?;
        let wanted = (wrong.len(), &there);
        let others = placement::place_ring(self.cluster, part, wanted, &asked.refused_by, self.random)?;
        for ((component, from), to) in wrong.into_iter().zip(others) {
            if is_missed(&layout, component) {
                self.leave(file, &inode, &mut layout, (component, to), inode.attributes.version)?;
                set(&mut layout, component, &inode, Absence::Filling(self.by.client));
            } else {
                layout.targets[component as usize] = to;
                // That it was refused there is what somebody says: it may have been made all the same, and nothing else names it.
                self.leave_unread(file, &inode, (component, from))?;
            }
        }
        put_parts(&mut self.draft, file, inode, &layout)?;
        Ok(Answer::Opened(file))
    }

    /// A part has all that the others have, and the ring has run over what it had in another place.
    pub(super) fn come_round(&mut self, asked: &Rebuilt, inode: Inode) -> Result<()> {
        self.by.require(asked.file, &inode, Wanted::WRITE)?;
        require_version(asked.file, &inode, asked.version)?;
        let mut layout: Layout = self.draft.require(&keys::layout(asked.file))?;
        let RingMoves(mut moves) = self.draft.read(&keys::ring_moves(asked.file))?.unwrap_or_default();
        let is_filling = matches!(layout.absence(asked.component), Some(Absence::Filling(_)));
        let is_its = |it: &mut RingMove| it.component == asked.component && (it.moved || is_filling);
        let left: Vec<RingMove> = moves.extract_if(.., is_its).collect();
        if !is_filling && left.is_empty() {
            return Err(taken(asked.file, asked.component));
        }
        layout.absent.retain(|absent| !is_filling || absent.component != asked.component);
        let due = self.now.wall.after(self.settings.life + SKEW);
        for RingMove { component, target, .. } in left {
            leave_behind(&mut self.draft, asked.file, &inode, (component, target), inode.attributes.version, due)?;
        }
        put_moves(&mut self.draft, asked.file, RingMoves(moves))?;
        put_parts(&mut self.draft, asked.file, inode, &layout)
    }
}

fn stays(ring: FileId, component: u32) -> Error {
    Error::stale(format!("part {component} of {ring} is not to lie elsewhere, or does already; renew what was granted"))
}

#[cfg(test)]
mod tests;

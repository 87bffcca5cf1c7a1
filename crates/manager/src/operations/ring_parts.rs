//! Parts of rings that come to lie on other targets: those that refused them when the ring was made, and those that are lost.
//!
//! What was on a lost target is made of the other parts, as long as there is parity; so one part at a time gets another
//! target, and until that one has come round it lacks what the others still have. It is marked so: whoever reads makes of the
//! others what it has not. Nothing is moved there: a ring forgets in its time what it had.

use super::Operation;
use super::absences::{give_up_one, is_lost, require_version, set, taken};
use crate::draft::{Draft, View};
use crate::keys;
use crate::place::{self, Found};
use crate::placement;
use crate::principal::Wanted;
use crate::records::{Absence, Answer, Inode, Layout, Orders};
use forebay_model::{Bytes, Result, TargetId};
use forebay_wire::control::files::{CreateRing, Rebuilt};
use forebay_wire::control::names::{FileId, FileKind};

/// Of what lies on lost targets nobody is given anything any more, as far as the ring can do without; whether that is new.
pub(super) fn lose_parts(
    draft: &mut Draft<'_>,
    file: FileId,
    inode: Inode,
    mut layout: Layout,
    lost: &[(u32, TargetId)],
) -> Result<bool> {
    // What nothing can be made of stays as it is: the target may be taken back.
    let is_new =
        lost.iter().filter(|(component, _)| give_up_one(file, &inode, &mut layout, *component).is_ok()).count() > 0;
    if is_new {
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

impl Operation<'_> {
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
        // Where something of it is to be removed, a part of it would be, too.
        let left: Option<Orders> = self.draft.read(&keys::leftovers(file))?;
        let left = left.into_iter().flat_map(|left| left.pending).map(|(_, target)| target);
        let there: Vec<TargetId> = there.iter().copied().chain(left).collect();
        let wanted = (wrong.len(), &there[..]);
        let others = placement::place_ring(self.cluster, part, wanted, &asked.refused_by, self.random)?;
        for ((component, _), to) in wrong.into_iter().zip(others) {
            if is_missed(&layout, component) {
                self.leave(file, &inode, &mut layout, (component, to), inode.attributes.version)?;
                set(&mut layout, component, &inode, Absence::Filling(self.by.client));
            } else {
                layout.targets[component as usize] = to;
            }
        }
        put_parts(&mut self.draft, file, inode, &layout)?;
        Ok(Answer::Opened(file))
    }

    /// A part has all that the others have.
    pub(super) fn come_round(&mut self, asked: &Rebuilt, inode: Inode) -> Result<()> {
        self.by.require(asked.file, &inode, Wanted::WRITE)?;
        require_version(asked.file, &inode, asked.version)?;
        let mut layout: Layout = self.draft.require(&keys::layout(asked.file))?;
        if !matches!(layout.absence(asked.component), Some(Absence::Filling(_))) {
            return Err(taken(asked.file, asked.component));
        }
        layout.absent.retain(|absent| absent.component != asked.component);
        put_parts(&mut self.draft, asked.file, inode, &layout)
    }
}

#[cfg(test)]
mod tests;

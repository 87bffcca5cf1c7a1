//! Where rings and heaps lie of which no copy tells, or only one that may be older: as what is there says itself.
//!
//! A part of a ring says over how many targets that lies, and by its number which part it is. Of a part that is in several places, that one
//! counts which has the newest element, or is empty and begins where that one ends; of copies, that for which newer capabilities were shown,
//! or of which something was pinned since. The other is read as what the part left behind, if its numbers end where those of this one begin.
//!
//! Always: nothing is removed that has an element or a record.

use super::tree::Tree;
use super::{Component, RingPart, Seen};
use crate::records::{Absence, Absent, Fresh, Layout, NOWHERE, RingMove, RingMoves, component_of};
use forebay_model::layout::{Raid, Striping, UNIT};
use forebay_model::object::FIRST_FENCE;
use forebay_model::ring::Spread;
use forebay_model::{ObjectId, Result, TargetId};
use forebay_wire::control::access::ROOT_USER;
use forebay_wire::control::names::{Attributes, FileId, FileKind};
use std::collections::{BTreeMap, BTreeSet};

/// Who may do what is not said by what is there: only root may.
const MODE: u32 = 0o600;

/// What is known of files from the objects that are there.
type OfFiles = BTreeMap<FileId, Vec<Component>>;

/// What there is of each file, with its volume: where, as which component, and what that is.
type ByFile<'a, T> = BTreeMap<(FileId, u64), Vec<(TargetId, u32, &'a T)>>;

/// One place of a part of a ring.
#[derive(Clone, Copy)]
struct Place<'a> {
    target: TargetId,
    component: u32,
    part: &'a RingPart,
    /// Of which version capabilities for it have to be there.
    fence: u64,
}

impl<'a> Place<'a> {
    /// As it was found, beside the objects of what it is a part of.
    fn of((target, component, part): (TargetId, u32, &'a RingPart), objects: &[Component]) -> Place<'a> {
        let own = objects.iter().filter(|it| it.target == target && component_of(it.object).1 == component);
        Place { target, component, part, fence: own.map(|it| it.fence).max().unwrap_or(0) }
    }

    /// Whether it was begun to go on with what that one has, and has nothing yet.
    fn goes_on_with(&self, before: &Place<'_>) -> bool {
        self.part.is_empty() && self.part.begins > 0 && self.part.begins == before.part.elements.end
    }

    /// Whether this counts, and not that one.
    fn is_newer_than(&self, other: &Place<'_>) -> bool {
        let age = |it: &Place<'_>| (it.part.newest, it.part.begins, it.fence, it.part.last_pin);
        self.goes_on_with(other) || !other.goes_on_with(self) && age(self) > age(other)
    }
}

/// Where a part lies, and what else there is of it.
struct Lies<'a> {
    now: Place<'a>,
    /// What was recorded before is read there.
    former: Option<TargetId>,
    /// Nothing was ever recorded there.
    vain: Option<TargetId>,
    /// It was begun without what was recorded elsewhere before.
    is_anew: bool,
}

impl<'a> Lies<'a> {
    /// As its places say.
    fn of(there: impl Iterator<Item = Place<'a>>) -> Option<Lies<'a>> {
        let there: Vec<Place<'a>> = there.collect();
        let now = there.iter().copied().reduce(|now, other| if other.is_newer_than(&now) { other } else { now })?;
        let others = || there.iter().filter(|other| other.target != now.target);
        let recorded = || others().filter(|it| !it.part.is_empty());
        let former = recorded().find(|it| now.part.begins > 0 && it.part.elements.end == now.part.begins);
        let vain = others().find(|it| it.part.is_empty() && it.part.begins == 0);
        Some(Lies {
            now,
            former: former.map(|it| it.target),
            vain: vain.map(|it| it.target),
            is_anew: former.is_none() && recorded().any(|it| it.part.begins != now.part.begins),
        })
    }

    /// The other place of it, as it is kept of a ring.
    fn beside(&self) -> Option<RingMove> {
        let component = self.now.component;
        let left = self.former.map(|target| RingMove { component, target, moved: true });
        left.or(self.vain.map(|target| RingMove { component, target, moved: false }))
    }
}

/// Makes rings and heaps of what nothing else knows; what rings have beside where they lie.
pub(super) fn make_unknown(
    tree: &mut Tree,
    seen: &Seen,
    of_files: &OfFiles,
    is_removed: impl Fn(FileId) -> bool,
) -> Result<Vec<(FileId, RingMoves)>> {
    let mut besides = Vec::new();
    for ((file, volume), places) in by_file(&seen.rings) {
        if tree.inodes.contains_key(&file) || is_removed(file) {
            continue;
        }
        let parts = parts(&places, of_files.get(&file));
        let Some(spread) = spread_of(&parts) else { continue };
        let version = fence(of_files, file, volume) + 1;
        let (layout, moves) = lie(&parts, spread, version)?;
        let specs = || parts.iter().filter(|it| it.component < spread.targets).map(|it| &it.part.spec);
        let capacity = specs().map(|spec| spread.whole("", spec).capacity).max();
        let now = tree.now();
        let modified = parts.iter().filter_map(|it| it.part.newest).max().unwrap_or(now);
        let created = parts.iter().filter_map(|it| it.part.oldest).min().unwrap_or(now);
        let fresh = Fresh { kind: FileKind::Ring, mode: MODE, owner: ROOT_USER, group: 0, volume }.attributes(now);
        let size = capacity.unwrap_or(fresh.size);
        tree.take_up(file, Attributes { size, version, modified, created, ..fresh }, layout);
        besides.push((file, moves));
    }
    for ((file, volume), places) in by_file(&seen.heaps) {
        let newest = places.into_iter().filter(|(_, component, _)| *component == 0).max_by_key(|(.., commit)| **commit);
        let Some((target, ..)) = newest.filter(|_| !tree.inodes.contains_key(&file) && !is_removed(file)) else {
            continue;
        };
        let version = fence(of_files, file, volume) + 1;
        let fresh = Fresh { kind: FileKind::Heap, mode: MODE, owner: ROOT_USER, group: 0, volume };
        let striping = Striping::new(Raid::Zero, UNIT, 1, 1, 1)?;
        let layout = Layout { striping, targets: vec![target], absent: Vec::new() };
        tree.take_up(file, Attributes { version, ..fresh.attributes(tree.now()) }, layout);
    }
    Ok(besides)
}

/// How a ring lies whose parts are in these places.
fn lie(parts: &[Place<'_>], spread: Spread, version: u64) -> Result<(Layout, RingMoves)> {
    let raid = if spread.parity { Raid::Five } else { Raid::Zero };
    let striping = Striping::new(raid, UNIT, spread.components(), 1, 1)?;
    let of = |component| Lies::of(parts.iter().copied().filter(move |it| it.component == component));
    let all: Vec<Option<Lies<'_>>> = (0..spread.components()).map(of).collect();
    let mut targets: Vec<TargetId> =
        all.iter().map(|lies| lies.as_ref().map_or(NOWHERE, |lies| lies.now.target)).collect();
    let mut moves = RingMoves(all.iter().flatten().filter_map(Lies::beside).collect());
    if spread.parity
        && targets.iter().all(|target| *target != NOWHERE)
        && let Some(Place { component, target, .. }) = went_on_elsewhere(&all, version)
    {
        targets[component as usize] = NOWHERE;
        moves.0.retain(|beside| beside.component != component);
        moves.0.push(RingMove { component, target, moved: true });
    }
    // What one part lacks, the others make.
    let lost = targets.iter().position(|target| *target == NOWHERE).map(|at| (at as u32, Absence::Missed));
    let anew = || all.iter().flatten().find(|lies| lies.is_anew).map(|lies| lies.now.component);
    let filling = || anew().or_else(|| begun_last(&all)).map(|component| (component, Absence::Filling(0)));
    let lacks = lost.or_else(filling).filter(|_| spread.parity);
    let absent = lacks.map(|(component, absence)| Absent { component, since: version, absence });
    Ok((Layout { striping, targets, absent: absent.into_iter().collect() }, moves))
}

/// The place of a part that seems to have gone on elsewhere, where that is lost: it ended before the others, by more than they differ while
/// each has a block in turn. Only of rings that may have left a target: of those that have newer versions than the first.
fn went_on_elsewhere<'a>(all: &[Option<Lies<'a>>], version: u64) -> Option<Place<'a>> {
    let parts = || all.iter().flatten().map(|lies| lies.now);
    let first = parts().filter(|_| version > FIRST_FENCE + 1).min_by_key(|it| it.part.newest)?;
    let others = parts().filter(|it| it.component != first.component).filter_map(|it| it.part.newest).min()?;
    let a_turn = first.part.spec.flush_interval * all.len() as u32;
    (first.part.newest? < others.before(a_turn)).then_some(first)
}

/// The part that was begun later than others, and not to go on with what lies in another place, and has not come round: it may lack what
/// these have.
fn begun_last(all: &[Option<Lies<'_>>]) -> Option<u32> {
    let first = all.iter().flatten().filter_map(|lies| lies.now.part.oldest).min();
    let alone = all.iter().flatten().filter(|lies| lies.former.is_none()).map(|lies| lies.now);
    let is_young = |it: &Place<'_>| it.part.elements.start <= it.part.begins && it.part.oldest > first;
    alone.filter(is_young).max_by_key(|it| it.part.oldest).map(|it| it.component)
}

/// What lies in several places, and in another one by now than a copy says which may be older, lies there; what rings have beside where
/// they lie, of those of which that is new.
pub(super) fn take_newer(
    tree: &mut Tree,
    seen: &Seen,
    of_files: &OfFiles,
    before: &BTreeMap<FileId, RingMoves>,
    is_whole: bool,
) -> Vec<(FileId, RingMoves)> {
    let mut besides = Vec::new();
    for ((file, volume), places) in by_file(&seen.rings) {
        let fence = fence(of_files, file, volume);
        let Some((layout, next)) = tree.older(file, (FileKind::Ring, volume), fence, is_whole) else { continue };
        let mut moves = before.get(&file).cloned().unwrap_or_default();
        let (mut targets, mut anew) = (layout.targets.clone(), None);
        let parts = parts(&places, of_files.get(&file));
        for (component, lies) in layout.components() {
            let there = || parts.iter().copied().filter(|it| it.component == component);
            let Some(now) = Lies::of(there()) else { continue };
            let is_known = |it: Place<'_>| it.target == lies && !now.now.is_newer_than(&it);
            // What was not looked at may be newer.
            if now.now.target == lies || there().any(is_known) || !seen.targets.contains(&lies) {
                continue;
            }
            targets[component as usize] = now.now.target;
            moves.0.retain(|it| it.component != component);
            moves.0.extend(now.beside());
            anew = anew.or(now.is_anew.then_some(component));
        }
        // No target has two parts of a ring.
        if targets == layout.targets || targets.iter().collect::<BTreeSet<_>>().len() < targets.len() {
            continue;
        }
        layout.targets = targets;
        let lacks = anew.filter(|_| layout.striping.raid() == Raid::Five && layout.absent.is_empty());
        let filling = |component| Absent { component, since: next, absence: Absence::Filling(0) };
        layout.absent.extend(lacks.map(filling));
        tree.raise(file, next);
        besides.push((file, moves));
    }
    for ((file, volume), places) in by_file(&seen.heaps) {
        let fence = fence(of_files, file, volume);
        let Some((layout, next)) = tree.older(file, (FileKind::Heap, volume), fence, is_whole) else { continue };
        let lies = layout.targets[0];
        let known = places.iter().find(|(target, ..)| *target == lies).map(|(.., commit)| **commit);
        let newest = places.iter().max_by_key(|(.., commit)| **commit);
        let newest = newest.filter(|(.., commit)| known < Some(**commit) && seen.targets.contains(&lies));
        if let Some((target, ..)) = newest {
            layout.targets[0] = *target;
            tree.raise(file, next);
        }
    }
    besides
}

/// The places of the parts of a ring, beside the objects of it.
fn parts<'a>(places: &[(TargetId, u32, &'a RingPart)], objects: Option<&Vec<Component>>) -> Vec<Place<'a>> {
    places.iter().map(|place| Place::of(*place, objects.map_or(&[], Vec::as_slice))).collect()
}

fn by_file<T>(places: &BTreeMap<(TargetId, ObjectId), T>) -> ByFile<'_, T> {
    let mut all = ByFile::new();
    for ((target, object), what) in places {
        let (file, component) = component_of(*object);
        all.entry((file, object.volume)).or_default().push((*target, component, what));
    }
    all
}

/// Over how many targets a ring lies, as the newest of its parts says that is one of them.
fn spread_of(parts: &[Place<'_>]) -> Option<Spread> {
    let fits = |it: &&Place<'_>| it.component < it.part.spec.spread.components();
    let newest = parts.iter().filter(fits).reduce(|now, other| if other.is_newer_than(now) { other } else { now })?;
    Some(newest.part.spec.spread).filter(|spread| spread.check().is_ok())
}

/// Of which version capabilities have to be at least, as far as is known.
fn fence(of_files: &OfFiles, file: FileId, volume: u64) -> u64 {
    let own = of_files.get(&file).into_iter().flatten().filter(|it| it.object.volume == volume);
    own.map(|it| it.fence).max().unwrap_or(0)
}

#[cfg(test)]
mod tests;

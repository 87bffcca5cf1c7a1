//! On which targets a new file lies.
//!
//! Each component is put on a target by chance, in proportion to the space that is free there and to how idle it is: so
//! targets fill up together, and a new one is not overrun. Whoever makes many files at once finds all targets as they were
//! when they reported: so what was put on them since counts, and one that has more than its share of it is passed over.
//! Always: no two components of a file are on one target; no node
//! has two copies of a column if all columns can be placed so, and otherwise none has a second one while another one could take a
//! first; of a parity group it is so with components.

use crate::cluster::{Cluster, TargetNow};
use crate::records::Layout;
use forebay_env::Random;
use forebay_model::layout::{Raid, Striping};
use forebay_model::{Bytes, Error, Result, TargetId};
use forebay_wire::control::volumes::Policy;
use forebay_wire::object::MOST_AT_ONCE;
use std::collections::{BTreeMap, BTreeSet};

/// Nothing new is put on a target of which less than one part in so many is free.
const LEAST_FREE: u64 = 50;

/// The largest unit of parity: an intent has all of it, in one request, and says where it goes besides.
const MOST_PARITY: Bytes = Bytes(MOST_AT_ONCE.0 - Bytes::kib(4).0);

/// A target that may take a component.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) target: TargetId,
    pub(crate) node: u64,
    pub(crate) size: Bytes,
    pub(crate) free: Bytes,
    /// In hundredths.
    pub(crate) load: u8,
    /// Its device is far slower than its profile: as little as can be is put on it.
    pub(crate) slow: bool,
    /// Components that were put on it lately.
    pub(crate) placed: u32,
}

impl Candidate {
    fn of(target: TargetId, now: &TargetNow) -> Candidate {
        let node = now.record.node;
        let size = now.record.size;
        Candidate { target, node, size, free: now.free, load: now.load, slow: now.slow, placed: now.placed.get() }
    }

    fn has_room(&self) -> bool {
        self.free.0 > 0 && self.free.0 >= self.size.0 / LEAST_FREE
    }

    /// In proportion to which it is chosen; not 0.
    fn weight(&self) -> u64 {
        if self.slow {
            return 1;
        }
        let idle = 110 - u64::from(self.load.min(100));
        // In units of 16 MiB, so that sums over any cluster fit.
        (self.free.0 >> 24).saturating_mul(idle).clamp(1, 1 << 48)
    }
}

/// The fewest targets that a policy takes; [`forebay_model::Kind::Usage`] if its layout cannot be on any number of them.
fn fewest(policy: &Policy) -> Result<u32> {
    if policy.raid == Raid::Five && policy.unit > MOST_PARITY {
        return Err(Error::usage(format!(
            "RAID 5 with units of {} cannot be: who cuts such a file keeps the parity of its last stripe in one request, of {MOST_PARITY} \
             at most; take units of that or less",
            policy.unit
        )));
    }
    let width = if policy.raid == Raid::Five { 3 } else { 1 };
    Ok(Striping::new(policy.raid, policy.unit, width, 1, 1)?.components())
}

/// [`forebay_model::Kind::Usage`] if no number of targets makes a layout of this.
pub(crate) fn check(policy: &Policy) -> Result<()> {
    fewest(policy)?;
    let targets = if policy.targets == 0 { forebay_model::layout::MOST_COMPONENTS } else { policy.targets };
    Striping::over(policy.raid, policy.unit, targets).map(drop)
}

/// [`forebay_model::Kind::Refused`] if a policy that was asked for takes more targets than the cluster has: a volume's takes as many
/// as there are, but who names a number is not given fewer without being told.
pub(crate) fn check_width(cluster: &Cluster, policy: &Policy) -> Result<()> {
    let there = cluster.targets.values().filter(|now| !now.record.is_lost()).count();
    match policy.targets as usize > there {
        true => Err(Error::refused(format!(
            "the file is to lie over {} targets, and the cluster has {there}; ask for {there} at most (0 is as many as there are), or \
             add targets",
            policy.targets
        ))),
        false => Ok(()),
    }
}

/// The layout of a new file.
pub(crate) fn place(cluster: &Cluster, policy: &Policy, random: &dyn Random) -> Result<Layout> {
    let layout = choose(policy, open(cluster).collect(), random)?;
    layout.targets.iter().take(visited_first(&layout.striping)).for_each(|target| note_placed(cluster, target));
    Ok(layout)
}

/// Components of the group that a file visits first: nothing is on the others before it is as long as a visit, which few are, and
/// by then nodes have reported again.
fn visited_first(striping: &Striping) -> usize {
    (striping.width() * striping.raid().copies()) as usize
}

/// The targets on which something may be put.
fn open(cluster: &Cluster) -> impl Iterator<Item = Candidate> {
    let open = cluster.targets.iter().filter(|(_, now)| cluster.is_open(now));
    open.map(|(target, now)| Candidate::of(*target, now))
}

/// Something was put on a target.
fn note_placed(cluster: &Cluster, target: &TargetId) {
    if let Some(now) = cluster.targets.get(target) {
        now.placed.set(now.placed.get().saturating_add(1));
    }
}

/// What is known of a ring for whose parts targets are looked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct RingPlaces {
    /// Targets that have something of it, whatever that is, and take no other part.
    pub(crate) taken: Vec<TargetId>,
    /// Those of them where other parts lie, or are to: their nodes are to take as few as can be of those that are looked for.
    pub(crate) others: Vec<TargetId>,
}

/// Targets for so many parts of a ring, of so many bytes each: by chance, as a file's, of those that have the space, are not
/// among `refused_by` and have nothing of it `there`. Whether they can promise what they are to promise, only they know.
pub(crate) fn place_ring(
    cluster: &Cluster,
    part: Bytes,
    (wanted, there): (usize, &RingPlaces),
    refused_by: &[TargetId],
    random: &dyn Random,
) -> Result<Vec<TargetId>> {
    if wanted == 0 {
        return Ok(Vec::new());
    }
    let mut left: Vec<Candidate> = open(cluster).collect();
    let up = left.len();
    let most = left.iter().map(|candidate| candidate.free).max().unwrap_or_default();
    left.retain(|candidate| candidate.has_room() && candidate.free >= part);
    let with_room = left.len();
    if with_room == 0 {
        return Err(Error::full(format!(
            "no target takes {part} of a ring: none of the {up} that are up has so much free, and the most on one is {most}; make it \
             smaller, remove something, or add targets"
        )));
    }
    left.retain(|candidate| !refused_by.contains(&candidate.target) && !there.taken.contains(&candidate.target));
    if left.len() < wanted {
        return Err(Error::full(match (wanted, left.len()) {
            (1, _) => format!(
                "no target takes a ring of {part}: of {up} that are up, {with_room} have the space, and all of those refused it or \
                 have a part of it (the most that is free on one is {most}); make it smaller, or add targets"
            ),
            (_, left) => format!(
                "{wanted} targets are to have {part} of the ring each, and {left} can: of {up} that are up, {with_room} have the \
                 space (the most that is free on one is {most}); make it smaller, spread it over fewer, or add targets"
            ),
        }));
    }
    let mut of_nodes: BTreeMap<u64, Has> = BTreeMap::new();
    for now in there.others.iter().filter_map(|target| cluster.targets.get(target)) {
        of_nodes.entry(now.record.node).or_default().of_group += 1;
    }
    let mut targets = Vec::with_capacity(wanted);
    for _ in 0..wanted {
        let Candidate { target, node, .. } = left.swap_remove(draw(&left, &of_nodes, random));
        of_nodes.entry(node).or_default().of_group += 1;
        note_placed(cluster, &target);
        targets.push(target);
    }
    Ok(targets)
}

/// A target for a heap: by chance, as a file's, of those that have room and are not among `refused_by`.
pub(crate) fn place_heap(cluster: &Cluster, refused_by: &[TargetId], random: &dyn Random) -> Result<TargetId> {
    let mut left: Vec<Candidate> = open(cluster).collect();
    let up = left.len();
    left.retain(Candidate::has_room);
    let with_room = left.len();
    left.retain(|candidate| !refused_by.contains(&candidate.target));
    if left.is_empty() {
        return Err(Error::full(format!(
            "no target takes a heap: of {up} that are up, {with_room} have more than a fiftieth free, and all of those refused it; \
             remove something, start nodes, or add targets"
        )));
    }
    let Candidate { target, .. } = left[draw(&left, &BTreeMap::new(), random)];
    note_placed(cluster, &target);
    Ok(target)
}

/// The layout of a new file on some of these.
pub(crate) fn choose(policy: &Policy, candidates: Vec<Candidate>, random: &dyn Random) -> Result<Layout> {
    let up = candidates.len();
    let mut left: Vec<Candidate> = candidates.into_iter().filter(Candidate::has_room).collect();
    let there = left.len() as u32;
    let wanted = if policy.targets == 0 { there } else { policy.targets.min(there) };
    let least = fewest(policy)?;
    if up < least as usize {
        return Err(Error::refused(format!(
            "{} takes {least} targets at least, and {up} are up and used; add targets, start nodes, return targets that failed or drain, or \
             take another policy",
            policy.raid
        )));
    }
    if there < least {
        return Err(Error::full(format!(
            "{} takes {least} targets at least, and {there} of the {up} that are up have more than a fiftieth free; remove \
             something, or add targets",
            policy.raid
        )));
    }
    if wanted < least {
        return Err(Error::usage(format!(
            "{} takes {least} targets at least, and the policy allows {wanted}; allow more, or take another one",
            policy.raid
        )));
    }
    let striping = Striping::over(policy.raid, policy.unit, wanted)?;
    let copies = striping.raid().copies() as usize;
    let in_group = visited_first(&striping);
    let mut targets = Vec::with_capacity(striping.components() as usize);
    let mut of_nodes: BTreeMap<u64, Has> = BTreeMap::new();
    let mut ahead = Ahead::of(&left, copies);
    for component in 0..striping.components() as usize {
        if component % in_group == 0 {
            of_nodes.clear();
        } else if component % copies == 0 {
            // The copies of a column follow one another.
            of_nodes.values_mut().for_each(|has| has.of_column = 0);
        }
        if component % copies == 0 {
            ahead.next_column(striping.components() as usize / copies - component / copies);
        }
        let is_due = ahead.is_due(copies - component % copies);
        let at = draw_of(&left, |one| !is_due || ahead.is_rich(one.node), &of_nodes, random);
        let chosen = left.swap_remove(at);
        ahead.take(chosen.node);
        let has = of_nodes.entry(chosen.node).or_default();
        has.of_column += 1;
        has.of_group += 1;
        targets.push(chosen.target);
    }
    Ok(Layout { striping, targets, absent: Vec::new() })
}

/// Where a component of a file lies from now on whose target is lost or drains: on none that has another one of the file, nor
/// on one that `is_left` names.
pub(crate) fn replace(
    cluster: &Cluster,
    layout: &Layout,
    component: u32,
    is_left: impl Fn(TargetId) -> bool,
    random: &dyn Random,
) -> Result<TargetId> {
    let is_free = |one: &Candidate| !layout.targets.contains(&one.target) && !is_left(one.target);
    let left: Vec<Candidate> = open(cluster).filter(|one| is_free(one) && one.has_room()).collect();
    if left.is_empty() {
        return Err(Error::full(format!(
            "no target takes the place of {}: all that are up and have a fiftieth free have a part of it, or what is left of one \
             and removed soon; add targets, or start nodes",
            layout.targets[component as usize]
        )));
    }
    let Candidate { target, .. } = left[draw(&left, &of_others(cluster, layout, component), random)];
    note_placed(cluster, &target);
    Ok(target)
}

/// Where a component of a file may lie as well as where it lies: on none that has another one of the file, and not on a node that has
/// more of those with which it shares what can be lost; of those that `is_fit` names.
pub(crate) fn elsewhere(
    cluster: &Cluster,
    layout: &Layout,
    component: u32,
    is_fit: impl Fn(TargetId) -> bool,
    random: &dyn Random,
) -> Option<TargetId> {
    let of_nodes = of_others(cluster, layout, component);
    let has = |node: u64| of_nodes.get(&node).copied().unwrap_or_default();
    let here = has(cluster.targets.get(&layout.targets[component as usize])?.record.node);
    let may = |one: &Candidate| !layout.targets.contains(&one.target) && has(one.node) <= here && is_fit(one.target);
    let left: Vec<Candidate> = open(cluster).filter(|one| may(one) && one.has_room()).collect();
    let Candidate { target, .. } = *left.get(draw(&left, &of_nodes, random))?;
    note_placed(cluster, &target);
    Some(target)
}

/// What nodes have of those with which a component shares what can be lost.
fn of_others(cluster: &Cluster, layout: &Layout, component: u32) -> BTreeMap<u64, Has> {
    let mut of_nodes: BTreeMap<u64, Has> = BTreeMap::new();
    for other in layout.striping.family(component).filter(|other| *other != component) {
        let Some(now) = cluster.targets.get(&layout.targets[other as usize]) else { continue };
        of_nodes.entry(now.record.node).or_default().of_group += 1;
    }
    of_nodes
}

/// What a node has already. Copies of one column count before all else: a node that dies is not to take all of them along.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Has {
    of_column: u32,
    of_group: u32,
}

/// What nodes have left for the columns of a file with copies: what one column takes is not to leave those behind it with too few nodes.
///
/// A rich node has at least as many targets left as there are columns, and so a place for each of them: a column without it wastes one
/// for good. Of any other node a column only uses what there is. So a column has to be on as many rich nodes as there are beyond the
/// places that are to spare: then those behind it can be placed as well, if all of them could before.
struct Ahead {
    copies: usize,
    left: BTreeMap<u64, usize>,
    /// Rich nodes on which the column is not yet.
    rich: BTreeSet<u64>,
    /// On how many of them it has to be.
    due: usize,
}

impl Ahead {
    /// Without copies nothing is ever due.
    fn of(candidates: &[Candidate], copies: usize) -> Ahead {
        let mut left: BTreeMap<u64, usize> = BTreeMap::new();
        if copies > 1 {
            candidates.iter().for_each(|candidate| *left.entry(candidate.node).or_default() += 1);
        }
        Ahead { copies, left, rich: BTreeSet::new(), due: 0 }
    }

    /// A column begins, and with it there are so many.
    fn next_column(&mut self, columns: usize) {
        self.rich = self.left.iter().filter(|(_, left)| **left >= columns).map(|(node, _)| *node).collect();
        let places: usize = self.left.values().map(|left| (*left).min(columns)).sum();
        self.due = self.rich.len().saturating_sub(places.saturating_sub(columns * self.copies));
    }

    /// Whether the next copy of the column, with which so many are to come, has to be on a rich node.
    fn is_due(&self, copies: usize) -> bool {
        !self.rich.is_empty() && self.due >= copies
    }

    fn is_rich(&self, node: u64) -> bool {
        self.rich.contains(&node)
    }

    /// The column has a copy there.
    fn take(&mut self, node: u64) {
        self.left.entry(node).and_modify(|left| *left = left.saturating_sub(1));
        if self.rich.remove(&node) {
            self.due = self.due.saturating_sub(1);
        }
    }
}

/// One of `left`, by weight, of those whose nodes have the fewest copies of the column and components of the group, and
/// which have no more than their share of what was put on those lately.
fn draw(left: &[Candidate], of_nodes: &BTreeMap<u64, Has>, random: &dyn Random) -> usize {
    draw_of(left, |_| true, of_nodes, random)
}

/// As [`draw`], of those of `left` that may be; one of them does.
fn draw_of(
    left: &[Candidate],
    may_be: impl Fn(&Candidate) -> bool,
    of_nodes: &BTreeMap<u64, Has>,
    random: &dyn Random,
) -> usize {
    let has = |candidate: &Candidate| of_nodes.get(&candidate.node).copied().unwrap_or_default();
    let fewest = left.iter().filter(|one| may_be(one)).map(has).min().unwrap_or_default();
    let could = || left.iter().enumerate().filter(|(_, one)| may_be(one) && has(one) == fewest);
    let (mut weights, mut placed) = (0, 0);
    for (_, candidate) in could() {
        weights += u128::from(candidate.weight());
        placed += u128::from(candidate.placed);
    }
    // One of them has its share or less, as not all can have more.
    let has_less =
        |candidate: &Candidate| u128::from(candidate.placed) * weights <= placed * u128::from(candidate.weight());
    let fit = || could().filter(|(_, candidate)| has_less(candidate));
    let sum: u64 = fit().map(|(_, candidate)| candidate.weight()).sum();
    let mut at = random.below(sum.max(1));
    for (index, candidate) in fit() {
        let weight = candidate.weight();
        if at < weight {
            return index;
        }
        at -= weight;
    }
    0
}

#[cfg(test)]
mod tests;

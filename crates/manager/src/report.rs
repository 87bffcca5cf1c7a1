//! What nodes report of themselves and their targets, and what they are told.
//!
//! Always: a target is served by one node; what does not belong to this cluster, or is an older copy of what does, is
//! refused by itself, and the rest of the report counts: one that was opened less often, or has fewer changes of its objects than it had a
//! minute before it was heard of last, however often it was opened since. What a target has to do is said until it says that it has. Of rings that a target
//! made anew of what their segments say, it is told which are not to be there before it serves them. A target that was started has
//! no keys, and is sent none before it was told all that was revoked, from the first on: it serves nobody until then. Its node takes them
//! only if all of that was done, and says otherwise again that it has none: then it is told what is left, from the first on. A list of what
//! has to be done that is damaged keeps nobody from the rest.

use crate::authenticate::standing;
use crate::cluster::{Effect, TargetNow};
use crate::draft::{Batch, Draft, View};
use crate::engine::Snapshot;
use crate::keys;
use crate::manager::{Manager, Now};
use crate::principal::Principal;
use crate::records::{
    Inode, Layout, Moves, Orders, RingMoves, ShutOutRecord, TargetRecord, component_of, decode, object,
};
use forebay_model::{Error, Kind, ObjectId, Result, TargetId, Timestamp};
use forebay_wire::control::access::Hidden;
use forebay_wire::control::cluster::{
    MOST_ANEW, MOST_ORDERS, MOST_SHUT_OUT, MOST_TARGETS, Order, Report, Reported, ShutOut, TargetReport, TargetState,
    ToTarget, VersionedKey,
};
use forebay_wire::control::names::FileId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The most bytes of an address.
const MOST_ADDRESS: usize = 255;
/// How many files with orders are looked at at a time, of each list.
const LOOKED_AT: usize = 8192;
/// How many times as many fences are looked at for a report of a node one of whose targets has to hear of all of them before it serves:
/// those of others, which may be gone, do not keep it waiting. It has an end, as nobody else is answered meanwhile.
const PAGES_IF_HEARING: usize = 16;
/// How many orders of a list a target is told that carried out none of those before.
const TOLD_IF_STUCK: usize = 16;
/// No target is opened so often between two reports: who says so has its node's key and wants it shut out for ever, or is broken.
const MOST_OPENINGS: u64 = 1 << 20;
/// What was durable for so long is so whatever its device said: with the power, some lose what they took in just before.
const OLD_ENOUGH: Duration = Duration::from_secs(60);
/// What is free is written down when it changed by one part of the size in so many.
const FREE_PARTS: u64 = 20;

impl Manager {
    /// Takes a report, and says what the node has to know.
    pub fn report(&mut self, now: Now, by: &Principal, report: &Report) -> Result<Reported> {
        self.check_report(&*standing(&self.view()?, by)?, report)?;
        let verdicts: Vec<Result<()>> =
            report.targets.iter().map(|target| self.check_target(report.node, target)).collect();
        let accepted = || report.targets.iter().zip(&verdicts).filter(|(_, verdict)| verdict.is_ok()).map(|(it, _)| it);
        let mut batch = self.batch();
        // What was opened since, or was not reported with the last report, has not heard what was told before.
        let is_back = |target: &TargetReport| {
            let known = self.cluster.targets.get(&target.target);
            known.is_none_or(|known| {
                let is_opened = target.openings > known.record.openings;
                is_opened || known.heard.is_none() || !known.is_served || known.record.node != report.node
            })
        };
        let back: BTreeSet<TargetId> =
            accepted().filter(|target| is_back(target)).map(|target| target.target).collect();
        let mut advanced = BTreeSet::new();
        for target in accepted() {
            for order in &target.carried_out {
                let is_new = match self.carried_out(&mut batch, target.target, order) {
                    // It did something, even if that cannot be noted: its node is not kept from all else.
                    Err(error) if error.kind == Kind::Damaged => true,
                    noted => noted?,
                };
                if is_new {
                    advanced.insert(target.target);
                }
            }
        }
        // This changes what is in memory: nothing that may fail comes between that and the commit, after whose failure
        // nobody is asked any more.
        self.write_down(now, &mut batch, report, accepted())?;
        self.commit(batch)?;
        // One whose answer was lost is sent again as it was: of what its targets did since then it says nothing.
        let mut is_again = false;
        if let Some(node) = self.cluster.nodes.get_mut(&report.node) {
            is_again = advanced.is_empty() && node.clocks.is_some_and(|(wall, _)| wall == report.wall);
            node.reported = Some(now.moment);
            node.clocks = Some((report.wall, now.wall));
        }
        let (epoch, rolled) = (self.cluster.epochs.epoch, self.cluster.epochs.rolled);
        let mut hears = Hearing::default();
        let mut released = BTreeSet::new();
        for known in self.cluster.targets.values_mut().filter(|known| known.record.node == report.node) {
            known.is_served = false;
        }
        for target in accepted() {
            if let Some(known) = self.cluster.targets.get_mut(&target.target) {
                known.is_served = true;
                known.free = target.free;
                known.load = target.load.min(100);
                known.failed = target.failed.clone();
                known.slow = target.slow;
                if is_rebuilt(target) {
                    known.recorded = None;
                } else if let Some(recorded) = target.recorded {
                    // Below what it said a moment ago, its device lost what it took in last.
                    let stays = |(before, at)| before <= recorded && now.moment.since(at) < OLD_ENOUGH;
                    known.recorded = known.recorded.filter(|before| stays(*before)).or(Some((recorded, now.moment)));
                }
                let is_back = back.contains(&target.target);
                let was_stuck = known.is_stuck && !is_back;
                let was_told = known.is_told && !is_back;
                // Nobody counts as told who is released, below: so these are told apart.
                let was_released = was_stuck && !was_told;
                // One that is stuck is so until it does something, also if there is nothing for it where the list goes on.
                let was_idle = target.carried_out.is_empty();
                known.is_stuck = match is_again {
                    true => was_stuck,
                    false => target.failed.is_some() || (was_told || was_stuck) && was_idle,
                };
                // What carries out nothing, again and again, serves with what it was told: it cannot write that down, and has room
                // again only if what is on it is removed.
                if target.key == 0 && was_stuck && known.is_stuck {
                    released.insert(target.target);
                } else if target.key == 0 {
                    hears.targets.insert(target.target);
                    // If nothing was done of what it was told, that may have been lost on its way; and one that was released was passed
                    // over.
                    let is_lost = is_again || was_told && !advanced.contains(&target.target);
                    hears.anew |= is_back || was_released || is_lost;
                }
                known.placed.set(known.placed.get() / 2);
                // A target that has heard of nothing hears of it with this answer; and with the answer it drops all but the
                // newest two keys.
                let newest = 1 + rolled + known.record.rolled;
                let key = if target.key == 0 { newest } else { target.key.max(newest - 1) };
                known.heard = Some((if target.epoch == 0 { epoch } else { target.epoch }, key));
            }
        }
        let targets = accepted().map(|target| target.target).collect();
        let (mut orders, is_whole) = self.orders(now, report.node, targets, &hears)?;
        for target in accepted() {
            if let Some(known) = self.cluster.targets.get_mut(&target.target) {
                known.is_told = orders.contains_key(&target.target) && !released.contains(&target.target);
            }
        }
        let told = report.targets.iter().zip(verdicts).map(|(target, verdict)| {
            let is_accepted = verdict.is_ok();
            Ok(ToTarget {
                target: target.target,
                keys: match is_accepted && (is_whole || !hears.targets.contains(&target.target)) {
                    true => self.keys_of(target.target),
                    false => Vec::new(),
                },
                orders: orders.remove(&target.target).unwrap_or_default(),
                astray: if is_accepted { self.astray(target)? } else { Vec::new() },
                refused: verdict.err(),
            })
        });
        let targets = told.collect::<Result<_>>()?;
        Ok(Reported {
            epoch: self.cluster.epochs.epoch,
            least_epoch: self.cluster.epochs.least,
            targets,
            wall: now.wall,
            shut_out: self.shut_out()?,
        })
    }

    /// Whether the report as a whole can be.
    fn check_report(&self, by: &Principal, report: &Report) -> Result<()> {
        let missing = || Error::missing(format!("there is no node {}; have it added first", report.node));
        let node = self.cluster.nodes.get(&report.node).ok_or_else(missing)?;
        if !by.is_root() && by.user != node.record.user {
            return Err(Error::forbidden(format!(
                "user {} may not report as node {}; take a key of the node's user",
                by.user, report.node
            )));
        }
        if report.address.is_empty() || report.address.len() > MOST_ADDRESS {
            return Err(Error::usage(format!(
                "an address has 1 to {MOST_ADDRESS} bytes, and not {}",
                report.address.len()
            )));
        }
        let different: BTreeSet<TargetId> = report.targets.iter().map(|target| target.target).collect();
        if report.targets.len() > MOST_TARGETS || different.len() < report.targets.len() {
            return Err(Error::usage(format!(
                "a node has {MOST_TARGETS} different targets at most, and this one reports {}, of which {} are different; \
                 spread them over nodes",
                report.targets.len(),
                different.len()
            )));
        }
        if let Some(target) = report.targets.iter().find(|target| target.anew.len() > MOST_ANEW) {
            return Err(Error::usage(format!(
                "target {} reports {} rings that were made anew, and {MOST_ANEW} are the most at once; use the same release on both sides",
                target.target,
                target.anew.len()
            )));
        }
        match report.targets.iter().find(|target| target.free > target.size) {
            Some(target) => Err(Error::usage(format!(
                "target {} reports {} free of {}; it is broken",
                target.target, target.free, target.size
            ))),
            None => Ok(()),
        }
    }

    /// Whether a node may serve a target.
    fn check_target(&self, node: u64, reported: &TargetReport) -> Result<()> {
        let target = reported.target;
        if reported.cluster != self.cluster.id {
            return Err(Error::usage(format!(
                "target {target} is of cluster {:032x}, and this is {:032x}; take it to its own, or format it anew",
                reported.cluster, self.cluster.id
            )));
        }
        if reported.epoch > self.cluster.epochs.epoch {
            return Err(Error::damaged(format!(
                "target {target} has heard of epoch {}, and the manager knows of {} only: its metadata is older than the \
                 target; restore a newer one",
                reported.epoch, self.cluster.epochs.epoch
            )));
        }
        let Some(TargetNow { record, is_served, .. }) = self.cluster.targets.get(&target) else { return Ok(()) };
        let is_up = self.cluster.nodes.get(&record.node).is_some_and(|node| node.record.up);
        if record.state == TargetState::Gone {
            return Err(Error::refused(format!(
                "target {target} was given up as gone; format it anew, as another one"
            )));
        }
        if record.node != node && is_up && *is_served {
            return Err(Error::exists(format!(
                "target {target} is served by node {} already; stop it there, or remove this copy",
                record.node
            )));
        }
        if reported.openings.saturating_sub(record.openings) > MOST_OPENINGS {
            return Err(Error::usage(format!(
                "target {target} says that it was opened {} times, and the manager has seen {}: that is not so; if it is another copy, \
                 take the newest one, and otherwise issue another key for node {node}",
                reported.openings, record.openings
            )));
        }
        if reported.openings < record.openings {
            return Err(Error::stale(format!(
                "target {target} was opened {} times, and the manager has seen {}: it is an older copy; take the newest one",
                reported.openings, record.openings
            )));
        }
        // It may have been opened more often since; and what cannot be served at all is for the others to make anew.
        if let Some(recorded) = reported.recorded
            && recorded < record.recorded
            && reported.failed.is_none()
            && !is_rebuilt(reported)
        {
            return Err(Error::stale(format!(
                "target {target} has {recorded} changes of its objects, and had {} already: it is an older copy, or lost what its device said \
                 was durable; take the newest one, or give it up as failed, and what was on it is made of the others; where there is nothing \
                 else, `forebay target return` has it used as it is",
                record.recorded
            )));
        }
        Ok(())
    }

    /// Writes down what is new in a report.
    fn write_down<'r>(
        &mut self,
        now: Now,
        batch: &mut Batch,
        report: &Report,
        accepted: impl Iterator<Item = &'r TargetReport>,
    ) -> Result<()> {
        let Some(node) = self.cluster.nodes.get(&report.node) else { return Ok(()) };
        let mut draft = Draft::new(self.view()?, batch);
        let mut is_other_map = false;
        if !node.record.up || node.record.address != report.address {
            let mut record = node.record.clone();
            record.up = true;
            record.address = report.address.clone();
            draft.put(keys::node(report.node), &record)?;
            draft.effect(Effect::Node(report.node, Some(record)));
            is_other_map = true;
        }
        for reported in accepted {
            let fresh = TargetRecord {
                node: report.node,
                state: TargetState::Up,
                openings: reported.openings,
                size: reported.size,
                free: reported.free,
                rolled: 0,
                recorded: 0,
            };
            let there = self.cluster.targets.get(&reported.target);
            let known = there.map(|there| &there.record);
            let mut record = known.map_or_else(|| fresh.clone(), Clone::clone);
            record.node = report.node;
            record.openings = reported.openings;
            record.size = reported.size;
            if reported.failed.is_some() && !record.is_lost() {
                // Whether it may be used again is for people to say.
                record.state = TargetState::Failed;
            }
            if is_rebuilt(reported) {
                // It begins anew.
                record.recorded = 0;
            } else if let Some((recorded, at)) = there.and_then(|there| there.recorded)
                && now.moment.since(at) >= OLD_ENOUGH
                && reported.recorded.is_some_and(|now| now >= recorded)
            {
                record.recorded = record.recorded.max(recorded);
            }
            if record.free.0.abs_diff(reported.free.0) > reported.size.0 / FREE_PARTS {
                record.free = reported.free;
            }
            if known == Some(&record) {
                continue;
            }
            let of_map = |record: &TargetRecord| (record.node, record.size, record.state);
            is_other_map |= known.is_none_or(|known| of_map(known) != of_map(&record));
            draft.put(keys::target(reported.target), &record)?;
            draft.effect(Effect::Target(reported.target, record));
        }
        if is_other_map {
            self.cluster.raise_epoch(&mut draft)?;
        }
        let drafted = draft.ready()?;
        let effects = batch.take(drafted);
        self.change(effects);
        Ok(())
    }

    /// Takes note that a target did what it had to; whether that was not known.
    fn carried_out(&self, batch: &mut Batch, target: TargetId, order: &Order) -> Result<bool> {
        let (file, component) = component_of(order.object);
        let mut draft = Draft::new(self.view()?, batch);
        let is_this = |orders: &Orders| (orders.volume, orders.version) == (order.object.volume, order.version);
        let mut is_new = false;
        if order.remove {
            for key in [keys::removals(file), keys::leftovers(file)] {
                is_new |= struck_out(&mut draft, key, (component, target), is_this)?;
            }
        }
        // An object that is not there any more would be made for its fence, whatever its version.
        let is_over = |orders: &Orders| is_this(orders) || order.remove && orders.volume == order.object.volume;
        is_new |= struck_out(&mut draft, keys::fences(file), (component, target), is_over)?;
        let drafted = draft.ready()?;
        batch.take(drafted);
        Ok(is_new)
    }

    /// What these targets of a node have to do: a part of it at a time, from where the last report ended. First what was
    /// revoked: what is removed is in nobody's way. And whether all that was revoked was told, with this and what was told before.
    fn orders(
        &mut self,
        now: Now,
        node: u64,
        targets: BTreeSet<TargetId>,
        hears: &Hearing,
    ) -> Result<(BTreeMap<TargetId, Vec<Order>>, bool)> {
        let Some(state) = self.cluster.nodes.get_mut(&node) else { return Ok((BTreeMap::new(), true)) };
        let mut told_up_to = std::mem::take(&mut state.told_up_to);
        if hears.anew {
            told_up_to.fences.clear();
        }
        let is_stuck = |target: &TargetId| self.cluster.targets.get(target).is_some_and(|known| known.is_stuck);
        let most = |target: TargetId| {
            let most = match is_stuck(&target) {
                // Nothing is passed over that it has to hear before it serves.
                _ if hears.targets.contains(&target) => usize::MAX,
                true => TOLD_IF_STUCK,
                false => MOST_ORDERS / 8 * 7,
            };
            (target, most)
        };
        let most = targets.into_iter().map(most).collect();
        let mut telling = Telling { now: now.wall, most, orders: BTreeMap::new(), count: 0 };
        let pages = if hears.targets.is_empty() { 1 } else { PAGES_IF_HEARING };
        // Each list leaves room for the next one: what is removed makes room for what has to be written down.
        telling.part(self.view()?, (keys::FENCES, MOST_ORDERS / 8 * 7), pages, &mut told_up_to.fences)?;
        let is_whole = told_up_to.fences.is_empty();
        telling.part(self.view()?, (keys::REMOVALS, MOST_ORDERS / 16 * 15), 1, &mut told_up_to.removals)?;
        telling.part(self.view()?, (keys::LEFTOVERS, MOST_ORDERS), 1, &mut told_up_to.leftovers)?;
        if let Some(state) = self.cluster.nodes.get_mut(&node) {
            state.told_up_to = told_up_to;
        }
        Ok((telling.orders, is_whole))
    }

    /// Which of the rings that a target made anew are not to be there.
    fn astray(&self, reported: &TargetReport) -> Result<Vec<ObjectId>> {
        let view = self.view()?;
        let mut astray = Vec::new();
        for ring in &reported.anew {
            match is_to_be_on(&view, *ring, reported.target) {
                Ok(true) => {}
                Ok(false) => astray.push(*ring),
                // Whatever it was, it is kept; and its node is not kept from all else.
                Err(error) if error.kind == Kind::Damaged => {}
                Err(error) => return Err(error),
            }
        }
        Ok(astray)
    }

    /// All clients that are shut out.
    fn shut_out(&self) -> Result<Vec<ShutOut>> {
        let (from, to) = keys::all(keys::SHUT_OUT);
        let pairs = self.view()?.scan(&from, &to, MOST_SHUT_OUT)?;
        let shut_out = pairs.iter().map(|(key, value)| {
            let ShutOutRecord { until } = decode(key, value)?;
            Ok(ShutOut { client: keys::number(key), until })
        });
        shut_out.collect()
    }

    fn keys_of(&self, target: TargetId) -> Vec<VersionedKey> {
        let Some(now) = self.cluster.targets.get(&target) else { return Vec::new() };
        let keys = self.cluster.keys(target, &now.record).into_iter();
        keys.map(|key| VersionedKey { version: key.version(), key: Hidden(key.to_bytes().to_vec()) }).collect()
    }
}

/// Whether a target was made anew of its segments, without objects, and has not heard yet which of its rings are to be there.
fn is_rebuilt(reported: &TargetReport) -> bool {
    !reported.anew.is_empty()
}

/// Whether a component lies on a target, is coming there, has left something there, or is to be removed there.
fn is_to_be_on(view: &impl View, component: ObjectId, target: TargetId) -> Result<bool> {
    let (file, number) = component_of(component);
    let is_it = |place: (u32, TargetId)| place == (number, target);
    let layout: Option<Layout> = view.read(&keys::layout(file))?;
    if layout.is_some_and(|layout| layout.targets.get(number as usize) == Some(&target)) {
        return Ok(true);
    }
    let parts: RingMoves = view.read(&keys::ring_moves(file))?.unwrap_or_default();
    let Moves(copies) = view.read(&keys::moves(file))?.unwrap_or_default();
    if parts.places().chain(copies.iter().map(|it| (it.component, it.to))).any(is_it) {
        return Ok(true);
    }
    for key in [keys::removals(file), keys::leftovers(file)] {
        let orders: Option<Orders> = view.read(&key)?;
        if orders.is_some_and(|orders| orders.pending.iter().copied().any(is_it)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Which targets were started and have to hear of all that was revoked before they serve, and whether that begins anew.
#[derive(Default)]
struct Hearing {
    targets: BTreeSet<TargetId>,
    anew: bool,
}

/// What some targets are told.
struct Telling {
    now: Timestamp,
    /// How many orders of a list each of them is told: one that carries out none keeps no other from its own.
    most: BTreeMap<TargetId, usize>,
    orders: BTreeMap<TargetId, Vec<Order>>,
    count: usize,
}

impl Telling {
    /// The next part of a list of orders, up to `limit` of all lists and so many pages, and where the one behind it begins.
    fn part(
        &mut self,
        view: &dyn Snapshot,
        (prefix, limit): (u8, usize),
        pages: usize,
        told_up_to: &mut Vec<u8>,
    ) -> Result<()> {
        let mut left = self.most.clone();
        for _ in 0..pages {
            self.page(view, (prefix, limit), &mut left, told_up_to)?;
            if told_up_to.is_empty() || self.count >= limit {
                break;
            }
        }
        Ok(())
    }

    /// One page of it; `left` is how many more orders of this list each target is told.
    fn page(
        &mut self,
        view: &dyn Snapshot,
        (prefix, limit): (u8, usize),
        left: &mut BTreeMap<TargetId, usize>,
        told_up_to: &mut Vec<u8>,
    ) -> Result<()> {
        let remove = prefix != keys::FENCES;
        let (first, to) = keys::all(prefix);
        let from = if told_up_to.is_empty() { first } else { std::mem::take(told_up_to) };
        let pairs = view.scan(&from, &to, LOOKED_AT)?;
        let is_last = pairs.len() < LOOKED_AT;
        for (key, value) in pairs {
            if self.count >= limit {
                *told_up_to = key;
                return Ok(());
            }
            let file = FileId(keys::number(&key));
            let there = match decode::<Orders>(&key, &value) {
                Ok(there) => Some(there),
                // What cannot be told keeps nobody from keys, epochs and what else it has to do.
                Err(error) if error.kind == Kind::Damaged && remove => None,
                Err(error) if error.kind == Kind::Damaged => whole_fence(view, file)?,
                Err(error) => return Err(error),
            };
            // What is revoked is due whatever the clock says.
            if let Some(there) = there.filter(|there| !remove || there.due <= self.now) {
                for (component, target) in &there.pending {
                    let Some(left) = left.get_mut(target).filter(|left| **left > 0) else { continue };
                    *left -= 1;
                    let object = object(there.volume, file, *component);
                    let order = Order { object, version: there.version, remove };
                    self.orders.entry(*target).or_default().push(order);
                    self.count += 1;
                }
            }
            if !is_last {
                *told_up_to = [key.as_slice(), &[0]].concat();
            }
        }
        Ok(())
    }
}

/// That all objects of a file have to have its version, where the list of those that may not have heard of it is damaged: who has hears of
/// it again, which does no harm. None of a file of which nothing else is known either.
fn whole_fence(view: &dyn Snapshot, file: FileId) -> Result<Option<Orders>> {
    let known = || -> Result<Option<(Inode, Layout)>> {
        let inode: Option<Inode> = view.read(&keys::inode(file))?;
        let layout: Option<Layout> = view.read(&keys::layout(file))?;
        Ok(inode.zip(layout))
    };
    match known() {
        Ok(known) => Ok(known.map(|(Inode { attributes, .. }, layout)| Orders {
            volume: attributes.volume,
            version: attributes.version,
            due: attributes.changed,
            pending: layout.components(),
        })),
        Err(error) if error.kind == Kind::Damaged => Ok(None),
        Err(error) => Err(error),
    }
}

/// Takes a component off the list of those that have something to do, if it is this that they have to do; whether it was there.
fn struck_out(
    draft: &mut Draft<'_>,
    key: Vec<u8>,
    done: (u32, TargetId),
    is_this: impl Fn(&Orders) -> bool,
) -> Result<bool> {
    let Some(mut orders) = draft.read::<Orders>(&key)?.filter(is_this) else { return Ok(false) };
    let there = orders.pending.len();
    orders.pending.retain(|pending| *pending != done);
    if orders.pending.len() == there {
        return Ok(false);
    }
    draft.put_unless(orders.pending.is_empty(), key, &orders)?;
    Ok(true)
}

#[cfg(test)]
mod tests;

//! Targets that are filled unevenly, because one was added or much was removed: components are moved from those that have more than
//! their share to others, a few at a time.
//!
//! What is free on targets is known with a delay, and what was moved away counts where it lay until nobody can be granted it any more.
//! So it is done in rounds: files are chosen by what was known at one moment, nobody chooses others until they lie where they are to,
//! and then it is waited until that is seen. No file is chosen that somebody writes, and none while anything drains or is to be rebuilt:
//! then what was chosen and is not begun stays where it is, and a later round chooses anew.

use crate::cluster::Cluster;
use crate::draft::{Batch, Draft, View};
use crate::keys;
use crate::manager::{Manager, Now};
use crate::operations::{is_any, is_any_hurried};
use crate::place;
use crate::placement;
use crate::records::{Layout, Move, Moves, Orders, ToScrub, Writers, decode};
use forebay_model::{Bytes, Moment, Result, TargetId};
use forebay_wire::capability::SKEW;
use forebay_wire::control::names::{FileId, FileKind};
use std::collections::BTreeMap;
use std::time::Duration;

/// In a round, one part of a target's size in so many is moved away from it: what is written meanwhile is not foreseen.
const PARTS: u64 = 32;
/// A round that chose nothing is not tried again for so long.
const REST: Duration = Duration::from_secs(600);

/// How far that is; nothing of it is kept, since a round may end anywhere.
#[derive(Default)]
pub(crate) struct Balance {
    /// Targets were uneven, and are not even enough yet.
    is_on: bool,
    /// Files are chosen.
    round: Option<Round>,
    /// No other round begins before.
    rests_until: Option<Moment>,
}

/// A round over all files.
#[derive(Default)]
struct Round {
    /// What targets have more than their share, and less.
    excess: BTreeMap<TargetId, Bytes>,
    room: BTreeMap<TargetId, Bytes>,
    /// What may still be moved away of the excess.
    budget: BTreeMap<TargetId, Bytes>,
    /// Where it goes on.
    at: Vec<u8>,
    chosen: u64,
}

impl Manager {
    /// Chooses what is to be moved so that targets are filled evenly, a part of all files at a time.
    pub(crate) fn even_out(&mut self, batch: &mut Batch, now: Now) -> Result<()> {
        let mut balance = std::mem::take(&mut self.balance);
        balance.round = match balance.round.take() {
            Some(round) => self.choose(batch, now, round, &mut balance.rests_until)?,
            None => self.begin(batch, now, &mut balance)?,
        };
        self.balance = balance;
        Ok(())
    }

    fn begin(&self, batch: &Batch, now: Now, balance: &mut Balance) -> Result<Option<Round>> {
        let above = u64::from(self.settings.balance_above);
        if above == 0 {
            return Ok(None);
        }
        let draft = Draft::new(self.view()?, batch);
        if is_any(&draft, keys::MOVES)? || is_any_hurried(&draft, &self.cluster)? {
            balance.rests_until = Some(now.moment + self.until_seen());
        }
        if balance.rests_until.is_some_and(|until| now.moment < until) {
            return Ok(None);
        }
        let most = if balance.is_on { above * 5 } else { above * 10 };
        let spread = spread(&self.cluster);
        balance.is_on = spread > most;
        if !balance.is_on {
            return Ok(None);
        }
        Ok(Some(Round::of(&self.cluster)))
    }

    /// How long it takes until it is seen what is free where something was moved away: it counts there until nobody is granted it.
    fn until_seen(&self) -> Duration {
        2 * (self.settings.life + SKEW)
    }

    fn choose(
        &mut self,
        batch: &mut Batch,
        now: Now,
        mut round: Round,
        rests_until: &mut Option<Moment>,
    ) -> Result<Option<Round>> {
        if is_any_hurried(&Draft::new(self.view()?, batch), &self.cluster)? {
            *rests_until = Some(now.moment + self.until_seen());
            return Ok(None);
        }
        let mut at = std::mem::take(&mut round.at);
        for (key, value) in self.page(keys::LAYOUTS, &mut at)? {
            let (file, layout): (FileId, Layout) = (FileId(keys::number(&key)), decode(&key, &value)?);
            let mut draft = Draft::new(self.view()?, batch);
            let Some(chosen) = round.component(&self.cluster, &draft, file, &layout, &*self.random)? else { continue };
            draft.put(keys::moves(file), &Moves(vec![chosen]))?;
            let drafted = draft.ready()?;
            batch.take(drafted);
            round.chosen += 1;
        }
        round.at = at;
        let is_over = round.at.is_empty() || round.budget.values().all(|left| *left == Bytes::ZERO);
        if is_over {
            *rests_until = Some(now.moment + if round.chosen == 0 { REST } else { self.until_seen() });
        }
        Ok((!is_over).then_some(round))
    }
}

impl Round {
    fn of(cluster: &Cluster) -> Round {
        let targets: Vec<(TargetId, Bytes, Bytes)> = uses(cluster).collect();
        let sum =
            |of: fn(&(TargetId, Bytes, Bytes)) -> Bytes| targets.iter().map(|one| u128::from(of(one).0)).sum::<u128>();
        let (size, used) = (sum(|one| one.1).max(1), sum(|one| one.2));
        let mut round = Round::default();
        for (target, size_of, used_of) in targets {
            // As much of it as of all together.
            let share = Bytes((u128::from(size_of.0) * used / size) as u64);
            if used_of > share {
                round.excess.insert(target, used_of - share);
                round.budget.insert(target, Bytes(size_of.0 / PARTS));
            } else {
                round.room.insert(target, share - used_of);
            }
        }
        round
    }

    /// A component of a file that is to be moved, and where to; then it is counted as moved.
    fn component(
        &mut self,
        cluster: &Cluster,
        draft: &Draft<'_>,
        file: FileId,
        layout: &Layout,
        random: &dyn forebay_env::Random,
    ) -> Result<Option<Move>> {
        let of =
            |budget: &BTreeMap<TargetId, Bytes>, target: &TargetId| budget.get(target).copied().unwrap_or_default();
        let there = layout.components().into_iter().filter(|(_, target)| of(&self.budget, target) > Bytes::ZERO);
        let Some((component, from)) = there.max_by_key(|(_, target)| of(&self.excess, target)) else { return Ok(None) };
        let inode = place::inode(draft, file)?;
        let is_at_rest = inode.written && inode.attributes.kind == FileKind::File && layout.absent.is_empty();
        let copies = layout.striping.raid().copies();
        let length = layout.striping.length_of(component / copies * copies, inode.attributes.size);
        // What is more than the excess would be too much elsewhere.
        if !is_at_rest || length == Bytes::ZERO || length > of(&self.excess, &from) || !is_unused(draft, file)? {
            return Ok(None);
        }
        let left: Option<Orders> = draft.read(&keys::leftovers(file))?;
        let is_left = |target: TargetId| left.iter().flat_map(|left| &left.pending).any(|(_, there)| *there == target);
        let is_fit = |target: TargetId| self.room.get(&target).is_some_and(|room| length <= *room) && !is_left(target);
        let Some(to) = placement::elsewhere(cluster, layout, component, is_fit, random) else { return Ok(None) };
        for (counts, target) in [(&mut self.excess, from), (&mut self.budget, from), (&mut self.room, to)] {
            counts.entry(target).and_modify(|left| *left = left.saturating_sub(length));
        }
        Ok(Some(Move { component, to, by: 0, even: true, former: false }))
    }
}

/// Whether nobody has a file open to write, or left it so, and nothing of it is moved.
fn is_unused(draft: &Draft<'_>, file: FileId) -> Result<bool> {
    let Writers(writers) = draft.read(&keys::writers(file))?.unwrap_or_default();
    let is_left = draft.read::<ToScrub>(&keys::to_scrub(file))?.is_some();
    Ok(writers.is_empty() && !is_left && draft.read::<Moves>(&keys::moves(file))?.is_none())
}

/// The targets on which something may be put: their sizes, and what is used of them.
fn uses(cluster: &Cluster) -> impl Iterator<Item = (TargetId, Bytes, Bytes)> {
    let open = cluster.targets.iter().filter(|(_, now)| cluster.is_open(now) && now.record.size > Bytes::ZERO);
    open.map(|(target, now)| (*target, now.record.size, now.record.size.saturating_sub(now.free)))
}

/// By how many thousandths the fullest target is used more than the emptiest.
fn spread(cluster: &Cluster) -> u64 {
    let shares = || uses(cluster).map(|(_, size, used)| (u128::from(used.0) * 1000 / u128::from(size.0)) as u64);
    shares().max().unwrap_or_default() - shares().min().unwrap_or_default()
}

#[cfg(test)]
mod tests;

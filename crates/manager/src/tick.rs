//! What time alone changes: nodes that are silent are down, clients that are silent are gone, what was answered long ago is
//! forgotten, and keys of targets are rolled. A part of each list at a time, so that a tick takes as long whatever there is.

mod callbacks;

use crate::cluster::{Effect, TargetNow, set_epochs};
use crate::draft::{Batch, Draft, View};
use crate::engine::Pair;
use crate::keys;
use crate::manager::{Manager, Now};
use crate::operations::{displace, give_up_lost, is_displaced, is_late, is_used_meanwhile, left, stay, stay_of_ring};
use crate::place;
use crate::records::{ClientRecord, Epochs, Layout, Moves, NOWHERE, Orders, RingMoves, ShutOutRecord, Writers, decode};
use crate::remembered::USED_EVERY;
use forebay_model::{Moment, Result, TargetId};
use forebay_wire::capability::SKEW;
use forebay_wire::control::cluster::{MOST_SHUT_OUT, TargetState};
use forebay_wire::control::names::FileId;
use std::collections::BTreeMap;
use std::time::Duration;

/// How much of a list is looked at in a tick.
const PAGE: usize = 1024;
/// How much is forgotten of a client at a time.
const FORGOTTEN: usize = 100;

/// What a tick found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ticked {
    /// Nodes that are down since now.
    pub down: Vec<u64>,
    /// Files that have to be scrubbed since now.
    pub left: Vec<FileId>,
    /// Clients that were forgotten.
    pub forgotten: Vec<u64>,
    /// Whether all targets have other keys since now.
    pub rolled: bool,
}

/// How far each list was looked through; empty: the next tick begins at its first key.
#[derive(Default)]
pub(crate) struct Rounds {
    /// When this manager was asked first what is due.
    began: Option<Moment>,
    writers: Vec<u8>,
    clients: Vec<u8>,
    fences: Vec<u8>,
    removals: Vec<u8>,
    leftovers: Vec<u8>,
    layouts: Vec<u8>,
    moves: Vec<u8>,
    ring_moves: Vec<u8>,
    /// What was counted in this round over the layouts on targets on which nothing is to stay.
    counts: BTreeMap<TargetId, Count>,
}

/// What is on a target on which nothing is to stay.
struct Count {
    components: u64,
    /// Files of which something is to be moved.
    to_move: u64,
    /// How often something else was thought of the target when the round began.
    turns: u64,
}

impl Manager {
    /// Does what is due. To be called every few seconds.
    pub fn tick(&mut self, now: Now) -> Result<Ticked> {
        let mut ticked = Ticked::default();
        let mut batch = self.batch();
        self.late_clients(&mut batch, now, &mut ticked)?;
        self.forget(&mut batch, now, &mut ticked)?;
        self.drop_orders(&mut batch, now)?;
        self.drop_shut_out(&mut batch, now)?;
        self.leave_targets(&mut batch, now)?;
        self.stay(&mut batch, now)?;
        self.even_out(&mut batch, now)?;
        self.callbacks_due(&mut batch, now)?;
        // The last, as in a report: they change what is in memory.
        self.roll_keys(&mut batch, now, &mut ticked)?;
        self.late_nodes(&mut batch, now, &mut ticked)?;
        self.commit(batch)?;
        Ok(ticked)
    }

    /// All targets have another key when that is due, and those that can be reached have the one before.
    fn roll_keys(&mut self, batch: &mut Batch, now: Now, ticked: &mut Ticked) -> Result<()> {
        let (every, last) = (self.settings.roll_every, self.cluster.epochs.rolled_at);
        // A clock that was set back far is not waited for.
        let is_due = now.wall.since(last) >= every || last.since(now.wall) > every;
        if !is_due || !self.cluster.has_newest_keys() {
            return Ok(());
        }
        let mut draft = Draft::new(self.view()?, batch);
        let rolled = self.cluster.epochs.rolled.saturating_add(1);
        set_epochs(&mut draft, Epochs { rolled, rolled_at: now.wall, ..self.cluster.epochs })?;
        let drafted = draft.ready()?;
        let effects = batch.take(drafted);
        self.change(effects);
        ticked.rolled = true;
        Ok(())
    }

    /// Clients need not be shut out any more when all that they had is over by the clock of each target.
    fn drop_shut_out(&mut self, batch: &mut Batch, now: Now) -> Result<()> {
        let (from, to) = keys::all(keys::SHUT_OUT);
        for (key, value) in self.view()?.scan(&from, &to, MOST_SHUT_OUT)? {
            let ShutOutRecord { until } = decode(&key, &value)?;
            if now.wall > until.after(SKEW) {
                let mut draft = Draft::new(self.view()?, batch);
                draft.delete(key);
                let drafted = draft.ready()?;
                batch.take(drafted);
            }
        }
        Ok(())
    }

    /// Nodes that have not reported in time are down.
    fn late_nodes(&mut self, batch: &mut Batch, now: Now, ticked: &mut Ticked) -> Result<()> {
        let timeout = self.settings.node_timeout;
        let mut late = Vec::new();
        for (node, state) in &mut self.cluster.nodes {
            // Since the manager was opened, a node has as long as any other to report.
            let reported = *state.reported.get_or_insert(now.moment);
            if state.record.up && now.moment.since(reported) > timeout {
                late.push((*node, state.record.clone()));
            }
        }
        for (node, mut record) in late {
            let mut draft = Draft::new(self.view()?, batch);
            record.up = false;
            draft.put(keys::node(node), &record)?;
            draft.effect(Effect::Node(node, Some(record)));
            self.cluster.raise_epoch(&mut draft)?;
            let drafted = draft.ready()?;
            let effects = batch.take(drafted);
            self.change(effects);
            ticked.down.push(node);
        }
        Ok(())
    }

    /// What clients that are gone have open to write has to be scrubbed.
    fn late_clients(&mut self, batch: &mut Batch, now: Now, ticked: &mut Ticked) -> Result<()> {
        let timeout = self.settings.client_timeout;
        let mut round = std::mem::take(&mut self.rounds.writers);
        let page = self.page(b'W', &mut round)?;
        for (key, value) in page {
            let Writers(writers) = decode(&key, &value)?;
            for writer in &writers {
                self.seen.entry(writer.client).or_insert(now.moment);
            }
            let is_silent = |seen: &Moment| now.moment.since(*seen) > timeout;
            let is_gone = |client| self.seen.get(&client).is_some_and(is_silent);
            let file = FileId(keys::number(&key));
            let mut draft = Draft::new(self.view()?, batch);
            let is_over = writers.iter().any(|writer| is_late(writer, now.wall))
                && is_used_meanwhile(place::inode(&draft, file)?.attributes.kind);
            if left(&mut draft, file, now.wall, |client| is_over || is_gone(client))? {
                let drafted = draft.ready()?;
                batch.take(drafted);
                ticked.left.push(file);
                self.callbacks.free(file);
            }
        }
        if round.is_empty() {
            // Whoever became late within this round is looked at in the next one, and must be known to be late then.
            self.seen.retain(|_, seen| now.moment.since(*seen) <= 2 * timeout);
        }
        self.rounds.writers = round;
        Ok(())
    }

    /// Forgets what clients were answered that have been silent for long: by the wall's clock, which may be set, and by what
    /// was heard of them lately: nobody is forgotten before this manager has been there for as long as a client may be silent. One
    /// that has files open to write is heard of, or soon has none.
    fn forget(&mut self, batch: &mut Batch, now: Now, ticked: &mut Ticked) -> Result<()> {
        let began = *self.rounds.began.get_or_insert(now.moment);
        if now.moment.since(began) < self.settings.client_timeout {
            return Ok(());
        }
        let kept: Duration = self.settings.remember + USED_EVERY;
        let mut round = std::mem::take(&mut self.rounds.clients);
        for (key, value) in self.page(b'C', &mut round)? {
            let record: ClientRecord = decode(&key, &value)?;
            let client = keys::number(&key);
            if now.wall.since(record.used) <= kept || self.seen.contains_key(&client) {
                continue;
            }
            let view = self.view()?;
            let answers = view.scan(&keys::remembered(client, 0), &keys::behind_remembered(client), FORGOTTEN)?;
            let mut draft = Draft::new(view, batch);
            let is_all = answers.len() < FORGOTTEN;
            answers.into_iter().for_each(|(key, _)| draft.delete(key));
            if is_all {
                draft.delete(key);
                ticked.forgotten.push(client);
            }
            let drafted = draft.ready()?;
            batch.take(drafted);
        }
        self.rounds.clients = round;
        Ok(())
    }

    /// Targets that are gone have nothing to do any more, once no capability counts with which one that is served all the same
    /// would answer.
    fn drop_orders(&mut self, batch: &mut Batch, now: Now) -> Result<()> {
        let is_gone = |now: &TargetNow| now.record.state == TargetState::Gone;
        if !self.cluster.targets.values().any(is_gone) {
            return Ok(());
        }
        let Rounds { fences, removals, leftovers, .. } = &mut self.rounds;
        let mut rounds = [fences, removals, leftovers].map(std::mem::take);
        let mut page = Vec::new();
        // Removals are due when that is so.
        let of_fences = self.settings.life + SKEW;
        let kinds = [(keys::FENCES, of_fences), (keys::REMOVALS, Duration::ZERO), (keys::LEFTOVERS, Duration::ZERO)];
        for ((prefix, counts), round) in kinds.into_iter().zip(&mut rounds) {
            page.extend(self.page(prefix, round)?.into_iter().map(|pair| (pair, counts)));
        }
        for ((key, value), counts) in page {
            let mut orders: Orders = decode(&key, &value)?;
            if orders.due.after(counts) > now.wall {
                continue;
            }
            let there = orders.pending.len();
            let is_over =
                |target: &TargetId| *target == NOWHERE || self.cluster.targets.get(target).is_some_and(is_gone);
            orders.pending.retain(|(_, target)| !is_over(target));
            if orders.pending.len() == there {
                continue;
            }
            let mut draft = Draft::new(self.view()?, batch);
            draft.put_unless(orders.pending.is_empty(), key, &orders)?;
            let drafted = draft.ready()?;
            batch.take(drafted);
        }
        [self.rounds.fences, self.rounds.removals, self.rounds.leftovers] = rounds;
        Ok(())
    }

    /// What lies on targets that are lost is not read any more, and rebuilt elsewhere; what lies on those that drain is moved.
    /// What is there of both is counted.
    fn leave_targets(&mut self, batch: &mut Batch, now: Now) -> Result<()> {
        let is_left = |now: &TargetNow| now.record.state != TargetState::Up;
        if !self.cluster.targets.values().any(is_left) {
            self.rounds.layouts.clear();
            self.rounds.counts.clear();
            return Ok(());
        }
        let mut round = std::mem::take(&mut self.rounds.layouts);
        let mut counts = std::mem::take(&mut self.rounds.counts);
        if round.is_empty() {
            let left = self.cluster.targets.iter().filter(|(_, now)| is_left(now));
            let none = |now: &TargetNow| Count { components: 0, to_move: 0, turns: now.turns };
            counts = left.map(|(target, now)| (*target, none(now))).collect();
        }
        for (key, value) in self.page(keys::LAYOUTS, &mut round)? {
            let (file, layout): (FileId, Layout) = (FileId(keys::number(&key)), decode(&key, &value)?);
            let mut draft = Draft::new(self.view()?, batch);
            let ring: RingMoves = draft.read(&keys::ring_moves(file))?.unwrap_or_default();
            let is_displaced = is_displaced(&self.cluster, &layout, &ring);
            let is_new = is_displaced && displace(&mut draft, file)?;
            let is_moved = is_displaced && draft.read::<Moves>(&keys::moves(file))?.is_some();
            for target in layout.targets.iter().copied().chain(ring.places().map(|(_, target)| target)) {
                counts.entry(target).and_modify(|count| {
                    count.components += 1;
                    count.to_move += u64::from(is_moved);
                });
            }
            if give_up_lost(&mut draft, &self.cluster, file, layout, ring, (now, &self.settings))? || is_new {
                let drafted = draft.ready()?;
                batch.take(drafted);
            }
        }
        if round.is_empty() {
            for (target, Count { components, to_move, turns }) in std::mem::take(&mut counts) {
                let there = self.cluster.targets.get_mut(&target).filter(|now| now.turns == turns);
                there.into_iter().for_each(|now| (now.left, now.to_move) = (Some(components), Some(to_move)));
            }
        }
        (self.rounds.layouts, self.rounds.counts) = (round, counts);
        Ok(())
    }

    /// What was to be moved stays, if its target is used again, or others can be moved as well.
    fn stay(&mut self, batch: &mut Batch, now: Now) -> Result<()> {
        let mut round = std::mem::take(&mut self.rounds.moves);
        for (key, _) in self.page(keys::MOVES, &mut round)? {
            let file = FileId(keys::number(&key));
            let mut draft = Draft::new(self.view()?, batch);
            // As this tick has changed it: what it took off is not put back.
            let Some(moves) = draft.read::<Moves>(&key)? else { continue };
            if stay(&mut draft, &self.cluster, file, moves, (now, &self.settings))? {
                let drafted = draft.ready()?;
                batch.take(drafted);
            }
        }
        self.rounds.moves = round;
        let mut round = std::mem::take(&mut self.rounds.ring_moves);
        for (key, _) in self.page(keys::RING_MOVES, &mut round)? {
            let mut draft = Draft::new(self.view()?, batch);
            let Some(moves) = draft.read::<RingMoves>(&key)? else { continue };
            if stay_of_ring(&mut draft, &self.cluster, FileId(keys::number(&key)), moves, (now, &self.settings))? {
                let drafted = draft.ready()?;
                batch.take(drafted);
            }
        }
        self.rounds.ring_moves = round;
        Ok(())
    }

    /// The next part of a list, and where the one behind it begins.
    pub(crate) fn page(&self, prefix: u8, round: &mut Vec<u8>) -> Result<Vec<Pair>> {
        let (first, to) = keys::all(prefix);
        let from = if round.is_empty() { first } else { std::mem::take(round) };
        let page = self.view()?.scan(&from, &to, PAGE)?;
        if page.len() == PAGE
            && let Some((last, _)) = page.last()
        {
            *round = [last.as_slice(), &[0]].concat();
        }
        Ok(page)
    }
}

#[cfg(test)]
mod tests;

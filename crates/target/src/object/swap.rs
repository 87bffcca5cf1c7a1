//! Logs change places: what still counts in a hot log, one near the arm, is copied to a cold one, so that the hot one can
//! be written to again (Manylogs, 2016, section 3.4). One sequential read and few sequential writes, where taking it
//! home would scatter it; what was overwritten meanwhile is not copied, and nothing has to come back from the cold log.
//!
//! Order of durable steps: a record in the cold log with the blocks behind it, which is copy and change of the map in
//! one; then a checkpoint, whenever it comes; only then is the hot log written to from its beginning. A crash before the
//! record leaves the blocks where they were; one after it leaves them twice, and the record counts.
//!
//! Done in pauses, in steps of 1 MiB that give up when somebody comes; without a pause only when all logs near the arm
//! are full, and never where a ring records meanwhile.

use super::Objects;
use super::gather::Loose;
use super::home::rows_of;
use super::record::Change;
use super::rows::Crcs;
use forebay_model::{Kind, ObjectId, Result};
use std::collections::BTreeMap;

/// Blocks that are copied in one step, with the record before them: what cannot be taken back is kept small.
const STEP: usize = 248;

impl Objects {
    /// Empties a log near the arm into one further away, in a pause or if all near ones are full. Whether anything was
    /// done.
    pub(super) async fn swap_one(&self, pause: bool, promised: bool) -> Result<bool> {
        if !pause && promised {
            return Ok(false);
        }
        let (hot, pressed) = {
            let work = self.work.borrow();
            let (logs, tracker) = (&work.meta.logs, self.core.disk.tracker());
            let pressed = logs.pressed(tracker, |group| self.core.has_log(group));
            let hot = logs.hot(tracker, self.core.with_objects(|objects| objects.settings.hot_percent));
            (hot.filter(|_| pause || pressed), pressed)
        };
        let Some((group, filled)) = hot else {
            if pressed && !promised && self.work.borrow().meta.logs.any_to_settle() {
                self.checkpoint().await?;
                return Ok(true);
            }
            return Ok(false);
        };
        self.homing_alone(self.swap(group, filled, pause && !pressed)).await?;
        Ok(true)
    }

    async fn swap(&self, group: u32, filled: u32, gives_up: bool) -> Result<()> {
        let (bytes, _) = self.read_log(self.stream, group, 0, filled).await?;
        let mut lying = self.lying_in(group, &bytes);
        // What cannot be told of stays, and its log with it.
        self.bring_readable(&mut lying).await?;
        {
            let work = self.work.borrow();
            lying.retain(|l| work.counts(l));
        }
        let mut logged = self.core.disk.counters().logged;
        let mut copied = 0;
        for step in lying.chunks(STEP) {
            let now = self.core.disk.counters().logged;
            if gives_up && now != logged {
                // Somebody came.
                return Ok(());
            }
            copied += self.copy_past_damage(step).await?;
            logged = self.core.disk.counters().logged;
        }
        let mut work = self.work.borrow_mut();
        if copied > 0 {
            work.counters.swaps += 1;
        } else {
            work.leave_if_stuck(group, filled);
        }
        Ok(())
    }

    /// As [`Objects::copy`]; where rows cannot be read, object by object: those stay where they are.
    async fn copy_past_damage(&self, lying: &[Loose<'_>]) -> Result<u64> {
        match self.copy(lying).await {
            Err(error) if error.kind == Kind::Damaged => {}
            copied => return copied,
        }
        let mut all = 0;
        for of in lying.chunk_by(|a, b| a.id == b.id) {
            match self.copy(of).await {
                Err(error) if error.kind == Kind::Damaged => {}
                copied => all += copied?,
            }
        }
        Ok(all)
    }

    /// Copies those of `lying` that still count to a cold log. How many.
    async fn copy(&self, lying: &[Loose<'_>]) -> Result<u64> {
        self.bring(&rows_of(lying)).await?;
        let mut still: Vec<&Loose<'_>> = {
            let work = self.work.borrow();
            lying.iter().filter(|l| work.counts(l)).collect()
        };
        if still.is_empty() {
            return Ok(0);
        }
        self.prepared(&copies(&still)).await?;
        {
            // Users may have been quicker: what they changed stays as they made it. Of the others the rows may be gone.
            let work = self.work.borrow();
            still.retain(|l| work.counts(l));
        }
        if still.is_empty() {
            return Ok(0);
        }
        let mut content = still.iter().map(|l| l.from.bytes()).collect::<Vec<_>>().concat();
        let blocks = still.len() as u64;
        let Some(number) = self.enact_away(&copies(&still), &mut content)? else { return Ok(0) };
        self.durable(number).await?;
        self.work.borrow_mut().counters.swapped += blocks;
        Ok(blocks)
    }
}

/// What a record says of blocks that follow it, in their order.
fn copies(lying: &[&Loose<'_>]) -> Vec<Change> {
    let mut runs: BTreeMap<ObjectId, Vec<(u64, Crcs)>> = BTreeMap::new();
    for l in lying {
        let of = runs.entry(l.id).or_default();
        match of.last_mut().filter(|(first, crcs)| first + crcs.0.len() as u64 == l.block) {
            Some((_, crcs)) => crcs.0.push(l.crc),
            None => of.push((l.block, Crcs(vec![l.crc]))),
        }
    }
    runs.into_iter().map(|(id, logged)| Change::Copy { id, logged }).collect()
}

#[cfg(test)]
mod tests;

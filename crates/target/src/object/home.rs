//! What lies in logs goes home: lazily, sorted, in steps.
//!
//! Order of durable steps: blocks at home, flush, the record that says so. Until that record is durable the blocks in
//! the log count, so that a step that was cut off is done again. Nothing is locked: what users change meanwhile is left
//! out of the record, and blocks that they free are not taken by others before the step ends.

use super::apply::touching;
use super::gather::{Chunk, Loose, newest, pieces};
use super::record::{Change, Found};
use super::rows::{BLOCK, Crcs, Key, Part, Piece, Row};
use super::space::Run;
use super::write::Taken;
use super::{Objects, Work, replay};
use forebay_model::block::crc32c;
use forebay_model::{Kind, ObjectId, Result, TargetId};
use std::rc::Rc;
use std::time::Duration;

/// Blocks that are taken home in one step: what cannot be taken back is kept small.
const STEP: usize = 1024;
/// How long nothing else is done before what lies in logs goes home.
const QUIET: Duration = Duration::from_secs(1);

impl Objects {
    /// Takes home what lies in the logs, the fullest log first, and frees them. Blocks taken home.
    pub async fn take_home(&self) -> Result<u64> {
        let mut homed = 0;
        loop {
            let Some((group, filled)) = self.work.borrow().meta.logs.fullest() else { break };
            let before = self.counters().homed;
            self.empty_log(group, filled).await?;
            // What was emptied is free only after this, and the next one may need the room.
            self.checkpoint().await?;
            let now = self.counters().homed - before;
            homed += now;
            // What is not durable yet does not go home; what is damaged does not either, and then the next log is next.
            if now == 0 && self.work.borrow().meta.logs.fullest().is_some_and(|(next, _)| next == group) {
                break;
            }
        }
        Ok(homed)
    }

    /// Takes home what lies in logs for as long as there is something: when nothing else was done for a while, or when
    /// half of the room for records is filled.
    pub(super) async fn tend(self: Rc<Self>) {
        let mut before = self.core.disk.counters();
        while self.alive().is_ok() && !self.work.borrow().stopping && self.work.borrow().meta.logs.live() > 0 {
            self.core.disk.env().clock.sleep(QUIET).await;
            let now = self.core.disk.counters();
            let moved = |c: &crate::schedule::Counters| c.guaranteed + c.normal + c.logged;
            let quiet = moved(&now) == moved(&before);
            before = now;
            let fullest = {
                let work = self.work.borrow();
                let logs = &work.meta.logs;
                let crowded = logs.filled_in_all() * 2 > u64::from(logs.capacity()) * self.core.logs();
                logs.fullest().filter(|_| quiet || crowded)
            };
            let Some((group, filled)) = fullest else { continue };
            let step = async {
                self.empty_log(group, filled).await?;
                self.checkpoint().await
            };
            match step.await {
                // A record had no room: after the next checkpoint it has.
                Err(error) if error.kind == Kind::Full => {}
                Err(_) if self.work.borrow().stopping => return,
                Err(error) => return self.fail(error),
                Ok(()) => {}
            }
            before = self.core.disk.counters();
        }
        self.work.borrow_mut().tending = false;
    }

    /// Leaves the logs of groups that are free now: what counts in them goes home, and opening does not look there.
    pub(crate) async fn leave_logs(&self, groups: &[u32]) -> Result<()> {
        if !groups.iter().any(|group| self.uses_log(*group)) {
            return Ok(());
        }
        self.ready().await?;
        for group in groups {
            let (filled, live) = self.work.borrow().meta.logs.state(*group);
            if live > 0 {
                self.empty_log(*group, filled).await?;
            }
        }
        self.checkpoint().await
    }

    /// Whether anything in the log of a group may count.
    pub(crate) fn uses_log(&self, group: u32) -> bool {
        let work = self.work.borrow();
        work.meta.logs.state(group).0 > 0 || work.meta.logs.is_open(group)
    }

    /// Empties the logs, so that there is room for a record: for all who wait for that at once.
    pub(super) async fn make_room(&self) -> Result<()> {
        if self.work.borrow().making_room {
            self.changed.until(|| !self.work.borrow().making_room || self.work.borrow().failure.is_some()).await;
            return self.alive();
        }
        self.work.borrow_mut().making_room = true;
        let result = self.make_room_alone().await;
        self.work.borrow_mut().making_room = false;
        self.changed.notify();
        result
    }

    async fn make_room_alone(&self) -> Result<()> {
        let filled = || self.work.borrow().meta.logs.filled_in_all();
        let before = filled();
        let homed = match self.take_home().await {
            Err(error) if error.kind != Kind::Full => return Err(error),
            homed => homed,
        };
        // Where there is no room at home, logs of which nothing is needed any more are some.
        self.checkpoint().await?;
        if filled() < before { Ok(()) } else { homed.map(|_| ()) }
    }

    pub(super) async fn empty_log(&self, group: u32, filled: u32) -> Result<()> {
        self.changed.until(|| !self.work.borrow().homing || self.work.borrow().failure.is_some()).await;
        self.work.borrow_mut().homing = true;
        let result = self.empty_log_alone(group, filled).await;
        self.work.borrow_mut().homing = false;
        self.release();
        self.changed.notify();
        result
    }

    async fn empty_log_alone(&self, group: u32, filled: u32) -> Result<()> {
        let (bytes, _) = self.read_log(group, 0, filled).await?;
        let start = self.work.borrow().meta.logs.at(group, 0);
        let mut lying = Vec::new();
        replay::scan(TargetId(self.core.target_id()), group, 0, &bytes, |found| {
            let Found::Record(record) = found else { return };
            let mut block_in_log = record.stamp.block + record.blocks;
            for change in &record.changes {
                let Change::Write(write) = change else { continue };
                for (first, crcs) in &write.logged {
                    for n in 0..crcs.0.len() as u64 {
                        let from = block_in_log as usize * BLOCK.0 as usize;
                        let bytes = &bytes[from..from + BLOCK.0 as usize];
                        let at = start + u64::from(block_in_log);
                        lying.push(Loose { id: write.id, block: first + n, at, crc: crc32c(bytes), bytes });
                        block_in_log += 1;
                    }
                }
            }
        });
        newest(&mut lying);
        for step in lying.chunks(STEP) {
            self.step_home(step).await?;
        }
        let mut work = self.work.borrow_mut();
        let Work { meta, unwritten, .. } = &mut *work;
        let whole = meta.logs.at(group, 0)..meta.logs.at(group, meta.logs.capacity());
        let (now, live) = meta.logs.state(group);
        if live > 0 && now == filled && unwritten.range(whole).next().is_none() {
            meta.logs.set_stuck(group);
        }
        Ok(())
    }

    /// Takes those of `lying` home that still count.
    async fn step_home(&self, lying: &[Loose<'_>]) -> Result<()> {
        let ranges: Vec<(Key, Key)> = lying.iter().flat_map(|l| touching(l.id, l.block, l.block + 1)).collect();
        let ids = lying.chunk_by(|a, b| a.id == b.id && a.block + 1 == b.block);
        let all: Vec<Change> = ids.map(|run| over(run[0].id, run[0].block, run.len() as u64)).collect();
        self.bring(&ranges).await?;
        self.bring_for(&all).await?;
        // Where each lies at home, and where it goes: over that if it is its own alone, or to fresh blocks.
        let mut homes: Vec<(&Loose<'_>, Option<u64>, Option<u64>)> = {
            let work = self.work.borrow();
            let home = |l: &Loose<'_>| work.meta.home_of(l.id, l.block);
            let own = |home: &u64| !work.meta.is_shared(*home);
            lying.iter().filter(|l| work.counts(l)).map(|l| (l, home(l), home(l).filter(own))).collect()
        };
        let in_place: Vec<bool> = homes.iter().map(|(_, _, to)| to.is_some()).collect();
        let fresh: Vec<&Loose<'_>> = homes.iter().filter(|(_, _, to)| to.is_none()).map(|(l, ..)| *l).collect();
        let chunk = |of: &[&Loose<'_>]| {
            let size = self.work.borrow().head(of[0].id).map_or(0, |head| head.size.div_ceil(BLOCK.0));
            let at_end = of.last().is_some_and(|last| last.block + 1 == size);
            Chunk { id: of[0].id, first: of[0].block, blocks: of.len() as u64, at_end }
        };
        let chunks: Vec<Chunk> = fresh.chunk_by(|a, b| a.id == b.id).map(chunk).collect();
        let taken = self.places(&chunks, false).await?;
        let mut blocks = taken.iter().flat_map(|taken| &taken.runs).flat_map(|run| run.at..run.end());
        homes.iter_mut().filter(|(_, _, to)| to.is_none()).for_each(|(_, _, to)| *to = blocks.next());
        let placed: Vec<(u64, Loose<'_>)> = homes.iter().filter_map(|(l, _, to)| Some(((*to)?, **l))).collect();
        self.write_placed(self.stream, &placed).await?;
        let all = moves(homes.iter().filter_map(|(l, _, to)| Some((*l, (*to)?))));
        if all.is_empty() {
            return Ok(());
        }
        self.prepared(&all).await?;
        // Users may have been quicker: what they changed stays as they made it.
        let (changes, homed, unused) = {
            let work = self.work.borrow();
            let still = |l: &Loose<'_>, was: Option<u64>| work.counts(l) && work.meta.home_of(l.id, l.block) == was;
            let mut kept = Vec::new();
            let mut unused = Vec::new();
            for ((l, was, to), in_place) in homes.iter().zip(&in_place) {
                let Some(to) = *to else { continue };
                if still(l, *was) {
                    kept.push((*l, to));
                } else if !*in_place {
                    unused.push(Run { at: to, blocks: 1 });
                }
            }
            (moves(kept.iter().copied()), kept.len() as u64, unused)
        };
        if changes.is_empty() {
            return Ok(());
        }
        let number = self.enact(&changes, &[], true)?;
        taken.iter().for_each(Taken::keep);
        {
            let mut work = self.work.borrow_mut();
            unused.into_iter().for_each(|run| work.meta.data.give(run));
        }
        self.durable(number).await?;
        self.work.borrow_mut().counters.homed += homed;
        Ok(())
    }
}

/// A change that lets go what lies at home in `blocks` blocks of an object: what has to be in memory for that.
fn over(id: ObjectId, first: u64, blocks: u64) -> Change {
    Change::Move { id, pieces: vec![(first, Piece { at: 0, crcs: Crcs(vec![0; blocks as usize]) })] }
}

/// What a record says of blocks that are at these places now.
fn moves<'a>(homes: impl Iterator<Item = (&'a Loose<'a>, u64)>) -> Vec<Change> {
    let pieces = pieces(homes.map(|(l, home)| (home, l)));
    pieces.into_iter().map(|(id, pieces)| Change::Move { id, pieces }).collect()
}

impl Work {
    /// Whether what lies there is what its object has there now, durably.
    fn counts(&self, l: &Loose<'_>) -> bool {
        let row = self.meta.tree.get(&Key::logged(l.id, l.block));
        matches!(row, Some(Row::Logged(row)) if row.at == l.at && row.crc == l.crc)
            && !self.unwritten.contains_key(&l.at)
    }
}

impl super::apply::Meta {
    /// The device's block where a block of an object lies at home, if it does. Its rows must be in memory.
    fn home_of(&self, id: ObjectId, block: u64) -> Option<u64> {
        let [(from, to), _] = touching(id, block, block + 1);
        self.tree.range(from, to).find_map(|(key, row)| match (key.part, row) {
            (Part::Piece(first), Row::Piece(piece)) if first <= block && block < first + piece.blocks() => {
                Some(piece.at + block - first)
            }
            _ => None,
        })
    }
}

//! Records on their way to the logs: many commands, one write, one flush.
//!
//! Order of durable steps: writes home that a record points to, flush, the record, flush. A record counts only when all
//! before it do, so records may be in several logs. Where nothing rotates, each batch of records is one write that is
//! durable when it ends, and several are under way side by side: a device that has one thing to do at a time idles
//! between. They may end in any order; what is acknowledged, and what may go home, is what has no hole before it.

use super::apply::needs;
use super::given::Kept;
use super::record::{Change, Draft, Stamp, finish};
use super::rows::{BLOCK, Key};
use super::{CHANGED_ROWS, Objects, Work, logs};
use crate::schedule::LOGS_IN_FLIGHT;
use forebay_env::Buffer;
use forebay_model::{Bytes, Error, Kind, Result};
use std::rc::Rc;
use std::time::Duration;

/// Bytes written to a log at once where each write costs a turn.
const MOST_AT_ONCE: u64 = Bytes::mib(1).0;

/// The same where nothing turns: what comes together is parted, so that several writes are under way.
const MOST_AT_ONCE_FLAT: u64 = Bytes::kib(64).0;

/// How long records are gathered where each write costs a turn.
const GATHER: Duration = Duration::from_micros(200);

/// How long no record comes before a checkpoint covers those that came.
const QUIET: Duration = Duration::from_secs(1);

/// How long one waits at least where it takes turns that rings were promised, or where what lies in logs is to go home before it.
const WITHOUT_HASTE: Duration = Duration::from_secs(60);

/// The blocks that one record redirects, until they are durable.
pub(super) struct Content {
    /// Where the first of them will lie.
    pub(super) at: u64,
    /// Their bytes.
    pub(super) bytes: Kept,
}

impl Content {
    /// How many blocks.
    pub(super) fn blocks(&self) -> u64 {
        self.bytes.len() as u64 / BLOCK.0
    }

    /// The one that lies at block `at` of the device.
    pub(super) fn block(&self, at: u64) -> &[u8] {
        &self.bytes[((at - self.at) * BLOCK.0) as usize..][..BLOCK.0 as usize]
    }
}

/// A record that has taken effect in memory. Until it is written, commands may join it.
pub(super) struct Queued {
    number: u64,
    group: u32,
    block: u32,
    /// Header and body.
    record: Draft,
    contents: Vec<Rc<Content>>,
    /// Blocks of content.
    data: u32,
    commands: u64,
    /// How many writes home have to be durable before it.
    after_home: u64,
}

/// Records that are written together.
pub(super) struct Batch {
    records: Rc<Vec<Queued>>,
    /// Whether the device has taken them: what follows them in the log may come.
    taken: bool,
    /// Whether they are on the device; they are durable when those before them are, too.
    written: bool,
}

impl Queued {
    fn blocks(&self) -> u32 {
        self.record.blocks() + self.data
    }

    /// Whether a command with so many blocks may share the header.
    fn takes(&self, record: &Draft, data: u32, most: u64) -> bool {
        self.record.has_room_for(record) && u64::from(self.blocks() + data) * BLOCK.0 <= most
    }
}

impl Objects {
    /// Waits until nothing stands in the way of a command, and the leaves that its changes touch are in memory.
    pub(super) async fn prepared(&self, changes: &[Change]) -> Result<()> {
        let ranges: Vec<_> = changes.iter().flat_map(needs).collect();
        self.prepared_for(changes, &ranges).await
    }

    /// As [`Objects::prepared`], where it is known in which ranges of rows the changes look.
    pub(super) async fn prepared_for(&self, changes: &[Change], ranges: &[(Key, Key)]) -> Result<()> {
        loop {
            self.alive()?;
            if self.work.borrow().stopping {
                return Err(Error::busy("the target is being closed; open it again"));
            }
            self.bring_all(changes, ranges).await?;
            let (open, looked_at) = {
                let work = self.work.borrow();
                (work.meta.logs.open(), work.meta.logs.looked_at())
            };
            // A command opens one more, and so does a checkpoint.
            if open == 0 || looked_at + 2 > logs::MOST_OPEN {
                // One checkpoint for all who wait for it.
                let under_way = self.work.borrow().checkpointing;
                if under_way {
                    self.changed.changed().await
                } else {
                    self.checkpoint().await?
                }
                continue;
            }
            // Nothing was waited for since they were brought.
            if !self.work.borrow().gate_closed {
                return Ok(());
            }
            self.changed.changed().await;
        }
    }

    /// Makes changes take effect and queues their record, with `content` as the blocks it redirects; or adds both to the
    /// last record, if that still waits and has room: one header is enough for all that goes out together. After
    /// [`Objects::prepared`], without a wait between. What empties logs or makes room may use their `reserve`. The
    /// record's number; `content` is taken, unless there is an error.
    pub(super) fn enact(&self, changes: &[Change], content: &mut Vec<u8>, reserve: bool) -> Result<u64> {
        self.enact_draft(changes, Draft::of(changes)?, content, reserve)
    }

    /// As [`Objects::enact`], with the changes as they are in a record.
    pub(super) fn enact_draft(
        &self,
        changes: &[Change],
        record: Draft,
        content: &mut Vec<u8>,
        reserve: bool,
    ) -> Result<u64> {
        let mut work = self.work.borrow_mut();
        let (head, data) = (record.blocks(), (content.len() as u64 / BLOCK.0) as u32);
        let usable = |group: u32| self.core.has_log(group);
        let joined = work.join(&record, data, self.most_at_once(), reserve, usable);
        let (number, at) = match joined {
            Some(at) => (work.last, at),
            None => {
                let largest = u64::from(work.meta.logs.largest());
                if u64::from(head + data) > largest {
                    return Err(Error::usage(format!(
                        "a record of {} is too large for a log of this target, which takes {}; ask for less at once",
                        BLOCK * u64::from(head + data),
                        BLOCK * largest
                    )));
                }
                let stay = !work.queue.is_empty();
                let place = work.meta.logs.place(head + data, self.core.disk.tracker(), stay, reserve, usable);
                let Some(logs::Spot { group, block, opens }) = place else {
                    return Err(Error::full(format!(
                        "no log of the target has room for a record of {}; wait until blocks were taken home",
                        BLOCK * u64::from(head + data)
                    )));
                };
                if !opens.is_empty() {
                    work.open(opens)?;
                }
                let at = work.meta.logs.at(group, block) + u64::from(head);
                (work.queue_at(group, block, Draft::of(&[])?), at)
            }
        };
        self.put(&mut work, changes, content, record, (number, at))?;
        // What empties logs is asked for by nobody.
        work.asked += u64::from(!reserve);
        drop(work);
        self.queued.notify();
        Ok(number)
    }

    /// As [`Objects::enact`], in a log away from the arm; the record's number, if there is such a log.
    pub(super) fn enact_away(&self, changes: &[Change], content: &mut Vec<u8>) -> Result<Option<u64>> {
        let mut work = self.work.borrow_mut();
        let record = Draft::of(changes)?;
        let (head, data) = (record.blocks(), (content.len() as u64 / BLOCK.0) as u32);
        let cold = work.meta.logs.cold(self.core.disk.tracker(), head + data, |group| self.core.has_log(group));
        let Some(spot) = cold.and_then(|group| work.meta.logs.place_in(group, head + data)) else { return Ok(None) };
        if !spot.opens.is_empty() {
            work.open(spot.opens)?;
        }
        let at = work.meta.logs.at(spot.group, spot.block) + u64::from(head);
        let number = work.queue_at(spot.group, spot.block, Draft::of(&[])?);
        self.put(&mut work, changes, content, record, (number, at))?;
        drop(work);
        self.queued.notify();
        Ok(Some(number))
    }

    /// Makes changes take effect, and puts them with their content into the last record, which has `number`; the
    /// content will lie at block `at` of the device.
    fn put(
        &self,
        work: &mut Work,
        changes: &[Change],
        content: &mut Vec<u8>,
        record: Draft,
        (number, at): (u64, u64),
    ) -> Result<()> {
        let data = (content.len() as u64 / BLOCK.0) as u32;
        let mut data_at = at;
        let mut freed = Vec::new();
        let unshared = work.meta.unshared;
        for change in changes {
            freed.extend(work.meta.apply(change, &mut data_at)?);
            work.counters.mended += work.wrong.heed(change);
        }
        if !freed.is_empty() {
            work.limbo.push_back((number, freed));
        }
        let after_home = if changes.iter().any(Change::points_home) { work.written_home } else { 0 };
        let content = (data > 0).then(|| Rc::new(Content { at, bytes: std::mem::take(content).into() }));
        if let Some(content) = &content {
            (0..u64::from(data)).for_each(|n| drop(work.unwritten.insert(at + n, content.clone())));
        }
        let queued = work.queue.back_mut().expect("it was queued, or is the one that was joined");
        queued.record.append(record);
        if !changes.is_empty() {
            work.meant = number;
        }
        if work.meta.unshared != unshared {
            work.unshared = number;
        }
        queued.data += data;
        queued.commands += 1;
        queued.contents.extend(content);
        queued.after_home = queued.after_home.max(after_home);
        Ok(())
    }

    /// Waits until record `number` is durable.
    pub(super) async fn durable(&self, number: u64) -> Result<()> {
        loop {
            if self.work.borrow().durable >= number {
                return Ok(());
            }
            self.alive()?;
            self.written.reached(number).await;
        }
    }

    /// Writes what is queued, for as long as the target is open.
    pub(super) async fn write_records(self: &Rc<Self>) -> Result<()> {
        loop {
            self.alive()?;
            let rotates = self.core.disk.rotates();
            let (empty, under_way, taken) = {
                let work = self.work.borrow();
                let taken = work.batches.back().is_none_or(|last| last.taken);
                (work.queue.is_empty(), work.batches.len(), taken)
            };
            if empty && under_way == 0 && self.work.borrow().stopping {
                return Ok(());
            }
            // Of what costs turns the device gets one at a time, with all that came meanwhile. While it makes that
            // durable it may take the next, which lies right behind; but a promise leaves no time for longer flushes.
            let most = if rotates && self.core.disk.is_promised() { 1 } else { LOGS_IN_FLIGHT };
            if empty || under_way >= most || rotates && !taken {
                self.queued.changed().await;
                continue;
            }
            if rotates {
                // What comes together goes together: a turn of a disk is fifty times as long.
                self.core.disk.env().clock.sleep(GATHER).await;
            }
            self.write_queued(rotates);
            self.see_to_logs();
        }
    }

    fn most_at_once(&self) -> u64 {
        if self.core.disk.rotates() { MOST_AT_ONCE } else { MOST_AT_ONCE_FLAT }
    }

    /// Begins what keeps logs few and what is in memory small, if it is time.
    fn see_to_logs(self: &Rc<Self>) {
        let (crowded, idle) = {
            let mut work = self.work.borrow_mut();
            work.meta.tree.trim();
            let crowded = work.meta.logs.open() >= logs::MANY_OPEN || work.changed_rows() > CHANGED_ROWS;
            let tends = !work.tending && work.meta.logs.live() > 0;
            work.tending |= tends;
            (crowded && !work.checkpointing, tends)
        };
        self.see_to_cover();
        self.see_to_haste();
        let spawner = &self.core.disk.env().spawner;
        if idle {
            spawner.detach(self.clone().tend());
        }
        if crowded {
            let this = self.clone();
            spawner.detach(async move {
                match this.checkpoint().await {
                    // Commands that need it are refused; the logs keep what there is.
                    Err(error) if error.kind != Kind::Full => this.fail(error),
                    _ => {}
                }
            });
        }
    }

    /// Begins to write records that are queued, as many as go out at once.
    fn write_queued(self: &Rc<Self>, rotates: bool) {
        let (batch, home, durable) = {
            let mut work = self.work.borrow_mut();
            let mut size = 0;
            let mut batch = Vec::new();
            while let Some(next) = work.queue.front()
                && (batch.is_empty() || size + u64::from(next.blocks()) * BLOCK.0 <= self.most_at_once())
            {
                size += u64::from(next.blocks()) * BLOCK.0;
                batch.extend(work.queue.pop_front());
            }
            let home = batch.iter().map(|queued| queued.after_home).max().unwrap_or(0);
            let batch = Rc::new(batch);
            work.batches.push_back(Batch { records: batch.clone(), taken: false, written: false });
            (batch, home, work.durable)
        };
        let this = self.clone();
        self.core.disk.env().spawner.detach(async move {
            match this.write_batch(&batch, home, durable, rotates).await {
                Ok(()) => this.batch_written(&batch),
                Err(error) => this.fail(error),
            }
        });
    }

    /// Writes records, and makes them durable.
    async fn write_batch(&self, batch: &Rc<Vec<Queued>>, home: u64, durable: u64, rotates: bool) -> Result<()> {
        if self.work.borrow().flushed_home < home {
            self.flush().await?;
        }
        let mut from = 0;
        while from < batch.len() {
            let mut to = from + 1;
            let follows = |a: &Queued, b: &Queued| a.group == b.group && a.block + a.blocks() == b.block;
            while to < batch.len() && follows(&batch[to - 1], &batch[to]) {
                to += 1;
            }
            self.write_run(&batch[from..to], durable, !rotates).await?;
            from = to;
        }
        if rotates {
            if let Some(this) = self.work.borrow_mut().batch(batch) {
                this.taken = true;
            }
            self.queued.notify();
            self.flush().await?;
        }
        Ok(())
    }

    /// A batch is on the device. It counts when all before it are there, too.
    fn batch_written(&self, batch: &Rc<Vec<Queued>>) {
        let durable = {
            let mut work = self.work.borrow_mut();
            if let Some(this) = work.batch(batch) {
                this.written = true;
            }
            let Work { batches, unwritten, durable, counters, .. } = &mut *work;
            while batches.front().is_some_and(|batch| batch.written) {
                let Batch { records, .. } = batches.pop_front().expect("it is there");
                *durable = records.last().map_or(*durable, |last| last.number);
                counters.records += records.len() as u64;
                counters.commands += records.iter().map(|queued| queued.commands).sum::<u64>();
                counters.syncs += 1;
                for content in records.iter().flat_map(|queued| &queued.contents) {
                    let blocks = content.bytes.len() as u64 / BLOCK.0;
                    (content.at..content.at + blocks).for_each(|at| drop(unwritten.remove(&at)));
                }
            }
            *durable
        };
        self.release();
        self.written.to(durable);
        self.queued.notify();
        self.changed.notify();
    }

    /// Sees to it that a checkpoint covers the records that came, when no more come for a while: until then they are the
    /// only copy of what they say, no scrub looks at them, and one of them that rots costs all objects at the next crash;
    /// and the last of them could not be told from one that nobody was told of. Where something goes home, the checkpoint
    /// behind that does it, if it comes.
    fn see_to_cover(self: &Rc<Self>) {
        if std::mem::replace(&mut self.work.borrow_mut().covering, true) {
            return;
        }
        let this = self.clone();
        self.core.disk.env().spawner.detach(async move {
            let clock = this.core.disk.env().clock.clone();
            let latest = clock.now() + WITHOUT_HASTE;
            let is_due = loop {
                let last = this.work.borrow().last;
                clock.sleep(QUIET).await;
                let takes_turns = this.takes_turns();
                let work = this.work.borrow();
                if work.stopping || work.failure.is_some() || !this.has_uncovered(&work) {
                    break false;
                }
                let soon = !takes_turns && work.meta.logs.fullest(false, 1).is_empty();
                if work.last == last && (soon || clock.now() >= latest) {
                    break true;
                }
            };
            this.work.borrow_mut().covering = false;
            if is_due {
                match this.checkpoint().await {
                    // Where there is no room for rows, the records keep what there is; and closing makes one, too.
                    Err(error) if error.kind != Kind::Full && !this.work.borrow().stopping => this.fail(error),
                    _ => {}
                }
            }
        });
    }

    /// Whether a record that changed something is newer than the last checkpoint.
    fn has_uncovered(&self, work: &Work) -> bool {
        self.core.with_objects(|objects| objects.number) < work.meant
    }

    /// Whether a checkpoint would take turns that others wait for, who write durably or rebuild.
    fn takes_turns(&self) -> bool {
        self.core.disk.rotates() && self.core.disk.is_promised()
    }

    /// Makes a checkpoint, if records are newer than the last one and it takes no turns; if there is no room for it, they stay.
    pub(super) async fn cover(&self) -> Result<()> {
        let is_due = self.has_uncovered(&self.work.borrow()) && !self.takes_turns();
        match if is_due { self.checkpoint().await } else { Ok(()) } {
            Err(error) if error.kind == Kind::Full => Ok(()),
            covered => covered,
        }
    }

    /// Makes free what was freed by records that are durable, unless something may still be written there.
    pub(super) fn release(&self) {
        let mut work = self.work.borrow_mut();
        let Work { limbo, meta, durable, homing, .. } = &mut *work;
        while let Some((number, _)) = limbo.front()
            && number <= durable
            && !*homing
        {
            let (_, runs) = limbo.pop_front().expect("it is there");
            runs.into_iter().for_each(|run| meta.data.give(run));
        }
    }

    /// Records that follow one another in a log.
    async fn write_run(&self, run: &[Queued], durable: u64, durably: bool) -> Result<()> {
        let blocks: u64 = run.iter().map(|queued| u64::from(queued.blocks())).sum();
        let fits = BLOCK * blocks <= super::pool::LARGE;
        let mut buffer = if fits { self.pooled(blocks)? } else { Buffer::alone(BLOCK * blocks)? };
        let mut at = 0;
        for queued in run {
            let record = queued.record.encode()?;
            let end = at + record.len();
            buffer[at..end].copy_from_slice(&record);
            let stamp = Stamp {
                mark: self.core.mark(),
                epoch: self.core.epoch(),
                number: queued.number,
                durable,
                group: queued.group,
                block: queued.block,
            };
            finish(&mut buffer[at..end], &stamp, queued.data);
            at = end;
            for content in &queued.contents {
                buffer[at..at + content.bytes.len()].copy_from_slice(&content.bytes);
                at += content.bytes.len();
            }
        }
        let at = self.work.borrow().meta.logs.at(run[0].group, run[0].block);
        self.core.disk.write_log(BLOCK * at, buffer, durably).await.1
    }

    /// Where each flush costs turns: makes durable what was written home before its record is queued, so that no other
    /// record waits for that. Elsewhere a batch that waits keeps none from going out beside it.
    pub(super) async fn flush_home(&self) -> Result<()> {
        if self.core.disk.rotates() { self.flush().await } else { Ok(()) }
    }

    /// Makes durable what was written.
    pub(super) async fn flush(&self) -> Result<()> {
        let home = self.work.borrow().written_home;
        self.core.disk.flush().await?;
        let mut work = self.work.borrow_mut();
        work.flushed_home = work.flushed_home.max(home);
        Ok(())
    }
}

impl Work {
    /// The batch under way with these records.
    fn batch(&mut self, records: &Rc<Vec<Queued>>) -> Option<&mut Batch> {
        self.batches.iter_mut().find(|batch| Rc::ptr_eq(&batch.records, records))
    }

    /// The device's block for the content of a command that joins the last record, if that takes it.
    fn join(
        &mut self,
        record: &Draft,
        data: u32,
        most: u64,
        reserve: bool,
        usable: impl Fn(u32) -> bool,
    ) -> Option<u64> {
        let last = self.queue.back().filter(|last| last.takes(record, data, most) && usable(last.group))?;
        let (group, end) = (last.group, last.block + last.blocks());
        self.meta.logs.extend(group, end, data, reserve).then(|| self.meta.logs.at(group, end))
    }

    /// Queues a record at its place, as the next one; its number.
    fn queue_at(&mut self, group: u32, block: u32, record: Draft) -> u64 {
        self.last += 1;
        let (number, after_home, contents) = (self.last, 0, Vec::new());
        self.queue.push_back(Queued { number, group, block, record, contents, data: 0, commands: 0, after_home });
        number
    }

    /// Queues the record that names logs to which others are about to be written.
    pub(super) fn open(&mut self, groups: Vec<u32>) -> Result<()> {
        // Twice: nothing else leads to those logs, and if one record rots the other leads to what proves that it was
        // there.
        let places = [self.meta.logs.place_opening(), self.meta.logs.place_opening()];
        assert!(places[0].is_some(), "a log is open, and keeps blocks for this");
        self.meta.logs.named(&groups);
        for (group, block) in places.into_iter().flatten() {
            let record = Draft::of(&[Change::Opens(groups.clone())])?;
            self.queue_at(group, block, record);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

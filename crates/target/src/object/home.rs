//! What lies in logs goes home: lazily, sorted, in steps.
//!
//! Several logs go together: what newer ones supersede drops out, and what is near each other at home is written in one
//! go. As long as there is time each block goes to where its object has it. When the logs are nearly full, what would lie
//! scattered over a disk that turns goes to fresh places in one run instead: a reader finds it as far away as it was in
//! the log, and whoever writes need not wait for a thousand ways of the arm.
//!
//! From then on it comes sooner than its turn among readers and writers: beside a promise a turn may be half a minute away,
//! and who writes small things durably would wait for that as soon as the logs are full.
//!
//! What goes home only since nobody else is there makes way for who comes: it takes short steps where each block is a way of
//! the arm, and ends after the one under way, or before the next log is read, when others have asked for something since.
//!
//! Order of durable steps: the records by which a block at home is nobody else's, blocks at home, flush, the record that says
//! so. Until that record is durable the blocks in the log count, so that a step that was cut off is done again. Nothing is locked: what users change meanwhile is left
//! out of the record, and blocks that they free are not taken by others before the step ends.
//!
//! What cannot be told of, since its rows cannot be read, stays where it is, and with it its log: all else goes home.

use super::apply::touching;
use super::gather::{Chunk, Loose, Origin, newest, pieces};
use super::record::{Change, Found};
use super::rows::{BLOCK, Crcs, Key, Piece, Row};
use super::space::Run;
use super::write::Taken;
use super::{Objects, Work, replay};
use crate::schedule::{Counters, StreamId};
use forebay_model::block::crc32c;
use forebay_model::{Bytes, Error, Kind, ObjectId, Result};
use std::rc::Rc;
use std::time::Duration;

/// Blocks that are taken home in one step: what cannot be taken back is kept small.
const STEP: usize = 1024;
/// Runs of blocks apart from each other that are taken home in one step by who makes way for others, where each run is a way
/// of the arm: a third of a second, with the flush behind them.
const RUNS: usize = 32;
/// Blocks of logs that are read into memory to be taken home together: 32 MiB.
const TOGETHER: u32 = 8192;
/// From here on logs are emptied beside everything else: percent of their room that is filled.
const CROWDED: u64 = 50;
/// Logs that are emptied until a checkpoint where nothing turns: percent of their room. With half of it filled by what
/// is needed, there is some left before logs are nearly full.
const SETTLED_TOGETHER: u64 = 20;
/// From here on what is scattered does not go where it was, and what goes home waits for no long turns of others.
const PRESSED: u64 = 75;
/// Blocks that lie together at home are not scattered: they take longer than the way to them.
const GATHERED: usize = 32;
/// How long nothing else is done before what lies in logs goes home.
const QUIET: Duration = Duration::from_secs(1);
/// How long nothing else is done before logs change places (Manylogs, 2016: 100 ms).
const PAUSE: Duration = Duration::from_millis(100);

impl Objects {
    /// Takes home what lies in the logs, the fullest logs first, and frees them; but for what is to stay there. Blocks
    /// taken home.
    pub async fn take_home(&self) -> Result<u64> {
        self.take_home_of(false, 0).await
    }

    /// As [`Objects::take_home`], of `all` that lies in logs or of what may go; until the logs are filled with less than
    /// `enough` blocks.
    async fn take_home_of(&self, all: bool, enough: u64) -> Result<u64> {
        let mut homed = 0;
        while self.work.borrow().meta.logs.filled_in_all() >= enough {
            let logs = self.work.borrow().meta.logs.fullest(all, TOGETHER);
            if logs.is_empty() {
                break;
            }
            let now = self.empty_logs(&logs, all, None).await?;
            homed += now;
            // What was emptied is free only after this, and the next ones may need the room.
            self.checkpoint().await?;
            // What is not durable yet does not go home; what is damaged does not either, and then others are next.
            if now == 0 && self.work.borrow().meta.logs.fullest(all, TOGETHER) == logs {
                break;
            }
        }
        Ok(homed)
    }

    /// Sees to what lies in logs for as long as there is something: takes it home when nothing else was done for a
    /// while, or when half of the room for records is filled; has logs change places in shorter pauses.
    pub(super) async fn tend(self: Rc<Self>) {
        let clock = self.core.disk.env().clock.clone();
        let mut before = self.core.disk.counters();
        let mut busy = clock.now();
        let mut waits = true;
        while self.alive().is_ok() && !self.work.borrow().stopping && self.work.borrow().meta.logs.live() > 0 {
            // Where nothing turns, what is scattered costs no more: there it goes on until there is room.
            if waits || self.core.disk.rotates() || !self.logs_crowded() {
                clock.sleep(PAUSE).await;
            }
            let now = self.core.disk.counters();
            if moved(&now) != moved(&before) {
                busy = clock.now();
            }
            let promised = now.guaranteed != before.guaranteed;
            before = now;
            let idle = clock.now().since(busy);
            self.see_to_haste();
            let crowded = self.logs_crowded();
            let logs = match crowded || idle >= QUIET {
                true => self.work.borrow().meta.logs.fullest(false, TOGETHER),
                false => Vec::new(),
            };
            let others = self.others();
            let step = async {
                if logs.is_empty() {
                    if self.settles_together() && self.settling_pays() {
                        self.checkpoint().await?;
                    }
                    let swapped = self.swap_one(idle >= PAUSE, promised).await?;
                    return Ok::<_, Error>(if swapped { Tended::Did(0) } else { Tended::Nothing });
                }
                // Done only since nobody else was there.
                let gives_up = || self.others() != others;
                let lazily: Option<&dyn Fn() -> bool> = if crowded { None } else { Some(&gives_up) };
                let homed = self.empty_logs(&logs, false, lazily).await?;
                if !crowded && gives_up() {
                    // They do not wait for a checkpoint, either: one comes with the next pause.
                    return Ok(Tended::MadeWay);
                }
                if !crowded || self.settling_pays() {
                    self.checkpoint().await?;
                }
                Ok(Tended::Did(homed))
            };
            waits = true;
            match step.await {
                // A record had no room: after the next checkpoint it has.
                Err(error) if error.kind == Kind::Full => {}
                Err(_) if self.work.borrow().stopping => return,
                Err(error) => return self.fail(error),
                // What others did meanwhile is seen in the next pause.
                Ok(Tended::Did(homed)) => {
                    before = self.core.disk.counters();
                    waits = homed == 0;
                }
                Ok(Tended::MadeWay) => {
                    before = self.core.disk.counters();
                    busy = clock.now();
                }
                Ok(Tended::Nothing) => {}
            }
        }
        self.work.borrow_mut().tending = false;
        self.see_to_haste();
    }

    /// What others have asked for than those who take home what lies in logs: bytes of the device, and commands.
    fn others(&self) -> (Bytes, u64) {
        let now = self.core.disk.counters();
        let work = self.work.borrow();
        ((now.guaranteed + now.normal).saturating_sub(work.own), work.asked)
    }

    /// Counts what is asked of the device for `stream`, if that is for what goes home, or for rows.
    pub(super) fn count_own(&self, stream: StreamId, bytes: Bytes) {
        if stream == self.stream {
            self.work.borrow_mut().own += bytes;
        }
    }

    /// Whether so much lies in logs that it goes home beside everything else.
    fn logs_crowded(&self) -> bool {
        let spent = if self.settles_together() { self.work.borrow().meta.logs.spent() } else { 0 };
        self.work.borrow().meta.logs.filled_to(CROWDED, self.core.logs(), spent)
    }

    /// Whether one checkpoint makes many emptied logs room again: where nothing turns it is the larger part of going
    /// home, as it encodes all rows beside those that changed.
    fn settles_together(&self) -> bool {
        !self.core.disk.rotates()
    }

    /// Whether the logs that are empty but for a checkpoint are worth one.
    fn settling_pays(&self) -> bool {
        let logs = &self.work.borrow().meta.logs;
        let much = u64::from(logs.capacity()) * self.core.logs() * SETTLED_TOGETHER / 100;
        !self.settles_together() || logs.spent() >= much
    }

    fn logs_filled_to(&self, percent: u64) -> bool {
        self.work.borrow().meta.logs.filled_to(percent, self.core.logs(), 0)
    }

    /// Nothing more is written to the logs of these groups until they are let go: they are about to be none.
    pub(crate) fn bar_logs(&self, groups: &[u32], barred: bool) {
        self.work.borrow_mut().meta.logs.bar(groups, barred);
    }

    /// Leaves the logs of groups: what counts in them goes home, and opening does not look there.
    pub(crate) async fn leave_logs(&self, groups: &[u32]) -> Result<()> {
        if !groups.iter().any(|group| self.uses_log(*group)) {
            return Ok(());
        }
        self.ready().await?;
        for group in groups {
            let (filled, live) = self.work.borrow().meta.logs.state(*group);
            if live > 0 {
                self.empty_logs(&[(*group, filled)], true, None).await?;
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
            let before = self.work.borrow().meta.logs.filled_in_all();
            let is_over = || {
                let work = self.work.borrow();
                !work.making_room || work.meta.logs.filled_in_all() < before || work.failure.is_some()
            };
            self.changed.until(is_over).await;
            return self.alive();
        }
        self.work.borrow_mut().making_room = true;
        self.see_to_haste();
        let result = self.make_room_alone().await;
        self.work.borrow_mut().making_room = false;
        self.see_to_haste();
        self.changed.notify();
        result
    }

    /// Has what goes home come before the turns of others while somebody waits for room in the logs or soon may, also
    /// if it is under way since before that.
    pub(super) fn see_to_haste(&self) {
        let hastened = self.work.borrow().making_room || self.logs_filled_to(PRESSED);
        self.core.disk.hasten(hastened.then_some(self.stream));
    }

    async fn make_room_alone(&self) -> Result<()> {
        let filled = || self.work.borrow().meta.logs.filled_in_all();
        let before = filled();
        // What goes home already, or is about to be free, may be enough.
        let under_way = self.work.borrow().homing;
        if under_way {
            self.changed.until(|| !self.work.borrow().homing || self.work.borrow().failure.is_some()).await;
            self.checkpoint().await?;
        } else {
            self.changed.until(|| !self.work.borrow().checkpointing || self.work.borrow().failure.is_some()).await;
        }
        if filled() < before {
            return Ok(());
        }
        let mut homed = Ok(0);
        // What is to stay in logs goes home only if nothing else makes room.
        for all in [false, true] {
            homed = match self.take_home_of(all, before).await {
                Err(error) if error.kind != Kind::Full => return Err(error),
                homed => homed,
            };
            // Where there is no room at home, logs of which nothing is needed any more are some.
            if filled() >= before {
                self.checkpoint().await?;
            }
            if filled() < before {
                return Ok(());
            }
        }
        homed.map(|_| ())
    }

    /// Takes home what lies in logs that are filled so far; what is to stay in logs only if it is `all`; until it
    /// gives up, if it makes way for others. Blocks taken home.
    pub(super) async fn empty_logs(
        &self,
        logs: &[(u32, u32)],
        all: bool,
        gives_up: Option<&dyn Fn() -> bool>,
    ) -> Result<u64> {
        self.homing_alone(self.empty_logs_alone(logs, all, gives_up)).await
    }

    /// Does one step that moves what lies in logs, when no other is under way.
    pub(super) async fn homing_alone<T>(&self, step: impl Future<Output = Result<T>>) -> Result<T> {
        self.changed.until(|| !self.work.borrow().homing || self.work.borrow().failure.is_some()).await;
        self.work.borrow_mut().homing = true;
        let counted = self.at_work();
        let result = step.await;
        drop(counted);
        self.work.borrow_mut().homing = false;
        self.release();
        self.changed.notify();
        result
    }

    async fn empty_logs_alone(
        &self,
        logs: &[(u32, u32)],
        all: bool,
        gives_up: Option<&dyn Fn() -> bool>,
    ) -> Result<u64> {
        let before = self.counters().homed;
        let given_up = || gives_up.is_some_and(|gives_up| gives_up());
        let mut contents = Vec::new();
        for (group, filled) in logs {
            if given_up() {
                return Ok(0);
            }
            contents.push(self.read_log(self.stream, *group, 0, *filled).await?.0);
        }
        let in_logs = logs.iter().zip(&contents);
        let mut lying: Vec<Loose<'_>> = in_logs.flat_map(|((group, _), bytes)| self.lying_in(*group, bytes)).collect();
        // Of one that lies in several logs only the newest counts, wherever that is.
        lying.sort_by_key(|l| (l.id, l.block));
        let mut staying = Vec::new();
        if !all {
            let stay = self.staying(lying.iter().map(|l| l.id).collect()).await?;
            (staying, lying) = lying.into_iter().partition(|l| stay.contains(&l.id));
        }
        let (mut last, mut left) = (None, Vec::new());
        let runs = if gives_up.is_some() && self.core.disk.rotates() { RUNS } else { STEP };
        let mut steps = steps(&lying, runs);
        for step in steps.by_ref() {
            last = self.step_past_damage(step, &mut left).await?.or(last);
            if given_up() {
                break;
            }
        }
        let gave_up = steps.next().is_some();
        if let Some(number) = last {
            self.durable(number).await?;
        }
        left.extend(self.bring_readable(&mut staying).await?);
        let mut work = self.work.borrow_mut();
        for (group, filled) in logs {
            let (start, end) = (work.meta.logs.at(*group, 0), work.meta.logs.at(*group, *filled));
            let stays = staying.iter().filter(|l| (start..end).contains(&l.at) && work.counts(l)).count() as u32;
            if stays > 0 {
                // What was left stays with them, or the log would be read over and over for it.
                let left = left.iter().filter(|l| (start..end).contains(&l.at)).count() as u32;
                work.meta.logs.set_staying(*group, stays + left);
            } else if !gave_up {
                work.leave_if_stuck(*group, *filled);
            }
        }
        Ok(work.counters.homed - before)
    }

    /// The blocks that lie in a log, whether they still count or not, in the order of their objects.
    pub(super) fn lying_in<'a>(&self, group: u32, bytes: &'a [u8]) -> Vec<Loose<'a>> {
        let start = self.work.borrow().meta.logs.at(group, 0);
        let mut lying = Vec::new();
        replay::scan(self.core.mark(), group, 0, bytes, |found| {
            let Found::Record(record) = found else { return };
            let mut block_in_log = record.stamp.block + record.blocks;
            for change in &record.changes {
                let Some((id, logged)) = change.logged() else { continue };
                for (first, crcs) in logged {
                    for n in 0..crcs.0.len() as u64 {
                        let from = block_in_log as usize * BLOCK.0 as usize;
                        let bytes = &bytes[from..from + BLOCK.0 as usize];
                        let at = start + u64::from(block_in_log);
                        lying.push(Loose { id, block: first + n, at, crc: crc32c(bytes), from: Origin::Plain(bytes) });
                        block_in_log += 1;
                    }
                }
            }
        });
        newest(&mut lying);
        lying
    }

    /// Brings the rows that tell where these lie to memory. Those whose rows cannot be read are taken out, object by
    /// object, and returned: what is damaged is in the way of nothing else.
    pub(super) async fn bring_readable<'a>(&self, lying: &mut Vec<Loose<'a>>) -> Result<Vec<Loose<'a>>> {
        let mut damaged = Vec::new();
        loop {
            match self.bring(&rows_of(lying)).await {
                Err(error) if error.kind == Kind::Damaged => {}
                brought => return brought.map(|()| damaged),
            }
            let mut readable = Vec::with_capacity(lying.len());
            for of in lying.chunk_by(|a, b| a.id == b.id) {
                match self.bring(&rows_of(of)).await {
                    Err(error) if error.kind == Kind::Damaged => damaged.extend_from_slice(of),
                    brought => {
                        brought?;
                        readable.extend_from_slice(of);
                    }
                }
            }
            *lying = readable;
        }
    }

    /// As [`Objects::step_home`]; where rows cannot be read, object by object. Those that stay for that are added to
    /// `left`: who reads them is told.
    async fn step_past_damage<'a>(&self, lying: &[Loose<'a>], left: &mut Vec<Loose<'a>>) -> Result<Option<u64>> {
        match self.step_home(lying).await {
            Err(error) if error.kind == Kind::Damaged => {}
            homed => return homed,
        }
        let mut last = None;
        for of in lying.chunk_by(|a, b| a.id == b.id) {
            match self.step_home(of).await {
                Err(error) if error.kind == Kind::Damaged => left.extend_from_slice(of),
                homed => last = homed?.or(last),
            }
        }
        Ok(last)
    }

    /// Takes those of `lying` home that still count. The number of the record that says so, if there is one.
    async fn step_home(&self, lying: &[Loose<'_>]) -> Result<Option<u64>> {
        let ranges: Vec<(Key, Key)> = lying.iter().flat_map(|l| touching(l.id, l.block, l.block + 1)).collect();
        let ids = lying.chunk_by(|a, b| a.id == b.id && a.block + 1 == b.block);
        let all: Vec<Change> = ids.map(|run| over(run[0].id, run[0].block, run.len() as u64)).collect();
        self.bring(&ranges).await?;
        self.bring_for(&all).await?;
        // Where each lies at home, and where it goes: over that if it is its own alone, or to fresh blocks.
        let (mut homes, unshared): (Vec<Home<'_, '_>>, u64) = {
            let work = self.work.borrow();
            let home = |l: &Loose<'_>| work.meta.home_of(l.id, l.block);
            let own = |home: &u64| !work.meta.is_shared(*home);
            // A change of what has no head is refused when others of its record have taken effect.
            let counts = |l: &&Loose<'_>| work.counts(l) && work.meta.head(l.id).is_some();
            let homes = lying.iter().filter(counts).map(|l| (l, home(l), home(l).filter(own)));
            (homes.collect(), work.unshared)
        };
        if self.core.disk.rotates() && self.logs_filled_to(PRESSED) {
            let together = |a: &Home<'_, '_>, b: &Home<'_, '_>| a.2.is_some() && a.2.map(|at| at + 1) == b.2;
            let scattered = homes.chunk_by_mut(together).filter(|run| run.len() < GATHERED);
            scattered.flatten().for_each(|(_, _, to)| *to = None);
        }
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
        if in_place.contains(&true) {
            // A block that another object let go is still that one's after a crash that takes back what let it go.
            self.durable(unshared).await?;
        }
        self.write_placed(self.stream, &placed).await?;
        let all = moves(homes.iter().filter_map(|(l, _, to)| Some((*l, (*to)?))));
        if all.is_empty() {
            return Ok(None);
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
            return Ok(None);
        }
        let number = self.enact(&changes, &mut Vec::new(), true)?;
        taken.iter().for_each(Taken::keep);
        {
            let mut work = self.work.borrow_mut();
            unused.into_iter().for_each(|run| work.meta.data.give(run));
        }
        self.work.borrow_mut().counters.homed += homed;
        Ok(Some(number))
    }
}

/// What came of a look at what lies in logs.
enum Tended {
    /// There was nothing to do yet.
    Nothing,
    /// Something was done, and so many blocks went home.
    Did(u64),
    /// Others came.
    MadeWay,
}

/// Cuts blocks that are to go home into steps: of [`STEP`] blocks at most, and of so many runs that follow one another in
/// their object.
fn steps<'a, 'b>(mut lying: &'a [Loose<'b>], runs: usize) -> impl Iterator<Item = &'a [Loose<'b>]> {
    std::iter::from_fn(move || {
        let most = &lying[..lying.len().min(STEP)];
        let follows = |pair: &[Loose<'_>]| pair[0].id == pair[1].id && pair[0].block + 1 == pair[1].block;
        let mut ends = (1..).zip(most.windows(2)).filter(|(_, pair)| !follows(pair)).map(|(end, _)| end);
        let (step, rest) = lying.split_at(ends.nth(runs - 1).unwrap_or(most.len()));
        lying = rest;
        (!step.is_empty()).then_some(step)
    })
}

/// A block, where it lies at home, and where it goes.
type Home<'a, 'b> = (&'a Loose<'b>, Option<u64>, Option<u64>);

/// Where the rows are that tell where these lie.
pub(super) fn rows_of(lying: &[Loose<'_>]) -> Vec<(Key, Key)> {
    lying.iter().map(|l| (Key::logged(l.id, l.block), Key::logged(l.id, l.block))).collect()
}

/// What a device did for others than those who move what lies in logs.
fn moved(counters: &Counters) -> Bytes {
    counters.guaranteed + counters.normal + counters.logged
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
    /// After all was taken out of a log that can be: what is left in it cannot.
    pub(super) fn leave_if_stuck(&mut self, group: u32, filled: u32) {
        let Work { meta, unwritten, .. } = self;
        let whole = meta.logs.at(group, 0)..meta.logs.at(group, meta.logs.capacity());
        let (now, live) = meta.logs.state(group);
        if live > 0 && now == filled && unwritten.range(whole).next().is_none() {
            meta.logs.set_stuck(group);
        }
    }

    /// Whether what lies there is what its object has there now, durably.
    pub(super) fn counts(&self, l: &Loose<'_>) -> bool {
        let row = self.meta.tree.get(&Key::logged(l.id, l.block));
        matches!(row, Some(Row::Logged(row)) if row.at == l.at && row.crc == l.crc)
            && !self.unwritten.contains_key(&l.at)
    }
}

impl super::apply::Meta {
    /// The device's block where a block of an object lies at home, if it does. Its rows must be in memory.
    fn home_of(&self, id: ObjectId, block: u64) -> Option<u64> {
        self.pieces(id, block, block + 1).next().map(|(first, piece)| piece.at + block - first)
    }
}

#[cfg(test)]
mod tests;

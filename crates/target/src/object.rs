//! Objects on a target: bytes and attributes under a 128-bit id, with commands that are atomic and, once acknowledged,
//! durable.
//!
//! Owns everything that is known of objects ([`apply::Meta`]) and the journal through which it changes. A command goes
//! like this: its large bytes are written to fresh blocks at home; then, in one step without waiting, its changes take
//! effect in memory and its record, with its small bytes behind it, is queued for the nearest log; when the log is
//! durable it is acknowledged. Order of durable steps: bytes at home, flush, record, flush. Nothing at home is
//! overwritten that a durable record still points to: freed blocks are taken again only when the record that freed them
//! is durable.
//!
//! [`rows`], [`tree`], [`space`], [`record`], [`logs`], [`apply`], [`inline`], [`ahead`], [`cache`] and [`audit`] do not
//! wait and do no I/O; the others do: [`write`] and [`commands`] change objects, [`behind`] buffers, [`gather`] brings
//! together what goes home, [`read`] reads, [`scrub`] looks for rot, [`journal`] makes records durable, [`checkpoint`],
//! [`home`], [`swap`] and [`replay`] see to it that logs are few.

pub mod ahead;
pub mod apply;
pub mod audit;
pub mod behind;
pub mod cache;
mod checkpoint;
mod commands;
mod gather;
pub mod given;
mod home;
pub mod inline;
mod journal;
pub mod lent;
pub mod logs;
pub mod memory;
mod pool;
mod quota;
mod read;
pub mod record;
pub mod repair;
mod replay;
pub mod rows;
mod scrub;
pub mod settings;
pub mod share;
pub mod snapshot;
pub mod space;
mod stretch;
mod swap;
pub mod tree;
mod upkeep;
mod volumes;
mod write;
mod wrong;

pub use commands::{Attribute, Extent, Found, Placement, attribute_weight};
pub use forebay_model::object::Scope;
pub use memory::Memory;
pub use read::{CACHE, MOST_READ, ReadCounters};
pub use write::How;

use crate::promise::{Mark, Signal};
use crate::schedule::StreamId;
use crate::target::Core;
use apply::Meta;
use forebay_model::{Bytes, Error, Kind, ObjectId, Result};
use logs::Logs;
use rows::{BLOCK, Key};
use space::{Run, Space};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;
use tree::{LeafRecord, Tree};

/// Bytes of changed rows, as they are written, at which a checkpoint is made, whatever else is to be done.
const CHANGED_ROWS: usize = 16 << 20;

/// The objects of a target, on its loop.
pub struct Objects {
    core: Rc<Core>,
    stream: StreamId,
    /// What is written behind: a turn of it is no turn of what goes home, which others may wait for.
    behind: StreamId,
    work: RefCell<Work>,
    /// Who reads on, and what was read ahead for them.
    reading: RefCell<read::Reading>,
    /// What it may hold in memory.
    memory: Cell<Memory>,
    /// Something that was read ahead has come, or will not.
    came: Signal,
    /// Something changed that somebody may wait for: a record is durable, bytes went home, a gate has opened.
    changed: Signal,
    /// A command has ended that kept an object to itself.
    unlocked: Signal,
    queued: Signal,
    /// Up to which record all are durable.
    written: Mark,
    /// Bytes were buffered.
    taken_in: Signal,
}

pub(crate) struct Work {
    pub(crate) meta: Meta,
    /// Whether the logs were read; before, nothing is known.
    ready: bool,
    /// Commands do not take effect while it is closed.
    gate_closed: bool,
    /// Records to be written, oldest first.
    queue: VecDeque<journal::Queued>,
    /// Records being written, oldest first.
    batches: VecDeque<journal::Batch>,
    /// Number of the last record that took effect, and of the last that is durable.
    last: u64,
    durable: u64,
    /// Number of the last record that changed something, and of the last by which shared blocks belong to fewer.
    meant: u64,
    unshared: u64,
    /// Content of logged blocks that are not durable yet, by where they will lie.
    unwritten: BTreeMap<u64, Rc<journal::Content>>,
    /// Freed blocks, by the record that freed them.
    limbo: VecDeque<(u64, Vec<Run>)>,
    /// Blocks taken by commands that have not taken effect.
    taken: BTreeMap<u64, Vec<Run>>,
    next_ticket: u64,
    /// Room behind objects that grow: taken by nobody else as long as there is other room.
    reserved: BTreeMap<ObjectId, Run>,
    /// What is buffered.
    behind: behind::Behind,
    /// Objects with a command under way that changes them.
    locked: BTreeSet<ObjectId>,
    /// Writes home that have ended, and how many of them a flush has covered.
    written_home: u64,
    flushed_home: u64,
    checkpointing: bool,
    /// Somebody takes groups for rows, and for bytes.
    taking: [bool; 2],
    /// A step from a log home is under way: what is freed meanwhile is not free before its end.
    homing: bool,
    making_room: bool,
    /// Somebody sees to it that what lies in logs goes home.
    tending: bool,
    /// Bytes that were asked of the device for what goes home and for rows; commands that took effect, and reads that came.
    own: Bytes,
    asked: u64,
    /// Somebody waits until no more records come, to have a checkpoint cover those that came.
    covering: bool,
    stopping: bool,
    failure: Option<Error>,
    upkeep: upkeep::Upkeep,
    /// Bytes of the catalog for the names of leaves, as of the last checkpoint.
    names: Bytes,
    /// What was found to be damaged.
    wrong: wrong::Wrong,
    counters: Counters,
}

impl Work {
    /// Whether a leaf with keys in any of these ranges is not in memory.
    fn lacks(&self, ranges: &[(Key, Key)]) -> bool {
        ranges.iter().any(|(from, to)| self.meta.tree.missing(*from, *to).is_some())
    }
}

/// What has been done since opening.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Records made durable.
    pub records: u64,
    /// Commands in them: those that came together share a record.
    pub commands: u64,
    /// Flushes that made them so.
    pub syncs: u64,
    /// Blocks taken home from logs.
    pub homed: u64,
    /// Logs that were emptied into others, and the blocks that were copied for that.
    pub swaps: u64,
    /// See [`Counters::swaps`].
    pub swapped: u64,
    /// Checkpoints of the map.
    pub checkpoints: u64,
    /// Time in which such a checkpoint, a step home or a change of logs was under way, whatever went on beside it.
    pub upkeep: Duration,
    /// Reads that found a block damaged, or that could not be read.
    pub damaged: u64,
    /// Such blocks that were written again since.
    pub mended: u64,
    /// Blocks of logs that were read to find what the map did not have.
    pub replayed: u64,
}

impl Objects {
    /// The objects that the catalog tells of. [`Objects::run`] makes them ready.
    pub(crate) fn new(core: Rc<Core>) -> Rc<Objects> {
        let layout = core.layout();
        let record = core.with_objects(Clone::clone);
        let mut meta = Meta {
            tree: Tree::new(forebay_model::TargetId(core.target_id()), &record.leaves),
            data: Space::new(layout),
            tables: Space::new(layout),
            logs: Logs::new(layout, &record.logs, &record.open),
            buffered: BTreeMap::new(),
            unshared: 0,
        };
        meta.logs.set_near(record.settings.near_groups);
        // Where that cannot be told, the first checkpoint says why.
        let names = core.room_for_objects().map_or(Bytes(u64::MAX), |room| room.kept);
        let (stream, behind) = (core.next_stream(), core.next_stream());
        Rc::new(Objects {
            core,
            stream,
            behind,
            work: RefCell::new(Work {
                meta,
                ready: false,
                gate_closed: false,
                queue: VecDeque::new(),
                batches: VecDeque::new(),
                last: record.number,
                durable: record.number,
                meant: record.number,
                unshared: record.number,
                unwritten: BTreeMap::new(),
                limbo: VecDeque::new(),
                taken: BTreeMap::new(),
                next_ticket: 0,
                reserved: BTreeMap::new(),
                behind: behind::Behind::default(),
                locked: BTreeSet::new(),
                written_home: 0,
                flushed_home: 0,
                checkpointing: false,
                taking: [false; 2],
                homing: false,
                making_room: false,
                tending: false,
                own: Bytes::ZERO,
                asked: 0,
                covering: false,
                stopping: false,
                failure: None,
                upkeep: upkeep::Upkeep::default(),
                names,
                wrong: wrong::Wrong::default(),
                counters: Counters::default(),
            }),
            reading: read::Reading::new(Bytes(record.settings.cache), Memory::default().reads),
            memory: Cell::default(),
            came: Signal::default(),
            changed: Signal::default(),
            unlocked: Signal::default(),
            queued: Signal::default(),
            written: Mark::default(),
            taken_in: Signal::default(),
        })
    }

    /// Reads the logs, then writes records as they come, until the target closes.
    pub(crate) async fn run(self: Rc<Self>) {
        let result = match self.replay().await {
            Ok(()) => {
                self.work.borrow_mut().ready = true;
                self.changed.notify();
                let spawner = &self.core.disk.env().spawner;
                let (full, in_time) = (self.clone(), self.clone());
                spawner.detach(async move { full.flush_when_full().await });
                spawner.detach(async move { in_time.flush_in_time().await });
                self.write_records().await
            }
            // Of none of them can it be told whether it is whole: who asks has to do without all that is here.
            Err(error) if error.kind == Kind::Damaged => Err(Error { kind: Kind::Device, ..error }),
            Err(error) => Err(error),
        };
        if let Err(error) = result {
            self.fail(error);
        }
    }

    /// Waits until the logs have been read.
    pub async fn ready(&self) -> Result<()> {
        self.changed
            .until(|| {
                let work = self.work.borrow();
                work.ready || work.failure.is_some()
            })
            .await;
        self.alive()
    }

    /// The last record that is durable with all before it: it rises with whatever is acknowledged of objects, and no crash takes it back.
    /// None before the logs have been read, and once no objects are served.
    pub fn recorded(&self) -> Option<u64> {
        let work = self.work.borrow();
        (work.ready && work.failure.is_none()).then_some(work.durable)
    }

    /// What has been done since opening.
    pub fn counters(&self) -> Counters {
        self.work.borrow().counters
    }

    /// Holds no more than this in memory from now on.
    pub fn stay_within(&self, memory: Memory) {
        self.memory.set(memory);
        self.set_rows_in_memory(memory.rows);
        self.set_cache(Bytes(self.settings().cache));
    }

    /// Rows that have not changed take at most this much memory from now on.
    pub fn set_rows_in_memory(&self, most: Bytes) {
        self.work.borrow_mut().meta.tree.set_most(most);
    }

    /// Leaves of rows are cut at so many bytes from now on: with few rows in each, what is shared or follows one another lies
    /// in several of them, as it does on a large target.
    pub fn set_leaf_split(&self, most: Bytes) {
        self.work.borrow_mut().meta.tree.set_split(most.0 as usize);
    }

    /// Blocks in logs that have not been taken home, as bytes.
    pub fn redirected(&self) -> Bytes {
        BLOCK * self.work.borrow().meta.logs.live()
    }

    #[cfg(test)]
    pub(crate) fn work(&self) -> std::cell::Ref<'_, Work> {
        self.work.borrow()
    }

    #[cfg(test)]
    pub(crate) fn work_mut(&self) -> std::cell::RefMut<'_, Work> {
        self.work.borrow_mut()
    }

    /// Why none of them is served on a device that works: what tells of them is damaged.
    pub fn lost(&self) -> Option<Error> {
        let failure = self.work.borrow().failure.clone();
        failure.filter(|error| error.kind == Kind::Device && self.core.disk.failure().is_none())
    }

    fn alive(&self) -> Result<()> {
        self.work.borrow().failure.clone().map_or(Ok(()), Err)
    }

    fn fail(&self, error: Error) {
        // What the target says of it comes with the remedy.
        let error = self.core.disk.failure().unwrap_or(error);
        self.work.borrow_mut().failure.get_or_insert(error);
        self.changed.notify();
        self.queued.notify();
        self.written.to(u64::MAX);
        self.taken_in.notify();
    }

    /// Brings the leaves with these ranges of keys to memory. They stay there until the next wait.
    async fn bring(&self, ranges: &[(Key, Key)]) -> Result<()> {
        let mut first = true;
        loop {
            let missing = {
                let work = self.work.borrow();
                ranges.iter().find_map(|(from, to)| work.meta.tree.missing(*from, *to))
            };
            let Some(record) = missing else { return Ok(()) };
            // What is brought here has to be there at once, however much it is.
            if std::mem::take(&mut first) {
                self.work.borrow_mut().meta.tree.trim();
                continue;
            }
            let read = self.read_leaf(&record).await;
            let tree = &mut self.work.borrow_mut().meta.tree;
            match read {
                Ok(rows) => tree.bring(&record, rows),
                // It came meanwhile, and may have been changed and gone elsewhere.
                Err(_) if tree.missing(record.first, record.first) != Some(record) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Brings what `changes` look at and let go to memory: it is there when this returns, until the next wait.
    async fn bring_for(&self, changes: &[record::Change]) -> Result<()> {
        let ranges: Vec<_> = changes.iter().flat_map(apply::needs).collect();
        self.bring_all(changes, &ranges).await
    }

    /// As [`Objects::bring_for`], where it is known in which `ranges` the changes look.
    async fn bring_all(&self, changes: &[record::Change], ranges: &[(Key, Key)]) -> Result<()> {
        loop {
            let lacks = self.work.borrow().lacks(ranges);
            if lacks {
                self.bring(ranges).await?;
                continue;
            }
            let sharing = {
                let work = self.work.borrow();
                let sharing = work.meta.sharing(changes);
                if !work.lacks(&sharing) {
                    return Ok(());
                }
                [ranges, &sharing].concat()
            };
            // Together: what is brought alone may have the other forgotten.
            self.bring(&sharing).await?;
        }
    }

    async fn read_leaf(&self, record: &LeafRecord) -> Result<rows::Rows> {
        let LeafRecord { first, place } = *record;
        let mut bytes = vec![0; (BLOCK * u64::from(place.blocks)).0 as usize];
        let mut read = self.read_blocks(self.stream, place.at, &mut bytes).await;
        if read.is_err() {
            read = self.read_blocks(self.stream, place.at, &mut bytes).await;
        }
        let at = |error: Error| Error {
            message: format!("{} ({} of the device)", error.message, BLOCK * place.at),
            ..error
        };
        if let Err(error) = read {
            let why = format!("the table of objects from {} on cannot be read: {}", first.id, error.message);
            return Err(at(self.core.disk.failure().unwrap_or(Error::damaged(why))));
        }
        rows::decode_leaf(forebay_model::TargetId(self.core.target_id()), first, place.crc, &bytes).map_err(at)
    }

    /// Waits for everything that was given, takes nothing home, and ends. What is buffered beside something damaged, and so
    /// is lost, is said at the end.
    pub(crate) async fn close(&self) -> Result<()> {
        self.ready().await?;
        let buffered = match self.end_buffering().await {
            Err(error) if error.kind != Kind::Damaged => return Err(error),
            buffered => buffered,
        };
        let checkpointed = self.core.with_objects(|objects| objects.number);
        let changed = self.work.borrow().last != checkpointed || self.work.borrow().meta.tree.is_dirty();
        if changed {
            self.checkpoint().await?;
        }
        self.work.borrow_mut().stopping = true;
        self.queued.notify();
        buffered
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

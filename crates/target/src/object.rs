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
//! [`rows`], [`tree`], [`space`], [`record`], [`logs`] and [`apply`] do not wait and do no I/O; [`journal`], [`read`],
//! [`commands`], [`checkpoint`], [`home`], [`swap`] and [`replay`] do.

pub mod apply;
mod checkpoint;
mod commands;
mod home;
mod journal;
pub mod logs;
mod read;
pub mod record;
mod replay;
pub mod rows;
pub mod settings;
pub mod space;
mod swap;
pub mod tree;

pub use commands::{Attribute, Found, Placement};

use crate::promise::Signal;
use crate::schedule::StreamId;
use crate::target::Core;
use apply::Meta;
use forebay_model::{Bytes, Error, ObjectId, Result};
use logs::Logs;
use rows::{BLOCK, Key};
use space::{Run, Space};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use tree::{LeafRecord, Tree};

/// Rows that are kept in memory though they have not changed.
const ROWS_IN_MEMORY: usize = 32 << 20;
/// Changed rows at which a checkpoint is made, whatever else is to be done.
const CHANGED_ROWS: usize = 16 << 20;

/// The objects of a target, on its loop.
pub struct Objects {
    core: Rc<Core>,
    stream: StreamId,
    work: RefCell<Work>,
    /// Something changed that somebody may wait for: a record is durable, a command has ended, a gate has opened.
    changed: Signal,
    queued: Signal,
}

struct Work {
    meta: Meta,
    /// Whether the logs were read; before, nothing is known.
    ready: bool,
    /// Commands do not take effect while it is closed.
    gate_closed: bool,
    /// Records to be written, oldest first.
    queue: VecDeque<journal::Queued>,
    /// Number of the last record that took effect, and of the last that is durable.
    last: u64,
    durable: u64,
    /// Content of logged blocks that are not durable yet, by where they will lie.
    unwritten: BTreeMap<u64, Rc<journal::Content>>,
    /// Freed blocks, by the record that freed them.
    limbo: VecDeque<(u64, Vec<Run>)>,
    /// Blocks taken by commands that have not taken effect.
    taken: BTreeMap<u64, Vec<Run>>,
    next_ticket: u64,
    /// Objects with a command under way that changes them.
    locked: BTreeSet<ObjectId>,
    /// Writes home that have ended, and how many of them a flush has covered.
    written_home: u64,
    flushed_home: u64,
    checkpointing: bool,
    /// A step from a log home is under way: what is freed meanwhile is not free before its end.
    homing: bool,
    making_room: bool,
    /// Somebody sees to it that what lies in logs goes home.
    tending: bool,
    stopping: bool,
    failure: Option<Error>,
    counters: Counters,
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
    /// Blocks whose checksum did not match.
    pub damaged: u64,
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
        };
        meta.logs.set_near(record.settings.near_groups);
        let stream = core.next_stream();
        Rc::new(Objects {
            core,
            stream,
            work: RefCell::new(Work {
                meta,
                ready: false,
                gate_closed: false,
                queue: VecDeque::new(),
                last: record.number,
                durable: record.number,
                unwritten: BTreeMap::new(),
                limbo: VecDeque::new(),
                taken: BTreeMap::new(),
                next_ticket: 0,
                locked: BTreeSet::new(),
                written_home: 0,
                flushed_home: 0,
                checkpointing: false,
                homing: false,
                making_room: false,
                tending: false,
                stopping: false,
                failure: None,
                counters: Counters::default(),
            }),
            changed: Signal::default(),
            queued: Signal::default(),
        })
    }

    /// Reads the logs, then writes records as they come, until the target closes.
    pub(crate) async fn run(self: Rc<Self>) {
        let result = match self.replay().await {
            Ok(()) => {
                self.work.borrow_mut().ready = true;
                self.changed.notify();
                self.write_records().await
            }
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

    /// What has been done since opening.
    pub fn counters(&self) -> Counters {
        self.work.borrow().counters
    }

    /// Blocks in logs that have not been taken home, as bytes.
    pub fn redirected(&self) -> Bytes {
        BLOCK * self.work.borrow().meta.logs.live()
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
    }

    /// Brings the leaves with these ranges of keys to memory. They stay there until the next wait.
    async fn bring(&self, ranges: &[(Key, Key)]) -> Result<()> {
        loop {
            let missing = {
                let work = self.work.borrow();
                ranges.iter().find_map(|(from, to)| work.meta.tree.missing(*from, *to))
            };
            let Some(record) = missing else { return Ok(()) };
            let rows = self.read_leaf(&record).await?;
            self.work.borrow_mut().meta.tree.bring(&record, rows);
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

    /// Waits for everything that was given, takes nothing home, and ends.
    pub(crate) async fn close(&self) -> Result<()> {
        self.ready().await?;
        let checkpointed = self.core.with_objects(|objects| objects.number);
        let changed = self.work.borrow().last != checkpointed || self.work.borrow().meta.tree.is_dirty();
        if changed {
            self.checkpoint().await?;
        }
        self.work.borrow_mut().stopping = true;
        self.queued.notify();
        Ok(())
    }
}

#[cfg(test)]
mod tests;

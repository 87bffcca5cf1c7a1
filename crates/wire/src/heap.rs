//! What is asked of the records of a heap, and what is answered.
//!
//! A [`HeapRequest`] is answered by one [`HeapAnswer`]. Many records go in one request: their lengths in its body, their
//! bytes as its payload, at most [`MOST_AT_ONCE`] of them; one that is larger goes in parts. What is put and freed over a
//! connection is seen by others, and lasts, once it is committed there, and is undone when the connection ends before.
//! `docs/protocol/commands.md` describes every command; [`network`] has the form that these take there.

pub mod network;

use crate::frame::{Command, Flags, Head, RequestId};
use crate::object::MOST_AT_ONCE;
use crate::reader::FrameReader;
use crate::writer::FrameWriter;
use forebay_model::heap::{CommitInfo, HeapSettings, LARGEST_SLOT, RecordId};
use forebay_model::{Bytes, Error, Result, TargetId};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};

/// The most records that one request puts, gets or frees.
pub const MOST_RECORDS: usize = 1024;
/// The most records that are put and freed over a connection in one heap without a commit.
pub const MOST_UNCOMMITTED: usize = 4 << 20;
/// The most commits that one request lists.
pub const MOST_COMMITS: usize = 1024;
/// The most bytes that a commit takes in a list of them.
const COMMIT: usize = 32;
/// A heap is moved in units of so many bytes.
pub const UNIT: Bytes = Bytes::kib(64);
/// The most units that one request reads or writes.
pub const MOST_UNITS: u32 = (MOST_AT_ONCE.0 / UNIT.0) as u32;
/// The most heaps that are used over one connection.
pub const MOST_HEAPS: usize = 16;

/// The numbers of the commands; see [`crate::command::Request`] for what is asked of a heap as a whole.
impl Command {
    /// [`HeapAsk::Put`].
    pub const PUT_RECORDS: Command = Command(67);
    /// [`HeapAsk::Get`].
    pub const GET_RECORDS: Command = Command(68);
    /// [`HeapAsk::Free`].
    pub const FREE_RECORDS: Command = Command(69);
    /// [`HeapAsk::Commit`].
    pub const COMMIT_HEAP: Command = Command(70);
    /// [`HeapAsk::Abort`].
    pub const ABORT_HEAP: Command = Command(71);
    /// [`HeapAsk::Root`].
    pub const HEAP_ROOT: Command = Command(72);
    /// [`HeapAsk::History`].
    pub const HEAP_HISTORY: Command = Command(73);
    /// [`HeapAsk::Unread`].
    pub const UNREAD_UNITS: Command = Command(75);
    /// [`HeapAsk::ReadUnits`].
    pub const READ_UNITS: Command = Command(76);
    /// [`HeapAsk::Receive`].
    pub const RECEIVE_HEAP: Command = Command(77);
    /// [`HeapAsk::WriteUnits`].
    pub const WRITE_UNITS: Command = Command(78);
    /// [`HeapAsk::Received`].
    pub const RECEIVED_HEAP: Command = Command(79);
}

/// A heap that there is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeapName {
    /// Its name.
    pub name: String,
    /// The target that it is on.
    pub target: TargetId,
    /// Space that it has, used or not.
    pub space: Bytes,
}

/// A heap, as it says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeapInfo {
    /// Its name.
    pub name: String,
    /// The target that it is on.
    pub target: TargetId,
    /// The last commit, and the number of the oldest one that can be read.
    pub last: CommitInfo,
    /// See [`HeapInfo::last`].
    pub oldest: u64,
    /// What it was set to when it was made.
    pub settings: HeapSettings,
    /// Of the slots that are used, those in which older commits are kept.
    pub archive_slots: u64,
    /// Space in use.
    pub used: Bytes,
    /// Space that it has; it grows by itself.
    pub space: Bytes,
    /// Each class of slots, the smallest first.
    pub classes: Vec<HeapClass>,
    /// What it did since it was opened.
    pub activity: HeapActivity,
    /// What was found damaged when it was opened, and of what was freed and committed since, in sentences.
    pub complaints: Vec<String>,
}

/// Slots of one size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeapClass {
    /// Bytes of a slot.
    pub slot: u32,
    /// Allocators.
    pub allocators: u64,
    /// Slots that have a place.
    pub slots: u64,
    /// Of these, those with a record.
    pub used: u64,
    /// Of the others, those with a record that was freed and that an older commit or somebody who looks at one has, or
    /// that was put and is not committed.
    pub kept: u64,
    /// Records put since the heap was opened.
    pub taken: u64,
    /// Of these, those in slots that were used before.
    pub recycled: u64,
    /// Records freed since the heap was opened.
    pub freed: u64,
}

/// What a heap did since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeapActivity {
    /// Commits.
    pub commits: u64,
    /// Records put.
    pub put: u64,
    /// Of these, freed before they were written.
    pub dropped: u64,
    /// Reads served from what waits to be written.
    pub hits: u64,
    /// Reads served from what was read lately.
    pub hot_reads: u64,
    /// Writes of records to the device.
    pub writes: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes in them.
    pub written: Bytes,
    /// Of these bytes, those that fill up slots and pages.
    pub padding: Bytes,
    /// Reads of pages that had to be read before they could be written.
    pub read_back: u64,
    /// Writes of pages of allocators and of roots.
    pub meta_writes: u64,
}

/// What is asked, and of which heap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeapRequest {
    /// The target that it is on.
    pub target: TargetId,
    /// Its name.
    pub heap: String,
    /// What is asked of it.
    pub ask: HeapAsk,
}

/// What is asked of a heap's records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeapAsk {
    /// Puts the records of the payload, all or none: [`HeapReply::Ids`].
    Put {
        /// Their lengths, or that of the part of the last one that is here; [`MOST_RECORDS`] at most.
        lengths: Vec<u32>,
        /// Bytes of the first one that went in the requests before.
        from: u64,
        /// The last one goes on in the next request, and is put by that.
        more: bool,
    },
    /// Brings records: [`HeapReply::Records`].
    Get {
        /// Which; [`MOST_RECORDS`] at most.
        ids: Vec<RecordId>,
        /// From this byte on of the first one.
        from: u64,
        /// As they were at this commit; the last one, and what was put over this connection since, if `None`.
        as_of: Option<u64>,
    },
    /// Frees records, all or none: [`HeapReply::Done`].
    Free {
        /// Which; [`MOST_RECORDS`] at most.
        ids: Vec<RecordId>,
    },
    /// Makes durable what was put and freed over this connection: [`HeapReply::Committed`].
    Commit {
        /// What the root is from then on.
        root: NewRoot,
    },
    /// Undoes what was put and freed over this connection: [`HeapReply::Done`].
    Abort,
    /// The root of a commit: [`HeapReply::Root`].
    Root {
        /// The commit; the last one if `None`.
        as_of: Option<u64>,
    },
    /// Commits that can be read, the newest first: [`HeapReply::History`].
    History {
        /// Those before this one; from the last one on if `None`.
        before: Option<u64>,
        /// So many at most; [`MOST_COMMITS`] at most.
        most: u32,
    },
    /// Which units of the heap were written since they were read by who copies it: [`HeapReply::Unread`]. This and what follows moves a heap
    /// of a cluster to another target, and is asked over the network alone.
    Unread {
        /// What was said last time; all units are if `None`, and whoever copied before begins anew.
        watch: Option<u64>,
        /// From this one on.
        from: u32,
    },
    /// Brings units as they lie on the device, as the payload: [`HeapReply::Done`].
    ReadUnits {
        /// As [`HeapReply::Unread`] has it.
        watch: u64,
        /// The first of them.
        first: u32,
        /// How many; [`MOST_UNITS`] at most.
        count: u32,
    },
    /// Begins to take a heap in from another target: [`HeapReply::Done`].
    Receive {
        /// As which heap it was made.
        stamp: HeapStamp,
        /// How many units it has, at least.
        units: u32,
    },
    /// Writes the units of the payload into a heap that is taken in: [`HeapReply::Done`].
    WriteUnits {
        /// The first of them.
        first: u32,
    },
    /// All of it is there, and it is a heap of the target from now on, durably: [`HeapReply::Done`].
    Received {
        /// How many units it has, at least: all that its commits name.
        units: u32,
    },
}

/// As which heap one was made: what is in it says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeapStamp {
    /// The target.
    pub target: u128,
    /// Its number there.
    pub heap: u64,
}

/// The root that a commit names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NewRoot {
    /// The one that the commit before named, or none.
    #[default]
    Same,
    /// None.
    None,
    /// This record.
    Record(RecordId),
}

/// The answer to a [`HeapRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum HeapReply {
    /// It is done.
    Done,
    /// The ids of the records that were put, in order.
    Ids(Vec<RecordId>),
    /// Of the first of the records that were asked for, as many as fit [`MOST_AT_ONCE`], and one at least: the lengths of
    /// those that are there. The payload has their bytes, one behind the other; of a larger one those that fit, and then
    /// it is the only one.
    Records(Vec<Result<u64>>),
    /// The number of the commit.
    Committed(u64),
    /// A root.
    Root {
        /// The number of the commit that names it.
        commit: u64,
        /// The record, if it names one.
        root: Option<RecordId>,
    },
    /// Commits, the newest first. If they are fewer than were asked for, no older one can be read.
    History(Vec<CommitInfo>),
    /// What is to be read by who copies.
    Unread {
        /// To be said next time.
        watch: u64,
        /// As which heap it was made.
        stamp: HeapStamp,
        /// Runs of units: the first of each, and how many they are. If there are none, there are none behind `from`.
        runs: Vec<(u32, u32)>,
        /// Units to be read in all, also before `from`.
        units: u64,
        /// Units that the heap has.
        space: u32,
    },
}

/// A reply with the bytes that come with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeapAnswer {
    /// The reply.
    pub reply: HeapReply,
    /// Its payload.
    pub payload: Vec<u8>,
}

impl From<HeapReply> for HeapAnswer {
    fn from(reply: HeapReply) -> HeapAnswer {
        HeapAnswer { reply, payload: Vec::new() }
    }
}

impl HeapAsk {
    /// Its number on the wire.
    pub fn command(&self) -> Command {
        match self {
            HeapAsk::Put { .. } => Command::PUT_RECORDS,
            HeapAsk::Get { .. } => Command::GET_RECORDS,
            HeapAsk::Free { .. } => Command::FREE_RECORDS,
            HeapAsk::Commit { .. } => Command::COMMIT_HEAP,
            HeapAsk::Abort => Command::ABORT_HEAP,
            HeapAsk::Root { .. } => Command::HEAP_ROOT,
            HeapAsk::History { .. } => Command::HEAP_HISTORY,
            HeapAsk::Unread { .. } => Command::UNREAD_UNITS,
            HeapAsk::ReadUnits { .. } => Command::READ_UNITS,
            HeapAsk::Receive { .. } => Command::RECEIVE_HEAP,
            HeapAsk::WriteUnits { .. } => Command::WRITE_UNITS,
            HeapAsk::Received { .. } => Command::RECEIVED_HEAP,
        }
    }
}

impl HeapRequest {
    /// Its number on the wire.
    pub fn command(&self) -> Command {
        self.ask.command()
    }

    /// What it counts in a [`crate::object::WINDOW`] with a payload of `payload` bytes: at least what its answer has.
    pub fn weight(&self, payload: usize) -> usize {
        match self.ask {
            // Nobody knows before how large a chained one is.
            HeapAsk::Get { ref ids, .. } if ids.iter().any(|id| id.is_chain()) => MOST_AT_ONCE.0 as usize,
            HeapAsk::Get { ref ids, .. } => (ids.len() * LARGEST_SLOT as usize).min(MOST_AT_ONCE.0 as usize),
            HeapAsk::History { most, .. } => most as usize * COMMIT,
            HeapAsk::ReadUnits { count, .. } => count as usize * UNIT.0 as usize,
            _ => payload,
        }
    }

    /// Whether it is one that may be asked with a payload of `payload` bytes. [`forebay_model::Kind::Usage`] if not.
    pub fn check(&self, payload: usize) -> Result<()> {
        let (count, sum) = match &self.ask {
            HeapAsk::Put { lengths, .. } => {
                (lengths.len(), lengths.iter().map(|length| u64::from(*length)).sum::<u64>())
            }
            HeapAsk::Get { ids, .. } | HeapAsk::Free { ids } => (ids.len(), 0),
            // How many there are, its bytes say.
            HeapAsk::WriteUnits { .. } => (0, payload as u64),
            _ => (0, 0),
        };
        if let HeapAsk::ReadUnits { count, .. } = self.ask
            && count > MOST_UNITS
        {
            return Err(Error::usage(format!(
                "{count} units at once are too many; ask for {MOST_UNITS} at most (nothing was changed)"
            )));
        }
        if let HeapAsk::History { most, .. } = self.ask
            && most as usize > MOST_COMMITS
        {
            return Err(Error::usage(format!(
                "{most} commits at once are too many; ask for {MOST_COMMITS} at most (nothing was changed)"
            )));
        }
        if count > MOST_RECORDS {
            return Err(Error::usage(format!(
                "{count} records at once are too many; ask for {MOST_RECORDS} at most (nothing was changed)"
            )));
        }
        if payload as u64 > MOST_AT_ONCE.0 {
            return Err(Error::usage(format!(
                "{} of records at once are too many; send {MOST_AT_ONCE} at most (nothing was changed)",
                Bytes(payload as u64)
            )));
        }
        if sum != payload as u64 {
            return Err(Error::usage(format!(
                "{sum} bytes of records were announced, and {payload} came (nothing was changed)"
            )));
        }
        Ok(())
    }

    /// Sends it as request `id`, with what it puts.
    pub fn send(&self, writer: &mut FrameWriter<impl Write>, id: RequestId, payload: &[u8]) -> Result<()> {
        let (command, none, of) = (self.command(), Flags::NONE, (self.target, &self.heap));
        let payload = &[payload][..];
        match &self.ask {
            HeapAsk::Put { lengths, from, more } => writer.send(id, command, none, &(of, lengths, from, more), payload),
            HeapAsk::Get { ids, from, as_of } => writer.send(id, command, none, &(of, ids, from, as_of), payload),
            HeapAsk::Free { ids } => writer.send(id, command, none, &(of, ids), payload),
            HeapAsk::Commit { root } => writer.send(id, command, none, &(of, root), payload),
            HeapAsk::Abort => writer.send(id, command, none, &of, payload),
            HeapAsk::Root { as_of } => writer.send(id, command, none, &(of, as_of), payload),
            HeapAsk::History { before, most } => writer.send(id, command, none, &(of, before, most), payload),
            HeapAsk::Unread { .. }
            | HeapAsk::ReadUnits { .. }
            | HeapAsk::Receive { .. }
            | HeapAsk::WriteUnits { .. }
            | HeapAsk::Received { .. } => Err(Error::usage("heaps are moved between targets over the network alone")),
        }
    }

    /// The request that a frame with this head brought, whose payload has not been taken; `None` if its command is none
    /// of these.
    pub fn receive(reader: &mut FrameReader<impl Read>, head: &Head) -> Result<Option<HeapRequest>> {
        let ((target, heap), ask): ((TargetId, String), HeapAsk) = match head.command {
            Command::PUT_RECORDS => {
                reader.decode().map(|(of, lengths, from, more)| (of, HeapAsk::Put { lengths, from, more }))?
            }
            Command::GET_RECORDS => {
                reader.decode().map(|(of, ids, from, as_of)| (of, HeapAsk::Get { ids, from, as_of }))?
            }
            Command::FREE_RECORDS => reader.decode().map(|(of, ids)| (of, HeapAsk::Free { ids }))?,
            Command::COMMIT_HEAP => reader.decode().map(|(of, root)| (of, HeapAsk::Commit { root }))?,
            Command::ABORT_HEAP => reader.decode().map(|of| (of, HeapAsk::Abort))?,
            Command::HEAP_ROOT => reader.decode().map(|(of, as_of)| (of, HeapAsk::Root { as_of }))?,
            Command::HEAP_HISTORY => {
                reader.decode().map(|(of, before, most)| (of, HeapAsk::History { before, most }))?
            }
            _ => return Ok(None),
        };
        Ok(Some(HeapRequest { target, heap, ask }))
    }
}

impl HeapAnswer {
    /// Sends it as the answer to request `id`.
    pub fn send(&self, writer: &mut FrameWriter<impl Write>, id: RequestId, command: Command) -> Result<()> {
        writer.send(id, command, Flags::RESPONSE.and(Flags::END), &self.reply, &[&self.payload])
    }

    /// The answer that a frame with this head brought, or the error that the other side sent.
    pub fn receive(reader: &mut FrameReader<impl Read>, head: &Head) -> Result<HeapAnswer> {
        let reply = reader.answer(head)?;
        let mut payload = vec![0; head.payload as usize];
        reader.payload_into(&mut payload)?;
        Ok(HeapAnswer { reply, payload })
    }
}

#[cfg(test)]
pub(crate) mod tests;

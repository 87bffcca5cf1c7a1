//! What is asked of a node, and what it answers: plain types, their numbers, and how they go into frames.
//!
//! A [`Request`] is answered by one [`Reply`]. Three commands are more than that: a query ([`QueryRequest`]) is
//! answered by many frames, a recorder ([`OpenWriter`]) stays open and is told what is durable ([`WriterEvent`]), and
//! its blocks ([`Append`]) have no answer of their own. `docs/protocol/commands.md` describes every command.

use crate::frame::{Command, Flags, Head, RequestId};
use crate::heap::{HeapInfo, HeapName};
use crate::reader::FrameReader;
use crate::writer::FrameWriter;
use forebay_model::heap::HeapSettings;
use forebay_model::ring::{Beginning, Item, Pin, Pinned, QuerySummary, RingSpec, RingStatus};
use forebay_model::scrub::Scrubbed;
use forebay_model::settings::{SettingsChange, TargetSettings};
use forebay_model::{Bytes, Plan, PlanRequest, Profile, Rate, Result, TargetId, Timestamp};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::time::Duration;

/// The items in one frame of a query's answer: what surely fits a body.
pub const ITEMS_PER_FRAME: usize = 16 << 10;

/// The numbers of the commands.
impl Command {
    /// [`Request::Info`].
    pub const INFO: Command = Command(16);
    /// [`Request::Status`].
    pub const STATUS: Command = Command(17);
    /// [`Request::CreateRing`].
    pub const CREATE_RING: Command = Command(18);
    /// [`Request::DeleteRing`].
    pub const DELETE_RING: Command = Command(19);
    /// [`Request::ResizeRing`].
    pub const RESIZE_RING: Command = Command(20);
    /// [`Request::Pin`].
    pub const PIN: Command = Command(21);
    /// [`Request::Unpin`].
    pub const UNPIN: Command = Command(22);
    /// [`Request::Pins`].
    pub const PINS: Command = Command(23);
    /// [`Request::Profiles`].
    pub const PROFILES: Command = Command(24);
    /// [`Request::SetProfile`].
    pub const SET_PROFILE: Command = Command(25);
    /// [`Request::Measure`].
    pub const MEASURE: Command = Command(26);
    /// [`Request::Plan`].
    pub const PLAN: Command = Command(27);
    /// [`Request::RelateRing`].
    pub const RELATE_RING: Command = Command(28);
    /// [`Request::BeginRing`].
    pub const BEGIN_RING: Command = Command(35);
    /// [`Request::Scrub`].
    pub const SCRUB: Command = Command(29);
    /// [`Request::Settings`].
    pub const SETTINGS: Command = Command(30);
    /// [`Request::AddTarget`].
    pub const ADD_TARGET: Command = Command(31);
    /// [`Request::CreateHeap`].
    pub const CREATE_HEAP: Command = Command(64);
    /// [`Request::Heaps`].
    pub const HEAPS: Command = Command(65);
    /// [`Request::HeapInfo`].
    pub const HEAP_INFO: Command = Command(66);
    /// [`Request::DeleteHeap`].
    pub const DELETE_HEAP: Command = Command(74);
    /// [`QueryRequest`].
    pub const QUERY: Command = Command(32);
    /// [`CancelQuery`].
    pub const CANCEL_QUERY: Command = Command(33);
    /// [`OpenWriter`].
    pub const OPEN_WRITER: Command = Command(40);
    /// [`Append`].
    pub const APPEND: Command = Command(41);
    /// [`CloseWriter`].
    pub const CLOSE_WRITER: Command = Command(42);
}

/// What is asked and answered once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// Who serves, and which targets: [`Reply::Info`].
    Info,
    /// All rings, or the one of this name: [`Reply::Rings`].
    Status {
        /// The ring, or all.
        ring: Option<String>,
    },
    /// Creates a ring on the first target that can promise it: [`Reply::Ring`].
    CreateRing(RingSpec),
    /// Deletes a ring with everything in it: [`Reply::Done`].
    DeleteRing {
        /// The ring.
        ring: String,
    },
    /// Gives a ring another capacity: [`Reply::Capacity`], what it has now.
    ResizeRing {
        /// The ring.
        ring: String,
        /// What it should have; rounded up to whole groups.
        capacity: Bytes,
    },
    /// Gives a ring other relatives, which are pinned along with it: [`Reply::Ring`], as it is now.
    RelateRing {
        /// The ring.
        ring: String,
        /// All of its relatives from now on.
        relatives: Vec<String>,
    },
    /// Has a ring into which nothing was ever recorded go on with what another target has; another one stays as it is:
    /// [`Reply::Done`].
    BeginRing {
        /// The ring.
        ring: String,
        /// Where it begins.
        beginning: Beginning,
    },
    /// Preserves a time range, both ends included: [`Reply::Pinned`].
    Pin {
        /// The ring.
        ring: String,
        /// What the user calls it.
        label: String,
        /// First time.
        from: Timestamp,
        /// Last time.
        to: Timestamp,
        /// Pins of rings elsewhere that were made along with it: what stands for the ring, and its pin.
        along: Vec<(String, u64)>,
    },
    /// Lets go of a pin and of those made along with it: [`Reply::Done`].
    Unpin {
        /// The ring.
        ring: String,
        /// The pin's number.
        pin: u64,
    },
    /// The pins of a ring, oldest first: [`Reply::Pins`].
    Pins {
        /// The ring.
        ring: String,
    },
    /// What was measured of the targets: [`Reply::Profiles`].
    Profiles,
    /// Keeps another profile of a target, durably: [`Reply::Done`].
    SetProfile {
        /// The target.
        target: TargetId,
        /// Its profile.
        profile: Profile,
    },
    /// Measures a target while it works, within what its promises leave, and keeps the result: [`Reply::Profiles`].
    Measure {
        /// The target.
        target: TargetId,
        /// How long it may take.
        budget: Duration,
    },
    /// What could be promised now: [`Reply::Plans`], one for each target.
    Plan(PlanRequest),
    /// Goes on with looking over all that is kept, beside all other work: [`Reply::Scrubbed`].
    Scrub {
        /// The target.
        target: TargetId,
        /// Bytes a second at most; as fast as other work leaves if `None`.
        rate: Option<Rate>,
        /// How long this step may take, about.
        span: Duration,
        /// Whether to begin anew.
        anew: bool,
    },
    /// Chooses how a target keeps objects, durably; nothing if the change is empty: [`Reply::Settings`], what is chosen
    /// then.
    Settings {
        /// The target.
        target: TargetId,
        /// What is chosen anew.
        change: SettingsChange,
    },
    /// Makes another target of a file or device, and serves it from then on: [`Reply::Info`] with that one. Only from this
    /// machine.
    AddTarget(AddTarget),
    /// Creates a heap on the first target that has room for it: [`Reply::Heap`].
    CreateHeap {
        /// Its name.
        heap: String,
        /// What it is set to.
        settings: HeapSettings,
    },
    /// Which heaps there are: [`Reply::Heaps`].
    Heaps,
    /// One heap, as it says of itself: [`Reply::Heap`].
    HeapInfo {
        /// The heap.
        heap: String,
    },
    /// Deletes a heap with everything in it: [`Reply::Done`].
    DeleteHeap {
        /// The heap.
        heap: String,
    },
}

/// The answer to a [`Request`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// It is done, and durable.
    Done,
    /// Who serves.
    Info(Info),
    /// Rings, as they say of themselves.
    Rings(Vec<RingStatus>),
    /// One ring.
    Ring(Box<RingStatus>),
    /// A ring's capacity.
    Capacity(Bytes),
    /// A pin that was made.
    Pinned(Pinned),
    /// Pins.
    Pins(Vec<Pin>),
    /// What was measured.
    Profiles(Vec<TargetProfile>),
    /// What could be promised.
    Plans(Vec<TargetPlan>),
    /// How far a scrub is.
    Scrubbed(Box<Scrubbed>),
    /// What is chosen for a target.
    Settings(TargetSettings),
    /// Heaps.
    Heaps(Vec<HeapName>),
    /// One heap.
    Heap(Box<HeapInfo>),
}

/// Who serves a cluster, and which targets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Info {
    /// The release of Forebay that serves.
    pub version: String,
    /// The process that serves, as its machine numbers it.
    pub process: u32,
    /// Its targets.
    pub targets: Vec<TargetInfo>,
}

/// A target, as it says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetInfo {
    /// Its id.
    pub id: TargetId,
    /// What people call its device.
    pub device: String,
    /// How often it was opened.
    pub openings: u64,
    /// Bytes of the device.
    pub size: Bytes,
    /// Whether the position of the last I/O matters for the next.
    pub rotates: bool,
    /// Unit in which rings take space.
    pub group: Bytes,
    /// Space that no ring has.
    pub free: Bytes,
    /// The largest run of it.
    pub largest_free: Bytes,
    /// What was found damaged at opening and is repaired now, in sentences.
    pub complaints: Vec<String>,
    /// Why it takes nothing in any more, if its device failed or what tells of its objects is damaged: rings are served then.
    pub failed: Option<String>,
    /// What it has done since it was opened.
    pub activity: Activity,
    /// Memory that rows of objects take now.
    pub map_memory: Bytes,
    /// The most memory that all maps of objects take, whatever is kept.
    pub map_memory_limit: Bytes,
    /// Rings that were made anew of what their segments say, and that nobody who knows has said to be there: they may have been deleted,
    /// or have left.
    pub rings_made_anew: u64,
    /// The number of the last change of its objects that is durable; none while they are not served.
    pub recorded: Option<u64>,
}

/// A file or device that becomes a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddTarget {
    /// Its path, from the root on.
    pub path: String,
    /// Makes a file of this size there; without, it is a device or a preallocated file.
    pub size: Option<Bytes>,
    /// Whether what is there is written over.
    pub force: bool,
}

/// What a target has done since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// Bytes written for rings.
    pub guaranteed: Bytes,
    /// Bytes read for queries.
    pub read: Bytes,
    /// Bytes of metadata.
    pub metadata: Bytes,
    /// Writes that ended after their deadline.
    pub missed_deadlines: u64,
    /// Reads that had to wait for slack.
    pub throttled: u64,
    /// How many times longer than at its worst by the profile the device takes; 0 if it does not.
    pub slower: u32,
    /// How long the device had something to do.
    pub busy: Duration,
}

/// A target and what was measured of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetProfile {
    /// The target.
    pub target: TargetId,
    /// What people call its device.
    pub device: String,
    /// What was measured.
    pub profile: Profile,
}

/// What one target could promise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TargetPlan {
    /// The target.
    pub target: TargetId,
    /// What people call its device.
    pub device: String,
    /// The plan.
    pub plan: Plan,
}

/// Asks for what matches; the answer is many frames ([`send_items`], [`send_summary`]).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryRequest {
    /// The ring.
    pub ring: String,
    /// The query.
    pub text: String,
    /// The time that relative times in it count from.
    pub now: Timestamp,
    /// Whether to go on with what is recorded from now on.
    pub follow: bool,
    /// Elements at most; all if `None`.
    pub limit: Option<u64>,
    /// Whether only gaps and expired ranges are wanted.
    pub gaps_only: bool,
    /// Whole blocks instead of the elements in them that match: those that have a time that is asked for, as they lie there.
    pub blocks: bool,
    /// Whether to tell of each block of which something comes which one it is.
    pub numbered: bool,
}

/// Ends a query early. The query is answered with an end; this has no answer of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelQuery {
    /// The request that is the query.
    pub query: u64,
}

/// Begins or resumes recording into a ring; answered with [`WriterEvent`]s until the writer is closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenWriter {
    /// The ring.
    pub ring: String,
    /// The writer session, by chance; the same when it resumes.
    pub writer: u64,
    /// Whether the session goes on after its node went away.
    pub resume: bool,
}

/// A block for the ring of an open writer; the payload is the packed block. It has no answer of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Append {
    /// The writer session.
    pub writer: u64,
    /// How long ago the block's first element was accepted.
    pub age: Duration,
}

/// Ends recording: [`Reply::Done`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloseWriter {
    /// The writer session.
    pub writer: u64,
}

/// What a recorder is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum WriterEvent {
    /// First: the ring takes its blocks.
    Opened(Box<WriterOpened>),
    /// How far it is durable now.
    Durable(Durable),
}

/// What a recorder needs to know of its ring.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WriterOpened {
    /// How the ring was created.
    pub spec: RingSpec,
    /// Time of the newest element that was there before; none in an empty ring.
    pub newest: Option<Timestamp>,
    /// Blocks of this session up to this number are there, and need not be sent again.
    pub received: u64,
    /// How far the session is durable.
    pub durable: Durable,
    /// Staging buffers of the ring, of a block each.
    pub buffers: u32,
}

/// How far a writer session is durable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Durable {
    /// Blocks of the session up to this number.
    pub number: u64,
    /// Sequence after the last durable element.
    pub sequence: u64,
    /// Whether everything in the ring is pinned, so that no more can be written until somebody lets go.
    pub full: bool,
}

impl Request {
    /// Its number on the wire.
    pub fn command(&self) -> Command {
        match self {
            Request::Info => Command::INFO,
            Request::Status { .. } => Command::STATUS,
            Request::CreateRing(_) => Command::CREATE_RING,
            Request::DeleteRing { .. } => Command::DELETE_RING,
            Request::ResizeRing { .. } => Command::RESIZE_RING,
            Request::RelateRing { .. } => Command::RELATE_RING,
            Request::BeginRing { .. } => Command::BEGIN_RING,
            Request::Pin { .. } => Command::PIN,
            Request::Unpin { .. } => Command::UNPIN,
            Request::Pins { .. } => Command::PINS,
            Request::Profiles => Command::PROFILES,
            Request::SetProfile { .. } => Command::SET_PROFILE,
            Request::Measure { .. } => Command::MEASURE,
            Request::Plan(_) => Command::PLAN,
            Request::Scrub { .. } => Command::SCRUB,
            Request::Settings { .. } => Command::SETTINGS,
            Request::AddTarget(_) => Command::ADD_TARGET,
            Request::CreateHeap { .. } => Command::CREATE_HEAP,
            Request::Heaps => Command::HEAPS,
            Request::HeapInfo { .. } => Command::HEAP_INFO,
            Request::DeleteHeap { .. } => Command::DELETE_HEAP,
        }
    }

    /// Sends it as request `id`.
    pub fn send(&self, writer: &mut FrameWriter<impl Write>, id: RequestId) -> Result<()> {
        let (command, none) = (self.command(), Flags::NONE);
        match self {
            Request::Info | Request::Profiles | Request::Heaps => writer.send(id, command, none, &(), &[]),
            Request::Status { ring } => writer.send(id, command, none, ring, &[]),
            Request::CreateRing(spec) => writer.send(id, command, none, spec, &[]),
            Request::DeleteRing { ring } | Request::Pins { ring } => writer.send(id, command, none, ring, &[]),
            Request::ResizeRing { ring, capacity } => writer.send(id, command, none, &(ring, capacity), &[]),
            Request::RelateRing { ring, relatives } => writer.send(id, command, none, &(ring, relatives), &[]),
            Request::BeginRing { ring, beginning } => writer.send(id, command, none, &(ring, beginning), &[]),
            Request::Pin { ring, label, from, to, along } => {
                writer.send(id, command, none, &(ring, label, from, to, along), &[])
            }
            Request::Unpin { ring, pin } => writer.send(id, command, none, &(ring, pin), &[]),
            Request::SetProfile { target, profile } => writer.send(id, command, none, &(target, profile), &[]),
            Request::Measure { target, budget } => writer.send(id, command, none, &(target, budget), &[]),
            Request::Plan(plan) => writer.send(id, command, none, plan, &[]),
            Request::Scrub { target, rate, span, anew } => {
                writer.send(id, command, none, &(target, rate, span, anew), &[])
            }
            Request::Settings { target, change } => writer.send(id, command, none, &(target, change), &[]),
            Request::AddTarget(added) => writer.send(id, command, none, added, &[]),
            Request::CreateHeap { heap, settings } => writer.send(id, command, none, &(heap, settings), &[]),
            Request::HeapInfo { heap } | Request::DeleteHeap { heap } => writer.send(id, command, none, heap, &[]),
        }
    }

    /// The request that a frame with this head brought; `None` if its command is none of these.
    pub fn receive(reader: &mut FrameReader<impl Read>, head: &Head) -> Result<Option<Request>> {
        Ok(Some(match head.command {
            Command::INFO => reader.decode().map(|()| Request::Info)?,
            Command::STATUS => Request::Status { ring: reader.decode()? },
            Command::CREATE_RING => Request::CreateRing(reader.decode()?),
            Command::DELETE_RING => Request::DeleteRing { ring: reader.decode()? },
            Command::RESIZE_RING => reader.decode().map(|(ring, capacity)| Request::ResizeRing { ring, capacity })?,
            Command::RELATE_RING => reader.decode().map(|(ring, relatives)| Request::RelateRing { ring, relatives })?,
            Command::BEGIN_RING => reader.decode().map(|(ring, beginning)| Request::BeginRing { ring, beginning })?,
            Command::PIN => {
                reader.decode().map(|(ring, label, from, to, along)| Request::Pin { ring, label, from, to, along })?
            }
            Command::UNPIN => reader.decode().map(|(ring, pin)| Request::Unpin { ring, pin })?,
            Command::PINS => Request::Pins { ring: reader.decode()? },
            Command::PROFILES => reader.decode().map(|()| Request::Profiles)?,
            Command::SET_PROFILE => reader.decode().map(|(target, profile)| Request::SetProfile { target, profile })?,
            Command::MEASURE => reader.decode().map(|(target, budget)| Request::Measure { target, budget })?,
            Command::PLAN => Request::Plan(reader.decode()?),
            Command::SCRUB => {
                let (target, rate, span, anew) = reader.decode()?;
                Request::Scrub { target, rate, span, anew }
            }
            Command::SETTINGS => reader.decode().map(|(target, change)| Request::Settings { target, change })?,
            Command::ADD_TARGET => Request::AddTarget(reader.decode()?),
            Command::CREATE_HEAP => reader.decode().map(|(heap, settings)| Request::CreateHeap { heap, settings })?,
            Command::HEAPS => reader.decode().map(|()| Request::Heaps)?,
            Command::HEAP_INFO => Request::HeapInfo { heap: reader.decode()? },
            Command::DELETE_HEAP => Request::DeleteHeap { heap: reader.decode()? },
            _ => return Ok(None),
        }))
    }
}

/// Sends items of a query's answer, and the bytes of their elements as the payload.
pub fn send_items(writer: &mut FrameWriter<impl Write>, id: RequestId, items: &[Item], payload: &[u8]) -> Result<()> {
    writer.send(id, Command::QUERY, Flags::RESPONSE, items, &[payload])
}

/// Ends a query's answer.
pub fn send_summary(writer: &mut FrameWriter<impl Write>, id: RequestId, summary: &QuerySummary) -> Result<()> {
    writer.send(id, Command::QUERY, Flags::RESPONSE.and(Flags::END), summary, &[])
}

#[cfg(test)]
pub(crate) mod tests;

//! What is asked of a ring of a target over the network, where a ring is an object of a volume and each command shows a
//! capability for it.
//!
//! The commands are those of [`crate::command`], under the same numbers; what differs is that each is answered once, so that one
//! connection carries them as it carries those about objects: blocks are answered when they were taken in, what is durable is
//! asked for ([`RingAsk::Durable`]), and so is each part of a query's answer ([`RingAsk::Next`]).

mod image;

pub use image::{Image, ImageAsk};

use crate::body;
use crate::capability::Rights;
use crate::command::Durable;
use crate::control::names::FileId;
use crate::frame::Command;
use forebay_model::ring::{Batch, Beginning, ELSEWHERE, Item, QuerySummary, RingSpec};
use forebay_model::{Bytes, Error, ObjectId, Result, TargetId, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::time::Duration;

/// The most bytes of elements in one part of a query's answer: those of one block, which an element in it never exceeds.
pub const MOST_OF_PART: usize = forebay_model::block::MAX_BLOCK;
/// The most relatives that a ring has.
pub const MOST_RELATIVES: usize = 16;
/// How long nothing new may be said to whoever asks what is durable.
pub const BEAT: Duration = Duration::from_secs(5);

/// The numbers of the commands that are there only over the network.
impl Command {
    /// [`RingAsk::Next`].
    pub const NEXT_OF_QUERY: Command = Command(34);
    /// [`RingAsk::Durable`].
    pub const DURABLE: Command = Command(43);
}

/// A request about a ring.
#[derive(Debug, Clone, PartialEq)]
pub struct RingRequest {
    /// The target that has it.
    pub target: TargetId,
    /// The ring.
    pub ring: ObjectId,
    /// What is asked.
    pub ask: RingAsk,
}

/// What is asked of a ring.
#[derive(Debug, Clone, PartialEq)]
pub enum RingAsk {
    /// Creates it; the name of the specification does not count: [`crate::command::Reply::Ring`].
    Create(RingSpec),
    /// [`crate::command::Reply::Rings`].
    Status,
    /// [`crate::command::Reply::Capacity`].
    Resize(Bytes),
    /// [`crate::command::Reply::Pinned`].
    Pin {
        /// What the user calls it.
        label: String,
        /// First time.
        from: Timestamp,
        /// Last time.
        to: Timestamp,
        /// Pins of its relatives that were made along with it: what stands for each, and its pin.
        along: Vec<(String, u64)>,
    },
    /// Gives it other relatives, by what stands for each ([`relative_of`]): [`crate::command::Reply::Ring`].
    Relate(Vec<String>),
    /// Has it go on with what another target has, if nothing was ever recorded into it: [`crate::command::Reply::Done`].
    Begin(Beginning),
    /// [`crate::command::Reply::Done`].
    Unpin(u64),
    /// [`crate::command::Reply::Pins`].
    Pins,
    /// Begins or resumes recording: [`crate::command::WriterOpened`].
    OpenWriter {
        /// The writer session.
        writer: u64,
        /// Whether it goes on.
        resume: bool,
    },
    /// Takes in a block, which is the payload; answered with nothing when it has its place in the ring's memory.
    Append {
        /// The writer session.
        writer: u64,
        /// The block's number in it.
        number: u64,
        /// How long ago its first element was accepted.
        age: Duration,
    },
    /// Waits until something else is durable than this, or for [`BEAT`]: [`Durable`].
    Durable {
        /// The writer session.
        writer: u64,
        /// What is known.
        seen: Durable,
    },
    /// Ends recording, when all that was taken in is durable: nothing.
    CloseWriter(u64),
    /// Begins a query, which has the number of this request on its connection: nothing.
    Query(RingQuery),
    /// Waits for the next part of the answer to the query of this number: [`PartHead`], and the bytes of elements as the payload.
    Next(u64),
    /// Moves it to another target.
    Image(ImageAsk),
}

/// A query of a ring; as [`crate::command::QueryRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingQuery {
    /// The query.
    pub text: String,
    /// The time that relative times in it count from.
    pub now: Timestamp,
    /// Whether to go on with what is recorded from now on.
    pub follow: bool,
    /// Elements at most; all if `None`. Does not count with `blocks`, unless it is 0.
    pub limit: Option<u64>,
    /// Whether only gaps and expired ranges are wanted.
    pub gaps_only: bool,
    /// Whole blocks instead of the elements in them that match: those that have a time that is asked for, as they lie there.
    pub blocks: bool,
    /// Whether to tell of each block of which something comes which one it is.
    pub numbered: bool,
}

/// A part of a query's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PartHead {
    /// Items, in order; at most [`crate::command::ITEMS_PER_FRAME`], and [`MOST_OF_PART`] bytes of them.
    Items(Vec<Item>),
    /// The end.
    End(QuerySummary),
}

/// What a ring of a volume is called at its target, where rings have names.
pub fn name_of(ring: ObjectId) -> String {
    format!("/ring/{:x}/{:x}", ring.volume, ring.object)
}

/// The ring that has this name there, if it is one of a cluster on the network.
pub fn ring_of(name: &str) -> Option<ObjectId> {
    let (volume, object) = name.strip_prefix("/ring/")?.split_once('/')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some(ObjectId { volume: number(volume)?, object: number(object)? }).filter(|ring| name_of(*ring) == name)
}

/// What stands for a ring among the relatives of another one, wherever its parts lie: its entry.
pub fn relative_of(entry: FileId) -> String {
    format!("{ELSEWHERE}{:x}", entry.0)
}

/// The entry for which this stands, if it stands for one.
pub fn entry_of(relative: &str) -> Option<FileId> {
    let entry = FileId(u64::from_str_radix(relative.strip_prefix(ELSEWHERE)?, 16).ok()?);
    Some(entry).filter(|entry| relative_of(*entry) == relative)
}

/// [`forebay_model::Kind::Usage`] unless these stand for relatives, and are not too many.
pub fn check_relatives<'a>(relatives: impl IntoIterator<Item = &'a String>) -> Result<()> {
    let mut count = 0;
    for relative in relatives {
        count += 1;
        if entry_of(relative).is_none() {
            return Err(Error::usage(format!("{relative} stands for no ring of a cluster on the network")));
        }
    }
    match count <= MOST_RELATIVES {
        true => Ok(()),
        false => Err(Error::usage(format!("{count} relatives are too many for a ring; {MOST_RELATIVES} are the most"))),
    }
}

impl RingRequest {
    /// Its number on the wire.
    pub fn command(&self) -> Command {
        match &self.ask {
            RingAsk::Create(_) => Command::CREATE_RING,
            RingAsk::Status => Command::STATUS,
            RingAsk::Resize(_) => Command::RESIZE_RING,
            RingAsk::Pin { .. } => Command::PIN,
            RingAsk::Relate(_) => Command::RELATE_RING,
            RingAsk::Begin(_) => Command::BEGIN_RING,
            RingAsk::Unpin(_) => Command::UNPIN,
            RingAsk::Pins => Command::PINS,
            RingAsk::OpenWriter { .. } => Command::OPEN_WRITER,
            RingAsk::Append { .. } => Command::APPEND,
            RingAsk::Durable { .. } => Command::DURABLE,
            RingAsk::CloseWriter(_) => Command::CLOSE_WRITER,
            RingAsk::Query(_) => Command::QUERY,
            RingAsk::Next(_) => Command::NEXT_OF_QUERY,
            RingAsk::Image(ImageAsk::Portrait) => Command::PORTRAIT,
            RingAsk::Image(ImageAsk::Read { .. }) => Command::READ_IMAGE,
            RingAsk::Image(ImageAsk::Receive) => Command::RECEIVE_RING,
            RingAsk::Image(ImageAsk::Write { .. }) => Command::WRITE_IMAGE,
            RingAsk::Image(ImageAsk::Received) => Command::RECEIVED_RING,
        }
    }

    /// What it takes to be allowed to ask it.
    pub fn rights(&self) -> Rights {
        match &self.ask {
            RingAsk::Create(_) => Rights::CREATE,
            RingAsk::Status | RingAsk::Pins => Rights::GET_ATTRIBUTES,
            RingAsk::Query(_) | RingAsk::Next(_) => Rights::READ,
            RingAsk::Resize(_) | RingAsk::Pin { .. } | RingAsk::Relate(_) | RingAsk::Unpin(_) => Rights::SET_ATTRIBUTES,
            RingAsk::Begin(_)
            | RingAsk::OpenWriter { .. }
            | RingAsk::Append { .. }
            | RingAsk::Durable { .. }
            | RingAsk::CloseWriter(_) => Rights::WRITE,
            // As it lies on the device, which nobody sees or writes who only uses it.
            RingAsk::Image(ImageAsk::Portrait | ImageAsk::Read { .. }) => Rights::READ | Rights::REMOVE,
            RingAsk::Image(_) => Rights::CREATE | Rights::REMOVE,
        }
    }

    /// The bytes that it takes to be allowed: as many as the ring is to have.
    pub fn bytes(&self) -> Range<u64> {
        match &self.ask {
            RingAsk::Create(spec) => 0..spec.capacity.0,
            RingAsk::Resize(capacity) => 0..capacity.0,
            _ => 0..0,
        }
    }

    /// The body of its frame.
    pub fn body(&self) -> Result<Vec<u8>> {
        let of = (self.target, self.ring);
        match &self.ask {
            RingAsk::Create(spec) => body::write(&(of, spec)),
            RingAsk::Status
            | RingAsk::Pins
            | RingAsk::Image(ImageAsk::Portrait | ImageAsk::Receive | ImageAsk::Received) => body::write(&(of, ())),
            RingAsk::Resize(capacity) => body::write(&(of, capacity)),
            RingAsk::Pin { label, from, to, along } => body::write(&(of, (label, from, to, along))),
            RingAsk::Relate(relatives) => body::write(&(of, relatives)),
            RingAsk::Begin(beginning) => body::write(&(of, beginning)),
            RingAsk::OpenWriter { writer, resume } => body::write(&(of, (writer, resume))),
            RingAsk::Append { writer, number, age } => body::write(&(of, (writer, number, age))),
            RingAsk::Durable { writer, seen } => body::write(&(of, (writer, seen))),
            RingAsk::Query(query) => body::write(&(of, query)),
            RingAsk::Image(ImageAsk::Read { offset, length }) => body::write(&(of, (offset, length))),
            RingAsk::Image(ImageAsk::Write { offset }) => body::write(&(of, offset)),
            RingAsk::Unpin(number) | RingAsk::CloseWriter(number) | RingAsk::Next(number) => body::write(&(of, number)),
        }
    }

    /// The request of this command and body; `None` if the command is none about rings.
    pub fn read(command: Command, bytes: &[u8]) -> Result<Option<RingRequest>> {
        fn of<T: DeserializeOwned>(bytes: &[u8], ask: impl FnOnce(T) -> RingAsk) -> Result<RingRequest> {
            let ((target, ring), asked) = body::read(bytes)?;
            Ok(RingRequest { target, ring, ask: ask(asked) })
        }
        Ok(Some(match command {
            Command::CREATE_RING => of(bytes, RingAsk::Create)?,
            Command::STATUS => of(bytes, |()| RingAsk::Status)?,
            Command::RESIZE_RING => of(bytes, RingAsk::Resize)?,
            Command::PIN => of(bytes, |(label, from, to, along)| RingAsk::Pin { label, from, to, along })?,
            Command::RELATE_RING => of(bytes, RingAsk::Relate)?,
            Command::BEGIN_RING => of(bytes, RingAsk::Begin)?,
            Command::UNPIN => of(bytes, RingAsk::Unpin)?,
            Command::PINS => of(bytes, |()| RingAsk::Pins)?,
            Command::OPEN_WRITER => of(bytes, |(writer, resume)| RingAsk::OpenWriter { writer, resume })?,
            Command::APPEND => of(bytes, |(writer, number, age)| RingAsk::Append { writer, number, age })?,
            Command::DURABLE => of(bytes, |(writer, seen)| RingAsk::Durable { writer, seen })?,
            Command::CLOSE_WRITER => of(bytes, RingAsk::CloseWriter)?,
            Command::QUERY => of(bytes, RingAsk::Query)?,
            Command::NEXT_OF_QUERY => of(bytes, RingAsk::Next)?,
            Command::PORTRAIT => of(bytes, |()| RingAsk::Image(ImageAsk::Portrait))?,
            Command::READ_IMAGE => of(bytes, |(offset, length)| RingAsk::Image(ImageAsk::Read { offset, length }))?,
            Command::RECEIVE_RING => of(bytes, |()| RingAsk::Image(ImageAsk::Receive))?,
            Command::WRITE_IMAGE => of(bytes, |offset| RingAsk::Image(ImageAsk::Write { offset }))?,
            Command::RECEIVED_RING => of(bytes, |()| RingAsk::Image(ImageAsk::Received))?,
            _ => return Ok(None),
        }))
    }
}

/// Bytes of the payload that an item stands for.
pub fn size(item: &Item) -> usize {
    match item {
        Item::Element { length, caller, .. } => *length as usize + usize::from(*caller),
        Item::Gap(_) | Item::Expired { .. } | Item::Block { .. } => 0,
    }
}

/// [`forebay_model::Kind::Damaged`] unless the items account for every byte of the payload.
pub fn check(batch: &Batch) -> Result<()> {
    let told: u64 = batch.items.iter().map(|item| size(item) as u64).sum();
    if told == batch.payload.len() as u64 {
        return Ok(());
    }
    Err(Error::damaged(format!(
        "a node tells of {told} bytes of elements and sends {}: it is broken",
        batch.payload.len()
    )))
}

#[cfg(test)]
pub(crate) mod tests;

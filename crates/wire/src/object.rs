//! What is asked of the objects of one target, and what it answers.
//!
//! An [`ObjectRequest`] is answered by one [`ObjectReply`]; bytes of objects are payloads, at most [`LARGEST`] of
//! them. Several may be under way on a connection; they are answered in the order in which they came.
//! `docs/protocol/commands.md` describes every command.

mod described;
mod wanted;

pub use described::{DESCRIBED, Described};
pub use wanted::{About, COMPANION, companion};

use crate::body;
use crate::frame::{Command, Flags, Head, MAX_PAYLOAD, RequestId};
use crate::pieces::Pieces;
use crate::reader::FrameReader;
use crate::writer::FrameWriter;
use forebay_model::object::{
    Attribute, AttributeChange, Durability, ObjectHead, OnPage, OverQuota, Placement, Quota, Scope,
};
use forebay_model::{Bytes, Error, ObjectId, Result, TargetId};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};

/// The most bytes of an object that one request writes or reads: as a whole or not at all.
pub const LARGEST: Bytes = Bytes(MAX_PAYLOAD as u64);
/// In pieces of so many goes what may come in pieces, so that others get their turn and little memory is needed. The most bytes that
/// one request about anything but an object's bytes brings.
pub const MOST_AT_ONCE: Bytes = Bytes::mib(4);
/// The most bytes that requests without an answer may write and read together, on one connection; a larger one goes alone.
pub const WINDOW: Bytes = Bytes::mib(16);
/// The most requests without an answer on one connection.
pub const MOST_PENDING: usize = 64;
/// Bytes are lost, and found damaged, in blocks of so many.
pub const LOST_TOGETHER: Bytes = Bytes::kib(4);
/// The most bytes of attributes in one answer (and always one attribute).
pub const MOST_ATTRIBUTES: usize = 256 << 10;
/// The most bytes of attributes that ride along with what is known of an object.
pub const MOST_RIDING: usize = 8 << 10;

/// The numbers of the commands.
impl Command {
    /// [`Ask::CreateVolume`].
    pub const CREATE_VOLUME: Command = Command(48);
    /// [`Ask::SetQuota`].
    pub const SET_QUOTA: Command = Command(49);
    /// [`Ask::Create`].
    pub const CREATE_OBJECT: Command = Command(50);
    /// [`Ask::Remove`].
    pub const REMOVE_OBJECT: Command = Command(51);
    /// [`Ask::Stat`].
    pub const STAT_OBJECT: Command = Command(52);
    /// [`Ask::List`].
    pub const LIST_OBJECTS: Command = Command(53);
    /// [`Ask::Read`].
    pub const READ_OBJECT: Command = Command(54);
    /// [`Ask::Write`].
    pub const WRITE_OBJECT: Command = Command(55);
    /// [`Ask::Append`].
    pub const APPEND_OBJECT: Command = Command(56);
    /// [`Ask::Truncate`].
    pub const TRUNCATE_OBJECT: Command = Command(57);
    /// [`Ask::Punch`].
    pub const PUNCH_OBJECT: Command = Command(58);
    /// [`Ask::Flush`].
    pub const FLUSH_OBJECTS: Command = Command(59);
    /// [`Ask::Attributes`].
    pub const ATTRIBUTES: Command = Command(60);
    /// [`Ask::SetAttributes`].
    pub const SET_ATTRIBUTES: Command = Command(61);
    /// [`Ask::Snapshot`].
    pub const SNAPSHOT_OBJECT: Command = Command(62);
    /// [`Ask::Lose`].
    pub const LOSE_OBJECT: Command = Command(63);
    /// [`crate::lock::Lock`].
    pub const LOCK: Command = Command(80);
    /// [`crate::lock::Unlock`].
    pub const UNLOCK: Command = Command(81);
}

/// What is asked, and of which target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRequest {
    /// The target.
    pub target: TargetId,
    /// What rides on it.
    pub riders: Riders,
    /// What is asked of it.
    pub ask: Ask,
}

/// Attributes that ride on a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Riders {
    /// Attributes that change in the same step: on [`Ask::Write`], [`Ask::Append`], [`Ask::Truncate`], [`Ask::Punch`]
    /// and [`Ask::Snapshot`], where they are those of the new object.
    pub set: Vec<AttributeChange>,
    /// The page of which the first attributes are brought along, on what is asked of one object: with [`Ask::Read`] as
    /// they were when the bytes were, else as they are afterwards. See [`Receipt::attributes`].
    pub get: Option<u32>,
}

/// What is asked of a target's objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// Makes a volume: objects that share a quota. [`ObjectReply::Done`].
    CreateVolume {
        /// Its number, not 0.
        volume: u64,
        /// The most that it may hold.
        quota: Quota,
    },
    /// Gives a volume another quota: [`ObjectReply::Done`].
    SetQuota {
        /// The volume.
        volume: u64,
        /// The most that it may hold from now on.
        quota: Quota,
    },
    /// Makes an object with these attributes: [`ObjectReply::Done`].
    Create {
        /// The object.
        id: ObjectId,
        /// Its attributes.
        attributes: Vec<Attribute>,
    },
    /// Ends an object with all that it holds, or a volume, which must be empty: [`ObjectReply::Done`].
    Remove {
        /// The object.
        id: ObjectId,
    },
    /// What is known of an object or a volume: [`ObjectReply::Info`].
    Stat {
        /// The object.
        id: ObjectId,
        /// The page of attributes that rides along.
        page: Option<u32>,
    },
    /// The objects of a volume in the order of their numbers, or, of volume 0, the volumes: [`ObjectReply::List`].
    List {
        /// The volume.
        volume: u64,
        /// From this number on.
        from: u64,
        /// So many at most.
        most: u32,
        /// The page of attributes that rides along.
        page: Option<u32>,
    },
    /// Bytes of an object, or as many as there are: [`ObjectReply::Bytes`].
    Read {
        /// The object.
        id: ObjectId,
        /// The first.
        offset: u64,
        /// How many, [`LARGEST`] at most.
        length: u32,
    },
    /// Writes the payload: [`ObjectReply::Done`].
    Write {
        /// The object.
        id: ObjectId,
        /// Where the first byte goes.
        offset: u64,
        /// Where they lie then.
        placement: Placement,
        /// When it is answered.
        durability: Durability,
    },
    /// Writes the payload behind the last byte: [`ObjectReply::At`].
    Append {
        /// The object.
        id: ObjectId,
        /// Where the bytes lie then.
        placement: Placement,
        /// When it is answered.
        durability: Durability,
    },
    /// Makes an object longer, by zeros, or shorter: [`ObjectReply::Done`].
    Truncate {
        /// The object.
        id: ObjectId,
        /// Its size from now on.
        size: u64,
    },
    /// Makes zeros of a range, which takes no space then; the size stays: [`ObjectReply::Done`].
    Punch {
        /// The object.
        id: ObjectId,
        /// The first byte.
        offset: u64,
        /// How many.
        length: u64,
    },
    /// Says that bytes are lost: from now on reading any of them is [`forebay_model::Kind::Damaged`], until they are written
    /// again: [`ObjectReply::Done`]. The object is so long at least.
    Lose {
        /// The object.
        id: ObjectId,
        /// The first byte, which is the first of a block of [`LOST_TOGETHER`].
        offset: u64,
        /// How many, up to [`MOST_AT_ONCE`]: to the end of a block, or of the object.
        length: u64,
    },
    /// Makes durable what was answered as buffered: [`ObjectReply::Done`].
    Flush {
        /// Of what.
        scope: Scope,
        /// The boot epoch of those answers ([`Receipt::epoch`]): if the target was opened again since, what they were for
        /// may be lost, and the error is [`forebay_model::Kind::Restarted`].
        epoch: Option<u64>,
    },
    /// The attributes on a page: [`ObjectReply::Attributes`].
    Attributes {
        /// The object.
        id: ObjectId,
        /// The page.
        page: u32,
        /// From this number on.
        from: u32,
    },
    /// Sets attributes, and ends those without a value: [`ObjectReply::Done`].
    SetAttributes {
        /// The object.
        id: ObjectId,
        /// What is set.
        changes: Vec<AttributeChange>,
    },
    /// Makes an object of the bytes and attributes that another has now, and shares its blocks: [`ObjectReply::Done`].
    Snapshot {
        /// The object, which must not exist.
        id: ObjectId,
        /// The other one, in the same volume or another.
        of: ObjectId,
    },
}

/// An object that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectInfo {
    /// Which.
    pub id: ObjectId,
    /// What the target keeps of it.
    pub head: ObjectHead,
    /// The first attributes of the page that was asked for: numbers and values, [`MOST_RIDING`] bytes at most.
    pub attributes: OnPage,
}

/// The answer to an [`ObjectRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ObjectReply {
    /// It is done.
    Done,
    /// What is known of an object.
    Info(Box<ObjectInfo>),
    /// Objects.
    List {
        /// In the order of their numbers.
        objects: Vec<ObjectInfo>,
        /// Where to go on; none if these were the last.
        next: Option<u64>,
    },
    /// The payload has the bytes.
    Bytes,
    /// Where what was appended begins.
    At(u64),
    /// Attributes.
    Attributes {
        /// Numbers and values.
        values: OnPage,
        /// Where to go on; none if these were the last.
        next: Option<u32>,
    },
}

/// What comes with every reply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The boot epoch of the target, which changes whenever it is opened: what was buffered in an earlier one may be
    /// lost.
    pub epoch: u64,
    /// After a command that may have taken space: the volume holds more than its soft quota.
    pub over: Option<OverQuota>,
    /// Numbers and values, where [`Riders::get`] asked for them: [`MOST_RIDING`] bytes at most.
    pub attributes: OnPage,
    /// The device takes several times as long as its profile says at the worst: who has the bytes elsewhere does not wait for it.
    pub slow: bool,
}

/// A reply with the bytes that come with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectAnswer {
    /// The reply.
    pub reply: ObjectReply,
    /// What comes with every reply.
    pub receipt: Receipt,
    /// Its payload.
    pub payload: Pieces,
}

impl From<ObjectReply> for ObjectAnswer {
    fn from(reply: ObjectReply) -> ObjectAnswer {
        ObjectAnswer { reply, receipt: Receipt::default(), payload: Pieces::default() }
    }
}

impl ObjectRequest {
    /// Asks without riders.
    pub fn new(target: TargetId, ask: Ask) -> ObjectRequest {
        ObjectRequest { target, riders: Riders::default(), ask }
    }

    /// Its number on the wire.
    pub fn command(&self) -> Command {
        match self.ask {
            Ask::CreateVolume { .. } => Command::CREATE_VOLUME,
            Ask::SetQuota { .. } => Command::SET_QUOTA,
            Ask::Create { .. } => Command::CREATE_OBJECT,
            Ask::Remove { .. } => Command::REMOVE_OBJECT,
            Ask::Stat { .. } => Command::STAT_OBJECT,
            Ask::List { .. } => Command::LIST_OBJECTS,
            Ask::Read { .. } => Command::READ_OBJECT,
            Ask::Write { .. } => Command::WRITE_OBJECT,
            Ask::Append { .. } => Command::APPEND_OBJECT,
            Ask::Truncate { .. } => Command::TRUNCATE_OBJECT,
            Ask::Punch { .. } => Command::PUNCH_OBJECT,
            Ask::Lose { .. } => Command::LOSE_OBJECT,
            Ask::Flush { .. } => Command::FLUSH_OBJECTS,
            Ask::Attributes { .. } => Command::ATTRIBUTES,
            Ask::SetAttributes { .. } => Command::SET_ATTRIBUTES,
            Ask::Snapshot { .. } => Command::SNAPSHOT_OBJECT,
        }
    }

    /// What it counts in a [`WINDOW`] with a payload of `payload` bytes.
    pub fn weight(&self, payload: usize) -> usize {
        match self.ask {
            Ask::Read { length, .. } => length.min(MAX_PAYLOAD) as usize,
            Ask::Lose { length, .. } => length.min(MOST_AT_ONCE.0) as usize,
            _ => payload,
        }
    }

    /// Sends it as request `id`, with what it writes.
    pub fn send(&self, writer: &mut FrameWriter<impl Write>, id: RequestId, payload: &[u8]) -> Result<()> {
        writer.send_body(id, self.command(), Flags::NONE, &self.body()?, &[payload])
    }

    /// The body of its frame.
    pub fn body(&self) -> Result<Vec<u8>> {
        let target = (self.target, &self.riders);
        match &self.ask {
            Ask::CreateVolume { volume, quota } | Ask::SetQuota { volume, quota } => {
                body::write(&(target, volume, quota))
            }
            Ask::Create { id: of, attributes } => body::write(&(target, of, attributes)),
            Ask::Remove { id: of } => body::write(&(target, of)),
            Ask::Flush { scope, epoch } => body::write(&(target, scope, epoch)),
            Ask::Stat { id: of, page } => body::write(&(target, of, page)),
            Ask::List { volume, from, most, page } => body::write(&(target, volume, from, most, page)),
            Ask::Read { id: of, offset, length } => body::write(&(target, of, offset, length)),
            Ask::Write { id: of, offset, placement, durability } => {
                body::write(&(target, of, offset, placement, durability))
            }
            Ask::Append { id: of, placement, durability } => body::write(&(target, of, placement, durability)),
            Ask::Truncate { id: of, size } => body::write(&(target, of, size)),
            Ask::Punch { id: of, offset, length } | Ask::Lose { id: of, offset, length } => {
                body::write(&(target, of, offset, length))
            }
            Ask::Attributes { id: of, page, from } => body::write(&(target, of, page, from)),
            Ask::SetAttributes { id: of, changes } => body::write(&(target, of, changes)),
            Ask::Snapshot { id: new, of } => body::write(&(target, new, of)),
        }
    }

    /// The request that a frame with this head brought, whose payload has not been taken; `None` if its command is none
    /// of these. The inner error is of a request that is well formed, and asks for what is not known.
    pub fn receive(reader: &mut FrameReader<impl Read>, head: &Head) -> Result<Option<Result<ObjectRequest>>> {
        reader.parse(|body| ObjectRequest::read(head.command, body))
    }

    /// As [`ObjectRequest::receive`], of the body of a frame with this command.
    pub fn read(command: Command, body: &[u8]) -> Result<Option<Result<ObjectRequest>>> {
        let ((target, riders), ask): ((TargetId, Riders), Ask) = match command {
            Command::CREATE_VOLUME => {
                body::read(body).map(|(target, volume, quota)| (target, Ask::CreateVolume { volume, quota }))?
            }
            Command::SET_QUOTA => {
                body::read(body).map(|(target, volume, quota)| (target, Ask::SetQuota { volume, quota }))?
            }
            Command::CREATE_OBJECT => {
                body::read(body).map(|(target, id, attributes)| (target, Ask::Create { id, attributes }))?
            }
            Command::REMOVE_OBJECT => body::read(body).map(|(target, id)| (target, Ask::Remove { id }))?,
            Command::STAT_OBJECT => body::read(body).map(|(target, id, page)| (target, Ask::Stat { id, page }))?,
            Command::LIST_OBJECTS => body::read(body)
                .map(|(target, volume, from, most, page)| (target, Ask::List { volume, from, most, page }))?,
            Command::READ_OBJECT => {
                body::read(body).map(|(target, id, offset, length)| (target, Ask::Read { id, offset, length }))?
            }
            Command::WRITE_OBJECT => {
                let (target, id, offset, placement, level) = body::read(body)?;
                match ways(placement, level) {
                    Ok((placement, durability)) => (target, Ask::Write { id, offset, placement, durability }),
                    Err(error) => return Ok(Some(Err(error))),
                }
            }
            Command::APPEND_OBJECT => {
                let (target, id, placement, level) = body::read(body)?;
                match ways(placement, level) {
                    Ok((placement, durability)) => (target, Ask::Append { id, placement, durability }),
                    Err(error) => return Ok(Some(Err(error))),
                }
            }
            Command::TRUNCATE_OBJECT => {
                body::read(body).map(|(target, id, size)| (target, Ask::Truncate { id, size }))?
            }
            Command::PUNCH_OBJECT => {
                body::read(body).map(|(target, id, offset, length)| (target, Ask::Punch { id, offset, length }))?
            }
            Command::LOSE_OBJECT => {
                body::read(body).map(|(target, id, offset, length)| (target, Ask::Lose { id, offset, length }))?
            }
            Command::FLUSH_OBJECTS => {
                body::read(body).map(|(target, scope, epoch)| (target, Ask::Flush { scope, epoch }))?
            }
            Command::ATTRIBUTES => {
                body::read(body).map(|(target, id, page, from)| (target, Ask::Attributes { id, page, from }))?
            }
            Command::SET_ATTRIBUTES => {
                body::read(body).map(|(target, id, changes)| (target, Ask::SetAttributes { id, changes }))?
            }
            Command::SNAPSHOT_OBJECT => body::read(body).map(|(target, id, of)| (target, Ask::Snapshot { id, of }))?,
            _ => return Ok(None),
        };
        Ok(Some(Ok(ObjectRequest { target, riders, ask })))
    }
}

/// The placement and the level of durability with these numbers, which are those of their cases.
fn ways(placement: u32, level: u32) -> Result<(Placement, Durability)> {
    let placement = match placement {
        0 => Placement::Auto,
        1 => Placement::Log,
        2 => Placement::Home,
        other => return Err(unknown("placement", other, "0 auto, 1 log, 2 home")),
    };
    let durability = match level {
        0 => Durability::Durable,
        1 => Durability::Buffered,
        other => return Err(unknown("level of durability", other, "0 durable, 1 buffered")),
    };
    Ok((placement, durability))
}

fn unknown(what: &str, number: u32, known: &str) -> Error {
    Error::usage(format!("there is no {what} {number}; take one of {known} (nothing was changed)"))
}

impl ObjectAnswer {
    /// The body of its last frame.
    pub fn body(&self) -> Result<Vec<u8>> {
        body::write(&(&self.reply, &self.receipt))
    }

    /// The answer that these are body and payload of.
    pub fn read(body: &[u8], payload: impl Into<Pieces>) -> Result<ObjectAnswer> {
        let (reply, receipt) = body::read(body)?;
        Ok(ObjectAnswer { reply, receipt, payload: payload.into() })
    }

    /// Sends it as the answer to request `id`.
    pub fn send(&self, writer: &mut FrameWriter<impl Write>, id: RequestId, command: Command) -> Result<()> {
        let payload: Vec<&[u8]> = self.payload.iter().collect();
        writer.send(id, command, Flags::RESPONSE.and(Flags::END), &(&self.reply, &self.receipt), &payload)
    }

    /// The answer that a frame with this head brought, or the error that the other side sent.
    pub fn receive(reader: &mut FrameReader<impl Read>, head: &Head) -> Result<ObjectAnswer> {
        let (reply, receipt) = reader.answer(head)?;
        let mut payload = vec![0; head.payload as usize];
        reader.payload_into(&mut payload)?;
        Ok(ObjectAnswer { reply, receipt, payload: payload.into() })
    }
}

#[cfg(test)]
pub(crate) mod tests;

//! What is asked of the objects of one target, and what it answers.
//!
//! An [`ObjectRequest`] is answered by one [`ObjectReply`]; bytes of objects are payloads, at most [`MOST_AT_ONCE`] of
//! them. Several may be under way on a connection; they are answered in the order in which they came.
//! `docs/protocol/commands.md` describes every command.

use crate::frame::{Command, Flags, Head, RequestId};
use crate::reader::FrameReader;
use crate::writer::FrameWriter;
use forebay_model::object::{Attribute, AttributeChange, Durability, ObjectHead, Placement, Quota};
use forebay_model::{Bytes, ObjectId, Result, TargetId};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};

/// The most bytes that one request writes or reads.
pub const MOST_AT_ONCE: Bytes = Bytes::mib(4);
/// The most bytes that requests without an answer may write and read together, on one connection.
pub const WINDOW: Bytes = Bytes::mib(16);
/// The most requests without an answer on one connection.
pub const MOST_PENDING: usize = 64;
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
}

/// What is asked, and of which target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRequest {
    /// The target.
    pub target: TargetId,
    /// What is asked of it.
    pub ask: Ask,
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
        /// How many, [`MOST_AT_ONCE`] at most.
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
    /// Makes durable what was answered as buffered, of an object, or of a volume (whose object is 0), or of the whole
    /// target (volume 0, object 0): [`ObjectReply::Done`].
    Flush {
        /// The object.
        id: ObjectId,
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
}

/// An object that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectInfo {
    /// Which.
    pub id: ObjectId,
    /// What the target keeps of it.
    pub head: ObjectHead,
    /// The first attributes of the page that was asked for: numbers and values, [`MOST_RIDING`] bytes at most.
    pub attributes: Vec<(u32, Vec<u8>)>,
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
        values: Vec<(u32, Vec<u8>)>,
        /// Where to go on; none if these were the last.
        next: Option<u32>,
    },
}

/// A reply with the bytes that come with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectAnswer {
    /// The reply.
    pub reply: ObjectReply,
    /// Its payload.
    pub payload: Vec<u8>,
}

impl From<ObjectReply> for ObjectAnswer {
    fn from(reply: ObjectReply) -> ObjectAnswer {
        ObjectAnswer { reply, payload: Vec::new() }
    }
}

impl ObjectRequest {
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
            Ask::Flush { .. } => Command::FLUSH_OBJECTS,
            Ask::Attributes { .. } => Command::ATTRIBUTES,
            Ask::SetAttributes { .. } => Command::SET_ATTRIBUTES,
        }
    }

    /// What it counts in a [`WINDOW`] with a payload of `payload` bytes.
    pub fn weight(&self, payload: usize) -> usize {
        match self.ask {
            Ask::Read { length, .. } => length.min(MOST_AT_ONCE.0 as u32) as usize,
            _ => payload,
        }
    }

    /// Sends it as request `id`, with what it writes.
    pub fn send(&self, writer: &mut FrameWriter<impl Write>, id: RequestId, payload: &[u8]) -> Result<()> {
        let (command, none, target) = (self.command(), Flags::NONE, self.target);
        let payload = &[payload][..];
        match &self.ask {
            Ask::CreateVolume { volume, quota } | Ask::SetQuota { volume, quota } => {
                writer.send(id, command, none, &(target, volume, quota), payload)
            }
            Ask::Create { id: of, attributes } => writer.send(id, command, none, &(target, of, attributes), payload),
            Ask::Remove { id: of } | Ask::Flush { id: of } => writer.send(id, command, none, &(target, of), payload),
            Ask::Stat { id: of, page } => writer.send(id, command, none, &(target, of, page), payload),
            Ask::List { volume, from, most, page } => {
                writer.send(id, command, none, &(target, volume, from, most, page), payload)
            }
            Ask::Read { id: of, offset, length } => {
                writer.send(id, command, none, &(target, of, offset, length), payload)
            }
            Ask::Write { id: of, offset, placement, durability } => {
                writer.send(id, command, none, &(target, of, offset, placement, durability), payload)
            }
            Ask::Append { id: of, placement, durability } => {
                writer.send(id, command, none, &(target, of, placement, durability), payload)
            }
            Ask::Truncate { id: of, size } => writer.send(id, command, none, &(target, of, size), payload),
            Ask::Punch { id: of, offset, length } => {
                writer.send(id, command, none, &(target, of, offset, length), payload)
            }
            Ask::Attributes { id: of, page, from } => {
                writer.send(id, command, none, &(target, of, page, from), payload)
            }
            Ask::SetAttributes { id: of, changes } => writer.send(id, command, none, &(target, of, changes), payload),
        }
    }

    /// The request that a frame with this head brought, whose payload has not been taken; `None` if its command is none
    /// of these.
    pub fn receive(reader: &mut FrameReader<impl Read>, head: &Head) -> Result<Option<ObjectRequest>> {
        let (target, ask) = match head.command {
            Command::CREATE_VOLUME => {
                reader.decode().map(|(target, volume, quota)| (target, Ask::CreateVolume { volume, quota }))?
            }
            Command::SET_QUOTA => {
                reader.decode().map(|(target, volume, quota)| (target, Ask::SetQuota { volume, quota }))?
            }
            Command::CREATE_OBJECT => {
                reader.decode().map(|(target, id, attributes)| (target, Ask::Create { id, attributes }))?
            }
            Command::REMOVE_OBJECT => reader.decode().map(|(target, id)| (target, Ask::Remove { id }))?,
            Command::STAT_OBJECT => reader.decode().map(|(target, id, page)| (target, Ask::Stat { id, page }))?,
            Command::LIST_OBJECTS => reader
                .decode()
                .map(|(target, volume, from, most, page)| (target, Ask::List { volume, from, most, page }))?,
            Command::READ_OBJECT => {
                reader.decode().map(|(target, id, offset, length)| (target, Ask::Read { id, offset, length }))?
            }
            Command::WRITE_OBJECT => reader.decode().map(|(target, id, offset, placement, durability)| {
                (target, Ask::Write { id, offset, placement, durability })
            })?,
            Command::APPEND_OBJECT => reader
                .decode()
                .map(|(target, id, placement, durability)| (target, Ask::Append { id, placement, durability }))?,
            Command::TRUNCATE_OBJECT => {
                reader.decode().map(|(target, id, size)| (target, Ask::Truncate { id, size }))?
            }
            Command::PUNCH_OBJECT => {
                reader.decode().map(|(target, id, offset, length)| (target, Ask::Punch { id, offset, length }))?
            }
            Command::FLUSH_OBJECTS => reader.decode().map(|(target, id)| (target, Ask::Flush { id }))?,
            Command::ATTRIBUTES => {
                reader.decode().map(|(target, id, page, from)| (target, Ask::Attributes { id, page, from }))?
            }
            Command::SET_ATTRIBUTES => {
                reader.decode().map(|(target, id, changes)| (target, Ask::SetAttributes { id, changes }))?
            }
            _ => return Ok(None),
        };
        Ok(Some(ObjectRequest { target, ask }))
    }
}

impl ObjectAnswer {
    /// Sends it as the answer to request `id`.
    pub fn send(&self, writer: &mut FrameWriter<impl Write>, id: RequestId, command: Command) -> Result<()> {
        writer.send(id, command, Flags::RESPONSE.and(Flags::END), &self.reply, &[&self.payload])
    }

    /// The answer that a frame with this head brought, or the error that the other side sent.
    pub fn receive(reader: &mut FrameReader<impl Read>, head: &Head) -> Result<ObjectAnswer> {
        let reply = reader.answer(head)?;
        let mut payload = vec![0; head.payload as usize];
        reader.payload_into(&mut payload)?;
        Ok(ObjectAnswer { reply, payload })
    }
}

#[cfg(test)]
mod tests;

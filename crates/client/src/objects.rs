//! Objects: bytes and attributes under an id ([`Place`]), or under a name.
//!
//! What is larger than a request goes in several, with some of them under way at a time ([`ObjectReader`],
//! [`ObjectWriter`]); memory is bounded by the window of [`forebay_wire::object`]. If the process that serves the objects
//! goes away, whoever takes over is asked again; nothing but an append can be left in doubt by that, which is then said.
//! [`names`] has what is done by name.

mod flight;
pub mod names;
mod stream;

pub use forebay_model::object::{
    AttributeChange, Content as Place, Durability, ObjectHead, OnPage, OverQuota, Placement, Quota, Scope, VolumeUse,
};
pub use forebay_wire::object::{LARGEST, MOST_AT_ONCE, ObjectInfo, Receipt};
pub use names::{Listing, Named, Put, Unfinished, is_under, name_of};
pub use stream::{ObjectReader, ObjectWriter};

use crate::cluster::unexpected;
use crate::peer::Peer;
use flight::{Answered, Flight, Links};
use forebay_model::object::Attribute;
use forebay_model::{Error, Kind, ObjectId, Result, TargetId};
use forebay_wire::command::{Reply, Request, TargetInfo};
use forebay_wire::object::{Ask, ObjectAnswer, ObjectReply, ObjectRequest, Riders};
use std::borrow::Cow;
use std::sync::Arc;

/// Objects that one request lists.
const LISTED_AT_ONCE: u32 = 1000;

/// The objects of a cluster. Cheap to clone; shared by all threads.
#[derive(Clone)]
pub struct Objects {
    links: Arc<Links>,
}

/// How bytes are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Where they go.
    pub placement: Placement,
    /// When it is answered.
    pub durability: Durability,
}

impl Objects {
    /// The objects of the cluster that `peer` leads to.
    pub(crate) fn over(peer: Arc<dyn Peer>) -> Objects {
        Objects { links: Links::over(peer) }
    }

    /// Makes a volume on a target: objects that share a quota.
    pub fn create_volume(&self, target: TargetId, volume: u64, quota: Quota) -> Result<()> {
        let Answered { repeated, answer, .. } = self.ask(target, Ask::CreateVolume { volume, quota }, Vec::new())?;
        match answer {
            Err(error) if repeated && error.kind == Kind::Exists => Ok(()),
            answer => done(answer),
        }
    }

    /// Gives a volume another quota.
    pub fn set_quota(&self, target: TargetId, volume: u64, quota: Quota) -> Result<()> {
        done(self.ask(target, Ask::SetQuota { volume, quota }, Vec::new())?.answer)
    }

    /// Makes an object with these attributes.
    pub fn create(&self, at: Place, attributes: Vec<Attribute>) -> Result<()> {
        let ask = Ask::Create { id: at.id, attributes: attributes.clone() };
        let Answered { repeated, answer, .. } = self.ask(at.target, ask, Vec::new())?;
        match answer {
            // It may be the one that was made before the process went away.
            Err(error) if repeated && error.kind == Kind::Exists => {
                for (page, number, value) in attributes {
                    if !self.attributes(at, page)?.contains(&(number, value)) {
                        return Err(error);
                    }
                }
                Ok(())
            }
            answer => done(answer),
        }
    }

    /// Ends an object with all that it holds, or a volume, which must be empty.
    pub fn remove(&self, at: Place) -> Result<()> {
        let Answered { repeated, answer, .. } = self.ask(at.target, Ask::Remove { id: at.id }, Vec::new())?;
        match answer {
            Err(error) if repeated && error.kind == Kind::Missing => Ok(()),
            answer => done(answer),
        }
    }

    /// What is known of an object or a volume; with the first attributes of `page`.
    pub fn stat(&self, at: Place, page: Option<u32>) -> Result<ObjectInfo> {
        match self.ask(at.target, Ask::Stat { id: at.id, page }, Vec::new())?.answer?.reply {
            ObjectReply::Info(info) => Ok(*info),
            other => Err(strange(&other)),
        }
    }

    /// Objects of a volume in the order of their numbers, from `from` on; and where to go on, if these are not all.
    pub fn list(
        &self,
        target: TargetId,
        volume: u64,
        from: u64,
        page: Option<u32>,
    ) -> Result<(Vec<ObjectInfo>, Option<u64>)> {
        let ask = Ask::List { volume, from, most: LISTED_AT_ONCE, page };
        match self.ask(target, ask, Vec::new())?.answer?.reply {
            ObjectReply::List { objects, next } => Ok((objects, next)),
            other => Err(strange(&other)),
        }
    }

    /// Bytes of an object from `offset` on: `length` of them, or as many as there are. As they were in one moment, up to
    /// [`LARGEST`].
    pub fn read_at(&self, at: Place, offset: u64, length: u64) -> Result<Vec<u8>> {
        if length <= LARGEST.0 {
            let ask = Ask::Read { id: at.id, offset, length: length as u32 };
            return bytes(self.ask(at.target, ask, Vec::new())?.answer?, length).map(|(bytes, _)| bytes);
        }
        let mut reader = self.reader(at, offset, length);
        let mut bytes = reader.next_bytes()?.unwrap_or_default();
        while let Some(more) = reader.next_bytes()? {
            bytes.extend_from_slice(&more);
        }
        Ok(bytes)
    }

    /// Bytes of an object as they come: `length` of them from `offset` on, or as many as there are.
    pub fn reader(&self, at: Place, offset: u64, length: u64) -> ObjectReader {
        ObjectReader::new(Flight::new(&self.links), at, offset, length)
    }

    /// Writes bytes at `offset`: as a whole or not at all, up to [`LARGEST`]. What is given away is not copied then.
    pub fn write_at<'a>(
        &self,
        at: Place,
        offset: u64,
        bytes: impl Into<Cow<'a, [u8]>>,
        options: WriteOptions,
    ) -> Result<()> {
        let bytes = bytes.into();
        if bytes.len() as u64 > LARGEST.0 {
            let mut writer = self.writer(at, offset, options);
            writer.write(&bytes)?;
            return writer.finish().map(drop);
        }
        let WriteOptions { placement, durability } = options;
        done(self.ask(at.target, Ask::Write { id: at.id, offset, placement, durability }, bytes.into_owned())?.answer)
    }

    /// Writes bytes at `offset`, [`LARGEST`] at most, and sets attributes in the same step. With the boot epoch
    /// that a flush of buffered bytes is to be asked with.
    pub fn write_with(
        &self,
        at: Place,
        offset: u64,
        bytes: &[u8],
        options: WriteOptions,
        set: Vec<AttributeChange>,
    ) -> Result<Receipt> {
        let WriteOptions { placement, durability } = options;
        let ask = Ask::Write { id: at.id, offset, placement, durability };
        let answer = self.ask_with(at.target, Riders { set, get: None }, ask, bytes.to_vec())?.answer?;
        let receipt = answer.receipt.clone();
        done(Ok(answer)).map(|()| receipt)
    }

    /// Bytes of an object, [`LARGEST`] at most, with the first attributes of `page` as they were at that moment.
    pub fn read_with(&self, at: Place, offset: u64, length: u32, page: u32) -> Result<(Vec<u8>, OnPage)> {
        let riders = Riders { set: Vec::new(), get: Some(page) };
        let answer = self.ask_with(at.target, riders, Ask::Read { id: at.id, offset, length }, Vec::new())?.answer?;
        bytes(answer, u64::from(length))
    }

    /// Writes bytes as they come, from `offset` on.
    pub fn writer(&self, at: Place, offset: u64, options: WriteOptions) -> ObjectWriter {
        ObjectWriter::new(Flight::new(&self.links), at, offset, options)
    }

    /// Writes bytes behind the last, [`LARGEST`] at most; where they begin. An error of kind disconnected means
    /// that nobody knows whether they were written.
    pub fn append(&self, at: Place, bytes: &[u8], options: WriteOptions) -> Result<u64> {
        let WriteOptions { placement, durability } = options;
        let ask = Ask::Append { id: at.id, placement, durability };
        match self.ask(at.target, ask, bytes.to_vec())?.answer?.reply {
            ObjectReply::At(offset) => Ok(offset),
            other => Err(strange(&other)),
        }
    }

    /// Makes an object longer, by zeros, or shorter.
    pub fn truncate(&self, at: Place, size: u64) -> Result<()> {
        done(self.ask(at.target, Ask::Truncate { id: at.id, size }, Vec::new())?.answer)
    }

    /// Makes zeros of a range, which takes no space then; the size stays.
    pub fn punch(&self, at: Place, offset: u64, length: u64) -> Result<()> {
        done(self.ask(at.target, Ask::Punch { id: at.id, offset, length }, Vec::new())?.answer)
    }

    /// Makes durable what was written as buffered: of an object, of a volume, or of all ([`ObjectId::ROOT`]).
    pub fn flush(&self, at: Place) -> Result<()> {
        let scope = match at.id {
            ObjectId::ROOT => Scope::Target,
            id if id.is_user() => Scope::Object(id),
            id => Scope::Volume(id.volume),
        };
        self.flush_scope(at.target, scope, None).map(drop)
    }

    /// Makes durable what was written as buffered in `scope`. With the boot `epoch` of the receipts that is counted on:
    /// if the target was opened again since, an error of kind restarted says that the bytes have to be sent again. The
    /// boot epoch.
    pub fn flush_scope(&self, target: TargetId, scope: Scope, epoch: Option<u64>) -> Result<u64> {
        let answer = self.ask(target, Ask::Flush { scope, epoch }, Vec::new())?.answer?;
        let now = answer.receipt.epoch;
        done(Ok(answer)).map(|()| now)
    }

    /// The attributes on a page: numbers and values.
    pub fn attributes(&self, at: Place, page: u32) -> Result<OnPage> {
        let (mut all, mut from) = (Vec::new(), Some(0));
        while let Some(number) = from {
            match self.ask(at.target, Ask::Attributes { id: at.id, page, from: number }, Vec::new())?.answer?.reply {
                ObjectReply::Attributes { values, next } => {
                    all.extend(values);
                    from = next.filter(|next| *next > number);
                }
                other => return Err(strange(&other)),
            }
        }
        Ok(all)
    }

    /// Sets attributes, and ends those without a value.
    pub fn set_attributes(&self, at: Place, changes: Vec<AttributeChange>) -> Result<()> {
        done(self.ask(at.target, Ask::SetAttributes { id: at.id, changes }, Vec::new())?.answer)
    }

    /// Makes object `id` on the same target, in the same volume or another, of the bytes and attributes that `of` has
    /// now, with `set` changed of these. They share their blocks until one of them is written to.
    pub fn snapshot(&self, of: Place, id: ObjectId, set: Vec<AttributeChange>) -> Result<()> {
        let riders = Riders { set, get: None };
        let Answered { repeated, answer, .. } =
            self.ask_with(of.target, riders, Ask::Snapshot { id, of: of.id }, Vec::new())?;
        match answer {
            Err(error) if repeated && error.kind == Kind::Exists => Err(Error::exists(format!(
                "{}; it may be this snapshot, made before the connection ended",
                error.message
            ))),
            answer => done(answer),
        }
    }

    /// The targets, as they say of themselves.
    fn targets(&self) -> Result<Vec<TargetInfo>> {
        match self.links.peer.call(Request::Info)? {
            Reply::Info(info) => Ok(info.targets),
            other => Err(unexpected(&other)),
        }
    }

    fn ask(&self, target: TargetId, ask: Ask, payload: Vec<u8>) -> Result<Answered> {
        self.ask_with(target, Riders::default(), ask, payload)
    }

    fn ask_with(&self, target: TargetId, riders: Riders, ask: Ask, payload: Vec<u8>) -> Result<Answered> {
        let mut flight = Flight::new(&self.links);
        flight.send(ObjectRequest { target, riders, ask }, Arc::new(payload))?;
        flight.receive()
    }
}

/// The bytes that came of reading `asked`, and the attributes that rode along.
fn bytes(answer: ObjectAnswer, asked: u64) -> Result<(Vec<u8>, OnPage)> {
    match answer.reply {
        ObjectReply::Bytes if answer.payload.len() as u64 <= asked => {
            Ok((answer.payload.into_vec(), answer.receipt.attributes))
        }
        ObjectReply::Bytes => Err(Error::damaged("a node sent more bytes than it was asked for")),
        other => Err(strange(&other)),
    }
}

fn done(answer: Result<ObjectAnswer>) -> Result<()> {
    match answer?.reply {
        ObjectReply::Done => Ok(()),
        other => Err(strange(&other)),
    }
}

/// A reply of another shape than its request has.
fn strange(reply: &ObjectReply) -> Error {
    let shape = match reply {
        ObjectReply::Done => "done",
        ObjectReply::Info(_) => "an object",
        ObjectReply::List { .. } => "objects",
        ObjectReply::Bytes => "bytes",
        ObjectReply::At(_) => "an offset",
        ObjectReply::Attributes { .. } => "attributes",
    };
    Error::damaged(format!("a node answered with {shape} what it was not asked: use the same release on both sides"))
}

/// The object of this number in this volume of a target.
pub fn place(target: TargetId, volume: u64, object: u64) -> Place {
    Place { target, id: ObjectId { volume, object } }
}

#[cfg(test)]
mod tests;

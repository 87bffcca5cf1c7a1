//! What is asked of a target's objects.

use super::Service;
use forebay_model::object::{ObjectHead, Quota, VolumeUse};
use forebay_model::{Bytes, Error, ObjectId, Result, TargetId};
use forebay_target::object::rows::{self, BLOCK};
use forebay_target::object::{self, Objects};
use forebay_target::schedule::StreamId;
use forebay_wire::object::{Ask, MOST_AT_ONCE, MOST_ATTRIBUTES, MOST_RIDING};
use forebay_wire::object::{ObjectAnswer, ObjectInfo, ObjectReply, ObjectRequest};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Objects that are looked up before others get their turn.
const LISTED_AT_ONCE: usize = 64;

/// A way to the objects of a target, whose I/O is one stream; never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkId(pub(crate) u64);

/// The streams of those who ask.
#[derive(Default)]
pub(super) struct Links {
    streams: RefCell<BTreeMap<LinkId, StreamId>>,
}

impl Links {
    fn stream(&self, service: &Service, link: LinkId) -> StreamId {
        *self.streams.borrow_mut().entry(link).or_insert_with(|| service.target.stream())
    }
}

/// Nobody asks over this link any more.
pub(super) fn end(service: &Service, link: LinkId) {
    if let Some(stream) = service.links.streams.borrow_mut().remove(&link) {
        service.target.disk().end_stream(stream);
    }
}

/// Does what is asked; `payload` is what is written.
pub(super) async fn ask(
    service: &Service,
    link: LinkId,
    request: ObjectRequest,
    payload: &[u8],
) -> Result<ObjectAnswer> {
    let (objects, stream) = (service.target.objects(), service.links.stream(service, link));
    let done = |()| ObjectReply::Done;
    check(request.target, service.target.id(), payload)?;
    let reply = match request.ask {
        Ask::CreateVolume { volume, quota } => objects.create_volume(volume, limits(quota)).await.map(done),
        Ask::SetQuota { volume, quota } => objects.set_quota(volume, limits(quota)).await.map(done),
        Ask::Create { id, attributes } => objects.create(id, attributes).await.map(done),
        Ask::Remove { id } => objects.remove(id).await.map(done),
        Ask::Stat { id, page } => info(objects, id, page).await.map(|info| ObjectReply::Info(Box::new(info))),
        Ask::List { volume, from, most, page } => list(objects, volume, from, most, page).await,
        Ask::Read { id, offset, length } => {
            if u64::from(length) > MOST_AT_ONCE.0 {
                return Err(Error::usage(format!(
                    "{length} bytes at once are too many to read; read {MOST_AT_ONCE} at most"
                )));
            }
            let payload = objects.read(stream, id, offset, u64::from(length)).await?;
            return Ok(ObjectAnswer { reply: ObjectReply::Bytes, payload });
        }
        // Writes are durable when they return, whatever was asked for.
        Ask::Write { id, offset, placement, durability: _ } => {
            objects.write(stream, id, offset, payload, place(placement)).await.map(done)
        }
        Ask::Append { id, placement, durability: _ } => {
            objects.append(stream, id, payload, place(placement)).await.map(ObjectReply::At)
        }
        Ask::Truncate { id, size } => objects.truncate(id, size).await.map(done),
        Ask::Punch { id, offset, length } => objects.punch(id, offset, length).await.map(done),
        // There is nothing to flush; an object that does not exist is told of, and a target that stopped.
        Ask::Flush { id: ObjectId::ROOT } => objects.ready().await.map(done),
        Ask::Flush { id } => objects.head(id).await.map(|_| ObjectReply::Done),
        Ask::Attributes { id, page, from } => attributes(objects, id, page, from).await,
        Ask::SetAttributes { id, changes } => objects.set_attributes(id, changes).await.map(done),
    };
    reply.map(ObjectAnswer::from)
}

fn check(asked: TargetId, own: TargetId, payload: &[u8]) -> Result<()> {
    if asked != own {
        return Err(Error::missing(format!("there is no target {asked}")));
    }
    if payload.len() as u64 > MOST_AT_ONCE.0 {
        return Err(too_much(payload.len()));
    }
    Ok(())
}

/// What is said of a payload that is too large.
pub(crate) fn too_much(length: usize) -> Error {
    Error::usage(format!("{length} bytes at once are too many to write; write {MOST_AT_ONCE} at most"))
}

async fn info(objects: &Objects, id: ObjectId, page: Option<u32>) -> Result<ObjectInfo> {
    let head = head(&objects.head(id).await?);
    let mut attributes = match page {
        Some(page) => objects.attributes(id, page).await?,
        None => Vec::new(),
    };
    let fits = fitting(&attributes, MOST_RIDING);
    attributes.truncate(fits);
    Ok(ObjectInfo { id, head, attributes })
}

/// How many of the attributes have `most` bytes together at most.
fn fitting(attributes: &[(u32, Vec<u8>)], most: usize) -> usize {
    let mut sum = 0;
    let fits = |(_, value): &&(u32, Vec<u8>)| {
        sum += weight(value);
        sum <= most
    };
    attributes.iter().take_while(fits).count()
}

/// Bytes of an attribute in an answer, with its number and its length.
fn weight(value: &[u8]) -> usize {
    value.len() + 8
}

async fn attributes(objects: &Objects, id: ObjectId, page: u32, from: u32) -> Result<ObjectReply> {
    let mut values = objects.attributes(id, page).await?;
    values.retain(|(number, _)| *number >= from);
    let fits = fitting(&values, MOST_ATTRIBUTES).max(1).min(values.len());
    let next = values.get(fits).map(|(number, _)| *number);
    values.truncate(fits);
    Ok(ObjectReply::Attributes { values, next })
}

async fn list(objects: &Objects, volume: u64, from: u64, most: u32, page: Option<u32>) -> Result<ObjectReply> {
    let (mut found, mut next, mut sum) = (Vec::new(), Some(from.max(1)), 0);
    while let Some(first) = next {
        let wanted = (most as usize - found.len()).min(LISTED_AT_ONCE);
        if wanted == 0 {
            break;
        }
        // The objects of the target itself are its volumes.
        let (some, number): (_, fn(&ObjectId) -> u64) = match volume {
            0 => (objects.volumes(first, wanted).await?, |id| id.volume),
            _ => (objects.list(volume, first, wanted).await?, |id| id.object),
        };
        next = match some.last() {
            Some(last) if some.len() == wanted => number(&last.id).checked_add(1),
            _ => None,
        };
        for object in some {
            if sum + MOST_RIDING > MOST_ATTRIBUTES {
                return Ok(ObjectReply::List { objects: found, next: Some(number(&object.id)) });
            }
            match info(objects, object.id, page).await {
                Ok(info) => {
                    // What is known without attributes has about the size of a few.
                    sum += 128 + info.attributes.iter().map(|(_, value)| weight(value)).sum::<usize>();
                    found.push(info);
                }
                // It was removed meanwhile.
                Err(error) if error.kind == forebay_model::Kind::Missing => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(ObjectReply::List { objects: found, next })
}

fn place(placement: forebay_model::object::Placement) -> object::Placement {
    match placement {
        forebay_model::object::Placement::Auto => object::Placement::Auto,
        forebay_model::object::Placement::Log => object::Placement::Log,
        forebay_model::object::Placement::Home => object::Placement::Home,
    }
}

fn limits(quota: Quota) -> rows::Quota {
    rows::Quota {
        soft_bytes: quota.soft_bytes.0,
        hard_bytes: quota.hard_bytes.0,
        soft_objects: quota.soft_objects,
        hard_objects: quota.hard_objects,
    }
}

fn head(head: &rows::Head) -> ObjectHead {
    let quota = |quota: &rows::Quota| Quota {
        soft_bytes: Bytes(quota.soft_bytes),
        hard_bytes: Bytes(quota.hard_bytes),
        soft_objects: quota.soft_objects,
        hard_objects: quota.hard_objects,
    };
    ObjectHead {
        size: head.size,
        created: head.created,
        modified: head.modified,
        changed: head.changed,
        version: head.version,
        used: BLOCK * head.blocks,
        volume: head.volume.as_ref().map(|volume| VolumeUse {
            objects: volume.objects,
            used: BLOCK * volume.blocks,
            quota: quota(&volume.quota),
        }),
    }
}

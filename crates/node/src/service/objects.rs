//! What is asked of a target's objects.

use super::{Service, fences, heaps, sessions};
use crate::objects::{Brought, Payload};
use forebay_model::object::{AttributeChange, ObjectHead, Quota, Scope, VolumeUse};
use forebay_model::{Bytes, Error, Kind, ObjectId, Result, TargetId};
use forebay_target::object::given::Given;
use forebay_target::object::lent::Piece as Read;
use forebay_target::object::rows::{self, BLOCK};
use forebay_target::object::{How, Objects, attribute_weight};
use forebay_target::schedule::StreamId;
use forebay_wire::object::{Ask, LARGEST, MOST_AT_ONCE, MOST_ATTRIBUTES, MOST_RIDING, companion};
use forebay_wire::object::{ObjectAnswer, ObjectInfo, ObjectReply, ObjectRequest, Receipt, Riders};
use forebay_wire::pieces::{Piece, Pieces};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

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

/// Does what is asked; `payload` is what is written. Where volumes are the manager's, they are made here when they are
/// needed.
pub(super) async fn ask(
    service: &Service,
    link: LinkId,
    request: ObjectRequest,
    payload: Payload,
    makes_volumes: bool,
) -> Result<ObjectAnswer> {
    let (objects, stream) = (service.target.objects(), service.links.stream(service, link));
    let Payload { bytes: payload, sums } = payload;
    check(request.target, service.target.id(), payload.length())?;
    let ObjectRequest { riders: Riders { set, get }, ask, .. } = request;
    let (of, grows) = (object_of(&ask), grows(&ask));
    if !set.is_empty() && !takes_riders(&ask) {
        return Err(Error::usage(
            "attributes ride on what changes an object's bytes; here they do not (nothing was changed)",
        ));
    }
    if get.is_some() && of.is_none() {
        return Err(Error::usage("attributes are brought along by what is asked of one object (nothing was changed)"));
    }
    let (mut payload_back, mut attributes) = (Pieces::default(), None);
    let reply = match ask {
        Ask::Read { id, offset, length } => {
            if u64::from(length) > LARGEST.0 {
                return Err(Error::usage(format!(
                    "{length} bytes at once are too many to read; read {LARGEST} at most"
                )));
            }
            payload_back = match get {
                Some(page) => {
                    let (bytes, riding) =
                        objects.read_with(stream, id, offset, u64::from(length), page, MOST_RIDING).await?;
                    attributes = Some(riding);
                    summed(bytes)
                }
                None => summed(objects.read_pieces(stream, id, offset, u64::from(length)).await?),
            };
            ObjectReply::Bytes
        }
        Ask::Create { id, attributes } if makes_volumes => {
            fences::create(objects, id, attributes).await.map(|()| ObjectReply::Done)?
        }
        ask => {
            // What nobody else has need not be copied where it is kept.
            let shared;
            let payload = match payload {
                Brought::Aligned(buffer) => Given::from(buffer),
                Brought::Plain(bytes) => match Arc::try_unwrap(bytes) {
                    Ok(own) => Given::from(own),
                    Err(other) => {
                        shared = other;
                        Given::from(&*shared)
                    }
                },
            };
            change_or_tell(objects, stream, ask, set, (payload, sums)).await?
        }
    };
    let attributes = match (attributes, get, of) {
        (Some(attributes), ..) => attributes,
        (None, Some(page), Some(id)) => objects.attributes_from(id, page, 0, MOST_RIDING).await?.0,
        _ => Vec::new(),
    };
    let over = match of.filter(|_| grows) {
        // What was done is done, whether or not this is known.
        Some(id) => objects.over_quota(id).await.unwrap_or(None),
        None => None,
    };
    let slow = service.target.disk().slower() > 0;
    let receipt = Receipt { epoch: objects.boot_epoch(), over, attributes, slow };
    Ok(ObjectAnswer { reply, receipt, payload: payload_back })
}

/// What was read, with the checksums that were compared: whoever sends it need not go through it again, and what happens to it
/// in between is found where it arrives.
fn summed(read: Vec<Read>) -> Pieces {
    Pieces::from(read.into_iter().map(|Read { bytes, crcs }| Piece::new(bytes, crcs)).collect::<Vec<_>>())
}

/// Does what is asked, but for reading; `set` rides on it.
async fn change_or_tell(
    objects: &Objects,
    stream: StreamId,
    ask: Ask,
    set: Vec<AttributeChange>,
    (payload, crcs): (Given<'_>, Vec<u32>),
) -> Result<ObjectReply> {
    let done = |()| ObjectReply::Done;
    match ask {
        Ask::CreateVolume { volume, quota } => objects.create_volume(volume, limits(quota)).await.map(done),
        Ask::SetQuota { volume, quota } => objects.set_quota(volume, limits(quota)).await.map(done),
        Ask::Create { id, attributes } => objects.create(id, attributes).await.map(done),
        Ask::Remove { id } => objects.remove(id).await.map(done),
        Ask::Stat { id, page } => {
            let info = info(objects, id, &objects.head(id).await?, page).await?;
            Ok(ObjectReply::Info(Box::new(info)))
        }
        Ask::List { volume, from, most, page } => list(objects, volume, from, most, page).await,
        Ask::Read { .. } => Err(Error::usage("reading changes nothing")),
        Ask::Write { id, offset, placement, durability } => {
            let how = How { placement, durability, set, crcs };
            objects.write_as(stream, id, Some(offset), payload, &how).await.map(|_| ObjectReply::Done)
        }
        Ask::Append { id, placement, durability } => {
            let how = How { placement, durability, set, crcs };
            objects.write_as(stream, id, None, payload, &how).await.map(ObjectReply::At)
        }
        Ask::Truncate { id, size } => objects.truncate_as(id, size, &set).await.map(done),
        Ask::Punch { id, offset, length } => objects.punch_as(id, offset, length, &set).await.map(done),
        Ask::Lose { length, .. } if length > MOST_AT_ONCE.0 => {
            Err(Error::usage(format!("{length} bytes at once are too many to lose; lose {MOST_AT_ONCE} at most")))
        }
        Ask::Lose { id, offset, length } => objects.lose(stream, id, offset, length).await.map(done),
        Ask::Flush { scope, epoch } => objects.flush_buffered(scope, epoch).await.map(|_| ObjectReply::Done),
        Ask::Attributes { id, page, from } => {
            let (values, next) = objects.attributes_from(id, page, from, MOST_ATTRIBUTES).await?;
            Ok(ObjectReply::Attributes { values, next })
        }
        Ask::SetAttributes { id, changes } => objects.set_attributes(id, changes).await.map(done),
        Ask::Snapshot { id, of } => objects.snapshot(of, id, set).await.map(done),
    }
}

/// Ends an object and its companion, if they are there, and the ring or the heap that it is.
pub(super) async fn discard(service: &Service, object: ObjectId) -> Result<()> {
    sessions::remove_ring(service, object).await?;
    heaps::remove(service, object).await?;
    for id in [companion(object), object] {
        match service.target.objects().remove(id).await {
            Err(error) if error.kind != Kind::Missing => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The object that is there afterwards, of what is asked of one.
fn object_of(ask: &Ask) -> Option<ObjectId> {
    match ask {
        Ask::Create { id, .. } | Ask::Stat { id, .. } | Ask::Read { id, .. } | Ask::Write { id, .. } => Some(*id),
        Ask::Append { id, .. } | Ask::Truncate { id, .. } | Ask::Punch { id, .. } => Some(*id),
        Ask::Lose { id, .. } => Some(*id),
        Ask::Attributes { id, .. } | Ask::SetAttributes { id, .. } | Ask::Snapshot { id, .. } => Some(*id),
        Ask::CreateVolume { .. } | Ask::SetQuota { .. } | Ask::Remove { .. } | Ask::List { .. } => None,
        Ask::Flush { scope: Scope::Object(id) | Scope::Range(id, ..), .. } => Some(*id),
        Ask::Flush { .. } => None,
    }
}

/// Whether it may take space or make an object.
fn grows(ask: &Ask) -> bool {
    let makes = matches!(ask, Ask::Create { .. } | Ask::Snapshot { .. });
    makes || matches!(ask, Ask::Write { .. } | Ask::Append { .. } | Ask::Truncate { .. } | Ask::Lose { .. })
}

/// Whether attributes may be set along with it.
fn takes_riders(ask: &Ask) -> bool {
    let bytes = matches!(ask, Ask::Write { .. } | Ask::Append { .. } | Ask::Truncate { .. } | Ask::Punch { .. });
    bytes || matches!(ask, Ask::Snapshot { .. })
}

fn check(asked: TargetId, own: TargetId, length: usize) -> Result<()> {
    if asked != own {
        return Err(Error::missing(format!("there is no target {asked}")));
    }
    if length as u64 > LARGEST.0 {
        return Err(too_much(length));
    }
    Ok(())
}

/// What is said of a payload that is too large.
pub(crate) fn too_much(length: usize) -> Error {
    Error::usage(format!("{length} bytes at once are too many to write; write {LARGEST} at most"))
}

/// What is known of an object whose head was read, with the first attributes of `page`.
async fn info(objects: &Objects, id: ObjectId, known: &rows::Head, page: Option<u32>) -> Result<ObjectInfo> {
    let attributes = match page {
        Some(page) => objects.attributes_from(id, page, 0, MOST_RIDING).await?.0,
        None => Vec::new(),
    };
    Ok(ObjectInfo { id, head: head(known), attributes })
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
            match info(objects, object.id, &object.head, page).await {
                Ok(info) => {
                    // What is known without attributes has about the size of a few.
                    sum += 128 + info.attributes.iter().map(|(_, value)| attribute_weight(value)).sum::<usize>();
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

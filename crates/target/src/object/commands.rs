//! What users ask of objects: each command is whole or not there, and durable when it returns.

use super::Objects;
use super::apply::needs;
use super::lent::Piece;
use super::quota;
use super::read::missing;
use super::record::{Change, Draft};
use super::rows::{BLOCK, Head, Key, Part, Quota, Row, Volume};
use super::settings;
use crate::schedule::StreamId;
pub use forebay_model::object::{Attribute, Placement};
use forebay_model::object::{AttributeChange, MOST_SET, OnPage};
use forebay_model::{Bytes, Error, Kind, ObjectId, Result};
use std::rc::Rc;

/// The most bytes that one command writes.
pub const MOST_WRITTEN: Bytes = Bytes::mib(64);
/// The longest value of an attribute.
pub const LONGEST_ATTRIBUTE: Bytes = Bytes::kib(4);
/// The largest object: what offsets are checked against.
pub(super) const LARGEST: u64 = 1 << 60;
/// How often a command that finds the logs full has them emptied.
const MOST_ATTEMPTS: u32 = 8;

/// Bytes of an attribute with its number and its length.
pub fn attribute_weight(value: &[u8]) -> usize {
    value.len() + 8
}

/// An object that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Which.
    pub id: ObjectId,
    /// What the target keeps of it.
    pub head: Head,
}

/// Blocks of an object that lie together at home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Their first byte in the object.
    pub offset: u64,
    /// Where it is on the device.
    pub at: Bytes,
    /// How many bytes.
    pub length: Bytes,
}

/// Keeps an object to one command that changes it.
pub(super) struct Lock<'a> {
    objects: &'a Objects,
    id: ObjectId,
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        self.objects.work.borrow_mut().locked.remove(&self.id);
        self.objects.unlocked.notify();
    }
}

impl Objects {
    pub(super) async fn lock(&self, id: ObjectId) -> Result<Lock<'_>> {
        self.ready().await?;
        self.unlocked.until(|| !self.work.borrow().locked.contains(&id)).await;
        self.work.borrow_mut().locked.insert(id);
        Ok(Lock { objects: self, id })
    }

    /// What the target keeps of an object.
    pub async fn head(&self, id: ObjectId) -> Result<Head> {
        self.ready().await?;
        self.bring(&[(Key::head(id), Key::head(id))]).await?;
        self.work.borrow().head(id).ok_or_else(|| missing(id))
    }

    /// Lets changes take effect when `check` still agrees, and waits until they are durable.
    pub(super) async fn change(
        &self,
        changes: Vec<Change>,
        content: Vec<u8>,
        check: impl Fn(&super::apply::Meta) -> Result<()>,
    ) -> Result<()> {
        let number = self.enacted(&changes, content, check).await?;
        self.durable(number).await
    }

    /// Lets changes take effect when `check` still agrees; the number of their record.
    pub(super) async fn enacted(
        &self,
        changes: &[Change],
        mut content: Vec<u8>,
        check: impl Fn(&super::apply::Meta) -> Result<()>,
    ) -> Result<u64> {
        let removes = changes.iter().all(|change| matches!(change, Change::Remove { .. }));
        let ranges: Vec<_> = changes.iter().flat_map(needs).collect();
        let record = Draft::of(changes)?;
        self.room_for_rows(&ranges, record.blocks(), removes).await?;
        let mut record = Some(record);
        for attempt in 0.. {
            let full = match self.prepared_for(changes, &ranges).await {
                Ok(()) => {
                    check(&self.work.borrow().meta)?;
                    let draft = record.take().map_or_else(|| Draft::of(changes), Ok)?;
                    match self.enact_draft(changes, draft, &mut content, false) {
                        Ok(number) => return Ok(number),
                        Err(error) => error,
                    }
                }
                Err(error) => error,
            };
            if full.kind != Kind::Full || attempt == MOST_ATTEMPTS && !removes {
                return Err(full);
            }
            // The logs are full: some of them are emptied, and then there is room, if ever.
            let made = if attempt < MOST_ATTEMPTS { self.make_room().await } else { Err(full) };
            match made {
                // Nothing can be emptied before something is removed.
                Err(error) if error.kind == Kind::Full && removes => {
                    self.enact_in_map(changes, check).await?;
                    return Ok(self.work.borrow().durable);
                }
                made => made?,
            }
        }
        unreachable!("the loop returns")
    }

    /// Makes a volume: objects that share a quota.
    pub async fn create_volume(&self, volume: u64, quota: Quota) -> Result<()> {
        let id = ObjectId::volume(volume);
        if volume == 0 {
            return Err(Error::usage("volume 0 is the target itself; volumes are numbered from 1"));
        }
        let head = Head { volume: Some(Volume { quota, ..Volume::default() }), ..self.fresh_head() };
        self.create_with(id, head, Vec::new()).await
    }

    /// Makes an object, with these attributes.
    pub async fn create(&self, id: ObjectId, attributes: Vec<Attribute>) -> Result<()> {
        if !id.is_user() {
            return Err(Error::usage(format!(
                "{id} cannot be created; users' objects and volumes are numbered from 1"
            )));
        }
        self.create_with(id, self.fresh_head(), attributes).await
    }

    fn fresh_head(&self) -> Head {
        let now = self.core.disk.env().clock.wall();
        Head { size: 0, created: now, modified: now, changed: now, version: 1, blocks: 0, volume: None }
    }

    async fn create_with(&self, id: ObjectId, head: Head, attributes: Vec<Attribute>) -> Result<()> {
        let _lock = self.lock(id).await?;
        let time = head.created;
        let mut changes = vec![Change::Create { id, head }];
        if !attributes.is_empty() {
            changes.push(set(id, time, attributes.into_iter().map(|(p, n, value)| (p, n, Some(value))).collect())?);
        }
        let check = |meta: &super::apply::Meta| {
            if meta.head(id).is_some() {
                return Err(exists_already(id));
            }
            if id.is_user() {
                quota::within(meta, id, 1, 0)?;
            }
            Ok(())
        };
        self.change(changes, Vec::new(), check).await
    }

    /// Ends an object, with its bytes and attributes; a volume must be empty.
    pub async fn remove(&self, id: ObjectId) -> Result<()> {
        let _lock = self.lock(id).await?;
        let check = |meta: &super::apply::Meta| match meta.head(id) {
            None => Err(missing(id)),
            Some(Head { volume: Some(volume), .. }) if volume.objects > 0 => {
                Err(Error::usage(format!("{id} holds {} objects; remove them first", volume.objects)))
            }
            Some(_) => Ok(()),
        };
        // What is buffered ends with it.
        let held = self.hold(id).await?;
        self.work.borrow_mut().unreserve(id);
        let number = self.enacted(&[Change::Remove { id }], Vec::new(), check).await?;
        held.removed();
        self.durable(number).await
    }

    /// Sets attributes, and ends those without a value.
    pub async fn set_attributes(&self, id: ObjectId, values: Vec<AttributeChange>) -> Result<()> {
        let _lock = self.lock(id).await?;
        self.check_attributes(id, &values).await?;
        let change = set(id, self.core.disk.env().clock.wall(), values)?;
        self.settle(id).await?;
        self.change(vec![change], Vec::new(), |meta| exists(meta, id)).await
    }

    /// Sets what rides on a command that changes nothing else. When it returns, what was buffered before is durable.
    pub(super) async fn set_locked(&self, id: ObjectId, values: Vec<AttributeChange>) -> Result<()> {
        self.settle(id).await?;
        if values.is_empty() {
            let last = self.work.borrow().last;
            return self.durable(last).await;
        }
        let change = set(id, self.core.disk.env().clock.wall(), values)?;
        self.change(vec![change], Vec::new(), |meta| exists(meta, id)).await
    }

    /// The attributes on a page, by number.
    pub async fn attributes(&self, id: ObjectId, page: u32) -> Result<OnPage> {
        Ok(self.attributes_from(id, page, 0, usize::MAX).await?.0)
    }

    /// Attributes on a page by number, from number `from` on: as many as have `most` bytes together
    /// ([`attribute_weight`]), but always one; and with which number to go on, if these are not all.
    pub async fn attributes_from(
        &self,
        id: ObjectId,
        page: u32,
        from: u32,
        most: usize,
    ) -> Result<(OnPage, Option<u32>)> {
        self.head(id).await?;
        let at = |number| Key { id, part: Part::Attribute { page, number } };
        self.bring(&[(at(from), at(u32::MAX))]).await?;
        let work = self.work.borrow();
        let (mut found, mut bytes) = (Vec::new(), 0);
        for (key, row) in work.meta.tree.range(at(from), at(u32::MAX)) {
            let (Part::Attribute { number, .. }, Row::Attribute(value)) = (key.part, row) else { continue };
            bytes += attribute_weight(value);
            if bytes > most && !found.is_empty() {
                return Ok((found, Some(number)));
            }
            found.push((number, value.clone()));
        }
        Ok((found, None))
    }

    /// Where the bytes of an object lie that are at home, as long as they can be without a break.
    pub async fn extents(&self, id: ObjectId) -> Result<Vec<Extent>> {
        self.head(id).await?;
        let (mut extents, mut next) = (Vec::<Extent>::new(), Some(Key::piece(id, 0)));
        let last = Key::piece(id, u64::MAX);
        while let Some(from) = next {
            self.bring(&[(from, from)]).await?;
            let work = self.work.borrow();
            for (key, row) in work.meta.tree.rest_of_leaf(from).filter(|(key, _)| **key <= last) {
                let (Part::Piece(first), Row::Piece(piece)) = (key.part, row) else { continue };
                let (offset, at, length) = (first * BLOCK.0, BLOCK * piece.at, BLOCK * piece.blocks());
                match extents.last_mut() {
                    Some(e) if e.offset + e.length.0 == offset && e.at + e.length == at => e.length += length,
                    _ => extents.push(Extent { offset, at, length }),
                }
            }
            next = work.meta.tree.leaf_end(from, last);
        }
        Ok(extents)
    }

    /// Bytes of an object, and the first attributes on a page, of `most` bytes together, as they were when the bytes were.
    pub async fn read_with(
        self: &Rc<Self>,
        stream: StreamId,
        id: ObjectId,
        offset: u64,
        length: u64,
        page: u32,
        most: usize,
    ) -> Result<(Vec<Piece>, OnPage)> {
        let state = |head: Head| (head.created, head.version);
        let mut lock = None;
        loop {
            let before = state(self.head(id).await?);
            let (attributes, _) = self.attributes_from(id, page, 0, most).await?;
            let bytes = self.read_beside(stream, id, (offset, length), lock.is_some()).await?;
            if state(self.head(id).await?) == before {
                return Ok((bytes, attributes));
            }
            // Whoever changes it all the time waits for once.
            if lock.is_none() {
                lock = Some(self.lock(id).await?);
            }
        }
    }

    /// What a volume may hold from now on.
    pub async fn set_quota(&self, volume: u64, quota: Quota) -> Result<()> {
        let id = ObjectId::volume(volume);
        let _lock = self.lock(id).await?;
        let time = self.core.disk.env().clock.wall();
        self.change(vec![Change::Quota { id, time, quota }], Vec::new(), |meta| exists(meta, id)).await
    }

    /// Objects of a volume in the order of their numbers, from `from` on, `most` of them at most.
    pub async fn list(&self, volume: u64, from: u64, most: usize) -> Result<Vec<Found>> {
        self.head(ObjectId::volume(volume)).await?;
        let mut found = Vec::new();
        let mut next = ObjectId { volume, object: from.max(1) };
        let last = ObjectId { volume, object: u64::MAX };
        while found.len() < most && next.volume == volume {
            // A leaf at a time: pieces of large objects lie between the heads.
            self.bring(&[(Key::head(next), Key::head(next))]).await?;
            let work = self.work.borrow();
            let end = work.meta.tree.leaf_end(Key::head(next), Key::end_of(last));
            for (key, row) in work.meta.tree.rest_of_leaf(Key::head(next)) {
                if let Row::Head(head) = row
                    && key.id.volume == volume
                    && found.len() < most
                {
                    let head = work.head(key.id).unwrap_or_else(|| head.clone());
                    found.push(Found { id: key.id, head });
                }
            }
            match end {
                Some(key) if key.part == Part::Head => next = key.id,
                Some(key) if key.id.object < u64::MAX => next = ObjectId { volume, object: key.id.object + 1 },
                _ => break,
            }
        }
        Ok(found)
    }
}

pub(super) fn exists(meta: &super::apply::Meta, id: ObjectId) -> Result<()> {
    meta.head(id).map(|_| ()).ok_or_else(|| missing(id))
}

/// What is said to who makes `id`, though it is there.
pub(super) fn exists_already(id: ObjectId) -> Error {
    Error::exists(format!("{id} exists already; take another number, or remove it first"))
}

pub(super) fn holds_bytes(id: ObjectId) -> Result<()> {
    if id.is_user() {
        return Ok(());
    }
    Err(Error::usage(format!("{id} holds no bytes; objects of volumes do")))
}

pub(super) fn set(
    id: ObjectId,
    time: forebay_model::Timestamp,
    set: Vec<(u32, u32, Option<Vec<u8>>)>,
) -> Result<Change> {
    if set.len() > MOST_SET {
        return Err(Error::usage(format!("{} attributes at once are too many; set {MOST_SET} at most", set.len())));
    }
    for (page, number, value) in &set {
        settings::check(*page, *number, value.as_deref())?;
        let length = value.as_ref().map_or(0, Vec::len) as u64;
        if length > LONGEST_ATTRIBUTE.0 {
            return Err(Error::usage(format!(
                "attribute {page}/{number} of {id} would have {length} bytes; the most is {}; keep it in an object",
                LONGEST_ATTRIBUTE.0
            )));
        }
    }
    Ok(Change::Attributes { id, time, set })
}

#[cfg(test)]
mod tests;

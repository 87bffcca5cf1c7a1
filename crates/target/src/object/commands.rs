//! What users ask of objects: each command is whole or not there, and durable when it returns.

use super::Objects;
use super::apply::touching;
use super::read::missing;
use super::record::{Change, Write};
use super::rows::{BLOCK, Crcs, Head, Key, PIECE_BLOCKS, Part, Piece, Quota, Row, Volume};
use super::settings::{self, Logging};
use super::space::Run;
use crate::catalog::GroupClass;
use crate::schedule::StreamId;
use forebay_env::Buffer;
use forebay_model::{Bytes, Error, Kind, ObjectId, Result};
use std::collections::VecDeque;

/// The most bytes that one command writes.
pub const MOST_WRITTEN: Bytes = Bytes::mib(64);
/// The longest value of an attribute.
pub const LONGEST_ATTRIBUTE: Bytes = Bytes::kib(4);
/// The most attributes that one command sets.
const MOST_ATTRIBUTES: usize = 256;
/// The largest object: what offsets are checked against.
const LARGEST: u64 = 1 << 60;
/// How often a command that finds the logs full has them emptied.
const MOST_ATTEMPTS: u32 = 8;
/// Bytes written home at once.
const HOME_AT_ONCE: usize = Bytes::kib(512).0 as usize;
/// How many such writes of a command wait for the device.
const HOME_UNDER_WAY: usize = 16;

/// Where a write's bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// To the nearest log if it is small ([`super::settings`] say how small), else home.
    Auto,
    /// To a log, whatever its size: of an object that needs durability and is hardly read.
    Log,
    /// Home, whatever its size.
    Home,
}

/// An attribute: its page, its number on it, its value.
pub type Attribute = (u32, u32, Vec<u8>);

/// An object that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Which.
    pub id: ObjectId,
    /// What the target keeps of it.
    pub head: Head,
}

/// Keeps an object to one command that changes it.
pub(super) struct Lock<'a> {
    objects: &'a Objects,
    id: ObjectId,
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        self.objects.work.borrow_mut().locked.remove(&self.id);
        self.objects.changed.notify();
    }
}

/// Blocks that were taken, and are given back unless a record came to point to them.
pub(super) struct Taken<'a> {
    objects: &'a Objects,
    ticket: u64,
    pub(super) runs: Vec<Run>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut work = self.objects.work.borrow_mut();
        if let Some(runs) = work.taken.remove(&self.ticket) {
            runs.into_iter().for_each(|run| work.meta.data.give(run));
        }
    }
}

impl Taken<'_> {
    /// A record points to them now.
    pub(super) fn keep(&self) {
        self.objects.work.borrow_mut().taken.remove(&self.ticket);
    }
}

impl Objects {
    pub(super) async fn lock(&self, id: ObjectId) -> Result<Lock<'_>> {
        self.ready().await?;
        self.changed.until(|| !self.work.borrow().locked.contains(&id)).await;
        self.work.borrow_mut().locked.insert(id);
        Ok(Lock { objects: self, id })
    }

    /// What the target keeps of an object.
    pub async fn head(&self, id: ObjectId) -> Result<Head> {
        self.ready().await?;
        self.bring(&[(Key::head(id), Key::head(id))]).await?;
        self.work.borrow().meta.head(id).cloned().ok_or_else(|| missing(id))
    }

    /// Lets changes take effect when `check` still agrees, and waits until they are durable.
    async fn change(
        &self,
        changes: Vec<Change>,
        content: Vec<u8>,
        check: impl Fn(&super::apply::Meta) -> Result<()>,
    ) -> Result<()> {
        let number = self.enacted(&changes, &content, check).await?;
        self.durable(number).await
    }

    /// Lets changes take effect when `check` still agrees; the number of their record.
    async fn enacted(
        &self,
        changes: &[Change],
        content: &[u8],
        check: impl Fn(&super::apply::Meta) -> Result<()>,
    ) -> Result<u64> {
        let removes = changes.iter().all(|change| matches!(change, Change::Remove { .. }));
        self.room_for_rows(changes, removes).await?;
        for attempt in 0.. {
            let full = match self.prepared(changes).await {
                Ok(()) => {
                    check(&self.work.borrow().meta)?;
                    match self.enact(changes, content, false) {
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
                return Err(Error::exists(format!("{id} exists already")));
            }
            if id.is_user() {
                within_quota(meta, id, 1, 0)?;
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
        self.change(vec![Change::Remove { id }], Vec::new(), check).await
    }

    /// Writes `bytes` at `offset`: all of them or none.
    pub async fn write(
        &self,
        stream: StreamId,
        id: ObjectId,
        offset: u64,
        bytes: &[u8],
        place: Placement,
    ) -> Result<()> {
        let _lock = self.lock(id).await?;
        self.write_locked(stream, id, offset, bytes, place).await
    }

    /// Writes `bytes` behind the last byte of an object; where they begin.
    pub async fn append(&self, stream: StreamId, id: ObjectId, bytes: &[u8], place: Placement) -> Result<u64> {
        let _lock = self.lock(id).await?;
        let offset = self.head(id).await?.size;
        self.write_locked(stream, id, offset, bytes, place).await?;
        Ok(offset)
    }

    async fn write_locked(
        &self,
        stream: StreamId,
        id: ObjectId,
        offset: u64,
        bytes: &[u8],
        place: Placement,
    ) -> Result<()> {
        let length = bytes.len() as u64;
        check_range(id, offset, length)?;
        if length > MOST_WRITTEN.0 {
            return Err(Error::usage(format!("{length} bytes at once are too many; write {MOST_WRITTEN} at most")));
        }
        holds_bytes(id)?;
        let size = self.head(id).await?.size;
        if length == 0 {
            return Ok(());
        }
        let (first, end) = (offset / BLOCK.0, (offset + length).div_ceil(BLOCK.0));
        let content = self.widened(id, offset, bytes, size).await?;
        let time = self.core.disk.env().clock.wall();
        let mut write =
            Write { id, time, size: size.max(offset + length), dropped: None, logged: Vec::new(), pieces: Vec::new() };
        let check = |meta: &super::apply::Meta| within_quota(meta, id, 0, end - first);
        let logged = match place {
            Placement::Auto => match self.logging(id).await? {
                Logging::UpTo(most) => length <= most.0.min(self.largest_record()),
                Logging::Always => length <= self.largest_record(),
            },
            Placement::Log => length <= self.largest_record(),
            Placement::Home => false,
        };
        if logged {
            write.logged.push((first, Crcs::of(&content)));
            return self.change(vec![Change::Write(write)], content, check).await;
        }
        self.prepared(&[Change::Write(write.clone())]).await?;
        check(&self.work.borrow().meta)?;
        let taken = self.take_blocks(end - first, self.end_of_piece_before(id, first).await?).await?;
        let mut from = 0;
        for run in &taken.runs {
            let length = (run.blocks * BLOCK.0) as usize;
            let part = &content[from..from + length];
            self.write_home(stream, run.at, part).await?;
            for (n, piece) in part.chunks((BLOCK.0 * u64::from(PIECE_BLOCKS)) as usize).enumerate() {
                let skip = n as u64 * u64::from(PIECE_BLOCKS);
                let block = first + from as u64 / BLOCK.0 + skip;
                write.pieces.push((block, Piece { at: run.at + skip, crcs: Crcs::of(piece) }));
            }
            from += length;
        }
        let number = self.enacted(&[Change::Write(write)], &[], check).await?;
        taken.keep();
        self.durable(number).await
    }

    /// The largest write that fits one record.
    fn largest_record(&self) -> u64 {
        // Its checksums take a block for each 4 MiB, and it may begin and end within blocks.
        let blocks = u64::from(self.work.borrow().meta.logs.largest()).min(MOST_WRITTEN.0 / BLOCK.0);
        BLOCK.0 * blocks.saturating_sub(4 + blocks / 512)
    }

    /// `bytes` with what is before and behind them in their first and last block.
    async fn widened(&self, id: ObjectId, offset: u64, bytes: &[u8], size: u64) -> Result<Vec<u8>> {
        let (first, end) = (offset / BLOCK.0, (offset + bytes.len() as u64).div_ceil(BLOCK.0));
        let mut content = vec![0; ((end - first) * BLOCK.0) as usize];
        let (before, behind) = ((offset - first * BLOCK.0) as usize, (offset + bytes.len() as u64).min(end * BLOCK.0));
        if before > 0 && first * BLOCK.0 < size {
            content[..BLOCK.0 as usize].copy_from_slice(&self.whole_blocks(id, first, first + 1).await?);
        }
        if behind < end * BLOCK.0 && behind < size && (before == 0 || end - first > 1) {
            let last = content.len() - BLOCK.0 as usize;
            content[last..].copy_from_slice(&self.whole_blocks(id, end - 1, end).await?);
        }
        content[before..before + bytes.len()].copy_from_slice(bytes);
        Ok(content)
    }

    /// Makes an object longer, by nothing, or shorter.
    pub async fn truncate(&self, id: ObjectId, size: u64) -> Result<()> {
        let _lock = self.lock(id).await?;
        check_range(id, size, 0)?;
        holds_bytes(id)?;
        let before = self.head(id).await?.size;
        let mut write = self.empty_write(id, size);
        let mut content = Vec::new();
        if size < before {
            write.dropped = Some((size.div_ceil(BLOCK.0), LARGEST));
            if !size.is_multiple_of(BLOCK.0) {
                content = self.whole_blocks(id, size / BLOCK.0, size / BLOCK.0 + 1).await?;
                content[(size % BLOCK.0) as usize..].fill(0);
                write.logged.push((size / BLOCK.0, Crcs::of(&content)));
            }
        }
        self.change(vec![Change::Write(write)], content, |meta| exists(meta, id)).await
    }

    /// Makes nothing of `length` bytes at `offset`; the object's size stays.
    pub async fn punch(&self, id: ObjectId, offset: u64, length: u64) -> Result<()> {
        let _lock = self.lock(id).await?;
        check_range(id, offset, length)?;
        holds_bytes(id)?;
        let size = self.head(id).await?.size;
        let end = (offset + length).min(size);
        if offset >= end {
            return Ok(());
        }
        let mut write = self.empty_write(id, size);
        let (first, last) = (offset.div_ceil(BLOCK.0), if end == size { end.div_ceil(BLOCK.0) } else { end / BLOCK.0 });
        write.dropped = (first < last).then_some((first, last));
        let mut content = Vec::new();
        let mut edges = vec![offset / BLOCK.0, end / BLOCK.0];
        edges.dedup();
        for block in edges {
            let (from, to) = (offset.max(block * BLOCK.0), end.min((block + 1) * BLOCK.0));
            let whole = write.dropped.is_some_and(|(first, last)| first <= block && block < last);
            if from >= to || whole {
                continue;
            }
            let mut bytes = self.whole_blocks(id, block, block + 1).await?;
            bytes[(from - block * BLOCK.0) as usize..(to - block * BLOCK.0) as usize].fill(0);
            write.logged.push((block, Crcs::of(&bytes)));
            content.extend(bytes);
        }
        self.change(vec![Change::Write(write)], content, |meta| exists(meta, id)).await
    }

    fn empty_write(&self, id: ObjectId, size: u64) -> Write {
        let time = self.core.disk.env().clock.wall();
        Write { id, time, size, dropped: None, logged: Vec::new(), pieces: Vec::new() }
    }

    /// Sets attributes, and ends those without a value.
    pub async fn set_attributes(&self, id: ObjectId, values: Vec<(u32, u32, Option<Vec<u8>>)>) -> Result<()> {
        let _lock = self.lock(id).await?;
        let change = set(id, self.core.disk.env().clock.wall(), values)?;
        self.change(vec![change], Vec::new(), |meta| exists(meta, id)).await
    }

    /// The attributes on a page, by number.
    pub async fn attributes(&self, id: ObjectId, page: u32) -> Result<Vec<(u32, Vec<u8>)>> {
        self.head(id).await?;
        let at = |number| Key { id, part: Part::Attribute { page, number } };
        self.bring(&[(at(0), at(u32::MAX))]).await?;
        let work = self.work.borrow();
        let attribute = |(key, row): (&Key, &Row)| match (key.part, row) {
            (Part::Attribute { number, .. }, Row::Attribute(value)) => Some((number, value.clone())),
            _ => None,
        };
        Ok(work.meta.tree.range(at(0), at(u32::MAX)).filter_map(attribute).collect())
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
                    found.push(Found { id: key.id, head: head.clone() });
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

    /// Takes blocks for what is written home.
    pub(super) async fn take_blocks(&self, blocks: u64, near: Option<u64>) -> Result<Taken<'_>> {
        loop {
            let taken = {
                let mut work = self.work.borrow_mut();
                work.meta.data.allocate(blocks, near).map(|runs| {
                    work.next_ticket += 1;
                    let ticket = work.next_ticket;
                    work.taken.insert(ticket, runs.clone());
                    Taken { objects: self, ticket, runs }
                })
            };
            match taken {
                Some(taken) => return Ok(taken),
                None => self.take_groups(GroupClass::Objects).await?,
            }
        }
    }

    /// The block behind the piece that lies before `block` of an object: where what is appended goes best.
    async fn end_of_piece_before(&self, id: ObjectId, block: u64) -> Result<Option<u64>> {
        let [home, _] = touching(id, block, block + 1);
        self.bring(&[home]).await?;
        let work = self.work.borrow();
        let end = |(key, row): (&Key, &Row)| match (key.part, row) {
            (Part::Piece(first), Row::Piece(piece)) if first < block => Some(piece.at + piece.blocks()),
            _ => None,
        };
        Ok(work.meta.tree.range(home.0, home.1).filter_map(end).next_back())
    }

    /// Writes bytes to a run of blocks.
    pub(super) async fn write_home(&self, stream: StreamId, at: u64, bytes: &[u8]) -> Result<()> {
        let mut writing = VecDeque::new();
        for (n, part) in bytes.chunks(HOME_AT_ONCE).enumerate() {
            let mut buffer = Buffer::alone(Bytes(part.len() as u64))?;
            buffer.copy_from_slice(part);
            let (disk, offset) = (self.core.disk.clone(), BLOCK * at + Bytes((n * HOME_AT_ONCE) as u64));
            let write = async move { disk.write(stream, offset, buffer).await.1 };
            writing.push_back(self.core.disk.env().spawner.spawn(write));
            if writing.len() == HOME_UNDER_WAY
                && let Some(first) = writing.pop_front()
            {
                self.wrote_home(first.await)?;
            }
        }
        for write in writing {
            self.wrote_home(write.await)?;
        }
        Ok(())
    }

    fn wrote_home(&self, result: Result<()>) -> Result<()> {
        self.work.borrow_mut().written_home += 1;
        result
    }
}

fn exists(meta: &super::apply::Meta, id: ObjectId) -> Result<()> {
    meta.head(id).map(|_| ()).ok_or_else(|| missing(id))
}

fn holds_bytes(id: ObjectId) -> Result<()> {
    if id.is_user() {
        return Ok(());
    }
    Err(Error::usage(format!("{id} holds no bytes; objects of volumes do")))
}

fn check_range(id: ObjectId, offset: u64, length: u64) -> Result<()> {
    match offset.checked_add(length) {
        Some(end) if end <= LARGEST => Ok(()),
        _ => Err(Error::usage(format!("{length} bytes at offset {offset} of {id} lie beyond the largest object"))),
    }
}

fn set(id: ObjectId, time: forebay_model::Timestamp, set: Vec<(u32, u32, Option<Vec<u8>>)>) -> Result<Change> {
    if set.len() > MOST_ATTRIBUTES {
        return Err(Error::usage(format!(
            "{} attributes at once are too many; set {MOST_ATTRIBUTES} at most",
            set.len()
        )));
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

/// Whether a volume may hold that much more.
fn within_quota(meta: &super::apply::Meta, id: ObjectId, objects: u64, blocks: u64) -> Result<()> {
    let volume = ObjectId::volume(id.volume);
    let head = meta
        .head(volume)
        .ok_or_else(|| Error::missing(format!("there is no volume {:x}; create it first", id.volume)))?;
    let Some(held) = &head.volume else { return Ok(()) };
    let bytes = BLOCK * (held.blocks + blocks);
    if bytes.0 > held.quota.hard_bytes {
        return Err(Error::refused(format!(
            "volume {:x} may hold {}, holds {}, and would hold {bytes}; remove something or raise its quota (nothing was changed)",
            id.volume,
            Bytes(held.quota.hard_bytes),
            BLOCK * held.blocks
        )));
    }
    if held.objects + objects > held.quota.hard_objects {
        return Err(Error::refused(format!(
            "volume {:x} may hold {} objects and holds {}; remove some or raise its quota (nothing was changed)",
            id.volume, held.quota.hard_objects, held.objects
        )));
    }
    Ok(())
}

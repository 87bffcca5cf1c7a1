//! Commands that change an object's bytes, with attributes that ride on them: each is one record, whole or not there.
//!
//! Large bytes go to fresh blocks at home before their record; small ones follow it, and those of small objects are in
//! it. Bytes that may be buffered wait in
//! memory ([`super::behind`]).

use super::Objects;
use super::apply::{Meta, touching};
use super::commands::{LARGEST, MOST_WRITTEN, Placement, exists, holds_bytes, set};
use super::gather::{AT_ONCE, UNDER_WAY};
use super::given::Given;
use super::record::{Change, Write};
use super::rows::{BLOCK, Crcs, PIECE_BLOCKS, Piece};
use super::settings::Logging;
use super::space::Run;
use super::{inline, quota};
use crate::catalog::GroupClass;
use crate::schedule::StreamId;
use forebay_env::{Buffer, yield_now};
use forebay_model::block::crc32c;
use forebay_model::object::{AttributeChange, Durability};
use forebay_model::{Bytes, Error, ObjectId, Result};
use std::collections::VecDeque;
use std::ops::Range;

/// What is larger is not buffered: it would fill a good part of what may be.
const BUFFERED_UP_TO: u64 = Bytes::mib(8).0;

/// How bytes are written.
#[derive(Debug, Clone)]
pub struct How {
    /// Where they go. What is buffered goes home, whatever is said here; what is to lie in a log is not buffered.
    pub placement: Placement,
    /// When the command returns. More than 8 MiB, and what attributes ride on, is durable then, whatever is said here.
    pub durability: Durability,
    /// Attributes that are set in the same step.
    pub set: Vec<AttributeChange>,
    /// The CRC-32C of each block of the bytes, if whoever brings them knows; not looked at unless they fill blocks.
    pub crcs: Vec<u32>,
}

impl Default for How {
    fn default() -> How {
        How { placement: Placement::Auto, durability: Durability::Durable, set: Vec::new(), crcs: Vec::new() }
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
    /// Writes `bytes` at `offset`: all of them or none, durable when this returns.
    pub async fn write(
        &self,
        stream: StreamId,
        id: ObjectId,
        offset: u64,
        bytes: &[u8],
        placement: Placement,
    ) -> Result<()> {
        let how = How { placement, ..How::default() };
        self.write_as(stream, id, Some(offset), bytes, &how).await.map(drop)
    }

    /// Writes `bytes` behind the last byte of an object; where they begin.
    pub async fn append(&self, stream: StreamId, id: ObjectId, bytes: &[u8], placement: Placement) -> Result<u64> {
        let how = How { placement, ..How::default() };
        self.write_as(stream, id, None, bytes, &how).await
    }

    /// Writes `bytes` at `offset`, or behind the last byte where there is none; where they begin. Bytes that are given
    /// away are not copied where they are kept, and those in memory for I/O not at all.
    pub async fn write_as<'a>(
        &self,
        stream: StreamId,
        id: ObjectId,
        offset: Option<u64>,
        bytes: impl Into<Given<'a>>,
        how: &How,
    ) -> Result<u64> {
        self.write_any(stream, id, offset, bytes.into(), how).await
    }

    async fn write_any(
        &self,
        stream: StreamId,
        id: ObjectId,
        offset: Option<u64>,
        bytes: Given<'_>,
        how: &How,
    ) -> Result<u64> {
        let lock = self.lock(id).await?;
        let length = bytes.len() as u64;
        check_range(id, offset.unwrap_or(0), length)?;
        if length > MOST_WRITTEN.0 {
            return Err(Error::usage(format!("{length} bytes at once are too many; write {MOST_WRITTEN} at most")));
        }
        holds_bytes(id)?;
        let size = self.head(id).await?.size;
        let offset = offset.unwrap_or(size);
        check_range(id, offset, length)?;
        self.check_attributes(id, &how.set).await?;
        let buffered = how.durability == Durability::Buffered
            && how.placement != Placement::Log
            && how.set.is_empty()
            && length <= BUFFERED_UP_TO
            && self.logging(id).await? != Logging::Always;
        if length == 0 && buffered {
            // There is nothing to take in.
        } else if length == 0 {
            self.set_locked(id, how.set.clone()).await?;
        } else if buffered {
            self.buffer(id, offset, bytes, size, &how.crcs).await?;
        } else {
            self.settle(id).await?;
            let after = size.max(offset + length);
            let number = self.write_through(stream, id, (offset, size, after), bytes, how).await?;
            // It has taken effect, and what follows comes behind it in the logs: it may come with it in one flush.
            drop(lock);
            self.durable(number).await?;
        }
        Ok(offset)
    }

    /// Has these bytes be lost: from now on reading any of them says that they are damaged, until they are written again. Whole
    /// blocks, but for a last one in which the object ends; it is so long at least. Durable when this returns.
    ///
    /// What lies at home for them has a checksum that it does not match: nothing that is done to an object afterwards can make bytes of it.
    pub async fn lose(&self, stream: StreamId, id: ObjectId, offset: u64, length: u64) -> Result<()> {
        let lock = self.lock(id).await?;
        check_range(id, offset, length)?;
        holds_bytes(id)?;
        let (size, end) = (self.head(id).await?.size, offset + length);
        if !offset.is_multiple_of(BLOCK.0) || !end.is_multiple_of(BLOCK.0) && end < size || length > MOST_WRITTEN.0 {
            return Err(Error::usage(format!(
                "{length} bytes at offset {offset} of {id} cannot be lost alone; name whole blocks of {BLOCK}, {MOST_WRITTEN} at most"
            )));
        }
        if length == 0 {
            return Ok(());
        }
        self.settle(id).await?;
        let zeros = vec![0; length.next_multiple_of(BLOCK.0) as usize];
        let wrong = !crc32c(&zeros[..BLOCK.0 as usize]);
        let crcs = vec![wrong; zeros.len() / BLOCK.0 as usize];
        let how = How { placement: Placement::Home, crcs, ..How::default() };
        let number = self.write_through(stream, id, (offset, size, size.max(end)), zeros.into(), &how).await?;
        drop(lock);
        self.durable(number).await
    }

    /// Lets a write take effect; the number of the record that makes it durable. `after` is the object's size then.
    async fn write_through(
        &self,
        stream: StreamId,
        id: ObjectId,
        (offset, size, after): (u64, u64, u64),
        bytes: Given<'_>,
        how: &How,
    ) -> Result<u64> {
        let length = bytes.len() as u64;
        let (first, end) = (offset / BLOCK.0, (offset + length).div_ceil(BLOCK.0));
        let known = known(offset, &bytes, &how.crcs);
        let content = self.widened(id, offset, bytes, size).await?;
        let mut write = self.empty_write(id, after);
        let check = |meta: &Meta| {
            exists(meta, id)?;
            // Where there is room for all of them nobody has to count those that are there.
            quota::within(meta, id, 0, end - first).or_else(|_| quota::within(meta, id, 0, meta.absent(id, first, end)))
        };
        let logged = match how.placement {
            Placement::Auto => match self.logging(id).await? {
                Logging::UpTo(most) => length <= most.0.min(self.largest_record()),
                Logging::Always => length <= self.largest_record(),
            },
            Placement::Log => length <= self.largest_record(),
            Placement::Home => false,
        };
        if logged {
            write.logged.push((first, known.map_or_else(|| Crcs::of(&content), |crcs| Crcs(crcs.to_vec()))));
            let mut content = content.keep().into_vec();
            if how.placement == Placement::Auto {
                inline::settle(&mut write, &mut content);
            }
            return self.enacted(&riding(write, &how.set)?, content, check).await;
        }
        riding(write.clone(), &how.set)?;
        self.prepared(&[Change::Write(Write { dropped: Some((first, end)), ..write.clone() })]).await?;
        check(&self.work.borrow().meta)?;
        let taken = self.place_beside(id, first, end - first).await?;
        let mut from = 0;
        for run in &taken.runs {
            let length = (run.blocks * BLOCK.0) as usize;
            let blocks = from / BLOCK.0 as usize..(from + length) / BLOCK.0 as usize;
            let crcs = self
                .write_home(stream, run.at, (&content, from..from + length), known.map(|crcs| &crcs[blocks]))
                .await?;
            for (n, piece) in crcs.chunks(PIECE_BLOCKS as usize).enumerate() {
                let skip = n as u64 * u64::from(PIECE_BLOCKS);
                let block = first + from as u64 / BLOCK.0 + skip;
                write.pieces.push((block, Piece { at: run.at + skip, crcs: Crcs(piece.to_vec()) }));
            }
            from += length;
        }
        self.flush_home().await?;
        let number = self.enacted(&riding(write, &how.set)?, Vec::new(), check).await?;
        taken.keep();
        Ok(number)
    }

    /// The largest write that fits one record.
    fn largest_record(&self) -> u64 {
        // Its checksums take a block for each 4 MiB, and it may begin and end within blocks.
        let blocks = u64::from(self.work.borrow().meta.logs.largest()).min(MOST_WRITTEN.0 / BLOCK.0);
        BLOCK.0 * blocks.saturating_sub(4 + blocks / 512)
    }

    /// `bytes` with what is before and behind them in their first and last block.
    pub(super) async fn widened<'a>(
        &self,
        id: ObjectId,
        offset: u64,
        bytes: Given<'a>,
        size: u64,
    ) -> Result<Given<'a>> {
        if offset.is_multiple_of(BLOCK.0) && (bytes.len() as u64).is_multiple_of(BLOCK.0) {
            return Ok(bytes);
        }
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
        content[before..before + bytes.len()].copy_from_slice(&bytes);
        Ok(content.into())
    }

    /// Makes an object longer, by nothing, or shorter.
    pub async fn truncate(&self, id: ObjectId, size: u64) -> Result<()> {
        self.truncate_as(id, size, &[]).await
    }

    /// Makes an object longer, by nothing, or shorter, and sets attributes in the same step.
    pub async fn truncate_as(&self, id: ObjectId, size: u64, set: &[AttributeChange]) -> Result<()> {
        let _lock = self.lock(id).await?;
        check_range(id, size, 0)?;
        holds_bytes(id)?;
        self.check_attributes(id, set).await?;
        self.settle(id).await?;
        let before = self.head(id).await?.size;
        let mut write = self.empty_write(id, size);
        let mut content = Vec::new();
        if size < before {
            write.dropped = Some((size.div_ceil(BLOCK.0), LARGEST));
            if !size.is_multiple_of(BLOCK.0) && self.has_block(id, size / BLOCK.0).await? {
                content = self.whole_blocks(id, size / BLOCK.0, size / BLOCK.0 + 1).await?;
                content[(size % BLOCK.0) as usize..].fill(0);
                write.logged.push((size / BLOCK.0, Crcs::of(&content)));
            }
            self.work.borrow_mut().unreserve(id);
        }
        inline::settle(&mut write, &mut content);
        self.change(riding(write, set)?, content, |meta| exists(meta, id)).await
    }

    /// Makes nothing of `length` bytes at `offset`; the object's size stays. A block in which nothing is left is none any more.
    pub async fn punch(&self, id: ObjectId, offset: u64, length: u64) -> Result<()> {
        self.punch_as(id, offset, length, &[]).await
    }

    /// Makes nothing of `length` bytes at `offset`, and sets attributes in the same step; the object's size stays.
    pub async fn punch_as(&self, id: ObjectId, offset: u64, length: u64, set: &[AttributeChange]) -> Result<()> {
        let _lock = self.lock(id).await?;
        check_range(id, offset, length)?;
        holds_bytes(id)?;
        self.check_attributes(id, set).await?;
        self.settle(id).await?;
        let size = self.head(id).await?.size;
        let end = (offset + length).min(size);
        if offset >= end {
            return self.set_locked(id, set.to_vec()).await;
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
            if from >= to || whole || !self.has_block(id, block).await? {
                continue;
            }
            let mut bytes = self.whole_blocks(id, block, block + 1).await?;
            bytes[(from - block * BLOCK.0) as usize..(to - block * BLOCK.0) as usize].fill(0);
            if bytes.iter().all(|byte| *byte == 0) {
                // Else what is punched out piece by piece, as it was appended, would leave a block of zeros for each. It is beside
                // the whole blocks, or where they would be.
                let (first, last) = write.dropped.unwrap_or((block, block));
                write.dropped = Some((first.min(block), last.max(block + 1)));
                continue;
            }
            write.logged.push((block, Crcs::of(&bytes)));
            content.extend(bytes);
        }
        inline::settle(&mut write, &mut content);
        self.change(riding(write, set)?, content, |meta| exists(meta, id)).await
    }

    /// Whether there is such a block of a locked object: where there is none, nothing has to be made of it, and a block of
    /// zeros would pass by the quota.
    async fn has_block(&self, id: ObjectId, block: u64) -> Result<bool> {
        self.bring(&touching(id, block, block + 1)).await?;
        Ok(self.work.borrow().meta.present(id, block, block + 1) == [true])
    }

    fn empty_write(&self, id: ObjectId, size: u64) -> Write {
        let time = self.core.disk.env().clock.wall();
        Write { id, time, size, commands: 1, dropped: None, logged: Vec::new(), inline: None, pieces: Vec::new() }
    }

    /// What was taken, until a record points to it.
    pub(super) fn take(&self, runs: Vec<Run>) -> Taken<'_> {
        let mut work = self.work.borrow_mut();
        work.next_ticket += 1;
        let ticket = work.next_ticket;
        work.taken.insert(ticket, runs.clone());
        Taken { objects: self, ticket, runs }
    }

    /// Takes blocks behind what lies before them in their object, as far as that can be.
    async fn place_beside(&self, id: ObjectId, first: u64, blocks: u64) -> Result<Taken<'_>> {
        let [home, _] = touching(id, first, first + 1);
        loop {
            self.bring(&[home]).await?;
            let runs = {
                let mut work = self.work.borrow_mut();
                if work.meta.tree.missing(home.0, home.1).is_some() {
                    continue;
                }
                let near = work.end_of_piece_before(id, first);
                // Whoever writes much at once needs no room kept behind it.
                work.unreserve(id);
                work.allocate(blocks, near)
            };
            match runs {
                Some(runs) => return Ok(self.take(runs)),
                None => self.take_groups(GroupClass::Objects).await?,
            }
        }
    }

    /// Writes a range of bytes to a run of blocks; the checksums of these, which may be known. Both while the device has what
    /// came before.
    async fn write_home(
        &self,
        stream: StreamId,
        at: u64,
        (bytes, range): (&Given<'_>, Range<usize>),
        known: Option<&[u32]>,
    ) -> Result<Vec<u32>> {
        let mut crcs = Vec::with_capacity(range.len() / BLOCK.0 as usize);
        let mut writing = VecDeque::new();
        let mut result = Ok(());
        let at_once = AT_ONCE * BLOCK.0 as usize;
        for (at, from) in (at..).step_by(AT_ONCE).zip(range.clone().step_by(at_once)) {
            let range = from..range.end.min(from + at_once);
            let part = &bytes[range.clone()];
            let buffer = match bytes.aligned() {
                Some(whole) => Ok(Buffer::part_of(whole.clone(), range)),
                None => self.pooled(part.len() as u64 / BLOCK.0).map(|mut buffer| {
                    buffer.copy_from_slice(part);
                    buffer
                }),
            };
            let buffer = match buffer {
                Ok(buffer) => buffer,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            };
            let (disk, offset) = (self.core.disk.clone(), BLOCK * at);
            let write = async move { disk.write(stream, offset, buffer).await.1 };
            writing.push_back(self.core.disk.env().spawner.spawn(write));
            yield_now().await;
            if known.is_none() {
                crcs.extend(part.chunks(BLOCK.0 as usize).map(crc32c));
            }
            if writing.len() == UNDER_WAY
                && let Some(first) = writing.pop_front()
            {
                result = self.wrote_home(first.await);
                if result.is_err() {
                    break;
                }
            }
        }
        // After an error, too: these blocks are free then, and what is still on its way would land on whoever takes them.
        for write in writing {
            let wrote = self.wrote_home(write.await);
            result = result.and(wrote);
        }
        result.map(|()| known.map_or(crcs, <[u32]>::to_vec))
    }

    pub(super) fn wrote_home(&self, result: Result<()>) -> Result<()> {
        self.work.borrow_mut().written_home += 1;
        result
    }
}

/// The checksums of the blocks that bytes fill, if somebody knows them.
pub(super) fn known<'a>(offset: u64, bytes: &[u8], crcs: &'a [u32]) -> Option<&'a [u32]> {
    let fills = offset.is_multiple_of(BLOCK.0) && bytes.len() as u64 == crcs.len() as u64 * BLOCK.0;
    (fills && !crcs.is_empty()).then_some(crcs)
}

fn check_range(id: ObjectId, offset: u64, length: u64) -> Result<()> {
    match offset.checked_add(length) {
        Some(end) if end <= LARGEST => Ok(()),
        _ => Err(Error::usage(format!(
            "{length} bytes at offset {offset} of {id} lie beyond the largest object; stay below {LARGEST}"
        ))),
    }
}

/// A write, and the attributes that ride on it.
fn riding(write: Write, changes: &[AttributeChange]) -> Result<Vec<Change>> {
    let (id, time) = (write.id, write.time);
    let mut all = vec![Change::Write(write)];
    if !changes.is_empty() {
        all.push(set(id, time, changes.to_vec())?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests;

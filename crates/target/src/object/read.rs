//! Reading an object: what lies in memory, in logs and at home, verified, in one answer.
//!
//! Nothing is locked, unless an object changes again and again while it is read. What was read counts only if the rows still
//! say the same afterwards: blocks that were freed meanwhile may be somebody else's by then. A checksum that does not match although the rows say the same is damage.
//!
//! Bytes that were read ahead are found by where they lie on the device, and are compared with the checksum that the
//! rows have when they are returned, as all others: if they do not match, they are of before, and the device is asked.
//! What comes from the device is lent to whoever asked, in the buffer of the I/O; it is copied once where that is not worth it.

use super::apply::touching;
use super::lent::{Answer, Held, Lending, Piece as Read, joined};
use super::pool::Pool;
use super::rows::{BLOCK, Key};
use super::stretch::Source;
use super::stretch::{Stretch, same};
use super::{Memory, Objects, ahead, cache, journal};
use crate::schedule::StreamId;
use forebay_env::{Buffer, Task};
use forebay_model::block::crc32c;
use forebay_model::{Bytes, Error, ObjectId, Result};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

/// Blocks read from the device at once: records wait for what is under way, and that is not to be long.
const MOST_AT_ONCE: u64 = super::pool::LARGE.0 / BLOCK.0;
/// Such reads that one command has under way at most.
const MOST_UNDER_WAY: usize = 32;
/// How often what changed meanwhile is read again before commands that change the object wait.
const ROUNDS: u32 = 4;
/// The most bytes that one command reads.
pub const MOST_READ: Bytes = Bytes::mib(64);
/// What is kept of what was read ahead, unless told otherwise.
pub const CACHE: Bytes = Bytes(150_000_000);
/// Memory for I/O beside that, and of buffers that are lent.
pub(super) const FOR_READS: Bytes = Bytes::mib(32);

/// A read of the device.
type UnderWay = Task<(Buffer, Result<()>)>;

/// What has been read since opening.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadCounters {
    /// Reads of bytes that lie on the device.
    pub reads: u64,
    /// Those of them for which nothing had to be asked of the device, since all of it had been read ahead.
    pub ahead: u64,
    /// Those of these for which some of it was still on its way.
    pub awaited: u64,
    /// Bytes read ahead.
    pub read_ahead: Bytes,
    /// Blocks read ahead that had been overwritten when they were to be returned.
    pub stale: u64,
    /// What had to go from the cache, read and unread.
    pub evicted: cache::Evicted,
}

/// What readers have in common.
pub(super) struct Reading {
    contexts: ahead::Contexts,
    cache: cache::Cache<Arc<Held>>,
    pool: Pool,
    lending: Lending,
    counters: ReadCounters,
}

impl Reading {
    pub(super) fn new(cache: Bytes, for_reads: Bytes) -> RefCell<Reading> {
        RefCell::new(Reading {
            contexts: ahead::Contexts::default(),
            cache: cache::Cache::new(cache),
            pool: Pool::new(cache + for_reads),
            lending: Lending::new(for_reads),
            counters: ReadCounters::default(),
        })
    }
}

/// A part of an answer, at most [`MOST_AT_ONCE`] blocks of a stretch.
struct Piece<'a> {
    stretch: &'a Stretch,
    /// Blocks of the stretch before it, and in it.
    skip: u64,
    blocks: u64,
    from: From,
}

/// Where its bytes come from.
enum From {
    Nowhere,
    Memory(Rc<journal::Content>),
    /// Read ahead, from so many blocks of it on.
    Ahead(Arc<Held>, u64),
    /// Being read ahead.
    Awaited,
    Device(UnderWay),
}

impl Piece<'_> {
    fn at(&self) -> u64 {
        self.stretch.at + self.skip
    }

    fn crcs(&self) -> &[u32] {
        &self.stretch.crcs[self.skip as usize..(self.skip + self.blocks) as usize]
    }

    /// The first block whose checksum is not the one that the rows have.
    fn differs(&self, bytes: &[u8]) -> Option<u64> {
        let blocks = bytes.chunks(BLOCK.0 as usize).zip(self.crcs());
        blocks.map(|(block, crc)| crc32c(block) == *crc).position(|same| !same).map(|n| n as u64)
    }
}

/// What could not be brought: which block of the object, where it lies, and why.
struct Wrong {
    block: u64,
    at: u64,
    why: String,
}

impl Objects {
    /// As [`Objects::read_pieces`], in one piece.
    pub async fn read(self: &Rc<Self>, stream: StreamId, id: ObjectId, offset: u64, length: u64) -> Result<Vec<u8>> {
        Ok(joined(self.read_pieces(stream, id, offset, length).await?))
    }

    /// Bytes of an object from `offset` on, `length` of them or as many as there are, in pieces that are not empty. Who goes on
    /// reading finds what follows read ahead.
    pub async fn read_pieces(
        self: &Rc<Self>,
        stream: StreamId,
        id: ObjectId,
        offset: u64,
        length: u64,
    ) -> Result<Vec<Read>> {
        self.read_beside(stream, id, (offset, length), false).await
    }

    /// As [`Objects::read_pieces`], of an object that the caller has locked, or has not.
    pub(super) async fn read_beside(
        self: &Rc<Self>,
        stream: StreamId,
        id: ObjectId,
        (offset, length): (u64, u64),
        is_locked: bool,
    ) -> Result<Vec<Read>> {
        let size = self.head(id).await?.size;
        let end = offset.saturating_add(length).min(size);
        if offset >= end {
            return Ok(Vec::new());
        }
        self.work.borrow_mut().asked += 1;
        let now = self.core.disk.env().clock.now();
        let most = self.core.disk.spare(self.core.disk.tracker());
        let touched = {
            let mut reading = self.reading.borrow_mut();
            let Reading { contexts, cache, .. } = &mut *reading;
            let touched = contexts.read((id, size), offset, end - offset, now, (cache.most(), most));
            touched.forgotten.iter().for_each(|owner| cache.forget(*owner));
            touched
        };
        let mut wanted = Some(touched.ahead).filter(|ahead| !ahead.is_empty());
        let go_ahead = || {
            let Some(range) = wanted.take() else { return };
            let (this, number) = (self.clone(), touched.number);
            let work = async move { this.read_ahead(stream, id, number, range.start, range.end).await };
            self.core.disk.env().spawner.detach(work);
        };
        let bytes = self.collect(stream, id, (offset, length), is_locked, go_ahead).await;
        self.reading.borrow_mut().cache.pass(touched.number, end, now);
        bytes
    }

    /// What readers found, since opening.
    pub fn read_counters(&self) -> ReadCounters {
        let reading = self.reading.borrow();
        ReadCounters { evicted: reading.cache.evicted(), ..reading.counters }
    }

    /// Memory for what is read ahead, at most.
    pub fn cache(&self) -> Bytes {
        self.reading.borrow().cache.most()
    }

    /// What is read ahead takes at most this much memory from now on, or what the target may have for it; what there was is
    /// forgotten.
    pub fn set_cache(&self, most: Bytes) {
        let counters = self.read_counters();
        let Memory { ahead, reads, .. } = self.memory.get();
        let mut reading = Reading::new(most.min(ahead), reads).into_inner();
        reading.counters = counters;
        self.reading.replace(reading);
    }

    /// As [`Objects::read_beside`]; `asked` is called when everything that the answer needs has been asked for, or nearly.
    async fn collect(
        &self,
        stream: StreamId,
        id: ObjectId,
        (offset, length): (u64, u64),
        is_locked: bool,
        mut asked: impl FnMut(),
    ) -> Result<Vec<Read>> {
        let mut first_time = true;
        let mut lock = None;
        for round in 1.. {
            // Whoever changes it all the time waits for once.
            if round > ROUNDS && !is_locked && lock.is_none() {
                lock = Some(self.lock(id).await?);
            }
            let size = self.head(id).await?.size;
            if length == 0 || offset >= size {
                return Ok(Vec::new());
            }
            let length = length.min(size - offset);
            if length > MOST_READ.0 {
                return Err(Error::usage(format!("{length} bytes at once are too many; read {MOST_READ} at most")));
            }
            let (first, end) = (offset / BLOCK.0, (offset + length).div_ceil(BLOCK.0));
            let mut ranges = touching(id, first, end).to_vec();
            ranges.push((Key::head(id), Key::head(id)));
            self.bring(&ranges).await?;
            let stretches = {
                let work = self.work.borrow();
                if work.head(id).is_none_or(|head| head.size < size) {
                    continue;
                }
                work.stretches(id, first, end)
            };
            if std::mem::take(&mut first_time) {
                self.note(&stretches);
            }
            let mut answer = Answer::default();
            let wanted = (offset - first * BLOCK.0) as usize..(offset - first * BLOCK.0 + length) as usize;
            let wrong = self.fill(stream, &stretches, wanted, &mut answer, &mut asked).await;
            self.bring(&ranges).await?;
            let still = {
                let work = self.work.borrow();
                work.head(id).is_some_and(|head| head.size >= size) && same(&stretches, &work.stretches(id, first, end))
            };
            match wrong {
                _ if !still => continue,
                Some(Wrong { block, at, why }) => {
                    self.alive()?;
                    let mut work = self.work.borrow_mut();
                    work.counters.damaged += 1;
                    work.wrong.found(id, block);
                    return Err(Error::damaged(format!(
                        "{id} is damaged at offset {} ({} of the device): {why}; write these bytes again, or put it anew",
                        block * BLOCK.0,
                        BLOCK * at
                    )));
                }
                None => return Ok(answer.into_pieces()),
            }
        }
        unreachable!("the loop returns")
    }

    /// Counts a read, and whether it was foreseen.
    fn note(&self, stretches: &[Stretch]) {
        let mut reading = self.reading.borrow_mut();
        let Reading { cache, counters, .. } = &mut *reading;
        let mut device = stretches.iter().filter(|stretch| matches!(stretch.source, Source::Device)).peekable();
        if device.peek().is_none() {
            return;
        }
        counters.reads += 1;
        let mut awaited = false;
        for stretch in device {
            let (mut at, end) = (stretch.at, stretch.at + stretch.blocks);
            while at < end {
                let Some((first, blocks, content)) = cache.find(at) else { return };
                awaited |= content.is_none();
                at = first + blocks;
            }
        }
        counters.ahead += 1;
        counters.awaited += u64::from(awaited);
    }

    /// Appends what is `wanted` of the stretches to `answer`; the first that cannot be read or does not match its
    /// checksum, and why.
    async fn fill(
        &self,
        stream: StreamId,
        stretches: &[Stretch],
        wanted: std::ops::Range<usize>,
        answer: &mut Answer,
        asked: &mut impl FnMut(),
    ) -> Option<Wrong> {
        let mut cuts = stretches.iter().flat_map(Stretch::cuts).peekable();
        let mut under_way: VecDeque<Piece<'_>> = VecDeque::new();
        // Bytes of the blocks before the piece that is next.
        let mut done = 0;
        loop {
            // All at once, so that the scheduler sees how the stream goes on.
            while under_way.len() < MOST_UNDER_WAY
                && let Some((stretch, skip, blocks)) = cuts.next()
            {
                match self.begin(stream, stretch, skip, blocks, &mut under_way) {
                    Ok(()) => {}
                    Err(error) => {
                        return Some(Wrong { block: stretch.first + skip, at: stretch.at + skip, why: error.message });
                    }
                }
            }
            if cuts.peek().is_none() {
                asked();
            }
            let piece = under_way.pop_front()?;
            let length = (piece.blocks * BLOCK.0) as usize;
            let part = wanted.start.max(done) - done..wanted.end.min(done + length) - done;
            if let Err(wrong) = self.finish(stream, piece, part, answer).await {
                return Some(wrong);
            }
            done += length;
        }
    }

    /// Finds these blocks of a stretch, or asks the device for them.
    fn begin<'a>(
        &self,
        stream: StreamId,
        stretch: &'a Stretch,
        skip: u64,
        blocks: u64,
        under_way: &mut VecDeque<Piece<'a>>,
    ) -> Result<()> {
        let mut put = |skip, blocks, from| under_way.push_back(Piece { stretch, skip, blocks, from });
        match &stretch.source {
            Source::Nowhere => put(skip, blocks, From::Nowhere),
            Source::Memory(content) => put(skip, blocks, From::Memory(content.clone())),
            Source::Device => {
                let (mut from, end) = (skip, skip + blocks);
                while from < end {
                    let at = stretch.at + from;
                    let mut reading = self.reading.borrow_mut();
                    let found = reading.cache.find(at).map(|(first, held, content)| {
                        let here = content.map_or(From::Awaited, |held| From::Ahead(held.clone(), at - first));
                        ((first + held - at).min(end - from), here)
                    });
                    if let Some((blocks, here)) = found {
                        put(from, blocks, here);
                        from += blocks;
                        continue;
                    }
                    let (_, blocks) = reading.cache.missing(at, end - from)[0];
                    let buffer = reading.pool.take_or_make(blocks)?;
                    drop(reading);
                    put(from, blocks, From::Device(self.ask(stream, at, buffer)));
                    from += blocks;
                }
            }
        }
        Ok(())
    }

    fn ask(&self, stream: StreamId, at: u64, buffer: Buffer) -> UnderWay {
        let disk = self.core.disk.clone();
        self.core.disk.env().spawner.spawn(async move { disk.read(stream, BLOCK * at, buffer).await })
    }

    /// Appends bytes `part` of a piece.
    async fn finish(
        &self,
        stream: StreamId,
        mut piece: Piece<'_>,
        part: std::ops::Range<usize>,
        answer: &mut Answer,
    ) -> std::result::Result<(), Wrong> {
        let wrong = |n: u64, why: &str| Wrong {
            block: piece.stretch.first + piece.skip + n,
            at: piece.stretch.at + piece.skip + n,
            why: why.to_owned(),
        };
        let length = (piece.blocks * BLOCK.0) as usize;
        let (buffer, result) = match std::mem::replace(&mut piece.from, From::Nowhere) {
            From::Nowhere => {
                answer.zeros(part.len());
                return Ok(());
            }
            From::Memory(content) => {
                let skip = (piece.at() - content.at) as usize * BLOCK.0 as usize;
                answer.copy(&content.bytes[skip..skip + length][part]);
                return Ok(());
            }
            From::Device(read) => read.await,
            from @ (From::Ahead(..) | From::Awaited) => {
                let held = match from {
                    From::Ahead(held, skip) => Some((held, skip)),
                    _ => self.awaited(&piece).await,
                };
                if let Some((held, skip)) = held {
                    let skip = (skip * BLOCK.0) as usize;
                    if piece.differs(&held[skip..skip + length]).is_none() {
                        self.give(&held, skip, part, piece.crcs(), answer);
                        return Ok(());
                    }
                }
                self.read_again(stream, &piece).await.map_err(|error| wrong(0, &error.message))?
            }
        };
        if result.is_err() {
            // Which one it is, and perhaps none a second time.
            let mut again = vec![0; length];
            for (n, block) in (0..).zip(again.chunks_mut(BLOCK.0 as usize)) {
                if let Err(error) = self.read_blocks(stream, piece.at() + n, block).await {
                    return Err(wrong(n, &error.message));
                }
            }
            if let Some(n) = piece.differs(&again) {
                return Err(wrong(n, MISMATCH));
            }
            answer.copy(&again[part]);
            return Ok(());
        }
        if let Some(n) = piece.differs(&buffer) {
            return Err(wrong(n, MISMATCH));
        }
        let held = self.reading.borrow().lending.hold(buffer);
        self.give(&held, 0, part, piece.crcs(), answer);
        Ok(())
    }

    /// Appends bytes `part` of a piece that was verified, which has these checksums and begins at byte `skip` of a buffer.
    fn give(&self, held: &Arc<Held>, skip: usize, part: std::ops::Range<usize>, crcs: &[u32], answer: &mut Answer) {
        let block = BLOCK.0 as usize;
        let is_whole = part.start.is_multiple_of(block) && part.end.is_multiple_of(block);
        let crcs = if is_whole { &crcs[part.start / block..part.end / block] } else { &[] };
        self.reading.borrow().lending.give(held, skip + part.start..skip + part.end, crcs, answer);
    }

    /// What is read ahead for a piece, once it has come or will not, and how many blocks of it are before the piece.
    async fn awaited(&self, piece: &Piece<'_>) -> Option<(Arc<Held>, u64)> {
        let at = piece.at();
        self.came.until(|| self.reading.borrow().cache.find(at).is_none_or(|(.., held)| held.is_some())).await;
        let reading = self.reading.borrow();
        let (first, blocks, held) = reading.cache.find(at)?;
        let held = held.filter(|_| first + blocks >= at + piece.blocks)?;
        Some((held.clone(), at - first))
    }

    /// What had been read ahead is of before, or did not come: reads it from the device.
    async fn read_again(&self, stream: StreamId, piece: &Piece<'_>) -> Result<(Buffer, Result<()>)> {
        let buffer = {
            let mut reading = self.reading.borrow_mut();
            let (mut at, end) = (piece.at(), piece.at() + piece.blocks);
            while at < end {
                match reading.cache.find(at).map(|(first, blocks, content)| (first, blocks, content.is_some())) {
                    Some((first, blocks, here)) => {
                        if here {
                            reading.cache.drop_entry(first);
                            reading.counters.stale += 1;
                        }
                        at = first + blocks;
                    }
                    None => at += 1,
                }
            }
            reading.pool.take_or_make(piece.blocks)?
        };
        Ok(self.core.disk.read(stream, BLOCK * piece.at(), buffer).await)
    }

    /// Reads bytes `from..to` of an object ahead, for the context `number`, as far as there is room.
    async fn read_ahead(&self, stream: StreamId, id: ObjectId, number: u64, from: u64, to: u64) {
        let (first, end) = (from / BLOCK.0, to.div_ceil(BLOCK.0));
        // Whoever reads it will be told what is wrong.
        if self.bring(&touching(id, first, end)).await.is_err() {
            return;
        }
        let stretches = self.work.borrow().stretches(id, first, end);
        let mut reads = Vec::new();
        for (stretch, skip, blocks) in stretches.iter().flat_map(Stretch::cuts) {
            if !matches!(stretch.source, Source::Device) {
                continue;
            }
            let missing = self.reading.borrow().cache.missing(stretch.at + skip, blocks);
            for (at, blocks) in missing {
                let block = stretch.first + (at - stretch.at);
                let Some(buffer) = self.room_ahead(number, at, block, blocks) else {
                    self.reading.borrow_mut().contexts.cut(number, block * BLOCK.0);
                    return self.take_in(reads).await;
                };
                reads.push((at, self.ask(stream, at, buffer)));
            }
        }
        self.take_in(reads).await;
    }

    /// Room in the cache for these blocks, and a buffer for them.
    fn room_ahead(&self, owner: u64, at: u64, block: u64, blocks: u64) -> Option<Buffer> {
        let now = self.core.disk.env().clock.now();
        let mut reading = self.reading.borrow_mut();
        let Reading { contexts, cache, pool, counters, .. } = &mut *reading;
        let (from, to) = (block * BLOCK.0, (block + blocks) * BLOCK.0);
        let wanted = cache::Wanted { at, blocks, weight: Pool::weight(blocks), owner, from, to };
        let mut lost = Vec::new();
        let room = cache.reserve(wanted, contexts.share(cache.most()), now, &mut lost);
        lost.into_iter().for_each(|(owner, from)| contexts.cut(owner, from));
        if !room {
            return None;
        }
        let buffer = pool.take(blocks);
        match buffer {
            Some(_) => counters.read_ahead += BLOCK * blocks,
            None => cache.drop_entry(at),
        }
        buffer
    }

    async fn take_in(&self, reads: Vec<(u64, UnderWay)>) {
        for (at, read) in reads {
            let (buffer, result) = read.await;
            {
                let mut reading = self.reading.borrow_mut();
                match result {
                    Ok(()) => {
                        let held = reading.lending.hold(buffer);
                        reading.cache.fill(at, held);
                    }
                    Err(_) => reading.cache.drop_entry(at),
                }
            }
            self.came.notify();
        }
    }

    /// Memory for an I/O of so many blocks, at most [`MOST_AT_ONCE`].
    pub(super) fn pooled(&self, blocks: u64) -> Result<Buffer> {
        self.reading.borrow_mut().pool.take_or_make(blocks)
    }

    /// Reads what lies from block `at` of the device on.
    pub(super) async fn read_blocks(&self, stream: StreamId, at: u64, bytes: &mut [u8]) -> Result<()> {
        let buffer = Buffer::alone(Bytes(bytes.len() as u64))?;
        self.count_own(stream, Bytes(bytes.len() as u64));
        let (buffer, result) = self.core.disk.read(stream, BLOCK * at, buffer).await;
        result?;
        bytes.copy_from_slice(&buffer);
        Ok(())
    }

    /// Blocks `first..end` of a locked object as they are now, zeros where there is nothing.
    pub(super) async fn whole_blocks(&self, id: ObjectId, first: u64, end: u64) -> Result<Vec<u8>> {
        let range = (first * BLOCK.0, (end - first) * BLOCK.0);
        let mut bytes = joined(self.collect(self.stream, id, range, true, || ()).await?);
        bytes.resize(((end - first) * BLOCK.0) as usize, 0);
        Ok(bytes)
    }
}

/// What is said of a block that is not what the rows say.
pub(super) const MISMATCH: &str = "its checksum does not match";

impl Stretch {
    /// Parts of it that are read at once: blocks before each, and in it.
    fn cuts(&self) -> impl Iterator<Item = (&Stretch, u64, u64)> {
        let most = if matches!(self.source, Source::Device) { MOST_AT_ONCE } else { self.blocks };
        let step = most.max(1) as usize;
        (0..self.blocks).step_by(step).map(move |skip| (self, skip, most.min(self.blocks - skip)))
    }
}

/// What is said of an object that does not exist.
pub(super) fn missing(id: ObjectId) -> Error {
    Error::missing(format!("there is no {id}; create it first, or list what there is"))
}

#[cfg(test)]
mod tests;

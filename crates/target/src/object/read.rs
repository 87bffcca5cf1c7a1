//! Reading an object: what lies in memory, in logs and at home, verified, in one answer.
//!
//! Nothing is locked. What was read counts only if the rows still say the same afterwards: blocks that were freed
//! meanwhile may be somebody else's by then. A checksum that does not match although the rows say the same is damage.

use super::apply::touching;
use super::rows::{BLOCK, Key, Part, Row};
use super::{Objects, Work, journal};
use crate::schedule::StreamId;
use forebay_env::Buffer;
use forebay_model::block::crc32c;
use forebay_model::{Bytes, Error, ObjectId, Result};
use std::rc::Rc;

/// Blocks read from the device at once: records wait for what is under way, and that is not to be long.
const MOST_AT_ONCE: u64 = 128;
/// The most bytes that one command reads.
pub const MOST_READ: Bytes = Bytes::mib(64);

/// Where blocks of an object are now.
enum Source {
    Nowhere,
    Memory(Rc<journal::Content>),
    Device,
}

/// A block of an object as the rows say.
struct Block {
    source: Source,
    at: u64,
    crc: u32,
}

impl Objects {
    /// Bytes of an object from `offset` on, `length` of them or as many as there are.
    pub async fn read(&self, stream: StreamId, id: ObjectId, offset: u64, length: u64) -> Result<Vec<u8>> {
        loop {
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
            let blocks = {
                let work = self.work.borrow();
                if work.head(id).is_none_or(|head| head.size < size) {
                    continue;
                }
                work.blocks_of(id, first, end)
            };
            let mut bytes = vec![0; ((blocks.len() as u64) * BLOCK.0) as usize];
            let wrong = self.fill(stream, &blocks, &mut bytes).await;
            self.bring(&ranges).await?;
            let same = {
                let work = self.work.borrow();
                let now = work.blocks_of(id, first, first + blocks.len() as u64);
                let same = |(before, now): (&Block, &Block)| before.at == now.at && before.crc == now.crc;
                work.head(id).is_some_and(|head| head.size >= size) && blocks.iter().zip(&now).all(same)
            };
            let place = |n: usize| {
                format!(
                    "{id} is damaged at offset {} ({} of the device)",
                    (first + n as u64) * BLOCK.0,
                    BLOCK * blocks[n].at
                )
            };
            match wrong {
                _ if !same => continue,
                Some((block, why)) => {
                    self.alive()?;
                    self.work.borrow_mut().counters.damaged += 1;
                    return Err(Error::damaged(format!("{}: {why}", place(block))));
                }
                None => {
                    let from = (offset - first * BLOCK.0) as usize;
                    bytes.truncate(from + length as usize);
                    bytes.drain(..from);
                    return Ok(bytes);
                }
            }
        }
    }

    /// Brings `blocks` into `bytes`; the first that cannot be read or does not match its checksum, and why.
    async fn fill(&self, stream: StreamId, blocks: &[Block], bytes: &mut [u8]) -> Option<(usize, String)> {
        let size = BLOCK.0 as usize;
        let mut reading = Vec::new();
        let mut from = 0;
        while from < blocks.len() {
            let first = &blocks[from];
            let mut to = from + 1;
            match &first.source {
                Source::Nowhere => {}
                Source::Memory(content) => {
                    let skip = (first.at - content.at) as usize * size;
                    bytes[from * size..to * size].copy_from_slice(&content.bytes[skip..skip + size]);
                }
                Source::Device => {
                    let follows =
                        |n: usize| matches!(blocks[n].source, Source::Device) && blocks[n].at == blocks[n - 1].at + 1;
                    while to < blocks.len() && ((to - from) as u64) < MOST_AT_ONCE && follows(to) {
                        to += 1;
                    }
                    let buffer = match Buffer::alone(BLOCK * (to - from) as u64) {
                        Ok(buffer) => buffer,
                        Err(error) => return Some((from, error.message)),
                    };
                    let (disk, at) = (self.core.disk.clone(), BLOCK * first.at);
                    // All at once, so that the scheduler sees how the stream goes on.
                    let read = self.core.disk.env().spawner.spawn(async move { disk.read(stream, at, buffer).await });
                    reading.push((from..to, read));
                }
            }
            from = to;
        }
        let mut wrong = None;
        for (range, read) in reading {
            let (buffer, result) = read.await;
            if wrong.is_some() {
                continue;
            }
            let content = &mut bytes[range.start * size..range.end * size];
            content.copy_from_slice(&buffer);
            if result.is_err() {
                // Which one it is, and perhaps none a second time.
                for (n, block) in range.clone().zip(content.chunks_mut(size)) {
                    if let Err(error) = self.read_blocks(stream, blocks[n].at, block).await {
                        wrong = Some((n, error.message));
                        break;
                    }
                }
            }
            let differs = |(block, bytes): (&Block, &[u8])| crc32c(bytes) != block.crc;
            let first = blocks[range.clone()].iter().zip(content.chunks(size)).position(differs);
            wrong = wrong.or(first.map(|n| (range.start + n, "its checksum does not match".to_owned())));
        }
        wrong
    }

    /// Reads what lies from block `at` of the device on.
    pub(super) async fn read_blocks(&self, stream: StreamId, at: u64, bytes: &mut [u8]) -> Result<()> {
        let buffer = Buffer::alone(Bytes(bytes.len() as u64))?;
        let (buffer, result) = self.core.disk.read(stream, BLOCK * at, buffer).await;
        result?;
        bytes.copy_from_slice(&buffer);
        Ok(())
    }

    /// Blocks `first..end` of an object as they are now, zeros where there is nothing.
    pub(super) async fn whole_blocks(&self, id: ObjectId, first: u64, end: u64) -> Result<Vec<u8>> {
        let mut bytes = self.read(self.stream, id, first * BLOCK.0, (end - first) * BLOCK.0).await?;
        bytes.resize(((end - first) * BLOCK.0) as usize, 0);
        Ok(bytes)
    }
}

impl Work {
    /// Where blocks `first..end` are. The rows must be in memory.
    fn blocks_of(&self, id: ObjectId, first: u64, end: u64) -> Vec<Block> {
        let nowhere = || Block { source: Source::Nowhere, at: u64::MAX, crc: 0 };
        let mut blocks: Vec<Block> = (first..end).map(|_| nowhere()).collect();
        if first >= end {
            return blocks;
        }
        let [home, logged] = touching(id, first, end);
        for (key, row) in self.meta.tree.range(home.0, home.1) {
            let (Part::Piece(begins), Row::Piece(piece)) = (key.part, row) else { continue };
            for block in begins.max(first)..(begins + piece.blocks()).min(end) {
                let n = block - begins;
                let crc = piece.crcs.0[n as usize];
                blocks[(block - first) as usize] = Block { source: Source::Device, at: piece.at + n, crc };
            }
        }
        for (key, row) in self.meta.tree.range(logged.0, logged.1) {
            let (Part::Logged(block), Row::Logged(logged)) = (key.part, row) else { continue };
            let source = match self.unwritten.get(&logged.at) {
                Some(content) => Source::Memory(content.clone()),
                None => Source::Device,
            };
            blocks[(block - first) as usize] = Block { source, at: logged.at, crc: logged.crc };
        }
        self.behind.look(id, first, end, |block, content, crc| {
            let source = Source::Memory(content.clone());
            blocks[(block - first) as usize] = Block { source, at: content.at, crc };
        });
        blocks
    }
}

/// What is said of an object that does not exist.
pub(super) fn missing(id: ObjectId) -> Error {
    Error::missing(format!("there is no {id}"))
}

//! The one way of many blocks home: gathered, sorted by object and offset, rid of what is superseded, placed, merged
//! with their neighbours, written. Write-behind and the taking home of logs both go through here.
//!
//! Where they go (Panasas, FAST 2008, section 4.2): what an object continues goes right behind it; the rest goes into one
//! free run if there is one, else into several, with each object's blocks together. Behind an object that grows, room is
//! *reserved*, so that what others write at the same time does not come between its parts: in memory only, first to be
//! given up when space is wanted, and free in every map that is made durable. Nothing has to be padded: blocks are
//! whole when they come, since whoever writes a part of one has read the rest. What lies together in memory for I/O is written from
//! there; the rest is copied, neighbours into one buffer.

use super::apply::touching;
use super::rows::{BLOCK, Crcs, PIECE_BLOCKS, Part, Piece, Row};
use super::space::Run;
use super::write::Taken;
use super::{Objects, Work};
use crate::catalog::GroupClass;
use crate::coalesce;
use crate::schedule::StreamId;
use forebay_env::Buffer;
use forebay_model::{ObjectId, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Blocks written home at once.
pub(super) const AT_ONCE: usize = (super::pool::LARGE.0 / BLOCK.0) as usize;
/// Blocks that go to the device from where they lie: of fewer a copy, together with others, costs less.
const DIRECTLY: usize = 32;
/// How many such writes wait for the device.
pub(super) const UNDER_WAY: usize = 16;
/// An object that grew by so many blocks at once is likely to grow on.
const GROWING: u64 = 16;
/// Room behind a growing object: so many times what it grew by, up to [`MOST_RESERVED`].
const RESERVED: u64 = 32;
/// Blocks that are reserved for one object at most: 8 MiB.
const MOST_RESERVED: u64 = 2048;
/// Objects that have room reserved at most.
const MOST_GROWING: usize = 1024;

/// A block that is not at home.
#[derive(Clone, Copy)]
pub(super) struct Loose<'a> {
    /// Whose.
    pub(super) id: ObjectId,
    /// Which of its blocks.
    pub(super) block: u64,
    /// Where it lies until then; of two that are the same block, the one further on is newer.
    pub(super) at: u64,
    /// Its checksum.
    pub(super) crc: u32,
    /// Its bytes.
    pub(super) from: Origin<'a>,
}

/// Where the bytes of a block are.
#[derive(Clone, Copy)]
pub(super) enum Origin<'a> {
    /// In memory of any kind, from which they are copied.
    Plain(&'a [u8]),
    /// In memory for I/O, from this byte on.
    Aligned(&'a Arc<Buffer>, usize),
}

impl Origin<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Origin::Plain(bytes) => bytes,
            Origin::Aligned(whole, from) => &whole[*from..*from + BLOCK.0 as usize],
        }
    }

    /// Whether `next` follows in the same memory for I/O.
    fn goes_on_in(&self, next: &Origin<'_>) -> bool {
        match (self, next) {
            (Origin::Aligned(whole, from), Origin::Aligned(next_whole, next)) => {
                Arc::ptr_eq(whole, next_whole) && *next == from + BLOCK.0 as usize
            }
            _ => false,
        }
    }
}

/// A block on its way to its place, and whether it goes there from where it is, together with its neighbours.
#[derive(Clone, Copy)]
struct Going<'a> {
    from: Origin<'a>,
    directly: bool,
}

/// Of blocks in the order of their places those go directly that lie in enough others' company in their memory, too: what was
/// overwritten in pieces is gathered, so that it makes few writes.
fn ways<'a>(placed: &'a [(u64, Loose<'_>)]) -> impl Iterator<Item = (Range<u64>, Going<'a>)> {
    let follows = |(home, l): &(u64, Loose<'_>), (next_home, next): &(u64, Loose<'_>)| {
        *next_home == home + 1 && l.from.goes_on_in(&next.from)
    };
    placed.chunk_by(follows).flat_map(|together| {
        let directly = together.len() >= DIRECTLY;
        together.iter().map(move |(home, l)| (*home..home + 1, Going { from: l.from, directly }))
    })
}

/// Blocks of one object that are to lie together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunk {
    /// Whose.
    pub(super) id: ObjectId,
    /// The first of its blocks.
    pub(super) first: u64,
    /// How many.
    pub(super) blocks: u64,
    /// Whether the last of them is the last of the object.
    pub(super) at_end: bool,
}

/// Sorts blocks by object and offset, and drops those that newer ones supersede.
pub(super) fn newest(loose: &mut Vec<Loose<'_>>) {
    loose.sort_unstable_by_key(|l| (l.id, l.block, std::cmp::Reverse(l.at)));
    loose.dedup_by_key(|l| (l.id, l.block));
}

/// What a record says of blocks, sorted by object and offset, that are at these places now.
pub(super) fn pieces<'a>(placed: impl Iterator<Item = (u64, &'a Loose<'a>)>) -> BTreeMap<ObjectId, Vec<(u64, Piece)>> {
    let mut all: BTreeMap<ObjectId, Vec<(u64, Piece)>> = BTreeMap::new();
    for (home, l) in placed {
        let pieces = all.entry(l.id).or_default();
        let follows = |(first, piece): &&mut (u64, Piece)| {
            let blocks = piece.blocks();
            *first + blocks == l.block && piece.at + blocks == home && blocks < u64::from(PIECE_BLOCKS)
        };
        match pieces.last_mut().filter(|last| follows(last)) {
            Some((_, piece)) => piece.crcs.0.push(l.crc),
            None => pieces.push((l.block, Piece { at: home, crcs: Crcs(vec![l.crc]) })),
        }
    }
    all
}

impl Objects {
    /// Takes places for `chunks`, which are sorted by object; for each its own. What was `promised` to buffered bytes is
    /// theirs alone.
    pub(super) async fn places(&self, chunks: &[Chunk], promised: bool) -> Result<Vec<Taken<'_>>> {
        let ranges: Vec<_> = chunks.iter().map(|c| touching(c.id, c.first, c.first + 1)[0]).collect();
        loop {
            self.bring(&ranges).await?;
            let placed = {
                let mut work = self.work.borrow_mut();
                if ranges.iter().any(|(from, to)| work.meta.tree.missing(*from, *to).is_some()) {
                    continue;
                }
                work.place(chunks, promised)
            };
            match placed {
                Some(placed) => return Ok(placed.into_iter().map(|runs| self.take(runs)).collect()),
                None => self.take_groups(GroupClass::Objects).await?,
            }
        }
    }

    /// The bytes of blocks that follow one another: where they are, or a copy.
    fn buffer_for(&self, blocks: &[Going<'_>]) -> Result<Buffer> {
        let length = blocks.len() * BLOCK.0 as usize;
        if let [Going { from: Origin::Aligned(whole, from), directly: true }, ..] = blocks {
            return Ok(Buffer::part_of(Arc::clone(whole), *from..from + length));
        }
        let mut buffer = self.pooled(blocks.len() as u64)?;
        for (block, to) in blocks.iter().zip(buffer.chunks_mut(BLOCK.0 as usize)) {
            to.copy_from_slice(block.from.bytes());
        }
        Ok(buffer)
    }

    /// Writes blocks to their places: in the order of these, neighbours together, several writes at a time; as far as
    /// [`Objects::flush_home`] goes durably.
    pub(super) async fn write_placed(&self, stream: StreamId, placed: &[(u64, Loose<'_>)]) -> Result<()> {
        let goes_on = |last: &Going<'_>, next: &Going<'_>| match (last.directly, next.directly) {
            (true, true) => last.from.goes_on_in(&next.from),
            (last, next) => last == next,
        };
        let runs = coalesce::runs(ways(placed).collect(), |run, at, next| {
            let fits = at.start == run.at.end && run.at.end - run.at.start < AT_ONCE as u64;
            fits && run.pieces.last().is_none_or(|last| goes_on(last, next))
        });
        let write = |run: coalesce::Run<Going<'_>>| {
            let buffer = self.buffer_for(&run.pieces);
            let (disk, offset) = (self.core.disk.clone(), BLOCK * run.at.start);
            async move { disk.write(stream, offset, buffer?).await.1 }
        };
        self.count_own(stream, BLOCK * placed.len() as u64);
        let spawner = &self.core.disk.env().spawner;
        self.wrote_home(coalesce::write_all(spawner, UNDER_WAY, runs.into_iter().map(write)).await)?;
        if placed.is_empty() { Ok(()) } else { self.flush_home().await }
    }
}

impl Work {
    /// Blocks that could be taken, beside what was promised to buffered bytes.
    pub(super) fn available(&self) -> u64 {
        let reserved: u64 = self.reserved.values().map(|run| run.blocks).sum();
        (self.meta.data.free() + reserved).saturating_sub(self.behind.blocks())
    }

    /// Takes `blocks`, if there are so many beside what was promised; behind block `near` if that can be.
    pub(super) fn allocate(&mut self, blocks: u64, near: Option<u64>) -> Option<Vec<Run>> {
        if self.available() < blocks {
            return None;
        }
        self.make_free(blocks);
        self.meta.data.allocate(blocks, near)
    }

    /// Gives up what is reserved until so many blocks are free, or nothing is reserved.
    fn make_free(&mut self, blocks: u64) {
        while self.meta.data.free() < blocks
            && let Some((_, run)) = self.reserved.pop_first()
        {
            self.meta.data.give(run);
        }
    }

    /// Keeps room behind an object, instead of what was kept there before.
    fn reserve(&mut self, id: ObjectId, run: Run) {
        self.unreserve(id);
        self.reserved.insert(id, run);
    }

    /// Gives up what is reserved for an object.
    pub(super) fn unreserve(&mut self, id: ObjectId) {
        if let Some(run) = self.reserved.remove(&id) {
            self.meta.data.give(run);
        }
    }

    /// The block behind the piece that lies before block `first` of an object. Its rows must be in memory.
    pub(super) fn end_of_piece_before(&self, id: ObjectId, first: u64) -> Option<u64> {
        let [(from, to), _] = touching(id, first, first + 1);
        let end = |(key, row): (&super::rows::Key, &Row)| match (key.part, row) {
            (Part::Piece(begins), Row::Piece(piece)) if begins < first => Some(piece.at + piece.blocks()),
            _ => None,
        };
        self.meta.tree.range(from, to).filter_map(end).next_back()
    }

    /// Takes places for each chunk; `None` if there are not enough blocks. The rows before each must be in memory.
    fn place(&mut self, chunks: &[Chunk], promised: bool) -> Option<Vec<Vec<Run>>> {
        let wanted: u64 = chunks.iter().map(|chunk| chunk.blocks).sum();
        let own = if promised { self.behind.blocks() } else { 0 };
        if self.available() + own < wanted {
            return None;
        }
        let mut placed = vec![Vec::new(); chunks.len()];
        let mut left: Vec<u64> = chunks.iter().map(|chunk| chunk.blocks).collect();
        let nears: Vec<_> = chunks.iter().map(|chunk| self.end_of_piece_before(chunk.id, chunk.first)).collect();
        // What goes on where it was.
        for (n, chunk) in chunks.iter().enumerate() {
            let Some(near) = nears[n] else {
                // What is written before all that there is does not go on there.
                self.unreserve(chunk.id);
                continue;
            };
            let run = match self.reserved.remove(&chunk.id) {
                Some(run) if run.at == near => {
                    let used = run.blocks.min(chunk.blocks);
                    if used < run.blocks {
                        self.reserve(chunk.id, Run { at: run.at + used, blocks: run.blocks - used });
                    }
                    Some(Run { at: run.at, blocks: used })
                }
                reserved => {
                    reserved.into_iter().for_each(|run| self.meta.data.give(run));
                    self.meta.data.following(near, chunk.blocks)
                }
            };
            left[n] -= run.map_or(0, |run| run.blocks);
            placed[n].extend(run);
        }
        // What grows gets room to grow on.
        for (n, chunk) in chunks.iter().enumerate() {
            let room = (chunk.blocks * RESERVED).min(MOST_RESERVED);
            if left[n] == 0 || !chunk.at_end || chunk.blocks < GROWING || self.reserved.len() >= MOST_GROWING {
                continue;
            }
            let others: u64 = left.iter().sum::<u64>() - left[n];
            let spare = self.meta.data.free().saturating_sub(others) >= left[n] + room;
            let Some(run) = spare.then(|| self.meta.data.whole(left[n] + room, nears[n])).flatten() else { continue };
            placed[n].push(Run { at: run.at, blocks: left[n] });
            self.reserve(chunk.id, Run { at: run.at + left[n], blocks: room });
            left[n] = 0;
        }
        // The rest in one run, or else each by itself.
        let rest: u64 = left.iter().sum();
        self.make_free(rest);
        let near = left.iter().zip(&nears).find(|(left, _)| **left > 0).and_then(|(_, near)| *near);
        let mut together = (rest > 0).then(|| self.meta.data.whole(rest, near)).flatten();
        for (n, left) in left.into_iter().enumerate().filter(|(_, left)| *left > 0) {
            if let Some(run) = &mut together {
                placed[n].push(Run { at: run.at, blocks: left });
                run.at += left;
            } else {
                placed[n].extend(self.meta.data.allocate(left, nears[n]).expect("as many blocks are free"));
            }
        }
        Some(placed)
    }
}

#[cfg(test)]
mod tests;

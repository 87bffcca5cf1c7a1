//! Where the bytes of an object are, in stretches: blocks that lie together, as the rows say.

use super::apply::touching;
use super::rows::{Part, Row};
use super::{Work, journal};
use forebay_model::ObjectId;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Where blocks of an object are now.
pub(super) enum Source {
    Nowhere,
    Memory(Rc<journal::Content>),
    Device,
}

/// Blocks of an object that follow one another also where they are.
pub(super) struct Stretch {
    pub(super) source: Source,
    /// The first, counted in the object.
    pub(super) first: u64,
    pub(super) blocks: u64,
    /// The device's block where they lie, or will lie; nowhere if they are zeros.
    pub(super) at: u64,
    /// Their checksums; none if they are zeros.
    pub(super) crcs: Vec<u32>,
}

/// Where zeros lie.
const NOWHERE: u64 = u64::MAX;
/// Where inline bytes lie, behind every device.
pub(super) const INLINE: u64 = u64::MAX - 1;

impl Stretch {
    fn places(&self) -> impl Iterator<Item = (u64, u32)> {
        (0..self.blocks).map(|n| match self.at {
            NOWHERE => (NOWHERE, 0),
            at => (at + n, self.crcs[n as usize]),
        })
    }
}

/// Whether both say that the same lies at the same places.
pub(super) fn same(a: &[Stretch], b: &[Stretch]) -> bool {
    a.iter().flat_map(Stretch::places).eq(b.iter().flat_map(Stretch::places))
}

impl Work {
    /// Where blocks `first..end` are. The rows must be in memory.
    pub(super) fn stretches(&self, id: ObjectId, first: u64, end: u64) -> Vec<Stretch> {
        let mut stretches: Vec<Stretch> = Vec::new();
        if first >= end {
            return stretches;
        }
        let [_, logged] = touching(id, first, end);
        let mut pieces = self.meta.pieces(id, first, end);
        // What lies by itself, the newest of each: inline, in a log, or buffered.
        let mut alone: BTreeMap<u64, (Source, u64, u32)> = BTreeMap::new();
        if first == 0
            && let Some((source, crc)) = self.inline(id)
        {
            alone.insert(0, (source, INLINE, crc));
        }
        for (key, row) in self.meta.tree.range(logged.0, logged.1) {
            let (Part::Logged(block), Row::Logged(logged)) = (key.part, row) else { continue };
            let source = match self.unwritten.get(&logged.at) {
                Some(content) => Source::Memory(content.clone()),
                None => Source::Device,
            };
            alone.insert(block, (source, logged.at, logged.crc));
        }
        self.behind.look(id, first, end, |block, content, at, crc| {
            alone.insert(block, (Source::Memory(content.clone()), at, crc));
        });
        let mut blocks = alone.into_iter().peekable();
        let mut piece = pieces.next();
        let mut next = first;
        while next < end {
            if let Some((first, (source, at, crc))) = blocks.next_if(|(at, _)| *at == next) {
                add(&mut stretches, Stretch { source, first, blocks: 1, at, crcs: vec![crc] });
                next += 1;
                continue;
            }
            while piece.as_ref().is_some_and(|(begins, piece)| begins + piece.blocks() <= next) {
                piece = pieces.next();
            }
            let until = blocks.peek().map_or(end, |(at, _)| *at.min(&end));
            match piece {
                Some((begins, piece)) if begins <= next => {
                    let to = until.min(begins + piece.blocks());
                    let (from, behind) = (next - begins, to - begins);
                    let crcs = piece.crcs.0[from as usize..behind as usize].to_vec();
                    let (blocks, at) = (to - next, piece.at + from);
                    add(&mut stretches, Stretch { source: Source::Device, first: next, blocks, at, crcs });
                    next = to;
                }
                later => {
                    let to = later.map_or(until, |(begins, _)| begins.min(until));
                    let (blocks, at) = (to - next, NOWHERE);
                    stretches.push(Stretch { source: Source::Nowhere, first: next, blocks, at, crcs: Vec::new() });
                    next = to;
                }
            }
        }
        stretches
    }
}

/// Adds a stretch, to the last one if it goes on with that.
fn add(stretches: &mut Vec<Stretch>, more: Stretch) {
    match stretches.last_mut() {
        Some(last)
            if matches!((&last.source, &more.source), (Source::Device, Source::Device))
                && last.at + last.blocks == more.at =>
        {
            last.blocks += more.blocks;
            last.crcs.extend(more.crcs);
        }
        _ => stretches.push(more),
    }
}

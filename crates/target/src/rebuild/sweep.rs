//! Looks through the groups of a device for blocks and trailers.
//!
//! A group is read from its beginning to its end, unless its first block belongs to a ring whose shape is known by
//! then: there the first block and the trailer of each segment are read, and all of a segment only where these two do
//! not agree. Kept is a line for each segment, not for each block.

use super::shape::{Shape, shape};
use crate::catalog::Segment;
use crate::heap::root;
use crate::layout::Layout;
use crate::object::rows::LEAF_MAGIC;
use crate::salvage::Salvage;
use crate::segment::{Description, TRAILER_LEN, Trailer};
use forebay_model::block::{BLOCK_ALIGN, Header, MAX_BLOCK, View};
use forebay_model::gap::Cause;
use forebay_model::ring::Losses;
use forebay_model::{Bytes, Kind, Result};
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes read at once.
const READ: u64 = 4 << 20;
/// Segments of less than this are read rather than looked at here and there: seeking would take longer.
const WORTH_SKIPPING: Bytes = Bytes::mib(4);

/// Blocks of one segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Blocks {
    /// Where the segment begins on the device, by what its blocks say.
    pub(super) at: u64,
    /// Where the first block that was found lies in the segment.
    pub(super) least_offset: u32,
    /// Where the last one ends.
    pub(super) reach: u32,
    /// Epoch of the block with number 0.
    pub(super) first_epoch: Option<u64>,
    /// The highest epoch.
    pub(super) epoch: u64,
    /// Whether any of them says that blocks of this segment were durable.
    pub(super) proof: bool,
    /// The largest.
    pub(super) largest: u32,
    /// The latest time in any of them.
    newest: i64,
    /// What the whole ones among them amount to: those that follow one another, by number and epoch.
    pub(super) summary: Segment,
    /// Whether the block with number 0 is one of these.
    pub(super) from_start: bool,
    next_index: u32,
    last_epoch: u64,
}

/// A trailer, and where the segment ends that it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trail {
    pub(super) end: u64,
    pub(super) epoch: u64,
    pub(super) summary: Segment,
    pub(super) blocks: u32,
    pub(super) durable_blocks: u32,
    /// Where its tables end in the segment.
    pub(super) tables_end: u64,
}

/// What was seen of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sighting {
    pub(super) target: u128,
    pub(super) ring: u64,
    pub(super) slot: u32,
    pub(super) sequence: u64,
    pub(super) group: u32,
    pub(super) what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    Blocks(Box<Blocks>),
    Trail(Box<Trail>),
}

/// A ring as its segments are stamped: the target on which it was made, and its id there.
pub(super) type Stamped = (u128, u64);

/// All that was seen.
#[derive(Default)]
pub(super) struct Sightings {
    segments: Vec<Sighting>,
    /// Tables of objects and roots of heaps.
    tables: u64,
    /// What the newest trailer of each ring says of it, with epoch, sequence and when it came where it lies.
    described: BTreeMap<Stamped, ((u64, u64, u64), Description)>,
}

impl Sightings {
    /// Tables of objects and roots of heaps, of whichever target.
    pub(super) fn tables(&self) -> u64 {
        self.tables
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Sighting> {
        self.segments.iter()
    }

    pub(super) fn of(&self, target: u128) -> impl Iterator<Item = &Sighting> {
        self.all().filter(move |sighting| self.home(sighting.stamped()).0 == target)
    }

    /// What a ring was, as far as it is known.
    pub(super) fn described(&self, ring: Stamped) -> Option<&Description> {
        self.described.get(&ring).map(|(_, description)| description)
    }

    /// The target on which a ring lay last, and its id there; where nothing says so, those as which it was made.
    pub(super) fn home(&self, ring: Stamped) -> (u128, u64) {
        self.described(ring).map_or(ring, |it| (it.target, it.ring))
    }

    /// Which epoch of its target is meant by one that is stamped: rings that were made elsewhere bear others.
    pub(super) fn epoch_there(&self, ring: Stamped, epoch: u64) -> u64 {
        self.described(ring).map_or(epoch, |it| it.epoch_there(epoch))
    }
}

impl Sighting {
    pub(super) fn stamped(&self) -> Stamped {
        (self.target, self.ring)
    }

    /// The highest epoch in it, as it is stamped.
    pub(super) fn epoch(&self) -> u64 {
        match &self.what {
            What::Blocks(blocks) => blocks.epoch,
            What::Trail(trail) => trail.epoch,
        }
    }

    pub(super) fn max_time(&self) -> i64 {
        match &self.what {
            What::Blocks(blocks) => blocks.newest,
            What::Trail(trail) => trail.summary.max_time,
        }
    }
}

/// Looks through all groups.
pub(super) struct Sweep<'a> {
    salvage: &'a Salvage,
    layout: Layout,
    /// Of the rings, by target and id, that are known well enough to be looked at here and there.
    shapes: BTreeMap<Stamped, Shape>,
    sightings: Sightings,
    /// What was seen of the group that is being looked at, by target, ring, slot, sequence and beginning.
    blocks: BTreeMap<(u128, u64, u32, u64, u64), Blocks>,
}

impl<'a> Sweep<'a> {
    pub(super) fn new(salvage: &'a Salvage, layout: Layout) -> Sweep<'a> {
        Sweep { salvage, layout, shapes: BTreeMap::new(), sightings: Sightings::default(), blocks: BTreeMap::new() }
    }

    pub(super) async fn run(mut self, progress: &mut dyn FnMut(Bytes, Bytes)) -> Result<Sightings> {
        let total = self.layout.group * u64::from(self.layout.groups);
        for group in 0..self.layout.groups {
            let before = self.sightings.segments.len();
            for range in self.wanted(group).await? {
                self.read_through(group, range).await?;
            }
            for ((target, ring, slot, sequence, _), blocks) in std::mem::take(&mut self.blocks) {
                let what = What::Blocks(Box::new(blocks));
                self.sightings.segments.push(Sighting { target, ring, slot, sequence, group, what });
            }
            self.learn(before);
            progress(self.layout.group * u64::from(group + 1), total);
        }
        Ok(self.sightings)
    }

    /// What the group's segments say of the rings' shapes.
    fn learn(&mut self, from: usize) {
        let here = &self.sightings.segments[from..];
        let mut rings: Vec<Stamped> = here.iter().map(Sighting::stamped).collect();
        rings.sort_unstable();
        rings.dedup();
        for ring in rings {
            if self.shapes.contains_key(&ring) {
                continue;
            }
            let of_ring = here.iter().filter(|s| s.stamped() == ring);
            let said = self.sightings.described(ring).and_then(|it| Shape::of(&self.layout, it));
            let guessed = || shape(&self.layout, of_ring).filter(|(_, alone)| *alone).map(|(shape, _)| shape);
            if let Some(shape) = said.or_else(guessed) {
                self.shapes.insert(ring, shape);
            }
        }
    }

    /// What has to be read through of a group; the rest was looked at.
    async fn wanted(&mut self, group: u32) -> Result<Vec<Range<u64>>> {
        let at = self.layout.group_at(group).0;
        let all = std::iter::once(at..at + self.layout.group.0).collect();
        let Some(first) = self.header(at).await?.filter(|h| h.offset.get() == 0) else { return Ok(all) };
        let (target, ring) = (first.target.get(), first.ring.get());
        let Some(shape) = self.shapes.get(&(target, ring)).copied() else { return Ok(all) };
        if shape.segment < WORTH_SKIPPING || !first.slot.get().is_multiple_of(shape.per_group) {
            return Ok(all);
        }
        let mut wanted: Vec<Range<u64>> = Vec::new();
        for nth in 0..shape.per_group {
            let start = at + shape.segment.0 * u64::from(nth);
            let end = start + shape.segment.0;
            let slot = first.slot.get() + nth;
            let trailer = self.trailer(end).await?;
            let agree = self.header(start).await?.zip(trailer).filter(|(header, trailer)| {
                (header.target.get(), header.ring.get(), header.slot.get()) == (target, ring, slot)
                    && (header.index.get(), header.offset.get()) == (0, 0)
                    && trailer.is_at(target, ring, slot, header.segment.get())
                    && trailer.epoch >= header.epoch.get()
            });
            match agree {
                Some((header, trailer)) => {
                    self.note_trailer(group, trailer, end);
                    self.note_header(&header, start, None);
                }
                None => match wanted.last_mut() {
                    Some(last) if last.end == start => last.end = end,
                    _ => wanted.push(start..end),
                },
            }
        }
        Ok(wanted)
    }

    /// The header of a block that begins at `at`.
    async fn header(&self, at: u64) -> Result<Option<Header>> {
        read_header(&self.salvage.read(Bytes(at), BLOCK_ALIGN).await?)
    }

    /// The trailer of a segment that ends at `end`.
    async fn trailer(&self, end: u64) -> Result<Option<Trailer>> {
        read_trailer(&self.salvage.read(Bytes(end - TRAILER_LEN), TRAILER_LEN as usize).await?)
    }

    async fn read_through(&mut self, group: u32, range: Range<u64>) -> Result<()> {
        let mut held: Vec<u8> = Vec::new();
        let (mut base, mut pos) = (range.start, range.start);
        while pos + BLOCK_ALIGN as u64 <= range.end {
            let have = base + held.len() as u64;
            if have < range.end.min(pos + MAX_BLOCK as u64) {
                // A block that begins in what is held is whole in it.
                held.drain(..(pos - base) as usize);
                base = pos;
                let length = READ.min(range.end - have);
                held.extend_from_slice(&self.salvage.read(Bytes(have), length as usize).await?);
                continue;
            }
            let here = &held[(pos - base) as usize..];
            let mut step = BLOCK_ALIGN as u64;
            if let Some(header) = read_header(here)? {
                // What lies in a whole block is its elements, whatever it looks like.
                let whole = View::parse(here).ok().filter(|view| view.verify().is_ok());
                if whole.is_some() {
                    step = u64::from(header.total_len.get());
                }
                self.note_header(&header, pos, whole.as_ref());
            } else if let Some(trailer) = read_trailer(&here[..BLOCK_ALIGN])? {
                self.note_trailer(group, trailer, pos + BLOCK_ALIGN as u64);
            } else if here[..LEAF_MAGIC.len()] == LEAF_MAGIC || here[..root::MAGIC.len()] == root::MAGIC {
                self.sightings.tables += 1;
            }
            pos += step;
        }
        Ok(())
    }

    fn note_trailer(&mut self, group: u32, trailer: Trailer, end: u64) {
        let trail = Trail {
            end,
            epoch: trailer.epoch,
            summary: trailer.summary,
            blocks: trailer.blocks,
            durable_blocks: trailer.durable_blocks,
            tables_end: u64::from(trailer.tables_at) + u64::from(trailer.tables_len),
        };
        let Trailer { target, ring, slot, description, .. } = trailer;
        let (sequence, what) = (trailer.summary.sequence, What::Trail(Box::new(trail)));
        if let Some(description) = description.filter(Description::is_sound) {
            // Along a ring epochs never fall: what a crash undid has an older one.
            let rank = (trailer.epoch, sequence, description.since);
            let known = self.sightings.described.get(&(target, ring));
            if known.is_none_or(|(known, _)| *known < rank) {
                self.sightings.described.insert((target, ring), (rank, description));
            }
        }
        // One of no segment says what its ring is, and nothing else.
        if sequence > 0 {
            self.sightings.segments.push(Sighting { target, ring, slot, sequence, group, what });
        }
    }

    /// A header at `pos`, and its block if that was looked at and is whole.
    fn note_header(&mut self, header: &Header, pos: u64, whole: Option<&View<'_>>) {
        let Some(at) = pos.checked_sub(u64::from(header.offset.get())) else { return };
        let stamp = header.stamp();
        let opened = || Blocks::none(at, Segment::opened(stamp.segment, stamp.first_sequence));
        let key = (stamp.target, stamp.ring, stamp.slot, stamp.segment, at);
        let blocks = self.blocks.entry(key).or_insert_with(opened);
        blocks.least_offset = blocks.least_offset.min(stamp.offset);
        blocks.reach = blocks.reach.max(stamp.offset.saturating_add(header.total_len.get()));
        blocks.epoch = blocks.epoch.max(stamp.epoch);
        blocks.proof |= stamp.durable_blocks > 0;
        blocks.largest = blocks.largest.max(header.total_len.get());
        blocks.newest = blocks.newest.max(header.max_time.get());
        if stamp.index == 0 {
            blocks.first_epoch = Some(stamp.epoch);
        }
        if let Some(view) = whole {
            blocks.take(view);
        }
    }
}

impl Blocks {
    /// None yet, of a segment that begins at `at`.
    pub(super) fn none(at: u64, summary: Segment) -> Blocks {
        Blocks {
            at,
            least_offset: u32::MAX,
            reach: 0,
            first_epoch: None,
            epoch: 0,
            proof: false,
            largest: 0,
            newest: i64::MIN,
            summary,
            from_start: false,
            next_index: 0,
            last_epoch: 0,
        }
    }

    /// Takes a whole block into account if it follows what is there: what a crash undid has an older epoch.
    fn take(&mut self, view: &View<'_>) {
        let header = view.header();
        let stamp = header.stamp();
        let summary = &mut self.summary;
        let is_first = summary.bytes == 0;
        if stamp.epoch < self.last_epoch
            || stamp.index < self.next_index
            || !is_first && stamp.first_sequence < summary.end
        {
            return;
        }
        if is_first {
            (summary.first, self.from_start) = (stamp.first_sequence, stamp.index == 0);
        } else if stamp.index > self.next_index {
            summary.losses.add(Cause::Damaged, Some(stamp.first_sequence - summary.end));
        }
        view.gaps().for_each(|(_, gap)| summary.losses.add(gap.cause, gap.count));
        summary.end = header.next_sequence();
        summary.min_time = summary.min_time.min(header.min_time.get());
        summary.max_time = summary.max_time.max(header.max_time.get());
        summary.bytes = summary.bytes.saturating_add(header.total_len.get());
        (self.next_index, self.last_epoch) = (stamp.index + 1, stamp.epoch);
    }
}

/// A segment of which nothing is left, though it was there.
pub(super) fn lost(sequence: u64, first: u64, end: u64, times: (i64, i64), bytes: u32) -> Segment {
    let mut losses = Losses::default();
    losses.add(Cause::Damaged, Some(end - first));
    Segment { sequence, first, end, min_time: times.0.min(times.1), max_time: times.0.max(times.1), bytes, losses }
}

/// What is damaged is not there; what is of a later version is refused.
fn read_header(bytes: &[u8]) -> Result<Option<Header>> {
    match Header::read(bytes) {
        Ok(header) => Ok(Some(header)),
        Err(error) if error.kind == Kind::Version => Err(error),
        Err(_) => Ok(None),
    }
}

fn read_trailer(bytes: &[u8]) -> Result<Option<Trailer>> {
    match Trailer::decode(bytes) {
        Ok(trailer) => Ok(Some(trailer)),
        Err(error) if error.kind == Kind::Version => Err(error),
        Err(_) => Ok(None),
    }
}

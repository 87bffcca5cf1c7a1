//! Looks over everything on a target without changing anything: superblocks, checkpoints, and of every segment blocks,
//! index, tables and trailer, each against its checksum and its place; of objects rows, records and bytes, and whether
//! they agree.
//!
//! What is found is judged as opening and reading judge it: by the same survey of the rings' tails (`ring/recover.rs`),
//! the same stamps and the same checksums. Nobody may write the device meanwhile.

use crate::catalog::{GroupClass, Origin, Segment};
use crate::heap::audit::{self, HeapFound};
use crate::object::Objects;
use crate::object::audit::ObjectsFound;
use crate::ring::Ring;
use crate::ring::recover::standings;
use crate::salvage::{Salvage, Window};
use crate::segment::{Owner, PAGE_LEN, TRAILER_LEN, Tables, Trailer, is_whole};
use crate::target::{Core, load};
use cause::Spot;
use forebay_env::{Env, Slab};
use forebay_model::block::{BLOCK_ALIGN, parse_stamped};
use forebay_model::{Bytes, Result, RingId};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

/// Reads that may be spent on finding out what exactly cannot be read.
const PATIENCE: u32 = 65_536;

mod cause;
pub use cause::Cause;

/// Something that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// What it is: `block`, `index page`, `tables`, `trailer`, or `end` for what is gone behind the last segment.
    pub what: &'static str,
    /// Sequence of the segment.
    pub segment: u64,
    /// Where it begins on the device.
    pub at: Bytes,
    /// Its bytes; for blocks up to the next one that is whole.
    pub length: Bytes,
    /// The elements that are gone with it: none for what only serves to find others.
    pub elements: Range<u64>,
    /// How it came to be so, as far as what lies there tells.
    pub cause: Cause,
}

/// What was found of a ring.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RingFound {
    /// Its name.
    pub name: String,
    /// Segments that were looked at.
    pub segments: u64,
    /// Blocks that are whole.
    pub blocks: u64,
    /// Elements that begin in them.
    pub elements: u64,
    /// What is damaged.
    pub damage: Vec<Damage>,
    /// Segments of which a crash may have begun to overwrite the oldest: what is missing there is expired.
    pub half_expired: u64,
    /// What opening will put right.
    pub repairs: Vec<String>,
}

/// What was found of a target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// What is wrong with a copy of superblock or checkpoint; opening repairs it.
    pub complaints: Vec<String>,
    /// Its rings.
    pub rings: Vec<RingFound>,
    /// Its heaps.
    pub heaps: Vec<HeapFound>,
    /// Its objects.
    pub objects: ObjectsFound,
    /// Bytes that the device did not read.
    pub unreadable: Bytes,
}

/// Looks over the target on the device of `env`; tells `progress` how many bytes of how many are done.
pub async fn verify(env: Env, progress: &mut dyn FnMut(Bytes, Bytes)) -> Result<Found> {
    let (core, complaints) = load(env).await?;
    let mut found = Found { complaints, ..Found::default() };
    let mut work = Vec::new();
    for id in core.ring_ids() {
        let (spec, size) = core.with_ring(id, |r| (r.spec.clone(), r.segment));
        let ring = Ring::new(core.clone(), id, Slab::new(spec.block, 1)?, spec.key_set()?);
        let verifier = Verifier { core: core.clone(), id, size, salvage: salvage(&core), cut_off: Cell::new(None) };
        let (segments, ring_found) = verifier.list(&ring, spec.name).await?;
        work.push((verifier, segments, ring_found));
    }
    let objects = Objects::new(core.clone());
    let of_rings: Bytes = work.iter().map(|(v, segments, _)| v.size * segments.len() as u64).sum();
    let heaps = core.heap_records();
    let of_heaps: u64 = heaps.iter().map(|(_, heap)| heap.groups.len() as u64).sum();
    let of_objects = core.groups_of(GroupClass::Objects).len() as u64;
    let total = of_rings + core.layout().data(true) * (of_objects + of_heaps);
    let mut done = Bytes::ZERO;
    for (verifier, segments, mut ring_found) in work {
        for segment in segments {
            verifier.segment(segment, &mut ring_found).await?;
            done += verifier.size;
            progress(done, total);
        }
        found.unreadable += verifier.salvage.lost();
        found.rings.push(ring_found);
    }
    for (_, heap) in heaps {
        let mut of_heap = |bytes: Bytes| {
            done += bytes;
            progress(done.min(total), total);
        };
        found.heaps.push(audit::look_over(&core, heap, &mut of_heap).await?);
    }
    let mut of_objects = |bytes: Bytes| {
        done += bytes;
        progress(done.min(total), total);
    };
    found.objects = objects.look_over(&mut of_objects).await?;
    Ok(found)
}

fn salvage(core: &Rc<Core>) -> Salvage {
    Salvage::new(core.disk.clone(), core.next_stream(), PATIENCE)
}

/// A segment to be looked at.
struct Place {
    slot: u32,
    summary: Segment,
    /// Where its blocks end, where that is known.
    end: Option<u32>,
    /// Whether it should have a footer.
    sealed: bool,
    /// Whether what is missing in it is expired.
    doubtful: bool,
}

pub(crate) struct Verifier {
    core: Rc<Core>,
    id: RingId,
    size: Bytes,
    salvage: Salvage,
    /// The segment whose end is damaged, of those that were looked at the last one.
    cut_off: Cell<Option<u64>>,
}

impl Verifier {
    /// For the ring `id` with segments of `size`, beside all other work.
    pub(crate) fn in_background(core: Rc<Core>, id: RingId, size: Bytes) -> Verifier {
        let salvage = Salvage::in_background(core.disk.clone(), PATIENCE);
        Verifier { core, id, size, salvage, cut_off: Cell::new(None) }
    }

    /// Looks at a segment that is durable as a whole.
    pub(crate) async fn sealed(
        &self,
        slot: u32,
        summary: Segment,
        doubtful: bool,
        found: &mut RingFound,
    ) -> Result<()> {
        self.segment(Place { slot, summary, end: None, sealed: true, doubtful }, found).await
    }

    /// The segments of the ring in their order, with what is known already.
    async fn list(&self, ring: &Rc<Ring>, name: String) -> Result<(Vec<Place>, RingFound)> {
        let (standing, repairs, lost_end) = standings(ring, salvage(&self.core)).await?;
        let mut found = RingFound { name, repairs, ..RingFound::default() };
        let path: Vec<u32> = standing.iter().map(|s| s.slot).collect();
        let mut places: Vec<Place> = self.core.with_ring(self.id, |r| {
            let kept = r.slots.iter().enumerate().filter_map(|(slot, s)| s.map(|s| (slot as u32, s)));
            kept.filter(|(slot, s)| s.has_content() && s.sequence < r.path_segment && !path.contains(slot))
                .map(|(slot, summary)| Place { slot, summary, end: None, sealed: true, doubtful: false })
                .collect()
        });
        places.extend(standing.into_iter().map(|s| Place {
            slot: s.slot,
            summary: s.summary,
            end: s.end,
            // What was read block by block gets its footer anew.
            sealed: !s.open && s.end.is_none(),
            doubtful: false,
        }));
        places.sort_unstable_by_key(|p| p.summary.sequence);
        self.core.with_ring_mut(self.id, |r| {
            r.path.clear();
            for place in &places {
                r.slots[place.slot as usize] = Some(place.summary);
            }
            r.path_segment = r.path_segment.max(places.last().map_or(0, |p| p.summary.sequence));
        });
        ring.doubt_the_oldest();
        places.iter_mut().for_each(|p| p.doubtful = ring.is_doubtful(p.summary.sequence));
        if lost_end > 0 {
            let end = places.last().map_or(0, |p| p.summary.end);
            let segment = places.last().map_or(0, |p| p.summary.sequence);
            let elements = end..end + lost_end;
            let (at, length, cause) = (Bytes::ZERO, Bytes::ZERO, Cause::Rot);
            found.damage.push(Damage { what: "end", segment, at, length, elements, cause });
        }
        Ok((places, found))
    }

    async fn segment(&self, place: Place, found: &mut RingFound) -> Result<()> {
        let layout = self.core.layout();
        let at = self.core.with_ring(self.id, |r| r.slot_at(&layout, place.slot));
        let before = found.damage.len();
        found.segments += 1;
        let end = if place.sealed { self.footer(&place, at, found).await? } else { place.end };
        self.blocks(&place, at, end, found).await?;
        if place.doubtful && found.damage.len() > before {
            found.damage.truncate(before);
            found.half_expired += 1;
        }
        Ok(())
    }

    fn origin(&self) -> Origin {
        self.core.with_ring(self.id, |record| record.origin)
    }

    /// What belongs to a segment's place.
    fn spot(&self, place: &Place) -> Spot {
        let Origin { target, ring, .. } = self.origin();
        Spot { target, ring, segment: place.summary.sequence, slot: place.slot }
    }

    /// Looks at trailer, tables and index; where the blocks end, if the tables are whole.
    async fn footer(&self, place: &Place, at: Bytes, found: &mut RingFound) -> Result<Option<u32>> {
        let sequence = place.summary.sequence;
        let mut damaged = |what, at, length, cause| {
            found.damage.push(Damage { what, segment: sequence, at, length, elements: 0..0, cause });
        };
        let trailer_at = at + self.size - Bytes(TRAILER_LEN);
        let bytes = self.salvage.read(trailer_at, TRAILER_LEN as usize).await?;
        let trailer = Trailer::decode(&bytes).ok();
        let spot = self.spot(place);
        let Some(trailer) = trailer.as_ref().filter(|t| t.is_at(spot.target, spot.ring, spot.slot, sequence)) else {
            let cause = trailer.map_or(Cause::Rot, |trailer| spot.instead_of_trailer(&trailer));
            damaged("trailer", trailer_at, Bytes(TRAILER_LEN), cause);
            return Ok(None);
        };
        let (from, length) = (u64::from(trailer.tables_at), u64::from(trailer.tables_len));
        let aligned = from / BLOCK_ALIGN as u64 * BLOCK_ALIGN as u64;
        let whole = (from + length).next_multiple_of(BLOCK_ALIGN as u64) - aligned;
        let bytes = self.salvage.read(at + Bytes(aligned), whole as usize).await?;
        let start = (from - aligned) as usize;
        let Ok(tables) = Tables::decode(&bytes[start..start + length as usize], trailer) else {
            damaged("tables", at + Bytes(from), Bytes(length), Cause::Rot);
            return Ok(None);
        };
        let owner = Owner { ring: self.origin().ring, segment: sequence };
        for key in &tables.keys {
            let pages_at = at + Bytes(u64::from(key.at));
            let pages = if key.firsts.is_empty() {
                None
            } else {
                Some(self.salvage.read(pages_at, key.firsts.len() * PAGE_LEN).await?)
            };
            for (number, page) in pages.iter().flat_map(|pages| pages.chunks(PAGE_LEN)).enumerate() {
                if !is_whole(key, number, page, owner) {
                    let page_at = pages_at + Bytes((number * PAGE_LEN) as u64);
                    damaged("index page", page_at, Bytes(PAGE_LEN as u64), Cause::Rot);
                }
            }
        }
        // What was lost before tables were written anew has no place in them.
        let last = tables.spans.last();
        Ok(last.filter(|s| s.end >= place.summary.end).map(|s| s.offset + s.length))
    }

    /// Looks at the blocks of a segment, up to `end` where that is known.
    async fn blocks(&self, place: &Place, at: Bytes, end: Option<u32>, found: &mut RingFound) -> Result<()> {
        let Segment { sequence, first, end: last, .. } = place.summary;
        let limit = end.map_or(self.size.0 as usize, |end| end as usize);
        let damaged = |found: &mut RingFound, from: usize, to: usize, elements: Range<u64>, cause: Cause| {
            let (at, length) = (at + Bytes(from as u64), Bytes((to - from) as u64));
            found.damage.push(Damage { what: "block", segment: sequence, at, length, elements, cause });
        };
        let spot = self.spot(place);
        let mut window = Window::new(&self.salvage, at, limit);
        let (mut pos, mut next, mut index, mut epoch) = (0usize, first, 0u32, 0u64);
        let mut hole: Option<usize> = None;
        let mut cause = Cause::Rot;
        let (mut blocks, mut elements) = (0, 0);
        while pos + BLOCK_ALIGN <= limit {
            let here = window.from(pos).await?;
            let view = parse_stamped(here, spot.target, spot.ring, sequence, spot.slot, pos as u32);
            let view = view.ok().filter(|view| {
                let h = view.header();
                h.index.get() >= index
                    && h.epoch.get() >= epoch
                    && h.first_sequence.get() >= next
                    && h.next_sequence() <= last
                    && view.verify().is_ok()
            });
            let Some(view) = view else {
                hole.get_or_insert(pos);
                // What tells more counts: the rest of an older block lies behind its header.
                cause = cause.max(spot.instead_of_block(here, pos as u32));
                pos += BLOCK_ALIGN;
                continue;
            };
            let header = view.header();
            if hole.is_some() || header.index.get() > index || header.first_sequence.get() > next {
                // An element that goes on behind the hole has lost its beginning, and is gone with it.
                let gone = header.first_sequence.get() + u64::from(header.starts_within());
                damaged(found, hole.take().unwrap_or(pos), pos, next..gone, std::mem::take(&mut cause));
            } else if pos == 0 && header.starts_within() {
                // Likewise one that goes on behind the end of the segment before.
                let is_of_before = |damage: &&mut Damage| damage.what == "block" && damage.segment + 1 == sequence;
                if self.cut_off.get() == Some(sequence - 1)
                    && let Some(damage) = found.damage.iter_mut().rev().find(is_of_before)
                {
                    damage.elements.end += 1;
                }
            }
            (next, index, epoch) = (header.next_sequence(), header.index.get() + 1, header.epoch.get());
            pos += header.total_len.get() as usize;
            blocks += 1;
            elements +=
                u64::from(header.entries.get()) - u64::from(header.starts_within().min(header.entries.get() > 0));
        }
        if next < last || hole.is_some() && end.is_some() {
            // Without tables, blocks of the lap before lie behind the last one, and tell nothing.
            let cause = if end.is_some() { cause } else { Cause::Rot };
            damaged(found, hole.unwrap_or(pos.min(limit)), limit, next..last, cause);
            self.cut_off.set(Some(sequence));
        }
        found.blocks += blocks;
        found.elements += elements;
        Ok(())
    }
}

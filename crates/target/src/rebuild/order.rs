//! Which group is at which place of which ring, and what the ring holds.
//!
//! A group belongs to whoever wrote into it last, by epoch. In a ring, segments have the order of their sequences, and
//! epochs never fall along it: what is older than what comes before it was undone by a crash. The newest segment that
//! says that blocks of it were durable proves all before it; from there on opening walks, as from a checkpoint.

use super::RingFound;
use super::shape::{Shape, shape};
use super::sweep::{Blocks, Sighting, Sightings, Trail, What, lost};
use crate::catalog::{Origin, RingRecord, Segment};
use crate::layout::Layout;
use forebay_model::gap::Cause;
use forebay_model::ring::RingSpec;
use forebay_model::{Bytes, RingId, Timestamp};
use std::collections::BTreeMap;

/// The least that a ring takes for the size of its blocks, where only smaller ones were seen.
const LEAST_BLOCK: Bytes = Bytes::kib(16);

/// What was seen of a segment at its place.
#[derive(Default)]
struct Entry<'a> {
    slot: u32,
    sequence: u64,
    blocks: Option<&'a Blocks>,
    trail: Option<&'a Trail>,
}

impl<'a> Entry<'a> {
    /// The trailer, if it belongs to the blocks: one that is older than the first of them was undone by a crash, unless
    /// it says that all of its blocks were durable.
    fn trailer(&self) -> Option<&'a Trail> {
        let written = self.blocks.and_then(|blocks| blocks.first_epoch).unwrap_or(0);
        self.trail.filter(|trail| trail.durable_blocks == trail.blocks || trail.epoch >= written)
    }

    /// No segment after it is older than this.
    fn least_epoch(&self) -> u64 {
        self.trailer().map(|trail| trail.epoch).or(self.blocks.and_then(|blocks| blocks.first_epoch)).unwrap_or(0)
    }

    fn epoch(&self) -> u64 {
        self.trail.map_or(0, |trail| trail.epoch).max(self.blocks.map_or(0, |blocks| blocks.epoch))
    }

    /// Whether it says that blocks of it, and so everything before it, were durable.
    fn proves(&self) -> bool {
        self.trailer().is_some_and(|trail| trail.durable_blocks > 0) || self.blocks.is_some_and(|blocks| blocks.proof)
    }

    /// Whether a walk along the ring finds it: by its trailer, or by one of its first blocks.
    fn is_found(&self, block: Bytes) -> bool {
        let early = block.0 * 2;
        self.trailer().is_some() || self.blocks.is_some_and(|blocks| u64::from(blocks.least_offset) <= early)
    }

    /// Whether its first block is there, or a trailer tells of it.
    fn begins(&self) -> bool {
        self.trailer().is_some() || self.blocks.is_some_and(|blocks| blocks.first_epoch.is_some())
    }

    /// Sequence of its first element, if it says so.
    fn first(&self) -> Option<u64> {
        let by_block = || self.blocks.filter(|blocks| blocks.from_start).map(|blocks| blocks.summary.first);
        self.trailer().map(|trail| trail.summary.first).or_else(by_block)
    }
}

/// The rings of a target, with what is to be said of each.
pub(super) fn rings(layout: &Layout, target: u128, sightings: &Sightings) -> BTreeMap<RingId, (RingRecord, RingFound)> {
    let mut by_ring: BTreeMap<u64, Vec<&Sighting>> = BTreeMap::new();
    sightings.of(target).for_each(|sighting| by_ring.entry(sighting.ring).or_default().push(sighting));
    let mut shapes: BTreeMap<u64, Shape> = BTreeMap::new();
    for (ring, seen) in &mut by_ring {
        if let Some((shape, _)) = shape(layout, seen.iter().copied()) {
            seen.retain(|sighting| shape.fits(layout, sighting));
            shapes.insert(*ring, shape);
        }
    }
    by_ring.retain(|ring, _| shapes.contains_key(ring));
    let places = places(&by_ring, &shapes);
    let mut rings = BTreeMap::new();
    for (ring, seen) in by_ring {
        let shape = shapes[&ring];
        let groups = places.iter().filter(|(_, (owner, _))| *owner == ring);
        let groups: BTreeMap<u32, u32> = groups.map(|(group, (_, place))| (*place, *group)).collect();
        if !groups.is_empty() {
            let origin = Origin::here(target, RingId(ring));
            rings.insert(RingId(ring), record(layout, origin, shape, &groups, &seen));
        }
    }
    rings
}

/// Ring and place of each group.
fn places(by_ring: &BTreeMap<u64, Vec<&Sighting>>, shapes: &BTreeMap<u64, Shape>) -> BTreeMap<u32, (u64, u32)> {
    // How much speaks for a group at a place, and how new it is.
    let mut claims: BTreeMap<(u64, u32), BTreeMap<u32, (usize, u64)>> = BTreeMap::new();
    for (ring, seen) in by_ring {
        for sighting in seen {
            let place = sighting.slot / shapes[ring].per_group;
            let claim = claims.entry((*ring, place)).or_default().entry(sighting.group).or_default();
            *claim = (claim.0 + 1, claim.1.max(sighting.epoch()));
        }
    }
    // One group for a place: another has a block or two that went astray.
    let mut owners: BTreeMap<u32, (u64, u64, u32)> = BTreeMap::new();
    for ((ring, place), groups) in claims {
        let Some((group, (_, epoch))) = groups.into_iter().max_by_key(|(_, claim)| *claim) else { continue };
        // One place for a group: the last that wrote. Rings and places get rising numbers.
        let owner = owners.entry(group).or_default();
        *owner = (*owner).max((epoch, ring, place));
    }
    owners.into_iter().map(|(group, (_, ring, place))| (group, (ring, place))).collect()
}

fn record(
    layout: &Layout,
    origin: Origin,
    shape: Shape,
    groups: &BTreeMap<u32, u32>,
    seen: &[&Sighting],
) -> (RingRecord, RingFound) {
    let mut entries: BTreeMap<(u64, u32), Entry<'_>> = BTreeMap::new();
    let mut largest = 0;
    for sighting in seen {
        if groups.get(&(sighting.slot / shape.per_group)) != Some(&sighting.group) {
            continue;
        }
        let (slot, sequence) = (sighting.slot, sighting.sequence);
        let entry = entries.entry((sequence, slot)).or_default();
        (entry.slot, entry.sequence) = (slot, sequence);
        match &sighting.what {
            What::Blocks(blocks) => {
                largest = largest.max(blocks.largest);
                entry.blocks = Some(blocks);
            }
            What::Trail(trail) => entry.trail = Some(trail),
        }
    }
    let mut spec = RingSpec::new(format!("/recovered/{}", origin.ring), layout.group * groups.len() as u64);
    // Half of what a segment takes is left after the least room for a footer.
    let most = ((shape.segment - Bytes::kib(64)) / 2).align_down(Bytes(4096));
    let block = Bytes(u64::from(largest).next_power_of_two()).max(LEAST_BLOCK).min(most);
    (spec.block, spec.segment) = (block.max(Bytes(u64::from(largest))), shape.segment);
    let length = groups.last_key_value().map_or(0, |(place, _)| place + 1);
    let (known, mut path) = chain(entries.into_values().collect(), spec.block, length * shape.per_group);
    let of_places = (0..length).map(|place| groups.get(&place).copied()).collect();
    let mut record = RingRecord::empty(spec, of_places, shape.without_logs, origin);
    record.slots = vec![None; (length * shape.per_group) as usize];
    let without_trailer = known.iter().chain(&path).filter(|entry| entry.trailer().is_none()).count();
    let next_first = path.first().and_then(Entry::first);
    let mut summaries = summaries(&known, path.first());
    // What is missing directly before the path lies between two like all else.
    let front = path.first().zip(next_first);
    summaries.extend(front.map(|(entry, first)| (entry.slot, Segment::opened(entry.sequence, first))));
    fill_in(layout, &record, &mut summaries);
    summaries.truncate(summaries.len() - usize::from(front.is_some()));
    // Sequences rise: of two in one slot the later one is there.
    for (slot, summary) in &summaries {
        record.slots[*slot as usize] = Some(*summary);
    }
    let before = summaries.last().map(|(_, summary)| *summary);
    record.path_segment = path.first().map(|e| e.sequence).or(before.map(|s| s.sequence + 1)).unwrap_or(1);
    let seen_first = path.first().and_then(|entry| entry.blocks).map(|blocks| blocks.summary.first);
    record.path_element = next_first.or(before.map(|s| s.end)).or(seen_first).unwrap_or(0);
    record.durable_end = record.path_element;
    // What came before is not known: it counts as run over when there is more than that.
    record.begins = record.slots.iter().flatten().map(|segment| segment.first).min().unwrap_or(record.path_element);
    record.path = path.iter().map(|entry| entry.slot).collect();
    for entry in &path {
        record.slots[entry.slot as usize] = None;
    }
    let mut found = found(layout, &record, without_trailer as u64);
    for entry in path.drain(..) {
        let summary = entry.trailer().map(|t| t.summary).or(entry.blocks.map(|b| b.summary));
        if let Some(summary) = summary.filter(Segment::has_content) {
            found.elements.end = found.elements.end.max(summary.end);
            let (from, to) = (Timestamp(summary.min_time), Timestamp(summary.max_time));
            found.times = Some(found.times.map_or((from, to), |(a, b)| (a.min(from), b.max(to))));
        }
    }
    (record, found)
}

/// What is to be said of a ring.
pub(super) fn found(layout: &Layout, record: &RingRecord, without_trailer: u64) -> RingFound {
    let kept = || record.slots.iter().flatten().filter(|segment| segment.has_content());
    let times = kept().fold(None, |times: Option<(i64, i64)>, s| {
        Some(times.map_or((s.min_time, s.max_time), |(a, b)| (a.min(s.min_time), b.max(s.max_time))))
    });
    let groups = record.groups.iter().flatten().count() as u64;
    RingFound {
        name: record.spec.name.clone(),
        groups,
        missing_groups: record.groups.len() as u64 - groups,
        capacity: layout.group * groups,
        segment: record.segment,
        segments: record.slots.iter().flatten().count() as u64 + record.path.len() as u64,
        without_trailer,
        elements: kept().map(|s| s.first).min().unwrap_or(record.path_element)..record.path_element,
        times: times.map(|(from, to)| (Timestamp(from), Timestamp(to))),
    }
}

/// The segments of a ring in order: those that are known to be durable, and those from which on the tail has to be found.
fn chain(mut entries: Vec<Entry<'_>>, block: Bytes, slots: u32) -> (Vec<Entry<'_>>, Vec<Entry<'_>>) {
    // Of two of one number the one that was written later.
    entries.sort_by_key(|entry| (entry.sequence, std::cmp::Reverse(entry.epoch())));
    entries.dedup_by_key(|entry| entry.sequence);
    let mut least = 0;
    entries.retain(|entry| {
        let holds = entry.epoch() >= least;
        least = least.max(if holds { entry.least_epoch() } else { 0 });
        holds
    });
    let mut start = newest_run(&entries);
    while is_undone(&entries, start, slots) {
        entries.truncate(start);
        start = newest_run(&entries);
    }
    // From a segment that is half overwritten nothing may be walked: what is behind it would be erased.
    let newest = entries.len().saturating_sub(1);
    let near = |from: &usize| *from >= start && newest - from <= slots as usize / 2;
    let from = entries.iter().rposition(Entry::proves).filter(near).unwrap_or(newest);
    // What follows without a hole; behind one, nothing says that anything was acknowledged. That can be a segment or the
    // first block of one.
    let mut to = from;
    while entries.get(to).is_some_and(|entry| {
        entry.sequence == entries[from].sequence + (to - from) as u64 && (to == from || entry.begins())
    }) {
        to += 1;
    }
    entries.truncate(to);
    let front_is_found = entries.get(from).is_some_and(|entry| entry.is_found(block));
    let path = entries.split_off(if front_is_found { from } else { entries.len().min(from + 1) });
    // In a slot that was taken again, only what took it is there.
    let taken: BTreeMap<u32, u64> = entries.iter().chain(&path).map(|entry| (entry.slot, entry.sequence)).collect();
    entries.retain(|entry| taken[&entry.slot] == entry.sequence);
    (entries, path)
}

/// Where the segments begin that follow one another up to the newest.
fn newest_run(entries: &[Entry<'_>]) -> usize {
    let broken = |pair: &[Entry<'_>]| pair[0].sequence + 1 != pair[1].sequence;
    entries.windows(2).rposition(broken).map_or(0, |before| before + 1)
}

/// Whether the run from `start` on lies behind a hole that a crash left, and not behind one that a lap has: nothing in it
/// was durable, it is not far ahead, and where the hole should begin nothing newer is.
fn is_undone(entries: &[Entry<'_>], start: usize, slots: u32) -> bool {
    let (before, run) = entries.split_at(start);
    let (Some(before), Some(last)) = (before.last(), run.last()) else { return false };
    let follows = (before.slot + 1) % slots;
    !run.iter().any(Entry::proves)
        && last.sequence - before.sequence <= u64::from(slots / 2)
        && !run.iter().any(|entry| entry.slot == follows)
}

/// What is in the segments before the path, each with its slot.
fn summaries(known: &[Entry<'_>], front: Option<&Entry<'_>>) -> Vec<(u32, Segment)> {
    let mut summaries: Vec<(u32, Segment)> = Vec::new();
    for (at, entry) in known.iter().enumerate() {
        let after = known.get(at + 1).or(front).filter(|after| after.sequence == entry.sequence + 1);
        let next = after.and_then(Entry::first);
        let before = summaries.last().map(|(_, s)| *s).filter(|before| before.sequence + 1 == entry.sequence);
        let summary = match (entry.trailer(), entry.blocks) {
            (Some(trail), _) => trail.summary,
            (None, Some(blocks)) => of_blocks(blocks, before, next),
            (None, None) => continue,
        };
        summaries.push((entry.slot, summary));
    }
    summaries
}

/// What is in a segment without a trailer: what its blocks say, and what is missing between its neighbours and them.
fn of_blocks(blocks: &Blocks, before: Option<Segment>, next: Option<u64>) -> Segment {
    let mut summary = blocks.summary;
    if summary.bytes == 0 {
        let first = before.map_or(summary.first, |before| before.end);
        let time = before.map_or(0, |before| before.max_time);
        return lost(summary.sequence, first, next.unwrap_or(first).max(first), (time, time), blocks.reach);
    }
    if !blocks.from_start {
        let first = before.map_or(summary.first, |before| before.end.min(summary.first));
        summary.losses.add(Cause::Damaged, Some(summary.first - first));
        summary.first = first;
        summary.min_time = summary.min_time.min(before.map_or(summary.min_time, |before| before.max_time));
    }
    if let Some(next) = next.filter(|next| *next > summary.end) {
        summary.losses.add(Cause::Damaged, Some(next - summary.end));
        summary.end = next;
    }
    summary
}

/// Where a segment is missing between two, and exactly its slot lies between theirs, it was there and is lost: it is told
/// as damaged, not as expired.
fn fill_in(layout: &Layout, record: &RingRecord, summaries: &mut Vec<(u32, Segment)>) {
    let occupied: std::collections::BTreeSet<u32> = summaries.iter().map(|(slot, _)| *slot).collect();
    let slots = record.slots.len() as u32;
    let mut all: Vec<(u32, Segment)> = Vec::new();
    for (slot, summary) in summaries.drain(..) {
        if let Some((before, last)) = all.last().copied() {
            let missing = summary.sequence - last.sequence - 1;
            let between = (1..=missing).map_while(|n| {
                let slot = (u64::from(before) + n) % u64::from(slots);
                u32::try_from(slot).ok().filter(|slot| record.exists(layout, *slot) && !occupied.contains(slot))
            });
            let between: Vec<u32> = between.take(slots as usize).collect();
            let adjoins = (u64::from(before) + missing + 1) % u64::from(slots) == u64::from(slot);
            if missing > 0 && between.len() as u64 == missing && adjoins && summary.first >= last.end {
                let until = if summary.has_content() { summary.min_time } else { last.max_time };
                let times = (last.max_time, until);
                for (n, slot) in (1..).zip(between) {
                    let first = if n == 1 { last.end } else { summary.first };
                    all.push((slot, lost(last.sequence + n, first, summary.first, times, 4096)));
                }
            }
        }
        all.push((slot, summary));
    }
    *summaries = all;
}

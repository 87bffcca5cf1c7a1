//! Which group is at which place of which ring, and what the ring holds.
//!
//! A group belongs to whoever wrote into it last, by epoch. In a ring, segments have the order of their sequences, and
//! epochs never fall along it: what is older than what comes before it was undone by a crash. The newest segment that
//! says that blocks of it were durable proves all before it; from there on opening walks, as from a checkpoint.

use super::RingFound;
use super::shape::{Shape, shape};
use super::sweep::{Blocks, Sighting, Sightings, Stamped, Trail, What, lost};
use crate::catalog::{Origin, RingRecord, Segment};
use crate::layout::Layout;
use crate::segment::Description;
use forebay_model::gap::Cause;
use forebay_model::ring::RingSpec;
use forebay_model::{Bytes, Rate, RingId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

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

/// A ring that is there again.
pub(super) struct Again {
    pub(super) record: RingRecord,
    pub(super) found: RingFound,
    /// Groups that it had.
    pub(super) had: u64,
}

/// A ring, and what was seen of it.
struct Seen<'a> {
    id: u64,
    shape: Shape,
    sightings: Vec<&'a Sighting>,
    description: Option<&'a Description>,
}

/// The rings of a target, and a number that none of it ever had.
pub(super) fn rings(layout: &Layout, target: u128, sightings: &Sightings) -> (BTreeMap<RingId, Again>, u64) {
    let mut by_ring: BTreeMap<Stamped, Vec<&Sighting>> = BTreeMap::new();
    sightings.of(target).for_each(|sighting| by_ring.entry(sighting.stamped()).or_default().push(sighting));
    // The number that a ring has here is its own, but for what a target had before it was made anew.
    let mut taken = BTreeSet::new();
    let mut next = next_ring(target, sightings);
    let mut all: BTreeMap<Stamped, Seen<'_>> = BTreeMap::new();
    for (stamped, mut seen) in by_ring {
        let description = sightings.described(stamped);
        let said = description.and_then(|it| Shape::of(layout, it));
        let guessed = || shape(layout, seen.iter().copied()).map(|(shape, _)| shape);
        let Some(shape) = said.or_else(guessed) else { continue };
        seen.retain(|sighting| shape.fits(layout, sighting));
        let mut id = sightings.home(stamped).1;
        if !taken.insert(id) {
            (id, next) = (next, next + 1);
        }
        all.insert(stamped, Seen { id, shape, sightings: seen, description });
    }
    let mut groups: BTreeMap<Stamped, BTreeMap<u32, u32>> = BTreeMap::new();
    for (group, (stamped, place)) in places(&all, sightings) {
        groups.entry(stamped).or_default().insert(place, group);
    }
    all.retain(|stamped, _| groups.contains_key(stamped));
    let names = names(&all);
    let made = all.iter().map(|(stamped, seen)| {
        let name = names[&seen.id].clone();
        (RingId(seen.id), record(layout, *stamped, name, seen, &groups[stamped]))
    });
    (made.collect(), next)
}

/// A number that no ring of the target had.
fn next_ring(target: u128, sightings: &Sightings) -> u64 {
    let numbers = |sighting: &Sighting| {
        let here = Some(sighting.ring).filter(|_| sighting.target == target);
        here.max(Some(sightings.home(sighting.stamped())).filter(|home| home.0 == target).map(|home| home.1))
    };
    sightings.all().filter_map(numbers).max().unwrap_or(0) + 1
}

/// What each ring is called, by its number: as it was, unless a later one is called so as well, or nothing says it.
fn names(all: &BTreeMap<Stamped, Seen<'_>>) -> BTreeMap<u64, String> {
    let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
    for seen in all.values() {
        if let Some(description) = seen.description {
            let owner = by_name.entry(&description.spec.name).or_default();
            *owner = (*owner).max(seen.id);
        }
    }
    let mut names: BTreeMap<u64, String> = BTreeMap::new();
    for seen in all.values() {
        let own = seen.description.map(|it| it.spec.name.as_str()).filter(|name| by_name[name] == seen.id);
        let other = || recovered(RingId(seen.id), |name| by_name.contains_key(name));
        names.insert(seen.id, own.map_or_else(other, str::to_owned));
    }
    names
}

/// A name for a ring that cannot have its own, and that nobody has.
pub(crate) fn recovered(ring: RingId, is_taken: impl Fn(&str) -> bool) -> String {
    let further = (1..).map(|n| format!("/recovered/{}-{n}", ring.0));
    let mut free = std::iter::once(format!("/recovered/{}", ring.0)).chain(further).filter(|name| !is_taken(name));
    free.next().expect("as many are tried as it takes")
}

/// Ring and place of each group.
fn places(all: &BTreeMap<Stamped, Seen<'_>>, sightings: &Sightings) -> BTreeMap<u32, (Stamped, u32)> {
    // How much speaks for a group at a place, and how new it is as it is stamped.
    let mut claims: BTreeMap<(Stamped, u32), BTreeMap<u32, (usize, u64)>> = BTreeMap::new();
    for (stamped, seen) in all {
        for sighting in &seen.sightings {
            let place = sighting.slot / seen.shape.per_group;
            let claim = claims.entry((*stamped, place)).or_default().entry(sighting.group).or_default();
            *claim = (claim.0 + 1, claim.1.max(sighting.epoch()));
        }
    }
    // One group for a place: another has a block that went astray, or was at the place before the ring was made smaller and larger.
    let mut owners: BTreeMap<u32, (u64, u64, u32, Stamped)> = BTreeMap::new();
    for ((stamped, place), groups) in claims {
        let id = &all[&stamped].id;
        let weight = |(_, (count, epoch)): &(u32, (usize, u64))| (*count > 1, *epoch, *count);
        let Some((group, (_, epoch))) = groups.into_iter().max_by_key(weight) else { continue };
        // One place for a group: the last that wrote. Rings and places get rising numbers.
        let owner = owners.entry(group).or_default();
        *owner = (*owner).max((sightings.epoch_there(stamped, epoch), *id, place, stamped));
    }
    owners.into_iter().map(|(group, (_, _, place, stamped))| (group, (stamped, place))).collect()
}

fn record(layout: &Layout, stamped: Stamped, name: String, seen: &Seen<'_>, groups: &BTreeMap<u32, u32>) -> Again {
    let Seen { shape, description, .. } = seen;
    let mut entries: BTreeMap<(u64, u32), Entry<'_>> = BTreeMap::new();
    let mut largest = 0;
    for sighting in &seen.sightings {
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
    let found_of_it = layout.group * groups.len() as u64;
    let mut spec = description.map_or_else(|| RingSpec::new("", found_of_it), |it| it.spec.clone());
    let mut had = spec.capacity.0 / layout.group.0;
    if spec.name != name {
        // Deleted, if it is known what it was: a later one has its name.
        (had, spec.guarantee) = (0, Rate(0));
    }
    if description.is_none() {
        // Half of what a segment takes is left after the least room for a footer.
        let most = ((shape.segment - Bytes::kib(64)) / 2).align_down(Bytes(4096));
        spec.block = Bytes(u64::from(largest).next_power_of_two()).max(LEAST_BLOCK).min(most);
    }
    (spec.name, spec.capacity, spec.segment) = (name, found_of_it, shape.segment);
    spec.block = spec.block.max(Bytes(u64::from(largest)));
    let length = groups.last_key_value().map_or(0, |(place, _)| place + 1);
    let (known, mut path) = chain(entries.into_values().collect(), spec.block, length * shape.per_group);
    let of_places = (0..length).map(|place| groups.get(&place).copied()).collect();
    let origin = Origin { target: stamped.0, ring: stamped.1, epochs: description.map_or(0, |it| it.epochs) };
    let mut record = RingRecord::empty(spec, of_places, shape.without_logs, origin);
    (record.fence, record.since) = description.map_or((0, 0), |it| (it.fence, it.since));
    record.anew = Some(record.fence);
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
    let mut found = RingFound { described: description.is_some(), ..found(layout, &record, without_trailer as u64) };
    for entry in path.drain(..) {
        let summary = entry.trailer().map(|t| t.summary).or(entry.blocks.map(|b| b.summary));
        if let Some(summary) = summary.filter(Segment::has_content) {
            found.elements.end = found.elements.end.max(summary.end);
            let (from, to) = (Timestamp(summary.min_time), Timestamp(summary.max_time));
            found.times = Some(found.times.map_or((from, to), |(a, b)| (a.min(from), b.max(to))));
        }
    }
    Again { record, found, had }
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
        described: true,
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
    // What follows without a hole; behind one, nothing says that anything was acknowledged. That can be a segment or the
    // first block of one.
    let behind = |from: usize| {
        let follows = |to: &usize| entries[*to].sequence == entries[from].sequence + (*to - from) as u64;
        (from + 1..entries.len()).take_while(|to| follows(to) && entries[*to].begins()).last().unwrap_or(from) + 1
    };
    // From a segment that is half overwritten nothing may be walked: what is behind it would be erased.
    let near = |from: &usize| *from >= start && behind(*from) - 1 - from <= slots as usize / 2;
    let from = entries.iter().rposition(Entry::proves).filter(near).unwrap_or(entries.len().saturating_sub(1));
    let to = behind(from);
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

#[cfg(test)]
mod tests;

//! Makes superblock and checkpoint anew for a target that has lost both copies: of the superblock's own beside a checkpoint, and
//! then nothing is lost; otherwise from what the segments say themselves.
//!
//! `sweep` looks for blocks and trailers, each stamped with target, ring and place; `shape` finds out how each ring divides its
//! groups; `order` decides which group is at which place and what a ring holds. What is made out of it is a catalog as a
//! checkpoint would have had it, so that opening finds the tails as it always does. Nothing but superblocks and checkpoints is
//! written, in the order of every commit: cut off anywhere, it is refused or rebuilt, and can be run again. Objects are not
//! made anew from segments. Names, keys and guarantees are what the newest trailer of a ring says of it; pins were in the catalog and
//! nowhere else: they are lost, unless a checkpoint is whole.

mod copies;
mod order;
mod shape;
mod sweep;

pub(crate) use order::recovered;

use crate::catalog::{Catalog, GroupClass, RingRecord};
use crate::checkpoint::{self, ReadBack, Roots};
use crate::layout::Layout;
use crate::salvage::Salvage;
use crate::schedule::{Scheduler, StreamId};
use crate::superblock::Superblock;
use copies::Beside;
use forebay_env::Env;
use forebay_model::{Bytes, Error, Kind, Profile, Result, RingId, TargetId, Timestamp};
use order::Again;
use std::collections::{BTreeMap, BTreeSet};
use sweep::{Sightings, Sweep};

/// Reads that may be spent on finding out what exactly cannot be read.
const PATIENCE: u32 = 65_536;
/// A ring needs so many segments to run round in.
const LEAST_SEGMENTS: u64 = 3;

/// A target whose segments were found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its id.
    pub target: TargetId,
    /// Segments that bear it.
    pub segments: u64,
    /// The latest time in them.
    pub newest: Timestamp,
}

/// A ring that is there again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RingFound {
    /// Its name from now on.
    pub name: String,
    /// Whether a trailer says what it was: its name, keys, guarantee and all else but its pins.
    pub described: bool,
    /// Its groups, and those of its places of which no group was found.
    pub groups: u64,
    /// Places of which no group was found.
    pub missing_groups: u64,
    /// Its size.
    pub capacity: Bytes,
    /// Bytes of a segment.
    pub segment: Bytes,
    /// Segments that were found.
    pub segments: u64,
    /// Segments that have no whole trailer: the open one, and damaged ones.
    pub without_trailer: u64,
    /// The first element that is known of, and the one after the last that is known without looking for the tail.
    pub elements: std::ops::Range<u64>,
    /// The earliest and the latest time that are known.
    pub times: Option<(Timestamp, Timestamp)>,
}

/// What a rebuilding would write.
pub struct Plan {
    /// The target.
    pub target: TargetId,
    /// Other targets of which segments lie on the device; they are left out, and will be overwritten.
    pub others: Vec<Candidate>,
    /// Its rings.
    pub rings: Vec<RingFound>,
    /// Groups that hold nothing known, of all groups.
    pub free_groups: u32,
    /// Groups in all.
    pub groups: u32,
    /// Whether a copy of the superblock is whole, so that profile and time of formatting are known.
    pub superblock_kept: bool,
    /// Whether a copy of the checkpoint is whole, and a superblock for it, so that nothing at all is lost.
    pub checkpoint_kept: bool,
    /// Bytes that the device did not read.
    pub unreadable: Bytes,
    /// Tables of objects and roots of heaps that were found. They are not made anew: their space would be free.
    pub tables: u64,
    superblock: Superblock,
    catalog: Catalog,
    /// The pair to write first.
    first: usize,
    /// The area that belongs to a whole superblock and has to be whole before anything else is written.
    mends: Option<usize>,
}

/// Looks over the device of `env`, which has no whole pair of superblock and checkpoint, and decides what would be
/// written. Where segments of several targets lie on it and no superblock says which is meant, `wanted` has to. Writes
/// nothing; tells `progress` how many bytes of how many are done.
pub async fn look(env: Env, wanted: Option<TargetId>, progress: &mut dyn FnMut(Bytes, Bytes)) -> Result<Plan> {
    let geometry = env.device.geometry();
    let name = &geometry.name;
    let disk = Scheduler::new(env.clone(), Profile::guess(geometry.size, geometry.rotates));
    match checkpoint::load(&disk).await {
        Ok(_) => {
            return Err(Error::refused(format!(
                "{name} has a whole superblock and checkpoint, so there is nothing to rebuild; opening the target repairs a damaged copy (nothing was changed)"
            )));
        }
        Err(error) if error.kind == Kind::Version => return Err(error),
        Err(_) => {}
    }
    let Roots { whole, .. } = checkpoint::roots(&disk).await?;
    let root = whole.into_iter().max_by_key(|(_, root)| root.generation);
    if let Some((which, superblock)) = &root {
        if wanted.is_some_and(|wanted| wanted != superblock.target) {
            return Err(Error::refused(format!(
                "the superblock of {name} is that of target {}; only that one can be rebuilt",
                superblock.target
            )));
        }
        // Both areas hold the same catalog: the other one's may be whole.
        if let Ok(catalog) = checkpoint::load_catalog(&disk, superblock, 1 - which).await {
            let mends = Some(*which);
            return Ok(Plan { mends, ..keep(*which, superblock.clone(), catalog) });
        }
    }
    let layout = match &root {
        Some((_, superblock)) => superblock.layout,
        None => Layout::for_geometry(&geometry)?,
    };
    let stream = StreamId(u64::MAX);
    let salvage = Salvage::new(disk.clone(), stream, PATIENCE);
    let of = match &root {
        // What is older than the last commit but one is not what the target was.
        Some((_, superblock)) => (Some(superblock.target), superblock.generation.saturating_sub(1)),
        None => (wanted, 0),
    };
    if let Some(Beside { which, superblock, catalog }) = copies::newest(&disk, &salvage, &layout, of, progress).await? {
        disk.end_stream(stream);
        return Ok(keep(which, superblock, catalog));
    }
    let sightings = Sweep::new(&salvage, layout).run(progress).await?;
    disk.end_stream(stream);
    let candidates = candidates(&sightings);
    let target = choose(name, &candidates, root.as_ref().map(|(_, s)| s.target).or(wanted))?;
    let mut catalog = Catalog::fresh(&layout);
    let (mut rings, next_ring) = order::rings(&layout, target.0, &sightings);
    for (id, Again { record, .. }) in &rings {
        for group in record.groups.iter().flatten() {
            catalog.groups[*group as usize] = class(record, *id);
        }
    }
    let of_target = || sightings.of(target.0);
    catalog.epoch = of_target().map(|s| sightings.epoch_there(s.stamped(), s.epoch())).max().unwrap_or(0) + 1;
    catalog.next_ring = next_ring;
    // Nothing says any more which pins there were, and whoever has the number of one is not to let go of another: one for each
    // microsecond is more than were ever made.
    catalog.next_pin = u64::try_from(env.clock.wall().0 / 1000).map_or(1, |micros| micros.max(1));
    let mut slots: u64 = rings.values().map(|it| it.record.slots.len() as u64).sum();
    // What was there last is most likely there still, and not one that had been deleted.
    for (id, ring) in rings.iter_mut().rev() {
        make_room(&layout, &mut catalog.groups, *id, ring, &mut slots);
    }
    let found: Vec<RingFound> = rings.values().map(|it| it.found.clone()).collect();
    catalog.rings = rings.into_iter().map(|(id, it)| (id, it.record)).collect();
    let oldest = found.iter().filter_map(|ring| ring.times).map(|times| times.0).min();
    // Of two pairs without a whole checkpoint, the one whose superblock is known is written last.
    let first = root.as_ref().map_or(0, |(which, _)| 1 - which);
    let superblock_kept = root.is_some();
    // Records that lie in logs are of objects that are lost, and their epochs may come again: none is to be taken for one.
    let mark = u128::from(env.random.secret()) << 64 | u128::from(env.random.secret());
    let superblock = root.map(|(_, superblock)| Superblock { mark, ..superblock }).unwrap_or_else(|| Superblock {
        target,
        mark,
        formatted: oldest.unwrap_or_else(|| env.clock.wall()),
        layout,
        generation: 0,
        checkpoint_len: 0,
        checkpoint_crc: 0,
        profile: Profile::guess(geometry.size, geometry.rotates),
    });
    checkpoint::encode(&superblock, &catalog)?;
    Ok(Plan {
        target,
        others: candidates.into_iter().filter(|c| c.target != target).collect(),
        rings: found,
        free_groups: catalog.groups.iter().filter(|class| **class == GroupClass::Free).count() as u32,
        groups: layout.groups,
        superblock_kept,
        checkpoint_kept: false,
        unreadable: salvage.lost(),
        tables: sightings.tables(),
        superblock,
        catalog,
        first,
        mends: None,
    })
}

impl Plan {
    /// Writes superblock and checkpoint, both copies.
    pub async fn write(mut self, env: Env) -> Result<()> {
        let geometry = env.device.geometry();
        let disk = Scheduler::new(env, Profile::guess(geometry.size, geometry.rotates));
        // What was found may be in the device's cache alone.
        disk.flush().await?;
        if let Some(which) = self.mends {
            checkpoint::write_area(&disk, &self.superblock, &self.catalog, which).await?;
        }
        checkpoint::commit(&disk, &mut self.superblock, &self.catalog, self.first, ReadBack::First).await.map(|_| ())
    }
}

/// Nothing is lost: a checkpoint is whole, and a superblock for it. What is whole of pair `which` is written last.
fn keep(which: usize, superblock: Superblock, catalog: Catalog) -> Plan {
    let layout = superblock.layout;
    let rings = catalog.rings.values().map(|record| order::found(&layout, record, 0)).collect();
    Plan {
        target: superblock.target,
        others: Vec::new(),
        rings,
        free_groups: catalog.groups.iter().filter(|class| **class == GroupClass::Free).count() as u32,
        groups: layout.groups,
        superblock_kept: true,
        checkpoint_kept: true,
        unreadable: Bytes::ZERO,
        tables: 0,
        superblock,
        catalog,
        first: 1 - which,
        mends: None,
    }
}

/// The targets whose segments were found, the latest first.
fn candidates(sightings: &Sightings) -> Vec<Candidate> {
    let mut found: BTreeMap<u128, Candidate> = BTreeMap::new();
    let mut counted = BTreeSet::new();
    for sighting in sightings.all() {
        let target = TargetId(sightings.home(sighting.stamped()).0);
        let newest = Timestamp(sighting.max_time());
        let candidate = found.entry(target.0).or_insert(Candidate { target, segments: 0, newest });
        let segment = (sighting.target, sighting.ring, sighting.slot, sighting.sequence);
        candidate.segments += u64::from(counted.insert(segment));
        candidate.newest = candidate.newest.max(newest);
    }
    let mut found: Vec<Candidate> = found.into_values().collect();
    found.sort_by_key(|candidate| std::cmp::Reverse(candidate.newest));
    found
}

fn choose(name: &str, candidates: &[Candidate], wanted: Option<TargetId>) -> Result<TargetId> {
    let list = || {
        let one = |c: &Candidate| format!("{} ({} segments, up to {})", c.target, c.segments, c.newest);
        candidates.iter().map(one).collect::<Vec<String>>().join(", ")
    };
    match (wanted, candidates) {
        (Some(wanted), _) if candidates.iter().any(|c| c.target == wanted) => Ok(wanted),
        (_, []) => Err(Error::refused(format!(
            "nothing of a target was found on {name}: no superblock and checkpoint, and no segment (nothing was changed)"
        ))),
        (Some(wanted), _) => {
            Err(Error::refused(format!("{name} has nothing of target {wanted}; it has segments of {}", list())))
        }
        (None, [one]) => Ok(one.target),
        (None, _) => Err(Error::refused(format!(
            "{name} has segments of {} targets, and no superblock says which it is: say it with --target, one of {} (nothing was changed)",
            candidates.len(),
            list()
        ))),
    }
}

fn class(record: &RingRecord, id: RingId) -> GroupClass {
    if record.without_logs { GroupClass::RingWithoutLog(id) } else { GroupClass::Ring(id) }
}

/// Where less was found of a ring than it had, or too little to run round in, it gets free groups: it had some that it had not written
/// yet. `slots` are those of all rings.
fn make_room(layout: &Layout, groups: &mut [GroupClass], id: RingId, ring: &mut Again, slots: &mut u64) {
    let Again { record, found, had } = ring;
    let per_group = record.segments_per_group(layout) as usize;
    for (group, owner) in groups.iter_mut().enumerate() {
        let is_short = record.groups.iter().flatten().count() < *had as usize;
        let has_place = *slots + per_group as u64 <= RingRecord::most_slots(layout);
        if record.segments() >= LEAST_SEGMENTS && !(is_short && has_place) {
            break;
        }
        if *owner == GroupClass::Free {
            *owner = class(record, id);
            record.groups.push(Some(group as u32));
            record.slots.resize(record.groups.len() * per_group, None);
            record.spec.capacity += layout.group;
            *slots += per_group as u64;
        }
    }
    found.capacity = record.spec.capacity;
}

#[cfg(test)]
mod tests;

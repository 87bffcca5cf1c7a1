//! A target: one device's store, on one loop. Formats and opens it, and keeps the catalog; its rings are made, moved and
//! pinned in `target/rings.rs` and `target/pins.rs`.
//!
//! Opening for writing flushes, raises the epoch and writes both copies of superblock and checkpoint: a damaged copy is
//! repaired by that, and said in [`Target::complaints`].

mod commits;
mod heaps;
mod pins;
mod rings;

use crate::admission;
use crate::catalog::{Catalog, GroupClass, ObjectsRecord, PinRecord, RingRecord, ScrubRecord};
use crate::checkpoint::{self, ReadBack};
use crate::gate::Gate;
use crate::layout::Layout;
use crate::object::Objects;
use crate::ring::Ring;
use crate::schedule::{Expected, Scheduler, StreamId};
use crate::segment::IndexBudget;
use crate::superblock::Superblock;
use crate::walk::Walk;
use commits::Commits;
use forebay_env::{Env, Slab};
use forebay_model::ring::{RingSpec, RingStatus};
use forebay_model::{Bytes, Error, Kind, Moment, Profile, Rate, Result, RingId, TargetId};
use heaps::OpenHeaps;
use rings::received::Received;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

/// What all rings of a target share.
pub(crate) struct Core {
    pub(crate) disk: Scheduler,
    superblock: RefCell<Superblock>,
    catalog: RefCell<Catalog>,
    commits: Commits,
    /// How opening would follow each ring, by the last durable checkpoint.
    walks: RefCell<BTreeMap<RingId, Walk>>,
    streams: Cell<u64>,
    /// Whether the target was closed properly before it was opened.
    pub(crate) was_closed: bool,
    /// Whether a scrub is under way, and when its place was last made durable for its own sake.
    pub(crate) scrubbing: Cell<bool>,
    pub(crate) scrub_kept: Cell<Moment>,
    /// When it may read on, by its rate.
    pub(crate) scrub_due: Cell<Moment>,
    /// Bytes of what those have who look at commits of heaps.
    pub(crate) seen: Rc<Cell<usize>>,
}

/// Bytes of the catalog for what it says of objects.
pub(crate) struct Room {
    /// What is left beside all else in it.
    pub(crate) now: Bytes,
    /// What is left when all segments of its rings are written, and pins take what they may.
    pub(crate) kept: Bytes,
}

/// A target, open. Stays on its loop.
pub struct Target {
    core: Rc<Core>,
    rings: RefCell<BTreeMap<RingId, Rc<Ring>>>,
    objects: Rc<Objects>,
    heaps: OpenHeaps,
    /// Rings that come from elsewhere, and are not all there.
    received_rings: RefCell<BTreeMap<String, Received>>,
    /// Something is done with one of these at a time.
    receiving_rings: Gate,
    complaints: Vec<String>,
}

impl Core {
    pub(crate) fn layout(&self) -> Layout {
        self.superblock.borrow().layout
    }

    pub(crate) fn target_id(&self) -> u128 {
        self.superblock.borrow().target.0
    }

    pub(crate) fn mark(&self) -> u128 {
        self.superblock.borrow().mark
    }

    pub(crate) fn formatted(&self) -> forebay_model::Timestamp {
        self.superblock.borrow().formatted
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.catalog.borrow().epoch
    }

    pub(crate) fn profile(&self) -> Profile {
        self.superblock.borrow().profile.clone()
    }

    pub(crate) fn with_ring<T>(&self, id: RingId, look: impl FnOnce(&RingRecord) -> T) -> T {
        look(self.catalog.borrow().rings.get(&id).expect("a ring that works is in the catalog"))
    }

    pub(crate) fn with_ring_mut<T>(&self, id: RingId, change: impl FnOnce(&mut RingRecord) -> T) -> T {
        change(self.catalog.borrow_mut().rings.get_mut(&id).expect("a ring that works is in the catalog"))
    }

    /// The same, of a ring that may have been deleted meanwhile.
    pub(crate) fn if_ring(&self, id: RingId, change: impl FnOnce(&mut RingRecord)) {
        if let Some(ring) = self.catalog.borrow_mut().rings.get_mut(&id) {
            change(ring);
        }
    }

    pub(crate) fn with_objects<T>(&self, look: impl FnOnce(&ObjectsRecord) -> T) -> T {
        look(&self.catalog.borrow().objects)
    }

    pub(crate) fn with_objects_mut<T>(&self, change: impl FnOnce(&mut ObjectsRecord) -> T) -> T {
        change(&mut self.catalog.borrow_mut().objects)
    }

    /// What the catalog has room for of objects.
    pub(crate) fn room_for_objects(&self) -> Result<Room> {
        let catalog = self.catalog.borrow();
        let others = checkpoint::size(&*catalog)?.saturating_sub(checkpoint::size(&catalog.objects)?);
        let now = checkpoint::most(&self.superblock.borrow())?.saturating_sub(others);
        // A ring that is recorded into is never refused: what its segments will take is kept for them, and so for pins.
        let layout = self.layout();
        let segment = layout.area / 2 / RingRecord::most_slots(&layout);
        let unwritten = catalog.rings.values().flat_map(|ring| &ring.slots).filter(|slot| slot.is_none()).count();
        let pins: Bytes = catalog.rings.values().flat_map(|ring| &ring.pins).map(PinRecord::weight).sum();
        let pins = RingRecord::most_of_pins(&layout).saturating_sub(pins);
        Ok(Room { now, kept: now.saturating_sub(segment * unwritten as u64 + pins) })
    }

    pub(crate) fn with_scrub<T>(&self, change: impl FnOnce(&mut Option<ScrubRecord>) -> T) -> T {
        change(&mut self.catalog.borrow_mut().scrub)
    }

    /// The groups of a class, in order.
    pub(crate) fn groups_of(&self, class: GroupClass) -> Vec<u32> {
        let catalog = self.catalog.borrow();
        (0..).zip(&catalog.groups).filter(|(_, owner)| **owner == class).map(|(group, _)| group).collect()
    }

    /// Whether records may lie in the log area of a group.
    pub(crate) fn has_log(&self, group: u32) -> bool {
        !matches!(self.catalog.borrow().groups[group as usize], GroupClass::RingWithoutLog(_))
    }

    /// How many groups have a log.
    pub(crate) fn logs(&self) -> u64 {
        (0..self.layout().groups).filter(|group| self.has_log(*group)).count() as u64
    }

    /// Makes `most` free groups, or as many as there are, those of `class`, durably.
    pub(crate) async fn take_groups(self: &Rc<Self>, class: GroupClass, most: u32) -> Result<Vec<u32>> {
        let free = self.groups_of(GroupClass::Free);
        // Some are left for rows: what is removed changes rows, too.
        let kept = if class == GroupClass::Tables { 0 } else { (self.layout().groups / 64).max(2) as usize };
        let taken: Vec<u32> = free.iter().copied().take(free.len().saturating_sub(kept).min(most as usize)).collect();
        if taken.is_empty() {
            return Err(Error::full(format!(
                "no group of the target's {} is free; remove objects, or a ring (nothing was changed)",
                self.layout().groups
            )));
        }
        taken.iter().for_each(|group| self.catalog.borrow_mut().groups[*group as usize] = class);
        self.commit().await?;
        Ok(taken)
    }

    pub(crate) fn ring_ids(&self) -> Vec<RingId> {
        self.catalog.borrow().rings.keys().copied().collect()
    }

    pub(crate) fn has_ring(&self, id: RingId) -> bool {
        self.catalog.borrow().rings.contains_key(&id)
    }

    pub(crate) fn next_pin(&self) -> u64 {
        let mut catalog = self.catalog.borrow_mut();
        catalog.next_pin += 1;
        catalog.next_pin - 1
    }

    pub(crate) fn next_stream(&self) -> StreamId {
        self.streams.set(self.streams.get() + 1);
        StreamId(self.streams.get())
    }

    /// Whether the next segment of a ring may be written to this slot before the catalog is made durable.
    pub(crate) fn may_take(&self, ring: RingId, slot: u32) -> bool {
        let (walks, layout) = (self.walks.borrow(), self.layout());
        walks.get(&ring).is_some_and(|walk| self.with_ring(ring, |record| walk.allows(&layout, record, slot)))
    }

    /// Whether all guarantees can still be kept as the rings lie now.
    pub(crate) fn check_admission(&self, ring: RingId) -> Result<()> {
        let demand = {
            let catalog = self.catalog.borrow();
            let record = &catalog.rings[&ring];
            if record.spec.guarantee == Rate(0) {
                return Ok(());
            }
            self.demand(record)
        };
        admission::admit(&self.profile(), &self.demands(Some(ring)), &demand).map(|_| ())
    }

    /// Whether all pins have room in the catalog, beside what else is to come into it.
    pub(crate) fn check_pins(&self) -> Result<()> {
        let most = RingRecord::most_of_pins(&self.layout());
        let catalog = self.catalog.borrow();
        let all: Bytes = catalog.rings.values().flat_map(|ring| &ring.pins).map(PinRecord::weight).sum();
        match all <= most {
            true => Ok(()),
            false => Err(Error::refused(format!(
                "the target's pins would take {all} of its catalog, and {most} are for them; unpin something, or use larger segments \
                 (nothing was pinned)"
            ))),
        }
    }

    fn demands(&self, except: Option<RingId>) -> Vec<admission::Demand> {
        let catalog = self.catalog.borrow();
        let guaranteed = catalog.rings.iter().filter(|(id, r)| Some(**id) != except && r.spec.guarantee > Rate(0));
        guaranteed.map(|(_, record)| self.demand(record)).collect()
    }

    /// What a ring asks of its device.
    pub(crate) fn demand(&self, record: &RingRecord) -> admission::Demand {
        let layout = self.layout();
        let places = layout.runs(record.groups.iter().flatten().copied());
        let per_cycle = record.spec.guarantee.bytes_in(record.spec.flush_interval);
        let segments_per_cycle = (per_cycle.0.div_ceil(record.segment.0.max(1)) + 1) as u32;
        admission::Demand {
            rate: record.spec.guarantee,
            lag: record.spec.flush_interval,
            places,
            hole_every: (!record.without_logs).then(|| layout.data(true)),
            skips_per_cycle: record.most_pinned_runs(segments_per_cycle),
            segment: record.segment,
            index: overhead(&record.spec, record.segment),
            lap: record.segments() - record.held().len() as u64,
        }
    }
}

impl Target {
    /// Formats the device as it describes itself: nothing that was on it is kept. The profile is kept in the superblock.
    pub async fn format(env: Env, profile: Profile) -> Result<()> {
        let layout = Layout::for_geometry(&env.device.geometry())?;
        Target::format_as(env, profile, layout).await
    }

    /// Formats the device with a layout for its size.
    pub async fn format_as(env: Env, profile: Profile, layout: Layout) -> Result<()> {
        let target = u128::from(env.random.next_u64()) << 64 | u128::from(env.random.next_u64());
        let mut superblock = Superblock {
            target: TargetId(target),
            mark: u128::from(env.random.secret()) << 64 | u128::from(env.random.secret()),
            formatted: env.clock.wall(),
            layout,
            generation: 0,
            checkpoint_len: 0,
            checkpoint_crc: 0,
            profile: profile.clone(),
        };
        let disk = Scheduler::new(env, profile);
        checkpoint::commit(&disk, &mut superblock, &Catalog::fresh(&layout), 0, ReadBack::First).await.map(|_| ())
    }

    /// Whether a formatted target is on the device: its superblock, without changing anything. Its owner may be at work: what that is
    /// writing is not damaged.
    pub async fn inspect(env: Env) -> Result<(Superblock, Catalog, Vec<String>)> {
        let geometry = env.device.geometry();
        let disk = Scheduler::new(env, Profile::guess(geometry.size, geometry.rotates));
        let found = checkpoint::load_beside(&disk).await?;
        Ok((found.superblock, found.catalog, found.complaints))
    }

    /// Opens a formatted device and sets its rings to work. Elements are accepted at once; each ring finds its tail in
    /// the background ([`Ring::ready`]).
    pub async fn open(env: Env) -> Result<Rc<Target>> {
        let (core, complaints) = load(env).await?;
        // What was read may be in the device's cache alone, if only the process ended: it counts from now on, so that power may go
        // while what it takes the place of is written over.
        core.disk.flush().await?;
        let ids = core.ring_ids();
        core.commit().await?;
        let objects = Objects::new(core.clone());
        let work = objects.clone();
        core.disk.env().spawner.detach(async move { work.run().await });
        let target = Rc::new(Target {
            core,
            rings: RefCell::default(),
            objects,
            heaps: OpenHeaps::default(),
            received_rings: RefCell::default(),
            receiving_rings: Gate::default(),
            complaints,
        });
        for id in ids {
            target.start(id)?;
        }
        Ok(target)
    }

    /// What was found damaged at opening and is repaired now, in sentences, what the device did not keep of what was
    /// written since, and promises that it cannot keep as it was measured last.
    pub fn complaints(&self) -> Vec<String> {
        let rewritten = self.core.disk.counters().rewritten;
        let since = (rewritten > 0).then(|| {
            format!("a checkpoint was not there when it was read back, and was written again: {rewritten} times since opening; check the device")
        });
        let demands = self.core.demands(None);
        let too_much = (!admission::keeps(&self.core.profile(), &demands)).then(|| {
            let promised = Rate(demands.iter().map(|demand| demand.rate.0).sum());
            format!(
                "its rings are promised {promised}, which is more than it can keep as it was measured last: blocks may be late; measure it \
                 again while nothing else uses it, or delete a ring, or make it anew with a lower rate"
            )
        });
        self.complaints.iter().cloned().chain(since).chain(too_much).collect()
    }

    /// The scheduler, for its counters and for measuring.
    pub fn disk(&self) -> &Scheduler {
        &self.core.disk
    }

    pub(crate) fn core(&self) -> Rc<Core> {
        self.core.clone()
    }

    /// The device's layout.
    pub fn layout(&self) -> Layout {
        self.core.layout()
    }

    /// The id given at format time.
    pub fn id(&self) -> TargetId {
        TargetId(self.core.target_id())
    }

    /// What was measured of the device.
    pub fn profile(&self) -> Profile {
        self.core.profile()
    }

    /// Keeps a new profile, durably.
    pub async fn set_profile(&self, profile: Profile) -> Result<()> {
        let before = std::mem::replace(&mut self.core.superblock.borrow_mut().profile, profile.clone());
        if let Err(error) = self.core.commit().await {
            self.core.superblock.borrow_mut().profile = before;
            return Err(error);
        }
        self.core.disk.set_profile(profile);
        Ok(())
    }

    fn start(&self, id: RingId) -> Result<Rc<Ring>> {
        let spec = self.core.with_ring(id, |r| r.spec.clone());
        let keys = spec.key_set()?;
        let profile = self.core.profile();
        let staging = admission::staging(&profile, spec.guarantee, spec.flush_interval, spec.block);
        let count = (staging.min(admission::MOST_STAGING).0 / spec.block.0) as usize;
        let ring = Ring::new(self.core.clone(), id, Slab::new(spec.block, count)?, keys);
        self.rings.borrow_mut().insert(id, ring.clone());
        self.expect(id);
        let work = ring.clone();
        self.core.disk.env().spawner.detach(async move { work.run().await });
        Ok(ring)
    }

    /// Tells the scheduler what a ring will write, by what it is promised now.
    fn expect(&self, id: RingId) {
        let expected = self.core.with_ring(id, |record| {
            let rate = self.core.demand(record).written();
            Expected { rate, run: record.segment, lag: record.spec.flush_interval }
        });
        self.core.disk.expect(id, expected);
        self.set_patience();
    }

    /// Checkpoints wait as long as the ring with the shortest lap can.
    fn set_patience(&self) {
        let patience = self.core.demands(None).iter().map(admission::Demand::patience).min();
        self.core.disk.set_patience(patience.unwrap_or(Duration::MAX));
    }

    /// The ring of this name.
    pub fn ring(&self, name: &str) -> Result<Rc<Ring>> {
        let catalog = self.core.catalog.borrow();
        let id = catalog.rings.iter().find(|(_, r)| r.spec.name == name).map(|(id, _)| *id);
        let id = id.ok_or_else(|| {
            let names: Vec<&str> = catalog.rings.values().map(|r| r.spec.name.as_str()).collect();
            match names.is_empty() {
                true => Error::missing(format!("there is no ring {name}; create one with `forebay ring create`")),
                false => Error::missing(format!("there is no ring {name}; there are {}", names.join(", "))),
            }
        })?;
        self.rings.borrow().get(&id).cloned().ok_or_else(|| Error::busy(format!("{name} is being deleted")))
    }

    /// The objects.
    pub fn objects(&self) -> &Rc<Objects> {
        &self.objects
    }

    /// A stream of I/O of its own, for [`Objects::read`] and the like.
    pub fn stream(&self) -> StreamId {
        self.core.next_stream()
    }

    /// All rings, as they say of themselves.
    pub fn status(&self) -> Vec<RingStatus> {
        self.rings.borrow().values().map(|r| r.status()).collect()
    }

    /// Runs of free groups, as byte ranges.
    pub fn free_runs(&self) -> Vec<Range<Bytes>> {
        let layout = self.core.layout();
        let catalog = self.core.catalog.borrow();
        catalog.free_runs(&layout)
    }

    /// What is promised already.
    pub fn demands(&self) -> Vec<admission::Demand> {
        self.core.demands(None)
    }

    /// Makes everything durable that was accepted, and ends the rings' work. What a ring in which all is pinned has no room
    /// for had not been acknowledged, and is gone.
    pub async fn close(&self) -> Result<()> {
        let rings: Vec<Rc<Ring>> = self.rings.borrow().values().cloned().collect();
        for ring in rings {
            ring.close().await?;
        }
        let lost = match self.objects.close().await {
            // What was acknowledged as buffered and cannot go home is said when all else is durable.
            Err(error) if error.kind == Kind::Damaged && self.objects.buffered() > Bytes::ZERO => Some(error),
            // What is damaged was said, and stays as it is.
            Err(error) if error.kind == Kind::Damaged || self.objects.lost().is_some() => None,
            closed => {
                closed?;
                None
            }
        };
        self.core.catalog.borrow_mut().closed = true;
        self.core.commit().await?;
        lost.map_or(Ok(()), Err)
    }
}

/// What all rings of the target on the device share, in memory only: nothing is written. With what was wrong.
pub(crate) async fn load(env: Env) -> Result<(Rc<Core>, Vec<String>)> {
    let geometry = env.device.geometry();
    let disk = Scheduler::new(env, Profile::guess(geometry.size, geometry.rotates));
    let checkpoint::Found { superblock, mut catalog, pair, complaints } = checkpoint::load(&disk).await?;
    disk.set_profile(superblock.profile.clone());
    catalog.epoch += 1;
    catalog.free_strays();
    let started = disk.env().clock.now();
    let was_closed = std::mem::replace(&mut catalog.closed, false);
    let walks = catalog.rings.iter().map(|(id, ring)| (*id, Walk::of(ring))).collect();
    let core = Core {
        disk,
        superblock: RefCell::new(superblock),
        catalog: RefCell::new(catalog),
        commits: Commits::new(1 - pair),
        walks: RefCell::new(walks),
        streams: Cell::new(0),
        was_closed,
        scrubbing: Cell::new(false),
        scrub_kept: Cell::new(started),
        scrub_due: Cell::new(started),
        seen: Rc::default(),
    };
    Ok((Rc::new(core), complaints))
}

/// Bytes beyond its elements that a ring writes, as a share of them.
fn overhead(spec: &RingSpec, segment: Bytes) -> f64 {
    let keys = spec.key_set().map_or(0, |keys| keys.len());
    admission::overhead(spec.block, segment, IndexBudget::for_segment(segment, spec.index_percent, keys))
}

#[cfg(test)]
mod tests;

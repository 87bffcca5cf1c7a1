//! A target: one device's store, on one loop. Formats, opens, creates and deletes rings, and keeps the catalog.
//!
//! Opening for writing raises the epoch and writes both copies of superblock and checkpoint: a damaged copy is
//! repaired by that, and said in [`Target::complaints`].

use crate::admission;
use crate::catalog::{Catalog, GroupClass, RingRecord, Writers};
use crate::checkpoint;
use crate::layout::Layout;
use crate::promise::Signal;
use crate::ring::Ring;
use crate::schedule::{Expected, Scheduler, StreamId};
use crate::superblock::Superblock;
use forebay_env::{Env, Slab};
use forebay_model::key::KeySet;
use forebay_model::packet::LinkType;
use forebay_model::ring::{Content, RingSpec, RingStatus};
use forebay_model::{Bytes, Error, Profile, Rate, Result, RingId, TargetId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

/// The most segments of a ring: what its part of the catalog may take.
const SEGMENT_RECORD: u64 = 96;

/// What all rings of a target share.
pub(crate) struct Core {
    pub(crate) disk: Scheduler,
    superblock: RefCell<Superblock>,
    catalog: RefCell<Catalog>,
    committing: Cell<bool>,
    committed: Signal,
    /// For each ring the segment from which on opening would walk, by the last durable checkpoint.
    walks_from: RefCell<BTreeMap<RingId, u64>>,
    streams: Cell<u64>,
    /// The pair that the next commit writes first: after opening, the one that may not be whole.
    first_pair: Cell<usize>,
    /// Whether the target was closed properly before it was opened.
    pub(crate) was_closed: bool,
}

/// A target, open. Stays on its loop.
pub struct Target {
    core: Rc<Core>,
    rings: RefCell<BTreeMap<RingId, Rc<Ring>>>,
    complaints: Vec<String>,
}

impl Core {
    pub(crate) fn layout(&self) -> Layout {
        self.superblock.borrow().layout
    }

    pub(crate) fn target_id(&self) -> u128 {
        self.superblock.borrow().target.0
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

    /// Makes the catalog durable as it is now. One commit at a time; who waits gets one that began after the call.
    pub(crate) async fn commit(&self) -> Result<()> {
        self.committed.until(|| !self.committing.get()).await;
        self.committing.set(true);
        let result = self.commit_alone().await;
        self.committing.set(false);
        self.committed.notify();
        result
    }

    /// As [`Core::commit`], for a ring that cannot go on before.
    pub(crate) async fn commit_now(&self) -> Result<()> {
        self.disk.hurry(true);
        let result = self.commit().await;
        self.disk.hurry(false);
        result
    }

    async fn commit_alone(&self) -> Result<()> {
        let mut superblock = self.superblock.borrow().clone();
        let catalog = self.durable_view();
        checkpoint::commit(&self.disk, &mut superblock, &catalog, self.first_pair.get()).await?;
        self.first_pair.set(0);
        *self.walks_from.borrow_mut() = catalog.rings.iter().map(|(id, r)| (*id, r.path_segment)).collect();
        let mut now = self.superblock.borrow_mut();
        now.generation = superblock.generation;
        now.checkpoint_len = superblock.checkpoint_len;
        now.checkpoint_crc = superblock.checkpoint_crc;
        Ok(())
    }

    /// Whether opening could still have to walk over segment `sequence` of the ring: then it must not be overwritten.
    pub(crate) fn needed_for_walk(&self, ring: RingId, sequence: u64) -> bool {
        self.walks_from.borrow().get(&ring).is_none_or(|from| sequence >= *from)
    }

    /// The catalog without what is not durable yet: segments on a ring's path are found again by walking.
    fn durable_view(&self) -> Catalog {
        let mut catalog = self.catalog.borrow().clone();
        for record in catalog.rings.values_mut() {
            for slot in &record.path {
                record.slots[*slot as usize] = None;
            }
        }
        catalog
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

    fn demands(&self, except: Option<RingId>) -> Vec<admission::Demand> {
        let catalog = self.catalog.borrow();
        let guaranteed = catalog.rings.iter().filter(|(id, r)| Some(**id) != except && r.spec.guarantee > Rate(0));
        guaranteed.map(|(_, record)| self.demand(record)).collect()
    }

    /// What a ring asks of its device.
    pub(crate) fn demand(&self, record: &RingRecord) -> admission::Demand {
        let layout = self.layout();
        let mut places: Vec<Range<Bytes>> = Vec::new();
        for group in record.groups.iter().flatten() {
            let at = layout.group_at(*group);
            match places.last_mut() {
                Some(last) if last.end == at => last.end = at + layout.group,
                _ => places.push(at..at + layout.group),
            }
        }
        let per_cycle = record.spec.guarantee.bytes_in(record.spec.flush_interval);
        let segments_per_cycle = (per_cycle.0.div_ceil(record.segment.0.max(1)) + 1) as u32;
        admission::Demand {
            rate: record.spec.guarantee,
            lag: record.spec.flush_interval,
            places,
            hole_every: (!record.without_logs).then(|| layout.data(true)),
            skips_per_cycle: record.most_pinned_runs(segments_per_cycle),
            segment: record.segment,
            index: admission::index_share(record.spec.keys.len()),
            lap: (record.slots.len() - record.held().len()) as u64,
        }
    }
}

impl Target {
    /// Formats the device: nothing that was on it is kept. The profile is kept in the superblock.
    pub async fn format(env: Env, profile: Profile) -> Result<()> {
        let geometry = env.device.geometry();
        let layout = Layout::for_device(geometry.size)?;
        let target = u128::from(env.random.next_u64()) << 64 | u128::from(env.random.next_u64());
        let mut superblock = Superblock {
            target: TargetId(target),
            formatted: env.clock.wall(),
            layout,
            generation: 0,
            checkpoint_len: 0,
            checkpoint_crc: 0,
            profile: profile.clone(),
        };
        let disk = Scheduler::new(env, profile);
        checkpoint::commit(&disk, &mut superblock, &Catalog::fresh(&layout), 0).await
    }

    /// Whether a formatted target is on the device: its superblock, without changing anything.
    pub async fn inspect(env: Env) -> Result<(Superblock, Catalog, Vec<String>)> {
        let geometry = env.device.geometry();
        let disk = Scheduler::new(env, Profile::guess(geometry.size, geometry.rotates));
        let found = checkpoint::load(&disk).await?;
        Ok((found.superblock, found.catalog, found.complaints))
    }

    /// Opens a formatted device and sets its rings to work. Elements are accepted at once; each ring finds its tail in
    /// the background ([`Ring::ready`]).
    pub async fn open(env: Env) -> Result<Rc<Target>> {
        let (core, complaints) = load(env).await?;
        let ids = core.ring_ids();
        core.commit().await?;
        let target = Rc::new(Target { core, rings: RefCell::default(), complaints });
        for id in ids {
            target.start(id)?;
        }
        Ok(target)
    }

    /// What was found damaged at opening and is repaired now, in sentences.
    pub fn complaints(&self) -> &[String] {
        &self.complaints
    }

    /// The scheduler, for its counters and for measuring.
    pub fn disk(&self) -> &Scheduler {
        &self.core.disk
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
        let (spec, segment) = self.core.with_ring(id, |r| (r.spec.clone(), r.segment));
        let keys = keys_of(&spec)?;
        let profile = self.core.profile();
        let staging = admission::staging(&profile, spec.guarantee, spec.flush_interval, spec.block);
        let count = (staging.0 / spec.block.0).clamp(8, 4096) as usize;
        let ring = Ring::new(self.core.clone(), id, Slab::new(spec.block, count)?, keys);
        self.rings.borrow_mut().insert(id, ring.clone());
        let demand = self.core.with_ring(id, |record| self.core.demand(record));
        self.core.disk.expect(id, Expected { rate: demand.written(), run: segment, lag: spec.flush_interval });
        self.set_patience();
        let work = ring.clone();
        self.core.disk.env().spawner.detach(async move { work.run().await });
        Ok(ring)
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

    /// All rings, as they say of themselves.
    pub fn status(&self) -> Vec<RingStatus> {
        self.rings.borrow().values().map(|r| r.status()).collect()
    }

    /// Runs of free groups, as byte ranges.
    pub fn free_runs(&self) -> Vec<Range<Bytes>> {
        let layout = self.core.layout();
        let catalog = self.core.catalog.borrow();
        let mut runs: Vec<Range<Bytes>> = Vec::new();
        for group in (0..layout.groups).filter(|g| catalog.groups[*g as usize] == GroupClass::Free) {
            let at = layout.group_at(group);
            match runs.last_mut() {
                Some(last) if last.end == at => last.end = at + layout.group,
                _ => runs.push(at..at + layout.group),
            }
        }
        runs
    }

    /// What is promised already.
    pub fn demands(&self) -> Vec<admission::Demand> {
        self.core.demands(None)
    }

    /// Whether a ring could be created now so that all its pin budget can be used, without creating it.
    pub fn could_create(&self, spec: &RingSpec) -> Result<()> {
        self.lay_out(spec.clone(), true).map(|_| ())
    }

    /// Creates a ring, if its guarantee can be kept beside all others.
    pub async fn create_ring(&self, spec: RingSpec) -> Result<Rc<Ring>> {
        let record = self.lay_out(spec, false)?;
        let without_logs = record.without_logs;
        let groups: Vec<u32> = record.groups.iter().flatten().copied().collect();
        let id = {
            let mut catalog = self.core.catalog.borrow_mut();
            let id = RingId(catalog.next_ring);
            catalog.next_ring += 1;
            for group in &groups {
                catalog.groups[*group as usize] =
                    if without_logs { GroupClass::RingWithoutLog(id) } else { GroupClass::Ring(id) };
            }
            catalog.rings.insert(id, record);
            id
        };
        if let Err(error) = self.core.commit().await {
            self.forget(id);
            return Err(error);
        }
        self.start(id)
    }

    /// Decides where a ring would lie, and whether its guarantee can be kept there beside all others.
    fn lay_out(&self, mut spec: RingSpec, with_pins: bool) -> Result<RingRecord> {
        spec.check()?;
        keys_of(&spec)?;
        self.check_relatives(&spec.name, &spec.relatives)?;
        let (layout, profile) = (self.core.layout(), self.core.profile());
        if self.core.catalog.borrow().rings.values().any(|r| r.spec.name == spec.name) {
            return Err(Error::exists(format!("there is a ring {} already", spec.name)));
        }
        let (others, free) = (self.core.demands(None), self.free_runs());
        let at = |pins| admission::place(&profile, &others, &layout, &free, &wish(&spec, spec.capacity, pins, None));
        // Where pins can use up their budget and the guarantee still holds; otherwise each pin will be asked for anew.
        let placed = match at(spec.pin_budget_percent) {
            Err(_) if !with_pins => at(0),
            placed => placed,
        }?;
        let (groups, without_logs) = (groups_in(&layout, &placed.places), placed.without_logs);
        spec.segment = segment_size(&layout, &spec, without_logs)?;
        spec.capacity = layout.group * groups.len() as u64;
        let mut record = RingRecord {
            segment: spec.segment,
            spec,
            groups: groups.iter().copied().map(Some).collect(),
            without_logs,
            slots: Vec::new(),
            path: Vec::new(),
            path_segment: 1,
            path_element: 0,
            durable_end: 0,
            doubtful_before: 0,
            pins: Vec::new(),
            writers: Writers::default(),
        };
        let slots = groups.len() as u64 * u64::from(record.segments_per_group(&layout));
        check_slots(&layout, slots, record.segment)?;
        record.slots = vec![None; slots as usize];
        if record.spec.guarantee > Rate(0) {
            admission::admit(&profile, &self.core.demands(None), &self.core.demand(&record))?;
        }
        Ok(record)
    }

    /// Deletes a ring with everything in it.
    pub async fn delete_ring(&self, name: &str) -> Result<()> {
        let ring = self.ring(name)?;
        let status = ring.status();
        if status.recording {
            return Err(Error::busy(format!("somebody records into {name}; stop that first")));
        }
        if !status.pins.is_empty() {
            let what = match status.pins.len() {
                1 => "a pin; unpin it first".to_string(),
                n => format!("{n} pins; unpin them first"),
            };
            return Err(Error::busy(format!("{name} has {what}")));
        }
        ring.close().await?;
        self.rings.borrow_mut().remove(&ring.id);
        self.forget(ring.id);
        self.core.disk.expect_nothing(ring.id);
        self.set_patience();
        self.core.commit().await
    }

    fn forget(&self, id: RingId) {
        let mut catalog = self.core.catalog.borrow_mut();
        catalog.rings.remove(&id);
        for class in &mut catalog.groups {
            if matches!(class, GroupClass::Ring(r) | GroupClass::RingWithoutLog(r) if *r == id) {
                *class = GroupClass::Free;
            }
        }
    }

    /// Makes a ring larger or smaller. Growing keeps everything; shrinking gives back the groups with the oldest data,
    /// and refuses where pins or the segment being written stand in the way.
    pub async fn resize_ring(&self, name: &str, capacity: Bytes) -> Result<Bytes> {
        let ring = self.ring(name)?;
        ring.ready().await?;
        let layout = self.core.layout();
        let wanted = capacity.0.div_ceil(layout.group.0) as usize;
        let before = self.core.with_ring(ring.id, Clone::clone);
        let have = before.groups.iter().flatten().count();
        if wanted < 1 {
            return Err(Error::usage(format!("a ring needs at least one group of {}", layout.group)));
        }
        let freed =
            if wanted >= have { self.grow(ring.id, wanted - have)? } else { self.shrink(ring.id, have - wanted)? };
        if let Err(error) = self.core.check_admission(ring.id) {
            self.core.with_ring_mut(ring.id, |r| r.groups.clone_from(&before.groups));
            self.reclaim(ring.id);
            return Err(error);
        }
        let size = layout.group * wanted as u64;
        self.core.with_ring_mut(ring.id, |r| r.spec.capacity = size);
        self.core.commit().await?;
        {
            let mut catalog = self.core.catalog.borrow_mut();
            freed.into_iter().for_each(|group| catalog.groups[group as usize] = GroupClass::Free);
        }
        self.core.commit().await?;
        ring.progressed.notify();
        Ok(size)
    }

    fn grow(&self, id: RingId, more: usize) -> Result<Vec<u32>> {
        let layout = self.core.layout();
        let (class, wish) = self.core.with_ring(id, |r| {
            let class = if r.without_logs { GroupClass::RingWithoutLog(id) } else { GroupClass::Ring(id) };
            let wish = wish(&r.spec, layout.group * more as u64, 0, Some(r.without_logs));
            (class, admission::Wish { beside: r.spec.capacity, ..wish })
        });
        if more == 0 {
            return Ok(Vec::new());
        }
        let others = self.core.demands(Some(id));
        let placed = admission::place(&self.core.profile(), &others, &layout, &self.free_runs(), &wish)?;
        let groups = groups_in(&layout, &placed.places);
        let slots = self.core.with_ring_mut(id, |r| {
            let per_group = r.segments_per_group(&layout) as usize;
            r.groups.extend(groups.iter().copied().map(Some));
            r.slots.resize(r.groups.len() * per_group, None);
            r.slots.len() as u64
        });
        check_slots(&layout, slots, self.core.with_ring(id, |r| r.segment))?;
        let mut catalog = self.core.catalog.borrow_mut();
        for group in groups {
            catalog.groups[group as usize] = class;
        }
        Ok(Vec::new())
    }

    /// Takes the groups whose newest data is oldest out of the ring.
    fn shrink(&self, id: RingId, fewer: usize) -> Result<Vec<u32>> {
        let layout = self.core.layout();
        self.core.with_ring_mut(id, |r| {
            let per_group = r.segments_per_group(&layout) as usize;
            let held = r.held();
            let mut candidates: Vec<(u64, usize)> = Vec::new();
            for (place, _) in r.groups.iter().enumerate().filter(|(_, g)| g.is_some()) {
                let slots = place * per_group..(place + 1) * per_group;
                let in_use =
                    slots.clone().any(|s| r.path.contains(&(s as u32)) || held.iter().any(|(h, _)| *h as usize == s));
                if !in_use {
                    let newest = r.slots[slots].iter().flatten().map(|s| s.sequence).max().unwrap_or(0);
                    candidates.push((newest, place));
                }
            }
            if candidates.len() < fewer {
                return Err(Error::refused(format!(
                    "{} can give back only {} of {fewer} groups; the others hold pins or the segment being written",
                    r.spec.name,
                    candidates.len()
                )));
            }
            candidates.sort_unstable();
            let mut freed = Vec::new();
            for (_, place) in candidates.into_iter().take(fewer) {
                freed.extend(r.groups[place].take());
                r.slots[place * per_group..(place + 1) * per_group].fill(None);
            }
            Ok(freed)
        })
    }

    /// Makes the group table agree with a ring's groups after a change was taken back.
    fn reclaim(&self, id: RingId) {
        let layout = self.core.layout();
        let mut catalog = self.core.catalog.borrow_mut();
        let Catalog { rings, groups, .. } = &mut *catalog;
        let record = rings.get_mut(&id).expect("the ring is in the catalog");
        let per_group = record.segments_per_group(&layout) as usize;
        record.slots.resize(record.groups.len() * per_group, None);
        for (group, class) in groups.iter_mut().enumerate() {
            let mine = record.groups.contains(&Some(group as u32));
            let marked = matches!(class, GroupClass::Ring(r) | GroupClass::RingWithoutLog(r) if *r == id);
            if marked && !mine {
                *class = GroupClass::Free;
            }
        }
    }

    fn check_relatives(&self, name: &str, relatives: &[String]) -> Result<()> {
        for (at, relative) in relatives.iter().enumerate() {
            if relative == name {
                return Err(Error::usage(format!("{name} cannot be its own relative; name other rings")));
            }
            if relatives[..at].contains(relative) {
                return Err(Error::usage(format!("{relative} is named twice as a relative of {name}; name it once")));
            }
            self.ring(relative)?;
        }
        Ok(())
    }

    /// Gives a ring these relatives, which are pinned along with it from now on, and no others.
    pub async fn relate_ring(&self, name: &str, relatives: Vec<String>) -> Result<()> {
        let ring = self.ring(name)?;
        self.check_relatives(name, &relatives)?;
        let swap = |with| self.core.with_ring_mut(ring.id, |r| std::mem::replace(&mut r.spec.relatives, with));
        let before = swap(relatives);
        self.core.commit().await.inspect_err(|_| drop(swap(before)))
    }

    /// Pins a time range in a ring, and along with it in its relatives, each what it still has.
    pub async fn pin(
        &self,
        name: &str,
        label: &str,
        from: forebay_model::Timestamp,
        to: forebay_model::Timestamp,
    ) -> Result<forebay_model::ring::Pinned> {
        let ring = self.ring(name)?;
        // Before it has found its tail, a ring does not know what it has.
        ring.ready().await?;
        let mut pinned = ring.pin(label, from, to).await?;
        let relatives = self.core.with_ring(ring.id, |r| r.spec.relatives.clone());
        for relative in relatives {
            let Ok(other) = self.ring(&relative) else { continue };
            // It, too, has to have found its tail.
            let pinned_along = match other.ready().await {
                Ok(()) => other.pin(label, from, to).await,
                Err(error) => Err(error),
            };
            match pinned_along {
                Ok(along) => pinned.pin.relatives.push((relative, along.pin.id)),
                // A relative that has nothing of that time has nothing to hold; every other refusal undoes the whole.
                Err(error) if matches!(error.kind, forebay_model::Kind::Missing | forebay_model::Kind::Expired) => {}
                Err(error) => {
                    self.undo(&pinned.pin, &ring).await?;
                    return Err(error.of(format!("the relative {relative} cannot be pinned along")));
                }
            }
        }
        if !pinned.pin.relatives.is_empty() {
            self.core.with_ring_mut(ring.id, |r| {
                if let Some(record) = r.pins.iter_mut().find(|p| p.pin.id == pinned.pin.id) {
                    record.pin.relatives.clone_from(&pinned.pin.relatives);
                }
            });
            self.core.commit().await?;
        }
        Ok(pinned)
    }

    async fn undo(&self, pin: &forebay_model::ring::Pin, ring: &Rc<Ring>) -> Result<()> {
        ring.unpin(pin.id).await?;
        for (relative, id) in &pin.relatives {
            self.ring(relative)?.unpin(*id).await?;
        }
        Ok(())
    }

    /// Lets go of a pin and of those made along with it.
    pub async fn unpin(&self, name: &str, id: u64) -> Result<()> {
        let pin = self.ring(name)?.unpin(id).await?;
        for (relative, id) in &pin.relatives {
            match self.ring(relative) {
                Ok(ring) => match ring.unpin(*id).await {
                    Err(error) if error.kind != forebay_model::Kind::Missing => return Err(error),
                    _ => {}
                },
                Err(_) => continue,
            }
        }
        Ok(())
    }

    /// Makes everything durable that was accepted, and ends the rings' work.
    pub async fn close(&self) -> Result<()> {
        let rings: Vec<Rc<Ring>> = self.rings.borrow().values().cloned().collect();
        for ring in rings {
            ring.close().await?;
        }
        self.core.catalog.borrow_mut().closed = true;
        self.core.commit().await
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
    let was_closed = std::mem::replace(&mut catalog.closed, false);
    let core = Core {
        disk,
        superblock: RefCell::new(superblock),
        catalog: RefCell::new(catalog),
        committing: Cell::new(false),
        committed: Signal::default(),
        walks_from: RefCell::default(),
        streams: Cell::new(0),
        first_pair: Cell::new(1 - pair),
        was_closed,
    };
    Ok((Rc::new(core), complaints))
}

pub(crate) fn keys_of(spec: &RingSpec) -> Result<KeySet> {
    let keys = KeySet::parse(&spec.keys)?;
    Ok(match spec.content {
        Content::Packets(link) => keys.with_link_type(LinkType(link as u16)),
        Content::Opaque => keys,
    })
}

/// What a ring asks of a place for `capacity` of it.
fn wish(spec: &RingSpec, capacity: Bytes, pin_percent: u8, without_logs: Option<bool>) -> admission::Wish {
    admission::Wish {
        capacity,
        rate: spec.guarantee,
        flush_interval: spec.flush_interval,
        segment: spec.segment,
        index: admission::index_share(spec.keys.len()),
        pin_percent,
        without_logs,
        beside: Bytes::ZERO,
    }
}

fn groups_in(layout: &Layout, runs: &[Range<Bytes>]) -> Vec<u32> {
    runs.iter()
        .flat_map(|run| {
            let first = (run.start - layout.groups_at) / layout.group;
            first..first + (run.end - run.start) / layout.group
        })
        .map(|group| group as u32)
        .collect()
}

/// The size of a segment: the one asked for, fitted into a group's data area a whole number of times.
fn segment_size(layout: &Layout, spec: &RingSpec, without_logs: bool) -> Result<Bytes> {
    let data = layout.data(!without_logs);
    let wanted = if spec.segment == Bytes::ZERO { data } else { spec.segment };
    let least = (spec.block * 2 + Bytes::kib(64)).max(Bytes::kib(256));
    if wanted > data {
        return Err(Error::usage(format!("a segment of {wanted} does not fit a group, whose data area has {data}")));
    }
    if wanted < least {
        return Err(Error::usage(format!(
            "a segment of {wanted} is too small for blocks of {}; the least is {least} (give the ring smaller blocks or larger segments)",
            spec.block
        )));
    }
    let per_group = data.0 / wanted.0;
    Ok((data / per_group).align_down(Bytes(4096)))
}

fn check_slots(layout: &Layout, slots: u64, segment: Bytes) -> Result<()> {
    let most = layout.area.0 / 2 / SEGMENT_RECORD;
    if slots > most {
        return Err(Error::usage(format!(
            "{slots} segments of {segment} are more than the {most} that this target can keep track of; use larger segments"
        )));
    }
    if slots < 3 {
        return Err(Error::usage(format!(
            "a ring of {slots} segments of {segment} cannot run round; it needs at least 3 (give it more capacity or smaller segments)"
        )));
    }
    Ok(())
}

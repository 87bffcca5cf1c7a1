//! Which rings a target has and where they lie: creating, deleting and resizing them.
//!
//! A change is made in memory, asked of admission, and is there once the catalog that holds it is durable (and what it says of itself on the
//! device, which is flushed with that); groups that
//! were given back are free only after that.

mod described;
pub(super) mod received;

use super::{Target, overhead};
use crate::admission;
use crate::catalog::{Catalog, GroupClass, Origin, RingRecord};
use crate::layout::Layout;
use crate::object::Objects;
use crate::rebuild::recovered;
use crate::ring::Ring;
use forebay_model::ring::{Beginning, ELSEWHERE, RingSpec, default_index_percent};
use forebay_model::{Bytes, Error, Rate, Result, RingId};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// Logs to which nothing more is written.
struct Barred {
    objects: Rc<Objects>,
    groups: Vec<u32>,
}

impl Drop for Barred {
    fn drop(&mut self) {
        self.objects.bar_logs(&self.groups, false);
    }
}

impl Target {
    /// Whether a ring could be created now so that all its pin budget can be used, without creating it.
    pub fn could_create(&self, spec: &RingSpec) -> Result<()> {
        self.lay_out(spec.clone(), true).map(|_| ())
    }

    /// Creates a ring, if its guarantee can be kept beside all others.
    pub async fn create_ring(&self, spec: RingSpec) -> Result<Rc<Ring>> {
        self.create_fenced_ring(spec, 0).await
    }

    /// Creates a ring that has this fence from the beginning. One of this name that was made anew of its segments gives way, if these told of
    /// a lower one.
    pub async fn create_fenced_ring(&self, spec: RingSpec, fence: u64) -> Result<Rc<Ring>> {
        self.give_way(&spec.name, fence).await?;
        let mut record = self.lay_out(spec.clone(), false)?;
        let without_logs = record.without_logs;
        let groups: Vec<u32> = record.groups.iter().flatten().copied().collect();
        let _barred = if without_logs {
            // What lies in their logs goes elsewhere first.
            let barred = self.leave_logs(&groups).await?;
            record = self.lay_out(spec, false)?;
            if !record.groups.iter().flatten().eq(&groups) {
                return Err(Error::busy("another ring was made at the same time; try again"));
            }
            Some(barred)
        } else {
            None
        };
        let id = {
            let mut catalog = self.core.catalog.borrow_mut();
            let id = RingId(catalog.next_ring);
            catalog.next_ring += 1;
            for group in &groups {
                catalog.groups[*group as usize] =
                    if without_logs { GroupClass::RingWithoutLog(id) } else { GroupClass::Ring(id) };
            }
            catalog.rings.insert(id, RingRecord { fence, ..record });
            id
        };
        let record = self.core.with_ring(id, Clone::clone);
        let kept = match self.describe_new(id, &record).await {
            Ok(()) => self.core.commit().await,
            failed => failed,
        };
        if let Err(error) = kept {
            self.forget(id);
            return Err(error);
        }
        self.start(id)
    }

    /// Decides where a ring would lie, and whether its guarantee can be kept there beside all others.
    fn lay_out(&self, mut spec: RingSpec, with_pins: bool) -> Result<RingRecord> {
        spec.check()?;
        let keys = spec.key_set()?.len();
        spec.index_percent = match spec.index_percent {
            0 => default_index_percent(keys),
            percent if keys > 0 => percent,
            _ => 0,
        };
        self.check_relatives(&spec.name, &spec.relatives)?;
        let (layout, profile) = (self.core.layout(), self.core.profile());
        if self.has_ring_named(&spec.name) {
            return Err(Error::exists(format!("there is a ring {} already", spec.name)));
        }
        if self.core.catalog.borrow().heaps.values().any(|heap| heap.name == spec.name) {
            return Err(Error::exists(format!("there is a heap {} already; choose another name", spec.name)));
        }
        let (others, free) = (self.core.demands(None), self.free_runs());
        let at = |pins| {
            admission::place(&profile, &others, &layout, &free, &wish(&layout, &spec, spec.capacity, pins, None))
        };
        // Where pins can use up their budget and the guarantee still holds; otherwise each pin will be asked for anew.
        let placed = match at(spec.pin_budget_percent) {
            Err(_) if !with_pins => at(0),
            placed => placed,
        }?;
        let (groups, without_logs) = (groups_in(&layout, &placed.places), placed.without_logs);
        spec.segment = segment_size(&layout, &spec, without_logs)?;
        spec.capacity = layout.group * groups.len() as u64;
        // Nobody takes another id before this one is taken.
        let origin = Origin::here(self.core.target_id(), RingId(self.core.catalog.borrow().next_ring));
        let mut record = RingRecord::empty(spec, groups.iter().copied().map(Some).collect(), without_logs, origin);
        check_slots(&layout, &record, groups.len(), groups.len(), self.slots_beside(None))?;
        record.slots = vec![None; groups.len() * record.segments_per_group(&layout) as usize];
        if record.spec.guarantee > Rate(0) {
            admission::admit(&profile, &others, &self.core.demand(&record))?;
            let RingSpec { guarantee, flush_interval, block, .. } = record.spec;
            admission::check_staging(&profile, guarantee, flush_interval, block)?;
        }
        Ok(record)
    }

    /// Whether there is a ring of this name, or one is taken in.
    fn has_ring_named(&self, name: &str) -> bool {
        let is_there = self.core.catalog.borrow().rings.values().any(|ring| ring.spec.name == name);
        is_there || self.received_rings.borrow().contains_key(name)
    }

    /// Segments that the catalog has, or will have, of all rings but this one.
    fn slots_beside(&self, except: Option<RingId>) -> u64 {
        let catalog = self.core.catalog.borrow();
        let others = catalog.rings.iter().filter(|(id, _)| Some(**id) != except);
        others.map(|(_, ring)| ring.slots.len() as u64).sum()
    }

    /// A ring without logs would write over them.
    fn check_logs(&self, groups: &[u32], without_logs: bool) -> Result<()> {
        match groups.iter().find(|group| without_logs && self.objects.uses_log(**group)) {
            Some(group) => Err(Error::busy(format!("the log of group {group} is just being taken home; try again"))),
            None => Ok(()),
        }
    }

    /// Bars the logs of groups for as long as the answer lives.
    fn bar(&self, groups: &[u32]) -> Barred {
        self.objects.bar_logs(groups, true);
        Barred { objects: self.objects.clone(), groups: groups.to_vec() }
    }

    /// Empties the logs of groups that are about to have none, and bars them for as long as the answer lives.
    async fn leave_logs(&self, groups: &[u32]) -> Result<Barred> {
        let barred = self.bar(groups);
        self.objects.leave_logs(groups).await?;
        self.check_logs(groups, true)?;
        Ok(barred)
    }

    /// Deletes a ring with everything in it.
    pub async fn delete_ring(&self, name: &str) -> Result<()> {
        {
            let _turn = self.receiving_rings.take().await;
            if self.let_received_ring_go(name) {
                return self.core.commit().await;
            }
        }
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
        let is_first = self.rings.borrow_mut().remove(&ring.id).is_some();
        if !is_first {
            return Err(Error::missing(format!("{name} was deleted by somebody else at the same time")));
        }
        let freed =
            self.core.with_ring(ring.id, |record| record.groups.iter().flatten().copied().collect::<Vec<u32>>());
        // As long as a crash may bring the ring back, what would be written there is overwritten by it.
        let _barred = self.bar(&freed);
        self.forget(ring.id);
        self.core.disk.expect_nothing(ring.id);
        self.set_patience();
        self.objects.leave_logs(&freed).await?;
        self.core.commit().await
    }

    fn forget(&self, id: RingId) {
        let mut catalog = self.core.catalog.borrow_mut();
        catalog.rings.remove(&id);
        for class in &mut catalog.groups {
            if is_of(*class, id) {
                *class = GroupClass::Free;
            }
        }
    }

    /// Makes a ring larger or smaller. Growing keeps everything; shrinking gives back the groups with the oldest data,
    /// and refuses where pins or the segment being written stand in the way.
    pub async fn resize_ring(&self, name: &str, capacity: Bytes) -> Result<Bytes> {
        let ring = self.ring(name)?;
        ring.ready().await?;
        // It may have been deleted meanwhile.
        ring.going()?;
        let layout = self.core.layout();
        let wanted = capacity.0.div_ceil(layout.group.0) as usize;
        if wanted < 1 {
            return Err(Error::usage(format!("a ring needs at least one group of {}", layout.group)));
        }
        let as_it_is = || {
            let record = self.core.with_ring(ring.id, Clone::clone);
            let have = record.groups.iter().flatten().count();
            // Places that were given back are counted, too: nothing else ever takes them.
            let places = record.groups.len() + wanted.saturating_sub(have);
            check_slots(&layout, &record, wanted, places, self.slots_beside(Some(ring.id)))?;
            Result::Ok((record, have))
        };
        let (_, have) = as_it_is()?;
        let _barred = match self.growth(ring.id, wanted.saturating_sub(have))? {
            Some((groups, true)) => Some(self.leave_logs(&groups).await?),
            _ => None,
        };
        ring.going()?;
        // The ring went on recording meanwhile.
        let (before, now) = as_it_is()?;
        if now != have {
            return Err(Error::busy(format!("{name} was given another size at the same time; try again")));
        }
        let freed = if wanted >= have {
            self.grow(ring.id, wanted - have)?;
            Vec::new()
        } else {
            self.shrink(ring.id, have - wanted)?
        };
        if let Err(error) = self.core.check_admission(ring.id) {
            self.take_back(ring.id, before);
            return Err(error);
        }
        let size = layout.group * wanted as u64;
        self.core.with_ring_mut(ring.id, |r| r.spec.capacity = size);
        self.core.commit().await?;
        {
            // A ring that was deleted meanwhile has none, and others may have them by now.
            let mut catalog = self.core.catalog.borrow_mut();
            let is_its = |class: &GroupClass| is_of(*class, ring.id);
            let freed: Vec<u32> =
                freed.iter().copied().filter(|group| is_its(&catalog.groups[*group as usize])).collect();
            freed.into_iter().for_each(|group| catalog.groups[group as usize] = GroupClass::Free);
        }
        self.objects.leave_logs(&freed).await?;
        self.core.commit().await?;
        ring.progressed.notify();
        Ok(size)
    }

    /// The groups that a ring would take to grow by so many, and whether they would have no logs.
    pub(super) fn growth(&self, id: RingId, more: usize) -> Result<Option<(Vec<u32>, bool)>> {
        if more == 0 {
            return Ok(None);
        }
        let layout = self.core.layout();
        let wish = self.core.with_ring(id, |r| {
            let wish = wish(&layout, &r.spec, layout.group * more as u64, 0, Some(r.without_logs));
            admission::Wish { beside: r.spec.capacity, ..wish }
        });
        let others = self.core.demands(Some(id));
        let placed = admission::place(&self.core.profile(), &others, &layout, &self.free_runs(), &wish)?;
        Ok(Some((groups_in(&layout, &placed.places), placed.without_logs)))
    }

    fn grow(&self, id: RingId, more: usize) -> Result<()> {
        let layout = self.core.layout();
        let Some((groups, without_logs)) = self.growth(id, more)? else { return Ok(()) };
        let class = if without_logs { GroupClass::RingWithoutLog(id) } else { GroupClass::Ring(id) };
        self.check_logs(&groups, without_logs)?;
        self.core.with_ring_mut(id, |r| {
            let per_group = r.segments_per_group(&layout) as usize;
            r.groups.extend(groups.iter().copied().map(Some));
            r.slots.resize(r.groups.len() * per_group, None);
        });
        let mut catalog = self.core.catalog.borrow_mut();
        for group in groups {
            catalog.groups[group as usize] = class;
        }
        Ok(())
    }

    /// Takes the groups whose newest data is oldest out of the ring.
    fn shrink(&self, id: RingId, fewer: usize) -> Result<Vec<u32>> {
        let layout = self.core.layout();
        self.core.with_ring_mut(id, |r| {
            r.check_free_after(fewer, &layout)?;
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

    /// Makes a ring's groups and slots what they were before a change; groups that it brought are free again.
    fn take_back(&self, id: RingId, before: RingRecord) {
        let mut catalog = self.core.catalog.borrow_mut();
        let Catalog { rings, groups, .. } = &mut *catalog;
        let record = rings.get_mut(&id).expect("the ring is in the catalog");
        for group in record.groups[before.groups.len()..].iter().flatten() {
            groups[*group as usize] = GroupClass::Free;
        }
        (record.groups, record.slots) = (before.groups, before.slots);
    }

    fn check_relatives(&self, name: &str, relatives: &[String]) -> Result<()> {
        for (at, relative) in relatives.iter().enumerate() {
            if relative == name {
                return Err(Error::usage(format!("{name} cannot be its own relative; name other rings")));
            }
            if relatives[..at].contains(relative) {
                return Err(Error::usage(format!("{relative} is named twice as a relative of {name}; name it once")));
            }
            // What lies elsewhere is looked for by who pins.
            if !relative.starts_with(ELSEWHERE) {
                self.ring(relative)?;
            }
        }
        Ok(())
    }

    /// The fence that is kept with a ring, if it is there and has one.
    pub fn fence_of_ring(&self, name: &str) -> Option<u64> {
        let catalog = self.core.catalog.borrow();
        let ring = catalog.rings.values().find(|ring| ring.spec.name == name)?;
        Some(ring.fence).filter(|fence| *fence > 0)
    }

    /// The names of the rings that were made anew of what their segments say, and of which nobody has [said](Self::settle_rings) that they
    /// are to be here: they may have been deleted, or have left.
    pub fn rings_made_anew(&self) -> Vec<String> {
        let catalog = self.core.catalog.borrow();
        catalog.rings.values().filter(|ring| ring.anew.is_some()).map(|ring| ring.spec.name.clone()).collect()
    }

    /// Whoever knows all rings says of some that were made anew here whether they are to be here. One that is not loses its name, and is
    /// promised nothing. Others than such rings stay as they are. Durable when it is answered.
    pub async fn settle_rings(&self, rings: &BTreeMap<String, bool>) -> Result<()> {
        let settled: BTreeMap<RingId, bool> = {
            let catalog = self.core.catalog.borrow();
            let anew = catalog.rings.iter().filter(|(_, ring)| ring.anew.is_some());
            anew.filter_map(|(id, ring)| Some((*id, *rings.get(&ring.spec.name)?))).collect()
        };
        if settled.is_empty() {
            return Ok(());
        }
        for (id, is_to_be_here) in settled {
            match is_to_be_here {
                true => self.core.with_ring_mut(id, |ring| ring.anew = None),
                false => self.set_aside(id),
            }
        }
        // If it cannot be made durable it may be either after a crash: it was not answered.
        self.core.commit().await
    }

    /// A ring of this name that was made anew is set aside, if its segments told of a fence below `fence`: whoever knows all rings of this name
    /// makes another one here, so it had been deleted, or had left. Durable when it is answered.
    async fn give_way(&self, name: &str, fence: u64) -> Result<()> {
        let found = {
            let catalog = self.core.catalog.borrow();
            let is_it = |ring: &RingRecord| ring.spec.name == name && ring.anew.is_some_and(|told| told < fence);
            catalog.rings.iter().find(|(_, ring)| is_it(ring)).map(|(id, _)| *id)
        };
        let Some(id) = found else { return Ok(()) };
        self.set_aside(id);
        // If it cannot be made durable it may be either after a crash: it was not answered.
        self.core.commit().await
    }

    /// Takes its name from a ring, and what it is promised.
    fn set_aside(&self, id: RingId) {
        {
            let mut catalog = self.core.catalog.borrow_mut();
            let Catalog { rings, heaps, .. } = &mut *catalog;
            let is_taken = |name: &str| {
                rings
                    .values()
                    .map(|ring| &ring.spec.name)
                    .chain(heaps.values().map(|heap| &heap.name))
                    .any(|it| it == name)
            };
            let aside = recovered(id, is_taken);
            let ring = rings.get_mut(&id).expect("who sets it aside found it there");
            (ring.spec.name, ring.spec.guarantee, ring.anew) = (aside, Rate(0), None);
        }
        self.expect(id);
    }

    /// Keeps this fence with a ring; durable when it is answered. Whether the ring is there.
    pub async fn fence_ring(&self, name: &str, fence: u64) -> Result<bool> {
        {
            let mut catalog = self.core.catalog.borrow_mut();
            let Some(ring) = catalog.rings.values_mut().find(|ring| ring.spec.name == name) else { return Ok(false) };
            // If it cannot be made durable it may be there after a crash as well as not: it was not answered.
            ring.fence = fence;
        }
        self.core.commit().await.map(|()| true)
    }

    /// Has a ring into which nothing was ever recorded go on with what another target has; durable when it is answered. One that
    /// has something stays as it is. [`forebay_model::Kind::Usage`] if no other target can have so much.
    pub async fn begin_ring(&self, name: &str, beginning: Beginning) -> Result<()> {
        beginning.check()?;
        let ring = self.ring(name)?;
        ring.ready().await?;
        // It may have been deleted meanwhile.
        ring.going()?;
        match ring.begin(beginning) {
            true => self.core.commit().await,
            false => Ok(()),
        }
    }

    /// Gives a ring these relatives, which are pinned along with it from now on, and no others.
    pub async fn relate_ring(&self, name: &str, relatives: Vec<String>) -> Result<()> {
        let ring = self.ring(name)?;
        self.check_relatives(name, &relatives)?;
        let swap = |with| self.core.with_ring_mut(ring.id, |r| std::mem::replace(&mut r.spec.relatives, with));
        let before = swap(relatives);
        self.core.commit().await.inspect_err(|_| {
            // Meanwhile it may have been deleted.
            if self.core.has_ring(ring.id) {
                drop(swap(before));
            }
        })
    }
}

fn is_of(class: GroupClass, ring: RingId) -> bool {
    matches!(class, GroupClass::Ring(id) | GroupClass::RingWithoutLog(id) if id == ring)
}

/// What a ring asks of a place for `capacity` of it.
fn wish(
    layout: &Layout,
    spec: &RingSpec,
    capacity: Bytes,
    pin_percent: u8,
    without_logs: Option<bool>,
) -> admission::Wish {
    let segment = if spec.segment == Bytes::ZERO { layout.data(true) } else { spec.segment };
    admission::Wish {
        capacity,
        rate: spec.guarantee,
        flush_interval: spec.flush_interval,
        segment: spec.segment,
        index: overhead(spec, segment),
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

/// Whether a ring with `groups` groups, in a list of `places`, can run round and be kept track of beside `others` segments of
/// other rings.
fn check_slots(layout: &Layout, record: &RingRecord, groups: usize, places: usize, others: u64) -> Result<()> {
    let (per_group, segment) = (u64::from(record.segments_per_group(layout)), record.segment);
    let most = RingRecord::most_slots(layout);
    let listed = places as u64 * per_group;
    if listed + others > most {
        let beside = if others > 0 { format!(", beside {others} of other rings,") } else { String::new() };
        return Err(Error::usage(format!(
            "{listed} segments of {segment}{beside} are more than the {most} that this target can keep track of; use larger segments"
        )));
    }
    let slots = groups as u64 * per_group;
    if slots < 3 {
        return Err(Error::usage(format!(
            "a ring of {slots} segments of {segment} cannot run round; it needs at least 3 (give it more capacity or smaller segments)"
        )));
    }
    Ok(())
}

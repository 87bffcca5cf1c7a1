//! Who serves the mixed load: blocks in place, blocks behind one log, and objects on a target; and a log that is always
//! where the arm is, which nobody can build.

use super::LOGGED;
use super::place::{PIECE, REGIONS, Regions, WRITTEN};
use super::trace::Access;
use crate::disk::{Op, SimDisk};
use crate::fresh;
use crate::logs::array::Array;
use crate::logs::disks::Disks;
use crate::logs::elevator::ElevatorSpec;
use crate::logs::log::{Log, Order};
use crate::logs::place::BLOCK;
use crate::logs::system::Doing;
use crate::world::World;
use forebay_model::ring::RingSpec;
use forebay_model::{Bytes, Error, ObjectId, Result};
use forebay_target::Target;
use forebay_target::object::Placement;
use forebay_target::schedule::StreamId;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Serves accesses.
pub(super) trait System {
    /// Does one; a write is durable when it has ended.
    fn access(&self, access: Access) -> Doing;
}

/// A disk behind a kernel's queue, with all regions written.
fn written(world: &World, disk: &SimDisk, regions: &Regions) -> Result<Rc<Array>> {
    let array = Rc::new(Array::new(&Disks::simulated(world, std::slice::from_ref(disk)), &ElevatorSpec::default())?);
    world.run(async {
        for region in 0..REGIONS {
            for at in (0..regions.length).step_by(PIECE as usize) {
                array.transfer(Op::Write, regions.at(region) + at, PIECE.min(regions.length - at)).await?;
            }
        }
        array.flush().await
    })?;
    Ok(array)
}

/// Every block in its place.
pub(super) struct Home {
    array: Rc<Array>,
    regions: Regions,
}

impl Home {
    pub(super) fn build(world: &World, disk: &SimDisk, regions: &Regions) -> Result<Home> {
        Ok(Home { array: written(world, disk, regions)?, regions: regions.clone() })
    }
}

impl System for Home {
    fn access(&self, access: Access) -> Doing {
        let (array, at) = (self.array.clone(), self.regions.at(access.region) + access.at);
        Box::pin(async move {
            array.transfer(access.op, at, access.length).await?;
            if access.op == Op::Write { array.flush().await } else { Ok(()) }
        })
    }
}

/// One log at the outer edge, or [`Place::UnderArm`]. What lies in it is read from there. Appends are under way side by
/// side, each with a block that describes and proves it: a block device owes nobody an order between them.
pub(super) struct OneLog {
    array: Rc<Array>,
    regions: Regions,
    log: Rc<Log>,
    place: Place,
    /// Where in the log the newest content of blocks is, by their place.
    places: Rc<RefCell<BTreeMap<u64, u64>>>,
}

/// Where the log is.
pub(super) enum Place {
    /// At the outer edge.
    Outside,
    /// Wherever the disk was last asked for something else, where the tracks near that do not overlap, without end: the
    /// best that choosing a place can give. Holds where that was, and how much was ever appended. What it holds is
    /// found at home as well, in no time.
    UnderArm(Cell<u64>, Cell<u64>),
}

impl OneLog {
    pub(super) fn build(world: &World, disk: &SimDisk, regions: &Regions, place: Place) -> Result<OneLog> {
        let array = written(world, disk, regions)?;
        let log = Log::new(array.clone(), world.clock(), regions.log.clone(), Order::Places);
        Ok(OneLog { array, log, regions: regions.clone(), place, places: Rc::default() })
    }

    /// Where the bytes of a range are, neighbours as one.
    fn find(&self, at: u64, length: u64) -> Vec<(u64, u64)> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        let places = self.places.borrow();
        for block in (at..at + length).step_by(BLOCK.0 as usize) {
            let place = places.get(&block).filter(|_| self.log.holds(block)).copied().unwrap_or(block);
            match ranges.last_mut() {
                Some((start, length)) if *start + *length == place => *length += BLOCK.0,
                _ => ranges.push((place, BLOCK.0)),
            }
        }
        ranges
    }

    fn append(&self, at: u64, length: u64) -> Doing {
        let array = self.array.clone();
        if let Place::UnderArm(arm, appended) = &self.place {
            let place = self.regions.plain_near(arm.get(), appended.get());
            appended.set(appended.get() + length + BLOCK.0);
            return Box::pin(async move {
                array.transfer(Op::Write, place, length + BLOCK.0).await?;
                array.flush().await
            });
        }
        let (log, places) = (self.log.clone(), self.places.clone());
        Box::pin(async move {
            let blocks = (at..at + length).step_by(BLOCK.0 as usize);
            let to = log.append(1 + (length / BLOCK.0) as usize).await?;
            array.flush().await?;
            log.keep(blocks.clone());
            places.borrow_mut().extend(blocks.zip((to + BLOCK.0..).step_by(BLOCK.0 as usize)));
            Ok(())
        })
    }
}

impl System for OneLog {
    fn access(&self, access: Access) -> Doing {
        let (array, at) = (self.array.clone(), self.regions.at(access.region) + access.at);
        if access.op == Op::Write && access.length <= LOGGED {
            return self.append(at, access.length);
        }
        if let Place::UnderArm(arm, _) = &self.place {
            arm.set(at);
        }
        if access.op == Op::Read {
            let ranges = self.find(at, access.length);
            return Box::pin(async move { array.transfer_all(Op::Read, &ranges).await });
        }
        // Those blocks are never logged in this load, so that nothing in the log is hidden by them.
        Box::pin(async move {
            array.transfer(Op::Write, at, access.length).await?;
            array.flush().await
        })
    }
}

/// The volume of all objects.
const VOLUME: u64 = 1;

/// Ours: an object for each region.
pub(super) struct Nearest {
    target: Rc<Target>,
    /// One user's accesses: nobody tells the opponents apart, either.
    stream: StreamId,
}

impl Nearest {
    pub(super) fn build(world: &World, disk: &SimDisk, regions: &Regions) -> Result<Nearest> {
        let env = world.env(disk.clone());
        world.run(async {
            let profile = fresh::measured(&env, fresh::MINUTE).await?;
            // While all places are equally fast, rings go to the last that is free.
            let target = fresh::target(env.clone(), fresh::guessed(&env), VOLUME).await?;
            fill(&target, regions).await?;
            target.set_profile(profile).await?;
            // Opponents have no memory for what was read, either.
            target.objects().set_cache(Bytes::ZERO);
            Ok(Nearest { stream: target.stream(), target })
        })
    }
}

fn object(region: u32) -> ObjectId {
    ObjectId { volume: VOLUME, object: u64::from(region) + 1 }
}

/// Puts an object into the group of each region: all other groups are those of rings meanwhile and stay so.
async fn fill(target: &Rc<Target>, regions: &Regions) -> Result<()> {
    let layout = regions.layout;
    let gap = |n: u32| format!("/gap{n}");
    let ring = |name: String, groups: u32| {
        // A ring of one group has four segments: three are needed to run round in.
        let segment = if groups < 3 { Bytes(layout.data(true).0 / 4).align_down(Bytes::mib(1)) } else { Bytes::ZERO };
        let spec = RingSpec { block: Bytes::kib(4), segment, ..RingSpec::new(name, layout.group * u64::from(groups)) };
        async move { target.create_ring(spec).await.map(drop) }
    };
    let mut end = regions.behind;
    ring(gap(REGIONS), layout.groups - end).await?;
    for region in (0..REGIONS).rev() {
        // What is written over goes to fresh blocks: beside the old ones.
        let (group, groups) = (regions.groups[region as usize], if region == WRITTEN { 2 } else { 1 });
        ring(format!("/used{region}"), end - group - groups).await?;
        ring(gap(region), groups).await?;
        end = group;
    }
    let left: u64 = target.free_runs().iter().map(|run| (run.end - run.start) / layout.group).sum();
    ring("/front".into(), left as u32).await?;
    for n in (0..=REGIONS).filter(|n| *n != WRITTEN) {
        target.delete_ring(&gap(n)).await?;
    }
    // Groups are taken by four; the last of these is filled, too, so that nothing else finds room in them.
    for region in (0..REGIONS).filter(|n| *n != WRITTEN).chain([REGIONS]) {
        write_region(target, region, regions).await?;
    }
    target.delete_ring(&gap(WRITTEN)).await?;
    write_region(target, WRITTEN, regions).await?;
    for region in 0..REGIONS {
        let begins = target.objects().extents(object(region)).await?.first().map(|extent| extent.at);
        if begins != Some(Bytes(regions.at(region))) {
            return Err(Error::usage(format!("region {region} lies at {begins:?}, not at {}", regions.at(region))));
        }
    }
    target.objects().take_home().await.map(drop)
}

async fn write_region(target: &Rc<Target>, region: u32, regions: &Regions) -> Result<()> {
    let (objects, stream, id) = (target.objects(), target.stream(), object(region));
    let bytes = vec![7; PIECE as usize];
    objects.create(id, Vec::new()).await?;
    for at in (0..regions.length).step_by(PIECE as usize) {
        let length = PIECE.min(regions.length - at) as usize;
        objects.write(stream, id, at, &bytes[..length], Placement::Home).await?;
    }
    Ok(())
}

impl System for Nearest {
    fn access(&self, access: Access) -> Doing {
        let (objects, stream) = (self.target.objects().clone(), self.stream);
        Box::pin(async move {
            let (id, Access { at, length, .. }) = (object(access.region), access);
            if access.op == Op::Read {
                return objects.read(stream, id, at, length).await.map(drop);
            }
            objects.write(stream, id, at, &vec![5; length as usize], Placement::Auto).await
        })
    }
}

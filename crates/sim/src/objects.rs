//! The life of objects, by chance: several users, each with objects of its own, give commands of all kinds and sizes,
//! and the power is cut at any I/O; one life after another on the same disk, each compared with a plain model.
//!
//! Checked after every opening: a command that was acknowledged took effect; the one that each user was waiting for
//! took effect as a whole, or not at all; what a volume says that it holds is what its objects hold. Checked at every
//! read: the bytes are those of the model.

use crate::disk::DiskSpec;
use crate::world::World;
use forebay_env::{Env, Random};
use forebay_model::{Kind, ObjectId, Profile};
use forebay_target::Target;
use forebay_target::object::Placement;
use forebay_target::object::rows::{BLOCK, Quota};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// Users at once.
const USERS: u64 = 4;
/// Objects of each.
const OBJECTS: u64 = 3;
/// The volume of all.
const VOLUME: u64 = 1;
/// The largest object.
const LARGEST: u64 = 3 << 20;

/// What a run of lives has done, so that a run that did nothing counts as nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    /// Power cuts and kills survived.
    pub crashes: u64,
    /// Commands acknowledged.
    pub commands: u64,
    /// Commands that were under way at a crash and had taken effect, and those that had not.
    pub there: u64,
    /// See [`Tally::there`].
    pub absent: u64,
    /// Bytes read back and compared.
    pub compared: u64,
    /// Blocks taken home from logs.
    pub homed: u64,
    /// Logs that were emptied into others.
    pub swaps: u64,
}

impl Tally {
    /// Adds another run's.
    pub fn add(&mut self, other: &Tally) {
        self.crashes += other.crashes;
        self.commands += other.commands;
        self.there += other.there;
        self.absent += other.absent;
        self.compared += other.compared;
        self.homed += other.homed;
        self.swaps += other.swaps;
    }
}

/// What the model knows of one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Known {
    bytes: Vec<u8>,
    attribute: Option<Vec<u8>>,
}

/// The plain model: what each object is, and what it is if the command under way took effect.
#[derive(Default)]
struct Model {
    objects: BTreeMap<ObjectId, Known>,
    under_way: BTreeMap<ObjectId, Option<Known>>,
    tally: Tally,
}

/// Lives `lives` lives on a fresh disk of `spec`.
pub fn live(seed: u64, spec: DiskSpec, lives: u32) -> Tally {
    let world = World::new(seed);
    let disk = world.disk(spec);
    let random = world.random();
    let model = Rc::new(RefCell::new(Model::default()));
    world.run(async {
        let env = world.env(disk.clone());
        let geometry = env.device.geometry();
        Target::format(env.clone(), Profile::guess(geometry.size, geometry.rotates))
            .await
            .expect("it can be formatted");
        let target = Target::open(env).await.expect("a formatted disk opens");
        target.objects().create_volume(VOLUME, Quota::default()).await.expect("a volume fits");
    });
    world.kill();
    for _ in 0..lives {
        let env = world.env(disk.clone());
        if random.below(8) > 0 {
            disk.cut_after(1 + random.below(300));
        }
        let outcome = world.run_until_cut(one_life(env, world.spawner(), model.clone()));
        disk.no_cut();
        match outcome {
            Ok(()) if random.below(2) == 0 => world.kill(),
            Ok(()) => world.crash(&[&disk]),
            Err(_) => {}
        }
        model.borrow_mut().tally.crashes += 1;
        world.run(verify(world.env(disk.clone()), model.clone(), seed));
        world.kill();
    }
    model.take().tally
}

async fn one_life(env: Env, spawner: forebay_env::Spawner, model: Rc<RefCell<Model>>) {
    let random = env.random.clone();
    let target = Target::open(env).await.expect("the target opens");
    target.objects().ready().await.expect("the logs are read");
    let mut users = Vec::new();
    for user in 0..USERS {
        let (target, model, random) = (target.clone(), model.clone(), random.clone());
        users.push(spawner.spawn(async move {
            for _ in 0..random.below(40) {
                let id = ObjectId { volume: VOLUME, object: 1 + user * OBJECTS + random.below(OBJECTS) };
                command(&target, &model, &random, id).await;
                if random.below(12) == 0 {
                    // In a pause logs change places.
                    target.disk().env().clock.sleep(Duration::from_millis(random.below(400))).await;
                }
            }
        }));
    }
    for user in users {
        user.await;
        if random.below(4) == 0 {
            model.borrow_mut().tally.homed += target.objects().take_home().await.expect("a healthy disk takes it");
        }
    }
    model.borrow_mut().tally.swaps += target.objects().counters().swaps;
    if random.below(3) == 0 {
        target.close().await.expect("it closes");
    }
}

/// One command to one object, with what the model makes of it before and after.
async fn command(target: &Rc<Target>, model: &Rc<RefCell<Model>>, random: &Rc<dyn Random>, id: ObjectId) {
    let objects = target.objects();
    let stream = target.stream();
    let now = model.borrow().objects.get(&id).cloned();
    let Some(known) = now else {
        let attribute = (random.below(2) == 0).then(|| vec![7; random.below(300) as usize]);
        begin(model, id, Some(Known { bytes: Vec::new(), attribute: attribute.clone() }));
        let attributes = attribute.into_iter().map(|value| (9, 1, value)).collect();
        objects.create(id, attributes).await.expect("it does not exist");
        return end(model, id);
    };
    let mut next = known.clone();
    let length = match random.below(6) {
        0 => 1 + random.below(1 << 20),
        1 => 1 + random.below(300 << 10),
        2 => (1 + random.below(8)) * BLOCK.0,
        _ => 1 + random.below(9000),
    };
    let place = [Placement::Auto, Placement::Auto, Placement::Home, Placement::Log][random.below(4) as usize];
    match random.below(100) {
        0..50 => {
            let mut offset = random.below(LARGEST - length);
            if random.below(2) == 0 {
                offset = offset / BLOCK.0 * BLOCK.0;
            }
            let bytes = content(random, length);
            put(&mut next.bytes, offset, &bytes);
            begin(model, id, Some(next));
            objects.write(stream, id, offset, &bytes, place).await.expect("it fits");
        }
        50..60 => {
            if known.bytes.len() as u64 + length > LARGEST {
                return;
            }
            let bytes = content(random, length);
            next.bytes.extend(&bytes);
            begin(model, id, Some(next));
            let at = objects.append(stream, id, &bytes, place).await.expect("it fits");
            assert_eq!(at, known.bytes.len() as u64, "where it was appended");
        }
        60..67 => {
            let size = random.below(LARGEST);
            next.bytes.resize(size as usize, 0);
            begin(model, id, Some(next));
            objects.truncate(id, size).await.expect("it exists");
        }
        67..75 => {
            let offset = random.below(LARGEST);
            let end = (offset + length).min(next.bytes.len() as u64);
            if offset < end {
                next.bytes[offset as usize..end as usize].fill(0);
            }
            begin(model, id, Some(next));
            objects.punch(id, offset, length).await.expect("it exists");
        }
        75..80 => {
            next.attribute = (random.below(3) > 0).then(|| vec![random.below(256) as u8; random.below(500) as usize]);
            begin(model, id, Some(next.clone()));
            objects.set_attributes(id, vec![(9, 1, next.attribute)]).await.expect("it exists");
        }
        80..84 => {
            begin(model, id, None);
            objects.remove(id).await.expect("it exists");
        }
        84..88 => {
            let again = objects.create(id, Vec::new()).await;
            assert_eq!(again.expect_err("it exists").kind, Kind::Exists);
            return;
        }
        _ => {
            let offset = random.below(LARGEST);
            let bytes = objects.read(stream, id, offset, length).await.expect("it can be read");
            let from = (offset as usize).min(known.bytes.len());
            let to = (from + length as usize).min(known.bytes.len());
            assert!(bytes == known.bytes[from..to], "{id} reads differently at {offset}, {length} bytes");
            model.borrow_mut().tally.compared += bytes.len() as u64;
            return;
        }
    }
    end(model, id);
}

fn content(random: &Rc<dyn Random>, length: u64) -> Vec<u8> {
    let start = random.next_u64();
    (0..length).map(|n| (start.wrapping_add(n / 7).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u8 | 1).collect()
}

fn put(bytes: &mut Vec<u8>, offset: u64, new: &[u8]) {
    let end = offset as usize + new.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset as usize..end].copy_from_slice(new);
}

fn begin(model: &Rc<RefCell<Model>>, id: ObjectId, next: Option<Known>) {
    model.borrow_mut().under_way.insert(id, next);
}

/// The command under way was acknowledged.
fn end(model: &Rc<RefCell<Model>>, id: ObjectId) {
    let mut model = model.borrow_mut();
    if let Some(next) = model.under_way.remove(&id) {
        settle(&mut model, id, next);
    }
    model.tally.commands += 1;
}

fn settle(model: &mut Model, id: ObjectId, next: Option<Known>) {
    match next {
        Some(known) => drop(model.objects.insert(id, known)),
        None => drop(model.objects.remove(&id)),
    }
}

/// Opens the target and compares all objects with the model.
async fn verify(env: Env, model: Rc<RefCell<Model>>, seed: u64) {
    let target = Target::open(env).await.unwrap_or_else(|e| panic!("seed {seed}: the target does not open: {e}"));
    let objects = target.objects();
    objects.ready().await.unwrap_or_else(|e| panic!("seed {seed}: the logs are not read: {e}"));
    let mut found = BTreeMap::new();
    let mut blocks = 0;
    for entry in objects.list(VOLUME, 0, 1000).await.expect("a volume can be listed") {
        let bytes = objects.read(target.stream(), entry.id, 0, u64::MAX).await;
        let bytes = bytes.unwrap_or_else(|e| panic!("seed {seed}: {} cannot be read: {e}", entry.id));
        assert_eq!(bytes.len() as u64, entry.head.size, "seed {seed}: {} is shorter than it says", entry.id);
        let attribute = objects.attributes(entry.id, 9).await.expect("attributes can be read").pop();
        blocks += entry.head.blocks;
        found.insert(entry.id, Known { bytes, attribute: attribute.map(|(_, value)| value) });
    }
    let volume = objects.head(ObjectId::volume(VOLUME)).await.expect("the volume is there").volume.expect("it is one");
    assert_eq!((volume.objects, volume.blocks), (found.len() as u64, blocks), "seed {seed}: what the volume holds");
    let mut model = model.borrow_mut();
    for (id, next) in std::mem::take(&mut model.under_way) {
        let there = found.get(&id) == next.as_ref();
        if there {
            settle(&mut model, id, next);
            model.tally.there += 1;
        } else {
            model.tally.absent += 1;
        }
    }
    for (id, known) in &model.objects {
        let Some(read) = found.get(id) else { panic!("seed {seed}: {id} is gone") };
        let first = read.bytes.iter().zip(&known.bytes).position(|(a, b)| a != b);
        assert!(
            read == known,
            "seed {seed}: {id} has {} bytes and should have {}; the first that differs is {first:?}",
            read.bytes.len(),
            known.bytes.len()
        );
    }
    assert_eq!(found.len(), model.objects.len(), "seed {seed}: an object is there that was removed");
    model.tally.compared += found.values().map(|known| known.bytes.len() as u64).sum::<u64>();
    assert_eq!(target.disk().failure(), None, "seed {seed}: a healthy disk failed");
}

#[cfg(test)]
mod tests;

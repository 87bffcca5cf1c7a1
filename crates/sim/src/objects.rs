//! The life of objects, by chance: several users, each with objects of its own, give commands of all kinds and sizes,
//! and the power is cut at any I/O; one life after another on the same disk, each compared with a plain model.
//!
//! Checked after every opening: a command that was acknowledged took effect; the one that each user was waiting for
//! took effect as a whole, or not at all; of what was acknowledged as buffered and not flushed, each object has all up to
//! some command, and nothing of those after it; what a volume says that it holds is what its objects hold. Checked before
//! every opening, on the disk as the power cut left it: what rows say of one another, of free space and of logs is so, and
//! all bytes match. Checked at every read: the bytes are those of the model.

pub mod rot;

use crate::disk::{DiskSpec, SimDisk};
use crate::world::World;
use crate::{fresh, life};
use forebay_env::{Env, Random};
use forebay_model::object::Durability;
use forebay_model::{Bytes, Kind, ObjectId};
use forebay_target::Target;
use forebay_target::object::inline::INLINE_UP_TO;
use forebay_target::object::lent::joined;
use forebay_target::object::rows::BLOCK;
use forebay_target::object::{How, Placement, Scope};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// Users at once.
const USERS: u64 = 4;
/// Objects of each.
const OBJECTS: u64 = 4;
/// The volume of all.
const VOLUME: u64 = 1;
/// The largest object.
const LARGEST: u64 = 3 << 20;
/// The largest of those that stay about as small as what is inline: the last ones of each user.
const LARGEST_SMALL: u64 = 3 << 10;

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
    /// Objects of which a crash took commands that were buffered, and those of which it could have taken some.
    pub lost: u64,
    /// See [`Tally::lost`].
    pub at_risk: u64,
    /// Bytes read back and compared.
    pub compared: u64,
    /// Blocks taken home from logs.
    pub homed: u64,
    /// Snapshots made.
    pub snapshots: u64,
    /// Commands that left an object with bytes and small enough to be inline, and those that made such a one larger.
    pub small: u64,
    /// See [`Tally::small`].
    pub outgrown: u64,
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
        self.lost += other.lost;
        self.at_risk += other.at_risk;
        self.compared += other.compared;
        self.homed += other.homed;
        self.snapshots += other.snapshots;
        self.small += other.small;
        self.outgrown += other.outgrown;
        self.swaps += other.swaps;
    }
}

/// What the model knows of one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    /// All of its bytes.
    pub bytes: Vec<u8>,
    /// Its one attribute.
    pub attribute: Option<Vec<u8>>,
}

/// The plain model: what each object is, what it is if the command under way took effect, and what it may be after a
/// crash.
#[derive(Default)]
struct Model {
    objects: BTreeMap<ObjectId, Known>,
    under_way: BTreeMap<ObjectId, Option<Known>>,
    /// As of each command that was buffered since the last that is durable, and as of that one: numbered, oldest first.
    perhaps: BTreeMap<ObjectId, Vec<(u64, Known)>>,
    next: u64,
    tally: Tally,
}

impl Model {
    /// A flush has ended that began when commands before `number` were acknowledged.
    fn flushed(&mut self, number: u64, covers: impl Fn(ObjectId) -> bool) {
        for (_, states) in self.perhaps.iter_mut().filter(|(id, _)| covers(**id)) {
            let durable = states.iter().take_while(|(n, _)| *n < number).count();
            states.drain(..durable.saturating_sub(1));
        }
        self.perhaps.retain(|_, states| states.len() > 1);
    }
}

/// Lives `lives` lives on a fresh disk of `spec`.
pub fn live(seed: u64, spec: DiskSpec, lives: u32) -> Tally {
    let (.., model) = lived(seed, spec, lives);
    model.take().tally
}

/// A world in which so many lives were lived, and what has to be on its disk.
fn lived(seed: u64, spec: DiskSpec, lives: u32) -> (World, SimDisk, Rc<RefCell<Model>>) {
    let world = World::new(seed);
    let disk = world.disk(spec);
    let model = Rc::new(RefCell::new(Model::default()));
    world.run(async {
        let env = world.env(disk.clone());
        let profile = fresh::guessed(&env);
        fresh::target(env, profile, VOLUME).await.expect("a healthy disk can be formatted and opened");
    });
    world.kill();
    for _ in 0..lives {
        let env = world.env(disk.clone());
        life::ended(&world, &disk, 300, one_life(env, world.spawner(), model.clone()), async |env| {
            let target = Target::open(env).await.expect("the target opens");
            target.objects().ready().await.expect("the records are found");
        });
        model.borrow_mut().tally.crashes += 1;
        world.run(look_over(world.env(disk.clone()), seed));
        world.run(verify(world.env(disk.clone()), model.clone(), seed));
        world.kill();
    }
    (world, disk, model)
}

async fn one_life(env: Env, spawner: forebay_env::Spawner, model: Rc<RefCell<Model>>) {
    let random = env.random.clone();
    let target = Target::open(env).await.expect("the target opens");
    target.objects().ready().await.expect("the logs are read");
    if random.below(2) == 0 {
        // Rows come and go as on a large target.
        target.objects().set_rows_in_memory(Bytes::ZERO);
    }
    if random.below(2) == 0 {
        // And what is shared, or follows one another, lies in several leaves.
        target.objects().set_leaf_split(Bytes(200 + random.below(2000)));
    }
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
        model.borrow_mut().perhaps.clear();
    }
}

/// One command to one object, with what the model makes of it before and after.
async fn command(target: &Rc<Target>, model: &Rc<RefCell<Model>>, random: &Rc<dyn Random>, id: ObjectId) {
    let objects = target.objects();
    let stream = target.stream();
    let now = model.borrow().objects.get(&id).cloned();
    let Some(known) = now else {
        // One of the same user's that exist, as it is now.
        let first = id.object - (id.object - 1) % OBJECTS;
        let of = ObjectId { object: first + random.below(OBJECTS), ..id };
        let known = model.borrow().objects.get(&of).cloned();
        if let Some(known) = known {
            begin(model, id, Some(known));
            objects.snapshot(of, id, Vec::new()).await.expect("it does not exist");
            // What was buffered of the other one went before.
            let mut now = model.borrow_mut();
            now.perhaps.remove(&of);
            now.tally.snapshots += 1;
            drop(now);
            return end(model, id);
        }
        let attribute = (random.below(2) == 0).then(|| vec![7; random.below(300) as usize]);
        begin(model, id, Some(Known { bytes: Vec::new(), attribute: attribute.clone() }));
        let attributes = attribute.into_iter().map(|value| (9, 1, value)).collect();
        objects.create(id, attributes).await.expect("it does not exist");
        return end(model, id);
    };
    let mut next = known.clone();
    let (small, largest) = match id.object % OBJECTS {
        0 => (true, LARGEST_SMALL),
        _ => (false, LARGEST),
    };
    let length = match random.below(6) {
        _ if small => 1 + random.below(900),
        0 => 1 + random.below(1 << 20),
        1 => 1 + random.below(300 << 10),
        2 => (1 + random.below(8)) * BLOCK.0,
        _ => 1 + random.below(9000),
    };
    let placement = [Placement::Auto, Placement::Auto, Placement::Home, Placement::Log][random.below(4) as usize];
    let durability = [Durability::Durable, Durability::Buffered][random.below(2) as usize];
    let ride = (random.below(6) == 0).then(|| vec![random.below(256) as u8; random.below(500) as usize]);
    let set = ride.iter().map(|value| (9, 1, Some(value.clone()))).collect();
    // What is to lie in a log, and what attributes ride on, is durable at once.
    let buffered = durability == Durability::Buffered && placement != Placement::Log && ride.is_none();
    let how = How { placement, durability, set, ..How::default() };
    match random.below(100) {
        0..50 => {
            let mut offset = random.below(largest - length);
            if small && random.below(2) == 0 {
                offset = 0;
            } else if random.below(2) == 0 {
                offset = offset / BLOCK.0 * BLOCK.0;
            }
            let bytes = content(random, length);
            put(&mut next.bytes, offset, &bytes);
            next.attribute = ride.or(next.attribute);
            begin(model, id, Some(next));
            objects.write_as(stream, id, Some(offset), &bytes, &how).await.expect("it fits");
            return if buffered { end_buffered(model, id) } else { end(model, id) };
        }
        50..60 => {
            if known.bytes.len() as u64 + length > LARGEST {
                return;
            }
            let bytes = content(random, length);
            next.bytes.extend(&bytes);
            next.attribute = ride.or(next.attribute);
            begin(model, id, Some(next));
            let at = objects.write_as(stream, id, None, &bytes, &how).await.expect("it fits");
            assert_eq!(at, known.bytes.len() as u64, "where it was appended");
            return if buffered { end_buffered(model, id) } else { end(model, id) };
        }
        60..67 => {
            let size = random.below(largest);
            next.bytes.resize(size as usize, 0);
            next.attribute = ride.or(next.attribute);
            begin(model, id, Some(next));
            objects.truncate_as(id, size, &how.set).await.expect("it exists");
        }
        67..75 => {
            let offset = random.below(largest);
            let end = (offset + length).min(next.bytes.len() as u64);
            if offset < end {
                next.bytes[offset as usize..end as usize].fill(0);
            }
            next.attribute = ride.or(next.attribute);
            begin(model, id, Some(next));
            objects.punch_as(id, offset, length, &how.set).await.expect("it exists");
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
            let length = length.max(1 << 20);
            let offset = random.below(LARGEST);
            let (scope, covers): (Scope, &dyn Fn(ObjectId) -> bool) = match random.below(4) {
                0 => (Scope::Object(id), &|other| other == id),
                // Where nothing of it is buffered, nothing becomes durable.
                1 => (Scope::Range(id, offset, length), &|_| false),
                2 => (Scope::Volume(VOLUME), &|_| true),
                _ => (Scope::Target, &|_| true),
            };
            let number = model.borrow().next;
            objects.flush_buffered(scope, Some(objects.boot_epoch())).await.expect("it has room");
            return model.borrow_mut().flushed(number, covers);
        }
        88..90 => {
            return target.disk().env().clock.sleep(Duration::from_millis(random.below(3000))).await;
        }
        90..92 => {
            let again = objects.create(id, Vec::new()).await;
            assert_eq!(again.expect_err("it exists").kind, Kind::Exists);
            return;
        }
        _ => {
            let offset = random.below(largest);
            let (bytes, riding) =
                objects.read_with(stream, id, offset, length, 9, usize::MAX).await.expect("it can be read");
            assert_eq!(riding.into_iter().next().map(|(_, value)| value), known.attribute, "what rides on a read");
            let from = (offset as usize).min(known.bytes.len());
            let to = (from + length as usize).min(known.bytes.len());
            assert!(joined(bytes) == known.bytes[from..to], "{id} reads differently at {offset}, {length} bytes");
            model.borrow_mut().tally.compared += (to - from) as u64;
            return;
        }
    }
    end(model, id);
}

fn content(random: &Rc<dyn Random>, length: u64) -> Vec<u8> {
    let start = random.next_u64();
    (0..length).map(|n| (start.wrapping_add(n / 7).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u8 | 1).collect()
}

/// What a write makes of an object's bytes.
pub fn put(bytes: &mut Vec<u8>, offset: u64, new: &[u8]) {
    let end = offset as usize + new.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset as usize..end].copy_from_slice(new);
}

fn begin(model: &Rc<RefCell<Model>>, id: ObjectId, next: Option<Known>) {
    model.borrow_mut().under_way.insert(id, next);
}

/// The command under way was acknowledged as durable.
fn end(model: &Rc<RefCell<Model>>, id: ObjectId) {
    let mut model = model.borrow_mut();
    model.perhaps.remove(&id);
    if let Some(next) = model.under_way.remove(&id) {
        settle(&mut model, id, next);
    }
    model.tally.commands += 1;
}

/// The command under way was acknowledged as buffered.
fn end_buffered(model: &Rc<RefCell<Model>>, id: ObjectId) {
    let mut model = model.borrow_mut();
    let Some(Some(next)) = model.under_way.remove(&id) else { return };
    let (before, number) = (model.objects[&id].clone(), model.next);
    let states = model.perhaps.entry(id).or_insert_with(|| vec![(0, before)]);
    states.push((number, next.clone()));
    model.next += 1;
    settle(&mut model, id, Some(next));
    model.tally.commands += 1;
}

fn settle(model: &mut Model, id: ObjectId, next: Option<Known>) {
    let is_small = |known: &Known| (1..=INLINE_UP_TO.0).contains(&(known.bytes.len() as u64));
    let (was, is) = (model.objects.get(&id).is_some_and(is_small), next.as_ref().is_some_and(is_small));
    model.tally.small += u64::from(is);
    model.tally.outgrown += u64::from(was && !is && next.as_ref().is_some_and(|known| !known.bytes.is_empty()));
    match next {
        Some(known) => drop(model.objects.insert(id, known)),
        None => drop(model.objects.remove(&id)),
    }
}

/// Looks over a disk that nobody uses: a crash leaves nothing on it that is damaged or cannot be so.
async fn look_over(env: Env, seed: u64) {
    let found = forebay_target::verify::verify(env, &mut |_, _| ()).await;
    let found = found.unwrap_or_else(|e| panic!("seed {seed}: the disk cannot be looked over: {e}"));
    let objects = &found.objects;
    assert!(objects.damage.is_empty(), "seed {seed}: {:?}", objects.damage);
    assert!(objects.contradictions.is_empty(), "seed {seed}: {:?}", objects.contradictions);
    assert_eq!(found.unreadable, Bytes::ZERO, "seed {seed}");
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
    for (id, mut states) in std::mem::take(&mut model.perhaps) {
        model.tally.at_risk += 1;
        let Some(at) = found.get(&id).and_then(|read| states.iter().position(|(_, known)| known == read)) else {
            continue;
        };
        if at + 1 < states.len() {
            model.tally.lost += 1;
            model.under_way.remove(&id);
            let (_, known) = states.swap_remove(at);
            settle(&mut model, id, Some(known));
        }
    }
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

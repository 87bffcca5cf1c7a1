//! What becomes of objects whose bytes rot, or cannot be read, after any life: whatever is returned is right, and
//! whatever is not is told to be damaged, with its object or table and its place.

use super::{Known, Model, lived};
use crate::disk::{DiskSpec, Fault, SimDisk};
use forebay_env::{Env, Random};
use forebay_model::{Bytes, Error, Kind, ObjectId, Result};
use forebay_target::Target;
use std::cell::RefCell;
use std::rc::Rc;

const PAGE: u64 = 4096;
/// What cannot be read fails in pieces of this size.
const SECTOR: u64 = 512;

/// What was seen of damaged disks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    /// Places that were damaged.
    pub harmed: u64,
    /// Answers that were right.
    pub right: u64,
    /// Answers that told of damage to an object, or to a table that has some.
    pub told: u64,
    /// Disks on which no objects were served, and it was told why.
    pub refused: u64,
}

impl Tally {
    /// Adds another one.
    pub fn add(&mut self, other: &Tally) {
        self.harmed += other.harmed;
        self.right += other.right;
        self.told += other.told;
        self.refused += other.refused;
    }
}

/// Lives `lives` lives, closes the target, and then harms the disk in `places` that have something in them. Without the
/// closing, damage to the last record could not be told from one that was never finished.
pub fn rot(seed: u64, spec: DiskSpec, lives: u32, places: u64) -> Tally {
    let (world, disk, model) = lived(seed, spec, lives);
    let env = world.env(disk.clone());
    let begin = world.run(async {
        let target = Target::open(env).await.expect("the target opens");
        target.objects().ready().await.expect("the logs are read");
        target.close().await.expect("it closes");
        target.layout().groups_at
    });
    world.kill();
    harm(&disk, &world.random(), begin, places);
    let tally = world.run(look(world.env(disk.clone()), model, seed));
    world.kill();
    Tally { harmed: places, ..tally }
}

/// Harms places from `begin` on: superblocks and catalog are not about objects, and have a second copy.
fn harm(disk: &SimDisk, random: &Rc<dyn Random>, begin: Bytes, places: u64) {
    let mut page = [0; PAGE as usize];
    let used: Vec<u64> = (begin.0..disk.spec().size.0)
        .step_by(PAGE as usize)
        .filter(|at| {
            disk.peek(Bytes(*at), &mut page);
            page.iter().any(|byte| *byte != 0)
        })
        .collect();
    for _ in 0..places {
        let at = used[random.below(used.len() as u64) as usize];
        disk.inject(match random.below(3) {
            0 => {
                let offset = Bytes(at + random.below(PAGE / SECTOR) * SECTOR);
                Fault::Unreadable { offset, length: Bytes(SECTOR), permanent: false }
            }
            _ => Fault::FlipBit { offset: Bytes(at + random.below(PAGE)), bit: random.below(8) as u8 },
        });
    }
}

/// Reads all objects, in parts and whole, and compares what is returned with the model.
async fn look(env: Env, model: Rc<RefCell<Model>>, seed: u64) -> Tally {
    let random = env.random.clone();
    let target = Target::open(env).await.unwrap_or_else(|e| panic!("seed {seed}: the target does not open: {e}"));
    let objects = target.objects();
    let mut tally = Tally::default();
    if let Err(error) = objects.ready().await {
        assert!(is_told(&error, Kind::Device), "seed {seed}: objects are not served, and it is not said why: {error}");
        return Tally { refused: 1, ..tally };
    }
    let known = model.borrow().objects.clone();
    for (id, Known { bytes, attribute }) in &known {
        let length = bytes.len() as u64;
        let (offset, some) = (random.below(length + 1), random.below(300 << 10));
        for (from, to) in [(offset, (offset + some).min(length)), (0, length)] {
            let read = objects.read(target.stream(), *id, from, to - from).await;
            tally.count(read, |read| *read == bytes[from as usize..to as usize], seed, *id);
        }
        let read = objects.attributes(*id, 9).await;
        tally.count(read, |read| read.first().map(|(_, value)| value) == attribute.as_ref(), seed, *id);
    }
    tally
}

impl Tally {
    fn count<T>(&mut self, answer: Result<T>, right: impl Fn(&T) -> bool, seed: u64, id: ObjectId) {
        match answer {
            Ok(answer) => {
                assert!(right(&answer), "seed {seed}: something wrong of {id} was returned");
                self.right += 1;
            }
            Err(error) => {
                assert!(is_told(&error, Kind::Damaged), "seed {seed}: it is not said what is damaged of {id}: {error}");
                self.told += 1;
            }
        }
    }
}

/// Whether an error of this kind says that something is damaged, what, and where.
fn is_told(error: &Error, kind: Kind) -> bool {
    let named =
        ["object ", "table of objects", "record ", "log of group"].iter().any(|what| error.message.contains(what));
    error.kind == kind && named
}

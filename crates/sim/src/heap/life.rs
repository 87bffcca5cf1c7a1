//! The life of a heap, by chance: records of all sizes are put, freed and read, transactions committed and aborted, and
//! the power is cut at any I/O; one life after another on the same disk.
//!
//! Beside that a writer of its own puts, frees, merges and aborts, and commits are looked at while others go on.
//!
//! Checked after every opening: the heap is exactly the last commit that was acknowledged, or the one that was under way;
//! every record of it has its bytes, no other id is one, and as many slots are used as its records take. Commits that are
//! kept are exactly what they were.

use crate::disk::DiskSpec;
use crate::world::World;
use crate::{fresh, life};
use forebay_env::{Env, Random};
use forebay_model::Kind;
use forebay_model::heap::{HeapMode, HeapSettings, RecordId};
use forebay_target::Target;
use forebay_target::heap::classes::Class;
use forebay_target::heap::{Heap, HeapOptions, Session, Writer};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

const NAME: &str = "/heap";
/// The largest record.
const LARGEST: u64 = 100_000;
/// Bytes that all records take together, about.
const MOST: usize = 3 << 20;
/// Small records that are put or freed one after the other, now and then: so that allocators fill, and slots are used
/// again.
const MANY: u64 = 2500;

/// What a run of lives has done, so that a run that did nothing counts as nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    /// Power cuts and kills survived.
    pub crashes: u64,
    /// Commits acknowledged.
    pub commits: u64,
    /// Commits under way at a crash that are there afterwards, and those that are not.
    pub there: u64,
    /// See [`Tally::there`].
    pub absent: u64,
    /// Transactions undone by the user.
    pub aborts: u64,
    /// Records read back and compared.
    pub compared: u64,
    /// Ids of records that were gone, and were told to be.
    pub gone: u64,
    /// Slots that were used again.
    pub recycled: u64,
    /// How often everything was looked over after a cut, and nothing was leaked or used twice.
    pub audits: u64,
    /// Earlier commits that were looked at, whole.
    pub looked: u64,
    /// What writers of their own merged, and what they did not.
    pub merged: u64,
    /// See [`Tally::merged`].
    pub unmerged: u64,
}

impl Tally {
    /// Adds another run's.
    pub fn add(&mut self, other: &Tally) {
        self.crashes += other.crashes;
        self.commits += other.commits;
        self.there += other.there;
        self.absent += other.absent;
        self.aborts += other.aborts;
        self.compared += other.compared;
        self.gone += other.gone;
        self.recycled += other.recycled;
        self.audits += other.audits;
        self.looked += other.looked;
        self.merged += other.merged;
        self.unmerged += other.unmerged;
    }
}

type Records = BTreeMap<RecordId, Rc<Vec<u8>>>;
/// Commits that are remembered.
const REMEMBERED: usize = 30;

/// The plain model.
#[derive(Default)]
struct Model {
    /// As of the last commit that was acknowledged, with its root.
    committed: (Records, Option<RecordId>),
    /// As of the one that is under way.
    under_way: Option<(Records, Option<RecordId>)>,
    now: Records,
    /// Ids that are no records any more, or never were in a commit.
    gone: Vec<RecordId>,
    /// What a writer has put and not merged, and what of others it has freed.
    own: (Records, Vec<RecordId>),
    /// Earlier commits, by their number.
    past: BTreeMap<u64, (Records, Option<RecordId>)>,
    /// Whether these can all be read.
    keeps: bool,
    tally: Tally,
}

/// Lives `lives` lives on a fresh disk of `spec`.
pub fn live(seed: u64, spec: DiskSpec, lives: u32) -> Tally {
    let world = World::new(seed);
    let disk = world.disk(spec);
    let random = world.random();
    let model = Rc::new(RefCell::new(Model::default()));
    let threshold = [1, 300, 3000][random.below(3) as usize];
    let mode = if random.below(4) == 0 { HeapMode::Worm } else { HeapMode::ReadWrite };
    let keep = Duration::from_secs([0, 0, 3600][random.below(3) as usize]);
    model.borrow_mut().keeps = mode == HeapMode::Worm || !keep.is_zero();
    world.run(async {
        let env = world.env(disk.clone());
        Target::format(env.clone(), fresh::guessed(&env)).await.expect("a healthy disk can be formatted");
        let target = Target::open(env).await.expect("it opens");
        let settings = HeapSettings { threshold, mode, keep };
        target.create_heap(NAME, settings, HeapOptions::default()).await.expect("it has room");
    });
    world.kill();
    for _ in 0..lives {
        let env = world.env(disk.clone());
        life::ended(&world, &disk, 120, one_life(env, model.clone()), async |env| drop(open(env).await));
        model.borrow_mut().tally.crashes += 1;
        if random.below(3) == 0 {
            world.run(audit(world.env(disk.clone()), seed));
            world.kill();
            model.borrow_mut().tally.audits += 1;
        }
        world.run(verify(world.env(disk.clone()), model.clone(), seed));
        world.kill();
    }
    model.take().tally
}

async fn open(env: Env) -> (Rc<Target>, Rc<Heap>) {
    let random = env.random.clone();
    let target = Target::open(env).await.expect("the target opens");
    let read_buffers = random.below(3) as usize;
    let options = HeapOptions { buffers: 6, read_buffers, gather: random.below(4) > 0 };
    let heap = target.heap(NAME, options).await.expect("the heap opens");
    (target, heap)
}

async fn one_life(env: Env, model: Rc<RefCell<Model>>) {
    let random = env.random.clone();
    let (_target, heap) = open(env).await;
    let writer = heap.writer();
    let mut session: Option<(Session, Records)> = None;
    for _ in 0..random.below(1500) {
        match random.below(200) {
            0 => many(&heap, &model, &random).await,
            1..30 => write_own(&writer, &model, &random).await,
            30..36 => {
                let now = model.borrow().committed.0.clone();
                session = (random.below(4) > 0).then(|| (heap.session(), now));
            }
            36..42 => {
                if let Some((session, records)) = &session {
                    look(session, records, &model, &random).await;
                }
            }
            42 => look_back(&heap, &model, &random).await,
            _ => step(&heap, &model, &random).await,
        }
    }
    let recycled = heap.status().classes.iter().map(|class| class.recycled).sum::<u64>();
    model.borrow_mut().tally.recycled += recycled;
}

/// What a writer of its own does.
async fn write_own(writer: &Writer, model: &Rc<RefCell<Model>>, random: &Rc<dyn Random>) {
    match random.below(20) {
        0..12 => {
            let bytes = content(random, 1 + random.below(3000));
            let id = writer.put(&bytes).await.expect("it has room");
            model.borrow_mut().own.0.insert(id, Rc::new(bytes));
        }
        12..16 => {
            let Some(id) = any(&model.borrow().now, random) else { return };
            let freed = writer.free(id).await;
            let mut model = model.borrow_mut();
            assert_eq!(freed.is_ok(), !model.own.1.contains(&id), "{id} is freed by a writer: {freed:?}");
            if freed.is_ok() {
                model.own.1.push(id);
            }
        }
        16..18 => {
            let Some(id) = any(&model.borrow().own.0, random) else { return };
            assert!(writer.get(id).await.ok().as_ref() == model.borrow().own.0.get(&id).map(|bytes| &**bytes));
        }
        18 => {
            let merged = writer.merge().await;
            let model = &mut *model.borrow_mut();
            let is_there = model.own.1.iter().all(|id| model.now.contains_key(id));
            assert_eq!(merged.is_ok(), is_there, "{merged:?}");
            if merged.is_ok() {
                let (put, freed) = std::mem::take(&mut model.own);
                freed.iter().for_each(|id| assert!(model.now.remove(id).is_some()));
                model.now.extend(put);
                model.gone.extend(freed);
                model.tally.merged += 1;
            } else {
                writer.abort();
                model.unmerged();
            }
        }
        _ => {
            writer.abort();
            model.borrow_mut().unmerged();
        }
    }
}

/// Some of the records of a commit that is looked at, and of those that it does not have.
async fn look(session: &Session, records: &Records, model: &Rc<RefCell<Model>>, random: &Rc<dyn Random>) {
    let some: Vec<RecordId> = (0..20).filter_map(|_| any(records, random)).collect();
    for (id, bytes) in some.iter().zip(session.get_many(&some).await) {
        assert!(bytes.ok().as_ref() == Some(&*records[id]), "{id} is not what it was in {:?}", session.info());
    }
    let newer: Vec<RecordId> = (0..20).filter_map(|_| any(&model.borrow().now, random)).collect();
    for id in newer.into_iter().filter(|id| !records.contains_key(id)) {
        assert_eq!(session.get(id).await.expect_err("it is newer").kind, Kind::Missing);
    }
    model.borrow_mut().tally.looked += 1;
}

/// An earlier commit, whole.
async fn look_back(heap: &Rc<Heap>, model: &Rc<RefCell<Model>>, random: &Rc<dyn Random>) {
    let (commit, (records, root)) = {
        let model = model.borrow();
        let nth = random.below(model.past.len().max(1) as u64) as usize;
        let Some((commit, past)) = model.past.iter().nth(nth).filter(|_| model.keeps) else { return };
        (*commit, past.clone())
    };
    let session = heap.as_of(commit).await.expect("it is kept");
    assert_eq!(session.root(), root, "root of commit {commit}");
    let ids: Vec<RecordId> = records.keys().copied().collect();
    for (id, bytes) in ids.iter().zip(session.get_many(&ids).await) {
        assert!(bytes.ok().as_ref() == Some(&*records[id]), "{id} is not what it was in commit {commit}");
    }
    look(&session, &records, model, random).await;
}

fn content(random: &Rc<dyn Random>, length: u64) -> Vec<u8> {
    let start = random.next_u64();
    (0..length).map(|n| (start.wrapping_add(n / 5) >> (n % 40)) as u8).collect()
}

async fn put(heap: &Rc<Heap>, model: &Rc<RefCell<Model>>, random: &Rc<dyn Random>, length: u64) {
    let bytes = content(random, length);
    let id = heap.put(&bytes).await.expect("it has room");
    assert!(model.borrow_mut().now.insert(id, Rc::new(bytes)).is_none(), "{id} was there already");
}

async fn free(heap: &Rc<Heap>, model: &Rc<RefCell<Model>>, id: RecordId) {
    heap.free(id).await.expect("it is there");
    let mut model = model.borrow_mut();
    model.now.remove(&id);
    model.gone.push(id);
}

/// Puts many small records, or frees those whose turn it is.
async fn many(heap: &Rc<Heap>, model: &Rc<RefCell<Model>>, random: &Rc<dyn Random>) {
    let small: Vec<RecordId> = {
        let model = model.borrow();
        model.now.iter().filter(|(_, bytes)| bytes.len() < 50).map(|(id, _)| *id).collect()
    };
    if small.len() as u64 > 3 * MANY {
        let spared = random.below(100) as usize;
        for id in small.into_iter().skip(spared).take(2 * MANY as usize) {
            free(heap, model, id).await;
        }
        return;
    }
    for _ in 0..MANY {
        put(heap, model, random, 1 + random.below(49)).await;
    }
}

async fn step(heap: &Rc<Heap>, model: &Rc<RefCell<Model>>, random: &Rc<dyn Random>) {
    let held: usize = model.borrow().now.values().map(|bytes| bytes.len()).sum();
    match random.below(100) {
        0..55 if held < MOST => {
            let length = match random.below(20) {
                0 => 1 + random.below(LARGEST),
                1..6 => 1 + random.below(8000),
                _ => 1 + random.below(600),
            };
            put(heap, model, random, length).await;
        }
        0..85 => {
            let Some(id) = any(&model.borrow().now, random) else { return };
            free(heap, model, id).await;
        }
        85..96 => {
            let Some(id) = any(&model.borrow().now, random) else { return };
            let bytes = heap.get(id).await.expect("it is there");
            assert!(bytes == *model.borrow().now[&id], "{id} reads differently");
            model.borrow_mut().tally.compared += 1;
        }
        96..99 => {
            let root = any(&model.borrow().now, random);
            let now = (model.borrow().now.clone(), root);
            model.borrow_mut().under_way = Some(now);
            let commit = heap.commit(root).await.expect("a healthy disk takes it");
            let mut model = model.borrow_mut();
            model.committed = model.under_way.take().expect("it was under way");
            model.remember(commit);
            model.tally.commits += 1;
        }
        _ => {
            heap.abort().await.expect("nothing is wrong");
            let mut model = model.borrow_mut();
            model.back_to_committed();
            model.tally.aborts += 1;
        }
    }
}

impl Model {
    fn remember(&mut self, commit: u64) {
        if self.keeps {
            self.past.insert(commit, self.committed.clone());
        }
        if self.past.len() > REMEMBERED {
            self.past.pop_first();
        }
    }

    /// What a writer has put is gone.
    fn unmerged(&mut self) {
        let (put, freed) = std::mem::take(&mut self.own);
        self.tally.unmerged += u64::from(!put.is_empty() || !freed.is_empty());
        self.gone.extend(put.into_keys());
    }

    fn back_to_committed(&mut self) {
        let lost = std::mem::replace(&mut self.now, self.committed.0.clone());
        self.gone.extend(lost.into_keys().filter(|id| !self.committed.0.contains_key(id)));
        self.gone.retain(|id| !self.committed.0.contains_key(id));
    }
}

fn any(records: &Records, random: &Rc<dyn Random>) -> Option<RecordId> {
    let nth = random.below(records.len().max(1) as u64) as usize;
    records.keys().nth(nth).copied()
}

/// Nothing is damaged, no slot is used by nobody or twice.
async fn audit(env: Env, seed: u64) {
    let found = forebay_target::verify::verify(env, &mut |_, _| ()).await.expect("it can be read");
    let heap = &found.heaps[0];
    assert!(heap.damage.is_empty(), "seed {seed}: {:?}", heap.damage);
    assert_eq!((heap.leaked, heap.twice), (0, 0), "seed {seed}: {heap:?}");
}

/// What the disk holds is one of the two commits that it may hold, and the model goes on from there.
async fn verify(env: Env, model: Rc<RefCell<Model>>, seed: u64) {
    let random = env.random.clone();
    let (_target, heap) = open(env).await;
    let complaints = heap.complaints();
    let torn = |what: &String| what.contains("the power went while it was being written");
    assert!(complaints.iter().all(torn), "seed {seed}: nothing was damaged: {complaints:?}");
    model.borrow_mut().unmerged();
    let under_way = model.borrow_mut().under_way.take();
    if let Some(under_way) = under_way {
        let there = is(&heap, &under_way).await;
        let mut model = model.borrow_mut();
        if there {
            model.tally.there += 1;
            model.committed = under_way;
        } else {
            model.tally.absent += 1;
        }
    }
    let committed = model.borrow().committed.clone();
    assert!(is(&heap, &committed).await, "seed {seed}: the heap is not as it was at its last commit");
    model.borrow_mut().back_to_committed();
    for _ in 0..3 {
        look_back(&heap, &model, &random).await;
    }
    let gone = model.borrow().gone.clone();
    for id in &gone {
        let error = heap.get(*id).await.expect_err("it is gone");
        assert_eq!(error.kind, Kind::Missing, "seed {seed}: {id}: {error}");
    }
    let mut model = model.borrow_mut();
    model.tally.compared += committed.0.len() as u64;
    model.tally.gone += gone.len() as u64;
    model.gone.drain(..gone.len().saturating_sub(500));
}

/// Whether the heap has exactly these records, and this root.
async fn is(heap: &Rc<Heap>, (records, root): &(Records, Option<RecordId>)) -> bool {
    for (id, bytes) in records {
        if heap.get(*id).await.ok().as_ref() != Some(&**bytes) {
            return false;
        }
    }
    let slots = |length: usize| if Class::holding(length).is_some() { 1 } else { 1 + length.div_ceil(8182) };
    let wanted: usize = records.values().map(|bytes| slots(bytes.len())).sum();
    let used: u64 = heap.status().classes.iter().map(|class| class.used).sum();
    heap.root() == *root && used == wanted as u64 + heap.status().archive_slots
}

#[cfg(test)]
mod tests;

//! Several users of one heap on a target that is too small for them, by chance: each puts and frees in a writer of its own,
//! also records that no slot holds, and commits beside the others or gives up; the power is cut at any I/O.
//!
//! Checked after every opening: of each user there is exactly its last commit that was acknowledged, or the one that was under
//! way; nothing is leaked or used twice, and as many slots are used as all of these take.

use crate::disk::presets;
use crate::world::World;
use crate::{fresh, life};
use forebay_env::allowance::Allowance;
use forebay_env::{Env, Random};
use forebay_model::heap::{HeapSettings, RecordId};
use forebay_model::{Error, Kind};
use forebay_target::Target;
use forebay_target::heap::classes::Class;
use forebay_target::heap::{Heap, HeapOptions, Writer};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

const NAME: &str = "/heap";
/// Users at once.
const USERS: usize = 3;

/// What a run of lives has done.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    /// Commits acknowledged.
    pub commits: u64,
    /// Puts and commits that found no room.
    pub full: u64,
    /// Transactions undone by their user.
    pub aborts: u64,
    /// Records larger than any slot that were put.
    pub large: u64,
    /// Commits under way at a cut that are there afterwards, and those that are not.
    pub there: u64,
    /// See [`Tally::there`].
    pub absent: u64,
}

impl Tally {
    /// Adds what another run has done.
    pub fn add(&mut self, other: &Tally) {
        self.commits += other.commits;
        self.full += other.full;
        self.aborts += other.aborts;
        self.large += other.large;
        self.there += other.there;
        self.absent += other.absent;
    }
}

type Records = BTreeMap<RecordId, Rc<Vec<u8>>>;

/// What one user knows.
#[derive(Default)]
struct Book {
    committed: Records,
    under_way: Option<Records>,
}

struct Crowd {
    books: [RefCell<Book>; USERS],
    /// Who merges and commits has all of it.
    committing: Allowance,
    tally: RefCell<Tally>,
}

/// Lives `lives` lives on a fresh small disk.
pub fn live(seed: u64, lives: u32) -> Tally {
    let world = World::new(seed);
    let random = world.random();
    let disk = world.disk(presets::ssd().scaled([8_000, 12_000][random.below(2) as usize]));
    let crowd = Rc::new(Crowd { books: Default::default(), committing: Allowance::new(1), tally: RefCell::default() });
    let threshold = [1, 300, 3000][random.below(3) as usize];
    let keep = Duration::from_secs([0, 0, 1][random.below(3) as usize]);
    world.run(async {
        let env = world.env(disk.clone());
        Target::format(env.clone(), fresh::guessed(&env)).await.expect("a healthy disk can be formatted");
        let target = Target::open(env).await.expect("it opens");
        let settings = HeapSettings { threshold, keep, ..HeapSettings::default() };
        target.create_heap(NAME, settings, HeapOptions::default()).await.expect("it has room");
    });
    world.kill();
    for _ in 0..lives {
        life::ended(&world, &disk, 600, one_life(world.env(disk.clone()), crowd.clone()), async |env| {
            drop(open(env).await);
        });
        world.run(look_over(world.env(disk.clone()), seed));
        world.kill();
        world.run(verify(world.env(disk.clone()), crowd.clone(), seed));
        world.kill();
    }
    *crowd.tally.borrow()
}

async fn open(env: Env) -> (Rc<Target>, Rc<Heap>) {
    let options = HeapOptions { buffers: 6, gather: env.random.below(4) > 0, ..HeapOptions::default() };
    let target = Target::open(env).await.expect("the target opens");
    let heap = target.heap(NAME, options).await.expect("the heap opens");
    (target, heap)
}

async fn one_life(env: Env, crowd: Rc<Crowd>) {
    let (_target, heap) = open(env.clone()).await;
    let spawned: Vec<_> =
        (0..USERS).map(|number| env.spawner.spawn(user(number, env.clone(), heap.clone(), crowd.clone()))).collect();
    for user in spawned {
        user.await;
    }
}

async fn user(number: usize, env: Env, heap: Rc<Heap>, crowd: Rc<Crowd>) {
    let random = env.random.clone();
    let mut is_full = false;
    for _ in 0..20 {
        // What keeps commits goes by time.
        env.clock.sleep(Duration::from_millis(random.below(400))).await;
        let writer = heap.writer();
        let mut next = crowd.books[number].borrow().committed.clone();
        let done = change(&writer, &mut next, is_full, &random, &crowd).await;
        is_full = done.is_err();
        if is_full || random.below(8) == 0 {
            crowd.tally.borrow_mut().aborts += 1;
            if random.below(2) == 0 {
                writer.abort();
            }
            continue;
        }
        let turn = crowd.committing.take(1).await;
        crowd.books[number].borrow_mut().under_way = Some(next);
        writer.merge().await.expect("nobody else frees what is its own");
        let commit = heap.commit(None).await;
        let under_way = crowd.books[number].borrow_mut().under_way.take().expect("it was under way");
        match commit {
            Ok(_) => {
                crowd.books[number].borrow_mut().committed = under_way;
                crowd.tally.borrow_mut().commits += 1;
            }
            Err(error) => {
                check_full(&error, &crowd);
                is_full = true;
                heap.abort().await.expect("nothing is wrong");
            }
        }
        drop(turn);
    }
}

fn check_full(error: &Error, crowd: &Crowd) {
    assert_eq!(error.kind, Kind::Full, "{error}");
    crowd.tally.borrow_mut().full += 1;
}

/// Puts and frees; only frees where it was full before. An error if it is full.
async fn change(
    writer: &Writer,
    next: &mut Records,
    was_full: bool,
    random: &Rc<dyn Random>,
    crowd: &Crowd,
) -> Result<(), ()> {
    if was_full {
        let half: Vec<RecordId> = next.keys().copied().filter(|_| random.below(2) == 0).collect();
        writer.free_many(&half).await.expect("they are there");
        half.iter().for_each(|id| drop(next.remove(id)));
        return Ok(());
    }
    for _ in 0..1 + random.below(400) {
        let nth = random.below(next.len().max(1) as u64) as usize;
        let some = next.keys().nth(nth).copied();
        let length = match (random.below(20), some) {
            (0..5, Some(id)) => {
                writer.free(id).await.expect("it is there");
                next.remove(&id);
                continue;
            }
            (5, _) => {
                crowd.tally.borrow_mut().large += 1;
                9000 + random.below(1 << random.below(21))
            }
            _ => 1 + random.below(1 << random.below(14)),
        };
        let fill = random.next_u64() as u8;
        let bytes = vec![fill; length as usize];
        match writer.put(&bytes).await {
            Ok(id) => assert!(next.insert(id, Rc::new(bytes)).is_none(), "{id} was there already"),
            Err(error) => {
                check_full(&error, crowd);
                return Err(());
            }
        }
    }
    Ok(())
}

async fn look_over(env: Env, seed: u64) {
    let found = forebay_target::verify::verify(env, &mut |_, _| ()).await.expect("it can be read");
    let heap = &found.heaps[0];
    assert_eq!((heap.damaged, heap.leaked, heap.twice), (0, 0, 0), "seed {seed}: {heap:?}");
}

async fn verify(env: Env, crowd: Rc<Crowd>, seed: u64) {
    let (_target, heap) = open(env).await;
    let slots = |length: usize| if Class::holding(length).is_some() { 1 } else { 1 + length.div_ceil(8182) };
    let mut wanted = 0;
    for book in &crowd.books {
        let under_way = book.borrow_mut().under_way.take();
        let before = book.borrow().committed.clone();
        if let Some(under_way) = under_way {
            // What it frees says it where it puts nothing.
            let gone = before.keys().find(|id| !under_way.contains_key(id));
            let is_gone = match gone {
                Some(id) => heap.get(*id).await.is_err(),
                None => true,
            };
            let there = is_gone && has(&heap, &under_way).await;
            let mut tally = crowd.tally.borrow_mut();
            (tally.there, tally.absent) = (tally.there + u64::from(there), tally.absent + u64::from(!there));
            if there {
                book.borrow_mut().committed = under_way;
            }
        }
        let committed = book.borrow().committed.clone();
        assert!(has(&heap, &committed).await, "seed {seed}: somebody's last commit is not there");
        wanted += committed.values().map(|bytes| slots(bytes.len()) as u64).sum::<u64>();
    }
    let used: u64 = heap.status().classes.iter().map(|class| class.used).sum();
    assert_eq!(used, wanted + heap.status().archive_slots, "seed {seed}");
}

async fn has(heap: &Rc<Heap>, records: &Records) -> bool {
    let ids: Vec<RecordId> = records.keys().copied().collect();
    let found = heap.get_many(&ids).await;
    found.iter().zip(records.values()).all(|(found, bytes)| found.as_ref().ok() == Some(&**bytes))
}

#[cfg(test)]
mod tests;

//! A target with one small ring in a world, what was recorded into it, and looks at what it still has: what the
//! scenarios about faults share.

use crate::anatomy::{Part, anatomy};
use crate::audit::{Answer, Known, audit, audit_some, runs};
use crate::disk::{DiskSpec, SimDisk};
use crate::feeder::Feeder;
use crate::reader::{Event, read};
use crate::world::World;
use forebay_env::{Clock, Env, Random, Spawner};
use forebay_model::ring::{Pin, RingSpec, RingStatus};
use forebay_model::{Bytes, Cause, Gap, Profile, Result, Timestamp};
use forebay_target::verify::{Found, verify};
use forebay_target::{Ring, Target};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

/// The ring of a stage.
pub const NAME: &str = "/stage";
/// A ring of which something expired has come round, and what is left is more than this part of its capacity; the rest
/// are ends of segments, indexes, and what a crash may have overwritten.
pub const HISTORY: u64 = 4;
/// Values of the key `tag`.
pub const TAGS: u64 = 29;

/// A world with a disk, a target on it, and one ring.
pub struct Stage {
    /// The world.
    pub world: World,
    /// Its disk.
    pub disk: SimDisk,
    /// What was recorded, as far as it counts.
    pub book: Rc<RefCell<Book>>,
}

/// A stage at one moment, to begin from many times.
pub struct Scene {
    disk: DiskSpec,
    /// The pages that are not zeros.
    pages: Vec<(Bytes, Box<[u8; 4096]>)>,
    wall: Timestamp,
    book: Book,
}

/// What was recorded into the ring.
#[derive(Debug, Clone, Default)]
pub struct Book {
    /// Elements by sequence: what was handed in.
    pub known: BTreeMap<u64, Known>,
    /// Elements up to this sequence were acknowledged.
    pub acknowledged: u64,
    /// Gaps that were handed in.
    pub gaps: Vec<Gap>,
}

/// What a look at the ring has shown.
pub struct Look {
    /// What a query for everything returned.
    pub answer: Answer,
    /// The ring's state.
    pub status: RingStatus,
    /// What opening complained of.
    pub complaints: Vec<String>,
}

/// How a session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The target is closed.
    Closed,
    /// The process is killed; what it gave to the disk arrives.
    Killed,
    /// The power goes; what was not flushed may be gone.
    Cut,
}

impl Stage {
    /// A fresh target with a ring as `shape` makes it.
    pub fn new(seed: u64, disk: DiskSpec, shape: impl FnOnce(&mut RingSpec)) -> Stage {
        let world = World::new(seed);
        let disk = world.disk(disk);
        let mut spec = RingSpec::new(NAME, Bytes::mib(2));
        spec.block = Bytes::kib(16);
        spec.segment = Bytes::kib(256);
        spec.flush_interval = Duration::from_millis(20);
        spec.keys = vec!["tag=u32le@0".to_owned()];
        shape(&mut spec);
        let env = world.env(disk.clone());
        world.run(async {
            let geometry = env.device.geometry();
            let profile = Profile::guess(geometry.size, geometry.rotates);
            Target::format(env.clone(), profile).await.expect("a healthy disk can be formatted");
            let target = Target::open(env.clone()).await.expect("a formatted disk opens");
            target.create_ring(spec).await.expect("a small ring fits");
            target.close().await.expect("an empty ring closes");
        });
        world.kill();
        Stage { world, disk, book: Rc::default() }
    }

    /// All that a target on the disk may touch.
    pub fn env(&self) -> Env {
        self.world.env(self.disk.clone())
    }

    /// Records `count` elements on a disk that does what it is told, and ends.
    pub fn record(&self, count: u64, ending: Ending) {
        let (env, book) = (self.env(), self.book.clone());
        self.world.run(async move {
            let target = Target::open(env.clone()).await.expect("the target opens");
            record(&env, &target, &book, count).await.expect("a healthy disk takes elements");
            if ending == Ending::Closed {
                target.close().await.expect("it closes");
            }
        });
        match ending {
            Ending::Cut => self.world.crash(&[&self.disk]),
            _ => self.world.kill(),
        }
    }

    /// Where things lie, after the target was closed or killed.
    pub fn parts(&self) -> Vec<Part> {
        let env = self.env();
        let (superblock, catalog, _) = self.world.run(Target::inspect(env)).expect("a target is on the disk");
        anatomy(&self.disk, &superblock, &catalog)
    }

    /// Opens the target, reads all of the ring and some of it by key, by time and by sequence, and closes.
    pub fn look(&self) -> std::result::Result<Look, String> {
        let (env, book) = (self.env(), self.book.clone());
        let look = self.world.run(async move {
            let target = Target::open(env.clone()).await.map_err(|e| format!("the target does not open: {e}"))?;
            let look = look(&env, &target, &book).await?;
            target.close().await.map_err(|e| format!("the target does not close: {e}"))?;
            Ok(look)
        });
        self.world.kill();
        look
    }

    /// The stage as it is now, between sessions.
    pub fn scene(&self) -> Scene {
        let mut pages = Vec::new();
        let mut page = [0; 4096];
        for at in (0..self.disk.spec().size.0).step_by(page.len()).map(Bytes) {
            self.disk.peek(at, &mut page);
            if page.iter().any(|byte| *byte != 0) {
                pages.push((at, Box::new(page)));
            }
        }
        let (disk, wall) = (self.disk.spec().clone(), self.world.clock().wall());
        Scene { disk, pages, wall, book: self.book.borrow().clone() }
    }

    /// Looks over the target without changing anything.
    pub fn verify(&self) -> Found {
        let env = self.env();
        self.world.run(verify(env, &mut |_, _| ())).expect("a target is on the disk")
    }

    /// The whole content of the disk.
    pub fn image(&self) -> Vec<u8> {
        let mut image = vec![0; self.disk.spec().size.0 as usize];
        self.disk.peek(Bytes::ZERO, &mut image);
        image
    }
}

impl Scene {
    /// The same in a world of its own, with other chance.
    pub fn begin(&self, seed: u64) -> Stage {
        let world = World::new(seed);
        world.set_wall(self.wall);
        let disk = world.disk(self.disk.clone());
        self.pages.iter().for_each(|(at, page)| disk.poke(*at, &page[..]));
        Stage { world, disk, book: Rc::new(RefCell::new(self.book.clone())) }
    }
}

/// Records `count` elements and waits until they are durable. The book says at any moment what was handed in and what
/// was acknowledged.
pub async fn record(env: &Env, target: &Rc<Target>, book: &Rc<RefCell<Book>>, count: u64) -> Result<()> {
    let ring = target.ring(NAME)?;
    ring.ready().await?;
    let (clock, random) = (env.clock.clone(), env.random.clone());
    let first = ring.status().next_sequence;
    // What a crash undid was never recorded.
    book.borrow_mut().known.split_off(&first);
    let mut feeder = Feeder::new(ring.clone(), clock.clone(), random.next_u64())?;
    for number in first..first + count {
        let known = make(&random, clock.wall(), number);
        let (time, bytes) = (known.time, known.bytes.clone());
        book.borrow_mut().known.insert(number, known);
        feeder.element(time, &[&bytes]).await?;
        match random.below(60) {
            0 => {
                let gap = Gap { cause: Cause::Kernel, count: Some(number), first: time, last: time };
                book.borrow_mut().gaps.push(gap);
                feeder.gap(&gap).await?;
            }
            1..4 => {
                let sequence = feeder.durable().await?;
                let mut book = book.borrow_mut();
                book.acknowledged = book.acknowledged.max(sequence);
            }
            _ => clock.sleep(Duration::from_micros(random.below(2000))).await,
        }
        note_progress(&ring, book);
    }
    let sequence = feeder.durable().await?;
    book.borrow_mut().acknowledged = sequence;
    Ok(())
}

fn note_progress(ring: &Rc<Ring>, book: &Rc<RefCell<Book>>) {
    let progress = ring.progress();
    let mut book = book.borrow_mut();
    book.acknowledged = book.acknowledged.max(progress.sequence);
}

fn make(random: &Rc<dyn Random>, time: Timestamp, number: u64) -> Known {
    let length = match random.below(40) {
        0 => 4 + random.below(60_000),
        1..8 => 4 + random.below(8000),
        _ => 4 + random.below(1200),
    };
    element(time, number, length)
}

/// Element `number`: bytes that say whose they are and where in it, so that none is taken for another.
pub fn element(time: Timestamp, number: u64, length: u64) -> Known {
    let mut bytes: Vec<u8> = (0..length).map(|at| (number.wrapping_mul(167) + at * 13 + (at >> 8)) as u8).collect();
    bytes[..4].copy_from_slice(&((number % TAGS) as u32).to_le_bytes());
    Known { time, bytes }
}

/// Reads the ring of an open target in several ways, and holds every answer against the book.
pub async fn look(env: &Env, target: &Rc<Target>, book: &Rc<RefCell<Book>>) -> std::result::Result<Look, String> {
    let ring = target.ring(NAME).map_err(|e| e.to_string())?;
    let (clock, spawner, random) = (env.clock.clone(), env.spawner.clone(), env.random.clone());
    let events = ask(&ring, "all", &clock, &spawner).await?;
    let status = ring.status();
    let kept = status.first_sequence..status.next_sequence;
    let known = known_of(book);
    let answer = audit(&events, &known, kept.clone())?;
    // By the index, by time, by number.
    // The oldest element may have begun in a segment that is gone: then nobody knows what it was.
    let headless = answer.expired.contains(&kept.start);
    let there: BTreeSet<u64> = kept.clone().skip(usize::from(headless)).collect();
    let gone = &answer.told;
    let tag = random.below(TAGS);
    let asked = there.iter().copied().filter(|n| n % TAGS == tag).collect();
    let found = ask(&ring, &format!("tag={tag}"), &clock, &spawner).await?;
    audit_some(&found, &known, &asked, gone).map_err(|e| format!("tag={tag}: {e}"))?;
    let (from, to) = (chosen(&random, &kept), chosen(&random, &kept));
    let (from, to) = (from.min(to), from.max(to));
    let asked = there.range(from..=to).copied().collect();
    let found = ask(&ring, &format!("seq>={from} and seq<={to}"), &clock, &spawner).await?;
    audit_some(&found, &known, &asked, gone).map_err(|e| format!("seq {from}..={to}: {e}"))?;
    if let (Some(first), Some(last)) = (known.get(&from), known.get(&to)) {
        let asked = there.iter().copied().filter(|n| (first.time..=last.time).contains(&known[n].time)).collect();
        let text = format!("time>={} and time<={}", first.time, last.time);
        let found = ask(&ring, &text, &clock, &spawner).await?;
        audit_some(&found, &known, &asked, gone).map_err(|e| format!("{text}: {e}"))?;
    }
    Ok(Look { answer, status, complaints: target.complaints() })
}

/// Looks at the ring as [`look`] does: what was acknowledged is there, and nothing of it is damaged. `doing` says what happened before.
pub async fn look_whole(env: &Env, target: &Rc<Target>, book: &Rc<RefCell<Book>>, doing: &str) -> Look {
    let seen = look(env, target, book).await.unwrap_or_else(|e| panic!("{doing}: {e}"));
    let (acknowledged, next) = (book.borrow().acknowledged, seen.status.next_sequence);
    assert!(next >= acknowledged, "{doing}: {acknowledged} were acknowledged, and the ring goes on at {next}");
    let damaged = &seen.answer.told - &seen.answer.expired;
    assert!(damaged.is_empty(), "{doing}: {} are told to be damaged", runs(&damaged));
    let (bytes, capacity) = (|known: &Known| known.bytes.len() as u64, seen.status.spec.capacity.0);
    let (recorded, kept) = {
        let book = book.borrow();
        let kept = seen.answer.returned.iter().map(|number| bytes(&book.known[number])).sum::<u64>();
        (book.known.range(..next).map(|(_, known)| bytes(known)).sum::<u64>(), kept)
    };
    if kept < recorded {
        assert!(
            recorded * HISTORY > capacity && kept * HISTORY > capacity,
            "{doing}: of {recorded} bytes {kept} are left in a ring of {capacity}; {} expired",
            runs(&seen.answer.expired)
        );
    }
    seen
}

impl Look {
    /// A pin of which all was there has it still, but perhaps for its first element, whose beginning may have lain before it.
    pub fn holds(&self, pin: &Pin, doing: &str) {
        let held = pin.first_sequence + 1..pin.end_sequence.min(self.status.next_sequence);
        let gone: BTreeSet<u64> = held.filter(|n| !self.answer.returned.contains(n)).collect();
        assert!(gone.is_empty(), "{doing}: pin {} has lost {}", pin.id, runs(&gone));
    }
}

fn known_of(book: &Rc<RefCell<Book>>) -> BTreeMap<u64, Known> {
    book.borrow().known.clone()
}

fn chosen(random: &Rc<dyn Random>, kept: &Range<u64>) -> u64 {
    kept.start + random.below((kept.end - kept.start).max(1))
}

async fn ask(
    ring: &Rc<Ring>,
    text: &str,
    clock: &Rc<dyn Clock>,
    spawner: &Spawner,
) -> std::result::Result<Vec<Event>, String> {
    let answer = read(ring.clone(), text, clock, spawner).await;
    answer.map(|(events, _)| events).map_err(|e| format!("{text}: {e}"))
}

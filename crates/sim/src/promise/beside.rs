//! The promise beside everything else that one target does at once: states of the headline, each of which can be left
//! out. A state that the product comes to have is a variant of [`State`], and what it does here.

use super::{Load, Outcome, measure, set_up};
use crate::disk::DiskSpec;
use crate::world::World;
use forebay_env::together::all;
use forebay_model::layout::UNIT;
use forebay_model::object::{Durability, Scope};
use forebay_model::{Bytes, Error, Kind, Moment, ObjectId, Rate, Result};
use forebay_target::Target;
use forebay_target::object::rows::Quota;
use forebay_target::object::{How, Placement};
use forebay_target::scrub::Options;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

/// What goes on beside the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Eight readers of the ring, as fast as they can.
    Readers,
    /// A twentieth of the ring is pinned, scattered over it.
    Pins,
    /// The ring has gone round before and takes 90 % of what could hold its guarantee; objects take what is left, but for
    /// what the writers need.
    Aged,
    /// 320 durable writes of 4 KiB a second to objects, in rounds of 20, whether or not earlier ones are durable.
    SmallWrites,
    /// Objects that are written 4 MiB at a time, as fast as they can.
    LargeWrites,
    /// Everything that is kept is read and compared with its checksums, over and over, as fast as that can.
    Scrub,
    /// Components are made anew after another target was lost: of an object units are read for those elsewhere, while one that has its
    /// place here now is written, as the client does that rebuilds, as fast as it can.
    Rebuild,
}

impl State {
    /// All of them.
    pub const ALL: [State; 7] = [
        State::Readers,
        State::Pins,
        State::Aged,
        State::SmallWrites,
        State::LargeWrites,
        State::Scrub,
        State::Rebuild,
    ];

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            State::Readers => "readers",
            State::Pins => "pins",
            State::Aged => "aged",
            State::SmallWrites => "small-writes",
            State::LargeWrites => "large-writes",
            State::Scrub => "scrub",
            State::Rebuild => "rebuild",
        }
    }

    /// The state that is called so.
    pub fn parse(name: &str) -> Result<State> {
        State::ALL.into_iter().find(|state| state.name() == name).ok_or_else(|| {
            let all = State::ALL.map(State::name).join(", ");
            Error::usage(format!("'{name}' is no state that the promise is measured in; they are {all}"))
        })
    }
}

/// Small writes of a round, and rounds a second.
const ROUND: u64 = 20;
const ROUNDS: u64 = 16;
/// Bytes of each.
const SMALL: usize = 4096;
/// Blocks of each of the objects that they go to, by chance.
const BLOCKS: u64 = 1000;
/// Bytes of a large write, and how many of them make an object, which is then written over.
const LARGE: Bytes = Bytes::mib(4);
const LARGES: u64 = 16;
/// Units of a component that are rebuilt at the same time, read or written, and those of a whole one.
const WAVE: u64 = 8;
const UNITS: u64 = 1024;
/// Large writes of each of the objects that fill the disk, and how many such objects make room for the writers.
const FILLER: u64 = 16;
const ROOM: usize = 4;
/// Whoever waits longer than this for a small write waits too long.
const PATIENCE: Duration = Duration::from_secs(2);
const VOLUME: u64 = 1;
/// What is left of a file whose other component is rebuilt, and a component that is rebuilt here.
const LEFT: ObjectId = ObjectId { volume: VOLUME, object: ROUND + 2 };
const NEW: ObjectId = ObjectId { volume: VOLUME, object: ROUND + 3 };

/// What others got.
#[derive(Debug, Clone, Default)]
pub struct Others {
    /// How long each small write took from when it came to when it was durable, shortest first.
    pub small: Vec<Duration>,
    /// How many came.
    pub small_due: u64,
    /// Those that were not durable at the end, though they came two seconds before.
    pub small_waiting: u64,
    /// Objects that fill the disk.
    pub filled: Bytes,
    /// Bytes of large writes, per second.
    pub large: Rate,
    /// Bytes that were scrubbed, per second.
    pub scrubbed: Rate,
    /// Bytes of components that were rebuilt, per second.
    pub rebuilt: Rate,
}

/// The load of the headline in these states and no others.
pub fn load(disk: DiskSpec, states: &BTreeSet<State>, seconds: u64) -> Load {
    let is = |state| states.contains(&state);
    Load {
        readers: if is(State::Readers) { 8 } else { 0 },
        pins_percent: if is(State::Pins) { 5 } else { 0 },
        aged: is(State::Aged),
        fill_percent: if is(State::Aged) { 90.0 } else { 60.0 },
        seconds: Some(seconds),
        laps: u64::MAX,
        ..Load::headline(disk)
    }
}

/// What is being counted.
struct Counts {
    /// When counts began.
    began: Cell<Moment>,
    small: RefCell<Vec<Duration>>,
    due: Cell<u64>,
    /// When those came that are not durable.
    waiting: RefCell<BTreeMap<u64, Moment>>,
    large: Cell<u64>,
    rebuilt: Cell<u64>,
    /// What was read in the background before counts began.
    background: Cell<Bytes>,
    failure: RefCell<Option<Error>>,
    stopped: Cell<bool>,
}

impl Counts {
    fn failed(&self, result: Result<()>) {
        if let Err(error) = result {
            self.failure.borrow_mut().get_or_insert(error);
        }
    }
}

/// Runs the load, beside writers of objects as the states say.
pub fn run(seed: u64, load: &Load, states: &BTreeSet<State>) -> Result<(Outcome, Others)> {
    let world = World::new(seed);
    let disk = world.disk(load.disk.clone());
    let (target, ring) = world.run(set_up(world.env(disk.clone()), load))?;
    let counts = Rc::new(Counts {
        began: Cell::new(world.now()),
        small: RefCell::default(),
        due: Cell::default(),
        waiting: RefCell::default(),
        large: Cell::default(),
        rebuilt: Cell::default(),
        background: Cell::default(),
        failure: RefCell::default(),
        stopped: Cell::default(),
    });
    let filled = world.run(async {
        let objects = target.objects();
        objects.create_volume(VOLUME, Quota::default()).await?;
        for object in 1..=ROUND + 3 {
            objects.create(ObjectId { volume: VOLUME, object }, Vec::new()).await?;
        }
        if states.contains(&State::Rebuild) {
            let bytes = vec![3; LARGE.0 as usize];
            for at in (0..UNITS * UNIT.0).step_by(LARGE.0 as usize) {
                objects.write(target.stream(), LEFT, at, &bytes, Placement::Home).await?;
            }
        }
        // What is rebuilt anew again and again takes room twice until the map is durable.
        let room = ROOM + if states.contains(&State::Rebuild) { 4 } else { 0 };
        if states.contains(&State::Aged) { fill(&target, room).await } else { Ok(Bytes::ZERO) }
    })?;
    if states.contains(&State::SmallWrites) {
        world.spawner().detach(write_small(target.clone(), counts.clone()));
    }
    if states.contains(&State::LargeWrites) {
        world.spawner().detach(write_large(target.clone(), counts.clone()));
    }
    if states.contains(&State::Scrub) {
        world.spawner().detach(scrub(target.clone(), counts.clone()));
    }
    if states.contains(&State::Rebuild) {
        world.spawner().detach(rebuild(target.clone(), counts.clone()));
    }
    let begin = || {
        counts.began.set(world.now());
        counts.small.borrow_mut().clear();
        counts.due.set(0);
        counts.large.set(0);
        counts.rebuilt.set(0);
        counts.background.set(target.disk().counters().background);
    };
    let outcome = world.run(measure(&world, &disk, target.clone(), ring, load, &begin))?;
    counts.stopped.set(true);
    if let Some(error) = counts.failure.take() {
        return Err(error.of("writing beside the ring"));
    }
    let mut small = counts.small.take();
    small.sort_unstable();
    let (small_due, now) = (counts.due.get(), world.now());
    let waits = |came: &&Moment| now.since(**came) > PATIENCE;
    let small_waiting = counts.waiting.borrow().values().filter(waits).count() as u64;
    let rate = |bytes| Rate::of(bytes, now.since(counts.began.get()));
    let (large, rebuilt) = (rate(Bytes(counts.large.get())), rate(Bytes(counts.rebuilt.get())));
    // Nothing but the scrub works in the background; a step of it may last longer than what is measured.
    let scrubbed = rate(target.disk().counters().background - counts.background.get());
    Ok((outcome, Others { small, small_due, small_waiting, large, scrubbed, rebuilt, filled }))
}

/// Fills the disk with objects and then makes room for those who write; how much stays.
async fn fill(target: &Target, room: usize) -> Result<Bytes> {
    let (objects, stream, bytes) = (target.objects(), target.stream(), vec![2; LARGE.0 as usize]);
    let mut fillers = Vec::new();
    loop {
        let id = ObjectId { volume: VOLUME, object: 1000 + fillers.len() as u64 };
        objects.create(id, Vec::new()).await?;
        fillers.push(id);
        for n in 0..FILLER {
            match objects.write(stream, id, n * LARGE.0, &bytes, Placement::Home).await {
                Ok(()) => {}
                Err(error) if error.kind == Kind::Full && fillers.len() > room => {
                    for id in fillers.split_off(fillers.len() - 1 - room) {
                        objects.remove(id).await?;
                    }
                    return Ok(LARGE * (FILLER * fillers.len() as u64));
                }
                Err(error) => return Err(error),
            }
        }
    }
}

async fn write_small(target: Rc<Target>, counts: Rc<Counts>) {
    let env = target.disk().env().clone();
    let stream = target.stream();
    let mut number = 0;
    while !counts.stopped.get() {
        env.clock.sleep(Duration::from_secs(1) / ROUNDS as u32).await;
        for object in 1..=ROUND {
            let (target, counts, came) = (target.clone(), counts.clone(), env.clock.now());
            let (clock, at) = (env.clock.clone(), env.random.below(BLOCKS) * SMALL as u64);
            counts.due.set(counts.due.get() + 1);
            number += 1;
            let own = number;
            counts.waiting.borrow_mut().insert(own, came);
            env.spawner.detach(async move {
                let id = ObjectId { volume: VOLUME, object };
                let written = target.objects().write(stream, id, at, &[1; SMALL], Placement::Auto).await;
                counts.waiting.borrow_mut().remove(&own);
                // What came before the measurement is not part of it.
                if written.is_ok() && came >= counts.began.get() {
                    counts.small.borrow_mut().push(clock.now().since(came));
                }
                counts.failed(written);
            });
        }
    }
}

async fn write_large(target: Rc<Target>, counts: Rc<Counts>) {
    let (stream, id) = (target.stream(), ObjectId { volume: VOLUME, object: ROUND + 1 });
    let bytes = vec![1; LARGE.0 as usize];
    for n in 0.. {
        if counts.stopped.get() {
            return;
        }
        let written = target.objects().write(stream, id, n % LARGES * LARGE.0, &bytes, Placement::Home).await;
        if written.is_err() {
            return counts.failed(written);
        }
        counts.large.set(counts.large.get() + LARGE.0);
    }
}

async fn rebuild(target: Rc<Target>, counts: Rc<Counts>) {
    loop {
        if let Err(error) = rebuild_one(&target, &counts).await {
            return counts.failed(Err(error));
        }
        if counts.stopped.get() {
            return;
        }
    }
}

/// Rebuilds a component from its beginning to its end.
async fn rebuild_one(target: &Rc<Target>, counts: &Counts) -> Result<()> {
    let (objects, reading, writing) = (target.objects(), target.stream(), target.stream());
    let how = How { durability: Durability::Buffered, ..How::default() };
    let bytes = vec![4; UNIT.0 as usize];
    objects.truncate(NEW, 0).await?;
    for wave in 0..UNITS / WAVE {
        if counts.stopped.get() {
            return Ok(());
        }
        let units = || (wave * WAVE..(wave + 1) * WAVE).map(|nth| nth * UNIT.0);
        for read in all(units().map(|at| objects.read(reading, LEFT, at, UNIT.0))).await {
            read?;
        }
        for written in all(units().map(|at| objects.write_as(writing, NEW, Some(at), &bytes, &how))).await {
            written?;
        }
        counts.rebuilt.set(counts.rebuilt.get() + WAVE * UNIT.0);
    }
    objects.flush_buffered(Scope::Object(NEW), None).await.map(drop)
}

async fn scrub(target: Rc<Target>, counts: Rc<Counts>) {
    let options = Options { rate: None, span: Duration::from_secs(1), anew: false };
    while !counts.stopped.get() {
        let found = match target.scrub(options).await {
            Ok(step) => step.found,
            Err(error) => return counts.failed(Err(error)),
        };
        if let Some(damage) = found.first() {
            return counts.failed(Err(Error::damaged(format!("on a disk without faults: {damage:?}"))));
        }
    }
}

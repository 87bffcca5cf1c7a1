//! The life of a ring, by chance: elements of all sizes, gaps, pins, queries, closings, kills and power cuts at any I/O,
//! one life after another on the same disk, each compared with a plain model.
//!
//! Checked after every opening: everything that was acknowledged is there (unless it was overwritten by later laps);
//! what is there is a prefix of what was handed in; nothing is torn, doubled or out of order; what a pin holds is there.
//! Not checked here: timing (see `promise`), damage (see `damage`).

use crate::disk::{DiskSpec, SimDisk, presets};
use crate::feeder::Feeder;
use crate::reader::{Event, read};
use crate::stage::HISTORY;
use crate::world::World;
use forebay_env::Random;
use forebay_model::ring::{PinPolicy, RingSpec, RingState, RingStatus};
use forebay_model::{Bytes, Cause, Gap, Profile, Timestamp};
use forebay_target::Target;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// What a run of lives has done, so that a run that did nothing counts as nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    /// Power cuts and kills survived.
    pub crashes: u64,
    /// Elements handed in.
    pub elements: u64,
    /// Elements read back and compared.
    pub compared: u64,
    /// Laps begun beyond the first.
    pub laps: u64,
    /// Pins made.
    pub pins: u64,
    /// Openings that found a tail shorter than what had been handed in.
    pub cut_tails: u64,
}

impl Tally {
    /// Adds another run's.
    pub fn add(&mut self, other: &Tally) {
        self.crashes += other.crashes;
        self.elements += other.elements;
        self.compared += other.compared;
        self.laps += other.laps;
        self.pins += other.pins;
        self.cut_tails += other.cut_tails;
    }
}

/// What the model knows of one element.
#[derive(Clone, PartialEq, Eq)]
struct Known {
    time: Timestamp,
    bytes: Vec<u8>,
    /// Its source cut it off when a part of it had left: it has a number, and is no element.
    torn: bool,
}

/// The plain model: what was handed in, by sequence, and how much of it was acknowledged.
#[derive(Default)]
struct Model {
    elements: Vec<Known>,
    acknowledged: u64,
    pins: Vec<(u64, u64, u64)>,
    tally: Tally,
}

impl Model {
    /// The first number from `sequence` on that is a whole element's, or still to be given.
    fn whole_from(&self, sequence: u64) -> u64 {
        let torn = self.elements.iter().skip(sequence as usize).take_while(|known| known.torn).count();
        sequence + torn as u64
    }
}

const NAME: &str = "/life";

/// Lives `lives` lives on a fresh disk of `spec`.
pub fn live(seed: u64, spec: DiskSpec, lives: u32) -> Tally {
    let world = World::new(seed);
    let disk = world.disk(spec);
    let model = Rc::new(RefCell::new(Model::default()));
    let random = world.random();
    world.run(setup(world.env(disk.clone()), &random));
    for _ in 0..lives {
        let env = world.env(disk.clone());
        ended(&world, &disk, 400, one_life(env, model.clone()), async |env| {
            let target = Target::open(env).await.expect("the target opens");
            target.ring(NAME).expect("the ring is there").ready().await.expect("the tail is found");
        });
        model.borrow_mut().tally.crashes += 1;
        world.run(verify(world.env(disk.clone()), model.clone(), seed));
        world.kill();
    }
    model.take().tally
}

/// Lives a life to its end: mostly a power cut at one of its first `most` I/Os, otherwise a kill or a power cut behind it. Who opens it
/// `again` is often cut off as well, once or several times.
pub(crate) fn ended(
    world: &World,
    disk: &SimDisk,
    most: u64,
    life: impl Future<Output = ()>,
    again: impl AsyncFn(forebay_env::Env),
) {
    let random = world.random();
    if random.below(8) > 0 {
        disk.cut_after(1 + random.below(most));
    }
    let outcome = world.run_until_cut(life);
    disk.no_cut();
    match outcome {
        Ok(()) if random.below(2) == 0 => world.kill(),
        Ok(()) => world.crash(&[disk]),
        Err(_) => {}
    }
    while random.below(2) == 0 {
        disk.cut_after(1 + random.below(40));
        let opened = world.run_until_cut(again(world.env(disk.clone())));
        disk.no_cut();
        if opened.is_ok() {
            world.kill();
        }
    }
}

/// The disk that a seed lives on: flash, a disk with a write cache, one without.
pub fn disk(seed: u64) -> DiskSpec {
    match seed % 3 {
        0 => presets::ssd().scaled(4000),
        1 => presets::sata7200().scaled(16_000),
        _ => presets::sata7200().scaled(16_000).with_write_cache(None),
    }
}

async fn setup(env: forebay_env::Env, random: &Rc<dyn Random>) {
    let geometry = env.device.geometry();
    let profile = Profile::guess(geometry.size, geometry.rotates);
    Target::format(env.clone(), profile).await.expect("a healthy disk can be formatted");
    let target = Target::open(env).await.expect("a formatted disk opens");
    let mut spec = RingSpec::new(NAME, Bytes::mib(4 + random.below(4)));
    spec.block = Bytes::kib([4, 16, 64][random.below(3) as usize]);
    spec.segment = Bytes::kib([256, 320, 900][random.below(3) as usize]);
    spec.flush_interval = Duration::from_millis([0, 20, 200][random.below(3) as usize]);
    spec.pin_policy = PinPolicy::Refuse;
    spec.keys = vec!["tag=u32le@0".to_owned()];
    target.create_ring(spec).await.expect("a small ring fits");
    target.close().await.expect("an empty ring closes");
}

async fn one_life(env: forebay_env::Env, model: Rc<RefCell<Model>>) {
    let random = env.random.clone();
    let clock = env.clock.clone();
    let target = Target::open(env).await.expect("the target opens");
    let ring = target.ring(NAME).expect("the ring is there");
    ring.ready().await.expect("the tail is found");
    let writer = random.next_u64();
    let mut feeder = Feeder::new(ring.clone(), clock.clone(), writer).expect("nobody else records");
    for _ in 0..random.below(120) {
        match random.below(100) {
            0..70 => {
                for _ in 0..random.below(30) {
                    let (time, bytes) = make(&random, clock.wall(), model.borrow().elements.len() as u64);
                    model.borrow_mut().elements.push(Known { time, bytes: bytes.clone(), torn: false });
                    model.borrow_mut().tally.elements += 1;
                    let (head, tail) = bytes.split_at(bytes.len() / 3);
                    feeder.element(time, &[head, tail]).await.expect("the ring accepts");
                }
            }
            70..80 => {
                let sequence = feeder.durable().await.expect("a healthy disk makes it durable");
                let mut model = model.borrow_mut();
                assert!(sequence <= model.elements.len() as u64);
                model.acknowledged = model.acknowledged.max(sequence);
            }
            80..82 => {
                let (time, bytes) = make(&random, clock.wall(), model.borrow().elements.len() as u64);
                model.borrow_mut().elements.push(Known { time, bytes: Vec::new(), torn: true });
                if !feeder.torn(time, &bytes).await.expect("the ring accepts") {
                    model.borrow_mut().elements.pop();
                }
            }
            82..85 => {
                let now = clock.wall();
                let gap = Gap { cause: Cause::Kernel, count: Some(1), first: now, last: now };
                feeder.gap(&gap).await.expect("the ring accepts");
            }
            85..90 => clock.sleep(Duration::from_millis(random.below(500))).await,
            90..95 => {
                let now = clock.wall();
                if let Ok(pinned) = target.pin(NAME, "by chance", now.before(Duration::from_millis(300)), now).await {
                    let pin = pinned.pin;
                    model.borrow_mut().pins.push((pin.id, pin.first_sequence, pin.end_sequence));
                    model.borrow_mut().tally.pins += 1;
                }
            }
            95..98 => {
                let pin = model.borrow_mut().pins.pop();
                if let Some((id, _, _)) = pin {
                    target.unpin(NAME, id).await.expect("what was pinned can be unpinned");
                }
            }
            _ => feeder.tick(Duration::ZERO).expect("the ring accepts"),
        }
        let progress = ring.progress();
        if progress.writer == writer {
            let mut model = model.borrow_mut();
            model.acknowledged = model.acknowledged.max(progress.sequence);
        }
    }
    if random.below(3) == 0 {
        feeder.flush().expect("the ring accepts");
        drop(feeder);
        target.close().await.expect("it closes");
        let (mut model, progress) = (model.borrow_mut(), ring.progress());
        model.acknowledged = match ring.status().state {
            // What is pinned leaves no room for the last ones, of which nobody is told that they are durable.
            RingState::Full if progress.writer == writer => model.acknowledged.max(progress.sequence),
            RingState::Full => model.acknowledged,
            _ => model.elements.len() as u64,
        };
    }
}

fn make(random: &Rc<dyn Random>, now: Timestamp, number: u64) -> (Timestamp, Vec<u8>) {
    let length = match random.below(20) {
        0 => 4 + random.below(200_000),
        1..4 => 4 + random.below(20_000),
        _ => 4 + random.below(300),
    };
    let mut bytes = vec![number as u8; length as usize];
    bytes[..4].copy_from_slice(&(number as u32 % 97).to_le_bytes());
    (now, bytes)
}

/// Opens the target and compares all of the ring with the model.
async fn verify(env: forebay_env::Env, model: Rc<RefCell<Model>>, seed: u64) {
    let (clock, spawner, random) = (env.clock.clone(), env.spawner.clone(), env.random.clone());
    let target = Target::open(env).await.unwrap_or_else(|e| panic!("seed {seed}: the target does not open: {e}"));
    let ring = target.ring(NAME).expect("the ring is there");
    ring.ready().await.unwrap_or_else(|e| panic!("seed {seed}: the tail is not found: {e}"));
    let status = ring.status();
    let (events, summary) = read(ring.clone(), "all", &clock, &spawner).await.expect("a query runs");
    let forgotten = compare(&mut model.borrow_mut(), &status, &events, seed);
    for id in forgotten {
        target.unpin(NAME, id).await.expect("a pin that is told of can be let go");
    }
    assert_eq!(summary.elements, elements_in(&events), "seed {seed}: the summary of a query");
    // One value of a key, by the index, is the same as one value by looking at everything.
    let tag = random.below(97) as u32;
    let (found, _) = read(ring, &format!("tag={tag}"), &clock, &spawner).await.expect("a query runs");
    let by_index: Vec<u64> = found
        .iter()
        .filter_map(|e| if let Event::Element { sequence, .. } = e { Some(*sequence) } else { None })
        .collect();
    let by_looking: Vec<u64> = events
        .iter()
        .filter_map(|e| match e {
            Event::Element { sequence, bytes, .. } if bytes[..4] == tag.to_le_bytes() => Some(*sequence),
            _ => None,
        })
        .collect();
    assert_eq!(by_index, by_looking, "seed {seed}: tag={tag}");
    assert_eq!(target.disk().failure(), None, "seed {seed}: a healthy disk failed");
}

fn elements_in(events: &[Event]) -> u64 {
    events.iter().filter(|e| matches!(e, Event::Element { .. })).count() as u64
}

/// Compares what was read with the model, which learns how much survived; the pins that nobody was told of.
fn compare(model: &mut Model, status: &RingStatus, events: &[Event], seed: u64) -> Vec<u64> {
    let handed_in = model.elements.len() as u64;
    assert!(
        (model.acknowledged..=handed_in).contains(&status.next_sequence),
        "seed {seed}: {} were acknowledged of {handed_in}, and the ring goes on at {}",
        model.acknowledged,
        status.next_sequence
    );
    if status.next_sequence < handed_in {
        model.tally.cut_tails += 1;
    }
    model.elements.truncate(status.next_sequence as usize);
    model.acknowledged = status.next_sequence;
    let mut expect: Option<u64> = None;
    let (mut kept, mut bytes_kept, mut expired) = (0, 0, false);
    for event in events {
        match event {
            Event::Element { sequence, time, bytes } => {
                if let Some(expect) = expect {
                    assert_eq!(*sequence, expect, "seed {seed}: an element is missing or doubled");
                }
                let known = model.elements.get(*sequence as usize);
                assert!(
                    known == Some(&Known { time: *time, bytes: bytes.clone(), torn: false }),
                    "seed {seed}: element {sequence} differs"
                );
                expect = Some(model.whole_from(sequence + 1));
                kept += 1;
                bytes_kept += bytes.len() as u64;
            }
            Event::Expired(from, to) => {
                assert!(from < to, "seed {seed}: {from}..{to} expired");
                let missing = expect.unwrap_or_else(|| model.whole_from(0));
                assert_eq!(
                    model.whole_from(*from),
                    missing,
                    "seed {seed}: {from}..{to} expired, and not what is missing"
                );
                expect = Some(model.whole_from(*to));
                expired = true;
            }
            Event::Gap(gap) => {
                assert_ne!(gap.cause, Cause::Damaged, "seed {seed}: {gap} on a disk that damages nothing")
            }
        }
    }
    if let Some(end) = expect {
        assert_eq!(end, model.whole_from(status.next_sequence), "seed {seed}: the newest elements are not returned");
    } else {
        assert_eq!(kept, 0, "seed {seed}: an expired range at the end");
    }
    let recorded: u64 = model.elements.iter().map(|element| element.bytes.len() as u64).sum();
    let capacity = status.spec.capacity.0;
    if expired {
        assert!(
            recorded * HISTORY > capacity,
            "seed {seed}: a ring of {capacity} that never came round lost something"
        );
        assert!(bytes_kept * HISTORY > capacity, "seed {seed}: {bytes_kept} of {recorded} are left in {capacity}");
    }
    model.tally.compared += kept;
    model.tally.laps += u64::from(events.iter().any(|e| matches!(e, Event::Expired(..))));
    let sequences: std::collections::BTreeSet<u64> = events
        .iter()
        .filter_map(|e| if let Event::Element { sequence, .. } = e { Some(*sequence) } else { None })
        .collect();
    let known_pins: Vec<u64> = status.pins.iter().map(|p| p.id).collect();
    for (id, first, end) in &model.pins {
        assert!(known_pins.contains(id), "seed {seed}: pin {id} was acknowledged and is gone");
        for sequence in (*first..*end).filter(|s| *s < status.next_sequence) {
            // The first element of a pin may have begun in a segment before it.
            assert!(
                sequences.contains(&sequence) || sequence == *first || model.elements[sequence as usize].torn,
                "seed {seed}: pin {id} holds {first}..{end}, and {sequence} is gone"
            );
        }
    }
    // Pins that were made but not acknowledged may be there or not; those no longer known are let go.
    known_pins.into_iter().filter(|id| !model.pins.iter().any(|(p, _, _)| p == id)).collect()
}

#[cfg(test)]
mod tests;

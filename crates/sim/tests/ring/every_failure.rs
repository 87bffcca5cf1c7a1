//! The Nth read, write or flush fails, for every N until a small workload passes, once and from then on: opening after a
//! crash, recording, sealing, creating, pinning, resizing, deleting, querying, closing. Outcomes 22 and 27 of the list in
//! `docs/promises/ring.md`, and a disk that dies or becomes a hundred times slower (31).

#![allow(clippy::unwrap_used)]

use forebay_env::Env;
use forebay_model::ring::{RingSpec, RingState};
use forebay_model::{Bytes, Moment, Rate, Result};
use forebay_sim::audit::runs;
use forebay_sim::disk::{Fault, Op, presets};
use forebay_sim::feeder::Feeder;
use forebay_sim::stage::{Book, Ending, NAME, Scene, Stage, element, look, record};
use forebay_target::Target;
use forebay_target::profile::{MeasureOptions, measure};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// What the workload was told.
#[derive(Debug, Default, Clone)]
struct Told {
    created: bool,
    deleted: bool,
    pin: Option<u64>,
    resized: bool,
    errors: Vec<String>,
}

const OTHER: &str = "/other";

/// Each step is tried, whatever became of those before it.
async fn workload(env: Env, book: Rc<RefCell<Book>>, told: Rc<RefCell<Told>>) {
    let target = match Target::open(env.clone()).await {
        Ok(target) => target,
        Err(error) => return told.borrow_mut().errors.push(error.to_string()),
    };
    let note = |result: Result<()>| {
        let ok = result.is_ok();
        told.borrow_mut().errors.extend(result.err().map(|e| e.to_string()));
        ok
    };
    note(record(&env, &target, &book, 25).await);
    let mut spec = RingSpec::new(OTHER, Bytes::mib(1));
    (spec.block, spec.segment) = (Bytes::kib(16), Bytes::kib(256));
    let created = note(target.create_ring(spec).await.map(|_| ()));
    told.borrow_mut().created = created;
    let now = env.clock.wall();
    let newest = book.borrow().known.values().next_back().map_or(now, |known| known.time);
    match target.pin(NAME, "all", newest.before(Duration::from_millis(20)), now).await {
        Ok(pinned) => told.borrow_mut().pin = Some(pinned.pin.id),
        Err(error) => told.borrow_mut().errors.push(error.to_string()),
    }
    note(record(&env, &target, &book, 120).await);
    let resized = note(target.resize_ring(NAME, Bytes::mib(3)).await.map(|_| ()));
    told.borrow_mut().resized = resized;
    let deleted = created && note(target.delete_ring(OTHER).await);
    told.borrow_mut().deleted = deleted;
    if let Err(error) = look(&env, &target, &book).await {
        told.borrow_mut().errors.push(error);
    }
    note(target.close().await);
}

/// A ring that was not closed.
fn scene() -> Scene {
    let stage = Stage::new(3, presets::ssd().scaled(15_000), |_| ());
    stage.record(150, Ending::Closed);
    stage.record(60, Ending::Killed);
    stage.scene()
}

/// Runs the workload with `fault`, then heals, opens and looks. Whether anything failed in it.
fn with(scene: &Scene, fault: Option<Fault>, cut: bool) -> Told {
    let doing = format!("{fault:?}, then {}", if cut { "a power cut" } else { "a kill" });
    let stage = scene.begin(3);
    let told: Rc<RefCell<Told>> = Rc::default();
    if let Some(fault) = fault.clone() {
        stage.disk.inject(fault);
    }
    stage.world.run(workload(stage.env(), stage.book.clone(), told.clone()));
    stage.disk.heal();
    if cut {
        stage.world.crash(&[&stage.disk])
    } else {
        stage.world.kill()
    }
    let told = told.borrow().clone();
    let (env, book) = (stage.env(), stage.book.clone());
    let (told_, doing_) = (told.clone(), doing.clone());
    stage.world.run(async move {
        let (told, doing) = (told_, doing_);
        let target =
            Target::open(env.clone()).await.unwrap_or_else(|e| panic!("{doing}: the target does not open: {e}"));
        let look = look(&env, &target, &book).await.unwrap_or_else(|e| panic!("{doing}: {e}"));
        let (acknowledged, next) = (book.borrow().acknowledged, look.status.next_sequence);
        assert!(next >= acknowledged, "{doing}: {acknowledged} were acknowledged, and the ring goes on at {next}");
        let damaged = &look.answer.told - &look.answer.expired;
        assert!(
            damaged.is_empty(),
            "{doing}: {} are told to be damaged on a disk that damages nothing",
            runs(&damaged)
        );
        let pins: Vec<u64> = look.status.pins.iter().map(|p| p.id).collect();
        assert!(told.pin.is_none_or(|pin| pins.contains(&pin)), "{doing}: an acknowledged pin is gone");
        assert!(!told.resized || look.status.spec.capacity == Bytes::mib(3), "{doing}: a resize is gone");
        let other = target.ring(OTHER).is_ok();
        assert!(!told.created || told.deleted || other || told.errors.len() > 1, "{doing}: a created ring is gone");
        assert!(!told.deleted || !other, "{doing}: a deleted ring is back");
        // And it goes on.
        record(&env, &target, &book, 20).await.unwrap_or_else(|e| panic!("{doing}: recording on: {e}"));
        target.close().await.unwrap_or_else(|e| panic!("{doing}: closing: {e}"));
    });
    stage.world.kill();
    let look = stage.look().unwrap_or_else(|e| panic!("{doing}: at the end: {e}"));
    assert!(look.complaints.is_empty(), "{doing}: {:?}", look.complaints);
    told
}

fn fail_each(op: Op, each: impl Fn(u64, bool, bool, &Told)) {
    let scene = scene();
    let count = reached(&scene, op);
    assert!(count > 20, "only {count} I/Os");
    for sticky in [false, true] {
        // And one more than there are: then nothing fails.
        for nth in 0..=count {
            let told = with(&scene, Some(Fault::Fail { op, nth, sticky }), nth % 2 == 0);
            each(nth, nth < count, sticky, &told);
        }
    }
}

/// How many I/Os of a kind the workload takes on a healthy disk.
fn reached(scene: &Scene, op: Op) -> u64 {
    let stage = scene.begin(3);
    let before = stage.disk.counters();
    stage.world.run(workload(stage.env(), stage.book.clone(), Rc::default()));
    let done = stage.disk.counters() - before;
    match op {
        Op::Read => done.reads,
        Op::Write => done.writes,
        Op::Flush => done.flushes,
    }
}

#[test]
fn on_a_healthy_disk_all_of_the_workload_succeeds() {
    let told = with(&scene(), None, false);
    assert_eq!(told.errors, Vec::<String>::new());
    assert!(told.created && told.deleted && told.resized && told.pin.is_some(), "{told:?}");
}

#[test]
fn whichever_write_fails_the_target_stops_and_keeps_what_it_acknowledged() {
    fail_each(Op::Write, |nth, failed, sticky, told| {
        assert_eq!(!told.errors.is_empty(), failed, "write {nth} failed ({sticky}): {:?}", told.errors);
    });
}

#[test]
fn whichever_flush_fails_the_target_stops_and_keeps_what_it_acknowledged() {
    fail_each(Op::Flush, |nth, failed, sticky, told| {
        assert_eq!(!told.errors.is_empty(), failed, "flush {nth} failed ({sticky}): {:?}", told.errors);
    });
}

#[test]
fn whichever_read_fails_nothing_is_lost_by_it() {
    fail_each(Op::Read, |nth, _, sticky, told| {
        // What fails once is read again.
        assert!(sticky || told.errors.is_empty(), "read {nth} failed once: {:?}", told.errors);
    });
}

/// Records at the rate of the guarantee, 5 MB/s, whatever becomes durable.
async fn pour(env: &Env, target: &Rc<Target>, book: &Rc<RefCell<Book>>, count: u64) -> Result<()> {
    let ring = target.ring(NAME)?;
    let mut feeder = Feeder::new(ring.clone(), env.clock.clone(), 77)?;
    let first = ring.status().next_sequence;
    for number in first..first + count {
        let known = element(env.clock.wall(), number, 12_000);
        feeder.element(known.time, &[&known.bytes]).await?;
        book.borrow_mut().known.insert(number, known);
        book.borrow_mut().acknowledged = ring.progress().sequence;
        env.clock.sleep(Duration::from_micros(2400)).await;
    }
    Ok(())
}

/// A ring with a guarantee, recorded into until a fault comes and for 20 s after; what its status said at the end.
fn recorded_through(fault: impl Fn(Moment) -> Fault) -> (RingState, u64, bool, Duration) {
    let stage = Stage::new(9, presets::sata7200().scaled(5000), |spec| {
        spec.guarantee = Rate(5_000_000);
        spec.flush_interval = Duration::from_secs(1);
        spec.capacity = Bytes::mib(20);
        spec.segment = Bytes::mib(1);
    });
    let (env, book, disk) = (stage.env(), stage.book.clone(), stage.disk.clone());
    let seen = stage.world.run(async move {
        let target = Target::open(env.clone()).await.unwrap();
        record(&env, &target, &book, 200).await.unwrap();
        let begins = env.clock.now();
        disk.inject(fault(begins));
        let spawner = env.spawner.clone();
        let (env_, target_, book_) = (env.clone(), target.clone(), book.clone());
        let recorder = spawner.spawn(async move { pour(&env_, &target_, &book_, 8000).await });
        let ring = target.ring(NAME).unwrap();
        let mut noticed = None;
        for _ in 0..200 {
            env.clock.sleep(Duration::from_millis(100)).await;
            let status = ring.status();
            if status.missed_deadlines > 0 || status.state == RingState::Failed {
                noticed.get_or_insert(env.clock.now().since(begins));
            }
        }
        let status = ring.status();
        let failed = status.state == RingState::Failed && recorder.await.is_err();
        (status.state, status.missed_deadlines, failed, noticed.unwrap())
    });
    stage.disk.heal();
    // With the power gone it shows what was durable when it was called so.
    stage.world.crash(&[&stage.disk]);
    let acknowledged = stage.book.borrow().acknowledged;
    let look = stage.look().unwrap();
    assert!(look.status.next_sequence >= acknowledged, "{acknowledged} were acknowledged");
    assert_eq!(look.answer.told, Default::default());
    seen
}

#[test]
fn a_disk_that_dies_while_recording_is_said_and_acknowledges_nothing() {
    let (state, _, recorder_told, after) = recorded_through(|from| Fault::Dead { from });
    assert_eq!(state, RingState::Failed);
    assert!(recorder_told && after <= Duration::from_secs(2), "noticed after {after:?}");
}

#[test]
fn a_disk_that_becomes_a_hundred_times_slower_is_noticed_within_ten_seconds() {
    let (state, missed, _, after) = recorded_through(|from| Fault::Slow { factor: 100.0, from });
    assert!(state != RingState::Failed && missed > 0, "{state:?}, {missed} missed");
    assert!(after <= Duration::from_secs(10), "noticed after {after:?}");
}

#[test]
fn a_disk_that_becomes_slow_is_noticed_without_any_guarantee_and_not_before() {
    let stage = Stage::new(10, presets::sata7200().scaled(5000), |spec| spec.capacity = Bytes::mib(20));
    let (env, book, disk) = (stage.env(), stage.book.clone(), stage.disk.clone());
    stage.world.run(async move {
        let target = Target::open(env.clone()).await.unwrap();
        let layout = target.layout();
        let extent = layout.groups_at..layout.groups_at + layout.group * u64::from(layout.groups);
        let options = MeasureOptions::for_extent(extent.end - extent.start, true, false);
        let measured = measure(&env, extent, options, &mut |_| ()).await.unwrap();
        target.set_profile(measured).await.unwrap();
        let spawner = env.spawner.clone();
        let (env_, target_) = (env.clone(), target.clone());
        let _recorder = spawner.spawn(async move { pour(&env_, &target_, &book, 80_000).await });
        env.clock.sleep(Duration::from_secs(20)).await;
        assert_eq!(target.disk().slower(), 0);
        let begins = env.clock.now();
        disk.inject(Fault::Slow { factor: 100.0, from: begins });
        while target.disk().slower() == 0 {
            env.clock.sleep(Duration::from_millis(100)).await;
            assert!(env.clock.now().since(begins) <= Duration::from_secs(10), "nothing was said");
        }
    });
}

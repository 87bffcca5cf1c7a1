//! One write of a session is lost, torn, or done over a root or a checkpoint, and acknowledged all the same: the target
//! opens, and what had been recorded before is there. Each write of the session, each way.

#![allow(clippy::unwrap_used)]

use forebay_model::{Bytes, Rate};
use forebay_sim::audit::runs;
use forebay_sim::disk::{Fault, presets};
use forebay_sim::stage::{Ending, NAME, Scene, Stage, look, record};
use forebay_target::Target;
use forebay_target::layout::ROOTS;
use std::collections::BTreeSet;
use std::time::Duration;

/// A ring that was not closed, promised `guarantee`.
fn scene(guarantee: Rate) -> Scene {
    let stage = Stage::new(5, presets::ssd().scaled(15_000), |spec| {
        (spec.guarantee, spec.flush_interval) = (guarantee, Duration::from_millis(200));
    });
    stage.record(120, Ending::Closed);
    stage.record(40, Ending::Killed);
    stage.scene()
}

/// How a session went.
struct Went {
    writes: u64,
    /// Whether the device was told not to have kept what it was given.
    told: bool,
}

/// Opens, records, pins, records, lets go of the pin: four commits, and one more if it closes. `fault` happens after the
/// first of them.
fn session(stage: &Stage, ending: Ending, fault: Option<Fault>) -> Went {
    let before = stage.disk.counters().writes;
    let (env, book, disk) = (stage.env(), stage.book.clone(), stage.disk.clone());
    let told = stage.world.run(async move {
        let target = Target::open(env.clone()).await.unwrap();
        fault.into_iter().for_each(|fault| disk.inject(fault));
        record(&env, &target, &book, 30).await.unwrap();
        let newest = book.borrow().known.values().next_back().unwrap().time;
        let pinned = target.pin(NAME, "some", newest.before(Duration::from_millis(5)), newest).await.unwrap();
        record(&env, &target, &book, 30).await.unwrap();
        target.unpin(NAME, pinned.pin.id).await.unwrap();
        // What was committed beside a promise is looked for when there is time.
        env.clock.sleep(Duration::from_millis(200)).await;
        if ending == Ending::Closed {
            target.close().await.unwrap();
        }
        target.complaints().iter().any(|complaint| complaint.contains("written again"))
    });
    stage.world.kill();
    Went { writes: stage.disk.counters().writes - before, told }
}

fn whatever_write_goes_astray(guarantee: Rate) {
    let scene = scene(guarantee);
    let (mut tried, mut told) = (0, 0);
    for ending in [Ending::Closed, Ending::Killed] {
        let healthy = scene.begin(9);
        let Went { writes, told: complains } = session(&healthy, ending, None);
        assert!(!complains && writes >= 16, "{writes} writes");
        let (superblock, _, _) = healthy.world.run(Target::inspect(healthy.env())).unwrap();
        let area = |which| superblock.layout.area_at(which);
        let places =
            [ROOTS[0], ROOTS[1], area(0), area(0) + Bytes(4096), superblock.beside(0), area(1), area(1) + Bytes(4096)];
        for nth in 0..writes {
            let astray = places.map(|to| Fault::MisdirectWrite { nth, to });
            for fault in astray.into_iter().chain([Fault::LoseWrite { nth }, Fault::TearWrite { nth }]) {
                let doing = format!("{fault:?}, then {ending:?}");
                let stage = scene.begin(9);
                let recorded = stage.book.borrow().acknowledged;
                stage.disk.inject(fault);
                told += u64::from(session(&stage, ending, None).told);
                tried += 1;
                let (env, book) = (stage.env(), stage.book.clone());
                let look = stage.world.run(async move {
                    let target = Target::open(env.clone()).await.map_err(|e| format!("it does not open: {e}"))?;
                    let look = look(&env, &target, &book).await?;
                    target.close().await.map_err(|e| format!("it does not close: {e}"))?;
                    Ok::<_, String>(look)
                });
                let look = look.unwrap_or_else(|e| panic!("{doing}: {e}"));
                let gone: BTreeSet<u64> = (0..recorded).filter(|n| !look.answer.returned.contains(n)).collect();
                assert!(gone.is_empty(), "{doing}: {} had been recorded before, and are gone", runs(&gone));
            }
        }
    }
    assert!(told > 100, "of {tried} sessions {told} had to write a checkpoint again");
}

#[test]
fn one_write_that_the_device_loses_tears_or_misplaces_costs_no_target_its_checkpoints() {
    whatever_write_goes_astray(Rate(0));
}

#[test]
fn one_write_that_the_device_loses_tears_or_misplaces_costs_no_target_with_a_promise_its_checkpoints() {
    whatever_write_goes_astray(Rate::mb(1));
}

/// A place that takes what is written and gives nothing back is done without, whichever copy is there: the other one is
/// read back instead, and the target says what it found.
#[test]
fn a_copy_of_the_checkpoint_whose_place_keeps_nothing_is_done_without() {
    for guarantee in [Rate(0), Rate::mb(1)] {
        let told = [0, 1].map(|which| {
            let stage = scene(guarantee).begin(11);
            let (superblock, _, _) = stage.world.run(Target::inspect(stage.env())).unwrap();
            let at = superblock.layout.area_at(which);
            let fault = Fault::Unreadable { offset: at, length: Bytes(4096), permanent: true };
            let told = session(&stage, Ending::Killed, Some(fault)).told;
            let again = session(&stage, Ending::Killed, None).told;
            let looked = stage.look().unwrap();
            assert!(looked.answer.told.is_empty(), "{:?}", looked.answer.told);
            assert!(looked.complaints.iter().any(|complaint| complaint.contains("copy")), "{:?}", looked.complaints);
            assert!(!again, "which copy is whole is known from the beginning");
            told
        });
        assert!(told[0] || told[1], "one of them is written last");
    }
}

/// What a write held that was lost is told to whoever asks by key, too, also where the target is opened before the segment
/// is full: then no index has it.
#[test]
fn what_a_lost_write_held_is_told_to_whoever_asks_by_key() {
    for seed in 0..6 {
        let stage = Stage::new(seed, presets::ssd().scaled(15_000), |spec| spec.block = Bytes::kib(4));
        stage.record(20, Ending::Closed);
        let scene = stage.scene();
        let mut lost = 0;
        for nth in 0..40 {
            let stage = scene.begin(seed);
            stage.disk.inject(Fault::LoseWrite { nth });
            stage.record(60, Ending::Closed);
            stage.disk.calm();
            // Each asks for another key.
            for _ in 0..5 {
                let look = stage.look().unwrap_or_else(|e| panic!("seed {seed}, write {nth}: {e}"));
                lost += look.answer.told.len();
            }
        }
        assert!(lost > 50, "seed {seed}: hardly anything was lost");
    }
}

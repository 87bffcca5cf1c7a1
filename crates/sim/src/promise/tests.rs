use super::{Arrivals, Elements, Load, run};
use crate::World;
use crate::disk::presets;
use forebay_model::{Bytes, ObjectId, Rate};
use forebay_target::Target;
use forebay_target::object::Placement;
use forebay_target::object::rows::Quota;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

#[test]
fn sixty_megabytes_a_second_are_kept_beside_eight_readers_on_a_full_aged_pinned_disk() {
    // Three laps, of 25 seconds each: readers are overtaken all the time, and begin elsewhere.
    let outcome = run(1, &Load::headline(presets::wd15ears().scaled(1000))).unwrap();
    assert_eq!((outcome.missed_deadlines, outcome.lost_elements), (0, 0));
    assert!(outcome.read.0 * 100 >= outcome.limit.0 * 70, "readers got {} of {}", outcome.read, outcome.limit);
}

#[test]
fn readers_get_what_raw_io_would_leave_them_with_elements_of_all_sizes() {
    let mb = |size| Elements::Fixed(Bytes(size));
    let sizes = [mb(20), mb(1000), mb(64_000), mb(1_000_000), mb(60_000_000), Elements::Mixed];
    let shares = sizes.map(|elements| {
        let mut load = Load::headline(presets::wd15ears().scaled(100));
        (load.laps, load.elements) = (1, elements);
        let outcome = run(1, &load).unwrap();
        assert_eq!((outcome.missed_deadlines, outcome.lost_elements), (0, 0), "{elements:?}");
        assert!(outcome.worst_second >= load.guarantee, "{elements:?}: {} in the worst second", outcome.worst_second);
        outcome.read.0 as f64 / outcome.limit.0 as f64
    });
    let (least, most) = (shares.iter().copied().fold(1.0, f64::min), shares.iter().copied().fold(0.0, f64::max));
    assert!(least >= 0.9, "readers got {shares:.3?} of the limit");
    assert!(least >= 0.95 * most, "readers got {shares:.3?} of the limit");
}

#[test]
fn what_is_admitted_at_most_is_kept_with_keys_many_pins_and_readers() {
    for (name, disk, rate) in [
        ("wd15ears", presets::wd15ears().scaled(1000), 55),
        ("sata7200", presets::sata7200().scaled(300), 70),
        ("cheetah15k", presets::cheetah15k().scaled(100), 75),
    ] {
        let mut load = Load::headline(disk);
        (load.guarantee, load.rate, load.laps) = (Rate::mb(rate), Rate::mb(rate), 1);
        (load.pins_percent, load.readers, load.elements) = (40, 4, Elements::Fixed(Bytes(4000)));
        load.keys = ["a=u32le@0", "b=u16be@10", "c=bytes8@20"].map(String::from).to_vec();
        let outcome = run(3, &load).unwrap();
        assert_eq!((outcome.missed_deadlines, outcome.lost_elements), (0, 0), "{name}");
        assert!(outcome.read > Rate(0), "{name}: readers got nothing");
    }
}

#[test]
fn readers_of_a_ring_in_which_nothing_is_yet_wait_for_it() {
    let mut load = Load::headline(presets::wd15ears().scaled(1000));
    (load.aged, load.readers, load.laps) = (false, 4, 1);
    let outcome = run(1, &load).unwrap();
    assert_eq!((outcome.missed_deadlines, outcome.lost_elements), (0, 0));
    assert!(outcome.read > Rate(0));
}

#[test]
fn flash_keeps_nearly_its_whole_rate_beside_readers() {
    let mut load = Load::headline(presets::ssd().scaled(100));
    (load.guarantee, load.rate) = (Rate::mb(350), Rate::mb(350));
    (load.readers, load.seconds) = (4, Some(8));
    let outcome = run(1, &load).unwrap();
    assert_eq!((outcome.missed_deadlines, outcome.lost_elements), (0, 0));
    assert!(outcome.read.0 * 100 >= outcome.limit.0 * 80, "readers got {} of {}", outcome.read, outcome.limit);
}

#[test]
fn a_second_counts_what_came_in_it_of_elements_that_were_kept() {
    let mut arrivals = Arrivals::new(Rate(100));
    arrivals.kept(0, 250);
    // The element that came from 250 to 270 was lost.
    arrivals.kept(270, 420);
    assert_eq!(arrivals.worst(200), Rate(100));
    assert_eq!(arrivals.worst(420), Rate(80));
    assert_eq!(arrivals.worst(500), Rate(20));
    assert_eq!(arrivals.worst(600), Rate(0));
}

/// Writes 4 KiB to each of 20 objects, 16 times a second; counts what is durable.
async fn write_small(target: Rc<Target>, done: Rc<Cell<u64>>) {
    let env = target.disk().env().clone();
    loop {
        env.clock.sleep(Duration::from_millis(1000 / 16)).await;
        for object in 1..=20 {
            let (target, done, at) = (target.clone(), done.clone(), env.random.below(1000) * 4096);
            env.spawner.detach(async move {
                let id = ObjectId { volume: 1, object };
                target.objects().write(target.stream(), id, at, &[1; 4096], Placement::Auto).await.unwrap();
                done.set(done.get() + 1);
            });
        }
    }
}

/// Writes one object over and over, 4 MiB at a time.
async fn write_large(target: Rc<Target>, done: Rc<Cell<u64>>) {
    let (stream, id) = (target.stream(), ObjectId { volume: 1, object: 21 });
    for n in 0.. {
        let bytes = vec![1; 4 << 20];
        target.objects().write(stream, id, (n % 500) << 22, &bytes, Placement::Home).await.unwrap();
        done.set(done.get() + 1);
    }
}

#[test]
fn a_promise_is_kept_beside_durable_writes_large_ones_and_readers() {
    for large in [false, true] {
        let mut load = Load::headline(presets::wd15ears().scaled(100));
        (load.fill_percent, load.readers, load.seconds, load.pins_percent) = (60.0, 4, Some(20), 0);
        let world = World::new(1);
        let disk = world.disk(load.disk.clone());
        let (target, ring) = world.run(super::set_up(world.env(disk.clone()), &load)).unwrap();
        world.run(async {
            target.objects().create_volume(1, Quota::default()).await.unwrap();
            for object in 1..=21 {
                target.objects().create(ObjectId { volume: 1, object }, Vec::new()).await.unwrap();
            }
        });
        let (few, many) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        world.spawner().detach(write_small(target.clone(), few.clone()));
        if large {
            world.spawner().detach(write_large(target.clone(), many.clone()));
        }
        let outcome = world.run(super::measure(&world, &disk, target.clone(), ring.clone(), &load)).unwrap();
        assert_eq!((outcome.missed_deadlines, outcome.lost_elements), (0, 0), "large: {large}");
        let (least, due) = (few.get(), world.now().0 / 1_000_000_000 * 300);
        assert!(least > due, "{least} durable writes of more than {due}");
        assert!(outcome.read > Rate(0) && (many.get() > 0) == large, "{} read, {} large", outcome.read, many.get());
    }
}

#[test]
fn a_promise_is_kept_beside_a_scrub_durable_writes_and_readers_and_the_scrub_gets_on_afterwards() {
    let mut load = Load::headline(presets::wd15ears().scaled(100));
    (load.fill_percent, load.readers, load.seconds, load.pins_percent) = (60.0, 8, Some(60), 0);
    let world = World::new(1);
    let disk = world.disk(load.disk.clone());
    let (target, ring) = world.run(super::set_up(world.env(disk.clone()), &load)).unwrap();
    world.run(async {
        target.objects().create_volume(1, Quota::default()).await.unwrap();
        for object in 1..=21 {
            target.objects().create(ObjectId { volume: 1, object }, Vec::new()).await.unwrap();
        }
    });
    let few = Rc::new(Cell::new(0));
    world.spawner().detach(write_small(target.clone(), few.clone()));
    let (scrubbed, found) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    {
        let (target, scrubbed, found) = (target.clone(), scrubbed.clone(), found.clone());
        world.spawner().detach(async move {
            let options = forebay_target::scrub::Options { rate: None, span: Duration::from_secs(1), anew: false };
            loop {
                let before = target.disk().counters().background;
                let step = target.scrub(options).await.unwrap();
                scrubbed.set(scrubbed.get() + (target.disk().counters().background - before).0);
                found.set(found.get() + step.found.len());
            }
        });
    }
    let outcome = world.run(super::measure(&world, &disk, target.clone(), ring.clone(), &load)).unwrap();
    let told = format!("{} MB scrubbed, {} read, {outcome:?}", scrubbed.get() / 1_000_000, outcome.read);
    println!("{told}");
    assert_eq!((outcome.missed_deadlines, outcome.lost_elements, found.get()), (0, 0, 0), "{told}");
    let due = world.now().0 / 1_000_000_000 * 300;
    assert!(few.get() > due && outcome.read > Rate(0), "{} durable writes of {due}; {told}", few.get());
    // This leaves the disk no time at all; then nobody records, and beside the durable writes the scrub gets on slowly.
    let before = scrubbed.get();
    world.run(world.clock().sleep(Duration::from_secs(20)));
    assert!(scrubbed.get() - before > 1_000_000, "{} MB scrubbed; {told}", (scrubbed.get() - before) / 1_000_000);
}

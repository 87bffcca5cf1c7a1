use super::beside::{self, State};
use super::producer::{Arrivals, Source, feed};
use super::{Elements, Load, Reader, run, set_up};
use crate::disk::{DiskSpec, presets};
use crate::feeder::Feeder;
use crate::world::World;
use forebay_env::Clock;
use forebay_model::ring::RingSpec;
use forebay_model::{Bytes, ObjectId, Rate};
use forebay_target::object::Placement;
use forebay_target::object::rows::Quota;
use forebay_target::{Ring, Target};
use std::cell::Cell;
use std::collections::BTreeSet;
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

#[test]
fn a_promise_is_kept_beside_durable_writes_large_ones_and_readers() {
    for large in [false, true] {
        let mut states = BTreeSet::from([State::Readers, State::SmallWrites]);
        if large {
            states.insert(State::LargeWrites);
        }
        let mut load = Load::headline(presets::wd15ears().scaled(100));
        (load.fill_percent, load.readers, load.seconds, load.pins_percent) = (60.0, 4, Some(20), 0);
        let (outcome, others) = beside::run(1, &load, &states).unwrap();
        assert_eq!((outcome.missed_deadlines, outcome.lost_elements), (0, 0), "large: {large}");
        let (done, due) = (others.small.len() as u64, others.small_due);
        assert!(done > 300 * 19 && others.small_waiting == 0, "{done} durable of {due}, {}", others.small_waiting);
        assert!(outcome.read > Rate(0) && (others.large > Rate(0)) == large, "{} read, {}", outcome.read, others.large);
    }
}

#[test]
fn a_promise_is_kept_beside_pins_small_writes_and_large_ones_and_on_a_full_disk() {
    let all_but = |left_out| State::ALL.into_iter().filter(|state| *state != left_out).collect::<BTreeSet<_>>();
    for left_out in [State::Aged, State::SmallWrites] {
        let states = all_but(left_out);
        let load = beside::load(presets::wd15ears().scaled(100), &states, 20);
        let (outcome, others) = beside::run(2, &load, &states).unwrap();
        let shown = format!("without {left_out:?}: {outcome:?}, {} waiting", others.small_waiting);
        assert_eq!((outcome.missed_deadlines, outcome.lost_elements), (0, 0), "{shown}");
        assert!(outcome.worst_second >= load.guarantee && outcome.read > Rate(0), "{shown}");
        assert!(others.large > Rate(0) && others.small_waiting == 0, "{shown}");
        // An empty ring has nothing to pin.
        let full = others.filled > Bytes::mib(256) && outcome.pinned > 0;
        let small = others.small.len() > 300 * 19;
        assert_eq!((small, full), (left_out == State::Aged, left_out == State::SmallWrites), "{shown}");
    }
}

#[test]
fn a_promise_is_kept_in_all_states_at_once_and_small_writes_become_durable() {
    let states = BTreeSet::from(State::ALL);
    for seed in [2, 3] {
        // What is buffered of a component goes home in steps of which one may take half a minute.
        let load = beside::load(presets::wd15ears().scaled(100), &states, 110);
        let (outcome, others) = beside::run(seed, &load, &states).unwrap();
        let shown = format!("seed {seed}: {outcome:?}, {} large, {} waiting", others.large, others.small_waiting);
        assert_eq!((outcome.missed_deadlines, outcome.lost_elements, others.small_waiting), (0, 0, 0), "{shown}");
        assert!(others.small.len() > 300 * 109 && outcome.read > Rate(0) && others.large > Rate(0), "{shown}");
        assert!(others.rebuilt > Rate(0), "{shown}");
    }
}

/// What a component that is made anew gets beside all of it, and beside the ring alone, which comes at `percent` of what it reserved.
fn rebuilt(percent: u64, readers: u64) -> (Rate, Rate) {
    let rebuilt = |states: BTreeSet<State>| {
        let load = beside::load(presets::wd15ears().scaled(100), &states, 110);
        let rate = Rate(load.guarantee.0 * percent / 100);
        let load = Load { rate, readers: readers.min(load.readers), ..load };
        let (outcome, others) = beside::run(37, &load, &states).unwrap();
        let kept = (outcome.missed_deadlines, outcome.lost_elements, outcome.worst_second >= rate);
        assert_eq!(kept, (0, 0, true), "{states:?}: {outcome:?}");
        others.rebuilt
    };
    (rebuilt(BTreeSet::from(State::ALL)), rebuilt(BTreeSet::from([State::Rebuild])))
}

#[test]
fn outcome_37_beside_a_ring_a_scrub_and_three_loads_a_rebuild_is_slower_and_has_a_twentieth_at_least() {
    let (beside_all, alone) = rebuilt(90, 1);
    let shown = format!("{beside_all} beside all, {alone} beside the ring alone");
    assert!(beside_all < alone && beside_all.0 * 20 >= alone.0, "{shown}");
}

/// More than outcome 37 has: what is left of the disk is shared with eight who read, too.
#[test]
fn beside_a_ring_that_needs_all_that_it_reserved_a_scrub_and_ten_loads_a_rebuild_gets_on() {
    let (beside_all, alone) = rebuilt(100, 8);
    assert!(beside_all.0 * 100 >= alone.0, "{beside_all} beside all, {alone} beside the ring alone");
}

#[test]
fn a_promise_is_kept_beside_a_scrub_eight_readers_and_durable_writes() {
    let states = BTreeSet::from([State::Readers, State::SmallWrites, State::Scrub]);
    let mut load = Load::headline(presets::wd15ears().scaled(100));
    (load.fill_percent, load.readers, load.seconds, load.pins_percent) = (60.0, 8, Some(60), 0);
    let (outcome, others) = beside::run(1, &load, &states).unwrap();
    let shown = format!("{outcome:?}, {} scrubbed, {} waiting", others.scrubbed, others.small_waiting);
    assert_eq!((outcome.missed_deadlines, outcome.lost_elements, others.small_waiting), (0, 0, 0), "{shown}");
    assert!(others.small.len() > 300 * 59 && outcome.read > Rate(0), "{shown}");
}

#[test]
fn a_scrub_gets_on_beside_a_ring_that_leaves_little_and_readers_who_want_all_of_that() {
    for others in [&[State::Scrub][..], &[State::Scrub, State::Aged, State::Pins], &[State::Scrub, State::SmallWrites]]
    {
        let states: BTreeSet<State> = others.iter().copied().chain([State::Readers]).collect();
        let load = beside::load(presets::wd15ears().scaled(100), &states, 30);
        let (outcome, others) = beside::run(1, &load, &states).unwrap();
        let shown = format!("{states:?}: {outcome:?}, {} scrubbed", others.scrubbed);
        assert_eq!((outcome.missed_deadlines, outcome.lost_elements, others.small_waiting), (0, 0, 0), "{shown}");
        assert!(outcome.read > Rate::mb(15) && others.scrubbed.0 * 20 >= outcome.read.0, "{shown}");
    }
}

/// Records elements of 1 MiB as fast as there is room for them.
async fn flood(ring: Rc<Ring>, clock: Rc<dyn Clock>) {
    let mut feeder = Feeder::new(ring, clock.clone(), 1).unwrap();
    let payload = vec![7; 1 << 20];
    loop {
        feeder.element(clock.wall(), &[&payload]).await.unwrap();
    }
}

/// Readers of what came in the last 50 seconds, and what they read.
fn read(world: &World, ring: &Rc<Ring>, readers: u64) -> Rc<Cell<u64>> {
    let read = Rc::new(Cell::new(0u64));
    for _ in 0..readers {
        let reader = Reader {
            ring: ring.clone(),
            random: world.random(),
            clock: world.clock(),
            history: Duration::from_secs(50),
            stop: Rc::default(),
            read: read.clone(),
        };
        world.spawner().detach(reader.saturate());
    }
    read
}

/// What a ring with this guarantee got whose producer always has more and waits, and what readers got beside it.
fn flooded(spec: DiskSpec, guarantee: Rate, readers: u64) -> (Rate, Rate) {
    let world = World::new(1);
    let disk = world.disk(spec.clone());
    let load = Load { guarantee, fill_percent: 60.0, ..Load::headline(spec) };
    world.run(async {
        let (target, ring) = set_up(world.env(disk.clone()), &load).await.unwrap();
        let clock = world.clock();
        world.spawner().detach(flood(ring.clone(), clock.clone()));
        clock.sleep(Duration::from_secs(60)).await;
        let read = read(&world, &ring, readers);
        clock.sleep(Duration::from_secs(5)).await;
        let (start, before, read_before) = (clock.now(), ring.status(), read.get());
        let missed_before = target.disk().counters().missed_deadlines;
        clock.sleep(Duration::from_secs(40)).await;
        let (took, after) = (clock.now().since(start), ring.status());
        let missed = target.disk().counters().missed_deadlines - missed_before;
        assert_eq!((after.missed_deadlines, missed), (0, 0));
        (Rate::of(after.written - before.written, took), Rate::of(Bytes(read.get() - read_before), took))
    })
}

#[test]
fn a_ring_that_writes_more_than_was_promised_shares_the_rest_with_readers_and_alone_has_all_of_it() {
    let (alone, _) = flooded(presets::wd15ears().scaled(100), Rate::mb(30), 0);
    // What it got when nothing was shared: 62 MB/s.
    assert!(alone >= Rate::mb(56), "{alone} alone");
    let (written, read) = flooded(presets::wd15ears().scaled(100), Rate::mb(30), 2);
    let beside = Rate((written.0 + read.0).saturating_sub(Rate::mb(30).0));
    assert!(written >= Rate::mb(30) && read.0 * 3 >= beside.0, "{written} written, {read} read");
}

#[test]
fn a_ring_that_was_promised_nothing_and_whose_producer_never_pauses_shares_with_readers_and_alone_has_all() {
    let disk = presets::wd15ears().scaled(100);
    let (alone, _) = flooded(disk.clone(), Rate(0), 0);
    assert!(alone >= Rate::mb(56), "{alone} alone");
    let (written, read) = flooded(disk, Rate(0), 2);
    // Readers had nothing when its sweeps went on for as long as it had something.
    assert!(read.0 * 4 >= alone.0 && written.0 * 8 >= alone.0, "{written} written, {read} read");
}

/// What two rings got that were promised the same, and others beside them.
#[derive(Debug)]
struct Two {
    /// The ring whose producer always has more and waits.
    flooding: Rate,
    /// The other one, to which comes what it was promised: in the worst second.
    worst_second: Rate,
    /// Readers of the other one.
    read: Rate,
    /// Who writes objects.
    objects: Rate,
    /// A ring that was promised nothing, if there is one.
    unpromised: Rate,
}

/// Two rings of the same guarantee, each of which takes so much of the disk; one is written as fast as it goes if it is
/// `flooded`, at its rate otherwise, and the other one at its rate, beside readers of that and a writer of objects.
fn two_rings(seed: u64, spec: DiskSpec, guarantee: Rate, fill_percent: f64, flooded: bool) -> Two {
    two_rings_beside(seed, spec, guarantee, fill_percent, flooded, None)
}

/// The same beside a third ring, which was promised nothing, has this flush interval, and is written as fast as it goes.
fn two_rings_beside(
    seed: u64,
    spec: DiskSpec,
    guarantee: Rate,
    fill_percent: f64,
    flooded: bool,
    third: Option<Duration>,
) -> Two {
    let world = World::new(seed);
    let disk = world.disk(spec.clone());
    let load = Load { guarantee, fill_percent, ..Load::headline(spec) };
    world.run(async {
        let (target, flooding) = set_up(world.env(disk.clone()), &load).await.unwrap();
        let spec = RingSpec { name: "/other".into(), ..flooding.status().spec };
        let other = target.create_ring(spec).await.unwrap();
        other.ready().await.unwrap();
        let clock = world.clock();
        let third = match third {
            Some(flush_interval) => {
                let mut spec = RingSpec::new("/third", target.layout().group * 4);
                spec.flush_interval = flush_interval;
                let third = target.create_ring(spec).await.unwrap();
                third.ready().await.unwrap();
                world.spawner().detach(flood(third.clone(), clock.clone()));
                Some(third)
            }
            None => None,
        };
        let unpromised = || third.as_ref().map_or(0, |third| third.status().written.0);
        let mut first = Source::new(flooding.clone(), clock.clone(), 1, load.elements).unwrap();
        if flooded {
            world.spawner().detach(flood(flooding.clone(), clock.clone()));
        } else {
            world.spawner().detach(async move {
                feed(&mut first, |_| false, &mut Arrivals::new(guarantee)).await.unwrap();
            });
        }
        let mut source = Source::new(other.clone(), clock.clone(), 2, load.elements).unwrap();
        let mut feed = async |seconds| {
            let (bytes, mut arrivals) = (guarantee.bytes_in(Duration::from_secs(seconds)).0, Arrivals::new(guarantee));
            let given = feed(&mut source, |given| given >= bytes, &mut arrivals).await.unwrap();
            arrivals.worst(given)
        };
        feed(60).await;

        let read = read(&world, &other, 2);
        let written = Rc::new(Cell::new(0));
        world.spawner().detach(write_objects(target.clone(), written.clone()));
        feed(5).await;
        let (start, before) = (clock.now(), flooding.status().written);
        let (read_before, written_before, unpromised_before) = (read.get(), written.get(), unpromised());
        let worst_second = feed(40).await;
        let took = clock.now().since(start);
        let rate = |bytes| Rate::of(Bytes(bytes), took);
        source.durable().await.unwrap();
        let missed = [&flooding, &other].map(|ring| ring.status().missed_deadlines);
        assert_eq!(
            (missed, target.disk().counters().missed_deadlines, source.lost()),
            ([0, 0], 0, 0),
            "{guarantee} each, flooded: {flooded}"
        );
        Two {
            flooding: Rate::of(flooding.status().written - before, took),
            worst_second,
            read: rate(read.get() - read_before),
            objects: rate(written.get() - written_before),
            unpromised: rate(unpromised() - unpromised_before),
        }
    })
}

/// Writes an object over and over, 4 MiB at a time.
async fn write_objects(target: Rc<Target>, written: Rc<Cell<u64>>) {
    let (objects, stream, bytes) = (target.objects(), target.stream(), vec![1; 4 << 20]);
    let id = ObjectId { volume: 1, object: 1 };
    objects.create_volume(1, Quota::default()).await.unwrap();
    objects.create(id, Vec::new()).await.unwrap();
    for n in 0.. {
        objects.write(stream, id, n % 16 * bytes.len() as u64, &bytes, Placement::Home).await.unwrap();
        written.set(written.get() + bytes.len() as u64);
    }
}

#[test]
fn beside_a_ring_that_floods_another_one_keeps_its_promise_and_its_readers_and_writers_of_objects_get_their_share() {
    let disks = [(presets::wd15ears(), vec![10, 20, 30]), (presets::ssd(), vec![25, 50, 75])];
    for (disk, guarantee) in
        disks.iter().flat_map(|(disk, rates)| rates.iter().map(move |rate| (disk, Rate::mb(*rate))))
    {
        let two = two_rings(1, disk.clone().scaled(100), guarantee, 30.0, true);
        let shown = format!("{}, {guarantee} each: {two:?}", disk.name);
        assert!(two.flooding >= guarantee && two.worst_second >= guarantee, "{shown}");
        let shared = two.flooding.0 - guarantee.0 + two.read.0 + two.objects.0;
        assert!(two.read.0 * 4 >= shared && two.objects.0 * 100 >= shared, "{shown}");
    }
}

#[test]
fn beside_a_ring_that_was_promised_nothing_two_that_were_keep_their_promises() {
    for (disk, guarantee) in [(presets::wd15ears(), 25), (presets::wd15ears(), 30), (presets::ssd(), 75)] {
        let guarantee = Rate::mb(guarantee);
        for flush_interval in [10, 1000].map(Duration::from_millis) {
            let two = two_rings_beside(1, disk.clone().scaled(100), guarantee, 10.0, false, Some(flush_interval));
            let shown = format!("{}, {guarantee} each, {flush_interval:?}: {two:?}", disk.name);
            assert!(two.flooding >= guarantee && two.worst_second >= guarantee, "{shown}");
            assert!(two.read > Rate(0) && two.objects > Rate(0) && two.unpromised > Rate(0), "{shown}");
        }
    }
}

#[test]
fn a_ring_that_was_promised_nothing_has_the_disk_while_one_that_was_comes_with_nothing() {
    let world = World::new(1);
    let disk = world.disk(presets::wd15ears().scaled(100));
    let load = Load { guarantee: Rate::mb(30), fill_percent: 30.0, ..Load::headline(presets::wd15ears().scaled(100)) };
    let written = world.run(async {
        let (target, _idle) = set_up(world.env(disk.clone()), &load).await.unwrap();
        let other = target.create_ring(RingSpec::new("/other", target.layout().group * 4)).await.unwrap();
        other.ready().await.unwrap();
        let clock = world.clock();
        world.spawner().detach(flood(other.clone(), clock.clone()));
        clock.sleep(Duration::from_secs(5)).await;
        let (start, before) = (clock.now(), other.status().written.0);
        clock.sleep(Duration::from_secs(20)).await;
        Rate::of(Bytes(other.status().written.0 - before), clock.now().since(start))
    });
    assert!(written >= Rate::mb(50), "{written}");
}

#[test]
fn two_rings_in_the_slowest_places_that_will_do_keep_their_promises_and_leave_the_rest_to_readers() {
    // Where least is left it depends on chance which ring has the arm when the other one's deadlines call.
    for (disk, guarantee, fill, seeds) in [
        (presets::wd15ears(), 20, 10.0, 1),
        (presets::wd15ears(), 25, 10.0, 1),
        (presets::wd15ears(), 30, 10.0, 2),
        (presets::wd15ears(), 30, 30.0, 1),
        (presets::cheetah15k(), 40, 10.0, 2),
        (presets::sata7200(), 30, 10.0, 4),
        (presets::ssd(), 100, 10.0, 1),
    ] {
        let guarantee = Rate::mb(guarantee);
        for (seed, flooded) in (1..=seeds).flat_map(|seed| [(seed, false), (seed, true)]) {
            let two = two_rings(seed, disk.clone().scaled(100), guarantee, fill, flooded);
            let shown =
                format!("seed {seed}: {}, {guarantee} each, {fill} % each, flooded: {flooded}: {two:?}", disk.name);
            assert!(two.flooding >= guarantee && two.worst_second >= guarantee, "{shown}");
            assert!(two.read > Rate(0) && two.objects > Rate(0), "{shown}");
        }
    }
    // Checkpoints of a ring and of objects come together here, where nothing is left.
    for seed in [41, 149] {
        let two = two_rings(seed, presets::wd15ears().scaled(100), Rate::mb(30), 10.0, false);
        assert!(two.read > Rate(0) && two.objects > Rate(0), "seed {seed}: {two:?}");
    }
}

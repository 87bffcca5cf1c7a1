//! Both copies of superblock and checkpoint are gone: what the segments say themselves makes a target of the device again,
//! with everything that was durable. Outcome 29 of the list in `docs/promises/ring.md`.

#![allow(clippy::unwrap_used)]

use forebay_env::Env;
use forebay_model::ring::RingSpec;
use forebay_model::{Bytes, Cause, Gap, Kind, Profile, Rate, Result, TargetId};
use forebay_sim::anatomy::{Kind as PartKind, Part};
use forebay_sim::disk::{Fault, Survival, presets};
use forebay_sim::feeder::Feeder;
use forebay_sim::reader::{Event, read};
use forebay_sim::seeds;
use forebay_sim::stage::{Ending, NAME, Scene, Stage, element};
use forebay_target::Target;
use forebay_target::object::rows::Quota;
use forebay_target::rebuild::{self, Plan};
use std::collections::BTreeMap;
use std::time::Duration;

/// A ring that uses the log areas of its groups, and has other segments than the first.
const OTHER: &str = "/other";

type Answers = BTreeMap<String, Vec<Event>>;

/// Two rings on one disk, empty.
fn two_rings(seed: u64) -> Stage {
    let stage = Stage::new(seed, presets::ssd().scaled(12_000), |spec| {
        spec.capacity = Bytes::mib(3);
        spec.segment = Bytes::kib(300);
    });
    let env = stage.env();
    stage.world.run(async move {
        let target = Target::open(env).await.unwrap();
        let mut spec = RingSpec::new(OTHER, Bytes::mib(4));
        (spec.block, spec.segment) = (Bytes::kib(64), Bytes::kib(500));
        // The highest rate there is takes the log areas, too.
        for rate in (1..100).rev() {
            spec.guarantee = Rate::mb(rate);
            if target.create_ring(spec.clone()).await.is_ok() {
                break;
            }
        }
        target.close().await.unwrap();
    });
    stage.world.kill();
    let (_, catalog, _) = stage.world.run(Target::inspect(stage.env())).unwrap();
    let without_logs: Vec<bool> = catalog.rings.values().map(|ring| ring.without_logs).collect();
    assert_eq!(without_logs, [false, true]);
    stage
}

/// Records `count` elements of some lengths into a ring, and waits until they are durable.
async fn feed(env: &Env, target: &Target, name: &str, count: u64, most: u64) -> Result<()> {
    let ring = target.ring(name)?;
    ring.ready().await?;
    let first = ring.status().next_sequence;
    let mut feeder = Feeder::new(ring, env.clock.clone(), env.random.next_u64())?;
    for number in first..first + count {
        let length = if number % 50 == 7 { most } else { 100 + env.random.below(5000) };
        let known = element(env.clock.wall(), number, length);
        feeder.element(known.time, &[&known.bytes]).await?;
        if number % 40 == 3 {
            let gap = Gap { cause: Cause::Kernel, count: Some(number), first: known.time, last: known.time };
            feeder.gap(&gap).await?;
        }
        // A long stream has several segments under way.
        if count < 600 && number % 9 == 0 {
            feeder.durable().await?;
        }
    }
    feeder.durable().await.map(drop)
}

async fn all(env: &Env, target: &Target) -> Answers {
    let mut answers = BTreeMap::new();
    for status in target.status() {
        let ring = target.ring(&status.spec.name).unwrap();
        let (events, _) = read(ring, "all", &env.clock, &env.spawner).await.unwrap();
        answers.insert(status.spec.name, events);
    }
    answers
}

/// Records into both rings, reads them, and ends; what was read.
fn record(stage: &Stage, counts: [u64; 2], ending: Ending) -> Answers {
    let env = stage.env();
    let answers = stage.world.run(async move {
        let target = Target::open(env.clone()).await.unwrap();
        feed(&env, &target, NAME, counts[0], 40_000).await.unwrap();
        feed(&env, &target, OTHER, counts[1], 150_000).await.unwrap();
        let answers = all(&env, &target).await;
        if ending == Ending::Closed {
            target.close().await.unwrap();
        }
        answers
    });
    match ending {
        Ending::Cut => stage.world.crash(&[&stage.disk]),
        _ => stage.world.kill(),
    }
    answers
}

/// Overwrites everything before the first group.
fn wipe(stage: &Stage) {
    let layout = forebay_target::layout::Layout::for_device(stage.disk.spec().size).unwrap();
    stage.disk.poke(Bytes::ZERO, &vec![0; layout.groups_at.0 as usize]);
}

fn look(stage: &Stage, wanted: Option<TargetId>) -> Result<Plan> {
    let plan = stage.world.run(rebuild::look(stage.env(), wanted, &mut |_, _| ()));
    stage.world.kill();
    plan
}

/// Looks, which writes nothing, and writes what was found.
fn rebuild(stage: &Stage) -> Plan {
    let before = stage.image();
    let said = look(stage, None).unwrap();
    assert!(stage.image() == before, "looking writes nothing");
    let plan = look(stage, None).unwrap();
    stage.world.run(plan.write(stage.env())).unwrap();
    stage.world.kill();
    let layout = stage.world.run(Target::inspect(stage.env())).unwrap().0.layout;
    let at = layout.groups_at.0 as usize;
    assert!(stage.image()[at..] == before[at..], "only superblock and checkpoint are written");
    let error = look(stage, None).err().expect("there is a whole pair now");
    assert!(error.kind == Kind::Refused && error.message.contains("nothing to rebuild"), "{error}");
    said
}

fn read_all(stage: &Stage) -> Answers {
    let env = stage.env();
    let answers = stage.world.run(async move {
        let target = Target::open(env.clone()).await.unwrap();
        let answers = all(&env, &target).await;
        target.close().await.unwrap();
        answers
    });
    stage.world.kill();
    answers
}

fn sequences(events: &[Event]) -> Vec<u64> {
    events.iter().filter_map(|e| if let Event::Element { sequence, .. } = e { Some(*sequence) } else { None }).collect()
}

fn damaged(events: &[Event]) -> u64 {
    let count = |e: &Event| match e {
        Event::Gap(gap) if gap.cause == Cause::Damaged => gap.count.unwrap_or(1),
        _ => 0,
    };
    events.iter().map(count).sum()
}

/// Everything that was there is there, as it was; what is there beside it had expired, and is as it was recorded.
fn same(before: &Answers, after: &Answers) {
    let rings = [(NAME, "/recovered/1"), (OTHER, "/recovered/2")];
    assert_eq!(after.keys().collect::<Vec<_>>(), rings.iter().map(|(_, new)| new).collect::<Vec<_>>());
    for (old, new) in rings {
        let (old, new) = (&before[old], &after[new]);
        let data = |e: &&Event| !matches!(e, Event::Expired(..));
        let (first, was): (u64, Vec<&Event>) = (sequences(old)[0], old.iter().filter(data).collect());
        let now: Vec<&Event> = new
            .iter()
            .filter(data)
            .skip_while(|e| !matches!(e, Event::Element { sequence, .. } if *sequence >= first))
            .collect();
        let lead = was.iter().position(|e| matches!(e, Event::Element { .. })).unwrap();
        assert_eq!(now.len(), was.len() - lead, "{:?} after {:?}", sequences(new), sequences(old));
        assert!(now == was[lead..], "something is other than it was");
        assert_eq!(damaged(new), 0);
    }
}

/// The rings take more, and return that too.
fn goes_on(stage: &Stage, before: &Answers) {
    for (name, count) in [("/recovered/1", 90), ("/recovered/2", 120)] {
        let env = stage.env();
        stage.world.run(async move {
            let target = Target::open(env.clone()).await.unwrap();
            feed(&env, &target, name, count, 30_000).await.unwrap();
            target.close().await.unwrap();
        });
        stage.world.kill();
        let then = sequences(&before[name]);
        let now = read_all(stage).remove(name).unwrap();
        assert!(damaged(&now) <= damaged(&before[name]));
        let (end, now) = (then.last().unwrap() + 1, sequences(&now));
        assert_eq!(*now.last().unwrap(), end + count - 1, "{name}");
        assert!(now.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(now.iter().filter(|n| **n >= end).count() as u64, count, "{name}");
    }
}

#[test]
fn two_rings_are_rebuilt_with_every_element_and_go_on() {
    let counts = [[400, 900], [1500, 500], [30, 12], [700, 8]];
    for (seed, (counts, ending)) in
        counts.into_iter().flat_map(|c| [Ending::Closed, Ending::Killed, Ending::Cut].map(|e| (c, e))).enumerate()
    {
        let stage = two_rings(seed as u64 + 3);
        record(&stage, [counts[0] / 2, counts[1] / 3], Ending::Closed);
        let before = record(&stage, counts, ending);
        wipe(&stage);
        let plan = rebuild(&stage);
        assert_eq!((plan.rings.len(), plan.superblock_kept, plan.others.len()), (2, false, 0));
        let after = read_all(&stage);
        same(&before, &after);
        goes_on(&stage, &after);
    }
}

fn two_laps() -> (Scene, Answers, Vec<Part>) {
    let stage = two_rings(5);
    record(&stage, [700, 300], Ending::Closed);
    let before = record(&stage, [800, 400], Ending::Killed);
    let parts = stage.parts();
    assert!(before.values().all(|events| sequences(events)[0] > 0), "each ring has gone round");
    (stage.scene(), before, parts)
}

#[test]
fn of_large_segments_that_are_whole_only_the_ends_are_read() {
    let shape = |spec: &mut RingSpec| {
        spec.capacity = Bytes::mib(50);
        (spec.segment, spec.block) = (Bytes::ZERO, Bytes::kib(256));
    };
    let stage = Stage::new(4, presets::ssd().scaled(600), shape);
    let env = stage.env();
    let before = stage.world.run(async move {
        let target = Target::open(env.clone()).await.unwrap();
        let ring = target.ring(NAME).unwrap();
        ring.ready().await.unwrap();
        let mut feeder = Feeder::new(ring, env.clock.clone(), 1).unwrap();
        for number in 0..150 {
            let known = element(env.clock.wall(), number, 400_000);
            feeder.element(known.time, &[&known.bytes]).await.unwrap();
        }
        feeder.durable().await.unwrap();
        all(&env, &target).await
    });
    stage.world.kill();
    let (superblock, catalog, _) = stage.world.run(Target::inspect(stage.env())).unwrap();
    let (layout, record) = (superblock.layout, catalog.rings.values().next().unwrap().clone());
    let parts = stage.parts();
    let scene = stage.scene();
    let sealed = parts.iter().filter(|p| p.kind == PartKind::Trailer).count() as u64;
    assert!(record.segment > Bytes::mib(4) && sealed > 6, "{sealed} segments of {}", record.segment);
    // Nothing, a trailer, the first block of a segment.
    for kind in [None, Some(PartKind::Trailer), Some(PartKind::Header)] {
        let stage = scene.begin(1);
        let newest = parts.iter().filter(|p| p.kind == PartKind::Trailer).map(|p| p.owner.1).max().unwrap();
        let part = parts.iter().find(|p| Some(p.kind) == kind && p.owner.1 == newest - 2);
        part.into_iter().for_each(|part| stage.disk.poke(part.at, &vec![0; part.length.0 as usize]));
        wipe(&stage);
        let read = stage.disk.counters().bytes_read;
        let plan = look(&stage, None).unwrap();
        let read = stage.disk.counters().bytes_read - read;
        // The first group, that of the open segment, and what is free have to be read.
        let whole = u64::from(layout.groups) - (sealed - 2) + u64::from(kind.is_some());
        assert!(read < layout.group * whole + Bytes::mib(2), "{read} for {whole} groups of {}", layout.group);
        stage.world.run(plan.write(stage.env())).unwrap();
        stage.world.kill();
        let (then, now) = (sequences(&before[NAME]), sequences(&read_all(&stage)["/recovered/1"]));
        let gone: Vec<u64> = match kind {
            Some(PartKind::Header) => part.unwrap().elements.clone().collect(),
            _ => Vec::new(),
        };
        let due: Vec<u64> = then.into_iter().filter(|n| !gone.contains(n)).collect();
        assert!(now.ends_with(&due), "{now:?} instead of {due:?} after damage to {kind:?}");
    }
}

#[test]
fn the_power_may_go_at_any_write_of_a_rebuild() {
    let (scene, before, _) = two_laps();
    for survival in [Survival::Random, Survival::Nothing, Survival::Everything] {
        for cut in 1.. {
            let stage = scene.begin(cut);
            wipe(&stage);
            let plan = look(&stage, None).unwrap();
            stage.disk.set_survival(survival);
            stage.disk.cut_after(cut);
            let over = stage.world.run_until_cut(plan.write(stage.env())).is_ok();
            stage.disk.no_cut();
            // Either it is done, or it is refused and done again.
            if stage.world.run(Target::inspect(stage.env())).is_err() {
                let again = look(&stage, None).unwrap();
                stage.world.run(again.write(stage.env())).unwrap();
            }
            stage.world.kill();
            same(&before, &read_all(&stage));
            if over {
                assert!(cut > 8, "{cut}");
                break;
            }
        }
    }
}

#[test]
fn damage_to_a_segment_costs_what_lies_there_and_nothing_else() {
    let (scene, before, parts) = two_laps();
    let sealed: Vec<u64> =
        parts.iter().filter(|p| p.kind == PartKind::Trailer && p.owner.0 == 1).map(|p| p.owner.1).collect();
    let newest = *sealed.iter().max().unwrap();
    let harm = |what: &dyn Fn(&Part) -> bool| {
        let stage = scene.begin(9);
        parts.iter().filter(|p| what(p)).for_each(|p| stage.disk.poke(p.at, &vec![0; p.length.0 as usize]));
        wipe(&stage);
        let plan = rebuild(&stage);
        (read_all(&stage), plan)
    };
    // A trailer, all trailers: nothing.
    let (after, plan) = harm(&|p| p.kind == PartKind::Trailer && p.owner == (1, newest - 4));
    same(&before, &after);
    assert_eq!(plan.rings[0].without_trailer, 2);
    let (after, _) = harm(&|p| p.kind == PartKind::Trailer);
    same(&before, &after);
    // Blocks in the middle, at the beginning and at the end, with the trailer and without.
    for (trailer, nth) in [(false, 0), (false, 3), (true, 0), (true, 3), (true, usize::MAX)] {
        let segment = newest - 4;
        let of_kind = |kind| parts.iter().filter(move |p| p.kind == kind && p.owner == (1, segment));
        let headers: Vec<&Part> = of_kind(PartKind::Header).collect();
        let gone = headers[nth.min(headers.len() - 1)];
        let (after, _) = harm(&|p| *p == *gone || trailer && p.kind == PartKind::Trailer && p.owner == (1, segment));
        let after = &after["/recovered/1"];
        let lost: Vec<u64> = sequences(&before[NAME]).into_iter().filter(|n| !sequences(after).contains(n)).collect();
        assert_eq!(lost, gone.elements.clone().collect::<Vec<u64>>(), "block {nth}, trailer gone: {trailer}");
    }
    // A whole segment.
    let (after, _) = harm(&|p| p.owner == (1, newest - 4) && !matches!(p.kind, PartKind::Root | PartKind::Checkpoint));
    let after = &after["/recovered/1"];
    let lost: Vec<u64> = sequences(&before[NAME]).into_iter().filter(|n| !sequences(after).contains(n)).collect();
    let blocks = parts.iter().filter(|p| p.kind == PartKind::Header && p.owner == (1, newest - 4));
    let due: std::collections::BTreeSet<u64> = blocks.flat_map(|p| p.elements.clone()).collect();
    assert_eq!(lost, due.into_iter().collect::<Vec<u64>>());
}

#[test]
fn random_damage_to_segments_leaves_a_target_that_tells_no_wrong_byte() {
    let (scene, before, parts) = two_laps();
    seeds::each(20, |seed| {
        let stage = scene.begin(seed);
        let random = stage.world.random();
        let parts: Vec<&Part> = parts
            .iter()
            .filter(|p| !matches!(p.kind, PartKind::Root | PartKind::Checkpoint) && p.length.0 > 0)
            .collect();
        for _ in 0..1 + random.below(30) {
            let part = parts[random.below(parts.len() as u64) as usize];
            match random.below(3) {
                0 => stage.disk.poke(part.at, &vec![0; part.length.0 as usize]),
                1 => stage.disk.inject(Fault::Unreadable {
                    offset: part.at.align_down(Bytes(4096)),
                    length: Bytes(4096),
                    permanent: true,
                }),
                _ => {
                    let other = parts[random.below(parts.len() as u64) as usize];
                    let mut bytes = vec![0; other.length.min(part.length).0 as usize];
                    stage.disk.peek(other.at, &mut bytes);
                    stage.disk.poke(part.at, &bytes);
                }
            }
        }
        wipe(&stage);
        let plan = look(&stage, None).unwrap();
        stage.world.run(plan.write(stage.env())).unwrap();
        stage.world.kill();
        let after = read_all(&stage);
        for (old, new) in [(NAME, "/recovered/1"), (OTHER, "/recovered/2")] {
            let known: BTreeMap<u64, &Event> = before[old]
                .iter()
                .filter_map(|e| if let Event::Element { sequence, .. } = e { Some((*sequence, e)) } else { None })
                .collect();
            let first = *known.first_key_value().unwrap().0;
            let mut last = None;
            for event in &after[new] {
                let Event::Element { sequence, .. } = event else { continue };
                assert!(last < Some(*sequence), "seed {seed}: {sequence} after {last:?}");
                last = Some(*sequence);
                assert!(*sequence < first || known[sequence] == event, "seed {seed}: {sequence} is not what it was");
            }
        }
    });
}

/// Whatever happens to a ring: records, pins, resizes, is killed, and loses power at any moment.
async fn live(env: Env) {
    let Ok(target) = Target::open(env.clone()).await else { return };
    for _ in 0..1 + env.random.below(3) {
        let name = if env.random.below(3) == 0 { OTHER } else { NAME };
        let count = if env.random.below(2) == 0 { 600 } else { 20 + env.random.below(400) };
        let _ = feed(&env, &target, name, count, 100_000).await;
        let now = env.clock.wall();
        match env.random.below(6) {
            0 => drop(target.pin(NAME, "", now.before(Duration::from_millis(300)), now).await),
            1 => {
                let pins = target.ring(NAME).unwrap().status().pins;
                if let Some(pin) = pins.first() {
                    let _ = target.unpin(NAME, pin.id).await;
                }
            }
            2 => drop(target.resize_ring(name, Bytes::mib(2 + env.random.below(4))).await),
            _ => {}
        }
    }
    if env.random.below(2) == 0 {
        let _ = target.close().await;
    }
}

#[test]
fn what_is_rebuilt_is_what_opening_would_have_found_whatever_happened_before() {
    seeds::each(30, |seed| {
        let stage = two_rings(seed);
        let random = stage.world.random();
        let env = stage.env();
        stage.world.run(async move {
            let target = Target::open(env.clone()).await.unwrap();
            for name in [NAME, OTHER] {
                feed(&env, &target, name, 40, 10_000).await.unwrap();
            }
            target.close().await.unwrap();
        });
        stage.world.kill();
        for _ in 0..6 {
            if random.below(2) == 0 {
                stage.disk.cut_after(1 + random.below(900));
            }
            let _ = stage.world.run_until_cut(live(stage.env()));
            stage.disk.no_cut();
            stage.world.kill();
        }
        let scene = stage.scene();
        let opened = scene.begin(seed);
        let before = read_all(&opened);
        let stage = scene.begin(seed);
        wipe(&stage);
        let plan = look(&stage, None).unwrap();
        stage.world.run(plan.write(stage.env())).unwrap();
        stage.world.kill();
        let after = read_all(&stage);
        for (old, new) in [(NAME, "/recovered/1"), (OTHER, "/recovered/2")] {
            let elements = |events: &[Event]| -> BTreeMap<u64, Event> {
                let of = |e: &Event| if let Event::Element { sequence, .. } = e { Some(*sequence) } else { None };
                events.iter().filter_map(|e| of(e).map(|n| (n, e.clone()))).collect()
            };
            let (was, is) = (elements(&before[old]), elements(&after[new]));
            let missing: Vec<&u64> = was.iter().filter(|(n, e)| is.get(n) != Some(e)).map(|(n, _)| n).collect();
            assert!(missing.is_empty(), "seed {seed}: {old} had {missing:?} of {:?}", was.keys());
            assert_eq!(was.last_key_value(), is.last_key_value(), "seed {seed}: {old}");
            // What had expired and is back in part may be told as damaged.
            assert_eq!(damaged(&before[old]), 0, "seed {seed}: {old}");
        }
        goes_on(&stage, &after);
    });
}

#[test]
fn a_device_that_never_was_a_target_is_refused() {
    let stage = two_rings(3);
    let size = stage.disk.spec().size;
    stage.disk.fill_pattern(Bytes::ZERO, size, &[0x5a; 512]);
    let before = stage.image();
    let error = look(&stage, None).err().unwrap();
    assert!(error.kind == Kind::Refused && error.message.contains("nothing of a target was found"), "{error}");
    assert!(stage.image() == before);
}

#[test]
fn the_segments_of_an_earlier_target_are_named_and_left_out() {
    let stage = two_rings(8);
    record(&stage, [900, 600], Ending::Closed);
    let earlier = stage.world.run(Target::inspect(stage.env())).unwrap().0.target;
    let env = stage.env();
    stage.world.run(async move {
        let geometry = env.device.geometry();
        Target::format(env.clone(), Profile::guess(geometry.size, geometry.rotates)).await.unwrap();
        let target = Target::open(env).await.unwrap();
        for name in [NAME, OTHER] {
            let mut spec = RingSpec::new(name, Bytes::mib(2));
            (spec.block, spec.segment) = (Bytes::kib(16), Bytes::kib(256));
            target.create_ring(spec).await.unwrap();
        }
        target.close().await.unwrap();
    });
    stage.world.kill();
    let before = record(&stage, [60, 40], Ending::Closed);
    let later = stage.world.run(Target::inspect(stage.env())).unwrap().0.target;
    let sound = stage.image();
    wipe(&stage);
    let error = look(&stage, None).err().unwrap();
    assert_eq!(error.kind, Kind::Refused);
    for words in ["2 targets", "--target", &later.to_string(), &earlier.to_string()] {
        assert!(error.message.contains(words), "{error}");
    }
    assert_eq!(look(&stage, Some(TargetId(7))).err().unwrap().kind, Kind::Refused);
    let plan = look(&stage, Some(later)).unwrap();
    assert_eq!(plan.others.iter().map(|other| other.target).collect::<Vec<_>>(), [earlier]);
    stage.world.run(plan.write(stage.env())).unwrap();
    stage.world.kill();
    let after = read_all(&stage);
    same(&before, &after);
    goes_on(&stage, &after);
    // A whole superblock says which it is.
    stage.disk.poke(Bytes::ZERO, &sound);
    let layout = stage.world.run(Target::inspect(stage.env())).unwrap().0.layout;
    for which in [0, 1] {
        stage.disk.poke(layout.area_at(which), &[0xee; 4096]);
    }
    let plan = look(&stage, None).unwrap();
    assert_eq!((plan.target, plan.superblock_kept), (later, true));
    assert_eq!(look(&stage, Some(earlier)).err().unwrap().kind, Kind::Refused);
}

#[test]
fn where_one_superblock_and_the_other_checkpoint_are_whole_nothing_is_lost() {
    for which in [0, 1] {
        let stage = two_rings(8);
        let before = record(&stage, [300, 200], Ending::Closed);
        let (root, catalog, _) = stage.world.run(Target::inspect(stage.env())).unwrap();
        stage.disk.poke(Bytes::kib(64) * which as u64, &[0xee; 4096]);
        stage.disk.poke(root.layout.area_at(1 - which), &[0xee; 4096]);
        let plan = look(&stage, None).unwrap();
        assert!(plan.checkpoint_kept && plan.rings.iter().any(|ring| ring.name == OTHER));
        stage.world.run(plan.write(stage.env())).unwrap();
        let now = stage.world.run(Target::inspect(stage.env())).unwrap();
        assert_eq!((now.0.target, now.0.formatted, now.1), (root.target, root.formatted, catalog));
        stage.world.kill();
        assert!(read_all(&stage) == before);
    }
}

#[test]
fn objects_are_seen_since_they_are_not_rebuilt() {
    let stage = two_rings(11);
    let before = record(&stage, [300, 200], Ending::Closed);
    assert_eq!(look_at_wiped(&stage).tables, 0);
    let stage = two_rings(11);
    assert_eq!(record(&stage, [300, 200], Ending::Closed).len(), before.len());
    stage.world.run(async {
        let target = Target::open(stage.env()).await.unwrap();
        target.objects().create_volume(1, Quota::default()).await.unwrap();
        target.close().await.unwrap();
    });
    stage.world.kill();
    let plan = look_at_wiped(&stage);
    assert!(plan.tables > 0 && plan.rings.len() == 2, "{} tables, {} rings", plan.tables, plan.rings.len());
}

fn look_at_wiped(stage: &Stage) -> Plan {
    wipe(stage);
    look(stage, None).unwrap()
}

//! What is whole comes back whole, at the least cost, also when the power goes.

use crate::rings::{
    OTHER, all, cut_at_each_write, goes_on, look, of, read_all, rebuild, record, same, sequences, two_laps, two_rings,
    wipe,
};
use forebay_model::Bytes;
use forebay_model::heap::HeapSettings;
use forebay_model::ring::RingSpec;
use forebay_sim::anatomy::Kind as PartKind;
use forebay_sim::disk::presets;
use forebay_sim::feeder::Feeder;
use forebay_sim::stage::{Ending, NAME, Stage, element};
use forebay_target::Target;
use forebay_target::heap::HeapOptions;
use forebay_target::object::rows::Quota;
use forebay_target::rebuild::Plan;

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
        // A ring of which a segment was sealed is called as it was.
        let named = plan.rings.iter().map(|ring| (ring.described, [NAME, OTHER].contains(&&ring.name[..])));
        assert!(named.clone().all(|(described, named)| described == named), "{:?}", plan.rings);
        assert!(counts[0] < 100 || named.clone().next() == Some((true, true)), "{:?}", plan.rings);
        let after = read_all(&stage);
        same(&before, &after);
        goes_on(&stage, &after);
    }
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
        // And an eighth of the device, where superblocks beside checkpoints could be.
        let copies = layout.area * 2 + layout.device / 8;
        assert!(read < layout.group * whole + copies + Bytes::mib(2), "{read} for {whole} groups of {}", layout.group);
        stage.world.run(plan.write(stage.env())).unwrap();
        stage.world.kill();
        let (then, now) = (sequences(&before[NAME]), sequences(of(&read_all(&stage), NAME)));
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
    cut_at_each_write(&scene, |stage, _| wipe(stage), |_| (), |after| same(&before, after));
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
fn objects_and_heaps_are_seen_since_they_are_not_rebuilt() {
    let stage = two_rings(11);
    let before = record(&stage, [300, 200], Ending::Closed);
    assert_eq!(look_at_wiped(&stage).tables, 0);
    for is_heap in [false, true] {
        let stage = two_rings(11);
        assert_eq!(record(&stage, [300, 200], Ending::Closed).len(), before.len());
        stage.world.run(async {
            let target = Target::open(stage.env()).await.unwrap();
            if is_heap {
                target.create_heap("/heap", HeapSettings::default(), HeapOptions::default()).await.unwrap();
            } else {
                target.objects().create_volume(1, Quota::default()).await.unwrap();
            }
            target.close().await.unwrap();
        });
        stage.world.kill();
        let plan = look_at_wiped(&stage);
        assert!(plan.tables > 0 && plan.rings.len() == 2, "{} tables, {} rings", plan.tables, plan.rings.len());
    }
}

fn look_at_wiped(stage: &Stage) -> Plan {
    wipe(stage);
    look(stage, None).unwrap()
}

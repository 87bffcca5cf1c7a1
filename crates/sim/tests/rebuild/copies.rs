//! Both superblocks are lost, and a checkpoint is not: the superblock behind it says what it is, and nothing at all is lost.

use crate::rings::{OTHER, all, cut_at_each_write, feed, look, read_all, record, two_rings};
use forebay_model::heap::HeapSettings;
use forebay_model::ring::RingSpec;
use forebay_model::{Bytes, Kind, ObjectId, Profile, Timestamp};
use forebay_sim::disk::{Survival, presets};
use forebay_sim::stage::{Ending, NAME, Stage};
use forebay_target::Target;
use forebay_target::heap::HeapOptions;
use forebay_target::layout::{ROOT_LEN, ROOTS};
use forebay_target::object::Placement;
use forebay_target::object::rows::Quota;
use forebay_target::rebuild::Plan;

const OBJECT: ObjectId = ObjectId { volume: 1, object: 1 };
const HEAP: &str = "/heap";

/// What a target has beside rings.
type Beside = (Vec<u8>, Vec<u8>);

/// An object and a heap, some of whose changes are only in logs, and a pin.
fn with_more(stage: &Stage, bytes: &Beside) {
    stage.world.run(async {
        let target = Target::open(stage.env()).await.unwrap();
        target.ring(NAME).unwrap().pin("kept", Timestamp(0), Timestamp(i64::MAX)).await.unwrap();
        let objects = target.objects();
        objects.create_volume(OBJECT.volume, Quota::default()).await.unwrap();
        objects.create(OBJECT, vec![(7, 1, b"attribute".to_vec())]).await.unwrap();
        objects.write(target.stream(), OBJECT, 0, &bytes.0, Placement::Auto).await.unwrap();
        objects.write(target.stream(), OBJECT, 5000, &bytes.0[5000..5100], Placement::Log).await.unwrap();
        target.create_heap(HEAP, HeapSettings::default(), HeapOptions::default()).await.unwrap();
        let heap = target.heap(HEAP, HeapOptions::default()).await.unwrap();
        let record = heap.put(&bytes.1).await.unwrap();
        heap.commit(Some(record)).await.unwrap();
    });
    stage.world.kill();
}

fn more(stage: &Stage) -> Beside {
    let env = stage.env();
    let found = stage.world.run(async move {
        let target = Target::open(env).await.unwrap();
        let (objects, heap) = (target.objects(), target.heap(HEAP, HeapOptions::default()).await.unwrap());
        objects.ready().await.unwrap();
        let object = objects.read(target.stream(), OBJECT, 0, u64::MAX >> 1).await.unwrap();
        let record = heap.get(heap.root().unwrap()).await.unwrap();
        assert_eq!(target.ring(NAME).unwrap().status().pins.len(), 1);
        target.close().await.unwrap();
        (object, record)
    });
    stage.world.kill();
    found
}

fn small(name: &str) -> RingSpec {
    let mut spec = RingSpec::new(name, Bytes::mib(2));
    (spec.block, spec.segment) = (Bytes::kib(16), Bytes::kib(256));
    spec
}

fn lose_roots(stage: &Stage, with: u8) {
    ROOTS.into_iter().for_each(|root| stage.disk.poke(root, &vec![with; ROOT_LEN.0 as usize]));
}

#[test]
fn where_both_superblocks_are_lost_and_a_checkpoint_is_not_nothing_is_lost() {
    let bytes: Beside = ((0..100_000_u32).map(|n| (n % 251) as u8).collect(), b"a record".to_vec());
    for (seed, area) in (20..).zip([None, Some(0), Some(1)]) {
        let stage = two_rings(seed);
        record(&stage, [300, 200], Ending::Closed);
        with_more(&stage, &bytes);
        let before = record(&stage, [30, 20], [Ending::Closed, Ending::Killed, Ending::Cut][seed as usize % 3]);
        let (root, catalog, complaints) = stage.world.run(Target::inspect(stage.env())).unwrap();
        assert_eq!(complaints, Vec::<String>::new());
        lose_roots(&stage, if seed == 20 { 0 } else { 0xee });
        if let Some(which) = area {
            stage.disk.poke(root.layout.area_at(which), &[0xee; 4096]);
        }
        assert!(stage.world.run(Target::inspect(stage.env())).is_err());
        let image = stage.image();
        let plan = look(&stage, None).unwrap();
        assert!(plan.checkpoint_kept && plan.superblock_kept && plan.tables == 0);
        assert!(plan.rings.iter().map(|ring| &ring.name[..]).eq([NAME, OTHER]), "{:?}", plan.rings);
        assert!(stage.image() == image, "looking writes nothing");
        stage.world.run(plan.write(stage.env())).unwrap();
        let now = stage.world.run(Target::inspect(stage.env())).unwrap();
        assert_eq!((now.0.target, now.0.mark, now.0.formatted), (root.target, root.mark, root.formatted));
        assert!(now.0.profile == root.profile && now.1 == catalog && now.2.is_empty());
        stage.world.kill();
        assert!(read_all(&stage) == before);
        assert!(more(&stage) == bytes);
        let on = record(&stage, [10, 10], Ending::Closed);
        assert!(on[OTHER].len() > before[OTHER].len() && read_all(&stage) == on);
    }
}

#[test]
fn the_power_may_go_at_any_write_while_a_superblock_is_made_of_its_copy() {
    let stage = two_rings(31);
    let before = record(&stage, [300, 200], Ending::Closed);
    let layout = stage.world.run(Target::inspect(stage.env())).unwrap().0.layout;
    let lose = |stage: &Stage, cut: u64| {
        lose_roots(stage, 0);
        stage.disk.poke(layout.area_at(cut as usize % 2), &[0xee; 4096]);
    };
    let is_kept = |plan: &Plan| assert!(plan.checkpoint_kept);
    cut_at_each_write(&stage.scene(), lose, is_kept, |after| assert!(*after == before));
}

#[test]
fn wherever_the_power_went_what_was_acknowledged_is_there_without_superblocks() {
    let stage = two_rings(32);
    record(&stage, [100, 100], Ending::Closed);
    let scene = stage.scene();
    for survival in [Survival::Random, Survival::Nothing, Survival::Everything] {
        for cut in 1.. {
            let stage = scene.begin(cut);
            let env = stage.env();
            stage.disk.set_survival(survival);
            stage.disk.cut_after(cut);
            let done = std::cell::RefCell::new(Vec::new());
            let over = stage.world.run_until_cut(async {
                let target = Target::open(env.clone()).await.unwrap();
                for name in ["/one", "/two"] {
                    target.create_ring(small(name)).await.unwrap();
                    done.borrow_mut().push(name);
                    feed(&env, &target, name, 5, 100).await.unwrap();
                }
                let (events, _) = (all(&env, &target).await, target.close().await.unwrap());
                events
            });
            stage.disk.no_cut();
            lose_roots(&stage, 0);
            let plan = look(&stage, None).unwrap();
            assert!(plan.checkpoint_kept, "cut at {cut}");
            stage.world.run(plan.write(stage.env())).unwrap();
            stage.world.kill();
            let after = read_all(&stage);
            for name in done.take() {
                assert!(after.contains_key(name), "cut at {cut}: {name} was acknowledged");
            }
            if let Ok(before) = over {
                assert!(after == before && cut > 20, "{cut}");
                break;
            }
        }
    }
}

#[test]
fn outcome_43_of_two_targets_after_one_another_the_later_one_counts_and_a_newer_format_is_refused() {
    let stage = Stage::new(33, presets::ssd().scaled(2000), |_| ());
    // Long enough for its superblocks to lie beyond the checkpoints of the next.
    stage.world.run(async {
        let target = Target::open(stage.env()).await.unwrap();
        for n in 0..20 {
            target.create_ring(small(&format!("/{n}/{}", "x".repeat(200)))).await.unwrap();
        }
        target.close().await.unwrap();
    });
    stage.world.kill();
    let earlier = stage.world.run(Target::inspect(stage.env())).unwrap().0;
    let env = stage.env();
    stage.world.run(async move {
        let geometry = env.device.geometry();
        Target::format(env, Profile::guess(geometry.size, geometry.rotates)).await.unwrap();
    });
    stage.world.kill();
    let later = stage.world.run(Target::inspect(stage.env())).unwrap().0;
    let mut left = vec![0; 8];
    stage.disk.peek(earlier.beside(1), &mut left);
    assert_eq!(left, *b"FOREBAY\0", "what is to be passed over is there");
    lose_roots(&stage, 0xee);
    assert_eq!(look(&stage, None).unwrap().target, later.target);
    // A version that is not known, in a copy that is whole otherwise.
    let mut copy = vec![0; ROOT_LEN.0 as usize];
    later.encode(&mut copy).unwrap();
    let body = 20 + u32::from_le_bytes(copy[12..16].try_into().unwrap()) as usize;
    copy[8..12].copy_from_slice(&2_u32.to_le_bytes());
    let checksum = forebay_model::block::crc32c(&copy[..16]) ^ forebay_model::block::crc32c(&copy[20..body]);
    copy[16..20].copy_from_slice(&checksum.to_le_bytes());
    stage.disk.poke(later.beside(0), &copy[..4096]);
    assert_eq!(look(&stage, None).err().unwrap().kind, Kind::Version);
}

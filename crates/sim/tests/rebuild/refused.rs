//! What must not be rebuilt, or not without being told which.

use crate::rings::{OTHER, goes_on, look, read_all, record, same, two_rings, wipe};
use forebay_model::ring::RingSpec;
use forebay_model::{Bytes, Kind, Profile, TargetId};
use forebay_sim::stage::{Ending, NAME};
use forebay_target::Target;

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

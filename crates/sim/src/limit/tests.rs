use super::{Sample, alternating, on_device};
use crate::disk::presets;
use crate::world::World;
use forebay_model::{Bytes, Kind, Rate};
use std::time::Duration;

const PLACES: std::ops::Range<Bytes> = Bytes::mib(16)..Bytes::mib(1016);

/// The limit in turns on a device, and how long finding it took.
fn in_turns(write: Rate, span: Duration) -> (Rate, Duration) {
    let world = World::new(1);
    let env = world.env(world.disk(presets::wd15ears().scaled(1000)));
    world.run(async {
        let start = env.clock.now();
        let rate = on_device(&env, &[PLACES], write, span, &|_| ()).await.expect("a healthy disk");
        (rate, env.clock.now().since(start))
    })
}

#[test]
fn a_device_has_the_limit_that_its_model_has() {
    let sample = Sample { places: vec![PLACES], write: Rate::mb(40), seconds: 6 };
    let model = alternating(1, &presets::wd15ears().scaled(1000), &sample);
    let (device, _) = in_turns(Rate::mb(40), Duration::from_secs(60));
    assert!(device.0.abs_diff(model.0) < model.0 / 10, "{device} on the device, {model} of the model");
}

#[test]
fn a_low_rate_has_its_limit_after_the_span_too() {
    let (fast, took) = in_turns(Rate::mb(50), Duration::from_secs(10));
    assert!(took < Duration::from_secs(20), "{took:?}");
    let (slow, took) = in_turns(Rate::mb(1), Duration::from_secs(10));
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert!(slow > fast, "{slow} beside 1 MB/s, {fast} beside 50 MB/s");
}

#[test]
fn a_ring_of_scraps_has_no_limit_to_be_measured() {
    let world = World::new(1);
    let env = world.env(world.disk(presets::wd15ears().scaled(1000)));
    let scraps = [Bytes::mib(1)..Bytes::mib(3), Bytes::mib(8)..Bytes::mib(11)];
    let refused = world.run(on_device(&env, &scraps, Rate::mb(1), Duration::from_secs(1), &|_| ()));
    assert_eq!(refused.expect_err("there is no whole piece").kind, Kind::Usage);
}

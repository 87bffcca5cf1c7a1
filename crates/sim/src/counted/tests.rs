use super::Counted;
use crate::disk::{Counters, presets};
use crate::world::World;
use forebay_env::{Buffer, Env};
use forebay_model::Bytes;
use std::rc::Rc;
use std::time::Duration;

#[test]
fn it_counts_what_a_simulated_disk_counts() {
    let world = World::new(3);
    let disk = world.disk(presets::ssd().scaled(100));
    let counted = Rc::new(Counted::new(Rc::new(disk.clone())));
    let env = Env { device: counted.clone(), ..world.env(disk.clone()) };
    world.run(async move {
        let random = env.random.clone();
        for _ in 0..50 {
            let at = Bytes::kib(4 * random.below(10_000));
            let buffer = Buffer::alone(Bytes::kib(4 * (1 + random.below(8)))).unwrap();
            match random.below(4) {
                0 => env.device.read(at, buffer).await.1.unwrap(),
                1 => env.device.write_durable(at, buffer).await.1.unwrap(),
                2 => env.device.write(at, buffer).await.1.unwrap(),
                _ => env.device.flush().await.unwrap(),
            }
        }
        let past = env.device.geometry().size;
        env.device.write(past, Buffer::alone(Bytes::kib(4)).unwrap()).await.1.unwrap_err();
    });
    let without_arm = |counters: Counters| Counters { seeks: 0, busy: Duration::ZERO, ..counters };
    let (ours, its) = (counted.counters(), without_arm(disk.counters()));
    assert!(ours.writes > 0 && ours.reads > 0 && ours.flushes > 0 && ours.failed == 1, "{ours:?}");
    assert_eq!(Counters { failed: 0, ..ours }, Counters { failed: 0, ..its });
}

//! When the power goes, at most what came within the flush interval is missing, whatever the disk keeps of what was not
//! flushed; at the rate that was promised, beside a reader, on disks of each kind.

#![allow(clippy::unwrap_used)]

use forebay_env::Env;
use forebay_model::ring::RingSpec;
use forebay_model::{Bytes, Moment, Rate};
use forebay_sim::disk::{DiskSpec, Survival, presets};
use forebay_sim::feeder::Feeder;
use forebay_sim::reader::read;
use forebay_sim::{World, seeds};
use forebay_target::Target;
use forebay_target::profile::{MeasureOptions, measure};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const NAME: &str = "/a";
const ELEMENT: usize = 5000;

fn disk(seed: u64) -> DiskSpec {
    match seed % 4 {
        0 => presets::ssd().scaled(400),
        1 => presets::wd15ears().scaled(2000),
        2 => presets::sata7200().scaled(1500),
        _ => presets::cheetah15k().scaled(500),
    }
}

/// Records at the promised rate for ever; says for each element when it was accepted, and whether any was late.
async fn pour(env: Env, accepted: Rc<RefCell<Vec<Moment>>>, rate: Rate, interval: Duration) {
    let target = Target::open(env.clone()).await.unwrap();
    let ring = target.ring(NAME).unwrap();
    ring.ready().await.unwrap();
    let reading = ring.clone();
    let (clock, spawner) = (env.clock.clone(), env.spawner.clone());
    env.spawner.detach(async move {
        loop {
            read(reading.clone(), "all", &clock, &spawner).await.unwrap();
            clock.sleep(Duration::from_millis(1)).await;
        }
    });
    let mut feeder = Feeder::new(ring.clone(), env.clock.clone(), env.random.next_u64()).unwrap();
    let start = env.clock.now();
    loop {
        let due = rate.bytes_in(env.clock.now().since(start)).0 / ELEMENT as u64;
        while (accepted.borrow().len() as u64) < due {
            assert!(feeder.room_or_take(ELEMENT), "there is room at the promised rate");
            feeder.element(env.clock.wall(), &[&[7; ELEMENT]]).await.unwrap();
            accepted.borrow_mut().push(env.clock.now());
        }
        // As recorders do: half of the interval in memory, the rest is the target's.
        feeder.tick(interval / 2).unwrap();
        assert_eq!(ring.status().missed_deadlines, 0);
        env.clock.sleep(Duration::from_millis(2)).await;
    }
}

#[test]
fn what_a_power_cut_takes_came_within_the_flush_interval() {
    let longest = RefCell::new(Duration::ZERO);
    seeds::each(12, |seed| {
        let world = World::new(seed);
        let disk = world.disk(disk(seed));
        // Blocks that are never full when they leave, and ones that fill soon.
        let rate = if seed.is_multiple_of(2) { Rate(200_000) } else { Rate::mb(20) };
        let interval = Duration::from_millis([500, 1000, 2000][seed as usize % 3]);
        world.run(async {
            let env = world.env(disk.clone());
            let geometry = env.device.geometry();
            let options = MeasureOptions::for_extent(geometry.size, geometry.rotates, true);
            let profile = measure(&env, Bytes::ZERO..geometry.size, options, &mut |_| ()).await.unwrap();
            Target::format(env.clone(), profile).await.unwrap();
            let target = Target::open(env).await.unwrap();
            let mut spec = RingSpec::new(NAME, Bytes::mib(200));
            (spec.guarantee, spec.flush_interval) = (rate, interval);
            spec.block = Bytes::kib([64, 256, 1024][seed as usize / 3 % 3]);
            target.create_ring(spec).await.unwrap();
            target.close().await.unwrap();
        });
        world.kill();
        disk.set_survival(if seed % 5 == 4 { Survival::Random } else { Survival::Nothing });
        let cut = world.now() + Duration::from_millis(200 + world.random().below(8000));
        world.cut_power_at(cut);
        let accepted: Rc<RefCell<Vec<Moment>>> = Rc::default();
        world.run_until_cut(pour(world.env(disk.clone()), accepted.clone(), rate, interval)).unwrap_err();
        let next = world.run(async {
            let target = Target::open(world.env(disk.clone())).await.unwrap();
            let ring = target.ring(NAME).unwrap();
            ring.ready().await.unwrap();
            ring.status().next_sequence
        });
        if let Some(lost) = accepted.borrow().get(next as usize) {
            let age = cut.since(*lost);
            longest.replace_with(|longest| age.max(*longest));
            assert!(age <= interval, "what came {age:?} before the cut is gone, and {interval:?} were allowed");
        }
    });
    // Something was under way when the power went: else this has shown nothing.
    assert!(!seeds::are_the_suites() || *longest.borrow() > Duration::from_millis(200), "{longest:?}");
}

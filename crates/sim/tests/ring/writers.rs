//! What a session that resumes after a takeover need not send again, also if others recorded since.

#![allow(clippy::unwrap_used)]

use forebay_env::Env;
use forebay_model::ring::RingSpec;
use forebay_model::{Bytes, Profile, Timestamp};
use forebay_sim::World;
use forebay_sim::disk::presets;
use forebay_sim::feeder::Feeder;
use forebay_sim::reader::{Event, read};
use forebay_target::Target;
use std::time::Duration;

const NAME: &str = "/a";

async fn set_up(env: Env) {
    let geometry = env.device.geometry();
    Target::format(env.clone(), Profile::guess(geometry.size, geometry.rotates)).await.unwrap();
    let target = Target::open(env).await.unwrap();
    let spec = RingSpec {
        block: Bytes::kib(16),
        segment: Bytes::kib(256),
        flush_interval: Duration::from_millis(20),
        ..RingSpec::new(NAME, Bytes::mib(8))
    };
    target.create_ring(spec).await.unwrap();
    target.close().await.unwrap();
}

/// Records `blocks` blocks as session `writer`, the first of them acknowledged, the rest perhaps.
async fn session(env: &Env, target: &Target, writer: u64, blocks: u64) {
    let ring = target.ring(NAME).unwrap();
    ring.ready().await.unwrap();
    let mut feeder = Feeder::new(ring, env.clock.clone(), writer).unwrap();
    for number in 1..=blocks {
        feeder.element(env.clock.wall(), &[&[number as u8; 1000]]).await.unwrap();
        if number == 1 {
            feeder.durable().await.unwrap();
        }
        assert_eq!(feeder.flush().unwrap(), number);
    }
}

/// The last block of each session that is known to be there.
async fn known<const N: usize>(env: Env, writers: [u64; N]) -> ([u64; N], u64) {
    let target = Target::open(env.clone()).await.unwrap();
    let ring = target.ring(NAME).unwrap();
    ring.ready().await.unwrap();
    let known = writers.map(|writer| ring.durable_of(writer));
    let (events, _) = read(ring, "all", &env.clock, &env.spawner).await.unwrap();
    let elements = events.iter().filter(|event| matches!(event, Event::Element { .. })).count() as u64;
    (known, elements)
}

#[test]
fn each_session_is_told_its_own_last_block_after_a_crash() {
    let world = World::new(1);
    let disk = world.disk(presets::ssd().scaled(10_000));
    world.run(set_up(world.env(disk.clone())));
    // Sessions within a segment, over segments that are sealed, and in segments before the last checkpoint.
    for (round, blocks, checkpoint) in [(1, 3, false), (2, 40, false), (3, 3, true), (4, 40, true)] {
        let (first, second, third) = (round * 10, round * 10 + 1, round * 10 + 2);
        let env = world.env(disk.clone());
        let before = world.run(known(env.clone(), [])).1;
        world.kill();
        let env2 = world.env(disk.clone());
        world.run(async move {
            let target = Target::open(env2.clone()).await.unwrap();
            session(&env2, &target, first, blocks).await;
            session(&env2, &target, second, blocks).await;
            if checkpoint {
                let now = env2.clock.wall();
                let pin = target.pin(NAME, "", Timestamp(0), now).await.unwrap().pin;
                target.unpin(NAME, pin.id).await.unwrap();
            }
            session(&env2, &target, third, 1).await;
        });
        world.kill();
        let (known, elements) = world.run(known(world.env(disk.clone()), [first, second, third, 999]));
        assert_eq!((known, elements - before), ([blocks, blocks, 1, 0], 2 * blocks + 1), "round {round}");
        world.kill();
    }
}

#[test]
fn what_a_power_cut_undid_is_asked_for_again() {
    let mut undone = 0;
    for seed in 0..40 {
        let world = World::new(seed);
        let disk = world.disk(presets::ssd().scaled(10_000));
        world.run(set_up(world.env(disk.clone())));
        disk.cut_after(8 + seed * 3);
        let env = world.env(disk.clone());
        let recorded = world.run_until_cut(async move {
            let target = Target::open(env.clone()).await.unwrap();
            session(&env, &target, 7, 30).await;
            session(&env, &target, 8, 30).await;
        });
        world.crash(&[&disk]);
        disk.no_cut();
        let ([first, second], elements) = world.run(known(world.env(disk.clone()), [7, 8]));
        assert_eq!(first + second, elements, "seed {seed}: every block holds one element");
        assert!(second == 0 || first == 30, "seed {seed}: {second} blocks follow {first} of 30");
        undone += u64::from(recorded.is_err() && first % 30 > 1);
    }
    assert!(undone > 0, "no cut met the middle of a session");
}

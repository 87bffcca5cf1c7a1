//! Who reads again while what lies in logs goes home waits for a short step of that at most: a disk that turns takes seconds
//! for a thousand places.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use forebay_model::{Bytes, ObjectId, Profile};
use forebay_sim::World;
use forebay_sim::disk::presets;
use forebay_target::Target;
use forebay_target::object::Placement;
use forebay_target::object::rows::{BLOCK, Quota};
use std::time::Duration;

const ONE: ObjectId = ObjectId { volume: 1, object: 1 };
const OTHER: ObjectId = ObjectId { volume: 1, object: 2 };
/// Bytes of each object.
const SIZE: Bytes = Bytes::mib(256);
/// Blocks that lie in logs, and how far they are from each other at home.
const LOGGED: u64 = 4000;
const APART: u64 = 16;
/// What is read at once.
const READ: Bytes = Bytes::mib(1);
/// The most that such a read may wait.
const MOST: Duration = Duration::from_millis(200);

#[test]
fn who_reads_while_blocks_go_home_waits_for_a_short_step_of_that_at_most() {
    let world = World::new(1);
    let disk = world.disk(presets::sata7200());
    let (env, clock) = (world.env(disk), world.clock());
    let (waits, homed) = world.run(async {
        let geometry = env.device.geometry();
        Target::format(env.clone(), Profile::guess(geometry.size, geometry.rotates)).await.unwrap();
        let target = Target::open(env).await.unwrap();
        let (objects, writer, reader) = (target.objects(), target.stream(), target.stream());
        objects.create_volume(1, Quota::default()).await.unwrap();
        for id in [ONE, OTHER] {
            objects.create(id, Vec::new()).await.unwrap();
            let bytes = vec![7; Bytes::mib(32).0 as usize];
            for at in (0..SIZE.0).step_by(bytes.len()) {
                objects.write(writer, id, at, &bytes, Placement::Home).await.unwrap();
            }
        }
        for n in 0..LOGGED {
            // A stride that comes to each of them once, and never to the next one.
            let block = n * 1237 % LOGGED * APART;
            objects.write(writer, ONE, block * BLOCK.0, &[8; BLOCK.0 as usize], Placement::Log).await.unwrap();
        }
        let mut waits = Vec::new();
        for n in 0u64.. {
            // Until blocks go home, and somewhere into that.
            let before = objects.counters().homed;
            while objects.redirected() > Bytes::ZERO && objects.counters().homed == before {
                clock.sleep(Duration::from_millis(20)).await;
            }
            if objects.redirected() == Bytes::ZERO {
                break;
            }
            clock.sleep(Duration::from_millis(n * 37 % 200)).await;
            let began = clock.now();
            objects.read(reader, OTHER, n * 89 % 256 * READ.0, READ.0).await.unwrap();
            waits.push(clock.now().since(began));
        }
        (waits, objects.counters().homed)
    });
    let longest = waits.iter().max().unwrap();
    println!("{} reads beside {homed} blocks on their way: the longest took {longest:?}; {waits:?}", waits.len());
    assert_eq!(homed, LOGGED, "all went home all the same");
    assert!(waits.len() >= 3 && *longest <= MOST, "{longest:?}");
}

//! What is missing is found without reading what is there.

#![allow(clippy::unwrap_used)]

use forebay_env::{Env, Random};
use forebay_model::ring::RingSpec;
use forebay_model::{Bytes, Cause, Gap, Profile};
use forebay_sim::disk::presets;
use forebay_sim::feeder::Feeder;
use forebay_sim::reader::{Event, read, read_with};
use forebay_sim::{World, seeds};
use forebay_target::Target;
use forebay_target::query::Limits;
use std::rc::Rc;
use std::time::Duration;

const NAME: &str = "/a";
const GAPS: Limits = Limits { follow: false, elements: u64::MAX, gaps_only: true, blocks: false, numbered: false };

async fn record_and_compare(env: Env, random: Rc<dyn Random>, seed: u64, elements: u64) {
    let (clock, spawner) = (env.clock.clone(), env.spawner.clone());
    let geometry = env.device.geometry();
    Target::format(env.clone(), Profile::guess(geometry.size, geometry.rotates)).await.unwrap();
    let mut target = Target::open(env.clone()).await.unwrap();
    let mut spec = RingSpec::new(NAME, Bytes::mib(64));
    spec.block = Bytes::kib(64);
    spec.flush_interval = Duration::from_millis(50);
    target.create_ring(spec).await.unwrap();
    for round in 0..4 {
        let ring = target.ring(NAME).unwrap();
        ring.ready().await.unwrap();
        let mut feeder = Feeder::new(ring.clone(), clock.clone(), random.next_u64()).unwrap();
        let start = clock.wall();
        for number in 0..elements {
            let now = clock.wall();
            feeder.element(now, &[&[number as u8; 16 << 10]]).await.unwrap();
            if random.below(300) == 0 {
                feeder.gap(&Gap { cause: Cause::Kernel, count: Some(number), first: now, last: now }).await.unwrap();
            }
            clock.sleep(Duration::from_micros(random.below(400))).await;
        }
        if round == 1 {
            let _ = target
                .pin(NAME, "", start.after(Duration::from_millis(20)), start.after(Duration::from_millis(60)))
                .await;
        }
        feeder.durable().await.unwrap();
        drop(feeder);
        let middle = start.after(clock.wall().since(start) / 3);
        for text in ["all".to_string(), format!("after {middle}"), format!("before {middle}")] {
            let (mut all, everything) = read(ring.clone(), &text, &clock, &spawner).await.unwrap();
            all.retain(|event| !matches!(event, Event::Element { .. }));
            let (gaps, summary) = read_with(ring.clone(), &text, GAPS, &clock, &spawner).await.unwrap();
            assert_eq!(format!("{gaps:?}"), format!("{all:?}"), "seed {seed}, round {round}: {text}");
            assert_eq!((summary.elements, summary.bytes), (0, Bytes::ZERO));
            // For each gap a span, for each segment with one its tables; so, too, where a range of times ends.
            let bound = Bytes::kib(1536) * (gaps.len() as u64 + 2);
            assert!(summary.read <= bound.min(everything.read), "seed {seed}: {} for {}", summary.read, gaps.len());
        }
        target.close().await.unwrap();
        drop(target);
        target = Target::open(env.clone()).await.unwrap();
    }
}

#[test]
fn a_query_for_gaps_finds_what_a_query_for_everything_does_and_reads_little() {
    seeds::each(12, |seed| {
        let world = World::new(seed);
        let disk = world.disk(presets::ssd().scaled(400));
        let random = world.random();
        // Rounds within a segment, and rounds that lap.
        let elements = [100, 700, 2500][seed as usize % 3];
        world.run(record_and_compare(world.env(disk), random, seed, elements));
    });
}

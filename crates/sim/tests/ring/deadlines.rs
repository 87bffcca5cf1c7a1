//! Deadlines keep up with a stream that keeps to its promised rate, however long it lasts and whatever is written beside
//! its elements: else staging memory would fill up in the end.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use forebay_env::pipe::pipe;
use forebay_env::{Clock, Device, Spawner};
use forebay_model::query::Query;
use forebay_model::ring::{Batch, RingSpec};
use forebay_model::{Bytes, Rate};
use forebay_sim::World;
use forebay_sim::disk::presets;
use forebay_sim::feeder::Feeder;
use forebay_target::profile::{MeasureOptions, measure};
use forebay_target::query::{Limits, run};
use forebay_target::{Ring, Target};
use std::rc::Rc;
use std::time::Duration;

const RATE: Rate = Rate::mb(30);

/// Reads the ring from its start to its end, again and again.
async fn saturate(ring: Rc<Ring>, clock: Rc<dyn Clock>, spawner: Spawner) {
    loop {
        let query = Query::parse("all", &ring.keys, clock.wall()).unwrap();
        let (inlet, mut outlet) = pipe::<Batch>(8 << 20);
        let limits = Limits { follow: false, elements: u64::MAX, gaps_only: false, blocks: false, numbered: false };
        let asked = ring.clone();
        let task = spawner.spawn(async move { run(asked, query, limits, &inlet).await });
        while outlet.receive().await.is_some() {}
        if task.await.unwrap().read == Bytes::ZERO {
            // Nothing was recorded yet.
            clock.sleep(Duration::from_millis(10)).await;
        }
    }
}

#[test]
fn what_is_written_beside_elements_does_not_make_deadlines_fall_behind() {
    let world = World::new(3);
    let disk = world.disk(presets::wd15ears().scaled(1000));
    let peaks: Vec<Bytes> = world.run(async {
        let env = world.env(disk.clone());
        let mut options = MeasureOptions::for_extent(disk.geometry().size, true, true);
        options.budget = Duration::from_secs(60);
        let profile = measure(&env, Bytes::ZERO..disk.geometry().size, options, &mut |_| ()).await.unwrap();
        Target::format(env.clone(), profile).await.unwrap();
        let target = Target::open(env.clone()).await.unwrap();
        let mut spec = RingSpec::new("/a", Bytes::mib(600));
        spec.guarantee = RATE;
        // Headers and padding of small blocks, and an index: 5 % beyond the elements.
        spec.block = Bytes::kib(64);
        spec.keys = vec!["id=u64le@0".into(), "other=u64le@8".into()];
        let ring = target.create_ring(spec).await.unwrap();
        ring.ready().await.unwrap();
        for _ in 0..4 {
            world.spawner().detach(saturate(ring.clone(), env.clock.clone(), world.spawner()));
        }
        let mut feeder = Feeder::new(ring.clone(), env.clock.clone(), 1).unwrap();
        let (start, mut number, mut element) = (env.clock.now(), 0u64, [7u8; 700]);
        let mut peaks = Vec::new();
        while peaks.len() < 6 {
            let since = env.clock.now().since(start);
            while number * (element.len() as u64) < RATE.bytes_in(since).0 {
                element[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
                element[8..16].copy_from_slice(&number.wrapping_mul(0xc2b2_ae3d_27d4_eb4f).to_le_bytes());
                assert!(feeder.room_or_take(element.len()), "no room after {since:?}");
                feeder.element(env.clock.wall(), &[&element]).await.unwrap();
                number += 1;
            }
            feeder.tick(Duration::from_millis(400)).unwrap();
            if since.as_secs() / 10 > peaks.len() as u64 {
                peaks.push(ring.status().staging_peak);
            }
            env.clock.sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(ring.status().missed_deadlines, 0);
        peaks
    });
    println!("most staging memory used after each ten seconds: {peaks:?}");
    assert!(peaks[5].0 * 4 <= peaks[1].0 * 5, "staging memory fills up: {peaks:?}");
}

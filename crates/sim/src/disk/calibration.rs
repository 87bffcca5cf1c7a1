//! The figures that experiments on these disks rest on, measured from outside through the device door.

use super::{DiskSpec, SimDisk, presets};
use crate::World;
use forebay_env::{Buffer, Device, Slab};
use forebay_model::{Bytes, Rate};
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

fn buffer(length: u64) -> Buffer {
    Buffer::alone(Bytes(length)).unwrap()
}

/// Goes through `count` requests of `length` in sequence, `depth` at a time.
async fn stream(disk: &SimDisk, writes: bool, offset: u64, length: u64, count: u64, depth: usize) {
    let slab = Slab::new(Bytes(length), depth).unwrap();
    let mut under_way = VecDeque::new();
    for i in 0..count {
        if under_way.len() == depth {
            let next: forebay_env::DeviceFuture<_> = under_way.pop_front().unwrap();
            let (_, result): (Buffer, forebay_model::Result<()>) = next.await;
            result.unwrap();
        }
        let at = Bytes(offset + i * length);
        let buffer = slab.try_take().unwrap();
        under_way.push_back(if writes { disk.write(at, buffer) } else { disk.read(at, buffer) });
    }
    for last in under_way {
        last.await.1.unwrap();
    }
}

fn rate(spec: &DiskSpec, writes: bool, offset: u64, length: u64, depth: usize) -> f64 {
    let world = World::new(1);
    let disk = world.disk(spec.clone());
    let count = (96 << 20) / length;
    world.run(async {
        stream(&disk, writes, offset, length, 8, depth).await;
        disk.flush().await.unwrap();
        let begin = world.now();
        stream(&disk, writes, offset + 8 * length, length, count, depth).await;
        if writes {
            disk.flush().await.unwrap();
        }
        Rate::of(Bytes(count * length), world.now().since(begin)).0 as f64
    })
}

fn near(measured: f64, expected: f64, share: f64, what: &str) {
    assert!((measured / expected - 1.0).abs() <= share, "{what}: {measured:.1} instead of {expected:.1}");
}

fn rotating() -> [DiskSpec; 3] {
    [presets::wd15ears(), presets::cheetah15k(), presets::sata7200()]
}

#[test]
fn sequential_reads_and_queued_writes_run_at_the_rate_of_their_place() {
    for spec in rotating() {
        for point in 0..16 {
            let offset = Bytes(spec.size.0 / 16 * point).align_down(Bytes::mib(1)).0;
            let expected = spec.rate_at(Bytes(offset + (52 << 20))).0 as f64;
            let what = format!("{} at {point}/16", spec.name);
            near(rate(&spec, false, offset, 1 << 20, 1), expected, 0.03, &what);
            near(rate(&spec, false, offset, 1 << 20, 4), expected, 0.03, &what);
            near(rate(&spec, true, offset, 1 << 20, 4), expected, 0.03, &what);
            near(rate(&spec.clone().with_write_cache(None), true, offset, 1 << 20, 2), expected, 0.03, &what);
        }
    }
}

#[test]
fn the_named_rates_of_each_disk_hold() {
    let ends =
        |spec: &DiskSpec| [rate(spec, false, 0, 1 << 20, 2), rate(spec, false, spec.size.0 - (106 << 20), 1 << 20, 2)];
    for (spec, [outside, inside]) in rotating().into_iter().zip([[110e6, 50e6], [120e6, 80e6], [120e6, 60e6]]) {
        let measured = ends(&spec);
        near(measured[0], outside, 0.03, &spec.name);
        near(measured[1], inside, 0.03, &spec.name);
    }
    let spec = presets::ssd();
    near(rate(&spec, false, 0, 1 << 20, 4), 520e6, 0.03, "ssd reads");
    let written = {
        let world = World::new(1);
        let disk = world.disk(spec.clone());
        world.run(async {
            stream(&disk, true, 0, 1 << 20, 2048, 4).await;
            disk.flush().await.unwrap();
            Rate::of(Bytes(2 << 30), world.now().since(Default::default())).0 as f64
        })
    };
    near(written, 380e6, 0.03, "ssd writes");
}

#[test]
fn a_scaled_disk_has_the_same_rates() {
    for spec in rotating() {
        let small = spec.clone().scaled(200);
        for point in [0, 5, 9] {
            let offset = Bytes(small.size.0 / 10 * point).align_down(Bytes::mib(1)).0;
            // A pass of 104 MiB covers a good part of the scaled disk.
            let expected = small.rate_at(Bytes(offset + (52 << 20))).0 as f64;
            near(rate(&small, false, offset, 1 << 20, 2), expected, 0.05, &small.name);
        }
    }
}

/// Random reads of 4 KiB a second, `depth` at a time.
fn random_reads(spec: &DiskSpec, depth: usize) -> f64 {
    let world = World::new(2);
    let disk = world.disk(spec.clone());
    let random = world.random();
    let (count, blocks) = (1000, spec.size.0 / 4096);
    world.run(async {
        let mut under_way = VecDeque::new();
        for i in 0..count {
            if i >= depth {
                let next: forebay_env::DeviceFuture<_> = under_way.pop_front().unwrap();
                let (_, result): (Buffer, forebay_model::Result<()>) = next.await;
                result.unwrap();
            }
            under_way.push_back(disk.read(Bytes(random.below(blocks) * 4096), buffer(4096)));
        }
        for last in under_way {
            last.await.1.unwrap();
        }
    });
    count as f64 / world.now().since(Default::default()).as_secs_f64()
}

#[test]
fn random_reads_cost_a_seek_and_half_a_turn() {
    let measured: Vec<f64> = rotating().iter().map(|spec| random_reads(spec, 1)).collect();
    assert!((60.0..80.0).contains(&measured[0]), "5400 rpm: {measured:?}");
    assert!((160.0..200.0).contains(&measured[1]), "15000 rpm: {measured:?}");
    assert!((70.0..85.0).contains(&measured[2]), "7200 rpm: {measured:?}");
    let scaled = random_reads(&presets::wd15ears().scaled(1000), 1);
    assert!((60.0..80.0).contains(&scaled), "scaled: {scaled}");
    let flash = [random_reads(&presets::ssd(), 1), random_reads(&presets::ssd(), 32)];
    assert!((5_000.0..12_000.0).contains(&flash[0]) && (60_000.0..120_000.0).contains(&flash[1]), "{flash:?}");
}

#[test]
fn a_full_queue_of_random_reads_is_faster_than_one_at_a_time() {
    for spec in rotating() {
        let gain = random_reads(&spec, 32) / random_reads(&spec, 1);
        assert!((1.3..3.0).contains(&gain), "{}: {gain:.2}", spec.name);
    }
}

/// The share of its bandwidth that a sequential reader loses to `iops` random reads a second.
fn loss_to_random_reads(iops: u64) -> f64 {
    let world = World::new(3);
    let spec = presets::cheetah15k();
    let disk = world.disk(spec.clone());
    let stop = Rc::new(Cell::new(false));
    let (env, ended, blocks) = (world.env(disk.clone()), stop.clone(), spec.size.0 / 4096);
    if iops > 0 {
        world.spawner().detach(async move {
            // Open loop: at chosen times, whether or not the last one is done.
            while !ended.get() {
                env.clock.sleep(Duration::from_nanos(env.random.below(2_000_000_000 / iops))).await;
                let read = env.device.read(Bytes(env.random.below(blocks) * 4096), buffer(4096));
                env.spawner.detach(async move { read.await.1.unwrap() });
            }
        });
    }
    let start = Bytes(spec.size.0 / 2).align_down(Bytes::mib(1)).0;
    let span = world.run(async {
        let begin = world.now();
        stream(&disk, false, start, 256 << 10, 4096, 1).await;
        world.now().since(begin)
    });
    stop.set(true);
    1.0 - Rate::of(Bytes(1 << 30), span).0 as f64 / spec.rate_at(Bytes(start)).0 as f64
}

#[test]
fn random_reads_cost_a_sequential_reader_what_was_published() {
    let losses = [0, 24, 56].map(loss_to_random_reads);
    assert!(losses[0] < 0.02, "{losses:?}");
    assert!((0.18..0.32).contains(&losses[1]), "published 25 %: {losses:?}");
    assert!((0.45..0.60).contains(&losses[2]), "published 53 %: {losses:?}");
}

#[test]
fn random_reads_of_8_mib_keep_most_of_the_bandwidth() {
    let world = World::new(4);
    let spec = presets::cheetah15k();
    let disk = world.disk(spec.clone());
    let random = world.random();
    let mut ideal = Duration::ZERO;
    world.run(async {
        for _ in 0..50 {
            let offset = Bytes(random.below((spec.size.0 >> 20) - 8) << 20);
            ideal += spec.rate_at(offset).time_for(Bytes::mib(8));
            disk.read(offset, buffer(8 << 20)).await.1.unwrap();
        }
    });
    let share = ideal.as_secs_f64() / world.now().since(Default::default()).as_secs_f64();
    assert!((0.85..0.97).contains(&share), "published 88 %: {share:.3}");
}

#[test]
fn alternating_large_io_between_two_places_costs_a_few_percent() {
    for spec in rotating() {
        let world = World::new(5);
        let disk = world.disk(spec.clone());
        let places = [0, Bytes(spec.size.0 / 3).align_down(Bytes::mib(1)).0];
        let ideal: f64 = world.run(async {
            let mut ideal = 0.0;
            for i in 0..12u64 {
                let at = Bytes(places[(i % 2) as usize] + i / 2 * (64 << 20));
                ideal += spec.rate_at(at).time_for(Bytes::mib(64)).as_secs_f64();
                let io = if i % 2 == 0 { disk.write(at, buffer(64 << 20)) } else { disk.read(at, buffer(64 << 20)) };
                io.await.1.unwrap();
            }
            ideal
        });
        let cost = world.now().since(Default::default()).as_secs_f64() / ideal - 1.0;
        assert!((0.005..0.05).contains(&cost), "{}: {cost:.3}", spec.name);
    }
}

/// Mean time of sequential 4 KiB writes, each waited for.
fn small_writes(spec: DiskSpec, flushed: bool) -> Duration {
    let world = World::new(6);
    let disk = world.disk(spec);
    world.run(async {
        for i in 0..200 {
            disk.write(Bytes::kib(4 * i), buffer(4096)).await.1.unwrap();
            if flushed {
                disk.flush().await.unwrap();
            }
        }
    });
    world.now().since(Default::default()) / 200
}

#[test]
fn a_small_durable_write_costs_a_turn_and_a_cached_one_next_to_nothing() {
    for spec in rotating() {
        let turn = spec.rotating().unwrap().turn() as f64;
        let off = small_writes(spec.clone().with_write_cache(None), false);
        let on = small_writes(spec.clone().with_write_cache(Some(Bytes::mib(16))), false);
        let synced = small_writes(spec.clone().with_write_cache(Some(Bytes::mib(16))), true);
        near(off.as_nanos() as f64, turn, 0.1, &format!("{}, cache off", spec.name));
        near(synced.as_nanos() as f64, turn, 0.1, &format!("{}, cache on and flushed", spec.name));
        assert!(on < off / 20, "{}: {on:?} with the cache, {off:?} without", spec.name);
    }
}

#[test]
fn a_sequential_reader_that_is_a_little_late_loses_no_turn() {
    let spec = presets::wd15ears();
    let world = World::new(7);
    let disk = world.disk(spec.clone());
    let clock = world.clock();
    world.run(async {
        for i in 0..200 {
            disk.read(Bytes::mib(i), buffer(1 << 20)).await.1.unwrap();
            clock.sleep(Duration::from_millis(2)).await;
        }
    });
    let rate = Rate::of(Bytes::mib(200), world.now().since(Default::default())).0 as f64;
    near(rate, 110e6, 0.03, "a reader that thinks for 2 ms after each MiB");
}

#[test]
fn a_saturating_reader_does_not_starve_anyone() {
    for spec in rotating() {
        let world = World::new(8);
        let disk = world.disk(spec.clone());
        let (reader, far) = (disk.clone(), Bytes(spec.size.0 - (1 << 20)));
        world.spawner().detach(async move { stream(&reader, false, 0, 1 << 20, 1 << 30, 8).await });
        let worst = world.run(async {
            let mut worst = Duration::ZERO;
            for _ in 0..20 {
                let begin = world.now();
                disk.read(far, buffer(4096)).await.1.unwrap();
                disk.write(far, buffer(4096)).await.1.unwrap();
                disk.flush().await.unwrap();
                worst = worst.max(world.now().since(begin));
            }
            worst
        });
        assert!(worst < Duration::from_secs(2), "{}: {worst:?}", spec.name);
    }
}

#[test]
fn a_cached_stream_beside_saturating_readers_keeps_its_rate_and_the_disk_most_of_its_bandwidth() {
    let spec = presets::wd15ears();
    let world = World::new(9);
    let disk = world.disk(spec.clone());
    let read = Rc::new(Cell::new(0));
    for reader in 1..=8 {
        let (disk, read) = (disk.clone(), read.clone());
        world.spawner().detach(async move {
            for i in 0.. {
                let at = Bytes::mib(reader * 10_000 + i * 4);
                disk.read(at, buffer(4 << 20)).await.1.unwrap();
                read.set(read.get() + (4 << 20));
            }
        });
    }
    // Half of what the disk can: 52 MB/s.
    let clock = world.clock();
    let worst = world.run(async {
        let mut worst = Duration::ZERO;
        for i in 0..400 {
            let due = world.now() + Duration::from_millis(80);
            let begin = world.now();
            disk.write(Bytes::mib(i * 4), buffer(4 << 20)).await.1.unwrap();
            worst = worst.max(world.now().since(begin));
            clock.sleep_until(due).await;
        }
        worst
    });
    let seconds = world.now().since(Default::default()).as_secs_f64();
    let (written, read) = (400.0 * 4.194304 / seconds, read.get() as f64 / 1e6 / seconds);
    assert!(written > 50.0 && worst < Duration::from_millis(500), "{written:.1} MB/s, {worst:?}");
    assert!(read > 40.0 && written + read > 95.0, "{read:.1} MB/s read, {written:.1} MB/s written");
}

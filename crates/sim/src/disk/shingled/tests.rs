use super::*;
use crate::disk::{DiskSpec, Mechanism, SimDisk, presets};
use crate::world::World;
use forebay_env::{Buffer, Device, DeviceFuture};
use forebay_model::{Bytes, Rate, Result};
use std::time::Duration;

const MIB: u64 = 1 << 20;
const BAND: u64 = 32 * MIB;

/// 1 GB, with the least media cache: 256 MiB.
fn small() -> DiskSpec {
    presets::smr().scaled(5000)
}

fn shingled(spec: &DiskSpec) -> Shingled {
    let Mechanism::Shingled(shingled) = &spec.mechanism else { unreachable!() };
    Shingled::new(shingled, spec.size.0, None)
}

/// A disk alone, with the time and what is to come.
struct Alone {
    disk: Shingled,
    nanos: u64,
    coming: Vec<(u64, u64)>,
    done: Vec<IoId>,
    next: IoId,
}

impl Alone {
    fn new() -> Alone {
        Alone { disk: shingled(&small()), nanos: 0, coming: Vec::new(), done: Vec::new(), next: 0 }
    }

    fn take(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Move(number, at) => self.coming.push((at, number)),
                Action::Done(id, at) => {
                    assert_eq!(at, self.nanos);
                    self.done.push(id);
                }
            }
        }
    }

    fn submit(&mut self, op: Op, offset: u64, length: u64) -> IoId {
        let id = self.next;
        self.next += 1;
        let mut actions = Vec::new();
        self.disk.submit(Now { nanos: self.nanos, slowness: 1.0 }, Request { id, op, offset, length }, &mut actions);
        self.take(actions);
        id
    }

    /// Lets the next thing happen, if any does before `until`.
    fn step(&mut self, until: u64) -> bool {
        let Some(index) = (0..self.coming.len()).min_by_key(|i| self.coming[*i]) else { return false };
        if self.coming[index].0 > until {
            return false;
        }
        let (at, number) = self.coming.swap_remove(index);
        self.nanos = at;
        let mut actions = Vec::new();
        self.disk.moved(Now { nanos: at, slowness: 1.0 }, number, &mut actions);
        self.take(actions);
        true
    }

    fn finish(&mut self, op: Op, offset: u64, length: u64) -> u64 {
        let (begin, id) = (self.nanos, self.submit(op, offset, length));
        while !self.done.contains(&id) {
            assert!(self.step(u64::MAX), "a command that never ends");
        }
        self.nanos - begin
    }

    fn rest(&mut self, span: Duration) {
        let until = self.nanos + span.as_nanos() as u64;
        while self.step(until) {}
        self.nanos = until;
    }
}

#[test]
fn a_stream_is_written_in_place_and_what_is_not_one_goes_to_the_media_cache() {
    let mut alone = Alone::new();
    for i in 0..64 {
        alone.finish(Op::Write, i * MIB, MIB);
    }
    assert_eq!(alone.disk.cache.head(), 0, "two bands in sequence");
    // A stream of small writes is recognised where the next band begins.
    for i in 0..20 {
        alone.finish(Op::Write, 3 * BAND - 10 * 4096 + i * 4096, 4096);
    }
    assert_eq!(alone.disk.cache.head(), 10 * 8192, "until then each takes its bytes and a record");
    alone.finish(Op::Write, 20 * MIB, 4096);
    assert_eq!(alone.disk.cache.head(), 11 * 8192);
}

#[test]
fn bands_without_overlap_are_written_anywhere() {
    let mut alone = Alone::new();
    for i in 0..100 {
        alone.finish(Op::Write, 9 * BAND + i * 7919 % 8000 * 4096, 4096);
    }
    assert_eq!(alone.disk.cache.head(), 0);
    alone.finish(Op::Write, 10 * BAND + 4096, 4096);
    assert!(alone.disk.cache.head() > 0, "the band after it overlaps");
}

#[test]
fn a_stream_that_ends_inside_a_written_band_makes_the_disk_write_the_band_anew() {
    let mut alone = Alone::new();
    for i in 0..32 {
        alone.finish(Op::Write, i * MIB, MIB);
    }
    alone.rest(Duration::from_secs(5));
    let busy = alone.disk.work().busy;
    alone.finish(Op::Write, 0, MIB);
    let written = alone.disk.work().busy - busy;
    alone.rest(Duration::from_secs(5));
    let cleaned = alone.disk.work().busy - busy - written;
    let pass = Rate::mb(150).time_for(Bytes(BAND)).as_nanos() as u64;
    assert!((pass * 19 / 10..pass * 3).contains(&cleaned), "{cleaned} ns; a pass over a band is {pass}");
    alone.rest(Duration::from_secs(60));
    assert_eq!(alone.disk.work().busy, busy + written + cleaned, "and only once");
}

#[test]
fn a_quiet_disk_empties_its_media_cache_and_keeps_what_comes_meanwhile() {
    let mut alone = Alone::new();
    for i in 0..50 {
        alone.finish(Op::Write, i * 3 * MIB + 4096, 4096);
    }
    assert!(alone.disk.cache.oldest().is_some());
    alone.rest(Duration::from_millis(600));
    assert!(alone.disk.cleaning.is_some());
    alone.finish(Op::Write, 8192, 4096);
    alone.finish(Op::Write, 4096, 4096);
    alone.rest(Duration::from_millis(300));
    assert!(alone.disk.cache.find(&(0..BAND)).count() >= 2, "written while its band was cleaned");
    alone.rest(Duration::from_secs(120));
    assert_eq!((alone.disk.cache.oldest(), alone.coming.len()), (None, 0));
}

#[test]
fn reads_look_in_the_media_cache() {
    let mut alone = Alone::new();
    for i in 0..32 {
        alone.finish(Op::Write, i * MIB, MIB);
    }
    alone.rest(Duration::from_secs(10));
    let whole = alone.finish(Op::Read, 0, 4 * MIB);
    for i in 0..50 {
        alone.finish(Op::Write, 8 * MIB + i * 17 % 50 * 16 * 4096 + 8192, 4096);
    }
    // The disk remembers what it has read, so each time it is another part.
    let scattered = alone.finish(Op::Read, 8 * MIB, 4 * MIB);
    assert!(scattered > whole * 3 / 2, "{scattered} ns after 50 small writes, {whole} before");
    alone.rest(Duration::from_secs(10));
    let cleaned = alone.finish(Op::Read, 8 * MIB, 4 * MIB);
    assert!(cleaned < whole * 11 / 10, "{cleaned} {whole}");
}

#[test]
fn power_takes_commands_and_cleaning_and_keeps_what_is_in_the_media_cache() {
    let mut alone = Alone::new();
    for i in 0..10 {
        alone.finish(Op::Write, i * 4 * MIB + 4096, 4096);
    }
    alone.rest(Duration::from_millis(600));
    assert!(alone.disk.cleaning.is_some());
    let lost = alone.submit(Op::Read, BAND, 4096);
    alone.disk.lose_power();
    let before = alone.disk.cache.find(&(0..u64::MAX)).count();
    alone.rest(Duration::from_secs(10));
    assert!(!alone.done.contains(&lost));
    assert_eq!(alone.disk.cache.find(&(0..u64::MAX)).count(), before);
    alone.finish(Op::Read, 0, 4096);
    alone.rest(Duration::from_secs(30));
    assert_eq!(alone.disk.cache.oldest(), None, "it goes on where it was");
}

/// Writes `count` times `length` at the offsets that `at` gives, four at a time; how many a second.
async fn writes(world: &World, disk: &SimDisk, count: u64, length: u64, at: impl Fn(u64) -> u64) -> f64 {
    let begin = world.now();
    let mut under_way: std::collections::VecDeque<DeviceFuture<(Buffer, Result<()>)>> = Default::default();
    for i in 0..count {
        if under_way.len() == 4 {
            under_way.pop_front().unwrap().await.1.unwrap();
        }
        under_way.push_back(disk.write(Bytes(at(i)), Buffer::alone(Bytes(length)).unwrap()));
    }
    for last in under_way {
        last.await.1.unwrap();
    }
    disk.flush().await.unwrap();
    count as f64 / world.now().since(begin).as_secs_f64()
}

#[test]
fn sequential_writes_run_at_the_rate_of_their_place_the_second_time_too() {
    let spec = presets::smr();
    for (start, length) in [(0, MIB), (spec.size.0 / 2 / BAND * BAND, MIB), (40 * BAND, 64 << 10)] {
        let world = World::new(1);
        let disk = world.disk(spec.clone());
        let count = 8 * BAND / length;
        for pass in ["first", "second"] {
            let rate = world.run(writes(&world, &disk, count, length, |i| start + i * length)) * length as f64;
            let expected = spec.rate_at(Bytes(start)).0 as f64;
            assert!((rate / expected - 1.0).abs() < 0.05, "{pass} at {start}: {rate:.0} of {expected:.0}");
        }
    }
}

#[test]
fn random_writes_are_quick_until_the_media_cache_is_full_and_then_cost_bands() {
    let spec = small();
    let world = World::new(2);
    let disk = world.disk(spec.clone());
    let random = world.random();
    world.run(async {
        writes(&world, &disk, spec.size.0 / MIB, MIB, |i| i * MIB).await;
        world.clock().sleep(Duration::from_secs(60)).await;
        let anywhere = |_| loop {
            let at = random.below(spec.size.0 / 4096) * 4096;
            if at / BAND % 10 != 9 {
                return at;
            }
        };
        let fresh = writes(&world, &disk, 20_000, 4096, anywhere).await;
        assert!(fresh > 3_000.0, "{fresh:.0} a second into the empty media cache");
        // Each takes twice its length of the 256 MiB, so this fills them more than once.
        let full = writes(&world, &disk, 50_000, 4096, anywhere).await;
        assert!((50.0..700.0).contains(&full), "{full:.0} a second when bands have to be cleaned first");
        world.clock().sleep(Duration::from_secs(3600)).await;
        let again = writes(&world, &disk, 20_000, 4096, anywhere).await;
        assert!(again > 3_000.0, "{again:.0} a second after an hour of quiet");
    });
}

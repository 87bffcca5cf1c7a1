//! What admission says is the most is kept, and is nearly what the device can do in fact: found by trying.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use forebay_env::{Buffer, Env};
use forebay_model::ring::RingSpec;
use forebay_model::{Bytes, Profile, Rate};
use forebay_sim::World;
use forebay_sim::disk::{DiskSpec, presets};
use forebay_sim::feeder::Feeder;
use forebay_target::profile::{MeasureOptions, measure};
use forebay_target::schedule::StreamId;
use forebay_target::{Ring, Target};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

/// Rings over these shares of the device, all with the same guarantee, beside readers that want everything.
struct Scenario {
    disk: DiskSpec,
    rotates: bool,
    rings: Vec<Range<u64>>,
    readers: u64,
    /// How long a rate is tried, if a lap does not take longer.
    span: Duration,
}

fn profile(scenario: &Scenario) -> Profile {
    let world = World::new(5);
    let size = scenario.disk.size;
    let env = world.env(world.disk(scenario.disk.clone()));
    let mut options = MeasureOptions::for_extent(size, scenario.rotates, true);
    options.budget = Duration::from_secs(100);
    world.run(measure(&env, Bytes::ZERO..size, options, &mut |_| ())).unwrap()
}

/// The same device, said to be faster, so that more is admitted.
fn boastful(profile: &Profile, factor: f64) -> Profile {
    let mut fast = profile.clone();
    fast.points.iter_mut().for_each(|point| point.write = Rate((point.write.0 as f64 * factor.max(1.0)) as u64));
    if factor > 1.0 {
        for time in [&mut fast.short_seek, &mut fast.full_seek, &mut fast.mean_short_seek, &mut fast.mean_full_seek] {
            *time /= 4;
        }
        fast.flush /= 4;
    }
    fast
}

impl Scenario {
    /// Makes its rings, and rings without a guarantee in between, so that each gets its place.
    async fn rings(&self, target: &Target, rate: Rate) -> forebay_model::Result<Vec<Rc<Ring>>> {
        let layout = target.layout();
        let groups = u64::from(layout.groups);
        let mut fillers = Vec::new();
        let mut after = groups;
        // From the end, since a ring without a guarantee goes to the slowest place, which is there.
        for (n, share) in self.rings.iter().enumerate().rev() {
            let (first, end) = (share.start * groups / 100, (share.end * groups / 100).min(after));
            if end < after {
                fillers.push(
                    target.create_ring(RingSpec::new(format!("/filler/{n}"), layout.group * (after - end))).await?,
                );
            }
            let mut spec = RingSpec::new(format!("/hold/{n}"), layout.group * (end - first));
            spec.pin_budget_percent = 0;
            target.create_ring(spec).await?;
            after = first;
        }
        if after > 0 {
            target.create_ring(RingSpec::new("/filler/first", layout.group * after)).await?;
        }
        let mut rings = Vec::new();
        for n in 0..self.rings.len() {
            let hold = target.ring(&format!("/hold/{n}"))?;
            hold.ready().await?;
            let capacity = hold.status().spec.capacity;
            drop(hold);
            target.delete_ring(&format!("/hold/{n}")).await?;
            let mut spec = RingSpec::new(format!("/trial/{n}"), capacity);
            spec.guarantee = rate;
            spec.pin_budget_percent = 0;
            let ring = target.create_ring(spec).await?;
            ring.ready().await?;
            rings.push(ring);
        }
        Ok(rings)
    }

    fn admitted(&self, profile: &Profile) -> Rate {
        let (mut low, mut high) = (0, 2000);
        while high - low > 1 {
            let middle = (low + high) / 2;
            let world = World::new(5);
            let env = world.env(world.disk(self.disk.clone()));
            let fits = world.run(async {
                Target::format(env.clone(), profile.clone()).await.unwrap();
                let target = Target::open(env).await.unwrap();
                self.rings(&target, Rate(middle * 250_000)).await.is_ok()
            });
            if fits { low = middle } else { high = middle }
        }
        Rate(low * 250_000)
    }

    /// Whether all rings keep `rate` if admission believes in a device that is `boast` times as fast.
    fn keeps(&self, profile: &Profile, rate: Rate, boast: f64) -> bool {
        let world = World::new(9);
        let env = world.env(world.disk(self.disk.clone()));
        world.run(async {
            Target::format(env.clone(), boastful(profile, boast)).await.unwrap();
            let target = Target::open(env.clone()).await.unwrap();
            let rings = self.rings(&target, rate).await.unwrap();
            target.disk().set_profile(profile.clone());
            for reader in 0..self.readers {
                let (target, env) = (target.clone(), env.clone());
                world.spawner().detach(async move { saturate(target, env, reader).await });
            }
            let kept = Rc::new(Cell::new(true));
            let mut feeds = Vec::new();
            for ring in rings {
                let (kept, clock, span) = (kept.clone(), world.clock(), self.span);
                feeds.push(world.spawner().spawn(async move {
                    let mut feeder = Feeder::new(ring.clone(), clock.clone(), 1).unwrap();
                    let payload = vec![7; 256 << 10];
                    let (start, mut given) = (clock.now(), 0);
                    let lap = ring.status().spec.capacity.0;
                    while (given < lap || clock.now().since(start) < span) && kept.get() {
                        let due = rate.bytes_in(clock.now().since(start)).0;
                        while given < due && kept.get() {
                            if !feeder.room_or_take(payload.len()) {
                                kept.set(false);
                                return;
                            }
                            feeder.element(clock.wall(), &[&payload]).await.unwrap();
                            given += payload.len() as u64;
                        }
                        if ring.status().missed_deadlines > 0 {
                            kept.set(false);
                        }
                        clock.sleep(Duration::from_millis(5)).await;
                    }
                }));
            }
            for feed in feeds {
                feed.await;
            }
            kept.get()
        })
    }
}

async fn saturate(target: Rc<Target>, env: Env, reader: u64) {
    let size = target.layout().device;
    loop {
        let at = Bytes(env.random.below(size.0 - Bytes::mib(48).0)).align_down(Bytes::mib(1));
        for n in 0..8 {
            let buffer = Buffer::alone(Bytes::mib(4)).unwrap();
            target.disk().read(StreamId(1000 + reader), at + Bytes::mib(4) * n, buffer).await.1.unwrap();
        }
    }
}

fn scenario(disk: DiskSpec, rings: &[(u64, u64)], readers: u64) -> Scenario {
    let rotates = disk.rotating().is_some();
    let rings = rings.iter().map(|(from, to)| *from..*to).collect();
    Scenario { disk, rotates, rings, readers, span: Duration::from_secs(60) }
}

/// The most that is admitted, whether it is kept, and whether `percent` of it is.
fn tried(scenario: &Scenario, percent: u64) -> (Rate, bool, bool) {
    let profile = profile(scenario);
    let promised = scenario.admitted(&profile);
    let more = Rate(promised.0 / 100 * percent);
    (promised, scenario.keeps(&profile, promised, 1.0), scenario.keeps(&profile, more, percent as f64 / 100.0 * 1.01))
}

#[test]
fn the_most_that_is_admitted_is_kept_and_five_percent_more_could_not_be() {
    for (name, scenario) in [
        ("a disk's knee", scenario(presets::wd15ears().scaled(100), &[(95, 98)], 0)),
        ("a disk's middle", scenario(presets::wd15ears().scaled(100), &[(40, 50)], 0)),
        ("a small disk's half", scenario(presets::wd15ears().scaled(1000), &[(20, 70)], 0)),
        ("half a disk", scenario(presets::sata7200().scaled(1000), &[(20, 60)], 0)),
        ("a disk without cache", scenario(presets::cheetah15k().scaled(100), &[(20, 60)], 0)),
        ("flash", scenario(presets::ssd().scaled(40), &[(20, 60)], 0)),
        ("three rings on flash", scenario(presets::ssd().scaled(40), &[(20, 40), (50, 60), (70, 90)], 0)),
        ("a whole disk beside readers", scenario(presets::wd15ears().scaled(100), &[(0, 100)], 4)),
        ("half a quicker disk beside readers", scenario(presets::sata7200().scaled(100), &[(20, 60)], 4)),
        ("flash beside readers", scenario(presets::ssd().scaled(40), &[(20, 60)], 4)),
    ] {
        let (promised, kept, more) = tried(&scenario, 105);
        assert!(kept, "{name}: {promised} was promised and not kept");
        assert!(!more, "{name}: {promised} is 5 % less than what could be promised");
    }
}

#[test]
fn rings_that_are_gone_round_in_seconds_are_kept_beside_readers() {
    // The map of their segments is out of date so soon that checkpoints take a good part of the device: laps of 5 and of
    // 20 seconds.
    for (rings, percent) in [((20, 40), 116), ((0, 100), 108)] {
        let scenario = scenario(presets::wd15ears().scaled(1000), &[rings], 4);
        let (promised, kept, more) = tried(&scenario, percent);
        assert!(kept, "{promised} was promised and not kept");
        assert!(!more, "{promised} was promised, and {percent} % of it could be");
    }
}

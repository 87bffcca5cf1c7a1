//! Profiles measured on simulated disks agree with what these disks were built to be.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use forebay_model::{Bytes, Profile, Rate};
use forebay_sim::disk::{DiskSpec, Mechanism, presets};
use forebay_sim::{SimDisk, World};
use forebay_target::profile::{MeasureOptions, measure};
use std::time::Duration;

fn profile(spec: DiskSpec, change: impl FnOnce(&mut MeasureOptions)) -> (Profile, SimDisk, Duration) {
    let world = World::new(11);
    let rotates = spec.rotating().is_some();
    let mut options = MeasureOptions::for_extent(spec.size, rotates, true);
    change(&mut options);
    let size = spec.size;
    let disk = world.disk(spec);
    let env = world.env(disk.clone());
    let mut last = 0.0;
    let profile = world.run(measure(&env, Bytes::ZERO..size, options, &mut |share| {
        assert!(share >= last && share <= 1.0, "progress from {last} to {share}");
        last = share;
    }));
    assert_eq!(last, 1.0);
    (profile.unwrap(), disk, Duration::from_nanos(world.now().0))
}

fn check_rates(spec: &DiskSpec, profile: &Profile, tolerance: f64) {
    for point in &profile.points {
        let built = spec.rate_at(point.offset).0 as f64;
        let write = match &spec.mechanism {
            Mechanism::Ssd(ssd) => ssd.write_rate.0 as f64,
            Mechanism::Rotating(_) | Mechanism::Shingled(_) => built,
        };
        for (what, measured, built) in [("read", point.read, built), ("write", point.write, write)] {
            let off = measured.0 as f64 / built - 1.0;
            assert!(
                off.abs() <= tolerance,
                "{} {what} at {}: {measured} for {}",
                spec.name,
                point.offset,
                Rate(built as u64)
            );
        }
    }
}

fn turn(spec: &DiskSpec) -> Duration {
    let Mechanism::Rotating(rotating) = &spec.mechanism else { panic!("{} does not rotate", spec.name) };
    Duration::from_secs(60) / rotating.rpm
}

#[test]
fn whole_disks_are_measured_within_three_percent_in_two_minutes() {
    for spec in [presets::wd15ears(), presets::cheetah15k(), presets::sata7200()] {
        let (profile, disk, took) = profile(spec.clone(), |_| ());
        check_rates(&spec, &profile, 0.03);
        assert!(profile.points.len() >= 64 && profile.rotates && profile.writes_measured);
        assert!(took < Duration::from_secs(120), "{}: {took:?}", spec.name);
        assert!(disk.memory() < Bytes::mib(64), "{}", disk.memory());
    }
}

#[test]
fn seeks_are_the_curve_of_the_arm_and_a_turn() {
    for spec in [presets::wd15ears(), presets::cheetah15k(), presets::sata7200()] {
        let Mechanism::Rotating(rotating) = &spec.mechanism else { panic!("{} does not rotate", spec.name) };
        let (profile, ..) = profile(spec.clone(), |_| ());
        let arm = |share| Duration::from_nanos(rotating.seek.nanos(share)) + rotating.overhead;
        let near = |what: &str, measured: Duration, built: Duration| {
            let off = measured.as_secs_f64() / built.as_secs_f64();
            assert!((0.85..1.12).contains(&off), "{} {what}: {measured:?} for {built:?}", spec.name);
        };
        near("worst short seek", profile.short_seek, arm(1e-5) + turn(&spec));
        near("mean short seek", profile.mean_short_seek, arm(1e-5) + turn(&spec) / 2);
        near("worst full seek", profile.full_seek, arm(1.0) + turn(&spec));
        near("mean full seek", profile.mean_full_seek, arm(1.0) + turn(&spec) / 2);
    }
}

#[test]
fn flash_is_flat_and_measured_in_seconds() {
    let spec = presets::ssd();
    let (profile, _, took) = profile(spec.clone(), |_| ());
    check_rates(&spec, &profile, 0.05);
    assert!(!profile.rotates && profile.full_seek < Duration::from_millis(1), "{profile:?}");
    assert!(took < Duration::from_secs(4), "{took:?}");
}

#[test]
fn a_small_device_takes_three_seconds_and_says_nearly_the_same() {
    let spec = presets::wd15ears().scaled(1000);
    let (profile, _, took) = profile(spec.clone(), |_| ());
    check_rates(&spec, &profile, 0.05);
    assert!(took < Duration::from_secs(3), "{took:?}");
    let long = MeasureOptions { budget: Duration::from_secs(60), ..MeasureOptions::for_extent(spec.size, true, true) };
    let (profile, ..) = self::profile(spec.clone(), |options| *options = long);
    check_rates(&spec, &profile, 0.05);
}

#[test]
fn a_slow_disk_takes_as_long_as_a_quick_one() {
    let mut spec = presets::sata7200();
    let Mechanism::Rotating(rotating) = &mut spec.mechanism else { panic!("{} does not rotate", spec.name) };
    rotating.curve = vec![(0.0, Rate::mb(12)), (1.0, Rate::mb(6))];
    let (profile, _, took) = profile(spec.clone(), |_| ());
    check_rates(&spec, &profile, 0.05);
    assert!(took < Duration::from_secs(120), "{took:?}");
}

#[test]
fn without_writes_nothing_is_touched_and_rates_are_a_stated_share_of_reads() {
    let spec = presets::wd15ears().scaled(1000);
    let (profile, disk, _) = profile(spec, |options| (options.writes, options.writes_percent) = (false, 90));
    assert_eq!(disk.counters().writes, 0);
    assert!(!profile.writes_measured);
    assert!(profile.points.iter().all(|p| p.write.0 == p.read.0 * 90 / 100), "{profile:?}");
}

#[test]
fn only_the_extent_is_touched() {
    let world = World::new(3);
    let disk = world.disk(presets::ssd().scaled(256));
    let env = world.env(disk.clone());
    let mark = [0xa5; 4096];
    let (from, to) = (Bytes::mib(100), Bytes::mib(164));
    for at in [from - Bytes(4096), to] {
        disk.poke(at, &mark);
    }
    let options = MeasureOptions::for_extent(to - from, false, true);
    let profile = world.run(measure(&env, from..to, options, &mut |_| ())).unwrap();
    assert!(profile.points[0].offset >= from && profile.points.last().unwrap().offset < to);
    for at in [from - Bytes(4096), to] {
        let mut found = [0; 4096];
        disk.peek(at, &mut found);
        assert_eq!(found, mark);
    }
}

#[test]
fn what_is_too_small_to_measure_is_refused_with_the_least() {
    let world = World::new(3);
    let env = world.env(world.disk(presets::ssd().scaled(256)));
    let options = MeasureOptions::for_extent(Bytes::mib(1), false, true);
    let refused = world.run(measure(&env, Bytes::ZERO..Bytes::mib(1), options, &mut |_| ())).unwrap_err();
    assert!(refused.message.contains("4 MiB"), "{refused}");
}

use super::{Load, Outcome, run};
use crate::disk::{DiskSpec, presets};
use forebay_model::Bytes;
use forebay_target::object::Placement;
use std::time::Duration;

/// How far writers are apart that leave the disk idle in between.
const PACE: Option<Duration> = Some(Duration::from_millis(50));

fn outcomes(load: &Load) -> [Outcome; 2] {
    [Placement::Log, Placement::Home].map(|placement| run(1, &Load { placement, ..load.clone() }).unwrap())
}

fn load(disk: DiskSpec, kib: u64, pace: Option<Duration>, reader: bool, seconds: u64) -> Load {
    let (size, span) = (Bytes::kib(kib), Duration::from_secs(seconds));
    Load { disk, size, placement: Placement::Auto, pace, reader, span }
}

#[test]
fn small_writes_that_go_on_are_sooner_durable_in_a_log_than_at_home() {
    for disk in [presets::sata7200(), presets::cheetah15k()] {
        for (kib, reader) in [(4, false), (64, false), (256, false), (4, true), (64, true), (256, true)] {
            let load = load(disk.clone(), kib, PACE, reader, 5);
            let [log, home] = outcomes(&load);
            let told = format!("{} {kib} KiB, reader {reader}: {log:?} {home:?}", load.disk.name);
            let least = if reader { 5 } else { 1 };
            assert!(log.latency * 10 < home.latency * 6 && log.latency * least < home.latency, "{told}");
            if reader {
                assert!(log.read.0 * 4 > home.read.0 * 3, "{told}");
            }
        }
    }
}

#[test]
fn up_to_64_kib_the_way_through_a_log_and_home_costs_no_more_time_than_that_home() {
    for disk in [presets::sata7200(), presets::cheetah15k()] {
        for kib in [16, 64] {
            let load = load(disk.clone(), kib, None, false, 5);
            let all = outcomes(&load).map(|outcome| outcome.latency + outcome.home / outcome.writes as u32);
            assert!(all[0] <= all[1], "{} {kib} KiB: {all:?}", load.disk.name);
        }
    }
}

#[test]
#[ignore = "prints the figures of the decision; nothing depends on them"]
fn figures() {
    let whole = [presets::sata7200(), presets::cheetah15k()].map(|disk| (disk, 20));
    // Logs that are more than half full for most of the time.
    let crowded = [presets::sata7200().scaled(100), presets::cheetah15k().scaled(30)].map(|disk| (disk, 150));
    for (disk, seconds) in whole.into_iter().chain(crowded) {
        for (reader, pace) in [(false, None), (false, PACE), (true, None), (true, PACE)] {
            for kib in [4, 16, 64, 128, 256] {
                let load = load(disk.clone(), kib, pace, reader, seconds);
                for (what, outcome) in ["log", "home"].iter().zip(outcomes(&load)) {
                    println!(
                        "{} of {}, reader {reader}, pace {pace:?}, {kib} KiB, {what}: {:.1} a second, latency {:.2} ms, \
                         reader {}, home afterwards {:.2} ms each, {} runs",
                        disk.name,
                        disk.size,
                        outcome.writes as f64 / seconds as f64,
                        outcome.latency.as_secs_f64() * 1e3,
                        outcome.read,
                        (outcome.home / outcome.writes as u32).as_secs_f64() * 1e3,
                        outcome.runs
                    );
                }
            }
        }
    }
}

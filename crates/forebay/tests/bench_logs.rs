//! `forebay bench logs` says what it measured, on simulated disks and on real ones, and refuses what it cannot.

// A test drives the real program.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::Place;
use serde_json::Value;

#[test]
fn small_writes_beside_a_reader_are_measured_the_same_each_time() {
    let place = Place::new();
    let args = |policy| {
        ["bench", "logs", "--disk", "sim:cheetah15k", "--policy", policy, "--iops", "40", "--seconds", "5", "--json"]
    };
    let text = place.ok(&args("ordered"));
    assert_eq!(text, place.ok(&args("ordered")), "a run is a function of its seed");
    let figures: Value = serde_json::from_str(&text).unwrap();
    let share = figures["read_share"].as_f64().unwrap();
    assert!((0.4..0.8).contains(&share), "{text}");
    assert!(figures["write_share"].is_null());
    let latency = &figures["sync_latency_ms"];
    let [mean, p50, p99, max] = ["mean", "p50", "p99", "max"].map(|name| latency[name].as_f64().unwrap());
    assert!(mean > 50.0 && p50 <= p99 && p99 <= max && mean <= max, "{latency}");
    assert_eq!((figures["rounds"].as_u64(), figures["rounds_due"].as_u64()), (Some(10), Some(10)));
    assert_eq!(figures["log_swaps"], 0);
    assert!(figures["limit_bytes_per_second"].as_u64().unwrap() > 100_000_000);
}

/// Runs it on a real disk for two seconds, with two rounds in each; the figures.
fn measured(place: &Place, disk: &str, more: &[&str]) -> Value {
    let args = ["bench", "logs", "--disk", disk, "--iops", "40", "--seconds", "2", "--json"];
    serde_json::from_str(&place.ok(&[&args, more].concat())).unwrap()
}

/// What holds of any real disk, however busy.
fn check(figures: &Value, policy: &str, [reads, writes]: [bool; 2]) {
    let number = |name: &str| figures[name].as_f64().unwrap_or_else(|| panic!("{name} in {figures}"));
    assert_eq!((&figures["policy"], &figures["disks"], &figures["iops"]), (&policy.into(), &1.into(), &40.into()));
    for (is_there, user) in [(reads, "read"), (writes, "written")] {
        let share = if user == "read" { "read_share" } else { "write_share" };
        for name in [share.into(), format!("{user}_bytes_per_second"), format!("{user}_alone_bytes_per_second")] {
            assert!(if is_there { number(&name) > 0.0 } else { figures[&name].is_null() }, "{name} in {figures}");
        }
    }
    assert_eq!((&figures["rounds"], &figures["rounds_due"]), (&4.into(), &4.into()), "{figures}");
    let latency = &figures["sync_latency_ms"];
    let [mean, p50, p99, max] = ["mean", "p50", "p99", "max"].map(|name| latency[name].as_f64().unwrap());
    assert!(mean > 0.0 && p50 <= p99 && p99 <= max && mean <= max, "{latency}");
    assert!(number("checkpoint_seconds") >= number("checkpoint_in_run_seconds"), "{figures}");
    assert!(number("limit_bytes_per_second") > 0.0 && number("limit_sync_ms") > 0.0, "{figures}");
    assert!(figures["log_swaps"].is_u64() && figures["limit_turn_ms"].is_null(), "{figures}");
}

#[test]
fn in_a_directory_the_same_is_measured_in_reality_and_nothing_is_left() {
    let place = Place::new();
    let dir = place.path("disk");
    std::fs::create_dir(&dir).unwrap();
    let disk = dir.to_str().unwrap();
    let users: [(&str, &[&str], _); 3] = [
        ("nearest", &["--writer", "8MiB"], [true, true]),
        ("data", &[], [true, false]),
        ("home", &["--reader", "none", "--writer", "128MB"], [false, true]),
    ];
    for (policy, more, there) in users {
        let figures = measured(&place, disk, &[&["--size", "512MiB", "--policy", policy], more].concat());
        check(&figures, policy, there);
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0, "what was made is removed");
        // A simulated disk has the same fields.
        let args =
            ["bench", "logs", "--disk", "sim:ssd", "--iops", "40", "--seconds", "2", "--policy", policy, "--json"];
        let simulated: Value = serde_json::from_str(&place.ok(&[&args, more].concat())).unwrap();
        let names = |figures: &Value| figures.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&figures), names(&simulated));
    }
}

#[test]
fn a_file_that_is_there_is_overwritten_only_if_nothing_is_on_it_and_is_no_target_afterwards() {
    let place = Place::new();
    let path = place.path("device");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(256 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"EFI PART", 512).unwrap();
    let disk = path.to_str().unwrap();
    let args = ["bench", "logs", "--disk", disk, "--policy", "nearest"];
    place.refused(&args, 1, &["GPT partition table", "--force"]);
    place.refused(&[&args[..], &["--size", "1GiB"]].concat(), 2, &["leave --size out"]);
    check(&measured(&place, disk, &["--policy", "nearest", "--force"]), "nearest", [true, false]);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 256 << 20);
    check(&measured(&place, disk, &["--policy", "single"]), "single", [true, false]);
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let place = Place::new();
    let logs = |args: &[&'static str]| [&["bench", "logs"], args].concat();
    let refused = |args: &[&'static str], words| place.refused(&logs(args), 2, words);
    refused(&["--disk", "sim:floppy", "--policy", "home"], &["floppy", "cheetah15k"]);
    refused(&["--disk", "cheetah15k", "--policy", "home"], &["cheetah15k does not exist", "sim:sata7200"]);
    refused(&["--disk", "/dev/null", "--policy", "home"], &["/dev/null", "neither a block device nor a file"]);
    refused(&["--disk", ".", "--policy", "home", "--disks", "4"], &["leave --disks out", "stripe"]);
    refused(&["--disk", ".", "--policy", "ideal"], &["mixed load only", "--trace mixed"]);
    refused(&["--disk", ".", "--policy", "home", "--trace", "mixed"], &["leave --trace out", "sim:smr"]);
    refused(&["--disk", ".", "--policy", "home", "--size", "100MiB"], &["too small", "160 MiB"]);
    refused(&["--disk", ".", "--policy", "home", "--iops", "200000"], &["at most 100000"]);
    refused(&["--disk", "sim:cheetah15k", "--policy", "nearer"], &["nearer", "ordered, data, adaptive"]);
    refused(&["--disk", "sim:cheetah15k", "--policy", "home", "--reader", "1000"], &["multiple of 4096"]);
    refused(&["--disk", "sim:cheetah15k", "--policy", "home", "--disks", "0"], &["1 to 64"]);
    let clients = ["--disk", "sim:ssd", "--policy", "nearest", "--clients", "2", "--targets", "2"];
    refused(&clients, &["a simulated disk has one target"]);
    refused(&["--disk", ".", "--policy", "nearest", "--clients", "1", "--targets", "2"], &["2 targets for 1 clients"]);
    refused(&["--disk", "sim:cheetah15k", "--policy", "home", "--seconds", "0"], &["--seconds 1"]);
}

//! `forebay bench logs` says what it measured, and refuses what it cannot.

// A test drives the real program.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::Place;

#[test]
fn small_writes_beside_a_reader_are_measured_the_same_each_time() {
    let place = Place::new();
    let args = |policy| {
        ["bench", "logs", "--disk", "sim:cheetah15k", "--policy", policy, "--iops", "40", "--seconds", "5", "--json"]
    };
    let text = place.ok(&args("ordered"));
    assert_eq!(text, place.ok(&args("ordered")), "a run is a function of its seed");
    let figures: serde_json::Value = serde_json::from_str(&text).unwrap();
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

#[test]
fn what_cannot_be_measured_is_refused() {
    let place = Place::new();
    let logs = |args: &[&'static str]| [&["bench", "logs"], args].concat();
    let refused = |args: &[&'static str], words| place.refused(&logs(args), 2, words);
    refused(&["--disk", "sim:floppy", "--policy", "home"], &["floppy", "cheetah15k"]);
    refused(&["--disk", "/dev/null", "--policy", "home"], &["no simulated disk", "sim:sata7200"]);
    refused(&["--disk", "sim:cheetah15k", "--policy", "nearer"], &["nearer", "ordered, data, adaptive"]);
    refused(&["--disk", "sim:cheetah15k", "--policy", "home", "--reader", "1000"], &["multiple of 4096"]);
    refused(&["--disk", "sim:cheetah15k", "--policy", "home", "--disks", "0"], &["1 to 64"]);
    let clients = ["--disk", "sim:ssd", "--policy", "nearest", "--clients", "2", "--targets", "2"];
    refused(&clients, &["a simulated disk has one target"]);
    refused(&["--disk", ".", "--policy", "nearest", "--clients", "1", "--targets", "2"], &["2 targets for 1 clients"]);
    refused(&["--disk", "sim:cheetah15k", "--policy", "home", "--seconds", "0"], &["--seconds 1"]);
}

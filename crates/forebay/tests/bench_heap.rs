//! `forebay bench heap` says what it measured, on simulated disks and on real ones, and refuses what it cannot.

// A test drives the real program.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::Place;
use serde_json::Value;

#[test]
fn a_load_on_a_simulated_disk_is_measured_the_same_each_time() {
    let place = Place::new();
    for load in ["pages", "tree", "churn", "scan"] {
        let keys = ["--keys", "2000", "--per-commit", "1000", "--json"];
        let args = [&["bench", "heap", "--disk", "sim:ssd", "--load", load][..], &keys].concat();
        let text = place.ok(&args);
        assert_eq!(text, place.ok(&args), "a run is a function of its seed");
        let figures: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(figures["load"], *load);
        assert!(figures["records"].as_u64().unwrap() > 0 && figures["cpu_seconds"].is_null(), "{text}");
    }
}

#[test]
fn a_load_on_a_real_disk_costs_cpu_and_leaves_nothing_behind() {
    let place = Place::new();
    let dir = place.path("disk");
    std::fs::create_dir(&dir).unwrap();
    let disk = dir.to_str().unwrap();
    let trace = place.path("some.trace");
    std::fs::write(&trace, "put a 5000\ncommit\nput a 100\nget a\nput b 20000\nfree a\n").unwrap();
    let trace = trace.to_str().unwrap();
    for load in [&["churn", "--keys", "500"][..], &["trace", trace], &["scan", "--keys", "500", "--rounds", "2"]] {
        let args = [&["bench", "heap", "--disk", disk, "--size", "512MiB", "--json", "--load"], load].concat();
        let figures: Value = serde_json::from_str(&place.ok(&args)).unwrap();
        assert!(figures["cpu_seconds"].as_f64().unwrap() >= 0.0, "{figures}");
        match load[0] {
            "trace" => assert_eq!((&figures["records"], &figures["record_bytes"]), (&3.into(), &25_100.into())),
            "churn" => {
                assert_eq!(figures["records"], 2000);
                assert!(figures["device_writes"].as_u64().unwrap() > 0, "{figures}");
            }
            _ => assert!(figures["share"].as_f64().unwrap() > 0.0, "{figures}"),
        }
    }
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0, "what was made is removed");
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let place = Place::new();
    let wrong = place.path("wrong.trace");
    std::fs::write(&wrong, "put a 100\nget b\n").unwrap();
    let heap = |args: &[&'static str]| [&["bench", "heap"], args].concat();
    let refused = |args: &[&'static str], words| place.refused(&heap(args), 2, words);
    refused(&["--disk", "sim:floppy"], &["floppy", "sata7200"]);
    refused(&["--disk", "/dev/null"], &["not a directory"]);
    refused(&["--load", "leaves"], &["leaves", "pages, tree, churn, scan"]);
    refused(&["--load", "trace"], &["trace FILE"]);
    refused(&["--load", "churn", "--record-bytes", "1GiB"], &["67108864"]);
    let args = ["bench", "heap", "--load", "trace", wrong.to_str().unwrap()];
    place.refused(&args, 2, &["wrong.trace:2: ", "expected a name that was put"]);
}

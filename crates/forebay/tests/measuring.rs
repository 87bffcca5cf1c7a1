//! What measures and foretells, through the binary: bench, profile, plan, top and the demo.

// A test drives the real program through real files.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::Place;
use serde_json::Value;
use std::os::unix::fs::FileExt;

/// What the bench has to tell.
const FIGURES: [&str; 9] = [
    "guarantee_bytes_per_second",
    "written_bytes_per_second",
    "worst_second_bytes_per_second",
    "missed_deadlines",
    "lost_elements",
    "read_bytes_per_second",
    "limit_bytes_per_second",
    "elements_per_second",
    "cpu_nanoseconds_per_element",
];

fn bench(place: &Place, more: &str) -> Value {
    let args: Vec<&str> = ["bench", "ring", "--json"].into_iter().chain(more.split(' ')).collect();
    let figures: Value = serde_json::from_str(&place.ok(&args)).unwrap();
    for name in FIGURES {
        assert!(figures[name].is_number(), "{name} in {figures}");
    }
    figures
}

fn number(figures: &Value, name: &str) -> f64 {
    figures[name].as_f64().unwrap_or_else(|| panic!("{name} in {figures}"))
}

#[test]
fn the_bench_in_simulation_keeps_its_guarantee_and_is_the_same_each_time() {
    let place = Place::new();
    let load = "--disk sim:wd15ears --scale 1000 --rate 40MB/s --aged --readers 2 --seconds 10";
    let mut first = bench(&place, load);
    assert_eq!((&first["missed_deadlines"], &first["lost_elements"]), (&0.into(), &0.into()), "{first}");
    assert_eq!(first["guarantee_bytes_per_second"], 40_000_000);
    assert!(number(&first, "worst_second_bytes_per_second") >= 40e6, "{first}");
    assert!(number(&first, "read_bytes_per_second") > 1e6, "{first}");
    assert!(number(&first, "limit_bytes_per_second") > 1e6, "{first}");
    assert!(number(&first, "pinned_segments") > 0.0, "{first}");
    let mut second = bench(&place, load);
    // What is real of it: the simulation's own work and memory.
    for real in ["cpu_nanoseconds_per_element", "peak_memory_bytes"] {
        first[real] = Value::Null;
        second[real] = Value::Null;
    }
    assert_eq!(first, second);
}

#[test]
fn striped_files_in_simulation_are_measured_the_same_each_time_and_take_no_processor() {
    let place = Place::new();
    let run = || -> Value {
        let args = ["bench", "file", "--sim", "ssd", "--targets", "4", "--size", "4MiB", "--json"];
        serde_json::from_str(&place.ok(&args)).unwrap()
    };
    let (mut first, mut second) = (run(), run());
    for direction in ["write", "read"] {
        assert_eq!(first[format!("{direction}_cpu_nanoseconds_per_byte")], Value::Null, "{first}");
        assert!(number(&first, &format!("{direction}_limit_bytes_per_second")) > 1e6, "{first}");
    }
    (first["peak_memory_bytes"], second["peak_memory_bytes"]) = (Value::Null, Value::Null);
    assert_eq!(first, second);
}

#[test]
fn a_simulated_disk_without_a_rate_is_refused_at_once() {
    let args = ["bench", "ring", "--disk", "sim:ssd", "--scale", "1000", "--rate", "0"];
    Place::new().refused(&args, 2, &["--rate"]);
}

#[test]
fn the_bench_on_a_real_file_goes_round_pins_fills_and_reads_as_it_is_told() {
    let place = Place::new();
    let disk = place.path(".");
    let real = format!("--disk {} --size 256MiB --seconds 1 --element 64KiB", disk.display());
    let fast = bench(&place, &format!("{real} --rate 0 --readers 0 --fill 50"));
    assert_eq!((&fast["pinned_segments"], &fast["read_bytes_per_second"]), (&0.into(), &0.into()), "{fast}");
    assert!(number(&fast, "written_bytes_per_second") > 0.0 && number(&fast, "limit_bytes_per_second") > 0.0, "{fast}");
    let half = number(&fast, "capacity_bytes");
    assert!(half < 160e6, "half of 256 MiB: {fast}");

    // So little that any disk can promise it, also while others test on it.
    let beside = bench(&place, &format!("{real} --rate 4MB/s --readers 1 --aged --pins 10"));
    assert_eq!(beside["guarantee_bytes_per_second"], 4_000_000);
    assert!(number(&beside, "limit_bytes_per_second") > 0.0, "{beside}");
    assert!(number(&beside, "capacity_bytes") > 1.5 * half, "{beside}");
    assert!(number(&beside, "pinned_segments") >= 1.0, "{beside}");
    assert!(number(&beside, "read_bytes_per_second") > 0.0, "{beside}");
    let left: Vec<_> = std::fs::read_dir(&disk).unwrap().collect();
    assert!(left.is_empty(), "it leaves nothing behind: {left:?}");
}

#[test]
fn what_is_measured_is_drawn_kept_in_the_superblock_and_foretells() {
    let place = Place::formatted("256MiB");
    let device = place.path("cluster/target.0");
    let device = device.to_str().unwrap();
    let guessed: Value = serde_json::from_str(&place.ok(&["profile", device, "--stored", "--json"])).unwrap();
    let shown = place.ok(&["profile", device, "--time", "1s", "--svg", "curve.svg"]);
    assert!(shown.contains("keeps this profile from now on"), "{shown}");
    // A curve: rows between an axis of rates and one of places.
    let rows =
        shown.lines().filter(|line| line.contains("MB/s") || line.contains("GB/s") || line.contains('|')).count();
    assert!(rows >= 10 && shown.contains("255 MiB"), "{shown}");
    let svg = std::fs::read_to_string(place.path("curve.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>") && svg.contains("polyline"), "{svg}");

    let kept: Value = serde_json::from_str(&place.ok(&["profile", device, "--stored", "--json"])).unwrap();
    assert_ne!(kept["profile"], guessed["profile"]);
    assert!(kept["profile"]["points"].as_array().unwrap().len() >= 64, "{kept}");
    // The cluster that owns the device goes by it.
    let seen: Value = serde_json::from_str(&place.ok(&["profile", "--stored", "--json"])).unwrap();
    assert_eq!(seen["profile"], kept["profile"]);

    let plan = |rate: &str| -> (i32, Value) {
        let output = place.run(&["plan", "--rate", rate, "--device", device, "--json"]);
        (output.status.code().unwrap(), serde_json::from_slice(&output.stdout).unwrap())
    };
    let (code, yes) = plan("1MB/s");
    assert_eq!((code, &yes["can"]), (0, &true.into()), "{yes}");
    let (code, no) = plan("900GB/s");
    assert_eq!((code, &no["can"]), (1, &false.into()), "{no}");
    let said = place.ok(&["plan", "--rate", "1MB/s"]);
    assert!(said.contains("yes: 1.0 MB/s can be promised") && said.contains("history"), "{said}");
}

#[test]
fn a_plan_of_a_device_says_nothing_of_one_that_has_promises_or_that_cannot_be_read() {
    let place = Place::formatted("256MiB");
    let plan = ["plan", "--rate", "1MB/s", "--device", "cluster/target.0"];
    place.ok(&["ring", "create", "/free", "--capacity", "32MiB"]);
    place.ok(&plan);
    place.ok(&["ring", "create", "/kept", "--capacity", "32MiB", "--guarantee", "1MB/s"]);
    place.refused(&plan, 2, &["1 ring with a promised rate", "/kept", "--cluster"]);
    assert!(place.ok(&["plan", "--rate", "1MB/s"]).contains("yes: 1.0 MB/s can be promised"));
    let device = std::fs::OpenOptions::new().write(true).open(place.path("cluster/target.0")).unwrap();
    for copy in [0, 64 << 10] {
        device.write_all_at(&99u32.to_le_bytes(), copy + 8).unwrap();
    }
    place.refused(&plan, 1, &["version 99"]);
    // Where nothing is, there is nothing to know.
    std::fs::File::create(place.path("plain")).unwrap().set_len(256 << 20).unwrap();
    let guessed = place.run(&["plan", "--rate", "1MB/s", "--device", "plain"]);
    let said = String::from_utf8_lossy(&guessed.stderr);
    assert!(said.contains("plain is not formatted, so this rests on a cautious guess"), "{said}");
}

#[test]
fn curves_of_several_targets_are_not_drawn_over_one_another() {
    let place = Place::new();
    for disk in ["a", "b"] {
        std::fs::File::create(place.path(disk)).unwrap().set_len(64 << 20).unwrap();
    }
    place.ok(&["format", "--measure", "0", "--device", "a", "--device", "b"]);
    place.refused(&["profile", "--stored", "--svg", "curve.svg"], 2, &["2 targets", "curve.svg", "name the device"]);
    assert!(!place.path("curve.svg").exists());
    place.ok(&["profile", "a", "--stored", "--svg", "curve.svg"]);
    assert!(place.path("curve.svg").exists());
}

#[test]
fn top_looks_as_often_as_it_is_told() {
    let place = Place::formatted("256MiB");
    place.ok(&["ring", "create", "/r", "--capacity", "32MiB"]);
    let said = place.ok(&["top", "--interval", "10ms", "--count", "2", "--json"]);
    let looks: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(looks.len(), 2, "{said}");
    assert_eq!(looks[1]["rings"][0]["name"], "/r", "{said}");
    assert!(looks[1]["health"]["code"].is_string(), "{said}");
    assert!(place.ok(&["top", "--interval", "10ms", "--count", "1"]).contains("/r"));
}

#[test]
fn the_demo_shows_what_was_promised_beside_what_was_kept_and_leaves_nothing() {
    let place = Place::new();
    let output = place.run(&["demo", "--place", ".", "--seconds", "2s", "--rate", "2MB/s", "--readers", "1"]);
    let said = String::from_utf8(output.stdout).unwrap();
    for row in ["kept, worst second", "readers got", "device's limit", "lost  "] {
        assert!(said.contains(row), "{row}: {said}");
    }
    assert!(said.contains("promised            2.0 MB/s"), "{said}");
    for step in ["were pinned", "station=7 and after 10s ago", "Exported", "is removed again"] {
        assert!(said.contains(step), "{step}: {said}");
    }
    // Whether it was kept is for the machine to say, which may be busy; that it says the same twice, for us.
    assert_eq!(output.status.success(), said.contains("The promise was kept."), "{said}");
    assert_eq!(output.status.success(), !said.contains("The promise was NOT kept."), "{said}");
    assert_eq!(std::fs::read_dir(place.path(".")).unwrap().count(), 0, "all is removed again");
}

#[test]
fn the_demo_as_json_has_the_promise_beside_what_came_of_it() {
    let place = Place::new();
    let args = ["demo", "--place", ".", "--seconds", "1s", "--rate", "2MB/s", "--readers", "2", "--json"];
    let output = place.run(&args);
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    for name in ["worst_second_bytes_per_second", "limit_write_bytes_per_second", "limit_read_bytes_per_second"] {
        assert!(number(&shown, name) > 0.0, "{shown}");
    }
    assert_eq!(shown["guarantee_bytes_per_second"], 2_000_000, "{shown}");
    assert!(number(&shown, "read_bytes_per_second") > 0.0, "{shown}");
    assert!(shown["lost_elements"].is_u64() && shown["missed_deadlines"].is_u64(), "{shown}");
    assert_eq!(shown["kept"], output.status.success(), "{shown}");
    assert_eq!(std::fs::read_dir(place.path(".")).unwrap().count(), 0, "all is removed again");
}

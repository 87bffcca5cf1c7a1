//! `forebay bench promise` says what it measured, and refuses what it cannot.

// A test drives the real program.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::Place;

#[test]
fn a_promise_is_measured_in_the_states_that_are_left_the_same_each_time() {
    let place = Place::new();
    let args = ["bench", "promise", "--seconds", "3", "--without", "aged", "--without", "pins", "--json"];
    let text = place.ok(&args);
    assert_eq!(text, place.ok(&args), "a run is a function of its seed");
    let figures: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(figures["states"], serde_json::json!(["readers", "small-writes", "large-writes", "scrub", "rebuild"]));
    assert_eq!((&figures["missed_deadlines"], &figures["lost_bytes"]), (&0.into(), &0.into()), "{text}");
    assert_eq!((&figures["worst_second_bytes_per_second"], &figures["filled_bytes"]), (&60_000_000.into(), &0.into()));
    let count = |name: &str| figures[name].as_u64().unwrap();
    assert!(count("small_writes") > 500 && count("small_writes") <= count("small_writes_due"), "{text}");
    assert!(count("rebuilt_bytes_per_second") > 0, "{text}");
    assert!(count("read_bytes_per_second") > 0 && count("device_written_bytes_per_second") > 60_000_000, "{text}");
    let latency = &figures["small_latency_ms"];
    let [mean, p50, p99, max] = ["mean", "p50", "p99", "max"].map(|name| latency[name].as_f64().unwrap());
    assert!(mean > 1.0 && p50 <= p99 && p99 <= max && mean <= max, "{latency}");
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let place = Place::new();
    let promise = |args: &[&'static str]| [&["bench", "promise"], args].concat();
    place.refused(&promise(&["--disk", "sim:floppy"]), 2, &["floppy", "cheetah15k"]);
    place.refused(&promise(&["--disk", "/dev/null"]), 2, &["no simulated disk", "sim:sata7200"]);
    place.refused(&promise(&["--without", "sleep"]), 2, &["'sleep' is no state", "small-writes"]);
    place.refused(&promise(&["--seconds", "1"]), 2, &["1 is not in 2.."]);
    place.refused(&promise(&["--rate", "0"]), 2, &["a promise of nothing"]);
    place.refused(&promise(&["--rate", "1GB/s", "--without", "aged"]), 1, &["cannot be promised"]);
}

//! A recording process is killed again and again: what it said is on disk is there.

// A test drives the real program through real files.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::Place;
use std::io::{BufRead, BufReader};

#[test]
fn killed_ten_times_it_loses_nothing_that_was_acknowledged() {
    let place = Place::formatted("256MiB");
    place.ok(&["ring", "create", "/r", "--capacity", "64MiB", "--flush-interval", "20ms"]);
    let mut durable = 0;
    for life in 0..10u64 {
        let mut recording = place.start(&["record", "/r", "--generate", "2MB/s,256", "--json"]);
        drop(recording.stdin.take());
        let mut lines = BufReader::new(recording.stdout.take().unwrap()).lines();
        // One report a second: kill it after the first that says something is durable.
        let before = durable;
        while durable == before {
            let line = lines.next().expect("it records until it is killed").unwrap();
            let value: serde_json::Value = serde_json::from_str(&line).unwrap();
            durable = value["durable_sequence"].as_u64().unwrap().max(before);
        }
        recording.kill().unwrap();
        recording.wait().unwrap();
        let kept = place.count("/r", "");
        let shown = place.ok(&["ring", "show", "/r", "--json"]);
        let ring: serde_json::Value = serde_json::from_str(shown.trim()).unwrap();
        let (first, next) = (ring["first_sequence"].as_u64().unwrap(), ring["next_sequence"].as_u64().unwrap());
        assert!(next >= durable, "life {life}: {durable} were durable, and {next} are known");
        assert_eq!(kept, next - first, "life {life}: the sequence has no holes");
        durable = next;
    }
    assert_eq!(place.ok(&["check"]).lines().last(), Some("Sound."));
}

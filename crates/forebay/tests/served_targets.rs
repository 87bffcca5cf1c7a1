//! What the targets of a cluster on the network could promise, and what was measured of them: real processes.

// A test drives the real program through real files and sockets.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::Place;
use common::served::Served;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Output;

/// What is said of each target.
fn told(output: &Output) -> BTreeMap<String, Value> {
    let lines = std::str::from_utf8(&output.stdout).unwrap().lines();
    lines
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|one| (one["target"].as_str().unwrap().to_string(), one))
        .collect()
}

#[test]
fn it_is_planned_and_shown_what_was_measured_on_all_targets_that_can_be_asked_and_others_are_named() {
    let place = Place::new();
    let manager = Served::with(&place, &["--nodes", "0"]);
    let [a, b, c] = ["a", "b", "c"].map(|dir| manager.join(&place, dir));
    let run = |args: &[&str]| manager.run(&place, args);
    let before = run(&["plan", "--rate", "1MB/s", "--capacity", "64MiB", "--json"]);
    assert_eq!(before.status.code(), Some(0), "{before:?}");
    let before = told(&before);
    assert!(before.len() == 3 && before.values().all(|one| one["can"] == true), "{before:?}");
    let profiles = told(&run(&["profile", "--stored", "--json"]));
    assert!(profiles.keys().eq(before.keys()), "{profiles:?}");
    assert!(profiles.values().all(|one| !one["profile"]["points"].as_array().unwrap().is_empty()));
    // What is promised to a ring is not promised again, on the one target that has it.
    let args = ["ring", "create", "/r", "--capacity", "64MiB", "--guarantee", "2MB/s", "--block", "64KiB"];
    manager.ok(&place, &args);
    let after = told(&run(&["plan", "--rate", "1MB/s", "--capacity", "64MiB", "--json"]));
    let highest = |of: &Value| of["highest_bytes_per_second"].as_u64().unwrap();
    let less = before.iter().filter(|(target, one)| highest(&after[*target]) < highest(one)).count();
    assert_eq!(less, 1, "{before:?}, then {after:?}");
    assert_eq!(run(&["plan", "--rate", "900GB/s"]).status.code(), Some(1));
    let said = manager.misuse(&place, &["profile"]);
    assert!(said.contains("--stored") && said.contains("forebay profile DEVICE"), "{said}");
    assert!(manager.misuse(&place, &["plan", "--rate", "90000TB/s"]).contains("ask for less"));
    // Whoever has a key may ask, as for the status.
    manager.ok(&place, &["user", "set", "7", "--name", "eve", "--group", "7"]);
    manager.ok(&place, &["keys", "issue", "eve.key", "--user", "7"]);
    assert_eq!(told(&run(&["plan", "--rate", "1MB/s", "--json", "--access-key", "eve.key"])).len(), 3);
    // One that is away takes nothing along.
    c.kill();
    for args in [&["plan", "--rate", "1MB/s", "--wait", "1s"][..], &["profile", "--stored", "--wait", "1s"]] {
        let output = run(&[args, &["--json"]].concat());
        let (there, said) = (told(&output), String::from_utf8(output.stderr).unwrap());
        assert_eq!((output.status.code(), there.len()), (Some(0), 2), "{args:?}: {said}");
        let away = before.keys().find(|target| !there.contains_key(*target)).unwrap();
        assert!(said.contains(&format!("target {away}")), "{args:?}: {said}");
        let said = String::from_utf8(run(args).stdout).unwrap();
        assert!(there.keys().all(|target| said.contains(&format!("(target {target})"))), "{said}");
    }
    a.stop();
    b.stop();
    manager.stop();
}

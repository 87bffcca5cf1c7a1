//! `forebay manager recover`: what a manager knew, made anew from the targets, through real processes that are killed.

// A test drives the real program through real files and sockets.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::served::Served;
use common::{Dice, Place};
use serde_json::Value;

const NODES: [&str; 4] = ["--nodes", "4", "--size", "64MiB"];

fn values(bytes: &[u8]) -> Vec<Value> {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What is told of all that there is.
fn listed(served: &Served, place: &Place) -> Vec<Value> {
    ["/", "/data", "/data/deep"].iter().flat_map(|path| values(&served.ok(place, &["ls", path, "--json"]))).collect()
}

#[test]
fn outcome_45_after_a_kill_and_without_its_metadata_a_cluster_is_as_it_was_answered() {
    let place = Place::new();
    let served = Served::with(&place, &NODES);
    served.ok(&place, &["mkdir", "/data"]);
    served.ok(&place, &["mkdir", "/data/deep"]);
    let bytes: Vec<Vec<u8>> = (1..4).map(|seed| Dice(seed).bytes(400_000 * seed as usize + 1)).collect();
    for (number, bytes) in bytes.iter().enumerate() {
        std::fs::write(place.path("in"), bytes).unwrap();
        served.ok(&place, &["put", "in", &format!("/{number}")]);
        served.ok(&place, &["mv", &format!("/{number}"), &format!("/data/deep/file {number}")]);
    }
    served.ok(&place, &["ring", "create", "/data/ring", "--capacity", "16MiB", "--block", "64KiB"]);
    let before = listed(&served, &place);
    assert_eq!(before.len(), 6);
    served.kill();

    std::fs::remove_file(place.path("cluster/manager.redb")).unwrap();
    let dir = place.path("cluster").display().to_string();
    let refused = place.run(&["serve", &dir, "--nodes", "4", "--listen", "127.0.0.1:0"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("manager recover"), "{said}");
    let recover = ["manager", "recover", "--cluster", &dir];
    let recovered = values(place.ok(&[&recover[..], &["--json"]].concat()).as_bytes()).remove(0);
    assert_eq!((&recovered["files"], &recovered["directories"]), (&3.into(), &2.into()), "{recovered}");
    assert_eq!((&recovered["rings"], &recovered["findings"]), (&1.into(), &Value::Array(vec![])), "{recovered}");
    place.refused(&recover, 1, &["--over"]);

    let served = Served::with(&place, &NODES);
    assert_eq!(listed(&served, &place), before);
    for (number, bytes) in bytes.iter().enumerate() {
        assert!(&served.ok(&place, &["get", &format!("/data/deep/file {number}"), "-"]) == bytes);
    }
    served.ok(&place, &["ring", "show", "/data/ring", "--json"]);
    served.kill();

    // A node is gone as well: parity makes up for it, and each file is named.
    std::fs::remove_file(place.path("cluster/node-4/target.0")).unwrap();
    let told = place.ok(&[&recover[..], &["--over"]].concat());
    assert!(told.contains("node-4 was left out"), "{told}");
    for number in 0..3 {
        assert!(told.contains(&format!("/data/deep/file {number}: components were not found")), "{told}");
    }
    assert!(told.contains("make up for that") && told.contains("manager.redb.old-1"), "{told}");
    std::fs::rename(place.path("cluster/node-4"), place.path("lost")).unwrap();
    let served = Served::with(&place, &["--nodes", "3"]);
    assert_eq!(listed(&served, &place), before);
    for (number, bytes) in bytes.iter().enumerate() {
        assert!(&served.ok(&place, &["get", &format!("/data/deep/file {number}"), "-"]) == bytes);
    }
    served.stop();
}

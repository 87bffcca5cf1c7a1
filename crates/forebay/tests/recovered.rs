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

/// Makes two directories and three files, and gives the bytes of these.
fn filled(served: &Served, place: &Place) -> Vec<Vec<u8>> {
    served.ok(place, &["mkdir", "/data"]);
    served.ok(place, &["mkdir", "/data/deep"]);
    let bytes: Vec<Vec<u8>> = (1..4).map(|seed| Dice(seed).bytes(400_000 * seed as usize + 1)).collect();
    for (number, bytes) in bytes.iter().enumerate() {
        std::fs::write(place.path("in"), bytes).unwrap();
        served.ok(place, &["put", "in", &format!("/{number}")]);
        served.ok(place, &["mv", &format!("/{number}"), &format!("/data/deep/file {number}")]);
    }
    bytes
}

#[test]
fn outcome_45_after_a_kill_and_without_its_metadata_a_cluster_is_as_it_was_answered() {
    let place = Place::new();
    let served = Served::with(&place, &NODES);
    let bytes = filled(&served, &place);
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
    // What it would replace is in use.
    place.refused(&[&recover[..], &["--over"]].concat(), 1, &["stop it first"]);
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

#[test]
fn outcome_45_when_the_machine_of_the_manager_is_lost_the_nodes_that_had_joined_it_have_all_that_was_answered() {
    let place = Place::new();
    let manager = |options: &[&str]| Served::with(&place, &[&["--nodes", "0"], options].concat());
    let served = manager(&[]);
    let nodes = ["a", "b", "c", "d"];
    let mut joined: Vec<Served> = nodes.iter().map(|dir| served.join(&place, dir)).collect();
    let bytes = filled(&served, &place);
    // One of the four has no copy, and takes the place of any other.
    joined.remove(0).kill();
    served.ok(&place, &["chmod", "600", "/data/deep/file 1"]);
    served.ok(&place, &["mkdir", "/data/last"]);
    // As soon as that was answered.
    let before = listed(&served, &place);
    served.kill();
    joined.into_iter().for_each(Served::kill);

    std::fs::remove_file(place.path("cluster/manager.redb")).unwrap();
    let dir = place.path("cluster").display().to_string();
    let refused = place.run(&["serve", &dir, "--nodes", "0", "--listen", "127.0.0.1:0"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("manager recover") && said.contains("--also"), "{said}");
    // Any two of those that are left are enough: no copy is alone.
    for left_out in &nodes[1..] {
        let dirs = nodes[1..].iter().filter(|dir| *dir != left_out).map(|dir| place.path(dir).display().to_string());
        let dirs: Vec<String> = dirs.collect();
        let also: Vec<&str> = dirs.iter().flat_map(|dir| ["--also", dir]).collect();
        let recover = [&["manager", "recover", "--cluster", &dir, "--over", "--json"], &also[..]].concat();
        let recovered = values(place.ok(&recover).as_bytes()).remove(0);
        assert_eq!((&recovered["files"], &recovered["directories"]), (&3.into(), &3.into()), "{recovered}");
    }
    let dirs = nodes.map(|dir| place.path(dir).display().to_string());
    let also: Vec<&str> = dirs.iter().flat_map(|dir| ["--also", dir]).collect();
    let recover = [&["manager", "recover", "--cluster", &dir, "--over", "--json"], &also[..]].concat();
    let recovered = values(place.ok(&recover).as_bytes()).remove(0);
    assert_eq!((&recovered["files"], &recovered["directories"]), (&3.into(), &3.into()), "{recovered}");
    assert_eq!(recovered["findings"], Value::Array(vec![]), "{recovered}");
    assert_eq!(recovered["left_out"], Value::Array(vec![]), "{recovered}");
    assert!(recovered["copy"].is_string(), "{recovered}");

    let served = manager(&[]);
    // No key is in a copy: nodes are let in again.
    for dir in nodes {
        std::fs::remove_file(place.path(dir).join("node.key")).unwrap();
        std::fs::remove_file(place.path(dir).join("node")).unwrap();
    }
    let joined = nodes.map(|dir| Served::at(&place, dir, &["--join", &served.cluster, "--access-key", &served.key]));
    assert_eq!(listed(&served, &place), before);
    for (number, bytes) in bytes.iter().enumerate() {
        assert!(&served.ok(&place, &["get", &format!("/data/deep/file {number}"), "-"]) == bytes);
    }
    // And there are copies of that as well.
    served.ok(&place, &["mkdir", "/since"]);
    served.kill();
    joined.into_iter().for_each(Served::stop);
    let recovered = values(place.ok(&recover).as_bytes()).remove(0);
    assert_eq!(recovered["directories"], 4, "{recovered}");
}

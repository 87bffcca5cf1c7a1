//! Heaps of a cluster on the network through the binary: real processes, real sockets, a real kill.

// A test drives the real program through real files and sockets.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::Place;
use common::served::Served;
use forebay_client::heaps::{HeapSettings, NewRoot};
use forebay_model::Kind;
use serde_json::Value;
use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

fn json(served: &Served, place: &Place, args: &[&str]) -> Value {
    serde_json::from_slice(&served.ok(place, &[args, &["--json"]].concat())).unwrap()
}

/// Puts these as records: their ids.
fn put(served: &Served, place: &Place, heap: &str, records: &[&str]) -> Vec<String> {
    let mut child = served.command(place, &["heap", "put", heap]).stdin(Stdio::piped()).spawn().unwrap();
    let lines: String = records.iter().map(|record| format!("{{\"text\": \"{record}\"}}\n")).collect();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(output.stderr));
    text(output.stdout).lines().map(String::from).collect()
}

#[test]
fn records_are_put_got_freed_and_committed_over_the_network_as_in_a_directory() {
    let place = Place::new();
    let served = Served::start(&place);
    served.ok(&place, &["mkdir", "/data"]);
    let created = text(served.ok(&place, &["heap", "create", "/data/pages", "--keep", "1h"]));
    assert!(created.contains("Created /data/pages"), "{created}");
    let ids = put(&served, &place, "/data/pages", &["alpha", "beta", "gamma"]);
    let get = |args: &[&str]| text(served.ok(&place, &[&["heap", "get", "/data/pages"], args].concat()));
    assert_eq!((ids.len(), get(&[&ids[1]])), (3, "beta".to_string()));
    served.ok(&place, &["heap", "commit", "/data/pages", "--root", &ids[0]]);
    assert_eq!(get(&[]), "alpha");
    let before = json(&served, &place, &["heap", "stat", "/data/pages"]);
    assert_eq!((&before["name"], &before["root"]), (&"/data/pages".into(), &ids[0].as_str().into()));
    let freed = text(served.ok(&place, &["heap", "free", "/data/pages", &ids[1]]));
    assert!(freed.contains("Freed 1 record"), "{freed}");
    let gone = served.failure(&place, &["heap", "get", "/data/pages", &ids[1]]);
    assert!(gone.contains(&ids[1]), "{gone}");
    let commit = before["commit"].as_u64().unwrap().to_string();
    assert_eq!(get(&[&ids[1], "--as-of", &commit]), "beta", "it is kept for an hour");
    let history = text(served.ok(&place, &["heap", "history", "/data/pages", "--json"]));
    assert!(history.lines().count() >= 4, "{history}");
    // It is an entry as others are.
    let listed = json(&served, &place, &["ls", "/data"]);
    assert_eq!((&listed["name"], &listed["type"]), (&"/data/pages".into(), &"heap".into()));
    assert!(text(served.ok(&place, &["ls", "/data"])).contains("heap  /data/pages"));
    served.ok(&place, &["mv", "/data/pages", "/data/tree"]);
    assert_eq!(text(served.ok(&place, &["heap", "get", "/data/tree", &ids[2]])), "gamma");
    for (args, said) in [
        (&["heap", "create", "/data/tree"][..], "tree"),
        (&["heap", "get", "/data/pages", &ids[0]], "/data/pages"),
        (&["heap", "stat", "/data/none"], "/data/none"),
    ] {
        let failure = served.failure(&place, args);
        assert!(failure.contains(said), "{args:?}: {failure}");
    }
    for (args, said) in [
        (&["heap", "stat", "/data"][..], "directory"),
        (&["heap", "delete", "/data"], "no heap"),
        (&["get", "/data/tree", "-"], "heap"),
        (&["query", "/data/tree"], "heap"),
    ] {
        let misuse = served.misuse(&place, args);
        assert!(misuse.contains(said), "{args:?}: {misuse}");
    }
    served.ok(&place, &["heap", "delete", "/data/tree"]);
    served.ok(&place, &["heap", "create", "/data/again", "--worm"]);
    served.ok(&place, &["rm", "/data/again"]);
    assert_eq!(served.ok(&place, &["ls", "/data", "--json"]), b"");
    served.stop();
}

#[test]
fn who_may_read_a_heap_gets_records_and_puts_none_and_who_may_not_gets_none() {
    let place = Place::new();
    let served = Served::start(&place);
    served.ok(&place, &["heap", "create", "/pages"]);
    let ids = put(&served, &place, "/pages", &["alpha"]);
    served.ok(&place, &["user", "set", "7", "--name", "ada", "--group", "7"]);
    served.ok(&place, &["keys", "issue", "ada.key", "--user", "ada"]);
    let by_ada = |args: &[&str]| {
        let key = place.path("ada.key");
        served.command(&place, args).env("FOREBAY_ACCESS_KEY", key).stdin(Stdio::null()).output().unwrap()
    };
    assert_eq!(by_ada(&["heap", "get", "/pages", &ids[0]]).stdout, b"alpha");
    std::fs::write(place.path("in"), "beta").unwrap();
    let refused = [
        &["heap", "put", "/pages", "in"][..],
        &["heap", "free", "/pages", &ids[0]],
        &["heap", "commit", "/pages", "--root", "none"],
        &["heap", "delete", "/pages"],
    ];
    for args in refused {
        let output = by_ada(args);
        let said = text(output.stderr);
        assert!(!output.status.success() && said.contains("user 7"), "{args:?}: {said}");
    }
    served.ok(&place, &["chmod", "600", "/pages"]);
    let output = by_ada(&["heap", "get", "/pages", &ids[0]]);
    assert!(output.stdout.is_empty() && text(output.stderr).contains("user 7 may not read"));
    served.ok(&place, &["chown", "ada", "/pages"]);
    assert_eq!(by_ada(&["heap", "get", "/pages", &ids[0]]).stdout, b"alpha");
    assert!(by_ada(&["heap", "put", "/pages", "in"]).status.success());
    served.stop();
}

#[test]
fn two_transactions_of_one_program_do_not_mix_and_one_that_is_dropped_is_undone() {
    let place = Place::new();
    let served = Served::start(&place);
    let files = served.files(&served.key);
    let heaps = files.cluster(Duration::from_secs(60)).heaps();
    heaps.create("/h", HeapSettings::default()).unwrap();
    assert_eq!(heaps.list().unwrap().heaps.len(), 1);
    let (mut one, mut other) = (heaps.open("/h").unwrap(), heaps.open("/h").unwrap());
    // One that goes in parts, and many in one request.
    let large = vec![7; 10 << 20];
    let first = one.put(&large).unwrap();
    let second = other.put(b"other").unwrap();
    assert_eq!(one.get(first).unwrap(), large);
    assert_eq!(one.get(second).unwrap_err().kind, Kind::Missing);
    assert_eq!(other.get(first).unwrap_err().kind, Kind::Missing);
    other.commit(NewRoot::Record(second)).unwrap();
    assert_eq!(one.get(second).unwrap(), b"other");
    drop(one);
    assert_eq!(other.get(first).unwrap_err().kind, Kind::Missing, "nobody committed it");
    for number in 0..5000u32 {
        other.send(&number.to_le_bytes()).unwrap();
    }
    let ids = other.settle().unwrap();
    other.commit(NewRoot::Same).unwrap();
    let mut got = 0u32;
    let mut third = heaps.open("/h").unwrap();
    third
        .get_each(&ids, None, |_, record| {
            assert_eq!(record?, got.to_le_bytes());
            got += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!((got, third.root(None).unwrap().1), (5000, Some((second, b"other".to_vec()))));
    // What is revoked counts no more, and with it goes what was put; what is looked at goes on.
    let lost = other.put(b"lost").unwrap();
    served.ok(&place, &["revoke", "/h"]);
    assert_eq!(third.get(ids[0]).unwrap(), 0u32.to_le_bytes());
    let told = loop {
        match other.get(lost) {
            // The node has not heard of it yet.
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(told.kind == Kind::Stale && told.message.contains("do that again"), "{told:?}");
    assert_eq!(other.commit(NewRoot::Same).unwrap_err().kind, Kind::Usage);
    other.abort().unwrap();
    let again = other.put(b"again").unwrap();
    other.commit(NewRoot::Same).unwrap();
    assert_eq!(third.get(again).unwrap(), b"again");
    let error = heaps.create("/h", HeapSettings::default()).unwrap_err();
    assert_eq!(error.kind, Kind::Exists, "{error}");
    heaps.delete("/h").unwrap();
    assert_eq!(heaps.open("/h").err().map(|error| error.kind), Some(Kind::Missing));
    served.stop();
}

#[test]
fn of_a_server_that_is_killed_what_was_committed_is_there_and_what_was_not_is_gone_and_who_put_it_is_told() {
    let place = Place::new();
    let mut served = Served::start(&place);
    let listen = served.cluster.trim_start_matches("forebay://").to_string();
    let files = served.files(&served.key);
    let heaps = files.cluster(Duration::from_secs(60)).heaps();
    heaps.create("/h", HeapSettings::default()).unwrap();
    let mut heap = heaps.open("/h").unwrap();
    let kept = heap.put(b"kept").unwrap();
    let commit = heap.commit(NewRoot::Record(kept)).unwrap();
    let lost = heap.put(b"lost").unwrap();
    served.child.kill().unwrap();
    served.child.wait().unwrap();
    let told = heap.commit(NewRoot::Same).unwrap_err();
    assert!(told.kind == Kind::Disconnected && told.message.contains("forebay heap stat /h"), "{told:?}");
    heap.abort().unwrap();
    let again = Served::at(&place, "cluster", &["--listen", &listen]);
    let root = heap.root(None).unwrap();
    assert_eq!(root, (commit, Some((kept, b"kept".to_vec()))));
    assert_eq!(heap.get(lost).unwrap_err().kind, Kind::Missing);
    let next = heap.put(b"next").unwrap();
    assert_eq!(heap.commit(NewRoot::Record(next)).unwrap(), commit + 1);
    again.stop();
}

#[test]
fn a_heap_leaves_a_target_that_drains_and_is_used_elsewhere_with_all_that_it_had() {
    let place = Place::new();
    let manager = Served::with(&place, &["--nodes", "0"]);
    let a = manager.join(&place, "a");
    manager.ok(&place, &["heap", "create", "/pages", "--keep", "1h"]);
    let records: Vec<String> = (0..500).map(|number| format!("record {number} {}", "x".repeat(number * 7))).collect();
    let texts: Vec<&str> = records.iter().map(String::as_str).collect();
    let mut ids = put(&manager, &place, "/pages", &texts[..300]);
    let before = json(&manager, &place, &["heap", "stat", "/pages"]);
    let b = manager.join(&place, "b");
    let from = before["target"].as_str().unwrap();
    manager.ok(&place, &["target", "drain", from]);
    // It is used meanwhile.
    ids.extend(put(&manager, &place, "/pages", &texts[300..]));
    let left = || {
        let all: Vec<Value> = text(manager.ok(&place, &["target", "list", "--json"]))
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        all.into_iter().find(|target| target["target"] == from).map(|target| target["components_left"].clone())
    };
    let until = std::time::Instant::now() + Duration::from_secs(120);
    while left() != Some(0.into()) {
        assert!(std::time::Instant::now() < until, "{:?} left", left());
        std::thread::yield_now();
    }
    a.kill();
    let after = json(&manager, &place, &["heap", "stat", "/pages"]);
    assert_ne!(before["target"], after["target"]);
    for number in [0, 7, 299, 300, 499] {
        assert_eq!(text(manager.ok(&place, &["heap", "get", "/pages", &ids[number]])), records[number]);
    }
    let commit = before["commit"].as_u64().unwrap().to_string();
    assert_eq!(text(manager.ok(&place, &["heap", "get", "/pages", &ids[7], "--as-of", &commit])), records[7]);
    put(&manager, &place, "/pages", &["more"]);
    b.stop();
    manager.stop();
}

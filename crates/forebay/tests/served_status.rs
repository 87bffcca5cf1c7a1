//! What operators see of a cluster on the network: `forebay status` and `top`, of real processes.

// A test drives the real program through real files and sockets.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::served::Served;
use common::{Dice, Place, signal};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

fn status(served: &Served, place: &Place) -> Value {
    serde_json::from_slice(&served.ok(place, &["status", "--json"])).unwrap()
}

#[test]
fn manager_nodes_targets_and_rings_of_a_cluster_are_shown_with_what_is_wrong() {
    let place = Place::new();
    let served = Served::with(&place, &["--nodes", "4", "--size", "128MiB"]);
    let empty = status(&served, &place);
    assert_eq!((&empty["health"]["code"], &empty["rings"]), (&"ok".into(), &Value::Array(Vec::new())), "{empty}");
    std::fs::write(place.path("in"), Dice(7).bytes(1_000_001)).unwrap();
    served.ok(&place, &["put", "in", "/x"]);
    served.ok(&place, &["ring", "create", "/r", "--capacity", "32MiB", "--guarantee", "1MB/s", "--block", "64KiB"]);
    let mut record = served.command(&place, &["record", "/r", "--stdin", "lines", "--json"]);
    let mut record = record.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = record.stdin.take().unwrap();
    writeln!(input, "an element").unwrap();
    input.flush().unwrap();
    let mut progress = BufReader::new(record.stdout.take().unwrap());
    while {
        let mut line = String::new();
        progress.read_line(&mut line).unwrap();
        serde_json::from_str::<Value>(&line).unwrap()["durable_elements"] != 1
    } {}
    let seen = status(&served, &place);
    let ring = &seen["rings"][0];
    assert_eq!(
        (&ring["name"], &ring["recording"], &ring["elements"]),
        (&"/r".into(), &true.into(), &1.into()),
        "{seen}"
    );
    assert!(ring["rate_bytes_per_second"].is_u64() && ring["parts"][0]["state"] == "held", "{seen}");
    assert_eq!(ring["missed_deadlines"], 0, "{seen}");
    // The file and the root directory, at least.
    assert!(seen["files"].as_u64() >= Some(2) && seen["used_bytes"].as_u64() >= Some(1_000_001), "{seen}");
    let up = |what: &str, field: &str, value: Value| {
        seen[what].as_array().unwrap().iter().filter(|one| one[field] == value).count()
    };
    assert_eq!((up("nodes", "up", true.into()), up("targets", "state", "up".into())), (4, 4), "{seen}");
    assert_eq!((&seen["degraded_files"], &seen["health"]["code"]), (&0.into(), &"ok".into()), "{seen}");
    let copied = seen["metadata_copies"]["targets"].as_array().unwrap();
    let is_one = |target: &Value| seen["targets"].as_array().unwrap().iter().any(|one| one["target"] == *target);
    assert!(!copied.is_empty() && copied.iter().all(is_one), "{seen}");
    assert!(served.cluster.ends_with(seen["manager"].as_str().unwrap()), "{seen}");
    let text = String::from_utf8(served.ok(&place, &["status"])).unwrap();
    for said in [seen["cluster"].as_str().unwrap(), "/r", "recording", "1.0 MB/s", "1 held", "copied to", "health: ok"]
    {
        assert!(text.contains(said), "{said}: {text}");
    }
    let looks = String::from_utf8(served.ok(&place, &["top", "--count", "2", "--interval", "10ms", "--json"])).unwrap();
    let looks: Vec<Value> = looks.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(looks.len(), 2);
    assert!(looks.iter().all(|look| look["rings"][0]["rate_bytes_per_second"].is_u64()), "{looks:?}");
    signal(&record, "TERM");
    assert!(record.wait().unwrap().success(), "it ends in order");

    // The ring lies on that target, and a part of the file.
    let target = ring["parts"][0]["target"].as_str().unwrap();
    served.ok(&place, &["target", "fail", target]);
    let seen = status(&served, &place);
    let failed = seen["targets"].as_array().unwrap().iter().find(|one| one["target"] == target).unwrap();
    assert_eq!((&failed["state"], &seen["rings"][0]["name"]), (&"failed".into(), &"/r".into()), "{seen}");
    assert_eq!(seen["health"]["code"], "rebuilding", "{seen}");
    let cluster = served.cluster.clone();
    let key = served.key.clone();
    served.stop();
    let mut away = place.command(&["status", "--wait", "1s"]);
    let away = away.env("FOREBAY_CLUSTER", &cluster).env("FOREBAY_ACCESS_KEY", key).output().unwrap();
    let said = String::from_utf8(away.stderr).unwrap();
    assert_eq!(away.status.code(), Some(1), "{said}");
    assert!(said.contains(cluster.trim_start_matches("forebay://")), "{said}");
}

//! The targets of a cluster, as its operator sees them: real processes, real sockets.

// A test drives the real program through real files and sockets.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::served::{Served, until};
use common::{Dice, Place};
use serde_json::Value;
use std::io::BufReader;
use std::time::{Duration, Instant};

fn targets(manager: &Served, place: &Place) -> Vec<Value> {
    let listed = String::from_utf8(manager.ok(place, &["target", "list", "--json"])).unwrap();
    listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Asks again until it is so; nothing here takes more than some seconds.
fn wait(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}, and does not come about");
    }
}

/// The target of a node.
fn of(manager: &Served, place: &Place, node: &Served) -> Value {
    targets(manager, place).into_iter().find(|target| target["node"] == node.ready["node"]).unwrap()
}

fn id(target: &Value) -> String {
    target["target"].as_str().unwrap().to_string()
}

#[test]
fn a_target_is_added_while_a_directory_is_served_and_is_there_when_it_is_served_again() {
    let place = Place::new();
    let served = Served::with(&place, &["--size", "256MiB"]);
    let dir = place.path("cluster").display().to_string();
    let added = |path: &str, options: &[&str]| -> Value {
        let args = [&["target", "add", path, "--cluster", &dir, "--json"], options].concat();
        serde_json::from_slice(&served.ok(&place, &args)).unwrap()
    };
    let refused = |path: &str| served.failure(&place, &["target", "add", path, "--cluster", &dir, "--json"]);
    let bytes = Dice(9).bytes(2_000_001);
    std::fs::write(place.path("in"), &bytes).unwrap();
    served.ok(&place, &["put", "in", "/old"]);
    let first = added("cluster/target.1", &["--size", "256MiB"]);
    let second = added("elsewhere", &["--size", "256MiB"]);
    let known = |served: &Served| {
        let mut ids: Vec<String> = targets(served, &place).iter().map(id).collect();
        ids.sort();
        ids
    };
    // The manager hears of it with the node's next report.
    wait("three targets", || known(&served).len() == 3);
    assert!([&first, &second].iter().all(|one| known(&served).contains(&id(one))));
    // What is somebody's is refused, with what to do; nothing is changed by that.
    assert!(refused("elsewhere").contains("target of this cluster already"));
    std::fs::create_dir(place.path("foreign")).unwrap();
    let foreign = place.path("foreign").display().to_string();
    place.ok(&["format", "--cluster", &foreign, "--size", "256MiB", "--measure", "0s"]);
    assert!(refused("foreign/target.0").contains("is a target already"));
    assert!(refused("nothing").contains("does not exist"));
    // Also if it is forced, and by whatever path it is named.
    for path in ["cluster/../cluster/target.1", "elsewhere"] {
        let forced = ["target", "add", path, "--cluster", &dir, "--size", "256MiB", "--force"];
        let failure = served.failure(&place, &forced);
        assert!(failure.contains("in use") || failure.contains("already"), "{failure}");
    }
    assert_eq!(known(&served).len(), 3);
    // Files are striped over all of them from now on.
    served.ok(&place, &["put", "in", "/new"]);
    assert!(served.ok(&place, &["get", "/new", "-"]) == bytes);
    let before = known(&served);
    served.stop();
    let served = Served::with(&place, &[]);
    wait("three targets", || known(&served).len() == 3);
    assert_eq!(known(&served), before);
    for path in ["/old", "/new"] {
        assert!(served.ok(&place, &["get", path, "-"]) == bytes, "{path}");
    }
    served.stop();
}

#[test]
fn a_node_that_joined_is_given_another_target_and_the_manager_uses_it() {
    let place = Place::new();
    let manager = Served::with(&place, &["--nodes", "0", "--raid", "0"]);
    let node = manager.join(&place, "a");
    let dir = place.path("a").display().to_string();
    let added = manager.ok(&place, &["target", "add", "a/target.1", "--size", "256MiB", "--cluster", &dir, "--json"]);
    let added: Value = serde_json::from_slice(&added).unwrap();
    wait("two targets", || targets(&manager, &place).len() == 2);
    let there = targets(&manager, &place).into_iter().find(|target| target["target"] == added["target"]).unwrap();
    assert_eq!((&there["node"], &there["state"]), (&node.ready["node"], &"up".into()));
    node.kill();
    let node = Served::at(&place, "a", &["--join", &manager.cluster]);
    let again = targets(&manager, &place);
    assert!(again.len() == 2 && again.iter().all(|target| target["node"] == node.ready["node"]), "{again:?}");
    node.stop();
    manager.stop();
}

#[test]
fn targets_are_listed_drained_failed_and_returned_while_files_are_there() {
    let place = Place::new();
    let mut manager = Served::with(&place, &["--nodes", "0"]);
    let mut told = BufReader::new(manager.child.stderr.take().unwrap());
    let [a, b, c] = ["a", "b", "c"].map(|dir| manager.join(&place, dir));
    let bytes = Dice(8).bytes(3_000_001);
    std::fs::write(place.path("in"), &bytes).unwrap();
    manager.ok(&place, &["put", "in", "/x"]);
    let d = manager.join(&place, "d");
    let all = targets(&manager, &place);
    assert!(
        all.len() == 4
            && all
                .iter()
                .all(|target| target["state"] == "up" && target["node_up"] == true && target["served"] == true),
        "{all:?}"
    );
    assert!(all.iter().all(|target| target["failed"].is_null() && target["components_left"].is_null()), "{all:?}");
    let of_a = id(&of(&manager, &place, &a));
    let refused = manager.failure(&place, &["target", "rm", &of_a]);
    assert!(refused.contains("drain it") && refused.contains("--lost"), "{refused}");
    manager.ok(&place, &["target", "drain", &of_a]);
    until(&mut told, "were moved");
    wait("it is empty", || of(&manager, &place, &a)["components_left"] == 0);
    let shown = String::from_utf8(manager.ok(&place, &["target", "list"])).unwrap();
    assert!(shown.contains("draining") && shown.contains("empty"), "{shown}");
    // It may go, and so may one of the others then.
    manager.ok(&place, &["target", "rm", &of_a]);
    a.stop();
    assert!(manager.ok(&place, &["get", "/x", "-"]) == bytes, "without what was drained");
    let number = of(&manager, &place, &b)["node"].to_string();
    assert!(manager.failure(&place, &["node", "rm", &number]).contains("targets"));
    // What failed is rebuilt elsewhere, and used again when that is said.
    let e = manager.join(&place, "e");
    let of_b = id(&of(&manager, &place, &b));
    let said: Value = serde_json::from_slice(&manager.ok(&place, &["target", "fail", &of_b, "--json"])).unwrap();
    assert_eq!((&said["target"], &said["state"]), (&of_b.clone().into(), &"failed".into()));
    until(&mut told, "are rebuilt");
    wait("it is empty", || of(&manager, &place, &b)["components_left"] == 0);
    b.kill();
    assert!(manager.ok(&place, &["get", "/x", "-"]) == bytes, "without what failed");
    manager.ok(&place, &["target", "return", &of_b]);
    assert_eq!(targets(&manager, &place).iter().filter(|target| target["state"] == "up").count(), 4);
    let missing = manager.failure(&place, &["target", "drain", "zz"]);
    assert!(missing.contains("target list"), "{missing}");
    c.stop();
    d.stop();
    e.stop();
    manager.stop();
}

#[test]
fn what_is_promised_is_not_said_of_each_device_of_a_directory() {
    let place = Place::new();
    let served = Served::with(&place, &["--size", "256MiB"]);
    let dir = place.path("cluster").display().to_string();
    served.ok(&place, &["target", "add", "cluster/target.1", "--size", "256MiB", "--cluster", &dir]);
    served.stop();
    place.ok(&["ring", "create", "/r", "--capacity", "32MiB", "--guarantee", "1MB/s"]);
    let said = place.ok(&["status"]);
    let devices: Vec<&str> = said.lines().filter(|line| line.contains(" free;")).collect();
    assert!(devices.len() == 2 && devices.iter().all(|line| !line.contains("1.0 MB/s promised")), "{said}");
    assert_eq!(said.matches("1.0 MB/s promised to all rings together").count(), 1, "{said}");
}

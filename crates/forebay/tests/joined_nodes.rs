//! Nodes as processes of their own, which join the manager of another one: real processes, real sockets, real kills.

// A test drives the real program through real files and sockets.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::served::{Served, until};
use common::{Dice, Place, signal};
use std::io::{BufRead, BufReader, Read};
use std::ops::Range;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A manager alone.
fn manager(place: &Place, options: &[&str]) -> Served {
    Served::with(place, &[&["--nodes", "0"], options].concat())
}

/// The nodes, or the targets.
fn listed(manager: &Served, place: &Place, what: &str) -> Vec<serde_json::Value> {
    let listed = String::from_utf8(manager.ok(place, &[what, "list", "--json"])).unwrap();
    listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn three_nodes_that_joined_keep_a_file_while_one_is_killed_and_the_one_that_came_back_serves_its_part() {
    let place = Place::new();
    let manager = manager(&place, &[]);
    let [a, b, c] = ["a", "b", "c"].map(|dir| manager.join(&place, dir));
    let bytes = Dice(3).bytes(9_000_001);
    std::fs::write(place.path("in"), &bytes).unwrap();
    manager.ok(&place, &["put", "in", "/x"]);
    assert!(manager.ok(&place, &["get", "/x", "-"]) == bytes);
    let of_a = listed(&manager, &place, "node").into_iter().find(|node| node["node"] == a.ready["node"]).unwrap();
    assert_eq!((&of_a["up"], &of_a["address"]), (&true.into(), &a.ready["data"][0]));
    let (number, secret) = (a.ready["node"].clone(), std::fs::read(place.path("a/node.key")).unwrap());
    a.kill();
    assert!(manager.ok(&place, &["get", "/x", "-"]) == bytes, "without one of three");
    // It is the node that it was, with its own key: nobody shows root's again.
    let a = Served::at(&place, "a", &["--join", &manager.cluster]);
    assert_eq!((&a.ready["node"], std::fs::read(place.path("a/node.key")).unwrap()), (&number, secret));
    assert!(manager.ok(&place, &["get", "/x", "-"]) == bytes);
    // Nothing is left to do without: each of the others may go now.
    let b = {
        b.kill();
        assert!(manager.ok(&place, &["get", "/x", "-"]) == bytes, "with the one that came back");
        Served::at(&place, "b", &["--join", &manager.cluster])
    };
    c.kill();
    assert!(manager.ok(&place, &["get", "/x", "-"]) == bytes, "with both that came back");
    a.stop();
    b.stop();
    manager.stop();
}

#[test]
fn a_file_is_written_while_a_node_is_dead_and_made_whole_when_that_is_back() {
    let place = Place::new();
    let mut manager = manager(&place, &[]);
    let mut told = BufReader::new(manager.child.stderr.take().unwrap());
    let [a, b, c] = ["a", "b", "c"].map(|dir| manager.join(&place, dir));
    let bytes = Dice(4).bytes(5_000_001);
    std::fs::write(place.path("in"), &bytes).unwrap();
    a.kill();
    // The manager takes it to be there still, and so gives it a part of the file.
    manager.ok(&place, &["put", "in", "/x", "--wait", "1s"]);
    assert!(manager.ok(&place, &["get", "/x", "-", "--wait", "1s"]) == bytes, "without what was given up");
    let a = Served::at(&place, "a", &["--join", &manager.cluster]);
    until(&mut told, "are rebuilt");
    b.kill();
    assert!(manager.ok(&place, &["get", "/x", "-", "--wait", "1s"]) == bytes, "with what was rebuilt");
    a.stop();
    c.stop();
    manager.stop();
}

/// The ranges that a message says cannot be read: `bytes 0 to 65536, 131072 to 196608 ...`.
fn named(said: &str) -> Vec<Range<u64>> {
    let (_, rest) = said.split_once("bytes ").unwrap_or_else(|| panic!("no ranges: {said}"));
    let mut words = rest.split([' ', ',']).filter(|word| !word.is_empty());
    let mut ranges = Vec::new();
    while let Some(start) = words.next().and_then(|word| word.parse().ok()) {
        assert_eq!(words.next(), Some("to"), "{said}");
        ranges.push(start..words.next().unwrap().parse().unwrap());
    }
    ranges
}

#[test]
fn without_two_of_the_four_nodes_that_have_a_file_it_is_said_in_time_which_bytes_cannot_be_read_and_all_others_are() {
    const UNIT: u64 = 64 << 10;
    let place = Place::new();
    let manager = manager(&place, &[]);
    let put = |name: &str| manager.ok(&place, &["put", "in", name, "--raid", "5", "--targets", "4", "--unit", "64KiB"]);
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|dir| manager.join(&place, dir));
    let bytes = Dice(8).bytes(9 * UNIT as usize);
    std::fs::write(place.path("in"), &bytes).unwrap();
    put("/over-all-four");
    // Without the first of them the four others have the second file: it does with one of these less.
    a.stop();
    let e = manager.join(&place, "e");
    put("/without-a");
    let a = Served::at(&place, "a", &["--join", &manager.cluster]);
    let whole = |name: &str| assert!(manager.ok(&place, &["get", name, "-"]) == bytes, "{name}");
    whole("/over-all-four");
    a.kill();
    b.kill();
    // What is not there is waited for as long as the protocol says, which is some seconds for each thing that is asked; minutes are no answer.
    let began = Instant::now();
    // While somebody waits to be alone with it, as who looks after files may, it is not known how long it is.
    let get = |args: &[&str]| {
        let args = [&["get", "/over-all-four"], args].concat();
        let tried = (0..20).map(|_| manager.run(&place, &args));
        let got =
            tried.into_iter().find(|got| got.status.success() || got.stderr.windows(6).any(|word| word == b"bytes "));
        let got = got.unwrap_or_else(|| panic!("{args:?}: nothing is said of bytes"));
        (got.status.code(), got.stdout, String::from_utf8(got.stderr).unwrap())
    };
    let (code, _, said) = get(&["-"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(began.elapsed() < Duration::from_secs(300), "{:?}: {said}", began.elapsed());
    assert!(said.contains("/over-all-four"), "{said}");
    let lost = named(&said);
    let is_lost = |unit: u64| lost.iter().any(|range| range.start <= unit * UNIT && (unit + 1) * UNIT <= range.end);
    let all: u64 = lost.iter().map(|range| range.end - range.start).sum();
    // Of three units of a stripe and their parity two are gone: two units, or one where the other is the parity.
    assert!(
        (3 * UNIT..=6 * UNIT).contains(&all) && (0..9).filter(|unit| is_lost(*unit)).count() as u64 * UNIT == all,
        "{said}"
    );
    // One of each: what is away is waited for each time.
    let first = |wanted: bool| (0..9).find(|unit| is_lost(*unit) == wanted).expect("there are both");
    for unit in [first(true), first(false)] {
        let from = (unit * UNIT).to_string();
        let (code, got, said) = get(&["-", "--offset", &from, "--length", "64KiB", "--wait", "1s"]);
        match is_lost(unit) {
            true => assert_eq!(
                (code, &named(&said)[..]),
                (Some(1), std::slice::from_ref(&(unit * UNIT..(unit + 1) * UNIT)))
            ),
            false => assert!(got == bytes[(unit * UNIT) as usize..((unit + 1) * UNIT) as usize], "unit {unit}: {said}"),
        }
    }
    // Half of a file is not left behind.
    manager.failure(&place, &["get", "/over-all-four", "out", "--wait", "1s"]);
    assert!(!place.path("out").exists());
    whole("/without-a");
    let scrubbed = manager.run(&place, &["scrub", "/over-all-four", "--json"]);
    let said = String::from_utf8(scrubbed.stdout).unwrap();
    assert_eq!(scrubbed.status.code(), Some(1), "{said}");
    let of_file: serde_json::Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
    assert_eq!((&of_file["name"], &of_file["finished"]), (&"/over-all-four".into(), &false.into()), "{said}");
    let back = ["a", "b"].map(|dir| Served::at(&place, dir, &["--join", &manager.cluster]));
    whole("/over-all-four");
    whole("/without-a");
    back.into_iter().chain([c, d, e]).for_each(Served::stop);
    manager.stop();
}

#[test]
fn servers_that_joined_with_the_key_for_it_make_anew_what_a_target_lost_beside_the_manager() {
    let place = Place::new();
    let manager = manager(&place, &["--status", "127.0.0.1:0"]);
    let join = |dir: &str| {
        let (cluster, key) = (manager.cluster.as_str(), manager.key.as_str());
        let joins = ["--join", cluster, "--access-key", key, "--rebuild-key", key];
        Served::at(&place, dir, &[&joins[..], &["--size", "128MiB", "--status", "127.0.0.1:0"]].concat())
    };
    let mut joined = vec![join("a"), join("b"), join("c")];
    let bytes = Dice(6).bytes(300_001);
    std::fs::write(place.path("in"), &bytes).unwrap();
    (0..12).for_each(|n| drop(manager.ok(&place, &["put", "in", &format!("/{n}")])));
    joined.push(join("d"));
    // Whoever looks first does it, and that may be the manager's server a few times.
    let target_of = |node: &Served| {
        let targets = listed(&manager, &place, "target");
        let its = targets.iter().find(|target| target["node"] == node.ready["node"]).unwrap();
        its["target"].as_str().unwrap().to_string()
    };
    let (a, d) = (target_of(&joined[0]), target_of(&joined[3]));
    let is_empty = |lost: &str| {
        let targets = listed(&manager, &place, "target");
        targets.iter().any(|target| target["target"] == lost && target["components_left"] == 0)
    };
    let rebuilt = |of: &Served| of.status()["upkeep"]["rebuilt_components"].as_u64().unwrap();
    for round in 0.. {
        assert!(round < 20, "only the manager's server rebuilds");
        let (lost, back) = if round % 2 == 0 { (&a, &d) } else { (&d, &a) };
        manager.ok(&place, &["target", "return", back]);
        manager.ok(&place, &["target", "fail", lost]);
        // A server counts what it did when it has heard that the manager knows.
        let (by_them, by_all) = loop {
            let is_empty = is_empty(lost);
            let by_them: u64 = joined.iter().map(rebuilt).sum();
            let by_all = by_them + rebuilt(&manager);
            if is_empty && by_all >= 12 * (round + 1) {
                break (by_them, by_all);
            }
        };
        assert_eq!(by_all, 12 * (round + 1), "after round {round}");
        if by_them > 0 {
            break;
        }
    }
    (0..12).for_each(|n| assert!(manager.ok(&place, &["get", &format!("/{n}"), "-"]) == bytes));
    // A node's own key is not enough.
    let own = place.path("a/node.key").display().to_string();
    joined.remove(0).stop();
    let dir = place.path("a").display().to_string();
    place.refused(&["serve", &dir, "--join", &manager.cluster, "--rebuild-key", &own], 1, &["rebuilding", "root's"]);
    joined.into_iter().for_each(Served::stop);
    manager.stop();
}

#[test]
fn a_node_serves_on_while_its_manager_is_away_and_reports_again_when_it_is_back() {
    let place = Place::new();
    let served = manager(&place, &["--raid", "0"]);
    let mut node = served.join(&place, "a");
    let mut said = BufReader::new(node.child.stderr.take().unwrap());
    let bytes = Dice(4).bytes(50_000_001);
    std::fs::write(place.path("in"), &bytes).unwrap();
    served.ok(&place, &["put", "in", "/x"]);
    // Nobody reads what it writes: it goes on when we do.
    let mut reader = served.command(&place, &["get", "/x", "-"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut got = vec![0; 1000];
    let mut out = reader.stdout.take().unwrap();
    out.read_exact(&mut got).unwrap();
    let (cluster, key) = (served.cluster.clone(), served.key.clone());
    served.kill();
    until(&mut said, "the manager is away");
    out.read_to_end(&mut got).unwrap();
    assert!(reader.wait().unwrap().success());
    assert!(got == bytes, "{} bytes", got.len());
    let address = cluster.trim_start_matches("forebay://").to_string();
    let served = Served::at(&place, "cluster", &["--nodes", "0", "--listen", &address]);
    assert_eq!((&served.cluster, &served.key), (&cluster, &key));
    until(&mut said, "the manager has this node again");
    assert!(served.ok(&place, &["get", "/x", "-"]) == bytes);
    // A node may be started before its manager, and waits for it.
    node.stop();
    served.kill();
    let dir = place.path("a").display().to_string();
    let mut waiting = place.start(&["serve", &dir, "--join", &cluster, "--json"]);
    until(&mut BufReader::new(waiting.stderr.take().unwrap()), "the manager is away");
    let served = Served::at(&place, "cluster", &["--nodes", "0", "--listen", &address]);
    let mut ready = String::new();
    BufReader::new(waiting.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    assert!(ready.contains(&cluster), "{ready}");
    assert!(served.ok(&place, &["get", "/x", "-"]) == bytes);
    // And whoever stops it does not wait for the manager.
    served.kill();
    signal(&waiting, "TERM");
    assert_eq!(waiting.wait().unwrap().code(), Some(0));
}

#[test]
fn a_node_that_says_goodbye_gets_no_new_files_and_one_that_waits_for_its_manager_can_be_stopped() {
    let place = Place::new();
    let served = manager(&place, &["--raid", "0"]);
    let (a, b) = (served.join(&place, "a"), served.join(&place, "b"));
    std::fs::write(place.path("in"), Dice(5).bytes(100_000)).unwrap();
    a.stop();
    for n in 0..8 {
        served.ok(&place, &["put", "in", &format!("/{n}")]);
    }
    let cluster = served.cluster.clone();
    served.kill();
    b.stop();
    let dir = place.path("b").display().to_string();
    let mut waiting = place.start(&["serve", &dir, "--join", &cluster]);
    until(&mut BufReader::new(waiting.stderr.take().unwrap()), "the manager is away");
    signal(&waiting, "TERM");
    assert_eq!(waiting.wait().unwrap().code(), Some(0));
}

#[test]
fn who_may_not_be_a_node_is_refused_and_told_what_to_do() {
    let place = Place::new();
    let served = manager(&place, &["--raid", "0"]);
    let dir = |name: &str| place.path(name).display().to_string();
    let join = |name: &str, options: &[&str], code: i32, words: &[&str]| {
        let dir = dir(name);
        place.refused(&[&["serve", &dir, "--join", &served.cluster, "--size", "64MiB"], options].concat(), code, words);
    };
    join("a", &[], 2, &["belongs to no cluster yet", "--access-key", "forebay node add"]);
    std::fs::write(place.path("wrong"), format!("forebay-key 1 0000000000000001 {}\n", "0".repeat(64))).unwrap();
    join("a", &["--access-key", "wrong"], 1, &["access key"]);
    join("a", &["--nodes", "3"], 2, &["--nodes"]);
    join("a", &["--data", "0.0.0.0:0"], 2, &["0.0.0.0:0"]);
    place.refused(&["serve", &dir("a"), "--join", "somewhere"], 2, &["forebay://HOST:PORT"]);
    // Its own key is enough, and only for itself.
    served.ok(&place, &["node", "add", "7", "--key", "seven.key"]);
    let failure = served.run(&place, &["node", "add", "7", "--key", "seven.key"]);
    assert!(String::from_utf8(failure.stderr).unwrap().contains("seven.key"));
    let own = ["--join", &served.cluster, "--access-key", "seven.key"];
    let seven = Served::at(&place, "a", &own);
    assert_eq!(seven.ready["node"], 7);
    let failure = served.failure(&place, &["node", "add", "7", "--key", "again.key"]);
    assert!(failure.contains("node 7 is there already"), "{failure}");
    let failure = served.failure(&place, &["node", "rm", "7"]);
    assert!(failure.contains("targets"), "{failure}");
    let failure = served.failure(&place, &["node", "add", "8", "--key", "eight.key", "--access-key", "seven.key"]);
    assert!(failure.contains("root"), "{failure}");
    seven.stop();
    // What is a manager's, or another cluster's, is not taken along.
    place.refused(&["serve", &dir("a"), "--listen", "127.0.0.1:0"], 2, &["node 7", "--join", &served.cluster]);
    place.refused(&["serve", &dir("cluster"), "--join", &served.cluster], 2, &["manager of its own"]);
    let other = Served::at(&place, "other", &["--nodes", "0", "--listen", "127.0.0.1:0"]);
    place.refused(&["serve", &dir("a"), "--join", &other.cluster], 1, &["access key", "node add 7", "node.key"]);
    other.stop();
    served.stop();
}

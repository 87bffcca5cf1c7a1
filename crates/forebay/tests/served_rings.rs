//! Rings of a cluster on the network through the binary: real processes, real sockets, real kills.

// A test drives the real program through real files and sockets.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::served::Served;
use common::{Place, signal};
use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::process::Stdio;
use std::time::{Duration, Instant};

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

fn values(served: &Served, place: &Place, args: &[&str]) -> Vec<serde_json::Value> {
    text(served.ok(place, args)).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn fed(served: &Served, place: &Place, args: &[&str], input: &[u8]) -> String {
    let mut child = served.command(place, args).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", text(output.stderr));
    text(output.stdout)
}

#[test]
fn lines_are_recorded_found_pinned_and_told_over_the_network_as_on_a_directory() {
    let place = Place::new();
    let served = Served::start(&place);
    served.ok(&place, &["mkdir", "/data"]);
    let created = ["ring", "create", "/data/lines", "--capacity", "32MiB", "--key", "first=bytes1@0"];
    assert!(text(served.ok(&place, &created)).contains("/data/lines"));
    let said = fed(&served, &place, &["record", "/data/lines", "--stdin", "lines"], b"alpha\nbeta\ngamma\n");
    assert!(said.contains("Recorded 3 elements") && said.contains("all of it is on disk"), "{said}");
    let query = |args: &[&str]| text(served.ok(&place, &[&["query", "/data/lines"], args].concat()));
    assert_eq!(query(&["--raw"]), "alphabetagamma");
    assert_eq!(query(&["first=\"b\"", "--raw"]), "beta");
    assert_eq!(query(&["--limit", "2", "--raw"]), "alphabeta");
    // The second session tells that there was another before it.
    fed(&served, &place, &["record", "/data/lines", "--stdin", "lines"], b"delta\n");
    let gaps = text(served.ok(&place, &["gaps", "/data/lines", "--json"]));
    assert!(gaps.contains("restart"), "{gaps}");
    let listed = text(served.ok(&place, &["ls", "/data", "--json"]));
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!((&listed["name"], &listed["type"]), (&"/data/lines".into(), &"ring".into()));
    let shown = text(served.ok(&place, &["ring", "show", "/data/lines", "--json"]));
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["name"], "/data/lines");
    for (args, said) in [
        (&["ring", "create", "/data/lines", "--capacity", "32MiB"][..], "lines"),
        (&["ring", "create", "/data/huge", "--capacity", "1TiB"], "free"),
        (&["ring", "create", "/data/quick", "--capacity", "32MiB", "--guarantee", "900GB/s"], "/s"),
        (&["query", "/data/nope"], "/data/nope"),
    ] {
        let failure = served.failure(&place, args);
        assert!(failure.contains(said), "{args:?}: {failure}");
    }
    for (args, said) in [(["query", "/data"].as_slice(), "directory"), (&["get", "/data/lines", "-"], "ring")] {
        let misuse = served.misuse(&place, args);
        assert!(misuse.contains(said), "{args:?}: {misuse}");
    }
    // What was refused left nothing behind.
    assert_eq!(text(served.ok(&place, &["ls", "/data", "--json"])).lines().count(), 1);
    served.ok(&place, &["ring", "delete", "/data/lines"]);
    assert_eq!(served.ok(&place, &["ls", "/data", "--json"]), b"");
    served.stop();
}

#[test]
fn a_tail_is_told_what_is_recorded_meanwhile() {
    let place = Place::new();
    let served = Served::start(&place);
    served.ok(&place, &["ring", "create", "/r", "--capacity", "32MiB"]);
    let tail = ["tail", "/r", "--raw"];
    let mut tail = served.command(&place, &tail).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut record = served
        .command(&place, &["record", "/r", "--stdin", "lines", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = record.stdin.take().unwrap();
    // A tail begins with what comes after it: so something comes until it says so.
    let mut out = BufReader::new(tail.stdout.take().unwrap());
    let writing = std::thread::spawn(move || while writeln!(input, "line").and_then(|()| input.flush()).is_ok() {});
    let mut first = [0; 4];
    std::io::Read::read_exact(&mut out, &mut first).unwrap();
    assert_eq!(&first, b"line");
    signal(&tail, "TERM");
    // It ends by itself, whatever still comes.
    std::io::copy(&mut out, &mut std::io::sink()).unwrap();
    assert!(tail.wait().unwrap().code().is_some(), "it ends in order");
    signal(&record, "TERM");
    assert!(record.wait().unwrap().success(), "it ends in order");
    writing.join().unwrap();
    served.stop();
}

#[test]
fn a_ring_with_parity_over_three_nodes_is_recorded_and_answers_the_same_without_one_of_them() {
    let place = Place::new();
    let served = Served::start(&place);
    let [one, two] = ["one", "two"].map(|dir| served.join(&place, dir));
    let create = ["ring", "create", "/wide", "--capacity", "64MiB", "--targets", "2", "--parity"];
    let create = [&create[..], &["--flush-interval", "100ms", "--block", "64KiB"]].concat();
    assert!(text(served.ok(&place, &create)).contains("/wide"));
    let lines: String = (0..20_000).map(|line| format!("line {line}\n")).collect();
    let said = fed(&served, &place, &["record", "/wide", "--stdin", "lines"], lines.as_bytes());
    assert!(said.contains("all of it is on disk"), "{said}");
    let query = || text(served.ok(&place, &["query", "/wide", "--raw"]));
    let all = query();
    assert_eq!(all.len(), lines.len() - 20_000);
    let shown = text(served.ok(&place, &["ring", "show", "/wide", "--json"]));
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["elements"], 20_000, "{shown}");
    assert!(served.misuse(&place, &["query", "/wide", "seq > 5"]).contains("several targets"));
    // Who watches is shown what comes from now on: it is recorded until that was shown.
    let tail = served.command(&place, &["tail", "/wide", "--limit", "1", "--raw"]).stdout(Stdio::piped()).spawn();
    let mut tail = tail.unwrap();
    let mut later = String::new();
    while tail.try_wait().unwrap().is_none() {
        fed(&served, &place, &["record", "/wide", "--stdin", "lines"], b"later\n");
        later += "later";
    }
    assert_eq!(text(tail.wait_with_output().unwrap().stdout), "later");
    let all = all + &later;
    let pinned = ["pin", "/wide", "--from", "1h ago", "--to", "now", "--label", "kept"];
    served.ok(&place, &pinned);
    assert_eq!(query(), all, "in the order of recording each time");
    one.kill();
    assert_eq!(query(), all, "what the others have makes up for it");
    drop(two);
    served.stop();
}

#[test]
fn all_rings_of_the_tree_are_listed_with_their_parts_also_while_a_node_is_away() {
    let place = Place::new();
    let served = Served::start(&place);
    assert!(text(served.ok(&place, &["ring", "list"])).contains("No rings yet"));
    let [one, two] = ["one", "two"].map(|dir| served.join(&place, dir));
    let wide = ["ring", "create", "/wide", "--capacity", "64MiB", "--targets", "2", "--parity", "--guarantee", "1MB/s"];
    served.ok(&place, &wide);
    served.ok(&place, &["mkdir", "/deep"]);
    served.ok(&place, &["mkdir", "/deep/er"]);
    served.ok(&place, &["ring", "create", "/deep/er/lines", "--capacity", "32MiB"]);
    fed(&served, &place, &["record", "/wide", "--stdin", "lines"], b"alpha\nbeta\n");
    served.ok(&place, &["pin", "/wide", "--from", "1h ago", "--to", "now", "--label", "kept"]);
    let list = ["ring", "list", "--json"];
    let all = values(&served, &place, &list);
    assert_eq!(all.iter().map(|ring| &ring["name"]).collect::<Vec<_>>(), ["/deep/er/lines", "/wide"]);
    assert_eq!((&all[1]["elements"], &all[1]["state"]), (&2.into(), &"ready".into()), "{all:?}");
    let parts = all[1]["parts"].as_array().unwrap();
    assert_eq!(parts.iter().map(|part| &part["has"]).collect::<Vec<_>>(), ["elements", "elements", "parity"]);
    assert!(parts.iter().all(|part| part["state"] == "held"), "{parts:?}");
    assert!(parts.iter().all(|part| part["guarantee_bytes_per_second"].as_u64() >= Some(500_000)), "{parts:?}");
    assert!(text(served.ok(&place, &["ring", "list"])).contains("3 held"));
    // Of all rings, and so of those that the tree has.
    assert_eq!(values(&served, &place, &["pins", "--json"])[0]["ring"], "/wide");
    let gone = values(&served, &place, &["node", "list", "--json"])
        .into_iter()
        .find(|node| node["address"] == one.ready["data"][0])
        .unwrap();
    one.kill();
    let target = gone["targets"][0].as_str().unwrap();
    let listed = text(served.ok(&place, &["ring", "list"]));
    assert!(listed.contains("2 held, 1 absent") && listed.contains("/deep/er/lines"), "{listed}");
    assert!(listed.contains(&format!("Target {target} of node {} could not be asked", gone["node"])), "{listed}");
    let all = values(&served, &place, &list);
    assert_eq!((all.len(), &all[1]["state"]), (2, &"ready".into()), "the others say how it is: {all:?}");
    let shown = text(served.ok(&place, &["ring", "show", "/wide"]));
    assert!(shown.contains("absent") && shown.contains("parity") && shown.contains("could not be asked"), "{shown}");
    served.ok(&place, &["target", "fail", target]);
    let lost =
        |shown: &serde_json::Value| shown["parts"].as_array().unwrap().iter().any(|part| part["state"] == "lost");
    // The manager finds out ring by ring what was there.
    while !lost(&values(&served, &place, &["ring", "show", "/wide", "--json"])[0]) {}
    let listed = text(served.ok(&place, &["ring", "list"]));
    assert!(listed.contains("2 held, 1 lost") && !listed.contains("/wide: "), "{listed}");
    drop(two);
    served.stop();
}

#[test]
fn what_a_ring_on_one_target_was_made_for_is_told_while_its_node_is_away() {
    let place = Place::new();
    let served = Served::with(&place, &["--size", "64MiB"]);
    let one = served.join(&place, "one");
    served.ok(&place, &["ring", "create", "/r", "--capacity", "128MiB"]);
    one.kill();
    let ring = values(&served, &place, &["ring", "list", "--json"]).remove(0);
    assert_eq!((&ring["name"], &ring["state"], &ring["elements"]), (&"/r".into(), &"away".into(), &().into()));
    assert!(ring["capacity_bytes"].as_u64() >= Some(128 << 20) && ring["parts"][0]["state"] == "absent", "{ring}");
    let output = served.run(&place, &["ring", "show", "/r"]);
    let (shown, said) = (text(output.stdout), text(output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        shown.contains("/r  away") && shown.contains("absent") && said.contains("cannot be reached"),
        "{shown}{said}"
    );
    served.stop();
}

#[test]
fn rings_on_other_targets_are_pinned_along_with_a_ring_and_let_go_of_with_it() {
    let place = Place::new();
    let served = Served::start(&place);
    let [one, two] = ["one", "two"].map(|dir| served.join(&place, dir));
    for name in ["/a", "/b", "/empty"] {
        served.ok(&place, &["ring", "create", name, "--capacity", "32MiB", "--block", "64KiB"]);
    }
    let wide = ["ring", "create", "/wide", "--capacity", "64MiB", "--targets", "2", "--parity", "--block", "64KiB"];
    served.ok(&place, &wide);
    std::fs::write(place.path("in"), b"a file").unwrap();
    served.ok(&place, &["put", "in", "/file"]);
    for name in ["/a", "/b", "/wide"] {
        fed(&served, &place, &["record", name, "--stdin", "lines"], b"alpha\nbeta\n");
    }
    let pin = |ring: &str| {
        let args = ["pin", ring, "--from", "1h ago", "--label", "kept", "--json"];
        values(&served, &place, &args).remove(0)
    };
    let pins = |ring: &str| values(&served, &place, &["pins", ring, "--json"]);
    let related = |args: &[&str]| {
        let args = [&["ring", "relate"], args, &["--json"]].concat();
        values(&served, &place, &args).remove(0)["relatives"].clone()
    };
    assert_eq!(related(&["/a", "/b", "/wide", "/empty"]), serde_json::json!(["/b", "/wide", "/empty"]));
    let own = pin("/b");
    let both = pin("/a");
    let along: Vec<&str> =
        both["relatives"].as_array().unwrap().iter().map(|one| one["ring"].as_str().unwrap()).collect();
    assert_eq!(along, ["/b", "/wide"], "{both}");
    assert_eq!((pins("/b").len(), pins("/wide").len(), pins("/empty").len()), (2, 1, 0));
    assert_eq!(pins("/a")[0]["relatives"], both["relatives"]);
    served.ok(&place, &["unpin", "/a", &both["id"].to_string()]);
    assert_eq!((pins("/a").len(), pins("/wide").len()), (0, 0));
    assert_eq!(pins("/b").iter().map(|pin| &pin["id"]).collect::<Vec<_>>(), [&own["id"]], "which was made without it");
    // They are the same rings under other names, and one that is gone is passed over.
    served.ok(&place, &["mv", "/wide", "/broad"]);
    let shown = || values(&served, &place, &["ring", "show", "/a", "--json"]).remove(0)["relatives"].clone();
    assert_eq!(shown(), serde_json::json!(["/b", "/broad", "/empty"]));
    served.ok(&place, &["ring", "delete", "/b"]);
    assert_eq!(shown(), serde_json::json!(["/broad", "/empty"]));
    let listed = values(&served, &place, &["ring", "list", "--json"]);
    assert_eq!(listed[0]["relatives"], shown(), "{listed:?}");
    assert_eq!(pin("/a")["relatives"].as_array().unwrap().len(), 1);
    served.ok(&place, &["ring", "create", "/c", "--capacity", "32MiB", "--block", "64KiB", "--relative", "/broad"]);
    assert_eq!(values(&served, &place, &["ring", "show", "/c", "--json"])[0]["relatives"][0], "/broad");
    for (args, said) in [
        (&["/a", "/a"][..], "its own relative"),
        (&["/a", "/c", "/c"], "named twice"),
        (&["/a", "/file"], "/file"),
        (&["/a"], "--none"),
    ] {
        let misuse = served.misuse(&place, &[&["ring", "relate"], args].concat());
        assert!(misuse.contains(said), "{args:?}: {misuse}");
    }
    assert!(served.failure(&place, &["ring", "relate", "/a", "/nope"]).contains("/nope"));
    // Who may not pin a relative pins nothing along, and nothing at all.
    served.ok(&place, &["user", "set", "7", "--name", "eve", "--group", "7"]);
    served.ok(&place, &["keys", "issue", "eve.key", "--user", "eve"]);
    served.ok(&place, &["chown", "eve", "/c"]);
    fed(&served, &place, &["record", "/c", "--stdin", "lines"], b"alpha\n");
    let refused = served.failure(&place, &["pin", "/c", "--from", "1h ago", "--access-key", "eve.key"]);
    assert!(refused.contains("relative"), "{refused}");
    assert_eq!(pins("/c").len(), 0);
    assert_eq!(related(&["/c", "--none"]), serde_json::json!([]));
    served.ok(&place, &["pin", "/c", "--from", "1h ago", "--access-key", "eve.key"]);
    // With a part away it is not known what all of them keep.
    one.kill();
    served.failure(&place, &["ring", "relate", "/broad", "/a", "--wait", "1s"]);
    drop(two);
    served.stop();
}

#[test]
fn a_datagram_too_large_for_a_ring_with_parity_is_a_gap_and_ends_no_recording() {
    let place = Place::new();
    let served = Served::start(&place);
    let _others = ["one", "two"].map(|dir| served.join(&place, dir));
    let create = ["ring", "create", "/small", "--capacity", "64MiB", "--targets", "2", "--parity", "--block", "16KiB"];
    served.ok(&place, &create);
    let free = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let record = ["record", "/small", "--udp", &address, "--count", "3", "--json"];
    let mut record = served.command(&place, &record).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // Once it says how it goes, it listens.
    let mut lines = BufReader::new(record.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    for length in [100, 40_000, 1000, 60_000, 10] {
        sender.send_to(&vec![7; length], &address).unwrap();
    }
    let last = lines.map(Result::unwrap).last().unwrap();
    let output = record.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(output.stderr));
    let summary: serde_json::Value = serde_json::from_str(&last).unwrap();
    let rejected = &summary["losses"]["rejected"]["elements"];
    assert_eq!((&summary["elements"], rejected), (&3.into(), &2.into()), "{last}");
    assert_eq!(served.ok(&place, &["query", "/small", "--raw"]).len(), 1110);
    assert!(text(served.ok(&place, &["gaps", "/small", "--json"])).contains("rejected"));
    served.stop();
}

#[test]
fn who_records_leaves_a_target_that_drains_without_a_gap_and_all_is_read_from_both_places() {
    let place = Place::new();
    let served = Served::start(&place);
    let create = ["ring", "create", "/r", "--capacity", "64MiB"];
    served.ok(&place, &[&create[..], &["--flush-interval", "100ms", "--block", "64KiB"]].concat());
    // It is smaller, so that other segments fit it.
    let other = served.join(&place, "other");
    let parts = || {
        let shown = values(&served, &place, &["ring", "show", "/r", "--json"]).remove(0);
        let part = |part: &serde_json::Value| {
            (part["target"].as_str().unwrap().to_string(), part["state"].as_str().unwrap().to_string())
        };
        shown["parts"].as_array().unwrap().iter().map(part).collect::<Vec<_>>()
    };
    let [(first, _)] = &parts()[..] else { panic!("it lies on one target") };
    let args = ["record", "/r", "--stdin", "lines"];
    let mut recorder = served.command(&place, &args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, mut recorded) = (recorder.stdin.take().unwrap(), String::new());
    let mut feed = |recorded: &mut String| {
        let line = format!("line {}\n", recorded.len());
        input.write_all(line.as_bytes()).unwrap();
        *recorded += line.trim_end();
    };
    feed(&mut recorded);
    served.ok(&place, &["target", "drain", first]);
    let end = Instant::now() + Duration::from_secs(300);
    let two = loop {
        let now = parts();
        if now.len() == 2 {
            break now;
        }
        assert!(Instant::now() < end, "{now:?}");
        feed(&mut recorded);
    };
    assert_eq!((&two[1].0, two[0].1.as_str(), two[1].1.as_str()), (first, "held", "left"));
    assert_ne!(&two[0].0, first);
    (0..1000).for_each(|_| feed(&mut recorded));
    drop(input);
    let output = recorder.wait_with_output().unwrap();
    let said = text(output.stdout);
    assert!(output.status.success() && said.contains("all of it is on disk"), "{said}");
    let query = |args: &[&str]| text(served.ok(&place, &[&["query", "/r", "--raw"], args].concat()));
    assert_eq!(query(&[]), recorded);
    assert_eq!(served.ok(&place, &["gaps", "/r", "--json"]), b"", "nothing is missing");
    // Numbers go on: the first is where the ring was.
    assert_eq!(query(&["seq < 1"]), "line 0");
    let list = values(&served, &place, &["target", "list", "--json"]);
    let drained = list.iter().find(|target| target["target"] == first.as_str()).unwrap();
    assert_eq!(drained["components_left"].as_u64().map(|left| left > 0), Some(true), "{drained}");
    // Whoever records next goes on there.
    assert!(fed(&served, &place, &args, b"later\n").contains("all of it is on disk"));
    assert_eq!(query(&[]), recorded + "later");
    drop(other);
    served.stop();
}

#[test]
fn a_ring_that_nobody_records_into_is_copied_from_a_target_that_drains_and_answers_the_same() {
    let place = Place::new();
    let served = Served::start(&place);
    let other = served.join(&place, "other");
    // Its segments fit every target.
    let create = ["ring", "create", "/r", "--capacity", "64MiB", "--segment", "1MiB", "--block", "64KiB"];
    served.ok(&place, &[&create[..], &["--key", "first=bytes1@0"]].concat());
    let lines: String = (0..50_000).map(|line| format!("{} line {line}\n", line % 7)).collect();
    let record = ["record", "/r", "--stdin", "lines"];
    assert!(fed(&served, &place, &record, lines.as_bytes()).contains("all of it is on disk"));
    served.ok(&place, &["pin", "/r", "--from", "1h ago"]);
    let part = || {
        let shown = values(&served, &place, &["ring", "show", "/r", "--json"]).remove(0);
        let parts = shown["parts"].as_array().unwrap().clone();
        assert_eq!(parts.len(), 1, "{parts:?}");
        (parts[0]["target"].as_str().unwrap().to_string(), shown["pins"].clone())
    };
    let query = |args: &[&str]| text(served.ok(&place, &[&["query", "/r", "--raw"], args].concat()));
    // What came too fast was dropped, and a gap tells that.
    let gaps = || text(served.ok(&place, &["gaps", "/r", "--json"]));
    let (all, some, dropped) = (query(&[]), query(&["first = \"3\""]), gaps());
    assert!(some.len() > 10_000 && some.len() < all.len() / 5);
    let (first, pins) = part();
    served.ok(&place, &["target", "drain", &first]);
    let end = Instant::now() + Duration::from_secs(300);
    let (second, pins_there) = loop {
        let now = part();
        if now.0 != first {
            break now;
        }
        assert!(Instant::now() < end, "it stays");
        std::thread::yield_now();
    };
    assert_eq!(pins_there, pins, "{first} to {second}");
    assert_eq!((query(&[]), query(&["first = \"3\""]), gaps()), (all.clone(), some, dropped));
    assert!(fed(&served, &place, &record, b"later\n").contains("all of it is on disk"));
    assert_eq!(query(&[]), all + "later");
    drop(other);
    served.stop();
}

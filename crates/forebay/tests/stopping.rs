//! What is stopped ends in order, and says so; what cannot be answered is not waited for for ever.

// A test drives the real program through real files.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::Place;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command};

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap().success());
}

/// Whether the process is stopped, as its machine says.
fn is_stopped(child: &Child) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    stat.rsplit_once(") ").unwrap().1.starts_with('T')
}

#[test]
fn a_recording_that_is_stopped_has_everything_on_disk_that_it_accepted() {
    let place = Place::formatted("256MiB");
    place.ok(&["ring", "create", "/r", "--capacity", "64MiB"]);
    let mut before = 0;
    for name in ["INT", "TERM"] {
        let mut recording = place.start(&["record", "/r", "--generate", "3MB/s,333", "--json"]);
        let mut lines = BufReader::new(recording.stdout.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        assert!(first.contains("\"progress\""), "{first}");
        signal(&recording, name);
        let last = lines.map(Result::unwrap).last().unwrap();
        assert_eq!(recording.wait().unwrap().code(), Some(0), "{name} ends it in order");
        let summary: serde_json::Value = serde_json::from_str(&last).unwrap();
        assert_eq!(summary["type"], "summary");
        assert_eq!(summary["durable_blocks"], summary["blocks"]);
        let elements = summary["elements"].as_u64().unwrap();
        assert!(elements > 1000, "{last}");
        assert_eq!(place.count("/r", ""), before + elements, "{name}: all of them");
        before += elements;
    }
}

#[test]
fn an_element_that_is_under_way_when_recording_is_stopped_is_a_gap() {
    let place = Place::formatted("256MiB");
    place.ok(&["ring", "create", "/r", "--capacity", "64MiB"]);
    let mut recording = place.start(&["record", "/r", "--stdin", "raw:8MiB", "--json"]);
    let mut input = recording.stdin.take().unwrap();
    let mut lines = BufReader::new(recording.stdout.take().unwrap()).lines();
    std::io::Write::write_all(&mut input, &vec![7; 12 << 20]).unwrap();
    // Four more have been taken in when a block of the second element is on its way.
    let sent = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["blocks"].as_u64().unwrap();
    while sent(&lines.next().unwrap().unwrap()) < 10 {}
    signal(&recording, "INT");
    let last = lines.map(Result::unwrap).last().unwrap();
    assert_eq!(recording.wait().unwrap().code(), Some(0));
    let summary: serde_json::Value = serde_json::from_str(&last).unwrap();
    assert_eq!((&summary["elements"], &summary["losses"]["restart"]["elements"]), (&1.into(), &1.into()), "{last}");
    assert_eq!(place.ok(&["query", "/r", "--raw"]).len(), 8 << 20);
}

#[test]
fn a_query_that_is_stopped_says_so() {
    let place = Place::formatted("256MiB");
    place.ok(&["ring", "create", "/r", "--capacity", "64MiB"]);
    place.ok(&["record", "/r", "--generate", "max,64KiB", "--count", "500"]);
    let mut query = place.start(&["query", "/r", "--hex"]);
    let mut output = BufReader::new(query.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    signal(&query, "INT");
    // It writes what it has found, and no more.
    output.read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(query.wait().unwrap().code(), Some(1));
    let mut said = String::new();
    query.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("forebay: the query of /r was stopped before its end"), "{said}");
}

#[test]
fn a_process_that_is_stopped_is_named_and_waited_for_as_long_as_is_allowed() {
    let place = Place::formatted("256MiB");
    place.ok(&["ring", "create", "/r", "--capacity", "32MiB"]);
    let mut owner = place.start(&["record", "/r", "--stdin", "lines"]);
    BufReader::new(owner.stderr.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    signal(&owner, "STOP");
    while !is_stopped(&owner) {}
    let pid = format!("process {}", owner.id());
    place.refused(&["status", "--wait", "500ms"], 1, &[&pid, "is stopped", "kill -CONT", "since "]);
    place.refused(&["ring", "list", "--wait", "soon"], 2, &["not a length of time"]);
    // Who waits longer is told first, and is answered once the other goes on.
    let mut waiting = place.start(&["status"]);
    let mut said = String::new();
    BufReader::new(waiting.stderr.as_mut().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains(&pid) && said.contains("is stopped"), "{said}");
    signal(&owner, "CONT");
    assert_eq!(waiting.wait().unwrap().code(), Some(0));
    drop(owner.stdin.take());
    assert!(owner.wait().unwrap().success());
}

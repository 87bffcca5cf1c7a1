//! Objects by name, through the real binary: what was put is there byte for byte, and nothing else is.

// A test drives the real program through real files.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::{Dice, Place, signal};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};

/// Bytes that follow from `seed`, and look like none other.
fn content(seed: u64, length: usize) -> Vec<u8> {
    Dice(seed).bytes(length)
}

/// A recorder in a process of its own, which so has the targets and serves others.
fn recording(place: &Place, ring: &str) -> Child {
    let mut owner = place.command(&["record", ring, "--stdin", "lines"]).stdin(Stdio::piped()).spawn().unwrap();
    BufReader::new(owner.stderr.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    owner
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text.trim()).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn put_and_get(place: &Place, name: &str, bytes: &[u8]) {
    std::fs::write(place.path("in"), bytes).unwrap();
    let said = json(&place.ok(&["put", "in", name, "--json"]));
    assert_eq!(said["size_bytes"], bytes.len());
    let said = json(&place.ok(&["get", name, "out", "--force", "--json"]));
    assert_eq!((&said["name"], &said["bytes"]), (&name.into(), &bytes.len().into()));
    assert!(std::fs::read(place.path("out")).unwrap() == bytes, "{name} came back as something else");
}

const SIZES: [usize; 6] = [0, 1, 4095, 4096, (1 << 20) + 7, 40 << 20];

#[test]
fn what_is_put_comes_back_byte_for_byte_whoever_serves_it() {
    let place = Place::formatted("512MiB");
    for size in SIZES {
        put_and_get(&place, &format!("/own/{size}"), &content(size as u64, size));
    }
    place.ok(&["ring", "create", "/r", "--capacity", "64MiB"]);
    // A recorder of the same cluster is at work meanwhile, and serves what is asked.
    let mut owner = recording(&place, "/r");
    let mut lines = owner.stdin.take().unwrap();
    for size in SIZES {
        writeln!(lines, "before {size}").unwrap();
        put_and_get(&place, &format!("/guest/{size}"), &content(size as u64 + 1, size));
    }
    drop(lines);
    assert!(owner.wait().unwrap().success());
    assert_eq!(place.count("/r", ""), SIZES.len() as u64);
    for size in SIZES {
        let bytes = place.run(&["get", &format!("/guest/{size}"), "-"]).stdout;
        assert!(bytes == content(size as u64 + 1, size), "{size} bytes, after the process that took them in");
    }
    assert_eq!(place.ok(&["ls", "/guest", "--json"]).lines().count(), SIZES.len());
    assert_eq!(place.ok(&["check"]).lines().last(), Some("Sound."));
}

#[test]
fn a_part_of_an_object_is_what_lies_there_and_ends_where_the_object_ends() {
    let place = Place::formatted("256MiB");
    let bytes = content(3, (9 << 20) + 5);
    place.ok_fed(&["put", "-", "/x"], &bytes);
    let parts = [(0, 1), (1, 4096), (4095, 2), ((4 << 20) - 3, 5 << 20), ((9 << 20) + 4, 100), (9 << 21, 7)];
    for (offset, length) in parts {
        let args = ["get", "/x", "-", "--offset", &offset.to_string(), "--length", &length.to_string()];
        let (from, to) = (offset.min(bytes.len()), (offset + length).min(bytes.len()));
        assert!(place.run(&args).stdout == bytes[from..to], "{length} bytes at {offset}");
    }
    assert!(place.run(&["get", "/x", "-", "--offset", "1MiB"]).stdout == bytes[1 << 20..]);
}

#[test]
fn names_are_listed_shown_replaced_and_removed() {
    let place = Place::formatted("256MiB");
    assert!(place.ok(&["ls"]).contains("Nothing here"));
    for name in ["/b", "/a/2", "/a/1", "/ab"] {
        place.ok_fed(&["put", "-", name], name.as_bytes());
    }
    place.ok(&["ring", "create", "/a/ring", "--capacity", "32MiB"]);
    let names = |args: &[&str]| -> Vec<(String, String)> {
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_string();
        let lines = place.ok(args);
        lines.lines().map(json).map(|value| (text(&value["type"]), text(&value["name"]))).collect()
    };
    let of = |what: &str, name: &str| (what.to_string(), name.to_string());
    let under_a = [of("ring", "/a/ring"), of("object", "/a/1"), of("object", "/a/2")];
    assert_eq!(names(&["ls", "/a", "--json"]), under_a);
    assert_eq!(names(&["ls", "/a/", "--json"]), under_a);
    assert_eq!(names(&["ls", "--json"]).len(), 5);
    assert_eq!(names(&["ls", "/nothing", "--json"]), []);
    let table = place.ok(&["ls"]);
    assert!(table.lines().nth(1).unwrap().starts_with("/a/1"), "{table}");
    // Replaced as a whole, and the space of what it was is free.
    let before = json(&place.ok(&["stat", "/b", "--json"]));
    place.ok_fed(&["put", "-", "/b", "--force"], &content(1, 5 << 20));
    let after = json(&place.ok(&["stat", "/b", "--json"]));
    assert_eq!((&before["size_bytes"], &after["size_bytes"]), (&2.into(), &(5 << 20).into()));
    assert_ne!(before["object"], after["object"]);
    assert!(place.run(&["get", "/b", "-"]).stdout == content(1, 5 << 20));
    assert!(place.ok(&["stat", "/b"]).contains("5 242 880 bytes"));
    place.ok(&["rm", "/b"]);
    place.refused(&["stat", "/b"], 1, &["there is no object /b", "forebay ls"]);
    assert_eq!(names(&["ls", "--json"]).len(), 4);
    assert_eq!(json(&place.ok(&["rm", "/ab", "--json"]))["removed"], "/ab");
}

#[test]
fn a_snapshot_is_what_the_object_was_whatever_becomes_of_it() {
    let place = Place::formatted("256MiB");
    let (large, small) = (content(5, (5 << 20) + 7), content(6, 100));
    place.ok_fed(&["put", "-", "/large"], &large);
    place.ok_fed(&["put", "-", "/small"], &small);
    let made = json(&place.ok(&["snapshot", "/large", "/old/large", "--json"]));
    assert_eq!((&made["name"], &made["size_bytes"]), (&"/old/large".into(), &large.len().into()));
    let shown = json(&place.ok(&["stat", "/old/large", "--json"]));
    assert_eq!(shown, made);
    place.ok(&["ring", "create", "/r", "--capacity", "32MiB"]);
    // The other one is made by a process that has the targets.
    let mut owner = recording(&place, "/r");
    let said = place.ok(&["snapshot", "/small", "/old/small"]);
    assert_eq!(said.trim(), "/old/small is what /small is now, 100 B.");
    place.ok_fed(&["put", "-", "/large", "--force"], b"something else");
    place.ok(&["rm", "/small"]);
    drop(owner.stdin.take());
    assert!(owner.wait().unwrap().success());
    assert!(place.run(&["get", "/old/large", "-"]).stdout == large);
    assert!(place.run(&["get", "/old/small", "-"]).stdout == small);
    assert_eq!(place.run(&["get", "/large", "-"]).stdout, b"something else");
    place.refused(&["snapshot", "/large", "/old/large"], 1, &["/old/large exists already"]);
    place.refused(&["snapshot", "/large", "/large"], 1, &["/large exists already"]);
    place.refused(&["snapshot", "/small", "/x"], 1, &["there is no object /small"]);
    place.refused(&["snapshot", "/large", "/r"], 1, &["/r is a ring"]);
    place.refused(&["snapshot", "/r", "/x"], 2, &["/r is a ring"]);
    place.refused(&["snapshot", "/large", "x"], 2, &["is not a name"]);
    assert!(place.run(&["get", "/old/large", "-"]).stdout == large);
    let there = place.ok(&["ls", "--json"]);
    assert_eq!(there.lines().count(), 4, "{there}");
    assert_eq!(place.ok(&["check"]).lines().last(), Some("Sound."));
}

#[test]
fn what_cannot_be_done_is_refused_with_what_helps_and_changes_nothing() {
    let place = Place::formatted("256MiB");
    place.ok(&["ring", "create", "/ring", "--capacity", "32MiB"]);
    place.ok_fed(&["put", "-", "/x"], b"as it was");
    std::fs::write(place.path("file"), b"there").unwrap();
    std::fs::create_dir(place.path("folder")).unwrap();
    place.refused(&["get", "/y", "out"], 1, &["there is no object /y"]);
    assert!(!place.path("out").exists());
    place.refused(&["rm", "/y"], 1, &["there is no object /y"]);
    place.refused(&["put", "file", "/x"], 1, &["/x exists already", "--force"]);
    place.refused(&["put", "file", "/ring"], 1, &["/ring is a ring"]);
    place.refused(&["put", "file", "/ring", "--force"], 1, &["/ring is a ring"]);
    place.refused(&["stat", "/ring"], 2, &["/ring is a ring", "forebay ring show /ring"]);
    place.refused(&["rm", "/ring"], 2, &["/ring is a ring", "forebay ring delete /ring"]);
    place.refused(&["ring", "create", "/x", "--capacity", "32MiB"], 1, &["/x is an object"]);
    place.refused(&["put", "nowhere", "/z"], 1, &["nowhere", "does not exist"]);
    place.refused(&["put", "folder", "/z"], 2, &["folder is a directory"]);
    place.refused(&["get", "/x", "file"], 1, &["file exists already", "--force"]);
    place.refused(&["get", "/x", "-", "--offset", "soon"], 2, &["not a size"]);
    for bad in ["x", "/", "/a//b", "/a/../b", "/a\tb", &format!("/{}", "x".repeat(255))] {
        place.refused(&["put", "file", bad], 2, &["is not a name"]);
        place.refused(&["get", bad, "-"], 2, &["is not a name"]);
    }
    assert_eq!(place.run(&["get", "/x", "-"]).stdout, b"as it was");
    assert_eq!(std::fs::read(place.path("file")).unwrap(), b"there");
    let there = place.ok(&["ls", "--json"]);
    assert_eq!(there.lines().count(), 2, "{there}");
}

#[test]
fn a_target_that_is_full_refuses_what_does_not_fit_and_keeps_the_rest() {
    let place = Place::formatted("128MiB");
    place.ok_fed(&["put", "-", "/small"], &content(1, 100_000));
    std::fs::write(place.path("big"), content(2, 160 << 20)).unwrap();
    place.refused(&["put", "big", "/big"], 1, &["remove"]);
    let there = place.ok(&["ls", "--json"]);
    assert_eq!(there.lines().count(), 1, "nothing of it stays: {there}");
    assert!(place.run(&["get", "/small", "-"]).stdout == content(1, 100_000));
    // Its space is free again.
    put_and_get(&place, "/next", &content(3, 20 << 20));
}

#[test]
fn a_put_that_is_stopped_leaves_nothing_and_what_had_the_name_stays() {
    let place = Place::formatted("256MiB");
    for (name, force) in [("/fresh", false), ("/old", true)] {
        if force {
            place.ok_fed(&["put", "-", name], b"as it was");
        }
        let args = ["put", "-", name, "--force"];
        let mut put = place.start(&args[..if force { 4 } else { 3 }]);
        let mut input = put.stdin.take().unwrap();
        // When the last of it goes in, the first is under way.
        input.write_all(&content(1, 12 << 20)).unwrap();
        signal(&put, "INT");
        let output = put.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("putting {name} was stopped")), "{said}");
        drop(input);
    }
    let there = place.ok(&["ls", "--json"]);
    assert_eq!(there.lines().count(), 1, "{there}");
    assert_eq!(place.run(&["get", "/old", "-"]).stdout, b"as it was");
}

#[test]
fn what_a_killed_put_leaves_is_named_and_can_be_removed() {
    let place = Place::formatted("256MiB");
    place.ok(&["ring", "create", "/r", "--capacity", "32MiB"]);
    let mut owner = recording(&place, "/r");
    let mut put = place.start(&["put", "-", "/x"]);
    let mut input = put.stdin.take().unwrap();
    input.write_all(&content(1, 24 << 20)).unwrap();
    put.kill().unwrap();
    put.wait().unwrap();
    place.refused(&["get", "/x", "-"], 1, &["there is no object /x"]);
    let left = json(place.ok(&["ls", "--json"]).lines().last().unwrap());
    assert_eq!((&left["type"], &left["name"]), (&"unfinished".into(), &"/x".into()));
    let listed = place.run(&["ls"]);
    let said = String::from_utf8_lossy(&listed.stderr);
    assert!(said.contains("forebay rm --unfinished /x") && said.contains("ends puts that are under way"), "{said}");
    // Wherever its lines break.
    let help: Vec<String> = place.ok(&["rm", "--help"]).split_whitespace().map(String::from).collect();
    assert!(help.join(" ").contains("puts that are under way now are ended"), "{help:?}");
    assert!(place.ok(&["rm", "--unfinished", "/x"]).starts_with("Removed 1 object in "));
    assert_eq!(place.ok(&["ls", "--json"]).lines().count(), 1, "the ring");
    drop(owner.stdin.take());
    assert!(owner.wait().unwrap().success());
}

#[test]
fn a_put_goes_on_when_the_process_that_serves_it_is_killed_and_what_was_acknowledged_is_there() {
    let place = Place::formatted("512MiB");
    place.ok(&["ring", "create", "/r", "--capacity", "32MiB"]);
    let mut acknowledged = 0;
    for life in 0..4_u64 {
        let mut owner = recording(&place, "/r");
        for n in 0..3 {
            let name = format!("/life/{life}/{n}");
            place.ok_fed(&["put", "-", &name], &content(life * 10 + n, 70_000 * n as usize + 5));
            acknowledged += 1;
        }
        let mut put = place.start(&["put", "-", &format!("/life/{life}/3")]);
        let bytes = content(life * 10 + 3, 30 << 20);
        let (first, rest) = bytes.split_at((life as usize * 5 + 9) << 20);
        let mut input = put.stdin.take().unwrap();
        input.write_all(first).unwrap();
        owner.kill().unwrap();
        owner.wait().unwrap();
        input.write_all(rest).unwrap();
        drop(input);
        let output = put.wait_with_output().unwrap();
        assert!(output.status.success(), "life {life}: {}", String::from_utf8_lossy(&output.stderr));
        acknowledged += 1;
    }
    for life in 0..4_u64 {
        for n in 0..4 {
            let length = if n == 3 { 30 << 20 } else { 70_000 * n as usize + 5 };
            let bytes = place.run(&["get", &format!("/life/{life}/{n}"), "-"]).stdout;
            assert!(bytes == content(life * 10 + n, length), "/life/{life}/{n}: {} bytes", bytes.len());
        }
    }
    let there = place.ok(&["ls", "/life", "--json"]);
    assert_eq!(there.lines().count(), acknowledged, "{there}");
    assert_eq!(place.ok(&["check"]).lines().last(), Some("Sound."));
}

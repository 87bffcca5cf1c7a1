//! The way of data through the binary: in, kept, found, out.

// A test drives the real program through real files.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::{Place, pcap};
use std::io::{BufRead, BufReader, Write};

#[test]
fn lines_from_standard_input_are_kept_found_and_exported() {
    let place = Place::formatted("256MiB");
    place.ok(&["ring", "create", "/lines", "--capacity", "32MiB", "--key", "first=bytes1@0"]);
    let said = place.ok_fed(&["record", "/lines", "--stdin", "lines"], b"alpha\nbeta\ngamma\n");
    assert!(said.contains("Recorded 3 elements"), "{said}");
    assert_eq!(place.ok(&["query", "/lines", "--raw"]), "alphabetagamma");
    assert_eq!(place.count("/lines", "first=\"b\""), 1);
    assert_eq!(place.ok(&["query", "/lines", "--limit", "2", "--raw"]), "alphabeta");
    place.ok(&["export", "/lines", "--to", "out.lp"]);
    assert_eq!(std::fs::read(place.path("out.lp")).unwrap(), b"\x05\0\0\0alpha\x04\0\0\0beta\x05\0\0\0gamma");
    let table = place.ok(&["export", "/lines", "--to", "-", "--format", "csv"]);
    assert_eq!(table.lines().count(), 4, "{table}");
}

#[test]
fn one_command_makes_cluster_and_ring_and_records_a_capture() {
    let place = Place::new();
    let file = place.path("in.pcap");
    pcap(&file, 1000);
    let said = place.ok(&["record", "/net", "--pcap", "in.pcap", "--create", "--capacity", "32MiB"]);
    assert!(said.contains("Recorded 1 000 elements"), "{said}");
    assert_eq!(place.count("/net", "src=10.0.0.1 and port=4007"), 1);
    assert_eq!(place.count("/net", "net 10.0.0.0/8 and proto=udp"), 1000);
    place.ok(&["export", "/net", "--to", "out.pcap"]);
    let (before, after) = (std::fs::read(&file).unwrap(), std::fs::read(place.path("out.pcap")).unwrap());
    assert_eq!(after[24..], before[24..], "the packets that come out are those that went in");
    // Once more into the ring that is there; but not as if it were another one.
    let again = ["record", "/net", "--pcap", "in.pcap", "--create", "--capacity", "32MiB"];
    place.ok(&again);
    for (option, other) in [("--guarantee", "1MB/s"), ("--key", "src=pcap.src"), ("--flush-interval", "5s")] {
        place.refused(
            &[&again[..], &[option, other]].concat(),
            1,
            &["/net is there already", option, "nothing was recorded"],
        );
    }
    place.refused(&["record", "/net", "--pcap", "in.pcap", "--create", "--capacity", "1GiB"], 1, &["--capacity"]);
    assert_eq!(place.count("/net", "proto=udp"), 2000);
}

#[test]
fn what_a_snap_length_cut_off_is_told_by_exports() {
    let place = Place::new();
    let mut bytes = pcap(&place.path("in.pcap"), 4);
    // The third of four frames of 46 bytes had been one of 1514.
    let third = 24 + 2 * 62;
    bytes[third + 12..third + 16].copy_from_slice(&1514u32.to_le_bytes());
    std::fs::write(place.path("in.pcap"), &bytes).unwrap();
    place.ok(&["record", "/net", "--pcap", "in.pcap", "--create", "--capacity", "32MiB"]);
    for name in ["out.pcap", "out.pcapng"] {
        place.ok(&["export", "/net", "--to", name]);
        let lengths = place.tshark(name, &["-T", "fields", "-e", "frame.cap_len", "-e", "frame.len"]);
        assert_eq!(lengths, "46\t46\n46\t46\n46\t1514\n46\t46\n", "{name}");
    }
    assert_eq!(std::fs::read(place.path("out.pcap")).unwrap()[24..], bytes[24..]);
    let table = place.ok(&["export", "/net", "seq in 1..2", "--to", "-", "--format", "csv"]);
    let lengths = table.lines().map(|row| row.split(',').skip(2).take(2).collect::<Vec<_>>().join(","));
    assert_eq!(lengths.collect::<Vec<_>>(), ["length,original_length", "46,46", "46,1514"]);
    assert!(place.ok(&["query", "/net", "seq = 2"]).contains("46 B of 1514"));
    let found: serde_json::Value =
        serde_json::from_str(place.ok(&["query", "/net", "seq = 2", "--json"]).lines().next().unwrap()).unwrap();
    assert_eq!((&found["length"], &found["original_length"]), (&46.into(), &1514.into()));
}

#[test]
fn an_element_that_its_source_cuts_off_is_a_gap_and_no_element() {
    let place = Place::formatted("256MiB");
    place.ok(&["ring", "create", "/r", "--capacity", "64MiB", "--block", "64KiB"]);
    // Once within a block, once when most of it has left already.
    for (round, whole) in [1000u32, 5_000_000].into_iter().enumerate() {
        let mut input = b"\x05\0\0\0whole".to_vec();
        input.extend_from_slice(&whole.to_le_bytes());
        input.resize(input.len() + whole as usize / 2, 7);
        place.refused_fed(&["record", "/r", "--stdin", "lp32le"], &input, 1, &["inside an element"]);
        assert_eq!(place.ok(&["query", "/r", "--raw"]), "whole".repeat(round + 1));
        let gaps = place.ok(&["gaps", "/r", "--json"]);
        let gap: serde_json::Value = serde_json::from_str(gaps.lines().last().unwrap()).unwrap();
        assert_eq!((&gap["cause"], &gap["count"]), (&"rejected".into(), &1.into()), "{gaps}");
    }
}

#[test]
fn json_has_one_value_a_line_and_ends_with_a_summary() {
    let place = Place::formatted("256MiB");
    place.ok(&["ring", "create", "/r", "--capacity", "32MiB", "--key", "id=u32le@0"]);
    place.ok(&["record", "/r", "--generate", "max,64", "--count", "100"]);
    let text = place.ok(&["query", "/r", "seq < 3", "--json"]);
    let values: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = values.iter().map(|v| v["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["element", "element", "element", "summary"]);
    assert_eq!((values[2]["sequence"].as_u64(), values[2]["length"].as_u64()), (Some(2), Some(64)));
}

#[test]
fn a_pin_holds_and_is_listed_until_it_is_let_go() {
    let place = Place::formatted("256MiB");
    place.ok(&["ring", "create", "/r", "--capacity", "32MiB"]);
    place.ok(&["record", "/r", "--generate", "max,1KiB", "--count", "1000"]);
    place.ok(&["pin", "/r", "--from", "10m ago", "--label", "event"]);
    assert!(place.ok(&["pins"]).contains("event"));
    place.ok(&["record", "/r", "--generate", "max,1KiB", "--count", "60000"]);
    assert_eq!(place.count("/r", "seq < 1000"), 1000, "what is pinned is not overwritten");
    let pins = place.ok(&["pins", "/r", "--json"]);
    let id = serde_json::from_str::<serde_json::Value>(pins.trim()).unwrap()["id"].to_string();
    place.ok(&["unpin", "/r", &id]);
    assert!(place.ok(&["pins"]).contains("No pins"));
}

#[test]
fn rings_are_related_after_they_were_made() {
    let place = Place::formatted("256MiB");
    for ring in ["/a", "/b"] {
        place.ok(&["ring", "create", ring, "--capacity", "32MiB"]);
        place.ok(&["record", ring, "--generate", "max,1KiB", "--count", "100"]);
    }
    place.refused(&["ring", "relate", "/a"], 2, &["--none"]);
    place.refused(&["ring", "relate", "/a", "/a"], 2, &["its own relative"]);
    place.refused(&["ring", "relate", "/a", "/c"], 1, &["no ring /c"]);
    assert!(place.ok(&["ring", "relate", "/a", "/b"]).contains("Along with /a, /b"));
    assert!(place.ok(&["ring", "show", "/a"]).contains("relatives   /b"));
    assert!(place.ok(&["pin", "/a", "--from", "10m ago"]).contains("of /b"));
    assert!(place.ok(&["ring", "relate", "/a", "--none"]).contains("alone"));
    assert!(!place.ok(&["pin", "/a", "--from", "10m ago"]).contains("of /b"));
}

#[test]
fn two_processes_work_on_one_directory() {
    let place = Place::formatted("256MiB");
    place.ok(&["ring", "create", "/r", "--capacity", "32MiB", "--flush-interval", "50ms"]);
    let mut recording = place.start(&["record", "/r", "--stdin", "lines"]);
    // Once it says so, it owns the target, and keeps it to its end.
    let mut said = String::new();
    BufReader::new(recording.stderr.as_mut().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains("Recording"), "{said}");
    let mut tail = place.start(&["tail", "/r", "--all", "--limit", "2", "--raw"]);
    recording.stdin.as_mut().unwrap().write_all(b"one\ntwo\n").unwrap();
    // The tail ends by itself once it has seen both, while the recording goes on.
    assert!(tail.wait().unwrap().success());
    assert_eq!(tail_output(tail), "onetwo");
    assert!(place.ok(&["status"]).contains("recording"));
    drop(recording.stdin.take());
    assert!(recording.wait().unwrap().success());
    assert_eq!(place.count("/r", ""), 2);
}

fn tail_output(tail: std::process::Child) -> String {
    String::from_utf8(tail.wait_with_output().unwrap().stdout).unwrap()
}

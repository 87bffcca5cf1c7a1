//! What is stopped ends in order, and says so; what cannot be answered is not waited for for ever.

// A test drives the real program through real files.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::served::Served;
use common::{Place, hardy, let_its_disk_die, signal};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::process::Child;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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

/// Whether the process ends in order when it is told to, as its machine says.
fn heeds_signals(child: &Child) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("what it catches");
    // SIGTERM, the last that it begins to catch.
    u64::from_str_radix(caught.trim(), 16).unwrap() & 1 << (15 - 1) != 0
}

#[test]
fn a_count_that_is_stopped_gives_what_it_has_counted_and_says_so() {
    let place = Place::formatted("256MiB");
    place.ok(&["ring", "create", "/r", "--capacity", "128MiB"]);
    place.ok(&["record", "/r", "--generate", "max,20", "--count", "2000000"]);
    let all = place.count("/r", "");
    for json in [false, true] {
        let command = ["query", "/r", "--count", "--json"];
        let mut count = place.start(&command[..if json { 4 } else { 3 }]);
        while !heeds_signals(&count) {
            assert_eq!(count.try_wait().unwrap(), None, "it counts");
        }
        // It goes no further before it is told.
        signal(&count, "STOP");
        while !is_stopped(&count) {}
        signal(&count, "INT");
        signal(&count, "CONT");
        let output = count.wait_with_output().unwrap();
        let (counted, said) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert_eq!(output.status.code(), Some(1), "{counted} {said}");
        assert!(said.contains("forebay: the query of /r was stopped before its end"), "{said}");
        let elements = match json {
            true => serde_json::from_str::<serde_json::Value>(&counted).unwrap()["elements"].as_u64().unwrap(),
            false => counted.trim().parse().unwrap(),
        };
        assert!(elements < all, "{elements} of {all}");
    }
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

#[test]
fn a_disk_that_dies_is_told_with_what_is_not_on_it_and_what_is_missing_is_a_gap() {
    let place = Place::formatted("256MiB");
    for (ring, by_owner) in [("/own", true), ("/guest", false)] {
        for name in [ring.to_string(), ring.to_string() + "/other"] {
            let small = ["--capacity", "32MiB", "--block", "64KiB", "--flush-interval", "50ms"];
            place.ok(&[&["ring", "create", &name], &small[..]].concat());
        }
        let other = ring.to_string() + "/other";
        let mut owner = hardy(&place, &["record", &other, "--stdin", "lines"]);
        let mut owner = (!by_owner).then(|| {
            let mut owner = owner.spawn().unwrap();
            // Once it says so, it has the disk, and serves others.
            BufReader::new(owner.stderr.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
            owner
        });
        let mut recording = hardy(&place, &["record", ring, "--generate", "2MB/s,1000", "--json"]).spawn().unwrap();
        let mut lines = BufReader::new(recording.stdout.take().unwrap()).lines();
        lines.next().unwrap().unwrap();
        let_its_disk_die(owner.as_ref().unwrap_or(&recording));
        let last = lines.map(Result::unwrap).last().unwrap();
        let mut said = String::new();
        recording.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(recording.wait().unwrap().code(), Some(1), "{said}");
        let summary: serde_json::Value = serde_json::from_str(&last).unwrap();
        let number = |name: &str| summary[name].as_u64().unwrap();
        let (accepted, durable) = (number("elements"), number("durable_elements"));
        assert!(durable > 0 && durable < accepted, "{last}");
        let words = format!("the last {} of {accepted} elements that were accepted", accepted - durable);
        assert!(said.contains(&words) && said.contains("check the device"), "{said}");
        if let Some(owner) = &mut owner {
            drop(owner.stdin.take());
            assert_eq!(owner.wait().unwrap().code(), Some(1), "it closes a device that failed");
        }
        // On a disk that works: what was said to be there is, and the rest is told by whoever records next.
        let there = place.count(ring, "");
        assert!((durable..=accepted).contains(&there), "{there} of {durable} to {accepted}");
        assert_eq!(place.ok(&["gaps", ring, "--json"]), "");
        place.ok(&["record", ring, "--generate", "max,1000", "--count", "3"]);
        assert_eq!(place.count(ring, ""), there + 3);
        let gaps = place.ok(&["gaps", ring, "--json"]);
        let gap: serde_json::Value = serde_json::from_str(gaps.trim()).unwrap();
        assert_eq!((&gap["cause"], &gap["count"]), (&"restart".into(), &serde_json::Value::Null), "{gaps}");
    }
}

/// A ring of which everything that is in it and comes into it is held.
fn all_is_held(place: &Place, ring: &str) {
    all_is_held_in(place, ring, &["--overflow", "block"], "max,100");
}

/// The same of one that is made with these options, of which this is the first element.
fn all_is_held_in(place: &Place, ring: &str, options: &[&str], first: &str) {
    let policy = ["--capacity", "32MiB", "--pin-policy", "stop", "--pin-budget", "95"];
    place.ok(&[&["ring", "create", ring], &policy[..], options].concat());
    place.ok(&["record", ring, "--generate", first, "--count", "1"]);
    place.ok(&["pin", ring, "--from", "10m ago", "--to", "2100-01-01T00:00:00Z"]);
}

#[test]
fn a_recording_that_waits_for_room_says_so_and_ends_when_its_time_is_over() {
    let place = Place::formatted("256MiB");
    all_is_held(&place, "/r");
    let mut recording = place.start(&["record", "/r", "--generate", "max,30000", "--seconds", "4", "--json"]);
    let began = Instant::now();
    while recording.try_wait().unwrap().is_none() {
        if began.elapsed() > Duration::from_secs(30) {
            recording.kill().unwrap();
        }
    }
    let output = recording.wait_with_output().unwrap();
    let (told, said) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(1), "it ends by itself, without the last blocks: {said}");
    assert!(said.contains("unpin something"), "{said}");
    let values: Vec<serde_json::Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let full = |value: &&serde_json::Value| value["type"] == "progress" && value["full"] == true;
    assert!(values.iter().any(|value| full(&value)), "{told}");
}

#[test]
fn a_recording_that_is_stopped_before_its_packets_come_makes_no_ring() {
    let place = Place::formatted("256MiB");
    let create = ["record", "/r", "--pcap", "-", "--create", "--capacity", "32MiB"];
    let recording = place.start(&create);
    while !heeds_signals(&recording) {}
    signal(&recording, "INT");
    let output = recording.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && said.contains("Recorded 0 elements"), "{said}");
    assert_eq!(place.ok(&["ring", "list", "--json"]), "");
    // What comes then makes one with keys.
    let packets = common::pcap(&place.path("packets"), 5);
    place.ok_fed(&create, &packets);
    assert_eq!(place.count("/r", "port=53"), 5);
}

/// A capture of packets of 60 000 bytes, which come later than all that there is.
fn capture(packets: usize) -> Vec<u8> {
    let later = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as u32 + 1;
    let words = |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|word| word.to_le_bytes()).collect() };
    let packet = [words(&[later, 0, 60_000, 60_000]), vec![7; 60_000]].concat();
    [words(&[0xa1b2_3c4d, 0x0004_0002, 0, 0, 65_535, 1]), packet.repeat(packets)].concat()
}

#[test]
fn a_recording_of_a_file_waits_for_room_where_others_drop() {
    let place = Place::formatted("256MiB");
    all_is_held_in(&place, "/bytes", &[], "max,100");
    all_is_held_in(&place, "/packets", &["--packets", "ethernet"], "max,packets");
    std::fs::write(place.path("bytes"), vec![7; 48 << 20]).unwrap();
    std::fs::write(place.path("packets"), capture(800)).unwrap();
    for (ring, source, name) in [("/bytes", "--stdin", "raw:30000"), ("/packets", "--pcap", "packets")] {
        let mut command = place.command(&["record", ring, source, name, "--json"]);
        let mut recording = command.stdin(File::open(place.path("bytes")).unwrap()).spawn().unwrap();
        let mut lines = BufReader::new(recording.stdout.take().unwrap()).lines();
        let value = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
        let waits = |line: &str| value(line)["type"] == "progress" && value(line)["full"] == true;
        while !waits(&lines.next().expect("it has not ended").unwrap()) {}
        signal(&recording, "INT");
        let last = lines.map(Result::unwrap).last().unwrap();
        recording.wait().unwrap();
        assert_eq!(value(&last)["losses"]["overflow"], serde_json::Value::Null, "{last}");
    }
}

#[test]
fn a_scrub_that_is_stopped_after_it_found_damage_has_failed() {
    let place = Place::formatted("256MiB");
    let segments = ["--segment", "1MiB", "--block", "64KiB", "--overflow", "block"];
    place.ok(&[&["ring", "create", "/r", "--capacity", "64MiB"], &segments[..]].concat());
    place.ok(&["record", "/r", "--generate", "max,1KiB", "--count", "30000"]);
    let path = place.cluster().join("target.0");
    let content = std::fs::read(&path).unwrap();
    let block = (0..content.len()).step_by(4096).find(|at| content[*at..].starts_with(b"FBRBLOCK")).unwrap();
    // A bit in its payload.
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[content[block + 5000] ^ 1], block as u64 + 5000).unwrap();
    // A segment a second: it is told before there is an end.
    let mut scrub = place.start(&["scrub", "--rate", "1MB/s"]);
    let mut output = BufReader::new(scrub.stdout.take().unwrap());
    let mut said = String::new();
    output.read_line(&mut said).unwrap();
    signal(&scrub, "INT");
    output.read_to_string(&mut said).unwrap();
    assert!(said.contains("stopped after") && said.contains("1 damaged place"), "{said}");
    assert_eq!(scrub.wait().unwrap().code(), Some(1), "{said}");
}

#[test]
fn a_scrub_that_is_stopped_before_its_end_has_failed_though_it_found_nothing() {
    let place = Place::formatted("256MiB");
    let segments = ["--segment", "1MiB", "--block", "64KiB", "--overflow", "block"];
    place.ok(&[&["ring", "create", "/r", "--capacity", "64MiB"], &segments[..]].concat());
    place.ok(&["record", "/r", "--generate", "max,1KiB", "--count", "30000"]);
    let served_at = Place::new();
    let served = Served::start(&served_at);
    std::fs::write(served_at.path("in"), vec![7; 16 << 20]).unwrap();
    served.ok(&served_at, &["put", "in", "/x"]);
    let local = (place.command(&["scrub", "--rate", "1MB/s"]), "stopped after");
    let remote = (served.command(&served_at, &["scrub", "--rate", "1MB/s"]), "stopped before the end");
    for (mut command, words) in [local, remote] {
        let mut scrub = command.spawn().unwrap();
        while !heeds_signals(&scrub) {
            assert_eq!(scrub.try_wait().unwrap(), None, "it scrubs");
        }
        signal(&scrub, "INT");
        let output = scrub.wait_with_output().unwrap();
        let (told, said) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert!(output.status.code() == Some(1) && told.contains(words), "{told} {said}");
    }
    served.stop();
}

#[test]
fn what_was_taken_out_of_a_pipe_and_found_no_room_before_the_stop_is_a_gap() {
    let place = Place::formatted("256MiB");
    all_is_held(&place, "/r");
    let mut recording = place.start(&["record", "/r", "--stdin", "raw:30000", "--json"]);
    let mut input = recording.stdin.take().unwrap();
    let feeding = std::thread::spawn(move || while std::io::Write::write_all(&mut input, &[7; 30_000]).is_ok() {});
    let mut lines = BufReader::new(recording.stdout.take().unwrap()).lines();
    let full = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["full"] == true;
    while !full(&lines.next().unwrap().unwrap()) {}
    signal(&recording, "INT");
    let last = lines.map(Result::unwrap).last().unwrap();
    recording.wait().unwrap();
    feeding.join().unwrap();
    let summary: serde_json::Value = serde_json::from_str(&last).unwrap();
    // Beside the one since the session before.
    assert_eq!(summary["losses"]["restart"]["gaps"], 2, "{last}");
}

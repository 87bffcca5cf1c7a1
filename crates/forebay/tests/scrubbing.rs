//! Damage is found before somebody needs what is damaged: scrub beside a running owner, and check when nobody is.

// A test drives the real program through real files.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::Place;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::process::Stdio;

fn json(text: &str) -> Vec<serde_json::Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"))).collect()
}

/// A file that holds `mark` every 64 bytes, put as `name`.
fn put(place: &Place, name: &str, mark: &str) {
    std::fs::write(place.path("in"), format!("{mark:64}").repeat(20_000)).unwrap();
    place.ok(&["put", "in", name]);
}

/// Changes a byte where `mark` lies in the target.
fn rot(place: &Place, mark: &str) {
    let path = place.cluster().join("target.0");
    let mut file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let (mut at, mut bytes) = (0, vec![0; 1 << 20]);
    loop {
        let length = file.read(&mut bytes).unwrap();
        assert!(length > 0, "{mark} lies nowhere");
        if let Some(found) = bytes[..length].windows(mark.len()).position(|window| window == mark.as_bytes()) {
            file.seek(SeekFrom::Start(at + found as u64)).unwrap();
            file.write_all(b"X").unwrap();
            return file.sync_all().unwrap();
        }
        at += length as u64;
    }
}

#[test]
fn a_scrub_finds_what_has_rotted_with_its_name_and_place_whoever_serves_it() {
    let place = Place::formatted("512MiB");
    put(&place, "/sound", "whole");
    put(&place, "/rotten", "soon gone");
    let sound = json(&place.ok(&["scrub", "--json"]));
    assert_eq!(sound.len(), 1, "{sound:?}");
    assert_eq!((&sound[0]["finished"], &sound[0]["damaged"]), (&true.into(), &0.into()));
    assert!(sound[0]["done_bytes"].as_u64().unwrap() > 2 * 64 * 20_000);
    rot(&place, "soon gone");
    place.ok(&["ring", "create", "/r", "--capacity", "64MiB"]);
    // A recorder has the targets meanwhile.
    let mut owner = place.command(&["record", "/r", "--stdin", "lines"]).stdin(Stdio::piped()).spawn().unwrap();
    BufReader::new(owner.stderr.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    let object = json(&place.ok(&["stat", "/rotten", "--json"]))[0]["object"].as_str().unwrap().to_string();
    let scrubbed = place.run(&["scrub", "--json", "--rate", "500MB/s"]);
    assert_eq!(scrubbed.status.code(), Some(1));
    let told = json(&String::from_utf8(scrubbed.stdout).unwrap());
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0]["owner"].as_str().unwrap().contains(&object), "{} is {object}", told[0]["owner"]);
    assert!(told[0]["offset_bytes"].as_u64().unwrap() > 0 && told[0]["length_bytes"] == 4096);
    assert_eq!(told[1]["damaged"], 1);
    drop(owner.stdin.take());
    assert!(owner.wait().unwrap().success());
    let said = place.run(&["scrub"]);
    let text = String::from_utf8(said.stdout).unwrap();
    assert!(text.contains("1 damaged place") && text.contains("put the object anew"), "{text}");
    let checked = place.run(&["check", "--json"]);
    assert_eq!(checked.status.code(), Some(1));
    let checked = &json(&String::from_utf8(checked.stdout).unwrap())[0];
    assert_eq!(checked["objects"]["damage"].as_array().unwrap().len(), 1);
    assert_eq!(checked["objects"]["contradictions"], serde_json::json!([]));
    // What is whole is read, and what is rotten is not.
    place.ok(&["get", "/sound", "out", "--force"]);
    assert!(!place.run(&["get", "/rotten", "out", "--force"]).status.success());
}

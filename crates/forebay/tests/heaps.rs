//! Heaps through the real binary: what was committed is there byte for byte, and nothing else is.

// A test drives the real program through real files.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::{Dice, Place, signal};
use forebay_sim::seeds;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Output, Stdio};
use std::time::{Duration, Instant};

/// Bytes that follow from a number, and look like none other; their length follows from it, too.
fn content(number: u64) -> Vec<u8> {
    let mut dice = Dice(number * 7919 + 1);
    let length = match dice.below(20) {
        0 => 8183 + dice.below(30_000),
        1..5 => 1 + dice.below(8000),
        _ => 1 + dice.below(300),
    };
    dice.bytes(length as usize)
}

fn json(text: &str) -> Value {
    serde_json::from_str(text.trim()).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(String::from).collect()
}

/// Records behind their lengths.
fn lengths(records: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in records {
        bytes.extend((record.len() as u32).to_le_bytes());
        bytes.extend(record);
    }
    bytes
}

/// Slots with a record.
fn used(place: &Place, heap: &str) -> u64 {
    let stat = json(&place.ok(&["heap", "stat", heap, "--json"]));
    stat["classes"].as_array().unwrap().iter().map(|class| class["used"].as_u64().unwrap()).sum()
}

fn commit(place: &Place, heap: &str) -> u64 {
    json(&place.ok(&["heap", "stat", heap, "--json"]))["commit"].as_u64().unwrap()
}

fn put(place: &Place, heap: &str, records: &[Vec<u8>], more: &[&str]) -> Vec<String> {
    let args = [&["heap", "put", heap, "--format", "lengths"], more].concat();
    let ids = lines(&place.ok_fed(&args, &lengths(records)));
    assert_eq!(ids.len(), records.len());
    ids
}

/// The records with these ids.
fn get(place: &Place, heap: &str, ids: &[String]) -> Vec<u8> {
    let output = place.feed(&["heap", "get", heap, "-", "--format", "lengths"], ids.join("\n").as_bytes());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// A recorder in a process of its own, which so has the targets and serves others.
fn owner(place: &Place) -> Child {
    let mut owner = place.command(&["record", "/r", "--stdin", "lines"]).stdin(Stdio::piped()).spawn().unwrap();
    BufReader::new(owner.stderr.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    owner
}

fn end(mut owner: Child) {
    drop(owner.stdin.take());
    assert!(owner.wait().unwrap().success());
}

fn with_heap(size: &str) -> Place {
    let place = Place::formatted(size);
    place.ok(&["ring", "create", "/r", "--capacity", "32MiB"]);
    place.ok(&["heap", "create", "/h"]);
    place
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn batches_in_both_formats_and_files_come_back_byte_for_byte_whoever_serves_them() {
    let place = with_heap("256MiB");
    let served = [None, Some(owner(&place))];
    for (number, owner) in served.into_iter().enumerate() {
        let first = number as u64 * 10_000;
        let records: Vec<Vec<u8>> = (first..first + 3000).map(content).collect();
        let ids = put(&place, "/h", &records, &[]);
        assert!(get(&place, "/h", &ids) == lengths(&records));
        assert!(place.run(&["heap", "get", "/h", &ids[7]]).stdout == records[7]);
        // What is got as lines can be put again as lines.
        let args = ["heap", "get", "/h", &ids[0], &ids[1], &ids[2999], "--format", "lines"];
        let got = place.ok(&args);
        assert_eq!(got, place.ok(&[&args[..6], &["--json"]].concat()));
        assert_eq!(json(got.lines().last().unwrap())["id"], ids[2999].as_str());
        let again = lines(&place.ok_fed(&["heap", "put", "/h"], got.as_bytes()));
        let three = [records[0].clone(), records[1].clone(), records[2999].clone()];
        assert!(get(&place, "/h", &again) == lengths(&three));
        let text = lines(&place.ok_fed(&["heap", "put", "/h"], b"{\"text\": \"a\\u00e4\"}\n{\"text\": \"last line\"}"));
        assert_eq!(get(&place, "/h", &text), lengths(&["a\u{e4}".as_bytes().to_vec(), b"last line".to_vec()]));
        std::fs::write(place.path("file"), content(1)).unwrap();
        std::fs::write(place.path("large"), Dice(3).bytes((9 << 20) + 7)).unwrap();
        let said = place.ok(&["heap", "put", "/h", "file", "large", "--json"]);
        let said: Vec<Value> = said.lines().map(json).collect();
        assert_eq!((&said[0]["record"], &said[1]["record"]), (&1.into(), &2.into()));
        assert_eq!(said[0]["commit"], commit(&place, "/h"));
        let large = place.run(&["heap", "get", "/h", said[1]["id"].as_str().unwrap()]).stdout;
        assert!(large == Dice(3).bytes((9 << 20) + 7));
        let one = place.ok_fed(&["heap", "put", "/h", "-"], b"all of it\n");
        assert_eq!(place.run(&["heap", "get", "/h", one.trim()]).stdout, b"all of it\n");
        assert_eq!(place.ok_fed(&["heap", "put", "/h"], b""), "");
        if let Some(owner) = owner {
            end(owner);
            assert!(get(&place, "/h", &ids) == lengths(&records), "after the process that took them in");
        }
    }
    assert_eq!(place.ok(&["check"]).lines().last(), Some("Sound."));
}

#[test]
fn roots_are_named_by_puts_and_by_commits_and_got_without_an_id() {
    let place = with_heap("256MiB");
    place.refused(&["heap", "get", "/h"], 1, &["has no root", "forebay heap commit /h --root ID"]);
    let records: Vec<Vec<u8>> = (0..10).map(content).collect();
    let before = commit(&place, "/h");
    let ids = put(&place, "/h", &records, &["--commit-every", "3", "--root", "last"]);
    // Each opening commits once, too.
    assert!(commit(&place, "/h") >= before + 4);
    assert!(place.run(&["heap", "get", "/h"]).stdout == records[9]);
    let said = json(&place.ok(&["heap", "commit", "/h", "--root", &ids[4], "--json"]));
    assert_eq!(said["root"], ids[4].as_str());
    assert!(place.run(&["heap", "get", "/h"]).stdout == records[4]);
    put(&place, "/h", &records[..2], &[]);
    let stat = json(&place.ok(&["heap", "stat", "/h", "--json"]));
    assert_eq!(stat["root"], ids[4].as_str(), "a put that names none keeps it");
    place.refused(&["heap", "free", "/h", &ids[3], &ids[4]], 2, &[&ids[4], "is the root", "name another"]);
    assert_eq!(get(&place, "/h", &ids), lengths(&records), "none of them is freed");
    put(&place, "/h", &records[..1], &["--root", &ids[0]]);
    assert!(place.run(&["heap", "get", "/h"]).stdout == records[0]);
    assert!(place.ok(&["heap", "commit", "/h", "--root", "none"]).contains("has no root"));
    place.refused(&["heap", "get", "/h"], 1, &["has no root"]);
    let said = json(&place.ok(&["heap", "free", "/h", &ids[3], &ids[4], "--json"]));
    assert_eq!(said["freed"], 2);
    assert_eq!(place.ok_fed(&["heap", "free", "/h", "-"], ids[5..].join("\n").as_bytes()), "Freed 5 records of /h.\n");
    assert_eq!(get(&place, "/h", &ids[..3]), lengths(&records[..3]));
    for id in &ids[3..] {
        place.refused(&["heap", "get", "/h", id], 1, &[id, "record"]);
    }
    assert_eq!(used(&place, "/h"), 3 + 2 + 1);
}

#[test]
fn heaps_are_listed_and_shown_and_share_their_names_with_all_else() {
    let place = with_heap("256MiB");
    place.ok_fed(&["put", "-", "/a/object"], b"bytes");
    let made = json(&place.ok(&["heap", "create", "/a/heap", "--threshold", "1", "--json"]));
    assert_eq!((&made["name"], &made["root"]), (&"/a/heap".into(), &Value::Null));
    assert!(place.ok(&["heap", "create", "/a/worm", "--worm"]).contains("written once"));
    let table = place.ok(&["ls", "/a"]);
    let rows: Vec<Vec<&str>> = table.lines().skip(1).map(|line| line.split_whitespace().take(2).collect()).collect();
    assert_eq!(rows, [["/a/heap", "heap"], ["/a/object", "object"], ["/a/worm", "heap"]]);
    let all = place.ok(&["ls", "--json"]);
    let heaps: Vec<Value> = all.lines().map(json).filter(|line| line["type"] == "heap").collect();
    assert_eq!(heaps.len(), 3);
    assert!(heaps[0]["space_bytes"].as_u64().unwrap() > 0);
    put(&place, "/a/heap", &[vec![1; 100], vec![2; 1500], vec![3; 20_000]], &["--root", "last"]);
    let stat = json(&place.ok(&["heap", "stat", "/a/heap", "--json"]));
    let classes = stat["classes"].as_array().unwrap();
    let sizes: Vec<u64> = classes.iter().map(|class| class["slot_bytes"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [64, 128, 2048, 8192], "a large record is chained, and 64 has the list of its parts");
    assert_eq!(classes[3]["used"], 3);
    let shown = place.ok(&["heap", "stat", "/a/heap"]);
    assert!(shown.starts_with("/a/heap  commit ") && shown.contains("root     ") && shown.contains("2 KiB"), "{shown}");
    let all = place.ok(&["ls", "--json"]);
    for taken in ["/h", "/r", "/a/object"] {
        place.refused(&["heap", "create", taken], 1, &[taken, "another name"]);
    }
    place.refused_fed(&["put", "-", "/h"], b"bytes", 1, &["/h is a heap"]);
    place.refused(&["snapshot", "/a/object", "/h"], 1, &["/h is a heap"]);
    place.refused(&["ring", "create", "/h", "--capacity", "32MiB"], 1, &["heap /h"]);
    place.refused(&["stat", "/h"], 2, &["/h is a heap", "forebay heap stat /h"]);
    place.refused(&["rm", "/h"], 2, &["/h is a heap"]);
    place.refused(&["heap", "stat", "/r"], 2, &["/r is a ring"]);
    place.refused(&["heap", "get", "/a/object"], 2, &["/a/object is an object"]);
    place.refused(&["heap", "stat", "/none"], 1, &["there is no heap /none"]);
    place.refused(&["heap", "get", "/none"], 1, &["there is no heap /none"]);
    place.refused(&["heap", "create", "none"], 2, &["is not a name"]);
    assert_eq!(place.ok(&["ls", "--json"]), all, "nothing of this changed anything");
}

#[test]
fn a_heap_that_is_deleted_is_gone_for_all_and_its_name_and_space_are_free() {
    let place = with_heap("256MiB");
    let ids = put(&place, "/h", &[vec![1; 100], vec![2; 5000]], &["--root", "last"]);
    assert_eq!(json(&place.ok(&["heap", "delete", "/h", "--json"])), serde_json::json!({ "deleted": "/h" }));
    place.refused(&["heap", "stat", "/h"], 1, &["there is no heap /h"]);
    place.refused(&["heap", "delete", "/h"], 1, &["there is no heap /h"]);
    assert!(!place.ok(&["ls"]).contains("/h"));
    place.ok(&["heap", "create", "/h"]);
    place.refused(&["heap", "get", "/h", &ids[0]], 1, &[&ids[0]]);
    assert_eq!(json(&place.ok(&["heap", "stat", "/h", "--json"]))["root"], Value::Null);
    let served = owner(&place);
    place.ok(&["heap", "delete", "/h"]);
    place.refused(&["heap", "stat", "/h"], 1, &["there is no heap /h"]);
    end(served);
}

#[test]
fn bad_ids_and_roots_that_are_not_there_are_refused_and_change_nothing() {
    let place = with_heap("256MiB");
    place.ok(&["heap", "create", "/other"]);
    let records: Vec<Vec<u8>> = (0..4).map(content).collect();
    let ids = put(&place, "/h", &records, &["--root", "last"]);
    let foreign = put(&place, "/other", &[vec![5; 70]], &[]).remove(0);
    place.ok(&["heap", "free", "/h", &ids[0]]);
    let number = u64::from_str_radix(&ids[1], 16).unwrap();
    let forged = format!("{:016x}", number ^ 1);
    let chained = format!("{:016x}", number ^ 1 << 29);
    let far = "f".repeat(16);
    let now = used(&place, "/h");
    let served = [None, Some(owner(&place))];
    for owner in served {
        for id in [&ids[0], &forged, &chained, &far, &foreign] {
            place.refused(&["heap", "get", "/h", id], 1, &[id, "record"]);
            place.refused(&["heap", "free", "/h", &ids[1], id], 1, &[id, "record"]);
            place.refused(&["heap", "commit", "/h", "--root", id], 1, &[id, "record"]);
            let args = ["heap", "put", "/h", "--root", id];
            place.refused_fed(&args, b"{\"text\": \"x\"}\n", 1, &[id, "nothing was kept"]);
            let both = format!("{}\n{id}\n", ids[1]);
            place.refused_fed(&["heap", "free", "/h", "-"], both.as_bytes(), 1, &[id, "record"]);
        }
        place.refused(&["heap", "free", "/h", &ids[1], &ids[1]], 1, &[&ids[1], "freed twice"]);
        for odd in ["", "1", "xyz", "00000000000000001", "+000000000000001"] {
            place.refused(&["heap", "get", "/h", odd], 2, &["is no id of a record"]);
            place.refused(&["heap", "free", "/h", &ids[1], odd], 2, &["is no id of a record"]);
            place.refused(&["heap", "commit", "/h", "--root", odd], 2, &["is no id of a record"]);
            let both = format!("{}\n{odd}\n", ids[1]);
            place.refused_fed(&["heap", "free", "/h", "-"], both.as_bytes(), 2, &["line 2", "is no id of a record"]);
        }
        place.refused(&["heap", "free", "/h"], 2, &["<ID>"]);
        place.refused(&["heap", "get", "/h", &ids[1], &ids[2]], 2, &["--format lines or lengths"]);
        place.refused(&["heap", "get", "/h", &ids[1], "--json", "--format", "lengths"], 2, &["leave out --json"]);
        assert_eq!(get(&place, "/h", &ids[1..]), lengths(&records[1..]));
        assert_eq!(used(&place, "/h"), now);
        assert_eq!(json(&place.ok(&["heap", "stat", "/h", "--json"]))["root"], ids[3].as_str());
        // What is before a record that is not there is there.
        let args = ["heap", "get", "/h", &ids[1], &far, &ids[2], "--format", "lengths"];
        let output = place.run(&args);
        assert_eq!((output.status.code(), output.stdout), (Some(1), lengths(&records[1..2])));
        owner.into_iter().for_each(end);
    }
}

#[test]
fn records_that_are_none_are_refused_with_their_number_and_nothing_of_the_batch_is_kept() {
    let place = with_heap("256MiB");
    let (now, good) = (used(&place, "/h"), lengths(&[content(1), content(2)]));
    let text = b"{\"text\": \"one\"}\n{\"text\": \"two\"}\n";
    for (line, words) in [
        ("\n", "no such JSON"),
        ("word\n", "no such JSON"),
        ("{\"data\": \"AA\"}\n", "no base64"),
        ("{\"text\": \"\"}\n", "this one 0"),
        ("{\"text\": \"a\", \"data\": \"\"}\n", "both"),
        ("{}\n", "neither"),
    ] {
        let input = [&text[..], line.as_bytes(), &text[..]].concat();
        place.refused_fed(
            &["heap", "put", "/h"],
            &input,
            2,
            &["record 3 on standard input", words, "nothing was kept"],
        );
    }
    let over = (64_u32 << 20) + 1;
    let small = [&good[..], &[9, 0, 0, 0, 1, 2]].concat();
    for (bytes, words) in [
        ([&good[..], &[0; 4]].concat(), "this one 0"),
        ([&good[..], &over.to_le_bytes()].concat(), "this one 67108865"),
        ([&good[..], &[1, 0]].concat(), "ends within its length"),
        (small, "ends after 2 of its 9 bytes"),
    ] {
        let args = ["heap", "put", "/h", "--format", "lengths"];
        place.refused_fed(&args, &bytes, 2, &["record 3 on standard input", words, "nothing was kept"]);
    }
    std::fs::write(place.path("empty"), b"").unwrap();
    std::fs::write(place.path("good"), b"good").unwrap();
    let large = std::fs::File::create(place.path("large")).unwrap();
    large.set_len(u64::from(over)).unwrap();
    place.refused(&["heap", "put", "/h", "good", "empty"], 2, &["empty", "this one 0", "nothing was kept"]);
    place.refused(&["heap", "put", "/h", "good", "large"], 2, &["large", "67108865"]);
    place.refused(&["heap", "put", "/h", "good", "nowhere"], 1, &["nowhere", "does not exist"]);
    place.refused(&["heap", "put", "/h", "."], 2, &["is a directory"]);
    place.refused(&["heap", "put", "/h", "good", "--format", "lines"], 2, &["--format"]);
    place.refused(&["heap", "put", "/h", "--commit-every", "0"], 2, &["--commit-every"]);
    place.refused(&["heap", "create", "/x", "--threshold", "0"], 2, &["--threshold"]);
    assert_eq!(used(&place, "/h"), now);
    // Whole commits before it stay.
    let input = [&text[..], &text[..], b"odd\n"].concat();
    let args = ["heap", "put", "/h", "--commit-every", "2"];
    let output = place.feed(&args, &input);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("the first 4 were committed before"), "{}", said(&output));
    let ids = lines(&String::from_utf8(output.stdout).unwrap());
    let kept = [b"one", b"two", b"one", b"two"].map(|text| text.to_vec());
    assert_eq!(get(&place, "/h", &ids), lengths(&kept));
    assert_eq!(used(&place, "/h"), now + 4);
}

#[test]
fn the_largest_record_goes_in_and_out_whole() {
    let place = with_heap("512MiB");
    let bytes = Dice(9).bytes(64 << 20);
    std::fs::write(place.path("largest"), &bytes).unwrap();
    let owner = owner(&place);
    let id = place.ok(&["heap", "put", "/h", "largest"]);
    assert!(place.run(&["heap", "get", "/h", id.trim()]).stdout == bytes);
    place.ok(&["heap", "free", "/h", id.trim()]);
    assert_eq!(used(&place, "/h"), 0);
    end(owner);
}

#[test]
fn a_full_target_refuses_a_batch_whole_and_the_heap_stays_of_use() {
    let place = with_heap("256MiB");
    let records: Vec<Vec<u8>> = (1..20).map(|n| Dice(n).bytes(50)).collect();
    let ids = put(&place, "/h", &records, &["--root", "last"]);
    let now = used(&place, "/h");
    let large: Vec<Vec<u8>> = (0..240).map(|n| Dice(n).bytes(1 << 20)).collect();
    let served = [None, Some(owner(&place))];
    for owner in served {
        let args = ["heap", "put", "/h", "--format", "lengths"];
        place.refused_fed(&args, &lengths(&large), 1, &["no group", "nothing was kept"]);
        assert_eq!(used(&place, "/h"), now);
        assert_eq!(get(&place, "/h", &ids), lengths(&records));
        let more = put(&place, "/h", &records, &[]);
        assert_eq!(get(&place, "/h", &more), lengths(&records));
        place.ok(&[&["heap", "free", "/h"], &more.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat());
        owner.into_iter().for_each(end);
    }
    assert_eq!(place.ok(&["check"]).lines().last(), Some("Sound."));
}

#[test]
fn two_processes_at_once_commit_each_its_own_and_what_one_stops_is_gone() {
    let place = with_heap("256MiB");
    let (mine, others): (Vec<_>, Vec<_>) = ((0..500).map(content).collect(), (1000..1500).map(content).collect());
    // The first is the owner, and has not ended its batch while the second puts all of its own.
    let mut first = place.start(&["heap", "put", "/h", "--format", "lengths"]);
    let mut input = first.stdin.take().unwrap();
    input.write_all(&lengths(&mine[..250])).unwrap();
    let theirs = put(&place, "/h", &others, &["--commit-every", "100"]);
    input.write_all(&lengths(&mine[250..])).unwrap();
    drop(input);
    let output = first.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let ids = lines(&String::from_utf8(output.stdout).unwrap());
    assert!(get(&place, "/h", &ids) == lengths(&mine));
    assert!(get(&place, "/h", &theirs) == lengths(&others));
    let now = used(&place, "/h");
    // One that is stopped, and one that is killed, leave nothing, whoever serves.
    let served = [None, Some(owner(&place))];
    for owner in served {
        for how in ["INT", "KILL"] {
            let mut stopped = place.start(&["heap", "put", "/h", "--format", "lengths"]);
            let mut input = stopped.stdin.take().unwrap();
            input.write_all(&lengths(&mine)).unwrap();
            signal(&stopped, how);
            let output = stopped.wait_with_output().unwrap();
            if how == "INT" {
                assert_eq!(output.status.code(), Some(1));
                let said = said(&output);
                assert!(said.contains("stopped before its end; nothing was kept"), "{said}");
            }
            assert_eq!(output.stdout, b"", "nothing was acknowledged");
            drop(input);
            // The end of the connection is on its way.
            let began = Instant::now();
            while used(&place, "/h") > now {
                assert!(began.elapsed() < Duration::from_secs(30), "something stays");
            }
            assert_eq!(used(&place, "/h"), now);
        }
        owner.into_iter().for_each(end);
    }
    assert!(get(&place, "/h", &theirs) == lengths(&others));
    assert_eq!(place.ok(&["check"]).lines().last(), Some("Sound."));
}

#[test]
fn half_batches_are_gone_when_the_server_is_killed_also_after_anothers_commit() {
    let place = with_heap("256MiB");
    let small = |n: u64| Dice(n).bytes(20);
    let kept: Vec<Vec<u8>> = (0..20_000).map(small).collect();
    let ids = put(&place, "/h", &kept, &[]);
    let mut owner = owner(&place);
    let half = |args: &[&str], bytes: &[u8]| {
        let mut child = place.start(args);
        let mut input = child.stdin.take().unwrap();
        // More than a pipe and the program hold, so that when it is taken most of it has been asked for.
        input.write_all(bytes).unwrap();
        (child, input)
    };
    let putting = half(&["heap", "put", "/h", "--format", "lengths"], &lengths(&kept));
    let freeing = half(&["heap", "free", "/h", "-"], (ids.join("\n") + "\n").as_bytes());
    let asked = || json(&place.ok(&["heap", "stat", "/h", "--json"]))["put_records"].as_u64().unwrap();
    let began = Instant::now();
    while asked() < 5000 {
        assert!(began.elapsed() < Duration::from_secs(30), "nothing of it has arrived");
    }
    let others: Vec<Vec<u8>> = (30_000..30_500).map(small).collect();
    let theirs = put(&place, "/h", &others, &["--root", "last"]);
    let number = commit(&place, "/h");
    assert_eq!(used(&place, "/h"), 20_500, "nobody sees what is half done");
    owner.kill().unwrap();
    owner.wait().unwrap();
    for (child, input) in [putting, freeing] {
        drop(input);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains("went away"), "{}", said(&output));
    }
    assert_eq!(used(&place, "/h"), 20_500);
    // Each opening commits once, too.
    assert!(commit(&place, "/h") >= number);
    // No more than two pipes hold.
    for (ids, kept) in ids.chunks(2000).zip(kept.chunks(2000)) {
        assert!(get(&place, "/h", ids) == lengths(kept));
    }
    assert!(get(&place, "/h", &theirs) == lengths(&others));
    assert!(place.run(&["heap", "get", "/h"]).stdout == others[499]);
    assert_eq!(place.ok(&["check"]).lines().last(), Some("Sound."));
}

#[test]
fn commits_are_listed_and_read_as_they_were_for_as_long_as_they_are_kept() {
    let place = with_heap("256MiB");
    let made = json(&place.ok(&["heap", "create", "/k", "--keep", "1h", "--json"]));
    assert_eq!((&made["keep_seconds"], &made["threshold"]), (&3600.0.into(), &3000.into()));
    place.ok(&["heap", "create", "/worm", "--worm"]);
    place.refused(&["heap", "create", "/x", "--keep", "soon"], 2, &["'soon' is not a length of time"]);
    place.refused(&["heap", "create", "/x", "--keep", "1h", "--worm"], 2, &["--keep", "--worm"]);
    let records: Vec<Vec<u8>> = (0..3000).map(content).collect();
    let large = Dice(3).bytes((9 << 20) + 7);
    std::fs::write(place.path("large"), &large).unwrap();
    let args = |heap: &'static str, number: u64, rest: &[&str]| -> Vec<String> {
        let number = number.to_string();
        ["heap", "get", heap, "--as-of", &number].iter().chain(rest).map(ToString::to_string).collect()
    };
    let refused = |args: Vec<String>, words: &[&str]| {
        place.refused(&args.iter().map(String::as_str).collect::<Vec<_>>(), 1, words);
    };
    let served = [None, Some(owner(&place))];
    for owner in served {
        for heap in ["/k", "/worm"] {
            let ids = put(&place, heap, &records, &["--root", "last"]);
            let first = commit(&place, heap);
            let said = place.ok(&["heap", "put", heap, "large", "--root", "last", "--json"]);
            let (second, id) =
                (json(&said)["commit"].as_u64().unwrap(), json(&said)["id"].as_str().unwrap().to_string());
            place.ok(&["heap", "commit", heap, "--root", "none"]);
            let both = [&ids[..], std::slice::from_ref(&id)].concat().join("\n");
            place.ok_fed(&["heap", "free", heap, "-"], both.as_bytes());
            place.refused(&["heap", "get", heap, &ids[0]], 1, &[&ids[0], "record"]);
            let run = |args: &[String]| place.run(&args.iter().map(String::as_str).collect::<Vec<_>>());
            assert!(run(&args(heap, first, &[])).stdout == records[2999], "the root of then");
            assert!(run(&args(heap, second, &[])).stdout == large);
            assert!(run(&args(heap, second, &[&id])).stdout == large);
            refused(args(heap, first, &[&id]), &[&id, &format!("commit {first}")]);
            for (some, kept) in ids.chunks(1500).zip(records.chunks(1500)) {
                let words =
                    [&["--format", "lengths"][..], &some.iter().map(String::as_str).collect::<Vec<_>>()].concat();
                assert!(run(&args(heap, first, &words)).stdout == lengths(kept));
            }
            refused(args(heap, 1 << 40, &[]), &["can be read as of commits", "forebay heap history"]);
            let all: Vec<Value> = place.ok(&["heap", "history", heap, "--json"]).lines().map(json).collect();
            let numbers: Vec<u64> = all.iter().map(|line| line["commit"].as_u64().unwrap()).collect();
            let stat = json(&place.ok(&["heap", "stat", heap, "--json"]));
            // Each opening commits once, too.
            let oldest = stat["oldest_commit"].as_u64().unwrap();
            assert!(numbers[0] >= second + 2 && numbers.is_sorted_by(|a, b| *a == b + 1), "{numbers:?}");
            assert_eq!(numbers.last(), Some(&oldest));
            let root = |number: u64| &all.iter().find(|line| line["commit"] == number).unwrap()["root"];
            assert_eq!((root(first), root(second)), (&ids[2999].as_str().into(), &id.as_str().into()));
            assert_eq!(root(second + 2), &Value::Null);
            assert!(stat["archive_slots"].as_u64().unwrap() > 0);
            let kept: u64 = stat["classes"].as_array().unwrap().iter().map(|c| c["kept"].as_u64().unwrap()).sum();
            assert!(kept >= 3000, "{stat}");
            let table = place.ok(&["heap", "history", heap, "--limit", "2"]);
            assert_eq!(table.lines().count(), 3, "{table}");
            assert!(table.starts_with("commit") && table.contains("none"), "{table}");
            let shown = place.ok(&["heap", "stat", heap]);
            let mode = if heap == "/k" { "each for 1 h 0 min" } else { "written once" };
            assert!(shown.contains(mode) && shown.contains("kept"), "{shown}");
        }
        owner.into_iter().for_each(end);
    }
    // Nothing is kept where nothing was asked for.
    let ids = put(&place, "/h", &records[..3], &["--root", "last"]);
    let number = commit(&place, "/h");
    for _ in 0..2 {
        place.ok(&["heap", "commit", "/h", "--root", &ids[0]]);
    }
    refused(args("/h", number, &[&ids[0]]), &["can be read as of commits", "forebay heap history"]);
    place.refused(&["heap", "history", "/none"], 1, &["there is no heap /none"]);
    place.refused(&["heap", "history", "/r"], 2, &["/r is a ring"]);
    place.refused(&["heap", "history", "/h", "--limit", "0"], 2, &["--limit"]);
    assert_eq!(place.ok(&["check"]).lines().last(), Some("Sound."));
}

/// Feeds records from `first` on until the process is gone.
fn feed(mut input: ChildStdin, first: u64) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut next = first;
        while input.write_all(&lengths(&[content(next)])).is_ok() {
            next += 1;
        }
    })
}

#[test]
fn what_was_acknowledged_before_a_kill_is_there_and_nothing_of_the_commit_under_way() {
    seeds::each(2, kill_and_look);
}

fn kill_and_look(seed: u64) {
    const EVERY: u64 = 100;
    let place = with_heap("512MiB");
    let mut dice = Dice(seed);
    let mut acknowledged: Vec<(String, u64)> = Vec::new();
    let mut kept = 0;
    for life in 0..8_u64 {
        // Killed is the process that has the targets: by turns the one that puts, and another one.
        let mut other = (life % 2 == 1).then(|| owner(&place));
        let every = EVERY.to_string();
        let mut put = place.start(&["heap", "put", "/h", "--format", "lengths", "--commit-every", &every]);
        let first = life * 1_000_000;
        let feeding = feed(put.stdin.take().unwrap(), first);
        let mut told = BufReader::new(put.stdout.take().unwrap());
        let enough = 1 + dice.below(700);
        let mut number = first;
        let mut tell = |line: &str| {
            acknowledged.push((line.trim_end().to_string(), number));
            number += 1;
        };
        for _ in 0..enough {
            let mut line = String::new();
            told.read_line(&mut line).unwrap();
            tell(&line);
        }
        common::pass(dice.moment());
        let victim = other.as_mut().unwrap_or(&mut put);
        victim.kill().unwrap();
        victim.wait().unwrap();
        let mut rest = String::new();
        told.read_to_string(&mut rest).unwrap();
        // A line that the kill cut off was not said.
        rest.split_inclusive('\n').filter(|line| line.ends_with('\n')).for_each(tell);
        if other.is_some() {
            let output = put.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(1), "{}", said(&output));
            assert!(said(&output).contains("went away"), "{}", said(&output));
        }
        feeding.join().unwrap();
        let ids: Vec<String> = acknowledged.iter().map(|(id, _)| id.clone()).collect();
        let records: Vec<Vec<u8>> = acknowledged.iter().map(|(_, number)| content(*number)).collect();
        assert!(get(&place, "/h", &ids) == lengths(&records), "life {life}");
        // Each commit is there as a whole: none but the last may be there without having been told of.
        let whole = (number - first).div_ceil(EVERY) * EVERY;
        let slots = |count: u64| slots(first, count);
        let now = used(&place, "/h");
        let possible = [slots(whole), slots(whole + EVERY)].map(|slots| kept + slots);
        assert!(possible.contains(&now), "life {life}: {now} slots, {possible:?} expected");
        kept = now;
    }
    assert_eq!(place.ok(&["check"]).lines().last(), Some("Sound."));
}

/// Slots that so many records take, from the first on: one each, and of a chained one its parts.
fn slots(first: u64, count: u64) -> u64 {
    let of = |number: u64| match content(number).len() {
        0..=8182 => 1,
        length => 1 + length.div_ceil(8182) as u64,
    };
    (first..first + count).map(of).sum()
}

#[test]
fn what_was_freed_in_commits_on_the_way_stays_freed_and_is_said() {
    let place = with_heap("256MiB");
    let records: Vec<Vec<u8>> = (0..3000u32).map(|n| n.to_le_bytes().to_vec()).collect();
    let ids = put(&place, "/h", &records, &["--root", "last"]);
    let bad = format!("{}\n{}\n", ids.join("\n"), ids[0]);
    let every = ["heap", "free", "/h", "-", "--commit-every", "1000"];
    place.refused_fed(&every, bad.as_bytes(), 1, &[&ids[0], "of /h 2 048 records were freed before"]);
    assert_eq!(used(&place, "/h"), 3000 - 2048);
    place.ok(&["heap", "commit", "/h", "--root", "none"]);
    assert_eq!(place.ok(&["heap", "free", "/h", &ids[2048], &ids[2999]]).trim(), "Freed 2 records of /h.");
    // A root that is named is committed, also where nothing is put.
    let root = ["heap", "put", "/h", "--root", &ids[2500]];
    let before = commit(&place, "/h");
    place.ok_fed(&root, b"");
    assert_eq!(json(&place.ok(&["heap", "stat", "/h", "--json"]))["root"], ids[2500].as_str());
    assert_eq!(commit(&place, "/h"), before + 1);
}

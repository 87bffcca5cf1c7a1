//! `forebay serve` and the files of a cluster on the network: real processes, real sockets, real kills.

// A test drives the real program through real files and sockets.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use bytes::Bytes as Slice;
use common::served::Served;
use common::{Dice, Place, pass, signal};
use forebay_client::file::options::Options;
use forebay_model::{Bytes, Kind};
use forebay_sim::seeds;
use std::io::{Read, Write};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[test]
fn files_are_put_listed_moved_got_and_removed_over_the_network() {
    let place = Place::new();
    let served = Served::start(&place);
    let bytes = Dice(1).bytes(5_000_001);
    std::fs::write(place.path("in"), &bytes).unwrap();
    served.ok(&place, &["put", "in", "/x"]);
    served.ok(&place, &["mkdir", "/data"]);
    served.ok(&place, &["mv", "/x", "/data/y"]);
    assert!(served.ok(&place, &["get", "/data/y", "-"]) == bytes);
    assert!(
        served.ok(&place, &["get", "/data/y", "-", "--offset", "4999999", "--length", "1GiB"]) == bytes[4_999_999..]
    );
    served.ok(&place, &["get", "/data/y", "out"]);
    assert!(std::fs::read(place.path("out")).unwrap() == bytes);
    let listed = String::from_utf8(served.ok(&place, &["ls", "/data", "--json"])).unwrap();
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!((&listed["name"], &listed["size_bytes"]), (&"/data/y".into(), &5_000_001.into()));
    for path in ["/", "/data", "/data/y"] {
        let scrubbed = String::from_utf8(served.ok(&place, &["scrub", path, "--json"])).unwrap();
        let scrubbed: serde_json::Value = serde_json::from_str(&scrubbed).unwrap();
        assert_eq!(
            (&scrubbed["files"], &scrubbed["files_left"], &scrubbed["lost_bytes"]),
            (&1.into(), &0.into(), &0.into())
        );
        assert!(scrubbed["compared_bytes"].as_u64() >= Some(5_000_001) && scrubbed["finished"] == true, "{scrubbed}");
    }
    for (args, said) in [
        (&["scrub", "/nope"][..], "/nope"),
        (&["scrub", "--restart"], "--restart"),
        (&["get", "/nope", "-"], "/nope"),
        (&["put", "in", "/data/y"], "--force"),
        (&["put", "in", "/nope/y"], "/nope"),
        (&["mkdir", "/data"], "/data"),
        (&["rm", "/data"], "remove them first"),
        (&["stat", "/data/../data/y"], ".."),
        (&["mv", "/data", "/data/inside"], "/data"),
        (&["rm", "--unfinished", "/data/y"], "/data/y is no directory"),
        (&["rm", "--unfinished", "/nope"], "/nope"),
    ] {
        let failure = served.run(&place, args);
        assert!(!failure.status.success(), "{args:?}");
        let failure = String::from_utf8(failure.stderr).unwrap();
        assert!(failure.contains(said), "{args:?}: {failure}");
    }
    served.ok(&place, &["put", "in", "/data/y", "--force"]);
    served.ok(&place, &["rm", "/data/y"]);
    served.ok(&place, &["rm", "/data"]);
    assert_eq!(served.ok(&place, &["ls", "--json"]), b"");
    served.stop();
}

#[test]
fn what_a_killed_put_leaves_in_a_directory_can_be_removed_and_so_can_what_is_being_put() {
    let place = Place::new();
    let served = Served::start(&place);
    served.ok(&place, &["mkdir", "/data"]);
    let listed = || String::from_utf8(served.ok(&place, &["ls", "/data", "--json"])).unwrap();
    let putting = |name: &str| {
        let mut put = served.command(&place, &["put", "-", name]).stdin(Stdio::piped()).spawn().unwrap();
        // More than a pipe holds: the file is there once it is taken in.
        put.stdin.as_mut().unwrap().write_all(&Dice(4).bytes(2 << 20)).unwrap();
        put
    };
    let mut killed = putting("/data/x");
    killed.kill().unwrap();
    killed.wait().unwrap();
    let left = listed();
    assert!(left.lines().count() == 1 && left.contains("\"/data/.forebay.put."), "{left}");
    // What is only called like one is somebody's own; and names may be as long as any.
    std::fs::write(place.path("in"), "precious").unwrap();
    let longest = format!("/data/{}", "n".repeat(255));
    for name in ["/data/.forebay.put.notes", longest.as_str()] {
        served.ok(&place, &["put", "in", name]);
        assert_eq!(served.ok(&place, &["get", name, "-"]), b"precious");
    }
    assert_eq!(served.ok(&place, &["rm", "--unfinished", "/data"]), b"Removed 1 file without a name.\n");
    let mut put = putting("/data/y");
    let removed = served.ok(&place, &["rm", "--unfinished", "/data", "--json"]);
    let removed: serde_json::Value = serde_json::from_slice(&removed).unwrap();
    assert_eq!(removed["removed_unfinished"], 1, "{removed}");
    drop(put.stdin.take());
    assert_eq!(put.wait().unwrap().code(), Some(1), "what it put is gone");
    let left = listed();
    assert!(left.lines().count() == 2 && left.contains("notes") && left.contains(&longest), "{left}");
    served.stop();
}

#[test]
fn a_put_on_the_network_that_is_stopped_leaves_nothing_and_says_so() {
    let place = Place::new();
    let served = Served::start(&place);
    let mut put = served.command(&place, &["put", "-", "/x"]).stdin(Stdio::piped()).spawn().unwrap();
    put.stdin.as_mut().unwrap().write_all(&Dice(5).bytes(1 << 20)).unwrap();
    signal(&put, "INT");
    let mut said = String::new();
    put.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(put.wait().unwrap().code(), Some(1), "{said}");
    assert!(said.contains("putting /x was stopped before its end; nothing of it stays"), "{said}");
    assert_eq!(served.ok(&place, &["ls", "--json"]), b"");
    served.stop();
}

#[test]
fn without_the_key_nobody_is_let_in_and_without_a_server_it_is_said_who_was_asked() {
    let place = Place::new();
    let served = Served::start(&place);
    std::fs::write(place.path("wrong"), format!("forebay-key 1 0000000000000001 {}\n", "0".repeat(64))).unwrap();
    let wrong = place.path("wrong").display().to_string();
    let failure = served.failure(&place, &["ls", "--access-key", &wrong]);
    assert!(failure.contains("key"), "{failure}");
    let cluster = served.cluster.clone();
    let key = served.key.clone();
    served.stop();
    let output =
        place.command(&["ls", "--wait", "1s"]).env("FOREBAY_CLUSTER", &cluster).env("FOREBAY_ACCESS_KEY", key).output();
    let output = output.unwrap();
    let failure = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(failure.contains(cluster.trim_start_matches("forebay://")), "{failure}");
}

/// Puts one file after the other until told to stop; those that were acknowledged, and the one that may be there.
fn put_until(served: &Served, place: &Place, first: u64, stop: &AtomicBool) -> (Vec<u64>, Option<u64>) {
    let mut done = Vec::new();
    for number in first.. {
        if stop.load(Ordering::SeqCst) {
            return (done, None);
        }
        std::fs::write(place.path("in"), content(number)).unwrap();
        let put = served.run(place, &["put", "in", &format!("/f.{number}"), "--wait", "1s"]);
        if !put.status.success() {
            return (done, Some(number));
        }
        done.push(number);
    }
    unreachable!("there is always a next number")
}

fn content(number: u64) -> Vec<u8> {
    let mut dice = Dice(number);
    let length = dice.below(3 << 20) as usize;
    dice.bytes(length)
}

#[test]
fn what_was_put_is_there_after_the_server_was_killed_at_any_moment() {
    seeds::each(1, |seed| {
        let (place, mut dice) = (Place::new(), Dice(seed));
        let (mut all, mut next) = (Vec::new(), 0);
        for _ in 0..5 {
            let served = Served::start(&place);
            let (stop, life) = (AtomicBool::new(false), Duration::from_millis(200 + dice.below(1000)));
            let (done, doubtful) = std::thread::scope(|scope| {
                let putting = scope.spawn(|| put_until(&served, &place, next, &stop));
                pass(life);
                signal(&served.child, "KILL");
                stop.store(true, Ordering::SeqCst);
                putting.join().unwrap()
            });
            drop(served);
            next = doubtful.or(done.last().copied()).map_or(next, |last| last + 1);
            all.extend(done);
            let served = Served::start(&place);
            for number in &all {
                let got = served.ok(&place, &["get", &format!("/f.{number}"), "-"]);
                assert!(got == content(*number), "seed {seed}: /f.{number}");
            }
            if let Some(number) = doubtful {
                let got = served.run(&place, &["get", &format!("/f.{number}"), "-"]);
                assert!(!got.status.success() || got.stdout == content(number), "seed {seed}: /f.{number} in part");
                if got.status.success() {
                    all.push(number);
                }
            }
            served.stop();
        }
        assert!(all.len() > 3, "seed {seed}: only {} files were put", all.len());
    });
}

#[test]
fn five_nodes_in_one_process_keep_a_file_with_parity_and_say_how_they_are() {
    let place = Place::new();
    let served = Served::with(&place, &["--nodes", "5", "--size", "64MiB", "--status", "127.0.0.1:0"]);
    let bytes = Dice(2).bytes(3_000_001);
    std::fs::write(place.path("in"), &bytes).unwrap();
    served.ok(&place, &["put", "in", "/x"]);
    assert!(served.ok(&place, &["get", "/x", "-"]) == bytes);
    let stat: serde_json::Value = serde_json::from_slice(&served.ok(&place, &["stat", "/x", "--json"])).unwrap();
    assert_eq!(stat["size_bytes"], 3_000_001, "{stat}");
    assert_eq!(served.ready["data"].as_array().unwrap().len(), 5);
    let status = served.status();
    let up = status["cluster"]["nodes"].as_array().unwrap().iter().filter(|node| node["up"] == true).count();
    assert_eq!((up, status["nodes"].as_array().unwrap().len()), (5, 5), "{status}");
    served.stop();

    let dir = place.path("cluster").display().to_string();
    for fewer in ["0", "1", "4"] {
        place.refused(&["serve", &dir, "--listen", "127.0.0.1:0", "--nodes", fewer], 2, &["5 nodes", fewer]);
    }
    let again = Served::with(&place, &[]);
    assert_eq!(again.ready["data"].as_array().unwrap().len(), 5);
    assert!(again.ok(&place, &["get", "/x", "-"]) == bytes);
    again.stop();
}

#[test]
fn a_program_appends_to_a_file_and_cuts_it() {
    let place = Place::new();
    let served = Served::with(&place, &["--nodes", "3", "--size", "64MiB"]);
    let files = served.files(&served.key);
    let file = files.create("/x", 0o644, None, Options::default()).unwrap();
    let (first, second) = (Dice(1).bytes(300_001), Dice(2).bytes(200_002));
    assert_eq!(file.append(Slice::from(first.clone())).unwrap(), Bytes::ZERO);
    assert_eq!(file.append(Slice::from(second.clone())).unwrap(), Bytes(300_001));
    let both = [first.clone(), second].concat();
    assert!(file.read_at(Bytes::ZERO, Bytes::mib(1)).unwrap() == both);
    file.truncate(Bytes(300_001)).unwrap();
    assert_eq!(file.append(Slice::from_static(b"end")).unwrap(), Bytes(300_001));
    file.truncate(Bytes(300_100)).unwrap();
    file.close().unwrap();
    assert_eq!(files.stat("/x").unwrap().attributes.size, Bytes(300_100));
    let file = files.open("/x", Options::default()).unwrap();
    let expected = [first, b"end".to_vec(), vec![0; 96]].concat();
    assert!(file.read_at(Bytes::ZERO, Bytes::mib(1)).unwrap() == expected);
    assert_eq!(file.append(Slice::from_static(b"x")).unwrap_err().kind, Kind::Usage);
    assert_eq!(file.truncate(Bytes::ZERO).unwrap_err().kind, Kind::Usage);
    file.close().unwrap();
    // Several that have it open append one behind the other, and nobody cuts what others may write.
    let shared = [1, 2].map(|_| files.open_to_write("/x", Options::beside()).unwrap());
    assert_eq!(shared[0].append(Slice::from_static(b"one")).unwrap(), Bytes(300_100));
    assert_eq!(shared[1].append(Slice::from_static(b"two")).unwrap(), Bytes(300_103));
    assert_eq!(shared[0].truncate(Bytes::ZERO).unwrap_err().kind, Kind::Busy);
    for file in shared {
        file.close().unwrap();
    }
    assert_eq!(files.stat("/x").unwrap().attributes.size, Bytes(300_106));
    drop(files);
    served.stop();
}

#[test]
fn a_directory_is_served_that_is_named_as_the_cluster_alone() {
    let place = Place::new();
    for (dir, options) in [("cluster", &[] as &[&str]), ("other", &["--cluster", "other"][..])] {
        let served = Served::of_cluster(&place, &[&["--size", "256MiB"], options].concat());
        assert!(place.path(dir).join("target.0").exists(), "{dir}");
        served.stop();
    }
    assert!(!place.path("forebay-data").exists());
    // Whatever is refused is refused before the place is looked at that is no manager's.
    let serve = |args: &[&str], words: &[&str]| {
        place.refused(&[&["serve", "--join", "somewhere"], args].concat(), 2, words);
    };
    serve(&["third", "--cluster", "other"], &["third is to be served", "--cluster names another directory, other"]);
    serve(&["./other", "--cluster", "other"], &["forebay://HOST:PORT"]);
    // The environment is for who names none.
    serve(&["third"], &["forebay://HOST:PORT"]);
    assert!(!place.path("third").exists());
}

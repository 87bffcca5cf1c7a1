//! A server with few descriptors and little memory: it takes on what has room in them, and loses nothing.

// A test drives the real program through real files and sockets.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use bytes::Bytes as Slice;
use common::served::Served;
use common::{Dice, Place, pass};
use forebay_client::file::options::Options;
use forebay_client::files::blocking::FilesClient;
use forebay_model::Bytes;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What outcome 46 is about: 256 files, and 256 MiB of memory that can be written to, of which an address counts when it is
/// mapped; a control group would count later.
const FILES: usize = 256;
const LIMITS: [&str; 2] = ["--nofile=256", "--data=268435456"];
/// Clients, files of each, and bytes of a file.
const CLIENTS: u64 = 18;
const FILES_EACH: u64 = 2;
const LENGTH: usize = 8_000_000;

fn serving(place: &Place) -> Served {
    Served::limited(place, &LIMITS, &["--size", "512MiB", "--status", "127.0.0.1:0"])
}

fn content(client: u64, nth: u64) -> Vec<u8> {
    Dice(client << 8 | nth).bytes(LENGTH)
}

/// Writes files, each durable before the next, and reads each of them again.
fn load(files: &FilesClient, client: u64) {
    for nth in 0..FILES_EACH {
        let (path, bytes) = (format!("/{client}-{nth}"), Slice::from(content(client, nth)));
        let file = files.create(&path, 0o644, None, Options::default()).unwrap();
        file.write_at(Bytes::ZERO, bytes.clone()).unwrap();
        file.close().unwrap();
        compare(files, &path, &bytes);
    }
}

fn compare(files: &FilesClient, path: &str, bytes: &[u8]) {
    let file = files.open(path, Options::default()).unwrap();
    for at in (0..LENGTH).step_by(2_000_000) {
        let read = file.read_at(Bytes(at as u64), Bytes(2_000_000)).unwrap();
        assert!(
            read == bytes[at..at + read.len()] && read.len() == bytes.len().min(at + 2_000_000) - at,
            "{path} at {at}"
        );
    }
}

/// Files that a process has open.
fn open_files(child: &Child) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap().count()
}

/// A number that the kernel says of a process, in KiB.
fn kib(child: &Child, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// The CPU time of a process.
fn cpu(child: &Child) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

/// Connections of somebody who says nothing.
fn crowd(at: &str, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| TcpStream::connect(at).unwrap()).collect()
}

#[test]
fn outcome_46_with_256_files_and_256_mib_a_server_under_full_load_takes_what_it_can_and_keeps_what_it_took() {
    let place = Place::new();
    let served = serving(&place);
    let said = std::fs::read_to_string(place.path("said")).unwrap();
    for words in ["256 files open", "LimitNOFILE=", "256 MiB of memory (RLIMIT_DATA)", "--memory"] {
        assert!(said.contains(words), "{said}");
    }
    // Many more than there is room for: they make room for one another, and for who has a key.
    let manager = served.cluster.trim_start_matches("forebay://");
    let data = served.ready["data"][0].as_str().unwrap();
    let status = served.ready["status"].as_str().unwrap();
    let crowds = [crowd(data, 200), crowd(manager, 100), crowd(status, 70)];
    let is_over = AtomicBool::new(false);
    let (files, memory) = std::thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let (mut files, mut memory) = (0, 0);
            while !is_over.load(Ordering::SeqCst) {
                files = files.max(open_files(&served.child));
                memory = memory.max(kib(&served.child, "RssAnon:"));
                pass(Duration::from_millis(1));
            }
            (files, memory)
        });
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let served = &served;
                scope.spawn(move || load(&served.files(&served.key), client))
            })
            .collect();
        let ended: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        is_over.store(true, Ordering::SeqCst);
        assert!(ended.iter().all(Result::is_ok), "each client does what it came for");
        watching.join().unwrap()
    });
    println!("{files} files were open, and {memory} KiB of memory used");
    assert!(files < FILES && memory < 256 << 10, "{files} files, {memory} KiB");
    assert!(files > FILES / 2 && memory > 64 << 10, "{files} files and {memory} KiB are no load");
    drop(crowds);
    served.kill();
    let served = serving(&place);
    let files = served.files(&served.key);
    for (client, nth) in (0..CLIENTS).flat_map(|client| (0..FILES_EACH).map(move |nth| (client, nth))) {
        compare(&files, &format!("/{client}-{nth}"), &content(client, nth));
    }
    drop(files);
    served.stop();
}

#[test]
fn outcome_46_a_server_that_its_limits_leave_no_room_for_is_refused_with_the_limit_before_anything_is_made() {
    let place = Place::new();
    for (limit, words) in [
        ("--nofile=64", ["64 files open", "LimitNOFILE="]),
        ("--data=67108864", ["64 MiB of memory (RLIMIT_DATA)", "raise"]),
    ] {
        let output = Served::command_within(&place, &[limit], &["--size", "64MiB"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(words.iter().all(|words| said.contains(words)) && said.contains("at least"), "{said}");
        assert!(!place.cluster().exists(), "nothing was made");
    }
}

#[test]
fn outcome_46_without_a_descriptor_left_a_server_goes_on_with_whom_it_has_and_takes_others_when_there_are_some() {
    let place = Place::new();
    let served = Served::with(&place, &["--size", "256MiB", "--status", "127.0.0.1:0"]);
    let files = served.files(&served.key);
    let bytes = Slice::from(content(1, 1));
    let file = files.create("/x", 0o644, None, Options::default()).unwrap();
    file.write_at(Bytes::ZERO, bytes.clone()).unwrap();
    let limit = |files: &str| {
        let (pid, files) = (served.child.id().to_string(), format!("--nofile={files}:"));
        assert!(Command::new("prlimit").args(["--pid", &pid, &files]).stdin(Stdio::null()).status().unwrap().success());
    };
    limit("8");
    let manager = served.cluster.trim_start_matches("forebay://");
    let mut asking = TcpStream::connect(served.ready["status"].as_str().unwrap()).unwrap();
    asking.write_all(b"GET /status HTTP/1.1\r\n\r\n").unwrap();
    let waiting = [crowd(served.ready["data"][0].as_str().unwrap(), 5), crowd(manager, 5)];
    let (before, begun) = (cpu(&served.child), Instant::now());
    pass(Duration::from_millis(500));
    let (used, passed) = (cpu(&served.child) - before, begun.elapsed());
    assert!(used < passed / 2, "it tries in vain for {used:?} of {passed:?}");
    for nth in 0..10 {
        file.write_at(Bytes(nth * 100_000), bytes.slice(..100_000)).unwrap();
        file.flush().unwrap();
        assert!(file.read_at(Bytes(nth * 100_000), Bytes(100_000)).unwrap() == bytes[..100_000]);
    }
    limit("4096");
    let mut answer = String::new();
    asking.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(waiting);
    file.close().unwrap();
    let another = served.files(&served.key);
    let file = another.open("/x", Options::default()).unwrap();
    assert!(file.read_at(Bytes(900_000), Bytes(100_000)).unwrap() == bytes[..100_000]);
    drop((file, another, files));
    served.stop();
}

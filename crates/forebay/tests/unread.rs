//! Whoever reads what the program says, or does not any more, changes nothing of what it does, nor how that ends.

// A test drives the real program through real files, pipes and sockets.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::served::Served;
use common::{Place, hardy, let_its_disk_die, pass};
use std::fs::File;
use std::io::{BufRead, BufReader, PipeReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A second or three of elements: how a recording goes is told each second.
const RECORDED: [&str; 7] = ["record", "/r", "--generate", "1MB/s,1KiB", "--count", "2500", "--json"];

fn with_ring() -> Place {
    let place = Place::formatted("256MiB");
    place.ok(&["ring", "create", "/r", "--capacity", "32MiB", "--flush-interval", "50ms"]);
    place
}

/// A pipe into which nothing goes any more, until somebody reads.
fn full_pipe() -> (PipeReader, Stdio) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    // As much as a pipe holds.
    writer.write_all(&vec![b'\n'; 64 << 10]).unwrap();
    (reader, writer.into())
}

#[test]
fn a_recording_goes_on_when_nobody_is_there_any_more_who_reads_how_it_goes() {
    let place = with_ring();
    let mut recording = place.start(&RECORDED);
    let mut lines = BufReader::new(recording.stdout.take().unwrap());
    lines.read_line(&mut String::new()).unwrap();
    drop(lines);
    let output = recording.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(place.count("/r", ""), 2500, "{said}");
    assert_eq!(output.status.code(), Some(1), "who wanted to know how it went was not told: {said}");
    assert!(said.contains("forebay: ") && said.contains("standard output was closed"), "{said}");
}

#[test]
fn a_recording_goes_on_when_how_it_goes_has_no_room() {
    let place = with_ring();
    let output = place.command(&RECORDED).stdout(File::create("/dev/full").unwrap()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(place.count("/r", ""), 2500, "{said}");
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("standard output is a file on a full file system"), "{said}");
}

#[test]
fn a_recording_waits_for_nobody_who_reads_how_it_goes() {
    let place = with_ring();
    let (mut reader, full) = full_pipe();
    let mut recording = place.command(&RECORDED).stdout(full).spawn().unwrap();
    let began = Instant::now();
    while place.count("/r", "") < 2500 {
        assert!(began.elapsed() < Duration::from_secs(300), "it stands still");
    }
    let mut told = String::new();
    reader.read_to_string(&mut told).unwrap();
    assert!(told.contains("\"summary\""), "{told}");
    assert_eq!(recording.wait().unwrap().code(), Some(0));
}

#[test]
fn a_recording_whose_disk_dies_fails_also_when_nobody_reads_how_it_goes() {
    let place = with_ring();
    for json in [true, false] {
        let args = ["record", "/r", "--generate", "2MB/s,1000", "--json"];
        let mut recording = hardy(&place, &args[..if json { 5 } else { 4 }]).spawn().unwrap();
        // Once it says so it has the disk, or how it goes.
        if json {
            BufReader::new(recording.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
        } else {
            let mut said = BufReader::new(recording.stderr.as_mut().unwrap());
            said.read_line(&mut String::new()).unwrap();
            drop(recording.stdout.take());
            pass(Duration::from_millis(300));
        }
        let_its_disk_die(&recording);
        let output = recording.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("check the device"), "{said}");
    }
}

#[test]
fn what_was_looked_for_decides_how_it_ends_also_when_nobody_reads_the_rest() {
    let place = with_ring();
    let target = std::fs::read_dir(place.cluster()).unwrap().map(|entry| entry.unwrap().path());
    let target = target.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let sound = ["check", target.to_str().unwrap()];
    let damaged = ["check", "damaged"];
    std::fs::copy(&target, place.path("damaged")).unwrap();
    let superblock = [0xff; 4096];
    std::os::unix::fs::FileExt::write_all_at(
        &File::options().write(true).open(place.path("damaged")).unwrap(),
        &superblock,
        0,
    )
    .unwrap();
    let (much, little) = (["plan", "--rate", "900GB/s"], ["plan", "--rate", "1B/s"]);
    for (args, code) in [(&damaged[..], 1), (&much, 1), (&sound, 0), (&little, 0)] {
        assert_eq!(place.run(args).status.code(), Some(code), "{args:?}");
        let mut unread = place.start(args);
        drop(unread.stdout.take());
        let output = unread.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.contains("closed")), (Some(code), false), "{args:?}: {said}");
    }
}

#[test]
fn a_server_waits_for_nobody_who_reads_what_it_says() {
    let place = Place::new();
    // What it says when it makes a target is heard.
    Served::start(&place).stop();
    let (mut reader, full) = full_pipe();
    let served = Served::heard_by(&place, full);
    std::fs::write(place.path("file"), "content").unwrap();
    let node = served.ready["data"][0].as_str().unwrap();
    let mut malformed = TcpStream::connect(node).unwrap();
    malformed.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    malformed.write_all(&[b'x'; 4096]).unwrap();
    // It ends the connection when it has said why, or is stuck.
    let _ = malformed.read_to_end(&mut Vec::new());
    served.ok(&place, &["put", "file", "/file", "--wait", "5s"]);
    let mut said = vec![0; 64 << 10];
    reader.read_exact(&mut said).unwrap();
    served.stop();
    let mut said = String::new();
    reader.read_to_string(&mut said).unwrap();
    assert!(said.contains("was malformed"), "it is said once there is room: {said}");
}

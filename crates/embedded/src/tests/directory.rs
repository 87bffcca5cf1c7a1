//! What makes a directory a cluster, and what is said of one that is none.

use super::{element, enter, fresh, read, small, spec, time};
use crate::{FormatOptions, Measure, Options, Settings, format, open};
use forebay_env::real;
use forebay_model::{Bytes, Error, Kind};
use std::path::{Path, PathBuf};
use std::time::Duration;

fn refusal(dir: &Path) -> Error {
    let error = open(dir, Options::default()).err().expect("refused");
    assert!(!error.message.contains('\n'), "one sentence: {error}");
    error
}

#[test]
fn a_place_that_is_no_cluster_is_told_apart_and_says_what_to_do() {
    let dir = tempfile::tempdir().expect("a directory");
    let missing = refusal(&dir.path().join("nowhere"));
    assert_eq!(missing.kind, Kind::Missing);
    assert!(
        missing.message.contains("no directory") && missing.message.contains("forebay format --cluster"),
        "{missing}"
    );
    let empty = refusal(dir.path());
    assert_eq!(empty.kind, Kind::Missing);
    assert!(empty.message.contains("cluster.toml") && empty.message.contains("--size 10GiB`"), "{empty}");
    std::fs::write(dir.path().join("file"), "x").expect("written");
    assert_eq!(refusal(&dir.path().join("file")).kind, Kind::Usage);
    for (text, kind) in [
        ("version = 2\nshards = 7\n", Kind::Version),
        ("version = 1\ntargets = []\n", Kind::Damaged),
        ("version = 1\ntargets = [\"a\"]\nmore = 1\n", Kind::Damaged),
        ("\0\0", Kind::Damaged),
    ] {
        std::fs::write(dir.path().join("cluster.toml"), text).expect("written");
        assert_eq!(refusal(dir.path()).kind, kind, "{text:?}");
    }
}

#[test]
fn a_device_is_measured_for_as_long_as_was_said_or_else_as_suits_it_within_a_limit() {
    let [second, minute] = [1, 60].map(Duration::from_secs);
    for (measure, usual, budget) in [
        (Measure::For(minute), second, Some(minute)),
        (Measure::For(second), minute, Some(second)),
        (Measure::AtMost(minute), second, Some(second)),
        (Measure::AtMost(second), minute, Some(second)),
        (Measure::Guess, minute, None),
    ] {
        assert_eq!(measure.budget(usual), budget, "{measure:?}, usually {usual:?}");
    }
}

#[test]
fn a_target_that_is_missing_or_of_another_size_is_named() {
    let dir = fresh();
    let target = dir.path().join("target.0");
    let file = std::fs::OpenOptions::new().write(true).open(&target).expect("opened");
    file.set_len(Bytes::mib(32).0).expect("shorter");
    let shorter = refusal(dir.path());
    assert!(shorter.message.matches("target.0").count() == 1 && shorter.message.contains("33554432"), "{shorter}");
    file.set_len(0).expect("nothing");
    assert!(refusal(dir.path()).message.contains("target.0"));
    std::fs::remove_file(&target).expect("removed");
    let missing = refusal(dir.path());
    assert_eq!(missing.kind, Kind::Missing);
    assert!(missing.message.contains("target.0"), "{missing}");
}

#[test]
fn formatting_asks_before_it_ends_what_is_there() {
    let dir = fresh();
    {
        let cluster = enter(dir.path());
        cluster.create_ring(spec("/a")).expect("created");
        let busy = format(dir.path(), &FormatOptions { force: true, ..small() }).expect_err("in use");
        assert_eq!(busy.kind, Kind::Busy, "{busy}");
        cluster.close().expect("closed");
    }
    assert_eq!(format(dir.path(), &small()).expect_err("a cluster").kind, Kind::Exists);
    assert_eq!(enter(dir.path()).status().expect("status").len(), 1);
    let formatted = format(dir.path(), &FormatOptions { force: true, ..small() }).expect("formatted");
    assert_eq!((formatted.len(), formatted[0].size), (1, Bytes::mib(64)));
    assert_eq!(enter(dir.path()).status().expect("status"), []);
    for bad in [
        FormatOptions { size: None, ..small() },
        FormatOptions { devices: vec![PathBuf::from("x")], ..small() },
        FormatOptions { size: Some(Bytes::kib(64)), ..small() },
        FormatOptions { size: Some(Bytes::mib(2)), ..small() },
    ] {
        let other = tempfile::tempdir().expect("a directory");
        let error = format(other.path(), &bad).expect_err("refused");
        assert_eq!(error.kind, Kind::Usage, "{error}");
        assert!(!other.path().join("cluster.toml").exists() && !other.path().join("target.0").exists());
    }
}

#[test]
fn a_file_without_all_of_its_space_has_it_once_it_is_a_target() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("sparse");
    std::fs::File::create(&path).and_then(|file| file.set_len(Bytes::mib(64).0)).expect("a file");
    format(dir.path().join("cluster"), &FormatOptions::devices(vec![path.clone()], Measure::Guess)).expect("formatted");
    let metadata = std::fs::metadata(&path).expect("it is there");
    assert!(metadata.blocks() * 512 >= Bytes::mib(64).0, "{} blocks", metadata.blocks());
}

#[test]
fn several_named_targets_are_one_cluster() {
    let files = tempfile::tempdir().expect("a directory");
    let devices: Vec<PathBuf> = ["one", "two"].map(|name| files.path().join(name)).to_vec();
    for device in &devices {
        drop(real::create_file(device, Bytes::mib(64)).expect("a file"));
    }
    let dir = tempfile::tempdir().expect("a directory");
    let options = FormatOptions { size: None, devices: devices.clone(), ..small() };
    format(dir.path(), &options).expect("formatted");
    let named: Vec<PathBuf> = devices.iter().map(|d| d.canonicalize().expect("a path")).collect();
    assert_eq!(Settings::read(dir.path()).expect("settings").targets, named);

    let cluster = enter(dir.path());
    assert_eq!(cluster.info().expect("info").targets.len(), 2);
    // Both do not fit one target.
    for name in ["/a", "/b"] {
        cluster.create_ring(forebay_model::ring::RingSpec { capacity: Bytes::mib(40), ..spec(name) }).expect("created");
    }
    assert_eq!(cluster.create_ring(spec("/a")).expect_err("there is one").kind, Kind::Exists);
    let large = forebay_model::ring::RingSpec { capacity: Bytes::mib(40), ..spec("/c") };
    let refused = cluster.create_ring(large).expect_err("no room");
    assert!(matches!(refused.kind, Kind::Refused | Kind::Full), "{refused}");
    for (name, first) in [("/a", 0), ("/b", 100)] {
        let mut recorder = cluster.recorder(name).expect("recording");
        for n in first..first + 100 {
            recorder.element(time(n), &[&element(n, 100)], &[]).expect("room");
        }
        recorder.close().expect("durable");
    }
    let free: Vec<Bytes> = cluster.info().expect("info").targets.iter().map(|t| t.free).collect();
    assert!(free.iter().all(|free| *free < Bytes::mib(30)), "{free:?}");
    assert_eq!(read(&cluster, "/b", "").elements.len(), 100);
    assert_eq!(read(&cluster, "/b", "").elements[0].1, 100);
    assert_eq!(cluster.ring("/d").expect_err("none").kind, Kind::Missing);
    cluster.delete_ring("/b").expect("deleted");
    assert_eq!(cluster.status().expect("status").len(), 1);
}

#[test]
fn a_formatted_device_is_not_taken_into_another_cluster_unasked() {
    let first = fresh();
    let device = first.path().join("target.0");
    let dir = tempfile::tempdir().expect("a directory");
    let options = FormatOptions { size: None, devices: vec![device], ..small() };
    assert_eq!(format(dir.path(), &options).expect_err("it is a target").kind, Kind::Exists);
    let cluster = enter(first.path());
    let force = FormatOptions { force: true, ..options };
    assert_eq!(format(dir.path(), &force).expect_err("in use").kind, Kind::Busy);
    drop(cluster);
    format(dir.path(), &force).expect("formatted");
}

#[test]
fn a_device_that_holds_something_is_not_formatted_unasked_and_none_of_the_others_is() {
    let files = tempfile::tempdir().expect("a directory");
    let old_raid = (16 << 20) - (64 << 10);
    let content: [(&str, u64, &[u8], &str); 5] = [
        ("old-raid", old_raid, b"\xfc\x4e\x2b\xa9", "a part of a Linux RAID (its signature is at byte 16711680)"),
        ("raid", 4096, b"\xfc\x4e\x2b\xa9", "a part of a Linux RAID (its signature is at byte 4096)"),
        ("disk", 512, b"EFI PART", "a GPT partition table"),
        // Both are targets, and neither can be opened: of a later version, and with one copy that is none.
        ("newer", 0, b"FOREBAY\0\x02\0\0\0", "is a target already"),
        ("broken", 64 << 10, b"FOREBAY\0", "is a target already"),
    ];
    let empty = files.path().join("empty");
    drop(real::create_file(&empty, Bytes::mib(16)).expect("a file"));
    for (name, at, bytes, words) in content {
        let path = files.path().join(name);
        drop(real::create_file(&path, Bytes::mib(16)).expect("a file"));
        std::os::unix::fs::FileExt::write_all_at(
            &std::fs::OpenOptions::new().write(true).open(&path).expect("opened"),
            bytes,
            at,
        )
        .expect("written");
        let before = std::fs::read(&path).expect("read");
        let dir = files.path().join("one/two");
        let options = FormatOptions { size: None, devices: vec![empty.clone(), path.clone()], ..small() };
        let error = format(&dir, &options).expect_err("refused");
        assert_eq!(error.kind, Kind::Exists, "{error}");
        assert!(error.message.contains(words) && error.message.contains(name), "{error}");
        assert!(std::fs::read(&path).expect("read") == before, "{name} was changed");
        assert!(std::fs::read(&empty).expect("read").iter().all(|byte| *byte == 0), "{name}: the other was changed");
        format(
            files.path().join(name.to_owned() + ".d"),
            &FormatOptions { force: true, devices: vec![path], ..options },
        )
        .expect("forced");
    }
}

#[test]
fn formatting_that_comes_to_nothing_leaves_nothing_behind() {
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("file");
    std::fs::write(&file, "x").expect("written");
    let names = |dir: &Path| -> Vec<std::ffi::OsString> {
        std::fs::read_dir(dir).expect("listed").map(|entry| entry.expect("listed").file_name()).collect()
    };
    for options in [
        FormatOptions { size: Some(Bytes::mib(2)), ..small() },
        FormatOptions { size: Some(Bytes::gib(1 << 22)), ..small() },
        FormatOptions { size: None, devices: vec![PathBuf::from("/dev/null")], ..small() },
        FormatOptions { size: None, devices: vec![file.clone()], ..small() },
    ] {
        format(place.path().join("a/b"), &options).expect_err("refused");
        assert_eq!(names(place.path()), ["file"], "{options:?}");
        let there = place.path().join("there");
        std::fs::create_dir(&there).expect("a directory");
        format(&there, &options).expect_err("refused");
        assert_eq!(names(&there), [""; 0], "what was there stays, as it was");
        std::fs::remove_dir(&there).expect("empty");
    }
    format(file.join("a"), &small()).expect_err("below a file");
    assert_eq!(names(place.path()), ["file"]);
}

#[test]
fn a_cluster_stays_if_what_is_to_replace_it_by_force_has_no_room() {
    let dir = fresh();
    enter(dir.path()).create_ring(spec("/a")).expect("created");
    let options = FormatOptions { size: Some(Bytes::gib(1 << 22)), force: true, ..small() };
    let error = format(dir.path(), &options).expect_err("no room");
    assert_eq!(error.kind, Kind::Full, "{error}");
    assert_eq!(enter(dir.path()).status().expect("status").len(), 1);
}

/// A cluster in a directory of its own, with a ring and closed in order, and a copy of its target beside it.
fn copied() -> (tempfile::TempDir, PathBuf) {
    let dir = fresh();
    let cluster = enter(dir.path());
    cluster.create_ring(spec("/a")).expect("created");
    cluster.close().expect("closed");
    let copy = dir.path().join("copy");
    std::fs::copy(dir.path().join("target.0"), &copy).expect("copied");
    (dir, copy)
}

/// The lines of `cluster.toml`, each begun with one of these replaced.
fn rewrite(dir: &Path, lines: &[(&str, String)]) {
    let path = dir.join("cluster.toml");
    let text = std::fs::read_to_string(&path).expect("a cluster");
    let replaced = text.lines().filter_map(|line| {
        let found = lines.iter().find(|(begin, _)| line.starts_with(begin));
        Some(found.map_or(line, |(_, with)| with)).filter(|line| !line.is_empty())
    });
    let text: String = replaced.map(|line| line.to_owned() + "\n").collect();
    std::fs::write(path, text).expect("written");
}

#[test]
fn a_copy_of_a_target_is_refused_in_the_same_cluster_and_beside_the_one_that_is_open() {
    let (dir, copy) = copied();
    let id = Settings::read(dir.path()).expect("settings").ids[0];
    let before = [dir.path().join("target.0"), copy.clone()].map(|path| std::fs::read(path).expect("read"));
    for ids in [format!("ids = [\"{id}\", \"{id}\"]"), String::new()] {
        rewrite(dir.path(), &[("targets", "targets = [\"target.0\", \"copy\"]".into()), ("ids", ids)]);
        let twice = refusal(dir.path());
        assert_eq!(twice.kind, Kind::Refused, "{twice}");
        for word in ["target.0 and", "copy are both target", &id.to_string(), "out of cluster.toml"] {
            assert!(twice.message.contains(word), "'{word}': {twice}");
        }
    }
    // In a cluster of its own it is welcome, unless the other is open.
    rewrite(dir.path(), &[("targets", "targets = [\"target.0\"]".into())]);
    let other = tempfile::tempdir().expect("a directory");
    std::fs::rename(&copy, other.path().join("target.0")).expect("moved");
    std::fs::copy(dir.path().join("cluster.toml"), other.path().join("cluster.toml")).expect("copied");
    let after = [dir.path(), other.path()].map(|dir| std::fs::read(dir.join("target.0")).expect("read"));
    assert!(before == after, "nothing was changed");
    let first = enter(dir.path());
    let second = refusal(other.path());
    assert_eq!(second.kind, Kind::Busy, "{second}");
    for word in ["target.0 is target", &id.to_string(), "this process has open at another place", "close that one"] {
        assert!(second.message.contains(word), "'{word}': {second}");
    }
    assert!(std::fs::read(other.path().join("target.0")).expect("read") == before[1], "nothing was changed");
    assert_eq!(first.status().expect("going on").len(), 1);
    first.close().expect("closed");
    assert_eq!(enter(other.path()).status().expect("a cluster").len(), 1);
}

#[test]
fn outcome_43_a_target_of_another_cluster_is_told_and_left_as_it_is() {
    let (dir, copy) = copied();
    let other = fresh();
    let ids = [dir.path(), other.path()].map(|dir| Settings::read(dir).expect("settings").ids[0].to_string());
    let target = other.path().join("target.0");
    std::fs::rename(&copy, &target).expect("moved");
    let before = std::fs::read(&target).expect("read");
    let error = refusal(other.path());
    assert_eq!(error.kind, Kind::Refused, "{error}");
    for word in [&format!("target.0 is target {}", ids[0]), &format!("this cluster is {}", ids[1]), "the right one"] {
        assert!(error.message.contains(word), "'{word}': {error}");
    }
    assert!(std::fs::read(&target).expect("read") == before, "nothing was changed");
    // A file from before there were ids takes what it finds.
    rewrite(other.path(), &[("ids", String::new())]);
    assert_eq!(Settings::read(other.path()).expect("settings").ids, []);
    assert_eq!(enter(other.path()).status().expect("a cluster").len(), 1);
    for (ids, words) in [("[\"a\", \"b\"]", "1 targets and 2 ids"), ("[\"xyz\"]", "'xyz' is no id")] {
        rewrite(dir.path(), &[("ids", format!("ids = {ids}"))]);
        let bad = refusal(dir.path());
        assert!(bad.kind == Kind::Damaged && bad.message.contains(words), "{bad}");
    }
}

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod rates;
mod recovered;

use super::*;
use crate::reach::Reach;
use bytes::Bytes as Slice;
use forebay_client::file::options::Options;
use forebay_embedded::{FormatOptions, Measure, format};
use forebay_env::real::create_file;
use forebay_model::Kind;
use forebay_wire::control::access::RevokeKey;
use forebay_wire::control::files::OpenToWrite;
use forebay_wire::control::names::Place;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A directory with so many targets.
fn cluster(targets: usize) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory for the test");
    let devices: Vec<PathBuf> = (0..targets).map(|n| dir.path().join(format!("device.{n}"))).collect();
    devices.iter().for_each(|path| drop(create_file(path, Bytes::mib(256)).expect("a file")));
    let options = FormatOptions::devices(devices, Measure::Guess);
    format(dir.path().join("cluster"), &options).expect("a cluster");
    dir
}

fn options() -> ServerOptions {
    ServerOptions {
        data: "127.0.0.1:0".into(),
        control: "127.0.0.1:0".into(),
        tls: None,
        address: None,
        status: None,
        taken: forebay_node::network::Bounds::default().into(),
        raid: None,
        upkeep: UpkeepOptions::default(),
        kept: |_, _| {},
        warned: |_| {},
        told: |_| {},
    }
}

fn pattern(length: usize, seed: u64) -> Vec<u8> {
    (0..length as u64).map(|n| (n.wrapping_mul(2654435761).wrapping_add(seed) >> 7) as u8).collect()
}

#[test]
fn a_file_over_five_targets_is_there_after_everything_was_ended_and_started_again() {
    let dir = cluster(5);
    let dir = dir.path().join("cluster");
    let bytes = pattern(3_333_333, 1);
    {
        let server = Server::start(&dir, std::slice::from_ref(&dir), &options()).expect("it starts");
        let files = server.files().expect("a way to it");
        files.make_directory("/data", 0o755).expect("a directory");
        let file = files.create("/data/x", 0o644, None, Options::default()).expect("a file");
        file.write_at(Bytes::ZERO, Slice::from(bytes.clone())).expect("it is taken");
        file.close().expect("it is durable");
        drop(files);
        server.close().expect("it ends");
    }
    let server = Server::start(&dir, std::slice::from_ref(&dir), &options()).expect("it starts");
    let files = server.files().expect("a way to it");
    let entry = files.stat("/data/x").expect("it is there");
    assert_eq!(entry.attributes.size, Bytes(bytes.len() as u64));
    let file = files.open("/data/x", Options::default()).expect("it opens");
    let back = file.read_at(Bytes::ZERO, Bytes::mib(4)).expect("bytes");
    assert!(back == bytes, "{} bytes", back.len());
    assert_eq!(file.write_at(Bytes::ZERO, Slice::from_static(b"x")).expect_err("it is open to read").kind, Kind::Usage);
    file.close().expect("it closes");
    // In the middle, by somebody who shares it with others.
    let shared = Options::beside();
    let file = files.open_to_write("/data/x", shared).expect("it opens");
    let piece = pattern(100_000, 2);
    file.write_at(Bytes(1_000_001), Slice::from(piece.clone())).expect("it is durable");
    file.close().expect("it closes");
    let mut expected = bytes.clone();
    expected[1_000_001..1_100_001].copy_from_slice(&piece);
    let file = files.open("/data/x", Options::default()).expect("it opens");
    assert!(file.read_at(Bytes::ZERO, Bytes::mib(4)).expect("bytes") == expected);
    file.close().expect("it closes");
    // Who drops a file has closed it as well, once it is done.
    let file = files.open_to_write("/data/x", Options::default()).expect("it opens");
    file.write_at(Bytes(bytes.len() as u64), Slice::from_static(b"more")).expect("it is taken");
    drop(file);
    let begun = Instant::now();
    while files.stat("/data/x").expect("it is there").attributes.size != Bytes(bytes.len() as u64 + 4) {
        assert!(begun.elapsed() < Duration::from_secs(60), "who dropped it has not closed it");
    }
    files.rename("/data/x", "/data/y", true).expect("it is renamed");
    files.remove("/data/y").expect("it is removed");
    assert_eq!(files.stat("/data/y").expect_err("it is gone").kind, Kind::Missing);
    drop(files);
    server.close().expect("it ends");
}

#[test]
fn with_its_key_a_cluster_is_reached_as_from_another_process_and_without_it_is_not() {
    let dir = cluster(1);
    let dir = dir.path().join("cluster");
    let server = Server::start(&dir, std::slice::from_ref(&dir), &options()).expect("it starts");
    let key = crate::key::read(server.key()).expect("a key");
    let id = key.key;
    let reach = |key| Reach { manager: server.control(), key, tls: None, patience: Duration::from_secs(20) };
    let files = reach(key.clone()).files().expect("a way to it");
    let file = files.create("/x", 0o644, None, Options::default()).expect("a file");
    file.write_at(Bytes::ZERO, Slice::from_static(b"over gRPC and frames")).expect("it is taken");
    file.close().expect("it is durable");
    let file = files.open("/x", Options::default()).expect("it opens");
    assert_eq!(file.read_at(Bytes::ZERO, Bytes(100)).expect("bytes"), b"over gRPC and frames");
    file.close().expect("it closes");
    // What is secret, nobody else on the machine reads.
    for name in ["root.key", "manager.redb"] {
        let mode = std::fs::metadata(dir.join(name)).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name}");
    }
    let forged = forebay_control::AccessKey { secret: [0; 32], ..key };
    assert_eq!(reach(forged).files().err().expect("it is another secret").kind, Kind::Forbidden);
    // Whoever is connected with a key that is revoked is let do nothing any more.
    let call = Call { sequence: 1, change: Change::RevokeKey(RevokeKey { key: id }) };
    server
        .rack
        .manager()
        .desk()
        .expect("it is there")
        .change_blocking(server.rack.manager().root(), call)
        .expect("it is revoked");
    assert_eq!(files.stat("/x").expect_err("it was revoked").kind, Kind::Forbidden);
    drop(files);
    server.close().expect("it ends");
}

#[test]
fn a_directory_does_not_take_the_number_of_a_node_that_joined() {
    let dir = tempfile::tempdir().expect("a directory for the test");
    let (dir, dirs) = (dir.path(), recovered::nodes(dir.path(), 2));
    let reach = |server: &Server| {
        let key = crate::key::read(server.key()).expect("a key");
        Reach { manager: server.control(), key, tls: None, patience: Duration::from_secs(20) }
    };
    let server = Server::start(dir, &dirs[..1], &options()).expect("it starts");
    let admitted = reach(&server).ask(|manager| async move { crate::admission::admit(&manager, 2).await });
    admitted.expect("another machine may join");
    let users = |server: &Server| {
        let map = reach(server).ask(|manager| async move { crate::admission::map(&manager).await }).expect("a map");
        map.nodes.iter().map(|node| (node.node, node.user)).collect::<Vec<_>>()
    };
    let before = users(&server);
    server.close().expect("it ends");
    let refused = Server::start(dir, &dirs, &options()).err().expect("it does not start");
    assert_eq!(refused.kind, Kind::Usage);
    assert!(refused.message.contains("node 2") && refused.message.contains("serve DIR --join"), "{refused}");
    let server = Server::start(dir, &dirs[..1], &options()).expect("it starts as before");
    assert_eq!(users(&server), before);
    server.close().expect("it ends");
}

#[test]
fn where_metadata_of_nodes_elsewhere_are_gone_no_other_cluster_begins_until_the_key_is_moved_away() {
    let dir = tempfile::tempdir().expect("a directory for the test");
    let (dir, key) = (dir.path(), dir.path().join(ROOT_KEY));
    let start = || Server::start(dir, &[], &options());
    start().expect("it starts").close().expect("it ends");
    let before = std::fs::read(&key).expect("a key");
    start().expect("it is there still").close().expect("it ends");
    // Gone, and there without anything in it.
    let gone = || std::fs::remove_file(dir.join(METADATA)).expect("it was there");
    let empty = || std::fs::write(dir.join(METADATA), []).expect("it is empty");
    for lose in [&gone as &dyn Fn(), &empty] {
        lose();
        let refused = start().err().expect("it does not start");
        assert_eq!(refused.kind, Kind::Missing);
        for named in ["manager.redb is gone", "root.key is", "manager recover", "move the key away"] {
            assert!(refused.message.contains(named), "{refused}");
        }
        assert!(std::fs::read(&key).expect("a key") == before);
    }
    std::fs::rename(&key, dir.join("root.key.before")).expect("it is moved");
    let server = start().expect("another cluster begins");
    let key = crate::key::read(server.key()).expect("a key");
    let reach = Reach { manager: server.control(), key, tls: None, patience: Duration::from_secs(20) };
    reach.files().expect("its key opens it").stat("/").expect("it is there");
    server.close().expect("it ends");
}

#[test]
fn what_the_upkeep_of_a_process_that_was_killed_had_open_is_not_in_use_when_it_is_started_again() {
    let dir = cluster(1);
    let dir = dir.path().join("cluster");
    let start = || Server::start(&dir, std::slice::from_ref(&dir), &options()).expect("it starts");
    let number = || {
        let text = std::fs::read_to_string(dir.join(UPKEEP_CLIENT)).expect("it is there");
        u64::from_str_radix(text.trim_end(), 16).expect("a number")
    };
    let open = |server: &Server, client: u64, alone: bool| {
        let place = Place::path("x");
        let open = OpenToWrite { place, alone, upkeep: false, yields: false, cached: false };
        let desk = server.rack.manager().desk().expect("it is open");
        desk.change_blocking(Principal::root(client), Call { sequence: 1 << 40, change: Change::OpenToWrite(open) })
    };
    let server = start();
    let files = server.files().expect("a way to it");
    files.create("/x", 0o644, None, Options::default()).expect("a file").close().expect("it closes");
    drop(files);
    let before = number();
    open(&server, before, false).expect("it opens");
    // Nobody closes it.
    server.close().expect("it ends");
    let server = start();
    assert_ne!(number(), before);
    if let Err(error) = open(&server, 77, true) {
        // It may be mended just now.
        assert!(error.kind == Kind::Busy && !error.message.contains(&format!("client {before} has")), "{error}");
    }
    server.close().expect("it ends");
}

use super::*;
use bytes::Bytes as Slice;
use forebay_client::file::options::Options;
use forebay_embedded::{FormatOptions, Measure, format};
use forebay_env::real::create_file;
use forebay_model::Kind;
use std::path::PathBuf;

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
    ServerOptions { data: "127.0.0.1:0".to_string(), bounds: Bounds::default() }
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
        let server = Server::start(&dir, &options()).expect("it starts");
        let files = server.files().expect("a way to it");
        files.make_directory("/data", 0o755).expect("a directory");
        let file = files.create("/data/x", 0o644, None, Options::default()).expect("a file");
        file.write_at(Bytes::ZERO, Slice::from(bytes.clone())).expect("it is taken");
        file.close().expect("it is durable");
        drop(files);
        server.close().expect("it ends");
    }
    let server = Server::start(&dir, &options()).expect("it starts");
    let files = server.files().expect("a way to it");
    let entry = files.stat("/data/x").expect("it is there");
    assert_eq!(entry.attributes.size, Bytes(bytes.len() as u64));
    let file = files.open("/data/x", Options::default()).expect("it opens");
    let back = file.read_at(Bytes::ZERO, Bytes::mib(4)).expect("bytes");
    assert!(back == bytes, "{} bytes", back.len());
    assert_eq!(file.write_at(Bytes::ZERO, Slice::from_static(b"x")).expect_err("it is open to read").kind, Kind::Usage);
    file.close().expect("it closes");
    // In the middle, by somebody who shares it with others.
    let shared = Options { alone: false, ..Options::default() };
    let file = files.open_to_write("/data/x", shared).expect("it opens");
    let piece = pattern(100_000, 2);
    file.write_at(Bytes(1_000_001), Slice::from(piece.clone())).expect("it is durable");
    file.close().expect("it closes");
    let mut expected = bytes.clone();
    expected[1_000_001..1_100_001].copy_from_slice(&piece);
    let file = files.open("/data/x", Options::default()).expect("it opens");
    assert!(file.read_at(Bytes::ZERO, Bytes::mib(4)).expect("bytes") == expected);
    file.close().expect("it closes");
    files.rename("/data/x", "/data/y", true).expect("it is renamed");
    files.remove("/data/y").expect("it is removed");
    assert_eq!(files.stat("/data/y").expect_err("it is gone").kind, Kind::Missing);
    drop(files);
    server.close().expect("it ends");
}

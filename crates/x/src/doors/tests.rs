use super::*;

fn findings_in(path: &str, text: &str) -> Vec<String> {
    doors(&Tree::of(&[(path, text)])).iter().map(ToString::to_string).collect()
}

fn findings(text: &str) -> Vec<String> {
    findings_in("crates/target/src/ring.rs", text)
}

#[test]
fn every_way_to_a_door_is_found() {
    for text in [
        "use std::time::Instant;",
        "use std::time::{Duration, Instant};",
        "use std::{\n    io,\n    time::{self, SystemTime},\n};",
        "let t = std::time::Instant::now();",
        "let t = time::Instant::now();",
        "std::thread::sleep(d);",
        "use std::thread;",
        "use std::thread::{self as other};",
        "use std::{fs, io};",
        "use std::fs::File as Plain;",
        "::std::fs::write(a, b);",
        "use std::net::{IpAddr, TcpStream};",
        "use std::os::unix::net::UnixStream;",
        "let n = rand::thread_rng().next();",
        "let v = std::env::var(NAME);",
        "std::process::Command::new(NAME);",
        "use std::collections::HashMap;",
        "let m = collections::HashSet::new();",
        "let p = unsafe { libc::getpid() };",
        "use socket2::Socket;",
        "println!(\"hello\");",
        "std::eprintln!(\"hello\");",
    ] {
        assert_eq!(findings(text).len(), 1, "{text}: {:?}", findings(text));
    }
}

#[test]
fn a_finding_says_where_what_and_what_instead() {
    let found = findings("//! A ring.\nuse std::{\n    io,\n    time::Instant,\n};\n");
    let expected = "crates/target/src/ring.rs:4: doors: std::time::Instant is used; take forebay_model::Moment";
    assert!(found[0].starts_with(expected), "{found:?}");
}

#[test]
fn what_only_sounds_like_a_door_is_left_alone() {
    for text in [
        "use std::time::Duration;",
        "use std::net::{IpAddr, Ipv4Addr};",
        "// std::thread::spawn would be wrong here",
        "let message = \"std::fs::read failed\";",
        "use std::collections::BTreeMap;",
        "fn libc(rustix: u32) -> u32 { rustix }",
        "use crate::thread::Thread;",
        "let instant = self.instant;",
        "if !print (a) {}",
        "let dir = env!(\"CARGO_MANIFEST_DIR\");",
        "for argument in std::env::args() {}",
    ] {
        assert!(findings(text).is_empty(), "{text}: {:?}", findings(text));
    }
}

#[test]
fn the_doors_themselves_and_tests_and_the_binary_are_exempt() {
    let text = "use std::thread;\n";
    for path in [
        "crates/env/src/real/clock.rs",
        "crates/target/src/ring/tests.rs",
        "crates/target/tests/crash.rs",
        "crates/forebay/src/main.rs",
        "crates/x/src/run.rs",
    ] {
        assert!(findings_in(path, text).is_empty(), "{path}");
    }
    assert_eq!(findings_in("crates/env/src/clock.rs", text).len(), 1);
}

#[test]
fn a_binary_may_print_and_only_seeded_crates_must_do_without_hashes() {
    assert!(findings_in("crates/sim/src/bin/simulate.rs", "println!(\"{}\", 1);").is_empty());
    assert_eq!(findings_in("crates/sim/src/lib.rs", "println!(\"{}\", 1);").len(), 1);
    assert!(findings_in("crates/model/src/lib.rs", "use std::collections::HashMap;").is_empty());
    for name in ["client", "wire", "env"] {
        let there = format!("crates/{name}/src/lib.rs");
        assert_eq!(findings_in(&there, "use std::collections::HashMap;").len(), 1, "{name} runs in simulation");
    }
    assert!(findings_in("crates/env/src/buffer.rs", "use rustix::mm::MapFlags;").is_empty());
}

#[test]
fn a_collection_with_a_hasher_of_its_own_replays() {
    let fixed = "type Pages = HashMap<u64, u32, BuildHasherDefault<AsIs>>;\n";
    assert!(findings(fixed).is_empty());
    assert_eq!(findings(&format!("{fixed}let m = HashMap::new();")).len(), 1);
    assert_eq!(findings("let m: HashMap<u64, u32> = x;").len(), 1);
}

#[test]
fn an_exception_is_for_one_place_and_one_door() {
    let text = "let seed = std::env::var(SEED);\nuse std::fs;\n";
    let found = findings_in("crates/sim/src/seeds.rs", text);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("std::fs"), "{found:?}");
    assert_eq!(findings_in("crates/sim/src/disk.rs", text).len(), 2);
}

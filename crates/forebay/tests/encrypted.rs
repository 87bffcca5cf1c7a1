//! TLS between real processes, with certificates that `forebay keys` made; and access keys that it makes and takes back.

// A test drives the real program through real files and sockets.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::served::Served;
use common::{Dice, Place};
use std::os::unix::fs::PermissionsExt;

/// Asks the cluster of `served` with this authority.
fn ok(place: &Place, served: &Served, ca: &str, args: &[&str]) -> Vec<u8> {
    let output = served.command(place, args).env("FOREBAY_CA", ca).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn refused(place: &Place, served: &Served, ca: Option<&str>, words: &str) {
    let mut command = served.command(place, &["ls"]);
    let output = command.envs(ca.map(|ca| ("FOREBAY_CA", ca))).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains(words), "{said}");
}

#[test]
fn a_manager_and_nodes_with_tls_serve_at_all_addresses_whoever_trusts_their_authority() {
    let place = Place::new();
    place.ok(&["keys", "make", "certs"]);
    place.ok(&["keys", "make", "others"]);
    place.ok(&["keys", "make", "elsewhere", "10.0.0.7", "--authority", "certs"]);
    for name in ["certs/authority.key", "certs/certificate.key", "elsewhere/certificate.key"] {
        let mode = std::fs::metadata(place.path(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name}");
    }
    assert!(!place.path("elsewhere/authority.key").exists(), "who shows a certificate makes none");
    let everywhere = ["--address", "127.0.0.1", "--listen", "0.0.0.0:0"];
    let tls = |dir: &'static str| ["--tls", dir, "--data", "0.0.0.0:0", "--size", "256MiB"];
    let dir = place.path("cluster").display().to_string();
    place.refused(&[&["serve", &dir], &everywhere[2..], &["--nodes", "0"]].concat(), 2, &["0.0.0.0:0"]);
    place.refused(&["serve", &dir, "--data", "0.0.0.0:0"], 2, &["--tls DIR", "keys make"]);
    place.refused(&["serve", &dir, "--tls", "nowhere"], 1, &["nowhere", "forebay keys make"]);
    let manager = Served::at(&place, "cluster", &[&tls("certs")[..], &everywhere, &["--nodes", "0"]].concat());
    let join = |dir: &str, options: &[&str]| {
        let joining = ["--join", &manager.cluster, "--access-key", &manager.key, "--address", "127.0.0.1"];
        let dir = place.path(dir).display().to_string();
        place.command(&[&["serve", &dir], &joining[..], options].concat()).output().unwrap()
    };
    let said = |output: std::process::Output| String::from_utf8(output.stderr).unwrap();
    let failure = said(join("a", &["--size", "64MiB"]));
    assert!(failure.contains("--tls"), "{failure}");
    let failure = said(join("a", &tls("others")));
    assert!(failure.contains("vouch"), "{failure}");
    let failure = said(join("a", &tls("elsewhere")));
    assert!(failure.contains("127.0.0.1") && failure.contains("keys make"), "{failure}");
    let joining = ["--join", &manager.cluster, "--access-key", &manager.key, "--address", "127.0.0.1"];
    let node = |dir: &str, certificates| Served::at(&place, dir, &[&joining[..], &tls(certificates)].concat());
    let [a, b, c] = ["a", "b", "c"].map(|dir| node(dir, "certs"));
    let bytes = Dice(6).bytes(5_000_001);
    std::fs::write(place.path("in"), &bytes).unwrap();
    let ca = "certs/authority.pem";
    ok(&place, &manager, ca, &["put", "in", "/x"]);
    assert!(ok(&place, &manager, ca, &["get", "/x", "-"]) == bytes);
    // A certificate of the same authority, and a file with something else.
    assert!(ok(&place, &manager, "elsewhere/authority.pem", &["get", "/x", "-"]) == bytes);
    refused(&place, &manager, None, "--ca FILE");
    refused(&place, &manager, Some("others/authority.pem"), "does not vouch");
    refused(&place, &manager, Some("in"), "certificate");
    // A node that shows what nobody vouches for may be anybody: it is done without, as one that is away.
    std::fs::create_dir(place.path("mixed")).unwrap();
    for (from, name) in [("certs", "authority.pem"), ("others", "certificate.pem"), ("others", "certificate.key")] {
        std::fs::copy(place.path(from).join(name), place.path("mixed").join(name)).unwrap();
    }
    c.stop();
    let c = node("c", "mixed");
    assert!(ok(&place, &manager, ca, &["get", "/x", "-"]) == bytes);
    b.stop();
    let output = manager.command(&place, &["get", "/x", "-"]).env("FOREBAY_CA", ca).output().unwrap();
    assert!(!output.status.success(), "parity spares one");
    for node in [a, c, manager] {
        node.stop();
    }
    // What the manager knows went to nodes in the same way.
    std::fs::remove_file(place.path("cluster/manager.redb")).unwrap();
    let also = ["a", "b", "c"].map(|dir| place.path(dir).display().to_string());
    let also = also.iter().flat_map(|dir| ["--also", dir]);
    let recover: Vec<&str> = ["manager", "recover", "--cluster", &dir, "--json"].into_iter().chain(also).collect();
    let recovered: serde_json::Value = serde_json::from_str(&place.ok(&recover)).unwrap();
    assert!(recovered["copy"].is_string() && recovered["files"] == 1, "{recovered}");
    // All of it in one process, as well.
    let one = Served::at(&place, "one", &[&tls("certs")[..], &everywhere, &["--nodes", "3"]].concat());
    assert_eq!(one.ready["ca"], "certs/authority.pem");
    ok(&place, &one, ca, &["put", "in", "/x"]);
    assert!(ok(&place, &one, ca, &["get", "/x", "-"]) == bytes);
    one.stop();
}

#[test]
fn access_keys_are_made_listed_and_taken_back() {
    let place = Place::new();
    let served = Served::start(&place);
    served.ok(&place, &["keys", "issue", "mine.key", "--label", "for me"]);
    let list = || -> Vec<serde_json::Value> {
        let listed = String::from_utf8(served.ok(&place, &["keys", "list", "--json"])).unwrap();
        listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let listed = list();
    let mine = listed.iter().find(|key| key["label"] == "for me").unwrap();
    let secret = std::fs::read_to_string(place.path("mine.key")).unwrap();
    let words: Vec<&str> = secret.split_whitespace().collect();
    assert_eq!((mine["key"].as_str().unwrap(), listed.len()), (words[2], 2));
    assert!(!listed.iter().any(|key| key.to_string().contains(words[3])), "what is secret is told once");
    served.ok(&place, &["ls", "--access-key", "mine.key"]);
    served.ok(&place, &["keys", "revoke", words[2]]);
    let failure = served.failure(&place, &["ls", "--access-key", "mine.key"]);
    assert!(failure.contains("key"), "{failure}");
    assert_eq!(list().len(), 1);
    for (args, words) in [
        (&["keys", "revoke", "1"][..], "no key 1"),
        (&["keys", "revoke", "key"], "keys list"),
        (&["keys", "issue", "mine.key"], "mine.key"),
        (&["keys", "issue", "other.key", "--user", "7"], "user 7"),
        (&["keys", "list", "--user", "7"], "user 7"),
        (&["keys", "roll", "--target", "5"], "32 hexadecimal digits"),
        (&["keys", "roll", "--target", "00000000000000000000000000000005"], "no target"),
    ] {
        let output = served.run(&place, args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains(words), "{args:?}: {said}");
    }
    // Who reads after it notices nothing.
    std::fs::write(place.path("in"), b"before").unwrap();
    served.ok(&place, &["put", "in", "/x"]);
    served.ok(&place, &["keys", "roll"]);
    assert_eq!(served.ok(&place, &["get", "/x", "-"]), b"before");
    served.stop();
}

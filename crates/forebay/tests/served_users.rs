//! Users of a cluster on the network, and what they may do with one another's files: the real program, several keys.

// A test drives the real program through real files and sockets.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::Place;
use common::served::Served;
use forebay_client::file::options::Options;
use forebay_client::files::blocking::OpenFile;
use forebay_model::{Bytes, Error, Kind};
use serde_json::{Value, json};
use std::process::Output;
use std::time::{Duration, Instant};

fn values(bytes: Vec<u8>) -> Vec<Value> {
    String::from_utf8(bytes).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Makes a user, with a key in `NAME.key`.
fn made(served: &Served, place: &Place, number: &str, name: &str, groups: &[&str]) {
    let mut args = vec!["user", "set", number, "--name", name];
    groups.iter().for_each(|group| args.extend(["--group", group]));
    served.ok(place, &args);
    served.ok(place, &["keys", "issue", &format!("{name}.key"), "--user", name]);
}

/// Asks with the key of a user.
fn by(served: &Served, place: &Place, user: &str, args: &[&str]) -> Output {
    served.command(place, args).env("FOREBAY_ACCESS_KEY", place.path(&format!("{user}.key"))).output().unwrap()
}

fn ok(served: &Served, place: &Place, user: &str, args: &[&str]) -> Vec<u8> {
    let output = by(served, place, user, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// What fails has to say `words`.
fn refused(served: &Served, place: &Place, user: &str, args: &[&str], words: &[&str]) {
    let output = by(served, place, user, args);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
    words.iter().for_each(|word| assert!(said.contains(word), "{args:?} does not say '{word}': {said}"));
}

#[test]
fn a_user_that_root_made_has_files_of_its_own_and_reads_nobody_elses_until_it_is_removed() {
    let place = Place::new();
    let served = Served::start(&place);
    made(&served, &place, "7", "ada", &["100", "101"]);
    made(&served, &place, "8", "bob", &["200"]);
    std::fs::write(place.path("in"), b"of ada").unwrap();
    // What root has is root's.
    refused(&served, &place, "ada", &["put", "in", "/x"], &["user 7", "user 0", "root"]);
    served.ok(&place, &["mkdir", "/ada"]);
    served.ok(&place, &["chown", "ada:100", "/ada"]);
    ok(&served, &place, "ada", &["put", "in", "/ada/x", "--mode", "600"]);
    assert_eq!(ok(&served, &place, "ada", &["get", "/ada/x", "-"]), b"of ada");
    let stat = &values(ok(&served, &place, "bob", &["stat", "/ada/x", "--json"]))[0];
    assert_eq!((&stat["owner"], &stat["group"], &stat["mode"]), (&json!(7), &json!(100), &json!("0600")));
    refused(&served, &place, "bob", &["get", "/ada/x", "-"], &["/ada/x", "user 8 may not read", "user 7 or root"]);
    refused(&served, &place, "bob", &["rm", "/ada/x"], &["user 7"]);
    for args in [&["user", "set", "8", "--name", "eve"][..], &["user", "rm", "ada"], &["keys", "list", "--user", "7"]] {
        refused(&served, &place, "bob", args, &["user 8 may not", "only root"]);
    }
    assert_eq!(served.ok(&place, &["get", "/ada/x", "-"]), b"of ada", "root reads everything");

    served.ok(&place, &["user", "set", "8", "--name", "robert"]);
    let listed = values(served.ok(&place, &["user", "list", "--json"]));
    let expected = [
        json!({ "user": 0, "name": "root", "groups": [0] }),
        json!({ "user": 7, "name": "ada", "groups": [100, 101] }),
        json!({ "user": 8, "name": "robert", "groups": [200] }),
    ];
    assert_eq!(listed, expected, "what is not said stays");
    assert_eq!(values(served.ok(&place, &["user", "rm", "ada", "--json"])), [json!({ "removed_user": 7 })]);
    refused(&served, &place, "ada", &["ls", "/ada"], &["key"]);
    assert_eq!(served.ok(&place, &["get", "/ada/x", "-"]), b"of ada", "what belonged to it stays");
    for (args, words) in [
        (&["user", "rm", "ada"][..], "user list"),
        (&["user", "rm", "7"], "no user 7"),
        (&["user", "set", "9", "--name", "robert", "--group", "1"], "the name of user 8"),
        (&["keys", "issue", "ada2.key", "--user", "ada"], "no user 'ada'"),
    ] {
        let said = served.failure(&place, args);
        assert!(said.contains(words), "{args:?}: {said}");
    }
    for (args, words) in [
        (&["user", "set", "9"][..], "--name NAME and --group N"),
        (&["user", "set", "9", "--name", "eve"], "--group N"),
        (&["user", "rm", "root"], "root stays"),
    ] {
        let said = served.misuse(&place, args);
        assert!(said.contains(words), "{args:?}: {said}");
    }
    place.refused(&["user", "list"], 2, &["--cluster forebay://"]);
    served.stop();
}

#[test]
fn modes_owners_and_groups_say_who_reads_and_writes_what() {
    let place = Place::new();
    let served = Served::start(&place);
    made(&served, &place, "7", "ada", &["100"]);
    made(&served, &place, "8", "bob", &["200", "100"]);
    std::fs::write(place.path("in"), b"first").unwrap();
    std::fs::write(place.path("more"), b"second").unwrap();
    served.ok(&place, &["mkdir", "/all", "--mode", "1777"]);
    ok(&served, &place, "ada", &["put", "in", "/all/x", "--mode", "0600"]);
    refused(&served, &place, "bob", &["get", "/all/x", "-"], &["user 7 or root"]);
    // What replaces it is read by nobody else either.
    ok(&served, &place, "ada", &["put", "more", "/all/x", "--force"]);
    refused(&served, &place, "bob", &["get", "/all/x", "-"], &["mode is 600"]);
    let changed = values(ok(&served, &place, "ada", &["chmod", "640", "/all/x", "--json"]));
    assert_eq!((&changed[0]["mode"], &changed[0]["name"]), (&json!("0640"), &json!("/all/x")));
    assert_eq!(ok(&served, &place, "bob", &["get", "/all/x", "-"]), b"second", "it is in that group");
    refused(&served, &place, "bob", &["chmod", "666", "/all/x"], &["/all/x", "user 7 and root"]);
    refused(&served, &place, "ada", &["chown", "bob", "/all/x"], &["only root may"]);
    refused(&served, &place, "ada", &["chown", ":200", "/all/x"], &["group 200", "of which it is not", "root"]);
    let given = values(served.ok(&place, &["chown", "bob:200", "/all/x", "--json"]));
    assert_eq!((&given[0]["owner"], &given[0]["group"]), (&json!(8), &json!(200)));
    refused(&served, &place, "ada", &["get", "/all/x", "-"], &["user 8 or root"]);
    ok(&served, &place, "bob", &["chown", ":100", "/all/x"]);
    assert_eq!(ok(&served, &place, "ada", &["get", "/all/x", "-"]), b"second");
    for (args, words) in [
        (&["chmod", "9", "/all/x"][..], "octal"),
        (&["chmod", "10000", "/all/x"], "octal"),
        (&["chown", "8:staff", "/all/x"], "groups have numbers"),
        (&["chown", "", "/all/x"], "USER:GROUP"),
    ] {
        let said = served.misuse(&place, args);
        assert!(said.contains(words), "{args:?}: {said}");
    }
    assert!(served.failure(&place, &["chown", "eve", "/all/x"]).contains("user list"));
    assert!(served.failure(&place, &["chmod", "600", "/nope"]).contains("/nope"));
    place.refused(&["chmod", "600", "/x"], 2, &["--cluster forebay://"]);
    served.stop();
}

/// Reads again and again until that is refused.
fn refusal(file: &OpenFile) -> Error {
    let begun = Instant::now();
    loop {
        if let Err(error) = file.read_at(Bytes::ZERO, Bytes(100)) {
            return error;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "what was given out counts still");
    }
}

#[test]
fn what_was_given_out_for_a_file_or_for_all_is_taken_back_by_who_may() {
    let place = Place::new();
    let served = Served::start(&place);
    made(&served, &place, "7", "ada", &["100"]);
    made(&served, &place, "8", "bob", &["200"]);
    std::fs::write(place.path("in"), b"first").unwrap();
    served.ok(&place, &["mkdir", "/all", "--mode", "777"]);
    ok(&served, &place, "ada", &["put", "in", "/all/x"]);
    refused(&served, &place, "bob", &["revoke", "/all/x"], &["user 7 and root"]);
    refused(&served, &place, "bob", &["revoke", "--all"], &["only root may"]);
    let files = served.files(place.path("bob.key"));
    for (by, args, said) in [("ada", ["revoke", "/all/x"], "/all/x"), ("root", ["revoke", "--all"], "all")] {
        let file = files.open("/all/x", Options::beside()).unwrap();
        ok(&served, &place, "ada", &["chmod", "600", "/all/x"]);
        assert_eq!(file.read_at(Bytes::ZERO, Bytes(100)).unwrap(), b"first", "who has it open goes on");
        let args = [args[0], args[1], "--json"];
        let revoked = if by == "root" { served.ok(&place, &args) } else { ok(&served, &place, by, &args) };
        assert_eq!(values(revoked), [json!({ "revoked": said })]);
        let error = refusal(&file);
        assert!(error.kind == Kind::Forbidden && error.message.contains("user 7 or root"), "{error}");
        assert_eq!(ok(&served, &place, "ada", &["get", "/all/x", "-"]), b"first", "who may opens it again");
        ok(&served, &place, "ada", &["chmod", "644", "/all/x"]);
    }
    assert!(served.misuse(&place, &["revoke", "/all"]).contains("/all"));
    served.misuse(&place, &["revoke"]);
    served.misuse(&place, &["revoke", "/all/x", "--all"]);
    drop(files);
    served.stop();
}

#[test]
fn half_a_key_is_removed_where_it_was_written_and_named_where_it_was_left() {
    let place = Place::new();
    let served = Served::start(&place);
    let program = served.command(&place, &["keys", "issue", "half.key"]);
    let mut limited = std::process::Command::new("sh");
    limited
        .args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\"", "sh"])
        .arg(program.get_program())
        .args(program.get_args());
    limited.env("FOREBAY_CLUSTER", &served.cluster).env("FOREBAY_ACCESS_KEY", &served.key);
    let output = limited.current_dir(place.path(".")).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("the key was taken back"), "{said}");
    assert!(!place.path("half.key").exists());
    served.ok(&place, &["keys", "issue", "half.key"]);
    let (key, cluster) = (served.key.clone(), place.cluster().display().to_string());
    served.stop();
    // As a crash may leave it.
    let whole = std::fs::read(&key).unwrap();
    std::fs::write(&key, &whole[..whole.len() / 2]).unwrap();
    let serve = place.command(&["serve", &cluster, "--listen", "127.0.0.1:0"]);
    let mut serving = std::process::Command::new("timeout");
    serving.arg("20").arg(serve.get_program()).args(serve.get_args());
    let output = serving.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.contains("remove it and serve again"), "{said}");
    std::fs::remove_file(&key).unwrap();
    let served = Served::with(&place, &[]);
    served.ok(&place, &["ls", "/"]);
    served.stop();
}

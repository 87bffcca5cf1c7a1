//! Volumes of a cluster on the network: what their files may take, and how they are striped, through the real program.

// A test drives the real program through real files and sockets.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::served::Served;
use common::{Dice, Place};
use forebay_client::file::options::Options;
use forebay_model::Bytes;
use forebay_model::layout::{Raid, Striping};
use serde_json::{Value, json};

fn values(bytes: Vec<u8>) -> Vec<Value> {
    String::from_utf8(bytes).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The only value that is printed.
fn value(served: &Served, place: &Place, args: &[&str]) -> Value {
    let all = values(served.ok(place, &[args, &["--json"]].concat()));
    assert_eq!(all.len(), 1, "{args:?}: {all:?}");
    all[0].clone()
}

fn members<const N: usize>(value: &Value, names: [&str; N]) -> [Value; N] {
    names.map(|name| value[name].clone())
}

/// How a file lies.
fn striping(served: &Served, path: &str) -> Striping {
    let files = served.files(&served.key);
    let file = files.open(path, Options::default()).unwrap();
    file.striping()
}

#[test]
fn files_of_a_volume_take_what_its_quota_allows_and_what_is_refused_leaves_nothing() {
    let place = Place::new();
    let served = Served::start(&place);
    let whole = value(&served, &place, &["volume", "list"]);
    assert_eq!(
        members(&whole, ["volume", "name", "files", "hard_bytes"]),
        [json!(1), json!("/"), json!(1), json!(null)]
    );
    let made = value(&served, &place, &["volume", "create", "/data", "--hard", "1MiB", "--hard-files", "3"]);
    assert_eq!(
        members(
            &made,
            ["volume", "name", "files", "used_bytes", "hard_bytes", "hard_files", "soft_bytes", "over_since"]
        ),
        [json!(2), json!("/data"), json!(1), json!(0), json!(1 << 20), json!(3), json!(null), json!(null)]
    );
    let used = || {
        let all = values(served.ok(&place, &["volume", "list", "--json"]));
        members(all.iter().find(|volume| volume["volume"] == 2).unwrap(), ["used_bytes", "files"])
    };
    std::fs::write(place.path("in"), Dice(1).bytes(700_000)).unwrap();
    std::fs::write(place.path("little"), b"little").unwrap();
    served.ok(&place, &["put", "in", "/data/a"]);
    assert_eq!(used(), [json!(700_000), json!(2)]);
    let said = served.failure(&place, &["put", "in", "/data/b"]);
    assert!(said.contains("volume 2 has") && said.contains("of the 1 MiB") && said.contains("quota raised"), "{said}");
    assert_eq!(values(served.ok(&place, &["ls", "/data", "--json"])).len(), 1, "nothing of it stays");
    assert_eq!(used(), [json!(700_000), json!(2)]);
    served.ok(&place, &["put", "little", "/data/b"]);
    let said = served.failure(&place, &["put", "little", "/data/c"]);
    assert!(said.contains("3 files and directories of the 3"), "{said}");
    let said = served.failure(&place, &["mkdir", "/data/c"]);
    assert!(said.contains("3 files and directories of the 3"), "{said}");
    // Beside it there is room.
    served.ok(&place, &["put", "in", "/c"]);

    let raised = value(&served, &place, &["volume", "quota", "/data", "--hard", "none", "--soft", "800KiB"]);
    assert_eq!(
        members(&raised, ["hard_bytes", "soft_bytes", "hard_files", "over_since"]),
        [json!(null), json!(800 << 10), json!(3), json!(null)],
        "what is not named stays"
    );
    let raised = value(&served, &place, &["volume", "quota", "2", "--hard-files", "10"]);
    assert_eq!(members(&raised, ["soft_bytes", "hard_files"]), [json!(800 << 10), json!(10)]);
    let put = value(&served, &place, &["put", "little", "/data/c"]);
    assert_eq!(put["over_quota"], json!(null));
    let output = served.run(&place, &["put", "in", "/data/c", "--force"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("volume 2 holds more than its soft quota"), "{said}");
    assert!(said.contains("of 800 KiB") && said.contains("a week"), "{said}");
    let put = value(&served, &place, &["put", "little", "/data/d"]);
    assert_eq!(members(&put["over_quota"], ["volume", "files", "soft_bytes"]), [json!(2), json!(5), json!(800 << 10)]);
    served.ok(&place, &["rm", "/data/d"]);
    let listed = String::from_utf8(served.ok(&place, &["volume", "list"])).unwrap();
    assert!(listed.contains("/data") && listed.contains("800 KiB") && listed.contains("10 files"), "{listed}");
    assert!(value(&served, &place, &["volume", "quota", "2"])["over_since"].is_string(), "it passed the soft bound");

    for (args, words) in [
        (&["volume", "rm", "/data"][..], "remove them first"),
        (&["volume", "create", "/data"], "/data"),
        (&["volume", "quota", "9", "--hard", "1GiB"], "no volume 9"),
        (&["volume", "quota", "/nope", "--hard", "1GiB"], "/nope"),
    ] {
        let said = served.failure(&place, args);
        assert!(said.contains(words), "{args:?}: {said}");
    }
    served.ok(&place, &["mkdir", "/plain"]);
    for (args, words) in [
        (&["volume", "quota", "/plain"][..], "in volume 1, and not a volume itself"),
        (&["volume", "create", "7"], "such as /data"),
        (&["volume", "quota", "2", "--soft", "2MiB", "--hard", "1MiB"], "above the hard one"),
        (&["volume", "policy", "2", "--logged", "always"], "--logged"),
    ] {
        let said = served.misuse(&place, args);
        assert!(said.contains(words), "{args:?}: {said}");
    }
    for name in ["/data/a", "/data/b", "/data/c"] {
        served.ok(&place, &["rm", name]);
    }
    assert_eq!(value(&served, &place, &["volume", "rm", "/data"]), json!({ "removed_volume": 2 }));
    assert!(served.failure(&place, &["stat", "/data"]).contains("/data"));
    served.stop();
}

#[test]
fn files_are_striped_as_was_said_of_them_or_of_their_volume() {
    let place = Place::new();
    let served = Served::with(&place, &["--nodes", "3", "--size", "64MiB"]);
    std::fs::write(place.path("in"), Dice(2).bytes(300_001)).unwrap();
    served.ok(&place, &["put", "in", "/parity"]);
    assert_eq!(striping(&served, "/parity").raid(), Raid::Five);
    served.ok(&place, &["put", "in", "/plain", "--raid", "0", "--targets", "2", "--unit", "128KiB"]);
    let plain = striping(&served, "/plain");
    assert_eq!((plain.raid(), plain.components(), plain.unit()), (Raid::Zero, 2, Bytes::kib(128)));
    let made =
        value(&served, &place, &["volume", "create", "/twice", "--raid", "1", "--targets", "2", "--mode", "700"]);
    assert_eq!(members(&made, ["raid", "copies", "targets"]), [json!(1), json!(2), json!(2)]);
    assert_eq!(value(&served, &place, &["stat", "/twice"])["mode"], "0700");
    served.ok(&place, &["put", "in", "/twice/x"]);
    let twice = striping(&served, "/twice/x");
    assert_eq!((twice.raid(), twice.components()), (Raid::One(2), 2));
    // Of a file it is said what is to be another way than its volume has it.
    served.ok(&place, &["put", "in", "/twice/y", "--unit", "128KiB"]);
    let other = striping(&served, "/twice/y");
    assert_eq!((other.raid(), other.unit()), (Raid::One(2), Bytes::kib(128)));
    let changed = value(&served, &place, &["volume", "policy", "/twice", "--raid", "5", "--targets", "0"]);
    assert_eq!(members(&changed, ["raid", "copies", "targets"]), [json!(5), json!(1), json!(0)]);
    served.ok(&place, &["put", "in", "/twice/z"]);
    assert_eq!(striping(&served, "/twice/z").raid(), Raid::Five);
    assert_eq!(striping(&served, "/twice/x").raid(), Raid::One(2), "what is there stays as it is");
    for name in ["/plain", "/twice/x", "/twice/y", "/twice/z"] {
        assert_eq!(served.ok(&place, &["get", name, "-"]), Dice(2).bytes(300_001), "{name}");
    }
    for (args, words) in [
        (&["put", "in", "/few", "--targets", "2"][..], "3 targets at least"),
        (&["put", "in", "/odd", "--unit", "1000"], "a stripe unit has"),
        (&["put", "in", "/odd", "--raid", "6"], "0, 1 or 5"),
        (&["volume", "create", "/odd", "--targets", "2"], "3 targets at least"),
    ] {
        let said = served.misuse(&place, args);
        assert!(said.contains(words), "{args:?}: {said}");
    }
    // Who names a number is not given less; what a volume says is the most that there may be.
    let said = served.failure(&place, &["put", "in", "/odd", "--targets", "9"]);
    assert!(said.contains("the cluster has 3"), "{said}");
    served.ok(&place, &["put", "in", "/small", "--unit", "128KiB"]);
    assert_eq!(striping(&served, "/small").components(), 3);
    assert!(!String::from_utf8(served.ok(&place, &["ls", "/"])).unwrap().contains("odd"));
    served.stop();
    let local = Place::formatted("64MiB");
    std::fs::write(local.path("in"), b"x").unwrap();
    local.refused(&["put", "in", "/x", "--raid", "1"], 2, &["--raid"]);
    local.refused(&["put", "in", "/x", "--mode", "600"], 2, &["--mode"]);
    local.refused(&["volume", "create", "7", "--raid", "1"], 2, &["--raid"]);
}

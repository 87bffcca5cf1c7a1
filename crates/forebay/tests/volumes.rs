//! Volumes through the real binary: what they hold, and what they refuse.

// A test drives the real program through real files.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::{Dice, Place};
use serde_json::{Value, json};

fn values(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn volumes_are_made_listed_limited_and_removed() {
    let place = Place::formatted("256MiB");
    assert!(place.ok(&["volume", "list"]).contains("No volume yet"));
    assert_eq!(place.ok(&["volume", "list", "--json"]), "");
    place.ok_fed(&["put", "-", "/a"], &Dice(1).bytes(1 << 20));
    for volume in ["18446744073709551615", "7", "300"] {
        place.ok(&["volume", "create", volume]);
    }
    let made = values(&place.ok(&["volume", "create", "9", "--hard", "1GiB", "--soft-objects", "10", "--json"]));
    let limits =
        |value: &Value| ["soft_bytes", "hard_bytes", "soft_objects", "hard_objects"].map(|name| value[name].clone());
    assert_eq!(limits(&made[0]), [Value::Null, json!(1 << 30), json!(10), Value::Null]);
    let all = values(&place.ok(&["volume", "list", "--json"]));
    let numbers: Vec<u64> = all.iter().map(|value| value["volume"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 7, 9, 300, u64::MAX]);
    assert_eq!((&all[0]["name"], &all[0]["objects"], &all[1]["name"]), (&json!("default"), &json!(2), &Value::Null));
    let changed = values(&place.ok(&["volume", "quota", "9", "--hard", "none", "--hard-objects", "20", "--json"]));
    assert_eq!(limits(&changed[0]), [Value::Null, Value::Null, json!(10), json!(20)]);
    assert!(place.ok(&["volume", "list"]).contains("20 objects"));
    assert_eq!(values(&place.ok(&["volume", "rm", "9", "--json"])), [json!({ "removed_volume": 9 })]);
    place.refused(&["volume", "rm", "9"], 1, &["there is no volume 9", "volume list"]);
    place.refused(&["volume", "quota", "9"], 1, &["there is no volume 9"]);
    place.refused(&["volume", "rm", "default"], 2, &["volume 1 holds 2 objects"]);
    place.refused(&["volume", "create", "7"], 1, &["a volume 7 already", "volume quota"]);
    place.refused(&["volume", "create", "0"], 2, &["is no volume"]);
    place.refused(&["volume", "create", "8", "--soft", "2GiB", "--hard", "1GiB"], 2, &["never comes"]);
    place.refused(&["volume", "create", "8", "--hard", "much"], 2, &["not a size"]);
    assert_eq!(values(&place.ok(&["volume", "list", "--json"])).len(), 4);
}

#[test]
fn a_quota_that_makes_no_sense_on_one_of_several_targets_is_given_to_none() {
    let place = Place::formatted("256MiB");
    place.ok(&["volume", "create", "7", "--hard", "20MiB"]);
    place.ok(&["target", "add", "cluster/target.1", "--size", "256MiB"]);
    // Only the one that was added has none.
    place.ok(&["volume", "create", "7", "--hard", "5MiB"]);
    place.refused(&["volume", "quota", "7", "--soft", "10MiB"], 2, &["never comes"]);
    let of_both = values(&place.ok(&["volume", "list", "--json"]));
    assert_eq!(of_both.iter().map(|value| &value["hard_bytes"]).collect::<Vec<_>>(), [20 << 20, 5 << 20]);
    assert!(of_both.iter().all(|value| value["soft_bytes"].is_null()), "{of_both:?}");
}

#[test]
fn what_would_go_beyond_a_hard_quota_is_refused_and_leaves_nothing() {
    let place = Place::formatted("256MiB");
    place.ok_fed(&["put", "-", "/a"], &Dice(1).bytes(1 << 20));
    place.ok(&["volume", "quota", "default", "--hard", "10MiB"]);
    std::fs::write(place.path("big"), Dice(2).bytes(20 << 20)).unwrap();
    place.refused(&["put", "big", "/big"], 1, &["may hold 10 MiB", "raise its quota"]);
    assert_eq!(values(&place.ok(&["ls", "--json"])).len(), 1, "nothing of it stays");
    place.ok(&["volume", "quota", "default", "--hard", "30MiB", "--hard-objects", "4"]);
    place.ok(&["put", "big", "/big"]);
    place.refused(&["put", "big", "/one-more"], 1, &["4 objects"]);
}

#[test]
fn whoever_puts_more_than_a_soft_quota_is_told_of_it_and_it_is_there_all_the_same() {
    let place = Place::formatted("256MiB");
    place.ok_fed(&["put", "-", "/a"], &Dice(1).bytes(1 << 20));
    // A name is an object, too; it comes when its bytes are there.
    place.ok(&["volume", "quota", "default", "--soft", "2MiB", "--soft-objects", "4"]);
    let within = values(&place.ok_fed(&["put", "-", "/b", "--json"], &Dice(2).bytes(500_000)));
    assert_eq!(within[0]["over_quota"], Value::Null);
    let bytes = Dice(3).bytes(1 << 20);
    let told = place.feed(&["put", "-", "/c"], &bytes);
    let words = String::from_utf8(told.stderr).unwrap();
    assert!(told.status.success(), "{words}");
    assert!(words.contains("soft quota") && words.contains("of 2 MiB") && words.contains("5 of 4 objects"), "{words}");
    place.ok(&["get", "/c", "back"]);
    assert!(std::fs::read(place.path("back")).unwrap() == bytes);
    place.ok(&["rm", "/a"]);
    place.ok(&["rm", "/b"]);
    let objects = values(&place.ok_fed(&["put", "-", "/c", "--force", "--json"], b"less"));
    assert_eq!(objects[0]["over_quota"], Value::Null, "{objects:?}");
}

#[test]
fn what_is_chosen_for_targets_and_volumes_is_kept_whoever_has_the_cluster() {
    let place = Place::formatted("256MiB");
    let chosen = |args: &[&str]| {
        let all = values(&place.ok(&[&["target", "settings", "--json"], args].concat()));
        assert_eq!(all.len(), 1);
        let names = ["logged_up_to_bytes", "hot_percent", "near_groups", "cache_bytes"];
        names.map(|name| all[0][name].as_u64().unwrap())
    };
    assert_eq!(chosen(&[]), [256 << 10, 80, 3, 150_000_000]);
    assert_eq!(chosen(&["--logged-up-to", "32KiB", "--cache", "10MiB"]), [32 << 10, 80, 3, 10 << 20]);
    let id = values(&place.ok(&["target", "settings", "--json"]))[0]["target"].as_str().unwrap().to_string();
    place.ok(&["volume", "create", "7"]);
    // Another process has the cluster.
    let mut owner = place.start(&["nbd", "/disk", "--size", "8MiB", "--listen", "127.0.0.1:0", "--json"]);
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(owner.stdout.as_mut().unwrap()), &mut line).unwrap();
    assert!(line.contains("listening"), "{line}");
    assert_eq!(chosen(&[&id[..8], "--hot-percent", "70", "--near-groups", "5"]), [32 << 10, 70, 5, 10 << 20]);
    let policy = |args: &[&str]| {
        let all = values(&place.ok(&[&["volume", "policy", "7", "--json"], args].concat()));
        (all[0]["logged_up_to_bytes"].as_u64(), all[0]["logged_always"].as_bool().unwrap())
    };
    assert_eq!(policy(&[]), (None, false));
    assert_eq!(policy(&["--logged", "32KiB"]), (Some(32 << 10), false));
    owner.kill().unwrap();
    owner.wait().unwrap();
    assert_eq!(chosen(&[]), [32 << 10, 70, 5, 10 << 20]);
    assert_eq!(policy(&[]), (Some(32 << 10), false));
    assert_eq!(policy(&["--logged", "always"]), (None, true));
    assert_eq!(policy(&["--logged", "inherit"]), (None, false));
    for (args, words) in [
        (&["--hot-percent", "101"][..], &["101 percent", "1 to 100"][..]),
        (&["--near-groups", "0"], &["give 1 to"]),
        (&["--logged-up-to", "1GiB"], &["64 MiB"]),
        (&["--cache", "1TiB"], &["64 GiB"]),
        (&["--cache", "much"], &["not a size"]),
    ] {
        place.refused(&[&["target", "settings"], args].concat(), 2, words);
    }
    place.refused(&["target", "settings", "nobody"], 1, &["no target nobody"]);
    place.refused(&["volume", "policy", "8"], 1, &["there is no volume 8"]);
    place.refused(&["volume", "policy", "7", "--logged", "65MiB"], 2, &["64 MiB"]);
    assert_eq!(chosen(&[]), [32 << 10, 70, 5, 10 << 20]);
}

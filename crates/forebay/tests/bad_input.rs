//! Each wrong request gets one sentence and its exit code, and does no damage.

// A test drives the real program through real files.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::{Dice, Place, pcap};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, PermissionsExt};

#[test]
fn a_place_that_will_not_do_is_refused() {
    let place = Place::new();
    place.refused(&["format", "--size", "1MiB"], 2, &["too small"]);
    place.refused(&["status"], 1, &["forebay format --cluster ", "--size 10GiB"]);
    place.refused(&["check", "--cluster", "forebay://127.0.0.1:1"], 2, &["works on a directory", "--cluster DIR"]);
    place.refused(&["format"], 2, &["--size"]);
    place.refused(&["format", "--size", "lots"], 2, &["is not a size"]);
    place.refused(&["format", "--size", "900TiB"], 1, &["free"]);
    place.ok(&["format", "--size", "256MiB", "--measure", "0"]);
    place.refused(&["format", "--size", "256MiB", "--measure", "0"], 1, &["already", "--force"]);
    place.ok(&["format", "--size", "256MiB", "--measure", "0", "--force"]);
}

#[test]
fn a_target_that_was_tampered_with_is_refused_or_repaired() {
    let place = Place::formatted("256MiB");
    place.ok(&["ring", "create", "/r", "--capacity", "32MiB"]);
    let path = place.cluster().join("target.0");
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let mut first = vec![0; 64 << 10];
    file.read_exact_at(&mut first, 0).unwrap();
    let mut both = vec![0; 128 << 10];
    file.read_exact_at(&mut both, 0).unwrap();

    file.write_all_at(&[0xff; 512], 100).unwrap();
    let found = place.run(&["check"]);
    assert_eq!(found.status.code(), Some(1), "a broken copy is told");
    place.ok(&["ring", "show", "/r"]);
    assert_eq!(place.run(&["check"]).status.code(), Some(0), "opening has repaired it");
    file.write_all_at(&[0xff; 512], 100).unwrap();
    let repaired = place.ok(&["check", "--write"]);
    assert!(repaired.contains("put right: ") && repaired.trim_end().ends_with("Sound."), "{repaired}");

    file.read_exact_at(&mut both, 0).unwrap();
    for copy in [0, 64 << 10] {
        file.write_all_at(&99u32.to_le_bytes(), copy + 8).unwrap();
    }
    place.refused(&["status"], 1, &["version 99"]);
    file.write_all_at(&both, 0).unwrap();
    place.ok(&["ring", "show", "/r"]);

    file.set_len(250 << 20).unwrap();
    place.refused(&["status"], 1, &["when it was formatted"]);
    file.set_len(256 << 20).unwrap();
    place.ok(&["ring", "show", "/r"]);
}

#[test]
fn a_check_names_what_is_damaged_and_a_query_tells_of_it() {
    let place = Place::formatted("256MiB");
    place.ok(&[
        "ring",
        "create",
        "/r",
        "--capacity",
        "32MiB",
        "--segment",
        "1MiB",
        "--block",
        "64KiB",
        "--overflow",
        "block",
    ]);
    place.ok(&["record", "/r", "--generate", "10MB/s,1KiB", "--count", "3000"]);
    let sound: serde_json::Value = serde_json::from_str(place.ok(&["check", "--json"]).trim()).unwrap();
    assert_eq!((&sound["read"], &sound["found"][0]["elements"]), (&true.into(), &3000.into()), "{sound}");
    let path = place.cluster().join("target.0");
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let mut content = vec![0; 256 << 20];
    file.read_exact_at(&mut content, 0).unwrap();
    // A bit in the payload of the 20th block.
    let blocks = (0..content.len()).step_by(4096).filter(|at| content[*at..].starts_with(b"FBRBLOCK"));
    let place_of_bit = blocks.into_iter().nth(20).unwrap() + 5000;
    file.write_all_at(&[content[place_of_bit] ^ 1], place_of_bit as u64).unwrap();
    let output = place.run(&["check", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let damage = &found["found"][0]["damage"];
    let (from, to) = (damage[0]["from"].as_u64().unwrap(), damage[0]["to"].as_u64().unwrap());
    assert_eq!((damage.as_array().unwrap().len(), &damage[0]["what"]), (1, &"block".into()), "{found}");
    let output = place.run(&["check"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains(&format!("elements {from} to {} are gone", to - 1)), "{text}");
    assert_eq!(place.run(&["check", "--quick"]).status.code(), Some(0), "a quick one reads no blocks");
    assert_eq!(place.count("/r", ""), 3000 - (to - from));
    // What is damaged shows when it is read: `gaps` only looks at what was recorded as missing.
    let answer = place.ok(&["query", "/r", "--json"]);
    let gap = answer.lines().find(|line| line.contains("\"gap\"")).unwrap();
    let gap: serde_json::Value = serde_json::from_str(gap).unwrap();
    assert_eq!((&gap["cause"], &gap["count"]), (&"damaged".into(), &(to - from).into()), "{gap}");
    assert_eq!(place.ok(&["gaps", "/r", "--json"]), "");
    let text = place.ok(&["gaps", "/r"]);
    assert!(text.contains("`forebay check` reads everything"), "{text}");
}

#[test]
fn a_device_in_use_or_without_a_target_is_refused() {
    let place = Place::formatted("256MiB");
    place.ok(&["ring", "create", "/r", "--capacity", "32MiB"]);
    std::fs::write(place.path("plain"), vec![1; 64 << 20]).unwrap();
    place.refused(&["check", "plain"], 2, &["plain is not formatted", "forebay format"]);
    place.refused(&["check", "nothing"], 1, &["nothing does not exist"]);
    place.refused(&["format", "--device", "/dev/null", "--cluster", "other"], 2, &["/dev/null"]);
    std::fs::create_dir_all(place.path("other")).unwrap();
    std::fs::write(place.path("other/cluster.toml"), "version = 1\ntargets = [\"../plain\"]\n").unwrap();
    place.refused(&["status", "--cluster", "other"], 2, &["not formatted"]);
    std::fs::write(place.path("other/cluster.toml"), "version = 7\ntargets = [\"../plain\"]\n").unwrap();
    place.refused(&["status", "--cluster", "other"], 1, &["version 7", "knows 1"]);

    let mut recording = place.start(&["record", "/r", "--stdin", "lines"]);
    BufReader::new(recording.stderr.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    let device = "cluster/target.0";
    for command in
        [&["format", "--cluster", "third", "--force", "--device", device][..], &["profile", "--overwrite", device]]
    {
        place.refused(command, 1, &["in use by another process"]);
    }
    place.refused(&["format", "--size", "256MiB", "--force"], 1, &["open", "end it first"]);
    place.refused(&["record", "/r", "--stdin", "lines"], 1, &["records into"]);
    for command in [&["check"][..], &["check", "--quick"]] {
        let looked = place.ok(command);
        assert_eq!(looked.lines().last(), Some("Superblock and catalog are sound."), "looking is allowed: {looked}");
    }
    drop(recording.stdin.take());
    assert!(recording.wait().unwrap().success());
}

#[test]
fn a_check_of_several_targets_goes_on_when_one_cannot_be_opened() {
    let place = Place::formatted("64MiB");
    let settings = place.cluster().join("cluster.toml");
    std::fs::write(&settings, "version = 1\ntargets = [\"nothing\", \"target.0\"]\n").unwrap();
    let output = place.run(&["check"]);
    let (told, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{told}{said}");
    assert!(said.contains("forebay: ") && said.contains("nothing does not exist"), "{said}");
    assert!(told.contains("target.0: target ") && told.lines().last() == Some("Sound."), "{told}");
}

#[test]
fn a_cluster_of_another_user_is_told_as_that() {
    let place = Place::formatted("64MiB");
    let lock = place.cluster().join("owner.lock");
    std::fs::set_permissions(&lock, std::fs::Permissions::from_mode(0o000)).unwrap();
    let program = place.command(&["status"]);
    let mut without = std::process::Command::new("setpriv");
    without.arg("--bounding-set=-dac_override,-dac_read_search").arg(program.get_program()).args(program.get_args());
    without.env("FOREBAY_CLUSTER", place.cluster()).current_dir(place.path("."));
    // Root opens what is nobody's, unless that right is taken away.
    let mut command = if std::fs::File::open(&lock).is_ok() { without } else { program };
    let output = command.output().unwrap_or_else(|e| panic!("install util-linux ('cargo x test' does): {e}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for words in ["the cluster in ", "belongs to another user", "as that user, or as root"] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn a_file_system_is_not_formatted_over_unasked() {
    let place = Place::new();
    std::fs::File::create(place.path("disk")).unwrap().set_len(64 << 20).unwrap();
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let made =
        std::process::Command::new("mkfs.ext4").args(["-q", "-F"]).arg(place.path("disk")).env("PATH", path).status();
    let made = made.unwrap_or_else(|e| panic!("install e2fsprogs ('cargo x test' does): {e}"));
    assert!(made.success());
    let before = std::fs::read(place.path("disk")).unwrap();
    let command = ["format", "--measure", "0", "--device", "disk"];
    place.refused(&command, 1, &["disk holds an ext4 file system", "byte 1080", "--force"]);
    assert!(std::fs::read(place.path("disk")).unwrap() == before, "nothing was written");
    assert!(!place.cluster().exists(), "no empty directory stays");
    let profile = ["profile", "--overwrite", "--time", "100ms", "disk"];
    place.refused(&profile, 1, &["disk holds an ext4 file system", "measuring writes would end", "--force"]);
    place.ok(&[&command[..], &["--force"]].concat());
    place.ok(&["status"]);
}

#[test]
fn writes_are_measured_over_what_is_there_only_if_that_is_forced() {
    let place = Place::formatted("64MiB");
    let disk = "cluster/target.0";
    // So much time that nothing else at work makes it too little: four times that may pass.
    let measure = ["profile", "--overwrite", "--time", "2s", disk];
    let sound = std::fs::read(place.path(disk)).unwrap();
    let both = |at: usize, bytes: &[u8]| {
        let mut disk = sound.clone();
        for copy in [at, at + (64 << 10)] {
            disk[copy..copy + bytes.len()].copy_from_slice(bytes);
        }
        disk
    };
    let raid = [&b"\xfc\x4e\x2b\xa9"[..], &[0; 60]].concat();
    for (content, words) in [
        (sound.clone(), "is a target already (formatted 2"),
        // Of a later version; damaged; and nothing of ours, but a part of an array at the end.
        (both(8, &[2, 0, 0, 0]), "it calls itself version 2"),
        (both(20, &[0xee; 100]), "is a target already (if not a sound one"),
        ([&vec![0; (64 << 20) - 8192], &raid[..], &[0; 8192 - 64]].concat(), "a part of a Linux RAID"),
    ] {
        std::fs::write(place.path(disk), &content).unwrap();
        place.refused(&measure, 1, &[disk, words, "measuring writes would end", "--force"]);
        assert!(std::fs::read(place.path(disk)).unwrap() == content, "nothing was written: {words}");
    }
    place.refused(&["profile", "--force", disk], 2, &["--overwrite"]);
    place.ok(&[&measure[..], &["--force"]].concat());
}

#[test]
fn what_is_no_capture_is_refused_and_what_is_absurd_in_one_is_told() {
    let place = Place::formatted("256MiB");
    place.ok(&["ring", "create", "/net", "--capacity", "32MiB", "--packets", "ethernet"]);
    let good = pcap(&place.path("good.pcap"), 3);
    let absurd = [&good[..24], &1u32.to_le_bytes(), &[0; 4], &0x7fff_ffff_u32.to_le_bytes(), &good[..]].concat();
    let other_link = [&good[..20], &101u32.to_le_bytes(), &good[24..]].concat();
    let cases: [(&str, &[u8], i32, &str); 5] = [
        ("empty", b"", 1, "ends after 0 bytes"),
        ("junk", &[0x55; 1000], 1, "begins with 55555555"),
        ("short", &good[..20], 1, "20 of the 24 bytes"),
        ("absurd", &absurd, 1, "claims 2147483647 bytes"),
        ("other", &other_link, 2, "link type"),
    ];
    for (name, bytes, code, words) in cases {
        std::fs::write(place.path(name), bytes).unwrap();
        place.refused(&["record", "/net", "--pcap", name], code, &[words]);
    }
    place.refused(&["record", "/net", "--pcap", "nothing"], 1, &["nothing", "does not exist"]);
    place.refused(&["record", "/net", "--interface", "nothing"], 1, &["nothing"]);
    let group = ["record", "/net", "--udp", "0.0.0.0:9000", "--multicast", "10.0.0.1"];
    place.refused(&group, 2, &["10.0.0.1 is no multicast group"]);
    place.refused(&["record", "/net", "--udp", "192.0.2.1:9"], 2, &["192.0.2.1:9"]);
    for source in [&["--stdin", "lines"][..], &["--udp", "127.0.0.1:0"], &["--generate", "max,1KiB", "--count", "1"]] {
        place.refused(&[&["record", "/net"], source].concat(), 2, &["/net has packets", "without --packets"]);
    }
    assert_eq!(place.count("/net", ""), 0);
    place.ok(&["record", "/net", "--generate", "max,packets", "--count", "2"]);
    place.ok(&["ring", "delete", "/net"]);
    place.ok(&["ring", "create", "/net", "--capacity", "32MiB", "--packets", "ethernet"]);
    place.ok(&["record", "/net", "--pcap", "good.pcap"]);
    assert_eq!(place.count("/net", ""), 3);
}

#[test]
fn rings_that_cannot_be_are_refused() {
    let place = Place::formatted("256MiB");
    place.refused(&["ring", "create", "/r"], 2, &["capacity"]);
    place.refused(&["ring", "create", "r", "--capacity", "32MiB"], 2, &["not a name"]);
    place.refused(&["ring", "create", "/r", "--capacity", "1TiB"], 1, &[]);
    place.refused(&["ring", "create", "/r", "--capacity", "32MiB", "--guarantee", "90GB/s"], 1, &["MB/s"]);
    place.refused(&["ring", "create", "/r", "--capacity", "32MiB", "--key", "x=u33le@0"], 2, &["key"]);
    let far = ["ring", "create", "/r", "--capacity", "32MiB", "--block", "64KiB", "--key", "x=u32le@70000"];
    place.refused(&far, 2, &["'x'", "70004", "64 KiB"]);
    place.ok(&["ring", "create", "/r", "--capacity", "32MiB", "--key", "x=u32le@8"]);
    place.refused(&["ring", "create", "/r", "--capacity", "32MiB"], 1, &["already"]);
    place.refused(&["record", "/r", "--generate", "max,10", "--count", "1"], 2, &["at least 12 bytes"]);
    place.refused(&["record", "/none", "--stdin", "lines"], 1, &["no ring /none"]);
    place.refused(&["record", "/r", "--stdin", "lines", "--guarantee", "1MB/s"], 2, &["--create"]);
    place.refused(&["record", "/r"], 2, &["--interface"]);
    place.refused(&["record", "/r", "--stdin", "lines", "--pcap", "x"], 2, &["cannot be used"]);
    place.refused_fed(&["record", "/r", "--stdin", "lp32le"], b"\xff\xff\xff\x7fx", 2, &["2147483647"]);
}

#[test]
fn a_query_that_cannot_be_read_is_shown_with_its_place() {
    let place = Place::formatted("256MiB");
    place.ok(&["ring", "create", "/r", "--capacity", "32MiB", "--key", "x=u32le@0"]);
    place.refused(&["query", "/r", "x=1 and nonsense=2"], 2, &["nonsense", "\n          ^^^^^^^^"]);
    place.refused(&["query", "/none"], 1, &["/none"]);
    for command in ["query", "tail"] {
        place.refused(&[command, "/r", "--raw", "--json", "--limit", "0"], 2, &["--raw", "--json", "one of both"]);
    }
    place.refused(&["export", "/r", "--to", "x.unknown"], 2, &["--format"]);
    place.refused(&["export", "/r", "--to", "x.pcap"], 2, &["no packets"]);
}

#[test]
fn pins_that_cannot_be_are_refused() {
    let place = Place::formatted("256MiB");
    place.ok(&["ring", "create", "/r", "--capacity", "32MiB", "--pin-budget", "10%"]);
    place.ok(&["record", "/r", "--generate", "max,64KiB", "--count", "400"]);
    place.refused(&["pin", "/r", "--from", "1h ago"], 1, &["budget", "10 %"]);
    place.refused(&["pin", "/r", "--from", "2001-01-01T00:00:00Z", "--to", "2001-01-02T00:00:00Z"], 1, &["/r"]);
    place.refused(&["pin", "/r", "--from", "2100-01-01T00:00:00Z", "--to", "2100-01-02T00:00:00Z"], 2, &["future"]);
    place.refused(&["pin", "/r", "--from", "now", "--to", "1h ago"], 2, &["before it begins"]);
    place.refused(&["pin", "/r", "--from", "yesterdayish"], 2, &["is not a time"]);
    place.refused(&["unpin", "/r", "77"], 1, &["77"]);
}

#[test]
fn a_capture_that_is_cut_off_is_kept_as_far_as_it_goes() {
    let place = Place::formatted("256MiB");
    let mut bytes = pcap(&place.path("in.pcap"), 10);
    bytes.truncate(bytes.len() - 5);
    std::fs::write(place.path("in.pcap"), &bytes).unwrap();
    let output = place.run(&["record", "/net", "--pcap", "in.pcap", "--create", "--capacity", "32MiB"]);
    assert_ne!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stderr).contains("forebay: in.pcap"));
    assert_eq!(place.count("/net", ""), 9);
    assert!(place.ok(&["gaps", "/net"]).contains("rejected"), "that something is missing is told in the ring, too");
}

#[test]
fn a_target_without_superblocks_and_checkpoints_is_rebuilt_from_its_segments_when_asked() {
    let place = Place::formatted("256MiB");
    let create = ["ring", "create", "/r", "--capacity", "32MiB", "--overflow", "block", "--segment", "1MiB"];
    place.ok(&[&create[..], &["--block", "64KiB"]].concat());
    place.ok(&["ring", "create", "/large", "--capacity", "16MiB", "--overflow", "block"]);
    place.ok(&["record", "/r", "--generate", "max,1KiB", "--count", "40000"]);
    place.ok(&["record", "/large", "--generate", "max,3MiB", "--count", "3"]);
    let elements = |ring: &str| {
        let answer = place.ok(&["query", ring, "--json", "--hex"]);
        answer.lines().filter(|line| line.contains("\"element\"")).map(str::to_owned).collect::<Vec<String>>()
    };
    let (small, large) = (elements("/r"), elements("/large"));
    assert!(small.len() < 40_000 && large.len() == 3, "a lap and a bit: {}", small.len());
    let disk = "cluster/target.0";
    place.refused(&["check", disk, "--rebuild"], 1, &["nothing to rebuild"]);
    place.refused(&["check", disk, "--write", "--quick"], 2, &["--quick"]);

    let sound = std::fs::read(place.path(disk)).unwrap();
    let wiped = [vec![0; 3 << 20], sound[3 << 20..].to_vec()].concat();
    std::fs::write(place.path(disk), &wiped).unwrap();
    place.refused(&["status"], 2, &["is not formatted", "check", "--rebuild"]);
    let mut damaged = sound;
    damaged[100..200].fill(0xee);
    damaged[(64 << 10) + 100..(64 << 10) + 200].fill(0xee);
    let looked_at = |content: &[u8], told: &[&str]| {
        std::fs::write(place.path(disk), content).unwrap();
        let said = place.ok(&["check", disk, "--rebuild"]);
        for words in told.iter().chain(&["Nothing was changed; --write"]) {
            assert!(said.contains(words), "{said}");
        }
        assert!(std::fs::read(place.path(disk)).unwrap() == content, "it was only looked at");
    };
    std::fs::write(place.path(disk), &damaged).unwrap();
    place.refused(&["status"], 1, &["no whole superblock", &format!("{disk} --rebuild")]);
    looked_at(&damaged, &["/r: ", "/large: ", "nothing is lost"]);
    place.ok(&["check", disk, "--rebuild", "--write"]);
    assert!((elements("/r"), elements("/large")) == (small.clone(), large.clone()));
    looked_at(&wiped, &["/r: ", "/large: ", "Pins were in the checkpoint"]);
    let said: serde_json::Value =
        serde_json::from_str(place.ok(&["check", disk, "--rebuild", "--write", "--json"]).trim()).unwrap();
    assert_eq!((&said["written"], &said["rebuilt"][0]["name"]), (&true.into(), &"/r".into()), "{said}");
    // What had expired may be there again, before the rest.
    let (again, again_large) = (elements("/r"), elements("/large"));
    assert!(again.len() >= small.len() && again[again.len() - small.len()..] == small[..]);
    assert!(again_large == large);
    assert_eq!(place.run(&["check"]).status.code(), Some(0), "it is sound");
    place.ok(&["record", "/large", "--generate", "max,3MiB", "--count", "2"]);
    assert_eq!(place.count("/large", "seq>=3"), 2);
}

#[test]
fn what_is_stored_where_zones_are_plain_is_there_after_both_superblocks_were_lost() {
    let place = Place::new();
    place.ok(&["format", "--size", "512MiB", "--measure", "0", "--plain-zones", "2MiB/32MiB"]);
    let bytes = Dice(7).bytes((5 << 20) + 7);
    place.ok_fed(&["put", "-", "/x"], &bytes);
    let disk = "cluster/target.0";
    let file = std::fs::File::options().write(true).open(place.path(disk)).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &vec![0; 128 << 10], 0).unwrap();
    place.refused(&["get", "/x", "-"], 2, &["is not formatted", "check", "--rebuild"]);
    let said = place.ok(&["check", disk, "--rebuild", "--write"]);
    assert!(said.contains("nothing is lost"), "{said}");
    assert!(place.run(&["get", "/x", "-"]).stdout == bytes);
    assert_eq!(place.ok(&["check"]).lines().last(), Some("Sound."));
}

#[test]
fn a_capture_that_tells_of_more_losses_than_can_be_counted_is_recorded_and_read() {
    let place = Place::formatted("256MiB");
    let block = |kind: u32, body: &[u8]| {
        let length = (body.len() as u32 + 12).to_le_bytes();
        [&kind.to_le_bytes()[..], &length, body, &length].concat()
    };
    let words = |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|word| word.to_le_bytes()).collect() };
    let mut capture = block(0x0a0d_0d0a, &words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]));
    capture.extend(block(1, &words(&[1, 65535])));
    // A packet of four bytes, before which as many were dropped as are believed; more of them than a number has room for.
    let packet = block(6, &words(&[0, 0x0006_0000, 0, 4, 4, 7, 4 | 8 << 16, 0, 1 << 16, 0]));
    (0..65_600).for_each(|_| capture.extend_from_slice(&packet));
    std::fs::write(place.path("lost.pcapng"), &capture).unwrap();
    let create = ["--create", "--capacity", "32MiB", "--json"];
    let said = place.ok(&[&["record", "/r", "--pcap", "lost.pcapng"], &create[..]].concat());
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&value(&said)["elements"], &value(&said)["lost_elements"]),
        (&65_600.into(), &u64::MAX.into()),
        "{said}"
    );
    let counted = place.ok(&["query", "/r", "--count", "--json"]);
    assert_eq!(value(&counted)["missing"], u64::MAX, "{counted}");
    place.ok(&["export", "/r", "--to", "out.pcapng"]);
    place.ok(&["ring", "show", "/r"]);
}

//! Objects as block devices: random requests beside a plain model, while servers are killed; and what others have
//! written uses them as disks.

// A test drives the real program through real files and sockets.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::device::{Device, Model, SIZE, asked_by_qemu, program};
use common::{Dice, Place};
use forebay_nbd::protocol::{command, transmission};
use forebay_sim::seeds;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

#[test]
fn a_device_keeps_what_it_answered_whoever_is_killed() {
    let lives = if seeds::is_replay() { 12 } else { 9 };
    seeds::each(1, |seed| {
        let place = Place::formatted("256MiB");
        place.ok(&["ring", "create", "/r", "--capacity", "32MiB"]);
        let mut dice = Dice(seed);
        let mut model = Model::object();
        for life in 0..lives {
            // In every third life it is another process that owns the cluster, and that is killed.
            let mut owner = (life % 3 == 2).then(|| {
                let mut owner =
                    place.command(&["record", "/r", "--stdin", "lines"]).stdin(Stdio::piped()).spawn().unwrap();
                BufReader::new(owner.stderr.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
                owner
            });
            let served =
                Device::new(&place, &["/disk", "--size", "24MiB", "--listen", ["127.0.0.1:0", "./s"][life % 2]]);
            let mut clients = [served.client(), served.client()];
            assert_eq!(clients[0].size(), SIZE as u64);
            assert_ne!(clients[0].flags() & transmission::CAN_MULTI_CONN, 0);
            model.compare(&mut clients[0]);
            let (before, after) = (10 + dice.below(150), dice.below(60));
            model.run(&mut dice, &mut clients, before).unwrap();
            if let Some(owner) = &mut owner {
                owner.kill().unwrap();
                owner.wait().unwrap();
                model.run(&mut dice, &mut clients, after).unwrap();
                model.settle(&mut clients).unwrap();
                served.stop();
                continue;
            }
            let mut served = served;
            // More is asked while it is killed, and what was answered before counts.
            let killing = std::thread::spawn(move || {
                served.child.kill().unwrap();
                served.child.wait().unwrap();
            });
            let _ = model.run(&mut dice, &mut clients, after);
            killing.join().unwrap();
            for (with, client) in clients.iter_mut().enumerate() {
                while model.take(client, with).is_ok() {}
            }
        }
        let served = Device::new(&place, &["/disk", "--listen", "127.0.0.1:0"]);
        model.compare(&mut served.client());
        served.stop();
        assert!(model.answered > 200, "{} answers show nothing", model.answered);
        assert_eq!(place.ok(&["check"]).lines().last(), Some("Sound."));
    });
}

#[test]
fn what_cannot_be_served_is_refused_with_what_helps() {
    let place = Place::formatted("256MiB");
    place.ok(&["ring", "create", "/ring", "--capacity", "32MiB"]);
    place.ok_fed(&["put", "-", "/x"], b"some");
    place.ok_fed(&["put", "-", "/empty"], b"");
    let at = ["--listen", "127.0.0.1:0"];
    let refused = |args: &[&str], code, words: &[&str]| place.refused(&[&["nbd"], args, &at].concat(), code, words);
    refused(&["/y"], 1, &["there is no object /y", "--size"]);
    refused(&["/ring"], 2, &["/ring is a ring"]);
    refused(&["/ring", "--size", "1MiB"], 1, &["/ring is a ring"]);
    refused(&["/x", "--size", "5"], 1, &["/x exists already and has 4 bytes, not 5"]);
    refused(&["/empty"], 2, &["/empty has no bytes"]);
    refused(&["/y", "--size", "0"], 2, &["a device of no bytes"]);
    refused(&["/y", "--size", "2000000TiB"], 2, &["beyond the largest object"]);
    refused(&["y", "--size", "1MiB"], 2, &["is not a name"]);
    refused(&["/y", "--size", "1MiB", "--raid", "5"], 2, &["lies on one target", "--raid"]);
    place.refused(&["nbd", "/x", "--listen", "0.0.0.0:0"], 2, &["other machines", "127.0.0.1"]);
    place.refused(&["nbd", "/x", "--listen", "there"], 2, &["not an address and a port"]);
    let served = Device::new(&place, &["/x", "--listen", "127.0.0.1:0"]);
    place.refused(&["nbd", "/x", "--listen", &served.address], 1, &["another process listens", "another port"]);
    // Beside it, and by others, the object is an object; when it is gone, so is what was served.
    let mut client = served.client();
    assert_eq!(client.read(1, 3).unwrap(), Ok(b"ome".to_vec()));
    place.ok(&["rm", "/x"]);
    assert_eq!(client.read(1, 3).unwrap(), Err(5));
    assert_eq!(client.write(1, b"a").unwrap(), Err(5));
    served.stop();
    assert_eq!(place.ok(&["ls", "--json"]).lines().count(), 2, "the ring and what is empty");
}

#[test]
fn a_device_that_finds_no_room_says_so_and_what_it_holds_stays() {
    let place = Place::formatted("128MiB");
    let served = Device::new(&place, &["/big", "--size", "1GiB", "--listen", "127.0.0.1:0"]);
    let mut client = served.client();
    let bytes = vec![7; 4 << 20];
    let fit = (0..256_u64).find(|n| client.write(n << 22, &bytes).unwrap() == Err(28)).expect("it does not fit");
    assert!(fit > 4, "{fit} writes of 4 MiB into 128 MiB");
    for n in 0..fit {
        assert!(client.read(n << 22, 4 << 20).unwrap().unwrap() == bytes, "part {n}");
    }
    // What is not needed makes room.
    client.ask(0, command::TRIM, 0, 16 << 20, &[]).unwrap().result.unwrap();
    assert_eq!(client.write(fit << 22, &bytes).unwrap(), Ok(vec![]));
    served.stop();
}

#[test]
fn programs_of_others_use_it_as_a_disk() {
    let place = Place::formatted("256MiB");
    let served = Device::new(&place, &["/disk", "--size", "64MiB", "--listen", "127.0.0.1:0"]);
    let about = program("nbdinfo", &["--json", &served.uri]);
    let about: serde_json::Value = serde_json::from_str(&about).unwrap();
    assert_eq!(about["exports"][0]["export-size"], 64 << 20);
    assert_eq!(about["exports"][0]["can_multi_conn"], true);
    let image = place.path("image").display().to_string();
    std::fs::write(&image, Dice(3).bytes(64 << 20)).unwrap();
    program("nbdcopy", &[&image, &served.uri]);
    let back = place.path("back").display().to_string();
    program("nbdcopy", &[&served.uri, &back]);
    assert!(std::fs::read(&image).unwrap() == std::fs::read(&back).unwrap());
    asked_by_qemu(&served.uri, &["read -P 0 3M 64k"]);
    program("qemu-img", &["bench", "-f", "raw", "-w", "-c", "500", "-d", "16", "-s", "4096", &served.uri]);
    // The other way, with a fresh format of their own on it, written by a killed server's predecessor.
    program("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", &image, &served.uri]);
    drop(served);
    let served = Device::new(&place, &["/disk", "--listen", "./socket"]);
    program("qemu-img", &["compare", "-f", "raw", "-F", "raw", &image, &served.uri]);
    served.stop();
}

/// A device as a file, by FUSE.
struct Mounted {
    nbdfuse: Child,
    at: String,
}

impl Mounted {
    /// `None` where this machine does not let us.
    fn new(place: &Place, uri: &str) -> Option<Mounted> {
        let at = place.path("mounted");
        std::fs::create_dir(&at).unwrap();
        let ready = place.path("ready");
        assert!(Command::new("mkfifo").arg(&ready).status().unwrap().success());
        let command = || {
            let mut command = Command::new("nbdfuse");
            command.arg("--pidfile").arg(&ready).arg(&at).arg(uri).stdin(Stdio::null()).stderr(Stdio::null());
            command
        };
        // Whoever may not mount ends at once and never opens the pipe.
        if std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse").is_err() {
            return None;
        }
        let nbdfuse = command().spawn().unwrap();
        let mounted = Mounted { nbdfuse, at: at.display().to_string() };
        std::fs::read_to_string(&ready).unwrap();
        Some(mounted)
    }

    fn file(&self) -> String {
        format!("{}/nbd", self.at)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["--lazy", &self.at]).status();
        let _ = self.nbdfuse.wait();
    }
}

#[test]
fn a_file_system_lives_on_it() {
    let place = Place::formatted("256MiB");
    let served = Device::new(&place, &["/disk", "--size", "64MiB", "--listen", "127.0.0.1:0"]);
    let Some(mounted) = Mounted::new(&place, &served.uri) else {
        println!("skipped: this machine does not let us mount by FUSE");
        return;
    };
    program("mkfs.ext4", &["-q", "-F", &mounted.file()]);
    let mut files = Vec::new();
    for n in 0..6_u64 {
        let (name, bytes) = (place.path(&format!("file{n}")), Dice(n).bytes(1 + (n * n * 50_007) as usize));
        std::fs::File::create(&name).unwrap().write_all(&bytes).unwrap();
        let ask = format!("write {} file{n}", name.display());
        program("debugfs", &["-w", "-R", &ask, &mounted.file()]);
        files.push(bytes);
    }
    drop(mounted);
    drop(served);
    let served = Device::new(&place, &["/disk", "--listen", "127.0.0.1:0"]);
    let image = place.path("image").display().to_string();
    program("nbdcopy", &[&served.uri, &image]);
    served.stop();
    program("e2fsck", &["-f", "-n", &image]);
    for (n, bytes) in files.iter().enumerate() {
        let out = place.path("out").display().to_string();
        program("debugfs", &["-R", &format!("dump file{n} {out}"), &image]);
        assert!(std::fs::read(&out).unwrap() == *bytes, "file{n}");
    }
}

#[test]
fn what_small_writes_made_durable_on_a_target_with_plain_zones_is_there_after_a_kill() {
    let place = Place::new();
    let format = |zones| ["format", "--size", "512MiB", "--measure", "0", "--plain-zones", zones];
    for (zones, words) in [("2MiB/300MiB", "8 are needed"), ("1KiB/32MiB", "multiples of 1 MiB"), ("2MiB", "no zones")]
    {
        place.refused(&format(zones), 2, &[words]);
    }
    place.ok(&format("2MiB/32MiB"));
    let mut dice = Dice(17);
    let (mut large, mut disk) = (Vec::new(), vec![0; 8 << 20]);
    for life in 0..4 {
        let served = Device::new(&place, &["/disk", "--size", "8MiB", "--listen", "127.0.0.1:0"]);
        let mut client = served.client();
        let now = client.read(0, disk.len() as u32).unwrap().unwrap();
        assert!(now == disk, "life {life}: what was answered is there");
        // The server has the cluster; this one comes to it.
        if life > 0 {
            place.ok(&["get", "/large", "out", "--force"]);
            assert!(std::fs::read(place.path("out")).unwrap() == large, "life {life}");
        }
        large = dice.bytes((20 << 20) + 5);
        std::fs::write(place.path("in"), &large).unwrap();
        place.ok(&["put", "in", "/large", "--force"]);
        for _ in 0..300 {
            let blocks = 1 + dice.below(8) as usize;
            let bytes = dice.bytes(4096 * blocks);
            let at = dice.below((disk.len() - bytes.len()) as u64 + 1) as usize;
            client.write(at as u64, &bytes).unwrap().unwrap();
            disk[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        // Killed.
        drop(served);
    }
    let found = place.ok(&["check", "cluster/target.0", "--json"]);
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    assert_eq!((&found["groups"], &found["objects"]["damage"]), (&15.into(), &serde_json::json!([])), "{found}");
    assert_eq!(found["objects"]["contradictions"], serde_json::json!([]), "{found}");
}

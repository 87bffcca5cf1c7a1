//! Files of a cluster on the network as block devices: random requests beside a plain model, while servers and nodes are
//! killed; and what others have written uses them as disks.

// A test drives the real program through real files and sockets.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::device::{Device, Model, SIZE, asked_by_qemu, program};
use common::served::{Served, until};
use common::{Dice, Place};
use forebay_client::file::options::Options;
use forebay_nbd::protocol::{command, transmission};
use forebay_sim::seeds;
use std::io::BufReader;

const AT: [&str; 2] = ["--listen", "127.0.0.1:0"];

#[test]
fn a_device_of_a_file_keeps_what_it_answered_whoever_serves_it_is_killed_and_one_target_is_lost() {
    seeds::each(1, |seed| {
        let place = Place::new();
        let mut manager = Served::with(&place, &["--nodes", "0"]);
        let mut told = BufReader::new(manager.child.stderr.take().unwrap());
        let [a, b, c] = ["a", "b", "c"].map(|dir| manager.join(&place, dir));
        let (mut dice, mut model) = (Dice(seed), Model::file());
        let (mut killed, mut nodes) = (Some(a), vec![b, c]);
        let lives = 5;
        for life in 0..lives {
            let listen = ["127.0.0.1:0", "./s"][life % 2];
            let args = ["/disk", "--size", "24MiB", "--raid", "5", "--unit", "64KiB", "--listen", listen];
            let mut device = Device::served(&manager, &place, &args);
            let mut clients = [device.client(), device.client()];
            assert_eq!(clients[0].size(), SIZE as u64);
            model.compare(&mut clients[0]);
            let (before, after) = (40 + dice.below(100), dice.below(60));
            model.run(&mut dice, &mut clients, before).unwrap();
            if life == 0 {
                // Two are enough, for what is under way as for what comes. Before anybody was killed who may be answered by it: the next
                // one would wait for that for six minutes.
                killed.take().unwrap().kill();
                model.run(&mut dice, &mut clients, after + 20).unwrap();
                model.settle(&mut clients).unwrap();
            }
            // More is asked while it is killed, and what was answered before counts.
            let killing = std::thread::spawn(move || {
                device.child.kill().unwrap();
                device.child.wait().unwrap();
            });
            let _ = model.run(&mut dice, &mut clients, after);
            killing.join().unwrap();
            for (with, client) in clients.iter_mut().enumerate() {
                while model.take(client, with).is_ok() {}
            }
        }
        nodes.push(Served::at(&place, "a", &["--join", &manager.cluster]));
        until(&mut told, "are rebuilt");
        let device = Device::served(&manager, &place, &[&["/disk"], &AT[..]].concat());
        model.compare(&mut device.client());
        device.stop();
        // It is a file like others, and with what was rebuilt it does without another one, which had all of it.
        nodes.remove(0).kill();
        assert!(manager.ok(&place, &["get", "/disk", "-"]) == model.bytes());
        assert!(model.answered > 150, "{} answers show nothing", model.answered);
        nodes.into_iter().for_each(Served::stop);
        manager.stop();
    });
}

#[test]
fn a_file_is_a_device_in_several_places_at_once_and_what_cannot_be_served_is_refused_with_what_helps() {
    let place = Place::new();
    let served = Served::with(&place, &["--nodes", "3", "--size", "256MiB"]);
    served.ok(&place, &["mkdir", "/data"]);
    served.ok(&place, &["ring", "create", "/ring", "--capacity", "64MiB"]);
    std::fs::write(place.path("in"), b"some").unwrap();
    served.ok(&place, &["put", "in", "/x"]);
    std::fs::write(place.path("none"), b"").unwrap();
    served.ok(&place, &["put", "none", "/empty"]);
    for (args, code, words) in [
        (&["/y"][..], 1, &["/y", "--size makes it"][..]),
        (&["/nope/y", "--size", "1MiB"], 1, &["/nope"]),
        (&["/x", "--size", "5"], 1, &["/x exists already and has 4 bytes, not 5"]),
        (&["/empty"], 2, &["/empty has no bytes"]),
        (&["/data"], 2, &["directory"]),
        (&["/ring"], 2, &["ring"]),
        (&["/y", "--size", "0"], 2, &["a device of no bytes"]),
        (&["/y", "--size", "2000000TiB"], 2, &["largest file"]),
        (&["/y", "--raid", "5", "--targets", "9", "--size", "1MiB"], 1, &["9"]),
        (&["/y", "--mode", "600"], 2, &["--size"]),
    ] {
        let output = served.run(&place, &[&["nbd"], args, &AT[..]].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        words.iter().for_each(|word| assert!(said.contains(word), "{args:?} does not say '{word}': {said}"));
    }
    // Nothing of what was refused stays.
    let listed = String::from_utf8(served.ok(&place, &["ls", "/", "--json"])).unwrap();
    assert_eq!(listed.lines().count(), 4, "{listed}");
    // Who is alone with a file is told of.
    let files = served.files(&served.key);
    let alone = files.open_to_write("/x", Options::alone()).unwrap();
    let said = served.failure(&place, &[&["nbd", "/x"], &AT[..]].concat());
    assert!(said.contains("client ") && said.contains("alone with it"), "{said}");
    alone.close().unwrap();
    let args = ["/disk", "--size", "8MiB", "--mode", "600", "--listen"];
    let [one, other] =
        ["127.0.0.1:0", "./socket"].map(|at| Device::served(&served, &place, &[&args[..], &[at]].concat()));
    let (mut client, mut second) = (one.client(), other.client());
    assert_eq!(client.flags() & (transmission::SEND_TRIM | transmission::SEND_WRITE_ZEROES), 1 << 6);
    for n in 0..8_u8 {
        client.write(u64::from(n) * 100_000, &[n + 1; 1000]).unwrap().unwrap();
        assert_eq!(second.read(u64::from(n) * 100_000 + 1, 3).unwrap(), Ok(vec![n + 1; 3]));
    }
    second.ask(0, command::WRITE_ZEROES, 0, 400_000, &[]).unwrap().result.unwrap();
    assert_eq!(client.read(300_000, 3).unwrap(), Ok(vec![0; 3]));
    assert_eq!(client.read(400_000, 3).unwrap(), Ok(vec![5; 3]));
    assert_eq!(client.ask(0, command::FLUSH, 0, 0, &[]).unwrap().result, Ok(vec![]));
    let got = served.ok(&place, &["get", "/disk", "-"]);
    assert!(got.len() == 8 << 20 && got[400_000..401_000] == [5; 1000] && got[..400_000] == [0; 400_000]);
    let stat: serde_json::Value = serde_json::from_slice(&served.ok(&place, &["stat", "/disk", "--json"])).unwrap();
    assert_eq!((&stat["size_bytes"], &stat["mode"]), (&(8 << 20).into(), &"0600".into()));
    one.stop();
    other.stop();
    // Where nobody has it open, somebody may be alone with it at once.
    files.open_to_write("/disk", Options::alone()).unwrap().close().unwrap();
    served.stop();
}

#[test]
fn programs_of_others_use_a_file_as_a_disk() {
    let place = Place::new();
    let served = Served::with(&place, &["--nodes", "5", "--size", "128MiB"]);
    let device = Device::served(&served, &place, &[&["/disk", "--size", "32MiB"], &AT[..]].concat());
    let about = program("nbdinfo", &["--json", &device.uri]);
    let about: serde_json::Value = serde_json::from_str(&about).unwrap();
    assert_eq!(about["exports"][0]["export-size"], 32 << 20);
    assert_eq!(
        (&about["exports"][0]["can_multi_conn"], &about["exports"][0]["can_trim"]),
        (&true.into(), &false.into())
    );
    let image = place.path("image").display().to_string();
    std::fs::write(&image, Dice(3).bytes(32 << 20)).unwrap();
    program("nbdcopy", &[&image, &device.uri]);
    program("qemu-img", &["compare", "-f", "raw", "-F", "raw", &image, &device.uri]);
    asked_by_qemu(&device.uri, &[]);
    device.stop();
    served.stop();
}

//! A manager alone and nodes alone, as processes of their own, that are killed one by one: what was acknowledged is there, and all
//! others go on meanwhile.
//!
//! Beside the kills one client writes a file and makes each write durable, and another one records into a ring with parity over
//! all nodes. What both were told is theirs at any time, and they have to get on while the process is dead.

// A test drives the real program through real files and sockets.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::known::{Known, moment};
use common::served::Served;
use common::{Dice, Place, pass, signal};
use forebay_client::file::options::Options;
use forebay_model::{Bytes, Kind};
use std::process::Child;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Where the manager is killed, each time a moment later than what is named.
const POINTS: [&str; 9] = ["opening", "ready", "putting", "put", "moving", "moved", "removing", "removed", "stopping"];
/// Where a node is, which has nothing to do with a name but to keep a copy of it.
const OF_NODES: [&str; 4] = ["opening", "putting", "removing", "stopping"];
/// Without one of them a file with parity still finds three.
const NODES: [&str; 4] = ["a", "b", "c", "d"];
/// So long whoever can do without a dead node asks for it: longer than a living one takes beside all that is at work here.
const SHORT: Duration = Duration::from_secs(3);
const BRIEFLY: [&str; 2] = ["--wait", "2s"];
/// Whoever waits longer than this waits for nothing.
const PATIENCE: Duration = Duration::from_secs(120);
/// The file is written from its beginning on in so many parts of such a length, and then again: there are fewer than are waited for
/// in all.
const PARTS: u64 = 30;
const PART: usize = 20_000;
/// So many elements of such a length are recorded before they are waited for.
const TOGETHER: u64 = 200;
const ELEMENT: usize = 16;
/// From one to the next, so that the ring is not gone round in the time that all takes.
const PACE: Duration = Duration::from_millis(50);

/// What ends such a one.
struct Stopped(Receiver<()>);

impl Stopped {
    fn is_not_yet(&self) -> bool {
        self.0.recv_timeout(PACE) == Err(RecvTimeoutError::Timeout)
    }
}

/// Somebody who does one thing after the other, and says how many are acknowledged.
struct Beside {
    stop: Sender<()>,
    told: Receiver<u64>,
    thread: JoinHandle<u64>,
    acknowledged: u64,
}

impl Beside {
    fn new(work: impl FnOnce(Stopped, Sender<u64>) -> u64 + Send + 'static) -> Beside {
        let ((stop, stopped), (tell, told)) = (channel(), channel());
        let thread = std::thread::spawn(move || work(Stopped(stopped), tell));
        Beside { stop, told, thread, acknowledged: 0 }
    }

    /// How many are acknowledged by now.
    fn acknowledged(&mut self) -> u64 {
        self.acknowledged = self.told.try_iter().last().unwrap_or(self.acknowledged);
        self.acknowledged
    }

    /// Waits until so many more are.
    fn gets_on(&mut self, more: u64, who: &str) {
        let enough = self.acknowledged() + more;
        while self.acknowledged < enough {
            let told = self.told.recv_timeout(PATIENCE);
            self.acknowledged = told.unwrap_or_else(|_| panic!("{who} does not get on"));
        }
    }

    fn end(self) -> u64 {
        self.stop.send(()).unwrap();
        self.thread.join().unwrap()
    }
}

fn part(number: u64) -> Vec<u8> {
    Dice(number).bytes(PART)
}

fn element(number: u64) -> Vec<u8> {
    format!("{number:0ELEMENT$}").into_bytes()
}

/// Writes a file for ever, part by part, and waits for each. He is not alone with it: so it is rebuilt meanwhile.
fn writing(manager: &Served, patience: Duration) -> Beside {
    let files = manager.files_within(&manager.key, patience);
    Beside::new(move |stop, tell| {
        let file = files.create("/written", 0o644, None, Options::beside()).unwrap();
        let mut number = 0;
        while stop.is_not_yet() {
            let at = Bytes(number % PARTS * PART as u64);
            // Who is told that something was not acknowledged writes it again: until then either part may be there.
            while let Err(error) = file.write_at(at, part(number).into()).and_then(|()| file.flush()) {
                assert_eq!(error.kind, Kind::Refused, "{error}");
            }
            number += 1;
            let _ = tell.send(number);
        }
        file.close().unwrap();
        number
    })
}

/// Records for ever, and waits for some elements at a time.
fn recording(manager: &Served) -> Beside {
    let cluster = manager.files(&manager.key).cluster(PATIENCE);
    Beside::new(move |stop, tell| {
        let mut recorder = cluster.recorder("/ring").unwrap();
        let mut number = 0;
        while stop.is_not_yet() {
            for _ in 0..TOGETHER {
                recorder.element(cluster.wall(), &[&element(number)], &[]).unwrap();
                number += 1;
            }
            recorder.flush().unwrap();
            let _ = tell.send(number);
        }
        let progress = recorder.close().unwrap();
        assert_eq!((progress.elements, progress.durable_elements), (number, number));
        number
    })
}

/// Nodes, their manager, who is at work beside, and what was asked for.
struct Stage {
    place: Place,
    dice: Dice,
    known: Known,
    writer: Beside,
    recorder: Beside,
    /// The longest time from the start of a process until it had everything ready.
    longest: Duration,
    doubts: u64,
}

impl Stage {
    /// Who writes waits so long for a process that is dead.
    fn new(seed: u64, patience: Duration) -> (Stage, Served, Vec<Served>) {
        let place = Place::new();
        let manager = Served::with(&place, &["--nodes", "0"]);
        let nodes = NODES.map(|dir| manager.join(&place, dir)).into();
        let ring = ["ring", "create", "/ring", "--capacity", "128MiB", "--targets", "3", "--parity"];
        manager.ok(&place, &[&ring[..], &["--block", "16KiB", "--flush-interval", "20ms"]].concat());
        let (writer, recorder) = (writing(&manager, patience), recording(&manager));
        let (dice, known) = (Dice(seed), Known::default());
        let mut stage = Stage { place, dice, known, writer, recorder, longest: Duration::ZERO, doubts: 0 };
        // Something to move and to remove from the beginning.
        (0..3).for_each(|_| stage.ask("put", &manager, &manager.child));
        (stage, manager, nodes)
    }

    fn ask(&mut self, point: &str, manager: &Served, killed: &Child) {
        self.known.ask(point, manager, &self.place, &mut self.dice, killed);
    }

    fn check(&mut self, manager: &Served) {
        self.known.check(manager, &self.place);
    }

    /// Brings a process to a point, at which it is killed.
    fn bring(&mut self, point: &str, manager: &Served, killed: &Child) {
        match point {
            "opening" | "ready" => pass(self.dice.moment()),
            "stopping" => {
                signal(killed, "TERM");
                pass(moment(&mut self.dice));
            }
            point => self.ask(point, manager, killed),
        }
        self.doubts += u64::from(self.known.is_in_doubt());
    }

    /// Starts a process that was killed; the first time it is killed while it opens, if that is the point.
    fn start(&mut self, point: &str, dir: &str, options: &[&str]) -> Served {
        if point == "opening" {
            let path = self.place.path(dir).display().to_string();
            let mut child = self.place.start(&[&["serve", &path, "--json"], options].concat());
            pass(6 * moment(&mut self.dice));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let begun = Instant::now();
        let served = Served::at(&self.place, dir, options);
        self.longest = self.longest.max(begun.elapsed());
        served
    }

    /// Both get on.
    fn others_get_on(&mut self, while_dead: &str) {
        self.writer.gets_on(4, &format!("who writes while {while_dead} is dead"));
        self.recorder.gets_on(4 * TOGETHER, &format!("who records while {while_dead} is dead"));
    }

    /// All elements that are acknowledged are in the ring, once and in their order.
    fn check_ring(&mut self, manager: &Served) {
        let least = self.recorder.acknowledged() as usize;
        let found = manager.ok(&self.place, &[&["query", "/ring", "--raw"][..], &BRIEFLY].concat());
        let wrong = found.chunks(ELEMENT).take(least).enumerate().find(|(nth, one)| **one != element(*nth as u64)[..]);
        let wrong = wrong.map(|(nth, one)| (nth, String::from_utf8_lossy(one)));
        let count = found.len() / ELEMENT;
        assert!(count >= least && wrong.is_none(), "{count} of {least} that were acknowledged, and wrong {wrong:?}");
    }

    /// Ends it all, and looks whether what was written and recorded is as it was acknowledged.
    fn end(mut self, manager: &Served) {
        let written = self.writer.acknowledged();
        let Stage { place, mut known, writer, recorder, longest, doubts, .. } = self;
        let (all, elements) = (writer.end(), recorder.end());
        assert!(written > PARTS && all >= written, "{written} and {all} parts were written");
        known.check(manager, &place);
        let found = manager.ok(&place, &["get", "/written", "-"]);
        assert_eq!(found.len(), PARTS as usize * PART);
        for number in all - PARTS..all {
            let at = (number % PARTS) as usize * PART;
            let there = || (0..=all).rev().find(|other| found[at..at + PART] == part(*other));
            assert!(found[at..at + PART] == part(number), "part {number} of {all} is not there, but {:?}", there());
        }
        let found = manager.ok(&place, &["query", "/ring", "--raw"]);
        assert!(found.chunks(ELEMENT).map(<[u8]>::to_vec).eq((0..elements).map(element)), "{elements} elements");
        println!(
            "{doubts} commands were cut off, {all} writes and {elements} elements were acknowledged, and what was killed was ready \
             within {longest:?}"
        );
        assert!(!known.there.is_empty() && !known.gone.is_empty(), "{:?} and {:?}", known.there, known.gone);
    }
}

#[test]
fn outcome_21_a_manager_alone_that_is_killed_has_all_that_it_answered_and_nodes_and_clients_go_on() {
    let (mut stage, mut manager, nodes) = Stage::new(211, PATIENCE);
    let address = manager.cluster.trim_start_matches("forebay://").to_string();
    for point in POINTS {
        stage.bring(point, &manager, &manager.child);
        manager.kill();
        stage.others_get_on("the manager");
        manager = stage.start(point, "cluster", &["--nodes", "0", "--listen", &address]);
        stage.check(&manager);
        stage.check_ring(&manager);
        println!("the manager was killed at {point}");
    }
    stage.end(&manager);
    nodes.into_iter().for_each(Served::stop);
    manager.stop();
}

/// Waits until nothing of any file is missing: then each of the nodes can be lost.
fn whole(manager: &Served, place: &Place) {
    let begun = Instant::now();
    loop {
        let status = manager.ok(place, &["status", "--json"]);
        let status: serde_json::Value = serde_json::from_slice(&status).unwrap();
        if status["degraded_files"] == 0 {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{status}");
    }
}

#[test]
fn outcome_21_a_node_alone_that_is_killed_has_all_that_was_acknowledged_and_the_others_go_on_without_it() {
    let (mut stage, manager, mut nodes) = Stage::new(212, SHORT);
    stage.known.reading = &BRIEFLY;
    for (nth, point) in OF_NODES.into_iter().enumerate() {
        let node = nodes.remove(0);
        let dir = NODES[nth];
        stage.bring(point, &manager, &node.child);
        node.kill();
        stage.others_get_on("a node");
        stage.check(&manager);
        stage.ask("put", &manager, &manager.child);
        if nth == 0 {
            // No other target was ever away: so all of it can be made of the others.
            stage.check_ring(&manager);
        }
        nodes.push(stage.start(point, dir, &["--join", &manager.cluster]));
        // Who has written all of the file has asked for each of its components: of none is it unknown whether it is lost.
        stage.writer.gets_on(PARTS, "who writes beside nodes of which all are there");
        whole(&manager, &stage.place);
        stage.check(&manager);
        stage.check_ring(&manager);
        println!("node {dir} was killed at {point}");
    }
    stage.end(&manager);
    nodes.into_iter().for_each(Served::stop);
    manager.stop();
}

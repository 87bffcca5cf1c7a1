//! The histories of `forebay_sim::objects` on a real file: users give commands of all kinds and sizes at once, and the
//! process that carries them out is killed, at each kind of command and at any moment; one life after another on the same
//! cluster, each compared with the plain model.
//!
//! The test draws the commands and tells them to the process over a pipe, so that it knows what was asked, also of who
//! is killed before saying that it is done. Checked after most kills: what was acknowledged took effect; what was under
//! way did so as a whole or not at all; what the volume says that it holds is what its objects hold.

// A test drives real processes on real files.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::{Dice, Place, itself, pass, said};
use forebay_client::objects::{Objects, Place as At, Placement, Quota, WriteOptions};
use forebay_embedded::{Options, open};
use forebay_model::{Kind, ObjectId};
use forebay_sim::objects::{Known, put};
use forebay_sim::seeds;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Where a process that is started by a test finds its directory.
const DIRECTORY: &str = "FOREBAY_TEST_OBJECTS_DIRECTORY";
const USERS: u64 = 4;
/// Objects of each user.
const OBJECTS: u64 = 3;
const VOLUME: u64 = 7;
/// The largest object of those that have commands of all sizes.
const LARGEST: u64 = 3 << 20;
/// The most that one command writes.
const MOST_AT_ONCE: u64 = 64 << 20;
const PLACES: [Placement; 4] = [Placement::Auto, Placement::Auto, Placement::Home, Placement::Log];
/// What is under way when a process is killed; the last is anything.
const POINTS: [&str; 9] = ["create", "write", "append", "truncate", "punch", "attribute", "remove", "opening", "any"];

/// What the process is asked to do with an object: numbers mean what the command takes them for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ask {
    what: &'static str,
    object: u64,
    numbers: [u64; 3],
}

/// Bytes that follow from a number.
fn content(number: u64, length: u64) -> Vec<u8> {
    Dice(number).bytes(length as usize)
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(bytes.len() as u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// Not a test: the process that is killed. A line is a user and a command; it is answered when it is done.
#[test]
#[ignore = "started by other tests"]
fn obey_until_killed() {
    let Some(dir) = std::env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    println!("! opening");
    let cluster = open(&dir, Options::default()).unwrap();
    let target = cluster.info().unwrap().targets[0].id;
    println!("! open");
    let users: Vec<_> = (0..USERS)
        .map(|user| {
            let (tell, told) = channel::<String>();
            let objects = cluster.objects();
            let working = std::thread::spawn(move || {
                for line in told {
                    let words: Vec<&str> = line.split(' ').collect();
                    let number = |at: usize| words[at].parse::<u64>().unwrap();
                    let at = At { target, id: ObjectId { volume: VOLUME, object: number(1) } };
                    match obey(&objects, at, words[0], [number(2), number(3), number(4)]) {
                        Ok(found) => println!("! done {user} {found}"),
                        // Of an append that was under way when the owner went away nobody knows.
                        Err(error) if error.kind == Kind::Disconnected => println!("! doubt {user} 0"),
                        Err(error) => {
                            println!("! failed {line}: {error}");
                            std::process::exit(1);
                        }
                    }
                }
            });
            (tell, working)
        })
        .collect();
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let (user, command) = line.split_once(' ').unwrap();
        users[user.parse::<usize>().unwrap()].0.send(command.to_string()).unwrap();
    }
    for (tell, working) in users {
        drop(tell);
        working.join().unwrap();
    }
    cluster.close().unwrap();
    println!("! closed");
}

fn obey(objects: &Objects, at: At, what: &str, numbers: [u64; 3]) -> forebay_model::Result<u64> {
    let [a, b, c] = numbers;
    let options = |place: u64| WriteOptions { placement: PLACES[place as usize % 4], ..WriteOptions::default() };
    match what {
        "create" => objects.create(at, vec![(9, 1, content(a, a % 500))]).map(|()| 0),
        "write" => objects.write_at(at, a, content(c, b), options(c)).map(|()| 0),
        "append" => objects.append(at, &content(c, b), options(c)),
        "truncate" => objects.truncate(at, a).map(|()| 0),
        "punch" => objects.punch(at, a, b).map(|()| 0),
        "attribute" => objects.set_attributes(at, vec![(9, 1, (b > 0).then(|| content(a, a % 500)))]).map(|()| 0),
        "remove" => objects.remove(at).map(|()| 0),
        _ => objects.read_at(at, a, b).map(|bytes| sum(&bytes)),
    }
}

/// A command by chance for an object that is as the model knows.
fn draw(dice: &mut Dice, object: u64, known: Option<&Known>) -> Ask {
    let Some(known) = known else { return Ask { what: "create", object, numbers: [dice.below(1 << 40), 0, 0] } };
    let length = match dice.below(6) {
        0 => 1 + dice.below(1 << 20),
        1 => 1 + dice.below(300 << 10),
        2 => (1 + dice.below(8)) * 4096,
        _ => 1 + dice.below(9000),
    };
    let mut offset = dice.below(LARGEST - length);
    if dice.below(2) == 0 {
        offset = offset / 4096 * 4096;
    }
    let (what, numbers) = match dice.below(100) {
        50..60 if known.bytes.len() as u64 + length <= LARGEST => ("append", [0, length, dice.below(1 << 40)]),
        0..60 => ("write", [offset, length, dice.below(1 << 40)]),
        60..67 => ("truncate", [offset, 0, 0]),
        67..75 => ("punch", [offset, length, 0]),
        75..82 => ("attribute", [dice.below(1 << 40), dice.below(3), 0]),
        82..86 => ("remove", [0; 3]),
        _ => ("read", [offset, length, 0]),
    };
    Ask { what, object, numbers }
}

/// What becomes of an object.
fn after(ask: &Ask, known: Option<&Known>) -> Option<Known> {
    let mut next = known.cloned().unwrap_or_default();
    let [a, b, c] = ask.numbers;
    match ask.what {
        "create" => next.attribute = Some(content(a, a % 500)),
        "write" => put(&mut next.bytes, a, &content(c, b)),
        "append" => next.bytes.extend(content(c, b)),
        "truncate" => next.bytes.resize(a as usize, 0),
        "punch" => {
            let size = next.bytes.len();
            next.bytes[(a as usize).min(size)..((a + b) as usize).min(size)].fill(0);
        }
        "attribute" => next.attribute = (b > 0).then(|| content(a, a % 500)),
        "remove" => return None,
        _ => {}
    }
    Some(next)
}

#[derive(Debug, Default)]
struct Tally {
    commands: u64,
    kills: u64,
    there: u64,
    absent: u64,
    compared: u64,
}

#[derive(Default)]
struct Model {
    objects: BTreeMap<u64, Known>,
    /// What each object is if its command took effect, of users that wait; and of those whose answer never came.
    under_way: BTreeMap<u64, Option<Known>>,
    tally: Tally,
}

impl Model {
    fn settle(&mut self, object: u64, next: Option<Known>) {
        match next {
            Some(known) => drop(self.objects.insert(object, known)),
            None => drop(self.objects.remove(&object)),
        }
    }

    /// Opens the cluster and compares all objects.
    fn verify(&mut self, dir: &Path) {
        let cluster = open(dir, Options::default()).unwrap();
        let target = cluster.info().unwrap().targets[0].id;
        let objects = cluster.objects();
        let (listed, next) = objects.list(target, VOLUME, 1, Some(9)).unwrap();
        assert_eq!(next, None);
        let mut found = BTreeMap::new();
        let mut used = 0;
        for info in listed {
            let bytes = objects.read_at(At { target, id: info.id }, 0, u64::MAX).unwrap();
            assert_eq!(bytes.len() as u64, info.head.size, "{}: its size", info.id);
            used += info.head.used.0;
            let attribute = info.attributes.into_iter().next().map(|(_, value)| value);
            found.insert(info.id.object, Known { bytes, attribute });
        }
        let volume = objects.stat(At { target, id: ObjectId::volume(VOLUME) }, None).unwrap().head.volume.unwrap();
        assert_eq!((volume.objects, volume.used.0), (found.len() as u64, used), "what the volume holds");
        for (object, next) in std::mem::take(&mut self.under_way) {
            if found.get(&object) == next.as_ref() {
                self.settle(object, next);
                self.tally.there += 1;
            } else {
                self.tally.absent += 1;
            }
        }
        for (object, known) in &self.objects {
            let read = found.get(object).unwrap_or_else(|| panic!("object {object} is gone"));
            let first = read.bytes.iter().zip(&known.bytes).position(|(read, known)| read != known);
            let sizes = (read.bytes.len(), known.bytes.len());
            assert!(read == known, "object {object} differs: sizes {sizes:?}, the first byte {first:?}");
            self.tally.compared += read.bytes.len() as u64;
        }
        assert_eq!(found.len(), self.objects.len(), "an object is there that was removed");
        cluster.close().unwrap();
    }
}

/// A process, and what it was asked.
struct Life {
    child: Child,
    input: ChildStdin,
    said: Receiver<String>,
    listening: Option<std::thread::JoinHandle<()>>,
    waiting: BTreeMap<u64, Ask>,
}

impl Life {
    fn begin(dir: &Path) -> Life {
        let mut child = itself("obey_until_killed").env(DIRECTORY, dir).stdin(Stdio::piped()).spawn().unwrap();
        let (tell, heard) = channel();
        let listening = said(child.stdout.take().unwrap(), move |line| drop(tell.send(line.to_owned())));
        let input = child.stdin.take().unwrap();
        Life { child, input, said: heard, listening: Some(listening), waiting: BTreeMap::new() }
    }

    fn wait_for(&self, what: &str) {
        let said = self.said.recv_timeout(Duration::from_secs(120)).unwrap();
        assert_eq!(said, what);
    }

    /// Asks for users that wait for nothing.
    fn ask(&mut self, dice: &mut Dice, model: &mut Model) {
        for user in 0..USERS {
            // Of an object that was left with something under way nobody knows what it is before somebody looks.
            let own = 1 + user * OBJECTS..1 + (user + 1) * OBJECTS;
            let free: Vec<u64> = own.filter(|object| !model.under_way.contains_key(object)).collect();
            if self.waiting.contains_key(&user) || free.is_empty() {
                continue;
            }
            let object = free[dice.below(free.len() as u64) as usize];
            let ask = draw(dice, object, model.objects.get(&object));
            self.tell(user, ask, model);
        }
    }

    /// Asks for a user.
    fn tell(&mut self, user: u64, ask: Ask, model: &mut Model) {
        let ([a, b, c], object) = (ask.numbers, ask.object);
        // A process that is gone hears nothing; that it is under way is all that is known then.
        let _ = writeln!(self.input, "{user} {} {object} {a} {b} {c}", ask.what);
        model.under_way.insert(object, after(&ask, model.objects.get(&object)));
        self.waiting.insert(user, ask);
    }

    /// What it said.
    fn hear(&mut self, model: &mut Model, line: &str) {
        assert!(!line.starts_with("failed"), "{line}");
        let words: Vec<&str> = line.split(' ').collect();
        let [how, user, found] = words[..] else { return };
        let ask = self.waiting.remove(&user.parse().unwrap()).unwrap();
        if how == "doubt" {
            assert_eq!(ask.what, "append", "everything else can be asked again");
            return;
        }
        let found: u64 = found.parse().unwrap();
        let next = model.under_way.remove(&ask.object).unwrap();
        let size = model.objects.get(&ask.object).map_or(0, |known| known.bytes.len());
        match ask.what {
            "append" => assert_eq!(found, size as u64, "where it was appended"),
            "read" => {
                let [from, to] = [ask.numbers[0], ask.numbers[0] + ask.numbers[1]].map(|at| (at as usize).min(size));
                assert_eq!(found, sum(&model.objects[&ask.object].bytes[from..to]), "{ask:?}");
                model.tally.compared += (to - from) as u64;
            }
            _ => {}
        }
        model.settle(ask.object, next);
        model.tally.commands += 1;
    }

    /// Goes on until `count` more are answered, and, if there is a point, until such a command is under way.
    fn run(&mut self, dice: &mut Dice, model: &mut Model, count: u64, point: Option<&str>) {
        for n in 0.. {
            self.ask(dice, model);
            let there = point.is_none_or(|point| self.waiting.values().any(|ask| ask.what == point));
            // Some points are rare by chance: one that does not come is left.
            if n >= count && (there || n > count + 400) || self.waiting.is_empty() {
                return;
            }
            let line = self.said.recv_timeout(Duration::from_secs(120)).expect("it answers");
            self.hear(model, &line);
        }
    }

    /// Kills it, and takes in what it said before.
    fn kill(mut self, model: &mut Model) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.listening.take().unwrap().join().unwrap();
        while let Ok(line) = self.said.try_recv() {
            self.hear(model, &line);
        }
        model.tally.kills += 1;
    }

    /// Has it close, which it does when everything is done.
    fn close(mut self, model: &mut Model) {
        drop(std::mem::replace(&mut self.input, other_input()));
        loop {
            let line = self.said.recv_timeout(Duration::from_secs(120)).expect("it closes");
            if line == "closed" {
                break;
            }
            self.hear(model, &line);
        }
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // Where a test fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The input of a program that ends at once.
fn other_input() -> ChildStdin {
    let mut child = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
    let input = child.stdin.take().unwrap();
    child.wait().unwrap();
    input
}

#[test]
fn killed_at_any_moment_objects_have_everything_that_was_acknowledged() {
    let mut total = Tally::default();
    let total = std::cell::RefCell::new(&mut total);
    seeds::each(2, |seed| {
        let place = Place::formatted("512MiB");
        let dir = place.cluster();
        let mut dice = Dice(seed ^ 0x0b1e_c700);
        let cluster = open(&dir, Options::default()).unwrap();
        let target = cluster.info().unwrap().targets[0].id;
        cluster.objects().create_volume(target, VOLUME, Quota::default()).unwrap();
        cluster.close().unwrap();
        let mut model = Model::default();
        for n in 0..POINTS.len() * 2 {
            let point = POINTS[n % POINTS.len()];
            let mut life = Life::begin(&dir);
            life.wait_for("opening");
            if point == "opening" {
                pass(dice.moment());
                life.kill(&mut model);
                continue;
            }
            life.wait_for("open");
            // In some lives another process is a guest, and goes on when its owner is killed.
            if n % 4 == 3 {
                let mut guest = Life::begin(&dir);
                guest.wait_for("opening");
                guest.wait_for("open");
                let count = dice.below(40);
                guest.run(&mut dice, &mut model, count, Some(point).filter(|point| *point != "any"));
                pass(dice.moment());
                life.kill(&mut model);
                life = guest;
            }
            let count = dice.below(100);
            life.run(&mut dice, &mut model, count, Some(point).filter(|point| *point != "any"));
            if dice.below(8) == 0 {
                life.close(&mut model);
            } else {
                pass(dice.moment());
                life.kill(&mut model);
            }
            // Sometimes the next one finds what this one left.
            if dice.below(3) > 0 {
                model.verify(&dir);
            }
        }
        model.verify(&dir);
        assert_eq!(place.ok(&["check"]).lines().last(), Some("Sound."));
        let Tally { commands, kills, there, absent, compared } = model.tally;
        let mut total = total.borrow_mut();
        total.commands += commands;
        total.kills += kills;
        total.there += there;
        total.absent += absent;
        total.compared += compared;
    });
    let total = total.into_inner();
    println!("{total:?}");
    let enough = total.kills >= 30 && total.there > 5 && total.absent > 5 && total.commands > 800;
    assert!(seeds::is_replay() || enough && total.compared > 100 << 20, "{total:?}");
}

#[test]
fn of_writes_of_64_mebibytes_each_is_there_as_a_whole_or_not_at_all_whenever_the_process_is_killed() {
    let place = Place::formatted("512MiB");
    let dir = place.cluster();
    let mut dice = Dice(0x64);
    let mut model = Model::default();
    let cluster = open(&dir, Options::default()).unwrap();
    let target = cluster.info().unwrap().targets[0].id;
    cluster.objects().create_volume(target, VOLUME, Quota::default()).unwrap();
    cluster.close().unwrap();
    let objects = [1, 1 + OBJECTS];
    let mut life = Life::begin(&dir);
    for (user, object) in (0..).zip(objects) {
        life.tell(user, Ask { what: "create", object, numbers: [object, 0, 0] }, &mut model);
    }
    for round in 0..8 {
        while !life.waiting.is_empty() {
            let line = life.said.recv_timeout(Duration::from_secs(120)).expect("it answers");
            life.hear(&mut model, &line);
        }
        // Both at once, where blocks begin and where they do not.
        for (user, object) in (0..).zip(objects) {
            let numbers = [round % 2 * 100, MOST_AT_ONCE, dice.below(1 << 40)];
            life.tell(user, Ask { what: "write", object, numbers }, &mut model);
        }
        if round % 4 == 3 {
            let line = life.said.recv_timeout(Duration::from_secs(120)).expect("it answers");
            life.hear(&mut model, &line);
        }
        pass(dice.moment() * 8);
        life.kill(&mut model);
        model.verify(&dir);
        life = Life::begin(&dir);
    }
    drop(life);
    assert_eq!(place.ok(&["check"]).lines().last(), Some("Sound."));
    let Tally { kills, absent, commands, .. } = model.tally;
    assert!(kills == 8 && absent > 0 && commands > 2, "{:?}", model.tally);
}

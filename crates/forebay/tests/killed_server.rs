//! A server of files that is killed while it opens, while it is asked for something, when it has answered, and while it ends.

// A test drives the real program through real files and sockets.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::served::Served;
use common::{Dice, Place, pass, signal};
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, Output};
use std::time::{Duration, Instant};

/// Where it is killed, each time a moment later than what is named.
const POINTS: [&str; 9] = ["opening", "ready", "putting", "put", "moving", "moved", "removing", "removed", "stopping"];
/// How often at each.
const ROUNDS: u64 = 2;

/// What was asked for and not answered.
enum Doubt {
    Put(String, u64),
    Moved(String, String),
    Removed(String),
}

/// What has to be there, by its path the number of its content; what must not; and what may be.
#[derive(Default)]
struct Known {
    there: BTreeMap<String, u64>,
    gone: BTreeSet<String>,
    doubt: Option<Doubt>,
    next: u64,
}

fn content(number: u64) -> Vec<u8> {
    let mut dice = Dice(number);
    let length = dice.below(1 << 20) as usize;
    dice.bytes(length)
}

/// Up to 60 ms, in which a command begins and ends, or is in the middle of it.
fn moment(dice: &mut Dice) -> Duration {
    dice.moment() + Duration::from_micros(dice.below(30_000))
}

/// The content of a file, if it is there.
fn got(served: &Served, place: &Place, path: &str) -> Option<Vec<u8>> {
    let output = served.run(place, &["get", path, "-"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || said.contains("there is no"), "{path}: {said}");
    output.status.success().then_some(output.stdout)
}

impl Known {
    /// Compares, and takes note of what came of what was in doubt.
    fn check(&mut self, served: &Served, place: &Place) {
        match self.doubt.take() {
            None => {}
            Some(Doubt::Put(path, number)) => {
                if let Some(bytes) = got(served, place, &path) {
                    assert!(bytes == content(number), "{path} is there in part");
                    self.there.insert(path, number);
                }
            }
            Some(Doubt::Moved(from, to)) => {
                let number = self.there.remove(&from).unwrap();
                let is_moved = got(served, place, &to).is_some();
                let (here, not) = if is_moved { (to, from) } else { (from, to) };
                self.there.insert(here, number);
                self.gone.insert(not);
            }
            Some(Doubt::Removed(path)) if got(served, place, &path).is_none() => {
                self.there.remove(&path);
                self.gone.insert(path);
            }
            Some(Doubt::Removed(_)) => {}
        }
        for (path, number) in &self.there {
            assert!(got(served, place, path).is_some_and(|bytes| bytes == content(*number)), "{path}");
        }
        for path in &self.gone {
            assert!(got(served, place, path).is_none(), "{path}");
        }
    }

    /// Asks for what belongs to a point, and has the server killed while that is under way or when it is done.
    fn ask(&mut self, point: &str, served: &Served, place: &Place, dice: &mut Dice) {
        self.next += 1;
        let number = self.next;
        let (args, doubt) = match point {
            "putting" | "put" => {
                std::fs::write(place.path("in"), content(number)).unwrap();
                let path = format!("/f.{number}");
                (vec!["put".to_string(), "in".to_string(), path.clone()], Doubt::Put(path, number))
            }
            "moving" | "moved" => {
                let (from, to) = (self.there.keys().next_back().unwrap().clone(), format!("/moved.{number}"));
                (vec!["mv".to_string(), from.clone(), to.clone()], Doubt::Moved(from, to))
            }
            _ => {
                let path = self.there.keys().next_back().unwrap().clone();
                (vec!["rm".to_string(), path.clone()], Doubt::Removed(path))
            }
        };
        let args: Vec<&str> = args.iter().map(String::as_str).chain(["--wait", "1s"]).collect();
        let asking = served.command(place, &args).spawn().unwrap();
        let output = if point.ends_with("ing") {
            pass(moment(dice));
            signal(&served.child, "KILL");
            asking.wait_with_output().unwrap()
        } else {
            let output = asking.wait_with_output().unwrap();
            assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
            pass(dice.moment());
            output
        };
        self.heed(&output, doubt);
    }

    /// What was answered is no doubt.
    fn heed(&mut self, output: &Output, doubt: Doubt) {
        if !output.status.success() {
            self.doubt = Some(doubt);
            return;
        }
        match doubt {
            Doubt::Put(path, number) => drop(self.there.insert(path, number)),
            Doubt::Moved(from, to) => {
                let number = self.there.remove(&from).unwrap();
                self.there.insert(to, number);
                self.gone.insert(from);
            }
            Doubt::Removed(path) => {
                self.there.remove(&path);
                self.gone.insert(path);
            }
        }
    }
}

/// A server that begins, and is not waited for.
fn opening(place: &Place) -> Child {
    place.start(&["serve", &place.cluster().display().to_string(), "--json", "--listen", "127.0.0.1:0"])
}

#[test]
fn outcome_21_a_server_that_is_killed_at_each_of_nine_points_has_all_that_it_answered_when_it_is_started_again() {
    let (place, mut dice, mut known) = (Place::new(), Dice(21), Known::default());
    let (mut longest, mut doubts) = (Duration::ZERO, 0);
    // Something to move and to remove from the beginning.
    let served = Served::start(&place);
    (0..2).for_each(|_| known.ask("put", &served, &place, &mut dice));
    served.kill();
    for (round, point) in (0..ROUNDS).flat_map(|round| POINTS.map(|point| (round, point))) {
        if point == "opening" {
            let mut child = opening(&place);
            pass(6 * moment(&mut dice));
            child.kill().unwrap();
            child.wait().unwrap();
            continue;
        }
        let begun = Instant::now();
        let served = Served::start(&place);
        longest = longest.max(begun.elapsed());
        known.check(&served, &place);
        match point {
            "ready" => pass(dice.moment()),
            "stopping" => {
                signal(&served.child, "TERM");
                pass(moment(&mut dice));
            }
            point => known.ask(point, &served, &place, &mut dice),
        }
        doubts += u64::from(known.doubt.is_some());
        println!("round {round}: killed at {point}");
        served.kill();
    }
    let served = Served::start(&place);
    known.check(&served, &place);
    served.stop();
    println!("{doubts} commands were cut off, and it was ready within {longest:?}");
    assert!(known.there.len() > 1 && known.gone.len() > 2, "{:?} and {:?}", known.there, known.gone);
}

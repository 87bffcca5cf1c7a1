//! What a cluster was asked for beside kills, and what it answered: all of that has to be there, and of the rest all or nothing.

use super::served::Served;
use super::{Dice, Place, pass, signal};
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, Output};
use std::time::Duration;

/// What was asked for and not answered.
enum Doubt {
    Put(String, u64),
    Moved(String, String),
    Removed(String),
}

/// What has to be there, by its path the number of its content; what must not; and what may be.
#[derive(Default)]
pub struct Known {
    pub there: BTreeMap<String, u64>,
    pub gone: BTreeSet<String>,
    /// With what more a command reads, as for how long it waits for who is dead.
    pub reading: &'static [&'static str],
    doubt: Option<Doubt>,
    next: u64,
}

fn content(number: u64) -> Vec<u8> {
    let mut dice = Dice(number);
    let length = dice.below(1 << 20) as usize;
    dice.bytes(length)
}

/// Up to 60 ms, in which a command begins and ends, or is in the middle of it.
pub fn moment(dice: &mut Dice) -> Duration {
    dice.moment() + Duration::from_micros(dice.below(30_000))
}

impl Known {
    /// The content of a file, if it is there.
    fn got(&self, served: &Served, place: &Place, path: &str) -> Option<Vec<u8>> {
        let output = served.run(place, &[&["get", path, "-"], self.reading].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() || said.contains("there is no"), "{path}: {said}");
        output.status.success().then_some(output.stdout)
    }

    /// Compares, and takes note of what came of what was in doubt.
    pub fn check(&mut self, served: &Served, place: &Place) {
        match self.doubt.take() {
            None => {}
            Some(Doubt::Put(path, number)) => {
                if let Some(bytes) = self.got(served, place, &path) {
                    assert!(bytes == content(number), "{path} is there in part");
                    self.there.insert(path, number);
                }
            }
            Some(Doubt::Moved(from, to)) => {
                let number = self.there.remove(&from).unwrap();
                let is_moved = self.got(served, place, &to).is_some();
                let (here, not) = if is_moved { (to, from) } else { (from, to) };
                self.there.insert(here, number);
                self.gone.insert(not);
            }
            Some(Doubt::Removed(path)) if self.got(served, place, &path).is_none() => {
                self.there.remove(&path);
                self.gone.insert(path);
            }
            Some(Doubt::Removed(_)) => {}
        }
        for (path, number) in &self.there {
            assert!(self.got(served, place, path).is_some_and(|bytes| bytes == content(*number)), "{path}");
        }
        for path in &self.gone {
            assert!(self.got(served, place, path).is_none(), "{path}");
        }
    }

    /// Whether something was asked for of which it is not known what came of it.
    pub fn is_in_doubt(&self) -> bool {
        self.doubt.is_some()
    }

    /// Asks for what belongs to a point, and kills a process while that is under way, or takes it to be killed when it is done.
    pub fn ask(&mut self, point: &str, served: &Served, place: &Place, dice: &mut Dice, killed: &Child) {
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
            signal(killed, "KILL");
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

//! A server of files that is killed while it opens, while it is asked for something, when it has answered, and while it ends.

// A test drives the real program through real files and sockets.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::known::{Known, moment};
use common::served::Served;
use common::{Dice, Place, pass, signal};
use std::process::Child;
use std::time::{Duration, Instant};

/// Where it is killed, each time a moment later than what is named.
const POINTS: [&str; 9] = ["opening", "ready", "putting", "put", "moving", "moved", "removing", "removed", "stopping"];
/// How often at each.
const ROUNDS: u64 = 2;

/// A server that begins, and is not waited for.
fn opening(place: &Place) -> Child {
    place.start(&["serve", &place.cluster().display().to_string(), "--json", "--listen", "127.0.0.1:0"])
}

#[test]
fn outcome_21_a_server_that_is_killed_at_each_of_nine_points_has_all_that_it_answered_when_it_is_started_again() {
    let (place, mut dice, mut known) = (Place::new(), Dice(21), Known::default());
    let (mut longest, mut doubts) = (Duration::ZERO, 0);
    // Something to move and to remove from the beginning: as much as is removed if each command that is cut off was done.
    let served = Served::start(&place);
    (0..2 * ROUNDS).for_each(|_| known.ask("put", &served, &place, &mut dice, &served.child));
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
            point => known.ask(point, &served, &place, &mut dice, &served.child),
        }
        doubts += u64::from(known.is_in_doubt());
        println!("round {round}: killed at {point}");
        served.kill();
    }
    let served = Served::start(&place);
    known.check(&served, &place);
    served.stop();
    println!("{doubts} commands were cut off, and it was ready within {longest:?}");
    assert!(known.there.len() > 1 && known.gone.len() > 2, "{:?} and {:?}", known.there, known.gone);
}

//! How fast names are made and found, with redb on a file of the machine's temporary directory. Measures, so it is run by
//! itself: `cargo test --release -p forebay-manager -- --ignored --nocapture how_fast`.

use crate::copies::Copies;
use crate::copies::tests::{OnShelf, Shelf, done};
use crate::engine::Redb;
use crate::manager::{Asked, Manager, Now, Settings};
use crate::principal::Principal;
use crate::seeds::Chance;
use crate::testing::{CLUSTER, NODES, Still, create, report, root, user};
use forebay_env::real::clock;
use forebay_env::real::file::{self, File};
use forebay_model::{Bytes, Timestamp};
use forebay_wire::control::cluster::AddNode;
use forebay_wire::control::names::{List, MakeDirectory, Place, Stat};
use forebay_wire::control::volumes::Policy;
use forebay_wire::control::{Call, Change, Question, Reply};
use std::path::Path;
use std::rc::Rc;

/// Callers whose changes are in one batch.
const CALLERS: u64 = 64;

fn now() -> Now {
    Now { wall: clock::wall(), moment: clock::now() }
}

fn manager(mut engine: Redb) -> Manager {
    let random = Rc::new(Chance::of(1));
    Manager::create(&mut engine, CLUSTER, Policy::default(), Timestamp(1), &*random).unwrap();
    let mut manager = Manager::open(Box::new(engine), random, Settings::default()).unwrap();
    for node in 1..=NODES {
        let change = Change::AddNode(AddNode { node, user: 0 });
        let asked = Asked { by: root(), call: Call { sequence: node, change } };
        manager.apply(now(), &[asked]).remove(0).unwrap();
        manager.report(now(), &root(), &report(node)).unwrap();
    }
    for (sequence, path) in [(10, "home"), (11, "home/user"), (12, "home/user/many")] {
        let change = Change::MakeDirectory(MakeDirectory { place: Place::path(path), mode: 0o777 });
        manager.apply(now(), &[Asked { by: root(), call: Call { sequence, change } }]).remove(0).unwrap();
    }
    manager
}

/// Makes files of these numbers, and says how many a second.
fn make(manager: &mut Manager, numbers: std::ops::Range<u64>) -> u64 {
    make_and(manager, numbers, |_| {})
}

/// The same, with something that is done before each batch is answered.
fn make_and(manager: &mut Manager, numbers: std::ops::Range<u64>, mut before_answers: impl FnMut(&mut Manager)) -> u64 {
    let (count, begun) = (numbers.end - numbers.start, clock::now());
    for first in numbers.step_by(CALLERS as usize) {
        let one = |caller: u64| {
            let number = first + caller;
            // Names by chance: neighbours in time are none in the tree.
            let name = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let by = Principal { client: 1000 + caller, ..user(5) };
            Asked { by, call: Call { sequence: number, change: create(&format!("home/user/many/{name:016x}"), 0o644) } }
        };
        let calls: Vec<Asked> = (0..CALLERS).map(one).collect();
        let answers = manager.apply(now(), &calls);
        before_answers(manager);
        answers.into_iter().for_each(|answer| drop(answer.unwrap()));
    }
    per_second(count, begun)
}

fn per_second(count: u64, begun: forebay_model::Moment) -> u64 {
    (count as f64 / clock::now().since(begun).as_secs_f64()) as u64
}

fn stat(manager: &mut Manager, places: &[Place]) -> u64 {
    let (by, begun) = (user(5), clock::now());
    for place in places {
        manager.ask(now(), &by, &Question::Stat(Stat { place: place.clone() })).unwrap();
    }
    per_second(places.len() as u64, begun)
}

fn list_all(manager: &mut Manager, attributes: bool) -> (u64, u64) {
    let (mut after, mut count, begun) = (String::new(), 0, clock::now());
    loop {
        let list = List { place: Place::path("home/user/many"), after, most: 4096, attributes };
        let Reply::Page(page) = manager.ask(now(), &user(5), &Question::List(list)).unwrap() else { panic!("no page") };
        count += page.entries.len() as u64;
        if !page.more {
            return (count, per_second(count, begun));
        }
        after = page.entries.last().unwrap().name.clone();
    }
}

/// Milliseconds until a manager has its metadata and answers.
fn opening(path: &Path) -> u128 {
    let begun = clock::now();
    let engine = Redb::open(path, Bytes::gib(1)).unwrap();
    let mut manager = Manager::open(Box::new(engine), Rc::new(Chance::of(2)), Settings::default()).unwrap();
    manager.ask(now(), &root(), &Question::Stat(Stat { place: Place::path("home/user/many") })).unwrap();
    clock::now().since(begun).as_millis()
}

#[test]
#[ignore = "measures: minutes, and figures of the machine"]
fn how_fast_names_are_made_found_and_listed_in_a_directory_of_a_million() {
    const MANY: u64 = 1_000_000 / CALLERS * CALLERS;
    const TENTH: u64 = MANY / 10 / CALLERS * CALLERS;
    let directory = tempfile::tempdir().unwrap();
    let mut manager = manager(Redb::open(&directory.path().join("metadata"), Bytes::gib(1)).unwrap());
    let first = make(&mut manager, 0..TENTH);
    println!("{TENTH} files made, {first} a second, {CALLERS} in a batch");
    let middle = make(&mut manager, TENTH..MANY - TENTH);
    let last = make(&mut manager, MANY - TENTH..MANY);
    println!("up to {MANY}: {middle} a second on the way, {last} a second of the last {TENTH}");
    let name = |number: u64| format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let chance = Chance::of(3);
    let paths: Vec<Place> =
        (0..200_000).map(|_| Place::path(format!("home/user/many/{}", name(chance.below(MANY))))).collect();
    println!("{} stats a second by path, with four names", stat(&mut manager, &paths));
    println!("{} stats a second by path, the second time", stat(&mut manager, &paths));
    let Reply::Entry(many) =
        manager.ask(now(), &root(), &Question::Stat(Stat { place: Place::path("home/user/many") })).unwrap()
    else {
        panic!("no entry")
    };
    let entries: Vec<Place> = (0..200_000).map(|_| Place::entry(many.file, name(chance.below(MANY)))).collect();
    println!("{} stats a second by directory and name", stat(&mut manager, &entries));
    let (count, rate) = list_all(&mut manager, false);
    assert_eq!(count, MANY);
    println!("{count} entries listed, {rate} a second");
    let (_, rate) = list_all(&mut manager, true);
    println!("{rate} a second with attributes");
    println!("the file has {}", File::open(directory.path().join("metadata")).unwrap().size().unwrap());
    // What is there when the process is killed: all that was committed, and a file that nobody closed.
    let killed = file::read(directory.path().join("metadata")).unwrap();
    file::replace(directory.path().join("killed"), &killed).unwrap();
    drop(killed);
    println!("opened in {} ms after the process was killed", opening(&directory.path().join("killed")));
    drop(manager);
    println!("opened in {} ms after it was closed", opening(&directory.path().join("metadata")));
}

#[test]
#[ignore = "measures: figures of the machine"]
fn how_fast_names_are_made_and_found_where_no_device_is_waited_for() {
    const MANY: u64 = 200_000 / CALLERS * CALLERS;
    let mut manager = manager(Redb::on(redb::backends::InMemoryBackend::new(), Bytes::gib(1)).unwrap());
    println!("{} files made a second, {CALLERS} in a batch", make(&mut manager, 0..MANY));
    let shelf = Shelf::with(3);
    let mut copies = Copies::new(Rc::new(OnShelf(shelf.clone())), Rc::new(Still(now())));
    let copied = make_and(&mut manager, MANY..2 * MANY, |manager| done(copies.keep(manager)).unwrap());
    println!("{copied} a second, with copies of them on three targets, and beside that of {MANY} that were there");
    let name = |number: u64| format!("home/user/many/{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let places: Vec<Place> = (0..MANY).map(|number| Place::path(name(number))).collect();
    println!("{} stats a second by path, with four names", stat(&mut manager, &places));
}

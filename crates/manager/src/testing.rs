//! A small cluster for tests: five nodes with two targets each, and time that tests move.

use crate::engine::{Engine, MOST_OPERATIONS, Memory, Transaction, Write};
use crate::manager::{Asked, Manager, Now, Settings};
use crate::principal::Principal;
use crate::seeds::Chance;
use forebay_env::Clock;
use forebay_model::{Bytes, Moment, Result, TargetId, Timestamp};
use forebay_wire::control::cluster::{AddNode, Report, Reported, TargetReport};
use forebay_wire::control::files::Close;
use forebay_wire::control::names::{CreateFile, Entry, FileId, MakeDirectory, Place, SetAttributes, Stat};
use forebay_wire::control::volumes::Policy;
use forebay_wire::control::{Call, Change, Question, Reply};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

pub(crate) const CLUSTER: u128 = 0xc1;
pub(crate) const NODES: u64 = 5;

/// A manager on an engine in memory.
pub(crate) struct Stage {
    pub(crate) engine: Memory,
    pub(crate) manager: Manager,
    pub(crate) now: Now,
    pub(crate) sequence: u64,
    /// Reports so far, each of which is another one.
    reports: i64,
    random: Rc<Chance>,
}

pub(crate) fn root() -> Principal {
    Principal::root(1)
}

/// A user in a group of its own number and in group 50.
pub(crate) fn user(number: u32) -> Principal {
    Principal { user: number, groups: vec![number, 50], client: 100 + u64::from(number), key: None }
}

/// The targets of a node.
pub(crate) fn targets_of(node: u64) -> [TargetId; 2] {
    [TargetId(u128::from(node) * 2), TargetId(u128::from(node) * 2 + 1)]
}

/// A target that is well and half empty.
pub(crate) fn healthy(target: TargetId) -> TargetReport {
    TargetReport {
        target,
        cluster: CLUSTER,
        openings: 1,
        size: Bytes::gib(100),
        free: Bytes::gib(50),
        load: 10,
        epoch: 0,
        key: 0,
        carried_out: vec![],
        failed: None,
        slow: false,
        anew: vec![],
        recorded: None,
    }
}

pub(crate) fn report(node: u64) -> Report {
    let wall = Stage::WALL;
    Report { node, address: format!("node{node}:7000"), targets: targets_of(node).map(healthy).to_vec(), wall }
}

impl Stage {
    /// When it begins.
    const WALL: Timestamp = Timestamp(1_800_000_000_000_000_000);

    /// Without nodes.
    pub(crate) fn empty() -> Stage {
        let random = Rc::new(Chance::of(7));
        let mut engine = Memory::new();
        let now = Now { wall: Stage::WALL, moment: Moment(1) };
        Manager::create(&mut engine, CLUSTER, Policy::default(), now.wall, &*random).unwrap();
        let manager = Manager::open(Box::new(engine.clone()), random.clone(), Settings::default()).unwrap();
        Stage { engine, manager, now, sequence: 0, reports: 0, random }
    }

    /// With nodes that have reported.
    pub(crate) fn new() -> Stage {
        let mut stage = Stage::empty();
        for node in 1..=NODES {
            stage.root(Change::AddNode(AddNode { node, user: 0 })).unwrap();
            stage.report(&report(node)).unwrap();
        }
        stage
    }

    /// A report as of now, unless it says when it is of.
    pub(crate) fn report(&mut self, report: &Report) -> Result<Reported> {
        self.reports += 1;
        let wall = if report.wall == Stage::WALL { Timestamp(Stage::WALL.0 + self.reports) } else { report.wall };
        self.manager.report(self.now, &root(), &Report { wall, ..report.clone() })
    }

    /// Another manager, as after a crash.
    pub(crate) fn restart(&mut self) {
        self.engine = self.engine.reopened();
        let engine = Box::new(self.engine.clone());
        self.manager = Manager::open(engine, self.random.clone(), Settings::default()).unwrap();
    }

    /// Writes past the manager, which sees it behind the commit that is made here.
    pub(crate) fn put_raw(&mut self, pairs: impl IntoIterator<Item = (Vec<u8>, Option<Vec<u8>>)>) {
        let writes: Vec<Write> = pairs.into_iter().map(|(key, value)| Write { key, value }).collect();
        for writes in writes.chunks(MOST_OPERATIONS) {
            self.engine.commit(&[Transaction { conditions: vec![], writes: writes.to_vec() }]).unwrap();
        }
        self.root(create("seen", 0o644)).unwrap();
    }

    pub(crate) fn pass(&mut self, span: Duration) {
        self.now = Now { wall: self.now.wall.after(span), moment: self.now.moment + span };
    }

    /// A change under a number that nobody had.
    pub(crate) fn change(&mut self, by: &Principal, change: Change) -> Result<Reply> {
        self.sequence += 1;
        self.change_as(by, self.sequence, change)
    }

    pub(crate) fn change_as(&mut self, by: &Principal, sequence: u64, change: Change) -> Result<Reply> {
        let asked = Asked { by: by.clone(), call: Call { sequence, change } };
        self.manager.apply(self.now, &[asked]).remove(0)
    }

    pub(crate) fn root(&mut self, change: Change) -> Result<Reply> {
        self.change(&root(), change)
    }

    pub(crate) fn ask(&mut self, by: &Principal, question: &Question) -> Result<Reply> {
        self.manager.ask(self.now, by, question)
    }

    pub(crate) fn stat(&mut self, by: &Principal, place: Place) -> Result<Entry> {
        match self.ask(by, &Question::Stat(Stat { place }))? {
            Reply::Entry(entry) => Ok(entry),
            other => panic!("{other:?} is no answer to stat"),
        }
    }

    pub(crate) fn directory(&mut self, by: &Principal, path: &str, mode: u32) -> Result<FileId> {
        let change = Change::MakeDirectory(MakeDirectory { place: Place::path(path), mode });
        self.change(by, change).map(entry).map(|entry| entry.file)
    }

    pub(crate) fn file(&mut self, by: &Principal, path: &str, mode: u32) -> Result<FileId> {
        self.change(by, create(path, mode)).map(entry).map(|entry| entry.file)
    }
}

/// Makes a file that is not there yet.
pub(crate) fn create(path: &str, mode: u32) -> Change {
    Change::CreateFile(CreateFile {
        place: Place::path(path),
        mode,
        exclusive: true,
        policy: None,
        open: false,
        alone: false,
        cached: false,
    })
}

/// To be filled in with what is to change.
pub(crate) fn unchanged(place: Place) -> SetAttributes {
    SetAttributes { place, mode: None, owner: None, group: None, size: None, modified: None, accessed: None }
}

pub(crate) fn entry(reply: Reply) -> Entry {
    match reply {
        Reply::Entry(entry) => entry,
        other => panic!("{other:?} is no entry"),
    }
}

/// A clock that stands still, before which nobody gives up.
pub(crate) struct Still(pub(crate) Now);

impl Clock for Still {
    fn now(&self) -> Moment {
        self.0.moment
    }

    fn wall(&self) -> Timestamp {
        self.0.wall
    }

    fn sleep_until(&self, _: Moment) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(std::future::pending())
    }
}

/// Nothing is said of a file that is closed; to be filled in with what is.
pub(crate) fn close(file: FileId) -> Close {
    Close { file, size: None, modified: None, upkeep: false, unfinished: false, cuts: None }
}

use super::{Manager, Settings};
use crate::engine::{Engine, Memory};
use crate::seeds::Chance;
use crate::testing::{CLUSTER, Stage, create, entry, root};
use forebay_model::{Kind, Timestamp};
use forebay_wire::control::names::Place;
use forebay_wire::control::volumes::Policy;
use forebay_wire::control::{Call, Question, Reply};
use std::rc::Rc;
use std::time::Duration;

fn open(engine: &Memory) -> forebay_model::Result<Manager> {
    Manager::open(Box::new(engine.clone()), Rc::new(Chance::of(2)), Settings::default())
}

#[test]
fn a_cluster_is_made_once_and_only_what_was_made_is_opened() {
    let mut engine = Memory::new();
    assert_eq!(open(&engine).err().unwrap().kind, Kind::Missing);
    let chance = Chance::of(1);
    let mut make = || Manager::create(&mut engine, CLUSTER, Policy::default(), Timestamp(1), &chance);
    let key = make().unwrap();
    assert_eq!(key.secret.0.len(), 32);
    assert!(!format!("{key:?}").contains(&format!("{:?}", key.secret.0)));
    assert_eq!(make().unwrap_err().kind, Kind::Exists);
    let mut manager = open(&engine).unwrap();
    let now = Stage::empty().now;
    let Reply::Map(map) = manager.ask(now, &root(), &Question::Map).unwrap() else { panic!("no map") };
    assert_eq!((map.cluster, map.epoch, map.least_epoch), (CLUSTER, 1, 1));
    let policy = Policy { targets: 2, ..Policy::default() };
    let error = Manager::create(&mut Memory::new(), CLUSTER, policy, Timestamp(1), &chance).unwrap_err();
    assert_eq!(error.kind, Kind::Usage);
    let long = Settings { life: Duration::from_secs(301), ..Settings::default() };
    let error = Manager::open(Box::new(engine), Rc::new(Chance::of(2)), long).err().unwrap();
    assert_eq!(error.kind, Kind::Usage);
}

#[test]
fn a_manager_that_was_replaced_changes_nothing_any_more() {
    let mut stage = Stage::new();
    stage.file(&root(), "a", 0o644).unwrap();
    let mut next = open(&stage.engine).unwrap();
    let error = stage.file(&root(), "b", 0o644).unwrap_err();
    assert_eq!(error.kind, Kind::Disconnected);
    assert!(!stage.manager.is_open());
    assert_eq!(stage.stat(&root(), Place::path("a")).unwrap_err().kind, Kind::Disconnected);
    let asked = super::Asked { by: root(), call: Call { sequence: 999, change: create("b", 0o644) } };
    let made = entry(next.apply(stage.now, &[asked]).remove(0).unwrap());
    assert_eq!(made.file.0, 3, "the one that was replaced has taken no number");
}

#[test]
fn a_batch_is_one_commit_and_its_changes_see_one_another() {
    let mut stage = Stage::new();
    let commits = stage.engine.commits();
    let asked =
        |sequence, path: &str| super::Asked { by: root(), call: Call { sequence, change: create(path, 0o644) } };
    let mut calls: Vec<_> = (0..500).map(|number| asked(1000 + number, &format!("f{number}"))).collect();
    calls.push(asked(1500, "f0"));
    calls.push(asked(1000, "f0"));
    let answers = stage.manager.apply(stage.now, &calls);
    assert_eq!(stage.engine.commits(), commits + 1);
    assert_eq!(answers[500].as_ref().unwrap_err().kind, Kind::Exists);
    assert_eq!(answers[501], answers[0], "asked twice in one batch, it is done once");
    // What changes nothing costs nothing.
    assert_eq!(stage.manager.apply(stage.now, &calls), answers);
    stage.ask(&root(), &Question::Volumes).unwrap();
    assert_eq!(stage.engine.commits(), commits + 1);
    assert!(stage.engine.snapshot().is_ok());
}

#[test]
fn a_manager_that_could_not_commit_refuses_everything_until_another_is_opened() {
    let mut stage = Stage::new();
    stage.engine.crash_at(0, 0);
    // Nothing is final for whoever asked: it may have been done, and asks again.
    let error = stage.file(&root(), "a", 0o644).unwrap_err();
    assert_eq!(error.kind, Kind::Disconnected);
    assert!(error.message.contains("the engine in memory has crashed"), "{error}");
    assert_eq!(stage.file(&root(), "a", 0o644).unwrap_err().kind, Kind::Disconnected);
    assert_eq!(stage.manager.tick(stage.now).unwrap_err().kind, Kind::Disconnected);
    stage.restart();
    stage.file(&root(), "a", 0o644).unwrap();
}

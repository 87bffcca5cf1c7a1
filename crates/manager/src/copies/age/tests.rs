use super::super::Copies;
use super::super::tests::{Shelf, copies, done, said, there};
use crate::engine::{Engine, Memory};
use crate::keys;
use crate::manager::{Manager, Settings};
use crate::records::{Written, decode};
use crate::seeds::{self, Chance};
use crate::testing::{Stage, root};
use forebay_model::{Kind, TargetId};
use std::rc::Rc;
use std::time::Duration;

/// Makes a file, and copies that.
fn make(stage: &mut Stage, writing: &mut Copies, name: &str) {
    stage.file(&root(), name, 0o644).unwrap();
    done(writing.keep(&mut stage.manager)).unwrap();
}

/// Another manager on the engine, a second later, and its copies.
fn opened(stage: &mut Stage, engine: &Memory, shelf: &Rc<Shelf>) -> Copies {
    stage.engine = engine.reopened();
    stage.pass(Duration::from_secs(1));
    stage.restart();
    copies(shelf, stage.now)
}

/// A cluster whose copies are whole.
fn copied(targets: u128) -> (Stage, Rc<Shelf>, Copies) {
    let (mut stage, shelf) = (Stage::new(), Shelf::with(targets));
    let mut writing = copies(&shelf, stage.now);
    (0..20).for_each(|_| done(writing.tick(&mut stage.manager)).unwrap());
    make(&mut stage, &mut writing, "a");
    (stage, shelf, writing)
}

/// The manager refuses to go on, and copies have all that they had.
fn is_refused(stage: &mut Stage, shelf: &Rc<Shelf>, writing: &mut Copies, all: &[crate::engine::Pair]) {
    let refused = done(writing.tick(&mut stage.manager)).unwrap_err();
    assert_eq!(refused.kind, Kind::Stale);
    assert!(refused.message.contains("manager recover --over"), "{refused}");
    assert!(said(&shelf.best().unwrap()) == all, "what was answered is there still");
    // However often it is started again.
    let engine = Box::new(stage.engine.reopened());
    let again = Manager::open(engine, Rc::new(Chance::of(1)), Settings::default()).err().unwrap();
    assert_eq!(again.kind, Kind::Stale);
}

#[test]
fn an_engine_of_before_another_opening_is_refused_before_a_copy_is_removed_and_from_then_on() {
    let (mut stage, shelf, _) = copied(2);
    let backup = stage.engine.reopened();
    let engine = stage.engine.clone();
    let mut writing = opened(&mut stage, &engine, &shelf);
    make(&mut stage, &mut writing, "b");
    let all = there(&stage);
    let mut writing = opened(&mut stage, &backup, &shelf);
    is_refused(&mut stage, &shelf, &mut writing, &all);
}

#[test]
fn an_engine_as_it_was_while_the_same_manager_went_on_is_refused() {
    let (mut stage, shelf, mut writing) = copied(2);
    let backup = stage.engine.reopened();
    make(&mut stage, &mut writing, "b");
    let all = there(&stage);
    let mut writing = opened(&mut stage, &backup, &shelf);
    is_refused(&mut stage, &shelf, &mut writing, &all);
}

#[test]
fn an_engine_that_was_put_back_is_refused_also_if_it_was_used_and_started_before_its_copies_were_there() {
    let (mut stage, shelf, mut writing) = copied(2);
    let backup = stage.engine.reopened();
    make(&mut stage, &mut writing, "b");
    let all = there(&stage);
    let away = Shelf::with(0);
    let mut writing = opened(&mut stage, &backup, &away);
    make(&mut stage, &mut writing, "c");
    let engine = stage.engine.clone();
    let mut writing = opened(&mut stage, &engine, &away);
    make(&mut stage, &mut writing, "d");
    let engine = stage.engine.clone();
    let mut writing = opened(&mut stage, &engine, &shelf);
    is_refused(&mut stage, &shelf, &mut writing, &all);
}

#[test]
fn copies_that_come_back_later_and_are_newer_are_not_removed_and_end_the_manager_with_the_older_engine() {
    let (mut stage, shelf, mut writing) = copied(2);
    let backup = stage.engine.reopened();
    make(&mut stage, &mut writing, "b");
    let all = there(&stage);
    // What both have is away, and there is another target meanwhile.
    let away = shelf.again();
    shelf.lose(&[TargetId(1), TargetId(2)]);
    shelf.broken.borrow_mut().extend([TargetId(1), TargetId(2)]);
    shelf.put(TargetId(3));
    let mut writing = opened(&mut stage, &backup, &shelf);
    (0..20).for_each(|_| done(writing.tick(&mut stage.manager)).unwrap());
    shelf.broken.borrow_mut().clear();
    [1, 2].into_iter().for_each(|target| shelf.bring_back(TargetId(target), &away));
    stage.pass(Duration::from_secs(3600));
    let mut refused = None;
    for _ in 0..20 {
        stage.pass(Duration::from_secs(60));
        writing.clock = Rc::new(crate::testing::Still(stage.now));
        refused = done(writing.tick(&mut stage.manager)).err();
        if refused.is_some() {
            break;
        }
    }
    assert_eq!(refused.unwrap().kind, Kind::Stale);
    assert!([1, 2].iter().any(|target| said(&shelf.chain(TargetId(*target))) == all), "what was answered is there");
}

#[test]
fn whatever_a_manager_was_killed_in_its_engine_is_never_taken_for_an_older_one() {
    seeds::each(100, |chance| {
        let (mut stage, shelf, mut writing) = copied(1 + u128::from(chance.below(3)));
        for number in 0..60 {
            for more in 0..chance.below(4) {
                stage.file(&root(), &format!("f{number}-{more}"), 0o644).unwrap();
            }
            if chance.once_in(4) {
                // Some of what it writes is on some target, and it is killed.
                *shelf.left.borrow_mut() = Some(chance.below(2000) as usize);
            }
            let is_killed = shelf.left.borrow().is_some();
            let kept = if chance.once_in(2) {
                done(writing.keep(&mut stage.manager))
            } else {
                done(writing.tick(&mut stage.manager))
            };
            kept.unwrap();
            if is_killed || chance.once_in(6) {
                *shelf.left.borrow_mut() = None;
                let engine = stage.engine.clone();
                writing = opened(&mut stage, &engine, &shelf);
            }
        }
        done(writing.tick(&mut stage.manager)).unwrap();
    });
}

#[test]
fn how_far_copies_came_is_in_the_engine_before_the_first_object_and_with_each_commit() {
    let (mut stage, shelf, mut writing) = copied(1);
    let written = |stage: &Stage| -> Written {
        let value = stage.engine.snapshot().unwrap().get(keys::WRITTEN).unwrap().unwrap();
        decode(keys::WRITTEN, &value).unwrap()
    };
    let before = written(&stage);
    make(&mut stage, &mut writing, "b");
    let after = written(&stage);
    assert_eq!((after.term, after.object), (stage.manager.term, writing.object));
    assert!(after.batch > before.batch && after.at > before.at && after.at < writing.length);
    let engine = stage.engine.clone();
    let mut writing = opened(&mut stage, &engine, &shelf);
    *shelf.left.borrow_mut() = Some(0);
    done(writing.tick(&mut stage.manager)).unwrap();
    let begun = written(&stage);
    assert_eq!((begun.term, begun.object, begun.at), (stage.manager.term, 0, 0));
}

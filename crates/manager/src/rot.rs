//! What rots in the metadata is told of as damage, and is never taken for something else.

use crate::engine::{Engine, MOST_OPERATIONS, Memory, Redb, Transaction, Write};
use crate::manager::{Manager, Settings};
use crate::seeds::{Chance, each};
use crate::testing::{Stage, root, user};
use forebay_env::real::file;
use forebay_model::{Bytes, Error, Kind};
use forebay_wire::control::access::{IssueKey, User};
use forebay_wire::control::files::OpenToRead;
use forebay_wire::control::names::{FileId, List, Place, Stat};
use forebay_wire::control::{Change, Question, Reply};
use std::rc::Rc;

/// A cluster with some of everything that is asked for here.
fn full() -> Stage {
    let mut stage = Stage::new();
    stage.root(Change::SetUser(User { user: 5, name: "five".into(), groups: vec![5] })).unwrap();
    stage.root(Change::IssueKey(IssueKey { user: 5, label: "one".into() })).unwrap();
    stage.directory(&root(), "d", 0o777).unwrap();
    for n in 0..20 {
        stage.file(&user(5), &format!("d/f{n}"), 0o644).unwrap();
    }
    stage
}

/// What is asked of it.
fn questions() -> Vec<Question> {
    let list = |path: &str| {
        Question::List(List { place: Place::path(path), after: String::new(), most: 99, attributes: true })
    };
    let open = |n| Question::OpenToRead(OpenToRead { place: Place::of(FileId(n)), cached: false });
    let mut all: Vec<Question> = (1..24).map(|n| Question::Stat(Stat { place: Place::of(FileId(n)) })).collect();
    all.extend((1..24).map(open));
    all.extend((0..21).map(|n| Question::Stat(Stat { place: Place::path(format!("d/f{n}")) })));
    all.extend([list("/"), list("d"), Question::Volumes, Question::Users, Question::Map]);
    all
}

/// What whoever opens an engine is answered, without what differs from one time to the next: the capabilities themselves.
fn answers(engine: impl Engine + 'static, like: &Stage) -> forebay_model::Result<Vec<Result<String, Error>>> {
    let mut manager = Manager::open(Box::new(engine), Rc::new(Chance::of(3)), Settings::default())?;
    let answer = |question| match manager.ask(like.now, &root(), &question)? {
        Reply::Grant(grant) => {
            let components: Vec<_> = grant.components.iter().map(|it| (it.target, it.object)).collect();
            Ok(format!("{:?} {:?} {components:?}", grant.entry, grant.striping))
        }
        other => Ok(format!("{other:?}")),
    };
    Ok(questions().into_iter().map(answer).collect())
}

fn put(engine: &mut dyn Engine, key: &[u8], value: Vec<u8>) {
    let write = Write { key: key.to_vec(), value: Some(value) };
    engine.commit(&[Transaction { conditions: vec![], writes: vec![write] }]).unwrap();
}

#[test]
fn a_flipped_bit_of_a_stored_value_changes_no_answer_but_to_that_it_is_damaged() {
    let stage = full();
    let before = answers(stage.engine.reopened(), &stage).unwrap();
    let pairs = stage.engine.snapshot().unwrap().scan(&[], &[u8::MAX], usize::MAX).unwrap();
    each(300, |chance| {
        let mut engine: Memory = stage.engine.reopened();
        let (key, value) = &pairs[chance.below(pairs.len() as u64) as usize];
        let mut flipped = value.clone();
        // One bit, or a value that belongs elsewhere.
        match chance.once_in(8) {
            true => flipped = pairs[chance.below(pairs.len() as u64) as usize].1.clone(),
            false => flipped[chance.below(value.len() as u64) as usize] ^= 1 << chance.below(8),
        }
        let is_same = flipped == *value;
        put(&mut engine, key, flipped);
        let words = crate::keys::in_words(key);
        let is_damage = |error: &Error| error.kind == Kind::Damaged && error.message.contains(&words) && !is_same;
        match answers(engine, &stage) {
            Err(error) => assert!(is_damage(&error), "{words}: {error}"),
            Ok(answers) => {
                for ((was, is), question) in before.iter().zip(&answers).zip(questions()) {
                    let is_good = is == was || is.as_ref().is_err_and(is_damage);
                    assert!(is_good, "{words}, asked for {question:?}: {is:?} after {was:?}");
                }
            }
        }
    });
}

#[test]
fn of_a_file_with_flipped_bits_the_right_answers_come_or_it_is_not_opened() {
    let stage = full();
    let directory = tempfile::tempdir().unwrap();
    let (whole, rotten) = (directory.path().join("whole"), directory.path().join("rotten"));
    let open = |path| Redb::open(path, Bytes::mib(1));
    {
        let mut engine = open(&whole).unwrap();
        let pairs = stage.engine.snapshot().unwrap().scan(&[], &[u8::MAX], usize::MAX).unwrap();
        let writes: Vec<Write> = pairs.into_iter().map(|(key, value)| Write { key, value: Some(value) }).collect();
        let some = |writes: &[Write]| Transaction { conditions: vec![], writes: writes.to_vec() };
        engine.commit(&writes.chunks(MOST_OPERATIONS).map(some).collect::<Vec<_>>()).unwrap();
    }
    let bytes = file::read(&whole).unwrap();
    let before = answers(open(&whole).unwrap(), &stage).unwrap();
    let used: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
    let refused = std::cell::Cell::new(0);
    each(300, |chance| {
        let mut flipped = bytes.clone();
        // Where something is, in what says where that is, or anywhere.
        let at = match chance.below(8) {
            0 => chance.below(bytes.len() as u64) as usize,
            1 => chance.below(512) as usize,
            _ => used[chance.below(used.len() as u64) as usize],
        };
        flipped[at] ^= 1 << chance.below(8);
        file::replace(&rotten, &flipped).unwrap();
        match open(&rotten).and_then(|engine| answers(engine, &stage)) {
            Err(error) => {
                assert!(matches!(error.kind, Kind::Damaged | Kind::Version), "byte {at}: {:?} {error}", error.kind);
                refused.set(refused.get() + 1);
            }
            Ok(answers) => assert_eq!(answers, before, "byte {at}"),
        }
    });
    assert!(crate::seeds::is_replay() || refused.get() > 50, "{} were found", refused.get());
}

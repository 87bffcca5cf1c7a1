use super::{REMEMBERED, USED_EVERY};
use crate::manager::Settings;
use crate::testing::{Stage, create, entry, root, unchanged, user};
use forebay_model::Kind;
use forebay_wire::control::Change;
use forebay_wire::control::access::IssueKey;
use forebay_wire::control::names::{FileId, MakeDirectory, Place, RemoveFile, SetAttributes};
use std::time::Duration;

/// The same answer as the first time, whatever happened since.
#[test]
fn outcome_42_what_is_asked_again_is_answered_again_and_not_done_again() {
    let mut stage = Stage::new();
    stage.sequence = 100;
    let first = stage.change_as(&root(), 50, create("a", 0o644)).unwrap();
    let failed = stage.change_as(&root(), 51, create("a", 0o644)).unwrap_err();
    assert_eq!(failed.kind, Kind::Exists);
    stage.root(Change::RemoveFile(RemoveFile::at(Place::path("a")))).unwrap();
    for _ in 0..2 {
        assert_eq!(stage.change_as(&root(), 50, create("a", 0o644)).unwrap(), first);
        // What failed is not tried again either: a copy of it that is late does no harm.
        assert_eq!(stage.change_as(&root(), 51, create("a", 0o644)).unwrap_err(), failed);
        assert_eq!(stage.stat(&root(), Place::path("a")).unwrap_err().kind, Kind::Missing);
        stage.restart();
    }
    // Under a new number, or of another client, it is another change.
    let second = entry(stage.root(create("a", 0o644)).unwrap());
    assert_ne!(second.file, entry(first).file);
}

/// Other content under the same number.
#[test]
fn outcome_42_another_change_under_a_number_that_was_used_is_refused_and_says_so() {
    let mut stage = Stage::new();
    let first = stage.change_as(&root(), 50, create("a", 0o644)).unwrap();
    stage.restart();
    let error = stage.change_as(&root(), 50, create("b", 0o644)).unwrap_err();
    assert_eq!(error.kind, Kind::Exists);
    assert!(error.message.contains("number 50") && error.message.contains("another change"), "{error}");
    assert_eq!(stage.stat(&root(), Place::path("b")).unwrap_err().kind, Kind::Missing);
    assert_eq!(stage.change_as(&root(), 50, create("a", 0o644)).unwrap(), first);
}

#[test]
fn numbers_that_are_forgotten_are_refused_and_never_done_again() {
    let mut stage = Stage::new();
    for sequence in 2000..2000 + REMEMBERED {
        stage.change_as(&root(), sequence, create(&format!("f{sequence}"), 0o644)).unwrap();
    }
    // All of these are remembered, and the next one takes the place of the first.
    for sequence in 2000..2000 + REMEMBERED {
        stage.change_as(&root(), sequence, create(&format!("f{sequence}"), 0o644)).unwrap();
    }
    stage.change_as(&root(), 2000 + REMEMBERED, create("last", 0o644)).unwrap();
    let error = stage.change_as(&root(), 2000, create("f2000", 0o644)).unwrap_err();
    assert_eq!(error.kind, Kind::Stale);
    assert!(error.message.contains("too low"), "{error}");
    assert!(stage.change_as(&root(), 2001, create("f2001", 0o644)).is_ok());
}

#[test]
fn a_client_that_was_used_by_one_user_is_no_other_users() {
    let mut stage = Stage::new();
    let mut thief = user(6);
    thief.client = user(5).client;
    let own = Change::IssueKey(IssueKey { user: 5, label: "laptop".into() });
    stage.change_as(&user(5), 9, own.clone()).unwrap_err();
    let error = stage.change_as(&thief, 9, own).unwrap_err();
    assert_eq!(error.kind, Kind::Forbidden);
    assert!(!error.message.contains("laptop"));
}

#[test]
fn answers_are_kept_a_day_after_a_client_was_last_used_and_then_forgotten_with_it() {
    let mut stage = Stage::new();
    let times = SetAttributes { mode: Some(0o777), ..unchanged(Place::of(FileId::ROOT)) };
    stage.root(Change::SetAttributes(times)).unwrap();
    let by = user(5);
    for sequence in 0..250 {
        stage.change_as(&by, sequence, create(&format!("f{sequence}"), 0o644)).unwrap();
    }
    stage.pass(Duration::from_secs(24 * 3600));
    assert!(stage.manager.tick(stage.now).unwrap().forgotten.is_empty());
    assert!(stage.change_as(&by, 7, create("f7", 0o644)).is_ok());
    stage.pass(USED_EVERY + Duration::from_secs(1));
    // A hundred at a time; the client itself goes last.
    let mut forgotten = || stage.manager.tick(stage.now).unwrap().forgotten;
    assert_eq!(forgotten(), [root().client]);
    assert!(forgotten().is_empty());
    assert_eq!(forgotten(), [by.client]);
    assert!(forgotten().is_empty());
    // Its numbers are free again.
    let again = MakeDirectory { place: Place::path("again"), mode: 0o755 };
    assert!(stage.change_as(&by, 7, Change::MakeDirectory(again)).is_ok());
}

#[test]
fn a_clock_that_is_set_forward_forgets_nobody_of_whom_was_heard_lately() {
    let mut stage = Stage::new();
    let first = stage.change_as(&root(), 50, create("a", 0o644)).unwrap();
    stage.now.wall = stage.now.wall.after(Duration::from_secs(25 * 3600 + 1));
    assert!(stage.manager.tick(stage.now).unwrap().forgotten.is_empty());
    assert_eq!(stage.change_as(&root(), 50, create("a", 0o644)).unwrap(), first);
    // Another manager has heard of nobody yet, and each has as long to be heard of as it may be silent.
    stage.restart();
    assert!(stage.manager.tick(stage.now).unwrap().forgotten.is_empty());
    stage.pass(Settings::default().client_timeout - Duration::from_nanos(1));
    assert!(stage.manager.tick(stage.now).unwrap().forgotten.is_empty());
    assert_eq!(stage.change_as(&root(), 50, create("a", 0o644)).unwrap(), first);
    stage.restart();
    assert!(stage.manager.tick(stage.now).unwrap().forgotten.is_empty());
    stage.pass(Settings::default().client_timeout);
    assert_eq!(stage.manager.tick(stage.now).unwrap().forgotten, [root().client]);
}

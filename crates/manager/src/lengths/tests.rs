use crate::principal::Principal;
use crate::testing::{Stage, root};
use forebay_model::Bytes;
use forebay_wire::control::files::{After, Close, OpenToWrite};
use forebay_wire::control::names::{FileId, Place};
use forebay_wire::control::{Change, Question, Reply};

/// A file that these clients have open to write.
fn open(stage: &mut Stage, clients: &[u64]) -> FileId {
    let file = stage.file(&root(), "a", 0o666).unwrap();
    for client in clients {
        let place = Place::of(file);
        let open = OpenToWrite { place, alone: false, upkeep: false, yields: false, cached: false };
        stage.change(&Principal::root(*client), Change::OpenToWrite(open)).unwrap();
    }
    file
}

/// A client closes it; how long it is then.
fn closed(stage: &mut Stage, file: FileId, client: u64, (cuts, size): (Option<u64>, u64)) -> Bytes {
    let close = Close { file, size: Some(Bytes(size)), modified: None, upkeep: false, unfinished: false, cuts };
    stage.change(&Principal::root(client), Change::Close(close)).unwrap();
    stage.stat(&root(), Place::of(file)).unwrap().attributes.size
}

#[test]
fn what_one_said_who_closed_a_file_is_not_undone_by_one_who_asked_earlier() {
    let mut stage = Stage::new();
    let file = open(&mut stage, &[10, 11, 12, 13]);
    assert_eq!(closed(&mut stage, file, 10, (Some(3), 200)), Bytes(200));
    assert_eq!(closed(&mut stage, file, 11, (Some(3), 100)), Bytes(200), "it asked before the other one had written");
    assert_eq!(closed(&mut stage, file, 12, (Some(4), 50)), Bytes(50), "it was cut since");
    assert_eq!(closed(&mut stage, file, 13, (Some(3), 200)), Bytes(50));
    // Of a file that nobody has open there is nothing to be undone.
    assert!(stage.manager.lengths.is_empty());
}

#[test]
fn who_does_not_say_how_often_a_file_was_cut_is_believed() {
    let mut stage = Stage::new();
    let file = open(&mut stage, &[10, 11]);
    assert_eq!(closed(&mut stage, file, 10, (Some(0), 200)), Bytes(200));
    assert_eq!(closed(&mut stage, file, 11, (None, 100)), Bytes(100));
}

#[test]
fn what_one_said_who_closed_a_file_to_a_manager_that_was_killed_since_is_found_out_again() {
    for is_killed in [false, true] {
        let mut stage = Stage::new();
        let file = open(&mut stage, &[10, 11, 12]);
        assert_eq!(closed(&mut stage, file, 10, (Some(3), 200)), Bytes(200));
        if is_killed {
            stage.restart();
        }
        closed(&mut stage, file, 11, (Some(3), 100));
        let question = Question::Unscrubbed(After { file: FileId(0), most: 9 });
        let Reply::Unscrubbed(left) = stage.ask(&root(), &question).unwrap() else { panic!("no files") };
        assert_eq!(left.files, if is_killed { vec![file] } else { vec![] });
    }
}

#[test]
fn a_file_that_was_opened_since_the_manager_was_is_believed_to_be_shorter() {
    let mut stage = Stage::new();
    let first = open(&mut stage, &[10]);
    assert_eq!(closed(&mut stage, first, 10, (Some(3), 200)), Bytes(200));
    stage.restart();
    stage.stat(&root(), Place::of(first)).unwrap();
    stage.pass(std::time::Duration::from_secs(1));
    let place = Place::of(first);
    let open = OpenToWrite { place, alone: false, upkeep: false, yields: false, cached: false };
    stage.change(&Principal::root(10), Change::OpenToWrite(open)).unwrap();
    assert_eq!(closed(&mut stage, first, 10, (Some(4), 50)), Bytes(50));
    let question = Question::Unscrubbed(After { file: FileId(0), most: 9 });
    let Reply::Unscrubbed(left) = stage.ask(&root(), &question).unwrap() else { panic!("no files") };
    assert_eq!(left.files, []);
}

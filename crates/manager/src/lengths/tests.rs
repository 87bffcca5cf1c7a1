use crate::principal::Principal;
use crate::testing::{Stage, root};
use forebay_model::Bytes;
use forebay_wire::control::Change;
use forebay_wire::control::files::{Close, OpenToWrite};
use forebay_wire::control::names::{FileId, Place};

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

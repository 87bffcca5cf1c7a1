use crate::testing::{NODES, Stage, report, root, targets_of, unchanged, user};
use forebay_model::{Bytes, Kind, ObjectId, Result, TargetId};
use forebay_wire::control::cluster::{SetTarget, TargetState};
use forebay_wire::control::files::{Component, CreateHeap, Grant, OpenHeap, OpenRing, OpenToRead, Revoke};
use forebay_wire::control::names::{FileKind, Place, RemoveFile, Rename, SetAttributes};
use forebay_wire::control::volumes::{Quota, SetVolume};
use forebay_wire::control::{Change, Question, Reply};
use std::ops::Range;
use std::time::Duration;

fn heap(path: &str, refused_by: &[TargetId]) -> Change {
    Change::CreateHeap(CreateHeap { place: Place::path(path), mode: 0o644, refused_by: refused_by.to_vec() })
}

fn open(path: &str, write: bool) -> Question {
    Question::OpenHeap(OpenHeap { place: Place::path(path), write })
}

fn remove(path: &str) -> Change {
    Change::RemoveFile(RemoveFile::at(Place::path(path)))
}

fn granted(reply: Result<Reply>) -> Grant {
    match reply {
        Ok(Reply::Grant(grant)) => grant,
        other => panic!("{other:?} is no grant"),
    }
}

/// What is in a capability, as docs/protocol/capabilities.md has it.
struct Shown {
    target: TargetId,
    object: ObjectId,
    rights: u16,
    version: u64,
    bytes: Range<u64>,
}

/// The rights to get records and what is known of them.
const READS: u16 = 1 | 1 << 3;
/// The rights to make a heap and put records into it.
const WRITES: u16 = 1 << 1 | 1 << 5;

fn shown(grant: &Grant) -> Shown {
    let [component] = &grant.components[..] else { panic!("{grant:?} lies on one target") };
    let capability = &component.capability;
    let at = |at: usize| capability[at..at + 8].try_into().map(u64::from_le_bytes).unwrap();
    let rights = u16::from_le_bytes([capability[2], capability[3]]);
    let Component { target, object, .. } = *component;
    Shown { target, object, rights, version: at(64), bytes: at(80)..at(88) }
}

#[test]
fn a_heap_is_put_on_one_target_after_the_other_until_none_is_left_that_did_not_refuse_it() {
    let mut stage = Stage::new();
    let mut refused_by = Vec::new();
    for _ in 0..2 * NODES {
        let grant = granted(stage.root(heap("/h", &refused_by)));
        assert!(grant.write && !refused_by.contains(&shown(&grant).target));
        refused_by.push(shown(&grant).target);
        stage.root(remove("/h")).unwrap();
    }
    let none = stage.root(heap("/h", &refused_by)).unwrap_err();
    assert!(none.kind == Kind::Full && none.message.contains("all of those refused it"), "{none:?}");
    assert_eq!(stage.stat(&root(), Place::path("/h")).unwrap_err().kind, Kind::Missing, "nothing is left behind");
}

#[test]
fn what_is_removed_by_its_number_is_no_other_one_that_was_made_there_meanwhile() {
    let mut stage = Stage::new();
    let first = granted(stage.root(heap("/h", &[]))).entry.file;
    let remove_first = || Change::RemoveFile(RemoveFile { place: Place::path("/h"), only: Some(first) });
    stage.root(remove("/h")).unwrap();
    let second = granted(stage.root(heap("/h", &[]))).entry.file;
    let other = stage.root(remove_first()).unwrap_err();
    assert!(other.kind == Kind::Missing && other.message.contains("another one by now"), "{other:?}");
    assert_eq!(stage.stat(&root(), Place::path("/h")).unwrap().file, second);
    stage.root(Change::RemoveFile(RemoveFile { place: Place::path("/h"), only: Some(second) })).unwrap();
    assert_eq!(stage.stat(&root(), Place::path("/h")).unwrap_err().kind, Kind::Missing);
}

#[test]
fn a_heap_is_neither_a_file_nor_a_ring_and_has_no_size() {
    let mut stage = Stage::new();
    granted(stage.root(heap("/h", &[])));
    stage.file(&root(), "/f", 0o644).unwrap();
    let entry = stage.stat(&root(), Place::path("/h")).unwrap();
    assert_eq!((entry.attributes.kind, entry.attributes.size), (FileKind::Heap, Bytes::ZERO));
    let read = Question::OpenToRead(OpenToRead { place: Place::path("/h"), cached: false });
    let ring = Question::OpenRing(OpenRing { place: Place::path("/h"), write: false });
    for (question, words) in [(read, "is a heap"), (ring, "is a heap"), (open("/f", false), "is a file")] {
        let error = stage.ask(&root(), &question).unwrap_err();
        assert!(error.kind == Kind::Usage && error.message.contains(words), "{error:?}");
    }
    let size = SetAttributes { size: Some(Bytes(1)), ..unchanged(Place::path("/h")) };
    assert_eq!(stage.root(Change::SetAttributes(size)).unwrap_err().kind, Kind::Usage);
    for path in ["/h", "/f"] {
        assert_eq!(stage.root(heap(path, &[])).unwrap_err().kind, Kind::Exists);
    }
    assert_eq!(stage.ask(&root(), &open("/none", false)).unwrap_err().kind, Kind::Missing);
}

#[test]
fn what_allows_to_use_a_heap_is_as_its_mode_says_and_writes_no_bytes_of_an_object() {
    let mut stage = Stage::new();
    granted(stage.root(heap("/h", &[])));
    let mine = shown(&granted(stage.ask(&root(), &open("/h", true))));
    assert_eq!((mine.rights & (WRITES | READS), mine.bytes), (WRITES | READS, 0..0));
    let other = user(9);
    let others = shown(&granted(stage.ask(&other, &open("/h", false))));
    assert_eq!((others.rights & (WRITES | READS), others.bytes), (READS, 0..0));
    assert_eq!(stage.ask(&other, &open("/h", true)).unwrap_err().kind, Kind::Forbidden);
    let closed = SetAttributes { mode: Some(0o600), ..unchanged(Place::path("/h")) };
    stage.root(Change::SetAttributes(closed)).unwrap();
    assert_eq!(stage.ask(&other, &open("/h", false)).unwrap_err().kind, Kind::Forbidden);
    // What was given out before counts no more once it is revoked, also under another name.
    let (from, to) = (Place::path("/h"), Place::path("/moved"));
    stage.root(Change::Rename(Rename { from, to, exclusive: true })).unwrap();
    let file = stage.stat(&root(), Place::path("/moved")).unwrap().file;
    stage.root(Change::Revoke(Revoke { file })).unwrap();
    let next = shown(&granted(stage.ask(&root(), &open("/moved", true))));
    assert_eq!((next.object, next.version), (mine.object, mine.version + 1));
}

#[test]
fn a_heap_counts_as_one_file_of_its_volume_and_its_target_is_told_to_remove_it() {
    let mut stage = Stage::new();
    let there = stage.root(Change::SetVolume(SetVolume { volume: 1, quota: None, policy: None })).unwrap();
    let Reply::Volume(there) = there else { panic!("{there:?} is no volume") };
    let quota = Quota { hard_files: Some(there.files + 1), ..Quota::default() };
    stage.root(Change::SetVolume(SetVolume { volume: 1, quota: Some(quota), policy: None })).unwrap();
    let first = shown(&granted(stage.root(heap("/h", &[]))));
    let full = stage.root(heap("/i", &[])).unwrap_err();
    assert!(full.kind == Kind::Full && full.message.contains("1 more are too many"), "{full:?}");
    stage.root(remove("/h")).unwrap();
    granted(stage.root(heap("/i", &[])));
    stage.pass(Duration::from_secs(600));
    let mut told = Vec::new();
    for node in 1..=NODES {
        for target in stage.report(&report(node)).unwrap().targets {
            told.extend(target.orders.into_iter().map(|order| (target.target, order.object, order.remove)));
        }
    }
    assert_eq!(told, [(first.target, first.object, true)]);
}

#[test]
fn a_heap_stays_where_a_target_drains_and_one_whose_target_failed_is_said_to_be_lost_and_can_be_removed() {
    let mut stage = Stage::new();
    let target = shown(&granted(stage.root(heap("/h", &[])))).target;
    assert!((1..=NODES).any(|node| targets_of(node).contains(&target)));
    let set = |state| Change::SetTarget(SetTarget { target, state });
    stage.root(set(TargetState::Draining)).unwrap();
    stage.pass(Duration::from_secs(600));
    assert_eq!(shown(&granted(stage.ask(&root(), &open("/h", true)))).target, target);
    stage.root(set(TargetState::Failed)).unwrap();
    let lost = stage.ask(&root(), &open("/h", false)).unwrap_err();
    assert!(lost.kind == Kind::Refused && lost.message.contains("its records are lost"), "{lost:?}");
    stage.root(remove("/h")).unwrap();
}

use super::GRACE;
use crate::testing::{Stage, close, entry, root, unchanged, user};
use forebay_model::{Bytes, Kind, Result};
use forebay_wire::control::files::{Close, OpenToWrite};
use forebay_wire::control::names::{Place, RemoveFile, SetAttributes};
use forebay_wire::control::volumes::{CreateVolume, Policy, Quota, SetVolume, Volume};
use forebay_wire::control::{Change, Question, Reply};
use std::time::Duration;

fn with(quota: Quota) -> Stage {
    let mut stage = Stage::new();
    let place = Place::path("v");
    let policy = Policy::default();
    let change = CreateVolume { place, mode: 0o777, owner: 5, group: 5, quota, policy };
    stage.root(Change::CreateVolume(change)).unwrap();
    stage
}

fn size(stage: &mut Stage, path: &str, size: u64) -> Result<Reply> {
    let (place, size) = (Place::path(path), Some(Bytes(size)));
    let set = SetAttributes { size, ..unchanged(place) };
    stage.root(Change::SetAttributes(set))
}

fn volume(stage: &mut Stage) -> Volume {
    let Reply::Volumes(volumes) = stage.ask(&root(), &Question::Volumes).unwrap() else { panic!("no volumes") };
    volumes.into_iter().find(|volume| volume.volume == 2).unwrap()
}

fn is_full<T: std::fmt::Debug>(result: Result<T>, numbers: &[&str]) {
    let error = result.unwrap_err();
    assert_eq!(error.kind, Kind::Full);
    assert!(numbers.iter().all(|number| error.message.contains(number)), "{error}");
}

#[test]
fn a_hard_bound_is_never_passed_and_the_numbers_are_named() {
    let hard_files = Some(3);
    let mut stage = with(Quota { hard_bytes: Some(Bytes::kib(10)), hard_files, ..Quota::default() });
    stage.file(&user(5), "v/a", 0o644).unwrap();
    stage.directory(&user(5), "v/d", 0o755).unwrap();
    is_full(stage.file(&user(5), "v/b", 0o644), &["volume 2", "3 files", "the 3", "1 more"]);
    is_full(stage.directory(&root(), "v/d/d", 0o755), &["volume 2"]);
    size(&mut stage, "v/a", 8 << 10).unwrap();
    is_full(size(&mut stage, "v/a", 11 << 10), &["8 KiB", "10 KiB", "3 KiB"]);
    assert_eq!((volume(&mut stage).bytes, volume(&mut stage).files), (Bytes::kib(8), 3));
    // What gets smaller is never refused, and makes room.
    let quota = Some(Quota { hard_bytes: Some(Bytes::kib(1)), hard_files: Some(1), ..Quota::default() });
    stage.root(Change::SetVolume(SetVolume { volume: 2, quota, policy: None })).unwrap();
    size(&mut stage, "v/a", 7 << 10).unwrap();
    stage.root(Change::RemoveFile(RemoveFile::at(Place::path("v/a")))).unwrap();
    assert_eq!((volume(&mut stage).bytes, volume(&mut stage).files), (Bytes(0), 2));
}

#[test]
fn a_file_that_grew_too_large_stays_open_and_may_be_closed_with_less() {
    let mut stage = with(Quota { hard_bytes: Some(Bytes(100)), ..Quota::default() });
    let file = stage.file(&user(5), "v/a", 0o644).unwrap();
    let open = Change::OpenToWrite(OpenToWrite {
        place: Place::of(file),
        alone: false,
        upkeep: false,
        yields: false,
        cached: false,
    });
    stage.change(&user(5), open.clone()).unwrap();
    let close = |size| Change::Close(Close { size: Some(Bytes(size)), ..close(file) });
    is_full(stage.change(&user(5), close(101)), &["101 B", "100 B"]);
    let closed = entry(stage.change(&user(5), close(100)).unwrap());
    assert_eq!(closed.attributes.size, Bytes(100));
    is_full(stage.change(&user(5), open), &["100 B"]);
    assert_eq!(stage.change(&user(5), close(1)).unwrap_err().kind, Kind::Missing);
}

#[test]
fn root_opens_a_file_for_its_upkeep_and_closes_it_as_it_is_whatever_the_bounds_are() {
    let mut stage = with(Quota { hard_bytes: Some(Bytes(100)), ..Quota::default() });
    let file = stage.file(&user(5), "v/a", 0o644).unwrap();
    let open = |upkeep| {
        Change::OpenToWrite(OpenToWrite { place: Place::of(file), alone: false, upkeep, yields: false, cached: false })
    };
    let close = |size, upkeep| Change::Close(Close { size: Some(Bytes(size)), upkeep, ..close(file) });
    stage.change(&user(5), open(false)).unwrap();
    stage.change(&user(5), close(100, false)).unwrap();
    is_full(stage.root(open(false)), &["100 B"]);
    assert_eq!(stage.change(&user(5), open(true)).unwrap_err().kind, Kind::Forbidden);
    stage.root(open(true)).unwrap();
    // It was longer than its last writer could say.
    is_full(stage.root(close(150, false)), &["50 B", "100 B"]);
    let closed = entry(stage.root(close(150, true)).unwrap());
    assert_eq!((closed.attributes.size, volume(&mut stage).bytes), (Bytes(150), Bytes(150)));
    stage.root(open(true)).unwrap();
    stage.change(&user(5), close(1, true)).unwrap_err();
}

#[test]
fn a_soft_bound_is_a_hard_one_when_it_was_passed_for_a_week() {
    let mut stage = with(Quota { soft_bytes: Some(Bytes(10)), soft_files: Some(9), ..Quota::default() });
    stage.file(&root(), "v/a", 0o644).unwrap();
    size(&mut stage, "v/a", 11).unwrap();
    let since = volume(&mut stage).over_since;
    assert_eq!(since, Some(stage.now.wall));
    stage.pass(GRACE);
    size(&mut stage, "v/a", 12).unwrap();
    assert_eq!(volume(&mut stage).over_since, since);
    stage.pass(Duration::from_secs(1));
    is_full(size(&mut stage, "v/a", 13), &["10 B"]);
    size(&mut stage, "v/a", 10).unwrap();
    assert_eq!(volume(&mut stage).over_since, None);
    size(&mut stage, "v/a", 13).unwrap();
}

#[test]
fn each_soft_bound_has_a_week_of_its_own() {
    let mut stage = with(Quota { soft_bytes: Some(Bytes(10)), soft_files: Some(2), ..Quota::default() });
    stage.file(&root(), "v/a", 0o644).unwrap();
    size(&mut stage, "v/a", 11).unwrap();
    let since = volume(&mut stage).over_since;
    stage.pass(GRACE + Duration::from_secs(1));
    is_full(size(&mut stage, "v/a", 12), &["10 B"]);
    // Files pass theirs now, and are not too many at once.
    stage.file(&root(), "v/b", 0o644).unwrap();
    stage.file(&root(), "v/c", 0o644).unwrap();
    assert_eq!(volume(&mut stage).over_since, since, "the first of both");
    size(&mut stage, "v/a", 10).unwrap();
    assert_eq!(volume(&mut stage).over_since, Some(stage.now.wall));
    stage.pass(GRACE + Duration::from_secs(1));
    is_full(stage.file(&root(), "v/d", 0o644), &["the 2"]);
    size(&mut stage, "v/a", 11).unwrap();
}

#[test]
fn a_quota_that_cannot_be_is_refused() {
    let mut stage = with(Quota::default());
    let quota = Some(Quota { soft_files: Some(3), hard_files: Some(2), ..Quota::default() });
    let set = |volume, quota| Change::SetVolume(SetVolume { volume, quota, policy: None });
    assert_eq!(stage.root(set(2, quota)).unwrap_err().kind, Kind::Usage);
    assert_eq!(stage.root(set(7, None)).unwrap_err().kind, Kind::Missing);
    assert_eq!(stage.change(&user(5), set(2, None)).unwrap_err().kind, Kind::Forbidden);
}

#[test]
fn what_would_be_counted_no_further_is_refused_and_removing_counts_down_to_what_is_there() {
    let mut stage = with(Quota::default());
    for number in 0..17 {
        stage.file(&user(5), &format!("v/{number}"), 0o644).unwrap();
    }
    let large = |stage: &mut Stage, number: u64| size(stage, &format!("v/{number}"), 1 << 60);
    (0..15).for_each(|number| drop(large(&mut stage, number).unwrap()));
    size(&mut stage, "v/16", 100).unwrap();
    is_full(large(&mut stage, 15), &["volume 2"]);
    for number in 0..15 {
        stage.root(Change::RemoveFile(RemoveFile::at(Place::path(format!("v/{number}"))))).unwrap();
    }
    assert_eq!(volume(&mut stage).bytes, Bytes(100));
}

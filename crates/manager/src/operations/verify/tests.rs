use crate::principal::Principal;
use crate::testing::{Stage, close, create, root, unchanged, user};
use forebay_model::layout::Raid;
use forebay_model::{Kind, Timestamp};
use forebay_wire::control::files::{AskUnverified, FoundDamaged, OpenToWrite, Unverified, Verified};
use forebay_wire::control::names::{CreateFile, FileId, Place, RemoveFile, SetAttributes};
use forebay_wire::control::volumes::Policy;
use forebay_wire::control::{Change, Question, Reply};
use std::time::Duration;

impl Stage {
    fn written(&mut self, path: &str) -> FileId {
        let policy = Some(Policy { raid: Raid::Five, ..Policy::default() });
        let create = CreateFile {
            place: Place::path(path),
            mode: 0o644,
            exclusive: true,
            policy,
            open: true,
            alone: true,
            cached: false,
        };
        let Reply::Grant(grant) = self.root(Change::CreateFile(create)).unwrap() else { panic!("no grant") };
        let file = grant.entry.file;
        self.root(Change::Close(close(file))).unwrap();
        file
    }

    fn unverified(&mut self, after: FileId, most: u32, since: Timestamp) -> Unverified {
        match self.ask(&root(), &Question::Unverified(AskUnverified { after, most, since })).unwrap() {
            Reply::Unverified(unverified) => unverified,
            other => panic!("{other:?} are no files"),
        }
    }

    fn due(&mut self) -> Vec<FileId> {
        let since = self.now.wall;
        let Unverified { files, next } = self.unverified(FileId(0), 100, since);
        assert_eq!(next, None);
        files
    }
}

#[test]
fn a_file_is_to_be_verified_when_it_was_not_for_long_also_by_a_manager_that_was_opened_since() {
    let mut stage = Stage::new();
    let files = ["a", "b", "c"].map(|path| stage.written(path));
    // Nothing was ever written into this one, and a directory has nothing.
    stage.root(create("d", 0o644)).unwrap();
    stage.directory(&root(), "e", 0o755).unwrap();
    assert_eq!(stage.due(), [], "they were made just now");
    let day = Duration::from_secs(24 * 3600);
    stage.pass(day);
    assert_eq!(stage.due(), files);
    stage.root(Change::Verified(Verified { file: files[1], began: None })).unwrap();
    let since = stage.now.wall;
    stage.restart();
    assert_eq!(stage.unverified(FileId(0), 100, since).files, [files[0], files[2]]);
    stage.pass(day);
    assert_eq!(stage.due(), files, "it is due again");
    let since = stage.now.wall;
    let part = stage.unverified(FileId(0), 2, since);
    assert_eq!(part, Unverified { files: files[..2].to_vec(), next: Some(files[1]) });
    assert_eq!(stage.unverified(files[1], 2, since), Unverified { files: files[2..].to_vec(), next: None });
}

#[test]
fn a_file_that_somebody_is_alone_with_or_left_is_verified_later() {
    let mut stage = Stage::new();
    let file = stage.written("a");
    stage.pass(Duration::from_secs(3600));
    let open = |alone| {
        Change::OpenToWrite(OpenToWrite { place: Place::of(file), alone, upkeep: false, yields: false, cached: false })
    };
    stage.root(open(false)).unwrap();
    assert_eq!(stage.due(), [file], "beside others it can be");
    stage.root(open(true)).unwrap();
    assert_eq!(stage.due(), []);
    stage.root(Change::Close(close(file))).unwrap();
    assert_eq!(stage.due(), [file]);
}

#[test]
fn who_yields_has_a_file_open_until_somebody_wants_to_be_alone_with_it_and_writes_nothing_then() {
    let mut stage = Stage::new();
    let file = stage.written("a");
    let scrubber = Principal::root(9);
    let open = |alone, yields| {
        Change::OpenToWrite(OpenToWrite { place: Place::of(file), alone, upkeep: yields, yields, cached: false })
    };
    let close = Change::Close(close(file));
    let version = |reply: Reply| match reply {
        Reply::Grant(grant) => grant.entry.attributes.version,
        other => panic!("{other:?} is no grant"),
    };
    let before = version(stage.change(&scrubber, open(false, true)).unwrap());
    assert_eq!(version(stage.root(open(false, false)).unwrap()), before, "beside others it stays");
    stage.root(close.clone()).unwrap();
    assert_eq!(version(stage.root(open(true, false)).unwrap()), before + 1, "what was granted before is stale");
    assert_eq!(stage.change(&scrubber, close.clone()).unwrap_err().kind, Kind::Missing);
    assert_eq!(stage.change(&scrubber, open(false, true)).unwrap_err().kind, Kind::Busy);
    stage.root(close.clone()).unwrap();
    // A client that has it open for something else too stays.
    stage.change(&scrubber, open(false, false)).unwrap();
    stage.change(&scrubber, open(false, true)).unwrap();
    assert_eq!(stage.root(open(true, false)).unwrap_err().kind, Kind::Busy);
}

#[test]
fn only_root_says_and_sees_what_was_verified_and_nothing_is_kept_of_what_was_removed() {
    let mut stage = Stage::new();
    let file = stage.written("a");
    let verified = Change::Verified(Verified { file, began: None });
    assert_eq!(stage.change(&user(5), verified.clone()).unwrap_err().kind, Kind::Forbidden);
    let asked = AskUnverified { after: FileId(0), most: 9, since: stage.now.wall };
    assert_eq!(stage.ask(&user(5), &Question::Unverified(asked)).unwrap_err().kind, Kind::Forbidden);
    stage.root(verified.clone()).unwrap();
    stage.root(Change::RemoveFile(RemoveFile::at(Place::path("a")))).unwrap();
    assert_eq!(stage.root(verified).unwrap_err().kind, Kind::Missing);
    let Ok(Reply::Entry(directory)) = stage.root(Change::MakeDirectory(forebay_wire::control::names::MakeDirectory {
        place: Place::path("d"),
        mode: 0o755,
    })) else {
        panic!("no directory")
    };
    let wrong = Change::Verified(Verified { file: directory.file, began: None });
    assert_eq!(stage.root(wrong).unwrap_err().kind, Kind::Usage);
}

#[test]
fn a_file_of_which_something_was_found_damaged_is_verified_next_but_not_again_and_again() {
    let mut stage = Stage::new();
    let [file, other] = ["a", "b"].map(|path| stage.written(path));
    stage.directory(&root(), "c", 0o755).unwrap();
    let since = stage.now.wall;
    let due = |stage: &mut Stage| stage.unverified(FileId(0), 100, since).files;
    let found = |stage: &mut Stage, by: &Principal, file| {
        stage.change(by, Change::FoundDamaged(FoundDamaged { file })).map(drop).map_err(|error| error.kind)
    };
    assert_eq!(due(&mut stage), []);
    let close = SetAttributes { mode: Some(0o600), ..unchanged(Place::path("b")) };
    stage.root(Change::SetAttributes(close)).unwrap();
    assert_eq!(found(&mut stage, &user(7), other), Err(Kind::Forbidden), "who may not read it");
    assert_eq!(found(&mut stage, &root(), FileId(999)), Err(Kind::Missing));
    assert_eq!(found(&mut stage, &root(), FileId::ROOT), Err(Kind::Usage));
    assert_eq!(due(&mut stage), []);
    // Who may read it needs no more.
    assert_eq!(found(&mut stage, &user(7), file), Ok(()));
    assert_eq!(found(&mut stage, &user(7), file), Ok(()));
    assert_eq!(due(&mut stage), [file]);
    stage.root(Change::Verified(Verified { file, began: None })).unwrap();
    stage.pass(Duration::from_secs(599));
    assert_eq!(found(&mut stage, &user(7), file), Ok(()));
    assert_eq!(due(&mut stage), [], "it was verified just now");
    stage.pass(Duration::from_secs(1));
    assert_eq!(found(&mut stage, &user(7), file), Ok(()));
    stage.restart();
    assert_eq!(due(&mut stage), [file]);
}

#[test]
fn what_is_found_damaged_just_after_a_file_was_verified_has_it_verified_once_more_though_it_is_said_once() {
    let mut stage = Stage::new();
    let file = stage.written("a");
    stage.root(Change::Verified(Verified { file, began: None })).unwrap();
    let since = stage.now.wall;
    stage.pass(Duration::from_secs(60));
    stage.change(&user(7), Change::FoundDamaged(FoundDamaged { file })).unwrap();
    stage.pass(Duration::from_secs(539));
    assert_eq!(stage.unverified(FileId(0), 100, since).files, [], "not so soon");
    stage.restart();
    stage.pass(Duration::from_secs(61));
    assert_eq!(stage.unverified(FileId(0), 100, since).files, [file]);
    stage.root(Change::Verified(Verified { file, began: None })).unwrap();
    stage.pass(Duration::from_secs(3600));
    assert_eq!(stage.unverified(FileId(0), 100, since).files, [], "it was read since");
}

#[test]
fn what_is_found_damaged_while_a_file_is_verified_is_found_there_by_the_next_one() {
    let mut stage = Stage::new();
    let file = stage.written("a");
    let since = stage.now.wall;
    stage.pass(Duration::from_secs(3600));
    let began = Some(stage.now.wall);
    stage.pass(Duration::from_secs(100));
    // Where that has been already.
    stage.change(&user(7), Change::FoundDamaged(FoundDamaged { file })).unwrap();
    stage.pass(Duration::from_secs(100));
    stage.root(Change::Verified(Verified { file, began })).unwrap();
    assert_eq!(stage.unverified(FileId(0), 100, since).files, [], "not at once");
    stage.pass(Duration::from_secs(600));
    assert_eq!(stage.unverified(FileId(0), 100, since).files, [file]);
    let began = Some(stage.now.wall);
    stage.pass(Duration::from_secs(100));
    stage.root(Change::Verified(Verified { file, began })).unwrap();
    stage.pass(Duration::from_secs(3600));
    assert_eq!(stage.unverified(FileId(0), 100, since).files, [], "all of it was read since");
}

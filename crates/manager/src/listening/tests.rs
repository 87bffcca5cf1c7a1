use crate::callbacks::{MOST_OF_KEY, MOST_TAKEN};
use crate::manager::Manager;
use crate::principal::Principal;
use crate::testing::{Stage, close, root, user};
use forebay_model::{Bytes, Kind, Result};
use forebay_wire::control::files::{
    After, Caching, Callback, Called, ClientGone, Close, Grant, Kept, LEASE, Listen, MOST_KEPT, MakeWay, OpenToRead,
    OpenToWrite, Revoke, Scrubbed,
};
use forebay_wire::control::names::{CreateFile, FileId, Place, RemoveFile};
use forebay_wire::control::volumes::{Quota, SetVolume};
use forebay_wire::control::{Change, Question, Reply};
use std::time::Duration;

const FILE: &str = "a";

/// A client of root.
fn client(number: u64) -> Principal {
    Principal::root(number)
}

impl Stage {
    fn made(&mut self) -> FileId {
        self.file(&root(), FILE, 0o666).unwrap()
    }

    fn keeps(&mut self, by: &Principal) {
        assert_eq!(self.change(by, Change::Caches).unwrap(), Reply::Done);
    }

    fn try_cached(&mut self, by: &Principal, write: bool) -> Result<Option<Grant>> {
        let place = Place::path(FILE);
        let reply = match write {
            true => self.change(
                by,
                Change::OpenToWrite(OpenToWrite { place, alone: false, upkeep: false, yields: false, cached: true }),
            ),
            false => self.ask(by, &Question::OpenToRead(OpenToRead { place, cached: true })),
        };
        match reply? {
            Reply::Grant(grant) => Ok(Some(grant)),
            Reply::Calling => Ok(None),
            other => panic!("{other:?}"),
        }
    }

    /// Opens it, and what may be kept.
    fn cached(&mut self, by: &Principal, write: bool) -> Callback {
        let grant = self.try_cached(by, write).unwrap().expect("nobody is in the way");
        grant.callback.expect("it was asked for")
    }

    fn listen(&mut self, by: &Principal, kept: Vec<Kept>, all: bool) -> Called {
        match self.ask(by, &Question::Listen(Listen { kept, all, part: 0, more: false })).unwrap() {
            Reply::Called(called) => called,
            other => panic!("{other:?}"),
        }
    }

    /// Says what it keeps, of all that it has.
    fn known(&mut self, by: &Principal, kept: Vec<Kept>) -> Vec<Callback> {
        let called = self.listen(by, kept, true);
        assert!(!called.unknown);
        called.files
    }

    /// The only thing that a client is told.
    fn told(&mut self, by: &Principal) -> Callback {
        match &self.listen(by, Vec::new(), false).files[..] {
            [callback] => *callback,
            other => panic!("{other:?}"),
        }
    }

    fn close(&mut self, by: &Principal, file: FileId) {
        let close = Close { size: Some(Bytes(1)), ..close(file) };
        self.change(by, Change::Close(close)).unwrap();
    }

    fn is_to_be_mended(&mut self, file: FileId) -> bool {
        match self.ask(&root(), &Question::Unscrubbed(After { file: FileId(0), most: 9 })).unwrap() {
            Reply::Unscrubbed(found) => found.files.contains(&file),
            other => panic!("{other:?}"),
        }
    }

    fn seconds(&mut self, seconds: u64) {
        self.pass(Duration::from_secs(seconds));
        self.manager.tick(self.now).unwrap();
    }
}

fn gave(told: Callback, write: bool) -> Vec<Kept> {
    vec![Kept { file: told.file, caching: Some(told.caching), serial: told.serial, write }]
}

#[test]
fn who_writes_alone_keeps_all_until_others_come_and_again_when_they_are_gone() {
    let mut stage = Stage::new();
    let file = stage.made();
    let (writer, reader) = (client(10), client(11));
    let first = stage.cached(&writer, true);
    assert_eq!(first.caching, Caching::Exclusive);
    assert_eq!(stage.known(&writer, gave(first, true)), vec![]);
    stage.keeps(&reader);
    assert_eq!(stage.try_cached(&reader, false).unwrap(), None, "the writer is called back first");
    let called = stage.told(&writer);
    assert_eq!((called.file, called.caching), (file, Caching::Nothing));
    assert!(called.serial > first.serial);
    // What it had said before the call counts no more.
    stage.listen(&writer, gave(first, true), false);
    assert_eq!(stage.try_cached(&reader, false).unwrap(), None);
    assert_eq!(stage.listen(&writer, gave(called, true), false).files, vec![]);
    let read = stage.cached(&reader, false);
    assert_eq!(read.caching, Caching::Nothing, "somebody writes it");
    stage.known(&reader, gave(read, false));
    stage.seconds(1);
    assert_eq!(stage.listen(&writer, Vec::new(), false).files, vec![], "somebody reads it");
    let closed = Kept { file, caching: None, serial: read.serial, write: false };
    stage.listen(&reader, vec![closed], false);
    stage.seconds(1);
    let again = stage.told(&writer);
    assert_eq!(again.caching, Caching::Exclusive);
    stage.listen(&writer, gave(again, true), false);
    assert_eq!(stage.try_cached(&reader, false).unwrap(), None, "it keeps all again");
}

#[test]
fn those_who_read_keep_what_they_read_until_somebody_writes_and_again_when_that_is_closed() {
    let mut stage = Stage::new();
    let file = stage.made();
    let (writer, readers) = (client(10), [client(11), client(12)]);
    assert_eq!(
        stage.try_cached(&readers[0], false).unwrap_err().kind,
        Kind::Stale,
        "it has not said that it keeps anything"
    );
    let mut told = Vec::new();
    for reader in &readers {
        stage.keeps(reader);
        let read = stage.cached(reader, false);
        assert_eq!(read.caching, Caching::Shared);
        stage.known(reader, gave(read, false));
        told.push(read);
    }
    for others in [false, true] {
        // Also one who is not called back, and keeps nothing.
        let open = OpenToWrite { place: Place::path(FILE), alone: others, upkeep: false, yields: false, cached: false };
        assert_eq!(stage.change(&writer, Change::OpenToWrite(open)).unwrap(), Reply::Calling);
    }
    for reader in &readers {
        assert_eq!(stage.try_cached(&writer, true).unwrap(), None);
        let called = stage.told(reader);
        assert_eq!(called.caching, Caching::Nothing);
        stage.listen(reader, gave(called, false), false);
    }
    let way = Question::MakeWay(MakeWay { place: Place::path(FILE), write: true, cached: true });
    assert_eq!(stage.manager.ask_or_wait(stage.now, &writer, &way, false).unwrap(), Some(Reply::Done));
    assert_eq!(stage.cached(&writer, true).caching, Caching::Nothing, "others read it");
    assert_eq!(stage.cached(&readers[0], false).caching, Caching::Nothing);
    stage.close(&writer, file);
    stage.seconds(1);
    for reader in &readers {
        assert_eq!(stage.told(reader).caching, Caching::Shared);
    }
}

#[test]
fn who_is_called_back_and_does_not_answer_loses_the_file_when_its_lease_is_over_and_not_before() {
    let mut stage = Stage::new();
    let file = stage.made();
    let (gone, next) = (client(10), client(11));
    let first = stage.cached(&gone, true);
    let version = stage.stat(&root(), Place::of(file)).unwrap().attributes.version;
    stage.seconds(5);
    // It is in touch until then.
    stage.listen(&gone, Vec::new(), false);
    assert_eq!(stage.try_cached(&next, true).unwrap(), None);
    stage.seconds(LEASE.as_secs() - 1);
    assert_eq!(stage.try_cached(&next, true).unwrap(), None, "the lease is not over");
    assert!(!stage.is_to_be_mended(file));
    stage.seconds(3);
    assert_eq!(stage.try_cached(&next, true).unwrap(), None, "it is to be mended first");
    stage.keeps(&next);
    let read = stage.cached(&next, false);
    assert_eq!(read.caching, Caching::Nothing);
    assert!(stage.is_to_be_mended(file));
    assert_eq!(stage.stat(&root(), Place::of(file)).unwrap().attributes.version, version + 1);
    let close = close(file);
    assert_eq!(stage.change(&gone, Change::Close(close)).unwrap_err().kind, Kind::Missing);
    stage.listen(&next, gave(read, false), true);
    // Who was silent is told what it lost as soon as it asks again.
    assert!(stage.listen(&gone, Vec::new(), false).unknown);
    let kept = Kept { file, caching: Some(Caching::Exclusive), serial: first.serial, write: true };
    let taken = stage.known(&gone, vec![kept]);
    assert_eq!(taken.iter().map(|told| (told.file, told.caching)).collect::<Vec<_>>(), [(file, Caching::Nothing)]);
    assert_eq!(stage.listen(&gone, gave(taken[0], false), false).files, vec![]);
    stage.root(Change::Scrubbed(Scrubbed { file })).unwrap();
    stage.seconds(1);
    assert_eq!(stage.told(&next).caching, Caching::Shared);
}

#[test]
fn who_only_read_and_is_silent_is_in_nobodys_way_when_its_lease_is_over() {
    let mut stage = Stage::new();
    let file = stage.made();
    stage.keeps(&client(10));
    stage.cached(&client(10), false);
    assert_eq!(stage.try_cached(&client(11), true).unwrap(), None);
    stage.seconds(LEASE.as_secs() + 2);
    assert_eq!(stage.cached(&client(11), true).caching, Caching::Exclusive);
    assert!(!stage.is_to_be_mended(file), "it wrote nothing");
    // It was forgotten, durably: another manager waits for nobody.
    stage.close(&client(11), file);
    stage.restart();
    assert_eq!(stage.cached(&client(12), true).caching, Caching::Exclusive);
}

#[test]
fn another_manager_waits_until_those_who_keep_something_have_said_so_or_their_leases_are_over() {
    for is_heard in [true, false] {
        let mut stage = Stage::new();
        let file = stage.made();
        let (reader, writer) = (client(10), client(11));
        stage.keeps(&reader);
        let read = stage.cached(&reader, false);
        stage.known(&reader, gave(read, false));
        stage.restart();
        assert_eq!(stage.try_cached(&writer, true).unwrap(), None, "somebody may have read it");
        let fresh = CreateFile {
            place: Place::path("b"),
            mode: 0o644,
            exclusive: true,
            policy: None,
            open: true,
            alone: false,
            cached: true,
        };
        let made = stage.change(&writer, Change::CreateFile(fresh)).unwrap();
        assert!(matches!(made, Reply::Grant(Grant { callback: Some(kept), .. }) if kept.caching == Caching::Exclusive));
        if is_heard {
            assert!(stage.listen(&reader, Vec::new(), false).unknown);
            assert_eq!(stage.known(&reader, gave(read, false)), vec![]);
            assert_eq!(stage.try_cached(&writer, true).unwrap(), None);
            let called = stage.told(&reader);
            assert_eq!((called.file, called.caching), (file, Caching::Nothing));
            stage.listen(&reader, gave(called, false), false);
            assert_eq!(stage.cached(&writer, true).caching, Caching::Nothing);
        } else {
            stage.seconds(LEASE.as_secs());
            assert_eq!(stage.try_cached(&writer, true).unwrap(), None, "the lease is not over");
            stage.seconds(2);
            assert_eq!(stage.cached(&writer, true).caching, Caching::Exclusive);
        }
    }
}

#[test]
fn another_manager_calls_back_those_who_write_as_the_list_says() {
    let mut stage = Stage::new();
    stage.made();
    let (writer, next) = (client(10), client(11));
    let first = stage.cached(&writer, true);
    stage.known(&writer, gave(first, true));
    stage.restart();
    assert_eq!(stage.try_cached(&next, true).unwrap(), None);
    let called = stage.listen(&writer, Vec::new(), false);
    assert!(called.unknown);
    let told = stage.known(&writer, gave(first, true));
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].caching, Caching::Nothing);
    stage.listen(&writer, gave(told[0], true), false);
    assert_eq!(stage.cached(&next, true).caching, Caching::Nothing);
    assert_eq!(stage.cached(&writer, true).caching, Caching::Nothing, "it is not alone any more");
}

#[test]
fn upkeep_calls_back_who_writes_and_nobody_who_reads_and_a_scrub_nobody() {
    let mut stage = Stage::new();
    let file = stage.made();
    let (writer, reader) = (client(10), client(11));
    let open = |yields| {
        let place = Place::path(FILE);
        Change::OpenToWrite(OpenToWrite { place, alone: false, upkeep: true, yields, cached: false })
    };
    stage.keeps(&reader);
    stage.cached(&reader, false);
    assert!(matches!(stage.root(open(false)).unwrap(), Reply::Grant(_)));
    stage.close(&root(), file);
    let read = stage.manager.callbacks.told(file, reader.client).unwrap();
    stage.listen(&reader, vec![Kept { file, caching: None, serial: read.serial, write: false }], true);
    let first = stage.cached(&writer, true);
    assert_eq!(stage.root(open(true)).unwrap_err().kind, Kind::Busy);
    assert_eq!(stage.known(&writer, gave(first, true)), vec![], "it is not called");
    assert_eq!(stage.root(open(false)).unwrap(), Reply::Calling);
    let called = stage.told(&writer);
    stage.listen(&writer, gave(called, true), false);
    assert!(matches!(stage.root(open(false)).unwrap(), Reply::Grant(_)));
}

#[test]
fn nobody_waits_for_what_it_may_not_open() {
    let mut stage = Stage::new();
    stage.file(&root(), FILE, 0o600).unwrap();
    let way = |write| Question::MakeWay(MakeWay { place: Place::path(FILE), write, cached: true });
    for write in [false, true] {
        assert_eq!(stage.ask(&user(5), &way(write)).unwrap_err().kind, Kind::Forbidden);
    }
    stage.cached(&client(10), true);
    assert_eq!(stage.manager.ask_or_wait(stage.now, &client(11), &way(false), false).unwrap(), None, "it waits");
    let full = stage.manager.ask_or_wait(stage.now, &client(11), &way(false), true).unwrap();
    assert_eq!(full, Some(Reply::Done), "there is no room to wait in: it asks again");
    let quiet = Question::Listen(Listen { kept: Vec::new(), all: false, part: 0, more: false });
    stage.known(&client(11), Vec::new());
    assert_eq!(stage.manager.ask_or_wait(stage.now, &client(11), &quiet, false).unwrap(), None);
    assert!(matches!(
        stage.manager.ask_or_wait(stage.now, &client(11), &quiet, true).unwrap(),
        Some(Reply::Called(Called { crowded: true, .. }))
    ));
    assert_eq!(Manager::nothing_yet(&way(true)), Reply::Done);
}

#[test]
fn who_has_a_file_open_to_read_besides_is_called_back_when_it_has_closed_what_it_wrote() {
    let mut stage = Stage::new();
    let file = stage.made();
    let (both, next) = (client(10), client(11));
    stage.keeps(&both);
    let written = stage.cached(&both, true);
    let read = stage.cached(&both, false);
    assert!(read.serial > written.serial && read.caching == Caching::Exclusive);
    stage.known(&both, gave(read, true));
    stage.close(&both, file);
    // What is said of an opening before the last one counts no more.
    stage.listen(&both, vec![Kept { file, caching: None, serial: written.serial, write: false }], false);
    assert_eq!(stage.try_cached(&next, true).unwrap(), None, "it is still open to read");
    let called = stage.told(&both);
    stage.listen(&both, vec![Kept { file, caching: None, serial: called.serial, write: false }], false);
    assert_eq!(stage.cached(&next, true).caching, Caching::Exclusive);
}

#[test]
fn nothing_is_left_of_who_had_a_file_open_that_was_removed_or_taken_from_it() {
    for revokes in [false, true] {
        let mut stage = Stage::new();
        let file = stage.made();
        stage.cached(&client(10), true);
        match revokes {
            true => stage.root(Change::Revoke(Revoke { file })).unwrap(),
            false => stage.root(Change::RemoveFile(RemoveFile::at(Place::path(FILE)))).unwrap(),
        };
        if revokes {
            // It is in nobody's way for longer than its lease, and is told that it keeps nothing.
            stage.seconds(LEASE.as_secs() + 2);
            stage.root(Change::Scrubbed(Scrubbed { file })).unwrap();
            assert_eq!(stage.cached(&client(11), true).caching, Caching::Exclusive);
        }
        stage.seconds(LEASE.as_secs() + 2);
        assert!(stage.manager.callbacks.told(file, 10).is_none());
    }
}

#[test]
fn who_may_not_read_a_file_keeps_nothing_of_it_whatever_it_says() {
    let mut stage = Stage::new();
    let file = stage.file(&root(), FILE, 0o600).unwrap();
    let stranger = user(5);
    stage.keeps(&stranger);
    for (write, caching) in [(false, Caching::Shared), (false, Caching::Exclusive), (true, Caching::Exclusive)] {
        let kept = Kept { file, caching: Some(caching), serial: 1 << 50, write };
        stage.restart();
        let told = stage.known(&stranger, vec![kept]);
        assert_eq!(told.iter().map(|told| told.caching).collect::<Vec<_>>(), [Caching::Nothing]);
        assert!(stage.try_cached(&client(10), true).unwrap().is_some(), "it is in nobody's way");
        stage.close(&client(10), file);
    }
}

#[test]
fn who_waits_for_readers_does_not_wait_for_more_and_more_of_them() {
    let mut stage = Stage::new();
    stage.made();
    let (writer, first, second) = (client(10), client(11), client(12));
    stage.keeps(&first);
    stage.keeps(&second);
    let read = stage.cached(&first, false);
    stage.known(&first, gave(read, false));
    assert_eq!(stage.try_cached(&writer, true).unwrap(), None);
    assert_eq!(stage.cached(&second, false).caching, Caching::Nothing, "somebody waits");
    // Who opens it again has not given way by that.
    let again = stage.cached(&first, false);
    assert_eq!(again.caching, Caching::Nothing);
    assert_eq!(stage.try_cached(&writer, true).unwrap(), None);
    assert_eq!(stage.told(&first), again);
    stage.listen(&first, gave(again, false), false);
    assert!(stage.try_cached(&writer, true).unwrap().is_some());
}

#[test]
fn who_is_in_touch_and_does_not_give_way_loses_the_file_after_half_a_minute() {
    let mut stage = Stage::new();
    let file = stage.made();
    let (stuck, next) = (client(10), client(11));
    let first = stage.cached(&stuck, true);
    stage.known(&stuck, gave(first, true));
    assert_eq!(stage.try_cached(&next, true).unwrap(), None);
    for _ in 0..30 {
        stage.seconds(1);
        stage.told(&stuck);
    }
    assert!(!stage.is_to_be_mended(file));
    stage.seconds(2);
    assert!(stage.is_to_be_mended(file));
    assert!(stage.listen(&stuck, Vec::new(), false).unknown, "it is asked what it keeps");
}

#[test]
fn an_answer_that_was_lost_is_told_again_by_another_manager_with_what_may_be_kept() {
    let mut stage = Stage::new();
    stage.made();
    let writer = client(10);
    let open = || {
        let place = Place::path(FILE);
        Change::OpenToWrite(OpenToWrite { place, alone: false, upkeep: false, yields: false, cached: true })
    };
    stage.change_as(&writer, 900, open()).unwrap();
    stage.restart();
    let Reply::Grant(grant) = stage.change_as(&writer, 900, open()).unwrap() else { panic!("no grant") };
    let told = grant.callback.expect("it was asked for");
    assert_eq!(told.caching, Caching::Exclusive);
    assert_eq!(stage.try_cached(&client(11), true).unwrap(), None);
    stage.known(&writer, gave(told, true));
    assert_eq!(stage.told(&writer).caching, Caching::Nothing);
}

#[test]
fn a_manager_that_was_busy_for_long_does_not_take_those_for_gone_who_waited_for_it() {
    let mut stage = Stage::new();
    stage.made();
    let (reader, writer) = (client(10), client(11));
    stage.keeps(&reader);
    let read = stage.cached(&reader, false);
    stage.known(&reader, gave(read, false));
    stage.pass(Duration::from_secs(20));
    assert_eq!(stage.try_cached(&writer, true).unwrap(), None);
    let waits = (reader.clone(), Question::Listen(Listen { kept: Vec::new(), all: false, part: 0, more: false }));
    stage.manager.wait_here(stage.now, [(&waits.0, &waits.1)].into_iter());
    stage.manager.tick(stage.now).unwrap();
    assert_eq!(stage.try_cached(&writer, true).unwrap(), None);
    assert_eq!(stage.told(&reader).caching, Caching::Nothing);
}

#[test]
fn who_mends_a_file_is_before_those_who_want_to_write_it() {
    let mut stage = Stage::new();
    let file = stage.made();
    let (writer, mender) = (client(10), client(11));
    stage.cached(&client(12), true);
    stage.root(Change::ClientGone(ClientGone { client: 12 })).unwrap();
    let open = |alone| {
        let place = Place::path(FILE);
        Change::OpenToWrite(OpenToWrite { place, alone, upkeep: true, yields: false, cached: false })
    };
    for alone in [false, true] {
        assert_eq!(stage.try_cached(&writer, true).unwrap(), None);
        assert!(matches!(stage.change(&mender, open(alone)).unwrap(), Reply::Grant(_)), "alone: {alone}");
    }
    assert_eq!(stage.try_cached(&writer, true).unwrap(), None);
    stage.change(&mender, Change::Scrubbed(Scrubbed { file })).unwrap();
    stage.close(&mender, file);
    stage.seconds(LEASE.as_secs() + 2);
    assert!(stage.try_cached(&writer, true).unwrap().is_some());
}

#[test]
fn who_could_not_close_a_file_still_keeps_what_it_wrote_and_is_called_back() {
    let mut stage = Stage::new();
    let file = stage.made();
    let (writer, reader) = (client(10), client(11));
    stage.cached(&writer, true);
    stage.keeps(&reader);
    let (quota, policy) = (Quota { hard_bytes: Some(Bytes(100)), ..Quota::default() }, None);
    stage.root(Change::SetVolume(SetVolume { volume: 1, quota: Some(quota), policy })).unwrap();
    let close = Close { size: Some(Bytes(101)), ..close(file) };
    assert_eq!(stage.change(&writer, Change::Close(close)).unwrap_err().kind, Kind::Full);
    assert_eq!(stage.try_cached(&reader, false).unwrap(), None, "it is open as before");
}

#[test]
fn who_was_out_of_touch_and_reads_on_has_those_called_back_who_keep_what_they_write_since() {
    let mut stage = Stage::new();
    stage.made();
    let (writer, reader) = (client(10), client(11));
    stage.keeps(&reader);
    let first = stage.cached(&writer, true);
    stage.known(&writer, gave(first, true));
    assert_eq!(stage.try_cached(&reader, false).unwrap(), None);
    let called = stage.told(&writer);
    stage.listen(&writer, gave(called, true), false);
    let read = stage.cached(&reader, false);
    stage.known(&reader, gave(read, false));
    for _ in 0..LEASE.as_secs() + 3 {
        stage.seconds(1);
        stage.listen(&writer, Vec::new(), false);
    }
    let alone = stage.told(&writer);
    assert_eq!(alone.caching, Caching::Exclusive, "the reader was not heard of for long");
    stage.listen(&writer, gave(alone, true), false);
    assert!(stage.listen(&reader, Vec::new(), false).unknown);
    // It is forgotten as one that keeps what it reads.
    stage.keeps(&reader);
    assert_eq!(stage.known(&reader, gave(read, false)), vec![]);
    let called = stage.told(&writer);
    assert_eq!(called.caching, Caching::Nothing, "the reader has it open, and would not see what is written");
    stage.listen(&writer, gave(called, true), false);
    stage.seconds(1);
    assert_eq!(stage.listen(&writer, Vec::new(), false).files, vec![], "it is there");
}

#[test]
fn another_manager_lets_nobody_keep_what_it_writes_before_those_who_may_read_it_have_said_so() {
    for is_heard in [true, false] {
        let mut stage = Stage::new();
        let file = stage.made();
        let (writer, other, reader) = (client(10), client(11), client(12));
        let first = stage.cached(&writer, true);
        stage.known(&writer, gave(first, true));
        assert_eq!(stage.try_cached(&other, true).unwrap(), None);
        let called = stage.told(&writer);
        stage.listen(&writer, gave(called, true), false);
        let second = stage.cached(&other, true);
        stage.keeps(&reader);
        let read = stage.cached(&reader, false);
        assert_eq!(read.caching, Caching::Nothing);
        stage.restart();
        stage.known(&writer, gave(called, true));
        stage.known(&other, gave(second, true));
        stage.close(&other, file);
        let closed = Kept { file, caching: None, serial: second.serial, write: false };
        stage.listen(&other, vec![closed], false);
        stage.seconds(1);
        assert_eq!(stage.listen(&writer, Vec::new(), false).files, vec![], "somebody may read it");
        if is_heard {
            stage.known(&reader, gave(read, false));
        }
        for _ in 0..LEASE.as_secs() + 2 {
            stage.seconds(1);
            stage.listen(&writer, Vec::new(), false);
            if is_heard {
                stage.listen(&reader, Vec::new(), false);
            }
        }
        let told = stage.listen(&writer, Vec::new(), false).files;
        let keeps: Vec<Caching> = told.iter().map(|told| told.caching).collect();
        assert_eq!(keeps, if is_heard { vec![] } else { vec![Caching::Exclusive] }, "heard of: {is_heard}");
    }
}

/// One who was silent for so long that it was forgotten, and has kept nothing since, has the file open all the same.
#[test]
fn who_was_forgotten_and_is_back_says_again_that_it_keeps_what_it_reads_so_that_another_manager_waits_for_it() {
    let mut stage = Stage::new();
    stage.made();
    let (reader, writer) = (client(10), client(11));
    stage.keeps(&reader);
    let read = stage.cached(&reader, false);
    stage.known(&reader, gave(read, false));
    stage.seconds(LEASE.as_secs() + 2);
    assert!(stage.listen(&reader, Vec::new(), false).unknown);
    let kept = Kept { file: read.file, caching: Some(Caching::Nothing), serial: read.serial, write: false };
    let all = Listen { kept: vec![kept], all: true, part: 0, more: false };
    assert_eq!(stage.ask(&reader, &Question::Listen(all)).unwrap_err().kind, Kind::Stale);
    stage.keeps(&reader);
    stage.known(&reader, vec![kept]);
    stage.seconds(1);
    let again = stage.told(&reader);
    assert_eq!(again.caching, Caching::Shared);
    stage.listen(&reader, gave(again, false), false);
    stage.restart();
    assert_eq!(stage.try_cached(&writer, true).unwrap(), None, "somebody may have read it");
}

#[test]
fn all_that_a_client_keeps_is_said_in_parts_of_which_none_may_be_missing() {
    let mut stage = Stage::new();
    stage.made();
    let (writer, reader, next) = (client(10), client(11), client(12));
    stage.keeps(&reader);
    let read = stage.cached(&reader, false);
    let say = |stage: &mut Stage, part, more, kept: Vec<Kept>| match stage
        .ask(&reader, &Question::Listen(Listen { kept, all: true, part, more }))
        .unwrap()
    {
        Reply::Called(called) => called.unknown,
        other => panic!("{other:?}"),
    };
    let none = |count| vec![Kept { file: FileId(99), caching: None, serial: 1, write: false }; count];
    let long = Listen { kept: none(MOST_KEPT + 1), all: true, part: 0, more: true };
    assert_eq!(stage.ask(&reader, &Question::Listen(long)).unwrap_err().kind, Kind::Usage);
    assert!(say(&mut stage, 0, true, none(MOST_KEPT)));
    assert!(say(&mut stage, 1, true, gave(read, false)));
    stage.restart();
    assert!(say(&mut stage, 2, false, none(1)), "another manager heard the parts before");
    assert_eq!(stage.try_cached(&writer, true).unwrap(), None, "it waits for what is kept");
    assert!(say(&mut stage, 0, true, gave(read, false)));
    assert!(say(&mut stage, 1, true, none(1)));
    assert!(say(&mut stage, 1, true, none(1)), "it was said twice, as its answer was lost");
    assert!(!say(&mut stage, 2, false, none(1)));
    assert_eq!(stage.try_cached(&next, true).unwrap(), None);
    assert_eq!(stage.told(&reader).caching, Caching::Nothing);
}

#[test]
fn of_one_access_key_there_are_so_many_clients_that_keep_something_and_no_more_until_some_are_gone() {
    let mut stage = Stage::new();
    let now = stage.now.moment;
    let callbacks = &mut stage.manager.callbacks;
    for client in 0..MOST_OF_KEY as u64 {
        callbacks.enter(client, Some(7), now).unwrap();
    }
    callbacks.enter(0, Some(7), now).unwrap();
    assert_eq!(callbacks.enter(1 << 32, Some(7), now).unwrap_err().kind, Kind::Busy);
    callbacks.enter(1 << 32, Some(8), now).unwrap();
    stage.seconds(LEASE.as_secs() + 2);
    stage.manager.callbacks.enter(1 << 33, Some(7), stage.now.moment).unwrap();
}

#[test]
fn what_a_client_says_that_it_keeps_and_does_not_is_bounded_and_told_a_part_at_a_time() {
    let mut stage = Stage::new();
    let liar = user(5);
    stage.keeps(&liar);
    let mut said = 0;
    let mut most = 0;
    for part in 0..(MOST_TAKEN / MOST_KEPT + 2) as u32 {
        let file = |nth: usize| FileId(1 << 40 | u64::from(part) << 16 | nth as u64);
        let kept =
            (0..MOST_KEPT).map(|nth| Kept { file: file(nth), caching: Some(Caching::Shared), serial: 1, write: false });
        let all = Listen { kept: kept.collect(), all: true, part, more: true };
        let Reply::Called(called) = stage.ask(&liar, &Question::Listen(all)).unwrap() else { panic!("no call") };
        most = called.files.len().max(most);
        said += MOST_KEPT;
    }
    assert!(said > MOST_TAKEN && most == MOST_KEPT, "{said} {most}");
    assert_eq!(stage.manager.callbacks.taken_of(liar.client), (MOST_TAKEN, MOST_TAKEN));
    let called = stage.listen(&liar, Vec::new(), false);
    let answers =
        called.files.iter().map(|told| Kept { file: told.file, caching: None, serial: told.serial, write: false });
    stage.listen(&liar, answers.collect(), false);
    assert_eq!(stage.manager.callbacks.taken_of(liar.client), (MOST_TAKEN - MOST_KEPT, MOST_TAKEN - MOST_KEPT));
    stage.seconds(LEASE.as_secs() + 2);
    assert_eq!(stage.manager.callbacks.taken_of(liar.client), (0, 0));
}

#[test]
fn who_only_reads_and_says_again_and_again_that_it_keeps_a_file_is_in_nobodys_way_for_longer_than_half_a_minute() {
    let mut stage = Stage::new();
    let file = stage.file(&root(), FILE, 0o644).unwrap();
    let (writer, liar) = (client(10), user(5));
    stage.keeps(&liar);
    assert_eq!(stage.cached(&liar, false).caching, Caching::Shared);
    let lies = |stage: &mut Stage| {
        let kept = vec![Kept { file, caching: Some(Caching::Shared), serial: u64::MAX, write: false }];
        stage.ask(&liar, &Question::Listen(Listen { kept, all: true, part: 0, more: true })).unwrap();
    };
    let mut waited = 0;
    while stage.try_cached(&writer, true).unwrap().is_none() {
        assert!(waited < 40, "it is waited for anew whenever it says so");
        lies(&mut stage);
        stage.seconds(1);
        // Nor does it overtake who waits when the file is taken from it.
        lies(&mut stage);
        waited += 1;
    }
    assert_eq!(waited, 31);
    assert_eq!(stage.told(&liar).caching, Caching::Nothing);
}

#[test]
fn what_a_client_has_yet_to_give_up_among_all_that_it_keeps_answers_no_call() {
    let mut stage = Stage::new();
    stage.made();
    let (writer, next) = (client(10), client(11));
    stage.cached(&writer, true);
    assert_eq!(stage.try_cached(&next, true).unwrap(), None);
    let called = stage.told(&writer);
    let still = Kept { file: called.file, caching: Some(Caching::Exclusive), serial: called.serial, write: true };
    // It is said twice, as where the first answer was lost.
    for _ in 0..2 {
        assert_eq!(stage.known(&writer, vec![still]), [called]);
        assert_eq!(stage.try_cached(&next, true).unwrap(), None, "what it wrote is not durable yet");
    }
    stage.listen(&writer, gave(called, true), false);
    assert!(stage.try_cached(&next, true).unwrap().is_some());
}

/// The list of those who write does not say whether one was called back since for somebody who reads.
#[test]
fn of_whom_another_manager_takes_the_worst_it_is_let_keep_nothing_while_others_may_have_the_file_open() {
    for is_heard in [true, false] {
        let mut stage = Stage::new();
        stage.made();
        let (writer, reader) = (client(10), client(11));
        stage.keeps(&writer);
        stage.keeps(&reader);
        let first = stage.cached(&writer, true);
        stage.known(&writer, gave(first, true));
        assert_eq!(stage.try_cached(&reader, false).unwrap(), None);
        let called = stage.told(&writer);
        stage.listen(&writer, gave(called, true), false);
        let read = stage.cached(&reader, false);
        stage.known(&reader, gave(read, false));
        stage.restart();
        if is_heard {
            stage.known(&reader, gave(read, false));
        }
        let besides = stage.cached(&writer, false);
        assert_eq!(besides.caching, Caching::Nothing, "heard of: {is_heard}");
        assert_eq!(stage.told(&writer), besides, "it may keep more until it says that it does not");
        stage.listen(&writer, gave(besides, true), false);
        for _ in 0..LEASE.as_secs() + 2 {
            stage.seconds(1);
            stage.listen(&writer, Vec::new(), false);
            if is_heard {
                stage.listen(&reader, Vec::new(), false);
            }
        }
        let told = stage.listen(&writer, Vec::new(), false).files;
        let keeps: Vec<Caching> = told.iter().map(|told| told.caching).collect();
        assert_eq!(keeps, if is_heard { vec![] } else { vec![Caching::Exclusive] }, "heard of: {is_heard}");
    }
}

#[test]
fn an_answer_that_was_lost_is_told_again_without_what_may_be_kept_while_others_may_have_the_file_open() {
    let mut stage = Stage::new();
    stage.made();
    let (writer, reader) = (client(10), client(11));
    let open = || {
        let place = Place::path(FILE);
        Change::OpenToWrite(OpenToWrite { place, alone: false, upkeep: false, yields: false, cached: true })
    };
    stage.change_as(&writer, 900, open()).unwrap();
    stage.keeps(&reader);
    assert_eq!(stage.try_cached(&reader, false).unwrap(), None);
    let called = stage.told(&writer);
    stage.listen(&writer, gave(called, true), false);
    stage.cached(&reader, false);
    stage.restart();
    let Reply::Grant(grant) = stage.change_as(&writer, 900, open()).unwrap() else { panic!("no grant") };
    let told = grant.callback.expect("it was asked for");
    assert_eq!(told.caching, Caching::Nothing);
    assert_eq!(stage.told(&writer), told, "it may keep more until it says that it does not");
}

/// As one that has a file open several times, or does not reach its targets.
#[test]
fn what_somebody_does_not_take_up_is_not_offered_again_with_every_tick() {
    let mut stage = Stage::new();
    let file = stage.made();
    let (writer, reader) = (client(10), client(11));
    let first = stage.cached(&writer, true);
    stage.known(&writer, gave(first, true));
    stage.keeps(&reader);
    assert_eq!(stage.try_cached(&reader, false).unwrap(), None);
    let called = stage.told(&writer);
    stage.listen(&writer, gave(called, true), false);
    let read = stage.cached(&reader, false);
    stage.known(&reader, gave(read, false));
    let closed = Kept { file, caching: None, serial: read.serial, write: false };
    stage.listen(&reader, vec![closed], false);
    let declines = |stage: &mut Stage| {
        stage.seconds(1);
        let offered = stage.told(&writer);
        assert_eq!(offered.caching, Caching::Exclusive);
        let kept = vec![Kept { file, caching: Some(Caching::Nothing), serial: offered.serial, write: true }];
        stage.listen(&writer, kept.clone(), false);
        kept
    };
    declines(&mut stage);
    for _ in 0..30 {
        stage.seconds(1);
        assert_eq!(stage.listen(&writer, Vec::new(), false).files, vec![]);
    }
    // What was in the way may be gone, and is when it is said again.
    let kept = declines(&mut stage);
    stage.listen(&writer, kept, false);
    stage.seconds(1);
    let offered = stage.told(&writer);
    assert_eq!(offered.caching, Caching::Exclusive);
    stage.listen(&writer, gave(offered, true), false);
    stage.seconds(40);
    assert_eq!(stage.manager.callbacks.told(file, writer.client), Some(offered), "it has taken it up");
}

#[test]
fn who_leaves_a_file_unfinished_and_reads_it_besides_keeps_nothing_of_it_before_it_is_mended() {
    let mut stage = Stage::new();
    let file = stage.made();
    let both = client(10);
    stage.keeps(&both);
    stage.cached(&both, true);
    let read = stage.cached(&both, false);
    assert_eq!(read.caching, Caching::Exclusive);
    stage.known(&both, gave(read, true));
    stage.change(&both, Change::Close(Close { unfinished: true, ..close(file) })).unwrap();
    let called = stage.told(&both);
    assert_eq!(called.caching, Caching::Nothing);
    stage.listen(&both, gave(called, false), false);
    stage.seconds(1);
    assert_eq!(stage.listen(&both, Vec::new(), false).files, vec![], "it is to be mended");
    stage.root(Change::Scrubbed(Scrubbed { file })).unwrap();
    stage.seconds(1);
    assert_eq!(stage.told(&both).caching, Caching::Shared);
}

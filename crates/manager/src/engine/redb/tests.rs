//! What redb says is durable is, whatever a power cut takes of what was not.

use super::Redb;
use crate::engine::conformance::{Plain, by_chance, put, transaction};
use crate::engine::{Engine, Pair};
use crate::manager::{Asked, Manager, Now, Settings};
use crate::principal::Principal;
use crate::seeds::{Chance, each};
use forebay_model::{Bytes, Kind, Moment, Timestamp};
use forebay_wire::control::names::{List, MakeDirectory, Place};
use forebay_wire::control::volumes::Policy;
use forebay_wire::control::{Call, Change, Question, Reply};
use redb::StorageBackend;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};

const SECTOR: usize = 512;

#[derive(Debug, Clone)]
enum Unsynced {
    Length(u64),
    Write(u64, Vec<u8>),
}

/// A device in memory: what is synced stays, and of the rest a power cut leaves what it likes.
#[derive(Debug, Default)]
struct State {
    synced: Vec<u8>,
    now: Vec<u8>,
    unsynced: Vec<Unsynced>,
    ios: u64,
    cut_at: Option<u64>,
    /// Whether the next wait for the device fails: then what was to be written is not, and never will be, though it is shown.
    sync_fails: bool,
}

#[derive(Debug, Clone, Default)]
struct Disk(Arc<Mutex<State>>);

impl Disk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// As [`forebay_env::real::file::forget_cached`] does it.
    fn forget_cached(&self) {
        let mut state = self.state();
        write_out(&mut state);
        state.now = state.synced.clone();
    }

    /// Counts an I/O, or is off since one.
    fn io(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        if state.cut_at.is_some_and(|cut| state.ios >= cut) {
            return Err(io::Error::other("the power is off"));
        }
        state.ios += 1;
        Ok(state)
    }

    /// The device after a power cut: any part of what was not synced is there.
    fn after_cut(&self, chance: &Chance) -> Disk {
        let state = self.state();
        let mut left = state.synced.clone();
        // None of it, all of it, or any.
        let mood = chance.below(4);
        let is_kept = || mood == 1 || mood > 1 && chance.once_in(2);
        for change in &state.unsynced {
            match change {
                Unsynced::Length(length) if is_kept() => left.resize(*length as usize, 0),
                Unsynced::Length(_) => {}
                Unsynced::Write(at, bytes) => {
                    let piece = if mood == 3 { SECTOR } else { bytes.len().max(1) };
                    for (index, bytes) in bytes.chunks(piece).enumerate().filter(|_| is_kept()) {
                        write(&mut left, *at as usize + index * piece, bytes);
                    }
                }
            }
        }
        Disk(Arc::new(Mutex::new(State { now: left.clone(), synced: left, ..State::default() })))
    }
}

/// What is known to be unwritten goes to the device, and nothing else.
fn write_out(state: &mut State) {
    for change in std::mem::take(&mut state.unsynced) {
        match change {
            Unsynced::Length(length) => state.synced.resize(length as usize, 0),
            Unsynced::Write(at, bytes) => write(&mut state.synced, at as usize, &bytes),
        }
    }
}

fn write(to: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if to.len() < at + bytes.len() {
        to.resize(at + bytes.len(), 0);
    }
    to[at..at + bytes.len()].copy_from_slice(bytes);
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state().now.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.state();
        let there = state.now.get(offset as usize..offset as usize + out.len());
        out.copy_from_slice(there.ok_or_else(|| io::Error::other("behind the end"))?);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut state = self.io()?;
        state.now.resize(length as usize, 0);
        state.unsynced.push(Unsynced::Length(length));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.io()?;
        if std::mem::take(&mut state.sync_fails) {
            state.unsynced.clear();
            return Err(io::Error::other("nothing was written"));
        }
        write_out(&mut state);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.io()?;
        write(&mut state.now, offset as usize, data);
        state.unsynced.push(Unsynced::Write(offset, data.to_vec()));
        Ok(())
    }
}

fn open(disk: &Disk) -> forebay_model::Result<Redb> {
    Redb::on(disk.clone(), Bytes::mib(1))
}

fn content(engine: &Redb) -> Vec<Pair> {
    engine.snapshot().unwrap().scan(b"", b"\xff", 99).unwrap()
}

/// Commits groups until the power is off; what has to be there then, and what may be instead.
fn live(disk: &Disk, plain: &mut Plain, chance: &Chance, groups: u64) -> Vec<Vec<Pair>> {
    let Ok(mut engine) = open(disk) else { return vec![plain.pairs()] };
    for _ in 0..groups {
        let before = plain.pairs();
        let group = by_chance(chance);
        let outcomes = plain.commit(&group);
        match engine.commit(&group) {
            Ok(committed) => assert_eq!(committed, outcomes),
            // It is there as a whole, or not at all: one transaction of redb.
            Err(_) => return vec![before, plain.pairs()],
        }
    }
    vec![plain.pairs()]
}

#[test]
fn what_was_committed_is_there_after_a_cut_at_every_io() {
    each(6, |chance| {
        let story = chance.next();
        let again = || Chance::of(story);
        // The first part is whole; the cut is somewhere in the second.
        let first = Disk::default();
        let mut plain = Plain { map: Default::default() };
        live(&first, &mut plain, &again(), 4);
        let ios = {
            let disk = first.after_cut(&again());
            live(&disk, &mut Plain { map: plain.map.clone() }, &again(), 5);
            disk.state().ios
        };
        assert!(ios > 20, "{ios} I/Os are a short story");
        for cut in 0..ios {
            let disk = first.after_cut(&again());
            disk.state().cut_at = Some(cut);
            let mut plain = Plain { map: plain.map.clone() };
            let may = live(&disk, &mut plain, &again(), 5);
            let after = disk.after_cut(chance);
            let engine = open(&after).unwrap_or_else(|error| panic!("cut at I/O {cut}: {error}"));
            let found = content(&engine);
            assert!(may.contains(&found), "cut at I/O {cut}: {} keys, and not those committed", found.len());
            drop(engine);
            // And it stays so, also if the power is cut again at once.
            let engine = open(&after.after_cut(chance)).unwrap();
            assert_eq!(content(&engine), found, "cut at I/O {cut}, and again");
        }
    });
}

#[test]
fn after_a_wait_that_failed_only_what_the_device_has_is_gone_on_with() {
    each(6, |chance| {
        let story = Chance::of(chance.next());
        let disk = Disk::default();
        let mut plain = Plain { map: Default::default() };
        assert_eq!(live(&disk, &mut plain, &story, 4).len(), 1);
        let mut engine = open(&disk).unwrap();
        let before = content(&engine);
        assert_eq!(before, plain.pairs());
        disk.state().sync_fails = true;
        assert!(engine.commit(&[transaction(vec![], vec![put(b"refused", b"")])]).is_err());
        drop(engine);
        disk.forget_cached();
        let mut engine = open(&disk).unwrap();
        assert_eq!(content(&engine), before, "what was refused is there, or what was there is not");
        for _ in 0..3 {
            let group = by_chance(&story);
            assert_eq!(engine.commit(&group).unwrap(), plain.commit(&group));
        }
        drop(engine);
        // What was acknowledged since is there without anything that only the kernel had.
        let after = open(&disk.after_cut(chance)).unwrap();
        assert_eq!(content(&after), plain.pairs());
    });
}

/// Makes files in batches until the power is off, and says how many batches were answered.
fn make(disk: &Disk, batches: u64) -> u64 {
    let Ok(engine) = open(disk) else { return 0 };
    let Ok(mut manager) = Manager::open(Box::new(engine), Rc::new(Chance::of(3)), Settings::default()) else {
        return 0;
    };
    for batch in 0..batches {
        if manager.apply(NOW, &files(batch)).iter().any(|answer| answer.is_err()) {
            return batch;
        }
    }
    batches
}

const NOW: Now = Now { wall: Timestamp(1), moment: Moment(1) };

/// Directories of a batch, which take no targets.
fn files(batch: u64) -> Vec<Asked> {
    let one = |number: u64| {
        let place = Place::path(format!("{batch}-{number}"));
        let change = Change::MakeDirectory(MakeDirectory { place, mode: 0o755 });
        Asked { by: Principal::root(1), call: Call { sequence: batch * 100 + number, change } }
    };
    (0..40).map(one).collect()
}

#[test]
fn what_a_manager_answered_is_there_after_a_cut_at_every_io() {
    each(2, |chance| {
        let first = Disk::default();
        let mut engine = open(&first).unwrap();
        Manager::create(&mut engine, 1, Policy::default(), Timestamp(1), chance).unwrap();
        drop(engine);
        let whole = first.after_cut(chance);
        assert_eq!(make(&whole, 3), 3);
        let ios = whole.state().ios;
        for cut in 0..ios {
            let disk = first.after_cut(chance);
            disk.state().cut_at = Some(cut);
            let answered = make(&disk, 3);
            let after = open(&disk.after_cut(chance)).unwrap();
            let mut manager = Manager::open(Box::new(after), Rc::new(Chance::of(4)), Settings::default()).unwrap();
            let Reply::Page(page) = manager.ask(NOW, &Principal::root(1), &all()).unwrap() else { panic!("no page") };
            let there = page.entries.len() as u64;
            assert!(
                there.is_multiple_of(40) && (answered..=answered + 1).contains(&(there / 40)),
                "{there} after {answered}"
            );
            // Asked for again, each is carried out once.
            for batch in 0..3 {
                assert!(manager.apply(NOW, &files(batch)).iter().all(|answer| answer.is_ok()), "cut at I/O {cut}");
            }
            let Reply::Page(page) = manager.ask(NOW, &Principal::root(1), &all()).unwrap() else { panic!("no page") };
            assert_eq!(page.entries.len(), 120);
        }
    });
}

fn all() -> Question {
    Question::List(List { place: Place::path("/"), after: String::new(), most: 4096, attributes: true })
}

#[test]
fn a_file_that_is_open_is_not_opened_again_and_one_that_is_no_database_is_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("metadata");
    let engine = Redb::open(&path, Bytes::mib(1)).unwrap();
    let error = Redb::open(&path, Bytes::mib(1)).err().unwrap();
    assert_eq!(error.kind, Kind::Busy);
    assert!(error.message.contains("another process has it"), "{error}");
    drop(engine);
    assert!(Redb::open(&path, Bytes::mib(1)).is_ok());
    let other = directory.path().join("other");
    forebay_env::real::file::replace(&other, &[7; 100_000]).unwrap();
    let error = Redb::open(&other, Bytes::mib(1)).err().unwrap();
    assert!(error.kind == Kind::Damaged && error.message.contains("manager recover --over"), "{error}");
    let missing = Redb::open(&directory.path().join("not/there"), Bytes::mib(1)).err().unwrap();
    assert_eq!(missing.kind, Kind::Missing);
}

//! One client at work: operations by chance on files of its own, and on those that it shares with others.
//!
//! Each operation ends within [`DEADLINE`], well or with an error that says that something was not there; each answer is one
//! that the model allows. A file of which something failed is recovered before it is used again.

mod together;

use super::Tally;
use super::chances::Extent;
use super::mend;
use super::model::{Owned, Undecided, first_difference};
use super::registers::Registers;
use super::shared::Shared;
use crate::cluster::ClientMachine;
use bytes::Bytes as Slice;
use forebay_client::file::options::{Options, Sharing};
use forebay_client::files::File;
use forebay_env::race::{First, race};
use forebay_env::{Clock, Random};
use forebay_model::layout::Raid;
use forebay_model::{Bytes, Error, Kind, Result};
use forebay_wire::control::names::FileId;
use forebay_wire::control::volumes::Policy;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

/// The longest that anything may take while something fails: twice what the longest cut takes, and until it is found out.
pub(in crate::cluster) const DEADLINE: Duration = Duration::from_secs(60);
/// What is said of targets and of components that are gone.
const GONE: [&str; 9] = [
    "cannot be given up",
    "can be told how long the file is",
    "until it is rebuilt",
    "the target stopped after its device failed",
    "is lost beside",
    "targets that are lost",
    "and RAID 0 keeps nothing beside it",
    "no copy of component",
    "all components of",
];

/// What all clients of a life have in common.
pub(super) struct Common {
    pub(super) owned: Vec<RefCell<Owned>>,
    pub(super) shared: Vec<RefCell<Shared>>,
    pub(super) registers: Vec<RefCell<Registers>>,
    /// How large all of it is.
    pub(super) extent: Extent,
    pub(super) tally: RefCell<Tally>,
    /// The longest that anything may take.
    pub(super) deadline: Cell<Duration>,
    /// Clients end with what they are doing.
    pub(super) stop: Cell<bool>,
    /// Whether something has rotted.
    pub(super) rotten: Cell<bool>,
}

/// One client's hand.
pub(super) struct Hand {
    pub(super) number: usize,
    pub(super) machine: ClientMachine,
    pub(super) common: Rc<Common>,
    pub(super) clock: Rc<dyn Clock>,
    pub(super) random: Rc<dyn Random>,
    open: BTreeMap<u64, (File, bool)>,
    /// Files that others use as well, and whether they are open to write.
    sharing: BTreeMap<usize, (File, bool)>,
}

/// Ends with `future`, which has to end within `limit`.
pub(in crate::cluster) async fn within<T>(
    clock: &Rc<dyn Clock>,
    limit: Duration,
    what: &str,
    future: impl Future<Output = T>,
) -> T {
    match race(future, clock.sleep(limit)).await {
        First::Left(value) => value,
        First::Right(()) => panic!("{what} did not end within {limit:?}"),
    }
}

/// What was answered, unless something was not there.
pub(super) fn expected<T>(what: &str, answer: Result<T>) -> Option<T> {
    match answer {
        Ok(value) => Some(value),
        Err(error) if was_not_there(&error) => None,
        Err(error) => panic!("{what}: {error:?}"),
    }
}

/// Whether an error says that something was not there for a while. That it was a device is said by a target whose disk
/// failed, and by a client of components that it cannot do without.
fn was_not_there(error: &Error) -> bool {
    match error.kind {
        Kind::Disconnected | Kind::Busy | Kind::Stale | Kind::Restarted => true,
        // Somebody else may have had the lock.
        Kind::Refused => ["write it again", "look whether it is there"].iter().any(|said| error.message.contains(said)),
        Kind::Device => GONE.iter().any(|said| error.message.contains(said)),
        _ => false,
    }
}

/// How files are read and written here: so that a few hundred KiB are many requests.
pub(in crate::cluster) fn options(sharing: Sharing) -> Options {
    Options {
        sharing,
        window: Bytes::kib(512),
        component_window: Bytes::kib(128),
        gather: Bytes::kib(128),
        request: Bytes::kib(64),
        bridge: Bytes::kib(8),
        ahead: Bytes::kib(128),
        cache: Bytes::kib(256),
        ..Options::default()
    }
}

impl Hand {
    pub(super) fn new(
        number: usize,
        machine: ClientMachine,
        common: Rc<Common>,
        clock: Rc<dyn Clock>,
        random: Rc<dyn Random>,
    ) -> Hand {
        Hand { number, machine, common, clock, random, open: BTreeMap::new(), sharing: BTreeMap::new() }
    }

    /// Works until it is told to stop, and closes what is open then.
    pub(super) async fn work(mut self) {
        while !self.common.stop.get() {
            if self.random.below(3) == 0 {
                self.clock.sleep(Duration::from_millis(self.random.below(50))).await;
            }
            if self.common.shared.is_empty() || self.random.below(2) == 0 {
                self.own().await;
            } else {
                self.together().await;
            }
            self.common.tally.borrow_mut().operations += 1;
        }
        for key in self.open.keys().copied().collect::<Vec<_>>() {
            self.close(key).await;
        }
        for (file, _) in std::mem::take(&mut self.sharing).into_values() {
            expected("closing a shared file", self.within("closing a shared file", file.close()).await);
        }
    }

    fn owned(&self) -> &RefCell<Owned> {
        &self.common.owned[self.number]
    }

    async fn within<T>(&self, what: &str, future: impl Future<Output = T>) -> T {
        let what = format!("client {}: {what} begun at {:?}", self.number, self.clock.now());
        let begun = self.clock.now();
        let value = within(&self.clock, self.common.deadline.get(), &what, future).await;
        let taken = self.clock.now().since(begun);
        let mut tally = self.common.tally.borrow_mut();
        tally.longest = tally.longest.max(taken);
        value
    }

    /// Something failed: it is tried again later, not at once.
    async fn rest(&self) {
        self.common.tally.borrow_mut().failed += 1;
        self.clock.sleep(Duration::from_millis(500)).await;
    }

    async fn own(&mut self) {
        if self.owned().borrow().undecided.is_some() {
            return self.list().await;
        }
        let keys: Vec<u64> = self.owned().borrow().files.keys().copied().collect();
        if keys.is_empty() || self.random.below(12) == 0 && keys.len() < self.common.extent.files {
            return self.create().await;
        }
        let key = keys[self.random.below(keys.len() as u64) as usize];
        if self.owned().borrow().files[&key].in_doubt {
            return self.recover(key).await;
        }
        let is_open = self.open.get(&key).map(|(_, write)| *write);
        match (is_open, self.random.below(20)) {
            (_, 0) => self.list().await,
            (None, 1) => self.remove(key).await,
            // Who has it open is refused from then on, or when capabilities run out.
            (Some(_), 1) if self.random.below(4) == 0 => {
                self.remove(key).await;
                let is_there = self.owned().borrow().files.contains_key(&key);
                match is_there {
                    true => self.fail(key).await,
                    false => drop(self.open.remove(&key)),
                }
            }
            (None, 2 | 3) => self.rename(key).await,
            (_, 4) => self.stat(key).await,
            (None, chance) => self.reopen(key, chance > 7).await,
            (Some(_), 5 | 6) => self.close(key).await,
            (Some(true), 7 | 8) => self.flush(key).await,
            (Some(true), 9..=14) => self.write(key).await,
            (Some(true), 15 | 16) => self.append(key).await,
            (Some(true), 17) => self.cut(key).await,
            (Some(_), _) => self.read(key).await,
        }
    }

    async fn list(&self) {
        let directory = self.owned().borrow().directory.clone();
        let answer = self.within("list", self.machine.files.list(&directory, "")).await;
        let Some((listed, more)) = expected("list", answer) else { return self.rest().await };
        assert!(!more, "a page has room for them");
        let listed: BTreeMap<String, FileId> = listed.into_iter().map(|one| (one.name, one.file)).collect();
        let decided = self.owned().borrow_mut().listed(&listed);
        decided.unwrap_or_else(|wrong| panic!("{wrong}"));
    }

    async fn stat(&self, key: u64) {
        let path = self.path(key);
        let answer = self.within("stat", self.machine.files.stat(&path)).await;
        let Some(entry) = expected("stat", answer) else { return self.rest().await };
        assert_eq!(Some(entry.file), self.owned().borrow().files[&key].file, "{path} is another file");
    }

    fn path(&self, key: u64) -> String {
        let owned = self.owned().borrow();
        owned.path(&owned.name_of(key))
    }

    fn a_name(&self) -> String {
        format!("f{}", self.random.below(2 * self.common.extent.files as u64))
    }

    fn policy(&self) -> Policy {
        let raids = [Raid::Zero, Raid::One(2), Raid::Five, Raid::Five, Raid::Five, Raid::One(3)];
        let raid = raids[self.random.below(raids.len() as u64) as usize];
        let unit = Bytes::kib(4 << self.random.below(4));
        Policy { raid, unit, targets: 3 + self.random.below(3) as u32 }
    }

    async fn create(&mut self) {
        let (name, policy) = (self.a_name(), self.policy());
        if self.owned().borrow().names.contains_key(&name) {
            return;
        }
        let (key, path) = {
            let mut owned = self.owned().borrow_mut();
            let key = owned.fresh(policy.raid);
            owned.begin(Undecided::Create { name: name.clone(), key });
            (key, owned.path(&name))
        };
        let answer =
            self.within("create", self.machine.files.create(&path, 0o644, Some(policy), options(Sharing::Alone))).await;
        if let Err(error) = &answer
            && error.kind == Kind::Refused
        {
            // Too few targets are up.
            self.owned().borrow_mut().decide(false);
            return self.rest().await;
        }
        if self.is_taken_late(&answer, &name) {
            self.owned().borrow_mut().decide(false);
            return self.list().await;
        }
        let Some(file) = expected("create", answer) else { return self.rest().await };
        let mut owned = self.owned().borrow_mut();
        owned.decide(true);
        owned.files.get_mut(&key).expect("it was made").file = Some(file.entry().file);
        drop(owned);
        self.open.insert(key, (file, true));
    }

    /// Whether a name is refused because of a change that was asked for before, by a client that is gone, and came since.
    fn is_taken_late<T>(&self, answer: &Result<T>, name: &str) -> bool {
        answer.as_ref().is_err_and(|error| error.kind == Kind::Exists) && self.owned().borrow().may_be_taken(name)
    }

    async fn reopen(&mut self, key: u64, write: bool) {
        let path = self.path(key);
        let files = &self.machine.files;
        let answer = match write {
            true => self.within("open to write", files.open_to_write(&path, options(Sharing::Alone))).await,
            false => self.within("open", files.open(&path, options(Sharing::Alone))).await,
        };
        let Some(file) = expected("open", answer) else { return self.rest().await };
        let Some(size) = expected("size", self.within("size", file.size()).await) else {
            self.end(file).await;
            return self.rest().await;
        };
        assert_eq!(size.0 as usize, self.owned().borrow().files[&key].current.len(), "{path}");
        self.open.insert(key, (file, write));
    }

    /// Nothing is known of what was written last.
    async fn fail(&mut self, key: u64) {
        if let Some(known) = self.owned().borrow_mut().files.get_mut(&key) {
            known.in_doubt = true;
        }
        if let Some((file, _)) = self.open.remove(&key) {
            // It ends what it has under way, and says that it failed.
            self.end(file).await;
        }
        self.rest().await;
    }

    /// Ends what is under way with a file of which something failed, and which may be removed by now.
    async fn end(&self, file: File) {
        match self.within("closing what failed", file.close()).await {
            Err(error) if error.kind == Kind::Missing => {}
            closed => drop(expected("closing what failed", closed)),
        }
    }

    async fn recover(&mut self, key: u64) {
        if let Some((file, _)) = self.open.remove(&key) {
            self.end(file).await;
        }
        let path = self.path(key);
        let Some(file) = self.owned().borrow().files[&key].file else { return self.list().await };
        let found = match self.within("recover", mend::recovered(&self.machine, file)).await {
            Ok(()) => self.within("reading what was recovered", mend::read(&self.machine.files, &path)).await,
            Err(error) => Err(error),
        };
        let Some(found) = expected("recover", found) else { return self.rest().await };
        let mut owned = self.owned().borrow_mut();
        let known = owned.files.get_mut(&key).expect("nobody else removes it");
        known.found(found).unwrap_or_else(|wrong| panic!("{path} after it was recovered: {wrong}"));
        self.common.tally.borrow_mut().recovered += 1;
    }

    async fn remove(&mut self, key: u64) {
        let (name, path) = (self.owned().borrow().name_of(key), self.path(key));
        self.owned().borrow_mut().begin(Undecided::Remove { name });
        let answer = self.within("remove", self.machine.files.remove(&path)).await;
        match expected("remove", answer) {
            Some(()) => self.owned().borrow_mut().decide(true),
            None => self.rest().await,
        }
    }

    async fn rename(&mut self, key: u64) {
        let (from, to) = (self.owned().borrow().name_of(key), self.a_name());
        let replaced = self.owned().borrow().names.get(&to).copied();
        if replaced.is_some_and(|other| other == key || self.open.contains_key(&other)) {
            return;
        }
        let (old, new) = (self.path(key), self.owned().borrow().path(&to));
        self.owned().borrow_mut().begin(Undecided::Rename { from, to });
        let answer = self.within("rename", self.machine.files.rename(&old, &new, false)).await;
        match expected("rename", answer) {
            Some(_) => self.owned().borrow_mut().decide(true),
            None => self.rest().await,
        }
    }

    fn bytes(&self, most: u64) -> Vec<u8> {
        let length = 1 + match self.random.below(3) {
            0 => self.random.below(most.min(600)),
            1 => self.random.below(most.min(20_000)),
            _ => self.random.below(most),
        };
        let mut seed = self.random.next_u64();
        let mut byte = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 56) as u8 | 1
        };
        (0..length).map(|_| byte()).collect()
    }

    async fn write(&mut self, key: u64) {
        let size = self.owned().borrow().files[&key].current.len() as u64;
        let at = self.random.below(size + 1 + self.random.below(2) * 20_000);
        let bytes = self.bytes(100_000);
        if at + bytes.len() as u64 > self.common.extent.largest {
            return;
        }
        self.note_write(key, at as usize, &bytes);
        let (file, _) = &self.open[&key];
        let answer = self.within("write", file.write_at(Bytes(at), Slice::from(bytes))).await;
        if expected("write", answer).is_none() {
            self.fail(key).await;
        }
    }

    async fn append(&mut self, key: u64) {
        let size = self.owned().borrow().files[&key].current.len();
        let bytes = self.bytes(60_000);
        if (size + bytes.len()) as u64 > self.common.extent.largest {
            return;
        }
        self.note_write(key, size, &bytes);
        let (file, _) = &self.open[&key];
        let answer = self.within("append", file.engine().append(Slice::from(bytes))).await;
        match expected("append", answer) {
            Some(at) => assert_eq!(at.0 as usize, size, "where it was appended"),
            None => self.fail(key).await,
        }
    }

    async fn cut(&mut self, key: u64) {
        let size = self.owned().borrow().files[&key].current.len() as u64;
        let size = match self.random.below(4) {
            0 => (size + self.random.below(20_000)).min(self.common.extent.largest),
            1 => self.random.below(size + 1) / 4096 * 4096,
            _ => self.random.below(size + 1),
        };
        self.owned().borrow_mut().files.get_mut(&key).expect("it is open").cut(size as usize);
        let (file, _) = &self.open[&key];
        let what = format!("cutting {} ({})", self.path(key), self.owned().borrow().files[&key].raid);
        let answer = self.within(&what, file.truncate(Bytes(size))).await;
        match expected(&what, answer) {
            Some(()) => {
                self.settle(key);
                self.common.tally.borrow_mut().cuts += 1;
            }
            None => self.fail(key).await,
        }
    }

    fn note_write(&self, key: u64, at: usize, bytes: &[u8]) {
        let mut owned = self.owned().borrow_mut();
        owned.files.get_mut(&key).expect("it is open").write(at, bytes);
        self.common.tally.borrow_mut().written += bytes.len() as u64;
    }

    async fn flush(&mut self, key: u64) {
        let (file, _) = &self.open[&key];
        let answer = self.within("flush", file.flush()).await;
        match expected("flush", answer) {
            Some(()) => self.settle(key),
            None => self.fail(key).await,
        }
    }

    fn settle(&self, key: u64) {
        self.owned().borrow_mut().files.get_mut(&key).expect("it is open").flushed();
        self.common.tally.borrow_mut().flushes += 1;
    }

    async fn close(&mut self, key: u64) {
        let Some((file, write)) = self.open.remove(&key) else { return };
        let answer = self.within("close", file.close()).await;
        match expected("close", answer) {
            Some(()) if write => self.settle(key),
            Some(()) => {}
            None if write => self.fail(key).await,
            None => self.rest().await,
        }
    }

    async fn read(&mut self, key: u64) {
        let size = self.owned().borrow().files[&key].current.len() as u64;
        let from = self.random.below(size + 100);
        let length = 1 + self.random.below(80_000);
        let (file, write) = &self.open[&key];
        let write = *write;
        let answer = self.within("read", file.read_at(Bytes(from), Bytes(length))).await;
        let path = self.path(key);
        match expected("read", answer) {
            Some(bytes) => {
                let owned = self.owned().borrow();
                let current = &owned.files[&key].current;
                let should =
                    &current[(from as usize).min(current.len())..((from + length) as usize).min(current.len())];
                if let Some(at) = first_difference(&bytes, should) {
                    panic!(
                        "client {}: {path} ({}) has byte {} as {:?} and not {:?}; {} bytes were acknowledged, there {:?}",
                        self.number,
                        owned.files[&key].raid,
                        from as usize + at,
                        bytes.get(at),
                        should.get(at),
                        owned.files[&key].settled.len(),
                        owned.files[&key].settled.get(from as usize + at)
                    );
                }
                self.common.tally.borrow_mut().compared += bytes.len() as u64;
            }
            None if write => self.fail(key).await,
            None => self.close(key).await,
        }
    }
}

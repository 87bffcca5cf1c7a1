//! Files of which components were given up: each is made anew of the others, where it was or on another target.
//!
//! Whoever rebuilds has the file open beside those who write it, under locks; who wants to be alone with it comes first, and it
//! is rebuilt later. Any number of clients may do this at once: what one rebuilds the manager lets no other one begin.

use super::{Files, Purpose};
use crate::control::{Control, strange};
use crate::file::FileEngine;
use crate::file::options::Options;
use forebay_env::Random;
use forebay_env::together::all;
use forebay_model::{Bytes, Error, Kind, Moment, Result};
use forebay_wire::control::files::AskDegraded;
use forebay_wire::control::names::FileId;
use forebay_wire::control::{Question, Reply};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Files that are asked for at once: many, so that clients that begin anywhere among them seldom meet.
const PAGE: u32 = 4096;
/// Files that one client rebuilds at the same time.
const AT_ONCE: usize = 2;
/// Of a component, so much is rebuilt in one step; who closes the file or stops waits for that.
const STEP: Bytes = Bytes::mib(16);

/// Where what tells of the others is damaged a file is left alone for so long at first and at most, twice as long each time: it would be
/// tried for nothing until that is made good.
const LOST: (Duration, Duration) = (Duration::from_secs(60), Duration::from_hours(1));
/// The same of a file that somebody is alone with.
const ALONE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(2));

/// What was rebuilt of one file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// Components that are whole again.
    pub components: u32,
    /// Bytes that were written for that.
    pub written: Bytes,
    /// Bytes of these components that are lost, since others of which they would be made are damaged.
    pub lost: Bytes,
}

/// Files that are not tried again for a while.
pub(super) struct Resting {
    now: Box<dyn Fn() -> Moment>,
    /// Until when, and for how long.
    files: RefCell<BTreeMap<FileId, (Moment, Duration)>>,
}

impl Resting {
    pub(super) fn new(now: impl Fn() -> Moment + 'static) -> Resting {
        Resting { now: Box::new(now), files: RefCell::default() }
    }

    fn rests(&self, file: FileId) -> bool {
        self.files.borrow().get(&file).is_some_and(|(until, _)| (self.now)() < *until)
    }

    fn rest(&self, file: FileId, (first, most): (Duration, Duration)) {
        let (now, mut files) = ((self.now)(), self.files.borrow_mut());
        if files.len() >= PAGE as usize {
            files.retain(|_, (until, _)| now < *until);
        }
        let span = files.get(&file).map_or(first, |(_, span)| (*span * 2).min(most));
        files.insert(file, (now + span, span));
    }

    fn tried(&self, file: FileId, rebuilt: &Result<Option<Rebuilt>>) {
        match rebuilt {
            Err(error) if error.kind == Kind::Damaged => self.rest(file, LOST),
            Err(error) if error.kind == Kind::Busy => self.rest(file, ALONE),
            _ => drop(self.files.borrow_mut().remove(&file)),
        }
    }
}

/// The manager's list, of which each file is tried once. It is asked for anew when others turn out to be at what is next there:
/// that costs much less than to open one file after the other that they are at or have done, and nobody waits for it who is at
/// another one. What others are at by then is not on it.
struct MissingList<'a> {
    control: &'a dyn Control,
    random: &'a dyn Random,
    resting: &'a Resting,
    /// Those with lower numbers were all tried.
    after: Cell<FileId>,
    tried: RefCell<BTreeSet<FileId>>,
    left: RefCell<Vec<FileId>>,
}

impl<'a> MissingList<'a> {
    fn of(control: &'a dyn Control, random: &'a dyn Random, resting: &'a Resting) -> MissingList<'a> {
        let after = Cell::new(FileId(0));
        MissingList { control, random, resting, after, tried: RefCell::default(), left: RefCell::default() }
    }

    /// Has what is on it rebuilt, some files at a time; `told` of each that was tried.
    async fn rebuild_all(
        &self,
        rebuild: impl AsyncFn(FileId) -> Result<Option<Rebuilt>>,
        told: impl Fn(FileId, Result<Rebuilt>),
    ) -> Result<()> {
        let hand = || async {
            while let Some(file) = self.next().await? {
                let rebuilt = rebuild(file).await;
                self.resting.tried(file, &rebuilt);
                match rebuilt {
                    Ok(None) | Err(Error { kind: Kind::Missing | Kind::Stale, .. }) => self.is_met(),
                    // The next ones may be in the same hands: to ask for each of them what is left would go on for ever.
                    Err(Error { kind: Kind::Busy, .. }) => {}
                    rebuilt => told(file, rebuilt.map(Option::unwrap_or_default)),
                }
            }
            Ok(())
        };
        all((0..AT_ONCE).map(|_| hand())).await.into_iter().collect()
    }

    /// Somebody else is at the file that was next, has done it, or has removed it.
    fn is_met(&self) {
        self.left.borrow_mut().clear();
    }

    /// The next file; nothing at the end.
    async fn next(&self) -> Result<Option<FileId>> {
        loop {
            if let Some(file) = { self.left.borrow_mut().pop() } {
                self.tried.borrow_mut().insert(file);
                return Ok(Some(file));
            }
            let after = self.after.get();
            let asked = Question::Degraded(AskDegraded { file: after, most: PAGE, left: true });
            let mut found = match self.control.ask(asked).await? {
                Reply::Degraded(found) => found,
                other => return Err(strange(&other)),
            };
            if self.after.get() != after {
                // Another hand has come further meanwhile, and forgot what it tried before.
                continue;
            }
            let last = found.files.last().copied();
            let mut tried = self.tried.borrow_mut();
            // What is not on the list any more is not come upon again.
            let is_listed = |file: &FileId| found.files.binary_search(file).is_ok();
            tried.retain(|file| is_listed(file) || last.is_some_and(|last| *file > last));
            found.files.retain(|file| !tried.contains(file) && !self.resting.rests(*file));
            match last {
                Some(_) if !found.files.is_empty() => {}
                Some(last) if found.more => {
                    self.after.set(last);
                    continue;
                }
                _ => return Ok(None),
            }
            // Clients that begin elsewhere in the list seldom meet.
            let first = self.random.below(found.files.len() as u64) as usize;
            found.files.rotate_left(first);
            self.left.replace(found.files);
        }
    }
}

impl Files {
    /// Rebuilds what is on the manager's list, some files at a time; `told` of each. Only root may ask for that.
    pub async fn rebuild_missing(&self, told: impl Fn(FileId, Result<Rebuilt>)) -> Result<()> {
        self.rebuild_missing_but(&self.resting(), told).await
    }

    /// Nothing rests yet.
    pub(super) fn resting(&self) -> Resting {
        let clock = self.nodes.env().clock.clone();
        Resting::new(move || clock.now())
    }

    /// The same, of what does not rest.
    pub(super) async fn rebuild_missing_but(
        &self,
        resting: &Resting,
        told: impl Fn(FileId, Result<Rebuilt>),
    ) -> Result<()> {
        let list = MissingList::of(&*self.control, &*self.nodes.env().random, resting);
        list.rebuild_all(async |file| self.rebuild(file).await, told).await
    }

    /// Rebuilds what can be of a file; `None` if somebody else does.
    pub async fn rebuild(&self, file: FileId) -> Result<Option<Rebuilt>> {
        if self.used(file).is_alone() {
            return Ok(None);
        }
        let opened = self.open_found(file, Options::beside(), Purpose::Upkeep).await?;
        let rebuilt = rebuild_all(opened.engine()).await;
        let closed = opened.leave().await;
        let rebuilt = rebuilt?;
        closed.map(|()| rebuilt)
    }
}

async fn rebuild_all(engine: &FileEngine) -> Result<Option<Rebuilt>> {
    let (mut rebuilt, mut refused) = (Rebuilt::default(), None);
    for component in engine.missing() {
        let mut progress = match engine.begin_rebuild(component).await {
            Err(error) if error.kind == Kind::Busy => continue,
            // Its target is not there; others may be.
            Err(error) if error.kind == Kind::Device => {
                refused = Some(error);
                continue;
            }
            progress => progress?,
        };
        while !engine.rebuild(component, &mut progress, STEP).await? {}
        rebuilt.components += 1;
        rebuilt.written += progress.written;
        rebuilt.lost += progress.lost;
    }
    match refused {
        Some(error) if rebuilt.components == 0 => Err(error),
        _ => Ok((rebuilt.components > 0).then_some(rebuilt)),
    }
}

#[cfg(test)]
mod tests;

//! Files of which components were given up: each is made anew of the others, where it was or on another target.
//!
//! Whoever rebuilds has the file open beside those who write it, under locks; who wants to be alone with it comes first, and it
//! is rebuilt later. Any number of clients may do this at once: what one rebuilds the manager lets no other one begin.

use super::{Files, Purpose};
use crate::control::strange;
use crate::file::FileEngine;
use crate::file::options::Options;
use forebay_env::together::all;
use forebay_model::{Bytes, Error, Kind, Result};
use forebay_wire::control::files::After;
use forebay_wire::control::names::FileId;
use forebay_wire::control::{Question, Reply};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

/// Files that are asked for at once.
const PAGE: u32 = 256;
/// Files that one client rebuilds at the same time.
const AT_ONCE: usize = 2;
/// Files that others are at or have done, one after the other, until the list is asked for anew.
const MEETINGS: u32 = 4;
/// Of a component, so much is rebuilt in one step; who closes the file or stops waits for that.
const STEP: Bytes = Bytes::mib(16);

/// What was rebuilt of one file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// Components that are whole again.
    pub components: u32,
    /// Bytes that were written for that.
    pub written: Bytes,
}

impl Files {
    /// Rebuilds what is on the manager's list, some files at a time; `told` of each. Only root may ask for that.
    pub async fn rebuild_missing(&self, told: impl Fn(FileId, Result<Rebuilt>)) -> Result<()> {
        let (mut after, tried) = (FileId(0), RefCell::new(BTreeSet::new()));
        loop {
            let asked = Question::Degraded(After { file: after, most: PAGE });
            let mut found = match self.control.ask(asked).await? {
                Reply::Degraded(found) => found,
                other => return Err(strange(&other)),
            };
            let last = found.files.last().copied();
            found.files.retain(|file| !tried.borrow().contains(file));
            // Clients that begin elsewhere in the list seldom meet.
            let first = self.nodes.env().random.below(found.files.len().max(1) as u64) as usize;
            found.files.rotate_left(first);
            let (left, met) = (RefCell::new(found.files), Cell::new(0));
            let hand = || async {
                while met.get() < MEETINGS
                    && let Some(file) = { left.borrow_mut().pop() }
                {
                    tried.borrow_mut().insert(file);
                    match self.rebuild(file).await {
                        // Somebody else is at it or has done it, has it alone, or has removed it.
                        Ok(None) | Err(Error { kind: Kind::Missing | Kind::Busy | Kind::Stale, .. }) => {
                            met.set(met.get() + 1);
                        }
                        rebuilt => {
                            met.set(0);
                            told(file, rebuilt.map(Option::unwrap_or_default));
                        }
                    }
                }
            };
            all((0..AT_ONCE).map(|_| hand())).await;
            match last {
                // The rest of the page is asked for again: others have done much of it.
                Some(_) if !left.borrow().is_empty() => {}
                Some(last) if found.more => after = last,
                _ => return Ok(()),
            }
        }
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
    }
    match refused {
        Some(error) if rebuilt.components == 0 => Err(error),
        _ => Ok((rebuilt.components > 0).then_some(rebuilt)),
    }
}

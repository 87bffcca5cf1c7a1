//! Files that somebody left open to write and is gone: what was begun is ended, what was not acknowledged is cut off, and parity
//! and copies are compared with the bytes.
//!
//! In this order, so that whoever is interrupted begins again: the file is opened by one who is alone with it; it is fenced,
//! so that nobody who counts as gone writes it any more; it is recovered and scrubbed; it is struck off the manager's list; it is
//! closed with the size that was found. Until then nobody else opens it alone, who would not see what was begun.
//!
//! Several are mended at a time, and a file that takes long, or whose target does not answer, keeps no other one from it: those who
//! take from the list go on without the one that is at it.

use super::Files;
use super::listed::{Listed, Page};
use crate::control::strange;
use crate::file::Length;
use crate::file::options::Options;
use crate::file::recover;
use crate::file::remote::Opening;
use forebay_env::together::all;
use forebay_model::layout::Raid;
use forebay_model::{Bytes, Error, Kind, Result};
use forebay_wire::control::files::{Fence, FoundDamaged, Grant, OpenToWrite, Scrubbed, Unscrubbed};
use forebay_wire::control::names::{FileId, Place};
use forebay_wire::control::{Change, Question, Reply};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

/// Units of components that are scrubbed in one step.
const STEP: u64 = 64;
/// Files that are mended at the same time.
const AT_ONCE: usize = 4;
/// So long parity and copies of one are compared before others may write it: what was begun is ended by then, and all of it is compared
/// like that of any other file soon.
const COMPARED_FOR: Duration = Duration::from_secs(600);

/// What was found in one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mended {
    /// Updates that were begun, and are done now.
    pub ended: u64,
    /// How long the file is.
    pub size: Bytes,
    /// Bytes of parity or copies that did not agree, and do now.
    pub repaired: Bytes,
    /// Bytes of the file that are lost.
    pub lost: Vec<Range<u64>>,
}

fn page(reply: Reply) -> Result<Page> {
    match reply {
        Reply::Unscrubbed(Unscrubbed { files, more }) => Ok(Page { files, more }),
        other => Err(strange(&other)),
    }
}

impl Files {
    /// Mends what is on the manager's list, and that nobody writes now, some files at a time; `told` of each. Only root may ask for
    /// that.
    pub async fn mend_left(&self, told: impl FnMut(FileId, Result<Mended>)) -> Result<()> {
        let (env, told) = (self.nodes.env(), RefCell::new(told));
        let list = Listed::of(&*self.control, &*env.clock, Question::Unscrubbed, page);
        let hand = || async {
            while let Some(file) = list.next().await? {
                self.mend_next(&list, file, |file, mended| told.borrow_mut()(file, mended)).await;
            }
            Ok(())
        };
        all((0..AT_ONCE).map(|_| hand())).await.into_iter().collect()
    }

    /// The same again and again, with a pause between two rounds.
    pub(super) async fn mend_for_ever(&self, pause: Duration, told: impl Fn(FileId, Result<Mended>)) {
        let env = self.nodes.env();
        let list = Listed::of(&*self.control, &*env.clock, Question::Unscrubbed, page);
        let hand = || async {
            loop {
                list.again(pause);
                match list.next().await {
                    Ok(Some(file)) => self.mend_next(&list, file, &told).await,
                    // With the manager away there is nothing to mend either.
                    _ => env.clock.sleep(pause).await,
                }
            }
        };
        all((0..AT_ONCE).map(|_| hand())).await;
    }

    async fn mend_next(&self, list: &Listed<'_>, file: FileId, told: impl FnOnce(FileId, Result<Mended>)) {
        let mended = self.mend(file).await;
        list.tried(file);
        match mended {
            // Somebody writes it, and will close it; or it was removed meanwhile.
            Ok(None) => {}
            Err(error) if error.kind == Kind::Missing => {}
            Ok(Some(mended)) => told(file, Ok(mended)),
            Err(error) => told(file, Err(error)),
        }
    }

    /// Mends one file, unless somebody has it open to write.
    pub async fn mend(&self, file: FileId) -> Result<Option<Mended>> {
        // The manager takes others of this client for the one that mends, also one that rebuilds.
        let Ok(written) = self.used(file).alone().await else { return Ok(None) };
        // What is to be mended opens alone for those only who have it open already.
        let version = self.open_left(file, false).await?.entry.attributes.version;
        let mended = match self.open_left(file, true).await {
            Ok(_) => self.mend_alone(file, version + 1, written.opening()).await.map(Some),
            Err(error) if error.kind == Kind::Busy => Ok(None),
            Err(error) => Err(error),
        };
        // It was alone with it, and whatever others had said before is over.
        let length = |mended: &Mended| Length { cuts: None, size: mended.size };
        let length = mended.as_ref().ok().and_then(|mended| mended.as_ref().map(length));
        let closed = written.close(length).await;
        let mended = mended?;
        closed.map(|()| mended)
    }

    async fn mend_alone(&self, file: FileId, version: u64, opening: Opening) -> Result<Mended> {
        self.control.change(Change::Fence(Fence { file, version })).await?;
        let grant = self.open_left(file, true).await?;
        let striping = grant.striping;
        let components = self.components(grant.clone(), true, opening.clone()).await?;
        let env = self.nodes.env();
        let found = recover(Rc::new(components), striping, env.clock.clone(), env.spawner.clone()).await?;
        let mut mended = Mended { ended: found.ended, size: found.size, ..Mended::default() };
        if striping.raid() == Raid::Zero {
            return self.scrubbed(file).await.map(|()| mended);
        }
        let engine = self.engine(grant, Options::alone(), true, opening).await?;
        let (mut from, mut more) = (0, true);
        let late = env.clock.now() + COMPARED_FOR;
        while more {
            if env.clock.now() >= late {
                self.control.change(Change::FoundDamaged(FoundDamaged { file })).await?;
                break;
            }
            let (found, is_more) = engine.scrub(from, STEP).await?;
            mended.repaired += found.repaired;
            mended.lost.extend(found.lost);
            (from, more) = (from + STEP, is_more);
        }
        engine.close().await?;
        self.scrubbed(file).await.map(|()| mended)
    }

    /// Takes a file off the list, while nobody else can put it there again.
    async fn scrubbed(&self, file: FileId) -> Result<()> {
        match self.control.change(Change::Scrubbed(Scrubbed { file })).await {
            // It was not on the list.
            Err(error) if error.kind != Kind::Missing => Err(error),
            _ => Ok(()),
        }
    }

    async fn open_left(&self, file: FileId, alone: bool) -> Result<Grant> {
        let open = OpenToWrite { place: Place::of(file), alone, upkeep: true, yields: false, cached: false };
        match self.control.change(Change::OpenToWrite(open)).await? {
            Reply::Grant(grant) => Ok(grant),
            Reply::Calling => {
                Err(Error::busy(format!("somebody uses {file} by now, and is called back; it is mended later")))
            }
            other => Err(strange(&other)),
        }
    }
}

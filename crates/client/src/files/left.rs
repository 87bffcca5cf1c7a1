//! Files that somebody left open to write and is gone: what was begun is ended, what was not acknowledged is cut off, and parity
//! and copies are compared with the bytes.
//!
//! In this order, so that whoever is interrupted begins again: the file is opened by one who is alone with it; it is fenced,
//! so that nobody who counts as gone writes it any more; it is recovered and scrubbed; it is struck off the manager's list; it is
//! closed with the size that was found. Until then nobody else opens it alone, who would not see what was begun.

use super::Files;
use crate::control::strange;
use crate::file::Length;
use crate::file::options::Options;
use crate::file::recover;
use forebay_model::layout::Raid;
use forebay_model::{Bytes, Error, Kind, Result};
use forebay_wire::control::files::{After, Fence, Grant, OpenToWrite, Scrubbed};
use forebay_wire::control::names::{FileId, Place};
use forebay_wire::control::{Change, Question, Reply};
use std::ops::Range;
use std::rc::Rc;

/// Files that are asked for at once.
const PAGE: u32 = 256;
/// Units of components that are scrubbed in one step.
const STEP: u64 = 64;

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

impl Files {
    /// Mends what is on the manager's list, and that nobody writes now; `told` of each. Only root may ask for that.
    pub async fn mend_left(&self, mut told: impl FnMut(FileId, Result<Mended>)) -> Result<()> {
        let mut after = FileId(0);
        loop {
            let asked = Question::Unscrubbed(After { file: after, most: PAGE });
            let found = match self.control.ask(asked).await? {
                Reply::Unscrubbed(found) => found,
                other => return Err(strange(&other)),
            };
            for file in &found.files {
                match self.mend(*file).await {
                    // Somebody writes it, and will close it; or it was removed meanwhile.
                    Ok(None) => {}
                    Err(error) if error.kind == Kind::Missing => {}
                    Ok(Some(mended)) => told(*file, Ok(mended)),
                    Err(error) => told(*file, Err(error)),
                }
            }
            match found.files.last() {
                Some(last) if found.more => after = *last,
                _ => return Ok(()),
            }
        }
    }

    /// Mends one file, unless somebody has it open to write.
    pub async fn mend(&self, file: FileId) -> Result<Option<Mended>> {
        // The manager takes others of this client for the one that mends, also one that rebuilds.
        let Ok(written) = self.used(file).alone().await else { return Ok(None) };
        // What is to be mended opens alone for those only who have it open already.
        let version = self.open_left(file, false).await?.entry.attributes.version;
        let mended = match self.open_left(file, true).await {
            Ok(_) => self.mend_alone(file, version + 1).await.map(Some),
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

    async fn mend_alone(&self, file: FileId, version: u64) -> Result<Mended> {
        self.control.change(Change::Fence(Fence { file, version })).await?;
        let grant = self.open_left(file, true).await?;
        let striping = grant.striping;
        let components = self.components(grant.clone(), true).await?;
        let env = self.nodes.env();
        let found = recover(Rc::new(components), striping, env.clock.clone(), env.spawner.clone()).await?;
        let mut mended = Mended { ended: found.ended, size: found.size, ..Mended::default() };
        if striping.raid() == Raid::Zero {
            return self.scrubbed(file).await.map(|()| mended);
        }
        let engine = self.engine(grant, Options::alone(), true).await?;
        let (mut from, mut more) = (0, true);
        while more {
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

//! When files were verified last: so each of them is again and again, also where nobody reads it, and who does it goes on after a
//! restart of anything.

use super::Operation;
use crate::draft::View;
use crate::engine::Snapshot;
use crate::keys;
use crate::place;
use crate::principal::{Principal, Wanted};
use crate::records::{Inode, Layout, ToScrub, VerifiedAt, Writers, decode};
use forebay_model::{Result, Timestamp};
use forebay_wire::control::files::{AskUnverified, FoundDamaged, Unverified, Verified};
use forebay_wire::control::names::{FileId, FileKind, MOST_ENTRIES};
use std::time::Duration;

/// Files that are looked at for one question, so that it takes as long whatever there is.
const LOOKED_AT: usize = 4096;
/// A file of which something was found damaged is verified again so long after the last time and no sooner.
const AGAIN: Duration = Duration::from_secs(600);
/// So much the clock of who verifies may be ahead of the manager's.
const CLOCKS: Duration = Duration::from_secs(60);

impl Operation<'_> {
    /// A file was verified just now. What was found damaged since that began lies perhaps where that had been already.
    pub(super) fn verified(&mut self, asked: &Verified) -> Result<()> {
        let Verified { file, began } = *asked;
        self.by.require_root("say that a file was verified")?;
        place::require_file(file, &place::inode(&self.draft, file)?)?;
        let (key, at) = (keys::verified(file), self.now.wall);
        let VerifiedAt { found, .. } = self.draft.read(&key)?.unwrap_or_default();
        let found = found.filter(|found| began.is_some_and(|began| *found >= began.before(CLOCKS)));
        self.draft.put(key, &VerifiedAt { at, found })
    }

    /// Something of a file was found damaged by who may read it, who may say so only once: it is verified again, but not again and again.
    pub(super) fn found_damaged(&mut self, asked: &FoundDamaged) -> Result<()> {
        let inode = place::inode(&self.draft, asked.file)?;
        place::require_file(asked.file, &inode)?;
        self.by.require(asked.file, &inode, Wanted::READ)?;
        let key = keys::verified(asked.file);
        let before: VerifiedAt = self.draft.read(&key)?.unwrap_or_default();
        self.draft.put(key, &VerifiedAt { found: Some(self.now.wall), ..before })
    }
}

/// Files that were not verified for long, of the next so many.
pub(crate) fn unverified(
    view: &dyn Snapshot,
    now: Timestamp,
    by: &Principal,
    asked: &AskUnverified,
) -> Result<Unverified> {
    by.require_root("see what is to be verified")?;
    let (_, to) = keys::all(keys::LAYOUTS);
    let from = keys::layout(FileId(asked.after.0.saturating_add(1)));
    let most = asked.most.clamp(1, MOST_ENTRIES) as usize;
    let page = view.scan(&from, &to, LOOKED_AT)?;
    let is_all = page.len() < LOOKED_AT;
    let (mut files, mut last) = (Vec::new(), asked.after);
    for (key, value) in page {
        if files.len() == most {
            return Ok(Unverified { files, next: Some(last) });
        }
        last = FileId(keys::number(&key));
        if is_due(view, last, &decode(&key, &value)?, (now, asked.since))? {
            files.push(last);
        }
    }
    Ok(Unverified { files, next: (!is_all).then_some(last) })
}

fn is_due(view: &dyn Snapshot, file: FileId, layout: &Layout, (now, since): (Timestamp, Timestamp)) -> Result<bool> {
    let verified: Option<VerifiedAt> = view.read(&keys::verified(file))?;
    let Inode { attributes, written, .. } = place::inode(&view, file)?;
    let last = verified.map_or(attributes.created, |verified| verified.at);
    let is_found = verified.is_some_and(|verified| verified.found.is_some() && verified.at.after(AGAIN) <= now);
    let is_due = is_found || last < since;
    if !layout.absent.is_empty() || !written || attributes.kind != FileKind::File || !is_due {
        return Ok(false);
    }
    // Who is alone with it takes no locks, so that nothing could be mended.
    let Writers(writers) = view.read(&keys::writers(file))?.unwrap_or_default();
    Ok(writers.iter().all(|writer| !writer.alone) && view.read::<ToScrub>(&keys::to_scrub(file))?.is_none())
}

#[cfg(test)]
mod tests;

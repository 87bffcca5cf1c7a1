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
/// When a file was verified last of which something was found damaged since.
const NEVER: Timestamp = Timestamp(0);
/// Whoever finds something damaged in a file has it verified so long after the last time and no sooner.
const AGAIN: Duration = Duration::from_secs(600);

impl Operation<'_> {
    /// A file was verified just now.
    pub(super) fn verified(&mut self, asked: &Verified) -> Result<()> {
        self.by.require_root("say that a file was verified")?;
        place::require_file(asked.file, &place::inode(&self.draft, asked.file)?)?;
        self.draft.put(keys::verified(asked.file), &VerifiedAt(self.now.wall))
    }

    /// Something of a file was found damaged by who may read it. It is verified as if it never was, but not again and again: what is
    /// still damaged is found again.
    pub(super) fn found_damaged(&mut self, asked: &FoundDamaged) -> Result<()> {
        let inode = place::inode(&self.draft, asked.file)?;
        place::require_file(asked.file, &inode)?;
        self.by.require(asked.file, &inode, Wanted::READ)?;
        let key = keys::verified(asked.file);
        let before: Option<VerifiedAt> = self.draft.read(&key)?;
        if before.is_some_and(|VerifiedAt(at)| at == NEVER || self.now.wall.since(at) < AGAIN) {
            return Ok(());
        }
        self.draft.put(key, &VerifiedAt(NEVER))
    }
}

/// Files that were not verified for long, of the next so many.
pub(crate) fn unverified(view: &dyn Snapshot, by: &Principal, asked: &AskUnverified) -> Result<Unverified> {
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
        if is_due(view, last, &decode(&key, &value)?, asked.since)? {
            files.push(last);
        }
    }
    Ok(Unverified { files, next: (!is_all).then_some(last) })
}

fn is_due(view: &dyn Snapshot, file: FileId, layout: &Layout, since: Timestamp) -> Result<bool> {
    let verified: Option<VerifiedAt> = view.read(&keys::verified(file))?;
    let Inode { attributes, written, .. } = place::inode(&view, file)?;
    let last = verified.map_or(attributes.created, |VerifiedAt(at)| at);
    if !layout.absent.is_empty() || !written || attributes.kind != FileKind::File || last >= since {
        return Ok(false);
    }
    // Who is alone with it takes no locks, so that nothing could be mended.
    let Writers(writers) = view.read(&keys::writers(file))?.unwrap_or_default();
    Ok(writers.iter().all(|writer| !writer.alone) && view.read::<ToScrub>(&keys::to_scrub(file))?.is_none())
}

#[cfg(test)]
mod tests;

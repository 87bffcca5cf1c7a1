//! Opening a file to write: it is on the durable list of files whose stripes may be half written, until it is closed.

use super::Operation;
use crate::draft::View;
use crate::keys;
use crate::place::{self, Found};
use crate::principal::Wanted;
use crate::quota;
use crate::records::{Answer, ToScrub, Writer, Writers};
use forebay_model::{Error, Result};
use forebay_wire::control::files::{Caching, MOST_WRITERS, OpenToWrite};
use forebay_wire::control::names::FileId;

/// How a file is to be open to write; as [`OpenToWrite`].
#[derive(Clone, Copy, Default)]
pub(super) struct Wish {
    pub(super) alone: bool,
    pub(super) upkeep: bool,
    pub(super) yields: bool,
    pub(super) cached: bool,
}

impl Wish {
    /// [`forebay_model::Kind::Usage`] if nothing can be open so.
    pub(super) fn check(&self) -> Result<()> {
        match self.alone && self.cached {
            true => Err(Error::usage("who is alone with a file is not called back; ask for one of both")),
            false => Ok(()),
        }
    }
}

impl Operation<'_> {
    /// Opens what is at a place.
    pub(super) fn open_to_write(&mut self, asked: &OpenToWrite) -> Result<Answer> {
        let found = place::find(&self.draft, self.by, &asked.place)?;
        let OpenToWrite { alone, upkeep, yields, cached, .. } = *asked;
        let wish = Wish { alone, upkeep, yields, cached };
        wish.check()?;
        if !upkeep {
            return self.open_found(found, wish);
        }
        self.by.require_root("open files for their upkeep")?;
        place::require_file(found.file, &found.inode)?;
        self.listed(found, wish)
    }

    /// Opens a file that is there, if the mode allows it.
    pub(super) fn open_found(&mut self, found: Found, wish: Wish) -> Result<Answer> {
        place::require_file(found.file, &found.inode)?;
        self.by.require(found.file, &found.inode, Wanted::WRITE)?;
        self.opened(found, wish)
    }

    /// Opens a file, whatever its mode.
    pub(super) fn opened(&mut self, found: Found, wish: Wish) -> Result<Answer> {
        quota::require_bytes(&self.draft, self.now.wall, found.inode.attributes.volume)?;
        self.listed(found, wish)
    }

    /// Puts this client on the list of those that write a file.
    fn listed(&mut self, found: Found, wish: Wish) -> Result<Answer> {
        let Wish { alone, upkeep, yields, cached } = wish;
        let most = if upkeep { usize::MAX } else { MOST_WRITERS };
        let Found { file, mut inode } = found;
        let key = keys::writers(file);
        let mut writers: Vec<Writer> = self.draft.read(&key)?.map(|Writers(writers)| writers).unwrap_or_default();
        let is_left = self.draft.read::<ToScrub>(&keys::to_scrub(file))?.is_some();
        let listed = writers.clone();
        if self.stop_relocating(file, &mut writers)? {
            inode = place::inode(&self.draft, file)?;
        }
        if alone && !is_left && self.stop_yielding(file, &mut writers)? {
            inode = place::inode(&self.draft, file)?;
        }
        if alone && !is_left && self.stop_rebuilding(file, &mut writers)? {
            inode = place::inode(&self.draft, file)?;
        }
        // Where others of its kind are, one more makes no difference; otherwise it is mended first.
        let is_mended_first = cached && is_left && !writers.iter().any(|writer| writer.is(self.by) || writer.cached);
        if is_mended_first || self.calls_back(file, wish, &mut writers) {
            if writers != listed {
                self.draft.put_unless(writers.is_empty(), key, &Writers(writers))?;
            }
            return Ok(Answer::Calling);
        }
        if let Some(other) = writers.iter().find(|one| !one.is(self.by) && (alone || one.alone)) {
            let seconds = self.settings.client_timeout.as_secs();
            return Err(Error::busy(format!(
                "client {} has {file} open to write, and {} wants to be alone with it; wait until it closes it: if it is gone, \
                 that is known after {seconds} seconds",
                other.client,
                if alone { "this one" } else { "that one" }
            )));
        }
        let there = writers.iter().position(|writer| writer.is(self.by));
        // Whoever is alone takes no locks, and so does not see what was begun and would be done again later. Who mends it opens
        // it beside others first, who see that.
        if alone && there.is_none() && is_left {
            return Err(Error::busy(format!(
                "{file} was left half written and is mended first; ask again in some seconds, or open it beside others"
            )));
        }
        if there.is_none() && writers.len() >= most {
            return Err(Error::busy(format!(
                "{} clients write {file}, and that is the most; wait until one closes it",
                writers.len()
            )));
        }
        let before = there.map(|place| writers.swap_remove(place));
        let since = before.map_or(self.now.wall, |before| before.since);
        let is_used = || !writers.is_empty() || self.callbacks.is_used_by_others(file, self.by.client);
        let is_exclusive = cached && !is_left && !is_used();
        let writer = Writer {
            client: self.by.client,
            user: self.by.user,
            since,
            // Opened again otherwise, it can be called back all the same.
            alone: alone || is_exclusive || before.is_some_and(|before| before.cached && before.alone),
            yields: yields && before.is_none_or(|before| before.yields),
            cached: cached || before.is_some_and(|before| before.cached),
        };
        if cached {
            let caching = if is_exclusive { Caching::Exclusive } else { Caching::Nothing };
            self.callbacks.allow(file, self.by.client, caching, true, self.now.moment)?;
        }
        writers.push(writer);
        // Others may be alone no more.
        self.draft.put(key, &Writers(writers))?;
        if !inode.written {
            inode.written = true;
            self.draft.put(keys::inode(file), &inode)?;
        }
        Ok(Answer::Opened(file))
    }

    /// Who said that it makes way does, for one who wants to be alone with a file; whether somebody did.
    fn stop_yielding(&mut self, file: FileId, writers: &mut Vec<Writer>) -> Result<bool> {
        let there = writers.len();
        writers.retain(|writer| writer.is(self.by) || !writer.yields);
        if writers.len() == there {
            return Ok(false);
        }
        // What it wrote last is refused by whatever the other one has touched.
        let inode = place::inode(&self.draft, file)?;
        self.raise(file, inode)?;
        Ok(true)
    }
}

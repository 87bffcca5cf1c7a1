//! What clients that are gone left behind: files that they had open to write go to the list of those to be scrubbed; a heap of which they copied
//! the last is used again where it lies.

use super::Operation;
use super::relocation::{give_up_copy, is_used_meanwhile};
use crate::draft::{Draft, View};
use crate::keys;
use crate::place;
use crate::records::{Answer, ToScrub, Writers};
use forebay_model::{Error, Result, Timestamp};
use forebay_wire::control::Reply;
use forebay_wire::control::files::{ClientGone, Scrubbed, Unscrubbed};
use forebay_wire::control::names::FileId;

/// How many files that are open to write are looked at, at a time.
const PAGE: usize = 1024;

impl Operation<'_> {
    /// Has what a client left open scrubbed: as many files as one step holds.
    pub(super) fn client_gone(&mut self, asked: &ClientGone) -> Result<Answer> {
        self.by.require_root("say that a client is gone")?;
        let (mut from, to) = keys::all(b'W');
        let mut files = Vec::new();
        loop {
            let page = self.draft.scan(&from, &to, PAGE)?;
            for (key, _) in &page {
                let file = FileId(keys::number(key));
                if !self.draft.has_room(2) {
                    return Ok(Answer::Reply(Reply::Unscrubbed(Unscrubbed { files, more: true })));
                }
                if left(&mut self.draft, file, self.now.wall, |client| client == asked.client)? {
                    files.push(file);
                }
            }
            match page.last() {
                Some((last, _)) if page.len() == PAGE => from = [last.as_slice(), &[0]].concat(),
                _ => return Ok(Answer::Reply(Reply::Unscrubbed(Unscrubbed { files, more: false }))),
            }
        }
    }

    /// Takes a file off the list.
    pub(super) fn scrubbed(&mut self, asked: &Scrubbed) -> Result<()> {
        self.by.require_root("say that a file was scrubbed")?;
        let key = keys::to_scrub(asked.file);
        if self.draft.read::<ToScrub>(&key)?.is_none() {
            return Err(Error::missing(format!("{} was not to be scrubbed; ask for those that are", asked.file)));
        }
        self.draft.delete(key);
        self.callbacks.free(asked.file);
        Ok(())
    }
}

/// Takes the clients that are gone off the list of those that write a file, and has it scrubbed; whether there were any.
pub(crate) fn left(draft: &mut Draft<'_>, file: FileId, now: Timestamp, is_gone: impl Fn(u64) -> bool) -> Result<bool> {
    let key = keys::writers(file);
    let Writers(mut writers) = draft.read(&key)?.unwrap_or_default();
    let there = writers.len();
    writers.retain(|writer| !is_gone(writer.client));
    if writers.len() == there {
        return Ok(false);
    }
    draft.put_unless(writers.is_empty(), key, &Writers(writers))?;
    if is_used_meanwhile(place::inode(&*draft, file)?.attributes.kind) {
        give_up_copy(draft, file)?;
    } else {
        to_be_scrubbed(draft, file, now)?;
    }
    Ok(true)
}

/// Puts a file on the list of those to be scrubbed.
pub(super) fn to_be_scrubbed(draft: &mut Draft<'_>, file: FileId, now: Timestamp) -> Result<()> {
    let key = keys::to_scrub(file);
    if draft.read::<ToScrub>(&key)?.is_none() {
        draft.put(key, &ToScrub { since: now })?;
    }
    Ok(())
}

//! Closing a file that was open to write: what it is now is what its writer says.

use super::Operation;
use super::scrub::to_be_scrubbed;
use crate::draft::View;
use crate::keys;
use crate::place;
use crate::records::Writers;
use forebay_model::{Error, Result};
use forebay_wire::control::files::Close;
use forebay_wire::control::names::Entry;

impl Operation<'_> {
    /// Takes this client off the list of those that write a file.
    pub(super) fn close(&mut self, asked: &Close) -> Result<Entry> {
        let key = keys::writers(asked.file);
        let Writers(mut writers) = self.draft.read(&key)?.unwrap_or_default();
        let mine = writers.iter().find(|writer| writer.is(self.by)).copied();
        writers.retain(|writer| !writer.is(self.by));
        let Some(mine) = mine else {
            self.callbacks.meet(asked.file, &writers, self.now.moment);
            return Err(Error::missing(format!(
                "client {:x} does not have {} open to write; it may have been taken for gone: open it again",
                self.by.client, asked.file
            )));
        };
        let mut inode = place::inode(&self.draft, asked.file)?;
        if asked.upkeep {
            self.by.require_root("close files after their upkeep")?;
        }
        let mut is_in_doubt = false;
        if let Some(size) = asked.size {
            let size = self.lengths.after(asked.file, asked.cuts, size);
            // A manager before this one may have been told by another one since: whoever mends it finds out how long it is.
            let may_be_old = asked.cuts.is_some() && !asked.upkeep && !mine.alone;
            is_in_doubt = may_be_old && size < inode.attributes.size && self.lengths.may_lack(asked.file, mine.since);
            self.set_size(&mut inode, size, asked.upkeep)?;
        }
        self.lengths.closed(asked.file, asked.cuts, asked.size, !writers.is_empty());
        self.set_modified(&mut inode, asked.modified);
        self.draft.put(keys::inode(asked.file), &inode)?;
        self.draft.put_unless(writers.is_empty(), key, &Writers(writers.clone()))?;
        if asked.unfinished || is_in_doubt {
            to_be_scrubbed(&mut self.draft, asked.file, self.now.wall)?;
        }
        self.callbacks.meet(asked.file, &writers, self.now.moment);
        if asked.unfinished {
            // It may have the file open to read besides, and does not see what was begun either.
            self.callbacks.call(asked.file, self.by.client, self.now.moment);
        }
        self.callbacks.free(asked.file);
        Ok(inode.entry(asked.file))
    }
}

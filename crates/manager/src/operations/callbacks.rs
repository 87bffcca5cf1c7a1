//! Who is called back before somebody opens a file to write, and saying that one listens.

use super::Operation;
use super::open_to_write::Wish;
use crate::keys;
use crate::records::{CachesRecord, Writer};
use forebay_model::Result;
use forebay_wire::control::files::Caching;
use forebay_wire::control::names::FileId;

impl Operation<'_> {
    /// This client is going to keep what it reads.
    pub(super) fn caches(&mut self) -> Result<()> {
        self.callbacks.enter(self.by.client, self.by.key, self.now.moment)?;
        self.draft.put(keys::caches(self.by.client), &CachesRecord { since: self.now.wall })?;
        self.callbacks.record(self.by.client, self.now.moment);
        Ok(())
    }

    /// Calls back who keeps something of a file that is in the way of who writes it; whether anybody does. Those that have given way
    /// already are alone no more.
    pub(super) fn calls_back(&mut self, file: FileId, wish: Wish, writers: &mut [Writer]) -> bool {
        let (by, now) = (self.by, self.now.moment);
        self.callbacks.meet(file, writers, now);
        // Who makes way is in nobody's, and whoever wants to be alone does not come as long as others have it open.
        if wish.yields || wish.alone && writers.iter().any(|writer| !writer.is(by)) {
            return false;
        }
        for writer in writers.iter_mut().filter(|writer| !writer.is(by) && writer.cached && writer.alone) {
            writer.alone = self.callbacks.is_exclusive(file, writer.client);
        }
        // Upkeep changes no bytes.
        let least = if wish.upkeep { Caching::Exclusive } else { Caching::Shared };
        self.callbacks.is_kept(file, by.client, least, now)
    }
}

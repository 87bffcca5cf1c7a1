//! What time changes about callbacks: who does not answer loses what it kept, and who gave way may keep more again when nobody else
//! is there.

use crate::callbacks::Silent;
use crate::draft::{Batch, Draft, View};
use crate::engine::Snapshot;
use crate::keys;
use crate::manager::{Manager, Now, closed};
use crate::operations::{left, raise};
use crate::records::{Inode, ToScrub, Writers};
use forebay_model::Result;
use forebay_wire::control::files::Caching;
use forebay_wire::control::names::FileId;

impl Manager {
    /// Does what is due.
    pub(super) fn callbacks_due(&mut self, batch: &mut Batch, now: Now) -> Result<()> {
        for Silent { file, client, write } in self.callbacks.silent(now.moment) {
            if write {
                self.take_open(batch, now, file, client)?;
            }
            self.callbacks.take_silent(file, client, now.moment);
        }
        let view: &dyn Snapshot = self.view.as_ref().ok_or_else(closed)?;
        let is_writer = |file, client| {
            let Writers(writers) = view.read(&keys::writers(file))?.unwrap_or_default();
            Ok(writers.iter().any(|writer| writer.client == client))
        };
        for client in self.callbacks.forget(now.moment, is_writer)? {
            let mut draft = Draft::new(self.view()?, batch);
            draft.delete(keys::caches(client));
            let drafted = draft.ready()?;
            batch.take(drafted);
        }
        for file in self.callbacks.freed(now.moment) {
            self.lift(batch, now, file)?;
        }
        Ok(())
    }

    /// A client that does not answer has a file open to write no more: what it wrote and did not flush is refused, and what it began
    /// is mended.
    fn take_open(&mut self, batch: &mut Batch, now: Now, file: FileId, client: u64) -> Result<()> {
        let mut draft = Draft::new(self.view()?, batch);
        let inode: Option<Inode> = draft.read(&keys::inode(file))?;
        let Some(inode) = inode else { return Ok(()) };
        if left(&mut draft, file, now.wall, |one| one == client)? {
            raise(&mut draft, file, inode, now.wall)?;
            let drafted = draft.ready()?;
            batch.take(drafted);
        }
        Ok(())
    }

    /// Lets those keep more again who have a file open and keep nothing of it, if that is in nobody's way.
    fn lift(&mut self, batch: &mut Batch, now: Now, file: FileId) -> Result<()> {
        let listed: Option<Writers> = Draft::new(self.view()?, batch).read(&keys::writers(file))?;
        let Writers(mut writers) = listed.unwrap_or_default();
        self.callbacks.meet(file, &writers, now.moment);
        let users = self.callbacks.users(file);
        let mut draft = Draft::new(self.view()?, batch);
        if draft.read::<ToScrub>(&keys::to_scrub(file))?.is_some() {
            return Ok(());
        }
        match (&mut writers[..], &users[..]) {
            ([], readers) => {
                let lifted = readers.iter().filter(|(_, write, keeps)| !write && *keeps == Caching::Nothing);
                lifted.for_each(|(client, ..)| self.callbacks.lift(file, *client, Caching::Shared));
            }
            // Readers of an earlier manager may have it open that have not said so yet.
            ([_], [(client, true, Caching::Nothing)]) if self.callbacks.is_unsure(file, *client, now.moment) => {
                self.callbacks.look_again(file);
            }
            ([writer], [(client, true, Caching::Nothing)]) if writer.client == *client && writer.cached => {
                writer.alone = true;
                draft.put(keys::writers(file), &Writers(writers))?;
                let drafted = draft.ready()?;
                batch.take(drafted);
                self.callbacks.lift(file, *client, Caching::Exclusive);
            }
            _ => {}
        }
        Ok(())
    }
}

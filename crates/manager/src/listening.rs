//! What clients ask that keep something of files, and wait for: being called back, and others having given way.

use crate::authenticate::standing;
use crate::callbacks::Uses;
use crate::draft::View;
use crate::engine::Snapshot;
use crate::keys;
use crate::manager::{Manager, Now};
use crate::place;
use crate::principal::{Principal, Wanted};
use crate::records::{Inode, ToScrub, Writers};
use forebay_model::{Error, Result};
use forebay_wire::control::files::{Caching, Callback, Called, Listen, MOST_KEPT, MakeWay};
use forebay_wire::control::names::FileId;
use forebay_wire::control::{Question, Reply};

impl Manager {
    /// Answers a question; nothing if its answer is to be waited for, for which there may be no room.
    pub(crate) fn ask_or_wait(
        &mut self,
        now: Now,
        by: &Principal,
        question: &Question,
        is_full: bool,
    ) -> Result<Option<Reply>> {
        let answer = match question {
            Question::Listen(asked) => {
                let by = &*self.met(now, by)?;
                self.listen(now, by, asked)?.map(Reply::Called)
            }
            Question::MakeWay(asked) => {
                let by = &*self.met(now, by)?;
                self.make_way(now, by, asked)?.then_some(Reply::Done)
            }
            other => return self.ask(now, by, other).map(Some),
        };
        let crowded = || match question {
            Question::Listen(_) => Reply::Called(Called { crowded: true, ..Called::default() }),
            _ => Reply::Done,
        };
        Ok(answer.or_else(|| is_full.then(crowded)))
    }

    /// What is answered to one who waits, if there is something by now.
    pub(crate) fn answer_now(&mut self, now: Now, by: &Principal, question: &Question) -> Result<Option<Reply>> {
        let by = &*standing(&self.view()?, by)?;
        match question {
            // It has said before what it keeps.
            Question::Listen(_) => Ok(self.callbacks.called(by.client).map(Reply::Called)),
            Question::MakeWay(asked) => Ok(self.make_way(now, by, asked)?.then_some(Reply::Done)),
            other => self.ask(now, by, other).map(Some),
        }
    }

    /// What is answered to one who has waited for long.
    pub(crate) fn nothing_yet(question: &Question) -> Reply {
        match question {
            Question::Listen(_) => Reply::Called(Called::default()),
            _ => Reply::Done,
        }
    }

    /// Clients that wait for an answer: they are in touch, however long this manager was busy otherwise.
    pub(crate) fn wait_here<'a>(&mut self, now: Now, waiting: impl Iterator<Item = (&'a Principal, &'a Question)>) {
        let listening = waiting.filter(|(_, question)| matches!(question, Question::Listen(_)));
        self.callbacks.wait_here(listening.map(|(by, _)| by.client), now.moment);
    }

    /// Whether there may be something that somebody waits for.
    pub(crate) fn has_news(&mut self) -> bool {
        self.callbacks.take_changed()
    }

    /// A client says what it keeps, and asks what it is to keep no more. Nothing if nothing is to be told, and it said nothing.
    pub(crate) fn listen(&mut self, now: Now, by: &Principal, asked: &Listen) -> Result<Option<Called>> {
        if asked.kept.len() > MOST_KEPT {
            return Err(Error::usage(format!(
                "what is kept of {} files cannot be said at a time, and {MOST_KEPT} are the most; say it in parts",
                asked.kept.len()
            )));
        }
        let view: &dyn Snapshot = self.view.as_ref().ok_or_else(crate::manager::closed)?;
        let uses = |file| {
            let Writers(writers) = view.read(&keys::writers(file))?.unwrap_or_default();
            let writes = writers.iter().any(|writer| writer.is(by));
            let inode: Option<Inode> = view.read(&keys::inode(file))?;
            let may_read = writes || inode.is_some_and(|inode| by.may(&inode.attributes, Wanted::READ));
            Ok(Uses { writes, others_write: writers.iter().any(|writer| !writer.is(by)), may_read })
        };
        self.callbacks.enter(by.client, by.key, now.moment)?;
        self.callbacks.hear(by.client, asked, now.moment, uses)?;
        let said = asked.all || !asked.kept.is_empty();
        Ok(self.callbacks.called(by.client).or_else(|| said.then(Called::default)))
    }

    /// Whether nobody keeps anything any more that is in the way of opening a file.
    pub(crate) fn make_way(&mut self, now: Now, by: &Principal, asked: &MakeWay) -> Result<bool> {
        let found = place::find(&self.view()?, by, &asked.place)?;
        place::require_file(found.file, &found.inode)?;
        by.require(found.file, &found.inode, if asked.write { Wanted::WRITE } else { Wanted::READ })?;
        if self.is_kept_from(now, by, found.file, asked.write)? {
            return Ok(false);
        }
        // Who may come to be alone with it would not see what was begun.
        let is_left = self.view()?.read::<ToScrub>(&keys::to_scrub(found.file))?.is_some();
        Ok(!(is_left && asked.write && asked.cached))
    }

    /// Whether others keep something of a file that is in the way of one who opens it; they are called back.
    pub(crate) fn is_kept_from(&mut self, now: Now, by: &Principal, file: FileId, write: bool) -> Result<bool> {
        let Writers(writers) = self.view()?.read(&keys::writers(file))?.unwrap_or_default();
        self.callbacks.meet(file, &writers, now.moment);
        let least = if write { Caching::Shared } else { Caching::Exclusive };
        Ok(self.callbacks.is_kept(file, by.client, least, now.moment))
    }

    /// What a client may keep of a file that it opens to read, while nobody keeps anything that is in the way.
    pub(crate) fn keep_what_is_read(&mut self, now: Now, by: &Principal, file: FileId) -> Result<Callback> {
        self.callbacks.require_recorded(by.client)?;
        let Writers(writers) = self.view()?.read(&keys::writers(file))?.unwrap_or_default();
        self.callbacks.meet(file, &writers, now.moment);
        if let Some(told) = self.callbacks.told_writer(file, by.client, now.moment) {
            return Ok(told);
        }
        let is_left = self.view()?.read::<ToScrub>(&keys::to_scrub(file))?.is_some();
        let is_written = is_left || writers.iter().any(|writer| !writer.is(by));
        // Whoever waits for those who have read it already does not wait for more and more of them.
        let is_wanted = self.callbacks.is_wanted(file, now.moment);
        let caching = if is_written || is_wanted { Caching::Nothing } else { Caching::Shared };
        self.callbacks.allow(file, by.client, caching, false, now.moment)
    }
}

#[cfg(test)]
mod tests;

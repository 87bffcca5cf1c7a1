//! One time that a file is open: while it is being opened, and from then on.

use super::{Keeper, Time};
use crate::file::remote::Opening;
use crate::file::{FileEngine, Sharing};
use forebay_model::Result;
use forebay_wire::control::files::Caching;
use forebay_wire::control::names::FileId;
use std::cell::Cell;
use std::rc::Rc;

/// A file that the manager has opened, of which there is no engine yet.
pub(in crate::files) struct Coming {
    pub(super) keeper: Rc<Keeper>,
    pub(super) file: FileId,
    pub(super) write: bool,
    pub(super) cached: bool,
    /// It is going to keep something.
    pub(super) keeps: Cell<bool>,
}

impl Coming {
    /// Whether it keeps what it may.
    pub(in crate::files) fn is_cached(&self) -> bool {
        self.cached
    }

    /// How it is opened now: once others of this client that have it open bear that.
    pub(in crate::files) async fn sharing(&self) -> Result<Sharing> {
        let (others, may_keep) = {
            let files = self.keeper.files.borrow();
            let open = files.get(&self.file).expect("it is there as long as something of it is coming");
            let others: Vec<Time> = open.times.values().filter(|time| time.cached).cloned().collect();
            (others, open.may_keep())
        };
        if may_keep == Caching::Nothing || !self.cached {
            for Time { engine, .. } in others {
                engine.share().await?;
            }
        }
        let is_over = self.keeper.clock.through_sleep() >= self.keeper.until.get();
        let mut files = self.keeper.files.borrow_mut();
        // It may have been called back while others gave way.
        let Some(open) = files.get_mut(&self.file).filter(|open| open.may_keep() > Caching::Nothing && !is_over) else {
            return Ok(Sharing::Beside);
        };
        open.coming_to_keep += 1;
        self.keeps.set(true);
        Ok(Sharing::Alone)
    }

    /// It is open; what is written goes under `opening`.
    pub(in crate::files) fn came(self, engine: FileEngine, opening: Opening) -> Holding {
        let keeper = self.keeper.clone();
        let number = keeper.next();
        if let Some(open) = keeper.files.borrow_mut().get_mut(&self.file) {
            open.times.insert(number, Time { engine, write: self.write, cached: self.cached });
        }
        let holding = Holding { keeper: keeper.clone(), file: self.file, number, opening };
        drop(self);
        // It may have been called back meanwhile.
        keeper.turn(holding.file);
        keeper.listens();
        holding
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        let mut files = self.keeper.files.borrow_mut();
        if let Some(open) = files.get_mut(&self.file) {
            open.coming -= 1;
            open.coming_to_write -= usize::from(self.write);
            open.coming_to_keep -= usize::from(self.keeps.get());
        }
        drop(files);
        self.keeper.gone(self.file);
        // Others of this client may keep more again, or are to be looked at.
        self.keeper.turn(self.file);
    }
}

/// One time that a file is open. Dropped, it keeps nothing any more.
pub(in crate::files) struct Holding {
    keeper: Rc<Keeper>,
    file: FileId,
    number: u64,
    opening: Opening,
}

impl Holding {
    /// It is closed: the manager knows when this ends, if that was the last time.
    pub(in crate::files) async fn close(self) {
        let (keeper, file) = (self.keeper.clone(), self.file);
        drop(self);
        let unsaid = keeper.unsaid.borrow_mut().remove(&file);
        if let Some(kept) = unsaid {
            keeper.say(kept).await;
        }
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        if let Some(open) = self.keeper.files.borrow_mut().get_mut(&self.file) {
            if self.opening.is_left() {
                open.leave();
            }
            open.times.remove(&self.number);
        }
        self.keeper.gone(self.file);
        self.keeper.turn(self.file);
    }
}

//! A list of files of the manager's, from which several hands take: each file is tried once in a round, and by one at a time.
//!
//! Always: who takes long with one keeps no other from going on, nor from beginning another round.

use crate::control::Control;
use forebay_env::Clock;
use forebay_env::allowance::Allowance;
use forebay_model::{Moment, Result};
use forebay_wire::control::files::After;
use forebay_wire::control::names::FileId;
use forebay_wire::control::{Question, Reply};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// Files that are asked for at once.
const PAGE: u32 = 256;

/// A part of a list.
pub(super) struct Page {
    /// By file.
    pub(super) files: Vec<FileId>,
    /// Whether there are more.
    pub(super) more: bool,
}

/// The list.
pub(super) struct Listed<'a> {
    control: &'a dyn Control,
    clock: &'a dyn Clock,
    question: fn(After) -> Question,
    page: fn(Reply) -> Result<Page>,
    /// One asks for all.
    turn: Allowance,
    /// Those with lower numbers were all tried.
    after: Cell<FileId>,
    left: RefCell<VecDeque<FileId>>,
    under_way: RefCell<BTreeSet<FileId>>,
    /// When the end of the list was reached.
    ended: Cell<Option<Moment>>,
}

impl<'a> Listed<'a> {
    pub(super) fn of(
        control: &'a dyn Control,
        clock: &'a dyn Clock,
        question: fn(After) -> Question,
        page: fn(Reply) -> Result<Page>,
    ) -> Listed<'a> {
        Listed {
            control,
            clock,
            question,
            page,
            turn: Allowance::new(1),
            after: Cell::new(FileId(0)),
            left: RefCell::default(),
            under_way: RefCell::default(),
            ended: Cell::new(None),
        }
    }

    /// The next file, which is under way until [`Listed::tried`]; nothing at the end.
    pub(super) async fn next(&self) -> Result<Option<FileId>> {
        let _turn = self.turn.take(1).await;
        loop {
            if let Some(file) = { self.left.borrow_mut().pop_front() } {
                self.under_way.borrow_mut().insert(file);
                return Ok(Some(file));
            }
            if self.ended.get().is_some() {
                return Ok(None);
            }
            let asked = (self.question)(After { file: self.after.get(), most: PAGE });
            let found = (self.page)(self.control.ask(asked).await?)?;
            match found.files.last() {
                Some(last) if found.more => self.after.set(*last),
                _ => self.ended.set(Some(self.clock.now())),
            }
            let under_way = self.under_way.borrow();
            self.left.borrow_mut().extend(found.files.into_iter().filter(|file| !under_way.contains(file)));
        }
    }

    pub(super) fn tried(&self, file: FileId) {
        self.under_way.borrow_mut().remove(&file);
    }

    /// Begins another round, if the last one ended so long ago.
    pub(super) fn again(&self, pause: Duration) {
        if self.ended.get().is_some_and(|ended| self.clock.now().since(ended) >= pause) {
            self.ended.set(None);
            self.after.set(FileId(0));
        }
    }
}

#[cfg(test)]
mod tests;

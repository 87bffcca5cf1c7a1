//! What all of one client have in common that use a file. To the manager one client is one writer, however often it has the
//! file open; so it hears of the first and of the last, one after the other, and never that who is alone is not.

use crate::control::{Control, strange};
use crate::file::remote::Ours;
use forebay_env::allowance::{Allowance, Allowed};
use forebay_model::{Bytes, Error, Result};
use forebay_wire::control::files::Close;
use forebay_wire::control::names::FileId;
use forebay_wire::control::{Change, Reply};
use std::cell::Cell;
use std::rc::Rc;

/// A file that this client uses, or used not long ago.
pub(super) struct Used {
    file: FileId,
    turn: Allowance,
    writing: Cell<Writing>,
    ours: Rc<Ours>,
}

/// How often it is open to write, and whether by one who is alone.
#[derive(Clone, Copy, Default)]
struct Writing {
    times: usize,
    alone: bool,
}

/// One of these times.
pub(super) struct Written {
    used: Rc<Used>,
}

impl Used {
    pub(super) fn new(file: FileId) -> Used {
        Used { file, turn: Allowance::new(1), writing: Cell::default(), ours: Rc::default() }
    }

    /// Whether anybody has it open.
    pub(super) fn is_in_use(self: &Rc<Self>) -> bool {
        Rc::strong_count(self) > 1 || Rc::strong_count(&self.ours) > 1
    }

    /// What those share that have it open.
    pub(super) fn ours(&self) -> Rc<Ours> {
        self.ours.clone()
    }

    /// Waits until nobody else of this client opens it to write, or closes it.
    pub(super) async fn turn(&self) -> Allowed {
        self.turn.take(1).await
    }

    /// Whether one has it open to write who is alone.
    pub(super) fn is_alone(&self) -> bool {
        self.writing.get().alone
    }

    /// One more that writes it.
    pub(super) fn write(self: &Rc<Self>, alone: bool) -> Result<Written> {
        let there = self.writing.get();
        if there.times > 0 && (there.alone || alone) {
            return Err(Error::busy(format!(
                "this process has {} open to write already, and one of both wants to be alone with it; close that first",
                self.file
            )));
        }
        self.writing.set(Writing { times: there.times + 1, alone });
        Ok(Written { used: self.clone() })
    }

    /// The only one of this client that writes it, once nobody opens or closes it.
    pub(super) async fn alone(self: &Rc<Self>) -> Result<Written> {
        let _turn = self.turn().await;
        self.write(true)
    }
}

impl Written {
    /// Ends this; if it is the last, the manager is told, and how long the file is.
    pub(super) async fn close(self, control: &dyn Control, size: Option<Bytes>) -> Result<()> {
        let used = self.used.clone();
        let _turn = used.turn().await;
        if used.writing.get().times > 1 {
            return Ok(());
        }
        match control.change(Change::Close(Close { file: used.file, size, modified: None })).await? {
            Reply::Entry(_) => Ok(()),
            other => Err(strange(&other)),
        }
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let Writing { times, alone } = self.used.writing.get();
        self.used.writing.set(Writing { times: times - 1, alone: alone && times > 1 });
    }
}

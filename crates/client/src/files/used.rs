//! What all of one client have in common that use a file. To the manager one client is one writer, however often it has the
//! file open; so it hears of the first and of the last, one after the other, and never that who is alone is not.

use crate::control::{Control, strange};
use crate::file::Length;
use crate::file::remote::{Opening, Ours};
use forebay_env::Spawner;
use forebay_env::allowance::{Allowance, Allowed};
use forebay_model::{Error, Kind, Result};
use forebay_wire::control::files::Close;
use forebay_wire::control::names::FileId;
use forebay_wire::control::{Change, Reply};
use std::cell::Cell;
use std::rc::Rc;

/// A file that this client uses, or used not long ago.
pub(super) struct Used {
    file: FileId,
    control: Rc<dyn Control>,
    spawner: Spawner,
    turn: Allowance,
    writing: Cell<Writing>,
    /// Somebody wrote it and did not close it: what was begun may not be ended. The manager hears that with the last one, so that
    /// the file is mended before anybody is alone with it; until then nobody of this client is.
    unfinished: Rc<Cell<bool>>,
    ours: Rc<Ours>,
}

/// How often it is open to write, and whether by one who is alone.
#[derive(Clone, Copy, Default)]
struct Writing {
    times: usize,
    alone: bool,
}

/// One of these times. Dropped without being closed, it leaves the file unfinished.
pub(super) struct Written {
    used: Rc<Used>,
    /// To mend, rebuild, scrub or move it.
    upkeep: bool,
    is_closed: bool,
    opening: Opening,
}

impl Used {
    pub(super) fn new(file: FileId, control: Rc<dyn Control>, spawner: Spawner) -> Used {
        Used {
            file,
            control,
            spawner,
            turn: Allowance::new(1),
            writing: Cell::default(),
            unfinished: Rc::default(),
            ours: Rc::default(),
        }
    }

    /// Whether anybody has it open.
    pub(super) fn is_in_use(self: &Rc<Self>) -> bool {
        Rc::strong_count(self) > 1 || Rc::strong_count(&self.ours) > 1 || self.unfinished.get()
    }

    /// What those share that have it open.
    pub(super) fn ours(&self) -> Rc<Ours> {
        self.ours.clone()
    }

    /// Whether it was left unfinished, and the manager does not know that yet.
    pub(super) fn unfinished(&self) -> Rc<Cell<bool>> {
        self.unfinished.clone()
    }

    /// Waits until nobody else of this client opens it to write, or closes it.
    pub(super) async fn turn(&self) -> Allowed {
        self.turn.take(1).await
    }

    /// Whether one has it open to write who is alone.
    pub(super) fn is_alone(&self) -> bool {
        self.writing.get().alone
    }

    /// Whether this client writes it, or left it unfinished.
    pub(super) fn is_written(&self) -> bool {
        self.writing.get().times > 0 || self.unfinished.get()
    }

    /// One more that writes it, or does so for its upkeep.
    pub(super) fn write(self: &Rc<Self>, alone: bool, upkeep: bool) -> Result<Written> {
        let there = self.writing.get();
        if there.times > 0 && (there.alone || alone) {
            return Err(Error::busy(format!(
                "this process has {} open to write already, and one of both wants to be alone with it; close that first",
                self.file
            )));
        }
        self.writing.set(Writing { times: there.times + 1, alone });
        Ok(Written { used: self.clone(), upkeep, is_closed: false, opening: Opening::default() })
    }

    /// The only one of this client that writes it, for its upkeep, once nobody opens or closes it.
    pub(super) async fn alone(self: &Rc<Self>) -> Result<Written> {
        let _turn = self.turn().await;
        self.write(true, true)
    }
}

impl Used {
    /// Has the manager know that nobody of this client writes it any more, whose turn it is.
    async fn close(&self, length: Option<Length>, upkeep: bool) -> Result<()> {
        let unfinished = self.unfinished.get();
        let (size, cuts) = (length.map(|length| length.size), length.and_then(|length| length.cuts));
        let close = Close { file: self.file, size, modified: None, upkeep, unfinished, cuts };
        let closed = match self.control.change(Change::Close(close)).await {
            Ok(Reply::Entry(_)) => Ok(()),
            Ok(other) => return Err(strange(&other)),
            Err(error) => Err(error),
        };
        // If nothing is open there, the manager has taken this client for gone, and knows.
        if !matches!(&closed, Err(error) if error.kind != Kind::Missing) {
            self.unfinished.set(false);
        }
        closed
    }

    /// If it was left unfinished and nobody writes it any more, has the manager know that, whose turn it is.
    pub(super) async fn tell_unfinished(&self) -> Result<()> {
        if self.writing.get().times > 0 || !self.unfinished.get() {
            return Ok(());
        }
        match self.close(None, false).await {
            Err(error) if error.kind == Kind::Missing => Ok(()),
            told => told,
        }
    }
}

impl Written {
    /// What is written under it.
    pub(super) fn opening(&self) -> Opening {
        self.opening.clone()
    }

    /// Whether it is to mend, rebuild, scrub or move it.
    pub(super) fn is_upkeep(&self) -> bool {
        self.upkeep
    }

    /// The manager did not open it, so nothing is left unfinished.
    pub(super) fn refused(mut self) {
        self.is_closed = true;
    }

    /// What was begun under it and not ended is to be mended: the manager hears that with the last one.
    pub(super) fn leave(&self) {
        self.used.unfinished.set(true);
        self.opening.leave();
    }

    /// Ends this; if it is the last, the manager is told, and how long the file is.
    pub(super) async fn close(mut self, length: Option<Length>) -> Result<()> {
        let used = self.used.clone();
        let _turn = used.turn().await;
        let closed = match used.writing.get().times {
            1 => used.close(length, self.upkeep).await,
            _ => Ok(()),
        };
        // What the manager does not take for open is not left unfinished by this client.
        self.is_closed = !matches!(&closed, Err(error) if error.kind != Kind::Missing);
        closed
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let Writing { times, alone } = self.used.writing.get();
        self.used.writing.set(Writing { times: times - 1, alone: alone && times > 1 });
        if self.is_closed {
            return;
        }
        self.leave();
        let used = self.used.clone();
        self.used.spawner.detach(async move {
            let _turn = used.turn().await;
            // If the manager does not hear it, it will that this client is gone.
            drop(used.tell_unfinished().await);
        });
    }
}

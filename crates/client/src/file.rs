//! Files striped over targets, as their clients read and write them: each client computes parity, and does without
//! what is lost. [`FileEngine`] is one open file; [`components`] is what it asks of its components, [`recover`] what is
//! done after a client died, [`upkeep`] scrubs and rebuilds.
//!
//! What holds, whatever fails within what the layout has to spare:
//!
//! - What a flush acknowledged stays, and so does its size. What was not acknowledged is, piece by piece of a unit, there
//!   or not, or is cut off.
//! - Parity agrees with all bytes, but for stripes with an intent and for what lies behind the acknowledged size.
//! - A component that lacks something acknowledged is not read, by anybody, before it was rebuilt.
//! - What this client wrote it reads. Requests about one stripe are done in the order in which they were made.
//! - Memory is bounded by [`Options`], whoever is slow.
//!
//! Async, on one thread, and of no runtime: the same code runs in reality and in simulation.

mod ahead;
mod batch;
pub mod components;
mod cut;
#[cfg(test)]
mod fake;
mod fetch;
mod flush;
mod gather;
mod leave;
mod mend;
pub mod options;
mod order;
mod pace;
mod put;
mod reach;
mod reading;
pub mod recover;
pub mod remote;
mod room;
mod rope;
mod sharing;
mod together;
pub mod upkeep;
mod writing;

pub use components::{Absence, Asked, Begun, Components, Guard, Intent, IntentId, Lock, Redo, Slice};
pub use options::{Options, Sharing};
pub use recover::recover;
pub use upkeep::{Compared, Progress, Scrubbed};

use ahead::Ahead;
use components::is_lost_or_damaged;
use fetch::{Fetched, joined};
use forebay_env::{Clock, Spawner};
use forebay_model::layout::address::StripeId;
use forebay_model::layout::{LARGEST, Striping};
use forebay_model::ranges::Ranges;
use forebay_model::{Bytes, Error, Moment, Result};
use gather::Gather;
use order::{Order, Ticket};
use reach::Reach;
use room::Room;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::ops::Range;
use std::rc::Rc;
use together::to_its_end;

/// The lock of the end of a file, where several append.
pub(crate) const END: StripeId = StripeId(u64::MAX);

/// One open file. Clones are the same one.
#[derive(Clone)]
pub struct FileEngine {
    file: Rc<File>,
}

struct File {
    reach: Rc<Reach>,
    /// Whoever reads or writes shares this; whoever cuts the file has it alone.
    uses: Rc<Order>,
    order: Rc<Order>,
    /// One appends behind the other, and one says behind the other how long the file is.
    appending: Rc<Room>,
    saying: Rc<Room>,
    writing: Rc<Room>,
    reading: Rc<Room>,
    state: RefCell<State>,
}

struct State {
    /// What was written and is not on its way; its bytes are no others' until it is.
    gather: Option<Gather>,
    /// The file is so long for this client.
    size: u64,
    /// So much of it is on its way, at least.
    sent: u64,
    /// So much of it was acknowledged.
    acknowledged: u64,
    /// Why nothing is written any more.
    failed: Option<Error>,
    /// What was taken to be written and is not, or not wholly: it is not read either.
    unwritten: Ranges,
    /// Why a write failed while others had the file open: what it began is ended by whoever has its locks, and who is alone
    /// takes none.
    begun: Option<Error>,
    ahead: Ahead,
}

/// What is known of a file when it is opened, and may be kept.
pub struct Known {
    /// So long what is read is kept, while nobody else writes the file.
    pub until: Rc<Cell<Moment>>,
    /// How long it is, if nobody writes it and nothing is left to be mended.
    pub size: Option<Bytes>,
}

/// How long a file is that was cut so often, if that is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Length {
    pub(crate) cuts: Option<u64>,
    pub(crate) size: Bytes,
}

impl FileEngine {
    /// Opens a file whose components were recovered ([`recover()`]) if a client that wrote them died.
    pub async fn open(
        components: Rc<dyn Components>,
        striping: Striping,
        options: Options,
        spawner: Spawner,
        clock: Rc<dyn Clock>,
    ) -> Result<FileEngine> {
        let known = Known { until: Rc::new(Cell::new(Moment(u64::MAX))), size: None };
        FileEngine::keeping(components, striping, options, known, spawner, clock).await
    }

    /// As [`FileEngine::open`], with what is known of the file and may be kept.
    pub async fn keeping(
        components: Rc<dyn Components>,
        striping: Striping,
        options: Options,
        known: Known,
        spawner: Spawner,
        clock: Rc<dyn Clock>,
    ) -> Result<FileEngine> {
        striping.check()?;
        options.check()?;
        let mut reach = Reach::new(components, striping, options, clock, spawner);
        reach.kept_until = known.until;
        let reach = Rc::new(reach);
        reach.look().await?;
        let size = match (reach.components.length().await, known.size) {
            // Too many of those are away that say it: what they have is not read, and all else is.
            (Err(error), Some(size)) if is_lost_or_damaged(&error) => size.0,
            (length, _) => length?.0,
        };
        let state = State {
            gather: None,
            size,
            sent: size,
            acknowledged: size,
            failed: None,
            unwritten: Ranges::default(),
            begun: None,
            ahead: Ahead::default(),
        };
        let file = File {
            writing: Room::of(options.window.0),
            reading: Room::of(options.window.0),
            appending: Room::of(1),
            saying: Room::of(1),
            reach,
            uses: Rc::default(),
            order: Rc::default(),
            state: RefCell::new(state),
        };
        Ok(FileEngine { file: Rc::new(file) })
    }

    /// The size, as this client knows it; as all know it, if others write.
    pub async fn size(&self) -> Result<Bytes> {
        self.file.size().await
    }

    /// Reads `length` bytes, or as many as there are before the end.
    pub async fn read_at(&self, offset: Bytes, length: Bytes) -> Result<Vec<u8>> {
        Ok(self.file.read(offset, length).await?.whole()?.into_vec())
    }

    /// As [`FileEngine::read_at`], without a copy.
    pub async fn read_slices(&self, offset: Bytes, length: Bytes) -> Result<Vec<Slice>> {
        Ok(self.file.read(offset, length).await?.whole()?.into_slices())
    }

    /// What can still be read, with zeros for what is lost, and which bytes of the file that is.
    pub async fn read_what_is_left(&self, offset: Bytes, length: Bytes) -> Result<(Vec<u8>, Vec<Range<u64>>)> {
        let Fetched { bytes, lost } = self.file.read(offset, length).await?;
        Ok((bytes.into_vec(), joined(lost.into_iter().map(|(range, _)| range))))
    }

    /// Writes. If nobody else has the file open, what failed is said by [`FileEngine::flush`] at the latest, and only
    /// what that acknowledged is durable; otherwise it is durable when this ends.
    pub async fn write_at(&self, offset: Bytes, bytes: Slice) -> Result<()> {
        check(offset, bytes.len() as u64)?;
        let used = self.file.used().await;
        match self.file.reach.is_alone() {
            true => self.file.write_behind(offset.0, bytes).await,
            false => {
                self.to_its_end(|file| async move {
                    let _used = used;
                    file.write_through(offset.0, bytes).await
                })
                .await
            }
        }
    }

    /// Writes behind the end, wherever that is by then, and says where that was.
    pub async fn append(&self, bytes: Slice) -> Result<Bytes> {
        let turn = self.file.appending.hold(1).await;
        let used = self.file.used().await;
        if self.file.reach.is_alone() {
            let offset = Bytes(self.file.state.borrow().size);
            check(offset, bytes.len() as u64)?;
            self.file.write_behind(offset.0, bytes).await?;
            return Ok(offset);
        }
        self.to_its_end(|file| async move {
            let (_turn, _used) = (turn, used);
            let tried = Cell::new(None);
            let (file, bytes, tried) = (&file, &bytes, &tried);
            let append = async || -> Result<Appended> {
                let _end = file.reach.lock_end().await?;
                let offset = file.size().await?;
                check(offset, bytes.len() as u64)?;
                // Somebody else may have appended since, or some of those may say that the file is longer who are to know that.
                if tried.get().is_some_and(|tried| tried != offset) {
                    return Ok(Appended::Elsewhere);
                }
                tried.set(Some(offset));
                file.write_through(offset.0, bytes.clone()).await?;
                Ok(Appended::At(offset))
            };
            match file.reach.despite_changes(append).await? {
                Appended::At(offset) => Ok(offset),
                Appended::Elsewhere => Err(Error::refused(
                    "the lock of the end of the file was lost while it was appended to, and the file is longer by now: what was being \
                     appended was not acknowledged; look whether it is there before it is appended again",
                )),
            }
        })
        .await
    }

    /// Makes durable what was written, with its size. An error of it, or of a write before it, stays until the file is
    /// opened again: what was written since the last flush that succeeded has to be written again.
    pub async fn flush(&self) -> Result<()> {
        self.to_its_end(|file| async move { file.flush().await }).await
    }

    /// Ends what others began in the file and left, also while others write it: what is read from now on stays until somebody
    /// writes it.
    pub async fn end_left(&self) -> Result<()> {
        self.to_its_end(|file| async move {
            file.reach.end_left().await?;
            file.look_how_long().await
        })
        .await
    }

    /// Ends the cut that somebody who is gone began and left, before anything is written beside others; `is_left`, if the file is
    /// known to have been left so that there may be one.
    pub(crate) async fn end_left_cut(&self, is_left: bool) -> Result<()> {
        self.to_its_end(move |file| async move {
            match file.reach.end_left_cut(is_left).await? {
                true => file.look_how_long().await,
                false => Ok(()),
            }
        })
        .await
    }

    /// Cuts the file, or lengthens it with a hole, durably; what is written meanwhile is written then.
    /// [`forebay_model::Kind::Busy`] while others may write it.
    pub async fn truncate(&self, size: Bytes) -> Result<()> {
        check(size, 0)?;
        self.to_its_end(move |file| async move { file.truncate(size).await }).await
    }

    /// Does it to its end, also if nobody waits for it any more: what it has begun to write is not to be overtaken.
    async fn to_its_end<T: 'static, F: Future<Output = Result<T>> + 'static>(
        &self,
        work: impl FnOnce(Rc<File>) -> F,
    ) -> Result<T> {
        to_its_end(&self.file.reach.spawner, work(self.file.clone())).await
    }

    /// Flushes, and ends.
    pub async fn close(self) -> Result<()> {
        self.flush().await
    }

    /// Others may write the file, or read what is written, from when this ends: all that was written is durable then, and nothing
    /// is kept. If that fails nothing is written any more, and the file is to be mended before anybody relies on its parity.
    pub async fn share(&self) -> Result<()> {
        self.to_its_end(|file| async move { file.share().await }).await
    }

    /// Nobody else writes the file any more, nor reads it if this client writes: what is read and written may be kept again.
    pub async fn unshare(&self) -> Result<()> {
        self.to_its_end(|file| async move { file.unshare().await }).await
    }

    /// What was read is read again, and nothing is read ahead, until [`FileEngine::trust`] or until it is shared and not any more.
    pub fn forget(&self) {
        self.file.reach.doubt(true);
        self.file.state.borrow_mut().ahead = Ahead::default();
    }

    /// Nobody else had the file since it was forgotten what was read of it.
    pub fn trust(&self) {
        self.file.reach.doubt(false);
    }

    /// Whether something that was to be written later was not.
    pub fn has_failed(&self) -> bool {
        self.file.state.borrow().failed.is_some()
    }

    /// Whether no write failed while others had the file open: what such a one began is left to be mended, as by a client
    /// that died, since who is alone with the file next would take parity for right that is not.
    pub fn is_ended(&self) -> bool {
        self.file.check_ended().is_ok()
    }

    /// Whether nothing is kept of the file.
    pub fn is_shared(&self) -> bool {
        !self.file.reach.is_alone()
    }

    /// Asks anew which components are missing: somebody lost or rebuilt one.
    pub async fn look_again(&self) -> Result<()> {
        self.file.reach.look().await
    }

    /// Components that have missed something, as far as this client knows.
    pub fn missing(&self) -> Vec<u32> {
        let reach = &self.file.reach;
        (0..reach.striping.components()).filter(|component| reach.has_missed(*component)).collect()
    }

    /// Components that answer far more slowly than those beside them.
    pub fn slow(&self) -> Vec<u32> {
        let reach = &self.file.reach;
        let is_slow = |one: &u32| reach.pace.is_slow(*one, &reach.family(*one), reach.options.hedge_after);
        (0..reach.striping.components()).filter(is_slow).collect()
    }

    /// The size, as [`FileEngine::size`], and how often the file was cut by then.
    pub(crate) async fn length(&self) -> Result<Length> {
        let size = self.size().await?;
        Ok(Length { cuts: Some(self.file.reach.components.cuts()), size })
    }

    /// Bytes that were found damaged, made of others, and written again.
    pub fn mended(&self) -> Bytes {
        self.file.reach.mended.get()
    }
}

/// What came of an attempt to append.
enum Appended {
    At(Bytes),
    /// The file does not end any more where it was tried before.
    Elsewhere,
}

fn check(offset: Bytes, length: u64) -> Result<()> {
    match offset.0.checked_add(length).is_some_and(|end| end <= LARGEST.0) {
        true => Ok(()),
        false => Err(Error::usage(format!(
            "{length} bytes from byte {} on end behind {LARGEST}, which is the largest file; write less",
            offset.0
        ))),
    }
}

impl File {
    fn stripes(&self, range: &Range<u64>) -> Range<u64> {
        let stripe = self.reach.striping.stripe().0;
        range.start / stripe..range.end.div_ceil(stripe)
    }

    async fn size(&self) -> Result<Bytes> {
        if !self.reach.may_keep() {
            let size = self.reach.components.length().await?.0;
            let mut state = self.state.borrow_mut();
            // What is not written yet is behind that.
            state.size = if self.reach.is_alone() { size.max(state.size) } else { size };
        }
        Ok(Bytes(self.state.borrow().size))
    }

    /// It may be shorter than it was when it was opened: what is written behind its end makes it longer again.
    async fn look_how_long(&self) -> Result<()> {
        let _turn = self.saying.hold(1).await;
        let size = self.reach.components.length().await?.0;
        let mut state = self.state.borrow_mut();
        if !self.reach.is_alone() {
            (state.size, state.sent, state.acknowledged) = (size, size, size);
        }
        Ok(())
    }

    /// Waits while the file is cut, and keeps it from being.
    async fn used(&self) -> Ticket {
        let ticket = self.uses.enter(0..1, false);
        ticket.granted().await;
        ticket
    }

    /// Has all written that is gathered, and waits until nothing is under way; nothing else is then. How far it was written.
    async fn quiet(self: &Rc<Self>) -> (Ticket, u64) {
        let used = self.used().await;
        self.send_all();
        let (quiet, sent) = (self.order.enter(0..u64::MAX, true), self.state.borrow().sent);
        drop(used);
        quiet.granted().await;
        (quiet, sent)
    }
}

#[cfg(test)]
mod tests;

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
mod mend;
pub mod options;
mod order;
mod pace;
mod put;
mod ranges;
mod reach;
pub mod recover;
pub mod remote;
mod room;
mod rope;
mod together;
pub mod upkeep;

pub use components::{Absence, Asked, Components, Guard, Intent, IntentId, Lock, Redo, Slice};
pub use options::Options;
pub use recover::recover;
pub use upkeep::{Progress, Scrubbed};

use ahead::{Ahead, Chunk};
use fetch::{Fetched, joined};
use forebay_env::{Clock, Spawner};
use forebay_model::layout::address::StripeId;
use forebay_model::layout::{LARGEST, Raid, Striping};
use forebay_model::{Bytes, Error, Result};
use gather::{Gather, Gathered};
use order::{Order, Ticket};
use put::Before;
use ranges::Ranges;
use reach::Reach;
use room::{Held, Room};
use std::cell::RefCell;
use std::future::Future;
use std::ops::Range;
use std::rc::Rc;
use together::to_its_end;

/// The lock of the end of a file, where several append.
const END: StripeId = StripeId(u64::MAX);

/// One open file.
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
    ahead: Ahead,
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
        striping.check()?;
        options.check()?;
        let reach = Rc::new(Reach::new(components, striping, options, clock, spawner));
        reach.look().await?;
        let size = reach.components.length().await?.0;
        let state = State {
            gather: None,
            size,
            sent: size,
            acknowledged: size,
            failed: None,
            unwritten: Ranges::default(),
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
        match self.file.reach.options.alone {
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
        if self.file.reach.options.alone {
            let offset = Bytes(self.file.state.borrow().size);
            check(offset, bytes.len() as u64)?;
            self.file.write_behind(offset.0, bytes).await?;
            return Ok(offset);
        }
        self.to_its_end(|file| async move {
            let (_turn, _used) = (turn, used);
            let _end = file.reach.lock_end().await?;
            let offset = file.size().await?;
            check(offset, bytes.len() as u64)?;
            file.write_through(offset.0, bytes).await?;
            Ok(offset)
        })
        .await
    }

    /// Makes durable what was written, with its size. An error of it, or of a write before it, stays until the file is
    /// opened again: what was written since the last flush that succeeded has to be written again.
    pub async fn flush(&self) -> Result<()> {
        self.to_its_end(|file| async move { file.flush().await }).await
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

    /// Bytes that were found damaged, made of others, and written again.
    pub fn mended(&self) -> Bytes {
        self.file.reach.mended.get()
    }
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

    fn check_failed(&self) -> Result<()> {
        let failed = self.state.borrow().failed.clone();
        failed.map_or(Ok(()), |error| Err(error.of("nothing is written until the file is opened again")))
    }

    async fn size(&self) -> Result<Bytes> {
        if !self.reach.options.alone {
            let size = self.reach.components.length().await?;
            self.state.borrow_mut().size = size.0;
        }
        Ok(Bytes(self.state.borrow().size))
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

    async fn read(self: &Rc<Self>, offset: Bytes, length: Bytes) -> Result<Fetched> {
        let used = self.used().await;
        let end = offset.0.saturating_add(length.0);
        if !self.reach.options.alone && end > self.state.borrow().size {
            self.size().await?;
        }
        let range = offset.0..end.min(self.state.borrow().size);
        if range.is_empty() {
            return Ok(Fetched::default());
        }
        let room = self.reading.hold(range.end - range.start).await;
        self.send_if_overlaps(&range);
        let place = Rc::new((self.order.enter(self.stripes(&range), false), room));
        let (made, chunks) = self.look_ahead(&range);
        made.into_iter().for_each(|chunk| self.start(chunk));
        drop(used);
        let mut fetched = Fetched::default();
        let mut at = range.start;
        for chunk in chunks {
            // What failed when it was read ahead is read now.
            let Some(mut part) = chunk.filled().await.ok().filter(|part| part.lost.is_empty()) else { continue };
            if at < chunk.range.start {
                self.fetch_into(&place, at..chunk.range.start, &mut fetched).await?;
                at = chunk.range.start;
            }
            let to = chunk.range.end.min(range.end);
            part.bytes.take(at - chunk.range.start);
            fetched.bytes.append(part.bytes.take(to - at));
            at = to;
        }
        self.fetch_into(&place, at..range.end, &mut fetched).await?;
        self.check_written(&range)?;
        Ok(fetched)
    }

    /// What is not to be relied on after a write of this failed: with parity, nothing that may be made of it.
    fn left_open_by(&self, range: Range<u64>) -> Range<u64> {
        if self.reach.striping.raid() != Raid::Five {
            return range;
        }
        let (stripes, stripe) = (self.stripes(&range), self.reach.striping.stripe().0);
        stripes.start * stripe..stripes.end.saturating_mul(stripe)
    }

    /// What failed to be written must not be read as what was there before.
    fn check_written(&self, range: &Range<u64>) -> Result<()> {
        let state = self.state.borrow();
        let is_unwritten = state.unwritten.iter().any(|lost| lost.start < range.end && range.start < lost.end);
        match state.failed.clone().filter(|_| is_unwritten) {
            Some(error) => {
                Err(error.of(format!("bytes {} to {} were not written as they were to be", range.start, range.end)))
            }
            None => Ok(()),
        }
    }

    async fn fetch_into(
        self: &Rc<Self>,
        place: &Rc<(Ticket, Held)>,
        range: Range<u64>,
        to: &mut Fetched,
    ) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let (this, place) = (self.clone(), place.clone());
        // It may write what it finds damaged, which nobody who waits is to be told of too early.
        let fetched = to_its_end(&self.reach.spawner, async move {
            let fetched = this.fetch(&place.0, range).await;
            drop(place);
            fetched
        })
        .await?;
        to.bytes.append(fetched.bytes);
        to.lost.extend(fetched.lost);
        Ok(())
    }

    async fn fetch(&self, ticket: &Ticket, range: Range<u64>) -> Result<Fetched> {
        ticket.granted().await;
        // What is damaged is not made of a stripe that a failed write left open: it may still be made when that is ended.
        self.check_written(&range)?;
        self.reach.fetch(range).await
    }

    /// What is to be read ahead now, and what of a range was.
    fn look_ahead(&self, range: &Range<u64>) -> (Vec<Rc<Chunk>>, Vec<Rc<Chunk>>) {
        if !self.reach.options.alone {
            return (Vec::new(), Vec::new());
        }
        let mut state = self.state.borrow_mut();
        let found = state.ahead.take(range);
        let (size, stripe) = (state.size, self.reach.striping.stripe().0);
        (state.ahead.note(range, size, stripe, &self.reach.options), found)
    }

    fn start(self: &Rc<Self>, chunk: Rc<Chunk>) {
        self.send_if_overlaps(&chunk.range);
        let (this, ticket) = (self.clone(), self.order.enter(self.stripes(&chunk.range), false));
        self.reach.spawner.detach(async move {
            chunk.fill(this.fetch(&ticket, chunk.range.clone()).await);
        });
    }

    async fn write_behind(self: &Rc<Self>, offset: u64, mut bytes: Slice) -> Result<()> {
        let mut at = offset;
        while !bytes.is_empty() {
            self.check_failed()?;
            let part = bytes.split_to(bytes.len().min(self.reach.options.gather.0.max(1) as usize));
            let length = part.len() as u64;
            if !self.writing.fits(length) {
                // What is gathered has room that only its being written gives back.
                self.send_all();
            }
            let held = self.writing.hold(length).await;
            self.gather(at, part, held);
            at += length;
        }
        Ok(())
    }

    fn gather(self: &Rc<Self>, at: u64, bytes: Slice, held: Held) {
        let end = at + bytes.len() as u64;
        if self.state.borrow().gather.as_ref().is_some_and(|gather| gather.end() != at) {
            self.send_all();
        }
        let mut state = self.state.borrow_mut();
        match &mut state.gather {
            Some(gather) => gather.push(bytes, held),
            none => *none = Some(Gather::new(at, bytes, held)),
        }
        state.size = state.size.max(end);
        drop(state);
        self.send_what_is_whole();
        self.send_if_awaited();
    }

    fn send_what_is_whole(self: &Rc<Self>) {
        let mut state = self.state.borrow_mut();
        // As many whole stripes as make a request for each component.
        let (stripe, options) = (self.reach.striping.stripe().0, &self.reach.options);
        let stripes = (options.request.0 / self.reach.striping.unit().0).min(options.gather.0 / stripe).max(1);
        let Some(gather) = &mut state.gather else { return };
        if gather.length() < stripes * stripe {
            return;
        }
        let whole = gather.end() / stripe * stripe;
        let gathered = gather.take(whole.saturating_sub(gather.from));
        if gather.length() == 0 {
            state.gather = None;
        }
        drop(state);
        self.send(gathered);
    }

    /// Has all that is gathered written.
    fn send_all(self: &Rc<Self>) {
        let gathered = self.state.borrow_mut().gather.take().map(|mut gather| gather.take(u64::MAX));
        gathered.into_iter().for_each(|gathered| self.send(gathered));
    }

    fn send_if_overlaps(self: &Rc<Self>, range: &Range<u64>) {
        // What shares a stripe is enough: its parity may be read.
        let stripes = self.stripes(range);
        let meets = |gather: &Gather| {
            let other = self.stripes(&(gather.from..gather.end()));
            other.start < stripes.end && stripes.start < other.end
        };
        if self.state.borrow().gather.as_ref().is_some_and(meets) {
            self.send_all();
        }
    }

    fn send(self: &Rc<Self>, Gathered { from, bytes, held }: Gathered) {
        if bytes.length() == 0 {
            return;
        }
        let range = from..from + bytes.length();
        let ticket = self.order.enter(self.stripes(&range), true);
        let size = {
            let mut state = self.state.borrow_mut();
            state.ahead.forget(&range);
            let before = state.sent;
            state.sent = before.max(range.end);
            before
        };
        let this = self.clone();
        self.reach.spawner.detach(async move {
            ticket.granted().await;
            // A flush that this waited for has acknowledged more.
            let (failed, acknowledged) = {
                let state = this.state.borrow();
                (state.failed.clone(), state.acknowledged)
            };
            let put = match failed {
                Some(error) => Err(error),
                None => this.reach.put(from, bytes, Before { size, acknowledged }).await,
            };
            if let Err(error) = put {
                let mut state = this.state.borrow_mut();
                state.failed.get_or_insert(error);
                state.unwritten.add(this.left_open_by(range));
            }
            drop((held, ticket));
            this.send_if_awaited();
        });
    }

    /// Has written what is gathered if somebody waits for its room, and nothing else gives any back.
    fn send_if_awaited(self: &Rc<Self>) {
        let gathered = self.state.borrow().gather.as_ref().map_or(0, Gather::length);
        if self.writing.is_stuck(gathered) {
            self.send_all();
        }
    }

    async fn write_through(self: &Rc<Self>, offset: u64, bytes: Slice) -> Result<()> {
        let range = offset..offset + bytes.len() as u64;
        if range.is_empty() {
            return Ok(());
        }
        let _room = self.writing.hold(bytes.len() as u64).await;
        let ticket = self.order.enter(self.stripes(&range), true);
        ticket.granted().await;
        let before = Before { size: LARGEST.0, acknowledged: LARGEST.0 };
        self.reach.put(offset, bytes.into(), before).await?;
        self.grown(range.end).await?;
        let mut state = self.state.borrow_mut();
        state.size = state.size.max(range.end);
        Ok(())
    }

    /// Says that the file is so long at least. One at a time: of what is said at the same time, the last would count.
    async fn grown(&self, size: u64) -> Result<()> {
        let _turn = self.saying.hold(1).await;
        if size > self.state.borrow().acknowledged {
            self.reach.components.grown(Bytes(size)).await?;
            self.state.borrow_mut().acknowledged = size;
        }
        Ok(())
    }

    async fn flush(self: &Rc<Self>) -> Result<()> {
        let (_quiet, sent) = self.quiet().await;
        self.flush_to(sent).await
    }

    async fn flush_to(&self, size: u64) -> Result<()> {
        self.check_failed()?;
        let flushed = match self.reach.catch_up().await {
            Ok(()) => self.grown(size).await,
            failed => failed,
        };
        if let Err(error) = &flushed {
            self.state.borrow_mut().failed.get_or_insert(error.clone());
        }
        flushed
    }

    async fn truncate(self: &Rc<Self>, size: Bytes) -> Result<()> {
        let _uses = self.uses.everything().await;
        if !self.reach.options.alone {
            return Err(Error::busy("a file that others may write is not cut; have them close it first"));
        }
        self.send_all();
        let _quiet = self.order.everything().await;
        let (sent, before) = {
            let state = self.state.borrow();
            (state.sent, state.size)
        };
        self.flush_to(sent).await?;
        let cut = match size.0 > before {
            true => self.grown(size.0).await,
            false => self.reach.cut(size).await,
        };
        let mut state = self.state.borrow_mut();
        state.ahead = Ahead::default();
        match &cut {
            Ok(()) => (state.size, state.sent, state.acknowledged) = (size.0, size.0, size.0),
            Err(error) => {
                state.failed.get_or_insert(error.clone());
                state.unwritten.add(self.left_open_by(size.0..before));
            }
        }
        cut
    }
}

#[cfg(test)]
mod tests;

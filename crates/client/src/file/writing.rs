//! Writing a file: gathered and sent later, or through; and what makes that durable, or cuts it.
//!
//! After an error nothing is written any more, and what was to be is not read.

use super::File;
use super::ahead::Ahead;
use super::components::Slice;
use super::gather::{Gather, Gathered};
use super::put::Before;
use super::room::Held;
use forebay_model::layout::{LARGEST, Raid};
use forebay_model::{Bytes, Error, Result};
use std::ops::Range;
use std::rc::Rc;

/// What a run of bytes that is under way takes beside them, in memory and in requests: many of a few bytes are bounded, too.
const OF_A_RUN: u64 = 4096;

impl File {
    pub(super) async fn write_behind(self: &Rc<Self>, offset: u64, mut bytes: Slice) -> Result<()> {
        let mut at = offset;
        while !bytes.is_empty() {
            self.check_failed()?;
            let part = bytes.split_to(bytes.len().min(self.reach.options.gather.0.max(1) as usize));
            let length = part.len() as u64;
            let goes_on = self.state.borrow().gather.as_ref().is_some_and(|gather| gather.end() == at);
            let room = if goes_on { length } else { length + OF_A_RUN };
            if !self.writing.fits(room) {
                // What is gathered has room that only its being written gives back.
                self.send_all();
            }
            let held = self.writing.hold(room).await;
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
    pub(super) fn send_all(self: &Rc<Self>) {
        let gathered = self.state.borrow_mut().gather.take().map(|mut gather| gather.take(u64::MAX));
        gathered.into_iter().for_each(|gathered| self.send(gathered));
    }

    pub(super) fn send_if_overlaps(self: &Rc<Self>, range: &Range<u64>) {
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
        let gathered = self.state.borrow().gather.as_ref().map_or(0, Gather::room);
        if self.writing.is_stuck(gathered) {
            self.send_all();
        }
    }

    pub(super) async fn write_through(self: &Rc<Self>, offset: u64, bytes: Slice) -> Result<()> {
        let range = offset..offset + bytes.len() as u64;
        if range.is_empty() {
            return Ok(());
        }
        let _room = self.writing.hold(bytes.len() as u64).await;
        let ticket = self.order.enter(self.stripes(&range), true);
        ticket.granted().await;
        let before = Before { size: LARGEST.0, acknowledged: LARGEST.0 };
        let written = match self.reach.put(offset, bytes.into(), before).await {
            Ok(()) => self.grown(range.end).await,
            failed => failed,
        };
        let mut state = self.state.borrow_mut();
        match &written {
            Ok(()) => state.size = state.size.max(range.end),
            // Without redundancy nothing else is made of it.
            Err(error) if self.reach.striping.raid() != Raid::Zero => {
                state.begun.get_or_insert_with(|| error.clone());
            }
            Err(_) => {}
        }
        written
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

    pub(super) fn check_failed(&self) -> Result<()> {
        let failed = self.state.borrow().failed.clone();
        failed.map_or(Ok(()), |error| Err(error.of("nothing is written until the file is opened again")))
    }

    /// Whether all that was begun while others had the file open was ended.
    pub(super) fn check_ended(&self) -> Result<()> {
        let begun = self.state.borrow().begun.clone();
        begun.map_or(Ok(()), |error| {
            Err(error.of("a write beside others failed and is ended before anybody is alone with the file"))
        })
    }

    /// What is not to be relied on after a write of this failed: with parity, nothing that may be made of it.
    fn left_open_by(&self, range: Range<u64>) -> Range<u64> {
        if self.reach.striping.raid() != Raid::Five {
            return range;
        }
        let (stripes, stripe) = (self.stripes(&range), self.reach.striping.stripe().0);
        stripes.start * stripe..stripes.end.saturating_mul(stripe)
    }

    pub(super) async fn flush(self: &Rc<Self>) -> Result<()> {
        let (_quiet, sent) = self.quiet().await;
        self.flush_to(sent).await
    }

    pub(super) async fn flush_to(&self, size: u64) -> Result<()> {
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

    pub(super) async fn truncate(self: &Rc<Self>, size: Bytes) -> Result<()> {
        let _uses = self.uses.everything().await;
        if !self.reach.is_alone() {
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

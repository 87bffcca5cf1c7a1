//! Reading a file: what is gathered is sent first, what was read ahead is taken, and the rest is fetched.

use super::File;
use super::ahead::{Ahead, Chunk};
use super::fetch::Fetched;
use super::order::Ticket;
use super::room::Held;
use super::together::to_its_end;
use forebay_model::{Bytes, Result};
use std::ops::Range;
use std::rc::Rc;

impl File {
    pub(super) async fn read(self: &Rc<Self>, offset: Bytes, length: Bytes) -> Result<Fetched> {
        let used = self.used().await;
        let end = offset.0.saturating_add(length.0);
        if !self.reach.may_keep() && end > self.state.borrow().size {
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

    /// What is to be read ahead now, and what of a range was.
    fn look_ahead(&self, range: &Range<u64>) -> (Vec<Rc<Chunk>>, Vec<Rc<Chunk>>) {
        if !self.reach.may_keep() {
            self.state.borrow_mut().ahead = Ahead::default();
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
}

//! Cutting a file: its components are cut, and the parity of the stripe in which it ends then is what is left of it.

use super::Slice;
use super::components::{Intent, Redo, is_lost_or_damaged};
use super::mend::Locked;
use super::reach::Reach;
use super::together::all;
use forebay_model::layout::address::Place;
use forebay_model::layout::update::Extent;
use forebay_model::layout::{Raid, parity};
use forebay_model::{Bytes, Error, Result};
use std::rc::Rc;

impl Reach {
    /// Cuts the file. Nobody else has it open for writing, and nothing of it is under way.
    pub(super) async fn cut(self: &Rc<Self>, size: Bytes) -> Result<()> {
        loop {
            let Some(redo) = self.parity_after(size).await? else {
                self.components.cut(size).await?;
                return self.cut_components(size).await;
            };
            let stripe = self.striping.stripe_of(size);
            let holder =
                self.striping.holders(redo.place.component, stripe).into_iter().find(|one| self.is_asked(*one));
            let holder = holder.ok_or_else(|| Error::device("all components of a stripe are lost; bring them back"))?;
            let intent = Intent { stripe, cut: Some(size), writes: vec![redo], ..Intent::default() };
            match self.unless_left(holder, self.components.intend(holder, intent.clone())).await {
                Ok(id) => return self.end(holder, id, &intent).await,
                Err(error) if is_lost_or_damaged(&error) => self.give_up(holder, &error).await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Ends the cut that somebody began and left, before anything is written beside others: ended later, under the lock of some
    /// stripe, it would take away what was written behind its end meanwhile. Whether there may have been one: if `is_left`, others who
    /// open the file may have ended it between any two requests of this client.
    pub(super) async fn end_left_cut(self: &Rc<Self>, is_left: bool) -> Result<bool> {
        if self.striping.raid() != Raid::Five || self.left_cuts(is_left).await?.is_empty() {
            return Ok(is_left);
        }
        // What it still has under way comes to nothing.
        self.components.shut_out().await?;
        for place in self.left_cuts(is_left).await? {
            drop(self.lock(place).await?);
        }
        Ok(true)
    }

    /// Where the stripes begin in which cuts end that others began and did not end. Of a file that `is_left`, a component that cannot
    /// say so is given up: it may be back when something is written behind the end of a cut that it keeps.
    async fn left_cuts(&self, is_left: bool) -> Result<Vec<Place>> {
        let asked: Vec<u32> = (0..self.striping.components()).filter(|one| self.is_asked(*one)).collect();
        let mut places = Vec::new();
        let found = all(asked.iter().map(|component| self.components.intents(*component))).await;
        for (component, found) in asked.into_iter().zip(found) {
            let intents = match found {
                Err(error) if is_lost_or_damaged(&error) => {
                    // Of a file that nobody left there is no cut to be ended, and who needs the component finds out that it is away.
                    if is_left {
                        self.lose(component, &error).await?;
                    }
                    continue;
                }
                found => found?,
            };
            for (_, intent) in intents.iter().filter(|(_, intent)| intent.cut.is_some()) {
                self.check_intent(intent)?;
                places.push(self.place_of(intent));
            }
        }
        Ok(places)
    }

    /// The parity of the stripe in which a file of `size` ends; `None` if it ends with a stripe, or has no parity that
    /// can be written.
    async fn parity_after(self: &Rc<Self>, size: Bytes) -> Result<Option<Redo>> {
        let stripe = self.striping.stripe_of(size);
        let begin = self.striping.bytes_of(stripe).start;
        let place = self.striping.parity_of(stripe).filter(|place| self.is_written(place.component));
        let Some(place) = place.filter(|_| size.0 > begin) else { return Ok(None) };
        let pieces = self.striping.pieces(begin..size.0)?;
        let read = |piece: forebay_model::layout::address::Piece| {
            let length = Bytes(piece.bytes.end - piece.bytes.start);
            self.read(Extent { place: piece.place, length }, Locked::Yes)
        };
        let mut bytes = vec![0; (size.0 - begin).min(self.striping.unit().0) as usize];
        for part in all(pieces.map(read)).await {
            parity::add(&mut bytes, &part.whole()?);
        }
        // Of a hole there is no parity, and none is made: all of it up to there would be read whenever the file is compared.
        if bytes.iter().all(|byte| *byte == 0)
            && self.components.size(place.component).await.is_ok_and(|end| end <= place.at)
        {
            return Ok(None);
        }
        Ok(Some(Redo { place, bytes: Slice::from(bytes) }))
    }
}

//! Writing into stripes. Of whole stripes nothing is read; of parts, what their parity needs.
//!
//! What lies behind all that was ever acknowledged is written at once, and a flush makes it durable: if the client dies, the
//! file is cut to what was acknowledged. Everything else is done under an intent: first what is going to be written is
//! durable beside the parity, then it is written durably, then the intent is settled; whoever finds it does it again. So
//! parity agrees with all bytes, whenever the client dies, and whichever component is lost then. Of copies the intent
//! says only where they may differ, of one unit: whoever ends it has the lock of one stripe. It is beside all but one of
//! them, so that as long as two are left it is there.
//!
//! A stripe has no intent while its parity is lost: then nothing else of it may be lost, and so nothing is made of the
//! parity.

use super::batch::Batch;
use super::components::{Intent, IntentId, Redo, Slice, is_lost_or_damaged};
use super::mend::Locked;
use super::reach::Reach;
use super::rope::Rope;
use super::together::all;
use forebay_env::yield_now;
use forebay_model::layout::address::{Piece, Place, StripeId};
use forebay_model::layout::update::{Extent, Update};
use forebay_model::layout::{LARGEST, Raid};
use forebay_model::object::Durability;
use forebay_model::{Bytes, Error, Result};
use forebay_wire::object::MOST_AT_ONCE;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Stripes of one write that are changed at the same time.
const AT_ONCE: usize = 8;

/// Intents about copies that are kept, or settled, at the same time: there is one for each unit.
const INTENDED_AT_ONCE: usize = 32;

/// Bytes of an intent, with their parity: a request has so much room, and the intent says where they go besides.
const MOST_INTENDED: Bytes = Bytes(MOST_AT_ONCE.0 - Bytes::kib(4).0);

/// What a write finds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Before {
    /// The file was so long, acknowledged or not.
    pub(super) size: u64,
    /// So much of it may have been acknowledged.
    pub(super) acknowledged: u64,
}

impl Reach {
    /// Writes bytes of the file from `from` on. Nobody else of this client uses their stripes.
    pub(super) async fn put(self: &Rc<Self>, from: u64, bytes: Rope, before: Before) -> Result<()> {
        match (self.striping.raid(), self.is_alone()) {
            (Raid::Five, true) => self.put_stripes(from, bytes, before).await,
            (Raid::Five, false) => self.put_locked(from, bytes).await,
            (Raid::Zero, true) => self.put_new(self.laid(from, bytes)?).await,
            (Raid::Zero, false) => self.put_durable(self.laid(from, bytes)?).await,
            (Raid::One(_), true) => {
                let mut new = bytes;
                let old = new.take(before.acknowledged.saturating_sub(from));
                let behind = from + old.length();
                self.put_copies(from, old).await?;
                self.put_new(self.laid(behind, new)?).await
            }
            (Raid::One(_), false) => {
                let end = from + bytes.length();
                let pieces: Vec<Piece> = self.striping.pieces(from..end)?.collect();
                for pieces in pieces.chunks(AT_ONCE) {
                    let put = pieces.iter().map(|piece| {
                        let part = bytes.slices(piece.bytes.start - from..piece.bytes.end - from);
                        async move {
                            let mut rope = Rope::default();
                            part.into_iter().for_each(|slice| rope.push(slice));
                            self.despite_changes(async || {
                                let _guard = self.lock(piece.place).await?;
                                self.put_copies(piece.bytes.start, rope.clone()).await
                            })
                            .await
                        }
                    });
                    all(put).await.into_iter().collect::<Result<()>>()?;
                }
                Ok(())
            }
        }
    }

    /// Bytes without parity, and their copies, where they belong.
    fn laid(&self, from: u64, mut bytes: Rope) -> Result<Batch> {
        let mut batch = Batch::of(self.options.request);
        for piece in self.striping.pieces(from..from + bytes.length())? {
            let part = bytes.take(piece.bytes.end - piece.bytes.start);
            for component in self.family(piece.place.component) {
                batch.put(Place { component, ..piece.place }, part.clone());
            }
        }
        Ok(batch)
    }

    /// Writes what nobody was ever told is there.
    async fn put_new(&self, batch: Batch) -> Result<()> {
        let failed = batch.write(self, Durability::Buffered).await;
        failed.into_iter().try_for_each(|(extent, error)| match is_lost_or_damaged(&error) {
            true => self.fall_behind(extent, &error),
            false => Err(error),
        })
    }

    /// Writes durably; what is lost is given up.
    async fn put_durable(&self, batch: Batch) -> Result<()> {
        for (extent, error) in batch.write(self, Durability::Durable).await {
            match is_lost_or_damaged(&error) {
                true => self.give_up(extent.place.component, &error).await?,
                false => return Err(error),
            }
        }
        Ok(())
    }

    /// What is behind lacks only what was not acknowledged: it must not lack more.
    async fn none_behind(&self, component: u32) -> Result<()> {
        for behind in self.behind(self.family(component)) {
            self.give_up(behind, &Error::device(format!("component {behind} failed a write"))).await?;
        }
        Ok(())
    }

    async fn put_copies(self: &Rc<Self>, from: u64, bytes: Rope) -> Result<()> {
        if bytes.length() == 0 {
            return Ok(());
        }
        let batch = self.laid(from, bytes)?;
        let mut first: BTreeMap<u32, Vec<Extent>> = BTreeMap::new();
        for extent in batch.extents() {
            let family = self.family(extent.place.component);
            if extent.place.component == family.start {
                // Whoever ends an intent has the lock of one stripe, and looks for those of that.
                first.entry(family.start).or_default().extend(self.units_of(extent));
            }
        }
        let mut intents: Vec<(u32, IntentId)> = Vec::new();
        for (component, agree) in first {
            self.none_behind(component).await?;
            for some in agree.chunks(INTENDED_AT_ONCE) {
                let intend = some.iter().map(|extent| {
                    let stripe = self.stripe_at(extent.place);
                    self.intend_copies(Intent { stripe, agree: vec![*extent], ..Intent::default() })
                });
                for kept in all(intend).await {
                    intents.extend(kept?);
                }
            }
        }
        self.put_durable(batch).await?;
        for some in intents.chunks(INTENDED_AT_ONCE) {
            let settle = some.iter().map(|(holder, id)| self.settle(*holder, *id));
            all(settle).await.into_iter().collect::<Result<()>>()?;
        }
        Ok(())
    }

    /// Keeps an intent beside all copies but one.
    async fn intend_copies(&self, intent: Intent) -> Result<Vec<(u32, IntentId)>> {
        let Some(extent) = intent.agree.first() else { return Ok(Vec::new()) };
        let family = self.family(extent.place.component);
        loop {
            let written: Vec<u32> = family.clone().filter(|copy| self.is_written(*copy)).collect();
            let holders = &written[..written.len().saturating_sub(1)];
            let asked =
                all(holders.iter().map(|copy| self.unless_left(*copy, self.components.intend(*copy, intent.clone()))))
                    .await;
            let mut kept = Vec::new();
            let mut lost = false;
            for (copy, id) in holders.iter().zip(asked) {
                match id {
                    Ok(id) => kept.push((*copy, id)),
                    Err(error) if is_lost_or_damaged(&error) => {
                        self.give_up(*copy, &error).await?;
                        lost = true;
                    }
                    Err(error) => return Err(error),
                }
            }
            if !lost {
                return Ok(kept);
            }
            for (copy, id) in kept {
                self.settle(copy, id).await?;
            }
        }
    }

    /// Under the locks of stripes, one by one.
    async fn put_locked(self: &Rc<Self>, from: u64, bytes: Rope) -> Result<()> {
        let stripes: Vec<(u64, Rope)> = self.by_stripe(from, bytes);
        for some in stripes.chunks(AT_ONCE) {
            let put = some.iter().map(|(from, bytes)| {
                self.despite_changes(async move || {
                    let _guard = self.lock(self.striping.place_of(Bytes(*from))).await?;
                    self.change(*from, bytes.clone(), LARGEST.0, Care::Intent).await
                })
            });
            all(put).await.into_iter().collect::<Result<()>>()?;
        }
        Ok(())
    }

    fn by_stripe(&self, from: u64, mut bytes: Rope) -> Vec<(u64, Rope)> {
        let mut at = from;
        let mut stripes = Vec::new();
        while bytes.length() > 0 {
            let end = self.striping.bytes_of(self.striping.stripe_of(Bytes(at))).end;
            let part = bytes.take(end - at);
            stripes.push((at, part));
            at = end;
        }
        stripes
    }

    async fn put_stripes(self: &Rc<Self>, from: u64, bytes: Rope, before: Before) -> Result<()> {
        let whole = self.striping.stripe().0;
        let mut new = Batch::of(self.options.request);
        let (mut parts, mut filled) = (Vec::new(), 0);
        for (at, bytes) in self.by_stripe(from, bytes) {
            let stripe = self.striping.stripe_of(Bytes(at));
            let is_new = self.striping.bytes_of(stripe).start >= before.acknowledged;
            if !is_new || bytes.length() < whole {
                parts.push((at, bytes, if is_new { Care::None } else { Care::Intent }));
                continue;
            }
            self.lay_stripe(stripe, bytes, &mut new);
            filled += self.striping.unit().0;
            if filled >= self.options.request.0 {
                self.put_new(std::mem::replace(&mut new, Batch::of(self.options.request))).await?;
                filled = 0;
                yield_now().await;
            }
        }
        self.put_new(new).await?;
        while !parts.is_empty() {
            let rest = parts.split_off(parts.len().min(AT_ONCE));
            let put = parts.into_iter().map(|(at, bytes, care)| self.change(at, bytes, before.size, care));
            all(put).await.into_iter().collect::<Result<()>>()?;
            parts = rest;
        }
        Ok(())
    }

    /// A whole stripe, with its parity.
    fn lay_stripe(&self, stripe: StripeId, mut bytes: Rope, batch: &mut Batch) {
        let unit = self.striping.unit().0;
        let units: Vec<Rope> = (0..self.striping.data_units()).map(|_| bytes.take(unit)).collect();
        let parity = Rope::parity(&units);
        for (nth, unit) in (0..).zip(units) {
            batch.put(self.striping.unit_of(stripe, nth), unit);
        }
        if let Some(place) = self.striping.parity_of(stripe) {
            batch.put(place, parity.into());
        }
    }

    /// Changes bytes of one stripe of a file of `size`: so much at a time as an intent may say.
    async fn change(self: &Rc<Self>, from: u64, mut bytes: Rope, size: u64, care: Care) -> Result<()> {
        let unit = self.striping.unit().0;
        let (mut at, mut size) = (from, size);
        while bytes.length() > 0 {
            // The parity goes from the first column that is written to the last, which is all of a unit behind the end of one.
            let is_little = bytes.length() + unit <= MOST_INTENDED.0;
            let most = match care == Care::None || is_little {
                true => bytes.length(),
                false => (unit - at % unit).min(MOST_INTENDED.0 / 2),
            };
            let part = bytes.take(most);
            let length = part.length();
            self.change_part(at, part, size, care).await?;
            at += length;
            // What was written just now is not zero for what comes behind it.
            size = size.max(at);
        }
        Ok(())
    }

    async fn change_part(self: &Rc<Self>, from: u64, bytes: Rope, size: u64, care: Care) -> Result<()> {
        let new = bytes.into_slice();
        let range = from..from + new.len() as u64;
        let stripe = self.striping.stripe_of(Bytes(from));
        let first = self.striping.unit_of(stripe, 0);
        let family = self.family(first.component);
        loop {
            if care == Care::Intent {
                self.none_behind(first.component).await?;
            }
            let lost = self.unwritten(family.clone());
            for update in self.striping.updates(range.clone(), Bytes(size), &lost)? {
                let parity = self.parity_of(&update, from, &new).await?;
                let writes = self.writes_of(&update, from, &new, parity);
                if care == Care::None {
                    for component in self.behind(family.clone()) {
                        let place = Place { component, at: first.at };
                        let extent = Extent { place, length: self.striping.unit() };
                        self.fall_behind(extent, &Error::device(format!("component {component} is behind")))?;
                    }
                    return self.put_new(self.batch_of(&writes)).await;
                }
                let holder = self.striping.holders(first.component, stripe).into_iter().find(|one| self.is_asked(*one));
                let Some(holder) = holder.filter(|_| update.parity.is_some()) else {
                    return self.put_durable(self.batch_of(&writes)).await;
                };
                let redo = writes.iter().map(|(place, bytes)| Redo { place: *place, bytes: bytes.clone() });
                let intent = Intent { stripe, writes: redo.collect(), ..Intent::default() };
                match self.unless_left(holder, self.components.intend(holder, intent)).await {
                    Ok(id) => {
                        self.put_durable(self.batch_of(&writes)).await?;
                        return self.settle(holder, id).await;
                    }
                    Err(error) if is_lost_or_damaged(&error) => self.give_up(holder, &error).await?,
                    Err(error) => return Err(error),
                }
            }
        }
    }

    async fn parity_of(self: &Rc<Self>, update: &Update, from: u64, new: &[u8]) -> Result<Slice> {
        let reads = all(update.reads.iter().map(|extent| self.read(*extent, Locked::Yes))).await;
        let reads: Vec<Slice> = reads.into_iter().map(|part| part.whole()).collect::<Result<_>>()?;
        Ok(Slice::from(update.parity_of(&self.striping, from, new, reads.iter().map(|read| &read[..]))))
    }

    fn writes_of(&self, update: &Update, from: u64, new: &Slice, parity: Slice) -> Vec<(Place, Slice)> {
        let piece = |piece: &Piece| {
            let bytes = new.slice((piece.bytes.start - from) as usize..(piece.bytes.end - from) as usize);
            (piece.place, bytes)
        };
        let parity = update.parity.map(|extent| (extent.place, parity));
        update.writes.iter().map(piece).chain(parity).collect()
    }

    fn batch_of(&self, writes: &[(Place, Slice)]) -> Batch {
        let mut batch = Batch::of(self.options.request);
        writes.iter().for_each(|(place, bytes)| batch.put(*place, bytes.clone().into()));
        batch
    }
}

/// What is done for a stripe's parity to agree with its bytes if the client dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Care {
    /// Nothing: what is there was never acknowledged.
    None,
    /// An intent.
    Intent,
}

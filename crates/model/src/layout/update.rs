//! What is read before bytes of a file are written, so that the parity of their stripes stays right; and what is read in place
//! of what is lost.
//!
//! A stripe is taken apart by columns of bytes: in each, every unit is either wholly written or not at all. The parity of a
//! column is that of its new bytes and of what was read for it: either the bytes that stay (*reconstruct*), or those that go
//! and the old parity (*modify*), whichever is less. Of a whole stripe nothing is read. Where a target is lost there is one
//! way at most; what lies behind the end of the file is zero, and is not read. (Panasas ActiveScale, 2004; Patterson, Gibson
//! and Katz, 1988.)

use super::address::{Piece, Place, StripeId};
use super::{Raid, Striping, parity};
use crate::error::{Error, Result};
use crate::size::Bytes;
use std::ops::Range;

/// Bytes of a component that follow one another, within a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Extent {
    /// Where they begin.
    pub place: Place,
    /// How many they are.
    pub length: Bytes,
}

/// What is to be done with one stripe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// The stripe. Whoever updates it at the same time has to wait.
    pub stripe: StripeId,
    /// What is read first.
    pub reads: Vec<Extent>,
    /// Bytes of the file that are written, but for those of what is lost.
    pub writes: Vec<Piece>,
    /// The parity that is written then.
    pub parity: Option<Extent>,
    /// Bytes of the file that are new, and how far into their units they begin: also those of what is lost.
    new: Vec<(Range<u64>, u64)>,
}

impl Update {
    /// The parity that is to be written. `new` are the bytes of the file from `from` on, `read` those of
    /// [`Update::reads`], in their order.
    pub fn parity_of<'a>(
        &self,
        striping: &Striping,
        from: u64,
        new: &[u8],
        read: impl IntoIterator<Item = &'a [u8]>,
    ) -> Vec<u8> {
        let Some(Extent { place, length }) = self.parity else { return Vec::new() };
        let first = place.at.0 % striping.unit().0;
        let mut bytes = vec![0; length.0 as usize];
        let mut add = |within: u64, some: &[u8]| {
            let at = (within - first) as usize;
            parity::add(&mut bytes[at..at + some.len()], some);
        };
        self.new.iter().for_each(|(range, within)| {
            add(*within, &new[(range.start - from) as usize..(range.end - from) as usize]);
        });
        self.reads.iter().zip(read).for_each(|(extent, some)| add(extent.place.at.0 % striping.unit().0, some));
        bytes
    }
}

/// How the columns of bytes of a stripe are covered by what is written.
struct Column {
    /// Which bytes of each unit these are.
    within: Range<u64>,
    /// Units that are written there: those from the first to the one before the last.
    written: Range<u32>,
}

impl Striping {
    /// What is to be done where these bytes of a file of `size` are written, stripe by stripe, while the components `lost`
    /// can be neither read nor written. [`crate::Kind::Device`] if more is lost than its parity covers; it names the bytes.
    pub fn updates(&self, bytes: Range<u64>, size: Bytes, lost: &[u32]) -> Result<Vec<Update>> {
        let mut updates: Vec<Update> = Vec::new();
        for piece in self.pieces(bytes.clone())? {
            let stripe = self.stripe_of(Bytes(piece.bytes.start));
            if updates.last().is_none_or(|last| last.stripe != stripe) {
                let here = self.bytes_of(stripe);
                let here = here.start.max(bytes.start)..here.end.min(bytes.end);
                updates.push(self.update(stripe, here, size, lost)?);
            }
        }
        Ok(updates)
    }

    /// As [`Striping::updates`], of bytes of one stripe.
    fn update(&self, stripe: StripeId, bytes: Range<u64>, size: Bytes, lost: &[u32]) -> Result<Update> {
        self.check_lost(stripe, lost, &bytes)?;
        let unit = self.unit().0;
        let pieces: Vec<Piece> = self.pieces(bytes.clone())?.collect();
        let new = pieces.iter().map(|piece| (piece.bytes.clone(), piece.bytes.start % unit)).collect();
        let writes = pieces.into_iter().filter(|piece| !self.is_lost(piece.place, lost)).collect();
        let mut update = Update { stripe, reads: Vec::new(), writes, parity: None, new };
        let Some(place) = self.parity_of(stripe).filter(|place| !lost.contains(&place.component)) else {
            return Ok(update);
        };
        let columns = self.columns(stripe, &bytes);
        let first = columns.first().map_or(0, |column| column.within.start);
        let end = columns.last().map_or(0, |column| column.within.end);
        update.parity =
            Some(Extent { place: Place { at: place.at + Bytes(first), ..place }, length: Bytes(end - first) });
        for column in &columns {
            self.reads_of(stripe, column, place, size, lost, &mut update.reads);
        }
        update.reads.sort_unstable();
        update.reads.dedup_by(|next, last| {
            let follows = next.place.component == last.place.component && last.place.at + last.length == next.place.at;
            last.length += if follows { next.length } else { Bytes::ZERO };
            follows
        });
        Ok(update)
    }

    /// The columns of bytes of a stripe in which any of these are written, and what lies between such.
    fn columns(&self, stripe: StripeId, bytes: &Range<u64>) -> Vec<Column> {
        let (unit, begin) = (self.unit().0, self.bytes_of(stripe).start);
        let (from, to) = (bytes.start - begin, bytes.end - begin);
        let mut edges = vec![0, from % unit, to % unit, unit];
        edges.sort_unstable();
        edges.dedup();
        let column = |edges: &[u64]| {
            let (start, end) = (edges[0], edges[1]);
            // The first unit that begins writing at or before this, the last that ends at or behind it.
            let written = from.saturating_sub(start).div_ceil(unit) as u32..((to + unit - end) / unit) as u32;
            Column { within: start..end, written }
        };
        let mut columns: Vec<Column> = edges.windows(2).map(column).collect();
        let is_empty = |column: &&Column| column.written.is_empty();
        columns.truncate(columns.len() - columns.iter().rev().take_while(is_empty).count());
        columns.drain(..columns.iter().take_while(is_empty).count());
        columns
    }

    /// Adds what has to be read for a column of bytes.
    fn reads_of(
        &self,
        stripe: StripeId,
        column: &Column,
        parity: Place,
        size: Bytes,
        lost: &[u32],
        reads: &mut Vec<Extent>,
    ) {
        let begin = self.bytes_of(stripe).start;
        // Of what is behind the end of the file nothing is there.
        let there = |unit: u32| {
            let first = begin + u64::from(unit) * self.unit().0 + column.within.start;
            let length = size.0.saturating_sub(first).min(column.within.end - column.within.start);
            let place = self.unit_of(stripe, unit);
            let at = place.at + Bytes(column.within.start);
            (length > 0).then_some(Extent { place: Place { at, ..place }, length: Bytes(length) })
        };
        let units = 0..self.data_units();
        let (go, stay): (Vec<u32>, Vec<u32>) = units.partition(|unit| column.written.contains(unit));
        let stay: Vec<Extent> = stay.into_iter().filter_map(there).collect();
        let mut go: Vec<Extent> = go.into_iter().filter_map(there).collect();
        // Parity is as long as the first unit.
        if let Some(Extent { length, .. }) = there(0) {
            go.push(Extent { place: Place { at: parity.at + Bytes(column.within.start), ..parity }, length });
        }
        let is_lost = |extents: &[Extent]| extents.iter().any(|extent| lost.contains(&extent.place.component));
        let modify = is_lost(&stay) || !is_lost(&go) && go.len() < stay.len();
        reads.extend(if modify { go } else { stay });
    }

    fn is_lost(&self, place: Place, lost: &[u32]) -> bool {
        (0..self.raid().copies()).all(|copy| lost.contains(&(place.component + copy)))
    }

    /// Whether a stripe can be read and written without these components.
    fn check_lost(&self, stripe: StripeId, lost: &[u32], bytes: &Range<u64>) -> Result<()> {
        let data = (0..self.data_units()).map(|unit| self.unit_of(stripe, unit));
        let gone = data.chain(self.parity_of(stripe)).filter(|place| self.is_lost(*place, lost)).count();
        if gone as u32 <= self.raid().parity_units() {
            return Ok(());
        }
        Err(Error::device(format!(
            "bytes {} to {} are on {gone} targets that are lost, and {} keeps enough for {}; bring one of them back",
            bytes.start,
            bytes.end,
            self.raid(),
            self.raid().parity_units()
        )))
    }

    /// What is read in place of a piece that is lost, of a file of `size`: all of it, one byte over the other, is that. With
    /// copies another one is read, and with parity the rest of the stripe. [`crate::Kind::Device`] if that is lost, too.
    pub fn instead_of(&self, piece: &Piece, size: Bytes, lost: &[u32]) -> Result<Vec<Extent>> {
        let length = Bytes(piece.bytes.end - piece.bytes.start);
        if self.raid() != Raid::Five {
            let mut copies = (0..self.raid().copies()).map(|copy| piece.place.component + copy);
            let left = copies.find(|component| !lost.contains(component));
            let stripe = self.stripe_of(Bytes(piece.bytes.start));
            let Some(component) = left else {
                return Err(self.check_lost(stripe, lost, &piece.bytes).expect_err("it is lost"));
            };
            return Ok(vec![Extent { place: Place { component, ..piece.place }, length }]);
        }
        let stripe = self.stripe_of(Bytes(piece.bytes.start));
        self.check_lost(stripe, lost, &piece.bytes)?;
        let (unit, begin) = (self.unit().0, self.bytes_of(stripe).start);
        let within = piece.bytes.start % unit;
        let of_unit = |nth: u32| {
            let first = begin + u64::from(nth) * unit + within;
            let place = self.unit_of(stripe, nth);
            let extent = Extent {
                place: Place { at: place.at + Bytes(within), ..place },
                length: size.saturating_sub(Bytes(first)).min(length),
            };
            (extent.length > Bytes::ZERO && place.component != piece.place.component).then_some(extent)
        };
        let parity = self
            .parity_of(stripe)
            .map(|place| Extent { place: Place { at: place.at + Bytes(within), ..place }, length });
        Ok((0..self.data_units()).filter_map(of_unit).chain(parity).collect())
    }
}

#[cfg(test)]
mod tests;

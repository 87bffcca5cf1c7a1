//! The bytes of elements alone, one element after the other.
//!
//! Invariant: what is held of an element that comes in pieces is bounded, however large it is.

use crate::show::out::Out;
use forebay_model::ring::{Batch, Item};
use forebay_model::{Bytes, Error, Result};

/// The most that is held of an element until all of it came; of a larger one each piece is written when it comes.
const HELD: usize = 8 << 20;

/// Writes them.
#[derive(Default)]
pub struct Raw {
    held: Vec<u8>,
    /// The element of which pieces were written that is not at its end, and how much.
    under_way: Option<(u64, Bytes)>,
}

impl Raw {
    /// Writes what a batch has of elements.
    pub fn write(&mut self, batch: &Batch, out: &mut Out) -> Result<()> {
        let mut at = 0;
        for item in &batch.items {
            match *item {
                Item::Element { sequence, length, caller, first, last, .. } => {
                    let piece = &batch.payload[at..at + length as usize];
                    at += length as usize + usize::from(caller);
                    if first {
                        self.cut_off()?;
                    }
                    self.piece(sequence, piece, last, out)?;
                }
                // What came of an element before a gap is not whole.
                Item::Gap(_) => self.cut_off()?,
                Item::Expired { .. } | Item::Block { .. } => {}
            }
        }
        Ok(())
    }

    fn piece(&mut self, sequence: u64, piece: &[u8], last: bool, out: &mut Out) -> Result<()> {
        if !last && self.under_way.is_none() && self.held.len() + piece.len() <= HELD {
            self.held.extend_from_slice(piece);
            return Ok(());
        }
        let written = self.under_way.take().map_or(Bytes::ZERO, |(_, written)| written);
        let new = Bytes((self.held.len() + piece.len()) as u64);
        out.bytes(&self.held)?;
        out.bytes(piece)?;
        self.held.clear();
        self.under_way = (!last).then_some((sequence, written + new));
        Ok(())
    }

    /// The element that is under way has no end. None of it is written, unless it is too large for that.
    fn cut_off(&mut self) -> Result<()> {
        self.held.clear();
        self.under_way.take().map_or(Ok(()), |(sequence, written)| {
            Err(Error::damaged(format!(
                "element {sequence} was cut off when it was recorded, and {written} of it are in the output; look for others alone"
            )))
        })
    }
}

#[cfg(test)]
mod tests;

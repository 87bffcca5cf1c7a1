//! Elements that come in pieces, and those that take more than a block.

use super::{Recorder, stopped};
use crate::peer::Splitting;
use forebay_model::ring::Overflow;
use forebay_model::{Cause, Error, Gap, Result, Timestamp};

/// An element that is being recorded in pieces.
pub(super) struct Piece {
    pub(super) time: Timestamp,
    bytes: u64,
    /// There was no room for its beginning, so all of it is dropped.
    dropped: bool,
}

impl Recorder {
    pub(super) fn large_element(
        &mut self,
        time: Timestamp,
        parts: &[&[u8]],
        caller_keys: &[u8],
        cut: u32,
    ) -> Result<()> {
        self.begin_cut(time, caller_keys, cut)?;
        for part in parts {
            self.part(part)?;
        }
        self.end()
    }

    /// Begins an element that comes in pieces and may be larger than a block. Once its beginning has found room, the
    /// rest waits for room, whatever the ring says about overflow.
    pub fn begin(&mut self, time: Timestamp, caller_keys: &[u8]) -> Result<()> {
        self.begin_cut(time, caller_keys, 0)
    }

    fn begin_cut(&mut self, time: Timestamp, caller_keys: &[u8], cut: u32) -> Result<()> {
        self.check(caller_keys)?;
        self.note_time(time);
        let mut dropped = false;
        loop {
            if !self.make_ready(self.overflow == Overflow::Block)? {
                if self.overflow == Overflow::Block {
                    return Err(stopped());
                }
                dropped = true;
                break;
            }
            let may_begin = self.packer.is_empty() || {
                let room = self.packer.room(caller_keys.len());
                room >= self.worth_splitting && self.dispatch.splitting() == Splitting::Anywhere
            };
            if may_begin && self.packer.begin(time, caller_keys, cut) {
                break;
            }
            self.send_block()?;
        }
        self.piece = Some(Piece { time, bytes: 0, dropped });
        self.attention = true;
        Ok(())
    }

    /// Goes on with the element that was begun.
    pub fn part(&mut self, mut bytes: &[u8]) -> Result<()> {
        let largest = self.largest_element();
        let Some(piece) = &mut self.piece else {
            return Err(Error::usage("a part was given of an element that was not begun: call begin first"));
        };
        let (total, dropped) = (piece.bytes + bytes.len() as u64, piece.dropped);
        if total > largest.0 {
            self.abandon(Cause::Rejected)?;
            return Err(self.too_large(total));
        }
        piece.bytes = total;
        while !dropped && !bytes.is_empty() {
            if !self.packer.has_buffer() {
                self.give_buffer(true)?;
            }
            if !self.packer.has_buffer() {
                self.abandon(Cause::Overflow)?;
                return Err(stopped());
            }
            let taken = self.packer.part(bytes);
            bytes = &bytes[taken..];
            if !bytes.is_empty() {
                self.send_block()?;
            }
        }
        Ok(())
    }

    /// Ends the element that was begun.
    pub fn end(&mut self) -> Result<()> {
        let Some(piece) = self.piece.take() else {
            return Err(Error::usage("an element was ended that was not begun: call begin first"));
        };
        self.attention = self.needs_attention();
        if piece.dropped {
            return self.drop_newest(piece.time);
        }
        self.packer.end();
        self.dispatch.elements += 1;
        self.dispatch.bytes += piece.bytes;
        if !self.packer.has_buffer() {
            // The block before went out in the middle of the element: its end lies in the next.
            self.give_buffer(true)?;
        }
        Ok(())
    }

    /// Gives up the element that was begun: it is not in the ring, and a gap of this cause is in its place.
    pub fn abandon(&mut self, cause: Cause) -> Result<()> {
        let Some(piece) = self.piece.take() else {
            return Err(Error::usage("an element was given up that was not begun: call begin first"));
        };
        let cause = if piece.dropped { Cause::Overflow } else { cause };
        if !piece.dropped {
            self.packer.abandon();
        }
        self.lose(Gap { cause, count: Some(1), first: piece.time, last: piece.time });
        if !self.packer.has_buffer() && !self.packer.is_empty() {
            // As when it is ended.
            self.give_buffer(true)?;
        }
        Ok(())
    }
}

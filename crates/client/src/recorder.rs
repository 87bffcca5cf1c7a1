//! Records into a ring: packs elements into blocks, sends them off, keeps account of what could not be kept.
//!
//! Elements are copied once, into a buffer that goes to the device as it is. An element costs no allocation, no clock
//! and no lock; a block costs one of each. Who feeds a recorder calls [`Recorder::tick`] now and then (each time it
//! waits for input, at least four times in a flush interval), or the last elements before a pause stay in memory.
//!
//! Invariants: blocks are numbered from 1 without holes within a session, and arrive in order; a gap is stored before
//! the first element that follows it; blocks that may be lost with the process that serves the ring are kept until
//! they are durable, and sent again to the next. Once it is known that nothing more will be durable, no element is
//! accepted, and the error says how many were and are not there.
//!
//! Here elements are packed and gaps kept; [`pieces`] has elements that come in pieces, [`dispatch`] the way of blocks.

mod dispatch;
mod pieces;
#[cfg(test)]
mod tests;

use crate::peer::{Peer, Splitting};
use crate::stopper::Stopper;
use dispatch::Dispatch;
use forebay_env::Buffer;
use forebay_model::block::{Packer, largest_piece};
use forebay_model::key::KeySet;
use forebay_model::ring::{Losses, Overflow, RingSpec};
use forebay_model::{Bytes, Cause, Error, Gap, Moment, Result, Timestamp};
use forebay_wire::command::WriterOpened;
use pieces::Piece;
use std::sync::Arc;
use std::time::Duration;

/// How far back a time may lie behind the newest before that is told as a gap.
const CLOCK_SLACK: Duration = Duration::from_secs(1);
/// An element that is split begins in the block at hand only if this much of it fits (or all of its keys, if they lie
/// further behind).
const WORTH_SPLITTING: usize = 64 << 10;

/// How to record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecorderOptions {
    /// What happens when the stream is too fast, if not what the ring was created with.
    pub overflow: Option<Overflow>,
}

/// What a recorder has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecorderProgress {
    /// Elements accepted.
    pub elements: u64,
    /// Bytes of them.
    pub bytes: Bytes,
    /// Elements lost and gaps, by cause.
    pub losses: Losses,
    /// Blocks sent off.
    pub blocks: u64,
    /// Elements accepted that are durable.
    pub durable_elements: u64,
    /// Blocks that are durable.
    pub durable_blocks: u64,
    /// Sequence after the last element that is durable.
    pub durable_sequence: u64,
    /// Whether everything in the ring is pinned, so that recording stands still.
    pub full: bool,
}

/// A recording session. A ring has one at a time.
///
/// Only [`Recorder::flush`] and [`Recorder::close`] wait until what was accepted is durable. If a recorder is dropped, what
/// it accepted is still written in the process that has the ring; over a connection, what is not durable by then may be
/// lost, and the next session begins with a gap.
pub struct Recorder {
    packer: Packer<Buffer>,
    /// Elements at or after this time are in order.
    floor: i64,
    newest: i64,
    /// Whether the next element needs more than packing: gaps wait, an element in pieces is under way, or all is over.
    attention: bool,
    caller_width: usize,
    /// Room in a block that is worth beginning an element in that may be split anywhere.
    worth_splitting: usize,
    dispatch: Dispatch,
    spec: RingSpec,
    overflow: Overflow,
    /// Gaps that wait to be stored, at the place of their cause.
    waiting: [Option<Gap>; Cause::CODES],
    losses: Losses,
    /// Newest time of the session before, until the first element of this one has come.
    before: Option<Timestamp>,
    piece: Option<Piece>,
    /// When the first element of the block at hand was accepted.
    accepted: Moment,
}

impl Recorder {
    pub(crate) fn open(peer: Arc<dyn Peer>, ring: &str, options: RecorderOptions) -> Result<Recorder> {
        let (dispatch, opened) = Dispatch::open(peer, ring)?;
        let WriterOpened { spec, newest, .. } = opened;
        let keys = KeySet::parse(&spec.keys)?;
        let mut recorder = Recorder {
            packer: Packer::new(dispatch.writer()),
            floor: i64::MIN,
            newest: i64::MIN,
            attention: newest.is_some(),
            caller_width: keys.caller_width(),
            worth_splitting: WORTH_SPLITTING.max(keys.reach() as usize),
            dispatch,
            overflow: options.overflow.unwrap_or(spec.overflow),
            spec,
            waiting: Default::default(),
            losses: Losses::default(),
            before: newest,
            piece: None,
            accepted: Moment(0),
        };
        if let Some(newest) = newest {
            recorder.saw(newest);
        }
        Ok(recorder)
    }

    /// How the ring was created.
    pub fn spec(&self) -> &RingSpec {
        &self.spec
    }

    /// The largest element that the ring takes.
    pub fn largest_element(&self) -> Bytes {
        match self.dispatch.splitting() {
            Splitting::Nowhere => Bytes(largest_piece(self.spec.block.0 as usize, self.caller_width) as u64),
            Splitting::Anywhere | Splitting::FromABlock => Bytes(self.spec.capacity.0 / 4),
        }
    }

    /// What ends a wait for room, from any thread: the element that waits is refused with [`Kind::Busy`], and what was
    /// accepted before can still be flushed and closed.
    pub fn stopper(&self) -> Stopper {
        self.dispatch.stopper.clone()
    }

    /// Records an element; its bytes are `parts`, joined. `caller_keys` are the values of the ring's caller-supplied
    /// keys, in order.
    ///
    /// If there is no room, the element waits or is dropped (and accounted for as a gap), as the ring says.
    #[inline]
    pub fn element(&mut self, time: Timestamp, parts: &[&[u8]], caller_keys: &[u8]) -> Result<()> {
        if !self.attention
            && time.0 >= self.floor
            && caller_keys.len() == self.caller_width
            && self.packer.push(time, parts, caller_keys)
        {
            self.count(time, parts);
            return Ok(());
        }
        self.element_with_attention(time, parts, caller_keys, 0)
    }

    /// Records an element of which whoever captured it had cut off the last `cut` bytes: a frame longer than the
    /// snap length.
    #[inline]
    pub fn element_cut(&mut self, time: Timestamp, parts: &[&[u8]], caller_keys: &[u8], cut: u32) -> Result<()> {
        if !self.attention
            && time.0 >= self.floor
            && caller_keys.len() == self.caller_width
            && self.packer.push_cut(time, parts, caller_keys, cut)
        {
            self.count(time, parts);
            return Ok(());
        }
        self.element_with_attention(time, parts, caller_keys, cut)
    }

    #[inline]
    fn count(&mut self, time: Timestamp, parts: &[&[u8]]) {
        self.dispatch.elements += 1;
        self.dispatch.bytes += parts.iter().map(|part| part.len() as u64).sum::<u64>();
        self.saw(time);
    }

    #[inline]
    fn saw(&mut self, time: Timestamp) {
        if time.0 > self.newest {
            self.newest = time.0;
            self.floor = time.0.saturating_sub(CLOCK_SLACK.as_nanos() as i64);
        }
    }

    /// Everything about an element that is not mere packing.
    #[cold]
    fn element_with_attention(&mut self, time: Timestamp, parts: &[&[u8]], caller_keys: &[u8], cut: u32) -> Result<()> {
        self.check(caller_keys)?;
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length as u64 > self.largest_element().0 {
            self.lose(Gap { cause: Cause::Rejected, count: Some(1), first: time, last: time });
            return Err(self.too_large(length as u64));
        }
        self.note_time(time);
        let fits_a_block = length <= self.packer.largest(self.spec.block.0 as usize, caller_keys.len());
        if !fits_a_block {
            return self.large_element(time, parts, caller_keys, cut);
        }
        loop {
            if !self.make_ready(self.overflow == Overflow::Block)? {
                return self.drop_newest(time);
            }
            if self.packer.push_cut(time, parts, caller_keys, cut) {
                self.count(time, parts);
                return Ok(());
            }
            self.send_block()?;
        }
    }

    /// Records that something is missing here.
    pub fn gap(&mut self, gap: Gap) -> Result<()> {
        self.dispatch.check()?;
        self.begin_session(gap.first);
        self.lose(gap);
        if self.piece.is_none() { self.make_ready(false).map(|_| ()) } else { Ok(()) }
    }

    /// Sends off what has been in memory for half of the flush interval (everything, if that is zero), and notices if
    /// the process that serves the ring went away.
    pub fn tick(&mut self) -> Result<()> {
        self.dispatch.check()?;
        if self.piece.is_none() && self.waiting.iter().any(Option::is_some) {
            self.make_ready(false)?;
        }
        let looked = self.dispatch.look();
        self.noticed(looked)?;
        self.tell_lost();
        if self.packer.has_buffer() && !self.packer.is_empty() {
            let age = self.dispatch.now().since(self.accepted);
            if age >= self.spec.flush_interval / 2 {
                self.send_block()?;
            }
        }
        Ok(())
    }

    /// Waits until everything that was accepted is durable; the sequence after the last element.
    pub fn flush(&mut self) -> Result<u64> {
        self.dispatch.check()?;
        let unwritten = !self.packer.is_empty() && !self.packer.has_buffer();
        if self.piece.is_none() && (unwritten || self.waiting.iter().any(Option::is_some)) {
            self.make_ready(!self.progress().full)?;
        }
        self.send_block()?;
        let settled = self.dispatch.settle();
        let sequence = self.noticed(settled)?;
        self.tell_lost();
        if self.piece.is_none() && self.waiting.iter().any(Option::is_some) {
            // Such a gap is to be durable, too, and one for which there is room by now; what is given up of that is told with the
            // next flush.
            self.make_ready(!self.progress().full)?;
            self.send_block()?;
            let settled = self.dispatch.settle();
            return self.noticed(settled);
        }
        Ok(sequence)
    }

    /// Takes what was given up on its way for a gap.
    fn tell_lost(&mut self) {
        self.dispatch.lost().into_iter().for_each(|gap| self.lose(gap));
    }

    /// Ends the session: everything that was accepted is durable. An element that was begun and not ended is given up,
    /// and a gap says so.
    pub fn close(mut self) -> Result<RecorderProgress> {
        if self.piece.is_some() {
            self.abandon(Cause::Restart)?;
        }
        self.flush()?;
        let progress = self.progress();
        self.dispatch.close().map(|()| progress)
    }

    /// What it has done so far. Cheap enough for every tick.
    pub fn progress(&self) -> RecorderProgress {
        RecorderProgress { losses: self.losses, ..self.dispatch.progress() }
    }

    fn check(&self, caller_keys: &[u8]) -> Result<()> {
        self.dispatch.check()?;
        if self.piece.is_some() {
            return Err(Error::usage("an element was begun and not ended: call end first"));
        }
        if caller_keys.len() != self.caller_width {
            return Err(Error::usage(format!(
                "an element came with {} bytes of keys and {} takes {}: give every caller-supplied key in its width",
                caller_keys.len(),
                self.dispatch.ring,
                self.caller_width
            )));
        }
        Ok(())
    }

    fn too_large(&self, length: u64) -> Error {
        let (ring, largest) = (&self.dispatch.ring, self.largest_element());
        Error::usage(match self.dispatch.splitting() {
            Splitting::Nowhere => format!(
                "an element of {} is too large for {ring}, which has parity and blocks of {}, and takes elements of up to {largest}: \
                 make it with larger blocks, or without parity",
                Bytes(length),
                self.spec.block
            ),
            Splitting::Anywhere | Splitting::FromABlock => format!(
                "an element of {} is too large for {ring}, which has {} and takes elements of up to {largest} (a quarter): make the \
                 ring larger",
                Bytes(length),
                self.spec.capacity
            ),
        })
    }

    /// At the first element or gap: what came between the last session and this one is missing.
    fn begin_session(&mut self, time: Timestamp) {
        if let Some(before) = self.before.take() {
            let (first, last) = (before.min(time), before.max(time));
            self.lose(Gap { cause: Cause::Restart, count: None, first, last });
        }
    }

    fn note_time(&mut self, time: Timestamp) {
        self.begin_session(time);
        if time.0 < self.floor {
            let newest = Timestamp(self.newest);
            self.lose(Gap { cause: Cause::ClockBack, count: Some(0), first: time, last: newest });
            self.newest = i64::MIN;
            self.saw(time);
        }
    }

    /// The newest element is dropped for want of room.
    fn drop_newest(&mut self, time: Timestamp) -> Result<()> {
        if self.overflow == Overflow::Block {
            return Err(stopped());
        }
        self.lose(Gap { cause: Cause::Overflow, count: Some(1), first: time, last: time });
        Ok(())
    }

    fn lose(&mut self, gap: Gap) {
        let at = gap.cause.index();
        match &mut self.waiting[at] {
            Some(waiting) => {
                waiting.merge(gap);
                self.losses.elements[at] = self.losses.elements[at].saturating_add(gap.count.unwrap_or(0));
            }
            empty => {
                *empty = Some(gap);
                self.losses.add(gap.cause, gap.count);
            }
        }
        self.attention = true;
    }

    /// Makes sure that there is a buffer and that no gap waits. False if there is no room (or the wait for it was
    /// stopped).
    fn make_ready(&mut self, wait: bool) -> Result<bool> {
        loop {
            if !self.packer.has_buffer() {
                self.give_buffer(wait)?;
                if !self.packer.has_buffer() {
                    return Ok(false);
                }
            }
            let Some(at) = self.waiting.iter().position(Option::is_some) else { break };
            let stored = self.waiting[at].is_some_and(|gap| self.packer.gap(&gap));
            if stored {
                self.waiting[at] = None;
            } else {
                self.send_block()?;
            }
        }
        self.attention = self.needs_attention();
        Ok(true)
    }

    /// Gives the packer a buffer, if there is one.
    fn give_buffer(&mut self, wait: bool) -> Result<()> {
        let taken = self.dispatch.take(wait);
        if let Some((buffer, now)) = self.noticed(taken)? {
            self.packer.give(buffer);
            self.accepted = now;
        }
        Ok(())
    }

    /// Ends the block at hand, if there is one, and sends it off.
    fn send_block(&mut self) -> Result<()> {
        if !self.packer.has_buffer() {
            return Ok(());
        }
        let Some(sealed) = self.packer.seal() else { return Ok(()) };
        let sent = self.dispatch.send(sealed, self.accepted);
        self.noticed(sent)
    }

    /// Once recording is over, no element is taken for one that may become durable.
    fn noticed<T>(&mut self, result: Result<T>) -> Result<T> {
        self.attention |= result.is_err();
        result
    }

    /// Whether the next element needs more than packing.
    fn needs_attention(&self) -> bool {
        self.piece.is_some() || self.waiting.iter().any(Option::is_some) || self.dispatch.has_failed()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // Dropping is no close: nobody waits. In the process that has the ring this block is written all the same; what is on
        // its way elsewhere ends with the session.
        if !self.dispatch.has_failed() && self.piece.is_none() {
            let _ = self.send_block();
        }
    }
}

fn stopped() -> Error {
    Error::busy("recording was stopped before the element found room")
}

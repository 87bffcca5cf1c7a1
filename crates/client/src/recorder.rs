//! Records into a ring: packs elements into blocks, sends them off, keeps account of what could not be kept.
//!
//! Elements are copied once, into a buffer that goes to the device as it is. An element costs no allocation, no clock
//! and no lock; a block costs one of each. Who feeds a recorder calls [`Recorder::tick`] now and then (each time it
//! waits for input, at least four times in a flush interval), or the last elements before a pause stay in memory.
//!
//! Invariants: blocks are numbered from 1 without holes within a session, and arrive in order; a gap is stored before
//! the first element that follows it; blocks that may be lost with the process that serves the ring are kept until
//! they are durable, and sent again to the next.

#[cfg(test)]
mod tests;

use crate::peer::{Block, Peer, WriterLink};
use crate::stopper::Stopper;
use forebay_env::Buffer;
use forebay_model::block::Packer;
use forebay_model::key::KeySet;
use forebay_model::ring::{Losses, Overflow, RingSpec};
use forebay_model::{Bytes, Cause, Error, Gap, Kind, Moment, Result, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// How far back a time may lie behind the newest before that is told as a gap.
const CLOCK_SLACK: Duration = Duration::from_secs(1);
/// Breaks in a row after which a recorder gives up.
const MOST_BREAKS: u32 = 8;
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
    /// Blocks that are durable.
    pub durable_blocks: u64,
    /// Sequence after the last element that is durable.
    pub durable_sequence: u64,
    /// Whether everything in the ring is pinned, so that recording stands still.
    pub full: bool,
}

/// A recording session. A ring has one at a time.
pub struct Recorder {
    packer: Packer<Buffer>,
    /// Elements at or after this time are in order.
    floor: i64,
    newest: i64,
    /// Whether the next element needs more than packing: gaps wait, or an element in pieces is under way.
    attention: bool,
    caller_width: usize,
    /// Room in a block that is worth beginning an element in that may be split.
    worth_splitting: usize,
    elements: u64,
    bytes: u64,

    peer: Arc<dyn Peer>,
    link: Option<Box<dyn WriterLink>>,
    ring: String,
    writer: u64,
    spec: RingSpec,
    overflow: Overflow,
    stopper: Stopper,
    /// Gaps that wait to be stored, one a cause.
    waiting: [Option<Gap>; Cause::ALL.len()],
    losses: Losses,
    /// Newest time of the session before, until the first element of this one has come.
    before: Option<Timestamp>,
    piece: Option<Piece>,
    /// When the first element of the block at hand was accepted.
    accepted: Moment,
    sent: u64,
    /// Why recording is over, if it is.
    failure: Option<Error>,
}

/// An element that is being recorded in pieces.
struct Piece {
    time: Timestamp,
    bytes: u64,
    /// There was no room for its beginning, so all of it is dropped.
    dropped: bool,
}

impl Recorder {
    pub(crate) fn open(peer: Arc<dyn Peer>, ring: &str, options: RecorderOptions) -> Result<Recorder> {
        let writer = peer.random();
        let link = peer.open_writer(ring, writer, false)?;
        let opened = link.opened();
        let (spec, newest) = (opened.spec.clone(), opened.newest);
        let keys = KeySet::parse(&spec.keys)?;
        let mut recorder = Recorder {
            packer: Packer::new(writer),
            floor: i64::MIN,
            newest: i64::MIN,
            attention: newest.is_some(),
            caller_width: keys.caller_width(),
            worth_splitting: WORTH_SPLITTING.max(keys.reach() as usize),
            elements: 0,
            bytes: 0,
            peer,
            link: Some(link),
            ring: ring.to_string(),
            writer,
            overflow: options.overflow.unwrap_or(spec.overflow),
            spec,
            stopper: Stopper::default(),
            waiting: Default::default(),
            losses: Losses::default(),
            before: newest,
            piece: None,
            accepted: Moment(0),
            sent: 0,
            failure: None,
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
        Bytes(self.spec.capacity.0 / 4)
    }

    /// What ends a wait for room, from any thread: the element that waits is refused with [`Kind::Busy`], and what was
    /// accepted before can still be flushed and closed.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
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
        self.elements += 1;
        self.bytes += parts.iter().map(|part| part.len() as u64).sum::<u64>();
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

    fn large_element(&mut self, time: Timestamp, parts: &[&[u8]], caller_keys: &[u8], cut: u32) -> Result<()> {
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
            let room = self.packer.room(caller_keys.len());
            if (room >= self.worth_splitting || self.packer.is_empty()) && self.packer.begin(time, caller_keys, cut) {
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
        self.attention = self.waiting.iter().any(Option::is_some);
        if piece.dropped {
            return self.drop_newest(piece.time);
        }
        self.packer.end();
        self.elements += 1;
        self.bytes += piece.bytes;
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

    /// Records that something is missing here.
    pub fn gap(&mut self, gap: Gap) -> Result<()> {
        self.check_failure()?;
        self.begin_session(gap.first);
        self.lose(gap);
        if self.piece.is_none() { self.make_ready(false).map(|_| ()) } else { Ok(()) }
    }

    /// Sends off what has been in memory for half of the flush interval (everything, if that is zero), and notices if
    /// the process that serves the ring went away.
    pub fn tick(&mut self) -> Result<()> {
        self.check_failure()?;
        if self.piece.is_none() && self.waiting.iter().any(Option::is_some) {
            self.make_ready(false)?;
        }
        if let Some(Err(error)) = self.link.as_ref().map(|link| link.durable()) {
            self.recover_from(error)?;
        }
        if self.packer.has_buffer() && !self.packer.is_empty() {
            let age = self.peer.now().since(self.accepted);
            if age >= self.spec.flush_interval / 2 {
                self.send_block()?;
            }
        }
        Ok(())
    }

    /// Waits until everything that was accepted is durable; the sequence after the last element.
    pub fn flush(&mut self) -> Result<u64> {
        self.check_failure()?;
        let unwritten = !self.packer.is_empty() && !self.packer.has_buffer();
        if self.piece.is_none() && (unwritten || self.waiting.iter().any(Option::is_some)) {
            self.make_ready(!self.progress().full)?;
        }
        self.send_block()?;
        loop {
            let sent = self.sent;
            match self.link()?.wait_durable(sent) {
                Ok(durable) if durable.number >= sent => return Ok(durable.sequence),
                Ok(_) => {
                    return Err(Error::full(format!(
                        "everything in {} is pinned, so the last blocks cannot be written; unpin something",
                        self.ring
                    )));
                }
                Err(error) => self.recover_from(error)?,
            }
        }
    }

    /// Ends the session: everything that was accepted is durable. An element that was begun and not ended is given up,
    /// and a gap says so.
    pub fn close(mut self) -> Result<RecorderProgress> {
        if self.piece.is_some() {
            self.abandon(Cause::Restart)?;
        }
        self.flush()?;
        let progress = self.progress();
        match self.link.take() {
            Some(link) => match link.close() {
                // All is durable, and the session ended with the process that served it.
                Err(error) if error.kind != Kind::Disconnected => Err(error),
                _ => Ok(progress),
            },
            None => Ok(progress),
        }
    }

    /// What it has done so far. Cheap enough for every tick.
    pub fn progress(&self) -> RecorderProgress {
        let durable = self.link.as_ref().and_then(|link| link.durable().ok()).unwrap_or_default();
        RecorderProgress {
            elements: self.elements,
            bytes: Bytes(self.bytes),
            losses: self.losses,
            blocks: self.sent,
            durable_blocks: durable.number,
            durable_sequence: durable.sequence,
            full: durable.full,
        }
    }

    fn check(&self, caller_keys: &[u8]) -> Result<()> {
        self.check_failure()?;
        if self.piece.is_some() {
            return Err(Error::usage("an element was begun and not ended: call end first"));
        }
        if caller_keys.len() != self.caller_width {
            return Err(Error::usage(format!(
                "an element came with {} bytes of keys and {} takes {}: give every caller-supplied key in its width",
                caller_keys.len(),
                self.ring,
                self.caller_width
            )));
        }
        Ok(())
    }

    fn check_failure(&self) -> Result<()> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    fn too_large(&self, length: u64) -> Error {
        Error::usage(format!(
            "an element of {} is too large for {}, which has {} and takes elements of up to {} (a quarter): make the ring larger",
            Bytes(length),
            self.ring,
            self.spec.capacity,
            self.largest_element()
        ))
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
        let at = gap.cause as usize - 1;
        match &mut self.waiting[at] {
            Some(waiting) => {
                waiting.merge(gap);
                self.losses.elements[at] += gap.count.unwrap_or(0);
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
        self.attention = self.piece.is_some();
        Ok(true)
    }

    /// Gives the packer a buffer, if there is one.
    fn give_buffer(&mut self, wait: bool) -> Result<()> {
        loop {
            let stopper = self.stopper.clone();
            match self.link()?.take(wait, &stopper) {
                Ok(Some(buffer)) => {
                    self.packer.give(buffer);
                    self.accepted = self.peer.now();
                    return Ok(());
                }
                Ok(None) => return Ok(()),
                Err(error) => self.recover_from(error)?,
            }
        }
    }

    /// Ends the block at hand, if there is one, and sends it off.
    fn send_block(&mut self) -> Result<()> {
        if !self.packer.has_buffer() {
            return Ok(());
        }
        let Some(sealed) = self.packer.seal() else { return Ok(()) };
        let mut buffer = sealed.buffer;
        buffer.set_len(sealed.length);
        self.sent += 1;
        let block = Block { buffer, number: self.sent, accepted: self.accepted };
        match self.link()?.send(block) {
            Ok(()) => Ok(()),
            Err(error) => self.recover_from(error),
        }
    }

    fn link(&mut self) -> Result<&mut Box<dyn WriterLink>> {
        let failure = &self.failure;
        self.link.as_mut().ok_or_else(|| {
            failure
                .clone()
                .unwrap_or_else(|| Error::disconnected("the recorder has lost its ring; begin a new session"))
        })
    }

    /// Goes on after `error`: with the process that serves the ring now, if the last one went away.
    fn recover_from(&mut self, error: Error) -> Result<()> {
        if error.kind != Kind::Disconnected {
            return Err(error);
        }
        let Some(link) = self.link.take() else { return Err(error) };
        let mut blocks = link.unsettled();
        let mut last = error;
        for _ in 0..MOST_BREAKS {
            let mut link = match self.peer.open_writer(&self.ring, self.writer, true) {
                Ok(link) => link,
                Err(error) => {
                    last = error;
                    break;
                }
            };
            let received = link.opened().received;
            blocks.retain(|block| block.number > received);
            let mut broken = false;
            while let Some(block) = blocks.pop_front() {
                match link.send(block) {
                    Ok(()) => {}
                    Err(error) if error.kind == Kind::Disconnected => {
                        last = error;
                        broken = true;
                        break;
                    }
                    Err(error) => {
                        self.failure = Some(error.clone());
                        return Err(error);
                    }
                }
            }
            if !broken {
                self.link = Some(link);
                return Ok(());
            }
            let rest = std::mem::take(&mut blocks);
            blocks = link.unsettled();
            blocks.extend(rest);
        }
        let error = last.of(format!("recording into {} cannot go on", self.ring));
        self.failure = Some(error.clone());
        Err(error)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // Dropping is no close: nobody waits. But what was accepted is not thrown away either.
        if self.failure.is_none() && self.piece.is_none() && self.link.is_some() {
            let _ = self.send_block();
        }
    }
}

fn stopped() -> Error {
    Error::busy("recording was stopped before the element found room")
}

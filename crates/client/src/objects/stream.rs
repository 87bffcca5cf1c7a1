//! Bytes into and out of an object, with several requests under way.

use super::flight::Flight;
use super::{MOST_AT_ONCE, Place, WriteOptions, bytes, done};
use forebay_model::Result;
use forebay_model::object::{Durability, OverQuota, Scope};
use forebay_wire::object::{Ask, ObjectRequest};
use std::collections::VecDeque;
use std::sync::Arc;

const CHUNK: u64 = MOST_AT_ONCE.0;

/// Bytes of an object as they come, in order.
pub struct ObjectReader {
    flight: Flight,
    at: Place,
    /// What is asked for next, and where to end.
    next: u64,
    end: u64,
    /// The lengths that were asked for.
    asked: VecDeque<u64>,
}

impl ObjectReader {
    pub(super) fn new(flight: Flight, at: Place, offset: u64, length: u64) -> ObjectReader {
        let end = offset.saturating_add(length);
        ObjectReader { flight, at, next: offset, end, asked: VecDeque::new() }
    }

    /// The next bytes, [`MOST_AT_ONCE`] at most; `None` at the end.
    pub fn next_bytes(&mut self) -> Result<Option<Vec<u8>>> {
        while self.next < self.end {
            let length = CHUNK.min(self.end - self.next);
            let ask = Ask::Read { id: self.at.id, offset: self.next, length: length as u32 };
            let request = ObjectRequest::new(self.at.target, ask);
            if !self.flight.has_room(&request, 0) {
                break;
            }
            self.flight.send(request, Arc::default())?;
            self.asked.push_back(length);
            self.next += length;
        }
        let Some(asked) = self.asked.pop_front() else { return Ok(None) };
        let (bytes, _) = bytes(self.flight.receive()?.answer?, asked)?;
        if (bytes.len() as u64) < asked {
            // The object ends here; what is behind it is not part of it, even if it grows just now.
            self.next = self.end;
            while self.asked.pop_front().is_some() {
                self.flight.receive()?;
            }
        }
        Ok((!bytes.is_empty()).then_some(bytes))
    }
}

/// Bytes on their way into an object.
pub struct ObjectWriter {
    flight: Flight,
    at: Place,
    /// Where the first byte of `buffer` goes.
    offset: u64,
    buffer: Vec<u8>,
    spare: Vec<Vec<u8>>,
    options: WriteOptions,
    /// The boot epoch in which the first bytes were taken in.
    epoch: Option<u64>,
    over: Option<OverQuota>,
}

impl ObjectWriter {
    pub(super) fn new(flight: Flight, at: Place, offset: u64, options: WriteOptions) -> ObjectWriter {
        ObjectWriter { flight, at, offset, buffer: Vec::new(), spare: Vec::new(), options, epoch: None, over: None }
    }

    /// Takes bytes in; waits while as much is under way as may be. After an error it is of no more use.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let room = CHUNK as usize - self.buffer.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.buffer.extend_from_slice(now);
            bytes = later;
            if self.buffer.len() as u64 == CHUNK {
                self.send()?;
            }
        }
        Ok(())
    }

    /// The volume holds more than it should, as said when bytes were last written.
    pub fn over_quota(&self) -> Option<OverQuota> {
        self.over
    }

    /// Waits until everything is durable; the offset behind the last byte. If bytes were buffered and the target was
    /// opened again meanwhile, an error of kind restarted says that all of them have to be written again.
    pub fn finish(mut self) -> Result<u64> {
        self.complete()
    }

    /// As [`ObjectWriter::finish`], and it can be asked afterwards.
    pub(super) fn complete(&mut self) -> Result<u64> {
        if !self.buffer.is_empty() {
            self.send()?;
        }
        while self.flight.pending() > 0 {
            self.settle()?;
        }
        if let Some(epoch) = self.epoch.filter(|_| self.options.durability == Durability::Buffered) {
            let ask = Ask::Flush { scope: Scope::Object(self.at.id), epoch: Some(epoch) };
            self.flight.send(ObjectRequest::new(self.at.target, ask), Arc::default())?;
            done(self.flight.receive()?.answer)?;
        }
        Ok(self.offset)
    }

    fn send(&mut self) -> Result<()> {
        let WriteOptions { placement, durability } = self.options;
        let ask = Ask::Write { id: self.at.id, offset: self.offset, placement, durability };
        let request = ObjectRequest::new(self.at.target, ask);
        while !self.flight.has_room(&request, self.buffer.len()) {
            self.settle()?;
        }
        let mut next = self.spare.pop().unwrap_or_default();
        next.clear();
        let bytes = std::mem::replace(&mut self.buffer, next);
        self.offset += bytes.len() as u64;
        self.flight.send(request, Arc::new(bytes))
    }

    fn settle(&mut self) -> Result<()> {
        let answered = self.flight.receive()?;
        let answer = answered.answer?;
        self.epoch.get_or_insert(answer.receipt.epoch);
        self.over = answer.receipt.over;
        done(Ok(answer))?;
        self.spare.extend(Arc::into_inner(answered.payload));
        Ok(())
    }
}

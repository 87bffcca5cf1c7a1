//! Bytes from a file, a pipe or a socket: buffered, counted, and honest about having nothing now.
//!
//! A reader that has nothing for a while should say so (`WouldBlock` or `TimedOut`) within 50 ms, so that the sink can
//! tick; one that blocks for longer is read all the same, but holds up the ticks.

use crate::source::ClockDoor;
use forebay_model::{Error, Result, Timestamp};
use std::io::{ErrorKind, Read};

/// What came of asking for bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Have {
    /// As many as were asked for.
    All,
    /// Some came, but not yet so many; look at the clock and ask again.
    Some,
    /// None came; look at the clock, wait a little and ask again.
    Idle,
    /// Never so many: the input has ended, and what is left is shorter.
    Ended,
}

/// A buffered input.
pub(crate) struct Input {
    reader: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    offset: u64,
    ended: bool,
    reads: u64,
}

impl Input {
    pub(crate) fn new(reader: Box<dyn Read + Send>, capacity: usize) -> Input {
        Input { reader, buffer: vec![0; capacity], start: 0, end: 0, offset: 0, ended: false, reads: 0 }
    }

    /// Where in the input the next byte is.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The bytes that are here.
    pub(crate) fn available(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Makes `n` bytes available in one piece. Who asks bounds `n`: the buffer grows to it.
    #[inline]
    pub(crate) fn want(&mut self, n: usize) -> Result<Have> {
        if self.end - self.start >= n { Ok(Have::All) } else { self.fill(n) }
    }

    #[inline(never)]
    fn fill(&mut self, n: usize) -> Result<Have> {
        // One read and no more, so that an input that drips does not hold up the ticks.
        match self.more(n)? {
            Have::Some if self.end - self.start >= n => Ok(Have::All),
            other => Ok(other),
        }
    }

    /// Reads once, unless the buffer is full: then there is more than `n` in it, which says how many bytes in one piece
    /// will be wanted.
    pub(crate) fn more(&mut self, n: usize) -> Result<Have> {
        if self.ended {
            return Ok(Have::Ended);
        }
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.buffer.len() < self.start + n || self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            if self.buffer.len() < n {
                self.buffer.resize(n, 0);
            }
        }
        if self.end == self.buffer.len() {
            return Ok(Have::All);
        }
        loop {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => {
                    self.ended = true;
                    return Ok(Have::Ended);
                }
                Ok(read) => {
                    self.end += read;
                    self.reads += 1;
                    return Ok(Have::Some);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return Ok(Have::Idle),
                Err(e) => {
                    let at = self.offset + (self.end - self.start) as u64;
                    return Err(Error::device(format!("reading failed at byte {at}: {e}")));
                }
            }
        }
    }

    /// Reads no more: what is here is all there is.
    pub(crate) fn close(&mut self) {
        self.ended = true;
    }

    /// Drops the first `n` available bytes.
    pub(crate) fn consume(&mut self, n: usize) {
        debug_assert!(n <= self.end - self.start);
        self.start += n;
        self.offset += n as u64;
    }
}

/// When what is in an input arrived: one look at the clock for each read, not for each element.
pub(crate) struct Arrival {
    reads: u64,
    time: Timestamp,
}

impl Arrival {
    pub(crate) fn new() -> Arrival {
        Arrival { reads: u64::MAX, time: Timestamp(0) }
    }

    #[inline]
    pub(crate) fn of(&mut self, input: &Input, clock: &dyn ClockDoor) -> Timestamp {
        if self.reads != input.reads {
            self.reads = input.reads;
            self.time = clock.wall();
        }
        self.time
    }
}

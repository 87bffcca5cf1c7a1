//! Elements out of a stream of bytes: standard input, a pipe, a file.

use crate::feed::Feed;
use crate::input::{Arrival, Have, Input};
use crate::packets::BUFFER;
use crate::source::{ClockDoor, Sink, Source, Summary};
use forebay_model::{Bytes, Cause, Error, Gap, Result};
use std::fmt;
use std::io::Read;
use std::sync::Arc;

/// Where one element ends and the next begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// So many bytes each; the last may be shorter.
    Chunks(Bytes),
    /// A length of four bytes, least significant first, then so many bytes.
    PrefixedLittle,
    /// A length of four bytes, most significant first, then so many bytes.
    PrefixedBig,
    /// Lines; the newline is no part of the element. The last may lack it.
    Lines,
}

impl fmt::Display for Framing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Framing::Chunks(size) => write!(f, "chunks of {size}"),
            Framing::PrefixedLittle => f.write_str("elements with little-endian lengths"),
            Framing::PrefixedBig => f.write_str("elements with big-endian lengths"),
            Framing::Lines => f.write_str("lines"),
        }
    }
}

/// Elements up to this size are offered in one piece.
const WHOLE: usize = 256 << 10;
const _: () = assert!(WHOLE < BUFFER);

/// Records a stream of bytes. The time of an element is when its first byte was read.
pub struct StreamSource {
    input: Input,
    arrival: Arrival,
    framing: Framing,
    limit: Bytes,
    name: String,
    clock: Arc<dyn ClockDoor>,
    elements: u64,
    /// How much of a line is known to hold no newline.
    searched: usize,
    stopping: bool,
}

/// How far a framing got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// An element or a part was offered.
    Offered,
    /// The input gave something, but not enough.
    Drip,
    /// The input has nothing just now.
    Idle,
    /// The input ended where it may.
    Ended,
}

impl StreamSource {
    /// What `reader` gives, called `name` in messages, cut into elements by `framing`. Elements beyond `limit` (the
    /// largest of the ring) are refused.
    ///
    /// A reader of a pipe should return `WouldBlock` or `TimedOut` when nothing came for a while (at most 50 ms), so
    /// that the sink ticks meanwhile.
    pub fn new(
        reader: Box<dyn Read + Send>,
        name: impl Into<String>,
        framing: Framing,
        limit: Bytes,
        clock: Arc<dyn ClockDoor>,
    ) -> Result<StreamSource> {
        match framing {
            Framing::Chunks(Bytes(0)) => {
                return Err(Error::usage("chunks of 0 bytes would never end; ask for 1 or more"));
            }
            Framing::Chunks(size) if size > limit => {
                return Err(Error::usage(format!(
                    "chunks of {} bytes are larger than the {} that an element may have here",
                    size.0, limit.0
                )));
            }
            _ => {}
        }
        let (input, arrival) = (Input::new(reader, BUFFER), Arrival::new());
        Ok(StreamSource {
            input,
            arrival,
            framing,
            limit,
            name: name.into(),
            clock,
            elements: 0,
            searched: 0,
            stopping: false,
        })
    }

    fn offer(&mut self, feed: &mut Feed<'_>) -> Result<()> {
        loop {
            let progress = match self.framing {
                Framing::Chunks(size) => self.chunk(size, feed)?,
                Framing::PrefixedLittle | Framing::PrefixedBig => self.prefixed(feed)?,
                Framing::Lines => self.line(feed)?,
            };
            let go_on = match progress {
                Progress::Offered => feed.alive()?,
                Progress::Drip => {
                    feed.worked(Feed::DRIP);
                    feed.alive()?
                }
                Progress::Idle => feed.idle()?,
                Progress::Ended => return Ok(()),
            };
            if !go_on {
                // A pipe cannot be read again: what was taken out of it is recorded, as far as it is whole.
                self.input.close();
                self.stopping = true;
                feed.stop();
            }
        }
    }

    fn chunk(&mut self, size: Bytes, feed: &mut Feed<'_>) -> Result<Progress> {
        let whole = usize::try_from(size.0).unwrap_or(usize::MAX);
        match self.want(whole.min(WHOLE))? {
            Have::All if whole <= WHOLE => self.whole(0, whole, feed),
            Have::All => self.pieces(size, true, feed),
            Have::Some => Ok(Progress::Drip),
            Have::Idle => Ok(Progress::Idle),
            Have::Ended if self.input.available().is_empty() => Ok(Progress::Ended),
            Have::Ended => self.whole(0, self.input.available().len(), feed),
        }
    }

    fn prefixed(&mut self, feed: &mut Feed<'_>) -> Result<Progress> {
        match self.want(4)? {
            Have::All => {}
            Have::Some => return Ok(Progress::Drip),
            Have::Idle => return Ok(Progress::Idle),
            Have::Ended if self.stopping || self.input.available().is_empty() => return Ok(Progress::Ended),
            Have::Ended => return Err(self.cut_off(4, self.input.available().len())),
        }
        let prefix: [u8; 4] = self.input.available()[..4].try_into().expect("four bytes were made available");
        let length = match self.framing {
            Framing::PrefixedBig => u32::from_be_bytes(prefix),
            _ => u32::from_le_bytes(prefix),
        };
        if u64::from(length) > self.limit.0 {
            return Err(Error::usage(format!(
                "the length at byte {} says {length}, more than the {} that an element may have here (is it {}?); {}",
                self.input.offset(),
                self.limit.0,
                self.framing,
                self.so_far()
            ))
            .of(&self.name));
        }
        let length = length as usize;
        if length > WHOLE {
            self.input.consume(4);
            return self.pieces(Bytes(length as u64), false, feed);
        }
        match self.want(4 + length)? {
            Have::All => self.whole(4, length, feed),
            Have::Some => Ok(Progress::Drip),
            Have::Idle => Ok(Progress::Idle),
            Have::Ended if self.stopping => Ok(Progress::Ended),
            Have::Ended => {
                // As if it had been begun.
                let time = self.arrival.of(&self.input, &*self.clock);
                feed.gap(Gap { cause: Cause::Rejected, count: Some(1), first: time, last: time })?;
                Err(self.cut_off(4 + length, self.input.available().len()))
            }
        }
    }

    fn line(&mut self, feed: &mut Feed<'_>) -> Result<Progress> {
        let available = self.input.available();
        if let Some(at) = available[self.searched..].iter().position(|b| *b == b'\n') {
            let progress = self.whole(0, self.searched + at, feed)?;
            self.input.consume(1);
            self.searched = 0;
            return Ok(progress);
        }
        self.searched = available.len();
        if self.searched > WHOLE {
            self.searched = 0;
            return self.long_line(feed);
        }
        match self.input.more(WHOLE + 1).map_err(|e| e.of(&self.name))? {
            Have::All | Have::Some => Ok(Progress::Drip),
            Have::Idle => Ok(Progress::Idle),
            Have::Ended if self.searched == 0 || self.stopping => Ok(Progress::Ended),
            Have::Ended => {
                let length = std::mem::take(&mut self.searched);
                self.whole(0, length, feed)
            }
        }
    }

    /// An element that is all here, behind `skip` bytes of framing.
    fn whole(&mut self, skip: usize, length: usize, feed: &mut Feed<'_>) -> Result<Progress> {
        if length as u64 > self.limit.0 {
            return Err(self.line_too_long());
        }
        let time = self.arrival.of(&self.input, &*self.clock);
        feed.element(time, &[&self.input.available()[skip..skip + length]])?;
        self.input.consume(skip + length);
        self.elements += 1;
        Ok(Progress::Offered)
    }

    /// A large element of known length, offered as it comes. It may end early with the input if it `may_be_short`.
    fn pieces(&mut self, length: Bytes, may_be_short: bool, feed: &mut Feed<'_>) -> Result<Progress> {
        feed.begin(self.arrival.of(&self.input, &*self.clock))?;
        let mut left = length.0;
        while left > 0 {
            match self.want(1)? {
                Have::All => {
                    let piece = self.input.available();
                    let piece = &piece[..left.min(piece.len() as u64) as usize];
                    feed.part(piece)?;
                    let taken = piece.len();
                    self.input.consume(taken);
                    left -= taken as u64;
                    if !feed.alive()? {
                        return Ok(Progress::Ended);
                    }
                }
                Have::Idle if feed.idle()? => {}
                Have::Some | Have::Idle => return Ok(Progress::Ended),
                Have::Ended if may_be_short => break,
                Have::Ended if self.stopping => return Ok(Progress::Ended),
                Have::Ended => return Err(self.cut_off(length.0 as usize, (length.0 - left) as usize)),
            }
        }
        feed.end()?;
        self.elements += 1;
        Ok(Progress::Offered)
    }

    /// A line that is longer than what is offered in one piece.
    fn long_line(&mut self, feed: &mut Feed<'_>) -> Result<Progress> {
        feed.begin(self.arrival.of(&self.input, &*self.clock))?;
        let mut length = 0;
        loop {
            match self.want(1)? {
                Have::All => {}
                Have::Idle if feed.idle()? => continue,
                Have::Some | Have::Idle => return Ok(Progress::Ended),
                // Nobody knows what of it is still to come.
                Have::Ended if self.stopping => return Ok(Progress::Ended),
                Have::Ended => break,
            }
            let available = self.input.available();
            let end = available.iter().position(|b| *b == b'\n');
            let piece = &available[..end.unwrap_or(available.len())];
            length += piece.len() as u64;
            if length > self.limit.0 {
                return Err(self.line_too_long());
            }
            feed.part(piece)?;
            let taken = piece.len() + usize::from(end.is_some());
            self.input.consume(taken);
            if end.is_some() {
                break;
            }
            if !feed.alive()? {
                return Ok(Progress::Ended);
            }
        }
        feed.end()?;
        self.elements += 1;
        Ok(Progress::Offered)
    }

    fn want(&mut self, n: usize) -> Result<Have> {
        self.input.want(n).map_err(|e| e.of(&self.name))
    }

    fn so_far(&self) -> String {
        match self.elements {
            0 => "no element was read before it".to_string(),
            1 => "1 element was read before it".to_string(),
            n => format!("{n} elements were read before it"),
        }
    }

    #[cold]
    fn line_too_long(&self) -> Error {
        Error::usage(format!(
            "the line at byte {} is longer than the {} bytes that an element may have here; {}",
            self.input.offset(),
            self.limit.0,
            self.so_far()
        ))
        .of(&self.name)
    }

    #[cold]
    fn cut_off(&self, length: usize, have: usize) -> Error {
        let end = self.input.offset() + self.input.available().len() as u64;
        Error::damaged(format!(
            "the input ends at byte {end} inside an element: {have} of {length} bytes are there; {}",
            self.so_far()
        ))
        .of(&self.name)
    }
}

impl Source for StreamSource {
    fn run(&mut self, sink: &mut dyn Sink) -> Result<Summary> {
        let clock = self.clock.clone();
        Feed::summed(sink, &*clock, |feed| self.offer(feed))
    }

    fn describe(&self) -> String {
        format!("{} from {}", self.framing, self.name)
    }
}

#[cfg(test)]
mod tests;

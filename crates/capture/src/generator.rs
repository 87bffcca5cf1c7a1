//! Elements out of nothing: a stream with a rate, a distribution of sizes, and content that costs nothing to make.
//!
//! The content of a stream is one pattern of [`PERIOD`] bytes, repeated without regard to where elements begin. Stored
//! one behind the other, elements of any sizes are the same few pages over and over. Packets are made beforehand, one
//! for each flow and size. What is offered is a function of the settings and the seed; only its times are not.

mod chance;
mod frames;
mod sizes;

use crate::feed::Feed;
use crate::source::{ClockDoor, Sink, Source, Summary};
use chance::Chance;
use forebay_model::packet::LinkType;
use forebay_model::{Bytes, Error, Moment, Rate, Result, Timestamp};
use frames::Frames;
pub use frames::{FLOWS, PacketSizes};
pub use sizes::Sizes;
use std::sync::Arc;
use std::time::Duration;

/// Bytes after which the content of a stream repeats.
pub const PERIOD: usize = 64;

/// Larger elements are offered in pieces of this size.
const PIECE: usize = 1 << 20;

/// How long a stream with a rate rests when it is ahead: what comes at once is what became due meanwhile.
const REST: Duration = Duration::from_millis(2);

/// What is generated.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Bytes of a pattern.
    Pattern(Sizes),
    /// Ethernet frames with UDP or TCP over IPv4, with right lengths and checksums, of [`FLOWS`] flows of which a few
    /// have most of the packets.
    Packets(PacketSizes),
}

/// Records what it makes up.
pub struct GeneratorSource {
    maker: Maker,
    rate: Option<Rate>,
    left: u64,
    clock: Arc<dyn ClockDoor>,
}

enum Maker {
    Pattern { sizes: sizes::Picker, template: Vec<u8>, position: usize },
    Packets(Frames),
}

/// When elements are due and what times they bear.
struct Schedule {
    rate: Option<Rate>,
    start: Moment,
    wall: Timestamp,
    sent: u64,
    /// Up to where elements may be sent without a look at the clock.
    due: u64,
    time: Timestamp,
}

impl GeneratorSource {
    /// A stream of `content` at `rate` (as fast as it is taken, if `None`), the same again for the same `seed`. It ends
    /// after `elements`, or never.
    ///
    /// Elements of a stream with a rate bear the times at which they were due, so a stream that was held up catches up.
    pub fn new(
        content: Content,
        rate: Option<Rate>,
        elements: Option<u64>,
        seed: u64,
        clock: Arc<dyn ClockDoor>,
    ) -> Result<GeneratorSource> {
        if rate == Some(Rate(0)) {
            return Err(Error::usage("a stream at 0 B/s never has an element; ask for more, or for no elements"));
        }
        let mut chance = Chance::new(seed);
        let maker = match content {
            Content::Pattern(sizes) => {
                let mut template: Vec<u8> = (0..PERIOD).map(|_| chance.next() as u8).collect();
                let sizes = sizes::Picker::new(sizes, chance)?;
                let whole = sizes.largest().min(PIECE as u64) as usize;
                while template.len() < PERIOD + whole {
                    template.extend_from_within(..template.len().min(PERIOD + whole - template.len()));
                }
                Maker::Pattern { sizes, template, position: 0 }
            }
            Content::Packets(sizes) => Maker::Packets(Frames::new(sizes, chance)),
        };
        Ok(GeneratorSource { maker, rate, left: elements.unwrap_or(u64::MAX), clock })
    }

    /// The link type of its packets, if it makes packets.
    pub fn link_type(&self) -> Option<LinkType> {
        matches!(self.maker, Maker::Packets(_)).then_some(LinkType::ETHERNET)
    }

    fn offer(&mut self, feed: &mut Feed<'_>) -> Result<()> {
        let mut schedule = Schedule::new(self.rate, &*self.clock);
        while self.left > 0 {
            if !schedule.wait(feed, &*self.clock)? || !feed.alive()? {
                return Ok(());
            }
            match &mut self.maker {
                Maker::Packets(frames) => {
                    let frame = frames.next();
                    feed.element(schedule.time, &[frame])?;
                    schedule.sent += frame.len() as u64;
                }
                Maker::Pattern { sizes, template, position } => {
                    let size = sizes.next();
                    if size <= PIECE as u64 {
                        feed.element(schedule.time, &[&template[*position..*position + size as usize]])?;
                        schedule.sent += size;
                        *position = (*position + size as usize) % PERIOD;
                    } else {
                        feed.begin(schedule.time)?;
                        let mut left = size;
                        while left > 0 {
                            if !schedule.wait(feed, &*self.clock)? || !feed.alive()? {
                                return Ok(());
                            }
                            let piece = left.min(PIECE as u64) as usize;
                            feed.part(&template[*position..*position + piece])?;
                            *position = (*position + piece) % PERIOD;
                            schedule.sent += piece as u64;
                            left -= piece as u64;
                        }
                        feed.end()?;
                    }
                }
            }
            self.left -= 1;
        }
        Ok(())
    }
}

impl Schedule {
    fn new(rate: Option<Rate>, clock: &dyn ClockDoor) -> Schedule {
        let (start, wall) = (clock.now(), clock.wall());
        Schedule { rate, start, wall, sent: 0, due: 0, time: wall }
    }

    /// Waits until something is due, and sets the time that it bears. False: stop.
    #[inline]
    fn wait(&mut self, feed: &mut Feed<'_>, clock: &dyn ClockDoor) -> Result<bool> {
        match self.rate {
            // Elements without a rate bear a time that is at most so many bytes old.
            None if self.sent < self.due => Ok(true),
            None => {
                const FRESH: u64 = 32 << 10;
                self.due = self.sent + FRESH;
                self.time = clock.wall();
                Ok(true)
            }
            Some(rate) => {
                if self.sent >= self.due && !self.rest(rate, feed, clock)? {
                    return Ok(false);
                }
                // Without the division of wide numbers this is a few instructions for each element.
                self.time = self.wall.after(Duration::from_secs_f64(self.sent as f64 / rate.0 as f64));
                Ok(true)
            }
        }
    }

    #[inline(never)]
    fn rest(&mut self, rate: Rate, feed: &mut Feed<'_>, clock: &dyn ClockDoor) -> Result<bool> {
        loop {
            let now = clock.now();
            // One byte beyond what time has brought, so that the first element is due at once.
            self.due = rate.bytes_in(now.since(self.start)).0 + 1;
            if self.sent < self.due {
                return Ok(true);
            }
            let next = self.start + rate.time_for(Bytes(self.sent));
            if !feed.wait(next.max(now + REST))? {
                return Ok(false);
            }
        }
    }
}

impl Source for GeneratorSource {
    fn run(&mut self, sink: &mut dyn Sink) -> Result<Summary> {
        let clock = self.clock.clone();
        Feed::summed(sink, &*clock, |feed| self.offer(feed))
    }

    fn describe(&self) -> String {
        let what = match self.maker {
            Maker::Pattern { .. } => "generated elements",
            Maker::Packets(_) => "generated packets",
        };
        match self.rate {
            Some(rate) => format!("{what} at {rate}"),
            None => format!("{what} as fast as they are taken"),
        }
    }
}

#[cfg(test)]
mod tests;

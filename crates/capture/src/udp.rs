//! Datagrams as elements.

use crate::feed::{Feed, TICK};
use crate::source::{ClockDoor, Sink, Source, Summary};
use forebay_env::real::udp::{UdpOptions, UdpReceiver};
use forebay_model::{Bytes, Cause, Error, Gap, Moment, Result, Timestamp};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How often it is looked whether the interface of a multicast group is still there, and, while nothing comes, whether
/// the kernel dropped anything.
const LOOK: Duration = Duration::from_millis(200);

/// Records the datagrams that come to a port, until the sink says stop. What the kernel dropped is a gap before the
/// next datagram.
pub struct UdpSource {
    receiver: UdpReceiver,
    frame: Option<Bytes>,
    each: Each,
    clock: Arc<dyn ClockDoor>,
    looked: Moment,
    /// When the last datagram came, or receiving began, for the first time or again.
    last: Timestamp,
    /// Whether the interface of the multicast group is away.
    away: bool,
}

/// How many elements each datagram so far was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Each {
    /// None came yet.
    Unknown,
    /// Each of them so many.
    Same(u64),
    /// Not all of them as many.
    Different,
}

impl Each {
    fn saw(&mut self, elements: Option<u64>) {
        *self = match (*self, elements) {
            (Each::Unknown, Some(elements)) => Each::Same(elements),
            (Each::Same(before), Some(elements)) if before == elements => Each::Same(before),
            _ => Each::Different,
        };
    }

    /// What is missing with so many datagrams.
    fn of(self, datagrams: u32) -> Option<u64> {
        match self {
            Each::Same(elements) => Some(u64::from(datagrams).saturating_mul(elements)),
            Each::Unknown | Each::Different => None,
        }
    }
}

impl UdpSource {
    /// Opens the port: what comes from now on is recorded by [`Source::run`].
    ///
    /// With a `frame`, datagrams are cut into elements of that size; what is left of one that does not hold whole
    /// frames is recorded as rejected. How many frames the kernel dropped is then known only as long as all datagrams have
    /// as many.
    pub fn open(options: &UdpOptions, frame: Option<Bytes>, clock: Arc<dyn ClockDoor>) -> Result<UdpSource> {
        if frame == Some(Bytes::ZERO) {
            return Err(Error::usage("frames of 0 bytes cannot be cut out of a datagram; ask for 1 or more"));
        }
        let receiver = UdpReceiver::open(options)?;
        let (looked, last) = (clock.now(), clock.wall());
        // Without frames each is one, whatever comes.
        let each = if frame.is_some() { Each::Unknown } else { Each::Same(1) };
        Ok(UdpSource { receiver, frame, each, clock, looked, last, away: false })
    }

    /// The address and port that it receives at; of interest if port 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.receiver.address()
    }

    fn offer(&mut self, feed: &mut Feed<'_>) -> Result<()> {
        loop {
            let count = self.batch(feed, Timestamp::MAX, TICK)?;
            self.look(feed, count)?;
            let go_on = if count == 0 { feed.idle()? } else { feed.alive()? };
            if !go_on {
                // What came before the request to stop is recorded, though the kernel still holds it.
                let until = self.clock.wall();
                feed.stop();
                while self.batch(feed, until, Duration::ZERO)? > 0 {
                    feed.alive()?;
                }
                self.drops(feed)?;
                return self.came_back(feed);
            }
        }
    }

    /// Offers a batch of datagrams up to the first one after `until`; gives how many there were.
    fn batch(&mut self, feed: &mut Feed<'_>, until: Timestamp, wait: Duration) -> Result<usize> {
        self.receiver.receive(wait)?;
        let mut count = 0;
        for datagram in self.receiver.datagrams() {
            if datagram.time > until {
                if datagram.dropped > 0 {
                    // The kernel's counter has told of these with it, and does not do so again.
                    feed.gap(lost(self.each.of(datagram.dropped), self.last, until))?;
                }
                return Ok(0);
            }
            count += 1;
            if datagram.dropped > 0 {
                feed.gap(lost(self.each.of(datagram.dropped), self.last, datagram.time))?;
            }
            self.last = datagram.time;
            let Some(size) = self.frame else {
                feed.element(datagram.time, &[datagram.data])?;
                continue;
            };
            let frames = datagram.data.chunks_exact(size.0 as usize);
            let rest = frames.remainder();
            // One without frames says nothing of how many others have.
            let is_cut = rest.is_empty() && !datagram.data.is_empty();
            self.each.saw(is_cut.then_some(frames.len() as u64));
            for frame in frames {
                feed.element(datagram.time, &[frame])?;
            }
            if !rest.is_empty() {
                let (first, last) = (datagram.time, datagram.time);
                feed.gap(Gap { cause: Cause::Rejected, count: Some(1), first, last })?;
            }
        }
        Ok(count)
    }

    /// Now and then: is the interface of the group still there, and, while nothing comes, was anything dropped?
    fn look(&mut self, feed: &mut Feed<'_>, count: usize) -> Result<()> {
        let now = self.clock.now();
        if now.since(self.looked) < LOOK {
            return Ok(());
        }
        self.looked = now;
        if count == 0 {
            self.drops(feed)?;
        }
        if self.receiver.is_joined() {
            return Ok(());
        }
        self.away = true;
        match self.receiver.join() {
            Ok(()) => self.came_back(feed),
            // Not yet; it is tried again with the next look.
            Err(_) => Ok(()),
        }
    }

    fn drops(&mut self, feed: &mut Feed<'_>) -> Result<()> {
        match self.receiver.dropped_since()? {
            0 => Ok(()),
            dropped => feed.gap(lost(self.each.of(dropped), self.last, self.clock.wall())),
        }
    }

    /// Records how long the interface was away, if it was: since the last datagram, as nobody noticed when it left.
    fn came_back(&mut self, feed: &mut Feed<'_>) -> Result<()> {
        if !std::mem::take(&mut self.away) {
            return Ok(());
        }
        let first = self.last;
        let last = self.clock.wall().max(first);
        self.last = last;
        feed.gap(Gap { cause: Cause::SourceAway, count: None, first, last })
    }
}

fn lost(count: Option<u64>, first: Timestamp, last: Timestamp) -> Gap {
    Gap { cause: Cause::Kernel, count, first: first.min(last), last }
}

impl Source for UdpSource {
    fn run(&mut self, sink: &mut dyn Sink) -> Result<Summary> {
        let clock = self.clock.clone();
        Feed::summed(sink, &*clock, |feed| self.offer(feed))
    }

    fn describe(&self) -> String {
        match self.frame {
            Some(size) => format!("frames of {size} at udp {}", self.address()),
            None => format!("datagrams at udp {}", self.address()),
        }
    }
}

#[cfg(test)]
mod tests;

//! Packets from a pcap or pcapng file or pipe.

use crate::feed::Feed;
use crate::packets::{PacketReader, Step};
use crate::source::{ClockDoor, Sink, Source, Summary};
use forebay_model::packet::LinkType;
use forebay_model::{Bytes, Cause, Gap, Moment, Result, Timestamp};
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

/// Records a capture: every packet an element with its own time, and the drops that it tells of as gaps.
pub struct FileSource {
    reader: PacketReader,
    name: String,
    clock: Arc<dyn ClockDoor>,
    pace: Option<Pace>,
}

/// Packets come as far apart as they did when they were captured.
#[derive(Default)]
struct Pace {
    start: Option<(Timestamp, Moment)>,
}

impl FileSource {
    /// The capture that `reader` gives, called `name` in messages. Packets beyond `limit` (the largest element of the
    /// ring) are refused.
    ///
    /// A reader of a pipe should return `WouldBlock` or `TimedOut` when nothing came for a while (at most 50 ms), so
    /// that the sink ticks meanwhile.
    pub fn new(
        reader: Box<dyn Read + Send>,
        name: impl Into<String>,
        limit: Bytes,
        clock: Arc<dyn ClockDoor>,
    ) -> FileSource {
        FileSource { reader: PacketReader::new(reader, limit), name: name.into(), clock, pace: None }
    }

    /// Offers the packets as far apart as they were captured, instead of as fast as they can be read. Their times stay
    /// the original ones.
    pub fn paced(mut self) -> FileSource {
        self.pace = Some(Pace::default());
        self
    }

    /// Reads the beginning, until the link type is known. `None`: `go_on` said to stop waiting for it.
    pub fn prepare(&mut self, go_on: &mut dyn FnMut() -> bool) -> Result<Option<LinkType>> {
        while !self.reader.prepare().map_err(|e| e.of(&self.name))? {
            if !go_on() {
                return Ok(None);
            }
            self.clock.pause(Duration::from_millis(1));
        }
        Ok(self.link_type())
    }

    /// The link type of all its packets, known after [`FileSource::prepare`].
    pub fn link_type(&self) -> Option<LinkType> {
        self.reader.link_type()
    }

    fn offer(&mut self, feed: &mut Feed<'_>) -> Result<()> {
        let clock = self.clock.clone();
        let mut stopping = false;
        let mut last = None;
        loop {
            let step = match self.reader.step() {
                Ok(step) => step,
                // What came in together with the last packet may well end inside of the next.
                Err(_) if stopping => return Ok(()),
                Err(e) => {
                    // Nobody knows how many packets there would have been.
                    let time = last.unwrap_or_else(|| clock.wall());
                    feed.gap(Gap { cause: Cause::Rejected, count: None, first: time, last: time })?;
                    return Err(e.of(&self.name));
                }
            };
            let go_on = match step {
                Step::Packet(packet) => {
                    let time = packet.time.unwrap_or_else(|| clock.wall());
                    last = Some(time);
                    if let Some(pace) = &mut self.pace
                        && !feed.wait(pace.due(time, clock.now()))?
                    {
                        // A packet whose hour has not come was not captured.
                        return Ok(());
                    }
                    feed.element_cut(time, &[packet.data], packet.cut())?;
                    feed.alive()?
                }
                Step::Gap(gap) => {
                    feed.gap(gap)?;
                    feed.alive()?
                }
                Step::Passed(bytes) => {
                    feed.worked(bytes);
                    feed.alive()?
                }
                Step::Idle => feed.idle()?,
                Step::End => return Ok(()),
            };
            if !go_on {
                // A pipe cannot be read again: what was taken out of it is recorded.
                self.reader.close();
                feed.stop();
                stopping = true;
            }
        }
    }
}

impl Pace {
    fn due(&mut self, time: Timestamp, now: Moment) -> Moment {
        let (first, start) = *self.start.get_or_insert((time, now));
        start + time.since(first)
    }
}

impl Source for FileSource {
    fn run(&mut self, sink: &mut dyn Sink) -> Result<Summary> {
        let clock = self.clock.clone();
        Feed::summed(sink, &*clock, |feed| self.offer(feed))
    }

    fn describe(&self) -> String {
        match self.reader.format() {
            Some(format) => format!("{format} packets from {}", self.name),
            None => format!("packets from {}", self.name),
        }
    }
}

#[cfg(test)]
mod tests;

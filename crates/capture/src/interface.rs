//! Packets from a network interface.
//!
//! What the kernel dropped becomes a gap before the packets that came after. An interface that goes away does not end
//! the recording: a gap covers the time from the last packet before that until one of the same name is back.

use crate::feed::{Feed, TICK};
use crate::source::{ClockDoor, Sink, Source, Summary};
use forebay_env::real::packet::{Frame, PacketOptions, PacketRing, PacketStatistics, Waited};
use forebay_model::packet::LinkType;
use forebay_model::{Cause, Error, Gap, Kind, Result, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// Where a VLAN tag belongs in an Ethernet frame: behind both addresses.
const ADDRESSES: usize = 12;

/// How often the kernel is asked for drops while nothing comes.
const ASK: Duration = Duration::from_millis(200);

/// Records an interface until the sink says stop.
pub struct InterfaceSource {
    name: String,
    options: PacketOptions,
    clock: Arc<dyn ClockDoor>,
    /// `None` while the interface is away.
    ring: Option<PacketRing>,
    link: LinkType,
    /// When the last packet came, or listening began.
    last: Timestamp,
    /// What `last` was when the interface was last seen not to have been away. Packets that were offered since may have
    /// come after it was away and back.
    sure: Timestamp,
}

impl InterfaceSource {
    /// Opens the interface called `name` and starts listening: what comes from now on is recorded by
    /// [`Source::run`]. Needs the capability to open packet sockets (`CAP_NET_RAW`).
    pub fn open(name: &str, options: PacketOptions, clock: Arc<dyn ClockDoor>) -> Result<InterfaceSource> {
        let ring = PacketRing::open(name, &options)?;
        let link = link_type(&ring)?;
        let last = clock.wall();
        Ok(InterfaceSource { name: name.to_string(), options, clock, ring: Some(ring), link, last, sure: last })
    }

    /// The link type of its packets.
    pub fn link_type(&self) -> LinkType {
        self.link
    }

    fn offer(&mut self, feed: &mut Feed<'_>) -> Result<()> {
        let mut asked = self.clock.now();
        loop {
            let Some(ring) = &mut self.ring else {
                if self.come_back(feed)? {
                    continue;
                }
                return Ok(());
            };
            let waited = ring.wait(TICK)?;
            if waited != Waited::Away {
                self.sure = self.last;
            }
            let go_on = match waited {
                Waited::Ready => self.blocks(feed, Timestamp::MAX)?,
                Waited::Nothing => {
                    if self.clock.now().since(asked) >= ASK {
                        asked = self.clock.now();
                        self.ask(feed)?;
                    }
                    feed.idle()?
                }
                Waited::Away => {
                    self.drain(feed, Timestamp::MAX)?;
                    self.ring = None;
                    true
                }
            };
            if !go_on {
                // What came before the request to stop is recorded, though the kernel still holds it.
                let until = self.clock.wall();
                feed.stop();
                return self.drain(feed, until);
            }
        }
    }

    /// Offers all blocks that are there, up to the first packet after `until`. False: stop.
    fn blocks(&mut self, feed: &mut Feed<'_>, until: Timestamp) -> Result<bool> {
        loop {
            let Some(ring) = &mut self.ring else { return Ok(true) };
            let Some(block) = ring.block() else { return Ok(true) };
            if block.is_losing() {
                let statistics = block.statistics()?;
                // After several stalls the last one may be younger than this block.
                let resumed = if statistics.stalls <= 1 { block.first() } else { self.clock.wall() };
                losses(feed, statistics, self.last, resumed)?;
            }
            let mut go_on = true;
            for frame in block.frames() {
                if frame.time > until {
                    return Ok(false);
                }
                element(feed, self.link, &frame)?;
                self.last = frame.time;
                go_on &= feed.alive()?;
            }
            if !go_on {
                return Ok(false);
            }
        }
    }

    /// Offers what came until `until`, waiting for blocks that the kernel has not handed over yet.
    fn drain(&mut self, feed: &mut Feed<'_>, until: Timestamp) -> Result<()> {
        let end = self.clock.now() + 3 * self.options.retire;
        loop {
            if !self.blocks(feed, until)? && until != Timestamp::MAX {
                return self.ask(feed);
            }
            let left = end.since(self.clock.now());
            if left.is_zero() {
                return self.ask(feed);
            }
            if let Some(ring) = &mut self.ring {
                ring.wait(left.min(TICK))?;
            }
            feed.alive()?;
        }
    }

    /// Asks the kernel what it dropped since the last packet.
    fn ask(&mut self, feed: &mut Feed<'_>) -> Result<()> {
        let Some(ring) = &self.ring else { return Ok(()) };
        losses(feed, ring.statistics()?, self.last, self.clock.wall())
    }

    /// Waits until an interface of this name is up, and records how long there was none. False: stop.
    fn come_back(&mut self, feed: &mut Feed<'_>) -> Result<bool> {
        // Nobody noticed when it left.
        let mut gap = Gap { cause: Cause::SourceAway, count: None, first: self.sure, last: self.sure };
        let go_on = loop {
            match PacketRing::open(&self.name, &self.options) {
                Ok(ring) => {
                    let link = link_type(&ring)?;
                    if link != self.link {
                        return Err(Error::usage(format!(
                            "interface {} came back with link type {link} and had {} before, and a recording has one",
                            self.name, self.link
                        )));
                    }
                    self.ring = Some(ring);
                    break true;
                }
                Err(e) if matches!(e.kind, Kind::Missing | Kind::Busy | Kind::Device) => {}
                Err(e) => return Err(e),
            }
            let look_again = self.clock.now() + TICK;
            if !feed.wait(look_again)? {
                break false;
            }
        };
        gap.last = self.clock.wall().max(gap.first);
        (self.last, self.sure) = (gap.last, gap.last);
        feed.gap(gap)?;
        Ok(go_on)
    }
}

/// What the frames of the interface begin with, by its kind (`ARPHRD_*` of the kernel).
fn link_type(ring: &PacketRing) -> Result<LinkType> {
    let link = match ring.kind() {
        // Ethernet; loopback, whose frames have an empty Ethernet header.
        1 | 772 => Some(LinkType::ETHERNET),
        // Tunnels that carry bare IP: none, rawip, tunnel, tunnel6, sit, ipgre.
        0xfffe | 519 | 768 | 769 | 776 | 778 => Some(LinkType::RAW),
        801 => Some(LinkType::IEEE802_11),
        803 => Some(LinkType::RADIOTAP),
        _ => None,
    };
    link.ok_or_else(|| {
        Error::usage(format!(
            "interface {} is of kind {}, for whose frames no link type is known here; Ethernet, loopback, tunnels and \
             802.11 are",
            ring.name(),
            ring.kind()
        ))
    })
}

/// Offers what the kernel dropped between `first` and `resumed` as a gap.
fn losses(feed: &mut Feed<'_>, statistics: PacketStatistics, first: Timestamp, resumed: Timestamp) -> Result<()> {
    if statistics.dropped == 0 {
        return Ok(());
    }
    let gap = Gap { cause: Cause::Kernel, count: Some(statistics.dropped), first: first.min(resumed), last: resumed };
    feed.gap(gap)
}

/// Offers a frame, with its VLAN tag where it was on the wire.
#[inline]
fn element(feed: &mut Feed<'_>, link: LinkType, frame: &Frame<'_>) -> Result<()> {
    let cut = frame.original.saturating_sub(frame.data.len() as u32);
    match (&frame.vlan, frame.data.split_at_checked(ADDRESSES)) {
        (Some(tag), Some((addresses, rest))) if link == LinkType::ETHERNET => {
            feed.element_cut(frame.time, &[addresses, tag, rest], cut)
        }
        _ => feed.element_cut(frame.time, &[frame.data], cut),
    }
}

impl Source for InterfaceSource {
    fn run(&mut self, sink: &mut dyn Sink) -> Result<Summary> {
        let clock = self.clock.clone();
        Feed::summed(sink, &*clock, |feed| self.offer(feed))
    }

    fn describe(&self) -> String {
        format!("interface {}", self.name)
    }
}

#[cfg(test)]
mod tests;

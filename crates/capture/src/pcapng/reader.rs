//! Reading pcapng: either byte order, any number of sections and interfaces, one link type.

use super::options::{Options, Order, told};
use super::{BYTE_ORDER, block, option};
use crate::input::{Have, Input};
use crate::packets::{LARGEST_PACKET, Packet, Step, Tally};
use forebay_model::packet::LinkType;
use forebay_model::{Bytes, Cause, Error, Gap, Result, Timestamp};
use std::collections::VecDeque;
use std::ops::Range;

/// The largest block that is looked into: a packet and generous options. Others may be larger; they are passed over.
const LARGEST_BLOCK: u32 = 1 << 20;

/// More interfaces than any real section has.
const MOST_INTERFACES: usize = 1 << 16;

/// A count of dropped packets beyond this is nonsense: then only the fact is kept.
const PLAUSIBLE_DROPS: u64 = 1 << 48;

const NANOS: i128 = 1_000_000_000;

struct Interface {
    snaplen: u32,
    resolution: u8,
    /// Seconds to add to times.
    offset: i64,
    /// Drops that were told of so far, so that totals do not count them again.
    told: u64,
    /// Time of its last packet.
    last: Option<Timestamp>,
}

impl Interface {
    /// The time that `ticks` mean here; `None` if it is beyond what can be written.
    fn time(&self, ticks: u64) -> Option<Timestamp> {
        let ticks = i128::from(ticks);
        let exponent = u32::from(self.resolution & 0x7f);
        let nanos = if self.resolution & 0x80 != 0 {
            (ticks * NANOS) >> exponent
        } else if exponent <= 9 {
            ticks * 10i128.pow(9 - exponent)
        } else {
            10i128.checked_pow(exponent - 9).map_or(0, |unit| ticks / unit)
        };
        i64::try_from(nanos + i128::from(self.offset) * NANOS).ok().map(Timestamp)
    }
}

/// A packet that is in the buffer, behind the gaps that come before it.
struct Found {
    time: Option<Timestamp>,
    data: Range<usize>,
    original: u32,
}

/// Reads a pcapng capture as a stream.
pub struct Reader {
    input: Input,
    limit: Bytes,
    /// Byte order of the section; `None` before the first.
    order: Option<Order>,
    link: Option<LinkType>,
    interfaces: Vec<Interface>,
    gaps: VecDeque<Gap>,
    found: Option<Found>,
    /// Bytes of the block that was handed out last; they are dropped with the next one.
    lent: usize,
    /// A block being passed over: how much of it is left, and its length.
    passing: Option<(u64, u32)>,
    tally: Tally,
}

impl Reader {
    pub(crate) fn over(input: Input, limit: Bytes) -> Reader {
        Reader {
            input,
            limit,
            order: None,
            link: None,
            interfaces: Vec::new(),
            gaps: VecDeque::new(),
            found: None,
            lent: 0,
            passing: None,
            tally: Tally::default(),
        }
    }

    /// The link type, once the first interface is described.
    pub fn link_type(&self) -> Option<LinkType> {
        self.link
    }

    /// Reads until the link type is known. False: it is not here yet; ask again. A capture that ends without any
    /// interface is an error.
    pub fn prepare(&mut self) -> Result<bool> {
        while self.link.is_none() {
            match self.block()? {
                Step::Idle => return Ok(false),
                Step::End => {
                    return Err(Error::damaged("this pcapng capture ends without describing any interface"));
                }
                _ => {}
            }
        }
        Ok(true)
    }

    /// Reads no more than was read already.
    pub(crate) fn close(&mut self) {
        self.input.close();
    }

    /// The next packet or gap. The packet's bytes live until the next call.
    #[inline]
    pub fn step(&mut self) -> Result<Step<'_>> {
        loop {
            if let Some(gap) = self.gaps.pop_front() {
                return Ok(Step::Gap(gap));
            }
            if let Some(found) = self.found.take() {
                let data = &self.input.available()[found.data];
                return Ok(Step::Packet(Packet { time: found.time, data, original: found.original }));
            }
            match self.block()? {
                Step::Passed(_) if self.found.is_some() || !self.gaps.is_empty() => {}
                Step::Passed(bytes) => return Ok(Step::Passed(bytes)),
                Step::Idle => return Ok(Step::Idle),
                _ => return Ok(Step::End),
            }
        }
    }

    /// Takes in one block, or a piece of one that is passed over. What it holds is left in `gaps` and `found`.
    /// Gives `Passed`, `Idle` or `End`.
    fn block(&mut self) -> Result<Step<'static>> {
        self.input.consume(std::mem::take(&mut self.lent));
        if let Some((left, total)) = self.passing {
            return self.pass(left, total);
        }
        match self.input.want(12)? {
            Have::All => {}
            Have::Some => return Ok(Step::DRIP),
            Have::Idle => return Ok(Step::Idle),
            Have::Ended if self.input.available().is_empty() => return Ok(Step::End),
            Have::Ended => return Err(self.cut_off(12)),
        }
        let head = &self.input.available()[..12];
        // The type of a section header reads the same in both byte orders; all others are in that of the section.
        let order = match self.order {
            _ if head[..4] == super::MAGIC => {
                let [little, big] = [Order::Little, Order::Big].map(|order| order.u32(head, 8) == BYTE_ORDER);
                match (little, big) {
                    (true, _) => Order::Little,
                    (_, true) => Order::Big,
                    _ => return Err(self.damaged("the section header has no byte order mark")),
                }
            }
            Some(order) => order,
            None => return Err(self.damaged("it does not begin with a section header")),
        };
        let (kind, total) = (order.u32(head, 0), order.u32(head, 4));
        if total < 12 || !total.is_multiple_of(4) {
            return Err(self.damaged(format!("a block of type {kind} claims a length of {total}")));
        }
        let known = matches!(
            kind,
            block::SECTION
                | block::INTERFACE
                | block::PACKET
                | block::SIMPLE_PACKET
                | block::OBSOLETE_PACKET
                | block::STATISTICS
        );
        if !known {
            self.input.consume(8);
            self.passing = Some((u64::from(total) - 8, total));
            return Ok(Step::Passed(8));
        }
        if total > LARGEST_BLOCK {
            return Err(self.damaged(format!(
                "a block of type {kind} claims {total} bytes, and none of that type has more than {LARGEST_BLOCK}"
            )));
        }
        match self.input.want(total as usize)? {
            Have::All => {}
            Have::Some => return Ok(Step::DRIP),
            Have::Idle => return Ok(Step::Idle),
            Have::Ended => return Err(self.cut_off(total as usize)),
        }
        let trailer = order.u32(self.input.available(), total as usize - 4);
        if trailer != total {
            return Err(
                self.damaged(format!("a block of type {kind} has length {total} in front and {trailer} behind"))
            );
        }
        let body = 8..total as usize - 4;
        match kind {
            block::SECTION => self.section(order, body)?,
            block::INTERFACE => self.interface(order, body)?,
            block::STATISTICS => self.statistics(order, body)?,
            _ => self.packet(kind, order, body)?,
        }
        self.lent = total as usize;
        Ok(Step::Passed(total as usize))
    }

    /// Passes over a block that is not looked into, as far as it is here.
    fn pass(&mut self, left: u64, total: u32) -> Result<Step<'static>> {
        let need = if left > 4 { 1 } else { 4 };
        match self.input.want(need)? {
            Have::All => {}
            Have::Some => return Ok(Step::DRIP),
            Have::Idle => return Ok(Step::Idle),
            Have::Ended => {
                let at = self.input.offset() + self.input.available().len() as u64;
                return Err(Error::damaged(format!(
                    "this pcapng capture is cut off at byte {at}, inside a block of {total} bytes; {}",
                    self.tally
                )));
            }
        }
        if left > 4 {
            let bytes = (left - 4).min(self.input.available().len() as u64) as usize;
            self.input.consume(bytes);
            self.passing = Some((left - bytes as u64, total));
            return Ok(Step::Passed(bytes));
        }
        let order = self.order.unwrap_or(Order::Little);
        let trailer = order.u32(self.input.available(), 0);
        if trailer != total {
            return Err(self.damaged(format!("a block has length {total} in front and {trailer} behind")));
        }
        self.input.consume(4);
        self.passing = None;
        Ok(Step::Passed(4))
    }

    fn section(&mut self, order: Order, body: Range<usize>) -> Result<()> {
        let fields = &self.input.available()[body];
        if fields.len() < 16 {
            return Err(self.damaged("the section header is too short"));
        }
        let (major, minor) = (order.u16(fields, 4), order.u16(fields, 6));
        if major != 1 {
            return Err(Error::version(format!(
                "the section at byte {} is of pcapng version {major}.{minor}, and only version 1 is read; {}",
                self.input.offset(),
                self.tally
            )));
        }
        self.order = Some(order);
        self.interfaces.clear();
        Ok(())
    }

    fn interface(&mut self, order: Order, body: Range<usize>) -> Result<()> {
        let fields = &self.input.available()[body];
        if fields.len() < 8 {
            return Err(self.damaged("an interface description is too short"));
        }
        let link = LinkType(order.u16(fields, 0));
        let mut interface = Interface { snaplen: order.u32(fields, 4), resolution: 6, offset: 0, told: 0, last: None };
        for entry in Options::new(&fields[8..], order) {
            match entry.map_err(|at| self.bad_option(at))? {
                (option::RESOLUTION, [resolution]) => interface.resolution = *resolution,
                (option::OFFSET, value) if value.len() == 8 => interface.offset = order.u64(value, 0) as i64,
                _ => {}
            }
        }
        match self.link {
            Some(first) if first != link => {
                return Err(Error::usage(format!(
                    "interface {} at byte {} has link type {link} and the ones before have {first}, and a recording has \
                     one; split the capture by interface first; {}",
                    self.interfaces.len(),
                    self.input.offset(),
                    self.tally
                )));
            }
            _ => self.link = Some(link),
        }
        if self.interfaces.len() == MOST_INTERFACES {
            return Err(self.damaged(format!("a section describes more than {MOST_INTERFACES} interfaces")));
        }
        self.interfaces.push(interface);
        Ok(())
    }

    fn packet(&mut self, kind: u32, order: Order, body: Range<usize>) -> Result<()> {
        let fields = &self.input.available()[body.clone()];
        let head = if kind == block::SIMPLE_PACKET { 4 } else { 20 };
        if fields.len() < head {
            return Err(self.damaged("a packet block is too short for its fields"));
        }
        let index = match kind {
            block::SIMPLE_PACKET => 0,
            block::PACKET => order.u32(fields, 0) as usize,
            _ => usize::from(order.u16(fields, 0)),
        };
        let Some(interface) = self.interfaces.get(index) else {
            return Err(self
                .damaged(format!("a packet names interface {index} of a section that has {}", self.interfaces.len())));
        };
        let (time, captured, original) = if kind == block::SIMPLE_PACKET {
            let original = order.u32(fields, 0);
            let snaplen = if interface.snaplen == 0 { u32::MAX } else { interface.snaplen };
            (None, original.min(snaplen), original)
        } else {
            let ticks = u64::from(order.u32(fields, 4)) << 32 | u64::from(order.u32(fields, 8));
            let Some(time) = interface.time(ticks) else {
                return Err(self.damaged(format!("a packet has the time {ticks}, which is beyond the year 2262")));
            };
            (Some(time), order.u32(fields, 12), order.u32(fields, 16))
        };
        if u64::from(captured) > self.limit.0 {
            return Err(self.too_large(captured));
        }
        let data = head..head + captured as usize;
        if data.end > fields.len() {
            return Err(self.damaged(format!(
                "a packet claims {captured} bytes in a block that has room for {}",
                fields.len() - head
            )));
        }
        let mut gaps = Vec::new();
        let mut drops = 0;
        if kind == block::OBSOLETE_PACKET {
            // All ones means unknown.
            let count = order.u16(fields, 2);
            drops = if count == u16::MAX { 0 } else { u64::from(count) };
        }
        if kind != block::SIMPLE_PACKET {
            // What padding a cut-short block lacks, its options lack, too.
            let options = fields.get(data.end.next_multiple_of(4)..).unwrap_or_default();
            for entry in Options::new(options, order) {
                match entry.map_err(|at| self.bad_option(data.end + at))? {
                    (option::COMMENT, comment) => gaps.extend(told(comment)),
                    (option::DROPS, value) if kind == block::PACKET && value.len() == 8 => drops = order.u64(value, 0),
                    _ => {}
                }
            }
        }
        let until = time.unwrap_or(Timestamp(0));
        self.drops(index, gaps, drops, until);
        if time.is_some() {
            self.interfaces[index].last = time;
        }
        self.tally.count(captured as usize);
        self.found = Some(Found { time, data: body.start + data.start..body.start + data.end, original });
        Ok(())
    }

    fn statistics(&mut self, order: Order, body: Range<usize>) -> Result<()> {
        let fields = &self.input.available()[body];
        if fields.len() < 12 {
            return Err(self.damaged("interface statistics are too short"));
        }
        let index = order.u32(fields, 0) as usize;
        let Some(interface) = self.interfaces.get(index) else {
            return Err(self.damaged(format!(
                "statistics name interface {index} of a section that has {}",
                self.interfaces.len()
            )));
        };
        let ticks = u64::from(order.u32(fields, 4)) << 32 | u64::from(order.u32(fields, 8));
        let until = interface.time(ticks).or(interface.last).unwrap_or(Timestamp(0));
        let mut gaps = Vec::new();
        let mut total = 0u64;
        for entry in Options::new(&fields[12..], order) {
            match entry.map_err(|at| self.bad_option(at))? {
                (option::COMMENT, comment) => gaps.extend(told(comment)),
                (option::INTERFACE_DROPS | option::SYSTEM_DROPS, value) if value.len() == 8 => {
                    total = total.saturating_add(order.u64(value, 0));
                }
                _ => {}
            }
        }
        let untold = total.saturating_sub(interface.told);
        self.drops(index, gaps, untold, until);
        Ok(())
    }

    /// Queues the gaps that comments told of, and one more for drops that are more than these account for.
    fn drops(&mut self, index: usize, gaps: Vec<Gap>, drops: u64, until: Timestamp) {
        let interface = &mut self.interfaces[index];
        let explained = gaps.iter().fold(0u64, |sum, g| sum.saturating_add(g.count.unwrap_or(0)));
        interface.told = interface.told.saturating_add(drops.max(explained));
        self.gaps.extend(gaps.into_iter().map(|gap| Gap { count: gap.count.filter(|c| *c <= PLAUSIBLE_DROPS), ..gap }));
        let rest = drops.saturating_sub(explained);
        if rest > 0 {
            let first = interface.last.unwrap_or(until).min(until);
            let count = Some(rest).filter(|c| *c <= PLAUSIBLE_DROPS);
            self.gaps.push_back(Gap { cause: Cause::Kernel, count, first, last: until });
        }
    }

    #[cold]
    fn damaged(&self, what: impl std::fmt::Display) -> Error {
        Error::damaged(format!(
            "this pcapng capture is damaged at byte {}: {what}; {}",
            self.input.offset(),
            self.tally
        ))
    }

    #[cold]
    fn bad_option(&self, at: usize) -> Error {
        self.damaged(format!("the options of this block are malformed at their byte {at}"))
    }

    #[cold]
    fn cut_off(&self, length: usize) -> Error {
        Error::damaged(format!(
            "this pcapng capture is cut off in the block at byte {}: {} of its {length} bytes are there; {}",
            self.input.offset(),
            self.input.available().len(),
            self.tally
        ))
    }

    #[cold]
    fn too_large(&self, captured: u32) -> Error {
        let number = self.tally.packets + 1;
        if u64::from(captured) > LARGEST_PACKET.0 {
            return self.damaged(format!(
                "packet {number} claims {captured} bytes, and none has more than {}",
                LARGEST_PACKET.0
            ));
        }
        Error::usage(format!(
            "packet {number} at byte {} has {captured} bytes, more than the {} that an element may have here; {}",
            self.input.offset(),
            self.limit.0,
            self.tally
        ))
    }
}

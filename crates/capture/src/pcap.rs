//! The pcap format: a header of 24 bytes, then packets with headers of 16 bytes, in the byte order of the writer.
//!
//! Read in either byte order, with microseconds or nanoseconds; written in little endian with nanoseconds. A file that
//! ends between two packets is complete: the format has no end mark.

use crate::input::{Have, Input};
use crate::packets::{LARGEST_PACKET, Packet, Step, Tally};
use forebay_model::packet::LinkType;
use forebay_model::{Bytes, Error, Result, Timestamp};
use std::io::Write;

const HEADER: usize = 24;
const RECORD: usize = 16;
const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;

/// Whether a capture that begins so is pcap.
pub(crate) fn is_magic(bytes: [u8; 4]) -> bool {
    [MICROSECONDS, NANOSECONDS].iter().any(|m| bytes == m.to_le_bytes() || bytes == m.to_be_bytes())
}

#[derive(Debug, Clone, Copy)]
struct Header {
    big_endian: bool,
    /// Nanoseconds in one unit of the fraction.
    unit: i64,
    link: LinkType,
}

impl Header {
    fn u32(&self, bytes: &[u8], at: usize) -> u32 {
        let four = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        if self.big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
    }
}

/// Reads a pcap capture as a stream.
pub struct Reader {
    input: Input,
    limit: Bytes,
    header: Option<Header>,
    /// Bytes of the record that was handed out last; they are dropped with the next step.
    lent: usize,
    tally: Tally,
}

impl Reader {
    pub(crate) fn over(input: Input, limit: Bytes) -> Reader {
        Reader { input, limit, header: None, lent: 0, tally: Tally::default() }
    }

    /// The link type, once the header is read.
    pub fn link_type(&self) -> Option<LinkType> {
        self.header.map(|h| h.link)
    }

    /// Reads the header. False: it is not here yet; ask again.
    pub fn prepare(&mut self) -> Result<bool> {
        if self.header.is_some() {
            return Ok(true);
        }
        match self.input.want(HEADER)? {
            Have::All => {}
            Have::Some | Have::Idle => return Ok(false),
            Have::Ended => {
                let length = self.input.available().len();
                return Err(Error::damaged(format!(
                    "this pcap capture is cut off: it has {length} of the {HEADER} bytes of its header"
                )));
            }
        }
        let bytes = &self.input.available()[..HEADER];
        let magic = [bytes[0], bytes[1], bytes[2], bytes[3]];
        let (little, big) = (u32::from_le_bytes(magic), u32::from_be_bytes(magic));
        let big_endian = matches!(big, MICROSECONDS | NANOSECONDS);
        let unit = if little == NANOSECONDS || big == NANOSECONDS { 1 } else { 1000 };
        let mut header = Header { big_endian, unit, link: LinkType(0) };
        let versions = header.u32(bytes, 4);
        let (major, minor) =
            if big_endian { (versions >> 16, versions & 0xffff) } else { (versions & 0xffff, versions >> 16) };
        if major != 2 {
            return Err(Error::version(format!(
                "this pcap capture is of version {major}.{minor}, and only version 2 is read"
            )));
        }
        // The upper half holds the length of the frame check sequence, which stays part of the frame.
        header.link = LinkType(header.u32(bytes, 20) as u16);
        self.input.consume(HEADER);
        self.header = Some(header);
        Ok(true)
    }

    /// Reads no more than was read already.
    pub(crate) fn close(&mut self) {
        self.input.close();
    }

    /// The next packet. Its bytes live until the next call.
    #[inline]
    pub fn step(&mut self) -> Result<Step<'_>> {
        let Some(header) = self.header else {
            return Ok(if self.prepare()? { Step::Passed(HEADER) } else { Step::Idle });
        };
        self.input.consume(std::mem::take(&mut self.lent));
        match self.input.want(RECORD)? {
            Have::All => {}
            Have::Some => return Ok(Step::DRIP),
            Have::Idle => return Ok(Step::Idle),
            Have::Ended if self.input.available().is_empty() => return Ok(Step::End),
            Have::Ended => return Err(self.cut_off(RECORD)),
        }
        let record = &self.input.available()[..RECORD];
        let (seconds, fraction) = (header.u32(record, 0), header.u32(record, 4));
        let (captured, original) = (header.u32(record, 8), header.u32(record, 12));
        if u64::from(captured) > self.limit.0 {
            return Err(self.too_large(captured));
        }
        let length = RECORD + captured as usize;
        match self.input.want(length)? {
            Have::All => {}
            Have::Some => return Ok(Step::DRIP),
            Have::Idle => return Ok(Step::Idle),
            Have::Ended => return Err(self.cut_off(length)),
        }
        self.lent = length;
        self.tally.count(captured as usize);
        // A fraction of more than a second is kept as it is: it does not overflow, and some writers make them.
        let time = Timestamp(i64::from(seconds) * 1_000_000_000 + i64::from(fraction) * header.unit);
        let data = &self.input.available()[RECORD..length];
        Ok(Step::Packet(Packet { time: Some(time), data, original }))
    }

    #[cold]
    fn cut_off(&self, length: usize) -> Error {
        Error::damaged(format!(
            "this pcap capture is cut off in packet {} at byte {}: {} of its {length} bytes are there; {}",
            self.tally.packets + 1,
            self.input.offset(),
            self.input.available().len(),
            self.tally
        ))
    }

    #[cold]
    fn too_large(&self, captured: u32) -> Error {
        let (number, at) = (self.tally.packets + 1, self.input.offset());
        if u64::from(captured) > LARGEST_PACKET.0 {
            return Error::damaged(format!(
                "this pcap capture is damaged at byte {at}: packet {number} claims {captured} bytes, and none has more \
                 than {}; {}",
                LARGEST_PACKET.0, self.tally
            ));
        }
        Error::usage(format!(
            "packet {number} at byte {at} has {captured} bytes, more than the {} that an element may have here; {}",
            self.limit.0, self.tally
        ))
    }
}

/// Writes a pcap capture with nanoseconds.
pub struct Writer<W> {
    out: W,
    packets: u64,
}

impl<W: Write> Writer<W> {
    /// Writes the header.
    pub fn new(mut out: W, link: LinkType) -> std::io::Result<Writer<W>> {
        let mut header = [0u8; HEADER];
        header[0..4].copy_from_slice(&NANOSECONDS.to_le_bytes());
        header[4..6].copy_from_slice(&2u16.to_le_bytes());
        header[6..8].copy_from_slice(&4u16.to_le_bytes());
        header[16..20].copy_from_slice(&(LARGEST_PACKET.0 as u32).to_le_bytes());
        header[20..22].copy_from_slice(&link.0.to_le_bytes());
        out.write_all(&header)?;
        Ok(Writer { out, packets: 0 })
    }

    /// Writes one packet; as [`Writer::packet_cut`].
    pub fn packet(&mut self, time: Timestamp, parts: &[&[u8]]) -> Result<std::io::Result<()>> {
        self.packet_cut(time, parts, 0)
    }

    /// Writes one packet, of which the last `cut` bytes are missing; the outer result is about the packet, the inner one about
    /// the output.
    pub fn packet_cut(&mut self, time: Timestamp, parts: &[&[u8]], cut: u32) -> Result<std::io::Result<()>> {
        self.packets += 1;
        let length = check_packet(self.packets, parts)?;
        let seconds = time.0.div_euclid(1_000_000_000);
        let Ok(seconds) = u32::try_from(seconds) else {
            return Err(Error::usage(format!(
                "packet {} of {time} does not fit pcap, whose times are from 1970 to 2106",
                self.packets
            )));
        };
        let mut record = [0u8; RECORD];
        record[0..4].copy_from_slice(&seconds.to_le_bytes());
        record[4..8].copy_from_slice(&(time.0.rem_euclid(1_000_000_000) as u32).to_le_bytes());
        record[8..12].copy_from_slice(&length.to_le_bytes());
        record[12..16].copy_from_slice(&length.saturating_add(cut).to_le_bytes());
        Ok(self.write(&record, parts))
    }

    fn write(&mut self, record: &[u8], parts: &[&[u8]]) -> std::io::Result<()> {
        self.out.write_all(record)?;
        parts.iter().try_for_each(|part| self.out.write_all(part))
    }

    /// The output, to flush it.
    pub fn out(&mut self) -> &mut W {
        &mut self.out
    }

    /// Writes out what the output buffers, and gives it back.
    pub fn finish(mut self) -> std::io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

/// The length of packet `number` if captures can hold it.
pub(crate) fn check_packet(number: u64, parts: &[&[u8]]) -> Result<u32> {
    let length: usize = parts.iter().map(|p| p.len()).sum();
    if length as u64 > LARGEST_PACKET.0 {
        return Err(Error::usage(format!(
            "element {number} of the result has {length} bytes, and readers of packet captures accept at most {}; \
             export as raw or length-prefixed instead",
            LARGEST_PACKET.0
        )));
    }
    Ok(length as u32)
}

#[cfg(test)]
mod tests;

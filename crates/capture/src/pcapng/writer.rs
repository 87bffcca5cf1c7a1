//! Writing pcapng: one section, one interface, nanoseconds, every gap where it was.

use super::options::tell;
use super::{BYTE_ORDER, block, option};
use crate::packets::LARGEST_PACKET;
use crate::pcap::check_packet;
use forebay_model::packet::LinkType;
use forebay_model::{Error, Gap, Result, Timestamp};
use std::io::Write;

/// Writes a pcapng capture.
///
/// Gaps are held until the next packet, which carries their counts added up as `epb_dropcount`, and a comment for each
/// cause. Those after the last packet go into the interface statistics at the end.
pub struct Writer<W> {
    out: W,
    packets: u64,
    dropped: u64,
    last: Timestamp,
    /// At most one for each cause, in the order in which the causes came up.
    gaps: Vec<Gap>,
    remarks: Vec<String>,
    /// The options of the block under way; kept for its memory.
    options: Vec<u8>,
}

/// Remarks kept for one packet; those beyond are dropped, since a comment is for people.
const REMARKS: usize = 16;

impl<W: Write> Writer<W> {
    /// Writes the section header and the description of the interface.
    pub fn new(out: W, link: LinkType, interface: Option<&str>) -> std::io::Result<Writer<W>> {
        let mut writer = Writer {
            out,
            packets: 0,
            dropped: 0,
            last: Timestamp(0),
            gaps: Vec::new(),
            remarks: Vec::new(),
            options: Vec::new(),
        };
        let mut section = Vec::new();
        section.extend_from_slice(&BYTE_ORDER.to_le_bytes());
        section.extend_from_slice(&1u16.to_le_bytes());
        section.extend_from_slice(&0u16.to_le_bytes());
        section.extend_from_slice(&u64::MAX.to_le_bytes());
        writer.option(option::APPLICATION, concat!("forebay ", env!("CARGO_PKG_VERSION")).as_bytes());
        writer.block(block::SECTION, &section, &[])?;
        let mut description = Vec::new();
        description.extend_from_slice(&link.0.to_le_bytes());
        description.extend_from_slice(&0u16.to_le_bytes());
        description.extend_from_slice(&(LARGEST_PACKET.0 as u32).to_le_bytes());
        if let Some(name) = interface {
            writer.option(option::NAME, name.as_bytes());
        }
        writer.option(option::RESOLUTION, &[9]);
        writer.block(block::INTERFACE, &description, &[])?;
        Ok(writer)
    }

    /// Writes one packet; as [`Writer::packet_cut`].
    pub fn packet(&mut self, time: Timestamp, parts: &[&[u8]]) -> Result<std::io::Result<()>> {
        self.packet_cut(time, parts, 0)
    }

    /// Writes one packet, of which the last `cut` bytes are missing, with the gaps before it; the outer result is about
    /// the packet, the inner one about the output.
    pub fn packet_cut(&mut self, time: Timestamp, parts: &[&[u8]], cut: u32) -> Result<std::io::Result<()>> {
        self.packets += 1;
        let length = check_packet(self.packets, parts)?;
        let Ok(ticks) = u64::try_from(time.0) else {
            return Err(Error::usage(format!(
                "packet {} of {time} does not fit packet captures, whose times begin with 1970",
                self.packets
            )));
        };
        self.last = self.last.max(time);
        let mut fixed = [0u8; 20];
        fixed[4..8].copy_from_slice(&((ticks >> 32) as u32).to_le_bytes());
        fixed[8..12].copy_from_slice(&(ticks as u32).to_le_bytes());
        fixed[12..16].copy_from_slice(&length.to_le_bytes());
        fixed[16..20].copy_from_slice(&length.saturating_add(cut).to_le_bytes());
        let dropped = self.tell_gaps();
        if dropped > 0 {
            self.option(option::DROPS, &dropped.to_le_bytes());
        }
        Ok(self.block(block::PACKET, &fixed, parts))
    }

    /// Data is absent here.
    pub fn gap(&mut self, gap: Gap) {
        match self.gaps.iter_mut().find(|g| g.cause == gap.cause) {
            Some(same) => same.merge(gap),
            None => self.gaps.push(gap),
        }
    }

    /// A comment for people, with the next packet or at the end.
    pub fn remark(&mut self, text: String) {
        if self.remarks.len() < REMARKS {
            self.remarks.push(text);
        }
    }

    /// The output, to flush it.
    pub fn out(&mut self) -> &mut W {
        &mut self.out
    }

    /// Writes the statistics with the gaps that no packet followed, and gives the output back.
    pub fn finish(mut self) -> std::io::Result<W> {
        let last = self.gaps.iter().map(|g| g.last).fold(self.last, Timestamp::max);
        let ticks = last.0.max(0) as u64;
        let mut fixed = [0u8; 12];
        fixed[4..8].copy_from_slice(&((ticks >> 32) as u32).to_le_bytes());
        fixed[8..12].copy_from_slice(&(ticks as u32).to_le_bytes());
        self.tell_gaps();
        let received = self.packets.saturating_add(self.dropped);
        self.option(option::RECEIVED, &received.to_le_bytes());
        self.option(option::SYSTEM_DROPS, &self.dropped.to_le_bytes());
        self.block(block::STATISTICS, &fixed, &[])?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// Turns the gaps and remarks held into comments; gives the number known to be missing.
    fn tell_gaps(&mut self) -> u64 {
        let mut dropped = 0u64;
        for gap in std::mem::take(&mut self.gaps) {
            dropped = dropped.saturating_add(gap.count.unwrap_or(0));
            self.option(option::COMMENT, tell(&gap).as_bytes());
        }
        for remark in std::mem::take(&mut self.remarks) {
            self.option(option::COMMENT, remark.as_bytes());
        }
        self.dropped = self.dropped.saturating_add(dropped);
        dropped
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let value = &value[..value.len().min(usize::from(u16::MAX))];
        self.options.extend_from_slice(&code.to_le_bytes());
        self.options.extend_from_slice(&(value.len() as u16).to_le_bytes());
        self.options.extend_from_slice(value);
        self.options.resize(self.options.len().next_multiple_of(4), 0);
    }

    /// Writes a block of these fixed fields, data, and the options gathered.
    fn block(&mut self, kind: u32, fixed: &[u8], parts: &[&[u8]]) -> std::io::Result<()> {
        let data: usize = parts.iter().map(|p| p.len()).sum();
        let padding = data.next_multiple_of(4) - data;
        if !self.options.is_empty() {
            self.options.extend_from_slice(&[0; 4]);
        }
        let length = ((12 + fixed.len() + data + padding + self.options.len()) as u32).to_le_bytes();
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&length)?;
        self.out.write_all(fixed)?;
        for part in parts {
            self.out.write_all(part)?;
        }
        self.out.write_all(&[0; 3][..padding])?;
        self.out.write_all(&self.options)?;
        self.out.write_all(&length)?;
        self.options.clear();
        Ok(())
    }
}
